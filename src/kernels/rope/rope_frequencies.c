// SPDX-License-Identifier: MIT
// From parameters to frequencies, in f64.
//
// Source: Su et al. 2021; Peng et al. 2023 (YaRN, "NTK-by-parts"); the llama3 rule as the model's
// release states it and transformers' modeling_rope_utils.py computes it.
#include <math.h>

#include "src/kernels/rope/rope_kernel.h"

static const double two_pi = 6.283185307179586476925;

static double or_default(float value, double fallback)
{
    return value == 0 ? fallback : value;
}

// Long waves are stretched by `factor`, short ones kept, those between blended by how often they turn
// within the original context.
static double llama3(double frequency, const weft_rope_params *params)
{
    double factor = or_default(params->factor, 1);
    double low = or_default(params->low_freq_factor, 1);
    double high = or_default(params->high_freq_factor, 4);
    double turns = params->original_context * frequency / two_pi;
    if (turns < low)
        return frequency / factor;
    if (turns > high || high == low)
        return frequency;
    double smooth = (turns - low) / (high - low);
    return (1 - smooth) * frequency / factor + smooth * frequency;
}

// The (fractional) pair that turns `turns` times within the original context.
static double yarn_pair(double turns, int32_t rotary_dim, double base, double original_context)
{
    return rotary_dim * log(original_context / (turns * two_pi)) / (2 * log(base));
}

static double yarn(double frequency, int32_t pair, int32_t rotary_dim, double base,
                   const weft_rope_params *params)
{
    double factor = or_default(params->factor, 1);
    double low = floor(
        yarn_pair(or_default(params->beta_fast, 32), rotary_dim, base, params->original_context));
    double high = ceil(
        yarn_pair(or_default(params->beta_slow, 1), rotary_dim, base, params->original_context));
    low = fmax(low, 0);
    high = fmin(high, rotary_dim - 1);
    if (low == high)
        high += 0.001;
    double ramp = fmin(fmax((pair - low) / (high - low), 0), 1);
    return frequency / factor * ramp + frequency * (1 - ramp);
}

static double scaled(double frequency, int32_t pair, int32_t rotary_dim, double base,
                     const weft_rope_params *params)
{
    switch (params->scaling) {
    case WEFT_ROPE_SCALING_LINEAR: return frequency / or_default(params->factor, 1);
    case WEFT_ROPE_SCALING_LLAMA3: return llama3(frequency, params);
    case WEFT_ROPE_SCALING_YARN: return yarn(frequency, pair, rotary_dim, base, params);
    default: return frequency;
    }
}

static float attention_factor(const weft_rope_params *params)
{
    if (params->attention_factor != 0)
        return params->attention_factor;
    if (params->scaling == WEFT_ROPE_SCALING_YARN && params->factor > 1)
        return (float)(0.1 * log(params->factor) + 1);
    return 1;
}

static bool all_sound(const weft_rope_params *params)
{
    const float numbers[] = {
        params->base,      params->factor,    params->low_freq_factor, params->high_freq_factor,
        params->beta_fast, params->beta_slow, params->attention_factor};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!(numbers[i] >= 0) || !isfinite(numbers[i]))
            return false;
    return true;
}

static const char *check(const weft_rope_params *params, int32_t head_dim, int32_t rotary_dim)
{
    if (head_dim < 1)
        return "head_dim must be positive";
    if (rotary_dim < 2 || rotary_dim % 2 || rotary_dim > head_dim ||
        rotary_dim > WEFT__ROPE_MAX_DIM)
        return "rotary_dim must be even, at most head_dim and at most 1024";
    if ((unsigned)params->style > WEFT_ROPE_INTERLEAVED)
        return "unknown style";
    if ((unsigned)params->scaling > WEFT_ROPE_SCALING_YARN)
        return "unknown scaling";
    if (!all_sound(params) || params->base == 1)
        return "base, factors and betas must be finite and not negative, base not 1";
    if (params->scaling >= WEFT_ROPE_SCALING_LLAMA3 && params->original_context < 1)
        return "this scaling needs original_context";
    return NULL;
}

const char *weft__rope_frequencies_make(const weft_rope_params *params, int32_t head_dim,
                                        struct weft__rope_frequencies *out)
{
    int32_t rotary_dim = params->rotary_dim ? params->rotary_dim : head_dim;
    const char *wrong = check(params, head_dim, rotary_dim);
    if (wrong)
        return wrong;
    double base = or_default(params->base, 10000);
    out->style = params->style;
    out->rotary_dim = rotary_dim;
    out->attention_factor = attention_factor(params);
    for (int32_t i = 0; i < rotary_dim / 2; i++) {
        double frequency = pow(base, -2.0 * i / rotary_dim);
        frequency = scaled(frequency, i, rotary_dim, base, params);
        if (params->freq_factors)
            frequency /= params->freq_factors[i];
        if (!isfinite(frequency))
            return "freq_factors must be finite and not 0";
        out->radians[i] = frequency;
        out->turns[i] = frequency / two_pi;
    }
    return NULL;
}
