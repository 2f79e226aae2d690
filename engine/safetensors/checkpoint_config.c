// SPDX-License-Identifier: MIT
// config.json to GGUF's keys.
#include <math.h>
#include <string.h>

#include "engine/safetensors/checkpoint_keys.h"

enum { MAX_LAYERS = 1024 }; // more are refused by the engine

// Frequencies are divided by factors that the tensors bring (checkpoint_add_factors), scores grow with the
// context beyond the original one.
static bool put_long(const checkpoint_writer *w, const json_t *scaling)
{
    char key[128];
    int64_t original = 0, context;
    const json_t *factor = json_object_get(scaling, "attention_factor");
    if (!checkpoint_read_int(w, scaling, "original_max_position_embeddings", 0, &original) ||
        (original == 0 && !checkpoint_read_int(w, w->c->config, "original_max_position_embeddings",
                                               -1, &original)) ||
        !checkpoint_read_int(w, w->c->config, "max_position_embeddings", -1, &context))
        return false;
    double times = (double)context / (double)original;
    double by = times > 1 ? sqrt(1 + log(times) / log((double)original)) : 1;
    by = json_is_number(factor) ? json_number_value(factor) : by;
    gguf_output_u32(w->output, checkpoint_key(w, "rope.scaling.original_context_length", key),
                    (uint32_t)original);
    gguf_output_f32(w->output, checkpoint_key(w, "rope.scaling.attn_factor", key), (float)by);
    return true;
}

static bool put_scaling(const checkpoint_writer *w, const json_t *scaling)
{
    char key[128];
    const char *type = json_string_value(json_object_get(scaling, "rope_type"));
    int64_t original;
    if (!type)
        type = json_string_value(json_object_get(scaling, "type"));
    if (!type || strcmp(type, "default") == 0)
        return true;
    if (strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0)
        return put_long(w, scaling);
    gguf_output_text(w->output, checkpoint_key(w, "rope.scaling.type", key), type);
    if (!checkpoint_read_int(w, scaling, "original_max_position_embeddings", 0, &original))
        return false;
    if (original > 0)
        gguf_output_u32(w->output, checkpoint_key(w, "rope.scaling.original_context_length", key),
                        (uint32_t)original);
    const json_t *mscale = json_object_get(scaling, "mscale_all_dim");
    if (w->c->family->latent && json_is_number(mscale))
        gguf_output_f32(w->output, checkpoint_key(w, "rope.scaling.yarn_log_multiplier", key),
                        0.1f * (float)json_number_value(mscale));
    return checkpoint_put_float(w, scaling, "factor", "rope.scaling.factor") &&
           checkpoint_put_float(w, scaling, "low_freq_factor", "rope.scaling.low_freq_factor") &&
           checkpoint_put_float(w, scaling, "high_freq_factor", "rope.scaling.high_freq_factor") &&
           checkpoint_put_float(w, scaling, "attention_factor", "rope.scaling.yarn_attn_factor") &&
           checkpoint_put_float(w, scaling, "beta_fast", "rope.scaling.yarn_beta_fast") &&
           checkpoint_put_float(w, scaling, "beta_slow", "rope.scaling.yarn_beta_slow");
}

// How many elements of a head rotate.
static bool put_rotary(const checkpoint_writer *w, const json_t *rope, int64_t head_dim)
{
    char key[128];
    const json_t *share = json_object_get(rope, "partial_rotary_factor");
    if (!share)
        share = json_object_get(w->c->config, "partial_rotary_factor");
    double part = json_is_number(share) ? json_number_value(share) : 1;
    if (!(part > 0 && part <= 1))
        return engine_fail(w->err, "config.json: 'partial_rotary_factor' is %g, outside 0 to 1: %s",
                           part, "download it again");
    if (!w->c->family->latent)
        gguf_output_u32(w->output, checkpoint_key(w, "rope.dimension_count", key),
                        (uint32_t)(part * (double)head_dim));
    return true;
}

// Newer files have rope_theta and the scaling in rope_parameters, older ones beside the other numbers; and
// where layers with a window rotate by themselves, each kind of layer has its own.
static bool put_rope(const checkpoint_writer *w, int64_t head_dim)
{
    const json_t *config = w->c->config, *scaling = json_object_get(config, "rope_parameters");
    const json_t *whole = json_object_get(scaling, "full_attention");
    const json_t *local = json_object_get(scaling, "sliding_attention");
    if (json_is_object(whole))
        scaling = whole;
    const json_t *base = json_is_object(scaling) ? scaling : config;
    if (!json_is_object(scaling))
        scaling = json_object_get(config, "rope_scaling");
    return put_rotary(w, base, head_dim) &&
           checkpoint_put_float(w, base, "rope_theta", "rope.freq_base") &&
           checkpoint_put_float(w, local ? local : config,
                                local ? "rope_theta" : "rope_local_base_freq",
                                "rope.freq_base_swa") &&
           (!json_is_object(scaling) || put_scaling(w, scaling));
}

// Whether the n-th layer sees all keys, as the config has it; *said stays false where it does not say.
static bool sees_all(const checkpoint_writer *w, size_t n, bool *said)
{
    const json_t *pattern = json_object_get(w->c->config, "sliding_window_pattern");
    const json_t *type = json_array_get(json_object_get(w->c->config, "layer_types"), n);
    const json_t *every = json_object_get(w->c->config, "global_attn_every_n_layers");
    const char *letters = json_string_value(pattern), *name = json_string_value(type);
    *said = true;
    if (type)
        return name && strcmp(name, "full_attention") == 0;
    if (letters && *letters)
        return letters[n % strlen(letters)] == 'G';
    if (json_is_integer(pattern) && json_integer_value(pattern) > 0)
        return (json_int_t)(n + 1) % json_integer_value(pattern) == 0;
    if (json_is_integer(every) && json_integer_value(every) > 0)
        return (json_int_t)n % json_integer_value(every) == 0;
    *said = false;
    return false;
}

// Which layers have a window and which rotate is the family's: a config that says otherwise cannot run.
static bool check_layers(const checkpoint_writer *w)
{
    const checkpoint_family *family = w->c->family;
    const json_t *window = json_object_get(w->c->config, "sliding_window");
    const json_t *rotates = json_object_get(w->c->config, "no_rope_layers"), *one;
    int64_t first = family->encoder ? 0 : 1, period = family->window_period;
    bool fits = true, said;
    int64_t layers = w->c->layers < MAX_LAYERS ? w->c->layers : MAX_LAYERS;
    for (int64_t n = 0; period && window && !json_is_null(window) && n < layers; n++) {
        bool all = sees_all(w, (size_t)n, &said);
        fits = fits && (!said || all == ((n + first) % period == 0));
    }
    size_t n;
    json_array_foreach(rotates, n, one)
    {
        bool expected = family->unrotated_period && (n + 1) % (size_t)family->unrotated_period == 0;
        fits = fits && (json_integer_value(one) == 0) == expected;
    }
    return fits || engine_fail(w->err,
                               "config.json: layers with a window are not those of other %s "
                               "models: weft cannot run this one yet",
                               family->model_type);
}

// Scales and caps that some families have.
static bool put_factors(const checkpoint_writer *w)
{
    static const char *const names[][2] = {
        {"attention_multiplier", "attention.scale"},
        {"embedding_multiplier", "embedding_scale"},
        {"residual_multiplier", "residual_scale"},
        {"logits_scaling", "logit_scale"},
        {"logit_scale", "logit_scale"},
        {"attn_logit_softcapping", "attn_logit_softcapping"},
        {"final_logit_softcapping", "final_logit_softcapping"},
    };
    char key[128];
    const json_t *scalar = json_object_get(w->c->config, "query_pre_attn_scalar");
    if (json_is_number(scalar) && json_number_value(scalar) > 0)
        gguf_output_f32(w->output, checkpoint_key(w, "attention.scale", key),
                        (float)(1 / sqrt(json_number_value(scalar))));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!checkpoint_put_float(w, w->c->config, names[i][0], names[i][1]))
            return false;
    const json_t *depth = json_object_get(w->c->config, "scale_depth");
    const json_t *base = json_object_get(w->c->config, "dim_model_base");
    if (json_is_number(depth))
        gguf_output_f32(w->output, checkpoint_key(w, "residual_scale", key),
                        (float)(json_number_value(depth) / sqrt((double)w->c->layers)));
    if (json_is_number(base))
        gguf_output_f32(w->output, checkpoint_key(w, "logit_scale", key),
                        (float)(json_number_value(json_object_get(w->c->config, "hidden_size")) /
                                json_number_value(base)));
    return true;
}

static bool put_norm_eps(const checkpoint_writer *w)
{
    const char *key = w->c->family->layer_norm ? "attention.layer_norm_epsilon"
                                               : "attention.layer_norm_rms_epsilon";
    const char *name = json_object_get(w->c->config, "rms_norm_eps") && !w->c->family->layer_norm
                           ? "rms_norm_eps"
                           : "layer_norm_eps";
    return checkpoint_put_float(w, w->c->config, name, key);
}

// The function of the feed-forward blocks, which the engine knows or refuses. Gemma's first configs say gelu and
// leave hidden_activation out: those models were made, and are run by everybody, with its tanh form.
static bool put_function(const checkpoint_writer *w)
{
    static const char *const names[] = {"hidden_activation", "hidden_act", "activation_function",
                                        "activation"};
    char key[128];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *value = json_object_get(w->c->config, names[i]);
        const char *name = json_string_value(value);
        if (!value || json_is_null(value))
            continue;
        if (!name)
            return engine_fail(w->err, "config.json: '%s' is no name; download it again", names[i]);
        if (i > 0 && strcmp(name, "gelu") == 0 && strcmp(w->c->family->model_type, "gemma") == 0)
            name = "gelu_pytorch_tanh";
        gguf_output_text(w->output, checkpoint_key(w, "hidden_activation", key), name);
        return true;
    }
    return true;
}

static bool put_window(const checkpoint_writer *w)
{
    int64_t window;
    const json_t *use = json_object_get(w->c->config, "use_sliding_window");
    if (json_is_false(use))
        return true;
    return checkpoint_put_int(w, "sliding_window", "attention.sliding_window", 0, &window);
}

// How queries grow with their position, and whether heads have a length of 1 (Llama 4).
static bool put_growth(const checkpoint_writer *w)
{
    char key[128];
    int64_t length;
    const json_t *config = w->c->config, *units = json_object_get(config, "use_qk_norm");
    const json_t *tunes = json_object_get(config, "attn_temperature_tuning");
    if (!checkpoint_put_int(w, "floor_scale", "attention.temperature_length", 0, &length))
        return false;
    if (length == 0)
        return true;
    gguf_output_bool(w->output, checkpoint_key(w, "attention.unit_heads", key),
                     json_is_true(units));
    if (!json_is_false(tunes) && !(json_is_integer(tunes) && json_integer_value(tunes) == 0))
        return checkpoint_put_float(w, config, "attn_scale", "attention.temperature_scale");
    gguf_output_f32(w->output, checkpoint_key(w, "attention.temperature_scale", key), 0);
    return true;
}

// Keys are [latent | rotated] of one head for all, values their latent part.
static bool put_latent(const checkpoint_writer *w)
{
    char key[128];
    checkpoint *c = w->c;
    int64_t rank, rotary, q_rank;
    if (!checkpoint_put_int(w, "kv_lora_rank", "attention.kv_lora_rank", -1, &rank) ||
        !checkpoint_put_int(w, "qk_rope_head_dim", "rope.dimension_count", -1, &rotary) ||
        !checkpoint_read_int(w, c->config, "qk_nope_head_dim", -1, &c->plain_dim) ||
        !checkpoint_put_int(w, "v_head_dim", "attention.value_length_mla", -1, &c->value_dim) ||
        !checkpoint_put_int(w, "q_lora_rank", "attention.q_lora_rank", 0, &q_rank))
        return false;
    gguf_output_u32(w->output, checkpoint_key(w, "attention.head_count_kv", key), 1);
    gguf_output_u32(w->output, checkpoint_key(w, "attention.key_length", key),
                    (uint32_t)(rank + rotary));
    gguf_output_u32(w->output, checkpoint_key(w, "attention.value_length", key), (uint32_t)rank);
    gguf_output_u32(w->output, checkpoint_key(w, "attention.key_length_mla", key),
                    (uint32_t)(c->plain_dim + rotary));
    return true;
}

static bool put_heads(const checkpoint_writer *w, int64_t hidden)
{
    checkpoint *c = w->c;
    int64_t even;
    if (c->family->latent)
        return checkpoint_read_int(w, c->config, "num_key_value_heads", c->q_heads, &c->kv_heads) &&
               put_latent(w);
    even = hidden / c->q_heads > 0 ? hidden / c->q_heads : 1;
    return checkpoint_put_int(w, "num_key_value_heads", "attention.head_count_kv", c->q_heads,
                              &c->kv_heads) &&
           checkpoint_put_int(w, "head_dim", "attention.key_length", even, &c->head_dim) &&
           checkpoint_put_int(w, "head_dim", "attention.value_length", even, &c->head_dim);
}

// What a reranker's classifier reads, where the config says; which function it has is the family's.
static bool put_classifier(const checkpoint_writer *w)
{
    char key[128];
    const char *pooling = json_string_value(json_object_get(w->c->config, "classifier_pooling"));
    const char *name = json_string_value(json_object_get(w->c->config, "classifier_activation"));
    if (strcmp(w->c->family->model_type, "modernbert") != 0)
        return true;
    if (name && strcmp(name, "gelu") != 0)
        return engine_fail(w->err, "config.json: a classifier with '%.32s' cannot run yet", name);
    if (pooling && strcmp(pooling, "mean") != 0 && strcmp(pooling, "cls") != 0)
        return engine_fail(w->err, "config.json: a classifier of '%.32s' cannot run yet", pooling);
    if (pooling)
        gguf_output_u32(w->output, checkpoint_key(w, "classifier.pooling_type", key),
                        strcmp(pooling, "mean") == 0 ? 1 : 2);
    return true;
}

// Do the weights belong to a class that gives scores?
static bool is_reranker(const checkpoint *c)
{
    static const char tail[] = "ForSequenceClassification";
    const char *class =
        json_string_value(json_array_get(json_object_get(c->config, "architectures"), 0));
    size_t length = class ? strlen(class) : 0;
    return length >= sizeof tail && strcmp(class + length - (sizeof tail - 1), tail) == 0;
}

// What encoders say beside the numbers of all models: how a text becomes one vector, or a score.
static bool put_encoder(const checkpoint_writer *w)
{
    static const char *const ways[] = {"pooling_mode_mean_tokens", "pooling_mode_cls_token",
                                       "pooling_mode_lasttoken"};
    char key[128];
    bool missing;
    if (!w->c->family->encoder)
        return true;
    json_t *pooling = checkpoint_json(w->c, "1_Pooling/config.json", &missing, w->err);
    if (!pooling && !missing)
        return false;
    gguf_output_bool(w->output, checkpoint_key(w, "attention.causal", key), false);
    if (missing && is_reranker(w->c))
        gguf_output_u32(w->output, checkpoint_key(w, "pooling_type", key), 4);
    for (uint32_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (json_is_true(json_object_get(pooling, ways[i]))) {
            gguf_output_u32(w->output, checkpoint_key(w, "pooling_type", key), i + 1);
            break;
        }
    json_decref(pooling);
    return put_classifier(w);
}

// What the code of nomic-bert's folders could do besides, and no model of it does.
static bool check_nomic(const checkpoint_writer *w)
{
    static const char *const names[] = {"prenorm",
                                        "parallel_block",
                                        "rotary_emb_interleaved",
                                        "rotary_emb_scale_base",
                                        "use_rms_norm",
                                        "expert_choice_router",
                                        "num_shared_experts",
                                        "causal",
                                        "scale_attn_by_inverse_layer_idx"};
    if (strcmp(w->c->family->model_type, "nomic_bert") != 0)
        return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *value = json_object_get(w->c->config, names[i]);
        if (value && !json_is_null(value) && !json_is_false(value) &&
            !(json_is_number(value) && json_number_value(value) == 0))
            return engine_fail(w->err, "config.json: '%s' of nomic_bert cannot run yet", names[i]);
    }
    return true;
}

// What would change what the layers do, and that no family here has.
static bool check_words(const checkpoint_writer *w)
{
    char key[128];
    const json_t *parallel = json_object_get(w->c->config, "use_parallel_residual");
    const char *positions =
        json_string_value(json_object_get(w->c->config, "position_embedding_type"));
    const char *block = json_string_value(json_object_get(w->c->config, "feed_forward_type"));
    if (!check_nomic(w))
        return false;
    if (w->c->family->alibi && (!block || strcmp(block, "geglu") != 0))
        return engine_fail(w->err, "config.json: feed_forward_type '%.32s' cannot run yet",
                           block ? block : "none");
    if (w->c->family->encoder && positions && strncmp(positions, "relative", 8) == 0)
        return engine_fail(w->err, "config.json: positions of kind '%.32s' cannot run yet",
                           positions);
    if (json_is_true(json_object_get(w->c->config, "alibi")))
        return engine_fail(w->err, "config.json: alibi in place of rope cannot run yet");
    if (w->c->family->qkv == CHECKPOINT_QKV_PER_KV_HEAD &&
        json_is_false(json_object_get(w->c->config, "parallel_attn")))
        return engine_fail(w->err, "config.json: blocks of falcon that follow one another "
                                   "cannot run yet");
    if (strcmp(w->c->family->model_type, "stablelm") == 0 && json_is_true(parallel))
        return engine_fail(w->err, "config.json: blocks of stablelm that lie side by side cannot "
                                   "run yet");
    if (w->c->family->qkv == CHECKPOINT_QKV_PER_HEAD && json_is_boolean(parallel))
        gguf_output_bool(w->output, checkpoint_key(w, "use_parallel_residual", key),
                         json_is_true(parallel));
    return true;
}

bool checkpoint_read_config(checkpoint *c, gguf_output *output, engine_error *err)
{
    const checkpoint_writer w = {c, output, err};
    int64_t hidden, wide, context;
    if (!checkpoint_settle_config(c, err) || !checkpoint_read_quantization(c, err))
        return false;
    const char *name = json_string_value(json_object_get(c->config, "_name_or_path"));
    gguf_output_text(output, "general.architecture", c->family->architecture);
    gguf_output_text(output, "general.name", name && *name ? name : c->family->architecture);
    gguf_output_u32(output, "general.file_type", 1);
    bool good =
        checkpoint_put_int(&w, "num_hidden_layers", "block_count", -1, &c->layers) &&
        checkpoint_put_int(&w, "hidden_size", "embedding_length", -1, &hidden) &&
        checkpoint_put_int(&w, "intermediate_size", "feed_forward_length", -1, &wide) &&
        checkpoint_put_int(&w, "max_position_embeddings", "context_length", -1, &context) &&
        checkpoint_put_int(&w, "num_attention_heads", "attention.head_count", -1, &c->q_heads) &&
        put_heads(&w, hidden) && put_norm_eps(&w) && put_rope(&w, c->head_dim) && put_window(&w) &&
        put_function(&w) && check_layers(&w) && put_factors(&w) && checkpoint_put_experts(&w) &&
        put_growth(&w) && put_encoder(&w) && check_words(&w);
    const json_t *tied = json_object_get(c->config, "tie_word_embeddings");
    c->tied = json_is_boolean(tied) ? json_is_true(tied) : c->family->tied;
    return good;
}
