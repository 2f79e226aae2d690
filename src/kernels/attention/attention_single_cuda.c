// SPDX-License-Identifier: MIT
// Attention on CUDA, one query and one query head at a time: what attention_single.cu is compiled for, and its launch.
#include <stdio.h>
#include <string.h>

#include "src/kernels/attention/attention_cuda.h"

#define SINGLE_CONSTANTS(X)                                                                        \
    X(WEFT_HEAD_DIM)                                                                               \
    X(WEFT_KV_DTYPE)                                                                               \
    X(WEFT_X_DTYPE)                                                                                \
    X(WEFT_Y_DTYPE)                                                                                \
    X(WEFT_PAGE) X(WEFT_SOFTCAP) X(WEFT_ALIBI) X(WEFT_RING) X(WEFT_SCATTER) X(WEFT_SPARSE)
WEFT__CUDA_CONSTANTS(attention_single, SINGLE_CONSTANTS)

enum { MOST_HEADS = 65535 }; // of a grid along y

bool weft__attention_single_serves(const char *function, const weft_attention_desc *desc)
{
    int32_t most_dim = strcmp(function, WEFT__ATTENTION_STANDARD) == 0 ? 1024 : 256;
    return desc->kv.head_dim <= most_dim && desc->num_q_heads <= MOST_HEADS;
}

void weft__attention_single_plan(const weft_attention_desc *desc, const char *function,
                                 struct weft__cuda_choice *choice)
{
    struct weft__attention_cuda_launch *launch = choice->launch;
    const struct weft__attention_single_constants c = {
        .WEFT_HEAD_DIM = desc->kv.head_dim,
        .WEFT_KV_DTYPE = (int32_t)desc->kv.dtype,
        .WEFT_X_DTYPE = (int32_t)desc->q_dtype,
        .WEFT_Y_DTYPE = (int32_t)desc->out_dtype,
        .WEFT_PAGE = desc->kv.page_size,
        .WEFT_SOFTCAP = desc->softcap != 0,
        .WEFT_ALIBI = (desc->flags & WEFT_ATTENTION_ALIBI) != 0,
        .WEFT_RING = desc->ring_len > 0,
        .WEFT_SCATTER = weft__attention_scatters(desc),
        .WEFT_SPARSE = weft__attention_sparse_kinds(desc)};
    launch->single_threads = (uint32_t)(desc->kv.head_dim + 31) / 32 * 32;
    if (strcmp(function, WEFT__ATTENTION_STANDARD) != 0)
        launch->single_threads = strcmp(function, WEFT__ATTENTION_FAST) == 0 ? 32 : 1024;
    launch->blocks = (uint32_t)desc->max_q_tokens;
    launch->splits = 1;
    weft__cuda_want(choice, "src/kernels/attention/attention_single.cu", function,
                    WEFT__CUDA_VALUES(attention_single, c));
    snprintf(choice->text, sizeof choice->text,
             " %d/%d heads of %d, pages of %d, a block of %u threads for every query and head",
             desc->num_q_heads, desc->kv.num_kv_heads, desc->kv.head_dim, desc->kv.page_size,
             launch->single_threads);
}

void weft__attention_single_step(const struct weft__attention_cuda_launch *launch,
                                 const struct weft__attention_device_args *device,
                                 struct weft__cuda_step *step)
{
    weft__cuda_step(step, WEFT__ATTENTION_SINGLE, launch->blocks, (uint32_t)launch->num_q_heads,
                    launch->single_threads, device, sizeof *device);
    step->overlap = 1;
}
