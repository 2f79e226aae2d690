// SPDX-License-Identifier: MIT
// What weft-check holds attention against: one query and the keys it sees, in double, with a bound for
// every element. Shares nothing with the kernels: masks, pages and splits are the caller's.
#ifndef WEFT_KERNELS_ATTENTION_ORACLE_H
#define WEFT_KERNELS_ATTENTION_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

enum { ORACLE_MOST_DIM = 1024, ORACLE_WORK = 6 };

struct oracle_query {
    const float *q;              // [head_dim]
    const float *k, *v;          // key t at k + t * k_stride
    int64_t k_stride, v_stride;  // elements
    int32_t head_dim, value_dim; // elements of a key, of a value
    int32_t num_keys;
    const bool *sees;   // [num_keys]
    const double *bias; // [num_keys], added to scores after the soft-cap; NULL = 0
    double scale, softcap;
    double sink; // a score without a value; -INFINITY = none
    // What a kernel does to weights by design: their rounding, relative, and what may vanish of the largest.
    double weight_rounding, weight_floor;
    // Kernels that multiply integers: queries are rounded to q_unit of their largest element; weights times
    // v_scales, what the codes of values are multiplied by, key t's at t * scale_stride, to 2^-15 of the
    // largest of the keys of a block, wherever it begins. NULL: they are not.
    double q_unit;
    const float *v_scales;
    int64_t scale_stride;
    double tiny;  // results of that size may be lost
    bool cuts;    // tensor cores sum q.k in one piece
    bool flushes; // elements below the normal numbers are 0, that times infinity NaN
};

struct oracle_answer {
    double y[ORACLE_MOST_DIM], bound[ORACLE_MOST_DIM];
    double lse, lse_bound;
};

// `work` has ORACLE_WORK * num_keys doubles.
void weft__attention_oracle(const struct oracle_query *query, double *work,
                            struct oracle_answer *answer);

#endif
