// SPDX-License-Identifier: MIT
// What moving pages is about, on every device.
#include "src/kernels/pages/pages_kernel.h"

#include <weft/format.h>

static int64_t bytes(weft_dtype dtype, int64_t elems)
{
    return elems / weft_dtype_block_elems(dtype) * weft_dtype_block_bytes(dtype);
}

bool weft__pages_in_keys(const weft_kv_layout *layout, const weft_kv_pool *pool)
{
    const char *k = pool->k.data, *v = pool->v.data;
    return layout->inner == layout->head_dim && layout->v_inner == layout->v_dim && v >= k &&
           v + bytes(layout->v_dtype, layout->v_dim) <=
               k + bytes(layout->dtype, layout->head_dim) &&
           bytes(layout->dtype, pool->k.page_stride) ==
               bytes(layout->v_dtype, pool->v.page_stride) &&
           bytes(layout->dtype, pool->k.head_stride) ==
               bytes(layout->v_dtype, pool->v.head_stride) &&
           bytes(layout->dtype, pool->k.token_stride) ==
               bytes(layout->v_dtype, pool->v.token_stride);
}

static struct weft__pages_side side_of(const weft_kv_plane *plane, weft_dtype dtype)
{
    return (struct weft__pages_side){
        plane->data, bytes(dtype, plane->page_stride), bytes(dtype, plane->head_stride),
        bytes(dtype, plane->inner_stride), bytes(dtype, plane->token_stride)};
}

// Rows that follow each other in both caches are one piece.
static struct weft__pages_plane joined(struct weft__pages_plane plane)
{
    if (plane.from.row == plane.piece && plane.to.row == plane.piece)
        plane.piece *= plane.rows, plane.rows = 1;
    if (plane.rows == 1 && plane.from.group == plane.piece && plane.to.group == plane.piece)
        plane.piece *= plane.groups, plane.groups = 1;
    return plane;
}

static struct weft__pages_plane elements(const weft_kv_layout *layout, const weft_kv_plane *from,
                                         const weft_kv_plane *to, weft_dtype dtype, int32_t dim,
                                         int32_t inner)
{
    return joined((struct weft__pages_plane){.from = side_of(from, dtype),
                                             .to = side_of(to, dtype),
                                             .heads = layout->num_kv_heads,
                                             .groups = dim / inner,
                                             .rows = layout->page_size,
                                             .piece = bytes(dtype, inner)});
}

static struct weft__pages_side scales_side(const weft_kv_plane *plane)
{
    const int64_t size = sizeof *plane->scales;
    return (struct weft__pages_side){(char *)plane->scales, plane->scale_page_stride * size,
                                     plane->scale_head_stride * size, 0,
                                     plane->scale_token_stride * size};
}

// A scale that heads, or slots, share is moved once.
static struct weft__pages_plane scales(const weft_kv_layout *layout, const weft_kv_plane *from,
                                       const weft_kv_plane *to)
{
    const bool by_head = from->scale_head_stride || to->scale_head_stride;
    const bool by_slot = from->scale_token_stride || to->scale_token_stride;
    return joined((struct weft__pages_plane){.from = scales_side(from),
                                             .to = scales_side(to),
                                             .heads = by_head ? layout->num_kv_heads : 1,
                                             .groups = 1,
                                             .rows = by_slot ? layout->page_size : 1,
                                             .piece = sizeof *from->scales});
}

static bool scales_follow(weft_kv_scaling scaling, const weft_kv_plane *from,
                          const weft_kv_plane *to)
{
    return scaling && from->scale_page_stride && to->scale_page_stride;
}

struct weft__pages_move weft__pages_describe(const weft_pages_desc *desc,
                                             const weft_pages_args *args)
{
    const weft_kv_layout *layout = &desc->layout;
    struct weft__pages_move move = {.from_num_pages = args->from.num_pages,
                                    .to_num_pages = args->to.num_pages,
                                    .from_pages = args->from_pages,
                                    .to_pages = args->to_pages,
                                    .count_at = args->count_at,
                                    .count = args->count,
                                    .exchange = desc->mode == WEFT_PAGES_EXCHANGE,
                                    .heads = layout->num_kv_heads};
    move.planes[move.num_planes++] = elements(layout, &args->from.k, &args->to.k, layout->dtype,
                                              layout->head_dim, layout->inner);
    if (!weft__pages_in_keys(layout, &args->from) || !weft__pages_in_keys(layout, &args->to))
        move.planes[move.num_planes++] = elements(layout, &args->from.v, &args->to.v,
                                                  layout->v_dtype, layout->v_dim, layout->v_inner);
    if (scales_follow(layout->scaling, &args->from.k, &args->to.k))
        move.planes[move.num_planes++] = scales(layout, &args->from.k, &args->to.k);
    if (scales_follow(layout->v_scaling, &args->from.v, &args->to.v) &&
        !(layout->scaling && args->from.v.scales == args->from.k.scales &&
          args->to.v.scales == args->to.k.scales)) // shared with the keys
        move.planes[move.num_planes++] = scales(layout, &args->from.v, &args->to.v);
    if (desc->mode == WEFT_PAGES_OWN) {
        move.from_pages = move.copied = args->copied;
        move.page_table = args->page_table;
        move.references = args->references;
        move.entries = args->entries;
        move.entries_bound = args->entries_bound;
    }
    return move;
}
