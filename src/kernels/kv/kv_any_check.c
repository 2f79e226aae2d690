// SPDX-License-Identifier: MIT
// Caches of any format, layout and scaling: what a device appends is what the reference appends, byte by byte, with
// q_out beside it.
#include <math.h>

#include "src/kernels/check.h"
#include "src/kernels/element.h"
#include "src/kernels/kv/kv_kernel.h"

struct any_problem {
    weft_kv_append_desc desc;
    weft_kv_append_args args;
    weft_rope_params rope;
    int64_t bytes[2], num_scales;
};

static weft_dtype draw_format(struct check_case *c)
{
    return (weft_dtype)check_pick(c, 12, WEFT_F32, WEFT_F16, WEFT_BF16, WEFT_FP8_E4M3,
                                  WEFT_FP8_E5M2, WEFT_INT8, WEFT_Q8_0, WEFT_Q5_1, WEFT_Q5_0,
                                  WEFT_Q4_1, WEFT_Q4_0, WEFT_IQ4_NL);
}

static weft_kv_scaling draw_scaling(struct check_case *c, weft_dtype dtype)
{
    if (dtype != WEFT_INT8 && dtype != WEFT_FP8_E4M3 && dtype != WEFT_FP8_E5M2)
        return WEFT_KV_SCALING_NONE;
    return (weft_kv_scaling)check_range(c, WEFT_KV_SCALING_NONE, WEFT_KV_SCALING_TOKEN);
}

static void draw(struct check_case *c, struct any_problem *p)
{
    weft_kv_layout *layout = &p->desc.layout;
    p->desc.size = sizeof p->desc;
    layout->dtype = draw_format(c);
    layout->v_dtype = check_range(c, 0, 1) ? layout->dtype : draw_format(c);
    layout->num_kv_heads = (int32_t)check_range(c, 1, 4);
    layout->head_dim = 32 * (int32_t)check_range(c, 1, 8);
    layout->v_dim = check_range(c, 0, 1) ? layout->head_dim : 32 * (int32_t)check_range(c, 1, 8);
    layout->page_size = (int32_t)check_pick(c, 4, 1, 5, 16, 64);
    layout->inner = check_range(c, 0, 3) ? 0 : 32;
    layout->v_inner = check_range(c, 0, 3) ? 0 : 32;
    layout->scaling = draw_scaling(c, layout->dtype);
    layout->v_scaling = draw_scaling(c, layout->v_dtype);
    p->desc.x_dtype = (weft_dtype)check_pick(c, 4, WEFT_F32, WEFT_F32, WEFT_F16, WEFT_BF16);
    p->args.size = sizeof p->args;
    p->args.tokens = (int32_t)check_length(c, 40, 8);
    p->desc.max_tokens = p->args.tokens;
    p->desc.num_q_heads = (int32_t)check_range(c, 0, 4);
    if (p->desc.num_q_heads && check_range(c, 0, 1))
        p->desc.q_out_dtype = (weft_dtype)check_pick(c, 3, WEFT_F32, WEFT_F16, WEFT_BF16);
    if (check_range(c, 0, 1)) {
        p->rope = (weft_rope_params){.style = (weft_rope_style)check_range(c, 0, 1), .base = 10000};
        p->desc.rope = &p->rope;
    }
}

// Numbers of the format of the inputs.
static void *numbers(struct check_case *c, const struct any_problem *p, int64_t count)
{
    float *x = check_buffer(c, (size_t)count * sizeof *x, sizeof *x);
    size_t elem = (size_t)weft_dtype_block_bytes(p->desc.x_dtype);
    void *given = check_buffer(c, (size_t)count * elem, elem);
    check_fill(c, x, count);
    for (int64_t i = 0; i < count && p->desc.x_dtype == WEFT_F16; i++)
        x[i] = fminf(fmaxf(x[i], -30000), 30000);
    weft__elements_narrow(x, count, given, p->desc.x_dtype);
    return given;
}

// Slots in an order of their own, some of them nowhere.
static void make_slots(struct check_case *c, struct any_problem *p)
{
    int32_t count = (int32_t)p->args.pool.num_pages * p->desc.layout.page_size;
    size_t bytes = (size_t)p->args.tokens * sizeof(int32_t);
    int32_t *slots = check_buffer(c, bytes, 4), *positions = check_buffer(c, bytes, 4);
    for (int32_t i = 0; i < p->args.tokens; i++) {
        slots[i] = check_range(c, 0, 7) ? count - 1 - i : -1;
        positions[i] = (int32_t)check_range(c, 0, 4000);
    }
    p->args.slots = slots, p->args.positions = positions;
}

static void make_inputs(struct check_case *c, struct any_problem *p)
{
    const weft_kv_layout *layout = &p->desc.layout;
    weft_kv_append_args *args = &p->args;
    args->pool.num_pages = (args->tokens + layout->page_size - 1) / layout->page_size + 1;
    int64_t slots = args->pool.num_pages * layout->page_size * layout->num_kv_heads;
    p->bytes[0] = weft_dtype_row_bytes(layout->dtype, slots * layout->head_dim);
    p->bytes[1] = weft_dtype_row_bytes(layout->v_dtype, slots * layout->v_dim);
    p->num_scales = slots;
    args->k = numbers(c, p, (int64_t)args->tokens * layout->num_kv_heads * layout->head_dim);
    args->v = numbers(c, p, (int64_t)args->tokens * layout->num_kv_heads * layout->v_dim);
    make_slots(c, p);
}

// What a run writes: pools, scales, queries in place or out.
struct written {
    void *planes[2], *queries;
    void *q;
    float *scales[2];
    int64_t query_bytes;
};

static struct written make_outputs(struct check_case *c, const struct any_problem *p)
{
    struct written w = {.query_bytes = 0};
    int64_t q = (int64_t)p->args.tokens * p->desc.num_q_heads * p->desc.layout.head_dim;
    for (int i = 0; i < 2; i++) {
        w.planes[i] = check_buffer(c, (size_t)p->bytes[i], 64);
        w.scales[i] = check_buffer(c, (size_t)p->num_scales * sizeof(float), 4);
        for (int64_t n = 0; n < p->num_scales; n++)
            w.scales[i][n] = check_uniform(c, 0.01f, 2);
    }
    w.q = q ? numbers(c, p, q) : NULL;
    w.queries = w.q, w.query_bytes = q * weft_dtype_block_bytes(p->desc.x_dtype);
    if (q && p->desc.q_out_dtype) {
        w.query_bytes = weft_dtype_row_bytes(p->desc.q_out_dtype, q);
        w.queries = check_buffer(c, (size_t)w.query_bytes, 4);
    }
    return w;
}

static void *copy_of(struct check_case *c, const void *from, int64_t bytes)
{
    return memcpy(check_buffer(c, (size_t)bytes, 64), from, (size_t)bytes);
}

static struct written copy_outputs(struct check_case *c, const struct any_problem *p,
                                   const struct written *w)
{
    struct written copy = *w;
    int64_t q_bytes = (int64_t)p->args.tokens * p->desc.num_q_heads * p->desc.layout.head_dim *
                      weft_dtype_block_bytes(p->desc.x_dtype);
    for (int i = 0; i < 2; i++) {
        copy.planes[i] = copy_of(c, w->planes[i], p->bytes[i]);
        copy.scales[i] = copy_of(c, w->scales[i], p->num_scales * (int64_t)sizeof(float));
    }
    if (w->q) {
        copy.q = copy_of(c, w->q, q_bytes);
        copy.queries = w->queries == w->q ? copy.q : copy_of(c, w->queries, w->query_bytes);
    }
    return copy;
}

static void run(struct check_case *c, const struct any_problem *p, const char *variant,
                const struct written *to)
{
    weft_context *context = check_context(c, variant);
    weft_kv_append_desc desc = p->desc;
    weft_kv_append_args args = p->args;
    weft_plan *plan;
    desc.variant = variant;
    args.pool.k.data = to->planes[0], args.pool.v.data = to->planes[1];
    args.pool.k.scales = desc.layout.scaling ? to->scales[0] : NULL;
    args.pool.v.scales = desc.layout.v_scaling ? to->scales[1] : NULL;
    args.q = to->q;
    args.q_out = to->queries == to->q ? NULL : to->queries;
    if (!check_ok(c, weft_kv_append_plan(context, &desc, &plan), "plan"))
        return;
    if (check_ok(c, weft_kv_append_run(plan, &args), "run"))
        check_ok(c, weft_stream_synchronize(context, NULL), "the device");
    weft_plan_destroy(plan);
}

static void same(struct check_case *c, const void *got, const void *want, int64_t bytes,
                 const char *what)
{
    for (int64_t i = 0; i < bytes && !c->failed; i++)
        if (((const unsigned char *)got)[i] != ((const unsigned char *)want)[i])
            check_fail(c, "byte %lld of %s is %u, reference %u", (long long)i, what,
                       ((const unsigned char *)got)[i], ((const unsigned char *)want)[i]);
}

void weft__kv_any_check(struct check_case *c)
{
    struct any_problem p = {.bytes = {0}};
    draw(c, &p);
    if (c->format != WEFT_DTYPE_NONE && c->format != p.desc.layout.dtype) {
        check_skip(c);
        return;
    }
    check_note(
        c, "%s/%s %d heads x %d/%d inner %d/%d page %d scaling %d/%d rope %d q %d to %d, %d tokens",
        weft_dtype_name(p.desc.layout.dtype), weft_dtype_name(p.desc.layout.v_dtype),
        p.desc.layout.num_kv_heads, p.desc.layout.head_dim, p.desc.layout.v_dim,
        p.desc.layout.inner, p.desc.layout.v_inner, p.desc.layout.page_size, p.desc.layout.scaling,
        p.desc.layout.v_scaling, p.desc.rope != NULL, p.desc.num_q_heads, (int)p.desc.q_out_dtype,
        p.args.tokens);
    make_inputs(c, &p);
    const struct written got = make_outputs(c, &p), want = copy_outputs(c, &p, &got);
    run(c, &p, c->kernel->name, &got);
    if (!c->failed)
        run(c, &p, "kv_any_ref", &want);
    same(c, got.planes[0], want.planes[0], p.bytes[0], "the keys");
    same(c, got.planes[1], want.planes[1], p.bytes[1], "the values");
    for (int i = 0; i < 2; i++)
        same(c, got.scales[i], want.scales[i], p.num_scales * (int64_t)sizeof(float), "the scales");
    same(c, got.queries, want.queries, got.query_bytes, "the queries");
}
