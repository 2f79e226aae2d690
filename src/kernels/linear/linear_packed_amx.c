// SPDX-License-Identifier: MIT
// Panels of 16 rows (linear_packed.h) by rounded rows of X, on the tiles of AMX. Sixteen rows of X as they lie are one
// factor, a group of 32 columns of a panel the other: four columns of 16 rows are a row of that tile, as packed. So
// nothing is turned. A tile of integer sums meets its scales in vectors, while tiles multiply what comes next:
//
//      w[slot]      a group as signed bytes, or what else meets the same columns of X (struct tile_format)
//      dot[slot]    sums of 16 rows of X, a lane is a row of W
//      total[x]     f32, kept over the units of 8 slots
//
// The fewest rows of X wait for memory and are served by vectors (linear_packed_avx512vnni.c), as is whatever must not
// depend on the batch; a tile of X by linear_packed_few_amx.c; many, as bf16 (linear_packed_wide_amx.c).
#include "src/kernels/linear/linear_packed_few_amx.h"
#include "src/kernels/linear/linear_packed_slots_amx.h"
#include "src/kernels/linear/linear_packed_wide.h"
#include "src/kernels/linear/linear_store.h"

enum {
    PANELS = 2, // whose units are unpacked together
    LEAST = 12, // rows of X; of formats with two slots a group
    LEAST_PLANES = 32,
    TILE_COLS = 256,   // rows of X that share what is unpacked
    PART_PANELS = 16,  // that pass by these
    LONGEST = 1 << 17, // columns: more would be too many sums (linear_kernel.h)
};

struct tiles {
    struct unit unit[PANELS];
    struct x_scales x[TILE_COLS / TILE_STEP];
    struct stored stored;
    __m512 total[PART_PANELS][TILE_COLS];
};

// Asks for the bytes that are unpacked next, some with each step.
struct ahead {
    const unsigned char *at[PANELS];
    int64_t done, bytes, step; // of each
    int64_t x;                 // columns of X that are asked for as well, or -1
};

WEFT__INLINE void ask(struct ahead *a, int panels)
{
    const int64_t end = a->done + a->step < a->bytes ? a->done + a->step : a->bytes;
    for (; a->done < end; a->done += 64)
        for (int n = 0; n < panels; n++)
            __builtin_prefetch(a->at[n] + a->done, 0, 3);
}

// The first row of X of a tile. The last rows are a whole tile, if there are so many, of which some were in the tile before.
static int32_t tile_begin(int32_t c, int32_t cols)
{
    return cols - c < TILE_STEP && cols >= TILE_STEP ? cols - TILE_STEP : c;
}

static void copy_all_scales(struct tiles *p, const struct weft__rounded *acts, int32_t col,
                            int32_t cols, int64_t k, struct how how)
{
    for (int32_t c = 0; c < cols; c += TILE_STEP)
        copy_scales(&p->x[c / TILE_STEP], acts, col + tile_begin(c, cols),
                    cols < TILE_STEP ? cols : TILE_STEP, k, how);
}

// Asks for what a unit from column k on needs of rows [m, m + rows) of X, for the second cache.
WEFT__INLINE void ask_rows(const struct weft__rounded *acts, int32_t m, int rows, int64_t k,
                           struct how how)
{
    for (int r = 0; r < rows; r++) {
        const struct weft__rounded_row x = weft__rounded_row(acts, m + r);
        WEFT__UNROLL for (int i = 0; i < UNIT_COLS; i += 64)
        {
            __builtin_prefetch(x.q + k + i, 0, 2);
        }
        __builtin_prefetch(x.scale + k / WEFT__PACKED_GROUP, 0, 2);
        if (how.minimum || how.minima == OF_GROUPS)
            __builtin_prefetch(x.scaled + k / WEFT__PACKED_GROUP, 0, 2);
        if (how.minima == OF_HALVES)
            __builtin_prefetch(x.sum16 + k / 16, 0, 2);
    }
}

// A unit of each panel by rows [col, col + cols) of X from column k on.
WEFT__INLINE void multiply_units_as(struct tiles *p, const struct weft__rounded *acts, int32_t col,
                                    int32_t cols, int64_t k, int panels, __m512 (*total)[TILE_COLS],
                                    struct ahead *ahead, struct how how)
{
    struct step before = {.scale = p->unit[0].scale,
                          .minimum = p->unit[0].minimum,
                          .unit = &p->unit[0],
                          .x = &p->x[0],
                          .total = total[0]};
    __m512 acc[TILE_STEP];
    WEFT__UNROLL for (int c = 0; c < TILE_STEP; c++)
    {
        acc[c] = _mm512_setzero_ps();
    }
    for (int32_t c = 0; c < cols; c += TILE_STEP) {
        const int32_t from = tile_begin(c, cols);
        const struct weft__rounded_row x = weft__rounded_row(acts, col + from);
        for (int n = 0; n < panels; n++)
            for (int part = 0; part < how.parts; part++) {
                const int slot = part * SLOTS;
                const struct step now = {(const __m512i(*)[QUADS])p->unit[n].w + slot,
                                         p->unit[n].scale + slot,
                                         p->unit[n].minimum + slot,
                                         &p->unit[n],
                                         &p->x[c / TILE_STEP],
                                         slot / how.parts,
                                         total[n] + from,
                                         c - from,
                                         cols < TILE_STEP ? cols : TILE_STEP};
                ask(ahead, panels);
                if (ahead->x >= 0 && part == 0)
                    ask_rows(acts, col + from + n * (TILE_STEP / PANELS),
                             cols < TILE_STEP ? 0 : TILE_STEP / panels, ahead->x, how);
                multiply_slots(&p->stored, acc, x.q + k + part * (UNIT_COLS / 2),
                               acts->at.row_bytes, &before, &now, how, NULL,
                               (struct tile_format){0});
                before = now;
            }
    }
    multiply_end(&p->stored, acc, &before, how);
}

#define UNITS(name, ...)                                                                           \
    static __attribute__((noinline)) void name(struct tiles *p, const struct weft__rounded *acts,  \
                                               int32_t col, int32_t cols, int64_t k, int panels,   \
                                               __m512(*total)[TILE_COLS], struct ahead *ahead)     \
    {                                                                                              \
        multiply_units_as(p, acts, col, cols, k, panels, total, ahead, (struct how)__VA_ARGS__);   \
    }
UNITS(multiply_units, {.rows = TILE_STEP, .parts = 1})
UNITS(multiply_units_minimum, {.rows = TILE_STEP, .parts = 1, .minimum = true})
UNITS(multiply_units_minima, {.rows = TILE_STEP, .parts = 1, .minima = OF_GROUPS})
UNITS(multiply_units_late, {.rows = TILE_STEP, .parts = 1, .late = true})
UNITS(multiply_units_late_minima,
      {.rows = TILE_STEP, .parts = 1, .late = true, .minima = OF_HALVES})
UNITS(multiply_units_planes, {.rows = TILE_STEP, .parts = 2, .late = true})

// Panels [0, count) at `panels`, at most a part, by rows [col, col + cols) of X, at most a tile.
WEFT__INLINE void multiply_part(const struct weft__linear_call *call, struct tiles *p,
                                const unsigned char *panels, int64_t count, int32_t col,
                                int32_t cols, struct tile_format t)
{
    const struct weft__packed_shape shape = weft__packed_shape(t.f.dtype);
    const int64_t panel_bytes = weft__packed_panel_bytes(shape, call->cols);
    const int64_t steps = (cols + TILE_STEP - 1) / TILE_STEP * PANELS * t.parts;
    for (int64_t n = 0; n < count; n++)
        for (int32_t c = 0; c < cols; c++)
            p->total[n][c] = _mm512_setzero_ps();
    for (int64_t k = 0; k < call->cols; k += UNIT_COLS) {
        const int64_t columns = call->cols - k < UNIT_COLS ? call->cols - k : UNIT_COLS;
        const int64_t at = weft__packed_panel_bytes(shape, k),
                      bytes = weft__packed_panel_bytes(shape, columns);
        copy_all_scales(p, &call->acts, col, cols, k,
                        (struct how){.parts = t.parts, .minimum = t.f.minimum, .minima = t.minima});
        for (int64_t n = 0; n < count; n += PANELS) {
            const int some = count - n < PANELS ? 1 : PANELS;
            const unsigned char *from = panels + n * panel_bytes + at;
            const unsigned char *next =
                n + PANELS < count ? from + PANELS * panel_bytes : panels + at + bytes;
            const int64_t next_k = k + UNIT_COLS < call->cols ? k + UNIT_COLS : 0;
            struct ahead ahead = {{next, next + panel_bytes},
                                  0,
                                  bytes,
                                  (bytes / 64 + steps - 1) / steps * 64,
                                  n ? -1 : next_k};
            for (int i = 0; i < some; i++)
                unpack(&p->unit[i], from + i * panel_bytes, columns, t);
            tiles_written();
            (t.parts == 2           ? multiply_units_planes
             : t.f.late && t.minima ? multiply_units_late_minima
             : t.f.late             ? multiply_units_late
             : t.minima             ? multiply_units_minima
             : t.f.minimum
                 ? multiply_units_minimum
                 : multiply_units)(p, &call->acts, col, cols, k, some, p->total + n, &ahead);
        }
    }
}

WEFT__INLINE void store(const struct weft__linear_call *call, const struct tiles *p, int64_t row0,
                        int64_t row1, int32_t col, int32_t cols)
{
    for (int32_t c = 0; c < cols; c++) {
        if (c + WEFT__STORES_AHEAD < cols)
            weft__linear_fetch_stores(call, col + c + WEFT__STORES_AHEAD, row0, row1 - row0);
        for (int64_t row = row0; row < row1; row += WEFT__PACKED_ROWS)
            weft__linear_store_lanes(call, col + c, row,
                                     row1 - row < WEFT__PACKED_ROWS ? (int)(row1 - row)
                                                                    : WEFT__PACKED_ROWS,
                                     p->total[(row - row0) / WEFT__PACKED_ROWS][c]);
    }
}

WEFT__INLINE void multiply(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                           struct tile_format t)
{
    struct tiles p;
    struct tile_shapes shapes = tile_shapes_of(QUADS);
    const int64_t panel_bytes = weft__packed_panel_bytes(weft__packed_shape(t.f.dtype), call->cols);
    const int32_t tiles = (call->batch + TILE_COLS - 1) / TILE_COLS;
    const int32_t share = (call->batch + tiles - 1) / tiles;
    const int32_t tile = (share + TILE_STEP - 1) / TILE_STEP * TILE_STEP;
    const int64_t part = (tile <= 64 ? PANELS : PART_PANELS) * WEFT__PACKED_ROWS;
    for (int i = 0; i < 6 && call->batch < TILE_STEP; i++)
        shapes.rows[i] = (uint8_t)call->batch;
    tiles_begin_as(shapes);
    for (int64_t row = row0; row < row1; row += part) {
        const int64_t end = row1 - row < part ? row1 : row + part;
        for (int32_t col = 0, cols; col < call->batch; col += cols) {
            cols = call->batch - col < tile ? call->batch - col : tile;
            multiply_part(call, &p, call->weight + row / WEFT__PACKED_ROWS * panel_bytes,
                          (end - row + WEFT__PACKED_ROWS - 1) / WEFT__PACKED_ROWS, col, cols, t);
            store(call, &p, row, end, col, cols);
        }
    }
    tiles_end();
}

// The text of vectors serves few rows of X.
#define PACKED(ID, parts_, offset_, late_, minimum_, begin_, unpack_, minima_)                     \
    weft__linear_fn weft__linear_##ID##_q8_packed_avx512vnni, weft__linear_##ID##_q8_packed_amx;   \
    void weft__linear_##ID##_q8_packed_amx(const struct weft__linear_call *call, int64_t row0,     \
                                           int64_t row1)                                           \
    {                                                                                              \
        const int32_t least = parts_ == 2 ? LEAST_PLANES : LEAST;                                  \
        if (call->x_tiles)                                                                         \
            weft__linear_packed_wide_amx(call, row0, row1);                                        \
        else if (weft__linear_packed_takes_few(call))                                              \
            weft__linear_packed_few_amx(call, row0, row1);                                         \
        else if (call->batch < least || call->invariant || call->cols > LONGEST)                   \
            weft__linear_##ID##_q8_packed_avx512vnni(call, row0, row1);                            \
        else                                                                                       \
            multiply(call, row0, row1,                                                             \
                     (struct tile_format){{.dtype = WEFT_##ID,                                     \
                                           .late = late_,                                          \
                                           .minimum = minimum_,                                    \
                                           .begin = begin_,                                        \
                                           .unpack = unpack_},                                     \
                                          parts_,                                                  \
                                          offset_,                                                 \
                                          minima_});                                               \
    }

PACKED(Q4_0, 1, 0, false, false, begin_blocks, unpack_signed_q4_0, OF_NONE)
PACKED(Q8_0, 1, 128, false, false, begin_blocks, unpack_q8_0, OF_NONE)
PACKED(Q4_1, 1, 0, false, true, begin_blocks, unpack_q4_1, OF_NONE)
PACKED(Q5_0, 1, 16, false, false, begin_blocks, unpack_q5_0, OF_NONE)
PACKED(Q5_1, 1, 0, false, true, begin_blocks, unpack_q5_1, OF_NONE)
PACKED(IQ4_NL, 1, 0, false, false, begin_blocks, unpack_signed_iq4_nl, OF_NONE)
PACKED(Q4_K, 1, 0, false, false, begin_q45_k, unpack_q4_k, OF_GROUPS)
PACKED(Q5_K, 1, 0, false, false, begin_q45_k, unpack_q5_k, OF_GROUPS)
PACKED(IQ4_XS, 1, 0, false, false, begin_iq4_xs, unpack_signed_iq4_xs, OF_NONE)
PACKED(MXFP4, 1, 0, false, false, begin_blocks, unpack_signed_mxfp4, OF_NONE)
PACKED(Q6_K, 2, 32, true, false, begin_q6_k, unpack_q6_k, OF_NONE)
PACKED(Q3_K, 1, 128, true, false, begin_q3_k, unpack_scaled_q3_k, OF_NONE)
PACKED(Q2_K, 1, 0, true, false, begin_q2_k, unpack_scaled_q2_k, OF_HALVES)
