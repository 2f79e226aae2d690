// SPDX-License-Identifier: MIT
// The CPU of this machine, with AMX if it knows bf16: for programs whose kernels are built with WEFT__AMX_STANDIN.
// Kernels of bf16 vectors are checked here, too, where dispatch leaves them out as slow.
#include <cpuid.h>

#include "src/backend/cpu/cpu.h"

uint32_t __real_weft__cpu_isa_mask(void);
uint32_t __wrap_weft__cpu_isa_mask(void);

uint32_t __wrap_weft__cpu_isa_mask(void)
{
    enum { AVX512_BF16 = 1 << 5 };
    uint32_t mask = __real_weft__cpu_isa_mask(), a = 0, b, c, d;
    if (mask & 1u << WEFT__ISA_avx512vnni && __get_cpuid_count(7, 1, &a, &b, &c, &d) &&
        a & AVX512_BF16)
        mask |= 1u << WEFT__ISA_avx512bf16 | 1u << WEFT__ISA_amx;
    return mask;
}
