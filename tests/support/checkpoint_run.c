// SPDX-License-Identifier: MIT
#include "tests/support/checkpoint_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/open_worker.h"

static engine_worker *worker_for(engine_model *model)
{
    engine_error err = {""};
    engine_worker *worker = open_worker_of(
        model, &(engine_options){.exact = true, .kv_dtype = WEFT_F32, .threads = 1}, &err);
    if (!worker)
        fail_msg("%s", err.text);
    return worker;
}

// Tokens fed `feed` at a time.
static double distance_cut(engine_worker *worker, const golden *file, int32_t feed)
{
    engine_error err = {""};
    const int32_t *tokens = golden_data(file, "model", "tokens", GOLDEN_I32);
    const float *want = golden_data(file, "model", "logits", GOLDEN_F32);
    int32_t count = (int32_t)golden_find(file, "model", "tokens")->elements;
    int64_t vocab = golden_find(file, "model", "logits")->shape[1];
    engine_session *session = must_open_session(worker);
    float *logits = calloc((size_t)(count * vocab), sizeof *logits);
    assert_non_null(logits);
    for (int32_t done = 0; done < count; done += feed) {
        engine_feed next = {.session = session,
                            .ids = tokens + done,
                            .count = count - done < feed ? count - done : feed,
                            .logits = logits + done * vocab};
        if (!engine_eval(worker, &next, 1, NULL, NULL, &err))
            fail_msg("%s", err.text);
    }
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < count * vocab; i++) {
        double d = fabs((double)logits[i] - want[i]);
        worst = d <= worst ? worst : isnan(d) ? INFINITY : d;
        largest = fmax(largest, fabs((double)want[i]));
    }
    free(logits);
    engine_session_close(session);
    return worst / largest;
}

double checkpoint_distance(engine_model *model, const golden *file)
{
    engine_worker *worker = worker_for(model);
    double off = distance_cut(worker, file, INT32_MAX);
    engine_worker_close(worker);
    return off;
}

double checkpoint_distance_however_cut(engine_model *model, const golden *file)
{
    static const int32_t feeds[] = {INT32_MAX, 7, 1};
    engine_worker *worker = worker_for(model);
    double worst = 0;
    for (size_t i = 0; i < sizeof feeds / sizeof *feeds; i++)
        worst = fmax(worst, distance_cut(worker, file, feeds[i]));
    engine_worker_close(worker);
    return worst;
}

void checkpoint_expect_greedy(const char *name, engine_model *model, const golden *file,
                              const golden *greedy)
{
    engine_error err = {""};
    const int32_t *want = golden_data(greedy, name, "tokens", GOLDEN_I32);
    int32_t count = (int32_t)golden_find(greedy, name, "tokens")->elements;
    int32_t prompt = (int32_t)golden_find(file, "model", "tokens")->elements;
    engine_worker *worker = worker_for(model);
    engine_session *session = must_open_session(worker);
    engine_generation generation = {.max_tokens = count, .ignore_end = true};
    engine_result result;
    if (!engine_generate(session, golden_data(file, "model", "tokens", GOLDEN_I32), prompt,
                         &generation, &result, &err))
        fail_msg("%s: %s", name, err.text);
    // The last token need not be evaluated to be known.
    assert_in_range(engine_session_length(session), prompt + count - 1, prompt + count);
    const int32_t *is = engine_session_tokens(session) + prompt;
    for (int32_t i = 0; i < engine_session_length(session) - prompt; i++)
        if (is[i] != want[i])
            fail_msg("%s: greedy token %d is %d, not %d", name, i, is[i], want[i]);
    engine_session_close(session);
    engine_worker_close(worker);
}
