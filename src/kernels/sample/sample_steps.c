// SPDX-License-Identifier: MIT
// What all sampling kernels share: penalties and randomness.
#include <float.h>
#include <math.h>

#include "src/kernels/sample/sample_kernel.h"

static float penalised(float logit, int32_t count, const weft_sample_params *params)
{
    float repetition = params->repetition_penalty == 0 ? 1 : params->repetition_penalty;
    if (logit == -INFINITY)
        return logit; // masked
    float own = logit > 0 ? logit / repetition : logit * repetition;
    float value = own - (float)count * params->frequency_penalty - params->presence_penalty;
    if (value >= -FLT_MAX && value <= FLT_MAX)
        return value;
    // What f32 cannot say f64 can.
    double wide = logit > 0 ? logit / (double)repetition : logit * (double)repetition;
    wide -= count * (double)params->frequency_penalty + params->presence_penalty;
    return (float)fmax(-FLT_MAX, fmin(wide, FLT_MAX));
}

static bool has_penalty(const weft_sample_params *params)
{
    bool repeats = params->repetition_penalty != 0 && params->repetition_penalty != 1;
    return params->history_len > 0 &&
           (repeats || params->frequency_penalty != 0 || params->presence_penalty != 0);
}

void weft__sample_penalise(const weft_sample_params *params,
                           const struct weft__sample_scratch *scratch)
{
    const int32_t *history = params->history;
    if (!has_penalty(params))
        return;
    // A token that was noted as one without a finite logit counts for nothing.
    for (int64_t i = 0; i < params->history_len; i++)
        if (history[i] >= 0)
            scratch->counts[history[i]] = 0;
    for (int64_t i = 0; i < params->history_len; i++)
        if (history[i] >= 0)
            scratch->counts[history[i]]++;
    for (int64_t i = 0; i < params->history_len; i++) {
        if (history[i] < 0)
            continue;
        float *logit = &scratch->logits[history[i]];
        int32_t *count = &scratch->counts[history[i]];
        if (*count > 0)
            *logit = penalised(*logit, *count, params);
        *count = 0;
    }
}

bool weft__sample_prepare(int32_t vocab, const weft_sample_params *params, const float *logits,
                          const struct weft__sample_scratch *scratch)
{
    bool any = false;
    for (int32_t i = 0; i < vocab; i++) {
        float x = logits[i];
        any |= x >= -FLT_MAX && x <= FLT_MAX;
        scratch->logits[i] = x > FLT_MAX ? FLT_MAX : x >= -FLT_MAX ? x : -INFINITY;
    }
    weft__sample_penalise(params, scratch);
    return any;
}

void weft__sample_next(const weft_sample_params *params, int32_t token, bool finite,
                       weft_sample_params *next)
{
    *next = *params;
    next->step++;
    if (!params->history)
        return;
    // The caller's memory behind the history is there to be written.
    ((int32_t *)(uintptr_t)params->history)[params->history_len] = finite ? token : -1;
    if (params->history_len < params->history_room)
        next->history_len++;
    else
        next->history++;
}

// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
double weft__sample_uniform(uint64_t seed, uint64_t step)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)step, c1 = (uint32_t)(step >> 32), c2 = 0, c3 = 0;
    for (int round = 0; round < 10; round++) {
        uint64_t even = (uint64_t)0xd2511f53u * c0, odd = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(odd >> 32) ^ c1 ^ key0;
        c1 = (uint32_t)odd;
        c2 = (uint32_t)(even >> 32) ^ c3 ^ key1;
        c3 = (uint32_t)even;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    return (double)(((uint64_t)c1 << 32 | c0) >> 11) * 0x1p-53;
}
