// SPDX-License-Identifier: MIT
#include "src/api/api_pool.h"

#include "src/base/checked.h"

enum { MAX_HEAD_DIM = 256 };

int64_t weft_kv_page_bytes(const weft_kv_layout *layout)
{
    int64_t elems;
    if (!layout || layout->num_kv_heads < 1 || layout->head_dim < 1 || layout->page_size < 1 ||
        weft_dtype_block_elems(layout->dtype) != 1 ||
        !weft__mul_i64((int64_t)layout->num_kv_heads * layout->head_dim, layout->page_size,
                       &elems) ||
        !weft__mul_i64(elems, 2 * weft_dtype_block_bytes(layout->dtype), &elems))
        return -1;
    return elems;
}

weft_status weft__api_check_layout(weft_context *context, const char *op,
                                   const weft_kv_layout *layout)
{
    if (!weft_dtype_name(layout->dtype))
        return weft__fail(context, WEFT_EINVAL, "%s: kv.dtype %d is no format", op,
                          (int)layout->dtype);
    if (weft_dtype_block_elems(layout->dtype) != 1)
        return weft__fail(context, WEFT_EUNSUPPORTED,
                          "%s: a KV cache of %s is not supported: use f32, f16 or bf16", op,
                          weft_dtype_name(layout->dtype));
    if (layout->num_kv_heads < 1 || layout->page_size < 1)
        return weft__fail(context, WEFT_EINVAL, "%s: num_kv_heads and page_size must be positive",
                          op);
    if (layout->head_dim < 8 || layout->head_dim % 8 != 0)
        return weft__fail(context, WEFT_EINVAL, "%s: head_dim=%d is not a multiple of 8", op,
                          layout->head_dim);
    if (layout->head_dim > MAX_HEAD_DIM)
        return weft__fail(context, WEFT_EUNSUPPORTED, "%s: head_dim=%d is above %d", op,
                          layout->head_dim, MAX_HEAD_DIM);
    if (weft_kv_page_bytes(layout) < 0)
        return weft__fail(context, WEFT_EOVERFLOW, "%s: the bytes of a page do not fit", op);
    return WEFT_OK;
}

weft_status weft__api_settle_pool(const weft_plan *plan, const weft_kv_layout *layout,
                                  weft_kv_pool *pool)
{
    weft_context *context = plan->context;
    const char *op = context->backend->tables[plan->op]->op;
    int64_t row = layout->head_dim, head = row * layout->page_size, span;
    if (!pool->k || !pool->v)
        return weft__fail(context, WEFT_EINVAL, "%s: pool.k and pool.v must not be NULL", op);
    if (pool->num_pages < 0)
        return weft__fail(context, WEFT_EINVAL, "%s: pool.num_pages is negative", op);
    if (!weft__api_stride(&pool->token_stride, row, row, 1) ||
        !weft__api_stride(&pool->head_stride, head, row, 1) ||
        !weft__api_stride(&pool->page_stride, head * layout->num_kv_heads, row, 1))
        return weft__fail(context, WEFT_EINVAL,
                          "%s: a pool stride is shorter than head_dim, or too long", op);
    int64_t pages, heads, tokens;
    if (!weft__mul_i64(pool->num_pages, pool->page_stride, &pages) ||
        !weft__mul_i64(layout->num_kv_heads, pool->head_stride, &heads) ||
        !weft__mul_i64(layout->page_size, pool->token_stride, &tokens) ||
        !weft__add_i64(pages, heads, &span) || !weft__add_i64(span, tokens, &span) ||
        span > INT64_MAX / 16)
        return weft__fail(context, WEFT_EOVERFLOW, "%s: the pool's extent does not fit", op);
    return weft__api_aligned(plan, (uintptr_t)pool->k | (uintptr_t)pool->v,
                             weft__api_alignment(layout->dtype));
}
