// SPDX-License-Identifier: MIT
// The program: `weft analyse` counts exactly, `weft explain` works its examples right.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/program.h"

static program_result ran;

static void run(const char *const words[])
{
    ran = program_run(".", words);
    if (ran.status != 0)
        fail_msg("exit status %d, error '%s'", ran.status, ran.err);
}

#define RUN(...)                                                                                   \
    run((const char *const[]){WEFT_TEST_PROGRAM, "analyse", __VA_ARGS__, "--json", NULL})

// The line of the output whose members `what` and, if given, `key` have these values.
static json_t *line_of(const char *what, const char *key, const char *text, int64_t number)
{
    for (const char *at = ran.out; *at;) {
        size_t bytes = strcspn(at, "\n");
        json_t *line = json_loadb(at, bytes, 0, NULL);
        assert_non_null(line);
        const json_t *value = key ? json_object_get(line, key) : NULL;
        bool same = !key || (text ? value && strcmp(json_string_value(value), text) == 0
                                  : json_integer_value(value) == number);
        if (same && strcmp(json_string_value(json_object_get(line, "what")), what) == 0)
            return line;
        json_decref(line);
        at += bytes + (at[bytes] == '\n');
    }
    fail_msg("no line for %s", what);
    return NULL;
}

static void expect(json_t *line, const char *key, double expected, double within)
{
    double value = json_number_value(json_object_get(line, key));
    if (!(fabs(value - expected) <= within))
        fail_msg("%s is %.9g, not %.9g", key, value, expected);
}

// A row's bytes and operations, from its shape and the bytes of a block.
static void one_token_of_an_8b_model(void **state)
{
    (void)state;
    RUN("--shape", "llama-3.1-8b", "--format", "q4_0", "--context", "4096", "--bandwidth", "200");
    json_t *line = line_of("operator", "name", "output", 0);
    expect(line, "weight_bytes", 128256.0 * 4096 * 18 / 32, 0);
    expect(line, "flops", 2.0 * 128256 * 4096, 0);
    expect(line, "flops_per_byte", 32.0 / 9, 1e-5); // 3.56
    json_decref(line);
    line = line_of("operator", "name", "attention", 0);
    expect(line, "kv_bytes", 536870912, 0); // 512 MiB
    expect(line, "flops", 4.0 * 32 * 128 * 4096 * 32, 0);
    json_decref(line);
    line = line_of("operator", "name", "total", 0);
    expect(line, "weight_bytes", 4221370368.0, 0); // 4.22 GB
    json_decref(line);
    line = line_of("cache", NULL, NULL, 0);
    expect(line, "bytes_per_token_and_layer", 4096, 0);
    expect(line, "bytes_per_token", 131072, 0);
    json_decref(line);
    program_result_free(&ran);
    RUN("--shape", "llama-3.1-8b", "--context", "1", "--bandwidth", "273");
    line = line_of("bound", NULL, NULL, 0);
    expect(line, "tokens_per_second", 64.67, 0.01);
    json_decref(line);
    program_result_free(&ran);
}

static void operations_per_byte_of_formats(void **state)
{
    (void)state;
    static const struct {
        const char *format;
        double intensity;
    } known[] = {{"f16", 1}, {"q8_0", 32.0 / 17}, {"q4_k", 32.0 / 9}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        RUN("--shape", "llama-3.2-1b", "--format", known[i].format);
        json_t *line = line_of("operator", "name", "ffn_up", 0);
        expect(line, "flops_per_byte", known[i].intensity, 1e-5);
        json_decref(line);
        program_result_free(&ran);
    }
    // Of a mix half of the layers have 210 bytes for 256 weights of their down-projection, the others 144.
    RUN("--shape", "llama-3.2-1b", "--format", "q4_k_m");
    json_t *down = line_of("operator", "name", "ffn_down", 0);
    expect(down, "weight_bytes", 8 * (2048.0 * 8192 / 256) * (210 + 144), 0);
    assert_string_equal(json_string_value(json_object_get(down, "formats")), "q6_k q4_k");
    json_decref(down);
    program_result_free(&ran);
    // Weights are read once whatever the batch.
    RUN("--shape", "llama-3.2-1b", "--format", "f16", "--batch", "8");
    json_t *line = line_of("operator", "name", "ffn_up", 0);
    expect(line, "flops_per_byte", 8, 1e-9);
    json_decref(line);
    program_result_free(&ran);
}

static void memory_of_attention(void **state)
{
    (void)state;
    RUN("--shape", "llama-3.1-8b", "--prompt", "2048", "--tile", "32,64", "--chunk", "512");
    json_t *line = line_of("attention", NULL, NULL, 0);
    expect(line, "naive_scores", 32.0 * 2048 * 2048 * 4, 0);
    expect(line, "naive_bytes", 32.0 * 2048 * (2048 * 8 + 128 * 4), 0);
    expect(line, "tile_bytes",
           32 * 128 * 2 + 2 * 64 * 128 * 2 + 32 * 64 * 4 + 32 * 128 * 4 + 32 * 8, 0);
    expect(line, "runs_per_token", 32, 0);
    expect(line, "runs_per_prompt", 128, 0);
    json_decref(line);
    program_result_free(&ran);
}

// A prefix of 64 tokens fills four pages of 16 and none of 128; a page with one token wastes the rest.
static void pages_of_requests(void **state)
{
    (void)state;
    RUN("models/demo.gguf", "--requests", "64+1,1,1", "--page-size", "16,128");
    json_t *small = line_of("pages", "page_size", NULL, 16),
           *large = line_of("pages", "page_size", NULL, 128);
    expect(small, "shared", 4, 0);
    expect(small, "used", 4 + 3, 0);
    expect(small, "alone", 15, 0);
    expect(small, "wasted_slots", 3 * 15, 0);
    expect(large, "shared", 0, 0);
    expect(large, "used", 3, 0);
    expect(large, "wasted_slots", 3 * (128 - 65), 0);
    json_decref(small);
    json_decref(large);
    program_result_free(&ran);
    RUN("models/demo.gguf", "--requests", "0+1", "--page-size", "16,128");
    small = line_of("pages", "page_size", NULL, 16);
    large = line_of("pages", "page_size", NULL, 128);
    expect(small, "wasted_percent", 93.75, 1e-4);
    expect(large, "wasted_percent", 99.21875, 1e-4);
    json_decref(small);
    json_decref(large);
    program_result_free(&ran);
}

// Drafts and other sequences of 1 to 16 tokens: a small page leaves less of itself empty.
static void small_pages_suit_short_sequences(void **state)
{
    (void)state;
    RUN("models/demo.gguf", "--requests", "0+1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "--page-size",
        "16,128");
    json_t *small = line_of("pages", "page_size", NULL, 16),
           *large = line_of("pages", "page_size", NULL, 128);
    expect(small, "used", 16, 0);
    expect(small, "wasted_slots", 16 * 16 - 136, 0);
    expect(large, "used", 16, 0);
    expect(large, "wasted_slots", 16 * 128 - 136, 0);
    json_decref(small);
    json_decref(large);
    program_result_free(&ran);
}

static void bad_questions_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *words[6];
        int status;
        const char *says;
    } bad[] = {
        {{"analyse", NULL}, 2, "MODEL"},
        {{"analyse", "--shape", "nobody", NULL}, 1, "nobody"},
        {{"analyse", "--shape", "llama-3.2-1b", "x", NULL}, 2, "place of a file"},
        {{"analyse", "--shape", "qwen2.5-0.5b", "--format", "q4_k", NULL}, 1, "blocks"},
        {{"analyse", "--shape", "llama-3.2-1b", "--format", "q4_x", NULL}, 2, " q4_k_m "},
        {{"analyse", "--requests", "1,2", "x", NULL}, 2, "PREFIX+OWN"},
        {{"analyse", "--tile", "1", "x", NULL}, 2, "QUERIES,KEYS"},
        {{"analyse", "--page-size", "0", "x", NULL}, 2, "page-size"},
        {{"explain", "nothing", NULL}, 2, "nothing"},
        {{"explain", NULL}, 2, "attention"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *words[8] = {WEFT_TEST_PROGRAM};
        for (int w = 0; bad[i].words[w]; w++)
            words[w + 1] = bad[i].words[w];
        ran = program_run(".", words);
        if (ran.status != bad[i].status || !strstr(ran.err, bad[i].says))
            fail_msg("%zu: status %d, '%s'", i, ran.status, ran.err);
        program_result_free(&ran);
    }
}

// The output of the last step is softmax(scores) times values, worked out here in the plain way.
static void attention_is_explained(void **state)
{
    (void)state;
    static const double scores[] = {1, 0.5, 3, 2, -1, 2.5}, first[] = {1, 0, 2, 1, 4, 0};
    double sum = 0, out = 0;
    for (int i = 0; i < 6; i++) {
        sum += exp(scores[i]);
        out += exp(scores[i]) * first[i];
    }
    run((const char *const[]){WEFT_TEST_PROGRAM, "explain", "attention", NULL});
    double mean = 0, logarithm = 0;
    const char *last = strstr(ran.out, "out / sum = ");
    assert_non_null(last);
    assert_int_equal(sscanf(last, "out / sum = %lf %*f, log of the sum = %lf", &mean, &logarithm),
                     2);
    assert_true(fabs(mean - out / sum) < 2e-6 && fabs(logarithm - log(sum)) < 2e-6);
    assert_non_null(strstr(ran.out, "0.135335")); // the correction at the third key: exp(1 - 3)
    program_result_free(&ran);
    run((const char *const[]){WEFT_TEST_PROGRAM, "explain", "linear", NULL});
    assert_non_null(strstr(ran.out, "integer dot"));
    program_result_free(&ran);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_token_of_an_8b_model),
        cmocka_unit_test(operations_per_byte_of_formats),
        cmocka_unit_test(memory_of_attention),
        cmocka_unit_test(pages_of_requests),
        cmocka_unit_test(small_pages_suit_short_sequences),
        cmocka_unit_test(bad_questions_are_refused),
        cmocka_unit_test(attention_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
