// SPDX-License-Identifier: MIT
#include "cli/bench/bench_attention.h"

#include <stdlib.h>
#include <string.h>

int32_t attention_q_len(const attention_problem *p, int32_t s)
{
    const bench_list *list = &p->wish->ragged_q_lens;
    return list->count ? list->values[s] : p->q_len;
}

int32_t attention_kv_len(const attention_problem *p, int32_t s)
{
    const bench_list *list = &p->wish->ragged_kv_lens;
    return list->count ? list->values[s] : p->kv_len;
}

double attention_elem_bytes(weft_dtype dtype)
{
    return (double)weft_dtype_block_bytes(dtype) / weft_dtype_block_elems(dtype);
}

// Values in [-1, 1) over the whole memory: pages differ, which is all that matters.
static bool fill_cache(attention_problem *p)
{
    enum { PATTERN = 1 << 16 };
    bench *run = &p->wish->run;
    static float values[PATTERN];
    uint32_t state = 3;
    for (int32_t i = 0; i < PATTERN; i++)
        values[i] = bench_value(&state);
    int64_t pattern_bytes = weft_dtype_row_bytes(p->kv_dtype, PATTERN);
    char *pattern = malloc((size_t)pattern_bytes);
    if (!pattern || weft_quantize_row(p->kv_dtype, values, PATTERN, pattern) != WEFT_OK) {
        free(pattern);
        cli_failed(run->self, "no cache can be filled with %s", weft_dtype_name(p->kv_dtype));
        return false;
    }
    bool fine = true;
    for (int64_t at = 0; fine && at < run->memory_bytes; at += pattern_bytes) {
        int64_t left = run->memory_bytes - at;
        fine =
            bench_put(run, run->memory + at, pattern, left < pattern_bytes ? left : pattern_bytes);
    }
    free(pattern);
    return fine;
}

// The page of every key, in an order that a long-running server would have.
static void shuffle(int32_t *pages, int32_t count)
{
    uint32_t state = 11;
    for (int32_t i = 0; i < count; i++)
        pages[i] = i;
    for (int32_t i = count - 1; i > 0; i--) {
        state = state * 1664525u + 1013904223u;
        int32_t other = (int32_t)((uint64_t)state * (uint64_t)(i + 1) >> 32), page = pages[i];
        pages[i] = pages[other];
        pages[other] = page;
    }
}

static bool put_queries(attention_problem *p, size_t elems)
{
    bench *run = &p->wish->run;
    uint32_t state = 5;
    int64_t bytes = (int64_t)elems * weft_dtype_block_bytes(p->wish->dtype);
    float *q = malloc(elems * sizeof *q);
    void *narrow = malloc((size_t)bytes);
    for (size_t i = 0; q && i < elems; i++)
        q[i] = bench_value(&state);
    bool fine = q && narrow;
    if (!fine)
        cli_failed(run->self, "no memory for the queries: measure a smaller --batch");
    fine = fine &&
           (weft_quantize_row(p->wish->dtype, q, (int64_t)elems, narrow) == WEFT_OK ||
            bench_error(run)) &&
           bench_put(run, p->q, narrow, bytes);
    free(q);
    free(narrow);
    return fine;
}

// `lens`: cu_q_lens, kv_lens, pages.
static bool make_batch(attention_problem *p, const int32_t *lens)
{
    const attention_request *wish = p->wish;
    const weft_plan *const plan = p->plan;
    const weft_batch_desc desc = {.size = sizeof desc,
                                  .max_seqs = p->batch,
                                  .max_q_tokens = p->queries,
                                  .max_kv_len = p->kv_len,
                                  .page_size = wish->page_size,
                                  .max_pages = p->pages,
                                  .plans = &plan,
                                  .num_plans = 1};
    const weft_batch_args args = {.size = sizeof args,
                                  .num_seqs = p->batch,
                                  .cu_q_lens = lens,
                                  .kv_lens = lens + p->batch + 1,
                                  .page_table = lens + 2 * p->batch + 1,
                                  .page_table_stride = p->pages / p->batch,
                                  .num_pages = p->pages};
    return (weft_batch_create(wish->run.context, &desc, &p->batch_of_runs) == WEFT_OK &&
            weft_batch_set(p->batch_of_runs, &args) == WEFT_OK) ||
           bench_error(&wish->run);
}

// Lengths, then shuffled pages, then parents of a chain, which is the costliest tree: all on the host.
static void fill_lengths(attention_problem *p, int32_t *lens, size_t tables)
{
    int32_t *cu_q_lens = lens, *kv_lens = cu_q_lens + p->batch + 1;
    cu_q_lens[0] = 0;
    for (int32_t s = 0; s < p->batch; s++) {
        cu_q_lens[s + 1] = cu_q_lens[s] + attention_q_len(p, s);
        kv_lens[s] = attention_kv_len(p, s);
        for (int32_t i = 0; i < attention_q_len(p, s); i++)
            lens[tables + (size_t)cu_q_lens[s] + (size_t)i] = i - 1;
    }
    shuffle(kv_lens + p->batch, p->pages);
}

static void set_arguments(attention_problem *p, size_t tables)
{
    const attention_request *wish = p->wish;
    const int32_t *cu_q_lens = p->numbers, *kv_lens = cu_q_lens + p->batch + 1;
    p->args = (weft_attention_args){.size = sizeof p->args,
                                    .num_seqs = p->batch,
                                    .q = p->q,
                                    .out = p->out,
                                    .pool = {.num_pages = p->pages},
                                    .cu_q_lens = cu_q_lens,
                                    .kv_lens = kv_lens,
                                    .page_table = kv_lens + p->batch,
                                    .page_table_stride = p->pages / p->batch,
                                    .sinks = wish->sinks ? p->per_head : NULL,
                                    .alibi_slopes = wish->alibi ? p->per_head : NULL,
                                    .tree_parents =
                                        wish->mask == WEFT_MASK_TREE ? p->numbers + tables : NULL,
                                    .workspace = p->workspace,
                                    .workspace_bytes = weft_plan_workspace_bytes(p->plan)};
    if (wish->tokens_first) {
        weft_kv_plane *const planes[] = {&p->args.pool.k, &p->args.pool.v};
        for (size_t i = 0; i < 2; i++) {
            planes[i]->token_stride = (int64_t)wish->kv_heads * wish->head_dim;
            planes[i]->head_stride = wish->head_dim;
        }
    }
    if (p->batch_of_runs) {
        p->args.batch = p->batch_of_runs;
        p->args.num_seqs = 0;
        p->args.cu_q_lens = p->args.kv_lens = p->args.page_table = NULL;
        p->args.page_table_stride = 0;
    }
}

static bool set_queries(attention_problem *p, const weft_attention_desc *desc)
{
    const attention_request *wish = p->wish;
    uint32_t state = 5;
    size_t elems = (size_t)p->queries * (size_t)p->heads * (size_t)wish->head_dim;
    int64_t elem = weft_dtype_block_bytes(wish->dtype);
    size_t workspace_bytes = weft_plan_workspace_bytes(p->plan);
    bench *run = &p->wish->run;
    if (!bench_fits(run, 2.0 * (double)elems * sizeof(float)))
        return false;
    size_t tables = (size_t)p->batch * 2 + 1 + (size_t)p->pages;
    size_t numbers = tables + (size_t)p->queries;
    p->q = bench_allocate(run, elems * (size_t)elem);
    p->out = bench_allocate(run, elems * (size_t)elem);
    p->workspace = bench_allocate(run, workspace_bytes + 64);
    p->numbers = bench_allocate(run, numbers * sizeof *p->numbers);
    p->per_head = bench_allocate(run, (size_t)p->heads * sizeof *p->per_head);
    float *q = malloc((size_t)p->heads * sizeof *q);
    int32_t *lens = malloc(numbers * sizeof *lens);
    bool fine = p->q && p->out && p->workspace && p->numbers && p->per_head && q && lens;
    if (!q || !lens)
        cli_failed(run->self, "no memory for the queries: measure a smaller --batch");
    if (!fine) {
        free(q);
        free(lens);
        return false;
    }
    fill_lengths(p, lens, tables);
    for (int32_t i = 0; i < p->heads; i++)
        q[i] = bench_value(&state);
    fine = bench_put(run, p->per_head, q, (int64_t)((size_t)p->heads * sizeof *q)) &&
           bench_put(run, p->numbers, lens, (int64_t)(numbers * sizeof *lens)) &&
           put_queries(p, elems) && make_batch(p, lens);
    free(q);
    set_arguments(p, tables);
    fine = fine && (!wish->shared || attention_share(p, desc, lens));
    free(lens);
    return fine;
}

bool attention_run_once(void *user)
{
    attention_problem *p = user;
    char *copy =
        p->wish->run.memory + bench_next_copy(&p->wish->run, p->stride_bytes) * p->stride_bytes;
    p->args.pool.k.data = copy;
    p->args.pool.v.data = copy + p->pool_bytes;
    return (p->cascade ? weft_cascade_run(p->cascade, &p->shared_args)
                       : weft_attention_run(p->plan, &p->args)) == WEFT_OK;
}

static weft_kv_layout kv_layout(const attention_problem *p)
{
    const attention_request *wish = p->wish;
    return (weft_kv_layout){.dtype = p->kv_dtype,
                            .num_kv_heads = wish->kv_heads,
                            .head_dim = wish->head_dim,
                            .page_size = wish->page_size};
}

static weft_attention_desc descriptor(const attention_problem *p)
{
    const attention_request *wish = p->wish;
    return (weft_attention_desc){.size = sizeof(weft_attention_desc),
                                 .kv = kv_layout(p),
                                 .q_dtype = wish->dtype,
                                 .out_dtype = wish->dtype,
                                 .num_q_heads = p->heads,
                                 .mask = wish->mask,
                                 .window = wish->window,
                                 .softcap = (float)wish->softcap,
                                 .max_seqs = p->batch,
                                 .max_q_tokens = p->queries,
                                 .flags = (wish->sinks ? WEFT_ATTENTION_SINKS : 0u) |
                                          (wish->alibi ? WEFT_ATTENTION_ALIBI : 0u) |
                                          (wish->precise ? WEFT_ATTENTION_PRECISE : 0u),
                                 .max_kv_len = p->kv_len,
                                 .num_splits = p->splits,
                                 .tile_rows = p->tile_rows,
                                 .tile_heads = p->tile_heads,
                                 .stages = wish->stages,
                                 .variant = wish->run.variant};
}

// Queries of all sequences; INT32_MAX if they are more.
static void count_queries(attention_problem *p)
{
    int64_t queries = 0;
    for (int32_t s = 0; s < p->batch; s++)
        queries += attention_q_len(p, s);
    p->queries = queries > INT32_MAX ? INT32_MAX : (int32_t)queries;
}

bool attention_serves(attention_problem *p)
{
    count_queries(p);
    const weft_attention_desc desc = descriptor(p);
    return weft_attention_supported(p->wish->run.context, &desc, NULL);
}

bool attention_make_ready(attention_problem *p)
{
    attention_request *wish = p->wish;
    weft_kv_layout layout = kv_layout(p);
    int64_t pages = (int64_t)((p->kv_len + wish->page_size - 1) / wish->page_size) * p->batch;
    count_queries(p);
    const weft_attention_desc desc = descriptor(p);
    if ((double)pages * (double)weft_kv_page_bytes(&layout) > 1e15 || pages > INT32_MAX ||
        p->queries == INT32_MAX) {
        cli_failed(wish->run.self, "the batch is too large: measure a smaller --batch or --kv-len");
        return false;
    }
    if (weft_attention_plan(wish->run.context, &desc, &p->plan) != WEFT_OK)
        return bench_error(&wish->run);
    p->pages = (int32_t)pages;
    p->pool_bytes = pages * weft_kv_page_bytes(&layout) / 2;
    if (!bench_reserve(&wish->run, bench_working_set(&wish->run, 2 * p->pool_bytes)))
        return false;
    p->copies = bench_copies(&wish->run, 2 * p->pool_bytes, &p->stride_bytes);
    return fill_cache(p) && set_queries(p, &desc);
}

void attention_drop(attention_problem *p)
{
    weft_context *context = p->wish->run.context;
    attention_unshare(p);
    weft_batch_destroy(p->batch_of_runs);
    weft_plan_destroy(p->plan);
    weft_memory_free(context, p->q);
    weft_memory_free(context, p->out);
    weft_memory_free(context, p->numbers);
    weft_memory_free(context, p->per_head);
    weft_memory_free(context, p->workspace);
}
