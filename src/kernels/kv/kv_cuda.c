// SPDX-License-Identifier: MIT
// Appending to a KV cache on CUDA: which kernel, and how it is launched.
#include <stdio.h>

#include "src/kernels/cuda/launch.h"
#include "src/kernels/kv/kv_device.h"
#include "src/kernels/kv/kv_kernel.h"

// Begins as struct weft__kv_kernel does: tools read the format.
static const struct weft__kv_kernel rows[] = {
#define X(dtype, level)                                                                            \
    {.base = {"kv", "kv_" WEFT__NAME_##dtype "_" #level, WEFT__CUDA_##level}, .kv = WEFT_##dtype},
#include "src/kernels/kv/kv_cuda.def"
#undef X
};
static const struct weft__kernel_table table = {"kv", rows, sizeof rows[0],
                                                sizeof rows / sizeof rows[0]};

#define CONSTANTS(X) X(ROTATE) X(STYLE) X(KV_DTYPE) X(X_DTYPE) X(Q_DTYPE)
WEFT__CUDA_CONSTANTS(kv, CONSTANTS)

enum { THREADS = 64 };

struct launch {
    struct weft__rope_frequencies frequencies;
    const void *turns;
    int32_t num_kv_heads, num_q_heads, head_dim, page_size;
};

// Whole heads of one plain format, without scales.
static bool serves(const struct weft__kernel *row, const void *desc)
{
    const weft_kv_layout *kv = &((const weft_kv_append_desc *)desc)->layout;
    weft_dtype dtype = ((const struct weft__kv_kernel *)(const void *)row)->kv;
    return kv->dtype == dtype && kv->v_dtype == dtype && kv->v_dim == kv->head_dim &&
           kv->inner == kv->head_dim && kv->v_inner == kv->v_dim && !kv->scaling && !kv->v_scaling;
}

static struct weft__kv_device_plane plane_of(const weft_kv_plane *plane)
{
    return (struct weft__kv_device_plane){plane->data, plane->page_stride, plane->head_stride,
                                          plane->token_stride};
}

static weft_status plan_rope(const weft_kv_append_desc *desc, struct launch *launch,
                             struct weft__cuda_choice *choice)
{
    const char *why =
        weft__rope_frequencies_make(desc->rope, desc->layout.head_dim, &launch->frequencies);
    if (why) {
        snprintf(choice->text, sizeof choice->text, "kv: %.140s", why);
        return WEFT_EINVAL;
    }
    choice->table = launch->frequencies.turns;
    choice->table_bytes = (size_t)launch->frequencies.rotary_dim / 2 * sizeof(double);
    choice->table_at = &launch->turns;
    return WEFT_OK;
}

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_kv_append_desc *desc = opaque_desc;
    struct launch *launch = choice->launch;
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, serves, desc, choice, &status))
        return status;
    if (desc->rope && (status = plan_rope(desc, launch, choice)) != WEFT_OK)
        return status;
    struct weft__kv_constants constants = {
        .ROTATE = desc->rope != NULL,
        .STYLE = desc->rope ? (int32_t)desc->rope->style : 0,
        .KV_DTYPE = (int32_t)desc->layout.dtype,
        .X_DTYPE = WEFT_F32,
        .Q_DTYPE = (int32_t)(desc->q_out_dtype ? desc->q_out_dtype : WEFT_F32)};
    int32_t kernel = weft__cuda_want(choice, "src/kernels/kv/kv.cu", "weft_kv_append",
                                     WEFT__CUDA_VALUES(kv, constants));
    choice->kernels[kernel].exact = true; // cos and sin to the bit as on the CPU
    launch->num_kv_heads = desc->layout.num_kv_heads;
    launch->num_q_heads = desc->num_q_heads;
    launch->head_dim = desc->layout.head_dim;
    launch->page_size = desc->layout.page_size;
    snprintf(choice->text, sizeof choice->text, " %s %d heads of %d, page %d%s, tokens<=%d",
             weft_dtype_name(desc->layout.dtype), desc->layout.num_kv_heads, desc->layout.head_dim,
             desc->layout.page_size, desc->rope ? ", rope" : "", desc->max_tokens);
    return WEFT_OK;
}

static int32_t steps(const void *opaque_launch, const void *opaque_args,
                     struct weft__cuda_step *step)
{
    const struct launch *launch = opaque_launch;
    const weft_kv_append_args *args = opaque_args;
    const weft_kv_pool *pool = &args->pool;
    struct weft__kv_device_args device = {
        .k_pool = plane_of(&pool->k),
        .v_pool = plane_of(&pool->v),
        .k = args->k,
        .v = args->v,
        .q = args->q,
        .q_out = args->q_out ? args->q_out : args->q,
        .k_token_stride = args->k_token_stride,
        .v_token_stride = args->v_token_stride,
        .q_token_stride = args->q_token_stride,
        .q_out_token_stride = args->q_out ? args->q_out_token_stride : args->q_token_stride,
        .slots = args->slots,
        .positions = args->positions,
        .turns = launch->turns,
        .factor = launch->frequencies.attention_factor,
        .rotary_dim = launch->frequencies.rotary_dim,
        .head_dim = launch->head_dim,
        .page_size = launch->page_size,
        .num_kv_heads = launch->num_kv_heads};
    int32_t heads = launch->num_kv_heads + (args->q ? launch->num_q_heads : 0);
    weft__cuda_step(step, 0, (uint32_t)args->tokens, (uint32_t)heads, THREADS, &device,
                    sizeof device);
    step->overlap = 1;
    return 1;
}

const struct weft__cuda_op weft__kv_cuda = {&table, sizeof(struct launch), plan, steps};
