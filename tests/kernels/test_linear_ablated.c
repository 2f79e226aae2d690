// SPDX-License-Identifier: MIT
// Kernels that lack a choice, for comparing (weft bench linear --ablate): the same bits as those that have it, so that
// what differs is the choice alone; and nothing but their name leads to them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

enum { ROWS = 37, COLS = 256 * 7, MOST = 8 };

static float x[MOST * COLS], y[2][MOST * ROWS];
static unsigned char weights[ROWS * COLS * 2];

static void fill(weft_dtype format)
{
    static float row[COLS];
    uint32_t seed = 7;
    for (int i = 0; i < MOST * COLS; i++)
        x[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < COLS; i++)
            row[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
        weft_quantize_row(format, row, COLS, weights + r * weft_dtype_row_bytes(format, COLS));
    }
}

static void run(weft_context *context, weft_dtype format, int32_t batch, const char *variant,
                float *to)
{
    weft_plan *plan;
    const weft_linear_desc desc = {.size = sizeof desc,
                                   .weight_dtype = format,
                                   .rows = ROWS,
                                   .cols = COLS,
                                   .max_batch = batch,
                                   .variant = variant};
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
    size_t bytes = weft_plan_workspace_bytes(plan);
    void *workspace = aligned_alloc(64, bytes / 64 * 64 + 64);
    const weft_linear_args args = {.size = sizeof args,
                                   .batch = batch,
                                   .weight = weights,
                                   .x = x,
                                   .y = to,
                                   .workspace = workspace,
                                   .workspace_bytes = bytes};
    assert_int_equal(weft_linear_run(plan, &args), WEFT_OK);
    free(workspace);
    weft_plan_destroy(plan);
}

static const char *const left_out[] = {"_nofetch", "_row1", "_row2", "_masked"};

// "linear_q4_0_q8_avx2" of "linear_q4_0_q8_row1_avx2"; false for others.
static bool name_of_whole(const char *name, char whole[96])
{
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
        const char *at = strstr(name, left_out[i]);
        if (at) {
            snprintf(whole, 96, "%.*s%s", (int)(at - name), name, at + strlen(left_out[i]));
            return true;
        }
    }
    return false;
}

static weft_dtype format_of(const char *name)
{
    char text[32];
    snprintf(text, sizeof text, "%.4s", name + strlen("linear_"));
    return weft_dtype_parse(text);
}

static void the_same_bits(void **state)
{
    (void)state;
    weft_context *context;
    weft_kernel_info info;
    char whole[96];
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    for (int32_t n = 0; weft_kernel_at(context, n, &info); n++) {
        if (strcmp(info.op, "linear") != 0 || !info.usable || !name_of_whole(info.name, whole))
            continue;
        weft_dtype format = format_of(info.name);
        assert_true(format == WEFT_Q4_0 || format == WEFT_Q8_0 || format == WEFT_Q4_K);
        fill(format);
        for (int32_t batch = 1; batch <= MOST; batch++) {
            run(context, format, batch, whole, y[0]);
            run(context, format, batch, info.name, y[1]);
            if (memcmp(y[0], y[1], sizeof(float) * (size_t)batch * ROWS) != 0)
                fail_msg("%s, %d rows of X: other bits than %s", info.name, batch, whole);
        }
    }
    weft_context_destroy(context);
}

static void only_names_lead_there(void **state)
{
    (void)state;
    weft_context *context;
    char whole[96];
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    for (int32_t few = 0; few <= 8; few++) {
        const weft_tuning entry = {
            .size = sizeof entry, .op = WEFT_TUNING_LINEAR, .few_batch = few};
        assert_int_equal(weft_tuning_add(context, &entry), WEFT_OK);
        for (int32_t n = 0; n < 3 * 9; n++) {
            static const weft_dtype formats[] = {WEFT_Q4_0, WEFT_Q8_0, WEFT_Q4_K};
            const weft_linear_desc desc = {.size = sizeof desc,
                                           .weight_dtype = formats[n % 3],
                                           .rows = ROWS,
                                           .cols = COLS,
                                           .max_batch = 1 + n / 3};
            weft_plan *plan;
            assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
            assert_false(name_of_whole(weft_plan_describe(plan), whole));
            weft_plan_destroy(plan);
        }
    }
    weft_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits),
        cmocka_unit_test(only_names_lead_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
