// SPDX-License-Identifier: MIT
// src/kernels/cuda/bulk.cuh for the host.
#ifndef WEFT_KERNELS_CUDA_BULK_CUH
#define WEFT_KERNELS_CUDA_BULK_CUH

#include "src/kernels/cuda/types.cuh"

DEVICE bool elected()
{
    return threadIdx.x % WARP == 0;
}

DEVICE void barrier_init(uint32_t barrier, uint32_t arrivals)
{
    emulated->mbarrier_init(barrier, arrivals);
}

DEVICE void barrier_init_end()
{
}

DEVICE void barrier_arrive(uint32_t barrier)
{
    emulated->mbarrier_arrive(barrier, 0);
}

template <int COUNT> DEVICE void barrier_arrive_as(uint32_t barrier)
{
    for (int i = 0; i < COUNT; i++)
        emulated->mbarrier_arrive(barrier, 0);
}

DEVICE void barrier_expect(uint32_t barrier, uint32_t bytes)
{
    emulated->mbarrier_arrive(barrier, bytes);
}

DEVICE void barrier_wait(uint32_t barrier, uint32_t parity)
{
    emulated->mbarrier_wait(barrier, parity);
}

DEVICE void barriers_wait(uint32_t first, uint32_t first_parity, uint32_t second,
                          uint32_t second_parity)
{
    barrier_wait(first, first_parity);
    barrier_wait(second, second_parity);
}

DEVICE bool barrier_ended(uint32_t barrier, uint32_t parity)
{
    return emulated->mbarrier_ended(barrier, parity);
}

DEVICE void bulk_fence()
{
}

DEVICE void loads_end(uint32_t of_all)
{
    (void)of_all;
}

DEVICE void prefetch_map(const void *map)
{
    if ((uint64_t)map % 64)
        emulated->fail("a tensor map that is not aligned");
}

static void emulated_copy_bulk(const struct emulated_copy *copy)
{
    memcpy(emulated->shared_pointer(copy->to), (const void *)copy->from, copy->bytes);
    emulated->mbarrier_landed(copy->barrier, copy->bytes);
}

DEVICE void copy_bulk(uint32_t to_shared, const void *from, uint32_t bytes, uint32_t barrier)
{
    const struct emulated_copy copy = {emulated_copy_bulk, to_shared, barrier, bytes,
                                       (uint64_t)from,     {0}};
    if (to_shared % 16 || (uint64_t)from % 16 || bytes % 16)
        emulated->fail("a bulk copy that is not aligned");
    emulated->engine(&copy);
}

DEVICE void copy_bulk_as(uint32_t to_shared, const void *from, uint32_t bytes, uint32_t barrier,
                         uint64_t policy)
{
    if (policy != 1)
        emulated->fail("a copy of no known policy");
    copy_bulk(to_shared, from, bytes, barrier);
}

DEVICE void cluster_copy(uint32_t own, uint32_t rank, uint32_t bytes, uint32_t barrier)
{
    copy_bulk(emulated->of_block(own, rank), emulated->shared_pointer(own), bytes,
              emulated->of_block(barrier, rank));
}

struct two_phases {
    uint32_t barrier[2], parity[2];
};

DEVICE bool copy_and_look(uint32_t to, const void *from, uint32_t bytes, uint32_t barrier,
                          uint64_t policy, struct two_phases look)
{
    barrier_expect(barrier, bytes);
    copy_bulk_as(to, from, bytes, barrier, policy);
    return barrier_ended(look.barrier[0], look.parity[0]) &&
           barrier_ended(look.barrier[1], look.parity[1]);
}

DEVICE bool copy_two_and_look(uint32_t to, const void *first, const void *second, uint32_t apart,
                              uint32_t bytes, uint32_t barrier, uint64_t policy,
                              struct two_phases look)
{
    barrier_expect(barrier, 2 * bytes);
    copy_bulk_as(to, first, bytes, barrier, policy);
    copy_bulk_as(to + apart, second, bytes, barrier, policy);
    return barrier_ended(look.barrier[0], look.parity[0]) &&
           barrier_ended(look.barrier[1], look.parity[1]);
}

// What the stand-in's cuTensorMapEncodeTiled() leaves (tests/support/standin/standin_work.c).
struct emulated_map {
    uint64_t base, dims[4], stride_bytes[3]; // columns, rows, piles
    uint32_t box_cols, box_rows, swizzled, box_matrices;
};

static void emulated_copy_matrix(const struct emulated_copy *copy, const struct emulated_map *map,
                                 uint32_t matrix)
{
    const uint32_t row_bytes = map->box_cols * 2;
    const int32_t place[2] = {copy->place[2] + (int32_t)matrix, copy->place[3]};
    uint64_t pile = map->base;
    bool there = true;
    for (int i = 0; i < 2; i++) {
        there = there && place[i] >= 0 && (uint64_t)place[i] < map->dims[2 + i];
        pile += (uint64_t)place[i] * map->stride_bytes[1 + i];
    }
    for (uint32_t r = 0; r < map->box_rows; r++)
        for (uint32_t c = 0; c < map->box_cols; c++) {
            const int64_t row = (int64_t)copy->place[1] + r, col = (int64_t)copy->place[0] + c;
            const bool inside = there && row >= 0 && col >= 0 && row < (int64_t)map->dims[1] &&
                                col < (int64_t)map->dims[0];
            uint32_t to = copy->to + (matrix * map->box_rows + r) * row_bytes + c * 2;
            if (map->swizzled)
                to ^= (to >> 7 & 7) << 4;
            *(uint16_t *)emulated->shared_pointer(to) =
                inside ? *(const uint16_t *)(pile + row * map->stride_bytes[0] + col * 2) : 0;
        }
}

static void emulated_copy_box(const struct emulated_copy *copy)
{
    const struct emulated_map *map = (const struct emulated_map *)copy->from;
    for (uint32_t matrix = 0; matrix < map->box_matrices; matrix++)
        emulated_copy_matrix(copy, map, matrix);
    emulated->mbarrier_landed(copy->barrier, map->box_matrices * map->box_rows * map->box_cols * 2);
}

DEVICE void copy_box(uint32_t to_shared, const void *map, int32_t column, int32_t row,
                     uint32_t barrier)
{
    const struct emulated_copy copy = {emulated_copy_box, to_shared,    barrier, 0,
                                       (uint64_t)map,     {column, row}};
    emulated->engine(&copy);
}

DEVICE void copy_box_of_pile(uint32_t to_shared, const void *map, int32_t column, int32_t row,
                             int32_t matrix, int32_t pile, uint32_t barrier)
{
    const struct emulated_copy copy = {
        emulated_copy_box, to_shared, barrier, 0, (uint64_t)map, {column, row, matrix, pile}};
    emulated->engine(&copy);
}

DEVICE void copy_box_of_pile_as(uint32_t to_shared, const void *map, int32_t column, int32_t row,
                                int32_t matrix, int32_t pile, uint32_t barrier, uint64_t policy)
{
    if (policy != 1)
        emulated->fail("a copy of no known policy");
    copy_box_of_pile(to_shared, map, column, row, matrix, pile, barrier);
}

// Leaves no trace; what lies outside of the map is not fetched there either.
DEVICE void prefetch_box_of_pile(const void *map, int32_t, int32_t row, int32_t matrix,
                                 int32_t pile)
{
    const struct emulated_map *of = (const struct emulated_map *)map;
    if (row < 0 || matrix < 0 || pile < 0 || (uint64_t)row >= of->dims[1] ||
        (uint64_t)matrix >= of->dims[2] || (uint64_t)pile >= of->dims[3])
        emulated->fail("a box of nothing");
}

DEVICE void copy_box_cluster(uint32_t to_shared, const void *map, int32_t column, int32_t row,
                             uint32_t barrier, uint32_t blocks)
{
    for (uint32_t rank = 0; blocks >> rank; rank++)
        if (blocks >> rank & 1)
            copy_box(emulated->of_block(to_shared, rank), map, column, row,
                     emulated->of_block(barrier, rank));
}

static void emulated_send(const struct emulated_copy *copy)
{
    memcpy((void *)copy->from, copy->place, copy->bytes);
    emulated->mbarrier_landed(copy->barrier, copy->bytes);
}

DEVICE void emulated_send_some(float *own, uint32_t rank, const void *numbers, int bytes,
                               uint32_t barrier)
{
    const uint32_t to = emulated->of_block(emulated->shared_address(own), rank);
    struct emulated_copy copy = {emulated_send,
                                 to,
                                 emulated->of_block(barrier, rank),
                                 bytes,
                                 (uint64_t)emulated->shared_pointer(to),
                                 {0}};
    if (to % (uint32_t)bytes)
        emulated->fail("numbers sent to a place that is not aligned");
    memcpy(copy.place, numbers, (size_t)bytes);
    emulated->engine(&copy);
}

DEVICE void cluster_send_1(float *own, uint32_t rank, float one, uint32_t barrier)
{
    emulated_send_some(own, rank, &one, 4, barrier);
}

DEVICE void cluster_send_2(float *own, uint32_t rank, float2 two, uint32_t barrier)
{
    emulated_send_some(own, rank, &two, 8, barrier);
}

DEVICE void barrier_arrive_at(uint32_t barrier, uint32_t rank)
{
    emulated->mbarrier_arrive(emulated->of_block(barrier, rank), 0);
}

#endif
