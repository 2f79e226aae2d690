// SPDX-License-Identifier: MIT
// A problem of attention with lengths of the test's own, pools full of random numbers, and its answer in double.
#ifndef TESTS_SUPPORT_ATTENTION_CASE_H
#define TESTS_SUPPORT_ATTENTION_CASE_H

#include <stdbool.h>

#include <weft/weft.h>

enum { ATTENTION_CASE_SEQS = 32 };

typedef struct attention_case {
    // The caller's: kv (packed pools, no scales), heads, mask, window, softcap; bounds follow from the lengths.
    weft_attention_desc desc;
    int32_t num_seqs, q_lens[ATTENTION_CASE_SEQS], kv_lens[ATTENTION_CASE_SEQS];
    bool batched;           // the sequences come as a batch
    bool again;             // what counts is a batch's second run
    const int32_t *parents; // of WEFT_MASK_TREE, as tree_parents; or NULL
    // The same tree for a plan of WEFT_MASK_BITS: word [query][bits_stride], column c is query c of the sequence.
    const uint32_t *bits;
    int32_t bits_stride;
    // attention_case_make():
    int32_t cu[ATTENTION_CASE_SEQS + 1], pages, *table, table_stride;
    void *k, *v;          // pools
    float *keys, *values; // what they say, element for element
    float *q;
    int64_t out_elems, lse_elems;
} attention_case;

// The same numbers for the same shape.
void attention_case_make(attention_case *c);
void attention_case_free(attention_case *c);

// Plans `desc` (c->desc, changed in what does not change the problem, or with 16-bit queries) and runs it, on a
// GPU on a copy there; out[out_elems], lse[lse_elems] or NULL. The status of the first call that fails.
weft_status attention_case_run(weft_context *context, const attention_case *c,
                               const weft_attention_desc *desc, float *out, float *lse);

// The answer for every `step`-th row: causal, full or tree mask, window (not of trees), soft-cap. NaN for the others.
void attention_case_answer(const attention_case *c, float *out, float *lse, int64_t step);

// The largest difference from what is wanted, where that is a number.
double attention_case_far(const float *got, const float *want, int64_t count);

#endif
