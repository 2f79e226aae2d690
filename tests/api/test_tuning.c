// SPDX-License-Identifier: MIT
// What a machine likes best reaches plans: entries of the caller, of a file, and none where bits must not move.
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "tests/support/program.h"

enum { ROWS = 512, COLS = 1024, MOST = 12 };

static weft_context *make_context(const char *tuning)
{
    weft_context *context;
    const weft_context_desc desc = {.size = sizeof desc, .threads = 2, .tuning = tuning};
    assert_int_equal(weft_context_create(&desc, &context), WEFT_OK);
    return context;
}

static weft_plan *make_linear(weft_context *context, uint32_t flags, const char *variant)
{
    weft_plan *plan;
    const weft_linear_desc desc = {.size = sizeof desc,
                                   .flags = flags,
                                   .weight_dtype = WEFT_Q4_0,
                                   .rows = ROWS,
                                   .cols = COLS,
                                   .max_batch = MOST,
                                   .variant = variant};
    assert_int_equal(weft_linear_plan(context, &desc, &plan), WEFT_OK);
    return plan;
}

static void add(weft_context *context, weft_tuning entry)
{
    entry.size = sizeof entry;
    if (weft_tuning_add(context, &entry) != WEFT_OK)
        fail_msg("%s", weft_error_text(context));
}

// The name of the kernel for many rows of X and where it begins: "from 4 linear_..." of a description.
static int32_t panels_from(const weft_plan *plan)
{
    const char *from = strstr(weft_plan_describe(plan), ", from ");
    return from ? atoi(from + 7) : 0;
}

static void thresholds_move_panels(void **state)
{
    (void)state;
    weft_context *context = make_context("");
    weft_plan *plan = make_linear(context, 0, NULL);
    int32_t before = panels_from(plan);
    weft_plan_destroy(plan);
    if (before) // NEON has tiles alone
        for (int32_t few = 1; few <= 8; few++) {
            add(context, (weft_tuning){.op = WEFT_TUNING_LINEAR, .few_batch = few});
            plan = make_linear(context, 0, NULL);
            assert_int_equal(panels_from(plan), few + 1);
            weft_plan_destroy(plan);
            plan = make_linear(context, WEFT_LINEAR_BATCH_INVARIANT, NULL);
            assert_int_equal(panels_from(plan), 0);
            weft_plan_destroy(plan);
        }
    weft_tuning_clear(context);
    plan = make_linear(context, 0, NULL);
    assert_int_equal(panels_from(plan), before);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

// The kernel that serves everything, as a machine might like it.
static void kernels_by_name_go_first_where_they_serve(void **state)
{
    (void)state;
    weft_context *context = make_context("");
    weft_plan *plan = make_linear(context, 0, NULL);
    weft_plan_info info = {.size = sizeof info};
    assert_int_equal(weft_plan_query(plan, &info), WEFT_OK);
    const char *best = info.kernel;
    const bool has_panels = panels_from(plan) > 0; // NEON has tiles alone
    weft_plan_destroy(plan);
    weft_attention_desc desc = {
        .size = sizeof desc,
        .kv = {.dtype = WEFT_F16, .num_kv_heads = 2, .head_dim = 64, .page_size = 16},
        .num_q_heads = 4,
        .max_kv_len = 100};
    add(context, (weft_tuning){.op = WEFT_TUNING_ATTENTION, .kernel = "attention_any_ref"});
    add(context, (weft_tuning){.op = WEFT_TUNING_LINEAR,
                               .dtype = WEFT_Q4_0,
                               .few_batch = 3,
                               .kernel = "linear_q4_0_q8_ref"});
    assert_int_equal(weft_attention_plan(context, &desc, &plan), WEFT_OK);
    assert_non_null(strstr(weft_plan_describe(plan), "attention_any_ref"));
    weft_plan_destroy(plan);
    plan = make_linear(context, 0, NULL);
    assert_int_equal(weft_plan_query(plan, &info), WEFT_OK);
    assert_string_equal(info.kernel, has_panels ? "linear_q4_0_q8_ref" : best);
    weft_plan_destroy(plan);
    plan = make_linear(context, WEFT_LINEAR_EXACT, NULL); // one that rounds does not serve
    assert_null(strstr(weft_plan_describe(plan), "linear_q4_0_q8_ref"));
    weft_plan_destroy(plan);
    // What the descriptor names goes before all.
    plan = make_linear(context, 0, best);
    assert_int_equal(weft_plan_query(plan, &info), WEFT_OK);
    assert_string_equal(info.kernel, best);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

typedef struct product {
    float x[MOST * COLS], y[MOST * ROWS], w[COLS];
    unsigned char weights[ROWS * COLS / 32 * 18];
} product;

static void run_linear(weft_context *context, product *p, uint32_t flags)
{
    weft_plan *plan = make_linear(context, flags, NULL);
    size_t bytes = weft_plan_workspace_bytes(plan);
    void *workspace = aligned_alloc(64, bytes / 64 * 64 + 64);
    const weft_linear_args args = {.size = sizeof args,
                                   .batch = MOST,
                                   .weight = p->weights,
                                   .x = p->x,
                                   .y = p->y,
                                   .workspace = workspace,
                                   .workspace_bytes = bytes};
    assert_int_equal(weft_linear_run(plan, &args), WEFT_OK);
    free(workspace);
    weft_plan_destroy(plan);
}

static void bits_of_invariant_plans_stay(void **state)
{
    (void)state;
    static product p, q;
    uint32_t seed = 1;
    for (int i = 0; i < MOST * COLS; i++)
        p.x[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < COLS; i++)
            p.w[i] = (float)((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
        weft_quantize_row(WEFT_Q4_0, p.w, COLS, p.weights + r * (COLS / 32 * 18));
    }
    q = p;
    weft_context *context = make_context("");
    run_linear(context, &p, WEFT_LINEAR_BATCH_INVARIANT);
    add(context, (weft_tuning){.op = WEFT_TUNING_LINEAR,
                               .few_batch = 1,
                               .task_bytes = 4096,
                               .tasks_per_thread = 1024});
    run_linear(context, &q, WEFT_LINEAR_BATCH_INVARIANT);
    assert_memory_equal(p.y, q.y, sizeof p.y);
    run_linear(context, &q, 0); // others within twice the bound of linear.h
    for (int i = 0; i < MOST * ROWS; i++)
        assert_true(q.y[i] - p.y[i] < 1e-2f && p.y[i] - q.y[i] < 1e-2f);
    weft_context_destroy(context);
}

static void bad_entries_are_refused(void **state)
{
    (void)state;
    weft_context *context = make_context("");
    const weft_tuning bad[] = {
        {.op = WEFT_TUNING_LINEAR},
        {.size = sizeof bad[0], .op = WEFT_TUNING_LINEAR, .few_batch = 99},
        {.size = sizeof bad[0], .op = WEFT_TUNING_LINEAR, .kernel = "no_such_kernel"},
        {.size = sizeof bad[0], .op = WEFT_TUNING_LINEAR, .kernel = "attention_any_ref"},
        {.size = sizeof bad[0], .op = WEFT_TUNING_LINEAR, .reserved = {[1] = 1}},
    };
    assert_int_equal(weft_tuning_add(NULL, &bad[0]), WEFT_EINVAL);
    assert_int_equal(weft_tuning_add(context, NULL), WEFT_EINVAL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(weft_tuning_add(context, &bad[i]), WEFT_EINVAL);
        assert_true(*weft_error_text(context));
    }
    weft_tuning entry = {.size = sizeof entry}, at = {.size = sizeof at};
    assert_true(weft_tuning_at(context, 0, &at));
    assert_int_equal(at.source, WEFT_TUNING_BUILT_IN);
    entry.op = WEFT_TUNING_LINEAR;
    for (int i = 0; i < 512; i++)
        assert_int_equal(weft_tuning_add(context, &entry), WEFT_OK);
    assert_int_equal(weft_tuning_add(context, &entry), WEFT_ENOMEM);
    assert_true(weft_tuning_at(context, 513, &at));
    assert_false(weft_tuning_at(context, 514, &at));
    assert_false(weft_tuning_at(NULL, 0, &at));
    weft_context_destroy(context);
}

static char *folder;

static int make_folder(void **state)
{
    (void)state;
    folder = folder_make();
    setenv("WEFT_CACHE_DIR", folder, 1);
    unsetenv("WEFT_TUNING");
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

static weft_tuning chosen_of(const weft_context *context)
{
    const weft_tuning problem = {.size = sizeof problem,
                                 .op = WEFT_TUNING_LINEAR,
                                 .dtype = WEFT_Q4_0,
                                 .rows = ROWS,
                                 .cols = COLS};
    weft_tuning chosen = {.size = sizeof chosen};
    assert_int_equal(weft_tuning_choose(context, &problem, &chosen), WEFT_OK);
    return chosen;
}

static void a_written_file_is_read_by_the_next_context(void **state)
{
    (void)state;
    weft_context *context = make_context(NULL);
    assert_string_equal(weft_tuning_note(context), "");
    add(context, (weft_tuning){.op = WEFT_TUNING_LINEAR, .few_batch = 2});
    add(context, (weft_tuning){.op = WEFT_TUNING_LINEAR, .few_batch = 3, .task_bytes = 1 << 16});
    assert_int_equal(weft_tuning_write(context, NULL), WEFT_OK);
    assert_int_equal(weft_tuning_write(context, NULL), WEFT_OK); // over the one that is there
    assert_int_equal(folder_count(folder), 1);
    weft_context_destroy(context);

    context = make_context(NULL);
    assert_non_null(strstr(weft_tuning_note(context), "1 entries from "));
    assert_int_equal(chosen_of(context).few_batch, 3);
    assert_int_equal(chosen_of(context).source, WEFT_TUNING_FILE);
    add(context, (weft_tuning){.op = WEFT_TUNING_LINEAR, .few_batch = 5}); // the caller's wins
    assert_int_equal(chosen_of(context).few_batch, 5);
    assert_int_equal(chosen_of(context).task_bytes, 1 << 16);
    weft_context_destroy(context);

    setenv("WEFT_TUNING", "off", 1);
    context = make_context(NULL);
    assert_int_equal(chosen_of(context).few_batch, 0);
    assert_int_equal(weft_tuning_write(context, NULL), WEFT_EUNSUPPORTED);
    weft_context_destroy(context);
    unsetenv("WEFT_TUNING");
    context = make_context("");
    assert_int_equal(chosen_of(context).few_batch, 0);
    weft_context_destroy(context);
}

static void write_file(const char *path, const char *text, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static char last_line[512];

static void keep_line(void *user, const char *line)
{
    (void)user;
    if (strncmp(line, "tuning: ", 8) == 0)
        snprintf(last_line, sizeof last_line, "%s", line);
}

// The context comes to be, without the file, and says so.
static void expect_ignored(const char *path)
{
    weft_context *context;
    *last_line = 0;
    const weft_context_desc desc = {.size = sizeof desc, .tuning = path, .log = keep_line};
    assert_int_equal(weft_context_create(&desc, &context), WEFT_OK);
    assert_non_null(strstr(weft_tuning_note(context), "ignored "));
    assert_non_null(strstr(last_line, "tuning: ignored "));
    assert_int_equal(chosen_of(context).source, WEFT_TUNING_BUILT_IN);
    weft_context_destroy(context);
}

static void damaged_files_are_ignored_with_a_note(void **state)
{
    (void)state;
    char path[512], good[4096], bad[4096];
    snprintf(path, sizeof path, "%s/t.txt", folder);
    weft_context *context = make_context("");
    add(context, (weft_tuning){.op = WEFT_TUNING_LINEAR, .few_batch = 3});
    assert_int_equal(weft_tuning_write(context, path), WEFT_OK);
    weft_context_destroy(context);
    FILE *file = fopen(path, "rb");
    size_t bytes = fread(good, 1, sizeof good, file);
    fclose(file);
    context = make_context(path);
    assert_int_equal(chosen_of(context).few_batch, 3);
    weft_context_destroy(context);
    for (size_t i = 0; i < bytes; i += 7) { // a byte of every field
        memcpy(bad, good, bytes);
        bad[i] = bad[i] == '!' ? '?' : '!';
        write_file(path, bad, bytes);
        expect_ignored(path);
    }
    for (size_t i = 0; i < bytes; i += 5) {
        write_file(path, good, i);
        if (i < bytes - 1 && good[i ? i - 1 : 0] != '\n')
            expect_ignored(path);
    }
    snprintf(bad, sizeof bad, "%.*slinear q4_0 kernel=no_such_kernel\n", (int)bytes, good);
    write_file(path, bad, strlen(bad));
    expect_ignored(path);
    expect_ignored(folder); // no file
    char *huge = calloc(1, 1 << 20);
    write_file(path, huge, 1 << 20);
    expect_ignored(path);
    free(huge);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0); // does not wait for a writer
    expect_ignored(path);
    unlink(path);
    context = make_context(path);
    assert_string_equal(weft_tuning_note(context), "");
    assert_int_equal(weft_tuning_write(context, "/proc/no/such/place"), WEFT_EDEVICE);
    weft_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thresholds_move_panels),
        cmocka_unit_test(kernels_by_name_go_first_where_they_serve),
        cmocka_unit_test(bits_of_invariant_plans_stay),
        cmocka_unit_test(bad_entries_are_refused),
        cmocka_unit_test_setup_teardown(a_written_file_is_read_by_the_next_context, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(damaged_files_are_ignored_with_a_note, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
