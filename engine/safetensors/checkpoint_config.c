// SPDX-License-Identifier: MIT
// config.json to GGUF's keys.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/safetensors/checkpoint_parts.h"

static const checkpoint_family families[] = {
    {"llama", "llama", .halves = true},
    {"mistral", "llama", .halves = true},
    {"qwen2", "qwen2", .halves = false},
    {"qwen3", "qwen3", .halves = false},
    {"mixtral", "llama", .halves = true},
    {"qwen2_moe", "qwen2moe", .halves = false},
    {"qwen3_moe", "qwen3moe", .halves = false},
    {"olmoe", "olmoe", .halves = false},
    {"gemma", "gemma", .plus_one = true, .tied = true},
    {"gemma2", "gemma2", .post_norms = true, .plus_one = true, .tied = true, .window_period = 2},
    {"gemma3_text", "gemma3", .post_norms = true, .plus_one = true, .tied = true,
     .window_period = 6},
    {"phi3", "phi3", .halves = false},
    {"olmo2", "olmo2", .post_norms = true},
    {"granite", "granite", .halves = true},
    {"glm4", "glm4", .halves = false},
};

typedef struct writer {
    checkpoint *c;
    gguf_output *output;
    engine_error *err;
} writer;

static const char *key_of(const writer *w, const char *tail, char key[128])
{
    snprintf(key, 128, "%s.%s", w->c->family->architecture, tail);
    return key;
}

static bool fail_number(const writer *w, const char *name)
{
    return engine_fail(w->err,
                       "config.json: '%s' is missing or no number from 1 to 2^31; download it "
                       "again",
                       name);
}

// An integer; `fallback` where it is missing or null, which a negative fallback does not allow.
static bool read_int(const writer *w, const json_t *object, const char *name, int64_t fallback,
                     int64_t *value)
{
    const json_t *number = json_object_get(object, name);
    *value = fallback;
    if (!number || json_is_null(number))
        return fallback >= 0 || fail_number(w, name);
    *value = json_integer_value(number);
    return (json_is_integer(number) && *value >= 1 && *value < INT32_MAX) || fail_number(w, name);
}

static bool put_int(const writer *w, const char *name, const char *tail, int64_t fallback,
                    int64_t *value)
{
    char key[128];
    if (!read_int(w, w->c->config, name, fallback, value))
        return false;
    if (*value > 0)
        gguf_output_u32(w->output, key_of(w, tail, key), (uint32_t)*value);
    return true;
}

static bool put_float(const writer *w, const json_t *object, const char *name, const char *tail)
{
    char key[128];
    const json_t *number = json_object_get(object, name);
    if (!number || json_is_null(number))
        return true;
    if (!json_is_number(number))
        return engine_fail(w->err, "config.json: '%s' is no number; download it again", name);
    gguf_output_f32(w->output, key_of(w, tail, key), (float)json_number_value(number));
    return true;
}

static bool put_scaling(const writer *w, const json_t *scaling)
{
    char key[128];
    const char *type = json_string_value(json_object_get(scaling, "rope_type"));
    int64_t original;
    if (!type)
        type = json_string_value(json_object_get(scaling, "type"));
    if (!type || strcmp(type, "default") == 0)
        return true;
    gguf_output_text(w->output, key_of(w, "rope.scaling.type", key), type);
    if (!read_int(w, scaling, "original_max_position_embeddings", 0, &original))
        return false;
    if (original > 0)
        gguf_output_u32(w->output, key_of(w, "rope.scaling.original_context_length", key),
                        (uint32_t)original);
    return put_float(w, scaling, "factor", "rope.scaling.factor") &&
           put_float(w, scaling, "low_freq_factor", "rope.scaling.low_freq_factor") &&
           put_float(w, scaling, "high_freq_factor", "rope.scaling.high_freq_factor") &&
           put_float(w, scaling, "attention_factor", "rope.scaling.yarn_attn_factor") &&
           put_float(w, scaling, "beta_fast", "rope.scaling.yarn_beta_fast") &&
           put_float(w, scaling, "beta_slow", "rope.scaling.yarn_beta_slow");
}

// How many elements of a head rotate.
static bool put_rotary(const writer *w, const json_t *rope, int64_t head_dim)
{
    char key[128];
    const json_t *share = json_object_get(rope, "partial_rotary_factor");
    if (!share)
        share = json_object_get(w->c->config, "partial_rotary_factor");
    double part = json_is_number(share) ? json_number_value(share) : 1;
    if (!(part > 0 && part <= 1))
        return engine_fail(w->err, "config.json: 'partial_rotary_factor' is %g, outside 0 to 1: %s",
                           part, "download it again");
    gguf_output_u32(w->output, key_of(w, "rope.dimension_count", key),
                    (uint32_t)(part * (double)head_dim));
    return true;
}

// Newer files have rope_theta and the scaling in rope_parameters, older ones beside the other numbers; and
// where layers with a window rotate by themselves, each kind of layer has its own.
static bool put_rope(const writer *w, int64_t head_dim)
{
    const json_t *config = w->c->config, *scaling = json_object_get(config, "rope_parameters");
    const json_t *whole = json_object_get(scaling, "full_attention");
    const json_t *local = json_object_get(scaling, "sliding_attention");
    if (json_is_object(whole))
        scaling = whole;
    const json_t *base = json_is_object(scaling) ? scaling : config;
    if (!json_is_object(scaling))
        scaling = json_object_get(config, "rope_scaling");
    return put_rotary(w, base, head_dim) && put_float(w, base, "rope_theta", "rope.freq_base") &&
           put_float(w, local ? local : config, local ? "rope_theta" : "rope_local_base_freq",
                     "rope.freq_base_swa") &&
           (!json_is_object(scaling) || put_scaling(w, scaling));
}

// Which layers have a window is the family's: a config that says otherwise cannot run.
static bool check_layers(const writer *w)
{
    int64_t period = w->c->family->window_period, n = 0;
    const json_t *pattern = json_object_get(w->c->config, "sliding_window_pattern");
    const json_t *types = json_object_get(w->c->config, "layer_types"), *type;
    bool fits = !json_is_integer(pattern) || json_integer_value(pattern) == period;
    for (; period && n < (int64_t)json_array_size(types); n++) {
        type = json_array_get(types, (size_t)n);
        bool all = json_is_string(type) && strcmp(json_string_value(type), "full_attention") == 0;
        fits = fits && all == ((n + 1) % period == 0);
    }
    return !period || fits ||
           engine_fail(w->err,
                       "config.json: layers with a window are not those of other %s models: weft "
                       "cannot run this one yet",
                       w->c->family->model_type);
}

// Scales and caps that some families have.
static bool put_factors(const writer *w)
{
    static const char *const names[][2] = {
        {"attention_multiplier", "attention.scale"},
        {"embedding_multiplier", "embedding_scale"},
        {"residual_multiplier", "residual_scale"},
        {"logits_scaling", "logit_scale"},
        {"attn_logit_softcapping", "attn_logit_softcapping"},
        {"final_logit_softcapping", "final_logit_softcapping"},
    };
    char key[128];
    const json_t *scalar = json_object_get(w->c->config, "query_pre_attn_scalar");
    if (json_is_number(scalar) && json_number_value(scalar) > 0)
        gguf_output_f32(w->output, key_of(w, "attention.scale", key),
                        (float)(1 / sqrt(json_number_value(scalar))));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!put_float(w, w->c->config, names[i][0], names[i][1]))
            return false;
    return true;
}

static bool put_window(const writer *w)
{
    int64_t window;
    const json_t *use = json_object_get(w->c->config, "use_sliding_window");
    if (json_is_false(use))
        return true;
    return put_int(w, "sliding_window", "attention.sliding_window", 0, &window);
}

// The numbers of a mixture; names differ between families.
static bool put_experts(const writer *w)
{
    char key[128];
    int64_t used, wide, shared;
    const json_t *norm = json_object_get(w->c->config, "norm_topk_prob");
    if (!read_int(w, w->c->config, "num_experts", 0, &w->c->experts) ||
        (w->c->experts == 0 && !read_int(w, w->c->config, "num_local_experts", 0, &w->c->experts)))
        return false;
    if (w->c->experts == 0)
        return true;
    gguf_output_u32(w->output, key_of(w, "expert_count", key), (uint32_t)w->c->experts);
    if (json_is_boolean(norm))
        gguf_output_bool(w->output, key_of(w, "expert_weights_norm", key), json_is_true(norm));
    return put_int(w, "num_experts_per_tok", "expert_used_count", -1, &used) &&
           put_int(w, "moe_intermediate_size", "expert_feed_forward_length", 0, &wide) &&
           put_int(w, "shared_expert_intermediate_size", "expert_shared_feed_forward_length", 0,
                   &shared);
}

static bool find_family(checkpoint *c, engine_error *err)
{
    const char *type = json_string_value(json_object_get(c->config, "model_type"));
    char known[256] = "";
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (type && strcmp(families[i].model_type, type) == 0)
            c->family = &families[i];
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                 families[i].model_type);
    }
    return c->family ||
           engine_fail(err, "config.json: model_type '%.64s' cannot be read yet: weft reads %s",
                       type ? type : "none", known);
}

// GPTQ or AWQ; 4 bits, GPTQ 8 too.
static bool read_integers(checkpoint *c, const json_t *of, bool awq, engine_error *err)
{
    const json_t *bits = json_object_get(of, "bits"), *group = json_object_get(of, "group_size");
    const char *layout =
        json_string_value(json_object_get(of, awq ? "version" : "checkpoint_format"));
    c->integers.bits = json_integer_value(bits);
    c->integers.group = json_is_integer(group) ? json_integer_value(group) : 128;
    c->integers.awq = awq;
    c->integers.zero_offset = awq || (layout && strcmp(layout, "gptq_v2") == 0) ? 0 : 1;
    if (c->integers.bits != 4 && (awq || c->integers.bits != 8))
        return engine_fail(err, "config.json: weights of %s with %lld bits cannot be read yet",
                           awq ? "AWQ" : "GPTQ", (long long)c->integers.bits);
    if (layout && strcmp(layout, "gemm") != 0 && strcmp(layout, "gptq") != 0 &&
        strcmp(layout, "gptq_v2") != 0)
        return engine_fail(err, "config.json: weights laid out for '%.32s' cannot be read yet",
                           layout);
    return true;
}

// Only what its tensors tell; others would be read as something they are not.
static bool check_quantization(checkpoint *c, engine_error *err)
{
    const json_t *mlx = json_object_get(c->config, "quantization");
    const json_t *other = json_object_get(c->config, "quantization_config");
    const char *mode = json_string_value(json_object_get(mlx, "mode"));
    const char *method = json_string_value(json_object_get(other, "quant_method"));
    if (mode && strcmp(mode, "affine") != 0)
        return engine_fail(
            err, "MLX quantisation of mode '%.32s' cannot be read yet: weft reads affine", mode);
    if (method && (strcmp(method, "gptq") == 0 || strcmp(method, "awq") == 0))
        return read_integers(c, other, method[0] == 'a', err);
    const char *form = json_string_value(json_object_get(other, "format"));
    bool int8 = method && strcmp(method, "compressed-tensors") == 0 && form &&
                strcmp(form, "int-quantized") == 0;
    if (method && strcmp(method, "fp8") != 0 && !int8)
        return engine_fail(err,
                           "weights quantised by %.32s cannot be read yet: weft reads MLX's affine "
                           "ones, GPTQ, AWQ, fp8 and int8 with scales",
                           method);
    c->quantization = json_is_object(mlx) ? mlx : NULL;
    return true;
}

bool checkpoint_read_config(checkpoint *c, gguf_output *output, engine_error *err)
{
    const writer w = {c, output, err};
    int64_t layers, hidden, wide, context, head_dim;
    if (!find_family(c, err) || !check_quantization(c, err))
        return false;
    const char *name = json_string_value(json_object_get(c->config, "_name_or_path"));
    gguf_output_text(output, "general.architecture", c->family->architecture);
    gguf_output_text(output, "general.name", name && *name ? name : c->family->architecture);
    gguf_output_u32(output, "general.file_type", 1);
    bool good =
        put_int(&w, "num_hidden_layers", "block_count", -1, &layers) &&
        put_int(&w, "hidden_size", "embedding_length", -1, &hidden) &&
        put_int(&w, "intermediate_size", "feed_forward_length", -1, &wide) &&
        put_int(&w, "max_position_embeddings", "context_length", -1, &context) &&
        put_int(&w, "num_attention_heads", "attention.head_count", -1, &c->q_heads) &&
        put_int(&w, "num_key_value_heads", "attention.head_count_kv", c->q_heads, &c->kv_heads) &&
        put_int(&w, "head_dim", "attention.key_length", hidden / c->q_heads, &head_dim) &&
        put_int(&w, "head_dim", "attention.value_length", hidden / c->q_heads, &head_dim) &&
        put_float(&w, c->config, "rms_norm_eps", "attention.layer_norm_rms_epsilon") &&
        put_rope(&w, head_dim) && put_window(&w) && check_layers(&w) && put_factors(&w) &&
        put_experts(&w);
    const json_t *tied = json_object_get(c->config, "tie_word_embeddings");
    c->tied = json_is_boolean(tied) ? json_is_true(tied) : c->family->tied;
    return good;
}
