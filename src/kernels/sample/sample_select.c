// SPDX-License-Identifier: MIT
#include "src/kernels/sample/sample_select.h"

#include <float.h>
#include <math.h>

// A row at work.
struct row {
    const struct weft__sample_passes *passes;
    const weft_sample_params *params;
    const struct weft__sample_scratch *scratch;
    int32_t vocab;
    float *maxima; // of the blocks, in the plane of counts while that is idle
    float largest, temperature;
    double sum; // of all weights; -1 if they have not been computed
};

static bool before(const float *logits, int32_t a, int32_t b)
{
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

static int32_t pivot_of(const float *logits, int32_t a, int32_t b, int32_t c)
{
    if (before(logits, b, a)) {
        int32_t swapped = a;
        a = b;
        b = swapped;
    }
    return before(logits, c, a) ? a : before(logits, b, c) ? b : c;
}

static void swap(int32_t *ids, int32_t i, int32_t j)
{
    int32_t id = ids[i];
    ids[i] = ids[j];
    ids[j] = id;
}

// Moves what comes before the pivot to the front of ids[low, high), the pivot behind it; returns where
// it then is.
static int32_t partition(const float *logits, int32_t *ids, int32_t low, int32_t high)
{
    int32_t pivot = pivot_of(logits, ids[low], ids[low + (high - low) / 2], ids[high - 1]);
    int32_t at = low;
    for (int32_t i = low; i < high; i++)
        if (before(logits, ids[i], pivot))
            swap(ids, i, at++);
    for (int32_t i = at; i < high; i++)
        if (ids[i] == pivot) {
            swap(ids, i, at);
            break;
        }
    return at;
}

// Reorders the ids so that the shortest prefix, by the order of the contract, whose measures reach
// `goal` comes first; returns its length. A measure is a token's weight, or 1 where weights is NULL.
static int32_t prefix(const float *logits, const float *weights, int32_t *ids, int32_t count,
                      double goal)
{
    int32_t low = 0, high = count;
    double reached = 0;
    while (low < high) {
        int32_t middle = partition(logits, ids, low, high);
        double front = 0;
        for (int32_t i = low; i < middle; i++)
            front += weights ? weights[ids[i]] : 1;
        double own = weights ? weights[ids[middle]] : 1;
        if (reached + front >= goal) {
            high = middle;
        } else if (reached + front + own >= goal) {
            return middle + 1;
        } else {
            reached += front + own;
            low = middle + 1;
        }
    }
    return high > 0 ? high : 1;
}

static int32_t block_count(const struct row *row)
{
    return (row->vocab + WEFT__SAMPLE_BLOCK - 1) / WEFT__SAMPLE_BLOCK;
}

static int32_t block_length(const struct row *row, int32_t block)
{
    int32_t left = row->vocab - block * WEFT__SAMPLE_BLOCK;
    return left < WEFT__SAMPLE_BLOCK ? left : WEFT__SAMPLE_BLOCK;
}

static void find_maxima(struct row *row)
{
    row->largest = -INFINITY;
    for (int32_t i = 0; i < block_count(row); i++) {
        row->maxima[i] = row->passes->largest(row->scratch->logits + i * WEFT__SAMPLE_BLOCK,
                                              block_length(row, i));
        row->largest = fmaxf(row->largest, row->maxima[i]);
    }
}

// The lowest id with the largest logit.
static int32_t likeliest(const struct row *row)
{
    int32_t block = 0, id;
    while (row->maxima[block] != row->largest)
        block++;
    id = block * WEFT__SAMPLE_BLOCK;
    while (row->scratch->logits[id] != row->largest)
        id++;
    return id;
}

static float inverse_temperature(const struct row *row)
{
    return fminf(1 / row->temperature, FLT_MAX);
}

static bool has_top_k(const struct row *row)
{
    return row->params->top_k > 0 && row->params->top_k < row->vocab;
}

static bool has_top_p(const struct row *row)
{
    return row->params->top_p > 0 && row->params->top_p < 1;
}

// The logit of a token of the given weight, a little lower, so that rounding loses no survivor.
static float logit_of_weight(const struct row *row, double weight)
{
    double logit = row->largest + row->temperature * (log(weight) - 0.01);
    return (float)(logit - 1e-5 * fabs(logit) - FLT_MIN);
}

// A weight that some tokens reach which together reach top-p: found by passes over the weights, as it
// leaves far fewer candidates to quickselect than the least weight that could matter.
static double nucleus_weight(const struct row *row)
{
    double goal = row->params->top_p * row->sum;
    for (float weight = 0.25f; weight > 1e-9f; weight *= 0.25f)
        if (row->passes->sum_from(row->scratch->weights, row->vocab, weight) >= goal)
            return weight;
    // Tokens that are rarer than this sum to less than 1 - p, all of them together.
    return (1 - (double)row->params->top_p) * row->sum / row->vocab;
}

// No survivor has a lower logit.
static float floor_logit(const struct row *row)
{
    const weft_sample_params *params = row->params;
    int32_t blocks = block_count(row), *order = row->scratch->ids;
    float least = -INFINITY;
    if (has_top_k(row) && params->top_k <= blocks) {
        // k blocks hold k tokens that are at least as likely as the k-th block's best.
        for (int32_t i = 0; i < blocks; i++)
            order[i] = i;
        prefix(row->maxima, NULL, order, blocks, params->top_k);
        least = row->maxima[order[0]];
        for (int32_t i = 1; i < params->top_k; i++)
            least = fminf(least, row->maxima[order[i]]);
    }
    if (has_top_p(row) && !has_top_k(row))
        least = logit_of_weight(row, nucleus_weight(row));
    // Top-p counts the sum of what top-k left, also of what min-p will drop.
    if (params->min_p > 0 && !(has_top_k(row) && has_top_p(row)))
        least = fmaxf(least, logit_of_weight(row, params->min_p));
    return least;
}

// Ids of logits from `least` up, in order of id, into scratch->ids.
static int32_t gather(const struct row *row, float least)
{
    const float *logits = row->scratch->logits;
    int32_t count = 0;
    for (int32_t block = 0; block < block_count(row); block++) {
        if (row->maxima[block] < least)
            continue;
        int32_t first = block * WEFT__SAMPLE_BLOCK, length = block_length(row, block);
        for (int32_t id = first; id < first + length; id++) {
            row->scratch->ids[count] = id;
            count += logits[id] >= least;
        }
    }
    return count;
}

// The last survivor in the order of the contract, of `count` candidates.
static int32_t last_survivor(const struct row *row, int32_t count)
{
    const float *logits = row->scratch->logits, *weights = row->scratch->weights;
    int32_t *order = row->scratch->counts;
    memcpy(order, row->scratch->ids, (size_t)count * sizeof *order);
    if (has_top_k(row))
        count = prefix(logits, NULL, order, count, row->params->top_k);
    if (has_top_p(row)) {
        double sum = has_top_k(row) ? 0 : row->sum;
        for (int32_t i = 0; has_top_k(row) && i < count; i++)
            sum += weights[order[i]];
        count = prefix(logits, weights, order, count, row->params->top_p * sum);
    }
    int32_t last = order[0];
    for (int32_t i = 1; i < count; i++)
        if (before(logits, last, order[i]))
            last = order[i];
    return last;
}

// Draws from the candidates that survive.
static int32_t draw_candidate(const struct row *row, int32_t count, double u)
{
    const float *logits = row->scratch->logits, *weights = row->scratch->weights;
    int32_t *ids = row->scratch->ids, last = last_survivor(row, count), kept = 0;
    double all = 0, sum = 0;
    for (int32_t i = 0; i < count; i++)
        if (!before(logits, last, ids[i]) && weights[ids[i]] >= row->params->min_p) {
            ids[kept++] = ids[i];
            all += weights[ids[i]];
        }
    int32_t chosen = ids[0];
    for (int32_t i = 0; i < kept && sum <= u * all; i++) {
        if (weights[ids[i]] > 0)
            chosen = ids[i];
        sum += weights[ids[i]];
    }
    return chosen;
}

// Draws from all tokens: first the block, then the token.
static int32_t draw_any(const struct row *row, double u)
{
    const float *weights = row->scratch->weights;
    double target = u * row->sum, sum = 0;
    int32_t chosen = likeliest(row);
    for (int32_t block = 0; block < block_count(row); block++) {
        int32_t first = block * WEFT__SAMPLE_BLOCK, length = block_length(row, block);
        double own = row->passes->sum_from(weights + first, length, 0);
        if (sum + own <= target) {
            sum += own;
            continue;
        }
        for (int32_t id = first; id < first + length && sum <= target; id++) {
            if (weights[id] > 0)
                chosen = id;
            sum += weights[id];
        }
        return chosen;
    }
    return chosen;
}

static int32_t draw(const struct row *row)
{
    double u = weft__sample_uniform(row->params->seed, row->params->step);
    if (!has_top_k(row) && !has_top_p(row) && !(row->params->min_p > 0))
        return draw_any(row, u);
    int32_t count = gather(row, floor_logit(row));
    float inverse = inverse_temperature(row);
    for (int32_t i = 0; row->sum < 0 && i < count; i++) {
        int32_t id = row->scratch->ids[i];
        row->scratch->weights[id] = expf((row->scratch->logits[id] - row->largest) * inverse);
    }
    return draw_candidate(row, count, u);
}

void weft__sample_select(const struct weft__sample_passes *passes, int32_t vocab,
                         const weft_sample_params *params, const float *logits,
                         const struct weft__sample_scratch *scratch, int32_t *token, float *logprob)
{
    struct row row = {.passes = passes,
                      .params = params,
                      .scratch = scratch,
                      .vocab = vocab,
                      .maxima = (void *)scratch->counts,
                      .temperature = params->temperature == 0 ? 1 : params->temperature,
                      .sum = -1};
    bool any = passes->copy(logits, vocab, scratch->logits);
    weft__sample_penalise(params, scratch);
    find_maxima(&row);
    if (!any || row.largest == -INFINITY) {
        *token = 0;
        if (logprob)
            *logprob = -INFINITY;
        return;
    }
    if (logprob || (params->temperature > 0 && !has_top_k(&row)))
        row.sum = passes->weigh(scratch->logits, vocab, row.largest, inverse_temperature(&row),
                                scratch->weights);
    *token = params->temperature > 0 ? draw(&row) : likeliest(&row);
    if (logprob)
        *logprob = (float)(((double)scratch->logits[*token] - row.largest) / row.temperature -
                           log(row.sum));
}
