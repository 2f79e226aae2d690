// SPDX-License-Identifier: MIT
// A random problem of experts, for weft-check.
#ifndef WEFT_KERNELS_EXPERTS_PROBLEM_H
#define WEFT_KERNELS_EXPERTS_PROBLEM_H

#include <weft/experts.h>

struct check_case;

enum { MARK = 0x7a5a }; // in results of 16 bits: no number of the problem

struct problem {
    weft_experts_desc desc;
    weft_experts_args args;
    bool exact, gaps;                   // gaps: between experts
    bool packed;                        // on the CPU: the same layout for layers of the oracle
    bool adapted;                       // decoded is what weights and adapters are together
    float *decoded[WEFT_EXPERTS_PARTS]; // [experts][rows][cols]
    float *x, *residual;                // what they said before the run
    int32_t *ids;
};

static inline bool weighs_input(const weft_experts_desc *desc)
{
    return desc->flags & WEFT_EXPERTS_WEIGH_INPUT;
}

static inline bool has(const weft_experts_desc *desc, int part)
{
    return part != WEFT_EXPERTS_UP || !(desc->flags & WEFT_EXPERTS_PLAIN);
}

static inline weft_dtype or_f32(weft_dtype dtype)
{
    return dtype ? dtype : WEFT_F32;
}

struct problem weft__experts_problem_draw(struct check_case *c);

#endif
