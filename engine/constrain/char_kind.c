// SPDX-License-Identifier: MIT
#include "engine/constrain/char_kind.h"

#include <string.h>

const char *char_kind_characters(uint32_t kind)
{
    static const char *const characters[] = {
#define CHAR_KIND_TEXT(text) text,
        CHAR_KINDS(CHAR_KIND_TEXT)
#undef CHAR_KIND_TEXT
    };
    return characters[kind];
}

uint32_t char_kind_of(uint8_t byte)
{
    for (uint32_t kind = 0; byte && byte < 0x80 && kind < CHAR_KIND_ASCII; kind++)
        if (strchr(char_kind_characters(kind), byte))
            return kind;
    return CHAR_KIND_OTHER;
}

// Of the character that stands here, and its bytes; one that the text's end cuts off is as good as whole.
static uint32_t kind_of_character(const uint8_t *text, size_t bytes, size_t *length)
{
    uint8_t head = text[0], least = 0x80, most = 0xBF;
    *length = head < 0x80 ? 1 : head < 0xE0 ? 2 : head < 0xF0 ? 3 : 4;
    if (head < 0x80)
        return char_kind_of(head);
    if (head < 0xC2 || head > 0xF4)
        return CHAR_KIND_OTHER;
    if (head == 0xE0 || head == 0xF0)
        least = head == 0xE0 ? 0xA0 : 0x90;
    if (head == 0xED || head == 0xF4)
        most = head == 0xED ? 0x9F : 0x8F;
    *length = *length < bytes ? *length : bytes;
    for (size_t i = 1; i < *length; i++, least = 0x80, most = 0xBF)
        if (text[i] < least || text[i] > most)
            return CHAR_KIND_OTHER;
    return CHAR_KIND_ABOVE;
}

void char_runs(const uint8_t *text, size_t bytes, char_run *runs)
{
    for (size_t i = bytes, length; i-- > 0;) {
        uint32_t kind = kind_of_character(text + i, bytes - i, &length);
        char_run behind = kind < CHAR_KIND_OTHER && i + length < bytes ? runs[i + length] : 0;
        runs[i] = char_run_make(char_run_kinds(behind) | 1u << kind, char_run_length(behind) + 1);
    }
}
