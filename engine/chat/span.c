// SPDX-License-Identifier: MIT
#include <string.h>

#include <utf8proc.h>

#include "engine/chat/chat_data.h"

chat_span chat_span_of(const char *text)
{
    return (chat_span){text, strlen(text)};
}

static bool matches_at(chat_span span, size_t at, const char *needle, size_t needle_bytes)
{
    return memcmp(span.data + at, needle, needle_bytes) == 0;
}

size_t chat_find(chat_span span, const char *needle)
{
    size_t n = strlen(needle);
    for (size_t i = 0; n <= span.size_bytes && i <= span.size_bytes - n; i++) {
        if (matches_at(span, i, needle, n))
            return i;
    }
    return SIZE_MAX;
}

size_t chat_find_last(chat_span span, const char *needle)
{
    size_t n = strlen(needle);
    for (size_t i = n <= span.size_bytes ? span.size_bytes - n + 1 : 0; i-- > 0;) {
        if (matches_at(span, i, needle, n))
            return i;
    }
    return SIZE_MAX;
}

static bool is_space(utf8proc_int32_t code)
{
    if (code <= 0x20)
        return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20);
    if (code == 0x85)
        return true;
    utf8proc_category_t category = utf8proc_category(code);
    return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
           category == UTF8PROC_CATEGORY_ZP;
}

// Bytes of the white space character at the place, 0 if there is none.
static size_t space_bytes(chat_span span, size_t at)
{
    utf8proc_int32_t code = -1;
    utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)span.data + at,
                                          (utf8proc_ssize_t)(span.size_bytes - at), &code);
    return n > 0 && is_space(code) ? (size_t)n : 0;
}

chat_span chat_trim(chat_span span)
{
    for (size_t n; span.size_bytes > 0 && (n = space_bytes(span, 0)) > 0;)
        span = (chat_span){span.data + n, span.size_bytes - n};
    while (span.size_bytes > 0) {
        size_t last = span.size_bytes - 1;
        while (last > 0 && span.size_bytes - last < 4 &&
               ((unsigned char)span.data[last] & 0xc0) == 0x80)
            last--;
        if (space_bytes(span, last) != span.size_bytes - last)
            break;
        span.size_bytes = last;
    }
    return span;
}

chat_span chat_trim_lines_left(chat_span span)
{
    while (span.size_bytes > 0 && span.data[0] == '\n')
        span = (chat_span){span.data + 1, span.size_bytes - 1};
    return span;
}

chat_span chat_trim_lines_right(chat_span span)
{
    while (span.size_bytes > 0 && span.data[span.size_bytes - 1] == '\n')
        span.size_bytes--;
    return span;
}
