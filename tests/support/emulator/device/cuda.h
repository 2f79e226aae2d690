// SPDX-License-Identifier: MIT
// What NVRTC knows by itself, for g++: words of the language, built-in types, variables and functions of CUDA, as
// far as device text of weft uses them. Every text is compiled with this before it.
#ifndef WEFT_TESTS_EMULATOR_CUDA_H
#define WEFT_TESTS_EMULATOR_CUDA_H

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "tests/support/emulator/emulator.h"

static const struct emulated *emulated;
static thread_local __attribute__((aligned(1024))) char emulated_marker[16];

// Called by every block's thread before a kernel.
extern "C" __attribute__((visibility("default"))) char *emulated_enter(const struct emulated *table)
{
    emulated = table;
    return emulated_marker;
}

template <class Args> static void emulated_call(void (*kernel)(Args), const void *args)
{
    kernel(*(const std::remove_cv_t<Args> *)args);
}

#define EMULATED_ENTRY(NAME)                                                                       \
    extern "C" __attribute__((visibility("default"))) void emulated_run_##NAME(const void *args)   \
    {                                                                                              \
        emulated_call(NAME, args);                                                                 \
    }

#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __noinline__    __attribute__((noinline))
#define __shared__      static thread_local
#define __constant__    static const
#define __align__(N)    __attribute__((aligned(N)))
#define __grid_constant__
#define __launch_bounds__(...)

#define threadIdx (emulated->self()->thread)
#define blockIdx  (emulated->self()->block)
#define blockDim  (emulated->self()->threads)
#define gridDim   (emulated->self()->blocks)

struct __align__(8) uint2
{
    uint32_t x, y;
};
struct __align__(8) int2
{
    int32_t x, y;
};
struct __align__(8) float2
{
    float x, y;
};
struct __align__(16) uint4
{
    uint32_t x, y, z, w;
};
struct __align__(16) int4
{
    int32_t x, y, z, w;
};
struct __align__(16) float4
{
    float x, y, z, w;
};

static inline uint2 make_uint2(uint32_t x, uint32_t y)
{
    return {x, y};
}
static inline int2 make_int2(int32_t x, int32_t y)
{
    return {x, y};
}
static inline float2 make_float2(float x, float y)
{
    return {x, y};
}
static inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return {x, y, z, w};
}
static inline int4 make_int4(int32_t x, int32_t y, int32_t z, int32_t w)
{
    return {x, y, z, w};
}
static inline float4 make_float4(float x, float y, float z, float w)
{
    return {x, y, z, w};
}

template <class To, class From> static inline To emulated_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

static inline float __uint_as_float(uint32_t bits)
{
    return emulated_bits<float>(bits);
}
static inline float __int_as_float(int32_t bits)
{
    return emulated_bits<float>(bits);
}
static inline uint32_t __float_as_uint(float value)
{
    return emulated_bits<uint32_t>(value);
}
static inline int32_t __float_as_int(float value)
{
    return emulated_bits<int32_t>(value);
}
static inline float __fdividef(float a, float b)
{
    return a / b;
}
static inline int32_t __popc(uint32_t bits)
{
    return __builtin_popcount(bits);
}
static inline int32_t __clz(int32_t bits)
{
    return bits ? __builtin_clz((uint32_t)bits) : 32;
}
static inline int32_t __ffs(int32_t bits)
{
    return __builtin_ffs(bits);
}
static inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t shift)
{
    return (uint32_t)(((uint64_t)high << 32 | low) >> (shift & 31));
}
static inline int32_t __float2int_rn(float value)
{
    return (int32_t)lrintf(value);
}

// Results that no multiply-add may swallow.
static inline float __fmul_rn(float a, float b)
{
    volatile float product = a * b;
    return product;
}
static inline float __fadd_rn(float a, float b)
{
    volatile float sum = a + b;
    return sum;
}
static inline float __fsub_rn(float a, float b)
{
    volatile float difference = a - b;
    return difference;
}
static inline float __fdiv_rn(float a, float b)
{
    volatile float quotient = a / b;
    return quotient;
}
static inline float rsqrtf(float value)
{
    return 1.0f / sqrtf(value);
}
static inline double rsqrt(double value)
{
    return 1.0 / sqrt(value);
}

template <class A, class B> static inline std::common_type_t<A, B> min(A a, B b)
{
    return a < b ? a : b;
}
template <class A, class B> static inline std::common_type_t<A, B> max(A a, B b)
{
    return a > b ? a : b;
}

static inline int32_t __dp4a(int32_t a, int32_t b, int32_t c)
{
    for (int i = 0; i < 4; i++)
        c += (int32_t)(int8_t)(a >> 8 * i) * (int8_t)(b >> 8 * i);
    return c;
}

template <class T> static inline T __ldcg(const T *from)
{
    return *from;
}
template <class T> static inline T __ldg(const T *from)
{
    return *from;
}

static inline void __syncthreads()
{
    emulated->barrier(0, 0);
}
static inline int32_t __syncthreads_or(int32_t value)
{
    return emulated->any(value);
}
static inline void __syncwarp(uint32_t mask = 0xffffffffu)
{
    emulated->warp(mask, "__syncwarp", nullptr, nullptr);
}
static inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// What a lane brings to a shuffle or a vote, and what it takes away.
template <class T> struct emulated_lane {
    T value, result;
    int32_t from;
};

template <class T> static void emulated_shuffle_all(void *const lanes[32])
{
    for (int i = 0; i < 32; i++) {
        emulated_lane<T> *lane = (emulated_lane<T> *)lanes[i];
        if (!lane)
            continue;
        const emulated_lane<T> *from = (const emulated_lane<T> *)lanes[lane->from];
        if (!from)
            emulated->fail("a shuffle from a lane that is not there");
        lane->result = from->value;
    }
}

template <class T> static T emulated_shuffle(uint32_t mask, T value, int32_t from)
{
    emulated_lane<T> lane = {value, value, from};
    emulated->warp(mask, "a shuffle", &lane, emulated_shuffle_all<T>);
    return lane.result;
}

template <class T> static inline T __shfl_sync(uint32_t mask, T value, int32_t from)
{
    return emulated_shuffle(mask, value, from & 31);
}
template <class T> static inline T __shfl_xor_sync(uint32_t mask, T value, int32_t with)
{
    return emulated_shuffle(mask, value, emulated->self()->lane ^ with);
}
template <class T> static inline T __shfl_up_sync(uint32_t mask, T value, int32_t by)
{
    const int32_t lane = emulated->self()->lane;
    return emulated_shuffle(mask, value, lane >= by ? lane - by : lane);
}
template <class T> static inline T __shfl_down_sync(uint32_t mask, T value, int32_t by)
{
    const int32_t lane = emulated->self()->lane;
    return emulated_shuffle(mask, value, lane + by < 32 ? lane + by : lane);
}

static void emulated_vote(void *const lanes[32])
{
    uint32_t votes = 0;
    for (int i = 0; i < 32; i++)
        if (lanes[i] && ((emulated_lane<uint32_t> *)lanes[i])->value)
            votes |= 1u << i;
    for (int i = 0; i < 32; i++)
        if (lanes[i])
            ((emulated_lane<uint32_t> *)lanes[i])->result = votes;
}
static inline uint32_t __ballot_sync(uint32_t mask, int32_t vote)
{
    emulated_lane<uint32_t> lane = {vote != 0, 0, 0};
    emulated->warp(mask, "a vote", &lane, emulated_vote);
    return lane.result;
}
static inline int32_t __any_sync(uint32_t mask, int32_t vote)
{
    return __ballot_sync(mask, vote) != 0;
}
static inline int32_t __all_sync(uint32_t mask, int32_t vote)
{
    return __ballot_sync(mask, !vote) == 0;
}

template <class T> static inline T atomicAdd(T *to, T value)
{
    return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}
template <class T> static inline T atomicExch(T *to, T value)
{
    return __atomic_exchange_n(to, value, __ATOMIC_RELAXED);
}

#endif
