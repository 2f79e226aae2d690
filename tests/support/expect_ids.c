// SPDX-License-Identifier: MIT
#include "tests/support/expect_ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

tokenizer *must_finish(tokenizer_builder *b)
{
    engine_error err = {{0}};
    tokenizer *t = builder_finish(b, &err);
    if (!t)
        fail_msg("%s", err.text);
    return t;
}

tokenizer_ids must_encode(const tokenizer *t, const void *text, size_t text_bytes, unsigned flags)
{
    tokenizer_ids list = {0};
    engine_error err = {{0}};
    if (!tokenizer_encode(t, text, text_bytes, flags, &list, &err))
        fail_msg("%s", err.text);
    return list;
}

void expect_ids(const tokenizer *t, const char *text, unsigned flags, const int32_t *expected)
{
    tokenizer_ids list = must_encode(t, text, strlen(text), flags);
    size_t count = 0;
    for (; expected[count] >= 0; count++)
        if (count >= list.count || list.ids[count] != expected[count])
            fail_msg("\"%s\": token %zu of %zu is %d", text, count, list.count,
                     count < list.count ? (int)list.ids[count] : -1);
    assert_int_equal(list.count, count);
    tokenizer_ids_free(&list);
}
