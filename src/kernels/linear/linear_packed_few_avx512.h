// SPDX-License-Identifier: MIT
// Products of a group of packed panels (linear_packed.h) by rows of X, and panels by few rows of X, whose sums stay in
// registers: those wait for weights, so what counts is how they are asked for.
#ifndef WEFT_KERNELS_LINEAR_PACKED_FEW_AVX512_H
#define WEFT_KERNELS_LINEAR_PACKED_FEW_AVX512_H

#include "src/kernels/linear/linear_packed_groups_avx512.h"
#include "src/kernels/linear/linear_store.h"

enum {
    FEW = 4,            // rows of X whose sums stay in registers
    FEW_HALVES = 8,     // where sums are of 16 columns and the CPU asks far ahead
    PANELS = 2,         // that share a row of X among many
    STREAMS = 4,        // panels that are read by turns for one row of X
    AHEAD = 512,        // columns of X
    AHEAD_BYTES = 8192, // of weights
    NEXT_BYTES = 2048,  // of a CPU that asks near
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

// Panels that follow one another from `p` on, at most STREAMS, of which `rows` are rows of W, by row `col` of X: a group of
// each in turn. A core that unpacks gets from several streams what a loop of reads gets, and from one a tenth less: hardware
// that runs ahead begins anew with each page (NOTES.md). Asked for is what comes next, heads of chunks too, and at a
// panel's end the panel that follows the last of these.
WEFT__INLINE void multiply_streams(const struct weft__linear_call *call, struct panel p, int panels,
                                   int64_t rows, int32_t col, struct format f)
{
    const struct weft__packed_shape shape = weft__packed_shape(f.dtype);
    const int64_t sum = sum_columns(call->cols),
                  bytes = weft__packed_panel_bytes(shape, call->cols);
    const struct weft__rounded_row x = weft__rounded_row(&call->acts, col);
    const uintptr_t end = (uintptr_t)p.chunks + (uintptr_t)bytes - NEXT_BYTES;
    const bool last = (uintptr_t)(p.chunks + panels * bytes) == p.end;
    const int64_t next = NEXT_BYTES + (panels - 1) * bytes + (last ? p.skip : 0);
    struct head head[STREAMS];
    __m512 acc[STREAMS], total[STREAMS];
    for (int j = 0; j < STREAMS; j++)
        acc[j] = total[j] = _mm512_setzero_ps();
    const unsigned char *chunk = p.chunks;
    for (int64_t k = 0, left = sum; k < call->cols; k += shape.cols) {
        const unsigned char *codes = chunk + shape.head_bytes;
        for (int j = 0; j < panels; j++) {
            f.begin(chunk + j * bytes, &head[j]);
            fetch_weights(chunk + j * bytes, (uintptr_t)chunk < end ? NEXT_BYTES : next,
                          shape.head_bytes);
        }
        for (int g = 0; g < shape.cols / WEFT__PACKED_GROUP; g++) {
            const int64_t ahead = (uintptr_t)codes < end ? NEXT_BYTES : next;
            if (g % 2 == 0)
                fetch(&x, k + WEFT__PACKED_GROUP * g);
            for (int j = 0; j < panels; j++) {
                struct group w;
                const unsigned char *at = codes + j * bytes;
                f.unpack(chunk + j * bytes, at, g, &head[j], &w);
                fetch_weights_in_order(at, ahead, shape.group_bytes);
                add_group(&acc[j], &w, 1, false, &x, k + WEFT__PACKED_GROUP * g, f);
            }
            codes += shape.group_bytes;
        }
        chunk = codes;
        left -= shape.cols;
        if (left == 0 || k + shape.cols == call->cols) {
            left = sum;
            for (int j = 0; j < panels; j++) {
                total[j] = _mm512_add_ps(total[j], acc[j]);
                acc[j] = _mm512_setzero_ps();
            }
        }
    }
    for (int j = 0; j < panels; j++, rows -= WEFT__PACKED_ROWS)
        weft__linear_store_lanes(call, col, p.row + j * WEFT__PACKED_ROWS,
                                 rows < WEFT__PACKED_ROWS ? (int)rows : WEFT__PACKED_ROWS,
                                 total[j]);
}

#endif
