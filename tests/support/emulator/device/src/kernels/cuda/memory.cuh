// SPDX-License-Identifier: MIT
// src/kernels/cuda/memory.cuh for the host.
#ifndef WEFT_KERNELS_CUDA_MEMORY_CUH
#define WEFT_KERNELS_CUDA_MEMORY_CUH

#include "src/kernels/cuda/types.cuh"

DEVICE uint32_t shared_address(const void *pointer)
{
    return emulated->shared_address(pointer);
}

DEVICE uint32_t shared_word(uint32_t address)
{
    return *(const uint32_t *)emulated->shared_pointer(address);
}

DEVICE uint4 load_once(const void *pointer)
{
    if ((uintptr_t)pointer % 16)
        emulated->fail("a load that is not aligned");
    return *(const uint4 *)pointer;
}

DEVICE void copy_16_async(uint32_t to_shared, const void *from)
{
    emulated->copy(emulated->shared_pointer(to_shared), from, 16, 16);
}

DEVICE uint64_t policy_once()
{
    return 1;
}

DEVICE void copy_16_async_as(uint32_t to_shared, const void *from, uint64_t policy)
{
    if (policy != 1)
        emulated->fail("a copy of no known policy");
    copy_16_async(to_shared, from);
}

DEVICE void copy_16_async_or_zero(uint32_t to_shared, const void *from, int32_t bytes)
{
    emulated->copy(emulated->shared_pointer(to_shared), from, 16, (uint32_t)bytes);
}

DEVICE void copy_16_async_or_zero_as(uint32_t to_shared, const void *from, int32_t bytes,
                                     uint64_t policy)
{
    (void)policy;
    copy_16_async_or_zero(to_shared, from, bytes);
}

DEVICE void copy_4_async_or_zero(uint32_t to_shared, const void *from, int32_t bytes)
{
    emulated->copy(emulated->shared_pointer(to_shared), from, 4, (uint32_t)bytes);
}

DEVICE void store_16_shared(uint32_t to_shared, uint4 v)
{
    *(uint4 *)emulated->shared_pointer(to_shared) = v;
}

DEVICE void copy_group_end()
{
    emulated->copy_group_end();
}

#define COPY_WAIT(LEFT) emulated->copy_wait(LEFT)

// A device faults where nothing is, as a load does.
DEVICE void prefetch_l2(const void *from)
{
    (void)*(const volatile char *)from;
}

template <int THREADS> DEVICE void part_sync(int32_t number)
{
    emulated->barrier(number, THREADS);
}

template <int THREADS> DEVICE void part_arrive(int32_t number)
{
    emulated->barrier_arrive(number, THREADS);
}

DEVICE uint32_t atomic_add_ordered(uint32_t *to, uint32_t value)
{
    return __atomic_fetch_add(to, value, __ATOMIC_ACQ_REL);
}

DEVICE uint32_t atomic_count_ordered(uint32_t *to, uint32_t count)
{
    uint32_t before = __atomic_load_n(to, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(to, &before, before >= count - 1 ? 0 : before + 1, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
    return before;
}

DEVICE void send_pair(void *to, float2 pair)
{
    uint64_t both = (uint64_t)float_bits(pair.y) << 32 | float_bits(pair.x);
    __atomic_store_n((uint64_t *)to, both, __ATOMIC_RELAXED);
}

DEVICE void send_pairs(void *to, float2 first, float2 second)
{
    if ((uintptr_t)to % 16)
        emulated->fail("two pairs that are not aligned");
    send_pair((uint64_t *)to + 1, second);
    send_pair(to, first);
}

// Clusters run in their order, so what a block waits for is there, or comes from another block of its cluster; one time in seven
// it seems not to have come yet.
DEVICE void receive_pair(const void *from, float2 *pair)
{
    static thread_local uint32_t calls;
    uint64_t both = __atomic_load_n((const uint64_t *)from, __ATOMIC_RELAXED);
    if (both == ~0ull && emulated->cluster_size() == 1)
        emulated->fail("what no block before this one has sent");
    if (both == ~0ull)
        emulated->give_way();
    if (++calls % 7 == 0)
        both = ~0ull;
    *pair = make_float2(bits_float((uint32_t)both), bits_float((uint32_t)(both >> 32)));
}

DEVICE void receive_pairs(const void *from, float2 *first, float2 *second)
{
    if ((uintptr_t)from % 16)
        emulated->fail("two pairs that are not aligned");
    receive_pair(from, first);
    receive_pair((const uint64_t *)from + 1, second);
}

// Words with a turn come from blocks that run at the same time (a cooperative launch), one time in seven later
// than they do; by lot, for of eight that are asked for together until all are there every seventh would be missing
// for ever.
DEVICE bool emulated_seen(bool there)
{
    static thread_local uint32_t lot;
    lot = lot * 1664525 + 1013904223;
    if (there && (lot >> 16) % 7)
        return true;
    emulated->give_way();
    return false;
}

DEVICE void turn_send(uint64_t *to, float value, uint32_t turn)
{
    __atomic_store_n(to, (uint64_t)turn << 32 | float_bits(value), __ATOMIC_RELEASE);
    emulated->event();
}

DEVICE uint64_t turn_receive(const uint64_t *from)
{
    return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

DEVICE bool turn_look(const uint64_t *from, uint32_t turn, float *value)
{
    const uint64_t both = __atomic_load_n(from, __ATOMIC_ACQUIRE);
    *value = bits_float((uint32_t)both);
    return emulated_seen((uint32_t)(both >> 32) == turn);
}

DEVICE bool turn_look_2(const uint64_t *from, uint32_t turn, float2 *values)
{
    if ((uintptr_t)from % 16)
        emulated->fail("two words with a turn that are not aligned");
    const bool first = turn_look(from, turn, &values->x);
    return turn_look(from + 1, turn, &values->y) && first;
}

// Who reads them has been waited for when they are written again, so that the last word, which has the turn, may come last.
DEVICE void send_whole(void *to, const uint32_t word[4])
{
    if ((uintptr_t)to % 16)
        emulated->fail("16 bytes to be sent that are not aligned");
    for (int i = 0; i < 3; i++)
        __atomic_store_n((uint32_t *)to + i, word[i], __ATOMIC_RELAXED);
    __atomic_store_n((uint32_t *)to + 3, word[3], __ATOMIC_RELEASE);
    emulated->event();
}

DEVICE void receive_whole(const void *from, uint32_t word[4])
{
    word[3] = __atomic_load_n((const uint32_t *)from + 3, __ATOMIC_ACQUIRE);
    for (int i = 0; i < 3; i++)
        word[i] = __atomic_load_n((const uint32_t *)from + i, __ATOMIC_RELAXED);
    if (!emulated_seen(true)) // one time in seven what was there before the first launch
        word[3] = 0;
}

DEVICE void count_arrival(uint32_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
    emulated->event();
}

DEVICE bool has_counted(const uint32_t *counter, uint32_t goal)
{
    return emulated_seen((int32_t)(__atomic_load_n(counter, __ATOMIC_RELAXED) - goal) >= 0);
}

DEVICE void rest_for(uint32_t)
{
}

// Launches run one after the other.
DEVICE void let_next_start()
{
}

DEVICE void wait_for_previous()
{
}

DEVICE uint32_t cluster_rank()
{
    return emulated->cluster_rank();
}

DEVICE void cluster_arrive()
{
    emulated->cluster_arrive();
}

DEVICE void cluster_begun()
{
    emulated->cluster_arrive();
}

DEVICE void cluster_wait()
{
    emulated->cluster_wait();
}

DEVICE void cluster_barrier()
{
    cluster_arrive();
    cluster_wait();
}

template <class T> DEVICE T *emulated_of_block(const T *own, uint32_t rank)
{
    return (T *)emulated->shared_pointer(emulated->of_block(shared_address(own), rank));
}

DEVICE float cluster_load(const float *own, uint32_t rank)
{
    return *emulated_of_block(own, rank);
}

DEVICE void cluster_store(float *own, uint32_t rank, float value)
{
    *emulated_of_block(own, rank) = value;
}

DEVICE void cluster_send(uint64_t *own, uint32_t rank, float value, uint32_t which)
{
    __atomic_store_n(emulated_of_block(own, rank), (uint64_t)which << 32 | float_bits(value),
                     __ATOMIC_RELEASE);
}

DEVICE bool cluster_look(const uint64_t *own, uint32_t which, float *value)
{
    const uint64_t both = __atomic_load_n(own, __ATOMIC_ACQUIRE);
    *value = bits_float((uint32_t)both);
    if ((uint32_t)(both >> 32) != which)
        emulated->give_way();
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
