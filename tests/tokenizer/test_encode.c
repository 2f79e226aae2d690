// SPDX-License-Identifier: MIT
// What encoding promises beyond the golden texts: invalid UTF-8, special pieces, choices of the file,
// long texts.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/expect_ids.h"

static tokenizer *small_byte_level(const char *pre)
{
    tokenizer_builder b = builder_new(TOKENIZER_BYTE_LEVEL);
    builder_bytes(&b);
    builder_join(&b, "a", "b");                              // 256
    builder_join(&b, "ab", "c");                             // 257
    builder_join(&b, "\xc4\xa0", "a");                       // 258: " a"
    builder_piece(&b, "<|end|>", TOKENIZER_CONTROL, 0);      // 259
    builder_piece(&b, "<tool>", TOKENIZER_USER_DEFINED, 0);  // 260
    builder_piece(&b, "<tool>x", TOKENIZER_USER_DEFINED, 0); // 261
    builder_piece(&b, "never", TOKENIZER_UNUSED, 0);         // 262
    b.spec.pre = pre;
    b.spec.bos = b.spec.eos = 259;
    return must_finish(&b);
}

static tokenizer *small_sentencepiece(bool add_space_prefix, bool remove_extra_whitespaces)
{
    tokenizer_builder b = builder_new(TOKENIZER_SENTENCEPIECE);
    builder_bytes(&b);                                       // 0 to 255
    builder_piece(&b, "<unk>", TOKENIZER_UNKNOWN, 0);        // 256
    builder_piece(&b, "<s>", TOKENIZER_CONTROL, 0);          // 257
    builder_piece(&b, "</s>", TOKENIZER_CONTROL, 0);         // 258
    builder_piece(&b, "\xe2\x96\x81", TOKENIZER_NORMAL, -9); // 259
    builder_piece(&b, "a", TOKENIZER_NORMAL, -8);            // 260
    builder_piece(&b, "b", TOKENIZER_NORMAL, -7);            // 261
    builder_piece(&b,
                  "\xe2\x96\x81"
                  "a",
                  TOKENIZER_NORMAL, -2);                    // 262
    builder_piece(&b, "ab", TOKENIZER_NORMAL, -1);          // 263
    builder_piece(&b, "<tool>", TOKENIZER_USER_DEFINED, 0); // 264
    b.spec.bos = 257;
    b.spec.eos = 258;
    b.spec.add_space_prefix = add_space_prefix;
    b.spec.remove_extra_whitespaces = remove_extra_whitespaces;
    return must_finish(&b);
}

// --- invalid UTF-8 ----------------------------------------------------------------------------------

static void expect_pieces_join_to(const tokenizer *t, const void *text, size_t text_bytes)
{
    tokenizer_ids list = must_encode(t, text, text_bytes, 0);
    tokenizer_text joined = {0};
    for (size_t i = 0; i < list.count; i++) {
        tokenizer_bytes piece;
        assert_true(tokenizer_piece(t, list.ids[i], &piece));
        assert_true(tokenizer_text_append(&joined, piece.data, piece.size_bytes));
    }
    assert_int_equal(joined.size_bytes, text_bytes);
    if (text_bytes > 0)
        assert_memory_equal(joined.data, text, text_bytes);
    tokenizer_text_free(&joined);
    tokenizer_ids_free(&list);
}

// Biased to bytes that begin, continue and break sequences.
static void random_text(unsigned *seed, unsigned char *text, size_t text_bytes)
{
    static const unsigned char choice[] = {'a',  'b',  'c',  ' ',  '\n', '1',  '\'', 's',
                                           0x80, 0xbf, 0xc2, 0xc0, 0xe2, 0x96, 0x81, 0xed,
                                           0xa0, 0xf0, 0x9f, 0xf4, 0x90, 0xff, 0,    '<'};
    for (size_t i = 0; i < text_bytes; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        text[i] = *seed >> 31 ? choice[(*seed >> 8) % sizeof choice] : (unsigned char)(*seed >> 16);
    }
}

static void any_bytes_come_back(void **state)
{
    (void)state;
    static const char *const pres[] = {"gpt-2", "llama-bpe", "smollm", "tekken"};
    unsigned seed = 7;
    for (size_t p = 0; p < 4; p++) {
        tokenizer *t = small_byte_level(pres[p]);
        for (size_t n = 0; n < 400; n++) {
            unsigned char text[64];
            random_text(&seed, text, n % sizeof text);
            expect_pieces_join_to(t, text, n % sizeof text);
        }
        tokenizer_free(t);
    }
}

static void invalid_bytes_are_a_word_of_their_own(void **state)
{
    (void)state;
    tokenizer *t = small_byte_level("gpt-2");
    expect_ids(t,
               "ab\xff\xfe"
               "ab",
               0, IDS(256, 0xff, 0xfe, 256));
    expect_ids(t, "\xed\xa0\x80", 0, IDS(0xed, 0xa0, 0x80)); // a surrogate
    expect_ids(t, "\xc0\xaf", 0, IDS(0xc0, 0xaf));           // an overlong slash
    expect_ids(t, "\xe2\x96", 0, IDS(0xe2, 0x96));           // cut off
    tokenizer_free(t);
}

static void invalid_bytes_become_byte_pieces(void **state)
{
    (void)state;
    tokenizer *t = small_sentencepiece(false, false);
    expect_ids(t,
               "a\xff"
               "b\xe2\x96",
               0, IDS(260, 0xff, 261, 0xe2, 0x96));
    unsigned seed = 9;
    for (size_t n = 0; n < 400; n++) {
        unsigned char text[48];
        random_text(&seed, text, n % sizeof text);
        for (size_t i = 0; i < n % sizeof text; i++)
            text[i] = text[i] == 0x96 ? 0x97 : text[i]; // no U+2581, which is read as a space
        expect_pieces_join_to(t, text, n % sizeof text);
    }
    tokenizer_free(t);
}

// --- special pieces ---------------------------------------------------------------------------------

static void control_pieces_are_found_on_request_only(void **state)
{
    (void)state;
    tokenizer *t = small_byte_level("gpt-2");
    expect_ids(t, "ab<|end|>a", TOKENIZER_PARSE_SPECIAL, IDS(256, 259, 'a'));
    expect_ids(t, "<|end|>", 0, IDS('<', '|', 'e', 'n', 'd', '|', '>'));
    expect_ids(t, "<|end|", TOKENIZER_PARSE_SPECIAL, IDS('<', '|', 'e', 'n', 'd', '|'));
    tokenizer_free(t);
}

static void user_defined_pieces_are_found_always_and_the_longest_wins(void **state)
{
    (void)state;
    tokenizer *t = small_byte_level("gpt-2");
    expect_ids(t, "<tool>", 0, IDS(260));
    expect_ids(t, "<tool>xa", 0, IDS(261, 'a'));
    expect_ids(t, "<<tool>ab", TOKENIZER_PARSE_SPECIAL, IDS('<', 260, 256));
    expect_ids(t, "never", 0, IDS('n', 'e', 'v', 'e', 'r'));
    assert_int_equal(tokenizer_find_special(t, "<tool>", 6), 260);
    assert_int_equal(tokenizer_find_special(t, "<|end|>", 7), 259);
    assert_int_equal(tokenizer_find_special(t, "<too", 4), TOKENIZER_NONE);
    assert_int_equal(tokenizer_find_special(t, "a", 1), TOKENIZER_NONE);
    assert_int_equal(tokenizer_find_special(t, "", 0), TOKENIZER_NONE);
    tokenizer_free(t);
}

// As in the vocabularies of GPT-NeoX and DeepSeek, whose added tokens repeat pieces.
static void a_user_defined_piece_may_repeat_a_normal_one(void **state)
{
    (void)state;
    for (int32_t added = 256; added < 258; added++) {
        tokenizer_builder b = builder_new(TOKENIZER_BYTE_LEVEL);
        builder_bytes(&b);
        if (added == 256)
            builder_piece(&b, "ab", TOKENIZER_USER_DEFINED, 0);
        builder_join(&b, "a", "b");
        if (added == 257)
            builder_piece(&b, "ab", TOKENIZER_USER_DEFINED, 0);
        builder_join(&b, "c", "ab");                       // 258
        builder_piece(&b, "z", TOKENIZER_USER_DEFINED, 0); // 259
        builder_join(&b, "z", "y");                        // 260
        tokenizer *t = must_finish(&b);
        expect_ids(t, "ab", 0, IDS(added));
        expect_ids(t, "cab", 0, IDS('c', added));
        expect_ids(t, "zy", 0, IDS(259, 'y'));
        tokenizer_free(t);
    }
}

static void a_merge_cannot_make_a_control_piece(void **state)
{
    (void)state;
    tokenizer_builder b = builder_new(TOKENIZER_BYTE_LEVEL);
    builder_bytes(&b);
    builder_piece(&b, "ab", TOKENIZER_CONTROL, 0);
    builder_merge(&b, "a b");
    engine_error err = {{0}};
    assert_null(builder_finish(&b, &err));
    assert_non_null(strstr(err.text, "merge 0"));
}

static void whole_words_come_first_for_llama3_only(void **state)
{
    (void)state;
    static const char *const pres[] = {"llama-bpe", "gpt-2"};
    for (int i = 0; i < 2; i++) {
        tokenizer_builder b = builder_new(TOKENIZER_BYTE_LEVEL);
        builder_bytes(&b);
        builder_piece(&b, "xyz", TOKENIZER_NORMAL, 0);   // no merge makes it
        builder_piece(&b, "stop", TOKENIZER_CONTROL, 0); // a word that must not be typed
        b.spec.pre = pres[i];
        tokenizer *t = must_finish(&b);
        expect_ids(t, "xyz", 0, i == 0 ? IDS(256) : IDS('x', 'y', 'z'));
        expect_ids(t, "stop", 0, IDS('s', 't', 'o', 'p'));
        tokenizer_free(t);
    }
}

// --- choices of the file ----------------------------------------------------------------------------

static void bos_and_eos_are_added_where_the_model_wants_them(void **state)
{
    (void)state;
    tokenizer *t = small_sentencepiece(true, false);
    assert_true(tokenizer_adds_bos(t));
    assert_false(tokenizer_adds_eos(t));
    expect_ids(t, "a", TOKENIZER_ADD_SPECIAL, IDS(257, 262));
    expect_ids(t, "", TOKENIZER_ADD_SPECIAL, IDS(257));
    tokenizer_free(t);

    t = small_byte_level("gpt-2");
    assert_false(tokenizer_adds_bos(t));
    tokenizer_free(t);
    t = small_byte_level("llama-bpe");
    assert_true(tokenizer_adds_bos(t));
    tokenizer_free(t);

    tokenizer_builder b = builder_new(TOKENIZER_BYTE_LEVEL);
    builder_bytes(&b);
    b.spec.bos = b.spec.eos = 1;
    b.spec.add_bos = b.spec.add_eos = 1;
    t = must_finish(&b);
    expect_ids(t, "a", TOKENIZER_ADD_SPECIAL, IDS(1, 'a', 1));
    expect_ids(t, "a", 0, IDS('a'));
    tokenizer_free(t);
}

static void spaces_as_sentencepiece_sees_them(void **state)
{
    (void)state;
    tokenizer *t = small_sentencepiece(true, false);
    expect_ids(t, "ab", 0, IDS(259, 263)); // "ab" scores higher than " a"
    expect_ids(t, " a", 0, IDS(259, 262));
    expect_ids(t,
               "\xe2\x96\x81"
               "a",
               0, IDS(259, 262));
    expect_ids(t, "a<tool>a", 0, IDS(262, 264, 262)); // each run of text has its space
    tokenizer_free(t);
    t = small_sentencepiece(false, false);
    expect_ids(t, "a  a ", 0, IDS(260, 259, 262, 259));
    tokenizer_free(t);
    t = small_sentencepiece(true, true);
    expect_ids(t, "  a   a  ", 0, IDS(262, 262));
    expect_ids(t, "  a   a  ", TOKENIZER_SPACE_IS_PREFIX, IDS(262, 262));
    expect_ids(t, "   ", 0, IDS(-1));
    tokenizer_free(t);
}

static void equal_scores_join_from_the_left(void **state)
{
    (void)state;
    tokenizer_builder b = builder_new(TOKENIZER_SENTENCEPIECE);
    builder_bytes(&b);
    builder_piece(&b, "a", TOKENIZER_NORMAL, -3);  // 256
    builder_piece(&b, "b", TOKENIZER_NORMAL, -3);  // 257
    builder_piece(&b, "ab", TOKENIZER_NORMAL, -1); // 258
    builder_piece(&b, "ba", TOKENIZER_NORMAL, -1); // 259
    b.spec.add_space_prefix = false;
    tokenizer *t = must_finish(&b);
    expect_ids(t, "aba", 0, IDS(258, 256));
    expect_ids(t, "bab", 0, IDS(259, 257));
    tokenizer_free(t);
}

static void expect_refused(const tokenizer *t, const char *text, const char *reason)
{
    tokenizer_ids list = {0};
    engine_error err = {{0}};
    assert_true(tokenizer_ids_push(&list, 5));
    assert_false(tokenizer_encode(t, text, strlen(text), 0, &list, &err));
    assert_non_null(strstr(err.text, reason));
    assert_int_equal(list.count, 1);
    tokenizer_ids_free(&list);
}

static void a_byte_without_piece_is_unknown_or_refused(void **state)
{
    (void)state;
    for (int with_unknown = 0; with_unknown < 2; with_unknown++) {
        tokenizer_builder b = builder_new(TOKENIZER_BYTE_LEVEL);
        builder_piece(&b, "a", TOKENIZER_NORMAL, 0);
        builder_piece(&b, "<unk>", TOKENIZER_UNKNOWN, 0);
        b.spec.unknown = with_unknown ? 1 : TOKENIZER_NONE;
        tokenizer *t = must_finish(&b);
        if (with_unknown)
            expect_ids(t, "aza", 0, IDS(0, 1, 0));
        else
            expect_refused(t, "aza", "0x7A");
        tokenizer_free(t);
    }
}

// As in the files of StarCoder, which lack some bytes and name <|endoftext|> as unknown.
static void unknown_text_does_not_begin_or_end_one(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        tokenizer_builder b = builder_new(TOKENIZER_BYTE_LEVEL);
        builder_piece(&b, "a", TOKENIZER_NORMAL, 0);
        builder_piece(&b, which == 2 ? "<|endoftext|>" : "<s>", TOKENIZER_CONTROL, 0);
        b.spec.unknown = 1;
        *(which == 0 ? &b.spec.bos : &b.spec.eos) = which < 2 ? 1 : TOKENIZER_NONE;
        tokenizer *t = must_finish(&b);
        expect_refused(t, "aza", "0x7A");
        tokenizer_free(t);
    }
}

// Where an answer has channels, what closes one of them does not end it.
static void channels_do_not_end_answers(void **state)
{
    (void)state;
    for (int channels = 0; channels < 2; channels++) {
        tokenizer_builder b = builder_new(TOKENIZER_BYTE_LEVEL);
        builder_bytes(&b);
        int32_t end = builder_piece(&b, "<|end|>", TOKENIZER_CONTROL, 0);
        int32_t call = builder_piece(&b, "<|call|>", TOKENIZER_CONTROL, 0);
        int32_t back = channels ? builder_piece(&b, "<|return|>", TOKENIZER_CONTROL, 0) : call;
        b.spec.eos = 'z';
        tokenizer *t = must_finish(&b);
        assert_true(tokenizer_is_end(t, 'z'));
        assert_int_equal(tokenizer_is_end(t, end), !channels);
        assert_int_equal(tokenizer_is_end(t, call), channels);
        assert_int_equal(tokenizer_is_end(t, back), channels);
        tokenizer_free(t);
    }
}

static void ends_of_generation_are_known(void **state)
{
    (void)state;
    tokenizer_builder b = builder_new(TOKENIZER_BYTE_LEVEL);
    builder_bytes(&b);
    int32_t eot = builder_piece(&b, "<|eot_id|>", TOKENIZER_CONTROL, 0);
    int32_t im_end = builder_piece(&b, "<|im_end|>", TOKENIZER_CONTROL, 0);
    int32_t text = builder_piece(&b, "<|endoftext|>", TOKENIZER_USER_DEFINED, 0);
    int32_t other = builder_piece(&b, "<|im_start|>", TOKENIZER_CONTROL, 0);
    b.spec.eos = 'z';
    tokenizer *t = must_finish(&b);
    assert_true(tokenizer_is_end(t, 'z'));
    assert_true(tokenizer_is_end(t, eot));
    assert_true(tokenizer_is_end(t, im_end));
    assert_false(tokenizer_is_end(t, text)); // anyone may type it
    assert_false(tokenizer_is_end(t, other));
    assert_false(tokenizer_is_end(t, -1));
    assert_false(tokenizer_is_end(t, 1 << 20));
    assert_true(tokenizer_is_special(t, other));
    assert_false(tokenizer_is_special(t, text));
    assert_false(tokenizer_is_special(t, -1));
    tokenizer_free(t);
}

// --- long texts -------------------------------------------------------------------------------------

// Words beyond the limit up to which all pairs are looked through must give the same ids.
static void long_words_join_like_short_ones(void **state)
{
    (void)state;
    tokenizer *t = small_byte_level("gpt-2");
    for (size_t repeats = 1; repeats < 80; repeats++) {
        char text[256];
        for (size_t i = 0; i < repeats * 3; i++)
            text[i] = "abc"[i % 3];
        tokenizer_ids list = must_encode(t, text, repeats * 3, 0);
        assert_int_equal(list.count, repeats);
        for (size_t i = 0; i < repeats; i++)
            assert_int_equal(list.ids[i], 257);
        tokenizer_ids_free(&list);
    }
    tokenizer_free(t);
}

static void hostile_lengths_take_no_hostile_time(void **state)
{
    (void)state;
    const size_t size_bytes = 1 << 20;
    static const char *const units[] = {" ", "a", "\n ", "'", "\xcc\x81\xcc\xa3", "\xff", "1", "A"};
    static const char *const pres[] = {"gpt-2", "llama-bpe", "qwen2", "smollm", "tekken"};
    char *text = malloc(size_bytes);
    assert_non_null(text);
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        size_t unit_bytes = strlen(units[u]);
        for (size_t i = 0; i < size_bytes; i++)
            text[i] = units[u][i % unit_bytes];
        for (size_t p = 0; p < sizeof pres / sizeof pres[0]; p++) {
            tokenizer *t = small_byte_level(pres[p]);
            tokenizer_ids list = must_encode(t, text, size_bytes, 0);
            assert_true(list.count >= size_bytes / 4);
            tokenizer_ids_free(&list);
            tokenizer_free(t);
        }
    }
    free(text);
}

static void a_text_beyond_the_limit_is_refused(void **state)
{
    (void)state;
    tokenizer *t = small_byte_level("gpt-2");
    tokenizer_ids list = {0};
    engine_error err = {{0}};
    assert_false(tokenizer_encode(t, "a", (size_t)TOKENIZER_MAX_TEXT_BYTES + 1, 0, &list, &err));
    assert_non_null(strstr(err.text, "limit"));
    tokenizer_ids_free(&list);
    tokenizer_free(t);
}

// --- threads ----------------------------------------------------------------------------------------

enum { THREADS = 4, ROUNDS = 50 };

static const char SHARED_TEXT[] = "abc ab a  12\n\xc3\xa9\xff<tool>it's <|end|> abcabc";

static void *encode_often(void *argument)
{
    const tokenizer *t = argument;
    size_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        tokenizer_ids list = {0};
        if (!tokenizer_encode(t, SHARED_TEXT, sizeof SHARED_TEXT - 1, TOKENIZER_PARSE_SPECIAL,
                              &list, NULL))
            return NULL;
        for (size_t i = 0; i < list.count; i++)
            sum += (size_t)list.ids[i] * (i + 1);
        tokenizer_ids_free(&list);
    }
    return (void *)(uintptr_t)sum;
}

static void threads_share_a_tokenizer(void **state)
{
    (void)state;
    tokenizer *t = small_byte_level("llama-bpe");
    pthread_t threads[THREADS];
    void *expected = encode_often(t);
    assert_non_null(expected);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, t), 0);
    for (int i = 0; i < THREADS; i++) {
        void *sum;
        assert_int_equal(pthread_join(threads[i], &sum), 0);
        assert_ptr_equal(sum, expected);
    }
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(invalid_bytes_are_a_word_of_their_own),
        cmocka_unit_test(invalid_bytes_become_byte_pieces),
        cmocka_unit_test(control_pieces_are_found_on_request_only),
        cmocka_unit_test(user_defined_pieces_are_found_always_and_the_longest_wins),
        cmocka_unit_test(a_user_defined_piece_may_repeat_a_normal_one),
        cmocka_unit_test(a_merge_cannot_make_a_control_piece),
        cmocka_unit_test(whole_words_come_first_for_llama3_only),
        cmocka_unit_test(bos_and_eos_are_added_where_the_model_wants_them),
        cmocka_unit_test(spaces_as_sentencepiece_sees_them),
        cmocka_unit_test(equal_scores_join_from_the_left),
        cmocka_unit_test(a_byte_without_piece_is_unknown_or_refused),
        cmocka_unit_test(unknown_text_does_not_begin_or_end_one),
        cmocka_unit_test(channels_do_not_end_answers),
        cmocka_unit_test(ends_of_generation_are_known),
        cmocka_unit_test(long_words_join_like_short_ones),
        cmocka_unit_test(hostile_lengths_take_no_hostile_time),
        cmocka_unit_test(a_text_beyond_the_limit_is_refused),
        cmocka_unit_test(threads_share_a_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
