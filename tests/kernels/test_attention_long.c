// SPDX-License-Identifier: MIT
// Long sequences and many splits against softmax written down in double: scores that rise over 131072 keys,
// so that every block shrinks what came before it, every number of splits from 1 to 128, and scores so large
// that a float does not hold them to 1.
#include <math.h>

#include "tests/support/context_fixture.h"

enum { KEYS = 131072, DIM = 8 };

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

static void attend_by(weft_context *context, const char *variant, int32_t keys, int32_t splits,
                      const double want[DIM], double want_lse)
{
    weft_plan *plan;
    float q[DIM], out[DIM], lse;
    const int32_t cu[2] = {0, 1}, page = 0;
    const weft_attention_desc desc = {
        .size = sizeof desc,
        .kv = {.dtype = WEFT_F32, .num_kv_heads = 1, .head_dim = DIM, .page_size = keys},
        .num_q_heads = 1,
        .scale = 1,
        .max_kv_len = keys,
        .num_splits = splits,
        .variant = variant};
    assert_int_equal(weft_attention_plan(context, &desc, &plan), WEFT_OK);
    size_t bytes = weft_plan_workspace_bytes(plan);
    void *workspace = aligned_alloc(64, (bytes + 63) / 64 * 64);
    for (int32_t i = 0; i < DIM; i++)
        q[i] = 1;
    const weft_attention_args args = {.size = sizeof args,
                                      .num_seqs = 1,
                                      .q = q,
                                      .out = out,
                                      .lse = &lse,
                                      .pool = {.k.data = k, .v.data = v, .num_pages = 1},
                                      .cu_q_lens = cu,
                                      .kv_lens = &keys,
                                      .page_table = &page,
                                      .workspace = workspace,
                                      .workspace_bytes = bytes};
    assert_int_equal(weft_attention_run(plan, &args), WEFT_OK);
    for (int32_t i = 0; i < DIM; i++)
        if (!(fabs(out[i] - want[i]) <= 4e-6))
            fail_msg("%d keys in %d splits: [%d] %g, not %g (%s)", keys, splits, i, (double)out[i],
                     want[i], weft_plan_describe(plan));
    assert_true(fabs(lse - want_lse) <= 2e-5 + 0x1p-22 * fabs(want_lse));
    weft_plan_destroy(plan);
    free(workspace);
}

static void attend(weft_context *context, int32_t keys, int32_t splits, const double want[DIM],
                   double want_lse)
{
    attend_by(context, NULL, keys, splits, want, want_lse);
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
    weft_kernel_info kernel;
    for (int n = 0; n < 3; n++)
        for (int32_t i = 0; weft_kernel_at(*state, i, &kernel); i++) {
            double want[DIM];
            if (!kernel.usable || (strncmp(kernel.name, "attention_f32", 13) != 0 &&
                                   strncmp(kernel.name, "attention_any", 13) != 0))
                continue;
            fill(FEW, steepness[n]);
            double lse = expect(FEW, want);
            attend_by(*state, kernel.name, FEW, 1, want, lse);
            attend_by(*state, kernel.name, FEW, 3, want, lse);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rising_scores),
        cmocka_unit_test(any_number_of_splits),
        cmocka_unit_test(huge_scores),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
