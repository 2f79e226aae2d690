// SPDX-License-Identifier: MIT
// Long sequences and many splits against softmax written down in double: scores that rise over 131072 keys,
// so that every block shrinks what came before it, every number of splits from 1 to 128, scores so large
// that a float does not hold them to 1, and numbers so small that they are easily lost.
#include <math.h>

#include "tests/support/context_fixture.h"

enum { KEYS = 131072, DIM = 8, MOST_HEADS = 12 };

static float k[KEYS * DIM], v[KEYS * DIM];

// Key t scores `steepness` * t / keys with the query of ones.
static void fill(int32_t keys, double steepness)
{
    for (int32_t t = 0; t < keys; t++)
        for (int32_t i = 0; i < DIM; i++) {
            k[t * DIM + i] = i == 0 ? (float)(steepness * t / keys) : 0;
            v[t * DIM + i] = sinf((float)(t * 3 + i));
        }
}

static double expect(int32_t keys, double want[DIM])
{
    double sum = 0, largest = k[(keys - 1) * DIM] > k[0] ? k[(keys - 1) * DIM] : k[0];
    memset(want, 0, DIM * sizeof *want);
    for (int32_t t = 0; t < keys; t++) {
        double weight = exp(k[t * DIM] - largest);
        sum += weight;
        for (int32_t i = 0; i < DIM; i++)
            want[i] += weight * v[t * DIM + i];
    }
    for (int32_t i = 0; i < DIM; i++)
        want[i] /= sum;
    return largest + log(sum);
}

// `heads` query heads, each with the query of ones but for its first element.
struct query {
    const char *variant;
    int32_t keys, splits, heads;
    float first, scale;
};

static void attend_as(weft_context *context, struct query query, const double want[DIM],
                      double want_lse)
{
    weft_plan *plan;
    float q[MOST_HEADS * DIM], out[MOST_HEADS * DIM], lse[MOST_HEADS];
    const int32_t cu[2] = {0, 1}, page = 0, keys = query.keys;
    const weft_attention_desc desc = {
        .size = sizeof desc,
        .kv = {.dtype = WEFT_F32, .num_kv_heads = 1, .head_dim = DIM, .page_size = keys},
        .num_q_heads = query.heads,
        .scale = query.scale,
        .max_kv_len = keys,
        .num_splits = query.splits,
        .variant = query.variant};
    assert_int_equal(weft_attention_plan(context, &desc, &plan), WEFT_OK);
    size_t bytes = weft_plan_workspace_bytes(plan);
    void *workspace = aligned_alloc(64, (bytes + 63) / 64 * 64);
    for (int32_t i = 0; i < query.heads * DIM; i++)
        q[i] = i % DIM ? 1 : query.first;
    const weft_attention_args args = {.size = sizeof args,
                                      .num_seqs = 1,
                                      .q = q,
                                      .out = out,
                                      .lse = lse,
                                      .pool = {.k.data = k, .v.data = v, .num_pages = 1},
                                      .cu_q_lens = cu,
                                      .kv_lens = &keys,
                                      .page_table = &page,
                                      .workspace = workspace,
                                      .workspace_bytes = bytes};
    assert_int_equal(weft_attention_run(plan, &args), WEFT_OK);
    for (int32_t i = 0; i < query.heads * DIM; i++)
        if (!(fabs(out[i] - want[i % DIM]) <= 4e-6))
            fail_msg("%d keys in %d splits: [%d] %.8g, not %.8g (%s)", keys, query.splits, i,
                     (double)out[i], want[i % DIM], weft_plan_describe(plan));
    for (int32_t i = 0; i < query.heads; i++)
        assert_true(fabs(lse[i] - want_lse) <= 2e-5 + 0x1p-22 * fabs(want_lse));
    weft_plan_destroy(plan);
    free(workspace);
}

static void attend_by(weft_context *context, const char *variant, int32_t keys, int32_t splits,
                      const double want[DIM], double want_lse)
{
    attend_as(context, (struct query){variant, keys, splits, 1, 1, 1}, want, want_lse);
}

static void attend(weft_context *context, int32_t keys, int32_t splits, const double want[DIM],
                   double want_lse)
{
    attend_by(context, NULL, keys, splits, want, want_lse);
}

// The n-th kernel that serves caches of f32, NULL past the last: those of one query head alike, and of many.
static const char *kernel_of_f32(weft_context *context, int32_t n)
{
    weft_kernel_info kernel;
    for (int32_t i = 0; weft_kernel_at(context, i, &kernel); i++)
        if (kernel.usable &&
            (strncmp(kernel.name, "attention_f32", 13) == 0 ||
             strncmp(kernel.name, "attention_any", 13) == 0) &&
            n-- == 0)
            return kernel.name;
    return NULL;
}

static void rising_scores(void **state)
{
    const double steepness[] = {60, -60, 5};
    for (int n = 0; n < 3; n++) {
        double want[DIM];
        fill(KEYS, steepness[n]);
        double lse = expect(KEYS, want);
        attend(*state, KEYS, 0, want, lse);
        attend(*state, KEYS, 1, want, lse);
    }
}

static void any_number_of_splits(void **state)
{
    enum { FEW = 1000 };
    double want[DIM];
    fill(FEW, 20);
    double lse = expect(FEW, want);
    for (int32_t splits = 1; splits <= 128; splits++)
        attend(*state, FEW, splits, want, lse);
    attend(*state, FEW, 5000, want, lse); // more than there are keys
}

static void huge_scores(void **state)
{
    enum { FEW = 500 };
    const double steepness[] = {1e9, -1e17, 1e30};
    const char *kernel;
    for (int n = 0; n < 3; n++)
        for (int32_t i = 0; (kernel = kernel_of_f32(*state, i)); i++) {
            double want[DIM];
            fill(FEW, steepness[n]);
            double lse = expect(FEW, want);
            attend_by(*state, kernel, FEW, 1, want, lse);
            attend_by(*state, kernel, FEW, 3, want, lse);
        }
}

// One key has nearly all the weight, each of the others 2^-25 of it: less than half a unit in the last place of a sum,
// 6e-5 together.
static void small_weights_beside_a_large_one(void **state)
{
    enum { FEW = 2000 };
    double want[DIM];
    const char *kernel;
    fill(FEW, 0);
    k[0] = 17.33f;
    for (int32_t i = 0; i < FEW * DIM; i++)
        v[i] = i < DIM ? 1.04f : 1 + (float)(i % 7) / 8;
    double lse = expect(FEW, want);
    for (int32_t i = 0; (kernel = kernel_of_f32(*state, i)); i++)
        for (int32_t heads = 1; heads <= MOST_HEADS; heads += MOST_HEADS - 1)
            attend_as(*state, (struct query){kernel, FEW, 1, heads, 1, 1}, want, lse);
}

// The least number that f32 has, which a scale below 1/2 would make 0, meets an infinity: a score of -infinity, no NaN.
static void queries_below_the_normal_numbers(void **state)
{
    enum { FEW = 100 };
    double want[DIM];
    const char *kernel;
    fill(FEW, 0);
    k[70 * DIM] = -INFINITY;
    double lse = expect(FEW, want);
    for (int32_t i = 0; (kernel = kernel_of_f32(*state, i)); i++)
        for (int32_t heads = 1; heads <= MOST_HEADS; heads += MOST_HEADS - 1)
            attend_as(*state, (struct query){kernel, FEW, 1, heads, 0x1p-149f, 0.1f}, want, lse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rising_scores),
        cmocka_unit_test(any_number_of_splits),
        cmocka_unit_test(huge_scores),
        cmocka_unit_test(small_weights_beside_a_large_one),
        cmocka_unit_test(queries_below_the_normal_numbers),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
