// SPDX-License-Identifier: MIT
// Strings of streams are what a reader of JSON makes the same text of.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/job.h"

static void expect_same(const char *text, size_t bytes)
{
    static server_job job;
    job.out.size_bytes = 0;
    assert_true(job_write_string(&job, text, bytes));
    json_t *read =
        json_loadb(job.out.data, job.out.size_bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (!json_is_string(read))
        fail_msg("%.*s is no string", (int)job.out.size_bytes, job.out.data);
    assert_int_equal(json_string_length(read), bytes);
    assert_memory_equal(json_string_value(read), text, bytes);
    json_decref(read);
    tokenizer_text_free(&job.out);
}

static void every_character(void **state)
{
    (void)state;
    for (int c = 0; c < 0x80; c++)
        for (int before = 0; before < 3; before++)
            for (int behind = 0; behind < 3; behind++) {
                char text[8] = "aaaaaaa";
                text[before] = (char)c;
                expect_same(text, (size_t)(before + 1 + behind));
            }
    static const char *const texts[] = {"", "\"\"\\\\\n\n",
                                        "na\303\257ve \346\227\245\346\234\254 \360\237\246\212",
                                        "</script>\342\200\250\177"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_same(texts[i], strlen(texts[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_character)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
