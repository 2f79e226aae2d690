// SPDX-License-Identifier: MIT
// What a file says of its model.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/gguf/missing.h"
#include "engine/model/config_limits.h"

// Reads keys that begin with the name of the architecture.
typedef struct key_reader {
    const gguf_file *file;
    const char *prefix;
    engine_error *err;
    bool failed;
    char key[128];
} key_reader;

static const char *full_key(key_reader *reader, const char *name)
{
    snprintf(reader->key, sizeof reader->key, "%s.%s", reader->prefix, name);
    return reader->key;
}

// An integer that may be missing: `fallback` then. A negative fallback means that it must be there.
static int32_t read_int(key_reader *reader, const char *name, int32_t fallback)
{
    int32_t value = fallback;
    const char *key = full_key(reader, name);
    gguf_lookup lookup = gguf_get_i32(reader->file, key, &value);
    bool fine = fallback < 0
                    ? gguf_needed(reader->file, lookup, key, "an integer below 2^31", reader->err)
                    : gguf_wanted(reader->file, lookup, key, "an integer below 2^31", reader->err);
    if (!fine)
        reader->failed = true;
    return value;
}

static float read_float(key_reader *reader, const char *name, float fallback)
{
    float value = fallback;
    const char *key = full_key(reader, name);
    gguf_lookup lookup = gguf_get_f32(reader->file, key, &value);
    if (!gguf_wanted(reader->file, lookup, key, "a floating-point number", reader->err))
        reader->failed = true;
    return value;
}

static bool read_bool(key_reader *reader, const char *name, bool fallback)
{
    bool value = fallback;
    const char *key = full_key(reader, name);
    gguf_lookup lookup = gguf_get_bool(reader->file, key, &value);
    if (!gguf_wanted(reader->file, lookup, key, "a truth value", reader->err))
        reader->failed = true;
    return value;
}

// Head counts may be an array with one entry per layer; weft needs them all equal.
static int32_t read_heads(key_reader *reader, const char *name, int32_t fallback)
{
    gguf_array array;
    const char *key = full_key(reader, name);
    if (gguf_get_array(reader->file, key, &array) != GGUF_FOUND)
        return read_int(reader, name, fallback);
    uint32_t first = 0, other;
    for (size_t i = 0; i < array.count; i++)
        if (!gguf_array_u32(&array, i, i == 0 ? &first : &other) || (i > 0 && other != first)) {
            reader->failed = true;
            engine_fail(reader->err, "%s differs between layers, which weft cannot run yet", key);
            return 0;
        }
    return (int32_t)first;
}

// A file that names no type means linear scaling; with a factor of 1, the default, that is none.
static bool read_scaling_type(key_reader *reader, weft_rope_params *rope)
{
    gguf_string type;
    const char *key = full_key(reader, "rope.scaling.type");
    gguf_lookup lookup = gguf_get_string(reader->file, key, &type);
    if (!gguf_wanted(reader->file, lookup, key, "a string", reader->err))
        return false;
    if (lookup == GGUF_MISSING || gguf_string_equals(type, "linear"))
        rope->scaling = WEFT_ROPE_SCALING_LINEAR;
    else if (gguf_string_equals(type, "none"))
        rope->scaling = WEFT_ROPE_SCALING_NONE;
    else if (gguf_string_equals(type, "yarn"))
        rope->scaling = WEFT_ROPE_SCALING_YARN;
    else if (gguf_string_equals(type, "llama3"))
        rope->scaling = WEFT_ROPE_SCALING_LLAMA3;
    else
        return engine_fail(reader->err,
                           "rope scaling '%.*s' cannot run yet: weft knows none, linear, llama3 "
                           "and yarn",
                           GGUF_SHOWN(type));
    return true;
}

// What cos and sin are multiplied by; 0: the library's default for the scaling. attn_factor comes on top
// of that default, as llama.cpp has it; yarn_attn_factor, which converters take from attention_factor in
// the model's configuration, stands in its place, as transformers has it.
static float read_attention_factor(key_reader *reader, const weft_rope_params *rope)
{
    float replaced = read_float(reader, "rope.scaling.yarn_attn_factor", 0);
    float multiplied = read_float(reader, "rope.scaling.attn_factor", 0);
    bool yarn = rope->scaling == WEFT_ROPE_SCALING_YARN;
    if (!yarn)
        return multiplied;
    if (multiplied == 0)
        return replaced;
    if (replaced == 0)
        replaced = rope->factor > 1 ? 0.1f * logf(rope->factor) + 1 : 1;
    return replaced * multiplied;
}

static void read_rope(key_reader *reader, model_config *config)
{
    weft_rope_params *rope = &config->rope;
    rope->style = config->architecture->rope_style;
    rope->rotary_dim = read_int(reader, "rope.dimension_count", config->head_dim);
    rope->base = read_float(reader, "rope.freq_base", 10000);
    if (!read_scaling_type(reader, rope))
        reader->failed = true;
    float old_name = read_float(reader, "rope.scale_linear", 0); // of the factor
    rope->factor = read_float(reader, "rope.scaling.factor", old_name);
    rope->original_context =
        read_int(reader, "rope.scaling.original_context_length", config->trained_context);
    rope->low_freq_factor = read_float(reader, "rope.scaling.low_freq_factor", 0);
    rope->high_freq_factor = read_float(reader, "rope.scaling.high_freq_factor", 0);
    rope->attention_factor = read_attention_factor(reader, rope);
    rope->beta_fast = read_float(reader, "rope.scaling.yarn_beta_fast", 0);
    rope->beta_slow = read_float(reader, "rope.scaling.yarn_beta_slow", 0);
}

// Layers with a window may rotate by themselves: unscaled, and by a base of their own.
static void read_local_rope(key_reader *reader, model_config *config)
{
    config->local_rope = config->rope;
    if (config->architecture->traits & MODEL_LOCAL_ROPE) {
        config->local_rope.scaling = WEFT_ROPE_SCALING_NONE;
        config->local_rope.factor = 0;
        config->local_rope.attention_factor = 0;
        config->local_rope.base = 10000;
    }
    config->local_rope.base = read_float(reader, "rope.freq_base_swa", config->local_rope.base);
}

static void read_window(key_reader *reader, model_config *config)
{
    const model_architecture *family = config->architecture;
    config->window = read_int(reader, "attention.sliding_window", family->window);
    if (family->traits & MODEL_IGNORES_WINDOW)
        config->window = 0;
    config->window_period = family->window_period;
    config->unrotated_period = family->unrotated_period;
    if (family->traits & MODEL_ROTATES_WITHOUT_WINDOW && config->window == 0)
        config->unrotated_period = 0;
}

// Llama 4: files say neither how queries grow nor which of its two sizes has heads of unit length; the keys are
// weft's own, or those of a family that does say.
static void read_units(key_reader *reader, model_config *config)
{
    enum { LENGTH = 8192, EXPERTS_WITHOUT_UNITS = 128 };
    if (!(config->architecture->traits & MODEL_QUERIES_GROW)) {
        if (read_float(reader, "attention.temperature_scale", 0) != 0)
            reader->failed = !engine_fail(reader->err, "queries that grow with the position "
                                                       "(Ministral 3) cannot run yet");
        return;
    }
    config->q_growth_length = read_int(reader, "attention.temperature_length", LENGTH);
    config->q_growth = read_float(reader, "attention.temperature_scale", 0.1f);
    config->unit_heads =
        read_bool(reader, "attention.unit_heads", config->experts != EXPERTS_WITHOUT_UNITS);
}

// Files may say which layers have a window, one by one or as a period: they must be those of the family.
static bool check_pattern(key_reader *reader, const model_config *config)
{
    gguf_array array;
    bool windowed;
    int32_t period = config->window_period;
    const char *key = full_key(reader, "attention.sliding_window_pattern");
    gguf_lookup lookup = gguf_get_array(reader->file, key, &array);
    if (lookup == GGUF_MISSING || config->window == 0)
        return true;
    bool fits = lookup == GGUF_FOUND ? array.count >= (size_t)config->layers
                                     : gguf_get_i32(reader->file, key, &period) == GGUF_FOUND &&
                                           period == config->window_period;
    for (int32_t i = 0; fits && lookup == GGUF_FOUND && i < config->layers; i++)
        fits = gguf_array_bool(&array, (size_t)i, &windowed) &&
               windowed != model_config_sees_all(config, i);
    return fits || engine_fail(reader->err,
                               "layers with a window are not those of other %s models (%s): weft "
                               "cannot run this one yet",
                               config->architecture->name, key);
}

// Files may name the function of the feed-forward blocks, in the words of those who made the model.
static bool read_function(key_reader *reader, model_config *config)
{
    static const struct {
        const char *name;
        weft_activation_kind function;
    } known[] = {{"silu", WEFT_ACTIVATION_SILU},
                 {"swish", WEFT_ACTIVATION_SILU},
                 {"swiglu", WEFT_ACTIVATION_SILU},
                 {"gelu", WEFT_ACTIVATION_GELU},
                 {"geglu", WEFT_ACTIVATION_GELU},
                 {"gelu_python", WEFT_ACTIVATION_GELU},
                 {"gelu_new", WEFT_ACTIVATION_GELU_TANH},
                 {"gelu_fast", WEFT_ACTIVATION_GELU_TANH},
                 {"gelu_pytorch_tanh", WEFT_ACTIVATION_GELU_TANH}};
    gguf_string name;
    const char *key = full_key(reader, "hidden_activation");
    gguf_lookup lookup = gguf_get_string(reader->file, key, &name);
    config->function = config->architecture->function;
    if (!gguf_wanted(reader->file, lookup, key, "a string", reader->err))
        return false;
    for (size_t i = 0; lookup == GGUF_FOUND && i < sizeof known / sizeof *known; i++)
        if (gguf_string_equals(name, known[i].name)) {
            config->function = known[i].function;
            return true;
        }
    return lookup == GGUF_MISSING ||
           engine_fail(reader->err,
                       "activation '%.*s' cannot run yet: weft knows silu, gelu and gelu by tanh",
                       GGUF_SHOWN(name));
}

static void read_factors(key_reader *reader, model_config *config)
{
    const model_architecture *family = config->architecture;
    float embedding = 0, residual = 0, logits = 0;
    if (family->traits & MODEL_SCALES_BY_SIZE) {
        embedding = 12;
        residual = 1.4f / sqrtf((float)config->layers);
        logits = (float)config->embedding_dim / 256;
    }
    config->embedding_scale = read_float(reader, "embedding_scale", embedding);
    if (family->traits & MODEL_SCALES_EMBEDDING)
        config->embedding_scale = sqrtf((float)config->embedding_dim);
    config->residual_scale = read_float(reader, "residual_scale", residual);
    config->attention_scale = read_float(reader, "attention.scale", 0);
    if (family->traits & MODEL_ALIBI)
        config->alibi_bias = read_float(reader, "attention.max_alibi_bias", 8);
    if (family->narrow_layers && config->layers == family->narrow_layers)
        config->attention_scale = 1 / sqrtf((float)config->embedding_dim / (float)config->q_heads);
    config->logit_scale = read_float(reader, "logit_scale", logits);
    if (family->traits & MODEL_DIVIDES_LOGITS && config->logit_scale != 0)
        config->logit_scale = 1 / config->logit_scale;
    config->attention_softcap = read_float(reader, "attn_logit_softcapping", 0);
    config->logit_softcap = read_float(reader, "final_logit_softcapping", 0);
}

// Scores are as those of whole queries and keys, times what YaRN's factor asks for; cos and sin are as they
// are then, not multiplied.
static void scale_latent(key_reader *reader, model_config *config)
{
    weft_rope_params *rope = &config->rope;
    float by_log = read_float(reader, "rope.scaling.yarn_log_multiplier", 0), times = 1;
    if (rope->scaling == WEFT_ROPE_SCALING_YARN) {
        times = rope->factor > 1 ? 1 + by_log * logf(rope->factor) : 1;
        if (rope->attention_factor == 0 || by_log != 0)
            rope->attention_factor = 1;
    }
    config->attention_scale = times * times / sqrtf((float)config->latent.q_dim);
}

// Files of converters before May 2025 have the matrices of keys and values as one, and heads as they are before
// latents take their place.
static bool take_latents_place(key_reader *reader, model_config *config, int32_t *value_dim)
{
    model_latent *latent = &config->latent;
    const int32_t rotated = config->rope.rotary_dim;
    if (config->kv_heads != config->q_heads ||
        !gguf_find_tensor(reader->file, "blk.0.attn_kv_b.weight"))
        return engine_fail(reader->err,
                           "%s is missing, and the file is none of the older kind without it: it "
                           "is incomplete",
                           full_key(reader, "attention.key_length_mla"));
    latent->q_dim = config->head_dim;
    latent->value_dim = *value_dim;
    if (latent->dim > MAX_LATENT_DIM || rotated > MAX_LATENT_DIM)
        return true; // (is refused with the other numbers)
    config->kv_heads = 1;
    config->head_dim = latent->dim + rotated;
    *value_dim = latent->dim;
    return true;
}

static bool read_latent(key_reader *reader, model_config *config, int32_t value_dim)
{
    model_latent *latent = &config->latent;
    gguf_lookup lookup =
        gguf_get_i32(reader->file, full_key(reader, "attention.key_length_mla"), &latent->q_dim);
    latent->dim = read_int(reader, "attention.kv_lora_rank", -1);
    latent->q_rank = read_int(reader, "attention.q_lora_rank", 0);
    if (lookup != GGUF_MISSING) {
        latent->q_dim = read_int(reader, "attention.key_length_mla", -1);
        latent->value_dim = read_int(reader, "attention.value_length_mla", -1);
    }
    if (reader->failed ||
        (lookup == GGUF_MISSING && !take_latents_place(reader, config, &value_dim)))
        return false;
    if (latent->dim < 8 || latent->dim > MAX_LATENT_DIM || value_dim != latent->dim ||
        config->kv_heads != 1 || config->rope.rotary_dim < 2 ||
        config->rope.rotary_dim > MAX_LATENT_DIM ||
        config->head_dim != latent->dim + config->rope.rotary_dim || latent->value_dim < 1 ||
        latent->value_dim > MAX_LATENT_DIM || latent->q_dim > MAX_LATENT_DIM ||
        latent->q_dim <= config->rope.rotary_dim || latent->q_rank < 0 || latent->q_rank > MAX_DIM)
        return engine_fail(reader->err,
                           "latent attention over %d elements, %d of them rotated, with queries of "
                           "%d and values of %d from %d, cannot run: the file is damaged or of "
                           "another kind",
                           config->head_dim, config->rope.rotary_dim, latent->q_dim,
                           latent->value_dim, latent->dim);
    scale_latent(reader, config);
    return true;
}

enum { GATING_FAMILY, GATING_SOFTMAX, GATING_SIGMOID, GATING_SOFTMAX_OF_CHOSEN };

static void read_experts(key_reader *reader, model_config *config)
{
    uint32_t traits = config->architecture->traits;
    config->experts_used = read_int(reader, "expert_used_count", -1);
    config->expert_dim = read_int(reader, "expert_feed_forward_length", config->feed_forward_dim);
    if (config->architecture->sparse >> MODEL_SHARED_UP & 1) {
        int32_t count = read_int(reader, "expert_shared_count", 0);
        bool counts =
            count > 0 && count <= MAX_DIM / (config->expert_dim > 0 ? config->expert_dim : 1);
        count = counts ? count : traits & MODEL_SHARES_WIDTH ? 1 : 0;
        config->shared_dim =
            read_int(reader, "expert_shared_feed_forward_length",
                     count > 0 ? count * config->expert_dim : config->feed_forward_dim);
    }
    if (config->architecture->dense) {
        config->dense_layers = read_int(reader, "leading_dense_block_count", 0);
        config->expert_period = read_int(reader, "moe_every_n_layers", 0);
        config->expert_place = 1;
        int32_t step = read_int(reader, "interleave_moe_layer_step", 0);
        if (step > 0) {
            config->expert_period = step;
            config->expert_place = step - 1;
        }
    }
    config->expert_groups = read_int(reader, "expert_group_count", 1);
    config->expert_top_groups = read_int(reader, "expert_group_used_count", config->expert_groups);
    config->expert_scale = read_float(reader, "expert_weights_scale", 0);
    int32_t gating = read_int(reader, "expert_gating_func", GATING_FAMILY);
    config->sigmoid_route =
        gating == GATING_SIGMOID || (gating == GATING_FAMILY && traits & MODEL_SIGMOID_ROUTE);
    // Softmax of the chosen logits alone is that of all, divided by the sum of the chosen.
    config->normalises_route =
        read_bool(reader, "expert_weights_norm", traits & MODEL_NORMALISES_ROUTE) ||
        gating == GATING_SOFTMAX_OF_CHOSEN;
    if (gating >= GATING_FAMILY && gating <= GATING_SOFTMAX_OF_CHOSEN)
        return;
    engine_fail(reader->err, "experts chosen by function %d cannot run yet", gating);
    reader->failed = true;
}

// A file with experts may be of another kind than one of the same name without.
static bool choose_mixture(model_config *config, engine_error *err)
{
    const model_architecture *family = config->architecture;
    if (config->experts == 0)
        return !family->sparse ||
               engine_fail(err, "%s.expert_count is missing: the file is incomplete", family->name);
    if (family->mixture)
        config->architecture = family = family->mixture;
    return family->sparse != 0 ||
           engine_fail(err, "a mixture of %d experts of the family %s cannot run yet",
                       config->experts, family->name);
}

// Blocks side by side or one after the other, with one norm or two.
static bool choose_blocks(key_reader *reader, model_config *config)
{
    bool parallel = true;
    const char *key = full_key(reader, "use_parallel_residual");
    const model_architecture *family = config->architecture;
    gguf_lookup lookup = gguf_get_bool(reader->file, key, &parallel);
    if (family->sequential && !gguf_wanted(reader->file, lookup, key, "a truth value", reader->err))
        return false;
    if (family->sequential && !parallel)
        config->architecture = family->sequential;
    else if (family->two_norms && gguf_find_tensor(reader->file, "blk.0.attn_norm_2.weight"))
        config->architecture = family->two_norms;
    return true;
}

// Rows of a table that a file may have; 0 if it has none.
static int32_t rows_of(const gguf_file *file, const char *name)
{
    const gguf_tensor *table = gguf_find_tensor(file, name);
    return table && table->shape[1] > 0 && table->shape[1] <= MAX_CONTEXT ? (int32_t)table->shape[1]
                                                                          : 0;
}

// What encoders, and models with learned positions, are in numbers.
static void read_tables(key_reader *reader, model_config *config)
{
    const model_architecture *family = config->architecture;
    bool encoder = family->traits & MODEL_ENCODER;
    config->full_mask = !read_bool(reader, "attention.causal", !encoder);
    config->pooling = read_int(reader, "pooling_type", 0);
    // Converters do not write it; weft quantize does. What files without it mean is what llama.cpp takes them for.
    config->score_pooling =
        read_int(reader, "classifier.pooling_type", family->traits & MODEL_SCORES_BY_GELU ? 1 : 2);
    if (family->globals >> MODEL_GLOBAL_POSITIONS & 1)
        config->positions = rows_of(reader->file, "position_embd.weight");
    if (family->globals >> MODEL_GLOBAL_TOKEN_TYPES & 1)
        config->token_types = rows_of(reader->file, "token_types.weight");
    if (config->positions > 0 && config->trained_context > config->positions)
        config->trained_context = config->positions;
    config->labels = config->full_mask ? rows_of(reader->file, "cls.output.weight") : 0;
}

static bool read_architecture(model_config *config, const gguf_file *file, engine_error *err)
{
    gguf_string name;
    const char *key = "general.architecture";
    if (!gguf_needed(file, gguf_get_string(file, key, &name), key, "a string", err))
        return false;
    config->architecture = model_architecture_find(name.data, name.size_bytes);
    if (config->architecture)
        return true;
    if (gguf_string_equals(name, "clip"))
        return engine_fail(err, "is the part of a model that sees or hears, which weft leaves out: "
                                "name the file of its language model");
    const char *lacks = gguf_family_lacks(name.data, name.size_bytes);
    if (lacks)
        return engine_fail(err, "architecture '%.*s' cannot run: %s, which weft does not have",
                           GGUF_SHOWN(name), lacks);
    char known[512] = "";
    const model_architecture *other;
    for (int32_t n = 0; (other = model_architecture_at(n)); n++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", n ? ", " : "",
                 other->name);
    return engine_fail(err, "architecture '%.*s' cannot run yet: weft knows %s", GGUF_SHOWN(name),
                       known);
}

bool model_config_read(model_config *config, const gguf_file *file, engine_error *err)
{
    memset(config, 0, sizeof *config);
    if (!read_architecture(config, file, err))
        return false;
    key_reader reader = {.file = file, .prefix = config->architecture->name, .err = err};
    config->layers = read_int(&reader, "block_count", -1);
    config->embedding_dim = read_int(&reader, "embedding_length", -1);
    config->feed_forward_dim = read_int(&reader, "feed_forward_length", -1);
    config->trained_context = read_int(&reader, "context_length", -1);
    config->q_heads = read_heads(&reader, "attention.head_count", -1);
    if (reader.failed)
        return false;
    config->kv_heads = read_heads(&reader, "attention.head_count_kv", config->q_heads);
    int32_t even_share = config->q_heads > 0 ? config->embedding_dim / config->q_heads : 0;
    config->head_dim = read_int(&reader, "attention.key_length", even_share);
    int32_t value_dim = read_int(&reader, "attention.value_length", config->head_dim);
    read_window(&reader, config);
    config->norm_eps = read_float(&reader,
                                  config->architecture->norm == WEFT_NORM_LAYER
                                      ? "attention.layer_norm_epsilon"
                                      : "attention.layer_norm_rms_epsilon",
                                  1e-5f);
    read_factors(&reader, config);
    config->experts = read_int(&reader, "expert_count", 0);
    if (!reader.failed && !choose_mixture(config, err))
        return false;
    if (config->experts != 0)
        read_experts(&reader, config);
    read_units(&reader, config);
    read_tables(&reader, config);
    read_rope(&reader, config);
    read_local_rope(&reader, config);
    if (reader.failed || !choose_blocks(&reader, config) || !read_function(&reader, config) ||
        !check_pattern(&reader, config))
        return false;
    if (config->architecture->traits & MODEL_LATENT_ATTENTION) {
        if (!read_latent(&reader, config, value_dim))
            return false;
    } else if (value_dim != config->head_dim)
        return engine_fail(err, "values of %d elements beside keys of %d cannot run yet", value_dim,
                           config->head_dim);
    const gguf_tensor *embedding = gguf_find_tensor(file, "token_embd.weight");
    if (!embedding || embedding->rank != 2 || embedding->shape[1] > MAX_DIM * 16)
        return engine_fail(err,
                           "token_embd.weight is missing or no matrix: the file is incomplete");
    config->vocab = (int32_t)embedding->shape[1];
    return model_config_check(config, err);
}
