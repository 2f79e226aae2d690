// SPDX-License-Identifier: MIT
// The layers of a dense model among the launches of a program (token_layers_cuda.c), for the one launch that
// takes their place.
#ifndef WEFT_KERNELS_TOKEN_LAYERS_H
#define WEFT_KERNELS_TOKEN_LAYERS_H

#include "src/kernels/token/token_kernel.h"

enum {
    WEFT__TOKEN_LAUNCHES = 5
}; // of a layer: attention, O, gate and up, down, the next one's Q, K, V

// The kernels of all layers: of down in the first format and in the second, of Q, K, V by one launch and, of Q
// and K, by two.
struct weft__token_met {
    const struct weft__cuda_kernel *attention, *o, *up, *down[2], *last_down, *qkv[2], *v;
};

// Finds the layers among `count` launches: plan->first and count, what the layers read and write, the
// arguments. False with the reason.
bool weft__token_take_layers(const struct weft__token_seen *seen, int32_t count,
                             struct weft__token_met *met, struct weft__token_plan *plan);

// Takes the matrix of logits that stands behind the layers, if it is one that the kernel has, of so many columns, in the format of the
// layers or in their second one: plan->ends, plan->count.
void weft__token_take_logits(const struct weft__token_seen *seen, int32_t cols, int32_t second,
                             struct weft__token_plan *plan);

// The choice of a token of those logits: its first launch, which finds the largest ones (plan->finds).
void weft__token_take_choice(const struct weft__token_seen *seen,
                             const struct weft__cuda_limits *limits, struct weft__token_plan *plan);

// A function constant of a kernel by its name; 0: it has none.
int32_t weft__token_constant(const struct weft__cuda_kernel *kernel, const char *name);

// Are sums of even and odd tiles added up apart (stream_sum())?
bool weft__token_adds_even(const struct weft__cuda_kernel *kernel);

// False, with the reason in the plan.
bool weft__token_refuse(struct weft__token_plan *plan, const char *why);

#endif
