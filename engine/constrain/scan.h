// SPDX-License-Identifier: MIT
#ifndef ENGINE_CONSTRAIN_SCAN_H
#define ENGINE_CONSTRAIN_SCAN_H

// Reads a text of a stranger from front to back; for the readers of grammars and patterns. What takes something
// says whether it was there; where it was not, the place is in front of what is wrong.

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct scanner {
    const char *text;
    size_t bytes, at;
} scanner;

// The next byte; -1: there is none.
static inline int scan_peek(const scanner *s)
{
    return s->at < s->bytes ? (unsigned char)s->text[s->at] : -1;
}

bool scan_take(scanner *s, const char *word);

// Digits; from a number above `most` on it is only told that it is above.
bool scan_number(scanner *s, int32_t most, int32_t *number);

// So many hexadecimal digits, at most 8.
bool scan_hex(scanner *s, int digits, uint32_t *number);

// A character in UTF-8.
bool scan_character(scanner *s, uint32_t *code);

#endif
