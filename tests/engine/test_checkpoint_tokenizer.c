// SPDX-License-Identifier: MIT
// The tokenizer.json of a model folder: kinds of vocabulary, and ways to cut text that have no name in files.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/support/checkpoint_copy.h"

// A folder with another tokenizer: its ids of a text, between the pieces that the file puts around it.
static void expect_encoding(const char *json, const char *config, const char *text,
                            const int32_t *want, size_t count)
{
    engine_error err = {""};
    tokenizer_ids ids = {0};
    checkpoint_copy copy;
    checkpoint_copy_open(&copy, "qwen3_mlx");
    checkpoint_copy_write(&copy, "tokenizer.json", json, strlen(json));
    checkpoint_copy_write(&copy, "tokenizer_config.json", config, strlen(config));
    gguf_file *file = model_file_open(copy.folder, &err);
    tokenizer *t = file ? tokenizer_from_gguf(file, &err) : NULL;
    if (!t || !tokenizer_encode(t, text, strlen(text), TOKENIZER_ADD_SPECIAL, &ids, &err))
        fail_msg("%s", err.text);
    assert_int_equal(ids.count, count);
    assert_memory_equal(ids.ids, want, count * sizeof *want);
    tokenizer_ids_free(&ids);
    tokenizer_free(t);
    gguf_close(file);
    checkpoint_copy_close(&copy);
}

static void wordpiece_is_read(void **state)
{
    (void)state;
    const char *json =
        "{\"added_tokens\": [{\"id\": 1, \"content\": \"[CLS]\", \"special\": true},"
        "{\"id\": 2, \"content\": \"[SEP]\", \"special\": true}],"
        "\"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true,"
        "\"handle_chinese_chars\": true, \"strip_accents\": false, \"lowercase\": true},"
        "\"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", 2],"
        "\"cls\": [\"[CLS]\", 1]},"
        "\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", \"vocab\": {"
        "\"[UNK]\": 0, \"[CLS]\": 1, \"[SEP]\": 2, \"play\": 3, \"##ing\": 4, \"\u00e9\": 5}}}";
    const char *config = "{\"cls_token\": \"[CLS]\", \"sep_token\": \"[SEP]\","
                         "\"model_max_length\": 1000000000000000019884624838656,"
                         "\"unk_token\": \"[UNK]\"}";
    expect_encoding(json, config, "Playing \u00c9 ing", (int32_t[]){1, 3, 4, 5, 0, 2}, 6);
}

// The charsmap is a trie of one unit: nothing is replaced.
static void unigram_is_read(void **state)
{
    (void)state;
    const char *json =
        "{\"added_tokens\": [{\"id\": 0, \"content\": \"</s>\", \"special\": true}],"
        "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Precompiled\","
        "\"precompiled_charsmap\": \"BAAAAAAAAAAA\"}]},"
        "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\":"
        "\"WhitespaceSplit\"}, {\"type\": \"Metaspace\", \"prepend_scheme\": \"always\"}]},"
        "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\":"
        "{\"id\": \"A\"}}, {\"SpecialToken\": {\"id\": \"</s>\"}}]},"
        "\"model\": {\"type\": \"Unigram\", \"unk_id\": 1, \"vocab\": [[\"</s>\", 0.0],"
        "[\"<unk>\", 0.0], [\"\u2581\", -2.0], [\"a\", -3.0], [\"b\", -3.5], [\"ab\", -5.0]]}}";
    expect_encoding(json, "{\"eos_token\": \"</s>\"}", " ab  a ", (int32_t[]){2, 5, 2, 3, 0}, 5);
}

// Patterns that have no name in files come along with what they mean for PCRE2.
static void other_patterns_are_read(void **state)
{
    (void)state;
    engine_error err = {""};
    gguf_string pre;
    static const char want[] =
        "patterns:c\n(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
        "\\p{M}| ?[^\\p{Z}\\t-\\r\\x{85}\\p{L}\\p{N}]+[\\r\\n]*|"
        "[\\p{Z}\\t-\\r\\x{85}]*[\\r\\n]+|[\\p{Z}\\t-\\r\\x{85}]+"
        "(?![^\\p{Z}\\t-\\r\\x{85}])|[\\p{Z}\\t-\\r\\x{85}]+";
    checkpoint_copy copy;
    checkpoint_copy_open(&copy, "qwen3_mlx");
    checkpoint_copy_edit(&copy, "tokenizer.json", "\\\\p{N}|", "\\\\p{M}|");
    gguf_file *file = model_file_open(copy.folder, &err);
    if (!file)
        fail_msg("%s", err.text);
    assert_int_equal(gguf_get_string(file, "tokenizer.ggml.pre", &pre), GGUF_FOUND);
    assert_int_equal(pre.size_bytes, sizeof want - 1);
    assert_memory_equal(pre.data, want, sizeof want - 1);
    tokenizer *t = tokenizer_from_gguf(file, &err);
    if (!t)
        fail_msg("%s", err.text);
    tokenizer_free(t);
    gguf_close(file);
    checkpoint_copy_close(&copy);
}

// What a pattern becomes; NULL: it is refused, because it may mean something else in PCRE2.
static void expect_pattern(const char *pattern, const char *want)
{
    char json[1024], whole[512];
    engine_error err = {""};
    gguf_string pre = {"", 0};
    checkpoint_copy copy;
    int length =
        snprintf(json, sizeof json,
                 "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2},"
                 "\"merges\": [\"a b\"]}, \"pre_tokenizer\": {\"type\": \"Sequence\","
                 "\"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"%s\"},"
                 "\"behavior\": \"Isolated\", \"invert\": false}, {\"type\": \"ByteLevel\","
                 "\"add_prefix_space\": false, \"use_regex\": false}]}}",
                 pattern);
    checkpoint_copy_open(&copy, "qwen3_mlx");
    checkpoint_copy_write(&copy, "tokenizer.json", json, (size_t)length);
    gguf_file *file = model_file_open(copy.folder, &err);
    if (file)
        assert_int_equal(gguf_get_string(file, "tokenizer.ggml.pre", &pre), GGUF_FOUND);
    snprintf(whole, sizeof whole, "patterns:\n%s", want ? want : "");
    if (want ? !gguf_string_equals(pre, whole) : !strstr(err.text, "cut in a way"))
        fail_msg("%s became %.*s%s", pattern, (int)pre.size_bytes, pre.data, err.text);
    gguf_close(file);
    checkpoint_copy_close(&copy);
}

static void patterns_mean_the_same(void **state)
{
    (void)state;
    expect_pattern("\\\\s+$", "[\\p{Z}\\t-\\r\\x{85}]+(?=\\n|\\z)");
    expect_pattern("\\\\p{Hiragana}+|\\\\P{Han}|\\\\p{Lu}",
                   "\\p{sc:Hiragana}+|\\P{sc:Han}|\\p{Lu}");
    expect_pattern("\\\\p{N}++|[^$]{1,2}", "\\p{N}++|[^$]{1,2}");
    static const char *const others[] = {"\\\\p{N}{1,3}+", "a{,2}", "[]a]",   "[^]a]",  "^a",
                                         "[a[b]]",         "(?R)",  "[a&&b]", "\\\\w+", "(*UTF)a"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        expect_pattern(others[i], NULL);
}

// The name that files have for what cuts text and brings it to NFC, or does not; and what it means when it is read.
static void names_say_what_is_composed(void **state)
{
    (void)state;
    static const struct {
        const char *normalizer, *digits, *name;
        int32_t ids[3]; // of an accent behind its letter: composed, both are one piece
        size_t count;
    } cases[] = {
        {"null", "", "gpt-2", {0, 1, 2}, 3},
        {"{\"type\": \"NFC\"}", "", "mpt", {5}, 1},
        {"null", "{\"type\": \"Digits\", \"individual_digits\": true},", "smollm", {0, 1, 2}, 3},
        {"{\"type\": \"NFC\"}",
         "{\"type\": \"Digits\", \"individual_digits\": true},",
         "command-r",
         {5},
         1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[1024];
        engine_error err = {""};
        gguf_string pre = {"", 0};
        checkpoint_copy copy;
        // e, the bytes CC and 81, and those of the accented letter, which merge
        int length = snprintf(
            json, sizeof json,
            "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"e\": 0, \"\u00cc\": 1, \"\u0123\": 2, "
            "\"\u00c3\": 3, \"\u00a9\": 4, \"\u00c3\u00a9\": 5}, \"merges\": [\"\u00c3 \u00a9\"]}, "
            "\"normalizer\": %s, "
            "\"pre_tokenizer\": "
            "{\"type\": \"Sequence\", \"pretokenizers\": [%s {\"type\": \"ByteLevel\", "
            "\"add_prefix_space\": false, \"use_regex\": true}]}}",
            cases[i].normalizer, cases[i].digits);
        checkpoint_copy_open(&copy, "qwen3_mlx");
        checkpoint_copy_write(&copy, "tokenizer.json", json, (size_t)length);
        gguf_file *file = model_file_open(copy.folder, &err);
        if (!file)
            fail_msg("%s", err.text);
        assert_int_equal(gguf_get_string(file, "tokenizer.ggml.pre", &pre), GGUF_FOUND);
        assert_true(gguf_string_equals(pre, cases[i].name));
        gguf_close(file);
        checkpoint_copy_close(&copy);
        expect_encoding(json, "{}", "e\u0301", cases[i].ids, cases[i].count);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wordpiece_is_read),          cmocka_unit_test(unigram_is_read),
        cmocka_unit_test(other_patterns_are_read),    cmocka_unit_test(patterns_mean_the_same),
        cmocka_unit_test(names_say_what_is_composed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
