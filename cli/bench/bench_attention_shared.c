// SPDX-License-Identifier: MIT
// weft bench attention --shared P: the first P keys of all sequences are one prefix, attended to once (weft/cascade.h).
#include "cli/bench/bench_attention.h"

#include <stdlib.h>

// The batch of a level of the cascade: the prefix (0), one sequence of all queries, or the sequences' own keys (1).
static bool make_level(attention_problem *p, int32_t level, const int32_t *lens,
                       const int32_t *table)
{
    const attention_request *wish = p->wish;
    const weft_plan *const plan = weft_cascade_plan_of(p->cascade, level);
    const int32_t num_seqs = level ? p->batch : 1, stride = p->pages / p->batch;
    const weft_batch_desc desc = {.size = sizeof desc,
                                  .max_seqs = num_seqs,
                                  .max_q_tokens = p->queries,
                                  .max_kv_len = level ? p->kv_len - wish->shared : wish->shared,
                                  .page_size = wish->page_size,
                                  .max_pages = p->pages,
                                  .plans = &plan,
                                  .num_plans = 1};
    const weft_batch_args args = {.size = sizeof args,
                                  .num_seqs = num_seqs,
                                  .cu_q_lens = lens,
                                  .kv_lens = lens + num_seqs + 1,
                                  .page_table = table,
                                  .page_table_stride = stride,
                                  .num_pages = p->pages};
    weft_batch **const batch = &p->levels[level];
    return (weft_batch_create(wish->run.context, &desc, batch) == WEFT_OK &&
            weft_batch_set(*batch, &args) == WEFT_OK) ||
           bench_error(&p->wish->run);
}

// Both batches, from the lengths and pages of the problem without a prefix: the first pages of the first sequence are
// everybody's, own keys begin behind as many of each.
static bool make_levels(attention_problem *p, const int32_t *lens)
{
    const int32_t shared = p->wish->shared, *table = lens + 2 * p->batch + 1;
    const int32_t prefix[3] = {0, p->queries, shared};
    int32_t *own = malloc((2 * (size_t)p->batch + 1) * sizeof *own);
    if (!own) {
        cli_failed(p->wish->run.self, "no memory for the lengths: measure a smaller --batch");
        return false;
    }
    for (int32_t i = 0; i < 2 * p->batch + 1; i++)
        own[i] = lens[i] - (i > p->batch ? shared : 0);
    const bool fine = make_level(p, 0, prefix, table) &&
                      make_level(p, 1, own, table + shared / p->wish->page_size);
    free(own);
    return fine;
}

bool attention_share(attention_problem *p, const weft_attention_desc *desc, const int32_t *lens)
{
    bench *run = &p->wish->run;
    weft_attention_desc own = *desc;
    own.max_kv_len -= p->wish->shared;
    const weft_cascade_desc cascade = {
        .size = sizeof cascade, .max_prefix_len = p->wish->shared, .attention = &own};
    if (weft_cascade_create(run->context, &cascade, &p->cascade) != WEFT_OK)
        return bench_error(run);
    const size_t bytes = weft_cascade_workspace_bytes(p->cascade);
    p->shared_workspace = bench_allocate(run, bytes + 64);
    if (!p->shared_workspace || !make_levels(p, lens))
        return false;
    p->args.batch = p->levels[1];
    p->args.workspace = p->shared_workspace;
    p->args.workspace_bytes = bytes;
    p->shared_args = (weft_cascade_args){
        .size = sizeof p->shared_args, .attention = &p->args, .prefix_batch = p->levels[0]};
    return true;
}

void attention_unshare(attention_problem *p)
{
    weft_batch_destroy(p->levels[0]);
    weft_batch_destroy(p->levels[1]);
    weft_cascade_destroy(p->cascade);
    weft_memory_free(p->wish->run.context, p->shared_workspace);
}
