// SPDX-License-Identifier: MIT
// One forward pass. Each step reads and writes the runner's buffers:
//
//      ids -> x                                             embedding
//      per layer:
//        x -> normed -> q, k, v                             norm, linear (+ bias), norm per head
//        q, k, v -> q rotated, pages                        append with RoPE
//        q, pages -> attended -> x += W attended            attention, linear with residual
//        x -> normed -> gate, up -> gate -> x += W gate     norm, linear, activation, linear
//      rows of x wanted -> normed -> logits                 norm, linear
#include <string.h>

#include "engine/model/runner_plans.h"

// A pass under way; after the first failure the remaining steps do nothing.
typedef struct pass {
    model_runner *runner;
    const model_batch *batch;
    weft_status status;
} pass;

static bool failed(const pass *p)
{
    return p->status != WEFT_OK;
}

static void linear(pass *p, const model_tensor *matrix, const model_tensor *bias, const float *x,
                   float *y, const float *residual)
{
    model_runner *runner = p->runner;
    if (failed(p))
        return;
    weft_linear_args args = {
        .size = sizeof args,
        .batch = p->batch->tokens,
        .weight = matrix->data,
        .x = x,
        .y = y,
        .bias = bias ? bias->data : NULL,
        .residual = residual,
        .workspace = runner->workspace,
        .workspace_bytes = runner->workspace_bytes,
    };
    p->status =
        weft_linear_run(runner_find_linear(runner, matrix, runner->options.max_tokens), &args);
}

static void norm(pass *p, const weft_plan *plan, const model_tensor *weight, int32_t rows,
                 const float *x, float *y)
{
    if (failed(p))
        return;
    weft_norm_args args = {
        .size = sizeof args, .rows = rows, .x = x, .y = y, .weight = weight->data};
    p->status = weft_norm_run(plan, &args);
}

static void embed(pass *p)
{
    weft_embedding_args args = {.size = sizeof args,
                                .tokens = p->batch->tokens,
                                .table = p->runner->weights->globals[MODEL_GLOBAL_EMBEDDING].data,
                                .ids = p->batch->ids,
                                .y = p->runner->x};
    p->status = weft_embedding_run(p->runner->embedding, &args);
}

static void append(pass *p, int32_t layer)
{
    model_runner *runner = p->runner;
    if (failed(p))
        return;
    weft_kv_append_args args = {.size = sizeof args,
                                .tokens = p->batch->tokens,
                                .pool = page_pool_layer(runner->pool, layer),
                                .k = runner->k,
                                .v = runner->v,
                                .q = runner->q,
                                .slots = p->batch->slots,
                                .positions = p->batch->positions};
    p->status = weft_kv_append_run(runner->append, &args);
}

static void attend(pass *p, int32_t layer)
{
    model_runner *runner = p->runner;
    const model_batch *batch = p->batch;
    if (failed(p))
        return;
    weft_attention_args args = {.size = sizeof args,
                                .num_seqs = batch->seqs,
                                .q = runner->q,
                                .out = runner->attended,
                                .pool = page_pool_layer(runner->pool, layer),
                                .cu_q_lens = batch->cu_q_lens,
                                .kv_lens = batch->kv_lens,
                                .page_table = batch->page_table,
                                .page_table_stride = batch->page_table_stride,
                                .workspace = runner->workspace,
                                .workspace_bytes = runner->workspace_bytes};
    p->status = weft_attention_run(runner->attention, &args);
}

static void activate(pass *p)
{
    model_runner *runner = p->runner;
    if (failed(p))
        return;
    weft_activation_args args = {.size = sizeof args,
                                 .rows = p->batch->tokens,
                                 .x = runner->gate,
                                 .up = runner->up,
                                 .y = runner->gate};
    p->status = weft_activation_run(runner->activation, &args);
}

static void attention_block(pass *p, int32_t n)
{
    model_runner *runner = p->runner;
    const model_config *config = runner->config;
    const model_tensor *t = runner->weights->layers[n].tensors;
    int32_t tokens = p->batch->tokens;
    norm(p, runner->norm, &t[MODEL_ATTN_NORM], tokens, runner->x, runner->normed);
    linear(p, &t[MODEL_ATTN_Q], &t[MODEL_ATTN_Q_BIAS], runner->normed, runner->q, NULL);
    linear(p, &t[MODEL_ATTN_K], &t[MODEL_ATTN_K_BIAS], runner->normed, runner->k, NULL);
    linear(p, &t[MODEL_ATTN_V], &t[MODEL_ATTN_V_BIAS], runner->normed, runner->v, NULL);
    if (t[MODEL_ATTN_Q_NORM].data) {
        norm(p, runner->head_norm, &t[MODEL_ATTN_Q_NORM], tokens * config->q_heads, runner->q,
             runner->q);
        norm(p, runner->head_norm, &t[MODEL_ATTN_K_NORM], tokens * config->kv_heads, runner->k,
             runner->k);
    }
    append(p, n);
    attend(p, n);
    linear(p, &t[MODEL_ATTN_OUT], &t[MODEL_ATTN_OUT_BIAS], runner->attended, runner->x, runner->x);
}

static void feed_forward_block(pass *p, int32_t n)
{
    model_runner *runner = p->runner;
    const model_tensor *t = runner->weights->layers[n].tensors;
    norm(p, runner->norm, &t[MODEL_FFN_NORM], p->batch->tokens, runner->x, runner->normed);
    linear(p, &t[MODEL_FFN_GATE], NULL, runner->normed, runner->gate, NULL);
    linear(p, &t[MODEL_FFN_UP], NULL, runner->normed, runner->up, NULL);
    activate(p);
    linear(p, &t[MODEL_FFN_DOWN], NULL, runner->gate, runner->x, runner->x);
}

// Logits of up to RUNNER_HEAD_ROWS outputs, from `first` on.
static void head(pass *p, int32_t first, int32_t count)
{
    model_runner *runner = p->runner;
    const model_tensor *matrix = model_output_matrix(runner->weights);
    size_t dim = (size_t)runner->config->embedding_dim, vocab = (size_t)runner->config->vocab;
    for (int32_t i = 0; i < count; i++)
        memcpy(runner->normed + (size_t)i * dim,
               runner->x + (size_t)p->batch->output_rows[first + i] * dim, dim * sizeof(float));
    norm(p, runner->norm, &runner->weights->globals[MODEL_GLOBAL_OUTPUT_NORM], count,
         runner->normed, runner->normed);
    if (failed(p))
        return;
    weft_linear_args args = {.size = sizeof args,
                             .batch = count,
                             .weight = matrix->data,
                             .x = runner->normed,
                             .y = runner->logits,
                             .workspace = runner->workspace,
                             .workspace_bytes = runner->workspace_bytes};
    p->status = weft_linear_run(runner_find_linear(runner, matrix, RUNNER_HEAD_ROWS), &args);
    for (int32_t i = 0; i < count && !failed(p); i++)
        memcpy(p->batch->logits[first + i], runner->logits + (size_t)i * vocab,
               vocab * sizeof(float));
}

bool model_runner_forward(model_runner *runner, const model_batch *batch, engine_error *err)
{
    pass p = {runner, batch, WEFT_OK};
    embed(&p);
    for (int32_t n = 0; n < runner->config->layers; n++) {
        attention_block(&p, n);
        feed_forward_block(&p, n);
    }
    int32_t step = RUNNER_HEAD_ROWS < runner->options.max_tokens ? RUNNER_HEAD_ROWS
                                                                 : runner->options.max_tokens;
    for (int32_t first = 0; first < batch->outputs && !failed(&p); first += step)
        head(&p, first, batch->outputs - first < step ? batch->outputs - first : step);
    if (failed(&p))
        return engine_fail(err, "the forward pass failed: %s", weft_error_text(runner->context));
    return true;
}
