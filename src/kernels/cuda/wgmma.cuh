// SPDX-License-Identifier: MIT
// Products of a warpgroup (128 threads, sm_90a): D[64][N] += A[64][16] B[16][N], D in registers, B in
// shared memory, A in either. They run beside what follows them until the group they were committed to has been
// waited for; up to then no register of A or D may be touched. Warp w of the four has rows 16 w .. 16 w + 15,
// in them lanes hold A as mma.cuh says of m16n8k16 and D likewise, columns 8 i .. 8 i + 7 in d[4 i .. 4 i + 3].
//
// B is N rows of 64 16-bit numbers (128 bytes), eight rows after the other in pieces of 1024 bytes that begin at
// multiples of 1024; 16 bytes at place i of row n stand at place i ^ (n % 8) (PTX ISA, "128-byte swizzle").
//
// Of B that lies the other way round (wgmma_across_*) a row is one of the 16 of the product, and has 64 of the
// N columns: pieces of eight rows as above, and whole matrices of 64 columns one after the other (PTX ISA,
// "MN-major").
#ifndef WEFT_KERNELS_CUDA_WGMMA_CUH
#define WEFT_KERNELS_CUDA_WGMMA_CUH

#include "src/kernels/cuda/types.cuh"

// Where B begins: columns 16 k of the 64 are 32 k bytes further.
DEVICE uint64_t wgmma_matrix(uint32_t shared_address)
{
    return (uint64_t)1 << 62 | (uint64_t)64 << 32 | (uint64_t)1 << 16 | shared_address >> 4;
}

// The same so many bytes further: what begins at multiples of 1024 stays below 256 KB.
DEVICE uint64_t wgmma_further(uint64_t matrix, uint32_t bytes)
{
    return matrix & 0xffffffff00000000u | ((uint32_t)matrix + bytes / 16);
}

// Where B begins that lies the other way round; its 64s of columns are `columns_bytes` apart, 16 rows 2048
// bytes further.
DEVICE uint64_t wgmma_matrix_across(uint32_t shared_address, uint32_t columns_bytes)
{
    return (uint64_t)1 << 62 | (uint64_t)64 << 32 | (uint64_t)(columns_bytes >> 4) << 16 |
           shared_address >> 4;
}

// Orders what the thread did to registers of A and D before the products that follow.
DEVICE void wgmma_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// The products since the last call become a group.
DEVICE void wgmma_group_end()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most LEFT groups run.
#define WGMMA_WAIT(LEFT) asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory")

// Registers of a warpgroup's threads, a multiple of 8; all its threads call, in the kernel itself.
template <int COUNT> DEVICE void registers_take()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT> DEVICE void registers_give()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

#define WGMMA_4_(d, i)  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_16_(d, i) WGMMA_4_(d, i), WGMMA_4_(d, i + 4), WGMMA_4_(d, i + 8), WGMMA_4_(d, i + 12)

#define WGMMA_(NAME, TYPE, ACROSS)                                                                 \
    DEVICE void wgmma_##NAME##_16(float *d, const uint32_t a[4], uint64_t b)                       \
    {                                                                                              \
        asm volatile(                                                                              \
            "{.reg .pred p; setp.eq.u32 p, 1, 1; wgmma.mma_async.sync.aligned.m64n16k16.f32." TYPE \
            "." TYPE " {"                                                                          \
            "%0, %1, %2, %3, %4, %5, %6, %7"                                                       \
            "}, {%8, %9, %10, %11}, %12, p, 1, 1, " ACROSS ";}"                                    \
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),  \
              "+f"(d[7])                                                                           \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                 \
    }                                                                                              \
    DEVICE void wgmma_##NAME##_32(float *d, const uint32_t a[4], uint64_t b)                       \
    {                                                                                              \
        asm volatile(                                                                              \
            "{.reg .pred p; setp.eq.u32 p, 1, 1; wgmma.mma_async.sync.aligned.m64n32k16.f32." TYPE \
            "." TYPE " {"                                                                          \
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"                 \
            "}, {%16, %17, %18, %19}, %20, p, 1, 1, " ACROSS ";}"                                  \
            : WGMMA_16_(d, 0)                                                                      \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                 \
    }                                                                                              \
    DEVICE void wgmma_##NAME##_64(float *d, const uint32_t a[4], uint64_t b)                       \
    {                                                                                              \
        asm volatile(                                                                              \
            "{.reg .pred p; setp.eq.u32 p, 1, 1; wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE \
            "." TYPE " {"                                                                          \
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "               \
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"       \
            "}, {%32, %33, %34, %35}, %36, p, 1, 1, " ACROSS ";}"                                  \
            : WGMMA_16_(d, 0), WGMMA_16_(d, 16)                                                    \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                 \
    }                                                                                              \
    DEVICE void wgmma_##NAME##_128(float *d, const uint32_t a[4], uint64_t b)                      \
    {                                                                                              \
        asm volatile(                                                                              \
            "{.reg .pred p; setp.eq.u32 p, 1, 1; "                                                 \
            "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " {"                      \
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "               \
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "     \
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "     \
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"       \
            "}, {%64, %65, %66, %67}, %68, p, 1, 1, " ACROSS ";}"                                  \
            : WGMMA_16_(d, 0), WGMMA_16_(d, 16), WGMMA_16_(d, 32), WGMMA_16_(d, 48)                \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                 \
    }                                                                                              \
    DEVICE void wgmma_##NAME##_256(float *d, const uint32_t a[4], uint64_t b)                      \
    {                                                                                              \
        asm volatile(                                                                              \
            "{.reg .pred p; setp.eq.u32 p, 1, 1; "                                                 \
            "wgmma.mma_async.sync.aligned.m64n256k16.f32." TYPE "." TYPE " {"                      \
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "               \
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "     \
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "     \
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "     \
            "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "     \
            "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "     \
            "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "     \
            "%110, %111, "                                                                         \
            "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, " \
            "%126, %127"                                                                           \
            "}, {%128, %129, %130, %131}, %132, p, 1, 1, " ACROSS ";}"                             \
            : WGMMA_16_(d, 0), WGMMA_16_(d, 16), WGMMA_16_(d, 32), WGMMA_16_(d, 48),               \
              WGMMA_16_(d, 64), WGMMA_16_(d, 80), WGMMA_16_(d, 96), WGMMA_16_(d, 112)              \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                 \
    }
WGMMA_(f16, "f16", "0")
WGMMA_(bf16, "bf16", "0")
WGMMA_(across_f16, "f16", "1")
WGMMA_(across_bf16, "bf16", "1")
#undef WGMMA_

// D = A B: what D was does not matter.
DEVICE void wgmma_new_f16_16(float *d, const uint32_t a[4], uint64_t b)
{
    asm volatile(
        "{.reg .pred p; setp.ne.u32 p, 1, 1; wgmma.mma_async.sync.aligned.m64n16k16.f32.f16"
        ".f16 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, p, 1, 1, 0;}"
        : WGMMA_4_(d, 0), WGMMA_4_(d, 4)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// The same with A in shared memory, 64 rows that lie as those of B; D is what the product is unless `add`.
#define WGMMA_SHARED_(NAME, TYPE)                                                                  \
    DEVICE void wgmma_shared_##NAME##_24(float *d, uint64_t a, uint64_t b, bool add)               \
    {                                                                                              \
        asm volatile("{.reg .pred p; setp.ne.s32 p, %14, 0; "                                      \
                     "wgmma.mma_async.sync.aligned.m64n24k16.f32." TYPE "." TYPE " {"              \
                     "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11"                            \
                     "}, %12, %13, p, 1, 1, 0, 0;}"                                                \
                     : WGMMA_4_(d, 0), WGMMA_4_(d, 4), WGMMA_4_(d, 8)                              \
                     : "l"(a), "l"(b), "r"((int32_t)add));                                         \
    }                                                                                              \
    DEVICE void wgmma_shared_##NAME##_32(float *d, uint64_t a, uint64_t b, bool add)               \
    {                                                                                              \
        asm volatile("{.reg .pred p; setp.ne.s32 p, %18, 0; "                                      \
                     "wgmma.mma_async.sync.aligned.m64n32k16.f32." TYPE "." TYPE " {"              \
                     "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"        \
                     "}, %16, %17, p, 1, 1, 0, 0;}"                                                \
                     : WGMMA_16_(d, 0)                                                             \
                     : "l"(a), "l"(b), "r"((int32_t)add));                                         \
    }                                                                                              \
    DEVICE void wgmma_shared_##NAME##_48(float *d, uint64_t a, uint64_t b, bool add)               \
    {                                                                                              \
        asm volatile("{.reg .pred p; setp.ne.s32 p, %26, 0; "                                      \
                     "wgmma.mma_async.sync.aligned.m64n48k16.f32." TYPE "." TYPE " {"              \
                     "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "      \
                     "%16, %17, %18, %19, %20, %21, %22, %23"                                      \
                     "}, %24, %25, p, 1, 1, 0, 0;}"                                                \
                     : WGMMA_16_(d, 0), WGMMA_4_(d, 16), WGMMA_4_(d, 20)                           \
                     : "l"(a), "l"(b), "r"((int32_t)add));                                         \
    }                                                                                              \
    DEVICE void wgmma_shared_##NAME##_64(float *d, uint64_t a, uint64_t b, bool add)               \
    {                                                                                              \
        asm volatile(                                                                              \
            "{.reg .pred p; setp.ne.s32 p, %34, 0; "                                               \
            "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE "." TYPE " {"                       \
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "               \
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"       \
            "}, %32, %33, p, 1, 1, 0, 0;}"                                                         \
            : WGMMA_16_(d, 0), WGMMA_16_(d, 16)                                                    \
            : "l"(a), "l"(b), "r"((int32_t)add));                                                  \
    }                                                                                              \
    DEVICE void wgmma_shared_##NAME##_128(float *d, uint64_t a, uint64_t b, bool add)              \
    {                                                                                              \
        asm volatile(                                                                              \
            "{.reg .pred p; setp.ne.s32 p, %66, 0; "                                               \
            "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " {"                      \
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "               \
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "     \
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "     \
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"       \
            "}, %64, %65, p, 1, 1, 0, 0;}"                                                         \
            : WGMMA_16_(d, 0), WGMMA_16_(d, 16), WGMMA_16_(d, 32), WGMMA_16_(d, 48)                \
            : "l"(a), "l"(b), "r"((int32_t)add));                                                  \
    }                                                                                              \
    DEVICE void wgmma_shared_##NAME##_256(float *d, uint64_t a, uint64_t b, bool add)              \
    {                                                                                              \
        asm volatile(                                                                              \
            "{.reg .pred p; setp.ne.s32 p, %130, 0; "                                              \
            "wgmma.mma_async.sync.aligned.m64n256k16.f32." TYPE "." TYPE " {"                      \
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "               \
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "     \
            "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "     \
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "     \
            "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "     \
            "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "     \
            "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "     \
            "%110, %111, "                                                                         \
            "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, " \
            "%126, %127"                                                                           \
            "}, %128, %129, p, 1, 1, 0, 0;}"                                                       \
            : WGMMA_16_(d, 0), WGMMA_16_(d, 16), WGMMA_16_(d, 32), WGMMA_16_(d, 48),               \
              WGMMA_16_(d, 64), WGMMA_16_(d, 80), WGMMA_16_(d, 96), WGMMA_16_(d, 112)              \
            : "l"(a), "l"(b), "r"((int32_t)add));                                                  \
    }
WGMMA_SHARED_(f16, "f16")
WGMMA_SHARED_(bf16, "bf16")
#undef WGMMA_SHARED_

#endif
