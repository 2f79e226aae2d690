// SPDX-License-Identifier: MIT
// Numbers from the models' public config.json files.
#include "engine/model/shapes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
    const char *name, *architecture;
    int32_t layers, embedding_dim, feed_forward_dim, q_heads, kv_heads, head_dim, vocab, context;
    float rope_base;
} shape;

static const shape shapes[] = {
    {"llama-3.2-1b", "llama", 16, 2048, 8192, 32, 8, 64, 128256, 131072, 500000},
    {"llama-3.2-3b", "llama", 28, 3072, 8192, 24, 8, 128, 128256, 131072, 500000},
    {"llama-3.1-8b", "llama", 32, 4096, 14336, 32, 8, 128, 128256, 131072, 500000},
    {"mistral-7b", "llama", 32, 4096, 14336, 32, 8, 128, 32000, 32768, 10000},
    {"qwen2.5-0.5b", "qwen2", 24, 896, 4864, 14, 2, 64, 151936, 32768, 1000000},
    {"qwen2.5-1.5b", "qwen2", 28, 1536, 8960, 12, 2, 128, 151936, 32768, 1000000},
    {"qwen2.5-7b", "qwen2", 28, 3584, 18944, 28, 4, 128, 152064, 32768, 1000000},
    {"qwen3-0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151936, 40960, 1000000},
    {"qwen3-1.7b", "qwen3", 28, 2048, 6144, 16, 8, 128, 151936, 40960, 1000000},
    {"qwen3-4b", "qwen3", 36, 2560, 9728, 32, 8, 128, 151936, 40960, 1000000},
    {"qwen3-8b", "qwen3", 36, 4096, 12288, 32, 8, 128, 151936, 40960, 1000000},
    {"smollm2-135m", "llama", 30, 576, 1536, 9, 3, 64, 49152, 8192, 100000},
    {"emulated-dense", "llama", 3, 512, 768, 8, 1, 64, 512, 4096, 10000}, // of the tests
    {"emulated-wide", "llama", 4, 2304, 2304, 8, 1, 64, 512, 4096, 10000},
    // X of logits is rounded by a launch
    {"emulated-logits", "llama", 2, 1792, 512, 8, 1, 64, 512, 4096, 10000},
    {"emulated-long", "llama", 2, 512, 3072, 8, 1, 64, 512, 4096,
     10000}, // three times 1024 columns
    {"emulated-heads", "llama", 2, 512, 2304, 32, 4, 64, 512, 32768,
     10000}, // something for each of 132 SMs
    {"bert-base", "bert", 12, 768, 3072, 12, 12, 64, 30522, 512, 10000},
    {"qwen3-30b-a3b", "qwen3moe", 48, 2048, 6144, 32, 4, 128, 151936, 40960, 1000000},
    {"olmoe-1b-7b", "olmoe", 16, 2048, 1024, 16, 16, 128, 50304, 4096, 10000},
    {"mixtral-8x7b", "llama", 32, 4096, 14336, 32, 8, 128, 32000, 32768, 1000000},
    {"gpt-oss-20b", "gpt-oss", 24, 2880, 2880, 64, 8, 64, 201088, 131072, 150000},
    {"deepseek-v2-lite", "deepseek2", 27, 2048, 10944, 16, 1, 576, 102400, 163840, 10000},
};

// Those of them that are mixtures.
static const struct mixture {
    const char *name;
    int32_t experts, used, dim, window;
    int32_t shared, dense_layers;
} mixtures[] = {
    {"qwen3-30b-a3b", 128, 8, 768, 0, 0, 0},       {"olmoe-1b-7b", 64, 8, 1024, 0, 0, 0},
    {"mixtral-8x7b", 8, 2, 14336, 0, 0, 0},        {"gpt-oss-20b", 32, 4, 2880, 128, 0, 0},
    {"deepseek-v2-lite", 64, 6, 1408, 0, 2816, 1},
};

// And those with latent attention.
static const struct latent_shape {
    const char *name;
    model_latent latent;
    int32_t rotary_dim;
} latents[] = {
    {"deepseek-v2-lite", {.dim = 512, .q_dim = 192, .value_dim = 128}, 64},
};

static void set_latent(model_config *config, const char *name)
{
    for (size_t i = 0; i < sizeof latents / sizeof *latents; i++)
        if (strcmp(latents[i].name, name) == 0) {
            config->latent = latents[i].latent;
            config->rope.rotary_dim = latents[i].rotary_dim;
            config->attention_scale = 1 / sqrtf((float)config->latent.q_dim);
        }
}

// Tables that a family has beside the embedding.
static void set_tables(model_config *config)
{
    uint32_t globals = config->architecture->globals;
    config->full_mask = config->architecture->traits & MODEL_ENCODER;
    if (globals >> MODEL_GLOBAL_POSITIONS & 1)
        config->positions = config->trained_context;
    if (globals >> MODEL_GLOBAL_TOKEN_TYPES & 1)
        config->token_types = 2;
}

static void set_experts(model_config *config, const char *name)
{
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++) {
        const struct mixture *m = &mixtures[i];
        if (strcmp(m->name, name) != 0)
            continue;
        if (config->architecture->mixture)
            config->architecture = config->architecture->mixture;
        config->experts = m->experts;
        config->experts_used = m->used;
        config->expert_dim = m->dim;
        config->shared_dim = m->shared;
        config->dense_layers = m->dense_layers < config->layers ? m->dense_layers : 0;
        config->expert_groups = config->expert_top_groups = 1;
        config->normalises_route = (config->architecture->traits & MODEL_NORMALISES_ROUTE) != 0;
        config->window = m->window;
        config->window_period = config->architecture->window_period;
        config->unrotated_period = config->architecture->unrotated_period;
    }
}

const char *model_shape_at(int32_t n)
{
    int32_t count = sizeof shapes / sizeof *shapes;
    return n >= 0 && n < count ? shapes[n].name : NULL;
}

bool model_shape_config(model_config *config, const char *name, engine_error *err)
{
    size_t length = strcspn(name, "/");
    long layers = name[length] ? strtol(name + length + 1, NULL, 10) : 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *s = &shapes[i];
        if (strlen(s->name) != length || memcmp(s->name, name, length) != 0)
            continue;
        if (name[length] && (layers < 1 || layers > s->layers))
            return engine_fail(err, "%s has 1 to %d layers", s->name, s->layers);
        const model_architecture *family =
            model_architecture_find(s->architecture, strlen(s->architecture));
        *config = (model_config){
            .architecture = family,
            .layers = layers ? (int32_t)layers : s->layers,
            .embedding_dim = s->embedding_dim,
            .feed_forward_dim = s->feed_forward_dim,
            .vocab = s->vocab,
            .q_heads = s->q_heads,
            .kv_heads = s->kv_heads,
            .head_dim = s->head_dim,
            .trained_context = s->context,
            .function = family->function,
            .norm_eps = 1e-5f,
            .unrotated_period = family->unrotated_period,
            .rope = {.style = family->rope_style, .rotary_dim = s->head_dim, .base = s->rope_base}};
        set_tables(config);
        set_experts(config, s->name);
        set_latent(config, s->name);
        return model_config_check(config, err);
    }
    return engine_fail(err, "no shape is called '%s': `weft bench model --help` lists them", name);
}
