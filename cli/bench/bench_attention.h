// SPDX-License-Identifier: MIT
// A problem of weft bench attention: what is asked for, and the memory that one row of the result is measured on.
#ifndef WEFT_CLI_BENCH_ATTENTION_H
#define WEFT_CLI_BENCH_ATTENTION_H

#include "cli/bench/bench.h"
#include "weft/cascade.h"

typedef struct attention_request {
    bench run;
    weft_dtype dtype;
    bench_formats kv_dtypes;
    bench_list batches, q_lens, kv_lens, heads, splits, tile_rows, tile_heads;
    bench_list ragged_q_lens, ragged_kv_lens; // of the sequences of one batch; empty: all are alike
    int32_t kv_heads, head_dim, page_size, window, stages;
    int32_t softcap; // 0: none
    int32_t shared;  // keys of a prefix that all sequences share; 0: none
    weft_mask mask;
    bool sinks, alibi, precise;
    bool tokens_first; // what a page has of a token lies together, not what it has of a KV head
    bool variants;     // every kernel that serves, with chunks and without, in turns
} attention_request;

// One row of the result.
typedef struct attention_problem {
    attention_request *wish;
    weft_dtype kv_dtype;
    int32_t batch, q_len, kv_len, heads, splits, tile_rows, tile_heads, pages, copies;
    int64_t pool_bytes, stride_bytes; // of keys or values; of a copy of both
    weft_plan *plan;
    weft_attention_args args;
    void *q, *out;
    // Lengths and pages, as an engine hands them over; NULL: with every run.
    weft_batch *batch_of_runs;
    int32_t *numbers; // cu_q_lens, kv_lens, page_table, tree_parents
    float *per_head;  // sinks, slopes
    int32_t queries;  // of all sequences
    void *workspace;
    weft_cascade *cascade; // of a shared prefix, with what it needs besides; or NULL
    weft_cascade_args shared_args;
    weft_batch *levels[2]; // the prefix, the sequences' own keys
    void *shared_workspace;
} attention_problem;

// Of sequence s.
int32_t attention_q_len(const attention_problem *p, int32_t s);
int32_t attention_kv_len(const attention_problem *p, int32_t s);

double attention_elem_bytes(weft_dtype dtype);

// Can the wanted variant do the problem?
bool attention_serves(attention_problem *p);

// The plan, copies of the cache, queries, results, tables and workspace. False with a message.
bool attention_make_ready(attention_problem *p);

// A bench_body of an attention_problem, on the copy whose turn it is.
bool attention_run_once(void *problem);

void attention_drop(attention_problem *p);

// bench_attention_shared.c: makes a ready problem one of sequences that share a prefix; frees what that took.
// `lens`: cu_q_lens, kv_lens, pages of all keys.
bool attention_share(attention_problem *p, const weft_attention_desc *desc, const int32_t *lens);
void attention_unshare(attention_problem *p);

#endif
