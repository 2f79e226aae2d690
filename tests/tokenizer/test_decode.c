// SPDX-License-Identifier: MIT
// Ids to text as they come: only whole characters, U+FFFD for what cannot become one.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/expect_ids.h"

#define FFFD "\xef\xbf\xbd"

static tokenizer *bytes_only(void)
{
    tokenizer_builder b = builder_new(TOKENIZER_BYTE_LEVEL);
    builder_bytes(&b);
    builder_piece(&b, "<|end|>", TOKENIZER_CONTROL, 0); // 256
    return must_finish(&b);
}

static void expect_text(const tokenizer *t, const int32_t *ids, size_t count, unsigned flags,
                        const char *expected)
{
    tokenizer_text text = {0};
    engine_error err = {{0}};
    assert_true(tokenizer_decode(t, ids, count, flags, &text, &err));
    if (text.size_bytes != strlen(expected) || (text.data && strcmp(text.data, expected) != 0))
        fail_msg("\"%s\" instead of \"%s\"", text.data, expected);
    tokenizer_text_free(&text);
}

static void expect_bytes(const tokenizer *t, const char *bytes, const char *expected)
{
    int32_t ids[64];
    size_t count = strlen(bytes);
    assert_true(count <= 64);
    for (size_t i = 0; i < count; i++)
        ids[i] = (unsigned char)bytes[i];
    expect_text(t, ids, count, 0, expected);
}

static void characters_come_whole(void **state)
{
    (void)state;
    tokenizer *t = bytes_only();
    tokenizer_decoder d = tokenizer_decoder_start(t, 0);
    tokenizer_text text = {0};
    engine_error err = {{0}};
    static const char fox[] = "a\xf0\x9f\xa6\x8a\xc3\xa9";
    static const size_t whole[] = {1, 1, 1, 1, 5, 5, 7};
    for (size_t i = 0; i < 7; i++) {
        assert_true(tokenizer_decoder_feed(&d, (unsigned char)fox[i], &text, &err));
        assert_int_equal(text.size_bytes, whole[i]);
    }
    assert_true(tokenizer_decoder_finish(&d, &text, &err));
    assert_string_equal(text.data, fox);
    tokenizer_text_free(&text);
    tokenizer_free(t);
}

// One U+FFFD for each maximal part of a well-formed sequence (Unicode 15, section 3.9, table 3-8).
static void what_is_no_character_is_replaced(void **state)
{
    (void)state;
    tokenizer *t = bytes_only();
    expect_bytes(t, "\xff", FFFD);
    expect_bytes(t,
                 "a\x80"
                 "b",
                 "a" FFFD "b");
    expect_bytes(t, "\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41",
                 FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A");
    expect_bytes(t, "\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41",
                 FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A");
    expect_bytes(t, "\xf4\x91\x92\x93\xff\x41\x80\xbf\x42",
                 FFFD FFFD FFFD FFFD FFFD "A" FFFD FFFD "B");
    expect_bytes(t, "\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", FFFD FFFD FFFD FFFD "A");
    expect_bytes(t, "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf");
    expect_bytes(t, "\xe2\x96", FFFD); // never finished
    expect_bytes(t, "", "");
    tokenizer_free(t);
}

static void special_pieces_are_shown_on_request(void **state)
{
    (void)state;
    tokenizer *t = bytes_only();
    const int32_t ids[] = {'a', 256, 'b'};
    expect_text(t, ids, 3, 0, "ab");
    expect_text(t, ids, 3, TOKENIZER_SHOW_SPECIAL, "a<|end|>b");
    const int32_t cut[] = {0xc3, 256, 0xa9}; // a hidden piece does not tear a character
    expect_text(t, cut, 3, 0, "\xc3\xa9");
    expect_text(t, cut, 3, TOKENIZER_SHOW_SPECIAL, FFFD "<|end|>" FFFD);
    tokenizer_free(t);
}

static void the_first_space_is_dropped_on_request(void **state)
{
    (void)state;
    for (int prefix = 0; prefix < 2; prefix++) {
        tokenizer_builder b = builder_new(TOKENIZER_SENTENCEPIECE);
        builder_bytes(&b);
        int32_t bos = builder_piece(&b, "<s>", TOKENIZER_CONTROL, 0);
        int32_t a = builder_piece(&b,
                                  "\xe2\x96\x81"
                                  "a",
                                  TOKENIZER_NORMAL, 0);
        int32_t unknown = builder_piece(&b, "<unk>", TOKENIZER_UNKNOWN, 0);
        b.spec.add_space_prefix = prefix;
        tokenizer *t = must_finish(&b);
        const int32_t ids[] = {bos, a, a, 0x41, unknown};
        expect_text(t, ids, 5, 0, " a aA");
        expect_text(t, ids, 5, TOKENIZER_STRIP_SPACE_PREFIX, prefix ? "a aA" : " a aA");
        tokenizer_free(t);
    }
}

static void ids_out_of_range_are_refused(void **state)
{
    (void)state;
    tokenizer *t = bytes_only();
    static const int32_t bad[] = {-1, 257, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < 4; i++) {
        tokenizer_text text = {0};
        tokenizer_bytes piece;
        engine_error err = {{0}};
        assert_false(tokenizer_piece(t, bad[i], &piece));
        assert_false(tokenizer_decode(t, &bad[i], 1, 0, &text, &err));
        assert_non_null(strstr(err.text, "ids are 0 to 256"));
        tokenizer_text_free(&text);
    }
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_come_whole),
        cmocka_unit_test(what_is_no_character_is_replaced),
        cmocka_unit_test(special_pieces_are_shown_on_request),
        cmocka_unit_test(the_first_space_is_dropped_on_request),
        cmocka_unit_test(ids_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
