// SPDX-License-Identifier: MIT
// What can run at all, and what follows from a model's numbers for its tensors and layers.
#include <math.h>

#include "engine/model/config_limits.h"

bool model_config_sees_all(const model_config *config, int32_t layer)
{
    int32_t first = config->architecture->traits & MODEL_FIRST_SEES_ALL ? 0 : 1;
    return config->window_period && (layer + first) % config->window_period == 0;
}

static bool in_range(int32_t value, int32_t low, int32_t high, const char *what, engine_error *err)
{
    if (value >= low && value <= high)
        return true;
    return engine_fail(err, "%s is %d, outside %d..%d: the file is damaged or of another kind",
                       what, value, low, high);
}

static bool check_experts(const model_config *config, engine_error *err)
{
    bool shared = config->architecture->sparse >> MODEL_SHARED_UP & 1;
    if (config->experts == 0)
        return true;
    if (!in_range(config->experts, 1, WEFT_ROUTE_MAX_EXPERTS, "expert_count", err) ||
        !in_range(config->experts_used, 1, config->experts, "expert_used_count", err) ||
        !in_range(config->expert_dim, 1, MAX_DIM, "expert_feed_forward_length", err) ||
        !in_range(config->shared_dim, shared, MAX_DIM, "expert_shared_feed_forward_length", err) ||
        !in_range(config->dense_layers, 0, config->layers - 1, "leading_dense_block_count", err) ||
        !in_range(config->expert_period, 0, MAX_LAYERS, "the period of layers with experts", err) ||
        !in_range(config->expert_groups, 1, config->experts, "expert_group_count", err) ||
        !in_range(config->expert_top_groups, 1, config->expert_groups, "expert_group_used_count",
                  err))
        return false;
    if (config->experts % config->expert_groups != 0 ||
        config->experts_used > config->experts / config->expert_groups * config->expert_top_groups)
        return engine_fail(err, "%d of %d experts cannot be chosen from %d of %d groups",
                           config->experts_used, config->experts, config->expert_top_groups,
                           config->expert_groups);
    return isfinite(config->expert_scale) ||
           engine_fail(err, "expert_weights_scale is no number that can be used");
}

bool model_config_check(const model_config *config, engine_error *err)
{
    if (!check_experts(config, err))
        return false;
    if (!in_range(config->layers, 1, MAX_LAYERS, "block_count", err) ||
        !in_range(config->embedding_dim, 1, MAX_DIM, "embedding_length", err) ||
        !in_range(config->feed_forward_dim, 1, MAX_DIM, "feed_forward_length", err) ||
        !in_range(config->q_heads, 1, MAX_HEADS, "attention.head_count", err) ||
        !in_range(config->kv_heads, 1, config->q_heads, "attention.head_count_kv", err) ||
        !in_range(config->head_dim, 8, config->latent.dim ? MAX_LATENT_DIM : MAX_HEAD_DIM,
                  "the head dimension", err) ||
        !in_range(config->trained_context, 1, MAX_CONTEXT, "context_length", err) ||
        !in_range(config->window, 0, MAX_CONTEXT, "attention.sliding_window", err) ||
        !in_range(config->q_growth_length, 0, MAX_CONTEXT, "attention.temperature_length", err) ||
        !in_range(config->pooling, 0, 4, "pooling_type", err) ||
        !in_range(config->score_pooling, 0, 3, "classifier.pooling_type", err) ||
        !in_range(config->labels, 0, MAX_DIM, "the number of labels", err) ||
        !in_range(config->rope.rotary_dim, 2, config->head_dim, "rope.dimension_count", err) ||
        !in_range(config->vocab, 1, MAX_DIM * 16, "the vocabulary", err))
        return false;
    if (config->q_heads % config->kv_heads != 0)
        return engine_fail(err, "%d query heads are no multiple of %d KV heads", config->q_heads,
                           config->kv_heads);
    if (config->head_dim % 8 != 0 || config->rope.rotary_dim % 2 != 0)
        return engine_fail(err,
                           "a head dimension of %d with %d rotary cannot run: it must be a "
                           "multiple of 8, rotary even",
                           config->head_dim, config->rope.rotary_dim);
    if (!(config->norm_eps >= 0) || !isfinite(config->norm_eps))
        return engine_fail(err, "%s is not a number from 0 on",
                           config->architecture->norm == WEFT_NORM_LAYER
                               ? "layer_norm_epsilon"
                               : "layer_norm_rms_epsilon");
    const float factors[] = {config->embedding_scale, config->residual_scale,
                             config->attention_scale, config->logit_scale,
                             config->q_growth,        config->attention_softcap,
                             config->logit_softcap,   config->alibi_bias};
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (!isfinite(factors[i]) || (i >= 5 && factors[i] < 0))
            return engine_fail(err,
                               "a scale or soft-cap of the file is no number that can be used");
    return true;
}

uint64_t model_config_needs(const model_config *config, int32_t layer)
{
    const model_architecture *family = config->architecture;
    uint64_t needs = family->needs;
    if (config->latent.q_rank)
        needs |= UINT64_C(1) << MODEL_LATENT_Q_A | UINT64_C(1) << MODEL_LATENT_Q_NORM |
                 UINT64_C(1) << MODEL_LATENT_Q_B;
    else if (config->latent.dim)
        needs |= UINT64_C(1) << MODEL_LATENT_Q;
    if (!family->sparse)
        return needs;
    bool sparse = config->expert_period ? layer % config->expert_period == config->expert_place
                                        : layer >= config->dense_layers;
    return needs | (sparse ? family->sparse : family->dense);
}

bool model_config_needs_global(const model_config *config, int tensor)
{
    uint32_t needs = config->architecture->globals;
    needs = needs ? needs : 1u << MODEL_GLOBAL_OUTPUT_NORM;
    return tensor == MODEL_GLOBAL_EMBEDDING || needs >> tensor & 1;
}

bool model_config_may_have_global(const model_config *config, int tensor)
{
    switch (tensor) {
    case MODEL_GLOBAL_POSITIONS:
    case MODEL_GLOBAL_TOKEN_TYPES:
    case MODEL_GLOBAL_EMBEDDING_NORM:
    case MODEL_GLOBAL_EMBEDDING_NORM_BIAS: return false;
    case MODEL_GLOBAL_CLASSIFIER:
    case MODEL_GLOBAL_CLASSIFIER_BIAS:
    case MODEL_GLOBAL_CLASSIFIER_NORM:
    case MODEL_GLOBAL_CLASSIFIER_NORM_BIAS:
    case MODEL_GLOBAL_SCORE:
    case MODEL_GLOBAL_SCORE_BIAS: return config->full_mask;
    default: return true;
    }
}

model_layer_rules model_config_layer(const model_config *config, int32_t layer,
                                     const weft_rope_params ropes[2])
{
    int32_t unrotated = config->unrotated_period;
    bool rotates = !unrotated || (layer + 1) % unrotated != 0;
    model_layer_rules rules = {.window = model_config_sees_all(config, layer) ? 0 : config->window};
    // As many keys to either side, and its own.
    if (config->full_mask && rules.window > 0) {
        rules.window_right = config->window / 2 > 0 ? config->window / 2 : 1;
        rules.window = rules.window_right + 1;
    }
    if (rotates)
        rules.rope = &ropes[rules.window > 0];
    if (config->architecture->traits & MODEL_CHUNKS) {
        rules.chunk = rules.window;
        rules.window = 0;
    }
    return rules;
}
