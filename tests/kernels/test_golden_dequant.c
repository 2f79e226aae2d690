// SPDX-License-Identifier: MIT
// Weight formats against the gguf, mlx and ml_dtypes packages: decoding is equal to the last bit.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "tests/support/golden_format.h"

// Equal to the bit; of two NaNs the payloads may differ.
static void expect_same(const char *name, const float *y, const float *values, int64_t count,
                        int64_t block_elems)
{
    for (int64_t i = 0; i < count; i++) {
        if (memcmp(&y[i], &values[i], sizeof y[i]) != 0 && !(isnan(y[i]) && isnan(values[i]))) {
            fail_msg("%s: element %lld of block %lld is %a, not %a", name,
                     (long long)(i % block_elems), (long long)(i / block_elems), (double)y[i],
                     (double)values[i]);
        }
    }
}

static void expect_same_bits(const golden_format *f, const float *y)
{
    expect_same(f->name, y, f->values, f->num_blocks * f->block_elems, f->block_elems);
}

static void decodes_rows(void **state)
{
    (void)state;
    golden_format f;
    for (int32_t n = 0; golden_format_open(n, &f); n++) {
        int64_t cols = f.num_blocks * f.block_elems;
        assert_int_equal(weft_dtype_block_bytes(f.dtype), f.block_bytes);
        assert_int_equal(weft_dtype_block_elems(f.dtype), f.block_elems);
        float *y = calloc((size_t)cols, sizeof *y);
        assert_non_null(y);
        assert_int_equal(weft_dequantize_row(f.dtype, f.blocks, cols, y), WEFT_OK);
        expect_same_bits(&f, y);
        free(y);
        golden_format_close(&f);
    }
}

// Random bytes with scales of any kind: infinite, NaN, subnormal.
static void decodes_wild_blocks(void **state)
{
    (void)state;
    int formats = 0;
    golden_format f;
    for (int32_t n = 0; golden_format_open(n, &f); n++) {
        if (golden_find(f.file, f.name, "wild_blocks")) {
            const void *blocks = golden_data(f.file, f.name, "wild_blocks", GOLDEN_U8);
            const golden_tensor *values = golden_find(f.file, f.name, "wild_values");
            float *y = calloc((size_t)values->elements, sizeof *y);
            assert_non_null(y);
            assert_int_equal(weft_dequantize_row(f.dtype, blocks, values->elements, y), WEFT_OK);
            expect_same(f.name, y, values->data, values->elements, f.block_elems);
            free(y);
            formats++;
        }
        golden_format_close(&f);
    }
    assert_int_equal(formats, 22);
}

static void decodes_one_row_with_planes(const golden_format *f, weft_dtype scale_dtype)
{
    char name[4][16];
    const char *what[4] = {"codes", "scales", "biases", "values"};
    for (int i = 0; i < 4; i++)
        snprintf(name[i], sizeof name[i], "%s_%s", weft_dtype_name(scale_dtype), what[i]);
    int64_t cols = golden_find(f->file, f->name, name[3])->elements;
    weft_row_planes row = {.size = sizeof row,
                           .dtype = f->dtype,
                           .data = golden_data(f->file, f->name, name[0], GOLDEN_U8),
                           .scales = golden_data(f->file, f->name, name[1], GOLDEN_U8),
                           .biases = golden_data(f->file, f->name, name[2], GOLDEN_U8),
                           .scale_dtype = scale_dtype};
    float *y = calloc((size_t)cols, sizeof *y);
    assert_non_null(y);
    assert_int_equal(weft_dequantize_planes(&row, cols, y), WEFT_OK);
    expect_same(f->name, y, golden_data(f->file, f->name, name[3], GOLDEN_F32), cols,
                f->block_elems);
    free(y);
}

static void decodes_rows_with_planes(void **state)
{
    (void)state;
    int formats = 0;
    golden_format f;
    for (int32_t n = 0; golden_format_open(n, &f); n++) {
        if (golden_find(f.file, f.name, "f32_codes")) {
            decodes_one_row_with_planes(&f, WEFT_F32);
            decodes_one_row_with_planes(&f, WEFT_F16);
            decodes_one_row_with_planes(&f, WEFT_BF16);
            formats++;
        }
        golden_format_close(&f);
    }
    assert_int_equal(formats, 18);
}

static void embeds_rows(weft_context *context, const golden_format *f)
{
    const int64_t blocks_per_row = 8, rows = f->num_blocks / blocks_per_row;
    const int64_t dim = blocks_per_row * f->block_elems;
    assert_int_equal(f->num_blocks % blocks_per_row, 0);
    float *y = calloc((size_t)(rows * dim), sizeof *y);
    int32_t *ids = calloc((size_t)rows, sizeof *ids);
    assert_true(y && ids);
    for (int32_t i = 0; i < rows; i++) {
        ids[i] = i;
    }
    weft_embedding_desc desc = {.size = sizeof desc,
                                .table_dtype = f->dtype,
                                .rows = rows,
                                .dim = dim,
                                .max_tokens = (int32_t)rows};
    weft_plan *plan = NULL;
    assert_int_equal(weft_embedding_plan(context, &desc, &plan), WEFT_OK);
    weft_embedding_args args = {
        .size = sizeof args, .tokens = (int32_t)rows, .table = f->blocks, .ids = ids, .y = y};
    assert_int_equal(weft_embedding_run(plan, &args), WEFT_OK);
    expect_same_bits(f, y);
    weft_plan_destroy(plan);
    free(ids);
    free(y);
}

static void embeds(void **state)
{
    weft_context *context = NULL;
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    golden_format f;
    for (int32_t n = 0; golden_format_open(n, &f); n++) {
        embeds_rows(context, &f);
        golden_format_close(&f);
    }
    weft_context_destroy(context);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_rows),
        cmocka_unit_test(decodes_wild_blocks),
        cmocka_unit_test(decodes_rows_with_planes),
        cmocka_unit_test(embeds),
    };
    int failed = cmocka_run_group_tests_name("best level", tests, NULL, NULL);
    setenv("WEFT_CPU", "ref", 1);
    return failed + cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
