// SPDX-License-Identifier: MIT
#ifndef ENGINE_SAMPLE_SHAPING_H
#define ENGINE_SAMPLE_SHAPING_H

// Samplers beyond those of the library: each takes the tokens that are left, the likeliest first, and takes some of
// them away or moves their logits. What they leave is drawn from by the library, so a seed means the same.

#include <stdbool.h>
#include <stdint.h>

// Every sampler, in the order in which they run unless another is given.
//     X(identifier, name)
#define ENGINE_SAMPLERS(X)                                                                         \
    X(PENALTIES, "penalties")                                                                      \
    X(DRY, "dry")                                                                                  \
    X(TOP_N_SIGMA, "top_n_sigma")                                                                  \
    X(TOP_K, "top_k")                                                                              \
    X(TEMPERATURE, "temperature")                                                                  \
    X(TYPICAL, "typical_p")                                                                        \
    X(TOP_P, "top_p")                                                                              \
    X(MIN_P, "min_p")                                                                              \
    X(XTC, "xtc")                                                                                  \
    X(MIROSTAT, "mirostat")

typedef enum engine_sampler {
#define ENGINE_SAMPLER_ENUM(id, name) ENGINE_SAMPLER_##id,
    ENGINE_SAMPLERS(ENGINE_SAMPLER_ENUM)
#undef ENGINE_SAMPLER_ENUM
        ENGINE_SAMPLER_COUNT,
} engine_sampler;

// Every setting that they have besides those of weft_sample_params.
//     X(member, option, low, high, default, help)
#define ENGINE_SHAPING_SETTINGS(X)                                                                 \
    X(dynatemp_range, "dynatemp-range", 0, 100, 0,                                                 \
      "temperature goes by so much down and up, with entropy")                                     \
    X(dynatemp_exponent, "dynatemp-exponent", 0.01, 100, 1,                                        \
      "of entropy over its largest, for that")                                                     \
    X(typical_p, "typical-p", 0, 1, 1,                                                             \
      "tokens of typical surprise that reach P together; 1 = all")                                 \
    X(top_n_sigma, "top-n-sigma", 0, 100, 0, "logits within N deviations of the largest; 0 = all") \
    X(xtc_probability, "xtc-probability", 0, 1, 0,                                                 \
      "of leaving out all likely tokens but the least likely")                                     \
    X(xtc_threshold, "xtc-threshold", 0, 1, 0.1,                                                   \
      "from which on a token is likely; over 0.5: none is left out")                               \
    X(dry_multiplier, "dry-multiplier", 0, 100, 0,                                                 \
      "of the penalty on going on as before; 0 = off")                                             \
    X(dry_base, "dry-base", 1, 10, 1.75, "to the power of how much longer a repetition is than")   \
    X(dry_allowed_length, "dry-allowed-length", 1, 1000, 2, "tokens that may repeat")              \
    X(dry_window, "dry-window", 0, 16777216, 0, "last tokens that are looked at; 0 = all")         \
    X(mirostat_tau, "mirostat-tau", 0, 100, 0,                                                     \
      "bits of surprise to aim at, instead of cuts; 0 = off")                                      \
    X(mirostat_eta, "mirostat-eta", 0, 1, 0.1, "how fast it is aimed at")

typedef struct engine_shaping {
#define ENGINE_SHAPING_MEMBER(member, option, low, high, standard, help) float member;
    ENGINE_SHAPING_SETTINGS(ENGINE_SHAPING_MEMBER)
#undef ENGINE_SHAPING_MEMBER
    // [dry_breaker_count], ascending: tokens that no repetition goes across.
    const int32_t *dry_breakers;
    int32_t dry_breaker_count;
    uint8_t order
        [ENGINE_SAMPLER_COUNT]; // of engine_sampler, each at most once; who is not named does not run
    int32_t order_count;        // 0: all, in the order of the table
} engine_shaping;

// Where nothing is changed.
engine_shaping engine_shaping_default(void);

// Does it ask for anything that the library's sampler does not do by itself?
bool engine_shaping_asks(const engine_shaping *shaping);

// The n-th setting; false past the last.
typedef struct engine_shaping_setting {
    const char *member, *option, *help;
    double low, high;
    float *value; // of `shaping`
} engine_shaping_setting;

bool engine_shaping_setting_at(engine_shaping *shaping, int32_t n, engine_shaping_setting *setting);

const char *engine_sampler_name(int32_t n); // NULL past the last

// Takes one more sampler into the order; false for an unknown name, or one that is there.
bool engine_shaping_order_add(engine_shaping *shaping, const char *name, uint64_t bytes);

#endif
