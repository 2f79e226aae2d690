// SPDX-License-Identifier: MIT
// Linear layers where extents and values are at their ends, whatever else random problems draw (weft-check):
// the rows of a vocabulary, single rows and columns, primes; inputs all alike, with one number, of +-65504;
// scales of +-65504 and the smallest there are. Held against sums in double, and from 1, 2, 3 and 7 threads to
// the bit; weights as they lie in a file, and packed where the device has a layout of its own.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

enum { VOCABULARY = 128256, PATTERN = 1031, MOST_BATCH = 17, CONTEXTS = 4 };

static const int32_t thread_counts[CONTEXTS] = {1, 2, 3, 7};
static weft_context *contexts[CONTEXTS];
static uint64_t random_state;

struct problem {
    weft_dtype format;
    int64_t rows, cols;
    int32_t batch;
    uint32_t flags;
    float alpha;
    bool packed;
    bool has_layout;        // of its own, by the plan that ran last
    weft_dtype rounds_x_to; // likewise
    unsigned char *weights;
    float *x, *y;
};

enum values { ANY_VALUE, ALIKE, ONE_HOT, LARGEST, VALUES };

static float random_number(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(random_state >> 32) * 0x1p-31f;
}

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < CONTEXTS; i++) {
        const weft_context_desc desc = {.size = sizeof desc, .threads = thread_counts[i]};
        if (weft_context_create(&desc, &contexts[i]) != WEFT_OK)
            return 1;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < CONTEXTS; i++)
        weft_context_destroy(contexts[i]);
    return 0;
}

static void *room(size_t bytes)
{
    void *at = malloc(bytes);
    assert_non_null(at);
    return at;
}

// Rows repeat after PATTERN of them; x is of one kind.
static struct problem begin(weft_dtype format, int64_t rows, int64_t cols, int32_t batch,
                            enum values values)
{
    const int64_t row_bytes = weft_dtype_row_bytes(format, cols);
    struct problem p = {.format = format, .rows = rows, .cols = cols, .batch = batch};
    p.weights = room((size_t)(rows * row_bytes));
    p.x = room((size_t)(batch * cols) * sizeof(float));
    p.y = room((size_t)(batch * rows) * sizeof(float));
    random_state = (uint64_t)(rows + cols + batch);
    float *row = room((size_t)cols * sizeof *row);
    for (int64_t r = 0; r < rows; r++) {
        if (r >= PATTERN) {
            memcpy(p.weights + r * row_bytes, p.weights + (r - PATTERN) * row_bytes,
                   (size_t)row_bytes);
            continue;
        }
        for (int64_t i = 0; i < cols; i++)
            row[i] = random_number();
        assert_int_equal(weft_quantize_row(format, row, cols, p.weights + r * row_bytes), WEFT_OK);
    }
    free(row);
    for (int64_t i = 0; i < batch * cols; i++)
        p.x[i] = values == ALIKE     ? 0.75f
                 : values == ONE_HOT ? (i % cols == cols / 2 ? 3 : 0)
                 : values == LARGEST ? copysignf(65504, random_number())
                                     : random_number();
    return p;
}

static void end(struct problem *p)
{
    free(p->weights);
    free(p->x);
    free(p->y);
}

// The weights as the plan lays them out; the caller frees them.
static void *packed_weights(const weft_plan *plan, const struct problem *p)
{
    const size_t bytes = weft_linear_packed_bytes(plan, 0);
    void *packed = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(packed);
    const weft_linear_pack_args args = {
        .size = sizeof args, .weight = p->weights, .packed = packed};
    assert_int_equal(weft_linear_pack(plan, &args), WEFT_OK);
    return packed;
}

static void run_on(weft_context *context, struct problem *p, float *y)
{
    weft_plan *plan = NULL;
    const weft_linear_desc desc = {.size = sizeof desc,
                                   .flags = p->flags,
                                   .weight_dtype = p->format,
                                   .rows = p->rows,
                                   .cols = p->cols,
                                   .max_batch = p->batch};
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
    weft_plan_info info = {.size = sizeof info};
    assert_int_equal(weft_plan_query(plan, &info), WEFT_OK);
    p->rounds_x_to = info.rounds_x_to;
    p->has_layout = weft_linear_packed_layout(plan, 0);
    void *packed = p->packed ? packed_weights(plan, p) : NULL;
    const size_t bytes = weft_plan_workspace_bytes(plan);
    void *workspace = aligned_alloc(64, (bytes + 64) / 64 * 64);
    assert_non_null(workspace);
    const weft_linear_args args = {.size = sizeof args,
                                   .batch = p->batch,
                                   .weight = packed ? NULL : p->weights,
                                   .packed = packed,
                                   .x = p->x,
                                   .y = y,
                                   .alpha = p->alpha,
                                   .workspace = workspace,
                                   .workspace_bytes = bytes};
    assert_int_equal(weft_linear_run(plan, &args), WEFT_OK);
    weft_plan_destroy(plan);
    free(workspace);
    free(packed);
}

// The same bits from every number of threads, and run again.
static void run_everywhere(struct problem *p)
{
    const size_t bytes = (size_t)(p->batch * p->rows) * sizeof(float);
    float *again = room(bytes);
    run_on(contexts[0], p, p->y);
    for (int i = 0; i < CONTEXTS; i++) {
        memset(again, 0xff, bytes);
        run_on(contexts[i], p, again);
        assert_memory_equal(again, p->y, bytes);
    }
    free(again);
}

// What an element of a product may be off by: half a step of its group where X is rounded to int8, a 256th for
// each number that is rounded to bf16.
static double step_of(const struct problem *p, double w, double x, double largest)
{
    switch (p->rounds_x_to) {
    case WEFT_INT8: return fabs(w) * largest / 254;
    case WEFT_BF16: return fabs(w * x) / 127;
    default: return 0;
    }
}

// Every result of row r against a sum in double.
static void expect_row(const struct problem *p, int64_t r)
{
    const int64_t row_bytes = weft_dtype_row_bytes(p->format, p->cols);
    const double units = weft_dtype_block_elems(p->format) > 1 ? 64 : 1;
    float *w = room((size_t)p->cols * sizeof *w);
    weft_dequantize_row(p->format, p->weights + r * row_bytes, p->cols, w);
    for (int32_t m = 0; m < p->batch; m++) {
        const float *x = p->x + m * p->cols;
        double sum = 0, sizes = 0, steps = 0, alpha = p->alpha != 0 ? p->alpha : 1;
        double largest = 0; // of a group of 32
        for (int64_t i = 0; i < p->cols; i++) {
            for (int64_t g = i; i % 32 == 0 && g < i + 32 && g < p->cols; g++)
                largest = fmax(g == i ? 0 : largest, fabs((double)x[g]));
            sum += (double)w[i] * x[i];
            sizes += fabs((double)w[i] * x[i]);
            steps += step_of(p, w[i], x[i], largest);
        }
        // codes and minima of a block are larger than what is left of them
        const double bound =
            units * 0x1p-23 * fmax(8, sqrt((double)p->cols)) * sizes + 1.01 * steps + 1e-30;
        const double got = p->y[m * p->rows + r];
        if (!(fabs(got - alpha * sum) <= fabs(alpha) * bound))
            fail_msg("%s %lld x %lld, row %lld of %d: %g, wanted %g within %g",
                     weft_dtype_name(p->format), (long long)p->rows, (long long)p->cols,
                     (long long)r, m, got, alpha * sum, fabs(alpha) * bound);
    }
    free(w);
}

// Weights as they lie, then packed: every row of few, of many those at the ends and some between.
static void hold(struct problem *p)
{
    const int64_t end = p->rows > 1000 ? 40 : p->rows;
    for (p->packed = false;; p->packed = true) {
        run_everywhere(p);
        for (int64_t r = 0; r < p->rows - end; r += r < end ? 1 : 1777)
            expect_row(p, r);
        for (int64_t r = p->rows - end; r < p->rows; r++)
            expect_row(p, r);
        if (p->packed || !p->has_layout)
            return;
    }
}

static void the_rows_of_a_vocabulary(void **state)
{
    (void)state;
    static const weft_dtype formats[] = {WEFT_Q8_0, WEFT_Q4_0, WEFT_Q4_K, WEFT_F16};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (int32_t batch = 1; batch <= MOST_BATCH; batch += MOST_BATCH - 1) {
            struct problem p = begin(formats[f], VOCABULARY, 256, batch, ANY_VALUE);
            hold(&p);
            end(&p);
        }
}

static void ends_of_extents_and_values(void **state)
{
    (void)state;
    static const weft_dtype formats[] = {WEFT_F32,  WEFT_F16,  WEFT_BF16,  WEFT_Q8_0,
                                         WEFT_Q4_0, WEFT_Q4_1, WEFT_Q5_0,  WEFT_Q5_1,
                                         WEFT_Q4_K, WEFT_Q6_K, WEFT_IQ4_NL};
    static const int64_t rows[] = {1, 7, 31, 33, 127}, cols[] = {1, 31, 33, 131, 1021, VOCABULARY};
    uint32_t turn = 0;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (size_t c = 0; c < sizeof cols / sizeof *cols; c++)
            for (int values = 0; values < VALUES; values++)
                for (int how = 0; how < 4; how++) { // one row of X and many, rounded and exact
                    const int64_t block = weft_dtype_block_elems(formats[f]);
                    const bool is_long = cols[c] == VOCABULARY;
                    const int32_t batch = is_long ? 3 : MOST_BATCH;
                    struct problem p = begin(formats[f], is_long ? 2 : rows[turn++ % 5],
                                             (cols[c] + block - 1) / block * block,
                                             how & 1 ? batch : 1, (enum values)values);
                    p.alpha = turn / 5 % 2 ? 0.5f : -2;
                    p.flags = how & 2 ? WEFT_LINEAR_EXACT : 0;
                    hold(&p);
                    end(&p);
                }
}

// Rows of 16-bit weights of which the second cache holds eight, not sixteen, by some rows of X.
static void long_rows_by_some(void **state)
{
    (void)state;
    static const weft_dtype formats[] = {WEFT_BF16, WEFT_F16};
    static const int32_t batches[] = {36, 11};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        struct problem p = begin(formats[f], 27, 4105, batches[f], ANY_VALUE);
        hold(&p);
        end(&p);
    }
}

static void ends_of_scales(void **state)
{
    (void)state;
    static const weft_dtype formats[] = {WEFT_Q8_0, WEFT_Q4_0, WEFT_Q4_1,
                                         WEFT_Q5_0, WEFT_Q5_1, WEFT_IQ4_NL};
    static const uint16_t halves[] = {0x7bff, 0xfbff, 0x0001, 0x8001, 0x03ff};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (int32_t batch = 1; batch <= MOST_BATCH; batch += MOST_BATCH - 1)
            for (int exact = 0; exact <= 1; exact++) {
                struct problem p = begin(formats[f], 67, 512, batch, ANY_VALUE);
                const int64_t bytes = weft_dtype_block_bytes(formats[f]), blocks = 67 * 512 / 32;
                for (int64_t b = 0; b < blocks; b++)
                    memcpy(p.weights + b * bytes, &halves[b / 16 % 5], sizeof *halves);
                p.flags = exact ? WEFT_LINEAR_EXACT : 0;
                hold(&p);
                end(&p);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rows_of_a_vocabulary),
        cmocka_unit_test(ends_of_extents_and_values),
        cmocka_unit_test(long_rows_by_some),
        cmocka_unit_test(ends_of_scales),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
