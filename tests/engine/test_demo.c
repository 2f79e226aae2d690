// SPDX-License-Identifier: MIT
// The model that is shipped: models/demo.gguf continues text as PyTorch does in f32 from the same
// dequantised weights (tests/golden/demo).
#define _DEFAULT_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "engine/engine.h"
#include "tests/support/open_worker.h"
#include "tests/support/scratch.h"

enum { MOST_TOKENS = 256 };

// Logits are about 10; two f32 engines differ by a few 1e-5, a wrong kernel by far more.
static const float LOGIT_TOLERANCE = 2e-3f;

static engine_worker *worker;
static json_t *root, *cases;

static int open_all(void **state)
{
    (void)state;
    json_error_t json_err;
    engine_error err = {""};
    engine_options options = {.threads = 2, .kv_dtype = WEFT_F32, .exact = true};
    root = json_load_file(WEFT_TEST_GOLDEN "/demo/greedy.json", 0, &json_err);
    cases = json_object_get(root, "cases");
    worker = open_worker(WEFT_TEST_GOLDEN "/../../models/demo.gguf", &options, &err);
    if (!worker)
        fprintf(stderr, "%s\n", err.text);
    return worker && json_array_size(cases) == 3 ? 0 : -1;
}

static int close_all(void **state)
{
    (void)state;
    close_worker(worker);
    json_decref(root);
    return 0;
}

// Copies a list of ids to out[MOST_TOKENS] and returns their number.
static int32_t read_ids(const json_t *list, int32_t *out)
{
    size_t count = json_array_size(list);
    assert_in_range(count, 1, MOST_TOKENS);
    for (size_t i = 0; i < count; i++)
        out[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return (int32_t)count;
}

static void encodes_prompts(void **state)
{
    (void)state;
    size_t n;
    json_t *c;
    json_array_foreach(cases, n, c)
    {
        const char *prompt = json_string_value(json_object_get(c, "prompt"));
        int32_t expected[MOST_TOKENS], count = read_ids(json_object_get(c, "ids"), expected);
        tokenizer_ids ids = {0};
        engine_error err = {""};
        if (!tokenizer_encode(engine_model_tokenizer(engine_worker_model(worker)), prompt,
                              strlen(prompt), TOKENIZER_PARSE_SPECIAL, &ids, &err))
            fail_msg("%s", err.text);
        assert_int_equal(ids.count, count);
        assert_memory_equal(ids.ids, expected, (size_t)count * sizeof *expected);
        tokenizer_ids_free(&ids);
    }
}

// At one position: the token that PyTorch chose, and by how much it led.
static void expect_choice(const float *logits, int32_t vocab, int32_t token, float margin)
{
    float best_other = -INFINITY;
    for (int32_t i = 0; i < vocab; i++)
        if (i != token && !(logits[i] <= best_other))
            best_other = logits[i];
    float lead = logits[token] - best_other;
    if (!(fabsf(lead - margin) <= LOGIT_TOLERANCE))
        fail_msg("token %d leads by %g, not by %g", token, (double)lead, (double)margin);
}

static void continues_as_pytorch_does(void **state)
{
    (void)state;
    engine_model_info info;
    engine_model_describe(engine_worker_model(worker), &info);
    float *logits = malloc((size_t)MOST_TOKENS * (size_t)info.vocab * sizeof *logits);
    assert_non_null(logits);
    size_t n;
    json_t *c;
    json_array_foreach(cases, n, c)
    {
        int32_t ids[2 * MOST_TOKENS];
        int32_t prompt = read_ids(json_object_get(c, "ids"), ids);
        int32_t added = read_ids(json_object_get(c, "greedy"), ids + prompt);
        assert_in_range(prompt + added, 1, MOST_TOKENS);
        engine_error err = {""};
        engine_session *session = engine_session_open(worker, &err);
        assert_non_null(session);
        engine_feed feed = {
            .session = session, .ids = ids, .count = prompt + added, .logits = logits};
        if (!engine_eval(worker, &feed, 1, NULL, NULL, &err))
            fail_msg("%s", err.text);
        const json_t *margins = json_object_get(c, "margins");
        for (int32_t i = 0; i < added; i++)
            expect_choice(logits + (size_t)(prompt + i - 1) * (size_t)info.vocab, info.vocab,
                          ids[prompt + i],
                          (float)json_number_value(json_array_get(margins, (size_t)i)));
        engine_session_close(session);
    }
    free(logits);
}

static void copy_file(const char *from, const char *to)
{
    char bytes[65536];
    size_t count;
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in && out);
    while ((count = fread(bytes, 1, sizeof bytes, in)) > 0)
        assert_int_equal(fwrite(bytes, 1, count, out), count);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

// Without mmap nothing of the file is read once it is open: reading a mapped file that has become short would end the
// program.
static void without_mmap_the_file_may_go(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_BYTES];
    scratch_file(path, NULL, 0);
    copy_file(WEFT_TEST_GOLDEN "/../../models/demo.gguf", path);
    engine_error err = {""};
    engine_options options = {.threads = 1, .no_mmap = true};
    engine_worker *own = open_worker(path, &options, &err);
    if (!own)
        fail_msg("%s", err.text);
    assert_int_equal(truncate(path, 1), 0);
    engine_session *session = engine_session_open(own, &err);
    const int32_t ids[] = {1, 2, 3};
    engine_feed feed = {.session = session, .ids = ids, .count = 3};
    if (!session || !engine_eval(own, &feed, 1, NULL, NULL, &err))
        fail_msg("%s", err.text);
    engine_session_close(session);
    close_worker(own);
    scratch_remove(path);
}

// The logits behind each of a few tokens.
static void some_logits(const engine_options *options, float *logits)
{
    const int32_t ids[] = {1, 2, 3, 40, 50, 60, 70};
    engine_error err = {""};
    engine_worker *own = open_worker(WEFT_TEST_GOLDEN "/../../models/demo.gguf", options, &err);
    if (!own)
        fail_msg("%s", err.text);
    engine_session *session = engine_session_open(own, &err);
    engine_feed feed = {.session = session, .ids = ids, .count = 7, .logits = logits};
    if (!session || !engine_eval(own, &feed, 1, NULL, NULL, &err))
        fail_msg("%s", err.text);
    engine_session_close(session);
    close_worker(own);
}

// Matrices that were laid out anew are the same matrices, exactly or with rounded activations.
static void packed_weights_are_the_weights(void **state)
{
    (void)state;
    engine_model_info info;
    engine_model_describe(engine_worker_model(worker), &info);
    size_t count = 7 * (size_t)info.vocab;
    float *packed = malloc(count * sizeof *packed), *plain = malloc(count * sizeof *plain);
    assert_true(packed && plain);
    for (int exact = 0; exact < 2; exact++) {
        float largest = 0, apart = 0;
        some_logits(&(engine_options){.threads = 2, .exact = exact}, packed);
        some_logits(&(engine_options){.threads = 2, .exact = exact, .no_pack = true}, plain);
        for (size_t i = 0; i < count; i++) {
            largest = fmaxf(largest, fabsf(plain[i]));
            apart = fmaxf(apart, fabsf(plain[i] - packed[i]));
        }
        if (!(apart <= (exact ? 0 : 0.05f) * largest))
            fail_msg("logits differ by %g of %g", (double)apart, (double)largest);
    }
    free(packed);
    free(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encodes_prompts),
        cmocka_unit_test(continues_as_pytorch_does),
        cmocka_unit_test(without_mmap_the_file_may_go),
        cmocka_unit_test(packed_weights_are_the_weights),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
