// SPDX-License-Identifier: MIT
#include "engine/base/text.h"

#include <string.h>

#include <utf8proc.h>

// Bytes of the first character; negative if it is not printable. size_bytes > 0.
static long character(const char *text, size_t size_bytes)
{
    utf8proc_int32_t code = -1;
    long bytes =
        (long)utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size_bytes, &code);
    if (bytes <= 0)
        return -1;
    return code < 0x20 || (code >= 0x7f && code < 0xa0) ? -bytes : bytes;
}

bool text_is_printable(const char *text, size_t size_bytes)
{
    for (size_t at = 0; at < size_bytes;) {
        long bytes = character(text + at, size_bytes - at);
        if (bytes < 0)
            return false;
        at += (size_t)bytes;
    }
    return true;
}

void text_make_printable(char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        long bytes = character(text, left);
        size_t step = (size_t)(bytes < 0 ? -bytes : bytes);
        if (bytes < 0)
            memset(text, '?', step);
        text += step;
        left -= step;
    }
}
