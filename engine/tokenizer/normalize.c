// SPDX-License-Identifier: MIT
#include "engine/tokenizer/normalize.h"

#include <stdlib.h>

#include <utf8proc.h>

enum { MAX_COMBINING_MARKS = 256, MAX_DECOMPOSITION = 8 };

static bool is_ascii(char c)
{
    return (unsigned char)c < 0x80;
}

// Bytes of the character at text, 0 if there is none that is valid.
static size_t read_character(const char *text, size_t text_bytes, utf8proc_int32_t *code)
{
    utf8proc_ssize_t available = text_bytes > 4 ? 4 : (utf8proc_ssize_t)text_bytes;
    utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text, available, code);
    return n > 0 ? (size_t)n : 0;
}

size_t normalize_valid_bytes(const char *text, size_t text_bytes)
{
    size_t i = 0;
    while (i < text_bytes) {
        utf8proc_int32_t code;
        size_t n = is_ascii(text[i]) ? 1 : read_character(text + i, text_bytes - i, &code);
        if (n == 0)
            break;
        i += n;
    }
    return i;
}

// The length of the run of marks behind a character whose run before it was `run`. What is sorted is the
// decomposed text, so what a character decomposes into counts: U+0F73, of class 0 itself, is two marks.
static size_t run_behind(utf8proc_int32_t code, size_t run)
{
    utf8proc_int32_t parts[MAX_DECOMPOSITION] = {code};
    int last_class = 0;
    utf8proc_ssize_t count = utf8proc_decompose_char(
        code, parts, MAX_DECOMPOSITION, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &last_class);
    for (utf8proc_ssize_t i = 0; i < count && i < MAX_DECOMPOSITION; i++)
        run = utf8proc_get_property(parts[i])->combining_class == 0 ? 0 : run + 1;
    return run;
}

static bool has_long_run_of_marks(const char *text, size_t text_bytes)
{
    size_t run = 0;
    for (size_t i = 0; i < text_bytes;) {
        utf8proc_int32_t code = 0;
        i += read_character(text + i, text_bytes - i, &code);
        run = run_behind(code, run);
        if (run > MAX_COMBINING_MARKS)
            return true;
    }
    return false;
}

static bool compose_stretch(const char *text, size_t text_bytes, tokenizer_text *composed)
{
    if (has_long_run_of_marks(text, text_bytes))
        return tokenizer_text_append(composed, text, text_bytes);
    utf8proc_uint8_t *result = NULL;
    utf8proc_ssize_t n = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)text_bytes,
                                      &result, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    bool ok = n >= 0 && tokenizer_text_append(composed, (const char *)result, (size_t)n);
    free(result);
    return ok;
}

bool normalize_compose(const char *text, size_t text_bytes, tokenizer_text *composed)
{
    // ASCII characters never join with what stands before them, so text can be cut in front of each. A
    // stretch is one ASCII character and the others behind it.
    size_t plain = 0; // start of the ASCII text not yet copied
    for (size_t i = 0; i < text_bytes; i++) {
        if (is_ascii(text[i]))
            continue;
        size_t start = i > plain ? i - 1 : i;
        while (i < text_bytes && !is_ascii(text[i]))
            i++;
        if (!tokenizer_text_append(composed, text + plain, start - plain) ||
            !compose_stretch(text + start, i - start, composed))
            return false;
        plain = i;
    }
    return tokenizer_text_append(composed, text + plain, text_bytes - plain);
}
