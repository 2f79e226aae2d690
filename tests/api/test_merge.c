// SPDX-License-Identifier: MIT
// Merging attention states: a prefix that sequences share, attended to once for all of them, and their own
// keys give what attention over everything gives.
#include <math.h>

#include "tests/support/context_fixture.h"

enum { HEADS = 4, KV_HEADS = 2, DIM = 16, PAGE = 4, SEQS = 3, PREFIX = 8, MOST_KEYS = 20 };

// A cache in which the sequences' first pages are the same ones.
struct cache {
    float k[32 * PAGE * KV_HEADS * DIM], v[32 * PAGE * KV_HEADS * DIM];
    float q[SEQS * HEADS * DIM];
    int32_t table[SEQS][MOST_KEYS / PAGE], kv_lens[SEQS];
};

static void fill(struct cache *cache)
{
    uint32_t state = 7;
    float *const arrays[] = {cache->k, cache->v, cache->q};
    const size_t counts[] = {sizeof cache->k / 4, sizeof cache->v / 4, sizeof cache->q / 4};
    for (int n = 0; n < 3; n++)
        for (size_t i = 0; i < counts[n]; i++) {
            state = state * 1664525u + 1013904223u;
            arrays[n][i] = (float)(int32_t)state * 0x1p-30f;
        }
    for (int32_t s = 0, next = PREFIX / PAGE; s < SEQS; s++) {
        cache->kv_lens[s] = PREFIX + 1 + 4 * s;
        for (int32_t i = 0; i < MOST_KEYS / PAGE; i++)
            cache->table[s][i] = i < PREFIX / PAGE ? i : next++;
    }
}

static void attend(weft_context *context, struct cache *cache, weft_mask mask, int32_t seqs,
                   const int32_t *cu, const int32_t *kv_lens, const int32_t *table, float *out,
                   float *lse)
{
    weft_plan *plan;
    weft_attention_desc desc = {
        .size = sizeof desc,
        .kv = {.dtype = WEFT_F32, .num_kv_heads = KV_HEADS, .head_dim = DIM, .page_size = PAGE},
        .num_q_heads = HEADS,
        .mask = mask,
        .max_seqs = SEQS,
        .max_q_tokens = SEQS,
        .max_kv_len = MOST_KEYS};
    assert_int_equal(weft_attention_plan(context, &desc, &plan), WEFT_OK);
    size_t bytes = weft_plan_workspace_bytes(plan);
    void *workspace = aligned_alloc(64, (bytes + 127) / 64 * 64);
    weft_attention_args args = {
        .size = sizeof args,
        .num_seqs = seqs,
        .q = cache->q,
        .out = out,
        .lse = lse,
        .pool = {.k = {.data = cache->k}, .v = {.data = cache->v}, .num_pages = 32},
        .cu_q_lens = cu,
        .kv_lens = kv_lens,
        .page_table = table,
        .page_table_stride = MOST_KEYS / PAGE,
        .workspace = workspace,
        .workspace_bytes = bytes};
    assert_int_equal(weft_attention_run(plan, &args), WEFT_OK);
    weft_plan_destroy(plan);
    free(workspace);
}

static void a_shared_prefix(void **state)
{
    static struct cache cache;
    static float whole[SEQS * HEADS * DIM], parts[2][SEQS * HEADS * DIM], out[SEQS * HEADS * DIM];
    float lse[SEQS * HEADS], part_lse[2][SEQS * HEADS], out_lse[SEQS * HEADS];
    const int32_t each[] = {0, 1, 2, 3}, together[] = {0, SEQS}, prefix = PREFIX;
    int32_t own_lens[SEQS];
    fill(&cache);
    for (int32_t s = 0; s < SEQS; s++)
        own_lens[s] = cache.kv_lens[s] - PREFIX;
    attend(*state, &cache, WEFT_MASK_CAUSAL, SEQS, each, cache.kv_lens, cache.table[0], whole, lse);
    attend(*state, &cache, WEFT_MASK_FULL, 1, together, &prefix, cache.table[0], parts[0],
           part_lse[0]);
    attend(*state, &cache, WEFT_MASK_CAUSAL, SEQS, each, own_lens, cache.table[0] + PREFIX / PAGE,
           parts[1], part_lse[1]);
    weft_plan *plan;
    weft_merge_desc desc = {
        .size = sizeof desc, .num_heads = HEADS, .dim = DIM, .max_tokens = SEQS};
    assert_int_equal(weft_merge_plan(*state, &desc, &plan), WEFT_OK);
    weft_merge_args args = {.size = sizeof args,
                            .tokens = SEQS,
                            .num_states = 2,
                            .x = parts,
                            .lse = part_lse[0],
                            .out = out,
                            .out_lse = out_lse};
    assert_int_equal(weft_merge_run(plan, &args), WEFT_OK);
    for (int i = 0; i < SEQS * HEADS * DIM; i++)
        assert_true(fabsf(out[i] - whole[i]) <= 2e-6f);
    for (int i = 0; i < SEQS * HEADS; i++)
        assert_true(fabsf(out_lse[i] - lse[i]) <= 2e-6f);
    weft_plan_destroy(plan);
}

// Lengths and pages of what sequences have to themselves: the last one has all its keys.
static void own_keys(const struct cache *cache, int32_t lens[SEQS],
                     int32_t table[SEQS][MOST_KEYS / PAGE])
{
    for (int32_t s = 0; s < SEQS; s++) {
        int32_t shared = s < 2 ? PREFIX : 0;
        lens[s] = cache->kv_lens[s] - shared;
        for (int32_t i = 0; i + shared / PAGE < MOST_KEYS / PAGE; i++)
            table[s][i] = cache->table[s][i + shared / PAGE];
    }
}

// f16 beside f32.
static void expect_near(const uint16_t *out, const float *whole, const float *out_lse,
                        const float *lse)
{
    float wide[SEQS * HEADS * DIM];
    assert_int_equal(weft_dequantize_row(WEFT_F16, out, SEQS * HEADS * DIM, wide), WEFT_OK);
    for (int i = 0; i < SEQS * HEADS * DIM; i++)
        assert_true(fabsf(wide[i] - whole[i]) <= 2e-6f + 6e-4f * fabsf(whole[i]));
    for (int i = 0; i < SEQS * HEADS; i++)
        assert_true(fabsf(out_lse[i] - lse[i]) <= 2e-6f);
}

static const weft_attention_desc with_sinks = {
    .size = sizeof with_sinks,
    .flags = WEFT_ATTENTION_SINKS,
    .kv = {.dtype = WEFT_F32, .num_kv_heads = KV_HEADS, .head_dim = DIM, .page_size = PAGE},
    .num_q_heads = HEADS,
    .max_seqs = SEQS,
    .max_kv_len = MOST_KEYS};

// Two prefixes, one of them of no keys, sinks, and results in f16.
static void the_cascade_call(void **state)
{
    static struct cache cache;
    static float whole[SEQS * HEADS * DIM];
    static uint16_t out[SEQS * HEADS * DIM];
    float lse[SEQS * HEADS], out_lse[SEQS * HEADS];
    const float sinks[HEADS] = {0.5f, -1, 2, 0};
    const int32_t each[] = {0, 1, 2, 3}, prefix_cu[] = {0, 2, 3}, prefix_lens[] = {PREFIX, 0};
    int32_t own_lens[SEQS], table[SEQS][MOST_KEYS / PAGE] = {{0}};
    fill(&cache);
    own_keys(&cache, own_lens, table);
    weft_plan *plan;
    weft_cascade *cascade;
    weft_attention_desc desc = with_sinks;
    assert_int_equal(weft_attention_plan(*state, &desc, &plan), WEFT_OK);
    desc.out_dtype = WEFT_F16;
    weft_cascade_desc wish = {
        .size = sizeof wish, .max_prefixes = 2, .max_prefix_len = PREFIX, .attention = &desc};
    assert_int_equal(weft_cascade_create(*state, &wish, &cascade), WEFT_OK);
    size_t bytes = weft_cascade_workspace_bytes(cascade) + weft_plan_workspace_bytes(plan);
    void *workspace = aligned_alloc(64, (bytes + 127) / 64 * 64);
    weft_attention_args args = {
        .size = sizeof args,
        .num_seqs = SEQS,
        .q = cache.q,
        .out = whole,
        .lse = lse,
        .pool = {.k = {.data = cache.k}, .v = {.data = cache.v}, .num_pages = 32},
        .cu_q_lens = each,
        .kv_lens = cache.kv_lens,
        .page_table = cache.table[0],
        .page_table_stride = MOST_KEYS / PAGE,
        .sinks = sinks,
        .workspace = workspace,
        .workspace_bytes = bytes};
    assert_int_equal(weft_attention_run(plan, &args), WEFT_OK);
    args.out = out;
    args.lse = out_lse;
    args.kv_lens = own_lens;
    args.page_table = table[0];
    weft_cascade_args cascaded = {.size = sizeof cascaded,
                                  .num_prefixes = 2,
                                  .attention = &args,
                                  .prefix_cu_q_lens = prefix_cu,
                                  .prefix_lens = prefix_lens,
                                  .prefix_page_table = cache.table[0],
                                  .prefix_page_table_stride = MOST_KEYS / PAGE};
    assert_int_equal(weft_cascade_run(cascade, &cascaded), WEFT_OK);
    expect_near(out, whole, out_lse, lse);
    cascaded.prefix_cu_q_lens = (const int32_t[]){0, 1, 2};
    assert_refused(*state, weft_cascade_run(cascade, &cascaded), WEFT_EINVAL, "prefixes");
    weft_cascade_destroy(cascade);
    desc.window = 4;
    assert_refused(*state, weft_cascade_create(*state, &wish, &cascade), WEFT_EUNSUPPORTED,
                   "window");
    weft_plan_destroy(plan);
    free(workspace);
}

static void what_a_cascade_refuses(void **state)
{
    static struct cache cache;
    const int32_t each[] = {0, 1, 2, 3}, prefix_cu[] = {0, SEQS}, prefix_len = PREFIX;
    float out[SEQS * HEADS * DIM] = {0};
    weft_attention_desc desc = with_sinks;
    weft_cascade_desc wish = {.size = sizeof wish, .max_prefix_len = PREFIX, .attention = &desc};
    weft_cascade *cascade;
    fill(&cache);
    const uint32_t flags[] = {WEFT_ATTENTION_APPEND, WEFT_ATTENTION_OUT_ROUNDED};
    for (int i = 0; i < 2; i++) {
        desc.flags = flags[i];
        assert_refused(*state, weft_cascade_create(*state, &wish, &cascade), WEFT_EUNSUPPORTED,
                       "neither appends nor rounds");
    }
    desc.flags = 0;
    assert_int_equal(weft_cascade_create(*state, &wish, &cascade), WEFT_OK);
    size_t bytes = weft_cascade_workspace_bytes(cascade);
    void *workspace = aligned_alloc(64, (bytes + 63) / 64 * 64);
    const weft_attention_args good = {
        .size = sizeof good,
        .num_seqs = SEQS,
        .q = cache.q,
        .out = out,
        .pool = {.k = {.data = cache.k}, .v = {.data = cache.v}, .num_pages = 32},
        .cu_q_lens = each,
        .kv_lens = (const int32_t[SEQS]){PREFIX, PREFIX, PREFIX},
        .page_table = cache.table[0],
        .page_table_stride = MOST_KEYS / PAGE,
        .workspace = workspace,
        .workspace_bytes = bytes};
    weft_attention_args own = good;
    const weft_cascade_args args = {.size = sizeof args,
                                    .num_prefixes = 1,
                                    .attention = &own,
                                    .prefix_cu_q_lens = prefix_cu,
                                    .prefix_lens = &prefix_len,
                                    .prefix_page_table = cache.table[0]};
    own.num_seqs = 1 << 30; // nobody looks so far behind cu_q_lens
    assert_refused(*state, weft_cascade_run(cascade, &args), WEFT_EINVAL, "num_seqs=1073741824");
    own.num_seqs = -1;
    assert_refused(*state, weft_cascade_run(cascade, &args), WEFT_EINVAL, "num_seqs=-1");
    own = good;
    own.num_seqs_at = &each[1];
    assert_refused(*state, weft_cascade_run(cascade, &args), WEFT_EUNSUPPORTED, "num_seqs");
    for (int i = 0; i < SEQS * HEADS * DIM; i++)
        assert_true(out[i] == 0);
    own = good;
    assert_int_equal(weft_cascade_run(cascade, &args), WEFT_OK);
    weft_cascade_destroy(cascade);
    free(workspace);
}

// Empty parts, a single part, everything empty.
static void empty_parts(void **state)
{
    weft_plan *plan;
    float out[2], out_lse = 0;
    const float x[3][2] = {{NAN, INFINITY}, {3, -4}, {5, 8}};
    weft_merge_desc desc = {.size = sizeof desc, .num_heads = 1, .dim = 2, .max_states = 3};
    assert_int_equal(weft_merge_plan(*state, &desc, &plan), WEFT_OK);
    weft_merge_args args = {
        .size = sizeof args, .tokens = 1, .num_states = 3, .x = x, .out = out, .out_lse = &out_lse};
    args.lse = (const float[]){-INFINITY, 80, 80};
    assert_int_equal(weft_merge_run(plan, &args), WEFT_OK);
    assert_true(out[0] == 4 && out[1] == 2 && fabsf(out_lse - 80.693147f) < 1e-4f);
    args.lse = (const float[]){-INFINITY, 80, -INFINITY};
    assert_int_equal(weft_merge_run(plan, &args), WEFT_OK);
    assert_true(out[0] == 3 && out[1] == -4 && out_lse == 80);
    args.lse = (const float[]){-INFINITY, -INFINITY, -INFINITY};
    assert_int_equal(weft_merge_run(plan, &args), WEFT_OK);
    assert_true(out[0] == 0 && out[1] == 0 && out_lse == -INFINITY);
    args.num_states = 0;
    out[0] = 1;
    assert_int_equal(weft_merge_run(plan, &args), WEFT_OK);
    assert_true(out[0] == 0 && out_lse == -INFINITY);
    weft_plan_destroy(plan);
}

static void refuses(void **state)
{
    weft_context *context = *state;
    weft_plan *plan = NULL;
    float x[8] = {0}, lse[2] = {0};
    weft_merge_desc desc = {.size = sizeof desc, .num_heads = 1, .dim = 2000};
    assert_refused(context, weft_merge_plan(context, &desc, &plan), WEFT_EINVAL, "dim=2000");
    desc.dim = 4;
    desc.dtype = WEFT_Q8_0;
    assert_refused(context, weft_merge_plan(context, &desc, &plan), WEFT_EUNSUPPORTED, "dtype");
    desc.dtype = WEFT_F32;
    assert_int_equal(weft_merge_plan(context, &desc, &plan), WEFT_OK);
    weft_merge_args args = {
        .size = sizeof args, .tokens = 1, .num_states = 3, .x = x, .lse = lse, .out = x};
    assert_refused(context, weft_merge_run(plan, &args), WEFT_EINVAL, "num_states");
    args.num_states = 2;
    args.x_head_stride = 3;
    assert_refused(context, weft_merge_run(plan, &args), WEFT_EINVAL, "stride");
    args.x_head_stride = 0;
    args.lse = NULL;
    assert_refused(context, weft_merge_run(plan, &args), WEFT_EINVAL, "NULL");
    weft_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shared_prefix),
        cmocka_unit_test(the_cascade_call),
        cmocka_unit_test(what_a_cascade_refuses),
        cmocka_unit_test(empty_parts),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
