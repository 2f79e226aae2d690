// SPDX-License-Identifier: MIT
// What all kernel tables share.
//
// Every operation has a table of kernels, made from its .def file: best first, the reference last and
// unconditional, so that a search always ends. A row starts with a struct
// weft__kernel; tools walk any table through it without knowing the operation.
#ifndef WEFT_KERNELS_KERNEL_H
#define WEFT_KERNELS_KERNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// Instruction sets are bundles; each x86 level includes the ones before it.
//   avx2        AVX2 FMA F16C
//   avx512      + AVX-512 F BW VL DQ CD
//   avx512vnni  + AVX-512 VNNI VBMI, GFNI (Ice Lake, Zen 4)
//   avx512bf16  + AVX-512 BF16 at full speed (Zen 4; not Sapphire Rapids, where it is slower than f32)
//   amx         + AMX tiles of bf16 and int8 (Sapphire Rapids), if the system lets the process have them
//   neon        Advanced SIMD of AArch64 with half-precision conversion
//   neondot     + DotProd
//
// X(name, architecture): the only list of levels in C; flags and files follow from cmake/isa_flags.cmake.
#define WEFT__ISA_MAP(X)                                                                           \
    X(ref, ANY)                                                                                    \
    X(avx2, X86)                                                                                   \
    X(avx512, X86)                                                                                 \
    X(avx512vnni, X86)                                                                             \
    X(avx512bf16, X86)                                                                             \
    X(amx, X86)                                                                                    \
    X(neon, ARM64)                                                                                 \
    X(neondot, ARM64)

enum weft__isa {
#define WEFT__ISA_ENUM(name, architecture) WEFT__ISA_##name,
    WEFT__ISA_MAP(WEFT__ISA_ENUM)
#undef WEFT__ISA_ENUM
        WEFT__ISA_COUNT
};

#if defined(WEFT__REFERENCE_ONLY) // -DWEFT_ISA=OFF
#elif defined(__x86_64__)
#define WEFT__X86 1
#elif defined(__aarch64__)
#define WEFT__ARM64 1
#endif

// For the parts of a kernel that are written once and specialised by constant arguments.
#define WEFT__INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define WEFT__UNROLL _Pragma("unroll")
#else
#define WEFT__UNROLL _Pragma("GCC unroll 16")
#endif

// Formats as names of kernels have them; what weft_dtype_name() says, for the preprocessor.
#define WEFT__NAME_ANY      "any"
#define WEFT__NAME_F32      "f32"
#define WEFT__NAME_F16      "f16"
#define WEFT__NAME_BF16     "bf16"
#define WEFT__NAME_INT8     "int8"
#define WEFT__NAME_FP8_E4M3 "fp8_e4m3"
#define WEFT__NAME_FP8_E5M2 "fp8_e5m2"
#define WEFT__NAME_Q8_0     "q8_0"
#define WEFT__NAME_Q4_0     "q4_0"
#define WEFT__NAME_Q4_K     "q4_k"
#define WEFT__NAME_Q6_K     "q6_k"
#define WEFT__NAME_Q4_1     "q4_1"
#define WEFT__NAME_Q5_0     "q5_0"
#define WEFT__NAME_Q5_1     "q5_1"
#define WEFT__NAME_Q5_K     "q5_k"
#define WEFT__NAME_Q3_K     "q3_k"
#define WEFT__NAME_Q2_K     "q2_k"
#define WEFT__NAME_IQ4_NL   "iq4_nl"
#define WEFT__NAME_IQ4_XS   "iq4_xs"
#define WEFT__NAME_MXFP4    "mxfp4"

struct weft__kernel {
    const char *op;
    const char *name;
    // What it needs: an enum weft__isa of the CPU, a number of its own in other backends.
    int32_t level;
};

// A table as tools see it.
struct weft__kernel_table {
    const char *op;
    const void *rows; // each starts with a struct weft__kernel
    int32_t row_bytes;
    int32_t count;
};

#endif
