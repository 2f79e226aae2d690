// SPDX-License-Identifier: MIT
// Which turns a conversation keeps when its context is full. Here every byte is a token, and the
// conversation one text, so that lengths can be counted.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/transcript.h"
#include "tests/support/tokenizer_builder.h"

typedef struct talk {
    cli_transcript transcript;
    cli_transcript_form form;
    tokenizer_ids ids;
    int dropped;
    engine_error err;
} talk;

static talk start(const char *const *messages)
{
    static const char *const roles[] = {"system", "user", "assistant"};
    talk t = {.dropped = 0};
    tokenizer_builder b = builder_new(TOKENIZER_BYTE_LEVEL);
    builder_bytes(&b);
    b.spec.pre = "gpt-2";
    t.form.tokenizer = builder_finish(&b, &t.err);
    assert_non_null(t.form.tokenizer);
    for (int i = 0; messages[i]; i++) {
        int role = *messages[i] == 's' ? 0 : *messages[i] == 'q' ? 1 : 2;
        assert_true(
            cli_transcript_add(&t.transcript, roles[role], messages[i], strlen(messages[i])));
    }
    return t;
}

static void expect_text(const talk *t, const char *wanted)
{
    tokenizer_text text = {0};
    engine_error err;
    assert_true(tokenizer_decode(t->form.tokenizer, t->ids.ids, t->ids.count, 0, &text, &err));
    assert_string_equal(text.data, wanted);
    tokenizer_text_free(&text);
}

static void finish(talk *t)
{
    tokenizer_free((tokenizer *)t->form.tokenizer);
    tokenizer_ids_free(&t->ids);
    cli_transcript_free(&t->transcript);
}

static bool fit(talk *t, size_t wanted, size_t most)
{
    return cli_transcript_fit(&t->transcript, &t->form, wanted, most, &t->ids, &t->dropped,
                              &t->err);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define LONG      LIST("sys", "q1", "a1", "q2", "a2", "q3", "a3", "q4") // 4 + 7 * 3 tokens

static void keeps_what_fits(void **state)
{
    (void)state;
    talk t = start(LONG);
    assert_true(fit(&t, 25, 40));
    assert_int_equal(t.dropped, 0);
    expect_text(&t, "sys\nq1\na1\nq2\na2\nq3\na3\nq4\n");
    finish(&t);
}

// One token too many: turns go until a third is free, the system's message stays.
static void drops_whole_turns(void **state)
{
    (void)state;
    talk t = start(LONG);
    assert_true(fit(&t, 24, 40));
    assert_int_equal(t.dropped, 2); // 25, 19, 13; two thirds of 24 are 16
    expect_text(&t, "sys\nq3\na3\nq4\n");
    assert_int_equal(t.transcript.count, 4);
    assert_string_equal(t.transcript.messages[0].role, "system");
    assert_true(fit(&t, 24, 40)); // and nothing more the next time
    assert_int_equal(t.dropped, 0);
    finish(&t);
    t = start(LIST("q1", "a1", "q2")); // no system
    assert_true(fit(&t, 8, 40));
    assert_int_equal(t.dropped, 1);
    expect_text(&t, "q2\n");
    finish(&t);
}

// The question itself may take all there is, and no more.
static void keeps_the_question(void **state)
{
    (void)state;
    talk t = start(LIST("sys", "q1", "a1", "q2 is long"));
    assert_true(fit(&t, 6, 15));
    assert_int_equal(t.dropped, 1);
    expect_text(&t, "sys\nq2 is long\n");
    finish(&t);
    t = start(LIST("sys", "q1", "a1", "q2 is long"));
    assert_false(fit(&t, 6, 14));
    assert_non_null(strstr(t.err.text, "15 tokens"));
    assert_non_null(strstr(t.err.text, "/reset"));
    assert_int_equal(t.transcript.count, 4); // nothing was dropped
    finish(&t);
}

static void drops_nothing_unless_it_may(void **state)
{
    (void)state;
    talk t = start(LONG);
    assert_true(fit(&t, CLI_TRANSCRIPT_KEEP, 25));
    assert_int_equal(t.dropped, 0);
    assert_false(fit(&t, CLI_TRANSCRIPT_KEEP, 24));
    assert_int_equal(t.transcript.count, 8);
    cli_transcript_remove_last(&t.transcript);
    assert_true(fit(&t, CLI_TRANSCRIPT_KEEP, 24));
    expect_text(&t, "sys\nq1\na1\nq2\na2\nq3\na3\n");
    finish(&t);
}

// Thoughts are a member of their message, and no part of its content.
static void keeps_thoughts_apart(void **state)
{
    (void)state;
    talk t = start(LIST("q1"));
    char said[] = "a1", thought[] = "\"so\"";
    const tokenizer_text text = {.data = said, .size_bytes = 2}, none = {0},
                         thoughts = {.data = thought, .size_bytes = 4};
    assert_true(cli_transcript_answer(&t.transcript, &text, &thoughts));
    assert_true(cli_transcript_add(&t.transcript, "user", "q2", 2));
    assert_true(cli_transcript_answer(&t.transcript, &none, &none));
    const chat_message *messages = t.transcript.messages;
    assert_string_equal(messages[1].role, "assistant");
    assert_string_equal(messages[1].content, "a1");
    assert_string_equal(messages[1].members, "{\"reasoning_content\":\"\\\"so\\\"\"}");
    assert_string_equal(messages[3].content, "");
    assert_null(messages[3].members);
    assert_true(cli_transcript_add(&t.transcript, "user", "q3", 2));
    assert_true(fit(&t, 6, 40)); // the first turn goes, with its thoughts
    assert_int_equal(t.transcript.count, 1);
    finish(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_what_fits),      cmocka_unit_test(drops_whole_turns),
        cmocka_unit_test(keeps_the_question),   cmocka_unit_test(drops_nothing_unless_it_may),
        cmocka_unit_test(keeps_thoughts_apart),
    };
    return cmocka_run_group_tests_name("transcript", tests, NULL, NULL);
}
