// SPDX-License-Identifier: MIT
// How attention divides its work: every (row, key) exactly once, chunks and slots within their bounds,
// at the boundaries of tiles, chunks and sequences.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/kernels/attention/attention_work.h"
#include "src/plan/plan.h"
#include "src/plan/plan_attention.h"

enum { MOST_SEQS = 8 };

struct batch {
    int32_t seqs, cu[MOST_SEQS + 1], kv[MOST_SEQS];
};

static weft_plan *make_plan(int32_t threads, const weft_attention_desc *desc)
{
    static weft_context *context; // one per call; the test process ends soon
    weft_plan *plan = NULL;
    weft_context_desc context_desc = {.size = sizeof context_desc, .threads = threads};
    assert_int_equal(weft_context_create(&context_desc, &context), WEFT_OK);
    assert_int_equal(weft_attention_plan(context, desc, &plan), WEFT_OK);
    return plan;
}

static void free_plan(weft_plan *plan)
{
    weft_context *context = plan->context;
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

static weft_attention_desc descriptor(void)
{
    return (weft_attention_desc){
        .size = sizeof(weft_attention_desc),
        .kv = {.dtype = WEFT_F16, .num_kv_heads = 2, .head_dim = 64, .page_size = 16},
        .num_q_heads = 8,
        .max_seqs = MOST_SEQS,
        .max_q_tokens = 4096,
        .max_kv_len = 100000,
    };
}

static struct weft__attention_lengths lengths_of(const struct batch *batch)
{
    return (struct weft__attention_lengths){batch->seqs, batch->cu, batch->kv, NULL};
}

// Walks all tasks and counts how often each tile's keys are covered.
static struct weft__attention_totals verify(const weft_plan *plan, const struct batch *batch)
{
    const struct weft__attention_launch *launch = plan->launch;
    struct weft__attention_work work[MOST_SEQS + 1];
    const struct weft__attention_lengths lengths = lengths_of(batch);
    struct weft__attention_totals totals = weft__attention_divide(launch, &lengths, work);
    int64_t keys = 0, wanted = 0, tokens = 0;
    unsigned char *slots = calloc((size_t)launch->max_slots + 1, 1);
    int32_t *merged = calloc((size_t)totals.merges + 1, sizeof *merged); // chunks of split tiles
    for (int32_t i = 0; i < totals.tasks; i++) {
        struct weft__attention_place at = weft__attention_task(launch, &lengths, work, i);
        int32_t q_len = batch->cu[at.seq + 1] - batch->cu[at.seq];
        assert_in_range(at.kv_head, 0, launch->kv.num_kv_heads - 1);
        assert_in_range(at.tokens, 1, weft__attention_tile_tokens(launch, q_len));
        assert_true(at.first_token + at.tokens <= q_len);
        assert_true(at.key0 <= at.key1 && at.key1 <= batch->kv[at.seq]);
        keys += (int64_t)(at.key1 - at.key0) * at.tokens;
        tokens += at.chunk == 0 ? at.tokens : 0;
        if (at.slot >= 0) {
            assert_true(at.slot < launch->max_slots);
            assert_int_equal(slots[at.slot]++, 0);
            assert_in_range(at.merge, 0, totals.merges - 1);
            assert_int_equal(merged[at.merge]++, at.chunk);
            assert_true(at.slot - at.chunk + at.chunks <= launch->max_slots);
        }
        if (at.chunk == at.chunks - 1 && at.slot >= 0)
            assert_int_equal(merged[at.merge], at.chunks);
        if (totals.chunk_keys > 0 && q_len <= launch->split_tokens)
            assert_true(at.key1 - at.key0 <= totals.chunk_keys);
    }
    for (int32_t s = 0; s < batch->seqs; s++) {
        int32_t q_len = batch->cu[s + 1] - batch->cu[s];
        int32_t most = weft__attention_tile_tokens(launch, q_len);
        for (int32_t first = 0; first < q_len; first += most) {
            int32_t n = q_len - first < most ? q_len - first : most;
            struct weft__attention_span span =
                weft__attention_union(&launch->mask, q_len, batch->kv[s], 0, first, n);
            wanted += (int64_t)(span.end - span.begin) * n;
        }
    }
    assert_int_equal(keys, wanted * launch->kv.num_kv_heads);
    assert_int_equal(tokens, (int64_t)batch->cu[batch->seqs] * launch->kv.num_kv_heads);
    free(merged);
    free(slots);
    return totals;
}

static struct weft__attention_span visible(weft_mask kind, int32_t window, int32_t q_len,
                                           int32_t kv_len, int32_t token)
{
    const struct weft__attention_mask mask = {.kind = kind, .window = window};
    return weft__attention_visible(&mask, q_len, kv_len, 0, token);
}

static void spans(void **state)
{
    (void)state;
    struct weft__attention_span at = visible(WEFT_MASK_CAUSAL, 0, 3, 10, 0);
    assert_true(at.begin == 0 && at.end == 8);
    at = visible(WEFT_MASK_CAUSAL, 1, 3, 10, 2); // W = 1: only its own key
    assert_true(at.begin == 9 && at.end == 10);
    at = visible(WEFT_MASK_CAUSAL, 100, 3, 10, 2);
    assert_true(at.begin == 0 && at.end == 10);
    at = visible(WEFT_MASK_FULL, 4, 3, 10, 0);
    assert_true(at.begin == 4 && at.end == 10);
    at = visible(WEFT_MASK_FULL, 0, 12, 10, 0);
    assert_true(at.begin == 0 && at.end == 10);
    at = visible(WEFT_MASK_CAUSAL, 0, 0, 0, 0);
    assert_true(at.begin == at.end);
    at = weft__attention_union(
        &(struct weft__attention_mask){.kind = WEFT_MASK_CAUSAL, .window = 5}, 4, 20, 0, 1, 3);
    assert_true(at.begin == 13 && at.end == 20);
}

static void covers_every_key_once(void **state)
{
    (void)state;
    const int32_t threads[] = {1, 2, 3, 64}, splits[] = {0, 1, 2, 7}, windows[] = {0, 1, 300};
    const struct batch batches[] = {
        {1, {0, 1}, {1}},
        {1, {0, 1}, {16384}},
        {1, {0, 4096}, {4096}},
        {1, {0, 25}, {90000}},
        {5, {0, 0, 1, 1, 49, 50}, {0, 255, 17, 48, 70000}},
        {8, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {1, 63, 64, 65, 255, 256, 257, 100000}},
        {2, {0, 0, 0}, {0, 5}},
    };
    for (size_t t = 0; t < 4; t++)
        for (size_t n = 0; n < 4; n++)
            for (size_t w = 0; w < 3; w++)
                for (size_t b = 0; b < sizeof batches / sizeof *batches; b++)
                    for (uint32_t flags = 0; flags < 2; flags++) {
                        weft_attention_desc desc = descriptor();
                        desc.num_splits = splits[n];
                        desc.window = windows[w];
                        desc.flags = flags;
                        weft_plan *plan = make_plan(threads[t], &desc);
                        verify(plan, &batches[b]);
                        free_plan(plan);
                    }
}

// How much there is to do decides, not who does it.
static void splits_by_the_work(void **state)
{
    (void)state;
    const struct batch decode = {1, {0, 1}, {65536}}, prefill = {1, {0, 4096}, {4096}};
    const struct batch few = {1, {0, 1}, {2048}}, tiny = {1, {0, 1}, {1024}};
    const struct batch long_enough = {1, {0, 1}, {8192}}, least = {1, {0, 1}, {256}};
    const struct batch rows = {1, {0, 24}, {2048}};
    const int32_t threads[] = {1, 2, 16, 200};
    weft_attention_desc desc = descriptor();
    for (int i = 0; i < 4; i++) {
        weft_plan *plan = make_plan(threads[i], &desc);
        assert_int_equal(verify(plan, &decode).tasks, 94);
        assert_int_equal(verify(plan, &decode).merges, 2);
        assert_int_equal(verify(plan, &long_enough).tasks, 16); // 1024 keys are worth a task
        assert_int_equal(verify(plan, &few).tasks, 16);         // 256, where there are few
        assert_int_equal(verify(plan, &tiny).tasks, 8);
        assert_int_equal(verify(plan, &least).merges, 0);
        assert_int_equal(verify(plan, &rows).tasks, 4);     // more rows are not worth that
        assert_int_equal(verify(plan, &prefill).merges, 0); // enough tiles as it is
        free_plan(plan);
    }
}

// Tiles enough are not split: each is a task. Those that are very long are, and those beside one that is
// much longer than the rest.
static void many_tiles_stay_whole(void **state)
{
    (void)state;
    const struct batch prompt = {1, {0, 128}, {2048}}, short_prompt = {1, {0, 24}, {512}};
    const struct batch long_keys = {1, {0, 128}, {65536}}, fewer = {1, {0, 72}, {2048}};
    const struct batch among = {8, {0, 1, 2, 3, 4, 5, 6, 7, 8}, {16384, 8, 8, 8, 8, 8, 8, 8}};
    const int32_t threads[] = {1, 2, 64};
    for (int i = 0; i < 3; i++) {
        weft_attention_desc desc = descriptor();
        desc.kv.num_kv_heads = 8;
        desc.num_q_heads = 32;
        desc.tile_rows = 96;
        weft_plan *plan = make_plan(threads[i], &desc);
        struct weft__attention_totals totals = verify(plan, &prompt);
        assert_true(totals.tasks == 6 * 8 && totals.merges == 0);
        totals = verify(plan, &short_prompt);
        assert_true(totals.tasks == 8 && totals.merges == 0);
        totals = verify(plan, &fewer); // 24 tiles: in two
        assert_true(totals.tasks == 2 * 3 * 8 && totals.merges == 3 * 8);
        totals = verify(plan, &long_keys);
        assert_true(totals.merges == 6 * 8 && totals.chunk_keys >= 8192);
        totals = verify(plan, &among); // 64 tiles, but work for 8 of the longest
        assert_true(totals.tasks == 12 * 8 + 7 * 8 && totals.merges == 8);
        free_plan(plan);
    }
}

static weft_plan *make_tuned(const weft_attention_desc *desc, weft_tuning entry)
{
    weft_context *context;
    weft_plan *plan = NULL;
    const weft_context_desc context_desc = {
        .size = sizeof context_desc, .threads = 2, .tuning = ""};
    entry.size = sizeof entry;
    entry.op = WEFT_TUNING_ATTENTION;
    assert_int_equal(weft_context_create(&context_desc, &context), WEFT_OK);
    assert_int_equal(weft_tuning_add(context, &entry), WEFT_OK);
    assert_int_equal(weft_attention_plan(context, desc, &plan), WEFT_OK);
    return plan;
}

// One pass up to the threshold, chunks beyond it; tiles as the table says; neither where bits must not move.
static void thresholds_come_from_the_table(void **state)
{
    (void)state;
    const struct batch at = {1, {0, 1}, {256}}, beyond = {1, {0, 1}, {257}};
    const struct batch far = {1, {0, 1}, {65536}}, prompt = {1, {0, 1024}, {1024}};
    weft_attention_desc desc = descriptor();
    weft_plan *plan = make_tuned(&desc, (weft_tuning){.dtype = WEFT_F16, .least_chunk = 256});
    assert_int_equal(verify(plan, &at).merges, 0);
    assert_int_equal(verify(plan, &beyond).merges, 2);
    assert_int_equal(verify(plan, &far).tasks, 94);
    free_plan(plan);
    plan = make_tuned(&desc, (weft_tuning){.head_dim = 64, .target_tasks = 16, .tile_rows = 32});
    assert_int_equal(verify(plan, &far).tasks, 16);
    assert_int_equal(verify(plan, &at).merges, 0);
    assert_int_equal(verify(plan, &prompt).tasks, 2 * 1024 / (32 / 4));
    free_plan(plan);
    plan = make_tuned(&desc, (weft_tuning){.head_dim = 128, .target_tasks = 16});
    assert_int_equal(verify(plan, &far).tasks, 94); // of another head_dim
    free_plan(plan);
    desc.tile_rows = 64; // the descriptor's own word goes first
    plan = make_tuned(&desc, (weft_tuning){.tile_rows = 32});
    assert_int_equal(verify(plan, &prompt).tasks, 2 * 1024 / (64 / 4));
    free_plan(plan);
    desc.tile_rows = 0;
    desc.flags = WEFT_ATTENTION_BATCH_INVARIANT;
    weft_plan *fixed = make_plan(2, &desc);
    plan = make_tuned(&desc, (weft_tuning){.least_chunk = 64, .target_tasks = 1, .tile_rows = 8});
    assert_int_equal(verify(plan, &far).tasks, verify(fixed, &far).tasks);
    assert_int_equal(verify(plan, &prompt).tasks, verify(fixed, &prompt).tasks);
    free_plan(plan);
    free_plan(fixed);
}

// With a full mask a window reaches from the first query to the end: its tile sees most keys.
static void the_first_tile_of_a_full_window_is_the_longest(void **state)
{
    (void)state;
    const struct batch batch = {1, {0, 1100}, {1100}}, edge = {1, {0, 4}, {5000}};
    weft_attention_desc desc = descriptor();
    desc.mask = WEFT_MASK_FULL;
    desc.window = 10;
    desc.tile_rows = 400;
    weft_plan *plan = make_plan(2, &desc);
    struct weft__attention_totals totals = verify(plan, &batch);
    assert_true(totals.chunk_keys > 0 && totals.merges > 0);
    free_plan(plan);
    desc.tile_rows = 0;
    desc.window = 511; // 514 keys for the first query, 511 for the last
    desc.num_q_heads = 2 * 200;
    desc.max_kv_len = 8000;
    desc.flags = WEFT_ATTENTION_BATCH_INVARIANT;
    plan = make_plan(2, &desc);
    assert_int_equal(verify(plan, &edge).chunk_keys, 512);
    free_plan(plan);
}

// Batch-invariant: the chunks of a sequence are the same whatever else is in the batch.
static void invariant_chunks(void **state)
{
    (void)state;
    const struct batch alone = {1, {0, 1}, {5000}};
    const struct batch among = {3, {0, 1, 2, 3}, {5000, 100000, 3}};
    struct weft__attention_work a[MOST_SEQS + 1], b[MOST_SEQS + 1];
    weft_attention_desc desc = descriptor();
    desc.flags = WEFT_ATTENTION_BATCH_INVARIANT;
    weft_plan *plan = make_plan(16, &desc);
    const struct weft__attention_lengths one = lengths_of(&alone), all = lengths_of(&among);
    weft__attention_divide(plan->launch, &one, a);
    weft__attention_divide(plan->launch, &all, b);
    assert_int_equal(a[0].chunks, b[0].chunks);
    assert_int_equal(b[2].chunks, 1);
    assert_int_equal(b[1].chunks, 16);
    free_plan(plan);
}

static void tiles_hold_whole_groups(void **state)
{
    (void)state;
    weft_attention_desc desc = descriptor();
    const int32_t heads[] = {2, 6, 14, 1024};
    for (size_t i = 0; i < 4; i++) {
        desc.num_q_heads = heads[i];
        weft_plan *plan = make_plan(2, &desc);
        const struct weft__attention_launch *launch = plan->launch;
        int32_t group = heads[i] / 2, rows = launch->kernel->tile_rows;
        assert_int_equal(launch->group_size, group);
        assert_int_equal(launch->tile_tokens, rows / group > 0 ? rows / group : 1);
        free_plan(plan);
    }
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    weft_context *context;
    weft_plan *plan = NULL;
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    weft_attention_desc desc = descriptor();
    desc.max_q_tokens = INT32_MAX;
    desc.num_splits = INT32_MAX;
    assert_int_equal(weft_attention_plan(context, &desc, &plan), WEFT_EOVERFLOW);
    assert_null(plan);
    weft_context_destroy(context);
}

// What is divided is what the window shows, not what the cache holds.
static void windows_shorten_the_division(void **state)
{
    (void)state;
    const struct batch batch = {1, {0, 1}, {100000}};
    weft_attention_desc desc = descriptor();
    weft_plan *plan = make_plan(4, &desc);
    struct weft__attention_totals whole = verify(plan, &batch);
    assert_true(whole.tasks > 32 && whole.merges == 2);
    free_plan(plan);
    desc.window = 1100;
    plan = make_plan(4, &desc);
    struct weft__attention_totals windowed = verify(plan, &batch);
    assert_int_equal(windowed.tasks, 2 * 5); // KV heads times chunks of 256 keys
    free_plan(plan);
    desc.window = 200;
    plan = make_plan(4, &desc);
    windowed = verify(plan, &batch);
    assert_true(windowed.tasks == 2 && windowed.merges == 0);
    free_plan(plan);
}

// Memory grows with tiles, never with queries times keys.
static void long_prompts_need_little_memory(void **state)
{
    (void)state;
    weft_attention_desc desc = descriptor();
    desc.kv.num_kv_heads = 8;
    desc.kv.head_dim = 128;
    desc.num_q_heads = 32;
    desc.max_seqs = 1;
    desc.max_q_tokens = desc.max_kv_len = 4096;
    weft_plan *plan = make_plan(16, &desc);
    size_t bytes = weft_plan_workspace_bytes(plan);
    assert_true(bytes < (size_t)64 << 20);
    free_plan(plan);
    desc.max_kv_len = 1 << 20;
    plan = make_plan(16, &desc);
    assert_int_equal(weft_plan_workspace_bytes(plan), bytes);
    free_plan(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_shorten_the_division),
        cmocka_unit_test(long_prompts_need_little_memory),
        cmocka_unit_test(spans),
        cmocka_unit_test(covers_every_key_once),
        cmocka_unit_test(splits_by_the_work),
        cmocka_unit_test(many_tiles_stay_whole),
        cmocka_unit_test(thresholds_come_from_the_table),
        cmocka_unit_test(the_first_tile_of_a_full_window_is_the_longest),
        cmocka_unit_test(invariant_chunks),
        cmocka_unit_test(tiles_hold_whole_groups),
        cmocka_unit_test(refuses_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
