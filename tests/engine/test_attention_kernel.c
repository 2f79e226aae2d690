// SPDX-License-Identifier: MIT
// A model with another kernel of attention, for debugging: what takes scores, softmax and values one after another
// leads to the same logits.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/support/open_worker.h"

enum { TOKENS = 70 };
static const char model[] = WEFT_TEST_GOLDEN "/../../models/demo.gguf";

static float *logits_with(const char *kernel, int32_t *vocab)
{
    engine_error err = {""};
    const engine_options options = {.threads = 2,
                                    .context_tokens = TOKENS,
                                    .kv_dtype = WEFT_F32,
                                    .exact = true,
                                    .attention = kernel};
    engine_worker *worker = open_worker(model, &options, &err);
    if (!worker)
        fail_msg("%s", err.text);
    engine_session *session = engine_session_open(worker, &err);
    int32_t ids[TOKENS];
    engine_model_info info;
    engine_model_describe(engine_worker_model(worker), &info);
    *vocab = info.vocab;
    for (int32_t i = 0; i < TOKENS; i++)
        ids[i] = (int32_t)((i * INT64_C(7919) + 13) % info.vocab);
    if (!engine_session_sync(session, ids, TOKENS - 1, NULL, NULL, &err) ||
        !engine_session_sync(session, ids, TOKENS, NULL, NULL, &err)) // a prompt and a step
        fail_msg("%s", err.text);
    float *logits = malloc((size_t)info.vocab * sizeof *logits);
    memcpy(logits, engine_session_logits(session), (size_t)info.vocab * sizeof *logits);
    engine_session_close(session);
    close_worker(worker);
    return logits;
}

static void the_same_logits(void **state)
{
    (void)state;
    int32_t vocab;
    float *best = logits_with(NULL, &vocab), *plain = logits_with("attention_any_ref", &vocab);
    double off = 0, length = 0;
    for (int32_t i = 0; i < vocab; i++) {
        off += pow((double)best[i] - plain[i], 2);
        length += pow(best[i], 2);
    }
    assert_true(sqrt(off / length) < 1e-5);
    free(best);
    free(plain);
}

static void unknown_kernels_are_worded(void **state)
{
    (void)state;
    engine_error err = {""};
    const engine_options options = {.context_tokens = TOKENS, .attention = "attention_no_such"};
    assert_null(open_worker(model, &options, &err));
    assert_non_null(strstr(err.text, "attention_no_such"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_logits),
                                       cmocka_unit_test(unknown_kernels_are_worded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
