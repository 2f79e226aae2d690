// SPDX-License-Identifier: MIT
// From text to tokens. White space as transformers sets it up: a line feed behind a block tag goes
// (trim_blocks), and so do blanks between the beginning of a line and a block tag (lstrip_blocks); a minus
// takes all white space on its side, a plus keeps it.
#include <string.h>

#include "engine/chat/jinja/jinja_syntax.h"

typedef struct scanner {
    jinja_box *box;
    const char *text;
    size_t size, at;
    int32_t line;
    jinja_tokens *tokens;
    // White space in front of the next text goes, because the tag before ended with a minus.
    bool trim;
    bool trim_line;
} scanner;

static void add(scanner *s, jinja_token_kind kind, const char *data, size_t size_bytes)
{
    jinja_tokens *tokens = s->tokens;
    if (!jinja_step(s->box, 1))
        return;
    if (tokens->count == tokens->capacity) {
        size_t capacity = tokens->capacity ? 2 * tokens->capacity : 256;
        jinja_token *items = jinja_take(s->box, capacity, sizeof *items);
        if (!items)
            return;
        if (tokens->count)
            memcpy(items, tokens->items, tokens->count * sizeof *items);
        tokens->items = items;
        tokens->capacity = capacity;
    }
    tokens->items[tokens->count++] = (jinja_token){kind, s->line, data, size_bytes};
}

static bool is_white(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

static bool starts(const scanner *s, const char *word)
{
    size_t size = strlen(word);
    return s->size - s->at >= size && memcmp(s->text + s->at, word, size) == 0;
}

static void advance(scanner *s, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        s->line += s->text[s->at + i] == '\n';
    s->at += bytes;
}

static size_t next_tag(const scanner *s)
{
    size_t at = s->at;
    for (; at + 1 < s->size; at++)
        if (s->text[at] == '{' &&
            (s->text[at + 1] == '{' || s->text[at + 1] == '%' || s->text[at + 1] == '#'))
            return at;
    return s->size;
}

// The text up to `end`, without the white space that the tags on its sides take away.
static void add_data(scanner *s, size_t end)
{
    size_t begin = s->at, last = end;
    if (s->trim)
        while (begin < end && is_white(s->text[begin]))
            begin++;
    else if (s->trim_line && begin < end && s->text[begin] == '\n')
        begin++;
    s->trim = s->trim_line = false;
    if (end < s->size) {
        char sign = end + 2 < s->size ? s->text[end + 2] : 0;
        if (sign == '-') {
            while (last > begin && is_white(s->text[last - 1]))
                last--;
        } else if (sign != '+' && s->text[end + 1] != '{') {
            size_t blank = last;
            while (blank > begin && (s->text[blank - 1] == ' ' || s->text[blank - 1] == '\t'))
                blank--;
            if (blank == 0 || s->text[blank - 1] == '\n')
                last = blank;
        }
    }
    if (last > begin)
        add(s, JINJA_TOKEN_DATA, s->text + begin, last - begin);
    advance(s, end - s->at);
}

static void skip_comment(scanner *s)
{
    size_t at = s->at + 2;
    while (at + 1 < s->size && !(s->text[at] == '#' && s->text[at + 1] == '}'))
        at++;
    if (at + 1 >= s->size) {
        jinja_refuse(s->box, "line %d: a comment has no end", s->line);
        return;
    }
    s->trim = s->text[at - 1] == '-' && at - 1 > s->at + 1;
    s->trim_line = true;
    advance(s, at + 2 - s->at);
}

static bool is_name(char c, bool first)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (!first && c >= '0' && c <= '9');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void scan_number(scanner *s)
{
    size_t end = s->at;
    bool real = false;
    while (end < s->size && (is_digit(s->text[end]) || s->text[end] == '_'))
        end++;
    if (end + 1 < s->size && s->text[end] == '.' && is_digit(s->text[end + 1])) {
        real = true;
        for (end++; end < s->size && is_digit(s->text[end]);)
            end++;
    }
    if (end < s->size && (s->text[end] == 'e' || s->text[end] == 'E')) {
        size_t digits = end + 1;
        digits += digits < s->size && (s->text[digits] == '+' || s->text[digits] == '-');
        if (digits < s->size && is_digit(s->text[digits])) {
            real = true;
            for (end = digits; end < s->size && is_digit(s->text[end]);)
                end++;
        }
    }
    add(s, real ? JINJA_TOKEN_FLOAT : JINJA_TOKEN_INT, s->text + s->at, end - s->at);
    s->at = end;
}

static size_t write_utf8(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t size = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)((0xf00u >> size & 0xf0) | c);
    return size;
}

// \xhh, \uhhhh or \Uhhhhhhhh at s->at; the bytes written, 0 if it is none of these.
static size_t read_code(const scanner *s, size_t at, size_t *used, char *out)
{
    size_t digits = s->text[at] == 'x' ? 2 : s->text[at] == 'u' ? 4 : s->text[at] == 'U' ? 8 : 0;
    uint32_t code = 0;
    if (!digits || s->size - at <= digits)
        return 0;
    for (size_t i = 1; i <= digits; i++) {
        char c = s->text[at + i];
        int value = is_digit(c)              ? c - '0'
                    : (c >= 'a' && c <= 'f') ? c - 'a' + 10
                    : (c >= 'A' && c <= 'F') ? c - 'A' + 10
                                             : -1;
        if (value < 0)
            return 0;
        code = code << 4 | (uint32_t)value;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    *used = digits + 1;
    return write_utf8(code, out);
}

static void scan_string(scanner *s)
{
    static const char letters[] = "nrtbfav0", bytes[] = "\n\r\t\b\f\a\v";
    char mark = s->text[s->at++];
    char *out = jinja_take(s->box, s->size - s->at < 4096 ? s->size - s->at + 4 : 4096, 1);
    size_t end = s->at, size = 0;
    while (end < s->size && s->text[end] != mark)
        end += s->text[end] == '\\' ? 2 : 1;
    if (end >= s->size) {
        jinja_refuse(s->box, "line %d: a string has no end", s->line);
        return;
    }
    if (end - s->at > 4092)
        out = jinja_take(s->box, end - s->at + 4, 1);
    if (!out)
        return;
    for (size_t at = s->at; at < end;) {
        const char *letter =
            at + 1 < end && s->text[at] == '\\' ? strchr(letters, s->text[at + 1]) : NULL;
        size_t used = 0, written;
        if (s->text[at] != '\\') {
            out[size++] = s->text[at++];
        } else if (s->text[at + 1] == '\n') {
            at += 2;
        } else if (letter && *letter) {
            out[size++] = bytes[letter - letters];
            at += 2;
        } else if ((written = read_code(s, at + 1, &used, out + size)) > 0) {
            size += written;
            at += used + 1;
        } else {
            if (s->text[at + 1] != '\\' && s->text[at + 1] != '\'' && s->text[at + 1] != '"')
                out[size++] = '\\';
            out[size++] = s->text[at + 1];
            at += 2;
        }
    }
    add(s, JINJA_TOKEN_TEXT, out, size);
    advance(s, end + 1 - s->at);
}

static bool scan_operator(scanner *s)
{
    static const char *const operators[] = {"==", "!=", "<=", ">=", "//", "**", "=", "<", ">",
                                            "+",  "-",  "*",  "/",  "%",  "~",  "|", ".", ",",
                                            ":",  "(",  ")",  "[",  "]",  "{",  "}"};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (starts(s, operators[i])) {
            add(s, JINJA_TOKEN_OPERATOR, operators[i], strlen(operators[i]));
            s->at += strlen(operators[i]);
            return true;
        }
    return false;
}

// The tag's end, with or without a sign; false if it is not here. Inside brackets }} is two braces.
static bool scan_close(scanner *s, bool block, int braces)
{
    const char *close = block ? "%}" : "}}";
    bool minus = starts(s, block ? "-%}" : "-}}"), plus = block && starts(s, "+%}");
    if (braces > 0 || (!minus && !plus && !starts(s, close)))
        return false;
    s->trim = minus;
    s->trim_line = block && !plus;
    add(s, block ? JINJA_TOKEN_BLOCK_CLOSE : JINJA_TOKEN_PRINT_CLOSE, close, 2);
    s->at += minus || plus ? 3 : 2;
    return true;
}

static void scan_tag(scanner *s)
{
    bool block = s->text[s->at + 1] == '%';
    int braces = 0;
    add(s, block ? JINJA_TOKEN_BLOCK_OPEN : JINJA_TOKEN_PRINT_OPEN, s->text + s->at, 2);
    s->at += 2;
    if (s->at < s->size && (s->text[s->at] == '-' || s->text[s->at] == '+'))
        s->at++;
    while (!s->box->failed) {
        while (s->at < s->size && is_white(s->text[s->at]))
            advance(s, 1);
        if (s->at >= s->size) {
            jinja_refuse(s->box, "line %d: a tag has no end", s->line);
            return;
        }
        char c = s->text[s->at];
        if (scan_close(s, block, braces))
            return;
        braces += c == '{' || c == '[' || c == '(';
        braces -= c == '}' || c == ']' || c == ')';
        if (is_name(c, true)) {
            size_t end = s->at;
            while (end < s->size && is_name(s->text[end], false))
                end++;
            add(s, JINJA_TOKEN_NAME, s->text + s->at, end - s->at);
            s->at = end;
        } else if (is_digit(c)) {
            scan_number(s);
        } else if (c == '\'' || c == '"') {
            scan_string(s);
        } else if (!scan_operator(s)) {
            jinja_refuse(s->box, "line %d: '%c' has no meaning in a tag", s->line, c);
        }
    }
}

bool jinja_scan(jinja_box *box, const char *text, size_t size_bytes, jinja_tokens *tokens)
{
    scanner s = {.box = box, .text = text, .size = size_bytes, .line = 1, .tokens = tokens};
    if (s.size > 0 && text[s.size - 1] == '\n')
        s.size--; // keep_trailing_newline is off
    while (s.at < s.size && !box->failed) {
        size_t tag = next_tag(&s);
        add_data(&s, tag);
        if (s.at >= s.size)
            break;
        if (s.text[s.at + 1] == '#')
            skip_comment(&s);
        else
            scan_tag(&s);
    }
    add(&s, JINJA_TOKEN_END, "", 0);
    return !box->failed;
}
