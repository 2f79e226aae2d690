// SPDX-License-Identifier: MIT
// Where every pre-tokenizer cuts 5,200 texts, held against the `tokenizers` package
// (tests/golden/tokenizer/words.py), and the names that files know them by.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "engine/base/file_map.h"
#include "engine/tokenizer/pretokenizer.h"

enum { GROUP = 8 };

typedef struct reader {
    file_map map;
    size_t at;
} reader;

static void open_reader(reader *r, const char *name)
{
    char path[1024];
    engine_error err = {{0}};
    snprintf(path, sizeof path, WEFT_TEST_GOLDEN "/tokenizer/%s", name);
    *r = (reader){{0}, 0};
    if (!file_map_open(&r->map, path, &err))
        fail_msg("%s", err.text);
}

static const unsigned char *take(reader *r, size_t bytes)
{
    assert_true(bytes <= r->map.size_bytes - r->at);
    r->at += bytes;
    return (const unsigned char *)r->map.data + r->at - bytes;
}

static size_t read_varint(reader *r)
{
    size_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        unsigned char byte = *take(r, 1);
        value |= (size_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
}

static void add(XXH32_state_t *sum, size_t end)
{
    unsigned char bytes[4];
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(end >> 8 * i);
    XXH32_update(sum, bytes, sizeof bytes);
}

// Adds the ends of the words of the next text.
static void walk_text(pretokenizer_walk *walk, reader *texts, XXH32_state_t *sum)
{
    read_varint(texts);
    size_t bytes = read_varint(texts);
    pretokenizer_text(walk, (const char *)take(texts, bytes), bytes);
    for (size_t end = 0; end < bytes;) {
        size_t next = pretokenizer_next(walk, end);
        assert_true(next > end && next <= bytes);
        add(sum, end = next);
    }
    add(sum, 0);
}

static void check_rules(const char *name, reader *golden)
{
    reader texts;
    pretokenizer p = {0};
    pretokenizer_walk walk;
    engine_error err = {{0}};
    XXH32_state_t *sum = XXH32_createState();
    assert_non_null(sum);
    if (!pretokenizer_build(&p, name, &err))
        fail_msg("%s", err.text);
    assert_true(pretokenizer_start(&p, &walk));
    open_reader(&texts, "texts.bin");
    for (size_t first = 0; texts.at < texts.map.size_bytes; first += GROUP) {
        const unsigned char *expected = take(golden, 4);
        XXH32_reset(sum, 0);
        for (int i = 0; i < GROUP && texts.at < texts.map.size_bytes; i++)
            walk_text(&walk, &texts, sum);
        uint32_t digest = XXH32_digest(sum);
        for (int i = 0; i < 4; i++)
            if (expected[i] != (digest >> 8 * i & 0xff))
                fail_msg("%s cuts a text of %zu to %zu in another way", name, first,
                         first + GROUP - 1);
    }
    XXH32_freeState(sum);
    file_map_close(&texts.map);
    pretokenizer_stop(&walk);
    pretokenizer_free(&p);
}

static void words_are_those_of_the_package(void **state)
{
    (void)state;
    reader golden;
    size_t checked = 0;
    open_reader(&golden, "words.bin");
    while (golden.at < golden.map.size_bytes) {
        char name[256] = "";
        size_t bytes = *take(&golden, 1);
        memcpy(name, take(&golden, bytes), bytes);
        check_rules(name, &golden);
        checked++;
    }
    assert_null(pretokenizer_name_at(checked)); // there are no others
    assert_non_null(pretokenizer_name_at(checked - 1));
    file_map_close(&golden.map);
}

static void files_know_them_by_more_names(void **state)
{
    (void)state;
    static const struct {
        const char *name, *rules;
        bool compose;
    } names[] = {
        {"llama3", "llama-bpe", false},    {"deepseek-r1-qwen", "qwen2", true},
        {"starcoder", "smollm", false},    {"llama4", "gpt-4o", false},
        {"command-r", "smollm", true},     {"mpt", "gpt-2", true},
        {"olmo", "gpt-2", true},           {"phi-2", "gpt-2", false},
        {"chatglm-bpe", "dbrx", false},    {"exaone", "smollm", false},
        {"poro-chat", "bloom", false},     {"hunyuan-dense", "deepseek-v3", false},
        {"talkie", "gpt-4o", false},       {"f2llmv2", "qwen2", true},
        {"jina-de", "gpt-2", false},       {"jina-v5-nano", "llama-bpe", false},
        {"cohere2moe", "tiny_aya", false}, {"hy_v4", "deepseek-v3", false},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        pretokenizer p = {0};
        assert_true(pretokenizer_build(&p, names[i].name, NULL));
        assert_string_equal(p.rules->name, names[i].rules);
        assert_int_equal(p.compose, names[i].compose);
        pretokenizer_free(&p);
    }
    pretokenizer p = {0};
    engine_error err = {{0}};
    assert_false(pretokenizer_build(&p, "nobody", &err));
    assert_non_null(strstr(err.text, "deepseek-v3"));
    pretokenizer_free(&p);
}

// Where the rules of a name cut a text: the ends of words as characters of a bar.
static const char *bar(const char *name, const char *text)
{
    static char ends[64];
    pretokenizer p = {0};
    pretokenizer_walk walk;
    engine_error err = {{0}};
    size_t bytes = strlen(text);
    if (!pretokenizer_build(&p, name, &err) || !pretokenizer_start(&p, &walk))
        fail_msg("%s", err.text);
    memset(ends, '.', sizeof ends);
    ends[bytes] = '\0';
    pretokenizer_text(&walk, text, bytes);
    for (size_t end = 0; end < bytes; ends[end - 1] = '|') {
        size_t next = pretokenizer_next(&walk, end);
        assert_true(next > end && next <= bytes);
        end = next;
    }
    pretokenizer_stop(&walk);
    pretokenizer_free(&p);
    return ends;
}

// A pattern that matches nothing, or ends before it began, must not keep the walk where it is.
static void files_may_bring_their_own(void **state)
{
    (void)state;
    assert_string_equal(bar("patterns:\n[a-z]+\n[aeiou]", "some 12words"), "||||..|||..|");
    assert_string_equal(bar("patterns:wc\n[a-z]*", "a bc"), "||.|");
    assert_string_equal(bar("patterns:\n(?=(\\d{3})+(?!\\d))", "x1234567"), ".|..|..|");
    assert_non_null(bar("patterns:\n(?=b)|a\\Kb*|(?<=a)\\K", "abba"));
    pretokenizer p = {0};
    assert_true(pretokenizer_build(&p, "patterns:w\na", NULL));
    assert_true(p.rules->whole_pieces && !p.rules->compose);
    assert_string_equal(p.rules->name, "patterns");
    pretokenizer_free(&p);
    assert_true(pretokenizer_build(&p, "patterns:c\nw", NULL));
    assert_true(!p.rules->whole_pieces && p.rules->compose);
    pretokenizer_free(&p);
    static const char *const wrong[] = {"patterns:",      "patterns:\n",
                                        "patterns:\n\n",  "patterns:\n(",
                                        "patterns:\n\\C", "patterns:\na\na\na\na\na\na\na"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        engine_error err = {{0}};
        assert_false(pretokenizer_build(&p, wrong[i], &err));
        assert_true(strncmp(err.text, "tokenizer: ", 11) == 0 && !strchr(err.text, '\n'));
        pretokenizer_free(&p);
    }
}

// Words of a text that is one pattern over and over, with an odd end.
static size_t count_words(const pretokenizer *p, const char *pattern, size_t bytes)
{
    size_t size = strlen(pattern), words = 0;
    char *text = malloc(bytes + 1);
    pretokenizer_walk walk;
    assert_non_null(text);
    for (size_t i = 0; i < bytes; i++)
        text[i] = pattern[i % size];
    text[bytes] = 'x';
    assert_true(pretokenizer_start(p, &walk));
    pretokenizer_text(&walk, text, bytes + 1);
    for (size_t end = 0; end <= bytes; words++)
        end = pretokenizer_next(&walk, end);
    pretokenizer_stop(&walk);
    free(text);
    return words;
}

// Time that grows with the square of the length would be minutes here.
static void long_texts_of_one_kind_take_no_longer_than_others(void **state)
{
    (void)state;
    static const char *const patterns[] = {" ", "\n", " \n", "a",   "A",  "aA",
                                           "1", "'",  "(",   "\t ", "a ", "\xcc\x81"};
    const char *name;
    for (size_t n = 0; (name = pretokenizer_name_at(n)); n++) {
        pretokenizer p = {0};
        assert_true(pretokenizer_build(&p, name, NULL));
        for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
            assert_true(count_words(&p, patterns[i], 1 << 17) >= 1);
        pretokenizer_free(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_those_of_the_package),
        cmocka_unit_test(files_know_them_by_more_names),
        cmocka_unit_test(files_may_bring_their_own),
        cmocka_unit_test(long_texts_of_one_kind_take_no_longer_than_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
