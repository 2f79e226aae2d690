// SPDX-License-Identifier: MIT
// Panels of 16 rows (linear_packed.h) by rounded rows of X, on the tiles of AMX. Sixteen rows of X as they lie are one
// factor, a group of 32 columns of a panel the other: four columns of 16 rows are a row of that tile, as packed. So
// nothing is turned. A tile of integer sums meets its scales in vectors, while tiles multiply what comes next:
//
//      w[slot]      a group as signed bytes, or what else meets the same columns of X (struct tile_format)
//      dot[slot]    sums of 16 rows of X, a lane is a row of W
//      total[x]     f32, kept over the units of 8 slots
//
// Few rows of X wait for memory and are served by vectors (linear_packed_avx512vnni.c), as is whatever must not
// depend on the batch.
#include "src/kernels/cpu/amx.h"
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_packed_groups_avx512.h"
#include "src/kernels/linear/linear_store.h"

enum {
    TILE_STEP = 16,  // rows of X in a tile
    SLOTS = 8,       // tiles of W whose sums wait for vectors together
    QUADS = 8,       // rows of a tile of W, of four columns each
    UNIT_COLS = 256, // that are unpacked at a time,
    PANELS = 2,      // of so many panels
    LAG = 4,         // slots until vectors take what tiles stored
    LEAST = 12,      // rows of X; of formats with two slots a group
    LEAST_HALVES = 24,
    TILE_COLS = 256,   // rows of X that share what is unpacked
    PART_PANELS = 8,   // that pass by these
    LONGEST = 1 << 17, // columns: more would be too many sums (linear_kernel.h)
};

// How a format becomes tiles.
struct tile_format {
    struct format f;
    int parts;   // slots of a group
    int offset;  // that codes are too large by
    bool minima; // the second slot has bytes of minima
};

struct unit {
    _Alignas(64) __m512i w[2 * SLOTS][QUADS];
    __m512 scale[2 * SLOTS], minimum[2 * SLOTS];
};

// The scales of a tile of X and a unit's groups, and these times sums of its bytes.
struct x_scales {
    _Alignas(64) float scale[TILE_STEP][SLOTS], scaled[TILE_STEP][SLOTS];
};

// Slots by a tile of X.
struct step {
    const __m512i (*w)[QUADS];
    const __m512 *scale, *minimum;
    const struct x_scales *x;
    int group;      // of the first slot, in x
    __m512 *total;  // of the tile's first row of X
    int first, end; // rows of X that are wanted
};

struct tiles {
    struct unit unit[PANELS];
    struct x_scales x[2];
    _Alignas(64) int32_t dot[SLOTS][TILE_STEP][16];
    __m512 total[PART_PANELS][TILE_COLS];
};

// Adds the sums of slot i of a step, times their scales: late, those of X.
WEFT__INLINE void finish_slot(__m512 acc[TILE_STEP], const struct step *s, int32_t (*dot)[16],
                              int i, int parts, bool minimum, bool late)
{
    const __m512 scale = s->scale[i], least = s->minimum[i];
    const int group = s->group + i / parts;
    WEFT__UNROLL for (int c = 0; c < TILE_STEP; c++)
    {
        const __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512(dot[c]));
        const __m512 x = _mm512_set1_ps(s->x->scale[c][group]);
        acc[c] = _mm512_fmadd_ps(sum, late ? x : _mm512_mul_ps(scale, x), acc[c]);
        if (minimum)
            acc[c] = _mm512_fnmadd_ps(least, _mm512_set1_ps(s->x->scaled[c][group]), acc[c]);
    }
}

// Adds the sums of a step to the totals and begins anew. Late, all have one scale of W.
WEFT__INLINE void finish_step(__m512 acc[TILE_STEP], const struct step *s, bool late)
{
    const __m512 scale = late ? s->scale[0] : _mm512_set1_ps(1);
    if (s->end - s->first == TILE_STEP) {
        WEFT__UNROLL for (int c = 0; c < TILE_STEP; c++)
        {
            s->total[c] = late ? _mm512_fmadd_ps(acc[c], scale, s->total[c])
                               : _mm512_add_ps(s->total[c], acc[c]);
        }
    } else {
        __m512 sums[TILE_STEP];
        WEFT__UNROLL for (int c = 0; c < TILE_STEP; c++)
        {
            sums[c] = late ? _mm512_mul_ps(acc[c], scale) : acc[c];
        }
        for (int c = s->first; c < s->end; c++)
            s->total[c] = _mm512_add_ps(s->total[c], sums[c]);
    }
    WEFT__UNROLL for (int c = 0; c < TILE_STEP; c++)
    {
        acc[c] = _mm512_setzero_ps();
    }
}

// Slot i is loaded and multiplied, slot i - 2 stored, and vectors finish slot i - LAG: what tiles store is to be loaded a while
// later only.
#define SLOT(i, c, a, b, stored)                                                                   \
    tile_zero(c);                                                                                  \
    tile_load(a, q + (i) / parts * WEFT__PACKED_GROUP, row_bytes);                                 \
    tile_load(b, now->w[i], TILE_ROW_BYTES);                                                       \
    tile_dot_i8_i8(c, a, b);                                                                       \
    if ((i) >= 2)                                                                                  \
        tile_store(stored, p->dot[((i)-2) % SLOTS]);                                               \
    finish_slot(acc, (i) < LAG ? before : now, p->dot[((i) + SLOTS - LAG) % SLOTS],                \
                ((i) + SLOTS - LAG) % SLOTS, parts, minimum, late);                                \
    if ((i) == LAG - 1)                                                                            \
        finish_step(acc, before, late);

// The slots of a step by the tile of X at q, and what is left of the step before.
WEFT__INLINE void multiply_slots(struct tiles *p, __m512 acc[TILE_STEP], const int8_t *q,
                                 int64_t row_bytes, const struct step *before,
                                 const struct step *now, int parts, bool minimum, bool late)
{
    SLOT(0, 0, 4, 6, 2)
    SLOT(1, 1, 5, 7, 3)
    SLOT(2, 2, 4, 6, 0)
    SLOT(3, 3, 5, 7, 1)
    SLOT(4, 0, 4, 6, 2)
    SLOT(5, 1, 5, 7, 3)
    SLOT(6, 2, 4, 6, 0)
    SLOT(7, 3, 5, 7, 1)
    tile_store(2, p->dot[6]);
    tile_store(3, p->dot[7]);
}

// What is left of the last step.
WEFT__INLINE void multiply_end(struct tiles *p, __m512 acc[TILE_STEP], const struct step *s,
                               int parts, bool minimum, bool late)
{
    WEFT__UNROLL for (int i = SLOTS - LAG; i < SLOTS; i++)
    {
        finish_slot(acc, s, p->dot[i], i, parts, minimum, late);
    }
    finish_step(acc, s, late);
}

// Puts a group into its slots. Where both halves have a scale each has a slot in which the other is zero; bytes
// of minima have a slot of their own, which is the same for all columns of a half.
WEFT__INLINE void put_group(struct unit *u, int slot, const struct group *g, struct tile_format t)
{
    const __m512i offset = _mm512_set1_epi8((char)t.offset);
    WEFT__UNROLL for (int n = 0; n < QUADS; n++)
    {
        const __m512i w = t.offset ? _mm512_sub_epi8(g->w[n], offset) : g->w[n];
        const int half = n / (QUADS / 2), part = t.parts == 2 && !t.minima ? half : 0;
        u->w[slot + part][n] = w;
        if (t.parts == 2)
            u->w[slot + !part][n] =
                t.minima ? _mm512_castps_si512(g->minimum[half]) : _mm512_setzero_si512();
    }
    WEFT__UNROLL for (int part = 0; part < t.parts; part++)
    {
        u->scale[slot + part] = g->scale[part];
        if (t.f.minimum)
            u->minimum[slot + part] = g->minimum[part];
    }
}

// Slots of columns that W has not.
static void clear_slots(struct unit *u, int slot)
{
    for (; slot < SLOTS; slot++) {
        for (int n = 0; n < QUADS; n++)
            u->w[slot][n] = _mm512_setzero_si512();
        u->scale[slot] = u->minimum[slot] = _mm512_setzero_ps();
    }
}

// `columns` of a panel, at most a unit.
WEFT__INLINE void unpack(struct unit *u, const unsigned char *chunk, int64_t columns,
                         struct tile_format t)
{
    const struct weft__packed_shape shape = weft__packed_shape(t.f.dtype);
    int slot = 0;
    for (int64_t k = 0; k < columns; k += shape.cols) {
        struct head head;
        const unsigned char *codes = chunk + shape.head_bytes;
        t.f.begin(chunk, &head);
        for (int g = 0; g < shape.cols / WEFT__PACKED_GROUP; g++, codes += shape.group_bytes) {
            struct group group;
            t.f.unpack(chunk, codes, g, &head, &group);
            put_group(u, slot, &group, t);
            slot += t.parts;
        }
        chunk = codes;
    }
    if (slot < SLOTS)
        clear_slots(u, slot);
}

// Asks for the bytes that are unpacked next, some with each step.
struct ahead {
    const unsigned char *at[PANELS];
    int64_t done, bytes, step; // of each
};

WEFT__INLINE void ask(struct ahead *a, int panels)
{
    const int64_t end = a->done + a->step < a->bytes ? a->done + a->step : a->bytes;
    for (; a->done < end; a->done += 64)
        for (int n = 0; n < panels; n++)
            __builtin_prefetch(a->at[n] + a->done, 0, 3);
}

// Scales of `rows` rows of X, the groups of a unit from column k on.
WEFT__INLINE void copy_scales(struct x_scales *to, const struct weft__rounded *acts, int32_t m,
                              int rows, int64_t k, bool minimum)
{
    for (int c = 0; c < rows; c++) {
        const struct weft__rounded_row x = weft__rounded_row(acts, m + c);
        _mm256_store_ps(to->scale[c], _mm256_loadu_ps(x.scale + k / WEFT__PACKED_GROUP));
        if (minimum)
            _mm256_store_ps(to->scaled[c], _mm256_loadu_ps(x.scaled + k / WEFT__PACKED_GROUP));
    }
}

// A unit of each panel by rows [col, col + cols) of X from column k on. The last rows are a whole tile, if there are so
// many, of which some were in the tile before.
WEFT__INLINE void multiply_units_as(struct tiles *p, const struct weft__rounded *acts, int32_t col,
                                    int32_t cols, int64_t k, int panels, __m512 (*total)[TILE_COLS],
                                    struct ahead *ahead, int parts, bool minimum, bool late)
{
    struct step before = {
        .scale = p->unit[0].scale, .minimum = p->unit[0].minimum, .x = &p->x[0], .total = total[0]};
    __m512 acc[TILE_STEP];
    int buffer = 0;
    WEFT__UNROLL for (int c = 0; c < TILE_STEP; c++)
    {
        acc[c] = _mm512_setzero_ps();
    }
    for (int32_t c = 0; c < cols; c += TILE_STEP, buffer = !buffer) {
        const int32_t left = cols - c,
                      from = left < TILE_STEP && cols >= TILE_STEP ? cols - TILE_STEP : c;
        const int rows = cols < TILE_STEP ? cols : TILE_STEP;
        const struct weft__rounded_row x = weft__rounded_row(acts, col + from);
        copy_scales(&p->x[buffer], acts, col + from, rows, k, minimum);
        for (int n = 0; n < panels; n++)
            for (int part = 0; part < parts; part++) {
                const int slot = part * SLOTS;
                const struct step now = {(const __m512i(*)[QUADS])p->unit[n].w + slot,
                                         p->unit[n].scale + slot,
                                         p->unit[n].minimum + slot,
                                         &p->x[buffer],
                                         slot / parts,
                                         total[n] + from,
                                         c - from,
                                         rows};
                ask(ahead, panels);
                multiply_slots(p, acc, x.q + k + part * (UNIT_COLS / 2), acts->at.row_bytes,
                               &before, &now, parts, minimum, late);
                before = now;
            }
    }
    multiply_end(p, acc, &before, parts, minimum, late);
}

#define UNITS(name, parts, minimum, late)                                                          \
    static __attribute__((noinline)) void name(struct tiles *p, const struct weft__rounded *acts,  \
                                               int32_t col, int32_t cols, int64_t k, int panels,   \
                                               __m512(*total)[TILE_COLS], struct ahead *ahead)     \
    {                                                                                              \
        multiply_units_as(p, acts, col, cols, k, panels, total, ahead, parts, minimum, late);      \
    }
UNITS(multiply_units, 1, false, false)
UNITS(multiply_units_minima, 1, true, false)
UNITS(multiply_units_late, 1, false, true)
UNITS(multiply_units_halves, 2, false, false)

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
        for (int64_t n = 0; n < count; n += PANELS) {
            const int some = count - n < PANELS ? 1 : PANELS;
            const unsigned char *from = panels + n * panel_bytes + at;
            const unsigned char *next =
                n + PANELS < count ? from + PANELS * panel_bytes : panels + at + bytes;
            struct ahead ahead = {
                {next, next + panel_bytes}, 0, bytes, (bytes / 64 + steps - 1) / steps * 64};
            for (int i = 0; i < some; i++)
                unpack(&p->unit[i], from + i * panel_bytes, columns, t);
            tiles_written();
            (t.parts == 2 ? multiply_units_halves
             : t.f.late   ? multiply_units_late
             : t.f.minimum
                 ? multiply_units_minima
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

// The bytes of 16 rows, each four times.
WEFT__INLINE __m512i four_times(const uint8_t rows[16])
{
    return _mm512_mullo_epi32(_mm512_cvtepu8_epi32(_mm_load_si128((const void *)rows)),
                              _mm512_set1_epi32(0x01010101));
}

// Codes times their scales are 0 to 45, and d is what all of them have; so it is with minima and dmin, which meet sums of
// X: as many columns of equal bytes.
UNPACK(scaled_q2_k)
{
    const __m512i two[2] = {load(codes), load(codes + 64)};
    WEFT__UNROLL for (int p = 0; p < 2; p++)
    {
        const __m512i s = four_times(head->entry[2 * g + p]), twice = _mm512_add_epi8(s, s);
        WEFT__UNROLL for (int i = 0; i < 4; i++)
        {
            const __m512i code = moved(two[p], -2 * i);
            const __m512i low =
                _mm512_maskz_mov_epi8(_mm512_test_epi8_mask(code, _mm512_set1_epi8(1)), s);
            out->w[4 * p + i] = _mm512_mask_add_epi8(
                low, _mm512_test_epi8_mask(code, _mm512_set1_epi8(2)), low, twice);
        }
        out->minimum[p] = _mm512_castsi512_ps(four_times(head->minimum[2 * g + p]));
    }
    out->scale[0] = head->d;
    out->scale[1] = _mm512_sub_ps(_mm512_setzero_ps(), load_halves(chunk + 32));
}

// The text of vectors serves few rows of X.
#define PACKED(ID, parts_, offset_, late_, minimum_, begin_, unpack_, minima_)                     \
    weft__linear_fn weft__linear_##ID##_q8_packed_avx512vnni, weft__linear_##ID##_q8_packed_amx;   \
    void weft__linear_##ID##_q8_packed_amx(const struct weft__linear_call *call, int64_t row0,     \
                                           int64_t row1)                                           \
    {                                                                                              \
        const int32_t least = parts_ == 2 ? LEAST_HALVES : LEAST;                                  \
        if (call->batch < least || call->invariant || call->cols > LONGEST)                        \
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

PACKED(Q4_0, 1, 8, false, false, begin_blocks, unpack_q4_0, false)
PACKED(Q8_0, 1, 128, false, false, begin_blocks, unpack_q8_0, false)
PACKED(Q4_1, 1, 0, false, true, begin_blocks, unpack_q4_1, false)
PACKED(Q5_0, 1, 16, false, false, begin_blocks, unpack_q5_0, false)
PACKED(Q5_1, 1, 0, false, true, begin_blocks, unpack_q5_1, false)
PACKED(IQ4_NL, 1, 128, false, false, begin_blocks, unpack_iq4_nl, false)
PACKED(Q4_K, 1, 0, false, true, begin_q45_k, unpack_q4_k, false)
PACKED(Q5_K, 1, 0, false, true, begin_q45_k, unpack_q5_k, false)
PACKED(IQ4_XS, 1, 128, false, false, begin_iq4_xs, unpack_iq4_xs, false)
PACKED(MXFP4, 1, 16, false, false, begin_blocks, unpack_mxfp4, false)
PACKED(Q6_K, 2, 32, false, false, begin_q6_k, unpack_q6_k, false)
PACKED(Q3_K, 1, 128, true, false, begin_q3_k, unpack_scaled_q3_k, false)
PACKED(Q2_K, 2, 0, false, false, begin_q2_k, unpack_scaled_q2_k, true)
