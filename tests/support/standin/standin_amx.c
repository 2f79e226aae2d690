// SPDX-License-Identifier: MIT
// The CPU of this machine, with AMX: for programs whose kernels are built with WEFT__AMX_STANDIN.
#include "src/backend/cpu/cpu.h"

uint32_t __real_weft__cpu_isa_mask(void);
uint32_t __wrap_weft__cpu_isa_mask(void);

uint32_t __wrap_weft__cpu_isa_mask(void)
{
    uint32_t mask = __real_weft__cpu_isa_mask();
    return mask & 1u << WEFT__ISA_avx512bf16 ? mask | 1u << WEFT__ISA_amx : mask;
}
