// SPDX-License-Identifier: MIT
// Where the pre-tokenizers cut words, seen by merges that must not, or must, reach over the place.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/support/tokenizer_builder.h"

enum { C_D = 256, D_E, END_SLASH, SLASH_C, MARK_B, E_MARK, ONE_TWO }; // ids of the joint pieces

static tokenizer *with_merges(const char *pre)
{
    tokenizer_builder b = builder_new(TOKENIZER_BYTE_LEVEL);
    engine_error err = {{0}};
    builder_bytes(&b);
    builder_join(&b, "c", "D");
    builder_join(&b, "D", "e");
    builder_join(&b, "\xc4\x8a", "/"); // a line end
    builder_join(&b, "/", "c");
    builder_join(&b, "\xc4\xa3", "B"); // the last byte of U+0301
    builder_join(&b, "e", "\xc3\x8c"); // its first one
    builder_join(&b, "1", "2");
    b.spec.pre = pre;
    tokenizer *t = builder_finish(&b, &err);
    if (!t)
        fail_msg("%s", err.text);
    return t;
}

// The list of expected ids ends with -1.
static void expect_ids(const tokenizer *t, const char *text, const int32_t *expected)
{
    tokenizer_ids list = {0};
    engine_error err = {{0}};
    size_t count = 0;
    if (!tokenizer_encode(t, text, strlen(text), 0, &list, &err))
        fail_msg("%s", err.text);
    for (; expected[count] >= 0; count++)
        assert_true(count < list.count && list.ids[count] == expected[count]);
    assert_int_equal(list.count, count);
    tokenizer_ids_free(&list);
}

#define IDS(...) ((const int32_t[]){__VA_ARGS__, -1})

static void tekken_cuts_before_upper_case(void **state)
{
    (void)state;
    tokenizer *t = with_merges("tekken");
    expect_ids(t, "cDe", IDS('c', D_E));
    expect_ids(t, "DDe", IDS('D', D_E));
    expect_ids(t,
               "A\xcc\x81"
               "Bc",
               IDS('A', 0xcc, MARK_B, 'c')); // marks go with either case
    expect_ids(t, "e\xcc\x81", IDS(E_MARK, 0x81));
    expect_ids(t, "12", IDS('1', '2'));
    expect_ids(t, ";\n/c", IDS(';', END_SLASH, 'c'));
    tokenizer_free(t);
}

static void llama3_and_qwen2_do_not(void **state)
{
    (void)state;
    for (int llama = 0; llama < 2; llama++) {
        tokenizer *t = with_merges(llama ? "llama-bpe" : "qwen2");
        expect_ids(t, "cDe", IDS(C_D, 'e'));
        expect_ids(t,
                   "A\xcc\x81"
                   "Bc",
                   llama ? IDS('A', 0xcc, MARK_B, 'c') : IDS(0xc3, MARK_B, 'c'));
        expect_ids(t, ";\n/c", IDS(';', '\n', SLASH_C));
        if (llama)
            expect_ids(t, "12", IDS(ONE_TWO));
        else
            expect_ids(t, "12", IDS('1', '2'));
        tokenizer_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tekken_cuts_before_upper_case),
        cmocka_unit_test(llama3_and_qwen2_do_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
