// SPDX-License-Identifier: MIT
#include "engine/chat/held_text.h"

#include <string.h>

size_t held_find(const tokenizer_text *held, const char *mark, bool *whole)
{
    size_t size = strlen(mark);
    *whole = false;
    for (size_t at = 0; at < held->size_bytes; at++) {
        size_t there = held->size_bytes - at < size ? held->size_bytes - at : size;
        if (memcmp(held->data + at, mark, there) != 0)
            continue;
        *whole = there == size;
        return at;
    }
    return held->size_bytes;
}

void held_drop(tokenizer_text *held, size_t at)
{
    held->size_bytes -= at;
    if (held->size_bytes > 0 && at > 0)
        memmove(held->data, held->data + at, held->size_bytes);
}

bool held_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

size_t held_blanks(const tokenizer_text *held)
{
    size_t blanks = 0;
    while (blanks < held->size_bytes && held_is_blank(held->data[blanks]))
        blanks++;
    return blanks;
}

size_t held_without_blanks(const tokenizer_text *held, size_t bytes)
{
    while (bytes > 0 && held_is_blank(held->data[bytes - 1]))
        bytes--;
    return bytes;
}
