// SPDX-License-Identifier: MIT
#include "tests/cuda/samples.h"

#include <stdio.h>

#include <weft/weft.h>

enum { MOST = 256 };

static struct cuda_sample samples[MOST];
static int num_samples;

static union {
    weft_norm_desc norm;
    weft_activation_desc activation;
    weft_softmax_desc softmax;
    weft_rope_desc rope;
} descs[MOST];

#define ADD(OP, ...)                                                                               \
    do {                                                                                           \
        int n = num_samples++;                                                                     \
        descs[n].OP = __VA_ARGS__;                                                                 \
        descs[n].OP.size = sizeof descs[n].OP;                                                     \
        samples[n] = (struct cuda_sample){.op = WEFT__OP_##OP, .desc = &descs[n].OP};              \
        snprintf(samples[n].name, sizeof samples[n].name, "%s sample %d", #OP, n);                 \
    } while (0)

static void small_operations(void)
{
    for (int kind = 0; kind < 2; kind++)
        for (int dim = 100; dim <= 4096; dim += 3996)
            ADD(norm, (weft_norm_desc){.kind = (weft_norm_kind)kind, .dim = dim, .max_rows = 4});
    for (int kind = 0; kind < 3; kind++)
        ADD(activation,
            (weft_activation_desc){.kind = (weft_activation_kind)kind, .dim = 4096, .max_rows = 4});
    ADD(softmax, (weft_softmax_desc){.dim = 4096, .max_rows = 4, .scale = 1});
    for (int style = 0; style < 2; style++)
        ADD(rope, (weft_rope_desc){.num_heads = 8,
                                   .head_dim = 128,
                                   .max_tokens = 4,
                                   .rope = {.style = (weft_rope_style)style, .base = 10000}});
}

int cuda_num_samples(void)
{
    if (num_samples == 0)
        small_operations();
    return num_samples;
}

struct cuda_sample cuda_sample(int n)
{
    return samples[n];
}
