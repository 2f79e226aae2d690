// SPDX-License-Identifier: MIT
// Which row dispatch chooses: at every level of this machine, for every operation, format and batch, none
// of a better level that would serve is passed over; and some rows by name.
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

#if defined(__aarch64__)
static const char *const levels[] = {"ref", "neon", "neondot"};
#else
static const char *const levels[] = {"ref", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"};
#endif
enum { LEVELS = sizeof levels / sizeof *levels };

static int rank_of(const char *isa)
{
    int rank = 0;
    while (rank < LEVELS - 1 && strcmp(levels[rank], isa) != 0)
        rank++;
    return rank;
}

// A problem of an operation; `variant` NULL or a row. Returns the name of the row chosen, NULL if none.
typedef const char *plan_fn(weft_context *context, weft_dtype dtype, int32_t batch,
                            const char *variant);

static const char *name_of(weft_status status, weft_plan **plan)
{
    weft_plan_info info = {.size = sizeof info};
    if (status != WEFT_OK)
        return NULL;
    assert_int_equal(weft_plan_query(*plan, &info), WEFT_OK);
    weft_plan_destroy(*plan);
    assert_non_null(info.kernel);
    return info.kernel;
}

static const char *plan_with(weft_context *context, uint32_t flags, weft_dtype dtype, int32_t batch,
                             const char *variant)
{
    weft_plan *plan = NULL;
    weft_linear_desc desc = {.size = sizeof desc,
                             .flags = flags,
                             .weight_dtype = dtype,
                             .rows = 512,
                             .cols = 1024,
                             .max_batch = batch,
                             .variant = variant};
    return name_of(weft_linear_plan(context, &desc, &plan), &plan);
}

static const char *plan_linear(weft_context *context, weft_dtype dtype, int32_t batch,
                               const char *variant)
{
    return plan_with(context, 0, dtype, batch, variant);
}

static const char *plan_exact(weft_context *context, weft_dtype dtype, int32_t batch,
                              const char *variant)
{
    return plan_with(context, WEFT_LINEAR_EXACT, dtype, batch, variant);
}

static const char *plan_rounding(weft_context *context, weft_dtype dtype, int32_t batch,
                                 const char *variant)
{
    return plan_with(context, WEFT_LINEAR_F32_AS_BF16, dtype, batch, variant);
}

static const char *plan_embedding(weft_context *context, weft_dtype dtype, int32_t batch,
                                  const char *variant)
{
    weft_plan *plan = NULL;
    weft_embedding_desc desc = {.size = sizeof desc,
                                .table_dtype = dtype,
                                .rows = 10,
                                .dim = 1024,
                                .max_tokens = batch,
                                .variant = variant};
    return name_of(weft_embedding_plan(context, &desc, &plan), &plan);
}

static const char *plan_norm(weft_context *context, weft_dtype dtype, int32_t batch,
                             const char *variant)
{
    weft_plan *plan = NULL;
    weft_norm_desc desc = {.size = sizeof desc,
                           .dim = 64,
                           .max_rows = batch,
                           .x_dtype = dtype,
                           .y_dtype = dtype,
                           .variant = variant};
    return name_of(weft_norm_plan(context, &desc, &plan), &plan);
}

static const char *plan_softmax(weft_context *context, weft_dtype dtype, int32_t batch,
                                const char *variant)
{
    weft_plan *plan = NULL;
    weft_softmax_desc desc = {
        .size = sizeof desc, .dim = 64, .max_rows = batch, .dtype = dtype, .variant = variant};
    return name_of(weft_softmax_plan(context, &desc, &plan), &plan);
}

static const char *plan_activation(weft_context *context, weft_dtype dtype, int32_t batch,
                                   const char *variant)
{
    weft_plan *plan = NULL;
    weft_activation_desc desc = {.size = sizeof desc,
                                 .kind = WEFT_ACTIVATION_GELU,
                                 .dim = 64,
                                 .max_rows = batch,
                                 .x_dtype = dtype,
                                 .y_dtype = dtype,
                                 .variant = variant};
    return name_of(weft_activation_plan(context, &desc, &plan), &plan);
}

static const char *plan_rope(weft_context *context, weft_dtype dtype, int32_t batch,
                             const char *variant)
{
    weft_plan *plan = NULL;
    weft_rope_desc desc = {.size = sizeof desc,
                           .num_heads = 2,
                           .head_dim = 64,
                           .max_tokens = batch,
                           .dtype = dtype,
                           .variant = variant};
    return name_of(weft_rope_plan(context, &desc, &plan), &plan);
}

static const char *plan_sample(weft_context *context, weft_dtype dtype, int32_t batch,
                               const char *variant)
{
    weft_plan *plan = NULL;
    weft_sample_desc desc = {.size = sizeof desc,
                             .vocab = 100,
                             .max_rows = batch,
                             .logits_dtype = dtype,
                             .variant = variant};
    return name_of(weft_sample_plan(context, &desc, &plan), &plan);
}

static const char *plan_queries(weft_context *context, weft_dtype dtype, weft_dtype queries,
                                int32_t batch, const char *variant)
{
    weft_plan *plan = NULL;
    weft_attention_desc desc = {
        .size = sizeof desc,
        .q_dtype = queries,
        .kv = {.dtype = dtype, .num_kv_heads = 2, .head_dim = 64, .page_size = 16},
        .num_q_heads = 4,
        .max_seqs = batch,
        .max_kv_len = 1000,
        .variant = variant};
    return name_of(weft_attention_plan(context, &desc, &plan), &plan);
}

static const char *plan_attention(weft_context *context, weft_dtype dtype, int32_t batch,
                                  const char *variant)
{
    return plan_queries(context, dtype, WEFT_F32, batch, variant);
}

// Queries of the cache's own format, which kernels of pairs want.
#if defined(__x86_64__)
static const char *plan_narrow(weft_context *context, weft_dtype dtype, int32_t batch,
                               const char *variant)
{
    return plan_queries(context, dtype, dtype, batch, variant);
}
#endif

static const char *plan_kv(weft_context *context, weft_dtype dtype, int32_t batch,
                           const char *variant)
{
    weft_plan *plan = NULL;
    weft_kv_append_desc desc = {
        .size = sizeof desc,
        .layout = {.dtype = dtype, .num_kv_heads = 2, .head_dim = 64, .page_size = 16},
        .max_tokens = batch,
        .variant = variant};
    return name_of(weft_kv_append_plan(context, &desc, &plan), &plan);
}

static const struct {
    const char *op;
    plan_fn *plan;
} operations[] = {
    {"linear", plan_linear},         {"linear", plan_exact}, {"linear", plan_rounding},
    {"embedding", plan_embedding},   {"norm", plan_norm},    {"softmax", plan_softmax},
    {"activation", plan_activation}, {"rope", plan_rope},    {"sample", plan_sample},
    {"attention", plan_attention},   {"kv", plan_kv},
};

// Rows that round activations to bf16 are for many rows of X only, as are tiles of AMX: a few wait for memory and stay
// exact. Those that round f32 weights are for who asks, and packed weights are others.
static bool not_meant_for(const char *name, plan_fn *plan, int32_t batch)
{
    const bool of_f32 = strstr(name, "linear_f32_"), rounds = strstr(name, "_q8_");
    if (strncmp(name, "linear_", 7) == 0 && strstr(name, "_amx") && rounds && batch <= 8)
        return true;
    if (strstr(name, "_packed_"))
        return true;
    const bool narrows =
        strstr(name, "_bf16_panel_") || strstr(name, "_bf16_lines_") || strstr(name, "_bf16_rows_");
    return narrows && (batch <= (of_f32 ? 8 : 4) || (plan != plan_rounding && of_f32));
}

// No usable row of a better level serves the problem.
static int look(weft_context *context, const char *op, plan_fn *plan, weft_dtype dtype,
                int32_t batch)
{
    weft_kernel_info row;
    const char *chosen = plan(context, dtype, batch, NULL);
    int rank = -1;
    if (!chosen)
        return 0;
    for (int32_t n = 0; weft_kernel_at(context, n, &row); n++)
        if (strcmp(row.name, chosen) == 0) {
            assert_true(row.usable);
            assert_string_equal(row.op, op);
            rank = rank_of(row.isa);
        }
    assert_true(rank >= 0);
    for (int32_t n = 0; weft_kernel_at(context, n, &row); n++)
        if (strcmp(row.op, op) == 0 && row.usable && rank_of(row.isa) > rank &&
            !not_meant_for(row.name, plan, batch) && plan(context, dtype, batch, row.name))
            fail_msg("%s %s batch %d at %s: %s is chosen, %s would serve", op,
                     weft_dtype_name(dtype), batch, weft_context_isa(context), chosen, row.name);
    return 1;
}

static void the_best_row_is_chosen(void **state)
{
    (void)state;
    int looked = 0;
    for (int level = 0; level < LEVELS; level++) {
        weft_context *context;
        setenv("WEFT_CPU", levels[level], 1);
        assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
        for (size_t o = 0; o < sizeof operations / sizeof *operations; o++)
            for (int32_t n = 0; weft_dtype_at(n) != WEFT_DTYPE_NONE; n++)
                for (int32_t batch = 1; batch < 200; batch = batch * 6 + 1)
                    looked += look(context, operations[o].op, operations[o].plan, weft_dtype_at(n),
                                   batch);
        weft_context_destroy(context);
    }
    assert_true(looked > 500);
}

// Rows of X decide between tiles and panels.
static void some_by_name(void **state)
{
    (void)state;
    const struct {
        const char *level;
        plan_fn *plan;
        weft_dtype dtype;
        int32_t batch;
        const char *kernel;
    } rows[] = {
        {"ref", plan_linear, WEFT_Q4_0, 1, "linear_q4_0_q8_ref"},
        {"ref", plan_linear, WEFT_Q4_0, 100, "linear_q4_0_q8_ref"},
        {"ref", plan_attention, WEFT_F16, 1, "attention_any_ref"},
#if defined(__x86_64__)
        {"avx2", plan_linear, WEFT_Q4_K, 8, "linear_q4_k_q8_avx2"},
        {"avx512bf16", plan_linear, WEFT_F32, 9, "linear_f32_f32_panel_avx512"},
        {"avx512bf16", plan_rounding, WEFT_F32, 8, "linear_f32_f32_avx512"},
        {"avx512bf16", plan_rounding, WEFT_F32, 9, "linear_f32_bf16_lines_avx512bf16"},
        {"avx512bf16", plan_rounding, WEFT_F32, 37, "linear_f32_bf16_panel_avx512bf16"},
        {"avx2", plan_linear, WEFT_Q4_K, 9, "linear_q4_k_q8_panel_avx2"},
        {"avx2", plan_linear, WEFT_Q5_K, 8, "linear_q5_k_q8_any_avx2"},
        {"avx2", plan_linear, WEFT_Q5_K, 9, "linear_q5_k_q8_panel_any_avx2"},
        {"avx2", plan_exact, WEFT_Q4_K, 1, "linear_q4_k_f32_avx2"},
        {"avx2", plan_exact, WEFT_IQ2_S, 9, "linear_iq2_s_f32_any_avx2"},
        {"avx512", plan_exact, WEFT_F16, 8, "linear_f16_f32_avx512"},
        {"avx512", plan_exact, WEFT_F16, 9, "linear_f16_f32_panel_avx512"},
        {"avx512", plan_attention, WEFT_BF16, 1, "attention_bf16_avx512"},
        {"avx512", plan_norm, WEFT_F32, 1, "norm_rms_avx512"},
        {"avx512", plan_norm, WEFT_F16, 1, "norm_rms_ref"},
        {"avx512vnni", plan_linear, WEFT_Q6_K, 4, "linear_q6_k_q8_avx512vnni"},
        {"avx512vnni", plan_linear, WEFT_Q6_K, 5, "linear_q6_k_q8_panel_avx512vnni"},
        {"avx512vnni", plan_linear, WEFT_Q5_K, 4, "linear_q5_k_q8_avx512vnni"},
        {"avx512vnni", plan_linear, WEFT_Q5_K, 5, "linear_q5_k_q8_panel_avx512vnni"},
        {"avx512vnni", plan_linear, WEFT_Q4_0, 8, "linear_q4_0_q8_avx512vnni"},
        {"avx512vnni", plan_linear, WEFT_IQ2_S, 8, "linear_iq2_s_q8_any_avx512vnni"},
        {"avx512vnni", plan_linear, WEFT_IQ2_S, 9, "linear_iq2_s_q8_panel_any_avx512vnni"},
        {"avx512bf16", plan_kv, WEFT_F16, 1, "kv_f16_avx512"},
        {"avx512bf16", plan_narrow, WEFT_BF16, 1, "attention_bf16_avx512bf16"},
        {"amx", plan_narrow, WEFT_BF16, 1, "attention_bf16_amx"},
        {"amx", plan_attention, WEFT_BF16, 1, "attention_bf16_avx512"},
        {"avx512bf16", plan_linear, WEFT_F16, 4, "linear_f16_f32_avx512"},
        {"avx512bf16", plan_linear, WEFT_F16, 5, "linear_f16_bf16_lines_avx512bf16"},
        {"avx512bf16", plan_linear, WEFT_BF16, 36, "linear_bf16_bf16_lines_avx512bf16"},
        {"avx512bf16", plan_linear, WEFT_BF16, 37, "linear_bf16_bf16_panel_avx512bf16"},
        {"avx512bf16", plan_exact, WEFT_BF16, 8, "linear_bf16_f32_avx512"},
        {"amx", plan_linear, WEFT_F16, 4, "linear_f16_f32_avx512"},
        {"amx", plan_linear, WEFT_F16, 5, "linear_f16_bf16_panel_amx"},
        {"amx", plan_linear, WEFT_BF16, 5, "linear_bf16_bf16_panel_amx"},
        {"amx", plan_linear, WEFT_Q4_0, 8, "linear_q4_0_q8_avx512vnni"},
        {"amx", plan_linear, WEFT_Q4_0, 9, "linear_q4_0_q8_panel_amx"},
        {"avx512bf16", plan_exact, WEFT_BF16, 9, "linear_bf16_f32_panel_avx512"},
#endif
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weft_context *context;
        setenv("WEFT_CPU", rows[i].level, 1);
        assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
        if (rank_of(weft_context_isa(context)) >= rank_of(rows[i].level))
            assert_string_equal(rows[i].plan(context, rows[i].dtype, rows[i].batch, NULL),
                                rows[i].kernel);
        weft_context_destroy(context);
    }
}

// A result that must not depend on the batch comes from the kernel for one row, whatever the batch; a
// kernel serves any batch by its name.
static void a_fixed_row_for_every_batch(void **state)
{
    (void)state;
    weft_context *context;
    weft_linear_desc desc = {
        .size = sizeof desc, .weight_dtype = WEFT_Q4_0, .rows = 512, .cols = 1024, .max_batch = 1};
    unsetenv("WEFT_CPU");
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    weft_plan *plan;
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
    const char *alone = name_of(WEFT_OK, &plan);
    desc.max_batch = 100;
    desc.flags = WEFT_LINEAR_BATCH_INVARIANT;
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
    assert_string_equal(name_of(WEFT_OK, &plan), alone);
    desc.flags = 0;
    desc.variant = alone;
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
    assert_string_equal(name_of(WEFT_OK, &plan), alone);
    weft_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_row_is_chosen),
        cmocka_unit_test(some_by_name),
        cmocka_unit_test(a_fixed_row_for_every_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
