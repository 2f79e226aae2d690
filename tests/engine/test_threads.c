// SPDX-License-Identifier: MIT
// A seed carries from machine to machine: the demo model gives the same logits, to the bit, with any
// number of threads, in contexts long enough for attention to divide its keys.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"

enum { PROMPT = 560, STEPS = 12 };

static int32_t drawn(int32_t vocab, int32_t i)
{
    return (int32_t)((i * INT64_C(7919) + 13) % vocab);
}

// Logits after the prompt and after every step, [STEPS + 1][vocab].
static float *evaluate(int32_t threads, int32_t *vocab)
{
    engine_error err = {""};
    engine_options options = {.threads = threads, .context_tokens = PROMPT + STEPS};
    engine_model *model = engine_model_open(WEFT_TEST_GOLDEN "/../../models/demo.gguf", &err);
    if (!model)
        fail_msg("%s", err.text);
    engine_worker *worker = engine_worker_open(model, &options, &err);
    if (!worker)
        fail_msg("%s", err.text);
    engine_model_info info;
    engine_model_describe(model, &info);
    *vocab = info.vocab;
    size_t row = (size_t)info.vocab;
    float *logits = malloc((STEPS + 1) * row * sizeof *logits);
    engine_session *session = engine_session_open(worker, &err);
    int32_t ids[PROMPT + STEPS];
    for (int32_t i = 0; i < PROMPT + STEPS; i++)
        ids[i] = drawn(info.vocab, i);
    for (int32_t i = 0; i <= STEPS; i++) {
        if (!engine_session_sync(session, ids, PROMPT + i, NULL, NULL, &err))
            fail_msg("%s", err.text);
        memcpy(logits + (size_t)i * row, engine_session_logits(session), row * sizeof *logits);
    }
    engine_session_close(session);
    engine_worker_close(worker);
    engine_model_close(model);
    return logits;
}

static void threads_do_not_change_logits(void **state)
{
    const int32_t threads[] = {2, 3, 7, 16};
    int32_t vocab;
    (void)state;
    float *want = evaluate(1, &vocab);
    for (int i = 0; i < 4; i++) {
        float *got = evaluate(threads[i], &vocab);
        for (int32_t step = 0; step <= STEPS; step++)
            if (memcmp(want + (size_t)step * (size_t)vocab, got + (size_t)step * (size_t)vocab,
                       (size_t)vocab * sizeof *got) != 0)
                fail_msg("%d threads differ from one after %d steps", threads[i], step);
        free(got);
    }
    free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_do_not_change_logits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
