// SPDX-License-Identifier: MIT
// Attention against an oracle of its own (attention_oracle_check.c): sequences that lie in one piece and
// masks written down here, so that page arithmetic, masks, splits and merging are held against
// something that has none of them.
#include <math.h>

#include "src/base/half.h"
#include "src/kernels/attention/attention_kernel.h"
#include "src/kernels/attention/attention_oracle.h"
#include "tools/weft-check/check.h"

enum { MAX_SEQS = 5, GARBAGE_PAGES = 3 };

struct problem {
    weft_attention_desc desc;
    weft_attention_args args;
    float *q, *out; // args.q and args.out
    int32_t q_lens[MAX_SEQS], kv_lens[MAX_SEQS];
    float *k[MAX_SEQS], *v[MAX_SEQS]; // [kv_len][kv_head][head_dim], values as the pool has them
    float scale;
    int64_t out_elems;
};

// The meaning of the masks: may query `token` of sequence s see key t?
static bool sees(const struct problem *p, int32_t s, int32_t token, int32_t t)
{
    int32_t own = p->kv_lens[s] - p->q_lens[s] + token; // the key of the query's own token
    if (p->desc.mask == WEFT_MASK_CAUSAL && t > own)
        return false;
    return p->desc.window == 0 || t > own - p->desc.window;
}

static float to_format(weft_dtype dtype, float x, void *to, int64_t at)
{
    if (isfinite(x))
        x = fminf(fmaxf(x, -30000), 30000);
    if (dtype == WEFT_F32) {
        ((float *)to)[at] = x;
        return x;
    }
    uint16_t half = dtype == WEFT_F16 ? weft__f16_from_f32(x) : weft__bf16_from_f32(x);
    ((uint16_t *)to)[at] = half;
    return dtype == WEFT_F16 ? weft__f16_to_f32(half) : weft__bf16_to_f32(half);
}

static void poison(struct check_case *c, weft_dtype dtype, void *pool, int64_t elems)
{
    bool infinite = check_range(c, 0, 3) == 0;
    for (int64_t i = 0; i < elems; i++) {
        if (dtype == WEFT_F32)
            ((float *)pool)[i] = infinite ? -INFINITY : NAN;
        else if (dtype == WEFT_F16)
            ((uint16_t *)pool)[i] = infinite ? 0xfc00 : 0x7e01;
        else
            ((uint16_t *)pool)[i] = infinite ? 0xff80 : 0x7fc1;
    }
}

static void draw_shape(struct check_case *c, struct problem *p)
{
    weft_attention_desc *desc = &p->desc;
    *desc = (weft_attention_desc){.size = sizeof *desc, .variant = c->kernel->name};
    desc->kv.dtype = ((const struct weft__attention_kernel *)(const void *)c->kernel)->kv;
    if (!desc->kv.dtype)
        desc->kv.dtype = (weft_dtype)check_pick(c, 3, WEFT_F32, WEFT_F16, WEFT_BF16);
    desc->kv.num_kv_heads = (int32_t)check_pick(c, 5, 1, 2, 3, 1, 4);
    desc->kv.head_dim = check_range(c, 0, 1) ? (int32_t)check_pick(c, 4, 64, 128, 80, 256)
                                             : 8 * (int32_t)check_range(c, 1, 32);
    desc->kv.page_size = (int32_t)check_pick(c, 9, 1, 2, 5, 16, 64, 128, 3, 17, 256);
    desc->num_q_heads = desc->kv.num_kv_heads *
                        (int32_t)check_pick(c, 14, 1, 2, 3, 4, 5, 6, 7, 8, 12, 4, 17, 24, 33, 100);
    desc->mask = check_range(c, 0, 3) ? WEFT_MASK_CAUSAL : WEFT_MASK_FULL;
    if (check_range(c, 0, 2) == 0)
        desc->window = (int32_t)check_length(c, 200, 32);
    if (check_range(c, 0, 3) == 0)
        desc->softcap = check_range(c, 0, 5) ? (float)check_pick(c, 3, 15, 30, 50)
                                             : exp2f((float)check_range(c, -99, 99));
    if (check_range(c, 0, 3) == 0)
        desc->scale = check_uniform(c, -0.5f, 0.5f);
    desc->num_splits = (int32_t)check_pick(c, 6, 0, 1, 2, 3, 7, 0);
    if (check_range(c, 0, 3) == 0)
        desc->flags = WEFT_ATTENTION_BATCH_INVARIANT;
    p->scale = desc->scale != 0 ? desc->scale : 1 / sqrtf((float)desc->kv.head_dim);
}

static void draw_lengths(struct check_case *c, struct problem *p)
{
    weft_attention_desc *desc = &p->desc;
    // Prefill, decode, both; now and then one long sequence; costs stay around 10^7 products.
    int64_t style = check_range(c, 0, 3), heads = desc->num_q_heads;
    int64_t most_keys = 600, budget = 3000000 / (heads * desc->kv.head_dim);
    p->args.num_seqs = (int32_t)check_range(c, 1, MAX_SEQS);
    if (style == 0 && check_range(c, 0, 2) == 0) {
        most_keys = 200 + 5 * budget / p->args.num_seqs;
        most_keys = most_keys > 20000 ? 20000 : most_keys;
    }
    int32_t total = 0, longest = 0;
    for (int32_t s = 0; s < p->args.num_seqs; s++) {
        int32_t kv_len = (int32_t)check_length(c, most_keys, 64);
        int64_t most_q = budget / p->args.num_seqs / kv_len;
        most_q = most_q < 1 ? 1 : most_q > 150 ? 150 : most_q;
        int32_t q_len = style == 0 ? 1 : (int32_t)check_length(c, most_q, 16);
        if (style == 2 && check_range(c, 0, 1))
            q_len = 1;
        if (check_range(c, 0, 9) == 0)
            q_len = 0;
        if (desc->mask == WEFT_MASK_CAUSAL && kv_len < q_len)
            kv_len = q_len;
        if (check_range(c, 0, 9) == 0 && (desc->mask == WEFT_MASK_FULL || q_len == 0))
            kv_len = 0;
        p->q_lens[s] = q_len;
        p->kv_lens[s] = kv_len;
        total += q_len;
        longest = kv_len > longest ? kv_len : longest;
    }
    desc->max_seqs = p->args.num_seqs + (int32_t)check_range(c, 0, 2);
    desc->max_q_tokens = total + (int32_t)check_range(c, 0, 40);
    desc->max_kv_len = longest + (int32_t)check_range(c, 0, 100);
}

// A pool whose pages and heads lie as the layout says or in the other order, now and then with gaps.
static void make_pool(struct check_case *c, struct problem *p, int64_t pages)
{
    const weft_kv_layout *layout = &p->desc.kv;
    weft_kv_plane *pool = &p->args.pool.k;
    int64_t gap = check_range(c, 0, 3) ? 0 : 8 * check_range(c, 0, 3);
    int64_t row = layout->head_dim + gap;
    p->args.pool.num_pages = pages;
    if (check_range(c, 0, 1)) {
        pool->token_stride = row;
        pool->head_stride = row * layout->page_size;
        pool->page_stride = pool->head_stride * layout->num_kv_heads;
    } else {
        pool->head_stride = row;
        pool->token_stride = row * layout->num_kv_heads;
        pool->page_stride = pool->token_stride * layout->page_size;
    }
    int64_t elem = weft_dtype_block_bytes(layout->dtype);
    int64_t page_gap = check_range(c, 0, 2) ? 0 : 8 * check_range(c, 1, 100);
    int64_t tail = gap + page_gap; // there is no gap behind the last row
    pool->page_stride += page_gap;
    int64_t elems = pages * pool->page_stride - tail;
    p->args.pool.v = *pool;
    p->args.pool.k.data = check_buffer(c, (size_t)(elems * elem), (size_t)elem);
    p->args.pool.v.data = check_buffer(c, (size_t)(elems * elem), (size_t)elem);
    poison(c, layout->dtype, p->args.pool.k.data, elems);
    poison(c, layout->dtype, p->args.pool.v.data, elems);
}

// Keys and values that are not finite, near the edges of what the queries see: rows that do not see
// them must not notice.
static void spoil(struct check_case *c, const struct problem *p, int32_t s)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    int64_t row = (int64_t)p->desc.kv.head_dim * p->desc.kv.num_kv_heads;
    int64_t count = p->kv_lens[s] > 0 && check_range(c, 0, 3) == 0 ? check_range(c, 1, 3) : 0;
    for (; count > 0; count--) {
        int64_t edge = p->kv_lens[s] - (check_range(c, 0, 1) ? p->desc.window : 0);
        int64_t t = edge - 1 - check_range(c, 0, p->q_lens[s]);
        t = t < 0 ? 0 : t;
        float *to = check_range(c, 0, 3) ? p->v[s] : p->k[s];
        to[t * row + check_range(c, 0, row - 1)] = odd[check_range(c, 0, 2)];
    }
}

// Scatters the sequences over shuffled pages. What the table holds past the end of a sequence, or left
// of everything that a window shows, is garbage.
static void fill_pages(struct check_case *c, struct problem *p)
{
    const weft_kv_layout *layout = &p->desc.kv;
    const weft_kv_plane *pool = &p->args.pool.k;
    int64_t stride = 0, used = 0, dim = layout->head_dim;
    for (int32_t s = 0; s < p->args.num_seqs; s++) {
        int64_t pages = (p->kv_lens[s] + layout->page_size - 1) / layout->page_size;
        stride = pages > stride ? pages : stride;
        used += pages;
    }
    make_pool(c, p, used + GARBAGE_PAGES);
    stride += check_range(c, 0, 2);
    int64_t entries = stride * p->args.num_seqs;
    int32_t *table = check_buffer(c, (size_t)entries * sizeof *table, sizeof *table);
    int32_t *order = check_buffer(c, (size_t)p->args.pool.num_pages * sizeof *order, sizeof *order);
    for (int32_t i = 0; i < p->args.pool.num_pages; i++) {
        int32_t j = (int32_t)check_range(c, 0, i);
        order[i] = order[j];
        order[j] = i;
    }
    p->args.page_table = table;
    p->args.page_table_stride = stride;
    for (int32_t s = 0, next = 0; s < p->args.num_seqs; s++) {
        int32_t kv_len = p->kv_lens[s];
        int64_t count = kv_len * dim * layout->num_kv_heads;
        p->k[s] = check_buffer(c, (size_t)count * sizeof(float), sizeof(float));
        p->v[s] = check_buffer(c, (size_t)count * sizeof(float), sizeof(float));
        check_fill(c, p->k[s], count);
        check_fill(c, p->v[s], count);
        spoil(c, p, s);
        int32_t first_seen = 0; // by any query: pages left of it may be gone
        while (first_seen < kv_len - 1 && !sees(p, s, 0, first_seen))
            first_seen++;
        for (int32_t t = 0; t < kv_len; t++) {
            int32_t *page = &table[s * stride + t / layout->page_size];
            if (t % layout->page_size == 0)
                *page = order[next++];
            int64_t at = *page * pool->page_stride + t % layout->page_size * pool->token_stride;
            for (int64_t i = 0; i < dim * layout->num_kv_heads; i++) {
                int64_t to = at + i / dim * pool->head_stride + i % dim;
                int64_t from = t * dim * layout->num_kv_heads + i;
                p->k[s][from] = to_format(layout->dtype, p->k[s][from], p->args.pool.k.data, to);
                p->v[s][from] = to_format(layout->dtype, p->v[s][from], p->args.pool.v.data, to);
            }
            if (t / layout->page_size < first_seen / layout->page_size &&
                t % layout->page_size == layout->page_size - 1)
                *page = INT32_MIN;
        }
    }
}

static void make_queries(struct check_case *c, struct problem *p)
{
    weft_attention_args *args = &p->args;
    int64_t dim = p->desc.kv.head_dim, heads = p->desc.num_q_heads, tokens = 0;
    int32_t *cu = check_buffer(c, sizeof *cu * (size_t)(args->num_seqs + 1), sizeof *cu);
    int32_t *kv_lens = check_buffer(c, sizeof *cu * (size_t)args->num_seqs, sizeof *cu);
    cu[0] = 0;
    for (int32_t s = 0; s < args->num_seqs; s++) {
        cu[s + 1] = cu[s] + p->q_lens[s];
        kv_lens[s] = p->kv_lens[s];
        tokens += p->q_lens[s];
    }
    args->cu_q_lens = cu;
    args->kv_lens = kv_lens;
    int64_t elems = tokens * heads * dim;
    p->out_elems = elems;
    if (check_range(c, 0, 2) == 0 && tokens > 0) { // head-major, or a slice of a wider row
        bool head_major = check_range(c, 0, 1);
        args->q_head_stride = args->out_head_stride = head_major ? dim * tokens : dim + 8;
        args->q_token_stride = args->out_token_stride = head_major ? dim : heads * (dim + 8);
        if (!head_major)
            p->out_elems = tokens * heads * (dim + 8) - 8;
    }
    float *q = check_buffer(c, (size_t)p->out_elems * sizeof *q, sizeof *q);
    check_fill(c, q, p->out_elems);
    for (int64_t i = 0; i < p->out_elems; i++)
        q[i] = fminf(fmaxf(q[i], -1000), 1000);
    args->q = p->q = q;
    args->out = p->out = check_output(c, p->out_elems);
    args->lse = check_range(c, 0, 1) ? check_output(c, tokens * heads) : NULL;
}

static void verify_row(struct check_case *c, const struct problem *p, int32_t s, int32_t token,
                       int64_t head, const struct oracle_answer *want)
{
    const weft_attention_args *args = &p->args;
    int64_t dim = p->desc.kv.head_dim, heads = p->desc.num_q_heads;
    int64_t row = args->cu_q_lens[s] + (int64_t)token;
    const float *out = p->out +
                       row * (args->out_token_stride ? args->out_token_stride : heads * dim) +
                       head * (args->out_head_stride ? args->out_head_stride : dim);
    for (int64_t d = 0; d < dim; d++) {
        // A weight may vanish in f32 and not in double: infinity or NaN, but never a number.
        if (isfinite(want->y[d]))
            check_close(c, out[d], want->y[d], want->bound[d], "out", out - p->out + d);
        else if (isfinite(out[d]))
            check_fail(c, "out[%lld] = %.9g, reference %g", (long long)(out - p->out + d), out[d],
                       want->y[d]);
    }
    if (args->lse)
        check_close(c, args->lse[row * heads + head], want->lse, want->lse_bound, "lse",
                    row * heads + head);
}

static void verify(struct check_case *c, const struct problem *p)
{
    const weft_attention_args *args = &p->args;
    int64_t dim = p->desc.kv.head_dim, heads = p->desc.num_q_heads,
            kv_heads = p->desc.kv.num_kv_heads;
    size_t keys = (size_t)p->desc.max_kv_len;
    double *work = check_buffer(c, ORACLE_WORK * keys * sizeof *work, sizeof *work);
    bool *seen = check_buffer(c, keys, 1);
    struct oracle_answer want;
    for (int32_t s = 0; s < args->num_seqs; s++)
        for (int32_t token = 0; token < p->q_lens[s]; token++) {
            for (int32_t t = 0; t < p->kv_lens[s]; t++)
                seen[t] = sees(p, s, token, t);
            for (int64_t head = 0; head < heads && !c->failed; head++) {
                int64_t kv_head = head / (heads / kv_heads);
                struct oracle_query query = {
                    .q = p->q +
                         (args->cu_q_lens[s] + (int64_t)token) *
                             (args->q_token_stride ? args->q_token_stride : heads * dim) +
                         head * (args->q_head_stride ? args->q_head_stride : dim),
                    .k = p->k[s] + kv_head * dim,
                    .v = p->v[s] + kv_head * dim,
                    .k_stride = kv_heads * dim,
                    .v_stride = kv_heads * dim,
                    .head_dim = (int32_t)dim,
                    .value_dim = (int32_t)dim,
                    .num_keys = p->kv_lens[s],
                    .sees = seen,
                    .scale = p->scale,
                    .softcap = p->desc.softcap,
                };
                weft__attention_oracle(&query, work, &want);
                verify_row(c, p, s, token, head, &want);
            }
        }
}

// Elements of out that no row covers must still hold the canary.
static void verify_gaps(struct check_case *c, const struct problem *p)
{
    int64_t dim = p->desc.kv.head_dim, written = 0, covered = 0;
    for (int64_t i = 0; i < p->out_elems; i++)
        written += !check_is_canary(p->out[i]);
    covered = (int64_t)p->args.cu_q_lens[p->args.num_seqs] * p->desc.num_q_heads * dim;
    if (written != covered)
        check_fail(c, "%lld elements of out were written, not %lld", (long long)written,
                   (long long)covered);
}

// The same problem again gives the same bits; with BATCH_INVARIANT also one sequence alone.
static void verify_repeats(struct check_case *c, const struct problem *p, const weft_plan *plan)
{
    weft_attention_args args = p->args;
    bool alone = p->desc.flags & WEFT_ATTENTION_BATCH_INVARIANT;
    float *out = check_output(c, p->out_elems);
    int32_t s = alone ? (int32_t)check_range(c, 0, args.num_seqs - 1) : 0;
    int64_t heads = p->desc.num_q_heads, dim = p->desc.kv.head_dim;
    int64_t token_stride = args.out_token_stride ? args.out_token_stride : heads * dim;
    int64_t head_stride = args.out_head_stride ? args.out_head_stride : dim;
    int64_t first = args.cu_q_lens[s], tokens = args.cu_q_lens[args.num_seqs] - first;
    const int32_t cu[2] = {0, p->q_lens[s]};
    args.out = out;
    args.lse = NULL;
    if (alone) {
        args.num_seqs = 1;
        args.cu_q_lens = cu;
        args.kv_lens += s;
        args.page_table += s * args.page_table_stride;
        args.q = p->q + first * token_stride;
        args.out = out + first * token_stride;
        tokens = p->q_lens[s];
    }
    if (!check_ok(c, weft_attention_run(plan, &args), "second run"))
        return;
    for (int64_t i = 0; i < tokens * heads * dim; i++) {
        int64_t at =
            (first + i / dim / heads) * token_stride + i / dim % heads * head_stride + i % dim;
        if (weft__f32_bits(out[at]) != weft__f32_bits(p->out[at])) {
            check_fail(c, "out[%lld] = %.9g, %.9g when run %s", (long long)at, p->out[at], out[at],
                       alone ? "alone" : "again");
            return;
        }
    }
}

check_fn weft__attention_check;
void weft__attention_check(struct check_case *c)
{
    struct problem p = {0};
    weft_plan *plan;
    draw_shape(c, &p);
    if (c->format != WEFT_DTYPE_NONE && c->format != p.desc.kv.dtype) {
        check_skip(c);
        return;
    }
    draw_lengths(c, &p);
    fill_pages(c, &p);
    make_queries(c, &p);
    check_note(c,
               "%s %d/%d heads x %d page %d %s window %d softcap %g splits %d flags %u, %d seqs, "
               "first %d/%d",
               weft_dtype_name(p.desc.kv.dtype), p.desc.num_q_heads, p.desc.kv.num_kv_heads,
               p.desc.kv.head_dim, p.desc.kv.page_size, p.desc.mask ? "full" : "causal",
               p.desc.window, p.desc.softcap, p.desc.num_splits, p.desc.flags, p.args.num_seqs,
               p.q_lens[0], p.kv_lens[0]);
    if (!check_ok(c, weft_attention_plan(check_context(c, p.desc.variant), &p.desc, &plan), "plan"))
        return;
    p.args.size = sizeof p.args;
    p.args.workspace_bytes = weft_plan_workspace_bytes(plan);
    p.args.workspace = check_buffer(c, p.args.workspace_bytes, 64);
    if (check_ok(c, weft_attention_run(plan, &p.args), "run")) {
        verify_gaps(c, &p);
        verify(c, &p);
        if (!c->failed)
            verify_repeats(c, &p, plan);
    }
    weft_plan_destroy(plan);
}
