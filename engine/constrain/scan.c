// SPDX-License-Identifier: MIT
#include "engine/constrain/scan.h"

#include <string.h>

bool scan_take(scanner *s, const char *word)
{
    size_t size = strlen(word);
    if (s->bytes - s->at < size || memcmp(s->text + s->at, word, size) != 0)
        return false;
    s->at += size;
    return true;
}

bool scan_number(scanner *s, int32_t most, int32_t *number)
{
    size_t from = s->at;
    int64_t value = 0;
    for (int c; (c = scan_peek(s)) >= '0' && c <= '9'; s->at++)
        if (value <= most)
            value = value * 10 + (c - '0');
    *number = value <= most ? (int32_t)value : most < INT32_MAX ? most + 1 : most;
    return s->at > from;
}

static int hex_digit(int c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool scan_hex(scanner *s, int digits, uint32_t *number)
{
    *number = 0;
    for (int i = 0; i < digits; i++, s->at++) {
        int digit = hex_digit(scan_peek(s));
        if (digit < 0)
            return false;
        *number = *number * 16 + (uint32_t)digit;
    }
    return true;
}

bool scan_character(scanner *s, uint32_t *code)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int c = scan_peek(s);
    size_t size = c < 0x80 ? 1 : c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 ? 2 : 0;
    if (c < 0 || size == 0 || s->bytes - s->at < size)
        return false;
    uint32_t value = size == 1 ? (uint32_t)c : (uint32_t)c & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++) {
        unsigned char byte = (unsigned char)s->text[s->at + i];
        if ((byte & 0xC0) != 0x80)
            return false;
        value = value << 6 | (byte & 0x3F);
    }
    if (value < least[size] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
        return false;
    s->at += size;
    *code = value;
    return true;
}
