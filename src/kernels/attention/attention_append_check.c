// SPDX-License-Identifier: MIT
// Attention that appends before it attends and rounds behind: against an append and an attention of the
// reference, run one after the other. What both share is proven by the checks of kv and of attention; here
// positions, slots, the new key's place in the tiles, and the order of things are.
#include <math.h>

#include "src/base/half.h"
#include "src/formats/row.h"
#include "src/kernels/attention/attention_problem.h"
#include "src/kernels/check.h"
#include "src/kernels/element.h"
#include "src/kernels/rope/rope_kernel.h"

enum { MOST_TOKENS = 64 };

struct appended {
    weft_attention_desc desc;
    weft_rope_params rope;
    int32_t num_seqs, tokens, num_pages, table_stride;
    int32_t cu[PROBLEM_MOST_SEQS + 1], kv_lens[PROBLEM_MOST_SEQS];
    int32_t *table;
    int64_t pool_bytes;
    void *pools[2][2]; // under test and of the reference; keys and values
    void *q, *k, *v;   // [tokens][heads][dim], not rotated, of q_dtype
    float *sinks;
};

static void draw_lengths(struct check_case *c, struct appended *p)
{
    bool single = check_range(c, 0, 3) > 0;
    int32_t longest = (int32_t)check_pick(c, 3, 20, 150, 700);
    p->num_seqs = (int32_t)check_range(c, 1, PROBLEM_MOST_SEQS);
    for (int32_t s = 0; s < p->num_seqs; s++) {
        int32_t q_len = (int32_t)(single ? check_range(c, 0, 9) > 0 : check_range(c, 0, 12));
        p->kv_lens[s] = q_len + (int32_t)check_range(c, 0, longest);
        p->cu[s + 1] = p->cu[s] + q_len;
        int32_t pages = (p->kv_lens[s] + p->desc.kv.page_size - 1) / p->desc.kv.page_size;
        p->num_pages += pages;
        p->table_stride = pages > p->table_stride ? pages : p->table_stride;
    }
    p->tokens = p->cu[p->num_seqs];
    p->desc.max_seqs = p->num_seqs;
    p->desc.max_q_tokens = single ? p->num_seqs : MOST_TOKENS;
    p->desc.max_kv_len = longest + MOST_TOKENS;
}

static void draw(struct check_case *c, struct appended *p)
{
    const struct weft__attention_kernel *kernel = (const void *)c->kernel;
    weft_attention_desc *desc = &p->desc;
    desc->size = sizeof *desc;
    desc->variant = c->kernel->name;
    desc->kv.dtype =
        kernel->kv ? kernel->kv : (weft_dtype)check_pick(c, 3, WEFT_F32, WEFT_F16, WEFT_BF16);
    desc->kv.num_kv_heads = (int32_t)check_range(c, 1, 4);
    desc->num_q_heads = desc->kv.num_kv_heads * (int32_t)check_pick(c, 7, 1, 2, 4, 4, 7, 16, 17);
    desc->kv.head_dim = (int32_t)check_pick(c, 6, 64, 128, 128, 96, 256, 32);
    desc->kv.page_size = (int32_t)check_pick(c, 4, 1, 4, 16, 5);
    desc->q_dtype = (weft_dtype)check_pick(c, 5, WEFT_F32, WEFT_F32, WEFT_F32, WEFT_F16, WEFT_BF16);
    desc->flags = WEFT_ATTENTION_APPEND;
    const bool narrow = kernel->q && desc->q_dtype != kernel->q; // it serves nothing else
    if (narrow || (desc->kv.dtype != WEFT_F32 && check_range(c, 0, 1)))
        desc->flags |= WEFT_ATTENTION_NARROW_QUERIES;
    if (check_range(c, 0, 2) == 0)
        desc->flags |= WEFT_ATTENTION_SINKS;
    if (check_range(c, 0, 3) == 0)
        desc->window = (int32_t)check_range(c, 1, 200);
    if (check_range(c, 0, 3) == 0)
        desc->softcap = 20;
    if (check_range(c, 0, 4)) {
        p->rope = (weft_rope_params){.style = (weft_rope_style)check_range(c, 0, 1),
                                     .rotary_dim = desc->kv.head_dim >> check_range(c, 0, 1),
                                     .base = 10000};
        desc->rope = &p->rope;
    }
}

static float *normals(struct check_case *c, int64_t count)
{
    float *x = check_buffer(c, (size_t)count * sizeof *x, sizeof *x);
    check_normals(c, x, count);
    for (int64_t i = 0; i < count; i++)
        x[i] = x[i] > 4 ? 4 : x[i] < -4 ? -4 : x[i];
    return x;
}

static void *fresh(struct check_case *c, const struct appended *p, int64_t count)
{
    size_t elem = (size_t)weft_dtype_block_bytes(p->desc.q_dtype);
    void *x = check_buffer(c, (size_t)count * elem, elem);
    weft__elements_narrow(normals(c, count), count, x, p->desc.q_dtype);
    return x;
}

// Keys or values of the tokens that are there; all other slots are NaN.
static void *make_pool(struct check_case *c, const struct appended *p)
{
    const weft_kv_layout *kv = &p->desc.kv;
    const int64_t head = (int64_t)kv->page_size * kv->head_dim, page = kv->num_kv_heads * head;
    const int64_t elems = (p->num_pages + 1) * page;
    char *pool = check_buffer(c, (size_t)p->pool_bytes, 16);
    float *x = check_room(c, (size_t)elems * sizeof *x);
    for (int64_t i = 0; i < elems; i++)
        x[i] = NAN;
    for (int32_t s = 0; s < p->num_seqs; s++) {
        const int32_t old = p->kv_lens[s] - (p->cu[s + 1] - p->cu[s]);
        const int32_t *pages = p->table + s * p->table_stride;
        const float *row = normals(c, (int64_t)old * kv->num_kv_heads * kv->head_dim);
        for (int32_t t = 0; t < old; t++)
            for (int32_t h = 0; h < kv->num_kv_heads; h++, row += kv->head_dim)
                memcpy(x + pages[t / kv->page_size] * page + h * head +
                           (int64_t)(t % kv->page_size) * kv->head_dim,
                       row, (size_t)kv->head_dim * sizeof *row);
    }
    weft__row_encoder(kv->dtype)(x, elems, pool);
    return pool;
}

static void make_pools(struct check_case *c, struct appended *p)
{
    const weft_kv_layout *kv = &p->desc.kv;
    int64_t page = (int64_t)kv->page_size * kv->head_dim * kv->num_kv_heads;
    p->pool_bytes = weft_dtype_row_bytes(kv->dtype, (p->num_pages + 1) * page);
    for (int plane = 0; plane < 2; plane++) {
        p->pools[0][plane] = make_pool(c, p);
        p->pools[1][plane] = memcpy(check_buffer(c, (size_t)p->pool_bytes, 16), p->pools[0][plane],
                                    (size_t)p->pool_bytes);
    }
}

static void make_memory(struct check_case *c, struct appended *p)
{
    const weft_kv_layout *kv = &p->desc.kv;
    int32_t next = 0, entries = p->num_seqs * p->table_stride;
    p->table = check_buffer(c, (size_t)(entries + 1) * sizeof *p->table, sizeof *p->table);
    for (int32_t i = 0; i < entries; i++)
        p->table[i] = p->num_pages; // of no sequence
    for (int32_t s = 0; s < p->num_seqs; s++)
        for (int32_t i = 0; i * kv->page_size < p->kv_lens[s]; i++)
            p->table[s * p->table_stride + i] = p->num_pages - 1 - next++;
    make_pools(c, p);
    p->q = fresh(c, p, (int64_t)p->tokens * p->desc.num_q_heads * kv->head_dim);
    p->k = fresh(c, p, (int64_t)p->tokens * kv->num_kv_heads * kv->head_dim);
    p->v = fresh(c, p, (int64_t)p->tokens * kv->num_kv_heads * kv->head_dim);
    p->sinks = normals(c, p->desc.num_q_heads);
}

static weft_batch *make_batch(struct check_case *c, const struct appended *p, weft_context *context,
                              const weft_plan *const *plans, int32_t num_plans)
{
    weft_batch *batch = NULL;
    const weft_batch_desc desc = {.size = sizeof desc,
                                  .max_seqs = p->num_seqs,
                                  .max_q_tokens = p->desc.max_q_tokens,
                                  .max_kv_len = p->desc.max_kv_len,
                                  .page_size = p->desc.kv.page_size,
                                  .plans = plans,
                                  .num_plans = num_plans};
    const weft_batch_args args = {.size = sizeof args,
                                  .num_seqs = p->num_seqs,
                                  .cu_q_lens = p->cu,
                                  .kv_lens = p->kv_lens,
                                  .page_table = p->table,
                                  .page_table_stride = p->table_stride,
                                  .num_pages = p->num_pages + 1};
    if (check_ok(c, weft_batch_create(context, &desc, &batch), "batch"))
        check_ok(c, weft_batch_set(batch, &args), "set of the batch");
    return batch;
}

static void *copy_of_queries(struct check_case *c, const struct appended *p)
{
    int64_t count = (int64_t)p->tokens * p->desc.num_q_heads * p->desc.kv.head_dim;
    size_t bytes = (size_t)weft_dtype_row_bytes(p->desc.q_dtype, count);
    return memcpy(check_buffer(c, bytes, 4), p->q, bytes);
}

// A run on pool `which`; `how` has what differs.
static bool run(struct check_case *c, const struct appended *p, const weft_plan *plan, int which,
                weft_attention_args how)
{
    how.size = sizeof how;
    how.pool = (weft_kv_pool){
        .k.data = p->pools[which][0], .v.data = p->pools[which][1], .num_pages = p->num_pages + 1};
    how.sinks = p->desc.flags & WEFT_ATTENTION_SINKS ? p->sinks : NULL;
    how.workspace_bytes = weft_plan_workspace_bytes(plan);
    how.workspace = check_buffer(c, how.workspace_bytes, 64);
    return check_ok(c, weft_attention_run(plan, &how), which ? "reference" : "run");
}

// Append and attention of the reference, into `want`.
static void run_reference(struct check_case *c, const struct appended *p, float *want)
{
    weft_context *context = check_context(c, "attention_any_ref");
    weft_plan *plans[2] = {NULL};
    const weft_kv_append_desc append = {.size = sizeof append,
                                        .max_tokens = p->desc.max_q_tokens,
                                        .layout = p->desc.kv,
                                        .x_dtype = p->desc.q_dtype,
                                        .rope = p->desc.rope,
                                        .num_q_heads = p->desc.num_q_heads};
    weft_attention_desc attend = p->desc;
    attend.flags &= WEFT_ATTENTION_SINKS;
    attend.rope = NULL;
    attend.variant = "attention_any_ref";
    if (check_ok(c, weft_kv_append_plan(context, &append, &plans[0]), "plan of the append") &&
        check_ok(c, weft_attention_plan(context, &attend, &plans[1]), "plan of the reference")) {
        void *q = copy_of_queries(c, p);
        weft_batch *batch = make_batch(c, p, context, (const weft_plan *const *)plans, 2);
        const weft_kv_append_args args = {.size = sizeof args,
                                          .tokens = p->tokens,
                                          .pool = {.k.data = p->pools[1][0],
                                                   .v.data = p->pools[1][1],
                                                   .num_pages = p->num_pages + 1},
                                          .k = p->k,
                                          .v = p->v,
                                          .q = q,
                                          .batch = batch};
        if (!c->failed && check_ok(c, weft_kv_append_run(plans[0], &args), "append"))
            run(c, p, plans[1], 1, (weft_attention_args){.q = q, .out = want, .batch = batch});
        weft_batch_destroy(batch);
    }
    weft_plan_destroy(plans[0]);
    weft_plan_destroy(plans[1]);
}

static const float *numbers(struct check_case *c, weft_dtype dtype, const void *pool, int64_t elems)
{
    float *x = check_room(c, (size_t)elems * sizeof *x);
    weft__row_decoder(dtype)(pool, elems, x);
    return x;
}

// Element d of a head after its rotation to `position`. *error: two roundings of each product and of their sum
// to f32, where the other kernel has one: 2^-24 (|a| + |b| + |a + b|) at most.
static double turned(const struct appended *p, const float *x, int32_t position, int32_t d,
                     double *error)
{
    struct weft__rope_frequencies f;
    float cosines[WEFT__ROPE_MAX_PAIRS], sines[WEFT__ROPE_MAX_PAIRS];
    const int32_t pairs = p->rope.rotary_dim / 2;
    *error = 0;
    if (!p->desc.rope || d >= 2 * pairs ||
        weft__rope_frequencies_make(&p->rope, p->desc.kv.head_dim, &f))
        return x[d];
    weft__rope_angles(&f, position, cosines, sines);
    const bool split = p->rope.style == WEFT_ROPE_SPLIT_HALF;
    const bool first = split ? d < pairs : d % 2 == 0;
    const int32_t pair = split ? d % pairs : d / 2, step = split ? pairs : 1;
    const double a = (double)x[d] * cosines[pair];
    const double b = (double)x[first ? d + step : d - step] * sines[pair];
    *error = 0x1p-23 * (fabs(a) + fabs(b));
    return first ? a - b : a + b;
}

static float as_stored(weft_dtype dtype, double x)
{
    const float number = (float)x;
    char code[4];
    float stored;
    weft__row_encoder(dtype)(&number, 1, code);
    weft__row_decoder(dtype)(code, 1, &stored);
    return stored;
}

// Are `a` and `b` both what element i of the keys' pool may become? Codes of a byte lie far apart: of a key
// that is a tie between two but for the error of its rotation, either is right.
static bool is_tie(struct check_case *c, const struct appended *p, int64_t i, float a, float b)
{
    const weft_kv_layout *kv = &p->desc.kv;
    const int32_t dim = kv->head_dim, heads = kv->num_kv_heads;
    const int64_t row = i / dim, page = row / kv->page_size / heads;
    for (int32_t s = 0; s < p->num_seqs; s++) {
        const int32_t old = p->kv_lens[s] - (p->cu[s + 1] - p->cu[s]);
        for (int32_t t = old; t < p->kv_lens[s]; t++) {
            if (p->table[s * p->table_stride + t / kv->page_size] != page ||
                t % kv->page_size != row % kv->page_size)
                continue;
            const int64_t at = (p->cu[s] + t - old) * (int64_t)heads + row / kv->page_size % heads;
            float *x = check_room(c, (size_t)dim * sizeof *x);
            double error;
            weft__elements_widen(weft__element_at(p->k, p->desc.q_dtype, at * dim), p->desc.q_dtype,
                                 dim, x);
            const double want = turned(p, x, t, (int32_t)(i % dim), &error);
            return as_stored(kv->dtype, want - error) == fminf(a, b) &&
                   as_stored(kv->dtype, want + error) == fmaxf(a, b);
        }
    }
    return false;
}

static void verify(struct check_case *c, const struct appended *p, const float *got,
                   const float *want)
{
    const weft_kv_layout *kv = &p->desc.kv;
    double unit = kv->dtype == WEFT_F32 ? 0x1p-22 : kv->dtype == WEFT_F16 ? 0x1p-10 : 0x1p-7;
    int64_t elems = p->pool_bytes / weft_dtype_block_bytes(kv->dtype);
    for (int plane = 0; plane < 2; plane++) {
        const float *held = numbers(c, kv->dtype, p->pools[0][plane], elems);
        const float *stored = numbers(c, kv->dtype, p->pools[1][plane], elems);
        for (int64_t i = 0; i < elems && !c->failed; i++) {
            const double bound = unit * fabsf(stored[i]) + 0x1p-20;
            if (plane == 0 && weft_dtype_block_bytes(kv->dtype) == 1 &&
                fabsf(held[i] - stored[i]) > bound && is_tie(c, p, i, held[i], stored[i]))
                continue;
            check_close(c, held[i], stored[i], bound, plane ? "value" : "key", i);
        }
    }
    // Queries, or a key, an ulp of the cache off, and rounded weights: far below what a wrong key changes.
    double bound = p->desc.flags & WEFT_ATTENTION_NARROW_QUERIES ? 4 * unit : unit + 0x1p-10;
    if (p->desc.q_dtype != WEFT_F32) // rounded again once they are rotated
        bound += 4 * (p->desc.q_dtype == WEFT_F16 ? 0x1p-10 : 0x1p-7);
    for (int64_t i = 0; i < (int64_t)p->tokens * p->desc.num_q_heads * kv->head_dim; i++)
        check_close(c, got[i], want[i], bound * (1 + fabs(want[i])), "out", i);
}

// Rounded results are those that are not, rounded: to the bit, but for sums of squares, which no reader of these wants.
static void verify_rounded(struct check_case *c, const struct appended *p, const weft_plan *plan,
                           weft_batch *batch, const float *out)
{
    const weft_attention_append append = {.k = p->k, .v = p->v};
    int64_t cols = (int64_t)p->desc.num_q_heads * p->desc.kv.head_dim;
    size_t row = weft_rounded_bytes(c->context, 1, cols);
    size_t bytes = weft_rounded_bytes(c->context, p->tokens, cols);
    size_t codes = c->reference && c->reference != c->context ? (size_t)(cols + 63) / 64 * 80 : row;
    char *got = memset(check_buffer(c, bytes, 64), 0, bytes);
    char *want = memset(check_buffer(c, bytes, 64), 0, bytes);
    weft_plan *round = NULL;
    const weft_round_desc desc = {.size = sizeof desc, .max_rows = MOST_TOKENS, .cols = cols};
    const weft_round_args args = {
        .size = sizeof args, .rows = p->tokens, .x = out, .rounded = want};
    if (!check_ok(c, weft_round_plan(c->context, &desc, &round), "plan of the rounding"))
        return;
    if (check_ok(c, weft_round_run(round, &args), "rounding") &&
        run(c, p, plan, 0,
            (weft_attention_args){
                .q = copy_of_queries(c, p), .append = &append, .out = got, .batch = batch}) &&
        weft_stream_synchronize(c->context, NULL) == WEFT_OK)
        for (int32_t t = 0; t < p->tokens && !c->failed; t++)
            if (memcmp(got + (size_t)t * row, want + (size_t)t * row, codes) != 0)
                check_fail(c, "token %d is rounded otherwise than its result", t);
    weft_plan_destroy(round);
}

static void verify_all(struct check_case *c, const struct appended *p, weft_plan *const *plans,
                       weft_batch *batch)
{
    int64_t cols = (int64_t)p->desc.num_q_heads * p->desc.kv.head_dim, count = p->tokens * cols;
    const weft_attention_append append = {.k = p->k, .v = p->v};
    float *got[2], *want = check_output(c, count);
    run_reference(c, p, want);
    for (int i = 0; i < 2 && !c->failed; i++) {
        got[i] = check_output(c, count);
        run(c, p, plans[0], 0,
            (weft_attention_args){
                .q = copy_of_queries(c, p), .append = &append, .out = got[i], .batch = batch});
    }
    if (c->failed || !check_ok(c, weft_stream_synchronize(c->context, NULL), "the device"))
        return;
    verify(c, p, got[0], want);
    if (!c->failed && memcmp(got[0], got[1], (size_t)count * sizeof **got) != 0)
        check_fail(c, "a second run differs");
    if (!c->failed && plans[1])
        verify_rounded(c, p, plans[1], batch, got[0]);
}

static void check_problem(struct check_case *c, struct appended *p)
{
    weft_plan *plans[2] = {NULL};
    make_memory(c, p);
    check_note(
        c,
        "append, %s from %s %d/%d heads x %d page %d window %d softcap %g flags %u rope %d/%d, %d "
        "seqs, %d tokens, first %d/%d",
        weft_dtype_name(p->desc.kv.dtype), weft_dtype_name(p->desc.q_dtype), p->desc.num_q_heads,
        p->desc.kv.num_kv_heads, p->desc.kv.head_dim, p->desc.kv.page_size, p->desc.window,
        p->desc.softcap, p->desc.flags, p->desc.rope ? (int)p->rope.style : -1, p->rope.rotary_dim,
        p->num_seqs, p->tokens, p->cu[1], p->kv_lens[0]);
    weft_attention_desc rounded = p->desc;
    rounded.flags |= WEFT_ATTENTION_OUT_ROUNDED;
    bool fine = check_ok(c, weft_attention_plan(c->context, &p->desc, &plans[0]), "plan") &&
                check_ok(c, weft_attention_plan(c->context, &rounded, &plans[1]), "rounding plan");
    weft_batch *batch =
        fine ? make_batch(c, p, c->context, (const weft_plan *const *)plans, 2) : NULL;
    if (fine && !c->failed)
        verify_all(c, p, plans, batch);
    weft_batch_destroy(batch);
    weft_plan_destroy(plans[0]);
    weft_plan_destroy(plans[1]);
}

void weft__attention_append_check(struct check_case *c, int32_t problems)
{
    struct appended shape = {0};
    draw(c, &shape);
    if (c->format != WEFT_DTYPE_NONE && c->format != shape.desc.kv.dtype) {
        check_skip(c);
        return;
    }
    const uint64_t state = c->state;
    for (int32_t i = 0; i < problems && !c->failed; i++) {
        struct appended p = shape;
        if (!check_problem_begin(c, state, i))
            continue;
        p.desc.rope = shape.desc.rope ? &p.rope : NULL;
        draw_lengths(c, &p);
        if (p.tokens == 0)
            continue;
        check_problem(c, &p);
        check_problem_done(c);
    }
    if (c->problems == 0)
        check_skip(c);
}
