// SPDX-License-Identifier: MIT
// Rows of weft bench model: what a prompt and a token read and multiply, beside the time that they took.
#include <stdio.h>
#include <string.h>

#include "cli/bench/bench_model.h"

static const bench_column columns[] = {
    {"name", "model", -14, 0, 0},
    {"format", "format", -11, 0, 0},
    {"phase", "phase", -7, 0, 0},
    {"batch", "batch", 5, 0, 0},
    {"prompt", "prompt", 6, 0, 0},
    {"depth", "depth", 6, 0, 0},
    {"tokens_per_second", "tokens/s", 9, 1, 0},
    {"us_median", "us median", 11, 1, 0},
    {"us_min", "us min", 11, 1, 0},
    {"bytes_per_token", "MB/token", 8, 1, 1e-6},
    BENCH_FIGURES,
    {0},
};

// Tokens of all sequences whose keys and values a step reads, each once.
static double cached_tokens(const model_request *wish, double of_one)
{
    double own = of_one - wish->depth;
    return wish->shared && own > 0 ? wish->depth + wish->batch * own : wish->batch * of_one;
}

// Multiply-adds of `tokens` tokens that see `keys` keys each, twice; logits of one token a sequence.
static double operations(const model_race *r, double tokens, double keys)
{
    const engine_model_info *m = &r->info;
    double width = m->embedding_dim, q = (double)m->q_heads * m->head_dim,
           kv = (double)m->kv_heads * m->head_dim;
    double matrices = strcmp(m->architecture, "bert") == 0 ? 2 : 3; // of the feed-forward part
    keys = m->encoder ? r->wish->prompt : keys;
    double layer = width * (q + 2 * kv) + q * width +
                   matrices * width * (double)m->active_feed_forward +
                   2 * q * (m->window && m->window < keys ? m->window : keys);
    return 2 * (tokens * m->layers * layer + r->open * width * m->vocab);
}

// The format that holds most of the weights.
static const char *format_name(const model_race *r)
{
    gguf_format_total totals[GGUF_MAX_FORMATS];
    const gguf_file *file = engine_model_file(r->model);
    if (file && gguf_format_totals(file, totals) > 0)
        return totals[0].type->name;
    return r->wish->format;
}

static json_t *plans(const model_race *r)
{
    json_t *list = json_array();
    const char *plan;
    for (int32_t n = 0; (plan = engine_worker_plan_at(r->worker, n)); n++)
        json_array_append_new(list, json_string(plan));
    return list;
}

// Bytes of the experts that a pass of so many tokens reads beyond those of one token, if all go elsewhere.
static double more_experts(const engine_model_info *m, double tokens)
{
    if (m->experts == 0)
        return 0;
    double one = (double)m->experts_used / m->experts, all = tokens * one;
    return (double)m->expert_bytes * ((all < 1 ? all : 1) - one);
}

// What the matrices are multiplied with. A prompt of plain weights meets bf16 dots where they are the faster ones.
static bench_products products_of(const model_request *wish, weft_dtype dtype, bool generating,
                                  const bench_roof *roof)
{
    if (wish->run.options.exact || dtype == WEFT_F32)
        return BENCH_F32;
    if (weft_dtype_block_elems(dtype) > 1)
        return BENCH_INT8;
    return generating || roof->bf16_gflops < roof->fma_gflops ? BENCH_F32 : BENCH_BF16;
}

bool model_print_row(model_race *r, bool generating, const bench_time *time, const bench_roof *roof)
{
    model_request *wish = r->wish;
    const engine_model_info *m = &r->info;
    const engine_worker_info *w = &r->running;
    const char *format = format_name(r);
    int32_t together = m->encoder ? wish->batch : r->open; // texts of encoders have no session open
    double tokens = (double)together * (generating ? 1 : wish->prompt);
    // The median step of generation has half of what will be generated behind it.
    double keys = generating ? wish->depth + wish->generate / 2.0 : (wish->prompt + 1) / 2.0;
    double cached = generating ? (m->window && m->window < keys ? m->window : keys) : wish->prompt;
    double passes = (double)(((int64_t)tokens + w->chunk_tokens - 1) / w->chunk_tokens);
    double bytes = passes * ((double)m->streamed_bytes + more_experts(m, tokens / passes)) +
                   (generating ? cached_tokens(wish, cached) : together * cached) *
                       (double)w->kv_bytes_per_token;
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:s, s:o, s:s, s:s, s:i, s:i, s:i, s:b, s:b, s:i, s:f, s:f, s:I, s:I}",
        "op", "model", "device", wish->run.options.device == WEFT_DEVICE_CUDA ? "cuda" : "cpu",
        "isa", weft_context_isa(wish->run.context), "phase", generating ? "decode" : "prefill",
        wish->shape ? "shape" : "model", cli_json_text(wish->shape ? wish->shape : wish->path),
        "name",
        wish->shape  ? wish->shape
        : m->name[0] ? m->name
                     : m->architecture,
        "format", format, "prompt", wish->prompt, "generate", wish->generate, "batch", together,
        "exact", wish->run.options.exact, "cold", !wish->run.hot, "threads",
        weft_context_threads(wish->run.context), "tokens_per_second",
        tokens / time->us_median * 1e6, "bytes_per_token", bytes / tokens, "weight_bytes",
        (json_int_t)m->weight_bytes, "streamed_bytes", (json_int_t)m->streamed_bytes);
    if (row) {
        json_object_set_new(row, "depth", json_integer(generating ? wish->depth : 0));
        if (generating && wish->shared)
            json_object_set_new(row, "shared", json_true());
        if (generating && wish->run.options.device == WEFT_DEVICE_CUDA)
            json_object_set_new(row, "layers", json_string(cli_layers_of(r->worker)));
    }
    bench_products products = products_of(wish, engine_main_format(format), generating, roof);
    if (row)
        bench_add_figures(row, time, bytes, operations(r, tokens, keys), roof->gbps,
                          bench_roof_gflops(&wish->run, roof, products));
    if (row && wish->verbose && generating && wish->run.json)
        json_object_set_new(row, "plans", plans(r));
    return bench_print(&wish->run, row, columns);
}

void model_print_plans(const model_race *r)
{
    const char *plan;
    puts("\nplans");
    for (int32_t n = 0; (plan = engine_worker_plan_at(r->worker, n)); n++)
        printf("  %s\n", plan);
    if (r->wish->run.options.device == WEFT_DEVICE_CUDA && !r->info.encoder)
        printf("  layers of a token: %s\n", cli_layers_of(r->worker));
}
