// SPDX-License-Identifier: MIT
// Attention, written to be read: for every row the largest score, then the weights and the weighted
// sum of values, in double.
#include <math.h>

#include "src/base/half.h"
#include "src/kernels/attention/attention_kernel.h"

typedef double load_fn(const void *elements, int64_t i);

static double load_F32(const void *elements, int64_t i)
{
    return ((const float *)elements)[i];
}

static double load_F16(const void *elements, int64_t i)
{
    return weft__f16_to_f32(((const uint16_t *)elements)[i]);
}

static double load_BF16(const void *elements, int64_t i)
{
    return weft__bf16_to_f32(((const uint16_t *)elements)[i]);
}

// log2(e) * softcap(scale * q.k): in these units the weight of a key is exp2(score - largest).
static double score(const struct weft__attention_call *call, const float *q, int64_t key_at,
                    load_fn *load)
{
    double dot = 0;
    for (int32_t i = 0; i < call->head_dim; i++)
        dot += q[i] * load(call->pool.k, key_at + i);
    dot *= call->scale;
    if (call->softcap > 0)
        dot = call->softcap * tanh(dot / call->softcap);
    return dot * 1.44269504088896340736;
}

static void row(const struct weft__attention_call *call, const struct weft__attention_tile *tile,
                int32_t r, load_fn *load)
{
    const int32_t *pages = call->page_table + tile->seq * call->page_table_stride;
    int32_t cu = call->cu_q_lens[tile->seq], token = tile->first_token + r / call->group_size;
    int64_t head = (int64_t)tile->kv_head * call->group_size + r % call->group_size;
    const float *q =
        call->q + (cu + (int64_t)token) * call->q_token_stride + head * call->q_head_stride;
    struct weft__attention_span span =
        weft__attention_visible(call->mask, call->window, call->cu_q_lens[tile->seq + 1] - cu,
                                call->kv_lens[tile->seq], token);
    int32_t begin = span.begin > tile->key0 ? span.begin : tile->key0;
    int32_t end = span.end < tile->key1 ? span.end : tile->key1;

    double largest = -INFINITY, sum = 0, acc[WEFT__ATTENTION_MAX_HEAD_DIM] = {0};
    for (int32_t t = begin; t < end; t++)
        largest = fmax(largest,
                       score(call, q, weft__attention_slot(call, pages, tile->kv_head, t), load));
    largest = (float)largest; // the state keeps it as a float: weigh against what it says
    double from = largest == -INFINITY ? 0 : largest;
    for (int32_t t = begin; t < end; t++) {
        int64_t at = weft__attention_slot(call, pages, tile->kv_head, t);
        double weight = exp2(score(call, q, at, load) - from);
        sum += weight;
        for (int32_t i = 0; i < call->head_dim; i++)
            acc[i] += weight * load(call->pool.v, at + i);
    }
    float rounded[WEFT__ATTENTION_MAX_HEAD_DIM];
    for (int32_t i = 0; i < call->head_dim; i++)
        rounded[i] = (float)acc[i];
    weft__attention_finish(call, tile, r, (float)largest, (float)sum, rounded);
}

#define ATTENTION_REF(kv)                                                                          \
    weft__attention_fn weft__attention_##kv##_ref;                                                 \
    void weft__attention_##kv##_ref(const struct weft__attention_call *call,                       \
                                    const struct weft__attention_tile *tile)                       \
    {                                                                                              \
        for (int32_t r = 0; r < tile->tokens * call->group_size; r++)                              \
            row(call, tile, r, load_##kv);                                                         \
    }

ATTENTION_REF(F32)
ATTENTION_REF(F16)
ATTENTION_REF(BF16)

weft__attention_scratch_fn weft__attention_scratch_ref;
int64_t weft__attention_scratch_ref(int32_t rows, int32_t head_dim)
{
    (void)rows, (void)head_dim;
    return 0;
}
