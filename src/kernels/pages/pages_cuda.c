// SPDX-License-Identifier: MIT
// Moving pages on CUDA: how the kernels are launched.
#include <stdio.h>

#include "src/kernels/cuda/launch.h"
#include "src/kernels/pages/pages_kernel.h"

static const struct weft__kernel rows[] = {{"pages", "pages_sm80", WEFT__CUDA_sm80}};
static const struct weft__kernel_table table = {"pages", rows, sizeof rows[0], 1};

#define CONSTANTS(X) X(UNIT)
WEFT__CUDA_CONSTANTS(pages, CONSTANTS)

enum { THREADS = 128, MOST_HEADS = 65535, OWN = 4 };

// Kernels of a plan, by the bytes that are moved at once, and behind them the one that decides.
static const int32_t units[OWN] = {16, 4, 2, 1};

struct launch {
    weft_pages_desc desc;
};

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_pages_desc *desc = opaque_desc;
    struct launch *launch = choice->launch;
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, NULL, desc, choice, &status))
        return status;
    for (int32_t i = 0; i < OWN; i++) {
        const struct weft__pages_constants constants = {.UNIT = units[i]};
        int32_t kernel = weft__cuda_want(choice, "src/kernels/pages/pages.cu", "weft_pages",
                                         WEFT__CUDA_VALUES(pages, constants));
        choice->kernels[kernel].lazy = i > 0;
    }
    const struct weft__pages_constants constants = {.UNIT = 1};
    if (desc->mode == WEFT_PAGES_OWN)
        weft__cuda_want(choice, "src/kernels/pages/pages.cu", "weft_pages_own",
                        WEFT__CUDA_VALUES(pages, constants));
    launch->desc = *desc;
    snprintf(choice->text, sizeof choice->text, " %s %d heads of %d, page %d, pairs<=%d",
             weft_dtype_name(desc->layout.dtype), desc->layout.num_kv_heads, desc->layout.head_dim,
             desc->layout.page_size, desc->max_pairs);
    return WEFT_OK;
}

// What divides everything that says where bytes of a side are.
static uint64_t places(const struct weft__pages_side *side)
{
    return (uint64_t)(uintptr_t)side->data | (uint64_t)side->page | (uint64_t)side->head |
           (uint64_t)side->group | (uint64_t)side->row;
}

static int32_t kernel_of(const struct weft__pages_move *move)
{
    uint64_t all = 0;
    int32_t kernel = 0;
    for (int32_t i = 0; i < move->num_planes; i++)
        all |= places(&move->planes[i].from) | places(&move->planes[i].to) |
               (uint64_t)move->planes[i].piece;
    while (all % (uint64_t)units[kernel] != 0)
        kernel++;
    return kernel;
}

static int32_t steps(const void *opaque_launch, const void *args, struct weft__cuda_step *step)
{
    const struct launch *launch = opaque_launch;
    const struct weft__pages_move move = weft__pages_describe(&launch->desc, args);
    const uint32_t heads = (uint32_t)(move.heads < MOST_HEADS ? move.heads : MOST_HEADS);
    int32_t count = 0;
    if (move.copied)
        weft__cuda_step(&step[count++], OWN, 1, 1, 1, &move, sizeof move);
    weft__cuda_step(&step[count++], kernel_of(&move), (uint32_t)move.count, heads, THREADS, &move,
                    sizeof move);
    return count;
}

const struct weft__cuda_op weft__pages_cuda = {&table, sizeof(struct launch), plan, steps};
