// SPDX-License-Identifier: MIT
// Attention over caches of bf16 and of codes of a byte on the tiles of AMX. Queries are bf16, codes become it,
// weights are rounded to it, sums are f32, as in attention_pairs_avx512bf16.c, which serves soft-caps, ALiBi
// and heads that are no multiples of 32. A tile of AMX has 16 rows: up to 16 are attention_few_amx.c's, but for few rows of
// bf16, which are faster in f32, and more go in strips of 32 (attention_strips_amx.h).
//
//      score[16 keys][16 rows]     =  key[16 keys][32 elements] * q[16 pairs of elements][16 rows]
//      acc[16 rows][16 columns]   +=  weight[16 rows][32 keys] * value[16 pairs of keys][16 columns]
//
// Scores leave with rows as lanes, so that the softmax goes through a block without looking across lanes; its
// weights are turned once.
#include "src/kernels/attention/attention_int8.h"
#include "src/kernels/attention/attention_strips_rows_amx.h"

weft__attention_scratch_fn weft__attention_scratch_amx, weft__attention_scratch_avx512;

int64_t weft__attention_scratch_amx(int32_t rows, int32_t head_dim, int32_t v_dim)
{
    const int64_t bytes =
        bytes_of_rows(rows, head_dim, v_dim) + bytes_of_tiles(rows, head_dim, v_dim);
    const int64_t few = weft__attention_scratch_avx512(rows, head_dim, v_dim);
    const int64_t strips = bytes_of_strips(rows, head_dim, v_dim);
    const int64_t most = bytes > few ? bytes : few;
    return most > strips ? most : strips;
}

INLINE void score_strip(const struct strips *t, struct item item, int32_t turn,
                        struct pending *beside)
{
    const int32_t strip = item.strip, slot = item.slot, sixteens = item.sixteens;
    const struct rows *s = &t->tiles.rows;
    const int64_t steps = s->call->k.dim / GROUP, next = steps * TILE_NUMBERS;
    const uint16_t *q = t->q + strip * 2 * next, *k = t->tiles.keys + slot * SIXTEENS * next;
    float *to = s->scores + scores_at(0, turn), *below = s->scores + scores_at(1, turn);
    weigh_beside(beside, sixteens / 2 * steps);
    SQUARE_BEGIN();
    for (int32_t j = 0; j < sixteens; j += 2, to += 2 * TILE_SUMS, below += 2 * TILE_SUMS) {
        if (j > 0) {
            SQUARE_TURN(to - 2 * TILE_SUMS, below - 2 * TILE_SUMS, BEGIN_AT_ZERO, to, below, q,
                        q + next, k, k + TILE_NUMBERS);
            weigh_due(t, beside, false);
            k += 2 * TILE_NUMBERS;
        }
        for (int64_t i = j > 0; i < steps; i++, k += 2 * TILE_NUMBERS) {
            LOAD_ROWS(q + i * TILE_NUMBERS, q + next + i * TILE_NUMBERS);
            LOAD_COLUMNS(k, k + TILE_NUMBERS);
            DOT_SQUARE();
            weigh_due(t, beside, false);
        }
    }
    SQUARE_STORE(to - 2 * TILE_SUMS, below - 2 * TILE_SUMS);
}

// The sums of a strip's weights, by tiles of ones, of 32 keys and others by turns.
static void sum_words(const struct strips *t, int32_t strip, int32_t begin, int32_t end)
{
    static const _Alignas(64) uint32_t ones[TILE_SUMS] = {
#define ONES 0x3f803f80, 0x3f803f80, 0x3f803f80, 0x3f803f80
#define MORE ONES, ONES, ONES, ONES
        MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE,
        MORE, MORE, MORE, MORE, MORE, MORE, MORE, MORE,
#undef MORE
#undef ONES
    };
    const uint16_t *w = t->tiles.weights, *below = w + MOST_HALVES * TILE_NUMBERS;
    float *sum = t->tiles.rows.sum + 2 * strip * LANES;
    SQUARE_BEGIN();
    tile_load(6, ones, TILE_ROW_BYTES);
    for (int32_t h = begin; h < end; h++) {
        LOAD_ROWS(w + h * TILE_NUMBERS, below + h * TILE_NUMBERS);
        tile_dot_bf16(0, 4, 6);
        tile_dot_bf16(1, 5, 6);
        if (++h == end)
            break;
        LOAD_ROWS(w + h * TILE_NUMBERS, below + h * TILE_NUMBERS);
        tile_dot_bf16(2, 4, 6);
        tile_dot_bf16(3, 5, 6);
    }
    SQUARE_STORE(t->sums, t->sums + 2 * TILE_SUMS);
    tiles_written();
    for (int b = 0; b < 2; b++) {
        __m512 all = _mm512_loadu_ps(sum + b * LANES);
        for (int r = 0; r < LANES; r++) {
            const float *row = t->sums + (b * LANES + r) * LANES;
            all = _mm512_mask_add_ps(all, (__mmask16)(1 << r), all,
                                     vf32_add(vf32_load(row), vf32_load(row + 2 * TILE_SUMS)));
        }
        _mm512_storeu_ps(sum + b * LANES, all);
    }
}

static __attribute__((noinline)) void add_strip(const struct strips *t, int32_t strip,
                                                int32_t begin, int32_t end)
{
    const struct rows *s = &t->tiles.rows;
    const uint16_t *w = t->tiles.weights, *below = w + MOST_HALVES * TILE_NUMBERS;
    const int64_t pairs = s->call->v.dim / GROUP;
    float *acc = sums_of(s, 2 * strip), *next = sums_of(s, 2 * strip + 1);
    const bool begun = t->begun[strip];
    w += begin * TILE_NUMBERS, below += begin * TILE_NUMBERS;
    SQUARE_LOAD(acc, next);
    for (int64_t c = 0; c < pairs; c++, acc += 2 * TILE_SUMS, next += 2 * TILE_SUMS) {
        const uint16_t *v = t->tiles.values + c * t->tiles.value_pair + begin * 2 * TILE_NUMBERS;
        if (c > 0) {
            SQUARE_TURN(acc - 2 * TILE_SUMS, next - 2 * TILE_SUMS, BEGIN_AT, acc, next, w, below, v,
                        v + TILE_NUMBERS);
            v += 2 * TILE_NUMBERS;
        }
        for (int64_t h = c > 0; h < end - begin; h++, v += 2 * TILE_NUMBERS) {
            LOAD_ROWS(w + h * TILE_NUMBERS, below + h * TILE_NUMBERS);
            LOAD_COLUMNS(v, v + TILE_NUMBERS);
            DOT_SQUARE();
        }
    }
    SQUARE_STORE(acc - 2 * TILE_SUMS, next - 2 * TILE_SUMS);
    t->begun[strip] = true;
    if (t->words)
        sum_words(t, strip, begin, end);
}

INLINE void gather_slot_of(struct strips *t, weft_dtype kv)
{
    gather_strip_keys(t, kv);
    gather_values_to(&t->tiles, kv, t->tiles.values + t->slots * HALVES * t->tiles.value_half);
}

static void gather_slot(struct strips *t)
{
    switch (t->tiles.rows.call->k.dtype) {
    case WEFT_INT8: gather_slot_of(t, WEFT_INT8); break;
    case WEFT_FP8_E4M3: gather_slot_of(t, WEFT_FP8_E4M3); break;
    case WEFT_FP8_E5M2: gather_slot_of(t, WEFT_FP8_E5M2); break;
    default: gather_slot_of(t, WEFT_BF16);
    }
}

weft__attention_fn weft__attention_BF16_avx512bf16, weft__attention_INT8_avx512bf16,
    weft__attention_FP8_E4M3_avx512bf16, weft__attention_FP8_E5M2_avx512bf16,
    weft__attention_BF16_avx512, weft__attention_ANY_avx512;

// Few rows in f32. Numbers below 2^-126 are zero, as in products of pairs: whether one of them meets an
// infinity makes a NaN must not depend on how many rows a tile has.
static void attend_few(const struct weft__attention_call *call,
                       const struct weft__attention_tile *tiles, int32_t count)
{
    const unsigned zeros = _MM_DENORMALS_ZERO_ON | _MM_FLUSH_ZERO_ON, before = _mm_getcsr();
    _mm_setcsr(before | zeros);
    if (is_code(call->k.dtype))
        weft__attention_ANY_avx512(call, tiles, count);
    else
        weft__attention_BF16_avx512(call, tiles, count);
    _mm_setcsr(before);
}

// The kernel of pairs, which serves everything.
static weft__attention_fn *pairs_for(weft_dtype kv)
{
    switch (kv) {
    case WEFT_INT8: return weft__attention_INT8_avx512bf16;
    case WEFT_FP8_E4M3: return weft__attention_FP8_E4M3_avx512bf16;
    case WEFT_FP8_E5M2: return weft__attention_FP8_E5M2_avx512bf16;
    default: return weft__attention_BF16_avx512bf16;
    }
}

enum { BF16_F32_ROWS = 4 };

// Are few rows faster in f32? vdpbf16ps is issued once in two clocks here, and tiles want 16 rows.
static bool takes_few(const struct weft__attention_call *call, int32_t rows)
{
    const bool scattered = weft__attention_is_scattered(&call->mask);
    switch (call->k.dtype) {
    case WEFT_INT8: return false; // integers do it
    case WEFT_BF16:
        return rows <= WEFT__ATTENTION_FEW_ROWS &&
               (!scattered || weft__attention_is_late(&call->mask));
    default: return rows <= WEFT__ATTENTION_FEW_ROWS / 2 && !scattered && call->k.dim % 16 == 0;
    }
}

// Who serves tiles of `rows` rows in place of the tiles of AMX; NULL: these do.
static weft__attention_fn *instead(const struct weft__attention_call *call, int32_t rows)
{
    if (takes_few(call, rows))
        return attend_few;
    return (call->k.dtype == WEFT_INT8 && rows <= WEFT__ATTENTION_FEW_ROWS) ||
                   call->k.dim % GROUP != 0 || call->softcap > 0 || call->alibi_slopes
               ? pairs_for(call->k.dtype)
               : NULL;
}

static void attend_on_tiles(const struct weft__attention_call *call,
                            const struct weft__attention_tile *tiles, int32_t count)
{
    tiles_begin(16);
    for (int32_t n, i = 0; i < count; i += n) {
        n = alike(call, tiles + i, count - i);
        if (n > 0)
            attend_strips(call, tiles + i, n,
                          (struct strip_products){gather_slot, score_strip, add_strip}, false);
        else
            pairs_for(call->k.dtype)(call, tiles + i, 1), n = 1;
    }
    tiles_end();
}

// Are tiles of so many rows done by tiles of AMX that are as wide (attention_few_amx.c)?
static bool is_few_on_tiles(const struct weft__attention_call *call, int32_t rows)
{
    const bool in_f32 = call->k.dtype == WEFT_BF16 && rows <= BF16_F32_ROWS;
    return rows <= LANES && !(in_f32 && takes_few(call, rows)) && call->k.dim % GROUP == 0 &&
           call->v.dim % GROUP == 0 && call->softcap <= 0 && !call->alibi_slopes;
}

// The first tiles that are alike, or one without keys. Returns how many.
static int32_t attend_few_on_tiles(const struct weft__attention_call *call,
                                   const struct weft__attention_tile *tiles, int32_t count)
{
    const int32_t n = weft__attention_few_on_tiles(call, tiles, count);
    if (n > 0)
        return n;
    pairs_for(call->k.dtype)(call, tiles, 1);
    return 1;
}

// The first tiles that are as few, or as many rows.
static int32_t attend_alike(const struct weft__attention_call *call,
                            const struct weft__attention_tile *tiles, int32_t count)
{
    const int32_t rows = weft__attention_rows(call, tiles);
    if (is_few_on_tiles(call, rows))
        return attend_few_on_tiles(call, tiles, count);
    weft__attention_fn *other = instead(call, rows);
    int32_t n = 1;
    for (; n < count; n++) {
        const int32_t next = weft__attention_rows(call, &tiles[n]);
        if (is_few_on_tiles(call, next) || instead(call, next) != other)
            break;
    }
    (other ? other : attend_on_tiles)(call, tiles, n);
    return n;
}

static void attend(const struct weft__attention_call *call,
                   const struct weft__attention_tile *tiles, int32_t count)
{
    for (int32_t i = 0; i < count;)
        i += attend_alike(call, tiles + i, count - i);
}

#define ATTENTION(kv)                                                                              \
    weft__attention_fn weft__attention_##kv##_amx;                                                 \
    void weft__attention_##kv##_amx(const struct weft__attention_call *call,                       \
                                    const struct weft__attention_tile *tiles, int32_t count)       \
    {                                                                                              \
        attend(call, tiles, count);                                                                \
    }

ATTENTION(BF16)
ATTENTION(INT8)
ATTENTION(FP8_E4M3)
ATTENTION(FP8_E5M2)
