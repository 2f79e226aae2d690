// SPDX-License-Identifier: MIT
// Sampling, written to be read: order the whole vocabulary, cut, draw.
#include <math.h>

#include "src/kernels/sample/sample_kernel.h"

static bool before(const float *logits, int32_t a, int32_t b)
{
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

// Restores the heap below `root`: no parent comes before its children.
static void sift(const float *logits, int32_t *ids, int32_t root, int32_t count)
{
    for (int64_t child = 2 * (int64_t)root + 1; child < count; child = 2 * (int64_t)root + 1) {
        if (child + 1 < count && before(logits, ids[child], ids[child + 1]))
            child++;
        if (!before(logits, ids[root], ids[child]))
            return;
        int32_t id = ids[root];
        ids[root] = ids[child];
        ids[child] = id;
        root = (int32_t)child;
    }
}

// Heap sort: likeliest first.
static void order(const float *logits, int32_t *ids, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        ids[i] = i;
    for (int32_t i = count / 2; i-- > 0;)
        sift(logits, ids, i, count);
    for (int32_t last = count - 1; last > 0; last--) {
        int32_t id = ids[0];
        ids[0] = ids[last];
        ids[last] = id;
        sift(logits, ids, 0, last);
    }
}

struct distribution {
    const float *logits;
    double largest, temperature;
};

// The probability of a token, relative to the likeliest one's.
static double weight(const struct distribution *d, int32_t id)
{
    return exp((d->logits[id] - d->largest) / d->temperature);
}

static double weight_sum(const struct distribution *d, const int32_t *ids, int32_t count)
{
    double sum = 0;
    for (int32_t i = 0; i < count; i++)
        sum += weight(d, ids[i]);
    return sum;
}

// How many of the ordered ids survive top-k, top-p and min-p; at least one.
static int32_t survivors(const struct distribution *d, const weft_sample_params *params,
                         const int32_t *ids, int32_t vocab)
{
    int32_t kept = params->top_k > 0 && params->top_k < vocab ? params->top_k : vocab;
    if (params->top_p > 0 && params->top_p < 1) {
        double wanted = params->top_p * weight_sum(d, ids, kept), sum = 0;
        int32_t count = 0;
        while (count < kept && sum < wanted)
            sum += weight(d, ids[count++]);
        kept = count;
    }
    while (kept > 1 && weight(d, ids[kept - 1]) < params->min_p)
        kept--;
    return kept;
}

// Walks the survivors in order of id. flags is all zero.
static int32_t draw(const struct distribution *d, const int32_t *ids, int32_t kept, double u,
                    int32_t *flags, int32_t vocab)
{
    double target = u * weight_sum(d, ids, kept), sum = 0;
    int32_t chosen = ids[0];
    for (int32_t i = 0; i < kept; i++)
        flags[ids[i]] = 1;
    for (int32_t id = 0; id < vocab && sum <= target; id++) {
        double w = flags[id] ? weight(d, id) : 0;
        if (w > 0)
            chosen = id;
        sum += w;
    }
    return chosen;
}

weft__sample_fn weft__sample_sort_ref;
void weft__sample_sort_ref(int32_t vocab, const weft_sample_params *params, const float *logits,
                           const struct weft__sample_scratch *scratch, int32_t *token,
                           float *logprob)
{
    bool any = weft__sample_prepare(vocab, params, logits, scratch);
    order(scratch->logits, scratch->ids, vocab);
    struct distribution d = {scratch->logits, scratch->logits[scratch->ids[0]],
                             params->temperature == 0 ? 1 : params->temperature};
    if (!any || d.largest == -INFINITY) {
        *token = 0;
        if (logprob)
            *logprob = -INFINITY;
        return;
    }
    *token = scratch->ids[0];
    if (params->temperature > 0) {
        int32_t kept = survivors(&d, params, scratch->ids, vocab);
        double u = weft__sample_uniform(params->seed, params->step);
        memset(scratch->counts, 0, (size_t)vocab * sizeof *scratch->counts);
        *token = draw(&d, scratch->ids, kept, u, scratch->counts, vocab);
    }
    if (logprob)
        *logprob = (float)((scratch->logits[*token] - d.largest) / d.temperature -
                           log(weight_sum(&d, scratch->ids, vocab)));
}
