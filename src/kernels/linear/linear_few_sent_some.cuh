// SPDX-License-Identifier: MIT
// Several rows of X of linear_few_sent.cu.
#ifndef WEFT_KERNELS_LINEAR_FEW_SENT_SOME_CUH
#define WEFT_KERNELS_LINEAR_FEW_SENT_SOME_CUH

#define SOME_ROWS  WEFT_BATCH
#define SOME_WHOLE (WEFT_COLS > 0)
#define SOME_LAID  1
#define SOME_BUSY  0
#define SOME_PAIRS (COLUMNS == 8 ? 2 : 1) // of 96 registers
#include "src/kernels/linear/linear_some.cuh"

#include "src/kernels/linear/linear_few_places.cuh"
#include "src/kernels/linear/linear_few_some.cuh"

#define SUM_FACTOR (1 / X_STEP)

enum {
    OWN_TILES = (WEFT_COLS / TILE_COLUMNS + WEFT_SPLIT - 1) / WEFT_SPLIT,
    EIGHTS = COLUMNS / 8,
    UNIT_STEP = WEFT_WARPS / EIGHTS, // a warp takes units of 32 columns of the same eight rows
    OWN_UNITS = (OWN_TILES * 8 + UNIT_STEP - 1) / UNIT_STEP, // of a warp; 0: not known
    AT_ONCE = OWN_UNITS == 0  ? 1
              : OWN_UNITS < 4 ? OWN_UNITS
                              : 4,
};
static_assert(WEFT_WARPS % EIGHTS == 0, "a warp's rows");

// Four lanes have eight columns each of a unit of a row, 4 c and 16 + 4 c on: its codes and numbers, as x_load() of rounded rows leaves them.
DEVICE void unit_store(const struct stream *s, int32_t unit, int32_t n, const float4 v[2])
{
    const int32_t c = s->lane % 4;
    const float x[8] = {v[0].x, v[0].y, v[0].z, v[0].w, v[1].x, v[1].y, v[1].z, v[1].w};
    uint32_t codes[2];
    const float largest = round_words(x, codes);
    *(uint2 *)(shared_x() + (n * x_pairs(s) + unit / 2) * 64 + c * 16 + unit % 2 * 8) =
        make_uint2(codes[0], codes[1]);
    const int32_t both =
        __dp4a((int32_t)codes[0], 0x01010101, 0) + __dp4a((int32_t)codes[1], 0x01010101, 0) * 65536;
    const int32_t sums = warp_sum_int(both, 4), first = (int16_t)sums;
    x_unit(x_numbers(s), x_plane(s), unit, n, c, largest / 127.0f,
           (uint32_t)(sums - first) | ((uint32_t)first & 0xffffu));
}

// Where a lane's columns of X begin, in its row.
struct x_own {
    int64_t at;          // element of X, of the warp's first unit
    int32_t unit, units; // that, and how many the block has
    int32_t left;        // columns from there on, 0 if the batch has no such row
    int32_t whole;       // are fours in one piece?
};

// AT_ONCE units of the warp, `first` behind its first.
DEVICE void units_ask(const struct weft__linear_device_args *args, const struct x_own *own,
                      int32_t first, float4 v[AT_ONCE][2])
{
#pragma unroll
    for (int32_t k = 0; k < 2 * AT_ONCE; k++) {
        const int32_t unit = first + k / 2 * UNIT_STEP, col = unit * 32 + 16 * (k % 2);
        const int32_t left = own->unit + unit < own->units ? own->left - col : 0;
        float4 *to = &v[k / 2][k % 2];
        *to = make_float4(0, 0, 0, 0);
        if (own->whole && left > 0)
            *to = four_elements<WEFT_X_DTYPE>(args->x, own->at + col);
        else if (left > 0)
            *to = first_elements<WEFT_X_DTYPE>(args->x, own->at + col, left);
    }
}

// What can be said of X before it is there, is. While it is on its way the rest of the weights is asked for behind it, as
// everybody waits for X.
DEVICE bool x_load(struct stream *s, const struct weft__linear_device_args *args)
{
    const int32_t n = warp_of_thread() % EIGHTS * 8 + s->lane / 4;
    struct x_own own;
    own.unit = warp_of_thread() / EIGHTS, own.units = s->tiles * 8;
    const int32_t col = s->tile0 * TILE_COLUMNS + own.unit * 32 + s->lane % 4 * 4;
    own.at = x_row(s, n) * args->x_stride + col;
    own.left = n < s->batch ? columns_of(args) - col : 0;
    own.whole = columns_of(args) % 4 == 0 && fours_aligned<WEFT_X_DTYPE>(args->x, args->x_stride);
    asm volatile("" : "+l"(own.at), "+r"(own.left), "+r"(own.whole));
    if (own.left > 0 &&
        own.unit < own.units) // which also says that the address is to be had by now
        prefetch_l2((const uint8_t *)args->x + own.at * (WEFT_X_DTYPE == DTYPE_F32 ? 4 : 2));
    wait_for_previous();
    float4 v[AT_ONCE][2];
    units_ask(args, &own, 0, v);
    stream_ask_rest(s, args, SLOTS_BEFORE_X);
    stream_prefetch(s, args);
    cluster_wait();
#pragma unroll 1
    for (int32_t first = 0;;) {
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++)
            if (own.unit + first + k * UNIT_STEP < own.units)
                unit_store(s, own.unit + first + k * UNIT_STEP, n, v[k]);
        first += AT_ONCE * UNIT_STEP;
        if (own.unit + first >= own.units)
            return true;
        units_ask(args, &own, first, v);
    }
}

DEVICE void tile_multiply(const struct stream *s, const struct weft__linear_device_args *args,
                          const uint8_t *slot, int32_t tile, bool, float acc[COLUMNS / 2])
{
    tile_multiply(s, args, slot, tile, acc);
}

#endif
