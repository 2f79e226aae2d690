// SPDX-License-Identifier: MIT
// Contexts: who does the work, who gives the memory, which instructions are allowed, and structs of
// other versions.
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>

#include "tests/support/context_fixture.h"

// An executor that does its tasks backwards, on the calling thread, and counts them.
struct backwards {
    int32_t loops, tasks;
};

static void run_backwards(void *user, int32_t count, weft_task_fn *task, void *work)
{
    struct backwards *counts = user;
    counts->loops++;
    counts->tasks += count;
    for (int32_t i = count; i-- > 0;)
        task(work, i, i % 3);
}

// An executor of threads that start and end with the loop.
struct loop {
    weft_task_fn *task;
    void *work;
    int32_t count, thread;
};

static void *every_third(void *opaque)
{
    struct loop *loop = opaque;
    for (int32_t i = loop->thread; i < loop->count; i += 3)
        loop->task(loop->work, i, loop->thread);
    return NULL;
}

static void run_on_threads(void *user, int32_t count, weft_task_fn *task, void *work)
{
    pthread_t threads[3];
    struct loop loops[3];
    (void)user;
    for (int32_t i = 0; i < 3; i++) {
        loops[i] = (struct loop){task, work, count, i};
        assert_int_equal(pthread_create(&threads[i], NULL, every_third, &loops[i]), 0);
    }
    for (int32_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

// A product and a normalisation that are large enough to be spread.
static void compute(weft_context *context, float *product, float *normal)
{
    enum { ROWS = 96, COLS = 1024 };
    static unsigned char weight[ROWS * COLS / 32 * 34];
    static float x[ROWS * COLS];
    weft_plan *plan;
    for (int i = 0; i < ROWS * COLS; i++)
        x[i] = sinf((float)i);
    assert_int_equal(weft_quantize_row(WEFT_Q8_0, x, ROWS * COLS, weight), WEFT_OK);

    weft_linear_desc linear = {.size = sizeof linear,
                               .weight_dtype = WEFT_Q8_0,
                               .rows = ROWS,
                               .cols = COLS,
                               .max_batch = 5};
    assert_int_equal(weft_linear_plan(context, &linear, &plan), WEFT_OK);
    size_t bytes = weft_plan_workspace_bytes(plan);
    void *workspace = aligned_alloc(64, bytes);
    weft_linear_args linear_args = {.size = sizeof linear_args,
                                    .batch = 5,
                                    .weight = weight,
                                    .x = x,
                                    .y = product,
                                    .workspace = workspace,
                                    .workspace_bytes = bytes};
    assert_int_equal(weft_linear_run(plan, &linear_args), WEFT_OK);
    weft_plan_destroy(plan);
    free(workspace);

    weft_norm_desc norm = {.size = sizeof norm, .dim = COLS, .max_rows = ROWS};
    assert_int_equal(weft_norm_plan(context, &norm, &plan), WEFT_OK);
    weft_norm_args norm_args = {.size = sizeof norm_args, .rows = ROWS, .x = x, .y = normal};
    assert_int_equal(weft_norm_run(plan, &norm_args), WEFT_OK);
    weft_plan_destroy(plan);
}

// Whoever runs the tasks, in whatever order, on however many threads: the bits are the same.
static void results_do_not_depend_on_the_executor(void **state)
{
    enum { PRODUCT = 5 * 96, NORMAL = 96 * 1024 };
    static float product[2][PRODUCT], normal[2][NORMAL];
    struct backwards counts = {0};
    const weft_executor own = {.user = &counts, .threads = 3, .parallel_for = run_backwards},
                        threaded = {.threads = 3, .parallel_for = run_on_threads};
    const weft_context_desc descs[] = {
        {.size = sizeof(weft_context_desc), .threads = 1},
        {.size = sizeof(weft_context_desc), .threads = 7},
        {.size = sizeof(weft_context_desc), .executor = &own},
        {.size = sizeof(weft_context_desc), .executor = &threaded},
    };
    (void)state;
    for (int i = 0; i < 4; i++) {
        weft_context *context;
        assert_int_equal(weft_context_create(&descs[i], &context), WEFT_OK);
        assert_int_equal(weft_context_threads(context), i == 0 ? 1 : i == 1 ? 7 : 3);
        compute(context, product[i > 0], normal[i > 0]);
        assert_memory_equal(product[0], product[i > 0], sizeof product[0]);
        assert_memory_equal(normal[0], normal[i > 0], sizeof normal[0]);
        weft_context_destroy(context);
    }
    assert_true(counts.loops >= 2 && counts.tasks > counts.loops);
}

enum { SEQS = 3, KEYS = 700, HEADS = 4, DIM = 16, LOGITS = 20000, DRAWS = 4 };

struct results {
    float out[SEQS * HEADS * DIM];
    int32_t tokens[DRAWS];
};

// Decode that is split in chunks of keys, and sampling: both give each thread scratch of its own.
static void compute_with_scratch(weft_context *context, struct results *results)
{
    static float keys[KEYS * 2 * DIM], logits[DRAWS * LOGITS];
    const int32_t cu[SEQS + 1] = {0, 1, 2, 3}, kv_lens[SEQS] = {KEYS, KEYS / 2, 1}, table[1] = {0};
    weft_sample_params params[DRAWS];
    weft_plan *plan;
    for (int i = 0; i < KEYS * 2 * DIM; i++)
        keys[i] = sinf((float)i);
    for (int i = 0; i < DRAWS * LOGITS; i++)
        logits[i] = 4 * sinf((float)i);
    for (int i = 0; i < DRAWS; i++)
        params[i] = (weft_sample_params){.temperature = 1, .top_p = 0.8f, .seed = (uint64_t)i};
    const weft_attention_desc attention = {
        .size = sizeof attention,
        .kv = {.dtype = WEFT_F32, .num_kv_heads = 2, .head_dim = DIM, .page_size = KEYS},
        .num_q_heads = HEADS,
        .max_seqs = SEQS,
        .max_kv_len = KEYS};
    assert_int_equal(weft_attention_plan(context, &attention, &plan), WEFT_OK);
    size_t bytes = weft_plan_workspace_bytes(plan);
    void *workspace = aligned_alloc(64, bytes);
    const weft_attention_args attention_args = {
        .size = sizeof attention_args,
        .num_seqs = SEQS,
        .q = keys,
        .out = results->out,
        .pool = {.k.data = keys, .v.data = keys, .num_pages = 1},
        .cu_q_lens = cu,
        .kv_lens = kv_lens,
        .page_table = table,
        .workspace = workspace,
        .workspace_bytes = bytes};
    assert_int_equal(weft_attention_run(plan, &attention_args), WEFT_OK);
    weft_plan_destroy(plan);
    free(workspace);

    const weft_sample_desc sample = {.size = sizeof sample, .vocab = LOGITS, .max_rows = DRAWS};
    assert_int_equal(weft_sample_plan(context, &sample, &plan), WEFT_OK);
    bytes = weft_plan_workspace_bytes(plan);
    workspace = aligned_alloc(64, bytes);
    const weft_sample_args sample_args = {.size = sizeof sample_args,
                                          .rows = DRAWS,
                                          .logits = logits,
                                          .params = params,
                                          .tokens = results->tokens,
                                          .workspace = workspace,
                                          .workspace_bytes = bytes};
    assert_int_equal(weft_sample_run(plan, &sample_args), WEFT_OK);
    weft_plan_destroy(plan);
    free(workspace);
}

// The order of tasks, and the thread that does one, do not matter.
static void scratch_goes_with_the_thread(void **state)
{
    static struct results results[3];
    struct backwards counts = {0};
    const weft_executor own = {.user = &counts, .threads = 3, .parallel_for = run_backwards},
                        threaded = {.threads = 3, .parallel_for = run_on_threads};
    const weft_context_desc descs[] = {
        {.size = sizeof(weft_context_desc), .threads = 3},
        {.size = sizeof(weft_context_desc), .executor = &own},
        {.size = sizeof(weft_context_desc), .executor = &threaded},
    };
    (void)state;
    for (int i = 0; i < 3; i++) {
        weft_context *context;
        assert_int_equal(weft_context_create(&descs[i], &context), WEFT_OK);
        compute_with_scratch(context, &results[i]);
        assert_memory_equal(&results[0], &results[i], sizeof results[0]);
        weft_context_destroy(context);
    }
    assert_true(counts.loops >= 2); // attention, rows
}

// One plan, several threads: each has a workspace of its own, and some are refused meanwhile.
struct sharer {
    const weft_plan *plan;
    weft_context *context;
    weft_sample_args args;
    int32_t token;
    int failures;
};

static void *share_plan(void *opaque)
{
    struct sharer *sharer = opaque;
    weft_sample_args bad = sharer->args;
    bad.rows = 1000;
    for (int i = 0; i < 100; i++) {
        sharer->failures += weft_sample_run(sharer->plan, &sharer->args) != WEFT_OK;
        sharer->failures += weft_sample_run(sharer->plan, &bad) != WEFT_EINVAL;
        weft_plan *own = NULL; // plans of the context may be made at the same time
        const weft_softmax_desc desc = {.size = sizeof desc, .dim = 8};
        sharer->failures += weft_softmax_plan(sharer->context, &desc, &own) != WEFT_OK;
        weft_plan_destroy(own);
    }
    return NULL;
}

static void threads_share_a_plan(void **state)
{
    enum { SHARERS = 4, VOCAB = 1000 };
    static float logits[VOCAB];
    struct sharer sharers[SHARERS];
    pthread_t threads[SHARERS];
    weft_plan *plan;
    const weft_sample_desc desc = {.size = sizeof desc, .vocab = VOCAB};
    const weft_sample_params params = {.temperature = 1, .top_p = 0.9f, .seed = 3};
    for (int i = 0; i < VOCAB; i++)
        logits[i] = 5 * sinf((float)i);
    assert_int_equal(weft_sample_plan(*state, &desc, &plan), WEFT_OK);
    size_t bytes = weft_plan_workspace_bytes(plan);
    for (int i = 0; i < SHARERS; i++) {
        sharers[i] = (struct sharer){.plan = plan, .context = *state};
        sharers[i].args = (weft_sample_args){.size = sizeof(weft_sample_args),
                                             .rows = 1,
                                             .logits = logits,
                                             .params = &params,
                                             .tokens = &sharers[i].token,
                                             .workspace = aligned_alloc(64, bytes),
                                             .workspace_bytes = bytes};
        assert_int_equal(pthread_create(&threads[i], NULL, share_plan, &sharers[i]), 0);
    }
    for (int i = 0; i < SHARERS; i++) {
        pthread_join(threads[i], NULL);
        free(sharers[i].args.workspace);
        assert_int_equal(sharers[i].failures, 0);
        assert_int_equal(sharers[i].token, sharers[0].token);
    }
    assert_non_null(strstr(weft_error_text(*state), "rows=1000"));
    weft_plan_destroy(plan);
}

// Memory that counts, and that runs out when told to.
struct accounts {
    int taken, returned, left; // `left`: allocations until none is to be had; -1: plenty
};

static void *take(void *user, size_t bytes)
{
    struct accounts *accounts = user;
    if (accounts->left == 0)
        return NULL;
    accounts->left -= accounts->left > 0;
    accounts->taken++;
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(memory, 0xee, bytes); // nobody may count on zeros
    return memory;
}

static void give_back(void *user, void *memory)
{
    struct accounts *accounts = user;
    accounts->returned += memory != NULL;
    free(memory);
}

enum { OPERATIONS = 9 };

// One plan of every operation; returns how many could be made.
static int plan_everything(weft_context *context)
{
    weft_plan *plans[OPERATIONS] = {NULL};
    weft_status status[OPERATIONS];
    int made = 0;
    const weft_linear_desc linear = {
        .size = sizeof linear, .weight_dtype = WEFT_Q4_K, .rows = 4, .cols = 256};
    const weft_norm_desc norm = {.size = sizeof norm, .dim = 8};
    const weft_rope_desc rope = {.size = sizeof rope, .num_heads = 1, .head_dim = 8};
    const weft_activation_desc activation = {.size = sizeof activation, .dim = 8};
    const weft_softmax_desc softmax = {.size = sizeof softmax, .dim = 8};
    const weft_embedding_desc embedding = {
        .size = sizeof embedding, .table_dtype = WEFT_F16, .rows = 4, .dim = 8};
    const weft_sample_desc sample = {.size = sizeof sample, .vocab = 8};
    const weft_kv_layout layout = {
        .dtype = WEFT_F16, .num_kv_heads = 1, .head_dim = 8, .page_size = 4};
    const weft_rope_params turn = {.base = 10000};
    const weft_attention_desc attention = {
        .size = sizeof attention, .kv = layout, .num_q_heads = 2, .max_kv_len = 16};
    const weft_kv_append_desc append = {
        .size = sizeof append, .max_tokens = 2, .layout = layout, .rope = &turn};
    status[0] = weft_linear_plan(context, &linear, &plans[0]);
    status[1] = weft_norm_plan(context, &norm, &plans[1]);
    status[2] = weft_rope_plan(context, &rope, &plans[2]);
    status[3] = weft_activation_plan(context, &activation, &plans[3]);
    status[4] = weft_softmax_plan(context, &softmax, &plans[4]);
    status[5] = weft_embedding_plan(context, &embedding, &plans[5]);
    status[6] = weft_sample_plan(context, &sample, &plans[6]);
    status[7] = weft_attention_plan(context, &attention, &plans[7]);
    status[8] = weft_kv_append_plan(context, &append, &plans[8]);
    for (int i = 0; i < OPERATIONS; i++) {
        made += status[i] == WEFT_OK;
        if (status[i] != WEFT_OK) {
            assert_int_equal(status[i], WEFT_ENOMEM);
            assert_null(plans[i]);
            assert_non_null(strstr(weft_error_text(context), "memory"));
        }
        weft_plan_destroy(plans[i]);
    }
    return made;
}

// A plan that fails late gives back what it took.
static void refuse_a_variant(weft_context *context)
{
    weft_plan *plan = NULL;
    const weft_softmax_desc desc = {.size = sizeof desc, .dim = 8, .variant = "none_of_ours"};
    weft_status status = weft_softmax_plan(context, &desc, &plan);
    assert_true(status == WEFT_EVARIANT || status == WEFT_ENOMEM);
    assert_null(plan);
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    int made = -1;
    for (int n = 0; made < OPERATIONS; n++) {
        struct accounts accounts = {.left = n};
        const weft_allocator allocator = {
            .user = &accounts, .allocate = take, .release = give_back};
        const weft_context_desc desc = {.size = sizeof desc, .allocator = &allocator};
        weft_context *context = (weft_context *)&accounts;
        weft_status status = weft_context_create(&desc, &context);
        if (status == WEFT_OK) {
            refuse_a_variant(context);
            made = plan_everything(context);
            weft_context_destroy(context);
        } else {
            assert_int_equal(status, WEFT_ENOMEM);
            assert_ptr_equal(context, &accounts); // untouched
            assert_non_null(strstr(weft_error_text(NULL), "memory"));
        }
        assert_int_equal(accounts.taken, accounts.returned);
        assert_true(n < 100);
    }
}

static void refuses_descriptors(void **state)
{
    weft_context *context = NULL;
    const weft_executor no_loop = {.threads = 2}, no_threads = {.parallel_for = run_backwards};
    const weft_allocator no_release = {.allocate = take};
    const struct {
        weft_context_desc desc;
        weft_status status;
        const char *words;
    } bad[] = {
        {{.threads = -1}, WEFT_EINVAL, "1024"},
        {{.threads = 1025}, WEFT_EINVAL, "1024"},
        {{.executor = &no_loop}, WEFT_EINVAL, "parallel_for"},
        {{.executor = &no_threads}, WEFT_EINVAL, "threads"},
        {{.allocator = &no_release}, WEFT_EINVAL, "release"},
        {{.device = (weft_device)9}, WEFT_EINVAL, "device"},
        {{.reserved = {[6] = 1}}, WEFT_EINVAL, "unknown to this version"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_context_desc desc = bad[i].desc;
        desc.size = sizeof desc;
        assert_int_equal(weft_context_create(&desc, &context), bad[i].status);
        assert_non_null(strstr(weft_error_text(NULL), bad[i].words));
    }
    assert_int_equal(weft_context_create(NULL, NULL), WEFT_EINVAL);
    assert_null(context);
    weft_context_destroy(NULL);
    weft_plan_destroy(NULL);
    assert_string_equal(weft_plan_describe(NULL), "");
    assert_int_equal(weft_plan_workspace_bytes(NULL), 0);
}

// A descriptor of an older version is shorter, one of a newer version longer.
static void structs_of_other_versions(void **state)
{
    struct {
        weft_norm_desc known;
        uint64_t newer;
    } desc = {.known = {.dim = 8}};
    weft_plan *plan = NULL;
    desc.known.size = offsetof(weft_norm_desc, variant);
    desc.known.variant = (const char *)1; // beyond the size: must not be read
    assert_int_equal(weft_norm_plan(*state, &desc.known, &plan), WEFT_OK);
    weft_plan_destroy(plan);
    desc.known.variant = NULL;
    desc.known.size = sizeof desc;
    assert_int_equal(weft_norm_plan(*state, &desc.known, &plan), WEFT_OK);
    weft_plan_destroy(plan);
    plan = NULL;
    desc.newer = 1;
    assert_refused(*state, weft_norm_plan(*state, &desc.known, &plan), WEFT_EINVAL, "unknown");
    desc.known.size = 0;
    assert_refused(*state, weft_norm_plan(*state, &desc.known, &plan), WEFT_EINVAL, "size");
    desc.known.size = UINT32_MAX;
    assert_refused(*state, weft_norm_plan(*state, &desc.known, &plan), WEFT_EINVAL, "size");
    assert_null(plan);
}

// The variable lowers the level, never raises it, and a typing error is not ignored.
static void environment_lowers_the_instruction_set(void **state)
{
    weft_context *context = NULL;
    char *kept = getenv("WEFT_CPU") ? strdup(getenv("WEFT_CPU")) : NULL;
    (void)state;
#if defined(__aarch64__)
    const char *const levels[] = {"ref", "neon", "neondot"}, *const foreign[] = {"avx2",
                                                                                 "avx512bf16"};
#else
    const char *const levels[] = {"ref", "avx2", "avx512", "avx512vnni", "avx512bf16", "amx"},
                      *const foreign[] = {"neon", "neondot"};
#endif
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        setenv("WEFT_CPU", levels[i], 1);
        assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
        size_t got = 0;
        while (strcmp(levels[got], weft_context_isa(context)) != 0)
            got++;
        assert_true(got <= i);
        weft_kernel_info info;
        for (int32_t n = 0; weft_kernel_at(context, n, &info); n++)
            if (i == 0)
                assert_int_equal(info.usable, strcmp(info.isa, "ref") == 0);
        assert_false(weft_kernel_at(context, -1, &info));
        weft_context_destroy(context);
    }
    context = NULL;
    for (size_t i = 0; i < 2; i++) { // would lower nothing, or everything
        setenv("WEFT_CPU", foreign[i], 1);
        assert_int_equal(weft_context_create(NULL, &context), WEFT_EINVAL);
        assert_non_null(strstr(weft_error_text(NULL), "another architecture"));
        assert_non_null(strstr(weft_error_text(NULL), levels[2]));
        assert_null(strstr(strstr(weft_error_text(NULL), ": use "), foreign[i]));
    }
    setenv("WEFT_CPU", "avx3", 1);
    assert_int_equal(weft_context_create(NULL, &context), WEFT_EINVAL);
    assert_non_null(strstr(weft_error_text(NULL), "avx3"));
    assert_null(context);
    if (kept)
        setenv("WEFT_CPU", kept, 1);
    else
        unsetenv("WEFT_CPU");
    free(kept);
}

static void keep_line(void *user, const char *line)
{
    strncat(user, line, 200);
}

static void logs_what_was_chosen(void **state)
{
    char log[256] = "";
    weft_context *context;
    const weft_context_desc desc = {
        .size = sizeof desc, .threads = 2, .log = keep_line, .log_user = log};
    (void)state;
    assert_int_equal(weft_context_create(&desc, &context), WEFT_OK);
    assert_non_null(strstr(log, weft_context_isa(context)));
    assert_non_null(strstr(log, "2 threads"));
    assert_null(strchr(log, '\n'));
    assert_string_equal(weft_error_text(context), "");
    weft_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_do_not_depend_on_the_executor),
        cmocka_unit_test(scratch_goes_with_the_thread),
        cmocka_unit_test(threads_share_a_plan),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(refuses_descriptors),
        cmocka_unit_test(structs_of_other_versions),
        cmocka_unit_test(environment_lowers_the_instruction_set),
        cmocka_unit_test(logs_what_was_chosen),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
