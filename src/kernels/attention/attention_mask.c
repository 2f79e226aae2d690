// SPDX-License-Identifier: MIT
// What a query sees of 64 keys, for every mask, and how rows of a plane are read; plain C.
#include "src/base/half.h"
#include "src/formats/row.h"
#include "src/kernels/attention/attention_kernel.h"

// Bits of the keys of [begin, end) among the 64 from `key` on.
static uint64_t interval(int64_t begin, int64_t end, int64_t key)
{
    begin = begin < key ? 0 : begin - key;
    end = end > key + 64 ? 64 : end - key;
    if (begin >= end)
        return 0;
    uint64_t below = end == 64 ? ~UINT64_C(0) : (UINT64_C(1) << end) - 1;
    return below & ~((UINT64_C(1) << begin) - 1);
}

// The queries above `token` in its tree, itself included, as keys; and what the window leaves of the
// keys before the new ones.
static uint64_t tree_word(const struct weft__attention_call *call, int32_t seq, int32_t token,
                          int32_t key)
{
    const struct weft__attention_mask *mask = &call->mask;
    int32_t cu = call->lengths.cu_q_lens[seq];
    int64_t before = (int64_t)call->lengths.kv_lens[seq] - (call->lengths.cu_q_lens[seq + 1] - cu);
    int64_t own = before - 1, begin = 0; // position of the query, of the first that it sees
    uint64_t seen = 0;
    for (int32_t i = token; i >= 0; i = call->tree_parents[cu + i])
        own++;
    if (mask->window > 0)
        begin = own - mask->window + 1;
    if (mask->local_chunk > 0 && own / mask->local_chunk * mask->local_chunk > begin)
        begin = own / mask->local_chunk * mask->local_chunk;
    int64_t at = own; // of the ancestor
    for (int32_t i = token; i >= 0 && at >= begin; i = call->tree_parents[cu + i], at--)
        seen |= interval(before + i, before + i + 1, key);
    return seen | interval(begin, before, key);
}

static uint64_t bits_word(const struct weft__attention_call *call, int32_t seq, int32_t token,
                          int32_t key)
{
    int32_t cu = call->lengths.cu_q_lens[seq];
    int64_t columns = call->mask_columns ? call->mask_columns[seq]
                                         : call->lengths.cu_q_lens[seq + 1] - (int64_t)cu;
    int64_t first = call->lengths.kv_lens[seq] - columns;
    const uint32_t *row = call->mask_bits + (cu + (int64_t)token) * call->mask_stride;
    uint64_t seen = interval(0, first, key);
    for (int64_t j = key < first ? first - key : 0; j < 64 && key + j - first < columns; j++) {
        int64_t column = key + j - first;
        seen |= (uint64_t)(row[column / 32] >> column % 32 & 1u) << j;
    }
    return seen;
}

// Blocks up to the query's own, and every so many.
static uint64_t sparse_word(const struct weft__attention_call *call, int32_t seq, int32_t token,
                            int32_t head, int32_t key)
{
    const struct weft__attention_mask *mask = &call->mask;
    const struct weft__attention_lengths *lengths = &call->lengths;
    int64_t own = (int64_t)lengths->kv_lens[seq] -
                  (lengths->cu_q_lens[seq + 1] - lengths->cu_q_lens[seq]) + token;
    int64_t length = mask->sparse_block, at = own < 0 ? -1 - (-1 - own) / length : own / length;
    int64_t heads = call->num_q_heads, step = mask->sparse_head_step, offset;
    if (step >= 0)
        offset = 1 + step * (mask->sparse_rank * heads + head);
    else
        offset =
            1 - step * (mask->sparse_rank * (heads / call->group_size) + head / call->group_size);
    uint64_t seen = 0;
    for (int64_t block = key / length; block * length < (int64_t)key + 64; block++)
        if (block > at - mask->sparse_local || (block + offset) % mask->sparse_stride == 0)
            seen |= interval(block * length, (block + 1) * length, key);
    return seen;
}

// The blocks of the query's list.
static uint64_t list_word(const struct weft__attention_call *call, int32_t seq, int32_t token,
                          int32_t head, int32_t key)
{
    const struct weft__attention_mask *mask = &call->mask;
    int64_t list = call->sparse_first[seq] + token / mask->sparse_queries,
            length = mask->sparse_keys;
    if (mask->sparse_heads)
        list = list * (call->num_q_heads / call->group_size) + head / call->group_size;
    int32_t low = call->sparse_starts[list], end = call->sparse_starts[list + 1], high = end;
    while (low < high) { // the first block that ends behind the key
        int32_t middle = low + (high - low) / 2;
        if ((call->sparse_blocks[middle] + INT64_C(1)) * length <= key)
            low = middle + 1;
        else
            high = middle;
    }
    uint64_t seen = 0;
    for (; low < end && call->sparse_blocks[low] * length < (int64_t)key + 64; low++)
        seen |= interval(call->sparse_blocks[low] * length,
                         (call->sparse_blocks[low] + INT64_C(1)) * length, key);
    return seen;
}

uint64_t weft__attention_word(const struct weft__attention_call *call, int32_t seq, int32_t token,
                              int32_t head, int32_t key)
{
    const struct weft__attention_lengths *lengths = &call->lengths;
    struct weft__attention_mask hard = call->mask;
    hard.soft = false;
    struct weft__attention_span span =
        weft__attention_visible(&hard, lengths->cu_q_lens[seq + 1] - lengths->cu_q_lens[seq],
                                lengths->kv_lens[seq], weft__attention_start(lengths, seq), token);
    uint64_t seen = interval(span.begin, span.end, key);
    if (seen && call->mask.kind == WEFT_MASK_TREE)
        seen &= tree_word(call, seq, token, key);
    if (seen && call->mask.kind == WEFT_MASK_BITS)
        seen &= bits_word(call, seq, token, key);
    if (seen && call->mask.sparse_block > 0)
        seen &= sparse_word(call, seq, token, head, key);
    if (seen && call->mask.sparse_keys > 0)
        seen &= list_word(call, seq, token, head, key);
    return seen;
}

void weft__attention_read(const struct weft__attention_call *call,
                          const struct weft__attention_plane *plane, int32_t seq, int32_t kv_head,
                          int32_t t, float *y)
{
    const int32_t *pages = weft__attention_pages(call, seq);
    int32_t place = call->ring_len ? t % call->ring_len : t;
    int64_t at = weft__attention_at(call, plane, pages, kv_head, t);
    weft__row_decode_fn *decode = weft__row_decoder(plane->dtype);
    int64_t elems = weft_dtype_block_elems(plane->dtype);
    int64_t bytes = weft_dtype_block_bytes(plane->dtype);
    for (int32_t i = 0; i < plane->dim; i += plane->inner, at += plane->inner_stride)
        decode(plane->data + at / elems * bytes, plane->inner, y + i);
    if (!plane->scales)
        return;
    float scale = plane->scales[seq * plane->scale_seq_stride +
                                pages[place / call->page_size] * plane->scale_page_stride +
                                kv_head * plane->scale_head_stride +
                                place % call->page_size * plane->scale_token_stride];
    for (int32_t i = 0; i < plane->dim; i++)
        y[i] *= scale;
}

void weft__attention_query(const struct weft__attention_call *call,
                           const struct weft__attention_tile *tile, int32_t row, float *q)
{
    int64_t token =
        (int64_t)call->lengths.cu_q_lens[tile->seq] + weft__attention_token(call, tile, row);
    int64_t head = weft__attention_head(call, tile, row);
    int64_t at = token * call->q_token_stride + head * call->q_head_stride;
    int32_t dim = call->k.dim;
    switch (call->q_dtype) {
    case WEFT_F32: memcpy(q, (const float *)call->q + at, (size_t)dim * sizeof *q); break;
    case WEFT_F16:
        for (int32_t i = 0; i < dim; i++)
            q[i] = weft__f16_to_f32(((const uint16_t *)call->q)[at + i]);
        break;
    case WEFT_BF16:
        for (int32_t i = 0; i < dim; i++)
            q[i] = weft__bf16_to_f32(((const uint16_t *)call->q)[at + i]);
        break;
    default:
        weft__row_decoder(call->q_dtype)((const char *)call->q + at, dim, q); // fp8: a byte each
    }
    if (!call->q_scales)
        return;
    float scale =
        call->q_scales[token * call->q_scale_token_stride + head * call->q_scale_head_stride];
    for (int32_t i = 0; i < dim; i++)
        q[i] *= scale;
}
