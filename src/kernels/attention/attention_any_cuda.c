// SPDX-License-Identifier: MIT
// Attention on CUDA over caches of any format: what attention_any.cu is compiled for, and its launch.
#include <stdio.h>

#include "src/kernels/attention/attention_cuda.h"

#define ANY_CONSTANTS(X)                                                                           \
    X(WEFT_HEAD_DIM)                                                                               \
    X(WEFT_V_DIM)                                                                                  \
    X(WEFT_ROWS)                                                                                   \
    X(WEFT_KEYS)                                                                                   \
    X(WEFT_K_FORMAT)                                                                               \
    X(WEFT_K_ELEMS)                                                                                \
    X(WEFT_K_BYTES)                                                                                \
    X(WEFT_K_INNER)                                                                                \
    X(WEFT_V_FORMAT)                                                                               \
    X(WEFT_V_ELEMS)                                                                                \
    X(WEFT_V_BYTES)                                                                                \
    X(WEFT_V_INNER)                                                                                \
    X(WEFT_X_DTYPE)                                                                                \
    X(WEFT_Y_DTYPE)                                                                                \
    X(WEFT_PAGE)                                                                                   \
    X(WEFT_SOFTCAP) X(WEFT_ALIBI) X(WEFT_RING) X(WEFT_SCATTER) X(WEFT_SPARSE) X(WEFT_SOFT)
WEFT__CUDA_CONSTANTS(attention_any, ANY_CONSTANTS)

// Shared memory of a block: queries, and the keys or values of a tile.
static int64_t any_bytes(const struct weft__attention_any_constants *c)
{
    int32_t wide = c->WEFT_V_DIM > c->WEFT_HEAD_DIM ? c->WEFT_V_DIM : c->WEFT_HEAD_DIM;
    return 4 * ((int64_t)c->WEFT_ROWS * (c->WEFT_HEAD_DIM + 1) + c->WEFT_KEYS * (wide + 1));
}

static struct weft__attention_any_constants any_constants(const weft_attention_desc *desc)
{
    const weft_kv_layout *kv = &desc->kv;
    weft_dtype v_dtype = kv->v_dtype ? kv->v_dtype : kv->dtype;
    int32_t v_dim = kv->v_dim ? kv->v_dim : kv->head_dim;
    int32_t wide = v_dim > kv->head_dim ? v_dim : kv->head_dim;
    return (struct weft__attention_any_constants){
        .WEFT_HEAD_DIM = kv->head_dim,
        .WEFT_V_DIM = v_dim,
        .WEFT_ROWS = wide > 512 ? 8 : 16,
        .WEFT_KEYS = wide > 256 ? 16 : 32,
        .WEFT_K_FORMAT = (int32_t)kv->dtype,
        .WEFT_K_ELEMS = (int32_t)weft_dtype_block_elems(kv->dtype),
        .WEFT_K_BYTES = (int32_t)weft_dtype_block_bytes(kv->dtype),
        .WEFT_K_INNER = kv->inner ? kv->inner : kv->head_dim,
        .WEFT_V_FORMAT = (int32_t)v_dtype,
        .WEFT_V_ELEMS = (int32_t)weft_dtype_block_elems(v_dtype),
        .WEFT_V_BYTES = (int32_t)weft_dtype_block_bytes(v_dtype),
        .WEFT_V_INNER = kv->v_inner ? kv->v_inner : v_dim,
        .WEFT_X_DTYPE = (int32_t)desc->q_dtype,
        .WEFT_Y_DTYPE = (int32_t)desc->out_dtype,
        .WEFT_PAGE = kv->page_size,
        .WEFT_SOFTCAP = desc->softcap != 0,
        .WEFT_ALIBI = (desc->flags & WEFT_ATTENTION_ALIBI) != 0,
        .WEFT_RING = desc->ring_len > 0,
        .WEFT_SCATTER = weft__attention_scatters(desc),
        .WEFT_SPARSE = weft__attention_sparse_kinds(desc),
        .WEFT_SOFT = (desc->flags & WEFT_ATTENTION_MASK_VALUE) != 0};
}

weft_status weft__attention_any_plan(const weft_attention_desc *desc,
                                     const struct weft__cuda_limits *limits,
                                     struct weft__cuda_choice *choice)
{
    struct weft__attention_cuda_launch *launch = choice->launch;
    struct weft__attention_any_constants c = any_constants(desc);
    while (any_bytes(&c) + 4096 > limits->shared_per_block && c.WEFT_ROWS > 1)
        *(c.WEFT_KEYS > 8 ? &c.WEFT_KEYS : &c.WEFT_ROWS) /= 2;
    int64_t items = weft__attention_items_most(desc, launch->group_size, c.WEFT_ROWS);
    launch->any = true;
    launch->shared_bytes = (uint32_t)any_bytes(&c);
    weft_status status = weft__attention_plan_items(desc, items, c.WEFT_KEYS, launch, choice);
    if (status != WEFT_OK)
        return status;
    int64_t per_sm = limits->shared_per_sm / ((int64_t)launch->shared_bytes + 4096);
    launch->blocks = (uint32_t)(limits->num_sms * (per_sm > 2 ? 2 : per_sm));
    weft__cuda_want(choice, "src/kernels/attention/attention_any.cu", "weft_attention_any",
                    WEFT__CUDA_VALUES(attention_any, c));
    status = weft__attention_plan_workspace((int64_t)c.WEFT_ROWS * (c.WEFT_V_DIM + 2), items,
                                            launch, choice);
    if (status != WEFT_OK)
        return status;
    char division[64];
    snprintf(choice->text, sizeof choice->text, " %d/%d heads of %d/%d, pages of %d, %u blocks%s",
             desc->num_q_heads, desc->kv.num_kv_heads, c.WEFT_HEAD_DIM, c.WEFT_V_DIM,
             desc->kv.page_size, launch->blocks,
             weft__attention_division_text(launch, c.WEFT_KEYS, division));
    return WEFT_OK;
}

void weft__attention_any_step(const struct weft__attention_cuda_launch *launch,
                              const weft_attention_args *args,
                              const struct weft__attention_device_args *device,
                              struct weft__cuda_step *step)
{
    struct weft__attention_any_args any = {*device, args->pool.k.inner_stride,
                                           args->pool.v.inner_stride};
    weft__cuda_step(step, WEFT__ATTENTION_ANY, launch->blocks, 1, WEFT__ATTENTION_WARPS * 32, &any,
                    sizeof any);
    step->shared_bytes = launch->shared_bytes;
    step->overlap = 1;
}
