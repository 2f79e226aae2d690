// SPDX-License-Identifier: MIT
#include "engine/model/model.h"

#include <stdio.h>
#include <stdlib.h>

#include "engine/base/alloc.h"
#include "engine/gguf/mix.h"
#include "engine/model/adapters.h"
#include "engine/model/settings.h"
#include "engine/model/shapes.h"
#include "engine/safetensors/checkpoint.h"

static engine_model *start(engine_error *err)
{
    engine_model *model = engine_alloc(1, sizeof *model);
    if (model)
        model->packed = packed_store_make();
    if (model && model->packed)
        return model;
    engine_fail(err, "not enough memory for a model");
    free(model);
    return NULL;
}

static bool load(engine_model *model, const char *path, engine_error *err)
{
    gguf_string name;
    model->file = model_file_open(path, err);
    if (!model->file)
        return false;
    if (gguf_get_string(model->file, "general.name", &name) == GGUF_FOUND)
        gguf_value_text(gguf_find(model->file, "general.name"), model->name, sizeof model->name);
    if (model_is_adapter(model->file)) {
        engine_fail(err, "this is an adapter, not a model: give it with --lora beside its model");
        return engine_fail_in(err, path);
    }
    if (!model_config_read(&model->config, model->file, err) ||
        !model_weights_bind(&model->weights, &model->config, model->file, err))
        return engine_fail_in(err, path);
    model->tokenizer = tokenizer_from_gguf(model->file, err);
    if (!model->tokenizer)
        return engine_fail_in(err, path);
    if (tokenizer_size(model->tokenizer) <= (size_t)model->config.vocab)
        return true;
    engine_fail(err, "the tokenizer has %zu pieces, the embedding only %d rows",
                tokenizer_size(model->tokenizer), model->config.vocab);
    return engine_fail_in(err, path);
}

engine_model *engine_model_open(const char *path, engine_error *err)
{
    engine_model *model = start(err);
    if (model && load(model, path, err))
        return model;
    engine_model_close(model);
    return NULL;
}

weft_dtype engine_main_format(const char *formats)
{
    const weft_dtype format = weft_dtype_parse(formats);
    const gguf_mix *mix = gguf_mix_find(formats);
    return format != WEFT_DTYPE_NONE ? format : mix ? gguf_mix_format(mix) : WEFT_DTYPE_NONE;
}

static bool synthesise(engine_model *model, const char *shape, const char *formats,
                       const engine_options *options, engine_error *err)
{
    worker_settings settings;
    snprintf(model->name, sizeof model->name, "%s", shape);
    return model_shape_config(&model->config, shape, err) &&
           worker_settings_make(&settings, options, &model->config, err) &&
           model_weights_synthesise(&model->weights, &model->config, formats, settings.pool_bytes,
                                    err);
}

engine_model *engine_model_synthesise(const char *shape, const char *formats,
                                      const engine_options *options, engine_error *err)
{
    engine_model *model = start(err);
    if (model && synthesise(model, shape, formats, options, err))
        return model;
    engine_model_close(model);
    return NULL;
}

engine_model *engine_model_outline(const char *shape, const char *formats, engine_error *err)
{
    engine_model *model = start(err);
    if (model)
        snprintf(model->name, sizeof model->name, "%s", shape);
    if (model && model_shape_config(&model->config, shape, err) &&
        model_weights_outline(&model->weights, &model->config, formats, err))
        return model;
    engine_model_close(model);
    return NULL;
}

const char *engine_shape_at(int32_t n)
{
    return model_shape_at(n);
}

void engine_model_close(engine_model *model)
{
    if (!model)
        return;
    model_weights_free(&model->weights);
    tokenizer_free(model->tokenizer);
    packed_store_free(model->packed);
    gguf_close(model->file);
    free(model);
}

static int64_t matrix_bytes(const model_tensor *matrix)
{
    return weft_dtype_row_bytes(matrix->dtype, matrix->cols) * matrix->rows +
           gguf_planes_bytes(&matrix->planes, matrix->rows, matrix->cols);
}

static int64_t expert_bytes(const engine_model *model)
{
    static const enum model_layer_tensor parts[] = {MODEL_EXPERTS_GATE, MODEL_EXPERTS_UP,
                                                    MODEL_EXPERTS_DOWN};
    int64_t total = 0;
    for (int32_t n = 0; model->config.experts && n < model->config.layers; n++)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            const model_tensor *tensor = &model->weights.layers[n].tensors[parts[i]];
            if (tensor->rows > 0)
                total += matrix_bytes(tensor);
        }
    return total;
}

// Bytes of the matrices that every generated token reads: all but the embedding, of which one row is
// looked up, unless it is the output matrix as well.
static int64_t streamed_bytes(const engine_model *model)
{
    const model_config *config = &model->config;
    const model_tensor *table = &model->weights.globals[MODEL_GLOBAL_EMBEDDING];
    bool tied = !config->full_mask && model_output_matrix(&model->weights) == table;
    int64_t table_bytes = matrix_bytes(table);
    int64_t idle = 0;
    if (config->experts)
        idle = expert_bytes(model) / config->experts * (config->experts - config->experts_used);
    return model->weights.bytes - (tied ? 0 : table_bytes) - idle;
}

// BERT and its like have one, RoBERTa and XLM-R two.
static int32_t separators(const engine_model *model)
{
    const bool one =
        model->config.architecture->traits & MODEL_SCORES_BY_GELU ||
        (model->tokenizer && tokenizer_get_kind(model->tokenizer) == TOKENIZER_WORDPIECE);
    return one ? 1 : 2;
}

void engine_model_describe(const engine_model *model, engine_model_info *info)
{
    const model_config *config = &model->config;
    *info = (engine_model_info){
        .architecture = config->architecture->name,
        .name = model->name,
        .layers = config->layers,
        .embedding_dim = config->embedding_dim,
        .q_heads = config->q_heads,
        .kv_heads = config->kv_heads,
        .head_dim = config->head_dim,
        .value_dim = config->latent.dim ? config->latent.dim : config->head_dim,
        .values_in_keys = config->latent.dim != 0,
        .feed_forward_dim = config->feed_forward_dim,
        .vocab = config->vocab,
        .trained_context = config->trained_context,
        .window = config->window,
        .encoder = config->full_mask,
        .pooling = (engine_pooling)config->pooling,
        .labels = config->labels,
        .separators = separators(model),
        .parameters = model->weights.parameters,
        .weight_bytes = model->weights.bytes,
        .streamed_bytes = streamed_bytes(model),
        .experts = config->experts,
        .experts_used = config->experts_used,
        .expert_bytes = expert_bytes(model),
        .active_feed_forward =
            config->experts
                ? (int64_t)config->experts_used * config->expert_dim + config->shared_dim
                : config->feed_forward_dim,
    };
}

static bool describe_matrix(const model_tensor *tensor, const char *name, int32_t layer,
                            engine_matrix_info *info)
{
    *info = (engine_matrix_info){name, tensor->dtype, tensor->rows, tensor->cols, layer};
    return true;
}

bool engine_model_matrix_at(const engine_model *model, int32_t n, engine_matrix_info *info)
{
    const model_weights *weights = &model->weights;
    for (int32_t layer = 0; layer < model->config.layers; layer++)
        for (int i = MODEL_NO_TENSOR + 1; i < MODEL_LAYER_TENSOR_COUNT; i++) {
            const model_tensor *tensor = &weights->layers[layer].tensors[i];
            if (model_layer_specs[i].rows != MODEL_ONE && tensor->rows > 0 && n-- == 0)
                return describe_matrix(tensor, model_layer_specs[i].name, layer, info);
        }
    const model_tensor *output = model_output_matrix(weights);
    return n == 0 && !model->config.full_mask && describe_matrix(output, "output.weight", -1, info);
}

const tokenizer *engine_model_tokenizer(const engine_model *model)
{
    return model->tokenizer;
}

const gguf_file *engine_model_file(const engine_model *model)
{
    return model->file;
}
