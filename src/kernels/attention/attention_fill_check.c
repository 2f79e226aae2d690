// SPDX-License-Identifier: MIT
// Fills a problem's memory: caches of every format and layout, queries, masks. What must not matter is
// NaN, infinity or a page that does not exist.
#include <math.h>

#include "src/formats/row.h"
#include "src/kernels/attention/attention_problem.h"
#include "src/kernels/check.h"

enum { GARBAGE_PAGES = 3 };

// One plane of the problem's cache.
struct half {
    weft_kv_plane *plane;
    weft_dtype dtype;
    int32_t dim, inner;
    bool scaled;
    float **numbers, **scales;
};

static struct half half_of(struct problem *p, bool values)
{
    weft_kv_layout *kv = &p->desc.kv;
    struct half half = {&p->args.pool.k, kv->dtype, p->key_dim, kv->inner, kv->scaling, p->k, NULL};
    if (values)
        half = (struct half){&p->args.pool.v, kv->v_dtype ? kv->v_dtype : kv->dtype,
                             p->value_dim,    kv->v_inner,
                             kv->v_scaling,   p->v,
                             p->v_scales};
    half.inner = half.inner ? half.inner : half.dim;
    return half;
}

static void poison(struct check_case *c, weft_dtype dtype, void *pool, int64_t elems)
{
    bool infinite = check_range(c, 0, 3) == 0;
    if (dtype > WEFT_BF16) {
        memset(pool, 0xff, (size_t)weft_dtype_row_bytes(dtype, elems));
        return;
    }
    for (int64_t i = 0; i < elems; i++)
        if (dtype == WEFT_F32)
            ((float *)pool)[i] = infinite ? -INFINITY : NAN;
        else if (dtype == WEFT_F16)
            ((uint16_t *)pool)[i] = infinite ? 0xfc00 : 0x7e01;
        else
            ((uint16_t *)pool)[i] = infinite ? 0xff80 : 0x7fc1;
}

// Per tensor, per head, per page, per slot, per sequence.
static void make_scales(struct check_case *c, struct problem *p, const struct half *half)
{
    weft_kv_plane *plane = half->plane;
    const weft_kv_layout *kv = &p->desc.kv;
    int64_t count = 1;
    if (check_range(c, 0, 1))
        plane->scale_token_stride = 1, count *= kv->page_size;
    if (check_range(c, 0, 1))
        plane->scale_head_stride = count, count *= kv->num_kv_heads;
    if (check_range(c, 0, 1))
        plane->scale_page_stride = count, count *= p->args.pool.num_pages;
    else if (check_range(c, 0, 1))
        plane->scale_seq_stride = count, count *= p->args.num_seqs;
    plane->scales = check_buffer(c, (size_t)count * sizeof(float), sizeof(float));
    for (int64_t i = 0; i < count; i++)
        plane->scales[i] = check_uniform(c, 0.01f, 1.5f);
}

// Heads or slots first, split in groups or whole, rows and pages with gaps or without.
static void make_plane(struct check_case *c, struct problem *p, const struct half *half)
{
    const weft_kv_layout *kv = &p->desc.kv;
    weft_kv_plane *plane = half->plane;
    int64_t block = weft_dtype_block_elems(half->dtype), unit = block > 8 ? block : 8;
    int64_t gap = check_range(c, 0, 3) ? 0 : unit * check_range(c, 0, 3), row = half->dim + gap;
    int64_t page_gap = check_range(c, 0, 2) ? 0 : unit * check_range(c, 1, 100);
    if (half->inner < half->dim) { // [head][group][slot][inner]
        gap = 0;
        plane->token_stride = half->inner;
        plane->inner_stride = (int64_t)half->inner * kv->page_size;
        plane->head_stride = (int64_t)half->dim * kv->page_size;
        plane->page_stride = plane->head_stride * kv->num_kv_heads;
    } else if (check_range(c, 0, 1)) {
        plane->token_stride = row;
        plane->head_stride = row * kv->page_size;
        plane->page_stride = plane->head_stride * kv->num_kv_heads;
    } else {
        plane->head_stride = row;
        plane->token_stride = row * kv->num_kv_heads;
        plane->page_stride = plane->token_stride * kv->page_size;
    }
    plane->page_stride += page_gap;
    int64_t elems = p->args.pool.num_pages * plane->page_stride - gap - page_gap;
    size_t bytes = (size_t)weft_dtype_row_bytes(half->dtype, elems);
    plane->data = check_buffer(c, bytes, weft__row_alignment(half->dtype));
    poison(c, half->dtype, plane->data, elems);
    if (half->scaled)
        make_scales(c, p, half);
}

// Stores a row in its slot, and turns it into what the cache then says. Returns its scale.
static float store_row(const struct half *half, int32_t s, int32_t page, int32_t slot, int32_t head,
                       float *row)
{
    const weft_kv_plane *plane = half->plane;
    int64_t at = page * plane->page_stride + slot * plane->token_stride + head * plane->head_stride;
    int64_t inner_stride = half->inner < half->dim ? plane->inner_stride : half->inner;
    float scale = 1;
    if (half->scaled)
        scale = plane->scales[s * plane->scale_seq_stride + page * plane->scale_page_stride +
                              head * plane->scale_head_stride + slot * plane->scale_token_stride];
    for (int32_t i = 0; i < half->dim; i += half->inner, at += inner_stride) {
        char *to = (char *)plane->data + weft_dtype_row_bytes(half->dtype, at);
        weft__row_encoder(half->dtype)(row + i, half->inner, to);
        weft__row_decoder(half->dtype)(to, half->inner, row + i);
    }
    for (int32_t i = 0; i < half->dim && half->scaled; i++)
        row[i] *= scale;
    return scale;
}

// Keys and values that are not finite, near the edges of what the queries see: rows that do not see
// them must not notice. Not both in one sequence: whether a score of -infinity silences its value
// depends on what else is in its chunk.
static void spoil(struct check_case *c, const struct problem *p, int32_t s)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    int64_t heads = p->desc.kv.num_kv_heads;
    int64_t count = p->kv_lens[s] > 0 && check_range(c, 0, 3) == 0 ? check_range(c, 1, 3) : 0;
    bool value = check_range(c, 0, 3);
    if (p->desc.flags & WEFT_ATTENTION_MASK_VALUE)
        return; // there everything counts
    for (; count > 0; count--) {
        int64_t edge = p->kv_lens[s] - (check_range(c, 0, 1) ? p->desc.window : 0);
        int64_t t = edge - 1 - check_range(c, 0, p->q_lens[s]);
        t = t < 0 ? 0 : t;
        int64_t row = heads * (value ? p->value_dim : p->key_dim);
        (value ? p->v : p->k)[s][t * row + check_range(c, 0, row - 1)] = odd[check_range(c, 0, 2)];
    }
}

static void limit(float *x, int64_t count, float low, float high)
{
    for (int64_t i = 0; i < count; i++) {
        x[i] = x[i] > high ? high : x[i];
        x[i] = x[i] < low ? low : x[i];
    }
}

// Numbers that every format of a cache can take.
static void fill_numbers(struct check_case *c, const struct half *half, float *x, int64_t count)
{
    check_fill(c, x, count);
    if (half->dtype == WEFT_INT8) {
        for (int64_t i = 0; i < count; i++)
            x[i] *= 16;
        limit(x, count, -128, 127);
        return;
    }
    limit(x, count, -30000, 30000);
}

static void fill_sequence(struct check_case *c, struct problem *p, const struct half halves[2],
                          int32_t s, const int32_t *pages)
{
    const weft_kv_layout *kv = &p->desc.kv;
    int32_t kv_len = p->kv_lens[s], ring_len = p->desc.ring_len;
    for (int32_t n = 0; n < 2; n++) {
        int64_t count = kv_len * (int64_t)halves[n].dim * kv->num_kv_heads;
        halves[n].numbers[s] = check_room(c, (size_t)count * sizeof(float));
        fill_numbers(c, &halves[n], halves[n].numbers[s], count);
        if (halves[n].scales)
            halves[n].scales[s] =
                check_buffer(c, (size_t)kv_len * kv->num_kv_heads * sizeof(float), sizeof(float));
    }
    spoil(c, p, s);
    for (int32_t t = ring_len && kv_len > ring_len ? kv_len - ring_len : 0; t < kv_len; t++) {
        int32_t place = ring_len ? t % ring_len : t;
        for (int32_t n = 0; n < 2; n++)
            for (int32_t head = 0; head < kv->num_kv_heads; head++) {
                const int64_t row = t * (int64_t)kv->num_kv_heads + head;
                const float scale =
                    store_row(&halves[n], s, pages[place / kv->page_size], place % kv->page_size,
                              head, halves[n].numbers[s] + row * halves[n].dim);
                if (halves[n].scales)
                    halves[n].scales[s][row] = scale;
            }
    }
}

static int32_t pages_of(const struct problem *p, int32_t s)
{
    int32_t keys = p->kv_lens[s], ring_len = p->desc.ring_len;
    keys = ring_len && keys > ring_len ? ring_len : keys;
    return (keys + p->desc.kv.page_size - 1) / p->desc.kv.page_size;
}

static bool is_seen(const struct problem *p, int32_t s, int32_t t)
{
    for (int32_t token = 0; token < p->q_lens[s]; token++)
        if (weft__problem_sees(p, s, token, 0, t))
            return true;
    return false;
}

// Pages left of what the queries see may be gone.
static void forget_pages(const struct problem *p, int32_t s, int32_t *pages)
{
    int32_t first = 0, kv_len = p->kv_lens[s];
    if (p->q_lens[s] == 0 || kv_len == 0 || p->desc.ring_len || p->desc.mask > WEFT_MASK_FULL ||
        p->desc.flags &
            (WEFT_ATTENTION_MASK_VALUE | WEFT_ATTENTION_SPARSE | WEFT_ATTENTION_SPARSE_LISTS))
        return;
    while (first < kv_len - 1 && !is_seen(p, s, first))
        first++;
    for (int32_t i = 0; i < first / p->desc.kv.page_size; i++)
        pages[i] = INT32_MIN;
}

// Hands the page lists over as a table or as flat lists, in order or through rows.
static void give_lists(struct check_case *c, struct problem *p, int32_t *table, int64_t stride)
{
    weft_attention_args *args = &p->args;
    if (check_range(c, 0, 2) == 0) {
        int32_t *starts = check_buffer(c, sizeof *starts * (size_t)args->num_seqs, 4);
        for (int32_t s = 0; s < args->num_seqs; s++)
            starts[s] = (int32_t)(s * stride);
        args->page_indices = table;
        args->page_starts = starts;
    } else {
        args->page_table = table;
        args->page_table_stride = stride;
    }
}

// Scatters the sequences over shuffled pages. What the lists hold past the end of a sequence, or left
// of everything that a window shows, is garbage.
void weft__problem_fill_cache(struct check_case *c, struct problem *p)
{
    int64_t stride = check_range(c, 0, 2), used = 0;
    int32_t seqs = p->args.num_seqs, *rows = NULL;
    for (int32_t s = 0; s < seqs; s++)
        used += pages_of(p, s);
    for (int32_t s = 0; s < seqs; s++)
        stride = pages_of(p, s) > stride ? pages_of(p, s) : stride;
    p->args.pool.num_pages = used + GARBAGE_PAGES;
    const struct half halves[2] = {half_of(p, false), half_of(p, true)};
    make_plane(c, p, &halves[0]);
    make_plane(c, p, &halves[1]);
    int32_t *table = check_buffer(c, (size_t)(stride * seqs) * sizeof *table, sizeof *table);
    int32_t *order = check_buffer(c, (size_t)p->args.pool.num_pages * sizeof *order, 4);
    for (int32_t i = 0; i < p->args.pool.num_pages; i++) {
        int32_t j = (int32_t)check_range(c, 0, i);
        order[i] = order[j];
        order[j] = i;
    }
    if (check_range(c, 0, 3) == 0) {
        rows = check_buffer(c, sizeof *rows * (size_t)seqs, 4);
        for (int32_t s = 0; s < seqs; s++)
            rows[s] = seqs - 1 - s;
        p->args.seq_rows = rows;
    }
    give_lists(c, p, table, stride);
    for (int32_t s = 0, next = 0; s < seqs; s++) {
        int32_t *pages = table + (rows ? rows[s] : s) * stride;
        for (int32_t i = 0; i < pages_of(p, s); i++)
            pages[i] = order[next++];
        fill_sequence(c, p, halves, s, pages);
        forget_pages(p, s, pages);
    }
}

static void fill_tree(struct check_case *c, struct problem *p, int32_t tokens)
{
    int32_t *parents = check_buffer(c, sizeof *parents * (size_t)tokens, 4), n = 0;
    for (int32_t s = 0; s < p->args.num_seqs; s++)
        for (int32_t i = 0; i < p->q_lens[s]; i++)
            parents[n++] = check_range(c, 0, 2) ? i - 1 : (int32_t)check_range(c, -1, i - 1);
    p->args.tree_parents = parents;
}

static void fill_bits(struct check_case *c, struct problem *p, int32_t tokens)
{
    bool own = check_range(c, 0, 1);
    int32_t *columns = check_buffer(c, sizeof *columns * (size_t)p->args.num_seqs, 4), widest = 0;
    for (int32_t s = 0; s < p->args.num_seqs; s++) {
        columns[s] = own ? p->q_lens[s] : (int32_t)check_range(c, 0, p->kv_lens[s]);
        p->columns[s] = columns[s];
        widest = columns[s] > widest ? columns[s] : widest;
    }
    p->args.mask_columns = own ? NULL : columns;
    p->args.mask_stride = (widest + 31) / 32 + check_range(c, 0, 1);
    int64_t words = tokens * p->args.mask_stride;
    uint32_t *bits = check_buffer(c, (size_t)words * sizeof *bits, sizeof *bits);
    int64_t density = check_range(c, 0, 2);
    for (int64_t i = 0; i < words; i++)
        bits[i] = density == 0   ? (uint32_t)check_bits(c)
                  : density == 1 ? (uint32_t)(check_bits(c) | check_bits(c) | check_bits(c))
                                 : (uint32_t)(check_bits(c) & check_bits(c) & check_bits(c));
    p->args.mask_bits = bits;
}

static void fill_lists(struct check_case *c, struct problem *p)
{
    const weft_attention_desc *desc = &p->desc;
    int32_t seqs = p->args.num_seqs, lists = 0, used = 0;
    int32_t heads = desc->flags & WEFT_ATTENTION_SPARSE_HEADS ? desc->kv.num_kv_heads : 1;
    int32_t blocks = (desc->max_kv_len + desc->sparse_keys - 1) / desc->sparse_keys + 1;
    int32_t *first = check_buffer(c, sizeof *first * (size_t)seqs, 4);
    for (int32_t s = seqs - 1; s >= 0; s--) {
        first[s] = lists;
        lists += (p->q_lens[s] + desc->sparse_queries - 1) / desc->sparse_queries;
    }
    lists *= heads;
    int32_t *starts = check_buffer(c, sizeof *starts * (size_t)(lists + 1), 4);
    int32_t *list = check_buffer(c, sizeof *list * (size_t)lists * (size_t)blocks, 4);
    for (int32_t n = 0; n < lists; n++) {
        int64_t density = check_range(c, 0, 3);
        starts[n] = used;
        for (int32_t b = 0; b < blocks; b++)
            if (check_range(c, 0, 3) < density)
                list[used++] = b;
    }
    starts[lists] = used;
    p->args.sparse_first = first;
    p->args.sparse_starts = starts;
    p->args.sparse_blocks = list;
}

// Per tensor, per token, per head.
static void fill_query_scales(struct check_case *c, struct problem *p, int64_t tokens)
{
    int64_t count = 1, heads = p->desc.num_q_heads;
    if (check_range(c, 0, 1))
        p->args.q_scale_head_stride = 1, count = heads;
    if (check_range(c, 0, 1))
        p->args.q_scale_token_stride = count, count *= tokens;
    float *scales = check_buffer(c, sizeof *scales * (size_t)count, 4);
    for (int64_t i = 0; i < count; i++)
        scales[i] = check_uniform(c, 0.1f, 2);
    for (int64_t i = 0; i < tokens * heads; i++) {
        float *q = p->q + i / heads * p->q_token_stride + i % heads * p->q_head_stride;
        for (int32_t d = 0; d < p->key_dim; d++)
            q[d] *= scales[i / heads * p->args.q_scale_token_stride +
                           i % heads * p->args.q_scale_head_stride];
    }
    p->args.q_scales = scales;
}

// Strides of queries or results: packed, head-major, or a slice of a wider row. Returns the elements.
static int64_t draw_strides(struct check_case *c, int64_t tokens, int64_t heads, int64_t dim,
                            int64_t *token_stride, int64_t *head_stride, bool *packed)
{
    int64_t style = tokens ? check_range(c, 0, 5) : 2;
    *packed = style > 1;
    *head_stride = style == 0 ? dim * tokens : style == 1 ? dim + 8 : dim;
    *token_stride = style == 0 ? dim : heads * *head_stride;
    return tokens * heads * dim + (style == 1 ? 8 * (tokens * heads - 1) : 0);
}

void weft__problem_fill_queries(struct check_case *c, struct problem *p)
{
    weft_attention_args *args = &p->args;
    int64_t heads = p->desc.num_q_heads, tokens = 0;
    int32_t *cu = check_buffer(c, sizeof *cu * (size_t)(args->num_seqs + 1), sizeof *cu);
    int32_t *kv_lens = check_buffer(c, sizeof *cu * (size_t)args->num_seqs, sizeof *cu);
    bool packed, out_packed;
    cu[0] = 0;
    for (int32_t s = 0; s < args->num_seqs; s++) {
        cu[s + 1] = cu[s] + p->q_lens[s];
        kv_lens[s] = p->kv_lens[s];
        tokens += p->q_lens[s];
    }
    args->cu_q_lens = cu;
    args->kv_lens = kv_lens;
    p->q_elems =
        draw_strides(c, tokens, heads, p->key_dim, &p->q_token_stride, &p->q_head_stride, &packed);
    p->out_elems = draw_strides(c, tokens, heads, p->value_dim, &p->out_token_stride,
                                &p->out_head_stride, &out_packed);
    args->q_token_stride = packed ? 0 : p->q_token_stride;
    args->q_head_stride = packed ? 0 : p->q_head_stride;
    args->out_token_stride = out_packed ? 0 : p->out_token_stride;
    args->out_head_stride = out_packed ? 0 : p->out_head_stride;
    weft_dtype q_dtype = p->desc.q_dtype ? p->desc.q_dtype : WEFT_F32;
    weft_dtype out_dtype = p->desc.out_dtype ? p->desc.out_dtype : WEFT_F32;
    size_t q_bytes = (size_t)weft_dtype_row_bytes(q_dtype, p->q_elems);
    size_t out_bytes = (size_t)weft_dtype_row_bytes(out_dtype, p->out_elems);
    void *q = check_buffer(c, q_bytes, weft__row_alignment(q_dtype));
    p->q = check_room(c, (size_t)p->q_elems * sizeof *p->q);
    check_fill(c, p->q, p->q_elems);
    limit(p->q, p->q_elems, -1000, 1000);
    weft__row_encoder(q_dtype)(p->q, p->q_elems, q);
    weft__row_decoder(q_dtype)(q, p->q_elems, p->q);
    args->q = q;
    if (weft_dtype_block_bytes(q_dtype) == 1 && check_range(c, 0, 2))
        fill_query_scales(c, p, tokens);
    args->out = check_buffer(c, out_bytes, weft__row_alignment(out_dtype));
    p->before = memcpy(check_room(c, out_bytes), args->out, out_bytes);
    args->lse = check_range(c, 0, 1) ? check_output(c, tokens * heads) : NULL;
    if (p->desc.mask == WEFT_MASK_TREE)
        fill_tree(c, p, (int32_t)tokens);
    if (p->desc.mask == WEFT_MASK_BITS)
        fill_bits(c, p, (int32_t)tokens);
    if (p->desc.flags & WEFT_ATTENTION_SPARSE_LISTS)
        fill_lists(c, p);
    float *per_head = check_buffer(c, (size_t)heads * 2 * sizeof *per_head, sizeof *per_head);
    for (int64_t i = 0; i < heads; i++) {
        per_head[i] = check_range(c, 0, 9) ? check_uniform(c, -6, 6) : -INFINITY;
        per_head[heads + i] = exp2f(-check_uniform(c, 0, 8));
    }
    args->sinks = p->desc.flags & WEFT_ATTENTION_SINKS ? per_head : NULL;
    args->alibi_slopes = p->desc.flags & WEFT_ATTENTION_ALIBI ? per_head + heads : NULL;
}
