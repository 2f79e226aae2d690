// SPDX-License-Identifier: MIT
// Pages that a worker remembers, in files: another worker finds the same prompts, and no others.
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/support/demo_model.h"
#include "tests/support/scratch.h"

enum { PAGE = 64, CONTEXT = 8 * PAGE, MOST = 4 * PAGE };

static engine_model *model;
static char path[SCRATCH_PATH_BYTES];

static int open_all(void **state)
{
    (void)state;
    scratch_file(path, NULL, 0);
    model = demo_model_open(NULL, NULL);
    return model ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    engine_model_close(model);
    return scratch_remove(path);
}

static engine_worker *open_for(int32_t pages, weft_dtype kv)
{
    const engine_options options = {.threads = 1,
                                    .context_tokens = CONTEXT,
                                    .pool_tokens = pages * PAGE,
                                    .kv_dtype = kv,
                                    .max_sessions = 2,
                                    .keep_prefixes = true,
                                    .invariant = true};
    engine_worker *worker = engine_worker_open(model, &options, NULL);
    assert_non_null(worker);
    return worker;
}

// The text behind a prompt whose first `shared` tokens are all prompts'; how many of its tokens were evaluated.
static char *ask(engine_worker *worker, int32_t shared, int32_t kind, int32_t count,
                 int32_t *evaluated)
{
    int32_t ids[MOST];
    tokenizer_text text = {0};
    engine_result result;
    engine_session *session = engine_session_open(worker, NULL);
    engine_generation wish = {
        .max_tokens = 12, .ignore_end = true, .write = keep_text, .user = &text};
    for (int32_t i = 0; i < count; i++)
        ids[i] = i < shared ? 100 + i % 50 : 300 + (i * (kind + 1)) % 97;
    assert_true(engine_generate(session, ids, count, &wish, &result, NULL));
    assert_true(tokenizer_text_append(&text, "", 1));
    engine_session_close(session);
    *evaluated = result.prompt_tokens;
    return text.data;
}

static const struct {
    int32_t shared, kind, count;
} prompts[] = {{PAGE, 1, 3 * PAGE + 5}, {PAGE, 2, 2 * PAGE + 9}, {0, 3, 2 * PAGE + 1}};
enum { PROMPTS = sizeof prompts / sizeof *prompts };

static void found_again(void **state)
{
    (void)state;
    engine_error err = {""};
    engine_worker_info was, is;
    char *texts[PROMPTS];
    int32_t evaluated;
    engine_worker *worker = open_for(16, WEFT_F32), *other = open_for(16, WEFT_F32);
    for (int i = 0; i < PROMPTS; i++)
        texts[i] = ask(worker, prompts[i].shared, prompts[i].kind, prompts[i].count, &evaluated);
    assert_true(engine_worker_save_pages(worker, path, &err));
    assert_true(engine_worker_restore_pages(other, path, &err));
    engine_worker_describe(worker, &was);
    engine_worker_describe(other, &is);
    assert_int_equal(is.remembered_pages, was.remembered_pages);
    assert_int_equal(is.free_pages, is.pool_pages);
    for (int i = 0; i < PROMPTS; i++) {
        char *again = ask(other, prompts[i].shared, prompts[i].kind, prompts[i].count, &evaluated);
        assert_string_equal(again, texts[i]);
        assert_int_equal(evaluated, prompts[i].count % PAGE);
        free(again);
        free(texts[i]);
    }
    free(ask(other, PAGE, 4, 2 * PAGE, &evaluated)); // shares the first page alone
    assert_int_equal(evaluated, PAGE);
    free(ask(other, 0, 5, 2 * PAGE, &evaluated));
    assert_int_equal(evaluated, 2 * PAGE);
    engine_worker_close(worker);
    engine_worker_close(other);
}

// Into a pool that has few free pages go as many as fit; what it remembers already stays.
static void as_many_as_fit(void **state)
{
    (void)state;
    engine_error err = {""};
    engine_worker_info once, twice;
    int32_t evaluated;
    engine_worker *empty = open_for(8, WEFT_F32), *full = open_for(8, WEFT_F32);
    assert_true(engine_worker_restore_pages(empty, path, &err));
    engine_worker_describe(empty, &once);
    assert_true(engine_worker_restore_pages(empty, path, &err)); // they are there already
    engine_worker_describe(empty, &twice);
    assert_true(once.remembered_pages > 4 && once.remembered_pages == twice.remembered_pages);
    assert_int_equal(twice.free_pages, twice.pool_pages);
    for (int i = 0; i < 4; i++)
        free(ask(full, 0, 10 + i, 2 * PAGE + 1, &evaluated));
    assert_true(engine_worker_restore_pages(full, path, &err));
    for (int i = 2; i < 4; i++) {
        free(ask(full, 0, 10 + i, 2 * PAGE + 1, &evaluated));
        assert_int_equal(evaluated, 1);
    }
    engine_worker_close(empty);
    engine_worker_close(full);
}

static void expect_refusal(engine_worker *worker, const char *word)
{
    engine_error err = {""};
    engine_worker_info info;
    assert_false(engine_worker_restore_pages(worker, path, &err));
    if (!strstr(err.text, word) || !strstr(err.text, path))
        fail_msg("'%s' is not in: %s", word, err.text);
    engine_worker_describe(worker, &info);
    assert_int_equal(info.remembered_pages, 0);
    assert_int_equal(info.free_pages, info.pool_pages);
}

static void change(long at)
{
    FILE *file = fopen(path, "r+b");
    assert_true(file && fseek(file, at, SEEK_SET) == 0);
    int byte = fgetc(file);
    assert_true(fseek(file, at, SEEK_SET) == 0 && fputc(byte ^ 1, file) != EOF);
    assert_int_equal(fclose(file), 0);
}

static void others_are_refused(void **state)
{
    (void)state;
    engine_worker *halves = open_for(16, WEFT_F16), *worker = open_for(16, WEFT_F32);
    expect_refusal(halves, "formats");
    for (long at = 0; at < 20000; at = at * 3 + 7) {
        change(at);
        expect_refusal(worker, "damaged");
        change(at);
    }
    assert_int_equal(truncate(path, 5000), 0);
    expect_refusal(worker, "damaged");
    assert_int_equal(truncate(path, 3), 0);
    expect_refusal(worker, "damaged");
    // Pages of the same size, but of another format.
    int32_t evaluated;
    engine_error err = {""};
    engine_worker *brains = open_for(16, WEFT_BF16);
    free(ask(brains, 0, 1, 2 * PAGE, &evaluated));
    assert_true(engine_worker_save_pages(brains, path, &err));
    expect_refusal(halves, "formats");
    engine_worker_close(brains);
    engine_worker_close(halves);
    engine_worker_close(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(found_again),
                                       cmocka_unit_test(as_many_as_fit),
                                       cmocka_unit_test(others_are_refused)};
    return cmocka_run_group_tests(tests, open_all, close_all);
}
