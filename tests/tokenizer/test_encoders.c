// SPDX-License-Identifier: MIT
// WordPiece and Unigram vocabularies, statement by statement; and charsmaps that are damaged.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "engine/tokenizer/charsmap.h"
#include "tests/support/expect_ids.h"
#include "tests/support/refusal.h"

#define MARK        "\xe2\x96\x81" // U+2581
#define NORMAL(...) add(&b, (const char *const[]){__VA_ARGS__, NULL})

static void add(tokenizer_builder *b, const char *const *pieces)
{
    for (; *pieces; pieces++)
        builder_piece(b, *pieces, TOKENIZER_NORMAL, -(float)strlen(*pieces) - 1);
}

// 0 [UNK], 1 [CLS], 2 [SEP], then the pieces of each test.
static tokenizer_builder wordpiece(void)
{
    tokenizer_builder b = builder_new(TOKENIZER_WORDPIECE);
    b.spec.unknown = builder_piece(&b, "[UNK]", TOKENIZER_CONTROL, 0);
    b.spec.bos = builder_piece(&b, "[CLS]", TOKENIZER_CONTROL, 0);
    b.spec.eos = builder_piece(&b, "[SEP]", TOKENIZER_CONTROL, 0);
    return b;
}

static void words_are_cut_into_the_longest_pieces(void **state)
{
    (void)state;
    tokenizer_builder b = wordpiece();
    NORMAL(MARK "play", "ing", "in", "g", MARK "pl", MARK "the", MARK ".");
    tokenizer *t = must_finish(&b);
    expect_ids(t, "playing the plg.", TOKENIZER_ADD_SPECIAL, IDS(1, 3, 4, 8, 7, 6, 9, 2));
    expect_ids(t, "playin", 0, IDS(3, 5));
    expect_ids(t, "ing", 0, IDS(0)); // goes on only
    expect_ids(t, "playx the", 0, IDS(0, 8));
    expect_ids(t, "[CLS] the", TOKENIZER_PARSE_SPECIAL, IDS(1, 8));
    expect_ids(t, " \n", 0, IDS(-1));
    tokenizer_free(t);
}

static void text_is_cleaned(void **state)
{
    (void)state;
    tokenizer_builder b = wordpiece();
    NORMAL(MARK "cafe", MARK "a", "b", MARK "\xe4\xb8\xad", "\xe4\xb8\xad", MARK "!", MARK "i");
    tokenizer *t = must_finish(&b);
    expect_ids(t, "CAF\xc3\x89", 0, IDS(3));  // the accent is one character with its letter
    expect_ids(t, "cafe\xcc\x81", 0, IDS(3)); // or a mark
    expect_ids(t,
               "a\xe4\xb8\xad"
               "b",
               0, IDS(4, 6, 0)); // Chinese characters stand alone
    expect_ids(t,
               "a\x01\xef\xbf\xbd\xff"
               "b!",
               0, IDS(4, 5, 8)); // what is no text goes
    expect_ids(t,
               "a\xe2\x80\x83"
               "a\xc2\xa0"
               "a",
               0, IDS(4, 4, 4));
    expect_ids(t, "\xc4\xb0", 0, IDS(9)); // capital I with a dot
    tokenizer_free(t);
}

static void cased_vocabularies_keep_case_and_accents(void **state)
{
    (void)state;
    for (int said = 0; said < 2; said++) {
        tokenizer_builder b = wordpiece();
        NORMAL(MARK "Caf\xc3\xa9", MARK "caf\xc3\xa9", MARK "cafe");
        if (said)
            b.spec.lower_case = b.spec.strip_accents = 1;
        tokenizer *t = must_finish(&b);
        expect_ids(t, "Caf\xc3\xa9", 0, said ? IDS(5) : IDS(3));
        expect_ids(t, "caf\xc3\xa9", 0, said ? IDS(5) : IDS(4));
        tokenizer_free(t);
    }
    tokenizer_builder b = wordpiece();
    NORMAL(MARK "caf\xc3\xa9", MARK "cafe"); // no capitals, but accents
    tokenizer *t = must_finish(&b);
    expect_ids(t, "CAF\xc3\xa9 cafe", 0, IDS(3, 4));
    tokenizer_free(t);
}

static void words_of_more_than_100_characters_are_unknown(void **state)
{
    (void)state;
    char text[202 * 2 + 1] = "";
    tokenizer_builder b = wordpiece();
    NORMAL(MARK "\xc3\xa9", "\xc3\xa9");
    tokenizer *t = must_finish(&b);
    for (int i = 0; i < 100; i++)
        strcat(text, "\xc3\xa9");
    tokenizer_ids list = {0};
    assert_true(tokenizer_encode(t, text, strlen(text), 0, &list, NULL));
    assert_int_equal(list.count, 100);
    tokenizer_ids_free(&list);
    strcat(text, "\xc3\xa9");
    expect_ids(t, text, 0, IDS(0));
    tokenizer_free(t);
}

static void wordpiece_needs_an_unknown_piece(void **state)
{
    (void)state;
    engine_error err = {{0}};
    tokenizer_builder b = builder_new(TOKENIZER_WORDPIECE);
    NORMAL(MARK "a");
    assert_null(builder_finish(&b, &err));
    check_refusal(&err, "unknown piece");
}

// --- Unigram ------------------------------------------------------------------------------------------------

static tokenizer_builder unigram(void)
{
    tokenizer_builder b = builder_new(TOKENIZER_UNIGRAM);
    b.spec.unknown = builder_piece(&b, "<unk>", TOKENIZER_UNKNOWN, 0); // 0
    b.spec.eos = builder_piece(&b, "</s>", TOKENIZER_CONTROL, 0);      // 1
    builder_piece(&b, MARK, TOKENIZER_NORMAL, -2);                     // 2
    builder_piece(&b, "a", TOKENIZER_NORMAL, -3);                      // 3
    builder_piece(&b, "b", TOKENIZER_NORMAL, -3);                      // 4
    builder_piece(&b, "ab", TOKENIZER_NORMAL, -5);                     // 5
    builder_piece(&b, MARK "a", TOKENIZER_NORMAL, -6);                 // 6
    builder_piece(&b, "bab", TOKENIZER_NORMAL, -7);                    // 7
    return b;
}

static void the_largest_sum_of_scores_wins(void **state)
{
    (void)state;
    tokenizer_builder b = unigram();
    tokenizer *t = must_finish(&b);
    expect_ids(t, "ab", TOKENIZER_ADD_SPECIAL, IDS(2, 5, 1)); // -7 beats -9
    expect_ids(t, "a", 0, IDS(2, 3));                         // -5 beats -6
    expect_ids(t, "abab", 0, IDS(2, 3, 7));            // "a", "bab": the other way round is lower
    expect_ids(t, "aXYb a", 0, IDS(2, 3, 0, 4, 2, 3)); // one unknown piece for two characters
    expect_ids(t, "a  b ", 0, IDS(2, 3, 2, 2, 4, 2));
    expect_ids(t, "a</s>b", TOKENIZER_PARSE_SPECIAL, IDS(2, 3, 1, 2, 4));
    tokenizer_free(t);
}

// Where ways score alike it is rounding that decides, and that depends on the words before: ids are those of
// sentencepiece 0.2.3. Sums of more than 100,000 begin again at zero.
static void sums_are_rounded_as_sentencepiece_does(void **state)
{
    (void)state;
    static const struct {
        int words;
        int32_t first, second;
    } cases[] = {{0, 3, 5}, {10, 3, 5}, {60, 2, 6}, {99, 2, 6}, {101, 3, 5}, {150, 2, 6}};
    tokenizer_builder b = builder_new(TOKENIZER_UNIGRAM);
    b.spec.unknown = builder_piece(&b, "<unk>", TOKENIZER_UNKNOWN, 0);
    builder_piece(&b, MARK, TOKENIZER_NORMAL, -2);        // 1
    builder_piece(&b, "a", TOKENIZER_NORMAL, -3);         // 2
    builder_piece(&b, "aa", TOKENIZER_NORMAL, -2.999f);   // 3
    builder_piece(&b, MARK "w", TOKENIZER_NORMAL, -1000); // 4
    builder_piece(&b, "b", TOKENIZER_NORMAL, -4);         // 5
    builder_piece(&b, "ab", TOKENIZER_NORMAL, -4);        // 6
    tokenizer *t = must_finish(&b);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512] = "";
        for (int n = 0; n < cases[i].words; n++)
            strcat(text, "w ");
        strcat(text, "aab");
        tokenizer_ids ids = must_encode(t, text, strlen(text), 0);
        assert_int_equal(ids.count, cases[i].words + 3);
        assert_int_equal(ids.ids[ids.count - 2], cases[i].first);
        assert_int_equal(ids.ids[ids.count - 1], cases[i].second);
        tokenizer_ids_free(&ids);
    }
    tokenizer_free(t);
}

static void spaces_are_squeezed_on_request(void **state)
{
    (void)state;
    tokenizer_builder b = unigram();
    b.spec.remove_extra_whitespaces = true;
    tokenizer *t = must_finish(&b);
    expect_ids(t, "  a   b  ", 0, IDS(2, 3, 2, 4));
    expect_ids(t, "   ", 0, IDS(-1));
    tokenizer_free(t);
    b = unigram();
    b.spec.add_space_prefix = false;
    t = must_finish(&b);
    expect_ids(t, "a " MARK "b", 0, IDS(3, 2, 2, 4));
    tokenizer_free(t);
}

static void bytes_stand_for_what_has_no_piece(void **state)
{
    (void)state;
    tokenizer_builder b = unigram();
    int32_t first = builder_piece(&b, "<0xC3>", TOKENIZER_BYTE, 0);
    builder_piece(&b, "<0xA9>", TOKENIZER_BYTE, 0);
    tokenizer *t = must_finish(&b);
    expect_ids(t, "a\xc3\xa9", 0, IDS(2, 3, first, first + 1));
    expect_ids(t, "a\xc3", 0, IDS(2, 3, first)); // an invalid byte is a character
    tokenizer_free(t);
}

// --- charsmaps ----------------------------------------------------------------------------------------------

// A trie of two keys in a double array: "A" becomes "a", "AB" becomes "xyz". Units are placed by hand: the
// root's children begin at 0 ^ byte + 256, and so on; the rest is zeros.
enum { UNITS = 1024 };

static void put_u32(unsigned char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (unsigned char)(value >> (8 * i));
}

static size_t make_charsmap(unsigned char data[4 + 4 * UNITS + 8])
{
    memset(data, 0, 4 + 4 * UNITS + 8);
    unsigned char *units = data + 4;
    put_u32(data, 4 * UNITS);
    put_u32(units, 256u << 10); // root: children at 256
    size_t a = 256 ^ 'A', a_children = 512;
    put_u32(units + 4 * a, (uint32_t)(a ^ a_children) << 10 | 1 << 8 | 'A');
    put_u32(units + 4 * a_children, 1u << 31 | 0); // value: text at 0
    size_t ab = a_children ^ 'B', ab_children = 768;
    put_u32(units + 4 * ab, (uint32_t)(ab ^ ab_children) << 10 | 1 << 8 | 'B');
    put_u32(units + 4 * ab_children, 1u << 31 | 2); // value: text at 2
    memcpy(units + 4 * UNITS, "a\0xyz\0\0", 8);
    return 4 + 4 * UNITS + 7;
}

static void the_longest_key_is_replaced(void **state)
{
    (void)state;
    unsigned char data[4 + 4 * UNITS + 8];
    size_t bytes = make_charsmap(data);
    charsmap map = {0};
    tokenizer_bytes text;
    assert_true(charsmap_build(&map, data, bytes, NULL));
    assert_int_equal(charsmap_find(&map, "AB", 2, &text), 2);
    assert_memory_equal(text.data, "xyz", 4);
    assert_int_equal(text.size_bytes, 3);
    assert_int_equal(charsmap_find(&map, "AAB", 3, &text), 1);
    assert_memory_equal(text.data, "a", 2);
    assert_int_equal(charsmap_find(&map, "B", 1, &text), 0);
    assert_int_equal(charsmap_find(&map, "AB", 1, &text), 1);
    charsmap_free(&map);
    tokenizer_builder b = unigram();
    b.spec.charsmap = data;
    b.spec.charsmap_bytes = bytes;
    tokenizer *t = must_finish(&b);
    expect_ids(t, "AAb", 0, IDS(2, 3, 5));
    tokenizer_free(t);
}

static void refuse_charsmap(const unsigned char *data, size_t bytes, const char *reason)
{
    engine_error err = {{0}};
    tokenizer_builder b = unigram();
    b.spec.charsmap = data;
    b.spec.charsmap_bytes = bytes;
    assert_null(builder_finish(&b, &err));
    check_refusal(&err, reason);
}

static void damaged_charsmaps_are_refused(void **state)
{
    (void)state;
    unsigned char data[4 + 4 * UNITS + 8], many[4 + 4 + 400];
    size_t bytes = make_charsmap(data);
    refuse_charsmap(data, 3, "does not hold its trie");
    refuse_charsmap(data, 4 * UNITS, "does not hold its trie");
    put_u32(data, 4 * UNITS - 1);
    refuse_charsmap(data, bytes, "does not hold its trie");
    put_u32(data, 0);
    refuse_charsmap(data, bytes, "does not hold its trie");
    put_u32(data, UINT32_MAX - 3);
    refuse_charsmap(data, bytes, "does not hold its trie");
    put_u32(data, 4 * UNITS);
    data[bytes - 1] = 'x'; // the last text has no end
    refuse_charsmap(data, bytes, "no end");
    memset(many, 'a', sizeof many);
    put_u32(many, 4);
    many[sizeof many - 1] = 0;
    refuse_charsmap(many, sizeof many, "more than 256 bytes");
}

// Every unit in turn leads out of the trie, or its value out of the texts.
static void tries_are_never_trusted(void **state)
{
    (void)state;
    static const uint32_t wild[] = {
        UINT32_MAX,       0x7fffffff,       0xfffffd41,    1u << 9 | 1 << 8 | 'A',
        0x3fffff00 | 'A', 0x3fffff00 | 'B', 1u << 31 | 999};
    static const char *const texts[] = {"AB", "A", "AAAA", "\xff\xff", ""};
    for (size_t unit = 0; unit < UNITS; unit++)
        for (size_t w = 0; w < sizeof wild / sizeof wild[0]; w++) {
            unsigned char data[4 + 4 * UNITS + 8];
            size_t bytes = make_charsmap(data);
            charsmap map = {0};
            tokenizer_bytes found = {"", 0};
            put_u32(data + 4 + 4 * unit, wild[w]);
            assert_true(charsmap_build(&map, data, bytes, NULL));
            for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
                size_t length = strlen(texts[i]);
                assert_true(charsmap_find(&map, texts[i], length, &found) <= length);
                assert_true(found.size_bytes <= CHARSMAP_MAX_TEXT_BYTES);
            }
            charsmap_free(&map);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_are_cut_into_the_longest_pieces),
        cmocka_unit_test(text_is_cleaned),
        cmocka_unit_test(cased_vocabularies_keep_case_and_accents),
        cmocka_unit_test(words_of_more_than_100_characters_are_unknown),
        cmocka_unit_test(wordpiece_needs_an_unknown_piece),
        cmocka_unit_test(the_largest_sum_of_scores_wins),
        cmocka_unit_test(sums_are_rounded_as_sentencepiece_does),
        cmocka_unit_test(spaces_are_squeezed_on_request),
        cmocka_unit_test(bytes_stand_for_what_has_no_piece),
        cmocka_unit_test(the_longest_key_is_replaced),
        cmocka_unit_test(damaged_charsmaps_are_refused),
        cmocka_unit_test(tries_are_never_trusted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
