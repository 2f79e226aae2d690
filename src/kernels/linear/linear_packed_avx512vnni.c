// SPDX-License-Identifier: MIT
// Panels of 16 rows (linear_packed.h) by rounded rows of X, any number of them: a lane is a row of W, one broadcast of
// four activations meets all 16. A group of 32 columns is unpacked into registers once and multiplied by each row of X;
// the sum of a row of W adds the same products in the same order whatever the batch is.
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_packed_groups_avx512.h"
#include "src/kernels/linear/linear_store.h"

enum {
    FEW = 4,            // rows of X whose sums stay in registers
    FEW_HALVES = 8,     // where sums are of 16 columns and the CPU asks far ahead
    SOME = 11,          // rows of X that are fetched for the weights: more hide their own latency
    TILE = 64,          // rows of X whose sums stay in the first cache
    PANELS = 2,         // that share a row of X among many
    AHEAD = 512,        // columns of X
    AHEAD_BYTES = 8192, // of weights, for few rows of X
    NEXT_BYTES = 2048,  // of a CPU that asks near
    NEAR_BYTES = 320 * 1024, // of panels that several tiles of X share
};

WEFT__INLINE __m512i four(const int8_t *x)
{
    int32_t quad;
    memcpy(&quad, x, sizeof quad);
    return _mm512_set1_epi32(quad);
}

// Takes off what the minima of a group of each panel are worth.
WEFT__INLINE void take_minima(__m512 *acc, const struct group *w, int panels,
                              const struct weft__rounded_row *x, int64_t k, struct format f)
{
    const int parts = f.halves ? 2 : 1;
    WEFT__UNROLL for (int p = 0; p < parts; p++)
    {
        __m512 sum = _mm512_set1_ps(x->scaled[k / 32]);
        if (f.halves)
            sum = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_set1_epi32(x->sum16[k / 16 + p])),
                                _mm512_set1_ps(-x->scale[k / 32]));
        WEFT__UNROLL for (int j = 0; j < panels; j++)
        {
            acc[j] = _mm512_fnmadd_ps(w[j].minimum[p], sum, acc[j]);
        }
    }
}

// What sums of a group's products start from, of its first half or (halves) of each.
WEFT__INLINE __m512i start_of(const struct weft__rounded_row *x, int64_t k, int part,
                              struct format f)
{
    if (f.minimum || (!f.halves && part))
        return _mm512_setzero_si512();
    if (f.halves)
        return _mm512_srai_epi32(_mm512_set1_epi32(x->sum16[k / 16 + part]),
                                 (unsigned)-f.offset_shift);
    return _mm512_slli_epi32(_mm512_set1_epi32(x->sum32[k / 32]), (unsigned)f.offset_shift);
}

// Adds the products of a group of each panel by columns [k, k + 32) of a row of X. Two chains of products side by side are
// half as long: one of all 32 columns is what a CPU looks ahead, so among many rows (two = true) it is what they would wait
// for. Few rows wait for weights, which come best in order of address (NOTES.md). The sums are integers, and the same.
WEFT__INLINE void add_group(__m512 *acc, const struct group *w, int panels, bool two,
                            const struct weft__rounded_row *x, int64_t k, struct format f)
{
    __m512 scale = _mm512_set1_ps(x->scale[k / 32]);
    __m512i dot[2][PANELS];
    const int sums = f.halves ? 2 : 1;
    two = two || f.halves;
    WEFT__UNROLL for (int p = 0; p < 2; p++)
    {
        dot[p][0] = dot[p][PANELS - 1] = start_of(x, k, p, f);
    }
    WEFT__UNROLL for (int n = 0; n < 8; n++)
    {
        const int p = two ? n % 2 : 0, i = two ? 4 * p + n / 2 : n;
        const __m512i quad = four(x->q + k + 4 * i);
        WEFT__UNROLL for (int j = 0; j < panels; j++)
        {
            dot[p][j] = _mm512_dpbusd_epi32(dot[p][j], w[j].w[i], quad);
        }
    }
    WEFT__UNROLL for (int j = 0; j < panels; j++)
    {
        if (two && !f.halves)
            dot[0][j] = _mm512_add_epi32(dot[0][j], dot[1][j]);
        if (f.once) {
            const __m512 first = _mm512_mul_ps(_mm512_cvtepi32_ps(dot[0][j]), w[j].scale[0]);
            acc[j] = _mm512_fmadd_ps(
                _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[1][j]), w[j].scale[1], first), scale,
                acc[j]);
            continue;
        }
        WEFT__UNROLL for (int p = 0; p < sums; p++)
        {
            acc[j] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[p][j]),
                                     f.late ? scale : _mm512_mul_ps(w[j].scale[p], scale), acc[j]);
        }
    }
    if (f.minimum)
        take_minima(acc, w, panels, x, k, f);
}

// X returns from the second cache for each panel of long rows, behind weights that pass through the first.
WEFT__INLINE void fetch(const struct weft__rounded_row *x, int64_t k)
{
    __builtin_prefetch(x->q + k + AHEAD, 0, 3);
}

struct panel {
    const unsigned char *chunks;
    int64_t row;
    int rows;
    uintptr_t end;
    int64_t skip; // what lies past the end is read `skip` farther
};

WEFT__INLINE void fetch_weights(const unsigned char *at, int64_t ahead, int bytes)
{
    WEFT__UNROLL for (int i = 0; i < bytes; i += 64)
    {
        __builtin_prefetch(at + ahead + i, 0, 3);
    }
}

// The same in order of address, whatever the compiler thinks of it: nine rows of X by q4_k, a line before which came late,
// took a seventh more.
WEFT__INLINE void fetch_weights_in_order(const unsigned char *at, int64_t ahead, int bytes)
{
    WEFT__UNROLL for (int i = 0; i < bytes; i += 64)
    {
        __asm__ volatile("prefetcht0 %0" : : "m"(at[ahead + i]));
    }
}

// Asks for codes for few rows of X, far ahead for the first cache: on a Zen 5 the hardware alone, though it sees one stream, gives
// half of what a core can read as soon as there is something to unpack. Past the panels' end they are those that the thread
// reads then. A CPU that does not ask far leaves short chunks to the hardware, but for those past the end, where no stream
// leads. Chunks of 256 columns are slower for the question (NOTES.md).
WEFT__INLINE void fetch_ahead(const unsigned char *codes, int64_t ahead, bool past,
                              const struct format f)
{
    const struct weft__packed_shape shape = weft__packed_shape(f.dtype);
    if (f.far || shape.cols >= 256 || past)
        fetch_weights(codes, ahead, shape.group_bytes);
}

// Among many rows of X the hardware does not read weights far enough ahead. A CPU that does not ask far has no room in its
// first cache for bytes, and with few rows the hardware's alone.
WEFT__INLINE void fetch_group(const unsigned char *codes, int bytes, int cols, struct format f)
{
    const bool dense = bytes >= 512;
    if (f.far) {
        const int64_t ahead = dense || (bytes >= 256 && cols <= SOME) ? 4096 : 2048;
        if (f.chunks && bytes <= 256)
            fetch_weights_in_order(codes, ahead, bytes);
        else
            fetch_weights(codes, ahead, bytes);
    } else if (!dense) {
        fetch_weights(codes, 2048, bytes);
    } else if (cols >= 6) {
        WEFT__UNROLL for (int at = 0; at < bytes; at += 64)
        {
            __builtin_prefetch(codes + 4096 + at, 0, 2);
        }
    }
}

// Of groups of bytes a line for each that is loaded, in order of address both: in another, which compilers choose, memory gives
// a fifth less to four rows of X.
WEFT__INLINE void fetch_by_turns(const unsigned char *ahead, struct group *w)
{
    WEFT__UNROLL for (int i = 0; i < 8; i++)
    {
        __asm__ volatile("prefetcht0 %1" : "+v"(w->w[i]) : "m"(ahead[64 * i]));
    }
}

// Columns that a sum of its own covers, whole chunks.
static int64_t sum_columns(int64_t cols)
{
    int64_t columns = weft__linear_chunk(cols, WEFT__PACKED_GROUP / 2);
    return columns < 256 ? 256 : columns;
}

// A panel by rows [col, col + cols) of X, at most FEW_HALVES, known when compiled.
WEFT__INLINE void multiply_few(const struct weft__linear_call *call, struct panel p, int32_t col,
                               int cols, struct format f)
{
    const struct weft__packed_shape shape = weft__packed_shape(f.dtype);
    const int64_t sum = sum_columns(call->cols);
    struct weft__rounded_row x[FEW_HALVES];
    const uintptr_t bytes_ahead = call->asks_near ? NEXT_BYTES : AHEAD_BYTES;
    __m512 acc[FEW_HALVES], total[FEW_HALVES];
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        x[c] = weft__rounded_row(&call->acts, col + c < call->batch ? col + c : call->batch - 1);
    }
    WEFT__UNROLL for (int c = 0; c < FEW_HALVES; c++)
    {
        acc[c] = total[c] = _mm512_setzero_ps();
    }
    const unsigned char *chunk = p.chunks;
    for (int64_t k = 0, left = sum; k < call->cols; k += shape.cols) {
        struct head head;
        f.begin(chunk, &head);
        const unsigned char *codes = chunk + shape.head_bytes;
        for (int g = 0; g < shape.cols / WEFT__PACKED_GROUP; g++) {
            struct group w;
            const bool past = p.skip && shape.cols < 256 && (uintptr_t)codes + bytes_ahead >= p.end;
            const int64_t ahead = (int64_t)bytes_ahead + (past ? p.skip : 0);
            f.unpack(chunk, codes, g, &head, &w);
            if (f.far && shape.group_bytes == 512 && cols > 2)
                fetch_by_turns(codes + ahead, &w);
            else
                fetch_ahead(codes, ahead, past, f);
            WEFT__UNROLL for (int c = 0; c < cols; c++)
            {
                if (g % 2 == 0)
                    fetch(&x[c], k + WEFT__PACKED_GROUP * g);
                add_group(&acc[c], &w, 1, false, &x[c], k + WEFT__PACKED_GROUP * g, f);
            }
            codes += shape.group_bytes;
        }
        chunk = codes;
        left -= shape.cols;
        if (left == 0 || k + shape.cols == call->cols) {
            left = sum;
            WEFT__UNROLL for (int c = 0; c < cols; c++)
            {
                total[c] = _mm512_add_ps(total[c], acc[c]);
                acc[c] = _mm512_setzero_ps();
            }
        }
    }
    WEFT__UNROLL for (int c = 0; c < cols; c++)
    {
        if (col + c < call->batch)
            weft__linear_store_lanes(call, col + c, p.row, p.rows, total[c]);
    }
}

// Sums of many rows of X by a few panels. The two of a row are not a multiple of 4 KB apart: a load that agrees in
// these bits with a store before it waits for that.
struct sums {
    __m512 acc[TILE][PANELS];
    __m512 apart[17];
    __m512 total[TILE][PANELS];
};

// The row that lies `bytes` behind `first`.
WEFT__INLINE struct weft__rounded_row row_behind(const struct weft__rounded_row *first,
                                                 int64_t bytes)
{
    return (struct weft__rounded_row){.q = first->q + bytes,
                                      .scale = (void *)((char *)first->scale + bytes),
                                      .scaled = (void *)((char *)first->scaled + bytes),
                                      .sum32 = (void *)((char *)first->sum32 + bytes),
                                      .sum16 = (void *)((char *)first->sum16 + bytes)};
}

// Where a group stands in its chunk.
enum place { MIDDLE, FIRST, LAST };

// Adds a group of each panel by rows of X, `first` and those behind it, to the sums: of a chunk they begin with its first group
// and join the total, late times the scale, with its last.
WEFT__INLINE void add_group_to(struct sums *sums, const struct group *w, int panels,
                               const struct weft__rounded *acts,
                               const struct weft__rounded_row *first, int cols, int64_t k,
                               enum place place, struct format f)
{
    const int ahead = f.far && cols <= SOME ? 128 : 64;
    for (int c = 0; c < cols; c++) {
        const struct weft__rounded_row x = row_behind(first, c * acts->at.row_bytes);
        __m512 *acc = sums->acc[c], sum[PANELS];
        __builtin_prefetch(x.q + k + ahead, 0, 3);
        if (place == MIDDLE) {
            add_group(acc, w, panels, true, &x, k, f);
            continue;
        }
        WEFT__UNROLL for (int j = 0; j < panels; j++)
        {
            sum[j] = place == FIRST ? _mm512_setzero_ps() : acc[j];
        }
        add_group(sum, w, panels, true, &x, k, f);
        WEFT__UNROLL for (int j = 0; j < panels; j++)
        {
            __m512 *total = &sums->total[c][j];
            if (place == FIRST)
                acc[j] = sum[j];
            else if (f.late)
                *total = _mm512_fmadd_ps(sum[j], w[j].scale[0], *total);
            else
                *total = _mm512_add_ps(*total, sum[j]);
        }
    }
}

// One chunk, from column k on, of each panel.
WEFT__INLINE void multiply_chunk(struct sums *sums, const unsigned char *const chunk[PANELS],
                                 int panels, const struct weft__rounded *acts, int32_t col,
                                 int cols, int64_t k, struct format f)
{
    const struct weft__packed_shape shape = weft__packed_shape(f.dtype);
    const struct weft__rounded_row first = weft__rounded_row(acts, col);
    const bool some = f.far && cols <= SOME;
    const int groups = shape.cols / WEFT__PACKED_GROUP;
    struct head head[PANELS];
    WEFT__UNROLL for (int j = 0; j < panels; j++)
    {
        f.begin(chunk[j], &head[j]);
        if (f.far && cols > SOME)
            fetch_weights(chunk[j], shape.group_bytes >= 512 ? 4096 : 2048, shape.head_bytes);
    }
    for (int g = 0; g < groups; g++) {
        struct group w[PANELS];
        const int64_t at = k + WEFT__PACKED_GROUP * g,
                      codes = shape.head_bytes + shape.group_bytes * g;
        WEFT__UNROLL for (int j = 0; j < panels; j++)
        {
            f.unpack(chunk[j], chunk[j] + codes, g, &head[j], &w[j]);
            fetch_group(chunk[j] + codes, shape.group_bytes, cols, f);
        }
        if (f.chunks && g == 0)
            add_group_to(sums, w, panels, acts, &first, cols, at, FIRST, f);
        else if (f.chunks && g == groups - 1)
            add_group_to(sums, w, panels, acts, &first, cols, at, LAST, f);
        else if (f.chunks)
            add_group_to(sums, w, panels, acts, &first, cols, at, MIDDLE, f);
        for (int c = 0; c < cols && !f.chunks; c++) {
            const struct weft__rounded_row x = row_behind(&first, c * acts->at.row_bytes);
            if (some)
                __builtin_prefetch(x.q + at + 128, 0, 3);
            add_group(sums->acc[c], w, panels, true, &x, at, f);
        }
    }
}

static void clear(__m512 sums[][PANELS], int cols)
{
    for (int c = 0; c < cols; c++)
        for (int j = 0; j < PANELS; j++)
            sums[c][j] = _mm512_setzero_ps();
}

static void fold(struct sums *sums, int cols)
{
    for (int c = 0; c < cols; c++)
        for (int j = 0; j < PANELS; j++)
            sums->total[c][j] = _mm512_add_ps(sums->total[c][j], sums->acc[c][j]);
    clear(sums->acc, cols);
}

// Stores what the sums come to.
WEFT__INLINE void store_sums(const struct weft__linear_call *call, const struct sums *sums,
                             int64_t row, int64_t row1, int panels, int32_t col, int32_t cols,
                             struct format f)
{
    for (int c = 0; c < cols; c++) {
        if (c + WEFT__STORES_AHEAD < cols)
            weft__linear_fetch_stores(call, col + c + WEFT__STORES_AHEAD, row,
                                      panels * WEFT__PACKED_ROWS);
        WEFT__UNROLL for (int j = 0; j < panels; j++)
        {
            const int64_t at = row + j * WEFT__PACKED_ROWS, left = row1 - at;
            const __m512 sum =
                f.chunks ? sums->total[c][j] : _mm512_add_ps(sums->total[c][j], sums->acc[c][j]);
            weft__linear_store_lanes(call, col + c, at,
                                     left < WEFT__PACKED_ROWS ? (int)left : WEFT__PACKED_ROWS, sum);
        }
    }
}

// Panels that follow one another, from `p` on, by rows [col, col + cols) of X, at most a tile.
WEFT__INLINE void multiply_many(const struct weft__linear_call *call, struct panel p, int64_t row1,
                                int panels, int32_t col, int cols, struct format f)
{
    const struct weft__packed_shape shape = weft__packed_shape(f.dtype);
    const int64_t sum = sum_columns(call->cols),
                  bytes = weft__packed_panel_bytes(shape, call->cols);
    const int64_t chunk_bytes = weft__packed_panel_bytes(shape, shape.cols);
    struct sums sums;
    clear(sums.total, cols);
    if (!f.chunks)
        clear(sums.acc, cols);
    for (int64_t k = 0; k < call->cols; k += shape.cols) {
        const unsigned char *chunk[PANELS] = {p.chunks + k / shape.cols * chunk_bytes};
        chunk[PANELS - 1] = chunk[0] + (panels - 1) * bytes;
        multiply_chunk(&sums, chunk, panels, &call->acts, col, cols, k, f);
        if (!f.chunks && (k + shape.cols) % sum == 0)
            fold(&sums, cols);
    }
    store_sums(call, &sums, p.row, row1, panels, col, cols, f);
}

// Rows [row0, row1) of W by rows [col, col + cols) of X.
WEFT__INLINE void multiply_rows(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                                int32_t col, int cols, bool few, struct format f)
{
    const int64_t panel_bytes = weft__packed_panel_bytes(weft__packed_shape(f.dtype), call->cols);
    const uintptr_t end = (uintptr_t)call->weight + (uintptr_t)((row1 + WEFT__PACKED_ROWS - 1) /
                                                                WEFT__PACKED_ROWS * panel_bytes);
    for (int64_t row = row0, step; row < row1; row += step) {
        const int64_t left = row1 - row;
        struct panel p = {call->weight + row / WEFT__PACKED_ROWS * panel_bytes, row,
                          left < WEFT__PACKED_ROWS ? (int)left : WEFT__PACKED_ROWS, end,
                          call->next ? (int64_t)((uintptr_t)call->next - end) : 0};
        step = WEFT__PACKED_ROWS;
        if (few && call->batch == 1) {
            multiply_few(call, p, col, 1, f);
        } else if (few && call->batch == 2) {
            multiply_few(call, p, col, 2, f);
        } else if (few && call->batch <= FEW) {
            multiply_few(call, p, col, FEW, f);
        } else if (few && f.halves && !f.minimum && f.far && call->batch <= FEW_HALVES) {
            multiply_few(call, p, col, call->batch <= 6 ? 6 : FEW_HALVES, f);
        } else if (left <= WEFT__PACKED_ROWS) {
            multiply_many(call, p, row1, 1, col, cols, f);
        } else {
            multiply_many(call, p, row1, PANELS, col, cols, f);
            step = PANELS * WEFT__PACKED_ROWS;
        }
    }
}

// Rows of X go in tiles of equal size, and pass over panels that stay in the second cache. `few`: there may be so few that
// their sums stay in registers.
WEFT__INLINE void multiply(const struct weft__linear_call *call, int64_t row0, int64_t row1,
                           bool few, struct format f)
{
    const int32_t tiles = (call->batch + TILE - 1) / TILE;
    const int32_t tile = (call->batch + tiles - 1) / tiles;
    const int64_t panel_bytes = weft__packed_panel_bytes(weft__packed_shape(f.dtype), call->cols);
    const int64_t bytes = (row1 - row0) * panel_bytes / WEFT__PACKED_ROWS,
                  parts = tiles > 1 ? bytes / NEAR_BYTES + 1 : 1, step = PANELS * WEFT__PACKED_ROWS;
    const int64_t rows = (row1 - row0 + parts * step - 1) / (parts * step) * step;
    for (int64_t row = row0; row < row1; row += rows)
        for (int32_t col = 0; col < call->batch; col += tile)
            multiply_rows(call, row, row1 - row < rows ? row1 : row + rows, col,
                          call->batch - col < tile ? call->batch - col : tile, few, f);
}

#define PACKED_NAMED(name, ID, few, ...)                                                           \
    static void name(const struct weft__linear_call *call, int64_t row0, int64_t row1)             \
    {                                                                                              \
        if (call->asks_far)                                                                        \
            multiply(call, row0, row1, few, (struct format){WEFT_##ID, true, __VA_ARGS__});        \
        else                                                                                       \
            multiply(call, row0, row1, few, (struct format){WEFT_##ID, false, __VA_ARGS__});       \
    }

// Formats whose last bits differ among many rows of X have another text for these.
#define PACKED_TWO(ID, run_few, run_many)                                                          \
    weft__linear_fn weft__linear_##ID##_q8_packed_avx512vnni;                                      \
    void weft__linear_##ID##_q8_packed_avx512vnni(const struct weft__linear_call *call,            \
                                                  int64_t row0, int64_t row1)                      \
    {                                                                                              \
        if (weft__linear_many(call))                                                               \
            run_many(call, row0, row1);                                                            \
        else                                                                                       \
            run_few(call, row0, row1);                                                             \
    }

#define PACKED(ID, minimum, offset_shift, begin, unpack)                                           \
    PACKED_NAMED(run_##ID, ID, true, false, false, false, false, minimum, offset_shift, begin,     \
                 unpack)                                                                           \
    PACKED_NAMED(run_many_##ID, ID, false, false, false, true, false, minimum, offset_shift,       \
                 begin, unpack)                                                                    \
    PACKED_TWO(ID, run_##ID, run_many_##ID)

PACKED(Q4_0, false, 0, begin_blocks, unpack_q4_0)
PACKED(Q8_0, false, 4, begin_blocks, unpack_q8_0)
PACKED(Q4_1, true, 0, begin_blocks, unpack_q4_1)
PACKED(Q5_0, false, 1, begin_blocks, unpack_q5_0)
PACKED(Q5_1, true, 0, begin_blocks, unpack_q5_1)
PACKED(IQ4_NL, false, 4, begin_blocks, unpack_iq4_nl)
PACKED(Q4_K, true, 0, begin_q45_k, unpack_q4_k)
PACKED(Q5_K, true, 0, begin_q45_k, unpack_q5_k)
PACKED(IQ4_XS, false, 4, begin_iq4_xs, unpack_iq4_xs)
PACKED(MXFP4, false, 1, begin_blocks, unpack_mxfp4)

// Formats with a scale for each 16 columns. Codes of q3_k times scales are worth their making: a sum of 32 columns instead of
// two of 16.
#define PACKED_HALVES(ID, minimum, offset_shift, begin, unpack)                                    \
    PACKED_NAMED(run_##ID, ID, true, true, false, false, false, minimum, offset_shift, begin,      \
                 unpack)

PACKED_HALVES(Q3_K, false, -3, begin_q3_k, unpack_q3_k)
PACKED_NAMED(run_scaled_Q3_K, Q3_K, false, false, false, true, true, false, 4, begin_q3_k,
             unpack_scaled_q3_k)
PACKED_TWO(Q3_K, run_Q3_K, run_scaled_Q3_K)

PACKED_HALVES(Q6_K, false, 0, begin_q6_k, unpack_q6_k)
PACKED_NAMED(run_many_Q6_K, Q6_K, false, true, true, true, false, false, 0, begin_q6_k, unpack_q6_k)
PACKED_TWO(Q6_K, run_Q6_K, run_many_Q6_K)

PACKED_HALVES(Q2_K, true, 0, begin_q2_k, unpack_q2_k)
PACKED_NAMED(run_many_Q2_K, Q2_K, false, true, true, true, false, true, 0, begin_q2_k, unpack_q2_k)
PACKED_TWO(Q2_K, run_Q2_K, run_many_Q2_K)
