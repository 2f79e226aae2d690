// SPDX-License-Identifier: MIT
// Every small operation reads and writes f32, f16 and bf16: what comes out is the f32 result of the same
// numbers, rounded, within one unit of the last place (an f32 kernel may round the other way).
#include <math.h>

#include "src/base/half.h"
#include "tests/support/context_fixture.h"

enum { DIM = 320, ROWS = 3, STRIDE = DIM + 5, ELEMS = ROWS * STRIDE };

static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F16, WEFT_BF16};

struct array {
    weft_dtype dtype;
    union {
        float f32[ELEMS];
        uint16_t half[ELEMS];
    } data;
};

static float at(const struct array *array, int i)
{
    return array->dtype == WEFT_F32   ? array->data.f32[i]
           : array->dtype == WEFT_F16 ? weft__f16_to_f32(array->data.half[i])
                                      : weft__bf16_to_f32(array->data.half[i]);
}

static void put(struct array *array, int i, float value)
{
    if (array->dtype == WEFT_F32)
        array->data.f32[i] = value;
    else
        array->data.half[i] =
            array->dtype == WEFT_F16 ? weft__f16_from_f32(value) : weft__bf16_from_f32(value);
}

// Numbers of the format, the same as f32 in `wide`.
static void fill(struct array *array, struct array *wide, weft_dtype dtype, unsigned seed)
{
    array->dtype = dtype;
    wide->dtype = WEFT_F32;
    for (int i = 0; i < ELEMS; i++) {
        seed = seed * 1664525u + 1013904223u;
        put(array, i, ((float)(seed >> 8) * 0x1p-24f - 0.5f) * 6);
        put(wide, i, at(array, i));
    }
}

static void assert_rounded(const struct array *got, const struct array *wide, const char *what)
{
    double half = got->dtype == WEFT_F32 ? 0x1p-20 : got->dtype == WEFT_F16 ? 0x1p-10 : 0x1p-7;
    for (int row = 0; row < ROWS; row++)
        for (int i = row * STRIDE; i < row * STRIDE + DIM; i++)
            if (!(fabs((double)at(got, i) - at(wide, i)) <= half * fabs(at(wide, i)) + 0x1p-20))
                fail_msg("%s %s: [%d] = %g, wanted %g", what, weft_dtype_name(got->dtype), i,
                         at(got, i), at(wide, i));
}

static void norm(weft_context *context, weft_norm_kind kind, weft_dtype x_dtype, weft_dtype y_dtype,
                 weft_dtype weight_dtype)
{
    static struct array x, wide_x, w, wide_w, y, wide_y;
    weft_plan *plan;
    fill(&x, &wide_x, x_dtype, 1);
    fill(&w, &wide_w, weight_dtype, 2);
    y.dtype = y_dtype;
    wide_y.dtype = WEFT_F32;
    weft_norm_desc desc = {
        .size = sizeof desc, .kind = kind, .eps = 1e-5f, .dim = DIM, .max_rows = ROWS};
    weft_norm_args args = {.size = sizeof args,
                           .rows = ROWS,
                           .x = wide_x.data.f32,
                           .x_stride = STRIDE,
                           .y = wide_y.data.f32,
                           .y_stride = STRIDE,
                           .weight = wide_w.data.f32,
                           .bias = kind == WEFT_NORM_LAYER ? wide_w.data.f32 + 3 : NULL};
    assert_int_equal(weft_norm_plan(context, &desc, &plan), WEFT_OK);
    assert_int_equal(weft_norm_run(plan, &args), WEFT_OK);
    weft_plan_destroy(plan);
    desc.x_dtype = x_dtype;
    desc.y_dtype = y_dtype;
    desc.weight_dtype = weight_dtype;
    args.x = &x.data;
    args.y = &y.data;
    args.weight = &w.data;
    if (args.bias)
        args.bias = weight_dtype == WEFT_F32 ? (void *)&w.data.f32[3] : (void *)&w.data.half[3];
    assert_int_equal(weft_norm_plan(context, &desc, &plan), WEFT_OK);
    assert_int_equal(weft_norm_run(plan, &args), WEFT_OK);
    weft_plan_destroy(plan);
    assert_rounded(&y, &wide_y, "norm");
}

static void norms(void **state)
{
    for (int i = 0; i < 54; i++)
        norm(*state, (weft_norm_kind)(i / 27), dtypes[i % 3], dtypes[i / 3 % 3], dtypes[i / 9 % 3]);
}

static void softmaxes(void **state)
{
    static struct array x, wide;
    for (int i = 0; i < 3; i++) {
        weft_plan *plan;
        weft_softmax_desc desc = {
            .size = sizeof desc, .scale = -1.5f, .dim = DIM, .max_rows = ROWS};
        weft_softmax_args args = {
            .size = sizeof args, .rows = ROWS, .x = &wide.data, .x_stride = STRIDE};
        fill(&x, &wide, dtypes[i], 3);
        assert_int_equal(weft_softmax_plan(*state, &desc, &plan), WEFT_OK);
        assert_int_equal(weft_softmax_run(plan, &args), WEFT_OK);
        weft_plan_destroy(plan);
        desc.dtype = dtypes[i];
        args.x = &x.data;
        assert_int_equal(weft_softmax_plan(*state, &desc, &plan), WEFT_OK);
        assert_int_equal(weft_softmax_run(plan, &args), WEFT_OK);
        weft_plan_destroy(plan);
        assert_rounded(&x, &wide, "softmax");
    }
}

static void activation(weft_context *context, weft_dtype x_dtype, weft_dtype y_dtype, bool gated)
{
    static struct array x, wide_x, up, wide_up, y, wide_y;
    weft_plan *plan;
    fill(&x, &wide_x, x_dtype, 4);
    fill(&up, &wide_up, x_dtype, 5);
    y.dtype = y_dtype;
    wide_y.dtype = WEFT_F32;
    weft_activation_desc desc = {.size = sizeof desc, .dim = DIM, .max_rows = ROWS};
    weft_activation_args args = {.size = sizeof args,
                                 .rows = ROWS,
                                 .x = &wide_x.data,
                                 .x_stride = STRIDE,
                                 .up = gated ? &wide_up.data : NULL,
                                 .up_stride = STRIDE,
                                 .y = &wide_y.data,
                                 .y_stride = STRIDE};
    assert_int_equal(weft_activation_plan(context, &desc, &plan), WEFT_OK);
    assert_int_equal(weft_activation_run(plan, &args), WEFT_OK);
    weft_plan_destroy(plan);
    desc.x_dtype = x_dtype;
    desc.y_dtype = y_dtype;
    args.x = &x.data;
    args.up = gated ? &up.data : NULL;
    args.y = &y.data;
    assert_int_equal(weft_activation_plan(context, &desc, &plan), WEFT_OK);
    assert_int_equal(weft_activation_run(plan, &args), WEFT_OK);
    assert_rounded(&y, &wide_y, "activation");
    if (x_dtype == y_dtype) { // in place
        args.y = &x.data;
        assert_int_equal(weft_activation_run(plan, &args), WEFT_OK);
        assert_rounded(&x, &wide_y, "activation in place");
    }
    weft_plan_destroy(plan);
}

static void activations(void **state)
{
    for (int i = 0; i < 18; i++)
        activation(*state, dtypes[i % 3], dtypes[i / 3 % 3], i / 9);
}

static void ropes(void **state)
{
    static struct array x, wide;
    const int32_t positions[ROWS] = {0, 7, 90000};
    for (int i = 0; i < 6; i++) {
        weft_plan *plan;
        weft_rope_desc desc = {.size = sizeof desc,
                               .num_heads = 5,
                               .head_dim = DIM / 5,
                               .max_tokens = ROWS,
                               .rope = {.style = (weft_rope_style)(i / 3), .rotary_dim = 42}};
        weft_rope_args args = {.size = sizeof args,
                               .tokens = ROWS,
                               .x = &wide.data,
                               .token_stride = STRIDE,
                               .positions = positions};
        fill(&x, &wide, dtypes[i % 3], 6);
        assert_int_equal(weft_rope_plan(*state, &desc, &plan), WEFT_OK);
        assert_int_equal(weft_rope_run(plan, &args), WEFT_OK);
        weft_plan_destroy(plan);
        desc.dtype = dtypes[i % 3];
        args.x = &x.data;
        assert_int_equal(weft_rope_plan(*state, &desc, &plan), WEFT_OK);
        assert_int_equal(weft_rope_run(plan, &args), WEFT_OK);
        weft_plan_destroy(plan);
        assert_rounded(&x, &wide, "rope");
    }
}

static void embeddings(void **state)
{
    static struct array y, wide;
    static float row[DIM];
    const int32_t ids[ROWS] = {2, 0, 1};
    static unsigned char table[3 * DIM * 4];
    for (int n = 0; n < DIM; n++)
        row[n] = (float)(n % 17) - 8;
    for (int i = 0; i < 6; i++) {
        weft_plan *plan;
        weft_dtype format = i / 3 ? WEFT_Q8_0 : WEFT_F16;
        weft_embedding_desc desc = {.size = sizeof desc,
                                    .table_dtype = format,
                                    .rows = 3,
                                    .dim = DIM,
                                    .max_tokens = ROWS,
                                    .scale = 1.3f};
        weft_embedding_args args = {.size = sizeof args,
                                    .tokens = ROWS,
                                    .table = table,
                                    .ids = ids,
                                    .y = &wide.data,
                                    .y_stride = STRIDE};
        for (int r = 0; r < 3; r++, row[5] += 1)
            weft_quantize_row(format, row, DIM, table + r * weft_dtype_row_bytes(format, DIM));
        wide.dtype = WEFT_F32;
        y.dtype = dtypes[i % 3];
        assert_int_equal(weft_embedding_plan(*state, &desc, &plan), WEFT_OK);
        assert_int_equal(weft_embedding_run(plan, &args), WEFT_OK);
        weft_plan_destroy(plan);
        desc.y_dtype = dtypes[i % 3];
        args.y = &y.data;
        assert_int_equal(weft_embedding_plan(*state, &desc, &plan), WEFT_OK);
        assert_int_equal(weft_embedding_run(plan, &args), WEFT_OK);
        weft_plan_destroy(plan);
        assert_rounded(&y, &wide, "embedding");
    }
}

// The same numbers give the same tokens, whatever they are stored in.
static void samples(void **state)
{
    static struct array x, wide;
    for (int i = 0; i < 3; i++)
        for (int32_t step = 0; step < 20; step++) {
            weft_plan *plan;
            int32_t tokens[2][ROWS];
            weft_sample_params params[ROWS] = {{.temperature = 1, .step = (uint64_t)step},
                                               {.temperature = 0},
                                               {.temperature = 2, .top_k = 9}};
            weft_sample_desc desc = {.size = sizeof desc, .max_rows = ROWS, .vocab = DIM};
            fill(&x, &wide, dtypes[i], (unsigned)step);
            for (int n = 0; n < 2; n++) {
                desc.logits_dtype = n ? dtypes[i] : WEFT_F32;
                assert_int_equal(weft_sample_plan(*state, &desc, &plan), WEFT_OK);
                size_t bytes = weft_plan_workspace_bytes(plan);
                weft_sample_args args = {.size = sizeof args,
                                         .rows = ROWS,
                                         .logits = n ? &x.data : &wide.data,
                                         .logits_stride = STRIDE,
                                         .params = params,
                                         .tokens = tokens[n],
                                         .workspace = aligned_alloc(64, bytes),
                                         .workspace_bytes = bytes};
                assert_int_equal(weft_sample_run(plan, &args), WEFT_OK);
                free(args.workspace);
                weft_plan_destroy(plan);
            }
            assert_memory_equal(tokens[0], tokens[1], sizeof tokens[0]);
        }
}

// Keys and values of a cache of f32, and queries, rotated, from inputs of every format.
static void append(weft_context *context, weft_dtype dtype, bool in_place)
{
    enum { HEADS = DIM / 64 };
    static struct array k, wide_k, q, wide_q, q_out;
    static float pools[2][2][ROWS * DIM];
    const weft_rope_params rope = {.rotary_dim = 48, .base = 10000};
    const int32_t slots[ROWS] = {2, 0, 1}, positions[ROWS] = {7, 0, 100};
    fill(&k, &wide_k, dtype, 8);
    fill(&q, &wide_q, dtype, 9);
    for (int wide = 0; wide < 2; wide++) {
        weft_plan *plan;
        const bool out = !in_place && !wide;
        const weft_kv_append_desc desc = {
            .size = sizeof desc,
            .max_tokens = ROWS,
            .layout = {.dtype = WEFT_F32, .num_kv_heads = HEADS, .head_dim = 64, .page_size = ROWS},
            .rope = &rope,
            .num_q_heads = HEADS,
            .q_out_dtype = out ? WEFT_F32 : WEFT_DTYPE_NONE,
            .x_dtype = wide ? WEFT_F32 : dtype};
        const weft_kv_append_args args = {
            .size = sizeof args,
            .tokens = ROWS,
            .pool = {.k.data = pools[wide][0], .v.data = pools[wide][1], .num_pages = 1},
            .k = wide ? &wide_k.data : &k.data,
            .k_token_stride = STRIDE,
            .v = wide ? &wide_q.data : &q.data,
            .v_token_stride = STRIDE,
            .q = wide ? &wide_q.data : &q.data,
            .q_token_stride = STRIDE,
            .q_out = out ? &q_out.data : NULL,
            .q_out_token_stride = STRIDE,
            .slots = slots,
            .positions = positions};
        assert_int_equal(weft_kv_append_plan(context, &desc, &plan), WEFT_OK);
        assert_int_equal(weft_kv_append_run(plan, &args), WEFT_OK);
        weft_plan_destroy(plan);
    }
    assert_memory_equal(pools[0], pools[1], sizeof pools[0]);
    q_out.dtype = WEFT_F32;
    assert_rounded(in_place ? &q : &q_out, &wide_q, "queries");
}

static void appends(void **state)
{
    for (int i = 0; i < 6; i++)
        append(*state, dtypes[i / 2], i % 2);
}

static void others_are_refused(void **state)
{
    weft_plan *plan = NULL;
    weft_kv_append_desc kv = {
        .size = sizeof kv,
        .layout = {.dtype = WEFT_F16, .num_kv_heads = 1, .head_dim = 32, .page_size = 4},
        .x_dtype = WEFT_Q8_0};
    assert_refused(*state, weft_kv_append_plan(*state, &kv, &plan), WEFT_EUNSUPPORTED,
                   "x_dtype q8_0");
    weft_route_desc route = {
        .size = sizeof route, .experts = 4, .top_k = 2, .logits_dtype = WEFT_INT8};
    assert_refused(*state, weft_route_plan(*state, &route, &plan), WEFT_EUNSUPPORTED,
                   "logits_dtype int8");
    weft_experts_desc experts = {.size = sizeof experts,
                                 .experts = 4,
                                 .top_k = 2,
                                 .cols = 32,
                                 .inner = 32,
                                 .gate = WEFT_LINEAR_GATE_SILU,
                                 .parts = {{.weight_dtype = WEFT_F16},
                                           {.weight_dtype = WEFT_F16},
                                           {.weight_dtype = WEFT_F16}},
                                 .y_dtype = WEFT_FP8_E4M3};
    assert_refused(*state, weft_experts_plan(*state, &experts, &plan), WEFT_EUNSUPPORTED,
                   "y_dtype fp8_e4m3");
    weft_norm_desc norm_desc = {.size = sizeof norm_desc, .dim = 32, .x_dtype = WEFT_Q8_0};
    assert_refused(*state, weft_norm_plan(*state, &norm_desc, &plan), WEFT_EUNSUPPORTED,
                   "x_dtype q8_0");
    norm_desc.x_dtype = (weft_dtype)12345;
    assert_refused(*state, weft_norm_plan(*state, &norm_desc, &plan), WEFT_EINVAL, "12345");
    norm_desc.x_dtype = WEFT_F16;
    norm_desc.variant = "norm_rms_avx2"; // knows f32 only
    assert_int_equal(weft_norm_plan(*state, &norm_desc, &plan), WEFT_EVARIANT);
    weft_softmax_desc softmax = {.size = sizeof softmax, .dim = 4, .dtype = WEFT_Q4_0};
    assert_refused(*state, weft_softmax_plan(*state, &softmax, &plan), WEFT_EUNSUPPORTED,
                   "f32, f16 or bf16");
    assert_null(plan);
    // A tail that is not zero is of a newer version.
    weft_rope_desc rope = {
        .size = sizeof rope, .num_heads = 1, .head_dim = 8, .rope = {.reserved = {1}}};
    assert_refused(*state, weft_rope_plan(*state, &rope, &plan), WEFT_EINVAL, "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms),       cmocka_unit_test(softmaxes),
        cmocka_unit_test(activations), cmocka_unit_test(ropes),
        cmocka_unit_test(embeddings),  cmocka_unit_test(samples),
        cmocka_unit_test(appends),     cmocka_unit_test(others_are_refused),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
