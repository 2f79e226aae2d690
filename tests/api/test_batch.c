// SPDX-License-Identifier: MIT
// A batch: runs that take it equal runs with loose arrays to the bit, steps that advance equal steps that
// set again, and what it cannot hold is refused by name, leaving it as it was.
#include "tests/support/context_fixture.h"

enum { DIM = 16, HEADS = 4, KV_HEADS = 2, PAGE = 4, PAGES = 64, SEQS = 3, TOKENS = 12, KEYS = 60 };
enum { STRIDE = KEYS / PAGE, STEPS = 5 };

struct model {
    weft_context *context;
    weft_plan *attention, *windowed, *append;
    weft_batch *batch;
    float pool_k[PAGES * PAGE * KV_HEADS * DIM], pool_v[PAGES * PAGE * KV_HEADS * DIM];
    float q[TOKENS * HEADS * DIM], out[TOKENS * HEADS * DIM];
    void *workspace;
    size_t workspace_bytes;
    int32_t table[SEQS * STRIDE];
};

static float drawn(int64_t i)
{
    return (float)(i * 7919 % 211 - 105) / 64;
}

static weft_attention_desc attention_desc(int32_t window)
{
    return (weft_attention_desc){
        .size = sizeof(weft_attention_desc),
        .kv = {.dtype = WEFT_F32, .num_kv_heads = KV_HEADS, .head_dim = DIM, .page_size = PAGE},
        .num_q_heads = HEADS,
        .window = window,
        .max_seqs = SEQS,
        .max_q_tokens = TOKENS,
        .max_kv_len = KEYS};
}

static weft_batch_desc batch_desc(const weft_plan *const *plans)
{
    return (weft_batch_desc){.size = sizeof(weft_batch_desc),
                             .max_seqs = SEQS,
                             .max_q_tokens = TOKENS,
                             .max_kv_len = KEYS,
                             .page_size = PAGE,
                             .plans = plans,
                             .num_plans = 3};
}

static void open_model(struct model *m)
{
    const weft_rope_params rope = {.base = 500};
    const weft_attention_desc attention = attention_desc(0), windowed = attention_desc(7);
    const weft_kv_append_desc append = {.size = sizeof append,
                                        .max_tokens = TOKENS,
                                        .layout = attention.kv,
                                        .rope = &rope,
                                        .num_q_heads = HEADS};
    memset(m, 0, sizeof *m);
    assert_int_equal(weft_context_create(NULL, &m->context), WEFT_OK);
    assert_int_equal(weft_attention_plan(m->context, &attention, &m->attention), WEFT_OK);
    assert_int_equal(weft_attention_plan(m->context, &windowed, &m->windowed), WEFT_OK);
    assert_int_equal(weft_kv_append_plan(m->context, &append, &m->append), WEFT_OK);
    const weft_plan *plans[] = {m->append, m->attention, m->windowed};
    const weft_batch_desc desc = batch_desc(plans);
    assert_int_equal(weft_batch_create(m->context, &desc, &m->batch), WEFT_OK);
    m->workspace_bytes = weft_plan_workspace_bytes(m->attention);
    if (weft_plan_workspace_bytes(m->windowed) > m->workspace_bytes)
        m->workspace_bytes = weft_plan_workspace_bytes(m->windowed);
    m->workspace = aligned_alloc(64, (m->workspace_bytes + 63) / 64 * 64);
    for (int32_t i = 0; i < SEQS * STRIDE; i++)
        m->table[i] = (i * 11 + 5) % PAGES;
}

static void close_model(struct model *m)
{
    weft_batch_destroy(m->batch);
    weft_plan_destroy(m->attention);
    weft_plan_destroy(m->windowed);
    weft_plan_destroy(m->append);
    weft_context_destroy(m->context);
    free(m->workspace);
}

// The tokens of a step: appended, then attended to through both plans, the second on top of the first.
static void run_layer(struct model *m, int32_t tokens, int32_t seqs, const weft_batch *batch,
                      const int32_t *cu, const int32_t *kv_lens, const int32_t *slots,
                      const int32_t *positions, int32_t salt)
{
    float k[TOKENS * KV_HEADS * DIM], v[TOKENS * KV_HEADS * DIM];
    for (int32_t i = 0; i < tokens * KV_HEADS * DIM; i++) {
        k[i] = drawn(i + salt);
        v[i] = drawn(3 * i + salt);
    }
    for (int32_t i = 0; i < tokens * HEADS * DIM; i++)
        m->q[i] = drawn(5 * i + salt);
    const weft_kv_pool pool = {.k.data = m->pool_k, .v.data = m->pool_v, .num_pages = PAGES};
    const weft_kv_append_args append = {.size = sizeof append,
                                        .tokens = tokens,
                                        .pool = pool,
                                        .k = k,
                                        .v = v,
                                        .q = m->q,
                                        .slots = batch ? NULL : slots,
                                        .positions = batch ? NULL : positions,
                                        .batch = batch};
    assert_int_equal(weft_kv_append_run(m->append, &append), WEFT_OK);
    weft_attention_args args = {.size = sizeof args,
                                .num_seqs = batch ? 0 : seqs,
                                .q = m->q,
                                .out = m->out,
                                .pool = pool,
                                .cu_q_lens = batch ? NULL : cu,
                                .kv_lens = batch ? NULL : kv_lens,
                                .page_table = batch ? NULL : m->table,
                                .page_table_stride = batch ? 0 : STRIDE,
                                .workspace = m->workspace,
                                .workspace_bytes = m->workspace_bytes,
                                .batch = batch};
    assert_int_equal(weft_attention_run(m->attention, &args), WEFT_OK);
    memcpy(m->q, m->out, sizeof m->q);
    assert_int_equal(weft_attention_run(m->windowed, &args), WEFT_OK);
}

static weft_batch_args set_args(const struct model *m, const int32_t *cu, const int32_t *kv_lens,
                                const int32_t *capacities)
{
    return (weft_batch_args){.size = sizeof(weft_batch_args),
                             .num_seqs = SEQS,
                             .cu_q_lens = cu,
                             .kv_lens = kv_lens,
                             .page_table = m->table,
                             .page_table_stride = STRIDE,
                             .kv_capacities = capacities,
                             .num_pages = PAGES};
}

// Loose positions and slots of a step.
static void derive(const struct model *m, const int32_t *cu, const int32_t *kv_lens,
                   int32_t *positions, int32_t *slots)
{
    for (int32_t s = 0; s < SEQS; s++)
        for (int32_t i = cu[s]; i < cu[s + 1]; i++) {
            int32_t t = kv_lens[s] - cu[s + 1] + i;
            positions[i] = t;
            slots[i] = m->table[s * STRIDE + t / PAGE] * PAGE + t % PAGE;
        }
}

static void equals_loose_arrays(void **state)
{
    static struct model with, without, flat;
    (void)state;
    open_model(&with);
    open_model(&without);
    open_model(&flat);
    const int32_t cus[][SEQS + 1] = {{0, 7, 7, 12}, {0, 1, 1, 2}, {0, 2, 5, 6}};
    const int32_t lens[][SEQS] = {{7, 0, 5}, {8, 0, 6}, {10, 3, 7}};
    for (int step = 0; step < 3; step++) {
        const int32_t *cu = cus[step], *kv_lens = lens[step];
        int32_t positions[TOKENS], slots[TOKENS], starts[SEQS];
        weft_batch_args args = set_args(&with, cu, kv_lens, NULL);
        assert_int_equal(weft_batch_set(with.batch, &args), WEFT_OK);
        for (int32_t s = 0; s < SEQS; s++)
            starts[s] = s * STRIDE;
        args.page_table = NULL;
        args.page_indices = flat.table;
        args.page_starts = starts;
        assert_int_equal(weft_batch_set(flat.batch, &args), WEFT_OK);
        derive(&without, cu, kv_lens, positions, slots);
        for (int layer = 0; layer < 2; layer++) {
            int32_t salt = 100 * step + layer;
            run_layer(&with, cu[SEQS], SEQS, with.batch, NULL, NULL, NULL, NULL, salt);
            run_layer(&flat, cu[SEQS], SEQS, flat.batch, NULL, NULL, NULL, NULL, salt);
            run_layer(&without, cu[SEQS], SEQS, NULL, cu, kv_lens, slots, positions, salt);
            assert_memory_equal(with.out, without.out, sizeof with.out);
            assert_memory_equal(flat.out, without.out, sizeof with.out);
            assert_memory_equal(with.pool_k, without.pool_k, sizeof with.pool_k);
            assert_memory_equal(with.pool_v, without.pool_v, sizeof with.pool_v);
        }
    }
    close_model(&with);
    close_model(&without);
    close_model(&flat);
}

static void advancing_equals_setting(void **state)
{
    static struct model a, b;
    (void)state;
    open_model(&a);
    open_model(&b);
    const int32_t cu[] = {0, 1, 1, 2};
    int32_t kv_lens[] = {3, 9, 16};
    const int32_t capacities[] = {3 + STEPS, 9, KEYS};
    weft_batch_args args = set_args(&a, cu, kv_lens, capacities);
    assert_int_equal(weft_batch_set(a.batch, &args), WEFT_OK);
    for (int step = 0; step <= STEPS; step++) {
        args.page_table = b.table;
        assert_int_equal(weft_batch_set(b.batch, &args), WEFT_OK);
        run_layer(&a, 2, SEQS, a.batch, NULL, NULL, NULL, NULL, step);
        run_layer(&b, 2, SEQS, b.batch, NULL, NULL, NULL, NULL, step);
        assert_memory_equal(a.out, b.out, sizeof a.out);
        assert_memory_equal(a.pool_k, b.pool_k, sizeof a.pool_k);
        kv_lens[0]++; // the second sequence has no query: it stays
        kv_lens[2]++;
        if (step < STEPS)
            assert_int_equal(weft_batch_advance(a.batch, NULL), WEFT_OK);
    }
    assert_refused(a.context, weft_batch_advance(a.batch, NULL), WEFT_EINVAL, "capacity of 8");
    close_model(&a);
    close_model(&b);
}

// A set cannot be recorded; an advance can, and at the capacity a launch leaves the sequences where they are.
static void advances_as_part_of_a_program(void **state)
{
    static struct model a, b;
    (void)state;
    open_model(&a);
    open_model(&b);
    const int32_t cu[] = {0, 1, 1, 2}, kv_lens[] = {3, 9, 16};
    const int32_t capacities[] = {3 + STEPS, 9, 16 + STEPS};
    weft_program *program;
    weft_batch_args args = set_args(&a, cu, kv_lens, capacities);
    assert_int_equal(weft_batch_set(a.batch, &args), WEFT_OK);
    args.page_table = b.table;
    assert_int_equal(weft_batch_set(b.batch, &args), WEFT_OK);
    assert_int_equal(weft_program_begin(a.context, &program), WEFT_OK);
    args.page_table = a.table;
    assert_refused(a.context, weft_batch_set(a.batch, &args), WEFT_EINVAL, "cannot be recorded");
    assert_int_equal(weft_batch_advance(a.batch, NULL), WEFT_OK);
    assert_int_equal(weft_program_end(program), WEFT_OK);
    for (int step = 0; step <= STEPS + 1; step++) {
        run_layer(&a, 2, SEQS, a.batch, NULL, NULL, NULL, NULL, step);
        run_layer(&b, 2, SEQS, b.batch, NULL, NULL, NULL, NULL, step);
        assert_memory_equal(a.out, b.out, sizeof a.out);
        assert_memory_equal(a.pool_k, b.pool_k, sizeof a.pool_k);
        assert_int_equal(weft_program_launch(program, NULL), WEFT_OK);
        if (step < STEPS)
            assert_int_equal(weft_batch_advance(b.batch, NULL), WEFT_OK);
    }
    weft_program_destroy(program);
    close_model(&a);
    close_model(&b);
}

// Memory of the device, which the CPU's host reads, and more tokens than the sequences have: those go nowhere.
static void arrays_of_the_device(void **state)
{
    static struct model a, b;
    (void)state;
    open_model(&a);
    open_model(&b);
    const int32_t cu[] = {0, 1, 1, 3}, kv_lens[] = {3, 9, 16};
    weft_batch_args args = set_args(&a, cu, kv_lens, NULL);
    assert_int_equal(weft_batch_set(a.batch, &args), WEFT_OK);
    int32_t *memory;
    assert_int_equal(weft_memory_allocate(b.context, WEFT_MEMORY_DEVICE, 4096, (void **)&memory),
                     WEFT_OK);
    memcpy(memory, cu, sizeof cu);
    memcpy(memory + 16, kv_lens, sizeof kv_lens);
    memcpy(memory + 32, b.table, sizeof b.table);
    args.cu_q_lens = memory;
    args.kv_lens = memory + 16;
    args.page_table = memory + 32;
    args.num_q_tokens = 5;
    assert_int_equal(weft_batch_set(b.batch, &args), WEFT_OK);
    weft_memory_free(b.context, memory);
    run_layer(&a, 3, SEQS, a.batch, NULL, NULL, NULL, NULL, 0);
    run_layer(&b, 5, SEQS, b.batch, NULL, NULL, NULL, NULL, 0);
    assert_memory_equal(a.out, b.out, sizeof a.out);
    assert_memory_equal(a.pool_k, b.pool_k, sizeof a.pool_k);
    assert_memory_equal(a.pool_v, b.pool_v, sizeof a.pool_v);
    close_model(&a);
    close_model(&b);
}

#define REFUSES(words, ...)                                                                        \
    do {                                                                                           \
        int32_t cu[] = {0, 1, 1, 2}, kv_lens[] = {3, 9, 16};                                       \
        weft_batch_args args = set_args(&m, cu, kv_lens, NULL);                                    \
        __VA_ARGS__;                                                                               \
        assert_refused(m.context, weft_batch_set(m.batch, &args), WEFT_EINVAL, words);             \
    } while (0)

static void refuses_bad_sets(void **state)
{
    static struct model m;
    const int32_t low[] = {2, 9, 16}, high[] = {3, 9, KEYS + 1}, bad[] = {0, -1}, far[] = {0, 256};
    (void)state;
    open_model(&m);
    REFUSES("num_seqs", args.num_seqs = SEQS + 1);
    REFUSES("size", args.size = 4);
    REFUSES("NULL", args.kv_lens = NULL);
    REFUSES("cu_q_lens[0]", cu[0] = 1);
    REFUSES("decreases", cu[1] = -1);
    REFUSES("queries", cu[3] = TOKENS + 1);
    REFUSES("kv_lens[1]", kv_lens[1] = KEYS + 1);
    REFUSES("causal", cu[3] = 10, kv_lens[2] = 3);
    REFUSES("capacities[0]", args.kv_capacities = low);
    REFUSES("capacities[2]", args.kv_capacities = high);
    REFUSES("page_table", args.page_table = NULL);
    REFUSES("page 5", args.num_pages = 5);
    REFUSES("page_starts", args.page_indices = m.table);
    REFUSES("page_starts[1]=-1", args.page_indices = m.table, args.page_table = NULL,
            args.page_starts = (const int32_t[SEQS]){0, -1, 4});
    REFUSES("seq_rows[1]=-7", args.seq_rows = (const int32_t[SEQS]){0, -7, 1});
    REFUSES("too long", args.page_table_stride = INT64_MAX / 64, args.seq_rows = high);
    REFUSES("negative", args.num_pages = -1);
    REFUSES("positions[1]", args.positions = bad);
    REFUSES("slots[1]", args.slots = far);
    REFUSES("num_q_tokens=1,", args.num_q_tokens = 1);
    REFUSES("num_q_tokens=13 ", args.num_q_tokens = TOKENS + 1);
    REFUSES("num_q_tokens", args.num_q_tokens = -1);
    REFUSES("too long", args.page_table_stride = INT64_MAX);
    REFUSES("aligned", args.kv_lens = (const int32_t *)((uintptr_t)kv_lens + 2));
    close_model(&m);
}

// Where nothing but an append looks at the pages, and a sequence has none to write to.
static void refuses_bad_rows_of_appends(void **state)
{
    static struct model m;
    (void)state;
    open_model(&m);
    weft_batch_destroy(m.batch);
    weft_batch_desc desc = batch_desc((const weft_plan *[]){m.append});
    desc.num_plans = 1;
    assert_int_equal(weft_batch_create(m.context, &desc, &m.batch), WEFT_OK);
    REFUSES("seq_rows[1]=-1000000", args.seq_rows = (const int32_t[SEQS]){0, -1000000, 1},
            kv_lens[1] = PAGE);
    close_model(&m);
}

static void refuses_bad_batches(void **state)
{
    static struct model m;
    weft_batch *batch = NULL;
    weft_plan *norm;
    const weft_norm_desc norm_desc = {.size = sizeof norm_desc, .dim = 8};
    (void)state;
    open_model(&m);
    assert_int_equal(weft_norm_plan(m.context, &norm_desc, &norm), WEFT_OK);
    const weft_plan *plans[] = {m.append, m.attention, m.windowed}, *wrong[] = {norm};
    weft_batch_desc desc = batch_desc(plans);
    desc.max_seqs = SEQS + 1;
    assert_refused(m.context, weft_batch_create(m.context, &desc, &batch), WEFT_EINVAL, "plans[1]");
    desc = batch_desc(plans);
    desc.page_size = 8;
    assert_refused(m.context, weft_batch_create(m.context, &desc, &batch), WEFT_EINVAL, "plans[0]");
    desc = batch_desc(wrong);
    desc.num_plans = 1;
    assert_refused(m.context, weft_batch_create(m.context, &desc, &batch), WEFT_EINVAL, "plans[0]");
    weft_attention_desc ring_desc = attention_desc(7);
    weft_plan *ring;
    ring_desc.ring_len = 7 + TOKENS;
    assert_int_equal(weft_attention_plan(m.context, &ring_desc, &ring), WEFT_OK);
    const weft_plan *mixed[] = {m.append, m.attention, ring};
    desc = batch_desc(mixed);
    assert_refused(m.context, weft_batch_create(m.context, &desc, &batch), WEFT_EINVAL,
                   "plans[2] has a ring of 19 keys, another one 0");
    weft_plan_destroy(ring);
    desc = batch_desc(plans);
    desc.num_plans = 1; // of append alone
    assert_int_equal(weft_batch_create(m.context, &desc, &batch), WEFT_OK);
    const int32_t cu[] = {0, 1, 1, 2}, kv_lens[] = {3, 9, 16};
    const weft_batch_args set = set_args(&m, cu, kv_lens, NULL);
    assert_int_equal(weft_batch_set(batch, &set), WEFT_OK);
    weft_attention_args args = {
        .size = sizeof args,
        .q = m.q,
        .out = m.out,
        .pool = {.k.data = m.pool_k, .v.data = m.pool_v, .num_pages = PAGES},
        .workspace = m.workspace,
        .workspace_bytes = m.workspace_bytes,
        .batch = batch};
    assert_refused(m.context, weft_attention_run(m.attention, &args), WEFT_EINVAL, "desc.plans");
    assert_int_equal(weft_batch_set(m.batch, &set), WEFT_OK);
    args.batch = m.batch;
    args.pool.num_pages = 3;
    assert_refused(m.context, weft_attention_run(m.attention, &args), WEFT_EINVAL, "was set for");
    args.pool.num_pages = PAGES;
    args.kv_lens = kv_lens;
    assert_refused(m.context, weft_attention_run(m.attention, &args), WEFT_EINVAL, "the batch's");
    weft_batch_destroy(batch);
    weft_plan_destroy(norm);
    close_model(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_loose_arrays), cmocka_unit_test(advancing_equals_setting),
        cmocka_unit_test(refuses_bad_sets),    cmocka_unit_test(refuses_bad_rows_of_appends),
        cmocka_unit_test(refuses_bad_batches), cmocka_unit_test(advances_as_part_of_a_program),
        cmocka_unit_test(arrays_of_the_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
