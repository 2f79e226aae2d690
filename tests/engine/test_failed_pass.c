// SPDX-License-Identifier: MIT
// A pass that fails in the middle leaves timelines, pages and logits as if it had not been begun. The
// failure is planted: this program is linked with --wrap=model_program_forward, and the same for decode.
#define _XOPEN_SOURCE 700
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "engine/worker/program.h"
#include "tests/support/golden_model.h"

enum { CONTEXT = 256, CHUNK = 32, TOKENS = 100 };

static int passes_until_failure = -1; // negative: none fails

bool __real_model_program_forward(model_program *program, int32_t tokens, int32_t seqs,
                                  engine_error *err);
bool __wrap_model_program_forward(model_program *program, int32_t tokens, int32_t seqs,
                                  engine_error *err);
bool __wrap_model_program_forward(model_program *program, int32_t tokens, int32_t seqs,
                                  engine_error *err)
{
    bool fine = __real_model_program_forward(program, tokens, seqs, err);
    if (passes_until_failure < 0 || passes_until_failure-- > 0)
        return fine;
    return engine_fail(err, "planted"); // after keys and values were written
}

bool __real_model_program_decode(model_program *program, int32_t seqs, engine_error *err);
bool __wrap_model_program_decode(model_program *program, int32_t seqs, engine_error *err);
bool __wrap_model_program_decode(model_program *program, int32_t seqs, engine_error *err)
{
    bool fine = __real_model_program_decode(program, seqs, err);
    if (passes_until_failure < 0 || passes_until_failure-- > 0)
        return fine;
    return engine_fail(err, "planted");
}

static golden_written written;
static const int32_t *tokens;
static int32_t vocab;

static int write_model(void **state)
{
    (void)state;
    if (!golden_model_open(&written, "models/llama_f32.safetensors"))
        return -1;
    tokens = written.tokens;
    vocab = written.vocab;
    return 0;
}

static int remove_model(void **state)
{
    (void)state;
    return golden_model_close(&written);
}

static int32_t free_pages(const engine_worker *worker)
{
    engine_worker_info info;
    engine_worker_describe(worker, &info);
    return info.free_pages;
}

static bool eval(engine_session *session, const int32_t *ids, int32_t count, engine_worker *worker,
                 engine_error *err)
{
    engine_feed feed = {.session = session, .ids = ids, .count = count};
    return engine_eval(worker, &feed, 1, NULL, NULL, err);
}

static void expect_logits(engine_session *a, engine_session *b)
{
    const float *x = engine_session_logits(a), *y = engine_session_logits(b);
    assert_true(x && y);
    for (int32_t i = 0; i < vocab; i++)
        if (!(fabsf(x[i] - y[i]) <= 1e-4f))
            fail_msg("logit %d is %g, in a session without failures %g", i, (double)x[i],
                     (double)y[i]);
}

static void is_taken_back(void **state)
{
    (void)state;
    engine_error err = {{0}};
    const engine_options options = {.threads = 1,
                                    .context_tokens = CONTEXT,
                                    .chunk_tokens = CHUNK,
                                    .max_sessions = 2,
                                    .kv_dtype = WEFT_F32};
    engine_model *model = engine_model_open(written.path, &err);
    engine_worker *worker = engine_worker_open(model, &options, &err);
    engine_session *session = engine_session_open(worker, &err);
    engine_session *fresh = engine_session_open(worker, &err);
    assert_true(eval(session, tokens, 20, worker, &err));
    int32_t pages = free_pages(worker);

    // A step of one token, and a prompt, in its first pass.
    for (int32_t count = 1; count <= TOKENS - 20; count += TOKENS - 21) {
        passes_until_failure = 0;
        assert_false(eval(session, tokens + 20, count, worker, &err));
        assert_string_equal(err.text, "planted");
        assert_int_equal(engine_session_length(session), 20);
        assert_null(engine_session_logits(session));
        assert_int_equal(free_pages(worker), pages);
        assert_memory_equal(engine_session_tokens(session), tokens, 20 * sizeof *tokens);
    }
    // In its third pass: what the first two evaluated stays, nothing else.
    passes_until_failure = 2;
    assert_false(eval(session, tokens + 20, TOKENS - 20, worker, &err));
    assert_int_equal(engine_session_length(session), 20 + 2 * CHUNK);
    assert_null(engine_session_logits(session));
    assert_int_equal(free_pages(worker), pages - 1); // 84 tokens are two pages of 64

    assert_true(eval(session, tokens + 84, TOKENS - 84, worker, &err));
    assert_true(eval(fresh, tokens, TOKENS, worker, &err));
    expect_logits(session, fresh);
    engine_session_close(fresh);
    engine_session_close(session);
    engine_worker_close(worker);
    engine_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_taken_back)};
    return cmocka_run_group_tests_name("failed_pass", tests, write_model, remove_model);
}
