// SPDX-License-Identifier: MIT
// Attention, written to be read: for every row the largest score, then the weights and the weighted
// sum of values, in double. Every format, layout and mask.
#include <float.h>
#include <math.h>

#include "src/kernels/attention/attention_kernel.h"

static const double LOG2E = 1.44269504088896340736;

// One row of a tile.
struct row {
    const struct weft__attention_call *call;
    const struct weft__attention_tile *tile;
    int32_t number, token, begin, end; // end: of the keys that it may see
    float q[WEFT__ATTENTION_MAX_DIM];
};

// The position of the query among the keys.
static int64_t position(const struct row *row)
{
    const struct weft__attention_lengths *lengths = &row->call->lengths;
    int32_t seq = row->tile->seq;
    return (int64_t)lengths->kv_lens[seq] -
           (lengths->cu_q_lens[seq + 1] - lengths->cu_q_lens[seq]) + row->token;
}

static int32_t head_of(const struct row *row)
{
    return weft__attention_head(row->call, row->tile, row->number);
}

static bool sees(const struct row *row, int32_t t)
{
    return weft__attention_word(row->call, row->tile->seq, row->token, head_of(row), t) & 1;
}

// log2(e) times the score of a key: in these units its weight is exp2(score - largest).
static double score(const struct row *row, int32_t t)
{
    const struct weft__attention_call *call = row->call;
    float key[WEFT__ATTENTION_MAX_DIM];
    double dot = 0;
    weft__attention_read(call, &call->k, row->tile->seq, row->tile->kv_head, t, key);
    for (int32_t i = 0; i < call->k.dim; i++)
        dot += (double)row->q[i] * key[i];
    dot *= call->scale;
    if (call->softcap > 0)
        dot = call->softcap * tanh(dot / call->softcap);
    if (call->alibi_slopes)
        dot -= call->alibi_slopes[head_of(row)] * fabs((double)(position(row) - t));
    if (call->mask.soft && !sees(row, t))
        dot = fmax(dot + call->mask_value, -FLT_MAX / LOG2E); // states are floats
    return dot * LOG2E;
}

static void attend(const struct row *row)
{
    const struct weft__attention_call *call = row->call;
    const struct weft__attention_tile *tile = row->tile;
    double largest = -INFINITY, sum = 0, acc[WEFT__ATTENTION_MAX_DIM] = {0};
    for (int32_t t = row->begin; t < row->end; t++)
        if (call->mask.soft || sees(row, t))
            largest = fmax(largest, score(row, t));
    // The state keeps it as a float: weigh against what that says, unless it is too coarse to tell.
    double from = largest == -INFINITY ? 0 : fabs(largest) < 0x1p24 ? (float)largest : largest;
    for (int32_t t = row->begin; t < row->end; t++) {
        float value[WEFT__ATTENTION_MAX_DIM];
        if (!call->mask.soft && !sees(row, t))
            continue;
        double weight = exp2(score(row, t) - from);
        weft__attention_read(call, &call->v, tile->seq, tile->kv_head, t, value);
        sum += weight;
        for (int32_t i = 0; i < call->v.dim; i++)
            acc[i] += weight * value[i];
    }
    float rounded[WEFT__ATTENTION_MAX_DIM];
    for (int32_t i = 0; i < call->v.dim; i++)
        rounded[i] = (float)acc[i];
    weft__attention_finish(call, tile, row->number, (float)largest, (float)sum, rounded);
}

static void attend_tile(const struct weft__attention_call *call,
                        const struct weft__attention_tile *tile)
{
    const struct weft__attention_lengths *lengths = &call->lengths;
    for (int32_t r = 0; r < weft__attention_rows(call, tile); r++) {
        struct row row = {.call = call, .tile = tile, .number = r};
        row.token = weft__attention_token(call, tile, r);
        struct weft__attention_span span = weft__attention_visible(
            &call->mask, lengths->cu_q_lens[tile->seq + 1] - lengths->cu_q_lens[tile->seq],
            lengths->kv_lens[tile->seq], weft__attention_start(lengths, tile->seq), row.token);
        row.begin = span.begin > tile->key0 ? span.begin : tile->key0;
        row.end = span.end < tile->key1 ? span.end : tile->key1;
        weft__attention_query(call, tile, r, row.q);
        attend(&row);
    }
}

weft__attention_fn weft__attention_ANY_ref;
void weft__attention_ANY_ref(const struct weft__attention_call *call,
                             const struct weft__attention_tile *tiles, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        attend_tile(call, &tiles[i]);
}

weft__attention_scratch_fn weft__attention_scratch_ref;
int64_t weft__attention_scratch_ref(int32_t rows, int32_t head_dim, int32_t v_dim)
{
    (void)rows, (void)head_dim, (void)v_dim;
    return 0;
}
