// SPDX-License-Identifier: MIT
// Timelines in files: restored they give the text that they gave, and what is another's or damaged is refused. For want of
// memory this program is linked with --wrap=engine_alloc.
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/support/demo_model.h"
#include "tests/support/open_worker.h"
#include "tests/support/scratch.h"

enum { CONTEXT = 256, MOST = 30 };

void *__real_engine_alloc(size_t count, size_t size);
void *__wrap_engine_alloc(size_t count, size_t size);

static int refusals; // so many of the next allocations fail
static engine_model *model;
static tokenizer_ids prompt;
static char path[SCRATCH_PATH_BYTES];

void *__wrap_engine_alloc(size_t count, size_t size)
{
    return refusals > 0 && refusals-- ? NULL : __real_engine_alloc(count, size);
}

static int open_all(void **state)
{
    static const char text[] =
        "The king was old and tired, but his three daughters were not. The first could ride, the "
        "second could read, and the third could sing all the songs of the country, which were many "
        "and long, and she sang them every evening when the sun went down behind the hill.";
    (void)state;
    scratch_file(path, NULL, 0);
    model = demo_model_open(text, &prompt);
    return model ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    scratch_remove(path);
    tokenizer_ids_free(&prompt);
    engine_model_close(model);
    return 0;
}

static engine_worker *open_for(int32_t context, weft_dtype kv)
{
    const engine_options options = {.threads = 1,
                                    .context_tokens = context,
                                    .kv_dtype = kv,
                                    .max_sessions = 2,
                                    .invariant = true};
    return open_worker_of(model, &options, NULL);
}

static char *generate(engine_session *session, engine_result *result)
{
    tokenizer_text text = {0};
    engine_generation wish = {.max_tokens = MOST, .write = keep_text, .user = &text};
    assert_true(engine_generate(session, prompt.ids, (int32_t)prompt.count, &wish, result, NULL));
    assert_true(tokenizer_text_append(&text, "", 1));
    return text.data;
}

static void check_round(weft_dtype kv)
{
    engine_result result;
    engine_error err = {""};
    engine_worker *worker = open_for(CONTEXT, kv), *other = open_for(CONTEXT, kv);
    engine_session *session = engine_session_open(worker, NULL);
    engine_session *restored = engine_session_open(other, NULL);
    char *text = generate(session, &result);
    assert_int_equal(result.prompt_tokens, prompt.count);
    engine_session_truncate(session, (int32_t)prompt.count);
    assert_true(engine_session_save(session, path, &err));
    assert_true(engine_session_restore(restored, path, &err));
    assert_int_equal(engine_session_length(restored), prompt.count);
    assert_memory_equal(engine_session_tokens(restored), prompt.ids,
                        prompt.count * sizeof *prompt.ids);
    char *again = generate(restored, &result);
    assert_int_equal(result.prompt_tokens, 1);
    assert_string_equal(text, again);
    free(text);
    free(again);
    engine_session_close(session);
    engine_session_close(restored);
    engine_worker_info info;
    engine_worker_describe(other, &info);
    assert_int_equal(info.free_pages, info.pool_pages);
    engine_worker_close(worker);
    engine_worker_close(other);
}

static void restored_timelines_go_on(void **state)
{
    (void)state;
    check_round(WEFT_F32);
    check_round(WEFT_Q8_0);
    check_round(WEFT_F16);
}

static void others_files_are_refused(void **state)
{
    (void)state;
    engine_error err = {""};
    engine_worker *formats = open_for(CONTEXT, WEFT_Q8_0), *small = open_for(16, WEFT_F16);
    engine_session *session = engine_session_open(formats, NULL);
    assert_false(engine_session_restore(session, path, &err));
    assert_non_null(strstr(err.text, "another model"));
    assert_int_equal(engine_session_length(session), 0);
    engine_session_close(session);
    session = engine_session_open(small, NULL);
    assert_false(engine_session_restore(session, path, &err));
    assert_false(engine_session_restore(session, P_tmpdir "/weft-is-not-here", &err));
    assert_false(engine_session_save(session, P_tmpdir "/weft-is-not-here/x", &err));
    engine_session_close(session);
    engine_worker_close(formats);
    engine_worker_close(small);
}

static void want_of_memory_is_said(void **state)
{
    (void)state;
    engine_error err = {""};
    engine_worker *worker = open_for(CONTEXT, WEFT_F16);
    engine_session *session = engine_session_open(worker, NULL);
    refusals = 1;
    assert_false(engine_session_save(session, path, &err));
    assert_non_null(strstr(err.text, "memory"));
    err.text[0] = '\0';
    refusals = 1;
    assert_false(engine_worker_save_pages(worker, path, &err));
    assert_non_null(strstr(err.text, "memory"));
    assert_int_equal(refusals, 0);
    engine_session_close(session);
    engine_worker_close(worker);
}

static void write_file(const unsigned char *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    fclose(file);
}

// A bit anywhere, an end anywhere.
static void damage_is_seen(void **state)
{
    (void)state;
    engine_error err = {""};
    size_t size;
    unsigned char *bytes = (unsigned char *)scratch_read(path, &size);
    engine_worker *worker = open_for(CONTEXT, WEFT_F16);
    engine_session *session = engine_session_open(worker, NULL);
    for (unsigned n = 0; n < 60; n++) {
        size_t at = n < 44 ? n : (size_t)n * 2654435761u % size;
        bytes[at] ^= (unsigned char)(1u << n % 8);
        write_file(bytes, size);
        assert_false(engine_session_restore(session, path, &err));
        bytes[at] ^= (unsigned char)(1u << n % 8);
        write_file(bytes, (size_t)n * 7919 % size);
        assert_false(engine_session_restore(session, path, &err));
        assert_int_equal(engine_session_length(session), 0);
    }
    write_file(bytes, size);
    assert_true(engine_session_restore(session, path, &err));
    engine_session_close(session);
    engine_worker_close(worker);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restored_timelines_go_on),
        cmocka_unit_test(others_files_are_refused),
        cmocka_unit_test(want_of_memory_is_said),
        cmocka_unit_test(damage_is_seen),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
