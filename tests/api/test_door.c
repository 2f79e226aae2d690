// SPDX-License-Identifier: MIT
// What is refused at the door and by nobody behind it: a number or a member of which a kernel would make reads or
// writes beyond what it was given. Nothing is written.
#include "tests/support/context_fixture.h"

enum { DIM = 32, HEADS = 2, PAGE = 4, PAGES = 4, KEYS = 8, ELEMS = PAGES * PAGE * HEADS * DIM };

static float in[ELEMS], keys[ELEMS], values[ELEMS], out[ELEMS];
static _Alignas(64) unsigned char workspace[1 << 17];
static const int32_t cu[] = {0, 2}, kv_lens[] = {KEYS}, table[] = {0, 1};

static void nothing_was_written(void)
{
    for (int i = 0; i < ELEMS; i++)
        assert_true(out[i] == 0 && keys[i] == 0 && values[i] == 0);
}

// --- attention: two queries of one sequence ---------------------------------------------------------------

static weft_plan *attention(weft_context *context, weft_attention_desc desc)
{
    weft_plan *plan = NULL;
    desc.size = sizeof desc;
    desc.kv.num_kv_heads = HEADS, desc.kv.head_dim = DIM, desc.kv.page_size = PAGE;
    desc.kv.dtype = desc.kv.dtype ? desc.kv.dtype : WEFT_F32;
    desc.num_q_heads = HEADS, desc.max_q_tokens = 2, desc.max_kv_len = KEYS;
    if (weft_attention_plan(context, &desc, &plan) != WEFT_OK)
        fail_msg("%s", weft_error_text(context));
    assert_true(weft_plan_workspace_bytes(plan) <= sizeof workspace);
    return plan;
}

static weft_attention_args attention_args(void)
{
    return (weft_attention_args){.size = sizeof(weft_attention_args),
                                 .num_seqs = 1,
                                 .q = in,
                                 .out = out,
                                 .pool = {.k.data = keys, .v.data = values, .num_pages = PAGES},
                                 .cu_q_lens = cu,
                                 .kv_lens = kv_lens,
                                 .page_table = table,
                                 .workspace = workspace,
                                 .workspace_bytes = sizeof workspace};
}

#define ATTENTION_REFUSES(words, description, ...)                                                 \
    do {                                                                                           \
        weft_plan *plan = attention(*state, (weft_attention_desc)description);                     \
        weft_attention_args args = attention_args();                                               \
        __VA_ARGS__;                                                                               \
        assert_refused(*state, weft_attention_run(plan, &args), WEFT_EINVAL, words);               \
        weft_plan_destroy(plan);                                                                   \
    } while (0)
#define OF(...)                                                                                    \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static void attention_refuses(void **state)
{
    ATTENTION_REFUSES("no whole number of blocks", OF(.kv.dtype = WEFT_Q8_0),
                      args.pool.k.token_stride = DIM + 8);
    ATTENTION_REFUSES("no whole number of blocks", OF(.kv.dtype = WEFT_Q8_0),
                      args.pool.v.page_stride = PAGE * HEADS * DIM + 8);
    ATTENTION_REFUSES("the pool gives none",
                      OF(.kv.dtype = WEFT_INT8, .kv.scaling = WEFT_KV_SCALING_TOKEN),
                      args.pool.k.scales = NULL);
    ATTENTION_REFUSES("tree_parents[1]=1", OF(.mask = WEFT_MASK_TREE),
                      args.tree_parents = (const int32_t[]){-1, 1});
    ATTENTION_REFUSES("9 mask columns for 8 keys", OF(.mask = WEFT_MASK_BITS),
                      args.mask_bits = (const uint32_t[]){3, 3},
                      args.mask_columns = (const int32_t[]){KEYS + 1});
    ATTENTION_REFUSES("num_seqs_at holds -1", OF(.flags = 0),
                      args.num_seqs_at = (const int32_t[]){-1});
    ATTENTION_REFUSES(
        "ascending order",
        OF(.flags = WEFT_ATTENTION_SPARSE_LISTS, .sparse_queries = 2, .sparse_keys = PAGE),
        args.sparse_blocks = (const int32_t[]){1, 1}, args.sparse_starts = (const int32_t[]){0, 2},
        args.sparse_first = (const int32_t[]){0});
    nothing_was_written();
}

// --- caches -----------------------------------------------------------------------------------------------

static void append_refuses(void **state)
{
    weft_kv_append_desc desc = {
        .size = sizeof desc,
        .max_tokens = 1,
        .num_q_heads = HEADS,
        .layout = {.dtype = WEFT_F32, .num_kv_heads = HEADS, .head_dim = DIM, .page_size = PAGE}};
    const int32_t slot = 0;
    weft_kv_append_args args = {.size = sizeof args,
                                .tokens = 1,
                                .pool = {.k.data = keys, .v.data = values, .num_pages = PAGES},
                                .k = in,
                                .v = in,
                                .q = in,
                                .slots = &slot};
    weft_plan *without, *with;
    assert_int_equal(weft_kv_append_plan(*state, &desc, &without), WEFT_OK);
    desc.q_out_dtype = WEFT_F16;
    assert_int_equal(weft_kv_append_plan(*state, &desc, &with), WEFT_OK);
    assert_refused(*state, weft_kv_append_run(with, &args), WEFT_EINVAL, "q_out must be given");
    args.q_out = out;
    assert_refused(*state, weft_kv_append_run(without, &args), WEFT_EINVAL, "just where the plan");
    weft_plan_destroy(without);
    weft_plan_destroy(with);
    nothing_was_written();
}

static void owning_refuses(void **state)
{
    const weft_pages_desc desc = {
        .size = sizeof desc,
        .mode = WEFT_PAGES_OWN,
        .layout = {.dtype = WEFT_F32, .num_kv_heads = HEADS, .head_dim = DIM, .page_size = PAGE}};
    int32_t pages[] = {PAGES}, references[PAGES] = {0}, copied = 0;
    const int32_t entry = 0, spare = 1;
    const weft_kv_pool pool = {.k.data = keys, .v.data = values, .num_pages = PAGES};
    const weft_pages_args args = {.size = sizeof args,
                                  .count = 1,
                                  .from = pool,
                                  .to = pool,
                                  .to_pages = &spare,
                                  .page_table = pages,
                                  .entries_bound = 1,
                                  .entries = &entry,
                                  .references = references,
                                  .copied = &copied};
    weft_plan *plan;
    assert_int_equal(weft_pages_plan(*state, &desc, &plan), WEFT_OK);
    assert_refused(*state, weft_pages_run(plan, &args), WEFT_EINVAL, "page_table[0]=4");
    assert_int_equal(pages[0], PAGES);
    weft_plan_destroy(plan);
    nothing_was_written();
}

// Two pages where there is room for one.
static void batch_refuses(void **state)
{
    weft_plan *plan = attention(*state, (weft_attention_desc){.mask = WEFT_MASK_FULL});
    weft_batch *batch;
    const weft_batch_desc desc = {.size = sizeof desc,
                                  .max_q_tokens = 2,
                                  .max_kv_len = KEYS,
                                  .page_size = PAGE,
                                  .max_pages = 1,
                                  .plans = (const weft_plan *const *)&plan,
                                  .num_plans = 1};
    const weft_batch_args args = {.size = sizeof args,
                                  .num_seqs = 1,
                                  .cu_q_lens = cu,
                                  .kv_lens = kv_lens,
                                  .page_table = table,
                                  .num_pages = PAGES};
    assert_int_equal(weft_batch_create(*state, &desc, &batch), WEFT_OK);
    assert_refused(*state, weft_batch_set(batch, &args), WEFT_EINVAL,
                   "2 pages, at most 1 are planned");
    weft_batch_destroy(batch);
    weft_plan_destroy(plan);
}

// --- linear -----------------------------------------------------------------------------------------------

static void gate_refuses(void **state)
{
    weft_linear_desc desc = {.size = sizeof desc,
                             .cols = DIM,
                             .num_parts = 2,
                             .gate = WEFT_LINEAR_GATE_SILU,
                             .parts = {{.weight_dtype = WEFT_F32, .rows = DIM},
                                       {.weight_dtype = WEFT_F32, .rows = DIM}}};
    weft_linear_args args = {.size = sizeof args,
                             .batch = 1,
                             .x = in,
                             .y = out,
                             .parts = {{.weight = in}, {.packed = workspace}},
                             .workspace = workspace,
                             .workspace_bytes = sizeof workspace};
    weft_plan *plan;
    assert_int_equal(weft_linear_plan(*state, &desc, &plan), WEFT_OK);
    assert_refused(*state, weft_linear_run(plan, &args), WEFT_EINVAL, "packed, or neither");
    weft_plan_destroy(plan);
    desc.flags = WEFT_LINEAR_NEXT;
    assert_refused(*state, weft_linear_plan(*state, &desc, &plan), WEFT_EINVAL,
                   "neither a gate nor a rounded y");
    nothing_was_written();
}

// --- contexts ---------------------------------------------------------------------------------------------

static void no_loop(void *user, int32_t count, weft_task_fn *task, void *work)
{
    (void)user, (void)count, (void)task, (void)work;
}

static void context_refuses(void **state)
{
    (void)state;
    weft_executor executor = {.threads = 1025, .parallel_for = no_loop};
    const weft_context_desc desc = {.size = sizeof desc, .executor = &executor};
    weft_context *context = NULL;
    assert_refused(NULL, weft_context_create(&desc, &context), WEFT_EINVAL, "1 to 1024 threads");
    executor.threads = 0;
    assert_refused(NULL, weft_context_create(&desc, &context), WEFT_EINVAL, "1 to 1024 threads");
    assert_null(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_refuses), cmocka_unit_test(append_refuses),
        cmocka_unit_test(owning_refuses),    cmocka_unit_test(batch_refuses),
        cmocka_unit_test(gate_refuses),      cmocka_unit_test(context_refuses)};
    return cmocka_run_group_tests(tests, open_context, close_context);
}
