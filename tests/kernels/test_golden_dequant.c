// SPDX-License-Identifier: MIT
// Weight formats against the gguf package: decoding is equal to the last bit.
#define _POSIX_C_SOURCE 200809L
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

static void expect_same_bits(const golden_format *f, const float *y)
{
    for (int64_t i = 0; i < f->num_blocks * f->block_elems; i++) {
        if (memcmp(&y[i], &f->values[i], sizeof y[i]) != 0) {
            fail_msg("%s: element %lld of block %lld is %a, not %a", f->name,
                     (long long)(i % f->block_elems), (long long)(i / f->block_elems), (double)y[i],
                     (double)f->values[i]);
        }
    }
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
        cmocka_unit_test(embeds),
    };
    int failed = cmocka_run_group_tests_name("best level", tests, NULL, NULL);
    setenv("WEFT_CPU", "ref", 1);
    return failed + cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
