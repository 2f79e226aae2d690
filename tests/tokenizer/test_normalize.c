// SPDX-License-Identifier: MIT
// Canonical composition: what is composed, and what is left alone because sorting it takes quadratic time.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/tokenizer/normalize.h"

static void expect(const char *text, size_t bytes, const char *wanted, size_t wanted_bytes)
{
    tokenizer_text composed = {0};
    assert_true(normalize_compose(text, bytes, &composed));
    assert_int_equal(composed.size_bytes, wanted_bytes);
    assert_memory_equal(composed.data, wanted, wanted_bytes);
    tokenizer_text_free(&composed);
}

static void composes(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"plain", "plain"},
        {"e\xcc\x81", "\xc3\xa9"},
        {"xe\xcc\x81y e\xcc\x81", "x\xc3\xa9y \xc3\xa9"},
        {"\xe2\x84\xab", "\xc3\x85"},                             // the sign for an angstrom
        {"a\xcc\x81\xcc\xa3", "\xe1\xba\xa1\xcc\x81"},            // marks are sorted
        {"\xe0\xbd\xb3", "\xe0\xbd\xb1\xe0\xbd\xb2"},             // U+0F73 is two marks
        {"\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8", "\xea\xb0\x81"}, // Hangul
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect(cases[i][0], strlen(cases[i][0]), cases[i][1], strlen(cases[i][1]));
}

// A run of `count` marks behind a letter that would be composed with the first of them.
static char *run_of(const char *mark, size_t count, size_t *bytes)
{
    size_t length = strlen(mark);
    *bytes = 3 + count * length;
    char *text = malloc(*bytes);
    assert_non_null(text);
    memcpy(text, "e\xcc\x81", 3);
    for (size_t i = 0; i < count; i++)
        memcpy(text + 3 + i * length, mark, length);
    return text;
}

// More than 256 marks in a row are copied as they are, whether a mark is one of itself or by what it
// decomposes into.
static void leaves_long_runs_alone(void **state)
{
    (void)state;
    static const struct {
        const char *mark;
        size_t most; // that are still composed, behind the one of the letter
    } marks[] = {
        {"\xcc\xa3", 255},     // U+0323
        {"\xe0\xbd\xb3", 127}, // U+0F73, U+0F75, U+0F81: class 0, but two marks
        {"\xe0\xbd\xb5", 127}, {"\xe0\xbe\x81", 127},
        {"\xcd\x84", 127}, // U+0344: a mark that is two
    };
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        size_t bytes;
        tokenizer_text composed = {0};
        char *text = run_of(marks[i].mark, marks[i].most, &bytes);
        assert_true(normalize_compose(text, bytes, &composed));
        assert_true(composed.size_bytes != bytes || memcmp(composed.data, text, bytes) != 0);
        tokenizer_text_free(&composed);
        free(text);
        text = run_of(marks[i].mark, marks[i].most + 1, &bytes);
        expect(text, bytes, text, bytes);
        free(text);
    }
}

static void knows_valid_text(void **state)
{
    (void)state;
    assert_int_equal(normalize_valid_bytes("a\xc3\xa9", 3), 3);
    assert_int_equal(normalize_valid_bytes("a\xc3\xa9\xc3", 4), 3);
    assert_int_equal(normalize_valid_bytes("ab\xed\xa0\x80", 5), 2); // a surrogate
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(composes),
        cmocka_unit_test(leaves_long_runs_alone),
        cmocka_unit_test(knows_valid_text),
    };
    return cmocka_run_group_tests_name("normalize", tests, NULL, NULL);
}
