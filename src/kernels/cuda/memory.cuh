// SPDX-License-Identifier: MIT
// Ways to and from memory: loads that leave no trace in L1, copies that run beside the arithmetic,
// programs that start before the one before them has ended.
#ifndef WEFT_KERNELS_CUDA_MEMORY_CUH
#define WEFT_KERNELS_CUDA_MEMORY_CUH

#include "src/kernels/cuda/types.cuh"

DEVICE uint32_t shared_address(const void *pointer)
{
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

// The word at an address of shared memory.
DEVICE uint32_t shared_word(uint32_t address)
{
    return *(const uint32_t *)__cvta_shared_to_generic(address);
}

// 16 bytes that are read once.
DEVICE uint4 load_once(const void *pointer)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(pointer));
    return v;
}

// 16 bytes to shared memory, past L1. Of the first `bytes` (0..16), the rest becomes zero. L2 fetches 128 bytes
// at a time: with more, or without a word about it, an H200 reads caches 2 to 3 % slower.
DEVICE void copy_16_async(uint32_t to_shared, const void *from)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to_shared), "l"(from)
                 : "memory");
}

// What L2 gives up before other things: the policy of copies of what is read once.
DEVICE uint64_t policy_once()
{
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

DEVICE void copy_16_async_as(uint32_t to_shared, const void *from, uint64_t policy)
{
    asm volatile(
        "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%0], [%1], 16, %2;" ::"r"(to_shared),
        "l"(from), "l"(policy)
        : "memory");
}

DEVICE void copy_16_async_or_zero(uint32_t to_shared, const void *from, int32_t bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to_shared), "l"(from),
                 "r"(bytes)
                 : "memory");
}

DEVICE void copy_16_async_or_zero_as(uint32_t to_shared, const void *from, int32_t bytes,
                                     uint64_t policy)
{
    asm volatile(
        "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(to_shared),
        "l"(from), "r"(bytes), "l"(policy)
        : "memory");
}

// The same of 4 bytes, through L1.
DEVICE void copy_4_async_or_zero(uint32_t to_shared, const void *from, int32_t bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to_shared), "l"(from),
                 "r"(bytes)
                 : "memory");
}

DEVICE void store_16_shared(uint32_t to_shared, uint4 v)
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to_shared), "r"(v.x), "r"(v.y),
                 "r"(v.z), "r"(v.w)
                 : "memory");
}

// What this thread has asked for since the last call becomes a group; groups arrive in order.
DEVICE void copy_group_end()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most `LEFT` of this thread's groups are on their way. Others see the bytes after a barrier.
#define COPY_WAIT(LEFT) asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory")

// Brings the line into L2, no more.
DEVICE void prefetch_l2(const void *from)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}

// Barrier `number` (1..15; 0 is __syncthreads()) of THREADS threads, whole warps: arrive and wait; arrive alone.
template <int THREADS> DEVICE void part_sync(int32_t number)
{
    asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(THREADS) : "memory");
}

template <int THREADS> DEVICE void part_arrive(int32_t number)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "n"(THREADS) : "memory");
}

// Adds, and orders what the thread wrote before and reads after it over the whole device.
DEVICE uint32_t atomic_add_ordered(uint32_t *to, uint32_t value)
{
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(to), "r"(value)
                 : "memory");
    return before;
}

// The same of a counter that goes from 0 to `count` - 1 and begins again.
DEVICE uint32_t atomic_count_ordered(uint32_t *to, uint32_t count)
{
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(to), "r"(count - 1)
                 : "memory");
    return before;
}

// Pairs of floats, 8 bytes each of which arrives whole, in no order with anything else: for what says by itself
// that it is there. An address of two pairs is a multiple of 16.
DEVICE void send_pair(void *to, float2 pair)
{
    asm volatile("{.reg .b64 a; mov.b64 a, {%1, %2};\n"
                 "st.relaxed.gpu.global.b64 [%0], a;}" ::"l"(to),
                 "f"(pair.x), "f"(pair.y)
                 : "memory");
}

DEVICE void send_pairs(void *to, float2 first, float2 second)
{
    asm volatile("{.reg .b64 a, b; mov.b64 a, {%1, %2}; mov.b64 b, {%3, %4};\n"
                 "st.relaxed.gpu.global.v2.b64 [%0], {a, b};}" ::"l"(to),
                 "f"(first.x), "f"(first.y), "f"(second.x), "f"(second.y)
                 : "memory");
}

DEVICE void receive_pair(const void *from, float2 *pair)
{
    asm volatile("{.reg .b64 a; ld.relaxed.gpu.global.b64 a, [%2];\n"
                 "mov.b64 {%0, %1}, a;}"
                 : "=f"(pair->x), "=f"(pair->y)
                 : "l"(from)
                 : "memory");
}

DEVICE void receive_pairs(const void *from, float2 *first, float2 *second)
{
    asm volatile("{.reg .b64 a, b; ld.relaxed.gpu.global.v2.b64 {a, b}, [%4];\n"
                 "mov.b64 {%0, %1}, a; mov.b64 {%2, %3}, b;}"
                 : "=f"(first->x), "=f"(first->y), "=f"(second->x), "=f"(second->y)
                 : "l"(from)
                 : "memory");
}

// Numbers with the turn that they are of beside them, 8 bytes, each of which arrives whole and in no order with
// anything else: who looks sees by the turn whether they are those that it waits for. So neither a fence nor a
// barrier of the device lies between a store and its readers.
DEVICE void turn_send(uint64_t *to, float value, uint32_t turn)
{
    asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to),
                 "l"((uint64_t)turn << 32 | float_bits(value))
                 : "memory");
}

// Both, for whom it is no matter yet.
DEVICE uint64_t turn_receive(const uint64_t *from)
{
    uint64_t both;
    asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(both) : "l"(from) : "memory");
    return both;
}

DEVICE bool turn_look(const uint64_t *from, uint32_t turn, float *value)
{
    const uint64_t both = turn_receive(from);
    *value = bits_float((uint32_t)both);
    return (uint32_t)(both >> 32) == turn;
}

// Two such numbers, side by side from a multiple of 16 on.
DEVICE bool turn_look_2(const uint64_t *from, uint32_t turn, float2 *values)
{
    uint64_t a, b;
    asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
                 : "=l"(a), "=l"(b)
                 : "l"(from)
                 : "memory");
    *values = make_float2(bits_float((uint32_t)a), bits_float((uint32_t)b));
    return (uint32_t)(a >> 32) == turn && (uint32_t)(b >> 32) == turn;
}

// 16 bytes that arrive whole, from a multiple of 16 on: who writes them says in them which turn they are of.
DEVICE void send_whole(void *to, const uint32_t word[4])
{
    asm volatile("{.reg .b64 l, h; .reg .b128 all;\n"
                 "mov.b64 l, {%1, %2}; mov.b64 h, {%3, %4}; mov.b128 all, {l, h};\n"
                 "st.relaxed.gpu.global.b128 [%0], all;}" ::"l"(to),
                 "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
                 : "memory");
}

DEVICE void receive_whole(const void *from, uint32_t word[4])
{
    asm volatile("{.reg .b64 l, h; .reg .b128 all;\n"
                 "ld.relaxed.gpu.global.b128 all, [%4]; mov.b128 {l, h}, all;\n"
                 "mov.b64 {%0, %1}, l; mov.b64 {%2, %3}, h;}"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "l"(from)
                 : "memory");
}

// A counter that says when it is time to look, and nothing about what can be seen.
DEVICE void count_arrival(uint32_t *counter)
{
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

DEVICE bool has_counted(const uint32_t *counter, uint32_t goal)
{
    uint32_t count;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(count) : "l"(counter) : "memory");
    return (int32_t)(count - goal) >= 0;
}

// Between looks: who looks without a rest is in the way of those who send.
DEVICE void rest_for(uint32_t nanoseconds)
{
    asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds) : "memory");
}

// Programmatic dependent launch (sm_90). A kernel that calls nothing of this behaves as ever. What appends to caches or
// writes what a batch consists of does not let the next launch start before it is done: attention_token.cu reads
// these without waiting. (Attention that appends does let it: the next reader of its key comes behind what moves the
// batch on, or with another batch, whose launch waits: weft__cuda_batch_changes().)
DEVICE void let_next_start()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// From here on everything that earlier launches of the stream wrote is seen. All threads call it
// before the first read of data that a kernel made and before the first write.
DEVICE void wait_for_previous()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Clusters (sm_90): the block's place, a barrier of all threads of the cluster, a word of another block.
DEVICE uint32_t cluster_rank()
{
    uint32_t rank = 0;
#if __CUDA_ARCH__ >= 900
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    return rank;
}

DEVICE void cluster_arrive()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}

// Where nothing is to be seen but that the block has begun (of its barriers, barrier_init_end() says so): no fence, which would wait for
// what is on its way.
DEVICE void cluster_begun()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}

DEVICE void cluster_wait()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

DEVICE void cluster_barrier()
{
    cluster_arrive();
    cluster_wait();
}

DEVICE float cluster_load(const float *own, uint32_t rank)
{
    float value = 0;
#if __CUDA_ARCH__ >= 900
    uint32_t address = shared_address(own);
    asm volatile("{.reg .u32 a; mapa.shared::cluster.u32 a, %1, %2;\n"
                 "ld.shared::cluster.f32 %0, [a];}"
                 : "=f"(value)
                 : "r"(address), "r"(rank)
                 : "memory");
#else
    value = *own;
#endif
    return value;
}

// A number into another block of the cluster, at the place that `own` is here: seen there after a barrier of
// the cluster.
DEVICE void cluster_store(float *own, uint32_t rank, float value)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("{.reg .u32 a; mapa.shared::cluster.u32 a, %0, %1;\n"
                 "st.shared::cluster.f32 [a], %2;}" ::"r"(shared_address(own)),
                 "r"(rank), "f"(value)
                 : "memory");
#else
    (void)rank;
    *own = value;
#endif
}

// A number into another block of the cluster, at the place that `own` is here, and beside it one that says which
// it is: both in one store, so that who waits for it needs no fence.
DEVICE void cluster_send(uint64_t *own, uint32_t rank, float value, uint32_t which)
{
    uint64_t both = (uint64_t)which << 32 | float_bits(value);
#if __CUDA_ARCH__ >= 900
    asm volatile("{.reg .u32 a; mapa.shared::cluster.u32 a, %0, %1;\n"
                 "st.relaxed.cluster.shared::cluster.b64 [a], %2;}" ::"r"(shared_address(own)),
                 "r"(rank), "l"(both)
                 : "memory");
#else
    (void)rank;
    *own = both;
#endif
}

// What cluster_send() has left; is it number `which`?
DEVICE bool cluster_look(const uint64_t *own, uint32_t which, float *value)
{
    uint64_t both = (uint64_t)which << 32;
#if __CUDA_ARCH__ >= 900
    asm volatile("ld.relaxed.cluster.shared.b64 %0, [%1];"
                 : "=l"(both)
                 : "r"(shared_address(own))
                 : "memory");
#else
    (void)own;
#endif
    *value = bits_float((uint32_t)both);
    return (uint32_t)(both >> 32) == which;
}

DEVICE float cluster_receive(const uint64_t *own, uint32_t which)
{
    float value;
    while (!cluster_look(own, which, &value))
        ;
    return value;
}

#endif
