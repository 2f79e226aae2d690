// SPDX-License-Identifier: MIT
// Models of known shapes with made-up weights and a made-up vocabulary, which weft and llama.cpp load.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/model/shapes.h"
#include "engine/model/weights.h"
#include "engine/quantize/job.h"

enum {
    BYTE_TOKENS = 256,
    FIRST_WORD = 3 + BYTE_TOKENS, // after <unk>, <s>, </s> and the bytes
    NORMAL = 1,
    UNKNOWN = 2,
    CONTROL = 3,
    BYTE = 6,
};

static void piece_of(int32_t id, char text[16])
{
    static const char *const special[] = {"<unk>", "<s>", "</s>"};
    if (id < 3)
        snprintf(text, 16, "%s", special[id]);
    else if (id < FIRST_WORD)
        snprintf(text, 16, "<0x%02X>", (unsigned)(id - 3));
    else if (id == FIRST_WORD)
        snprintf(text, 16, "\xe2\x96\x81"); // a space
    else
        snprintf(text, 16, "\xe2\x96\x81w%d", id);
}

// A SentencePiece vocabulary of byte tokens and words w260, w261, ...
static void write_vocabulary(gguf_output *output, int32_t vocab)
{
    char text[16];
    gguf_output_text(output, "tokenizer.ggml.model", "llama");
    gguf_output_array(output, "tokenizer.ggml.tokens", GGUF_STRING, (uint64_t)vocab);
    for (int32_t id = 0; id < vocab; id++) {
        piece_of(id, text);
        gguf_output_element_text(output, text);
    }
    gguf_output_array(output, "tokenizer.ggml.scores", GGUF_F32, (uint64_t)vocab);
    for (int32_t id = 0; id < vocab; id++) {
        float score = id < FIRST_WORD ? 0 : -(float)(id - FIRST_WORD);
        gguf_output_element(output, &score, sizeof score);
    }
    gguf_output_array(output, "tokenizer.ggml.token_type", GGUF_I32, (uint64_t)vocab);
    for (int32_t id = 0; id < vocab; id++) {
        int32_t type = id == 0 ? UNKNOWN : id < 3 ? CONTROL : id < FIRST_WORD ? BYTE : NORMAL;
        gguf_output_element(output, &type, sizeof type);
    }
    gguf_output_u32(output, "tokenizer.ggml.bos_token_id", 1);
    gguf_output_u32(output, "tokenizer.ggml.eos_token_id", 2);
}

static void write_numbers(gguf_output *output, const model_config *config, const char *name,
                          uint32_t file_type)
{
    const char *family = config->architecture->name;
    const struct {
        const char *tail;
        int32_t value;
    } numbers[] = {
        {"block_count", config->layers},
        {"embedding_length", config->embedding_dim},
        {"feed_forward_length", config->feed_forward_dim},
        {"context_length", config->trained_context},
        {"attention.head_count", config->q_heads},
        {"attention.head_count_kv", config->kv_heads},
        {"attention.key_length", config->head_dim},
        {"attention.value_length", config->latent.dim ? config->latent.dim : config->head_dim},
        {"attention.kv_lora_rank", config->latent.dim},
        {"attention.q_lora_rank", config->latent.q_rank},
        {"attention.key_length_mla", config->latent.q_dim},
        {"attention.value_length_mla", config->latent.value_dim},
        {"leading_dense_block_count", config->dense_layers},
        {"expert_shared_feed_forward_length", config->shared_dim},
        {"rope.dimension_count", config->rope.rotary_dim},
        {"vocab_size", config->vocab},
        {"expert_count", config->experts},
        {"expert_used_count", config->experts_used},
        {"expert_feed_forward_length", config->expert_dim},
        {"attention.sliding_window", config->window},
    };
    char key[64];
    gguf_output_text(output, "general.architecture", family);
    gguf_output_text(output, "general.name", name);
    gguf_output_u32(output, "general.quantization_version", 2);
    gguf_output_u32(output, "general.file_type", file_type);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].value == 0) // what the shape does not have
            continue;
        snprintf(key, sizeof key, "%s.%s", family, numbers[i].tail);
        gguf_output_u32(output, key, (uint32_t)numbers[i].value);
    }
    snprintf(key, sizeof key, "%s.rope.freq_base", family);
    gguf_output_f32(output, key, config->rope.base);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", family);
    gguf_output_f32(output, key, config->norm_eps);
}

static bool add(quantize_job *job, const model_config *config, const model_tensor_spec *spec,
                const char *name, engine_error *err)
{
    const int64_t matrices = model_extent_matrices(config, spec->rows);
    gguf_tensor tensor = {.rank = spec->rows == MODEL_ONE ? 1
                                  : matrices > 1          ? 3
                                                          : 2,
                          .shape = {model_extent_value(config, spec->cols),
                                    model_extent_value(config, spec->rows) / matrices, matrices, 1},
                          .type = ggml_type_find(0),
                          .dtype = WEFT_F32};
    snprintf(tensor.name, sizeof tensor.name, "%s", name);
    tensor.element_count = tensor.shape[0] * tensor.shape[1] * matrices;
    tensor.size_bytes = (size_t)tensor.element_count * sizeof(float);
    job->tensors[job->count].seed = strstr(name, "norm") ? 0 : job->count + 1;
    return quantize_job_add(job, &tensor, err);
}

// Shapes share one table for input and output, as engine_model_synthesise; llama.cpp refuses a gpt-oss file without an
// output matrix of its own.
static bool ties_output(const model_config *config)
{
    return strcmp(config->architecture->name, "gpt-oss") != 0;
}

static bool writes_global(const model_config *config, int tensor)
{
    return model_config_needs_global(config, tensor) ||
           (tensor == MODEL_GLOBAL_OUTPUT && !ties_output(config));
}

static bool add_all(quantize_job *job, const model_config *config, engine_error *err)
{
    size_t room = MODEL_GLOBAL_TENSOR_COUNT + (size_t)config->layers * MODEL_LAYER_TENSOR_COUNT;
    job->tensors = engine_alloc(room, sizeof *job->tensors);
    if (!job->tensors)
        return engine_fail(err, "out of memory for the list of tensors; close other programs");
    for (int i = 0; i < MODEL_GLOBAL_TENSOR_COUNT; i++)
        if (writes_global(config, i) &&
            !add(job, config, &model_global_specs[i], model_global_specs[i].name, err))
            return false;
    for (int32_t n = 0; n < config->layers; n++)
        for (uint32_t i = 1; i < MODEL_LAYER_TENSOR_COUNT; i++) {
            char name[GGUF_MAX_NAME_BYTES + 1];
            snprintf(name, sizeof name, "blk.%d.%s", n, model_layer_specs[i].name);
            if (model_config_needs(config, n) >> i & 1 &&
                !add(job, config, &model_layer_specs[i], name, err))
                return false;
        }
    return true;
}

static bool make(quantize_job *job, const char *shape, const char *out, engine_error *err)
{
    model_config config;
    if (!model_shape_config(&config, shape, err))
        return false;
    job->facts.layers = config.layers;
    job->facts.heads_per_kv_head = config.q_heads / config.kv_heads;
    job->facts.tied = ties_output(&config);
    if (!add_all(job, &config, err))
        return false;
    job->output = gguf_output_open(out, err);
    if (!job->output)
        return false;
    write_numbers(job->output, &config, shape, gguf_mix_file_type(job->mix));
    write_vocabulary(job->output, config.vocab);
    return quantize_job_run(job, err);
}

bool engine_quantize_shape(const char *shape, const char *out, const quantize_options *options,
                           engine_error *err)
{
    quantize_job job;
    bool good = quantize_job_start(&job, options, err) && make(&job, shape, out, err);
    quantize_job_free(&job);
    return good;
}
