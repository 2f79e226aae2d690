// SPDX-License-Identifier: MIT
// The CUDA backend on a stand-in driver (tests/support/standin/): programs, batches and instances.
#define _GNU_SOURCE
#include <stdlib.h>

#include "src/kernels/attention/attention_device.h"
#include "src/kernels/kv/kv_device.h"
#include "tests/support/standin/standin_case.h"

// A program is a graph: recorded once, launched with new contents in the same places.
static void case_program(void)
{
    enum { BYTES = 4096 };
    weft_context *context = must_open();
    weft_plan *plan = norm_plan(context);
    weft_program *program = NULL;
    weft_program_info info = {.size = sizeof info};
    unsigned char *pinned, *out;
    void *x;
    char pageable[16];
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, BYTES, &x) == WEFT_OK);
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_PINNED, BYTES, (void **)&pinned) == WEFT_OK);
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_PINNED, BYTES, (void **)&out) == WEFT_OK);
    memset(pinned, 1, BYTES);
    memset(out, 0, BYTES);
    CHECK(weft_program_begin(context, &program) == WEFT_OK);
    CHECK(weft_copy(context, x, pinned, BYTES, NULL) == WEFT_OK);
    CHECK(norm_run(plan, x, 2, NULL) == WEFT_OK && norm_run(plan, x, 3, NULL) == WEFT_OK);
    CHECK(weft_copy(context, out, x, BYTES, NULL) == WEFT_OK);
    CHECK(weft_fill(context, x, 0, BYTES, NULL) == WEFT_OK);
    CHECK(weft_copy(context, x, pageable, sizeof pageable, NULL) == WEFT_EDEVICE);
    CHECK_TEXT(weft_error_text(context), "pinned");
    CHECK(standin->num_launches == 0 && standin->copies == 0 && out[0] == 0);
    CHECK(weft_program_launch(program, NULL) == WEFT_EINVAL); // has not ended
    CHECK(weft_program_end(program) == WEFT_OK);
    int64_t allocations = standin->allocations, waits = standin->synchronisations;
    for (int i = 1; i <= 5; i++) {
        memset(pinned, i, BYTES);
        CHECK(weft_program_launch(program, NULL) == WEFT_OK);
        CHECK(out[0] == i && out[BYTES - 1] == i);
    }
    CHECK(standin->allocations == allocations && standin->synchronisations == waits);
    CHECK(standin->graph_launches == 5 && standin->num_launches == 10);
    CHECK(weft_program_describe(program, &info) == WEFT_OK);
    CHECK(info.runs == 2 && info.copies == 3 && info.launches == 5);
    weft_program_destroy(program);
    // One that is given up, and a device that fails while recording.
    CHECK(weft_program_begin(context, &program) == WEFT_OK);
    CHECK(norm_run(plan, x, 1, NULL) == WEFT_OK);
    weft_program_destroy(program);
    CHECK(weft_program_begin(context, &program) == WEFT_OK);
    standin->lost = 700;
    CHECK(norm_run(plan, x, 1, NULL) == WEFT_EDEVICE);
    CHECK(weft_program_end(program) == WEFT_EDEVICE);
    weft_program_destroy(program);
    standin->lost = 0;
    CHECK(standin->live_graphs == 0);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
    CHECK(standin->live_streams == 0 && standin->live_allocations == 0);
}

// A plan of append and a batch of it: two sequences, eight tokens, sixteen keys in pages of four.
static weft_plan *append_plan(weft_context *context, const weft_rope_params *rope,
                              weft_batch **batch)
{
    const weft_kv_append_desc desc = {
        .size = sizeof desc,
        .max_tokens = 8,
        .layout = {.dtype = WEFT_F16, .num_kv_heads = 2, .head_dim = 64, .page_size = 4},
        .rope = rope};
    weft_plan *plan = NULL;
    CHECK(weft_kv_append_plan(context, &desc, &plan) == WEFT_OK);
    const weft_batch_desc batch_desc = {.size = sizeof batch_desc,
                                        .max_seqs = 2,
                                        .max_q_tokens = 8,
                                        .max_kv_len = 16,
                                        .page_size = 4,
                                        .plans = (const weft_plan *const *)&plan,
                                        .num_plans = 1};
    CHECK(weft_batch_create(context, &batch_desc, batch) == WEFT_OK);
    return plan;
}

// What a batch says is on the device before the runs that take it.
static void case_batch(void)
{
    weft_context *context = must_open();
    const weft_rope_params rope = {.base = 10000};
    weft_batch *batch = NULL;
    weft_plan *plan = append_plan(context, &rope, &batch);
    void *memory;
    const int32_t cu_q_lens[] = {0, 1, 2}, kv_lens[] = {5, 2}, table[] = {7, 3, 1, 0};
    const int32_t capacities[] = {8, 4};
    weft_batch_args args = {.size = sizeof args,
                            .num_seqs = 2,
                            .cu_q_lens = cu_q_lens,
                            .kv_lens = kv_lens,
                            .page_table = table,
                            .page_table_stride = 2,
                            .kv_capacities = capacities,
                            .num_pages = 8};
    CHECK(weft_batch_set(batch, &args) == WEFT_OK);
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 20, &memory) == WEFT_OK);
    const weft_kv_append_args append = {
        .size = sizeof append,
        .tokens = 2,
        .pool = {.k.data = memory, .v.data = memory, .num_pages = 8},
        .k = memory,
        .v = memory,
        .batch = batch};
    CHECK(weft_kv_append_run(plan, &append) == WEFT_OK);
    // The stand-in's device is the host's memory: what the kernel would read can be looked at.
    const struct standin_launch *launch = &standin->launches[0];
    const struct weft__kv_device_args *seen = (const void *)launch->args;
    CHECK(strcmp(launch->function, "weft_kv_append") == 0);
    CHECK(seen->positions[0] == 4 && seen->positions[1] == 1);
    CHECK(seen->slots[0] == 3 * 4 + 0 && seen->slots[1] == 1 * 4 + 1);
    // The device itself takes it further: nothing is copied.
    int64_t copies = standin->copies;
    CHECK(weft_batch_advance(batch, NULL) == WEFT_OK);
    launch = &standin->launches[1];
    const struct weft__kv_advance_args *on = (const void *)launch->args;
    CHECK(strcmp(launch->function, "weft_kv_advance") == 0 && standin->copies == copies);
    CHECK(on->kv_lens[0] == 5 && on->capacities[0] == 8 && on->page_starts[1] == 2);
    CHECK(on->cu_q_lens[2] == 2 && on->pages[0] == 7 && on->pages[2] == 1);
    CHECK(on->num_seqs == 2 && on->page_size == 4 && on->positions == seen->positions &&
          on->slots == seen->slots);
    for (int i = 0; i < 2; i++)
        CHECK(weft_batch_advance(batch, NULL) == (i == 0 ? WEFT_OK : WEFT_EINVAL));
    // As part of a program too; a set is not.
    weft_program *program = NULL;
    CHECK(weft_batch_set(batch, &args) == WEFT_OK);
    CHECK(weft_program_begin(context, &program) == WEFT_OK);
    CHECK(weft_batch_set(batch, &args) == WEFT_EINVAL);
    CHECK(weft_batch_advance(batch, NULL) == WEFT_OK);
    CHECK(weft_program_end(program) == WEFT_OK);
    weft_program_destroy(program);
    weft_batch_destroy(batch);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
    CHECK(standin->live_allocations == 0);
}

// As arrays that the device made itself are given.
static weft_batch_args device_arrays(const int32_t *m)
{
    return (weft_batch_args){.size = sizeof(weft_batch_args),
                             .num_seqs = 2,
                             .num_q_tokens = 3,
                             .cu_q_lens = m,
                             .kv_lens = m + 8,
                             .page_table = m + 16,
                             .page_table_stride = 5,
                             .kv_capacities = m + 32,
                             .num_pages = 8};
}

// Nothing is copied or waited for: two launches read the arrays where they are.
static void case_batch_of_device_arrays(void)
{
    weft_context *context = must_open();
    weft_batch *batch = NULL;
    weft_plan *plan = append_plan(context, NULL, &batch);
    int32_t *m;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 20, (void **)&m) == WEFT_OK);
    const weft_batch_args args = device_arrays(m);
    int64_t copies = standin->copies, waits = standin->synchronisations;
    CHECK(weft_batch_set(batch, &args) == WEFT_OK);
    CHECK(standin->copies == copies && standin->synchronisations == waits);
    CHECK(standin->num_launches == 2);
    const struct standin_launch *lengths = &standin->launches[0], *tokens = &standin->launches[1];
    const struct weft__kv_set_args *seen = (const void *)tokens->args;
    CHECK(strcmp(lengths->function, "weft_kv_set_lengths") == 0 && lengths->grid[0] == 1);
    CHECK(strcmp(tokens->function, "weft_kv_set_tokens") == 0 && tokens->grid[0] == 3);
    CHECK(memcmp(lengths->args, tokens->args, sizeof *seen) == 0);
    CHECK(seen->cu_q_lens == m && seen->kv_lens == m + 8 && seen->page_lists == m + 16 &&
          seen->kv_capacities == m + 32 && !seen->list_starts && !seen->seq_rows);
    CHECK(seen->page_table_stride == 5 && seen->num_seqs == 2 && seen->num_tokens == 3 &&
          seen->page_size == 4 && seen->max_kv_len == 16 && seen->max_pages == 8);
    // Runs read what the kernels wrote, and the batch goes on from there.
    const float *rows = (const float *)(void *)m;
    weft_kv_append_args append = {.size = sizeof append,
                                  .tokens = 3,
                                  .pool = {.k.data = m, .v.data = m, .num_pages = 8},
                                  .k = rows,
                                  .v = rows,
                                  .batch = batch};
    CHECK(weft_kv_append_run(plan, &append) == WEFT_OK);
    CHECK(((const struct weft__kv_device_args *)(const void *)standin->launches[2].args)->slots ==
          seen->slots);
    append.tokens = 2;
    CHECK(weft_kv_append_run(plan, &append) == WEFT_EINVAL);
    CHECK(weft_batch_advance(batch, NULL) == WEFT_OK && standin->num_launches == 4);
    CHECK(
        ((const struct weft__kv_advance_args *)(const void *)standin->launches[3].args)->kv_lens ==
        seen->own_kv_lens);
    weft_batch_destroy(batch);
    weft_plan_destroy(plan);
    weft_memory_free(context, m);
    weft_context_destroy(context);
    CHECK(standin->live_allocations == 0);
}

// The names of the launches since `before`, without what all of attention's begin with.
static void expect_names(int before, const char *names)
{
    char seen[256] = "";
    for (int i = before; i < standin->num_launches; i++) {
        const char *name = standin->launches[i].function + strlen("weft_");
        snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s%s", i > before ? " " : "",
                 name);
    }
    CHECK_TEXT(seen, names);
    CHECK(strlen(seen) == strlen(names));
}

// Attention that appends, two sequences of 5 and 2 keys: its plans, a batch and arguments.
struct appending {
    weft_context *context;
    weft_plan *plans[2]; // of queries in f32, in f16
    weft_batch *batches[2];
    weft_batch_args set; // one token of each sequence
    weft_attention_append append;
    weft_attention_args args; // of the first batch
};

static const int32_t single[] = {0, 1, 2}, prompt[] = {0, 3, 4}, kv_lens[] = {5, 2};
static const int32_t page_table[] = {7, 3, 1, 0}, slots[] = {13, 5};

static void open_appending(struct appending *a)
{
    static const weft_rope_params rope = {.base = 10000};
    weft_attention_desc desc = {
        .size = sizeof desc,
        .flags = WEFT_ATTENTION_APPEND | WEFT_ATTENTION_NARROW_QUERIES | WEFT_ATTENTION_OUT_ROUNDED,
        .kv = {.dtype = WEFT_F16, .num_kv_heads = 2, .head_dim = 64, .page_size = 4},
        .num_q_heads = 8,
        .max_seqs = 2,
        .max_q_tokens = 8,
        .max_kv_len = 16,
        .rope = &rope};
    char *memory;
    *a = (struct appending){.context = must_open()};
    CHECK(weft_attention_plan(a->context, &desc, &a->plans[0]) == WEFT_OK);
    desc.q_dtype = WEFT_F16;
    CHECK(weft_attention_plan(a->context, &desc, &a->plans[1]) == WEFT_OK);
    const weft_batch_desc batch_desc = {.size = sizeof batch_desc,
                                        .max_seqs = 2,
                                        .max_q_tokens = 8,
                                        .max_kv_len = 16,
                                        .page_size = 4,
                                        .plans = (const weft_plan *const *)a->plans,
                                        .num_plans = 2};
    for (int i = 0; i < 2; i++)
        CHECK(weft_batch_create(a->context, &batch_desc, &a->batches[i]) == WEFT_OK);
    CHECK(weft_memory_allocate(a->context, WEFT_MEMORY_DEVICE, 32 << 20, (void **)&memory) ==
          WEFT_OK);
    a->set = (weft_batch_args){.size = sizeof a->set,
                               .num_seqs = 2,
                               .cu_q_lens = single,
                               .kv_lens = kv_lens,
                               .page_table = page_table,
                               .page_table_stride = 2,
                               .num_pages = 8};
    a->append = (weft_attention_append){.k = memory, .v = memory};
    a->args = (weft_attention_args){
        .size = sizeof a->args,
        .q = memory,
        .out = memory + 65536,
        .pool = {.k.data = memory + (1 << 17), .v.data = memory + (1 << 18), .num_pages = 8},
        .batch = a->batches[0],
        .append = &a->append,
        .workspace = memory + (1 << 20),
        .workspace_bytes = 31 << 20};
    CHECK(weft_plan_workspace_bytes(a->plans[0]) <= a->args.workspace_bytes);
}

static void close_appending(struct appending *a)
{
    for (int i = 0; i < 2; i++) {
        weft_batch_destroy(a->batches[i]);
        weft_plan_destroy(a->plans[i]);
    }
    weft_context_destroy(a->context);
    CHECK(standin->live_allocations == 0);
}

// Runs, and holds the launches against `names`; returns the first of them.
static const struct standin_launch *expect_run(const struct appending *a, int plan,
                                               const char *names)
{
    int before = standin->num_launches;
    CHECK(weft_attention_run(a->plans[plan], &a->args) == WEFT_OK);
    expect_names(before, names);
    return &standin->launches[before];
}

// Tokens that are decoded one by one take one launch for RoPE, append, attention and rounding; a prompt's are
// appended, attended to and rounded by launches of their own.
static void case_append(void)
{
    struct appending a;
    open_appending(&a);
    CHECK(weft_batch_set(a.batches[0], &a.set) == WEFT_OK);
    const struct standin_launch *launch = expect_run(&a, 0, "attention_token");
    CHECK(launch->grid[0] == 2 * 8 && launch->grid[1] == 2);
    // Rows of the cache that the copy engine cannot take one by one.
    char *values = a.args.pool.v.data;
    a.args.pool.v.data = values + 8;
    const struct weft__attention_device_args *seen =
        (const void *)expect_run(&a, 0, "attention_decode")->args;
    a.args.pool.v.data = values;
    CHECK(seen->new_k == a.append.k && seen->q == a.args.q && seen->out == a.args.out &&
          seen->turns);
    for (int i = 0; i < 264; i++) // zeros of the batch, not of a launch before
        CHECK(seen->counters[i] == 0);
    const uint32_t *handed = (const void *)seen->handed; // likewise, with all bits set
    CHECK((uintptr_t)handed % 16 == 0);
    for (int i = 0; i < 264 * WEFT__ATTENTION_HANDED_FLOATS; i++)
        CHECK(handed[i] == UINT32_MAX);
    expect_run(&a, 1, "kv_append attention_decode linear_round"); // the one launch reads f32
    a.set.cu_q_lens = prompt;
    CHECK(weft_batch_set(a.batches[0], &a.set) == WEFT_OK);
    launch = expect_run(&a, 0, "kv_append attention_decode attention_prefill_wgmma linear_round");
    const struct weft__kv_device_args *appended = (const void *)launch[0].args;
    seen = (const void *)launch[1].args;
    CHECK(appended->q == a.args.q && appended->q_out == seen->q && seen->q != a.args.q &&
          !seen->new_k);
    // Slots of the caller's own: the launch that finds them from the lengths is not for these.
    a.set.cu_q_lens = single, a.set.slots = slots;
    CHECK(weft_batch_set(a.batches[0], &a.set) == WEFT_OK);
    expect_run(&a, 0, "kv_append attention_decode linear_round");
    close_appending(&a);
}

// What one batch appends another reads: its launch does not start before the keys are there. Layers of one
// batch overlap.
static void case_append_of_two_batches(void)
{
    struct appending a;
    open_appending(&a);
    for (int i = 0; i < 2; i++)
        CHECK(weft_batch_set(a.batches[i], &a.set) == WEFT_OK);
    CHECK(expect_run(&a, 0, "attention_token")->overlaps);
    CHECK(expect_run(&a, 0, "attention_token")->overlaps);
    a.args.batch = a.batches[1];
    CHECK(!expect_run(&a, 0, "attention_token")->overlaps);
    CHECK(expect_run(&a, 0, "attention_token")->overlaps);
    a.args.batch = a.batches[0];
    CHECK(!expect_run(&a, 0, "attention_token")->overlaps);
    close_appending(&a);
}

// Attention alone asks for a batch's old keys before the launch before it has ended: it waits where another batch
// appended last, and asks for nothing without a batch.
static void case_old_keys_early(void)
{
    struct appending a;
    open_appending(&a);
    const weft_attention_desc desc = {
        .size = sizeof desc,
        .kv = {.dtype = WEFT_F16, .num_kv_heads = 2, .head_dim = 64, .page_size = 4},
        .num_q_heads = 8,
        .max_seqs = 2,
        .max_q_tokens = 8,
        .max_kv_len = 16};
    weft_plan *appends = a.plans[1];
    CHECK(weft_attention_plan(a.context, &desc, &a.plans[1]) == WEFT_OK);
    const weft_batch_desc batch_desc = {.size = sizeof batch_desc,
                                        .max_seqs = 2,
                                        .max_q_tokens = 8,
                                        .max_kv_len = 16,
                                        .page_size = 4,
                                        .plans = (const weft_plan *const *)a.plans,
                                        .num_plans = 2};
    for (int i = 0; i < 2; i++) {
        weft_batch_destroy(a.batches[i]);
        CHECK(weft_batch_create(a.context, &batch_desc, &a.batches[i]) == WEFT_OK);
        CHECK(weft_batch_set(a.batches[i], &a.set) == WEFT_OK);
    }
    a.args.batch = a.batches[0];
    expect_run(&a, 0, "attention_token");
    a.args.append = NULL;
    for (int i = 0; i < 2; i++) {
        a.args.batch = a.batches[i];
        const struct standin_launch *launch = expect_run(&a, 1, "attention_decode");
        const struct weft__attention_device_args *seen = (const void *)launch->args;
        CHECK(seen->early && launch->overlaps == (i == 0));
    }
    int32_t *lists = (void *)((char *)a.args.workspace + (30 << 20));
    memcpy(lists, single, sizeof single), memcpy(lists + 4, kv_lens, sizeof kv_lens);
    memcpy(lists + 8, page_table, sizeof page_table);
    a.args.batch = NULL, a.args.num_seqs = 2, a.args.cu_q_lens = lists;
    a.args.kv_lens = lists + 4, a.args.page_table = lists + 8, a.args.page_table_stride = 2;
    const struct weft__attention_device_args *seen =
        (const void *)expect_run(&a, 1, "attention_begin attention_decode attention_prefill")[1]
            .args;
    CHECK(!seen->early);
    weft_plan_destroy(appends);
    close_appending(&a);
}

static void case_device_arrays_refused(void)
{
    weft_context *context = must_open();
    weft_batch *batch = NULL;
    weft_plan *plan = append_plan(context, NULL, &batch);
    int32_t *m, host[8] = {0};
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 20, (void **)&m) == WEFT_OK);
    weft_batch_args args;
#define REFUSES(words, ...)                                                                        \
    args = device_arrays(m), __VA_ARGS__;                                                          \
    CHECK(weft_batch_set(batch, &args) == WEFT_EINVAL);                                            \
    CHECK_TEXT(weft_error_text(context), words)
    REFUSES("kv_lens does not", args.kv_lens = host);
    REFUSES("cu_q_lens lies in the host", args.cu_q_lens = host);
    REFUSES("page_table", args.page_table = NULL);
    REFUSES("num_q_tokens", args.num_q_tokens = 9);
    REFUSES("aligned", args.kv_lens = (const int32_t *)((uintptr_t)m + 2));
#undef REFUSES
    args = device_arrays(m), args.kv_starts = m;
    CHECK(weft_batch_set(batch, &args) == WEFT_EUNSUPPORTED && standin->num_launches == 0);
    args = device_arrays(m), args.positions = m, args.num_q_tokens = 0; // one each
    CHECK(weft_batch_set(batch, &args) == WEFT_OK && standin->num_launches == 2);
    CHECK(((const struct weft__kv_set_args *)(const void *)standin->launches[1].args)->num_tokens ==
          2);
    CHECK(weft_batch_advance(batch, NULL) == WEFT_EINVAL);
    CHECK_TEXT(weft_error_text(context), "positions");
    weft_batch_destroy(batch);
    weft_plan_destroy(plan);
    weft_memory_free(context, m);
    weft_context_destroy(context);
}

static void count_progress(void *user, int32_t done, int32_t count)
{
    CHECK(done <= count);
    *(int32_t *)user = done;
}

// Prewarming waits for the compiler, and what it made can be listed.
static void case_instances(void)
{
    weft_context *context = must_open();
    weft_instance_info info = {.size = sizeof info};
    int32_t done = -1, listed = 0;
    CHECK(!weft_instance_at(context, 0, &info));
    weft_plan *plan = norm_plan(context);
    CHECK(weft_prewarm(context, count_progress, &done) == WEFT_OK && done == 1);
    for (; weft_instance_at(context, listed, &info); listed++) {
        CHECK_TEXT(info.name, "weft_norm[");
        CHECK(!info.failure && info.registers > 0 && info.spill_bytes == 0);
    }
    CHECK(listed == 1 && !weft_instance_at(NULL, 0, &info));
    CHECK(weft_prewarm(NULL, NULL, NULL) == WEFT_EINVAL);
    weft_plan_destroy(plan); // what does not compile says why:
    standin->fail_compile = true;
    setenv("WEFT_CACHE_DIR", "/nowhere", 1);
    weft_softmax_desc desc = {.size = sizeof desc, .dim = 8};
    CHECK(weft_softmax_plan(context, &desc, &plan) == WEFT_OK);
    CHECK(weft_prewarm(context, NULL, NULL) == WEFT_EDEVICE);
    CHECK(weft_instance_at(context, 1, &info) && info.failure);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

static const struct standin_case cases[] = {
    {"program", case_program},
    {"batch", case_batch},
    {"instances", case_instances},
    {"batch_of_device_arrays", case_batch_of_device_arrays},
    {"device_arrays_refused", case_device_arrays_refused},
    {"append", case_append},
    {"append_of_two_batches", case_append_of_two_batches},
    {"old_keys_early", case_old_keys_early},
};

int main(void)
{
    return standin_run(cases, sizeof cases / sizeof *cases);
}
