// SPDX-License-Identifier: MIT
// A random problem of attention, for weft-check.
#ifndef WEFT_KERNELS_ATTENTION_PROBLEM_H
#define WEFT_KERNELS_ATTENTION_PROBLEM_H

#include "src/kernels/attention/attention_kernel.h"

struct check_case;

enum { PROBLEM_MOST_SEQS = 5 };

// What lengths decide of the kernels that a plan has, where several problems are to have the same.
struct problem_kind {
    bool held, single,
        ring; // held: the others count. Single tokens alone; a ring where there is a window
};

struct problem {
    struct problem_kind kind;
    bool together; // single tokens of several KV heads behind many keys
    weft_attention_desc desc;
    weft_attention_args args;
    int32_t key_dim, value_dim;
    int32_t q_lens[PROBLEM_MOST_SEQS], kv_lens[PROBLEM_MOST_SEQS], starts[PROBLEM_MOST_SEQS];
    int32_t columns[PROBLEM_MOST_SEQS]; // of mask_bits
    // [kv_len][kv_head][dim], as numbers that the cache says
    float *k[PROBLEM_MOST_SEQS], *v[PROBLEM_MOST_SEQS];
    float *v_scales
        [PROBLEM_MOST_SEQS]; // [kv_len][kv_head]: what the codes of values are multiplied by
    float *q;                // as args.q, in f32
    void *before;            // what args.out held
    int64_t q_elems, out_elems;
    int64_t q_token_stride, q_head_stride, out_token_stride, out_head_stride;
    float scale;
};

// Shape and modes, other modes of that shape, a kind of lengths that is to be held, then lengths.
void weft__problem_draw_shape(struct check_case *c, struct problem *p);
void weft__problem_draw_modes(struct check_case *c, struct problem *p);
struct problem_kind weft__problem_draw_kind(struct check_case *c, const struct problem *p);
void weft__problem_draw_lengths(struct check_case *c, struct problem *p);

// Keys and values scattered over pages; what no query sees is poison.
void weft__problem_fill_cache(struct check_case *c, struct problem *p);

// Queries, room for results, and what masks need.
void weft__problem_fill_queries(struct check_case *c, struct problem *p);

// The meaning of the masks: may query `token` of sequence s see key t under query head `head`? Written down
// apart from the kernels.
bool weft__problem_sees(const struct problem *p, int32_t s, int32_t token, int32_t head, int32_t t);

// The check of WEFT_ATTENTION_APPEND and _OUT_ROUNDED, with `problems` of its own (attention_append_check.c).
void weft__attention_append_check(struct check_case *c, int32_t problems);

// The number of a plain format at element `at`.
float weft__problem_load(weft_dtype dtype, const void *from, int64_t at);

#endif
