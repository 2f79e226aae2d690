// SPDX-License-Identifier: MIT
// Matrix products over the golden blocks of every format: what the gguf package decodes, multiplied in
// f64, against the library with exact activations.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "tests/support/golden_format.h"

enum { MAX_BATCH = 9 };

static void compare(const golden_format *f, int64_t rows, int64_t cols, int32_t batch,
                    const float *x, const float *y)
{
    for (int32_t b = 0; b < batch; b++) {
        for (int64_t r = 0; r < rows; r++) {
            double sum = 0, size = 0;
            for (int64_t c = 0; c < cols; c++) {
                double product = (double)f->values[r * cols + c] * (double)x[b * cols + c];
                sum += product;
                size += fabs(product);
            }
            double bound = 0x1p-23 * fmax(8, sqrt((double)cols)) * size;
            double error = fabs((double)y[b * rows + r] - sum);
            if (!(error <= bound)) {
                fail_msg("%s, batch %d: row %lld is off by %g, more than %g", f->name, batch,
                         (long long)r, error, bound);
            }
        }
    }
}

static void multiply(weft_context *context, const golden_format *f, int32_t batch)
{
    int64_t rows = 8, cols = f->num_blocks / rows * f->block_elems;
    weft_linear_desc desc = {.size = sizeof desc,
                             .flags = WEFT_LINEAR_EXACT,
                             .weight_dtype = f->dtype,
                             .max_batch = MAX_BATCH,
                             .rows = rows,
                             .cols = cols};
    weft_plan *plan = NULL;
    if (weft_linear_plan(context, &desc, &plan) != WEFT_OK) {
        fail_msg("%s: %s", f->name, weft_error_text(context));
    }
    size_t workspace_bytes = weft_plan_workspace_bytes(plan);
    float *x = malloc((size_t)(batch * cols) * sizeof *x);
    float *y = malloc((size_t)(batch * rows) * sizeof *y);
    void *workspace = aligned_alloc(64, workspace_bytes / 64 * 64 + 64);
    assert_true(x && y && workspace);
    uint32_t random = 1;
    for (int64_t i = 0; i < batch * cols; i++) {
        random = random * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)random * 0x1p-43f; // bf16 blocks hold numbers up to 2^128
    }
    weft_linear_args args = {.size = sizeof args,
                             .batch = batch,
                             .weight = f->blocks,
                             .x = x,
                             .y = y,
                             .workspace = workspace,
                             .workspace_bytes = workspace_bytes};
    assert_int_equal(weft_linear_run(plan, &args), WEFT_OK);
    compare(f, rows, cols, batch, x, y);
    free(workspace);
    free(y);
    free(x);
    weft_plan_destroy(plan);
}

static void multiplies(void **state)
{
    (void)state;
    const int32_t batches[] = {1, 2, 5, MAX_BATCH};
    weft_context *context = NULL;
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    golden_format f;
    for (int32_t n = 0; golden_format_open(n, &f); n++) {
        for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
            multiply(context, &f, batches[i]);
        }
        golden_format_close(&f);
    }
    weft_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(multiplies)};
    int failed = cmocka_run_group_tests_name("best level", tests, NULL, NULL);
    setenv("WEFT_CPU", "ref", 1);
    return failed + cmocka_run_group_tests_name("reference", tests, NULL, NULL);
}
