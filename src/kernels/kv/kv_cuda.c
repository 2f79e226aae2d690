// SPDX-License-Identifier: MIT
// Appending to a KV cache on CUDA: which kernel, and how it is launched.
#include <stdio.h>

#include "src/kernels/cuda/launch.h"
#include "src/kernels/kv/kv_device.h"
#include "src/kernels/kv/kv_kernel.h"

enum { KV_ANY = 0, KV_F32 = WEFT_F32, KV_F16 = WEFT_F16, KV_BF16 = WEFT_BF16 };
#define WEFT__NAME_ANY "any"

// Begins as struct weft__kv_kernel does: tools read the format.
static const struct weft__kv_kernel rows[] = {
#define X(dtype, level)                                                                            \
    {.base = {"kv", "kv_" WEFT__NAME_##dtype "_" #level, WEFT__CUDA_##level},                      \
     .kv = (weft_dtype)KV_##dtype},
#include "src/kernels/kv/kv_cuda.def"
#undef X
};
static const struct weft__kernel_table table = {"kv", rows, sizeof rows[0],
                                                sizeof rows / sizeof rows[0]};

#define CONSTANTS(X) X(ROTATE) X(STYLE) X(GROWS) X(KV_DTYPE) X(X_DTYPE) X(Q_DTYPE)
WEFT__CUDA_CONSTANTS(kv, CONSTANTS)

#define ANY_CONSTANTS(X)                                                                           \
    X(ROTATE)                                                                                      \
    X(STYLE)                                                                                       \
    X(GROWS)                                                                                       \
    X(X_DTYPE)                                                                                     \
    X(Q_DTYPE)                                                                                     \
    X(K_FORMAT)                                                                                    \
    X(K_ELEMS)                                                                                     \
    X(K_BYTES)                                                                                     \
    X(K_DIM)                                                                                       \
    X(K_INNER)                                                                                     \
    X(K_SCALING)                                                                                   \
    X(V_FORMAT) X(V_ELEMS) X(V_BYTES) X(V_DIM) X(V_INNER) X(V_SCALING)
WEFT__CUDA_CONSTANTS(kv_any, ANY_CONSTANTS)

enum { THREADS = 64 };

struct launch {
    struct weft__rope_frequencies frequencies;
    const void *turns;
    int32_t num_kv_heads, num_q_heads, head_dim, page_size;
    int32_t growth_length;
    float growth;
    bool any;
};

// Whole heads of one plain format, without scales.
static bool serves(const struct weft__kernel *row, const void *desc)
{
    const weft_kv_layout *kv = &((const weft_kv_append_desc *)desc)->layout;
    weft_dtype dtype = ((const struct weft__kv_kernel *)(const void *)row)->kv;
    return !dtype || (kv->dtype == dtype && kv->v_dtype == dtype && kv->v_dim == kv->head_dim &&
                      kv->inner == kv->head_dim && kv->v_inner == kv->v_dim && !kv->scaling &&
                      !kv->v_scaling);
}

static struct weft__kv_device_plane plane_of(const weft_kv_plane *plane)
{
    return (struct weft__kv_device_plane){plane->data,
                                          plane->page_stride,
                                          plane->head_stride,
                                          plane->token_stride,
                                          plane->inner_stride,
                                          plane->scales,
                                          plane->scale_page_stride,
                                          plane->scale_head_stride,
                                          plane->scale_token_stride};
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

static void want_any(const weft_kv_append_desc *desc, const struct weft__kv_constants *plain,
                     struct weft__cuda_choice *choice)
{
    const weft_kv_layout *kv = &desc->layout;
    struct weft__kv_any_constants constants = {
        .ROTATE = plain->ROTATE,
        .STYLE = plain->STYLE,
        .GROWS = plain->GROWS,
        .X_DTYPE = plain->X_DTYPE,
        .Q_DTYPE = plain->Q_DTYPE,
        .K_FORMAT = (int32_t)kv->dtype,
        .K_ELEMS = (int32_t)weft_dtype_block_elems(kv->dtype),
        .K_BYTES = (int32_t)weft_dtype_block_bytes(kv->dtype),
        .K_DIM = kv->head_dim,
        .K_INNER = kv->inner,
        .K_SCALING = (int32_t)kv->scaling,
        .V_FORMAT = (int32_t)kv->v_dtype,
        .V_ELEMS = (int32_t)weft_dtype_block_elems(kv->v_dtype),
        .V_BYTES = (int32_t)weft_dtype_block_bytes(kv->v_dtype),
        .V_DIM = kv->v_dim,
        .V_INNER = kv->v_inner,
        .V_SCALING = (int32_t)kv->v_scaling};
    int32_t kernel = weft__cuda_want(choice, "src/kernels/kv/kv_any.cu", "weft_kv_append_any",
                                     WEFT__CUDA_VALUES(kv_any, constants));
    choice->kernels[kernel].exact = true; // the same bits as on the CPU
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
        .GROWS = desc->q_growth_length != 0,
        .KV_DTYPE = (int32_t)desc->layout.dtype,
        .X_DTYPE = (int32_t)desc->x_dtype,
        .Q_DTYPE = (int32_t)(desc->q_out_dtype ? desc->q_out_dtype : desc->x_dtype)};
    launch->any = ((const struct weft__kv_kernel *)(const void *)choice->row)->kv == 0;
    if (launch->any) {
        want_any(desc, &constants, choice);
    } else {
        int32_t kernel = weft__cuda_want(choice, "src/kernels/kv/kv.cu", "weft_kv_append",
                                         WEFT__CUDA_VALUES(kv, constants));
        choice->kernels[kernel].exact = true; // cos and sin to the bit as on the CPU
    }
    launch->num_kv_heads = desc->layout.num_kv_heads;
    launch->num_q_heads = desc->num_q_heads;
    launch->head_dim = desc->layout.head_dim;
    launch->page_size = desc->layout.page_size;
    launch->growth_length = desc->q_growth_length;
    launch->growth = desc->q_growth;
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
        .num_kv_heads = launch->num_kv_heads,
        .growth_length = launch->growth_length,
        .growth = launch->growth};
    int32_t heads =
        launch->num_kv_heads * (launch->any ? 2 : 1) + (args->q ? launch->num_q_heads : 0);
    weft__cuda_step(step, 0, (uint32_t)args->tokens, (uint32_t)heads, THREADS, &device,
                    sizeof device);
    step->overlap = 1;
    return 1;
}

const struct weft__cuda_op weft__kv_cuda = {&table, sizeof(struct launch), plan, steps};
