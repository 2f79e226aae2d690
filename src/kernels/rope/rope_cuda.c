// SPDX-License-Identifier: MIT
// Rotary position embedding on CUDA: which kernel, and how it is launched.
#include <stdio.h>

#include "src/kernels/cuda/launch.h"
#include "src/kernels/rope/rope_device.h"
#include "src/kernels/rope/rope_kernel.h"

// As the CPU's rows begin, so that tools read them alike.
static const struct weft__rope_kernel rows[] = {
#define X(name, value, level)                                                                      \
    {.base = {"rope", "rope_" #name "_" #level, WEFT__CUDA_##level}, .style = value},
#include "src/kernels/rope/rope_cuda.def"
#undef X
};
static const struct weft__kernel_table table = {"rope", rows, sizeof rows[0],
                                                sizeof rows / sizeof rows[0]};

#define CONSTANTS(X) X(STYLE) X(X_DTYPE)
WEFT__CUDA_CONSTANTS(rope, CONSTANTS)

enum { THREADS = 32 };

struct launch {
    struct weft__rope_frequencies frequencies; // turns: what is copied to the device
    const void *turns;
    int32_t num_heads, head_dim;
};

static bool serves(const struct weft__kernel *row, const void *desc)
{
    return ((const struct weft__rope_kernel *)(const void *)row)->style ==
           ((const weft_rope_desc *)desc)->rope.style;
}

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_rope_desc *desc = opaque_desc;
    struct launch *launch = choice->launch;
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, serves, desc, choice, &status))
        return status;
    const char *why =
        weft__rope_frequencies_make(&desc->rope, desc->head_dim, &launch->frequencies);
    if (why) {
        snprintf(choice->text, sizeof choice->text, "rope: %.140s", why);
        return WEFT_EINVAL;
    }
    struct weft__rope_constants constants = {.STYLE = (int32_t)desc->rope.style,
                                             .X_DTYPE = (int32_t)desc->dtype};
    int32_t kernel = weft__cuda_want(choice, "src/kernels/rope/rope.cu", "weft_rope",
                                     WEFT__CUDA_VALUES(rope, constants));
    choice->kernels[kernel].exact = true; // cos and sin to the bit as on the CPU
    choice->table = launch->frequencies.turns;
    choice->table_bytes = (size_t)launch->frequencies.rotary_dim / 2 * sizeof(double);
    choice->table_at = &launch->turns;
    launch->num_heads = desc->num_heads;
    launch->head_dim = desc->head_dim;
    snprintf(choice->text, sizeof choice->text, " %d heads of %d tokens<=%d", desc->num_heads,
             desc->head_dim, desc->max_tokens);
    return WEFT_OK;
}

static int32_t steps(const void *opaque_launch, const void *opaque_args,
                     struct weft__cuda_step *step)
{
    const struct launch *launch = opaque_launch;
    const weft_rope_args *args = opaque_args;
    struct weft__rope_device_args device = {.x = args->x,
                                            .token_stride = args->token_stride,
                                            .positions = args->positions,
                                            .turns = launch->turns,
                                            .factor = launch->frequencies.attention_factor,
                                            .head_dim = launch->head_dim,
                                            .rotary_dim = launch->frequencies.rotary_dim};
    weft__cuda_step(step, 0, (uint32_t)args->tokens, (uint32_t)launch->num_heads, THREADS, &device,
                    sizeof device);
    step->overlap = 1;
    return 1;
}

const struct weft__cuda_op weft__rope_cuda = {&table, sizeof(struct launch), plan, steps};
