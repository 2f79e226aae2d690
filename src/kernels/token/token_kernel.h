// SPDX-License-Identifier: MIT
// A whole token as one launch (token.cu): which launches of a program it can take the place of.
//
// Contract: what the launches wrote that anybody reads behind them is written with the same bits: keys and
// values in the cache, the residual stream, and logits. The rounded rows and the queries between them are not.
#ifndef WEFT_KERNELS_TOKEN_KERNEL_H
#define WEFT_KERNELS_TOKEN_KERNEL_H

#include "src/kernels/cuda/launch.h"
#include "src/kernels/token/token_device.h"

struct weft__linear_round_args;

enum { WEFT__TOKEN_MOST_LAYERS = 256 };

// A launch of a program; kernel NULL: something else, which stays where it is.
struct weft__token_seen {
    const struct weft__cuda_kernel *kernel;
    const void *args;
    const struct weft__cuda_matrix *matrices; // of the launch
    // of a step of two launches the second: parts in another format; or NULL
    const struct weft__cuda_kernel *more_kernel;
    const void *more_args;
    const struct weft__linear_round_args *round; // of a launch before these that rounds X; or NULL
    uint32_t grid_y;
};

struct weft__token_plan {
    int32_t first, count; // of the launches that it takes the place of
    bool begins; // the first Q, K, V too, but for what rounds their X: what stands before the first
    bool ends;   // the matrix of logits too, which is the last of `count`
    bool finds;  // and the largest logits: the first launch of the choice behind those
    struct weft__cuda_kernel kernel;
    struct weft__token_args args; // but for the layers' and the words' addresses
    struct weft__token_layer layers[WEFT__TOKEN_MOST_LAYERS];  // but for their maps,
    struct weft__cuda_matrix maps[WEFT__TOKEN_MOST_LAYERS][2]; // which these are,
    struct weft__cuda_matrix weights[WEFT__TOKEN_MOST_LAYERS]
                                    [WEFT__TOKEN_MAPS]; // and, where weights are plain, these
    uint32_t blocks, shared_bytes;
    int32_t rows;        // of the matrix of logits
    bool rows_second;    // in the second format
    int64_t words_bytes; // zero before the first launch
    int32_t uneven;      // of O and down the SM with most has so many hundredths of the average
    int32_t format;      // of all matrices, or but for V and down of some layers
    int64_t most_keys;   // that a text may have, by its row of the page table
    char why[160];       // not, where there is none
};

// Finds the run of layers of a dense model: attention of one new token that appends, O, gate and up, down, and
// Q, K, V of the next layer, again and again. False with the reason.
bool weft__token_find(const struct weft__token_seen *seen, int32_t count,
                      const struct weft__cuda_limits *limits, struct weft__token_plan *plan);

// The launch, with its memory: `layers` a copy of plan->layers, `words` plan->words_bytes.
void weft__token_step(const struct weft__token_plan *plan, const void *layers, void *words,
                      struct weft__cuda_step *step);

// Up to how many keys of a text the one launch is chosen unasked for (token_devices.def), on a device of that
// name for matrices of that format (0: of any) that divide so unevenly; 0: never.
int64_t weft__token_most_keys(const char *device, int32_t format, int32_t uneven);

// A sample of what weft__token_find() asks for: of an 8B Llama's layers in a block format, V and down of some
// in a second one or 0; even: WEFT_EVEN.
void weft__token_sample(weft_dtype format, weft_dtype second, int32_t even,
                        struct weft__cuda_kernel *kernel);

#endif
