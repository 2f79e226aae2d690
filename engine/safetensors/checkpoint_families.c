// SPDX-License-Identifier: MIT
// What config.json may say, brought to one set of names.
#include <stdio.h>
#include <string.h>

#include "engine/gguf/missing.h"
#include "engine/safetensors/checkpoint_parts.h"

// Numbers that the files of a family leave to its code.
#define GEMMA_3                                                                                    \
    "{\"num_attention_heads\": 8, \"num_key_value_heads\": 4, \"head_dim\": 256,"                  \
    "\"max_position_embeddings\": 131072, \"rms_norm_eps\": 1e-6, \"rope_theta\": 1e6,"            \
    "\"rope_local_base_freq\": 1e4, \"query_pre_attn_scalar\": 256, \"sliding_window\": 4096}"
#define FALCON                                                                                     \
    "{\"max_position_embeddings\": 2048, \"layer_norm_epsilon\": 1e-5, \"rope_theta\": 1e4}"

#define LLAMA_4                                                                                    \
    "{\"head_dim\": 128, \"max_position_embeddings\": 131072, \"rms_norm_eps\": 1e-5,"             \
    "\"rope_theta\": 5e5, \"sliding_window\": 8192, \"floor_scale\": 8192, \"attn_scale\": 0.1,"   \
    "\"num_experts_per_tok\": 1, \"interleave_moe_layer_step\": 1, \"use_qk_norm\": true}"

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
     .window_period = 6, .defaults = GEMMA_3},
    {"phi3", "phi3", .halves = false},
    {"olmo2", "olmo2", .post_norms = true},
    {"granite", "granite", .halves = true},
    {"glm", "chatglm", .halves = false},
    {"glm4", "glm4", .halves = false},
    {"smollm3", "smollm3", .halves = true, .unrotated_period = 4},
    {"exaone", "exaone", .defaults = "{\"rms_norm_eps\": 1e-5}"},
    {"exaone4", "exaone4", .post_norms = true, .window_period = 4},
    {"minicpm", "minicpm", .halves = true, .tied = true},
    {"cohere", "command-r", .layer_norm = true, .tied = true},
    {"cohere2", "cohere2", .layer_norm = true, .tied = true, .window_period = 4},
    {"phi", "phi2", .layer_norm = true},
    {"stablelm", "stablelm", .layer_norm = true},
    {"starcoder2", "starcoder2", .layer_norm = true},
    {"gpt2", "gpt2", .layer_norm = true, .transposed = true, .tied = true},
    {"gpt_neox", "gptneox", .layer_norm = true, .qkv = CHECKPOINT_QKV_PER_HEAD,
     .defaults = "{\"partial_rotary_factor\": 0.25}"},
    {"falcon", "falcon", .layer_norm = true, .qkv = CHECKPOINT_QKV_PER_KV_HEAD, .tied = true,
     .defaults = FALCON},
    {"gpt_oss", "gpt-oss", .post_norms = true, .window_period = 2,
     .stacking = CHECKPOINT_EXPERTS_BY_TURNS},
    {"llama4_text", "llama4", .window_period = 4, .unrotated_period = 4,
     .stacking = CHECKPOINT_EXPERTS_HALVES, .defaults = LLAMA_4},
    {"dots1", "dots1", .halves = false},
    {"deepseek_v2", "deepseek2", .latent = true},
    {"deepseek_v3", "deepseek2", .latent = true,
     .defaults = "{\"scoring_func\": \"sigmoid\", \"norm_topk_prob\": true}"},
    {"bert", "bert", .layer_norm = true, .encoder = true},
    {"roberta", "bert", .layer_norm = true, .encoder = true, .first_position = 2},
    {"xlm-roberta", "bert", .layer_norm = true, .encoder = true, .first_position = 2},
    {"nomic_bert", "nomic-bert", .stream_norms = true, .layer_norm = true, .encoder = true},
    {"bert", "jina-bert-v2", .layer_norm = true, .encoder = true, .alibi = true},
    {"nomic_bert", "nomic-bert-moe", .layer_norm = true, .encoder = true, .some_sparse = true,
     .stacking = CHECKPOINT_EXPERTS_BELOW},
    {"modernbert", "modern-bert", .layer_norm = true, .encoder = true, .window_period = 3},
    {"eurobert", "eurobert", .encoder = true},
};

// {what the readers ask for, what some families call it}
static const char *const aliases[][2] = {
    {"num_hidden_layers", "n_layer"},
    {"num_hidden_layers", "num_layers"},
    {"hidden_size", "n_embd"},
    {"intermediate_size", "n_inner"},
    {"intermediate_size", "ffn_hidden_size"},
    {"max_position_embeddings", "n_positions"},
    {"num_attention_heads", "n_head"},
    {"num_key_value_heads", "num_kv_heads"},
    {"num_key_value_heads", "n_head_kv"},
    {"layer_norm_eps", "norm_epsilon"},
    {"layer_norm_eps", "layer_norm_epsilon"},
    {"layer_norm_eps", "norm_eps"},
    {"rope_theta", "rotary_emb_base"},
    {"rope_theta", "global_rope_theta"},
    {"rope_local_base_freq", "local_rope_theta"},
    {"sliding_window", "local_attention"},
    {"sliding_window", "attention_chunk_size"},
    {"partial_rotary_factor", "rotary_pct"},
    {"partial_rotary_factor", "rotary_emb_fraction"},
    {"num_experts", "num_local_experts"},
    {"num_experts", "n_routed_experts"},
    {"num_experts_per_tok", "experts_per_token"},
    {"embedding_multiplier", "scale_emb"},
    {"num_experts_per_tok", "moe_top_k"},
    {"norm_topk_prob", "moe_normalize_expert_weights"},
};

static bool has(const json_t *config, const char *name)
{
    const json_t *value = json_object_get(config, name);
    return value && !json_is_null(value);
}

// Language models with eyes have the numbers of the language model apart.
static void take_text_config(checkpoint *c)
{
    static const char *const kept[] = {"quantization", "quantization_config", "eos_token_id",
                                       "bos_token_id", "tie_word_embeddings"};
    json_t *text = json_object_get(c->config, "text_config");
    if (!json_is_object(text) || !has(text, "model_type"))
        return;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (!has(text, kept[i]) && has(c->config, kept[i]))
            json_object_set(text, kept[i], json_object_get(c->config, kept[i]));
    json_incref(text);
    json_decref(c->config);
    c->config = text;
}

// Of families that share a model_type.
static bool is_meant(const checkpoint_family *family, const json_t *config)
{
    const char *positions = json_string_value(json_object_get(config, "position_embedding_type"));
    return family->some_sparse ==
               (json_integer_value(json_object_get(config, "moe_every_n_layers")) > 0) &&
           family->alibi == (positions && strcmp(positions, "alibi") == 0);
}

static bool find_family(checkpoint *c, engine_error *err)
{
    const char *type = json_string_value(json_object_get(c->config, "model_type"));
    const char *lacks = type ? gguf_family_lacks(type, strlen(type)) : NULL;
    char known[1024] = "";
    if (lacks)
        return engine_fail(err,
                           "config.json: model_type '%.64s' cannot run: %s, which weft does not "
                           "have",
                           type, lacks);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (type && strcmp(families[i].model_type, type) == 0 &&
            (!c->family || is_meant(&families[i], c->config)))
            c->family = &families[i];
        if (families[i].some_sparse || families[i].alibi)
            continue;
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "",
                 families[i].model_type);
    }
    return c->family ||
           engine_fail(err, "config.json: model_type '%.64s' cannot be read yet: weft reads %s",
                       type ? type : "none", known);
}

static void set_int(json_t *config, const char *name, json_int_t value)
{
    json_object_set_new(config, name, json_integer(value));
}

static json_int_t int_of(const json_t *config, const char *name)
{
    return json_integer_value(json_object_get(config, name));
}

// Numbers that follow from others. Llama 4 calls the width of its experts what others call that of dense layers.
static void derive(json_t *config, const checkpoint_family *family)
{
    json_int_t hidden = int_of(config, "hidden_size"), positions;
    if (has(config, "intermediate_size_mlp")) {
        set_int(config, "moe_intermediate_size", int_of(config, "intermediate_size"));
        set_int(config, "shared_expert_intermediate_size", int_of(config, "intermediate_size"));
        set_int(config, "intermediate_size", int_of(config, "intermediate_size_mlp"));
    }
    if (!has(config, "intermediate_size") && hidden > 0 && hidden < INT32_MAX)
        set_int(config, "intermediate_size", 4 * hidden);
    if (family->qkv == CHECKPOINT_QKV_PER_KV_HEAD &&
        !json_is_true(json_object_get(config, "new_decoder_architecture")))
        set_int(config, "num_key_value_heads",
                json_is_false(json_object_get(config, "multi_query"))
                    ? int_of(config, "num_attention_heads")
                    : 1);
    positions = int_of(config, "max_position_embeddings");
    if (family->first_position && positions > family->first_position)
        set_int(config, "max_position_embeddings", positions - family->first_position);
}

bool checkpoint_settle_config(checkpoint *c, engine_error *err)
{
    take_text_config(c);
    if (!find_family(c, err))
        return false;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (!has(c->config, aliases[i][0]) && has(c->config, aliases[i][1]))
            json_object_set(c->config, aliases[i][0], json_object_get(c->config, aliases[i][1]));
    json_t *defaults = c->family->defaults ? json_loads(c->family->defaults, 0, NULL) : NULL;
    const char *name;
    json_t *value;
    json_object_foreach(defaults, name, value)
    {
        if (!has(c->config, name))
            json_object_set(c->config, name, value);
    }
    json_decref(defaults);
    derive(c->config, c->family);
    return true;
}
