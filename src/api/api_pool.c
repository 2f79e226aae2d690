// SPDX-License-Identifier: MIT
#include "src/api/api_pool.h"

#include "src/base/checked.h"

// Formats of a cache: plain ones, and blocks of 32 that keep their scale.
static const weft_dtype formats[] = {WEFT_F32,      WEFT_F16,  WEFT_BF16, WEFT_FP8_E4M3,
                                     WEFT_FP8_E5M2, WEFT_INT8, WEFT_Q8_0, WEFT_Q5_1,
                                     WEFT_Q5_0,     WEFT_Q4_1, WEFT_Q4_0, WEFT_IQ4_NL};

static bool is_format(weft_dtype dtype)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i] == dtype)
            return true;
    return false;
}

static void settle(weft_kv_layout *layout)
{
    layout->v_dtype = layout->v_dtype ? layout->v_dtype : layout->dtype;
    layout->v_dim = layout->v_dim ? layout->v_dim : layout->head_dim;
    layout->inner = layout->inner ? layout->inner : layout->head_dim;
    layout->v_inner = layout->v_inner ? layout->v_inner : layout->v_dim;
}

static int64_t plane_bytes(const weft_kv_layout *layout, weft_dtype dtype, int32_t dim)
{
    int64_t row, bytes;
    if (layout->num_kv_heads < 1 || dim < 1 || layout->page_size < 1 ||
        (row = weft_dtype_row_bytes(dtype, dim)) < 0 ||
        !weft__mul_i64(layout->num_kv_heads, layout->page_size, &bytes) ||
        !weft__mul_i64(bytes, row, &bytes))
        return -1;
    return bytes;
}

int64_t weft_kv_key_bytes(const weft_kv_layout *layout)
{
    return layout ? plane_bytes(layout, layout->dtype, layout->head_dim) : -1;
}

int64_t weft_kv_value_bytes(const weft_kv_layout *layout)
{
    if (!layout)
        return -1;
    weft_kv_layout settled = *layout;
    settle(&settled);
    return plane_bytes(&settled, settled.v_dtype, settled.v_dim);
}

int64_t weft_kv_page_bytes(const weft_kv_layout *layout)
{
    int64_t keys = weft_kv_key_bytes(layout), values = weft_kv_value_bytes(layout), bytes;
    return keys < 0 || values < 0 || !weft__add_i64(keys, values, &bytes) ? -1 : bytes;
}

// One plane of a layout, for errors: `names` are those of its dtype, dim, inner and scaling.
struct plane {
    weft_dtype dtype;
    int32_t dim, inner;
    weft_kv_scaling scaling;
    const char *names[4];
};

static weft_status check_plane(weft_context *context, const char *op, const struct plane *plane)
{
    const char *const *names = plane->names;
    int32_t block = weft_dtype_block_elems(plane->dtype);
    if (block == 0)
        return weft__fail(context, WEFT_EINVAL, "%s: %s %d is no format", op, names[0],
                          (int)plane->dtype);
    if (!is_format(plane->dtype))
        return weft__fail(context, WEFT_EUNSUPPORTED,
                          "%s: a KV cache of %s is not supported: use f32, f16, bf16, fp8_e4m3, "
                          "fp8_e5m2, int8, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl",
                          op, weft_dtype_name(plane->dtype));
    if (plane->dim < 8 || plane->dim % 8 != 0 || plane->dim % block != 0)
        return weft__fail(context, WEFT_EINVAL, "%s: %s=%d is not a multiple of %d", op, names[1],
                          plane->dim, block > 8 ? block : 8);
    if (plane->dim > WEFT__KV_MOST_DIM)
        return weft__fail(context, WEFT_EUNSUPPORTED, "%s: %s=%d is above %d", op, names[1],
                          plane->dim, WEFT__KV_MOST_DIM);
    if (plane->inner < 1 || plane->dim % plane->inner != 0 || plane->inner % block != 0)
        return weft__fail(context, WEFT_EINVAL,
                          "%s: %s=%d does not divide %s=%d into groups of whole blocks", op,
                          names[2], plane->inner, names[1], plane->dim);
    if ((unsigned)plane->scaling > WEFT_KV_SCALING_TOKEN)
        return weft__fail(context, WEFT_EINVAL, "%s: %s %d is none", op, names[3],
                          (int)plane->scaling);
    if (plane->scaling == WEFT_KV_SCALING_TOKEN && weft_dtype_block_bytes(plane->dtype) != 1)
        return weft__fail(context, WEFT_EINVAL, "%s: %s: scales per token are for int8 and fp8", op,
                          names[3]);
    if (plane->scaling && block > 1)
        return weft__fail(context, WEFT_EINVAL,
                          "%s: blocks of %s have scales of their own: %s must "
                          "be WEFT_KV_SCALING_NONE",
                          op, weft_dtype_name(plane->dtype), names[3]);
    return WEFT_OK;
}

weft_status weft__api_settle_layout(weft_context *context, const char *op, weft_kv_layout *layout)
{
    for (size_t i = 0; i < sizeof layout->reserved / sizeof *layout->reserved; i++)
        if (layout->reserved[i])
            return weft__fail(context, WEFT_EINVAL,
                              "%s: kv sets members that this version does not know", op);
    settle(layout);
    const struct plane k = {layout->dtype,
                            layout->head_dim,
                            layout->inner,
                            layout->scaling,
                            {"kv.dtype", "head_dim", "kv.inner", "kv.scaling"}};
    const struct plane v = {layout->v_dtype,
                            layout->v_dim,
                            layout->v_inner,
                            layout->v_scaling,
                            {"kv.v_dtype", "v_dim", "kv.v_inner", "kv.v_scaling"}};
    if (layout->num_kv_heads < 1 || layout->page_size < 1)
        return weft__fail(context, WEFT_EINVAL, "%s: num_kv_heads and page_size must be positive",
                          op);
    WEFT__TRY(check_plane(context, op, &k));
    WEFT__TRY(check_plane(context, op, &v));
    if (weft_kv_page_bytes(layout) < 0)
        return weft__fail(context, WEFT_EOVERFLOW, "%s: the bytes of a page do not fit", op);
    return WEFT_OK;
}

// The elements (or scales) that strides reach fit in an address.
static bool fits(int64_t pages, int64_t page, int64_t heads, int64_t head, int64_t tokens,
                 int64_t token, int64_t groups, int64_t group)
{
    int64_t products[4], span = 0;
    if (!weft__mul_i64(pages, page, &products[0]) || !weft__mul_i64(heads, head, &products[1]) ||
        !weft__mul_i64(tokens, token, &products[2]) || !weft__mul_i64(groups, group, &products[3]))
        return false;
    for (int i = 0; i < 4; i++)
        if (!weft__add_i64(span, products[i], &span))
            return false;
    return span <= INT64_MAX / 16;
}

static weft_status settle_scales(const weft_plan *plan, const weft_kv_layout *layout,
                                 weft_kv_plane *plane, weft_kv_scaling scaling, int64_t num_pages)
{
    weft_context *context = plan->context;
    const char *op = context->backend->tables[plan->op]->op;
    if (scaling == WEFT_KV_SCALING_NONE)
        return WEFT_OK;
    if (!plane->scales)
        return weft__fail(context, WEFT_EINVAL, "%s: the layout has scales, the pool gives none",
                          op);
    if (scaling == WEFT_KV_SCALING_TOKEN && !plane->scale_page_stride &&
        !plane->scale_head_stride && !plane->scale_token_stride) {
        plane->scale_token_stride = 1;
        plane->scale_head_stride = layout->page_size;
        plane->scale_page_stride = (int64_t)layout->page_size * layout->num_kv_heads;
    }
    if (plane->scale_seq_stride < 0 || plane->scale_page_stride < 0 ||
        plane->scale_head_stride < 0 || plane->scale_token_stride < 0 ||
        plane->scale_seq_stride > INT64_MAX / 16 / INT32_MAX ||
        !fits(num_pages, plane->scale_page_stride, layout->num_kv_heads, plane->scale_head_stride,
              layout->page_size, plane->scale_token_stride, 0, 0))
        return weft__fail(context, WEFT_EINVAL, "%s: a stride of scales is negative, or too long",
                          op);
    return weft__api_aligned(plan, (uintptr_t)plane->scales, sizeof *plane->scales);
}

static weft_status settle_plane(const weft_plan *plan, const weft_kv_layout *layout,
                                weft_kv_plane *plane, const struct plane *shape, int64_t num_pages)
{
    weft_context *context = plan->context;
    const char *op = context->backend->tables[plan->op]->op;
    int64_t inner = shape->inner, head = (int64_t)shape->dim * layout->page_size;
    int64_t block = weft_dtype_block_elems(shape->dtype);
    if (shape->inner == shape->dim)
        plane->inner_stride = inner;
    if (!weft__api_stride(&plane->token_stride, inner, inner, 1) ||
        !weft__api_stride(&plane->inner_stride, inner * layout->page_size, inner, 1) ||
        !weft__api_stride(&plane->head_stride, head, inner, 1) ||
        !weft__api_stride(&plane->page_stride, head * layout->num_kv_heads, inner, 1) ||
        plane->token_stride % block || plane->inner_stride % block || plane->head_stride % block ||
        plane->page_stride % block)
        return weft__fail(context, WEFT_EINVAL,
                          "%s: a pool stride is shorter than head_dim, no whole number of blocks, "
                          "or too long",
                          op);
    if (!fits(num_pages, plane->page_stride, layout->num_kv_heads, plane->head_stride,
              layout->page_size, plane->token_stride, shape->dim / shape->inner,
              plane->inner_stride))
        return weft__fail(context, WEFT_EOVERFLOW, "%s: the pool's extent does not fit", op);
    WEFT__TRY(settle_scales(plan, layout, plane, shape->scaling, num_pages));
    return weft__api_aligned(plan, (uintptr_t)plane->data, weft__api_alignment(shape->dtype));
}

weft_status weft__api_settle_pool(const weft_plan *plan, const weft_kv_layout *layout,
                                  weft_kv_pool *pool)
{
    weft_context *context = plan->context;
    const char *op = context->backend->tables[plan->op]->op;
    const struct plane k = {layout->dtype, layout->head_dim, layout->inner, layout->scaling, {0}};
    const struct plane v = {
        layout->v_dtype, layout->v_dim, layout->v_inner, layout->v_scaling, {0}};
    if (!pool->k.data || !pool->v.data)
        return weft__fail(context, WEFT_EINVAL, "%s: pool.k and pool.v must not be NULL", op);
    if (pool->num_pages < 0)
        return weft__fail(context, WEFT_EINVAL, "%s: pool.num_pages is negative", op);
    WEFT__TRY(settle_plane(plan, layout, &pool->k, &k, pool->num_pages));
    return settle_plane(plan, layout, &pool->v, &v, pool->num_pages);
}
