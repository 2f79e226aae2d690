// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/base/alloc.h"
#include "engine/base/checked.h"
#include "engine/model/runner_plans.h"

static bool planned(const model_runner *runner, weft_status status, const char *what,
                    engine_error *err)
{
    if (status == WEFT_OK)
        return true;
    return engine_fail(err, "%s cannot be planned: %s", what, weft_error_text(runner->context));
}

const weft_plan *runner_find_linear(const model_runner *runner, const model_tensor *matrix,
                                    int32_t max_batch)
{
    for (int32_t i = 0; i < runner->linear_count; i++) {
        const runner_linear *have = &runner->linear[i];
        if (have->dtype == matrix->dtype && have->rows == matrix->rows &&
            have->cols == matrix->cols && have->max_batch == max_batch)
            return have->plan;
    }
    return NULL;
}

static bool plan_linear(model_runner *runner, const model_tensor *matrix, int32_t max_batch,
                        engine_error *err)
{
    if (runner_find_linear(runner, matrix, max_batch))
        return true;
    if (runner->linear_count == RUNNER_MAX_LINEAR)
        return engine_fail(err, "the model has more than %d kinds of matrices", RUNNER_MAX_LINEAR);
    runner_linear *made = &runner->linear[runner->linear_count];
    *made = (runner_linear){matrix->dtype, matrix->rows, matrix->cols, max_batch, NULL};
    weft_linear_desc desc = {.size = sizeof desc,
                             .flags = runner->options.exact ? WEFT_LINEAR_EXACT : 0,
                             .weight_dtype = matrix->dtype,
                             .max_batch = max_batch,
                             .rows = matrix->rows,
                             .cols = matrix->cols};
    if (!planned(runner, weft_linear_plan(runner->context, &desc, &made->plan), "a matrix", err))
        return false;
    runner->linear_count++;
    return true;
}

static bool plan_all_linear(model_runner *runner, engine_error *err)
{
    for (int32_t n = 0; n < runner->config->layers; n++)
        for (int i = 0; i < MODEL_LAYER_TENSOR_COUNT; i++) {
            const model_tensor *tensor = &runner->weights->layers[n].tensors[i];
            if (tensor->data && model_layer_specs[i].rows != MODEL_ONE &&
                !plan_linear(runner, tensor, runner->options.max_tokens, err))
                return false;
        }
    return plan_linear(runner, model_output_matrix(runner->weights), RUNNER_HEAD_ROWS, err);
}

static bool plan_norms(model_runner *runner, engine_error *err)
{
    const model_config *config = runner->config;
    weft_norm_desc norm = {.size = sizeof norm,
                           .kind = WEFT_NORM_RMS,
                           .eps = config->norm_eps,
                           .dim = config->embedding_dim,
                           .max_rows = runner->options.max_tokens};
    if (!planned(runner, weft_norm_plan(runner->context, &norm, &runner->norm), "a norm", err))
        return false;
    norm.dim = config->head_dim;
    norm.max_rows = runner->options.max_tokens * config->q_heads;
    return planned(runner, weft_norm_plan(runner->context, &norm, &runner->head_norm), "a norm",
                   err);
}

static bool plan_attention(model_runner *runner, const weft_kv_layout *kv, engine_error *err)
{
    const model_config *config = runner->config;
    weft_rope_params rope = config->rope;
    rope.freq_factors = runner->weights->globals[MODEL_GLOBAL_ROPE_FREQS].data;
    weft_kv_append_desc append = {.size = sizeof append,
                                  .max_tokens = runner->options.max_tokens,
                                  .layout = *kv,
                                  .rope = &rope,
                                  .num_q_heads = config->q_heads};
    weft_attention_desc attention = {.size = sizeof attention,
                                     .kv = *kv,
                                     .num_q_heads = config->q_heads,
                                     .mask = WEFT_MASK_CAUSAL,
                                     .window = config->window,
                                     .max_seqs = runner->options.max_seqs,
                                     .max_q_tokens = runner->options.max_tokens,
                                     .max_kv_len = runner->options.max_kv_len};
    return planned(runner, weft_kv_append_plan(runner->context, &append, &runner->append),
                   "the KV cache", err) &&
           planned(runner, weft_attention_plan(runner->context, &attention, &runner->attention),
                   "attention", err);
}

static bool plan_rest(model_runner *runner, engine_error *err)
{
    const model_tensor *table = &runner->weights->globals[MODEL_GLOBAL_EMBEDDING];
    weft_embedding_desc embedding = {.size = sizeof embedding,
                                     .table_dtype = table->dtype,
                                     .rows = table->rows,
                                     .dim = table->cols,
                                     .max_tokens = runner->options.max_tokens};
    weft_activation_desc activation = {.size = sizeof activation,
                                       .kind = WEFT_ACTIVATION_SILU,
                                       .dim = runner->config->feed_forward_dim,
                                       .max_rows = runner->options.max_tokens};
    return planned(runner, weft_embedding_plan(runner->context, &embedding, &runner->embedding),
                   "the embedding", err) &&
           planned(runner, weft_activation_plan(runner->context, &activation, &runner->activation),
                   "the activation", err);
}

static void largest_workspace(model_runner *runner)
{
    const weft_plan *others[] = {runner->embedding, runner->norm,      runner->head_norm,
                                 runner->append,    runner->attention, runner->activation};
    size_t largest = 0;
    for (int32_t i = 0; i < runner->linear_count; i++) {
        size_t bytes = weft_plan_workspace_bytes(runner->linear[i].plan);
        largest = bytes > largest ? bytes : largest;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        size_t bytes = weft_plan_workspace_bytes(others[i]);
        largest = bytes > largest ? bytes : largest;
    }
    runner->workspace_bytes = largest;
}

// Hands out `elements` floats of the buffer memory, or only counts them while memory is NULL.
static float *carve(model_runner *runner, size_t *used, int64_t elements)
{
    float *at = runner->memory ? (float *)((char *)runner->memory + *used) : NULL;
    *used += ((size_t)elements * sizeof(float) + 63) / 64 * 64;
    return at;
}

static size_t carve_all(model_runner *runner)
{
    size_t used = 0;
#define RUNNER_CARVE(name, extent)                                                                 \
    runner->name = carve(runner, &used,                                                            \
                         runner->options.max_tokens * model_extent_value(runner->config, extent));
    RUNNER_BUFFERS(RUNNER_CARVE)
#undef RUNNER_CARVE
    runner->logits = carve(runner, &used, (int64_t)RUNNER_HEAD_ROWS * runner->config->vocab);
    runner->workspace =
        carve(runner, &used, (int64_t)(runner->workspace_bytes / sizeof(float)) + 16);
    return used;
}

static bool allocate_buffers(model_runner *runner, engine_error *err)
{
    largest_workspace(runner);
    runner->memory_bytes = carve_all(runner);
    void *memory = mmap(NULL, runner->memory_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return engine_fail(err, "not enough memory for %zu MB of buffers: choose a smaller --chunk",
                           runner->memory_bytes >> 20);
    madvise(memory, runner->memory_bytes, MADV_HUGEPAGE);
    runner->memory = memory;
    carve_all(runner);
    return true;
}

model_runner *model_runner_create(weft_context *context, const model_config *config,
                                  const model_weights *weights, page_pool *pool,
                                  const weft_kv_layout *kv, const model_runner_options *options,
                                  engine_error *err)
{
    model_runner *runner = engine_alloc(1, sizeof *runner);
    if (!runner) {
        engine_fail(err, "not enough memory for the model's plans");
        return NULL;
    }
    runner->context = context;
    runner->config = config;
    runner->weights = weights;
    runner->pool = pool;
    runner->options = *options;
    if (plan_all_linear(runner, err) && plan_norms(runner, err) &&
        plan_attention(runner, kv, err) && plan_rest(runner, err) && allocate_buffers(runner, err))
        return runner;
    model_runner_free(runner);
    return NULL;
}

void model_runner_free(model_runner *runner)
{
    if (!runner)
        return;
    for (int32_t i = 0; i < runner->linear_count; i++)
        weft_plan_destroy(runner->linear[i].plan);
    weft_plan_destroy(runner->embedding);
    weft_plan_destroy(runner->norm);
    weft_plan_destroy(runner->head_norm);
    weft_plan_destroy(runner->append);
    weft_plan_destroy(runner->attention);
    weft_plan_destroy(runner->activation);
    if (runner->memory)
        munmap(runner->memory, runner->memory_bytes);
    free(runner);
}

int64_t model_runner_buffer_bytes(const model_runner *runner)
{
    return (int64_t)runner->memory_bytes;
}

const char *model_runner_plan_at(const model_runner *runner, int32_t n)
{
    const weft_plan *others[] = {runner->embedding, runner->norm,      runner->head_norm,
                                 runner->append,    runner->attention, runner->activation};
    int32_t other_count = sizeof others / sizeof *others;
    if (n < 0 || n >= other_count + runner->linear_count)
        return NULL;
    return weft_plan_describe(n < other_count ? others[n] : runner->linear[n - other_count].plan);
}
