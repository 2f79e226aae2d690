// SPDX-License-Identifier: MIT
// Programs: what was recorded is done in its order, with what the buffers hold then; counters.
#include <math.h>

#include <pthread.h>
#include <sched.h>

#include "tests/support/context_fixture.h"

enum { DIM = 256, ROWS = 40, VOCAB = 90 };

// A small step: embed, normalise, project back on the table, choose.
typedef struct step {
    weft_plan *embedding, *norm, *linear, *sample;
    void *linear_workspace, *sample_workspace;
    float table[VOCAB * DIM];
    int32_t ids[ROWS], tokens[ROWS];
    float x[ROWS * DIM], y[ROWS * DIM], logits[ROWS * VOCAB], copy[ROWS * VOCAB];
    weft_sample_params params[ROWS];
} step;

static step *make_step(weft_context *context)
{
    step *s = calloc(1, sizeof *s);
    for (int i = 0; i < VOCAB * DIM; i++)
        s->table[i] = sinf((float)i * 0.7f);
    weft_embedding_desc embedding = {.size = sizeof embedding,
                                     .table_dtype = WEFT_F32,
                                     .rows = VOCAB,
                                     .dim = DIM,
                                     .max_tokens = ROWS};
    weft_norm_desc norm = {.size = sizeof norm, .eps = 1e-5f, .dim = DIM, .max_rows = ROWS};
    weft_linear_desc linear = {.size = sizeof linear,
                               .weight_dtype = WEFT_F32,
                               .rows = VOCAB,
                               .cols = DIM,
                               .max_batch = ROWS};
    weft_sample_desc sample = {.size = sizeof sample, .max_rows = ROWS, .vocab = VOCAB};
    assert_int_equal(weft_embedding_plan(context, &embedding, &s->embedding), WEFT_OK);
    assert_int_equal(weft_norm_plan(context, &norm, &s->norm), WEFT_OK);
    assert_int_equal(weft_linear_plan(context, &linear, &s->linear), WEFT_OK);
    assert_int_equal(weft_sample_plan(context, &sample, &s->sample), WEFT_OK);
    s->linear_workspace = aligned_alloc(64, weft_plan_workspace_bytes(s->linear) + 64);
    s->sample_workspace = aligned_alloc(64, weft_plan_workspace_bytes(s->sample));
    return s;
}

static void free_step(step *s)
{
    weft_plan_destroy(s->embedding);
    weft_plan_destroy(s->norm);
    weft_plan_destroy(s->linear);
    weft_plan_destroy(s->sample);
    free(s->linear_workspace);
    free(s->sample_workspace);
    free(s);
}

static void run_step(weft_context *context, step *s)
{
    weft_embedding_args embed = {
        .size = sizeof embed, .tokens = ROWS, .table = s->table, .ids = s->ids, .y = s->x};
    weft_norm_args norm = {.size = sizeof norm, .rows = ROWS, .x = s->x, .y = s->y};
    weft_linear_args linear = {.size = sizeof linear,
                               .batch = ROWS,
                               .weight = s->table,
                               .x = s->y,
                               .y = s->logits,
                               .workspace = s->linear_workspace,
                               .workspace_bytes = weft_plan_workspace_bytes(s->linear)};
    weft_sample_args sample = {.size = sizeof sample,
                               .rows = ROWS,
                               .logits = s->copy,
                               .params = s->params,
                               .tokens = s->tokens,
                               .workspace = s->sample_workspace,
                               .workspace_bytes = weft_plan_workspace_bytes(s->sample)};
    assert_int_equal(weft_embedding_run(s->embedding, &embed), WEFT_OK);
    assert_int_equal(weft_norm_run(s->norm, &norm), WEFT_OK);
    assert_int_equal(weft_fill(context, s->logits, 0xff, sizeof s->logits, NULL), WEFT_OK);
    assert_int_equal(weft_linear_run(s->linear, &linear), WEFT_OK);
    assert_int_equal(weft_copy(context, s->copy, s->logits, sizeof s->copy, NULL), WEFT_OK);
    assert_int_equal(weft_sample_run(s->sample, &sample), WEFT_OK);
}

static void set_inputs(step *s, int n)
{
    for (int i = 0; i < ROWS; i++) {
        s->ids[i] = (i * 7 + n * 13) % VOCAB;
        s->params[i] =
            (weft_sample_params){.temperature = (float)(i % 3), .step = (uint64_t)(n * 100 + i)};
    }
}

static void launches_are_runs(void **state)
{
    weft_program *program;
    weft_program_info info = {.size = sizeof info};
    step *recorded = make_step(*state), *direct = make_step(*state);
    set_inputs(recorded, 0);
    assert_int_equal(weft_program_begin(*state, &program), WEFT_OK);
    run_step(*state, recorded);
    assert_int_equal(recorded->tokens[5], 0); // nothing was done
    assert_true(recorded->x[1] == 0 && recorded->copy[1] == 0);
    assert_int_equal(weft_program_end(program), WEFT_OK);
    for (int n = 0; n < 20; n++) { // what is in the buffers then counts
        set_inputs(recorded, n);
        set_inputs(direct, n);
        assert_int_equal(weft_program_launch(program, NULL), WEFT_OK);
        run_step(*state, direct);
        assert_memory_equal(recorded->tokens, direct->tokens, sizeof direct->tokens);
        assert_memory_equal(recorded->copy, direct->copy, sizeof direct->copy);
    }
    assert_int_equal(weft_program_describe(program, &info), WEFT_OK);
    assert_int_equal(info.runs, 4);
    assert_int_equal(info.copies, 2);
    assert_int_equal(info.launches, 20);
    weft_program_destroy(program);
    free_step(recorded);
    free_step(direct);
}

// What adds to its own result adds as often as it is asked for.
static void repeated_launches_go_on(void **state)
{
    static float row[DIM], y[DIM];
    static const int32_t ids[1] = {0};
    weft_program *program;
    weft_program_info info = {.size = sizeof info};
    weft_plan *plan;
    const weft_embedding_desc desc = {
        .size = sizeof desc, .table_dtype = WEFT_F32, .rows = 1, .dim = DIM, .max_tokens = 1};
    const weft_embedding_args args = {
        .size = sizeof args, .tokens = 1, .table = row, .ids = ids, .y = y, .residual = y};
    for (int i = 0; i < DIM; i++)
        row[i] = (float)i, y[i] = 0;
    assert_int_equal(weft_embedding_plan(*state, &desc, &plan), WEFT_OK);
    assert_int_equal(weft_program_begin(*state, &program), WEFT_OK);
    assert_int_equal(weft_embedding_run(plan, &args), WEFT_OK);
    assert_refused(*state, weft_program_repeat(program, 2, NULL), WEFT_EINVAL, "has not ended");
    assert_int_equal(weft_program_end(program), WEFT_OK);
    assert_int_equal(weft_program_repeat(program, 0, NULL), WEFT_OK);
    assert_refused(*state, weft_program_repeat(program, -1, NULL), WEFT_EINVAL, "-1 times");
    assert_int_equal(weft_program_repeat(NULL, 1, NULL), WEFT_EINVAL);
    assert_true(y[3] == 0);
    assert_int_equal(weft_program_repeat(program, 11, NULL), WEFT_OK);
    for (int i = 0; i < DIM; i++)
        assert_true(y[i] == 11 * (float)i);
    assert_int_equal(weft_program_describe(program, &info), WEFT_OK);
    assert_int_equal(info.launches, 11);
    weft_program_destroy(program);
    weft_plan_destroy(plan);
}

// A loop of N launches asks for no memory, and counts its runs.
static void nothing_is_allocated(void **state)
{
    weft_program *program;
    weft_counters before = {.size = sizeof before}, after = before;
    step *s = make_step(*state);
    set_inputs(s, 0);
    assert_int_equal(weft_program_begin(*state, &program), WEFT_OK);
    run_step(*state, s);
    assert_int_equal(weft_program_end(program), WEFT_OK);
    assert_int_equal(weft_context_count(*state, &before), WEFT_OK);
    assert_true(before.allocations > 0);
    for (int n = 0; n < 10; n++) {
        assert_int_equal(weft_program_launch(program, NULL), WEFT_OK);
        run_step(*state, s);
    }
    assert_int_equal(weft_context_count(*state, &after), WEFT_OK);
    assert_int_equal(after.allocations, before.allocations);
    assert_int_equal(after.runs - before.runs, 80);
    weft_program_destroy(program);
    free_step(s);
    assert_int_equal(weft_context_count(NULL, &after), WEFT_EINVAL);
    assert_int_equal(weft_context_count(*state, NULL), WEFT_EINVAL);
}

// Longer than a block of the list.
static void long_programs(void **state)
{
    enum { STEPS = 3000 };
    weft_program *program;
    weft_program_info info = {.size = sizeof info};
    weft_plan *plan;
    float x[8] = {0};
    weft_softmax_desc desc = {.size = sizeof desc, .dim = 4};
    assert_int_equal(weft_softmax_plan(*state, &desc, &plan), WEFT_OK);
    weft_softmax_args args = {.size = sizeof args, .rows = 1, .x = x};
    assert_int_equal(weft_program_begin(*state, &program), WEFT_OK);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(weft_softmax_run(plan, &args), WEFT_OK);
    args.rows = 2;
    assert_int_equal(weft_softmax_run(plan, &args), WEFT_EINVAL); // leaves no trace
    assert_int_equal(weft_program_end(program), WEFT_OK);
    assert_int_equal(weft_program_describe(program, &info), WEFT_OK);
    assert_int_equal(info.runs, STEPS);
    assert_int_equal(weft_program_launch(program, NULL), WEFT_OK);
    assert_true(x[0] == 0.25f && x[4] == 0);
    weft_program_destroy(program);
    weft_plan_destroy(plan);
}

typedef struct other {
    weft_plan *plan;
    float x[4];
    weft_program *program;
    weft_status run, end;
} other;

static void *run_elsewhere(void *opaque)
{
    other *o = opaque;
    weft_softmax_args args = {.size = sizeof args, .rows = 1, .x = o->x};
    o->run = weft_softmax_run(o->plan, &args);
    o->end = weft_program_end(o->program);
    return NULL;
}

static void only_this_thread_is_recorded(void **state)
{
    other o = {.x = {1, 1, 1, 1}};
    weft_program_info info = {.size = sizeof info};
    pthread_t thread;
    weft_softmax_desc desc = {.size = sizeof desc, .dim = 4};
    assert_int_equal(weft_softmax_plan(*state, &desc, &o.plan), WEFT_OK);
    assert_int_equal(weft_program_begin(*state, &o.program), WEFT_OK);
    assert_int_equal(pthread_create(&thread, NULL, run_elsewhere, &o), 0);
    pthread_join(thread, NULL);
    assert_int_equal(o.run, WEFT_OK);
    assert_true(o.x[0] == 0.25f);
    assert_int_equal(o.end, WEFT_EINVAL);
    assert_int_equal(weft_program_end(o.program), WEFT_OK);
    assert_int_equal(weft_program_describe(o.program, &info), WEFT_OK);
    assert_int_equal(info.runs, 0);
    assert_int_equal(weft_program_launch(o.program, NULL), WEFT_OK); // does nothing
    weft_program_destroy(o.program);
    weft_plan_destroy(o.plan);
}

// Who begins a program, and how many record at a time.
typedef struct beginners {
    weft_context *context;
    _Atomic int recording, most, begun;
} beginners;

static void *begin_again(void *opaque)
{
    beginners *all = opaque;
    weft_program *program;
    for (int i = 0; i < 3000; i++) {
        if (weft_program_begin(all->context, &program) != WEFT_OK)
            continue;
        int now = ++all->recording;
        if (now > all->most)
            all->most = now;
        all->begun++;
        sched_yield();
        all->recording--;
        weft_program_end(program);
        weft_program_destroy(program);
    }
    return NULL;
}

static void one_at_a_time_is_recorded(void **state)
{
    beginners all = {.context = *state};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, begin_again, &all), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(all.most, 1);
    assert_true(all.begun > 0);
}

static void misuse_is_refused(void **state)
{
    weft_program *program, *second = NULL;
    weft_context *context;
    weft_stream *stream, *own;
    weft_plan *plan;
    float x[4] = {0};
    weft_softmax_desc desc = {.size = sizeof desc, .dim = 4};
    weft_program_info info = {.size = 4};
    assert_int_equal(weft_softmax_plan(*state, &desc, &plan), WEFT_OK);
    assert_int_equal(weft_stream_create(*state, &own), WEFT_OK);
    assert_int_equal(weft_program_begin(NULL, &program), WEFT_EINVAL);
    assert_int_equal(weft_program_begin(*state, NULL), WEFT_EINVAL);
    assert_int_equal(weft_program_begin(*state, &program), WEFT_OK);
    assert_refused(*state, weft_program_begin(*state, &second), WEFT_EINVAL, "end it first");
    assert_refused(*state, weft_program_launch(program, NULL), WEFT_EINVAL, "has not ended");
    weft_softmax_args args = {.size = sizeof args, .rows = 1, .x = x, .stream = own};
    assert_refused(*state, weft_softmax_run(plan, &args), WEFT_EINVAL, "no stream");
    weft_probe_args probe = {.size = sizeof probe, .kind = WEFT_PROBE_FMA_F32, .steps = 1};
    weft_probe_result result;
    assert_refused(*state, weft_probe_run(*state, &probe, &result), WEFT_EINVAL, "recorded");
    weft_program_destroy(program); // given up
    assert_int_equal(weft_program_begin(*state, &program), WEFT_OK);
    assert_int_equal(weft_program_end(program), WEFT_OK);
    assert_refused(*state, weft_program_end(program), WEFT_EINVAL, "not being recorded");
    assert_int_equal(weft_program_begin(*state, &second), WEFT_OK);
    assert_refused(*state, weft_program_launch(program, NULL), WEFT_EINVAL, "part of another");
    weft_program_destroy(second);
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    assert_int_equal(weft_stream_create(context, &stream), WEFT_OK);
    assert_refused(*state, weft_program_launch(program, stream), WEFT_EINVAL, "another context");
    assert_int_equal(weft_program_launch(program, own), WEFT_OK);
    assert_int_equal(weft_program_describe(program, &info), WEFT_EINVAL);
    assert_int_equal(weft_program_describe(NULL, &info), WEFT_EINVAL);
    assert_int_equal(weft_program_launch(NULL, NULL), WEFT_EINVAL);
    assert_int_equal(weft_program_end(NULL), WEFT_EINVAL);
    weft_program_destroy(program);
    weft_program_destroy(NULL);
    weft_stream_destroy(stream);
    weft_stream_destroy(own);
    weft_context_destroy(context);
    weft_plan_destroy(plan);
}

// What plans decide, as numbers.
static void plans_say_what_they_decided(void **state)
{
    weft_context *context;
    weft_context_desc desc = {.size = sizeof desc, .threads = 2};
    weft_plan *plan;
    weft_plan_info info = {.size = sizeof info};
    (void)state;
    assert_int_equal(weft_context_create(&desc, &context), WEFT_OK);
    weft_norm_desc norm = {
        .size = sizeof norm, .dim = 4096, .max_rows = 64, .variant = "norm_rms_ref"};
    assert_int_equal(weft_norm_plan(context, &norm, &plan), WEFT_OK);
    assert_int_equal(weft_plan_query(plan, &info), WEFT_OK);
    assert_int_equal(info.tile_rows, 8); // 64 rows over 4 tasks for each of two threads
    assert_int_equal(info.tasks, 8);
    assert_int_equal(info.splits, 1);
    assert_int_equal(info.bytes_read, 64 * 4096 * 4 + 4096 * 4);
    assert_int_equal(info.bytes_written, 64 * 4096 * 4);
    assert_int_equal(info.workspace_bytes, 0);
    assert_string_equal(info.kernel, "norm_rms_ref");
    weft_plan_destroy(plan);
    weft_softmax_desc softmax = {
        .size = sizeof softmax, .dim = 16, .max_rows = 10, .dtype = WEFT_F16};
    assert_int_equal(weft_softmax_plan(context, &softmax, &plan), WEFT_OK);
    assert_int_equal(weft_plan_query(plan, &info), WEFT_OK);
    assert_true(info.tasks == 1 && info.tile_rows == 10 && info.bytes_read == 320);
    weft_plan_destroy(plan);
    weft_linear_desc linear = {.size = sizeof linear,
                               .weight_dtype = WEFT_Q4_0,
                               .rows = 4096,
                               .cols = 4096,
                               .max_batch = 1,
                               .variant = "linear_q4_0_q8_ref"};
    assert_int_equal(weft_linear_plan(context, &linear, &plan), WEFT_OK);
    assert_int_equal(weft_plan_query(plan, &info), WEFT_OK);
    assert_true(info.tasks > 16 && info.tasks * info.tile_rows >= 4096);
    assert_int_equal(info.bytes_read, 4096 * 2304 + 4096 * 4);
    assert_int_equal(info.workspace_bytes, (int64_t)weft_plan_workspace_bytes(plan));
    info.size = 4;
    assert_refused(context, weft_plan_query(plan, &info), WEFT_EINVAL, "size");
    assert_int_equal(weft_plan_query(NULL, &info), WEFT_EINVAL);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_are_runs),
        cmocka_unit_test(repeated_launches_go_on),
        cmocka_unit_test(nothing_is_allocated),
        cmocka_unit_test(long_programs),
        cmocka_unit_test(only_this_thread_is_recorded),
        cmocka_unit_test(one_at_a_time_is_recorded),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(plans_say_what_they_decided),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
