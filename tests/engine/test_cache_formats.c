// SPDX-License-Identifier: MIT
// Every format of the KV cache, keys and values alike or each its own: the shipped model says nearly what it
// says with a cache of f32, and sessions that share pages, scales included, say the same.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/support/open_worker.h"

enum { TOKENS = 100, VOCAB = 4096 };

static int32_t ids[TOKENS];

static engine_session *session_of(engine_worker *worker)
{
    return must_sync_session(worker, ids, TOKENS);
}

static engine_worker *worker_with(weft_dtype keys, weft_dtype values, int32_t sessions)
{
    engine_error err = {""};
    engine_options options = {.threads = 2,
                              .context_tokens = 2 * TOKENS,
                              .max_sessions = sessions,
                              .kv_dtype = keys,
                              .v_dtype = values,
                              .exact = true};
    engine_worker *worker = open_worker(WEFT_TEST_GOLDEN "/../../models/demo.gguf", &options, &err);
    if (!worker)
        fail_msg("%s", err.text);
    return worker;
}

// Distance of the logits to those of an f32 cache, over the length of those.
static double distance(weft_dtype keys, weft_dtype values, const float *exact)
{
    engine_worker *worker = worker_with(keys, values, 2);
    engine_session *one = session_of(worker),
                   *other = session_of(worker); // shares a page, copies one
    const float *logits = engine_session_logits(one), *again = engine_session_logits(other);
    double squares = 0, length = 0;
    for (int32_t i = 0; i < VOCAB; i++) {
        squares += pow((double)logits[i] - exact[i], 2);
        length += pow(exact[i], 2);
        assert_true(fabsf(logits[i] - again[i]) <= 1e-3f);
    }
    engine_session_close(one);
    engine_session_close(other);
    close_worker(worker);
    return sqrt(squares / length);
}

static void formats(void **state)
{
    static float exact[VOCAB];
    const struct {
        weft_dtype keys, values; // values 0: as the keys
        double most; // random text and small heads: errors are large; other logits are 1.4 away
    } cases[] = {
        {WEFT_F16, WEFT_DTYPE_NONE, 0.002},    {WEFT_BF16, WEFT_DTYPE_NONE, 0.02},
        {WEFT_INT8, WEFT_DTYPE_NONE, 0.05},    {WEFT_Q8_0, WEFT_DTYPE_NONE, 0.05},
        {WEFT_FP8_E4M3, WEFT_DTYPE_NONE, 0.2}, {WEFT_FP8_E5M2, WEFT_DTYPE_NONE, 0.3},
        {WEFT_Q5_1, WEFT_DTYPE_NONE, 0.5},     {WEFT_Q5_0, WEFT_DTYPE_NONE, 0.5},
        {WEFT_Q4_1, WEFT_DTYPE_NONE, 0.9},     {WEFT_Q4_0, WEFT_DTYPE_NONE, 0.9},
        {WEFT_IQ4_NL, WEFT_DTYPE_NONE, 0.9},   {WEFT_Q8_0, WEFT_Q4_0, 0.9},
        {WEFT_F16, WEFT_INT8, 0.05},           {WEFT_INT8, WEFT_F16, 0.05},
    };
    (void)state;
    for (int32_t i = 0; i < TOKENS; i++)
        ids[i] = 300 + i * 37 % 3000;
    engine_worker *worker = worker_with(WEFT_F32, WEFT_DTYPE_NONE, 1);
    engine_session *session = session_of(worker);
    memcpy(exact, engine_session_logits(session), sizeof exact);
    engine_session_close(session);
    close_worker(worker);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double far = distance(cases[i].keys, cases[i].values, exact);
        if (!(far > 0 && far <= cases[i].most))
            fail_msg("%s/%s: %g of the logits' length away, at most %g is right",
                     weft_dtype_name(cases[i].keys),
                     cases[i].values ? weft_dtype_name(cases[i].values) : "the same", far,
                     cases[i].most);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(formats)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
