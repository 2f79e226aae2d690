// SPDX-License-Identifier: MIT
// Panels of 16 rows (linear_packed.h) by few rounded rows of X, at most 16, on the tiles of AMX. All of X is one tile a group, so what a
// unit of weights costs is its unpacking and what vectors do with its sums. Both go on beside the products: a group of the
// unit that comes next is unpacked with each slot, sums are finished some slots later (linear_packed_slots_amx.h). The scales of X
// are copied once for all panels of a task.
#include "src/kernels/linear/linear_packed_few_amx.h"
#include "src/kernels/linear/linear_packed_slots_amx.h"
#include "src/kernels/linear/linear_store.h"

enum {
    UNITS =
        4, // the one before, of which sums are left, this, and those of both panels that come next
    PANELS = 2,   // that meet a tile of X together
    HALF = 8,     // rows of X: no more are finished where there are no more
    AHEAD = 4096, // bytes of weights behind those that are unpacked, for the second cache
};

struct few {
    struct unit unit[UNITS]; // in turns
    struct x_scales x[WEFT__TILED_FEW_LONGEST / UNIT_COLS];
    struct stored stored;
    __m512 total[PANELS + 1][TILE_STEP]; // the last of what comes before a pair, which is nothing
};

// Panels that go together, those that follow them, and what is read behind them.
struct pair {
    const unsigned char *panels, *next, *behind;
    int count, next_count;
    int64_t panel_bytes;
};

WEFT__INLINE void begin_rows(const struct weft__linear_call *call, struct few *p, struct how how)
{
    const int64_t units = (call->cols + UNIT_COLS - 1) / UNIT_COLS;
    memset(&p->stored, 0, sizeof p->stored);
    memset(p->total, 0, sizeof p->total);
    if (call->batch < how.rows)
        memset(p->x, 0, (size_t)units * sizeof p->x[0]); // no sums of what is not a number
    for (int64_t u = 0; u < units; u++)
        copy_scales(&p->x[u], &call->acts, 0, call->batch, u * UNIT_COLS, how);
}

// What is unpacked beside the unit before column k of panel `n`: the unit from there on or, at the end, one of the pair that follows.
WEFT__INLINE void begin_coming(struct coming *next, const struct pair *pair, int n, int64_t k,
                               int64_t cols, struct weft__packed_shape shape)
{
    const int64_t left = cols - k, at = weft__packed_panel_bytes(shape, k);
    const unsigned char *panel = pair->panels + n * pair->panel_bytes;
    const int64_t ahead = at + AHEAD;
    if (left <= 0) {
        panel = pair->next + (n < pair->next_count ? n : 0) * pair->panel_bytes;
        next->from = panel;
        next->ask = pair->behind + n * pair->panel_bytes + AHEAD;
        next->groups = (int)((cols < UNIT_COLS ? cols : UNIT_COLS) / WEFT__PACKED_GROUP);
        return;
    }
    next->from = panel + at;
    next->ask = ahead < pair->panel_bytes
                    ? panel + ahead
                    : pair->behind + n * pair->panel_bytes + ahead - pair->panel_bytes;
    next->groups = (int)((left < UNIT_COLS ? left : UNIT_COLS) / WEFT__PACKED_GROUP);
}

// A pair by all columns, of which the first units are unpacked from place `at` on. Gives the place of the next pair's.
WEFT__INLINE int multiply_pair(const struct weft__linear_call *call, struct few *p, int at,
                               const struct pair *pair, struct tile_format t, struct how how)
{
    const struct weft__packed_shape shape = weft__packed_shape(t.f.dtype);
    const struct weft__rounded_row x = weft__rounded_row(&call->acts, 0);
    struct coming next;
    __m512 acc[TILE_STEP];
    struct step before = {.w = (const __m512i(*)[QUADS])p->unit[at].w,
                          .scale = p->unit[at].scale,
                          .minimum = p->unit[at].minimum,
                          .unit = &p->unit[at],
                          .x = p->x,
                          .total = p->total[PANELS]};
    WEFT__UNROLL for (int c = 0; c < how.rows; c++)
    {
        acc[c] = p->total[0][c] = p->total[1][c] = _mm512_setzero_ps();
    }
    for (int64_t k = 0; k < call->cols; k += UNIT_COLS)
        for (int n = 0; n < pair->count; n++, at = (at + 1) % UNITS) {
            const struct unit *unit = &p->unit[at];
            const struct step now = {.w = (const __m512i(*)[QUADS])unit->w,
                                     .scale = unit->scale,
                                     .minimum = unit->minimum,
                                     .unit = unit,
                                     .x = &p->x[k / UNIT_COLS],
                                     .total = p->total[n]};
            next.unit = &p->unit[(at + pair->count) % UNITS];
            begin_coming(&next, pair, n, k + UNIT_COLS, call->cols, shape);
            tiles_written();
            multiply_slots(&p->stored, acc, x.q + k, call->acts.at.row_bytes, &before, &now, how,
                           &next, t);
            before = now;
        }
    multiply_end(&p->stored, acc, &before, how);
    return at;
}

WEFT__INLINE void multiply(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                           struct tile_format t, struct how how)
{
    struct few p;
    struct tile_shapes shapes = tile_shapes_of(QUADS);
    const struct weft__packed_shape shape = weft__packed_shape(t.f.dtype);
    const int64_t panel_bytes = weft__packed_panel_bytes(shape, call->cols);
    const int64_t panels = (row1 - row0 + WEFT__PACKED_ROWS - 1) / WEFT__PACKED_ROWS;
    const unsigned char *first = call->weight + row0 / WEFT__PACKED_ROWS * panel_bytes;
    int at = 0;
    for (int i = 0; i < 6 && call->batch < TILE_STEP; i++)
        shapes.rows[i] = (uint8_t)call->batch;
    tiles_begin_as(shapes);
    begin_rows(call, &p, how);
    for (int n = 0; n < PANELS && n < panels; n++)
        unpack(&p.unit[n], first + n * panel_bytes, call->cols < UNIT_COLS ? call->cols : UNIT_COLS,
               t);
    for (int64_t n = 0; n < panels; n += PANELS) {
        const int64_t left = panels - n;
        const struct pair pair = {.panels = first + n * panel_bytes,
                                  .next = first + (left > PANELS ? n + PANELS : n) * panel_bytes,
                                  .behind = left <= PANELS && call->next
                                                ? call->next
                                                : first + (n + PANELS) * panel_bytes,
                                  .count = left < PANELS ? 1 : PANELS,
                                  .next_count = left - PANELS == 1 ? 1 : PANELS,
                                  .panel_bytes = panel_bytes};
        at = multiply_pair(call, &p, at, &pair, t, how);
        for (int j = 0; j < pair.count; j++) {
            const int64_t row = row0 + (n + j) * WEFT__PACKED_ROWS;
            for (int32_t c = 0; c < call->batch; c++)
                weft__linear_store_lanes(call, c, row,
                                         row1 - row < WEFT__PACKED_ROWS ? (int)(row1 - row)
                                                                        : WEFT__PACKED_ROWS,
                                         p.total[j][c]);
        }
    }
    tiles_end();
}

#define FEW(ID, offset_, late_, minimum_, begin_, unpack_, minima_)                                \
    WEFT__INLINE void run_##ID(const struct weft__linear_call *call, int64_t row0, int64_t row1,   \
                               int rows)                                                           \
    {                                                                                              \
        const struct tile_format t = {{.dtype = WEFT_##ID,                                         \
                                       .late = late_,                                              \
                                       .minimum = minimum_,                                        \
                                       .begin = begin_,                                            \
                                       .unpack = unpack_},                                         \
                                      1,                                                           \
                                      offset_,                                                     \
                                      minima_};                                                    \
        multiply(call, row0, row1, t,                                                              \
                 (struct how){.parts = 1,                                                          \
                              .rows = rows,                                                        \
                              .whole = true,                                                       \
                              .minimum = minimum_,                                                 \
                              .late = late_,                                                       \
                              .minima = minima_});                                                 \
    }                                                                                              \
    static void few_##ID(const struct weft__linear_call *call, int64_t row0, int64_t row1)         \
    {                                                                                              \
        run_##ID(call, row0, row1, HALF);                                                          \
    }                                                                                              \
    static void some_##ID(const struct weft__linear_call *call, int64_t row0, int64_t row1)        \
    {                                                                                              \
        run_##ID(call, row0, row1, TILE_STEP);                                                     \
    }

#define EACH(X)                                                                                    \
    X(Q4_0, 0, false, false, begin_blocks, unpack_signed_q4_0, OF_NONE)                            \
    X(Q8_0, 128, false, false, begin_blocks, unpack_q8_0, OF_NONE)                                 \
    X(Q4_1, 0, false, true, begin_blocks, unpack_q4_1, OF_NONE)                                    \
    X(Q5_0, 16, false, false, begin_blocks, unpack_q5_0, OF_NONE)                                  \
    X(Q5_1, 0, false, true, begin_blocks, unpack_q5_1, OF_NONE)                                    \
    X(IQ4_NL, 0, false, false, begin_blocks, unpack_signed_iq4_nl, OF_NONE)                        \
    X(Q4_K, 0, false, false, begin_q45_k, unpack_q4_k, OF_GROUPS)                                  \
    X(Q5_K, 0, false, false, begin_q45_k, unpack_q5_k, OF_GROUPS)                                  \
    X(IQ4_XS, 0, false, false, begin_iq4_xs, unpack_signed_iq4_xs, OF_NONE)                        \
    X(MXFP4, 0, false, false, begin_blocks, unpack_signed_mxfp4, OF_NONE)                          \
    X(Q3_K, 0, true, false, begin_q3_k, unpack_signed_q3_k, OF_NONE)                               \
    X(Q2_K, 0, true, false, begin_q2_k, unpack_scaled_q2_k, OF_HALVES)

EACH(FEW)

void weft__linear_packed_few_amx(const struct weft__linear_call *call, int64_t row0, int64_t row1)
{
    switch (call->dtype) {
#define FEW_CASE(ID, ...)                                                                          \
    case WEFT_##ID: (call->batch > HALF ? some_##ID : few_##ID)(call, row0, row1); break;
        EACH(FEW_CASE)
    default: break;
    }
}
