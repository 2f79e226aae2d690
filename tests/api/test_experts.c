// SPDX-License-Identifier: MIT
// Runs over experts: who is refused, and whose weights are read.
#define _GNU_SOURCE
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/context_fixture.h"

enum { EXPERTS = 6, TOP_K = 2, COLS = 64, INNER = 32 };

// Weights of an expert lie on pages of their own.
typedef struct layer {
    weft_experts_desc desc;
    weft_experts_args args;
    unsigned char *pages;
    size_t stride;
    float x[3 * COLS], y[3 * COLS], weights[3 * TOP_K];
    int32_t starts[EXPERTS + 1], order[3 * TOP_K];
} layer;

static weft_plan *plan_of(weft_context *context, layer *l)
{
    weft_plan *plan = NULL;
    if (weft_experts_plan(context, &l->desc, &plan) != WEFT_OK)
        fail_msg("%s", weft_error_text(context));
    l->args.workspace_bytes = weft_plan_workspace_bytes(plan);
    l->args.workspace = aligned_alloc(64, l->args.workspace_bytes);
    assert_non_null(l->args.workspace);
    return plan;
}

// Every weight of expert e is (e + 1) / 64: of a row of ones gate and up are e + 1, and so y follows.
static void fill(layer *l)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), floats = 3 * (size_t)COLS * INNER;
    l->stride = (floats * sizeof(float) + page - 1) / page * page;
    l->pages =
        mmap(NULL, EXPERTS * l->stride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(l->pages, MAP_FAILED);
    for (int e = 0; e < EXPERTS; e++)
        for (size_t i = 0; i < floats; i++)
            ((float *)(void *)(l->pages + (size_t)e * l->stride))[i] = (float)(e + 1) / 64;
}

static void open_layer(layer *l, int32_t tokens)
{
    *l = (layer){.desc = {.size = sizeof l->desc,
                          .experts = EXPERTS,
                          .top_k = TOP_K,
                          .max_batch = tokens,
                          .gate = WEFT_LINEAR_GATE_SILU,
                          .cols = COLS,
                          .inner = INNER},
                 .args = {.size = sizeof l->args, .batch = tokens}};
    fill(l);
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++) {
        l->desc.parts[p].weight_dtype = WEFT_F32;
        l->args.parts[p].weight = l->pages + (size_t)p * COLS * INNER * sizeof(float);
        l->args.parts[p].expert_stride_bytes = (int64_t)l->stride;
    }
    for (int i = 0; i < 3 * COLS; i++)
        l->x[i] = 1;
    for (int i = 0; i < 3 * TOP_K; i++)
        l->weights[i] = 0.5f;
    l->args.x = l->x;
    l->args.y = l->y;
    l->args.starts = l->starts;
    l->args.order = l->order;
    l->args.weights = l->weights;
}

static void close_layer(layer *l)
{
    munmap(l->pages, EXPERTS * l->stride);
    free(l->args.workspace);
}

// The choices of every token: `ids` [tokens][TOP_K].
static void choose(layer *l, const int32_t *ids)
{
    int32_t at = 0;
    for (int32_t e = 0; e < EXPERTS; e++) {
        l->starts[e] = at;
        for (int32_t i = 0; i < l->args.batch * TOP_K; i++)
            if (ids[i] == e)
                l->order[at++] = i;
    }
    l->starts[EXPERTS] = at;
}

static double expert(int e)
{
    double h = (e + 1) / (1 + exp(-(e + 1.0))) * (e + 1);
    return h * INNER * (e + 1) / 64;
}

// Weights of experts that nobody goes to cannot even be read here.
static void reads_only_the_chosen(void **state)
{
    layer l;
    uint64_t read = 0;
    open_layer(&l, 1);
    weft_plan *plan = plan_of(*state, &l);
    choose(&l, (const int32_t[]){4, 1});
    l.args.bytes_read = &read;
    for (int e = 0; e < EXPERTS; e++)
        if (e != 1 && e != 4)
            assert_int_equal(mprotect(l.pages + (size_t)e * l.stride, l.stride, PROT_NONE), 0);
    assert_int_equal(weft_experts_run(plan, &l.args), WEFT_OK);
    assert_int_equal(read, TOP_K * 3 * COLS * INNER * sizeof(float));
    double want = 0.5 * expert(4) + 0.5 * expert(1);
    for (int i = 0; i < COLS; i++)
        assert_true(fabs(l.y[i] - want) < 1e-5 * want);
    weft_plan_info info = {.size = sizeof info};
    assert_int_equal(weft_plan_query(plan, &info), WEFT_OK);
    assert_int_equal(info.bytes_read, read + COLS * sizeof(float));
    assert_non_null(strstr(weft_plan_describe(plan), "bytes of weights read"));
    weft_plan_destroy(plan);
    close_layer(&l);
}

// However many tokens go to it, an expert is read once.
static void reads_an_expert_once(void **state)
{
    layer l;
    uint64_t read = 0;
    open_layer(&l, 3);
    weft_plan *plan = plan_of(*state, &l);
    choose(&l, (const int32_t[]){0, 3, 3, 0, 3, 5});
    l.args.bytes_read = &read;
    assert_int_equal(weft_experts_run(plan, &l.args), WEFT_OK);
    assert_int_equal(read, 3 * 3 * COLS * INNER * sizeof(float));
    for (int m = 0; m < 3; m++) {
        double want = 0.5 * expert(3) + 0.5 * expert(m == 2 ? 5 : 0);
        for (int i = 0; i < COLS; i++)
            assert_true(fabs(l.y[m * COLS + i] - want) < 1e-5 * want);
    }
    weft_plan_destroy(plan);
    close_layer(&l);
}

// Without a gate: the function of one product, and a part less that is read.
static void plain_ones_read_two_parts(void **state)
{
    layer l;
    uint64_t read = 0;
    open_layer(&l, 1);
    l.desc.flags = WEFT_EXPERTS_PLAIN;
    weft_plan *plan = NULL;
    assert_refused(*state, weft_experts_plan(*state, &l.desc, &plan), WEFT_EINVAL, "no part of up");
    l.desc.parts[WEFT_EXPERTS_UP] = (weft_linear_part){0};
    l.desc.clamp_limit = l.desc.clamp_slope = 1;
    assert_refused(*state, weft_experts_plan(*state, &l.desc, &plan), WEFT_EINVAL, "a part of up");
    l.desc.clamp_limit = l.desc.clamp_slope = 0;
    plan = plan_of(*state, &l);
    choose(&l, (const int32_t[]){4, 1});
    l.args.bytes_read = &read;
    assert_refused(*state, weft_experts_run(plan, &l.args), WEFT_EINVAL, "no part of up");
    l.args.parts[WEFT_EXPERTS_UP] = (weft_experts_part_args){0};
    assert_int_equal(weft_experts_run(plan, &l.args), WEFT_OK);
    assert_int_equal(read, TOP_K * 2 * COLS * INNER * sizeof(float));
    double want = 0.5 * expert(4) / 5 + 0.5 * expert(1) / 2;
    for (int i = 0; i < COLS; i++)
        assert_true(fabs(l.y[i] - want) < 1e-5 * want);
    weft_plan_destroy(plan);
    close_layer(&l);
}

// What an expert reads is weighed, by each of a token's experts apart, and its results no more.
static void weighs_what_experts_read(void **state)
{
    layer l;
    open_layer(&l, 2);
    l.desc.flags = WEFT_EXPERTS_WEIGH_INPUT;
    weft_plan *plan = plan_of(*state, &l);
    const double weights[] = {0.5, 2, 0.25, 1};
    const int32_t ids[] = {4, 1, 1, 0};
    for (int i = 0; i < 4; i++)
        l.weights[i] = (float)weights[i];
    choose(&l, ids);
    assert_int_equal(weft_experts_run(plan, &l.args), WEFT_OK);
    for (int m = 0; m < 2; m++) {
        double want = 0;
        for (int k = 0; k < TOP_K; k++) {
            double e = ids[m * TOP_K + k] + 1, product = weights[m * TOP_K + k] * e;
            want += product / (1 + exp(-product)) * product * INNER * e / 64;
        }
        for (int i = 0; i < COLS; i++)
            assert_true(fabs(l.y[m * COLS + i] - want) < 1e-5 * want);
    }
    weft_plan_destroy(plan);
    close_layer(&l);
}

// Two matrices of ones beside gate and down: W becomes W + scale * rank.
static void adds_adapters(void **state)
{
    enum { RANK = 2 };
    static float ones[EXPERTS * RANK * (COLS > INNER ? COLS : INNER)];
    layer l;
    open_layer(&l, 1);
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++)
        ones[i] = 1;
    weft_experts_adapter adapters[] = {
        {.place = WEFT_EXPERTS_GATE, .rank = RANK, .a = ones, .b = ones, .scale = 0.0625f / COLS},
        {.place = WEFT_EXPERTS_DOWN, .rank = 1, .a = ones, .b = ones, .scale = 0.125f}};
    weft_plan *plan = plan_of(*state, &l);
    choose(&l, (const int32_t[]){4, 1});
    l.args.adapters = adapters;
    l.args.num_adapters = 2;
    assert_refused(*state, weft_experts_run(plan, &l.args), WEFT_EINVAL, "rank 2");
    weft_plan_destroy(plan);
    free(l.args.workspace);
    l.desc.adapter_rank = RANK;
    plan = plan_of(*state, &l);
    assert_int_equal(weft_experts_run(plan, &l.args), WEFT_OK);
    double want = 0;
    for (int k = 0; k < TOP_K; k++) {
        double e = (k ? 1 : 4) + 1, gate = e + 0.0625 * RANK, h = gate / (1 + exp(-gate)) * e;
        want += 0.5 * h * INNER * (e / 64 + 0.125);
    }
    for (int i = 0; i < COLS; i++)
        assert_true(fabs(l.y[i] - want) < 1e-5 * want);
#define REFUSED(member, value, words)                                                              \
    l.args.num_adapters = 2;                                                                       \
    adapters[1].member = value;                                                                    \
    assert_refused(*state, weft_experts_run(plan, &l.args), WEFT_EINVAL, words)
    REFUSED(scale, INFINITY, "finite scale");
    REFUSED(b_dtype, WEFT_Q8_0, "f32, f16 or bf16");
    REFUSED(a, NULL, "f32, f16 or bf16");
    REFUSED(rank, 0, "rank 0");
    REFUSED(rank, RANK + 1, "and rank");
    REFUSED(place, WEFT_EXPERTS_PARTS, "part 3");
#undef REFUSED
    l.args.num_adapters = 65;
    assert_refused(*state, weft_experts_run(plan, &l.args), WEFT_EINVAL, "more than 64");
    l.args.num_adapters = 2;
    l.args.adapters = NULL;
    assert_refused(*state, weft_experts_run(plan, &l.args), WEFT_EINVAL, "of no list");
    weft_plan_destroy(plan);
    l.desc.adapter_rank = 4097;
    assert_refused(*state, weft_experts_plan(*state, &l.desc, &plan), WEFT_EINVAL, "adapter_rank");
    close_layer(&l);
}

static void refuses_descriptors(void **state)
{
    layer l;
    weft_plan *plan = NULL;
    open_layer(&l, 1);
    const weft_experts_desc good = l.desc;
#define REFUSED(member, value, words)                                                              \
    l.desc = good;                                                                                 \
    l.desc.member = value;                                                                         \
    assert_refused(*state, weft_experts_plan(*state, &l.desc, &plan), WEFT_EINVAL, words)
    REFUSED(experts, 0, "experts=0");
    REFUSED(experts, WEFT_ROUTE_MAX_EXPERTS + 1, "experts=");
    REFUSED(top_k, EXPERTS + 1, "top_k");
    REFUSED(top_k, 0, "top_k");
    REFUSED(gate, WEFT_LINEAR_GATE_NONE, "gate");
    REFUSED(gate, (weft_linear_gate)9, "gate");
    REFUSED(norm, WEFT_LINEAR_NORM_LAYER, "norm");
    REFUSED(flags, WEFT_LINEAR_Y_ROUNDED, "flags");
    REFUSED(flags, WEFT_LINEAR_X_ROUNDED, "rounded x");
    REFUSED(cols, 0, "cols");
    REFUSED(inner, -1, "positive");
    REFUSED(clamp_limit, 7, "clamp");
    REFUSED(clamp_slope, 1, "clamp");
    REFUSED(parts[2].rows, COLS + 1, "part 2");
    REFUSED(parts[1].weight_dtype, WEFT_Q4_K, "blocks");
    REFUSED(max_batch, -1, "max_batch");
    l.desc = good;
    l.desc.flags = WEFT_LINEAR_NEXT;
    assert_refused(*state, weft_experts_plan(*state, &l.desc, &plan), WEFT_EUNSUPPORTED,
                   "on the CPU");
    assert_null(plan);
    close_layer(&l);
}

static void refuses_runs(void **state)
{
    layer l;
    open_layer(&l, 2);
    weft_plan *plan = plan_of(*state, &l);
    const int32_t ids[] = {0, 1, 0, 5};
    choose(&l, ids);
    const weft_experts_args good = l.args;
#define REFUSED_RUN(member, value, words)                                                          \
    l.args = good;                                                                                 \
    l.args.member = value;                                                                         \
    assert_refused(*state, weft_experts_run(plan, &l.args), WEFT_EINVAL, words)
    REFUSED_RUN(x, NULL, "NULL");
    REFUSED_RUN(starts, NULL, "NULL");
    REFUSED_RUN(parts[1].weight, NULL, "NULL");
    REFUSED_RUN(batch, 3, "batch=3");
    REFUSED_RUN(alpha, NAN, "alpha");
    REFUSED_RUN(y_stride, COLS - 1, "stride");
    REFUSED_RUN(parts[0].expert_stride_bytes, 4, "stride");
    REFUSED_RUN(parts[0].scales, l.x, "scales");
    REFUSED_RUN(norm_weight, l.x, "norm");
    REFUSED_RUN(parts[1].packed, l.x, "all parts are packed, or none");
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++)
        l.args.parts[p] = (weft_experts_part_args){.packed = l.x};
    assert_refused(*state, weft_experts_run(plan, &l.args), WEFT_EINVAL, "as a file has them");
    l.args.parts[0].weight = l.x;
    assert_refused(*state, weft_experts_run(plan, &l.args), WEFT_EINVAL, "beside them");
    l.args = good;
    assert_int_equal(weft_experts_packed_bytes(plan, 0), 0);
    const weft_linear_pack_args pack = {.size = sizeof pack, .weight = l.x, .packed = l.x};
    assert_refused(*state, weft_experts_pack(plan, &pack), WEFT_EINVAL, "as a file has it");
    l.order[0] = l.order[1];
    assert_refused(*state, weft_experts_run(plan, &l.args), WEFT_EINVAL, "sorted choices");
    l.order[0] = 4;
    assert_refused(*state, weft_experts_run(plan, &l.args), WEFT_EINVAL, "sorted choices");
    choose(&l, ids);
    l.starts[3] = 1000;
    assert_refused(*state, weft_experts_run(plan, &l.args), WEFT_EINVAL, "sorted choices");
    choose(&l, ids);
    l.starts[EXPERTS] = 3;
    assert_refused(*state, weft_experts_run(plan, &l.args), WEFT_EINVAL, "sorted choices");
    choose(&l, ids);
    l.args.workspace_bytes -= 1;
    assert_refused(*state, weft_experts_run(plan, &l.args), WEFT_EWORKSPACE, "workspace");
    l.args = good;
    assert_int_equal(weft_experts_run(plan, &l.args), WEFT_OK);
    weft_plan_destroy(plan);
    close_layer(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_only_the_chosen),
        cmocka_unit_test(reads_an_expert_once),
        cmocka_unit_test(plain_ones_read_two_parts),
        cmocka_unit_test(weighs_what_experts_read),
        cmocka_unit_test(adds_adapters),
        cmocka_unit_test(refuses_descriptors),
        cmocka_unit_test(refuses_runs),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
