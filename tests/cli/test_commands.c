// SPDX-License-Identifier: MIT
// What the program's commands print: help, tokens and text, descriptions, a generation.
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "engine/engine.h"
#include "tests/support/gguf_tiny_model.h"
#include "tests/support/program.h"

static char *folder;

static int make_model(void **state)
{
    (void)state;
    char path[256];
    folder = folder_make();
    snprintf(path, sizeof path, "%s/tiny.gguf", folder);
    gguf_writer w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "llama", .dim = 8});
    return !gguf_writer_save(&w, path);
}

static int remove_model(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

// What the command prints; it must succeed in silence. The caller frees it.
static char *output_of(const char *const words[])
{
    const char *argv[24] = {WEFT_TEST_PROGRAM};
    for (int i = 0; words[i]; i++)
        argv[i + 1] = words[i];
    program_result result = program_run(folder, argv);
    if (result.status != 0 || *result.err)
        fail_msg("weft %s: exit status %d, error '%s'", words[0], result.status, result.err);
    free(result.err);
    return result.out;
}

#define OUTPUT_OF(...) output_of((const char *const[]){__VA_ARGS__, NULL})

static json_t *json_of(char *output)
{
    json_error_t error;
    json_t *object = json_loads(output, 0, &error);
    if (!object)
        fail_msg("no JSON object: %s: '%s'", error.text, output);
    free(output);
    return object;
}

#define JSON_OF(...) json_of(OUTPUT_OF(__VA_ARGS__))

static const char *text(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    if (!value)
        fail_msg("%s is no text", key);
    return value;
}

static json_int_t number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        fail_msg("%s is no whole number", key);
    return json_integer_value(value);
}

// Every page of help is printed with exit status 0.
static void help(void **state)
{
    (void)state;
    static const char *const commands[] = {"run",        "chat",   "inspect",    "tokenize",
                                           "detokenize", "logits", "perplexity", "bench",
                                           "info",       "embed"};
    static const char *const benches[] = {"device", "linear", "attention", "model"};
    char *overview = OUTPUT_OF("--help");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        assert_non_null(strstr(overview, commands[i]));
        char *page = OUTPUT_OF(commands[i], "--help"), *same = OUTPUT_OF(commands[i], "-h");
        assert_memory_equal(page, "usage: weft ", strlen("usage: weft "));
        assert_string_equal(page, same);
        free(page);
        free(same);
    }
    free(overview);
    char *run = OUTPUT_OF("run", "--help"); // in two parts
    assert_non_null(strstr(run, "--lora"));
    assert_non_null(strstr(run, "Examples:\n  weft run models/demo.gguf -p"));
    free(run);
    for (size_t i = 0; i < sizeof benches / sizeof benches[0]; i++) {
        char *page = OUTPUT_OF("bench", benches[i], "--help");
        assert_non_null(strstr(page, "Examples:"));
        free(page);
    }
}

static void help_lists_the_shapes(void **state)
{
    (void)state;
    const char *shape;
    char *page = OUTPUT_OF("bench", "model", "--help");
    for (int32_t n = 0; (shape = engine_shape_at(n)); n++)
        if (!strstr(page, shape))
            fail_msg("weft bench model --help does not name %s", shape);
    free(page);
}

static void version(void **state)
{
    (void)state;
    char wanted[64], *output = OUTPUT_OF("--version");
    snprintf(wanted, sizeof wanted, "weft %s\n", weft_version());
    assert_string_equal(output, wanted);
    free(output);
}

// Texts to ids to texts.
static void there_and_back(const char *model, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *ids = OUTPUT_OF("tokenize", model, texts[i], "--ids", "--no-bos");
        ids[strcspn(ids, "\n")] = 0;
        json_t *object = JSON_OF("tokenize", model, texts[i], "--json", "--no-bos");
        const json_t *list = json_object_get(object, "ids");
        assert_int_equal(json_array_size(list), json_array_size(json_object_get(object, "pieces")));
        const char *at = ids;
        for (size_t n = 0; n < json_array_size(list); n++) {
            char *end;
            assert_int_equal(strtol(at, &end, 10), json_integer_value(json_array_get(list, n)));
            at = end + (*end == ',');
        }
        json_decref(object);
        object = JSON_OF("detokenize", model, ids, "--json");
        assert_string_equal(text(object, "text"), texts[i]);
        json_decref(object);
        char *plain = OUTPUT_OF("detokenize", model, ids);
        assert_memory_equal(plain, texts[i], strlen(texts[i]));
        free(plain);
        free(ids);
    }
}

// Pieces are shown so that they cannot steer a terminal: C0, DEL, C1, and half a character.
static void tokens_are_printable(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } cases[] = {{"a", "  a\n"},
                 {"\x1b", "  \\x1b\n"},
                 {"\x7f", "  \\x7f\n"},
                 {"\xc2\x9b", "\\xc2"},
                 {"\xc2\x9b", "\\x9b"}};
    char path[4096];
    if (!realpath("models/demo.gguf", path))
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *lines = OUTPUT_OF("tokenize", path, cases[i].text, "--no-bos");
        if (!strstr(lines, cases[i].shown))
            fail_msg("'%s' is not in '%s'", cases[i].shown, lines);
        for (const char *at = lines; *at; at++)
            assert_true(*at == '\n' || (*at >= ' ' && *at <= '~'));
        free(lines);
    }
}

// The names that other programs have for options mean the same.
static void other_names_of_options(void **state)
{
    (void)state;
    char *wanted =
        OUTPUT_OF("run", "tiny.gguf", "--prompt", "ab", "--raw", "--tokens", "5", "--temp", "1",
                  "--seed", "7", "--threads", "1", "--ctx", "32", "--ignore-end", "--quiet");
    char *same =
        OUTPUT_OF("run", "-m", "tiny.gguf", "-p", "ab", "--raw", "-n", "5", "--temperature", "1",
                  "-s", "7", "-t", "1", "-c", "32", "--ignore-eos", "--quiet");
    assert_string_equal(same, wanted);
    free(same);
    same =
        OUTPUT_OF("run", "--raw", "--n-predict", "5", "--temp=1", "-p", "ab", "--model=tiny.gguf",
                  "--seed=7", "--ctx-size", "32", "--ignore-eos", "--quiet");
    assert_string_equal(same, wanted);
    free(same);
    free(wanted);
    char *ids = OUTPUT_OF("tokenize", "ab", "-m", "tiny.gguf", "--ids");
    same = OUTPUT_OF("tokenize", "tiny.gguf", "ab", "--ids");
    assert_string_equal(ids, same);
    free(ids);
    free(same);
    // Without a limit the context is.
    json_t *object = JSON_OF("run", "tiny.gguf", "-p", "ab", "--raw", "-n", "-1", "-c", "32",
                             "--seed", "-1", "--ignore-end", "--json");
    assert_string_equal(text(object, "finish"), "context");
    assert_true(number(object, "seed") > 1000000);
    json_decref(object);
}

static void tokens_there_and_back(void **state)
{
    (void)state;
    static const char *const texts[] = {"a", "ab", "b a", "abab a a b"};
    there_and_back("tiny.gguf", texts, sizeof texts / sizeof texts[0]);
}

// The demo model's vocabulary has every byte.
static void any_text_there_and_back(void **state)
{
    (void)state;
    static const char *const texts[] = {"Once upon a time", "  two  spaces\n\n\tand a tab ",
                                        "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x90\x89",
                                        "int x = 42; // <b>"};
    char *model = realpath("models/demo.gguf", NULL);
    if (!model)
        skip();
    there_and_back(model, texts, sizeof texts / sizeof texts[0]);
    free(model);
}

static void inspect_describes(void **state)
{
    (void)state;
    json_t *object = JSON_OF("inspect", "tiny.gguf", "--json");
    assert_int_equal(number(object, "gguf_version"), 3);
    assert_int_equal(number(object, "tensors"), 11);
    assert_true(json_is_true(json_object_get(object, "runs")));
    const json_t *model = json_object_get(object, "model");
    assert_string_equal(text(model, "architecture"), "llama");
    assert_int_equal(number(model, "layers"), 1);
    assert_int_equal(number(model, "embedding_dim"), 8);
    assert_int_equal(number(model, "vocab"), TINY_MODEL_VOCAB);
    assert_int_equal(number(model, "kv_bytes_per_token"), 2 * 8 * 2);
    const json_t *formats = json_object_get(object, "formats");
    assert_int_equal(json_array_size(formats), 1);
    assert_string_equal(text(json_array_get(formats, 0), "format"), "f32");
    json_decref(object);
    char *page = OUTPUT_OF("inspect", "tiny.gguf");
    assert_non_null(strstr(page, "llama"));
    free(page);
}

// Whatever a file says of itself, the answer is JSON and steers no terminal.
// Of a file that cannot run everything is shown that its keys say, and why it cannot, the path once.
static void inspect_describes_what_cannot_run(void **state)
{
    (void)state;
    char path[256];
    const gguf_tiny_shape shapes[] = {{.architecture = "llama", .matrix_type = 15, .dim = 256},
                                      {.architecture = "mamba", .dim = 8},
                                      {.architecture = "qwen3", .dim = 8}};
    const char *const why[] = {"q8_k (8 of 11)", "architecture 'mamba' cannot run",
                               "type 99 (2 of "};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/refused.gguf", folder);
        gguf_writer w = gguf_tiny_model(&shapes[i]);
        for (int n = 0; n < 2 && i == 2; n++)
            gguf_writer_tensor(&w, n ? "new.weight" : "newer.weight", 99, 1, (int64_t[]){8}, NULL,
                               64);
        assert_true(gguf_writer_save(&w, path));
        json_t *object = JSON_OF("inspect", "refused.gguf", "--json");
        const json_t *model = json_object_get(object, "model");
        assert_true(json_is_false(json_object_get(object, "runs")));
        assert_non_null(strstr(text(object, "why_not"), why[i]));
        assert_string_equal(text(model, "architecture"), shapes[i].architecture);
        assert_int_equal(number(model, "layers"), 1);
        assert_int_equal(number(model, "vocab"), TINY_MODEL_VOCAB);
        assert_true(number(model, "trained_context") > 0 && number(model, "parameters") > 0);
        assert_null(json_object_get(model, "kv_pool_bytes"));
        assert_int_equal(number(model, "head_dim"), shapes[i].dim);
        assert_null(json_object_get(model, "window"));
        json_decref(object);
        char *page = OUTPUT_OF("inspect", "refused.gguf");
        assert_non_null(strstr(page, why[i]));
        assert_non_null(strstr(page, "tokens trained"));
        char *named = strstr(page, "refused.gguf");
        assert_true(named && !strstr(named + 1, "refused.gguf"));
        free(page);
    }
}

static void inspect_shows_odd_names(void **state)
{
    (void)state;
    char path[256], name[400] = "\x1b[2J\xff";
    snprintf(path, sizeof path, "%s/odd.gguf", folder);
    while (strlen(name) < 390)
        strcat(name, "\xe6\x97\xa5");
    gguf_writer w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "llama", .dim = 8});
    gguf_writer_string(&w, "general.name", name);
    assert_true(gguf_writer_save(&w, path));
    json_t *object = JSON_OF("inspect", "odd.gguf", "--json", "--tensors", "--keys");
    const char *shown = text(json_object_get(object, "model"), "name");
    assert_memory_equal(shown, "?[2J?\xe6\x97\xa5", 8);
    assert_int_equal(json_array_size(json_object_get(object, "tensor_list")), 11);
    const json_t *keys = json_object_get(object, "key_list");
    const json_t *key = json_array_get(keys, json_array_size(keys) - 1);
    assert_string_equal(text(key, "key"), "general.name");
    assert_string_equal(text(key, "type"), "string");
    assert_memory_equal(text(key, "value"), shown, 8);
    json_decref(object);
    char *page = OUTPUT_OF("inspect", "odd.gguf", "--keys");
    assert_null(strchr(page, '\x1b'));
    free(page);
}

static void info_describes(void **state)
{
    (void)state;
    json_t *object = JSON_OF("info", "--json");
    assert_string_equal(text(object, "version"), weft_version());
    assert_true(number(object, "threads") >= 1);
    assert_true(*text(object, "isa"));
    json_decref(object);

    char *lines = OUTPUT_OF("info", "--kernels", "--json");
    int kernels = 0;
    for (char *line = strtok(lines, "\n"); line; line = strtok(NULL, "\n"), kernels++) {
        json_t *kernel = json_loads(line, 0, NULL);
        assert_non_null(kernel);
        assert_true(*text(kernel, "op") && *text(kernel, "kernel") && *text(kernel, "isa"));
        assert_string_equal(text(kernel, "backend"), "cpu");
        assert_true(json_is_boolean(json_object_get(kernel, "usable")));
        json_decref(kernel);
    }
    assert_true(kernels > 20);
    free(lines);
}

static void run_generates(void **state)
{
    (void)state;
    json_t *object = JSON_OF("run", "tiny.gguf", "--raw", "-p", "ab", "-n", "5", "--temp", "0",
                             "--ignore-end", "--json");
    assert_string_equal(text(object, "finish"), "length");
    assert_int_equal(number(object, "generated_tokens"), 5);
    assert_true(number(object, "prompt_tokens") >= 2);
    json_decref(object);

    // A full context is an end, not a failure.
    object = JSON_OF("run", "tiny.gguf", "--raw", "-p", "ab", "--ctx", "8", "--temp", "0",
                     "--ignore-end", "--json");
    assert_string_equal(text(object, "finish"), "context");
    json_decref(object);

    // All logits are 0, so that some seed ends the text at once: no rate then, rather than a negative one.
    json_int_t tokens = 1;
    for (int seed = 1; tokens > 0; seed++) {
        char word[12];
        snprintf(word, sizeof word, "%d", seed);
        assert_true(seed < 100);
        object =
            JSON_OF("run", "tiny.gguf", "--raw", "-p", "ab", "-n", "1", "--seed", word, "--json");
        tokens = number(object, "generated_tokens");
        const json_t *rate = json_object_get(object, "generated_tokens_per_second");
        assert_true(json_number_value(rate) >= 0);
        json_decref(object);
    }

    // The same seed, the same text.
    char *one = OUTPUT_OF("run", "tiny.gguf", "--raw", "-p", "a", "-n", "20", "--seed", "7",
                          "--quiet", "--ignore-end");
    char *two = OUTPUT_OF("run", "tiny.gguf", "--raw", "-p", "a", "-n", "20", "--seed", "7",
                          "--quiet", "--ignore-end");
    assert_string_equal(one, two);
    free(one);
    free(two);
}

// The prompt's part of the cache is kept and found; a damaged file is passed over with a line that says so.
static void run_keeps_prompts(void **state)
{
    (void)state;
    const char *const words[] = {WEFT_TEST_PROGRAM,
                                 "run",
                                 "tiny.gguf",
                                 "--raw",
                                 "-p",
                                 "ab ab ab ab ab ab ab ab",
                                 "-n",
                                 "5",
                                 "--temp",
                                 "0",
                                 "--ignore-end",
                                 "--prompt-cache",
                                 "kept",
                                 "--json",
                                 NULL};
    json_int_t prompt[3];
    char path[256];
    snprintf(path, sizeof path, "%s/kept", folder);
    for (int n = 0; n < 3; n++) {
        if (n == 2) {
            FILE *file = fopen(path, "r+b");
            assert_non_null(file);
            assert_int_equal(fseek(file, -9, SEEK_END), 0);
            assert_true(fputs("weft", file) >= 0 && fclose(file) == 0);
        }
        program_result result = program_run(folder, words);
        assert_int_equal(result.status, 0);
        assert_int_equal(strstr(result.err, "passed over") != NULL, n == 2);
        json_t *object = json_of(result.out);
        prompt[n] = number(object, "prompt_tokens");
        json_decref(object);
        free(result.err);
    }
    assert_true(prompt[0] > 8);
    assert_int_equal(prompt[1], 1); // the last, for its logits
    assert_int_equal(prompt[2], prompt[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help),
        cmocka_unit_test(help_lists_the_shapes),
        cmocka_unit_test(version),
        cmocka_unit_test(tokens_are_printable),
        cmocka_unit_test(other_names_of_options),
        cmocka_unit_test(tokens_there_and_back),
        cmocka_unit_test(any_text_there_and_back),
        cmocka_unit_test(inspect_describes),
        cmocka_unit_test(inspect_describes_what_cannot_run),
        cmocka_unit_test(inspect_shows_odd_names),
        cmocka_unit_test(info_describes),
        cmocka_unit_test(run_generates),
        cmocka_unit_test(run_keeps_prompts),
    };
    return cmocka_run_group_tests(tests, make_model, remove_model);
}
