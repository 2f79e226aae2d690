// SPDX-License-Identifier: MIT
#include "engine/sample/shape.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

enum { DRY_LONGEST = 256 }; // of a repetition that is measured

// Those that are left, the likeliest first; of equal ones the lower id.
typedef struct shaped {
    const shape_room *room;
    shape_candidate *list;
    int32_t count;
    const weft_sample_params *params;
    const engine_shaping *shaping;
    const shape_text *text;
} shaped;

bool shape_room_make(shape_room *room, int32_t vocab)
{
    *room = (shape_room){.vocab = vocab};
    room->list = engine_alloc((size_t)vocab, sizeof *room->list);
    room->spare = engine_alloc((size_t)vocab, sizeof *room->spare);
    return room->list && room->spare;
}

void shape_room_free(shape_room *room)
{
    free(room->list);
    free(room->spare);
    *room = (shape_room){0};
}

// --- order --------------------------------------------------------------------------------------------

// A number that is the smaller, the larger the logit.
static uint32_t key_of(float logit)
{
    uint32_t bits;
    memcpy(&bits, &logit, sizeof bits);
    return bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
}

// Radix sort, which keeps the order of equal ones.
static void sort_by_logit(shaped *s)
{
    enum { BITS = 11, DIGITS = 1 << BITS };
    shape_candidate *from = s->list, *to = s->room->spare == from ? s->room->list : s->room->spare;
    for (int shift = 0; shift < 32; shift += BITS) {
        int32_t places[DIGITS + 1] = {0};
        for (int32_t i = 0; i < s->count; i++)
            places[(key_of(from[i].logit) >> shift) % DIGITS + 1]++;
        for (int d = 0; d < DIGITS; d++)
            places[d + 1] += places[d];
        for (int32_t i = 0; i < s->count; i++)
            to[places[(key_of(from[i].logit) >> shift) % DIGITS]++] = from[i];
        shape_candidate *other = from;
        from = to;
        to = other;
    }
    s->list = from;
}

// --- probabilities ------------------------------------------------------------------------------------

// ln of the sum of exp, from which ln p follows.
static double log_sum(const shaped *s)
{
    double sum = 0, largest = s->count > 0 ? s->list[0].logit : 0;
    for (int32_t i = 0; i < s->count; i++)
        sum += exp(s->list[i].logit - largest);
    return largest + log(sum);
}

static double entropy(const shaped *s, double all)
{
    double sum = 0;
    for (int32_t i = 0; i < s->count; i++) {
        double ln = s->list[i].logit - all;
        sum -= ln > -700 ? exp(ln) * ln : 0;
    }
    return sum;
}

// --- on whole rows, before anything is sorted out -----------------------------------------------------

// Of tokens of the text, by id: how often, or how far. Zero for all others.
static void count_none(shape_candidate *by_id, int32_t vocab, const int32_t *ids, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        if (ids[i] >= 0 && ids[i] < vocab)
            by_id[ids[i]].logit = 0;
}

static void penalise(float *row, int32_t vocab, const weft_sample_params *params,
                     const shape_text *text, shape_candidate *times)
{
    int32_t window = text->penalty_window < text->count ? text->penalty_window : text->count;
    const int32_t *ids = text->ids + text->count - window;
    double repetition = params->repetition_penalty == 0 ? 1 : params->repetition_penalty;
    count_none(times, vocab, ids, window);
    for (int32_t i = 0; i < window; i++)
        if (ids[i] >= 0 && ids[i] < vocab)
            times[ids[i]].logit++;
    for (int32_t i = 0; i < window; i++) {
        int32_t id = ids[i];
        if (id < 0 || id >= vocab || !isfinite(row[id]) || times[id].logit == 0)
            continue;
        double logit = row[id] > 0 ? row[id] / repetition : row[id] * repetition;
        logit -= (double)params->frequency_penalty * times[id].logit + params->presence_penalty;
        row[id] = (float)fmin(fmax(logit, -FLT_MAX), FLT_MAX);
        times[id].logit = 0; // once
    }
}

static bool breaks(const engine_shaping *shaping, int32_t id)
{
    int32_t low = 0, high = shaping->dry_breaker_count;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (shaping->dry_breakers[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < shaping->dry_breaker_count && shaping->dry_breakers[low] == id;
}

// Takes from the logit of each token that would make the end of the text repeat what stands before it.
static void discourage_repetition(float *row, int32_t vocab, const engine_shaping *shaping,
                                  const shape_text *text, shape_candidate *worst)
{
    int32_t window = (int32_t)shaping->dry_window, first = 0, longest = 0;
    if (window > 0 && window < text->count)
        first = text->count - window;
    const int32_t *ids = text->ids + first;
    int32_t count = text->count - first;
    while (longest < count && longest < DRY_LONGEST && !breaks(shaping, ids[count - 1 - longest]))
        longest++;
    // The longest repetition that each token would go on with.
    count_none(worst, vocab, ids, count);
    for (int32_t i = count - 1; i > 0 && longest > 0; i--) {
        int32_t same = 0;
        while (same < longest && same < i && ids[i - 1 - same] == ids[count - 1 - same])
            same++;
        if (same >= (int32_t)shaping->dry_allowed_length && ids[i] >= 0 && ids[i] < vocab)
            worst[ids[i]].logit = fmaxf(worst[ids[i]].logit, (float)same);
    }
    for (int32_t i = 0; i < count; i++) {
        int32_t id = ids[i];
        if (id < 0 || id >= vocab || worst[id].logit == 0)
            continue;
        double over = worst[id].logit - floor(shaping->dry_allowed_length);
        double logit = row[id] - shaping->dry_multiplier * pow(shaping->dry_base, over);
        if (isfinite(row[id]))
            row[id] = (float)fmax(logit, -FLT_MAX);
        worst[id].logit = 0; // once
    }
}

// --- on those that are left ---------------------------------------------------------------------------

static void keep_first(shaped *s, int32_t count)
{
    s->count = count < 1 ? 1 : count < s->count ? count : s->count;
}

static void cut_sigma(shaped *s)
{
    double sum = 0, squares = 0, n = s->count;
    for (int32_t i = 0; i < s->count; i++)
        sum += s->list[i].logit;
    for (int32_t i = 0; i < s->count; i++)
        squares += (s->list[i].logit - sum / n) * (s->list[i].logit - sum / n);
    double least = s->list[0].logit - s->shaping->top_n_sigma * sqrt(squares / n);
    int32_t kept = 1;
    while (kept < s->count && s->list[kept].logit >= least)
        kept++;
    keep_first(s, kept);
}

static void cut_top_p(shaped *s)
{
    double all = log_sum(s), sum = 0;
    int32_t kept = 0;
    while (kept < s->count && sum < s->params->top_p)
        sum += exp(s->list[kept++].logit - all);
    keep_first(s, kept);
}

static void cut_min_p(shaped *s)
{
    double least = s->list[0].logit + log(s->params->min_p);
    int32_t kept = 1;
    while (kept < s->count && s->list[kept].logit >= least)
        kept++;
    keep_first(s, kept);
}

// The logit in `spare` is how far the surprise is from the expected one, negated, so that the order is that of logits.
static void cut_typical(shaped *s)
{
    double all = log_sum(s), expected = entropy(s, all), sum = 0;
    shaped by_distance = *s;
    float *logits = s->room->host;
    for (int32_t i = 0; i < s->count; i++) {
        logits[s->list[i].id] = s->list[i].logit;
        s->list[i].logit = (float)-fabs(all - s->list[i].logit - expected);
    }
    sort_by_logit(&by_distance);
    int32_t kept = 0;
    while (kept < s->count && sum < s->shaping->typical_p)
        sum += exp(logits[by_distance.list[kept++].id] - all);
    for (int32_t i = 0; i < s->count; i++)
        by_distance.list[i].logit = logits[by_distance.list[i].id];
    keep_first(&by_distance, kept);
    sort_by_logit(&by_distance);
    *s = by_distance;
}

// A number in [0, 1) of seed and position, another than the one that the token is drawn with.
static double chance(const weft_sample_params *params)
{
    uint64_t x = params->seed ^ (params->step + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) / 9007199254740992.0;
}

static void exclude_top_choices(shaped *s)
{
    double least = log_sum(s) + log(s->shaping->xtc_threshold);
    int32_t likely = 0;
    while (likely < s->count && s->list[likely].logit >= least)
        likely++;
    if (likely < 2 || chance(s->params) >= s->shaping->xtc_probability)
        return;
    s->count -= likely - 1;
    memmove(s->list, s->list + likely - 1, (size_t)s->count * sizeof *s->list);
}

static void heat(shaped *s)
{
    double temperature = s->params->temperature, range = s->shaping->dynatemp_range;
    if (range > 0) {
        double low = fmax(0, temperature - range), high = temperature + range, share = 0;
        if (s->count > 1)
            share = fmin(1, fmax(0, entropy(s, log_sum(s)) / log(s->count)));
        temperature = low + (high - low) * pow(share, s->shaping->dynatemp_exponent);
    }
    if (temperature <= 0) {
        keep_first(s, 1);
        return;
    }
    double largest = s->list[0].logit;
    for (int32_t i = 0; i < s->count; i++)
        s->list[i].logit = (float)((s->list[i].logit - largest) / temperature);
}

static float mu_of(const engine_shaping *shaping, float mu)
{
    return mu > 0 ? mu : 2 * shaping->mirostat_tau;
}

static void cut_surprise(shaped *s)
{
    double all = log_sum(s), mu = mu_of(s->shaping, s->text->mu);
    int32_t kept = 1;
    while (kept < s->count && (all - s->list[kept].logit) / log(2) <= mu)
        kept++;
    keep_first(s, kept);
}

// --- all of them --------------------------------------------------------------------------------------

static void run_on_row(engine_sampler sampler, shaped *s)
{
    float *row = s->room->host;
    if (sampler == ENGINE_SAMPLER_PENALTIES)
        penalise(row, s->room->vocab, s->params, s->text, s->room->spare);
    if (sampler == ENGINE_SAMPLER_DRY && s->shaping->dry_multiplier > 0)
        discourage_repetition(row, s->room->vocab, s->shaping, s->text, s->room->spare);
}

static bool cuts(float value)
{
    return value > 0 && value < 1;
}

static void run_on_list(engine_sampler sampler, shaped *s)
{
    bool mirostat = s->shaping->mirostat_tau > 0; // takes the place of all cuts
    switch (sampler) {
    case ENGINE_SAMPLER_TEMPERATURE: heat(s); return;
    case ENGINE_SAMPLER_MIROSTAT:
        if (mirostat)
            cut_surprise(s);
        return;
    default: break;
    }
    if (mirostat)
        return;
    if (sampler == ENGINE_SAMPLER_TOP_N_SIGMA && s->shaping->top_n_sigma > 0)
        cut_sigma(s);
    if (sampler == ENGINE_SAMPLER_TOP_K && s->params->top_k > 0)
        keep_first(s, s->params->top_k);
    if (sampler == ENGINE_SAMPLER_TYPICAL && cuts(s->shaping->typical_p))
        cut_typical(s);
    if (sampler == ENGINE_SAMPLER_TOP_P && cuts(s->params->top_p))
        cut_top_p(s);
    if (sampler == ENGINE_SAMPLER_MIN_P && s->params->min_p > 0)
        cut_min_p(s);
    if (sampler == ENGINE_SAMPLER_XTC && s->shaping->xtc_probability > 0)
        exclude_top_choices(s);
}

static void list_finite(shaped *s)
{
    s->list = s->room->list;
    s->count = 0;
    for (int32_t id = 0; id < s->room->vocab; id++)
        if (isfinite(s->room->host[id]))
            s->list[s->count++] = (shape_candidate){id, s->room->host[id]};
    sort_by_logit(s);
}

// Those that change logits by the text go first, in their order, whatever else is between.
void shape_row(const shape_room *room, const float *logits, const weft_sample_params *params,
               const engine_shaping *shaping, const shape_text *text)
{
    shaped s = {.room = room, .params = params, .shaping = shaping, .text = text};
    int32_t count = shaping->order_count > 0 ? shaping->order_count : ENGINE_SAMPLER_COUNT;
    bool greedy = params->temperature == 0 && shaping->dynatemp_range == 0;
    memcpy(room->host, logits, (size_t)room->vocab * sizeof *logits);
    for (int32_t n = 0; n < count; n++)
        run_on_row(shaping->order_count > 0 ? shaping->order[n] : (engine_sampler)n, &s);
    if (greedy)
        return;
    list_finite(&s);
    for (int32_t n = 0; n < count && s.count > 0; n++)
        run_on_list(shaping->order_count > 0 ? shaping->order[n] : (engine_sampler)n, &s);
    for (int32_t id = 0; id < room->vocab; id++)
        room->host[id] = -INFINITY;
    for (int32_t i = 0; i < s.count; i++)
        room->host[s.list[i].id] = s.list[i].logit;
}

float shape_mu(const shape_room *room, const engine_shaping *shaping, float mu, int32_t token)
{
    double sum = 0, largest = -INFINITY;
    for (int32_t id = 0; id < room->vocab; id++)
        largest = room->host[id] > largest ? room->host[id] : largest;
    for (int32_t id = 0; id < room->vocab; id++)
        sum += isfinite(room->host[id]) ? exp(room->host[id] - largest) : 0;
    double surprise = (largest + log(sum) - room->host[token]) / log(2);
    double next = mu_of(shaping, mu) - shaping->mirostat_eta * (surprise - shaping->mirostat_tau);
    return next > 1e-6 ? (float)next : 1e-6f; // 0 means that the text begins
}
