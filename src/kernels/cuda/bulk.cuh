// SPDX-License-Identifier: MIT
// Copies of whole pieces by the copy engine, and the barriers in shared memory that count their bytes (sm_90).
// A barrier completes a phase when its threads have arrived and the bytes they announced have landed; phases are
// numbered by a parity that begins at 0.
#ifndef WEFT_KERNELS_CUDA_BULK_CUH
#define WEFT_KERNELS_CUDA_BULK_CUH

#include "src/kernels/cuda/types.cuh"

// One lane of the warp; copies need no loop over lanes where the compiler knows that.
DEVICE bool elected()
{
    uint32_t is;
    asm volatile("{.reg .pred one;\n"
                 "elect.sync _|one, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, one;}"
                 : "=r"(is));
    return is != 0;
}

DEVICE void barrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

// After the barriers have been initialised, before the copy engine sees them; then a barrier of the block.
DEVICE void barrier_init_end()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

DEVICE void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives as so many threads.
template <int COUNT> DEVICE void barrier_arrive_as(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "n"(COUNT)
                 : "memory");
}

// Arrives and announces bytes.
DEVICE void barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

// Waits for the end of the phase of this parity.
DEVICE void barrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n.reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra.uni end;\n"
                 "bra.uni again;\n"
                 "end:\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

// Waits for the ends of two phases, which are looked at side by side: a look takes a way through the memory unit.
DEVICE void barriers_wait(uint32_t first, uint32_t first_parity, uint32_t second,
                          uint32_t second_parity)
{
    asm volatile("{\n.reg .pred one, two;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 one, [%0], %1;\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 two, [%2], %3;\n"
                 "and.pred one, one, two;\n"
                 "@one bra.uni end;\n"
                 "bra.uni again;\n"
                 "end:\n}" ::"r"(first),
                 "r"(first_parity), "r"(second), "r"(second_parity)
                 : "memory");
}

// Has that phase ended?
DEVICE bool barrier_ended(uint32_t barrier, uint32_t parity)
{
    uint32_t ended;
    asm volatile("{.reg .pred done;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                 "selp.u32 %0, 1, 0, done;}"
                 : "=r"(ended)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return ended != 0;
}

// What the thread stored in shared memory by itself comes before what the copy engine writes there for it, and
// before what wgmma reads there behind a barrier that the thread arrives at.
DEVICE void bulk_fence()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// What the thread read in shared memory is read before the copy engine writes there, once the thread has
// arrived at a barrier behind this: a load is in a queue of the memory unit until it returns, an arrival is
// not, and the engine's bytes pass both by. `of_all`: made of a number of every load.
DEVICE void loads_end(uint32_t of_all)
{
    asm volatile("{.reg .pred rare;\n"
                 "setp.eq.u32 rare, %0, 0x9e3779b9;\n"
                 "@rare fence.proxy.async.shared::cta;}" ::"r"(of_all)
                 : "memory");
}

// Bytes and both addresses are multiples of 16.
DEVICE void copy_bulk(uint32_t to_shared, const void *from, uint32_t bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(to_shared),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

// The same by a policy (memory.cuh).
DEVICE void copy_bulk_as(uint32_t to_shared, const void *from, uint32_t bytes, uint32_t barrier,
                         uint64_t policy)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0], [%1], %2, [%3], %4;" ::"r"(to_shared),
                 "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
                 : "memory");
}

// From shared memory to the same place of another block of the cluster, whose barrier counts the bytes. What threads stored there
// comes behind bulk_fence() of theirs, and it stays as it is until they have landed.
DEVICE void cluster_copy(uint32_t own, uint32_t rank, uint32_t bytes, uint32_t barrier)
{
    asm volatile("{.reg .u32 to, at;\n"
                 "mapa.shared::cluster.u32 to, %0, %1; mapa.shared::cluster.u32 at, %3, %1;\n"
                 "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                 "[to], [%0], %2, [at];}" ::"r"(own),
                 "r"(rank), "r"(bytes), "r"(barrier)
                 : "memory");
}

// Two barriers, and the parities of phases of theirs that are waited for.
struct two_phases {
    uint32_t barrier[2], parity[2];
};

// Announces a piece at a barrier and copies it. Meanwhile two others are looked at: have both of their phases ended? One text, for a look
// takes a way through the memory unit, and what it says is not wanted before the copy has been asked for.
DEVICE bool copy_and_look(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier,
                          uint64_t policy, struct two_phases look)
{
    uint32_t ended;
    asm volatile("{.reg .pred one, two;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 one, [%6], %7;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 two, [%8], %9;\n"
                 "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%4], %3;\n"
                 "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%1], [%2], %3, [%4], %5;\n"
                 "and.pred one, one, two;\n"
                 "selp.u32 %0, 1, 0, one;}"
                 : "=r"(ended)
                 : "r"(to), "l"(from), "r"(bytes), "r"(barrier), "l"(policy), "r"(look.barrier[0]),
                   "r"(look.parity[0]), "r"(look.barrier[1]), "r"(look.parity[1])
                 : "memory");
    return ended != 0;
}

// The same of two pieces of so many bytes each, which come to places `apart` from one another.
DEVICE bool copy_two_and_look(uint32_t to, const void *first, const void *second, uint32_t apart,
                              uint32_t bytes, uint32_t barrier, uint64_t policy,
                              struct two_phases look)
{
    uint32_t ended;
    asm volatile("{.reg .pred one, two;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 one, [%9], %10;\n"
                 "mbarrier.test_wait.parity.shared::cta.b64 two, [%11], %12;\n"
                 "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%5], %6;\n"
                 "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%1], [%2], %3, [%5], %4;\n"
                 "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%7], [%8], %3, [%5], %4;\n"
                 "and.pred one, one, two;\n"
                 "selp.u32 %0, 1, 0, one;}"
                 : "=r"(ended)
                 : "r"(to), "l"(first), "r"(bytes), "l"(policy), "r"(barrier), "r"(2 * bytes),
                   "r"(to + apart), "l"(second), "r"(look.barrier[0]), "r"(look.parity[0]),
                   "r"(look.barrier[1]), "r"(look.parity[1])
                 : "memory");
    return ended != 0;
}

// Brings the tensor map, which lies in global memory, near before it is used.
DEVICE void prefetch_map(const void *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// A box of a matrix that a tensor map of the host's describes, from `column` of `row` on; what lies outside the
// matrix becomes zero, all bytes of the box are counted.
DEVICE void copy_box(uint32_t to_shared, const void *map, int32_t column, int32_t row,
                     uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];" ::"r"(to_shared),
                 "l"(map), "r"(column), "r"(row), "r"(barrier)
                 : "memory");
}

// A box of one of the matrices that lie in piles.
DEVICE void copy_box_of_pile(uint32_t to_shared, const void *map, int32_t column, int32_t row,
                             int32_t matrix, int32_t pile, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to_shared),
                 "l"(map), "r"(column), "r"(row), "r"(matrix), "r"(pile), "r"(barrier)
                 : "memory");
}

// Brings it into L2, no more.
DEVICE void prefetch_box_of_pile(const void *map, int32_t column, int32_t row, int32_t matrix,
                                 int32_t pile)
{
    asm volatile(
        "cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(map),
        "r"(column), "r"(row), "r"(matrix), "r"(pile)
        : "memory");
}

// The same by a policy (memory.cuh).
DEVICE void copy_box_of_pile_as(uint32_t to_shared, const void *map, int32_t column, int32_t row,
                                int32_t matrix, int32_t pile, uint32_t barrier, uint64_t policy)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to_shared),
                 "l"(map), "r"(column), "r"(row), "r"(matrix), "r"(pile), "r"(barrier), "l"(policy)
                 : "memory");
}

// The same box to the same place in every block of the cluster whose bit is set in `blocks`, each at its own barrier.
DEVICE void copy_box_cluster(uint32_t to_shared, const void *map, int32_t column, int32_t row,
                             uint32_t barrier, uint32_t blocks)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to_shared),
                 "l"(map), "r"(column), "r"(row), "r"(barrier), "h"((uint16_t)blocks)
                 : "memory");
}

// Arrives at the same barrier of another block of the cluster.
DEVICE void barrier_arrive_at(uint32_t barrier, uint32_t rank)
{
    asm volatile("{.reg .u32 a; mapa.shared::cluster.u32 a, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [a];}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}

// Two numbers, from a multiple of 8 on, into another block of the cluster (or this one), at the place that `own` is here; the same barrier
// there counts their 8 bytes. So who waits at it sees them, and no fence stands between: one would wait for all else that the thread has asked for.
DEVICE void cluster_send_2(float *own, uint32_t rank, float2 two, uint32_t barrier)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("{.reg .u32 to, at;\n"
                 "mapa.shared::cluster.u32 to, %0, %1; mapa.shared::cluster.u32 at, %2, %1;\n"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [to], "
                 "{%3, %4}, [at];}" ::"r"((uint32_t)__cvta_generic_to_shared(own)),
                 "r"(rank), "r"(barrier), "f"(two.x), "f"(two.y)
                 : "memory");
#endif
}

// One number, the same way: its 4 bytes count.
DEVICE void cluster_send_1(float *own, uint32_t rank, float one, uint32_t barrier)
{
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{.reg .u32 to, at;\n"
        "mapa.shared::cluster.u32 to, %0, %1; mapa.shared::cluster.u32 at, %2, %1;\n"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [to], %3, [at];}" ::"r"(
            (uint32_t)__cvta_generic_to_shared(own)),
        "r"(rank), "r"(barrier), "f"(one)
        : "memory");
#endif
}

#endif
