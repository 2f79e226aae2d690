// SPDX-License-Identifier: MIT
// Latent attention: a cache of one row per token that holds keys and values alike, and files that cannot have it.
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
#include "tests/support/golden_model.h"
#include "tests/support/open_worker.h"
#include "tests/support/refusal.h"

enum { TOKENS = 150, VOCAB = 320, KEY = 80, LAYERS = 3 };

static golden_written model;

static int open_model(void **state)
{
    (void)state;
    return golden_model_open(&model, "models/deepseek2lite_f32.safetensors") ? 0 : -1;
}

static int close_model(void **state)
{
    (void)state;
    return golden_model_close(&model);
}

static engine_worker *worker_with(weft_dtype keys, weft_dtype values, engine_error *err)
{
    const engine_options options = {.threads = 1,
                                    .context_tokens = 2 * TOKENS,
                                    .max_sessions = 2,
                                    .kv_dtype = keys,
                                    .v_dtype = values,
                                    .exact = true};
    return open_worker(model.path, &options, err);
}

static engine_session *session_of(engine_worker *worker)
{
    return must_sync_session(worker, model.tokens, TOKENS);
}

// Two sessions: the second shares a page of the first and copies the half full one.
static void logits_with(weft_dtype dtype, float *logits)
{
    engine_error err = {""};
    engine_worker *worker = worker_with(dtype, WEFT_DTYPE_NONE, &err);
    if (!worker)
        fail_msg("%s", err.text);
    engine_worker_info info;
    engine_worker_describe(worker, &info);
    if (dtype == WEFT_F16) // one row, not two
        assert_int_equal(info.kv_bytes_per_token, LAYERS * KEY * 2);
    engine_session *one = session_of(worker), *other = session_of(worker);
    memcpy(logits, engine_session_logits(one), VOCAB * sizeof *logits);
    for (int32_t i = 0; i < VOCAB; i++)
        assert_true(fabsf(logits[i] - engine_session_logits(other)[i]) <= 1e-3f);
    engine_session_close(one);
    engine_session_close(other);
    close_worker(worker);
}

static void formats(void **state)
{
    static const struct {
        weft_dtype dtype;
        double most;
    } cases[] = {{WEFT_F16, 0.002}, {WEFT_BF16, 0.02}, {WEFT_INT8, 0.05}, {WEFT_FP8_E4M3, 0.2}};
    float exact[VOCAB], logits[VOCAB];
    (void)state;
    logits_with(WEFT_F32, exact);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double squares = 0, length = 0;
        logits_with(cases[i].dtype, logits);
        for (int32_t n = 0; n < VOCAB; n++) {
            squares += pow((double)logits[n] - exact[n], 2);
            length += pow(exact[n], 2);
        }
        if (!(squares > 0 && sqrt(squares / length) <= cases[i].most))
            fail_msg("%s: %g away", weft_dtype_name(cases[i].dtype), sqrt(squares / length));
    }
}

static void refuse_cache(weft_dtype keys, weft_dtype values, const char *fragment)
{
    engine_error err = {""};
    assert_null(worker_with(keys, values, &err));
    check_refusal(&err, fragment);
}

static void refuses_caches(void **state)
{
    (void)state;
    refuse_cache(WEFT_F16, WEFT_BF16, "part of the keys");
    refuse_cache(WEFT_Q8_0, WEFT_DTYPE_NONE, "no whole blocks"); // 16 rotated elements
}

static char *find(char *bytes, size_t size_bytes, const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0; i + length <= size_bytes; i++)
        if (memcmp(bytes + i, text, length) == 0)
            return bytes + i;
    fail_msg("%s is not in the file", text);
    return NULL;
}

static void refuse_file(const char *bytes, size_t size_bytes, const char *fragment)
{
    char path[SCRATCH_PATH_BYTES];
    engine_error err = {""};
    scratch_file(path, bytes, size_bytes);
    assert_null(engine_model_open(path, &err));
    scratch_remove(path);
    check_refusal(&err, fragment);
}

// A number that follows its key and four bytes of type.
static void refuse_number(const char *key, uint32_t value, const char *fragment)
{
    size_t size_bytes;
    char *bytes = scratch_read(model.path, &size_bytes);
    memcpy(find(bytes, size_bytes, key) + strlen(key) + 4, &value, sizeof value);
    refuse_file(bytes, size_bytes, fragment);
    free(bytes);
}

static void refuses_files(void **state)
{
    static const uint32_t bad[] = {0, 1, 79, 4096, INT32_MAX, UINT32_MAX};
    static const char *const keys[] = {"attention.kv_lora_rank", "attention.key_length_mla",
                                       "attention.key_length", "rope.dimension_count"};
    size_t size_bytes;
    (void)state;
    char *bytes = scratch_read(model.path, &size_bytes);
    memcpy(find(bytes, size_bytes, "key_length_mla"), "key_length_old", 14);
    refuse_file(bytes, size_bytes, "older kind");
    free(bytes);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
            refuse_number(keys[k], bad[i], "");
    refuse_number("attention.value_length_mla", 23, "attn_output.weight");
    refuse_number("attention.kv_lora_rank", 0, "latent attention over");
    refuse_number("deepseek2.attention.head_count", 4, "the model's numbers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(formats), cmocka_unit_test(refuses_caches),
                                       cmocka_unit_test(refuses_files)};
    return cmocka_run_group_tests(tests, open_model, close_model);
}
