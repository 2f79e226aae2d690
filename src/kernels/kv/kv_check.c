// SPDX-License-Identifier: MIT
// Appending to a cache: values must be the exactly rounded ones; with a rotation the keys may be off
// by what f32 arithmetic costs. Slots that no token names must not change.
#include <math.h>

#include "src/base/half.h"
#include "src/kernels/check.h"
#include "src/kernels/element.h"
#include "src/kernels/kv/kv_kernel.h"

struct problem {
    weft_kv_append_desc desc;
    weft_kv_append_args args;
    weft_rope_params rope;
    struct weft__rope_frequencies frequencies;
    const float *k, *v, *q; // what k, v and q say
    unsigned char *k_before, *v_before;
    int64_t pool_bytes, num_slots, page_stride, head_stride, token_stride; // strides: elements
};

static double load(weft_dtype dtype, const void *from, int64_t at)
{
    if (dtype == WEFT_F32)
        return ((const float *)from)[at];
    uint16_t half = ((const uint16_t *)from)[at];
    return dtype == WEFT_F16 ? weft__f16_to_f32(half) : weft__bf16_to_f32(half);
}

static double rounded(weft_dtype dtype, float x)
{
    if (dtype == WEFT_F32)
        return x;
    return dtype == WEFT_F16 ? weft__f16_to_f32(weft__f16_from_f32(x))
                             : weft__bf16_to_f32(weft__bf16_from_f32(x));
}

// One rounding to a format: half a unit in the last place.
static double rounding(weft_dtype dtype, double x)
{
    if (dtype == WEFT_F32)
        return 0;
    return dtype == WEFT_F16 ? 0x1p-11 * x + 0x1p-25 : 0x1p-8 * x + 0x1p-134;
}

static void draw(struct check_case *c, struct problem *p)
{
    weft_kv_layout *layout = &p->desc.layout;
    p->desc.size = sizeof p->desc;
    p->desc.variant = c->kernel->name;
    layout->dtype = ((const struct weft__kv_kernel *)(const void *)c->kernel)->kv;
    if (!layout->dtype)
        layout->dtype = (weft_dtype)check_pick(c, 3, WEFT_F32, WEFT_F16, WEFT_BF16);
    layout->num_kv_heads = (int32_t)check_range(c, 1, 5);
    layout->head_dim = 8 * (int32_t)check_range(c, 1, 32);
    layout->page_size = (int32_t)check_pick(c, 6, 1, 2, 5, 16, 64, 17);
    p->desc.x_dtype = (weft_dtype)check_pick(c, 4, WEFT_DTYPE_NONE, WEFT_F32, WEFT_F16, WEFT_BF16);
    p->args.tokens = (int32_t)check_length(c, 90, 16);
    p->desc.max_tokens = p->args.tokens + (int32_t)check_range(c, 0, 3);
    if (check_range(c, 0, 2)) {
        p->rope =
            (weft_rope_params){.style = (weft_rope_style)check_range(c, 0, 1),
                               .rotary_dim = 2 * (int32_t)check_range(c, 0, layout->head_dim / 2),
                               .base = (float)check_pick(c, 2, 10000, 500000)};
        p->desc.rope = &p->rope;
        p->desc.num_q_heads = (int32_t)check_range(c, 0, 6);
        weft__rope_frequencies_make(&p->rope, layout->head_dim, &p->frequencies);
    }
    if (check_range(c, 0, 3) == 0) {
        p->desc.num_q_heads = (int32_t)check_range(c, 1, 6);
        p->desc.q_growth_length = (int32_t)check_pick(c, 3, 1, 77, 8192);
        p->desc.q_growth = check_uniform(c, -0.5f, 0.5f);
    }
}

// What queries of a token are multiplied by.
static double growth(const struct problem *p, int64_t token)
{
    if (!p->desc.q_growth_length)
        return 1;
    double steps = floor(((double)p->args.positions[token] + 1) / p->desc.q_growth_length);
    return 1 + (double)p->desc.q_growth * log(1 + steps);
}

// Rows of the format of the inputs; *numbers is what they say.
static void *rows(struct check_case *c, const struct problem *p, int64_t width, int64_t *stride,
                  const float **numbers)
{
    int64_t gap = check_range(c, 0, 1) ? 0 : 3;
    int64_t count = p->args.tokens * (width + gap) - gap;
    float *x = check_buffer(c, (size_t)count * sizeof *x, sizeof *x);
    weft_dtype dtype = p->desc.x_dtype ? p->desc.x_dtype : WEFT_F32;
    size_t elem = (size_t)weft_dtype_block_bytes(dtype);
    void *given = check_buffer(c, (size_t)count * elem, elem);
    check_fill(c, x, count);
    const float most = p->desc.q_growth_length ? 2000 : 30000;
    for (int64_t i = 0; i < count && dtype == WEFT_F16; i++)
        x[i] = fminf(fmaxf(x[i], -most), most); // a rotation stays within the format, growth too
    weft__elements_narrow(x, count, given, dtype);
    weft__elements_widen(given, dtype, count, x);
    *stride = gap ? width + gap : 0;
    *numbers = x;
    return given;
}

static void *copy_of(struct check_case *c, const void *from, int64_t bytes)
{
    return memcpy(check_buffer(c, (size_t)bytes, 4), from, (size_t)bytes);
}

static void make_memory(struct check_case *c, struct problem *p)
{
    const weft_kv_layout *layout = &p->desc.layout;
    weft_kv_append_args *args = &p->args;
    int64_t elem = weft_dtype_block_bytes(layout->dtype);
    int64_t width = (int64_t)layout->num_kv_heads * layout->head_dim;
    args->size = sizeof *args;
    args->k = rows(c, p, width, &args->k_token_stride, &p->k);
    args->v = rows(c, p, width, &args->v_token_stride, &p->v);
    if (p->desc.num_q_heads)
        args->q = rows(c, p, (int64_t)p->desc.num_q_heads * layout->head_dim, &args->q_token_stride,
                       &p->q);
    args->pool.num_pages = (args->tokens + layout->page_size - 1) / layout->page_size + 2;
    p->num_slots = args->pool.num_pages * layout->page_size;
    // Slots or heads first, rows and pages with gaps or without.
    weft_kv_plane *pool = &args->pool.k;
    int64_t gap = check_range(c, 0, 2) ? 0 : 8 * check_range(c, 1, 3);
    int64_t page_gap = check_range(c, 0, 1) ? 0 : 8 * check_range(c, 1, 40);
    bool slots_first = check_range(c, 0, 1), packed = gap + page_gap == 0 && !slots_first;
    int64_t row = layout->head_dim + gap;
    p->head_stride = slots_first ? row : row * layout->page_size;
    p->token_stride = slots_first ? row * layout->num_kv_heads : row;
    p->page_stride = row * layout->num_kv_heads * layout->page_size + page_gap;
    pool->head_stride = packed ? 0 : p->head_stride;
    pool->token_stride = packed ? 0 : p->token_stride;
    pool->page_stride = packed ? 0 : p->page_stride;
    p->pool_bytes = (args->pool.num_pages * p->page_stride - gap - page_gap) * elem;
    args->pool.v = args->pool.k;
    args->pool.k.data = check_buffer(c, (size_t)p->pool_bytes, (size_t)elem);
    args->pool.v.data = check_buffer(c, (size_t)p->pool_bytes, (size_t)elem);
    p->k_before = copy_of(c, args->pool.k.data, p->pool_bytes);
    p->v_before = copy_of(c, args->pool.v.data, p->pool_bytes);
}

static void draw_slots(struct check_case *c, struct problem *p)
{
    size_t bytes = (size_t)p->args.tokens * sizeof(int32_t);
    int32_t *slots = check_buffer(c, bytes, 4), *positions = check_buffer(c, bytes, 4);
    int32_t *order = check_buffer(c, (size_t)p->num_slots * sizeof *order, 4);
    for (int32_t i = 0; i < p->num_slots; i++) {
        int32_t j = (int32_t)check_range(c, 0, i);
        order[i] = order[j];
        order[j] = i;
    }
    for (int32_t i = 0; i < p->args.tokens; i++) {
        slots[i] = check_range(c, 0, 7) ? order[i] : -1;
        positions[i] = (int32_t)check_range(c, 0, check_range(c, 0, 3) ? 4000 : INT32_MAX);
    }
    p->args.slots = slots;
    p->args.positions = positions;
}

// Element i of a head after the rotation, and the f32 error it may have.
static double turned(const struct problem *p, const float *x, const float *cosines,
                     const float *sines, int32_t i, double *bound)
{
    int32_t pairs = p->frequencies.rotary_dim / 2, pair, other;
    *bound = 0;
    if (!p->desc.rope || i >= 2 * pairs)
        return x[i];
    bool split = p->frequencies.style == WEFT_ROPE_SPLIT_HALF;
    pair = split ? i % pairs : i / 2;
    other = split ? (i < pairs ? i + pairs : i - pairs) : i ^ 1;
    bool first = split ? i < pairs : i % 2 == 0;
    double a = (double)x[i] * cosines[pair], b = (double)x[other] * sines[pair];
    *bound = 0x1p-23 * (fabs(a) + fabs(b)) + 0x1p-148;
    return first ? a - b : a + b;
}

static int64_t slot_at(const struct problem *p, int64_t slot, int32_t head)
{
    int64_t page_size = p->desc.layout.page_size;
    return slot / page_size * p->page_stride + slot % page_size * p->token_stride +
           head * p->head_stride;
}

static void verify_head(struct check_case *c, const struct problem *p, int64_t token, int32_t head,
                        const float *cosines, const float *sines)
{
    const weft_kv_layout *layout = &p->desc.layout;
    const weft_kv_append_args *args = &p->args;
    int64_t width = (int64_t)layout->num_kv_heads * layout->head_dim;
    const float *k = p->k + token * (args->k_token_stride ? args->k_token_stride : width) +
                     (int64_t)head * layout->head_dim;
    const float *v = p->v + token * (args->v_token_stride ? args->v_token_stride : width) +
                     (int64_t)head * layout->head_dim;
    int32_t slot = args->slots[token];
    int64_t at = slot_at(p, slot, head);
    for (int32_t i = 0; i < layout->head_dim; i++) {
        double bound, want = turned(p, k, cosines, sines, i, &bound);
        if (bound == 0)
            want = rounded(layout->dtype, (float)want);
        else
            bound += rounding(layout->dtype, fabs(want) + bound);
        check_close(c, load(layout->dtype, args->pool.k.data, at + i), want, bound, "k", at + i);
        check_close(c, load(layout->dtype, args->pool.v.data, at + i), rounded(layout->dtype, v[i]),
                    0, "v", at + i);
    }
}

static void verify_queries(struct check_case *c, const struct problem *p, int64_t token,
                           const float *cosines, const float *sines)
{
    int64_t dim = p->desc.layout.head_dim;
    int64_t stride = p->args.q_token_stride ? p->args.q_token_stride : p->desc.num_q_heads * dim;
    weft_dtype dtype = p->desc.x_dtype ? p->desc.x_dtype : WEFT_F32;
    for (int64_t i = 0; i < p->desc.num_q_heads * dim; i++) {
        double bound;
        double want = turned(p, p->q + token * stride + i / dim * dim, cosines, sines,
                             (int32_t)(i % dim), &bound);
        double by = growth(p, token);
        want *= by;
        bound = bound * fabs(by) + (by != 1 ? 0x1p-22 * fabs(want) + 0x1p-148 : 0);
        bound += bound > 0 ? rounding(dtype, fabs(want) + bound) : 0;
        check_close(c, load(dtype, p->args.q, token * stride + i), want, bound, "q",
                    token * stride + i);
    }
}

// Marks what the tokens own in the copies, then everything must be equal.
static void verify_rest(struct check_case *c, const struct problem *p)
{
    const weft_kv_layout *layout = &p->desc.layout;
    int64_t elem = weft_dtype_block_bytes(layout->dtype);
    for (int32_t token = 0; token < p->args.tokens; token++)
        for (int32_t head = 0; head < layout->num_kv_heads && p->args.slots[token] >= 0; head++) {
            int64_t at = slot_at(p, p->args.slots[token], head) * elem;
            memcpy(p->k_before + at, (char *)p->args.pool.k.data + at,
                   (size_t)(layout->head_dim * elem));
            memcpy(p->v_before + at, (char *)p->args.pool.v.data + at,
                   (size_t)(layout->head_dim * elem));
        }
    if (memcmp(p->k_before, p->args.pool.k.data, (size_t)p->pool_bytes) != 0 ||
        memcmp(p->v_before, p->args.pool.v.data, (size_t)p->pool_bytes) != 0)
        check_fail(c, "a slot that no token names changed");
}

check_fn weft__kv_check;
void weft__kv_check(struct check_case *c)
{
    struct problem p = {0};
    weft_plan *plan;
    if (!((const struct weft__kv_kernel *)(const void *)c->kernel)->kv && check_range(c, 0, 2)) {
        weft__kv_any_check(c);
        return;
    }
    draw(c, &p);
    if (c->format != WEFT_DTYPE_NONE && c->format != p.desc.layout.dtype) {
        check_skip(c);
        return;
    }
    make_memory(c, &p);
    draw_slots(c, &p);
    check_note(c, "%s from %s %d heads x %d page %d rope %d rotary %d growth %d, %d tokens",
               weft_dtype_name(p.desc.layout.dtype),
               weft_dtype_name(p.desc.x_dtype ? p.desc.x_dtype : WEFT_F32),
               p.desc.layout.num_kv_heads, p.desc.layout.head_dim, p.desc.layout.page_size,
               p.desc.rope != NULL, p.frequencies.rotary_dim, p.desc.q_growth_length,
               p.args.tokens);
    if (!check_ok(c, weft_kv_append_plan(check_context(c, p.desc.variant), &p.desc, &plan), "plan"))
        return;
    if (check_ok(c, weft_kv_append_run(plan, &p.args), "run"))
        for (int64_t token = 0; token < p.args.tokens && !c->failed; token++) {
            float cosines[WEFT__KV_MAX_DIM / 2], sines[WEFT__KV_MAX_DIM / 2];
            if (p.desc.rope)
                weft__rope_angles(&p.frequencies, p.args.positions[token], cosines, sines);
            for (int32_t head = 0; head < p.desc.layout.num_kv_heads && p.args.slots[token] >= 0;
                 head++)
                verify_head(c, &p, token, head, cosines, sines);
            if (p.args.q)
                verify_queries(c, &p, token, cosines, sines);
        }
    if (!c->failed)
        verify_rest(c, &p);
    weft_plan_destroy(plan);
}
