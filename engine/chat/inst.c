// SPDX-License-Identifier: MIT
// The [INST] family differs from model to model in single spaces and in where bos and the system text
// stand. Its templates print each turn by one expression, a sum such as
//
//     {{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
//     {{ ' ' + content.strip() + ' ' + eos_token }}
//
// so the literals are read from there.

#include <string.h>

#include "engine/chat/chat_data.h"

enum { MAX_TERMS = 12 };

typedef struct term {
    chat_span text; // of a literal: without the quotes
    bool is_literal;
} term;

typedef struct expression {
    term terms[MAX_TERMS];
    size_t count;
} expression;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// The end of a term: a plus outside of quotes and brackets.
static size_t term_end(chat_span sum, size_t start)
{
    char quote = 0;
    int depth = 0;
    size_t i = start;
    for (; i < sum.size_bytes; i++) {
        char c = sum.data[i];
        if (quote) {
            if (c == '\\')
                i++;
            else if (c == quote)
                quote = 0;
        } else if (c == '\'' || c == '"') {
            quote = c;
        } else if (c == '(' || c == '[') {
            depth++;
        } else if (c == ')' || c == ']') {
            depth--;
        } else if (c == '+' && depth == 0) {
            break;
        }
    }
    return i < sum.size_bytes ? i : sum.size_bytes;
}

static term make_term(chat_span text)
{
    while (text.size_bytes > 0 && is_blank(text.data[0]))
        text = (chat_span){text.data + 1, text.size_bytes - 1};
    while (text.size_bytes > 0 && is_blank(text.data[text.size_bytes - 1]))
        text.size_bytes--;
    size_t n = text.size_bytes;
    if (n >= 2 && (text.data[0] == '\'' || text.data[0] == '"') && text.data[n - 1] == text.data[0])
        return (term){{text.data + 1, n - 2}, true};
    return (term){text, false};
}

// The sum between {{ and }}; false if it has too many terms.
static bool read_expression(chat_span sum, expression *out)
{
    out->count = 0;
    if (sum.size_bytes > 0 && sum.data[0] == '-')
        sum = (chat_span){sum.data + 1, sum.size_bytes - 1};
    if (sum.size_bytes > 0 && sum.data[sum.size_bytes - 1] == '-')
        sum.size_bytes--;
    for (size_t start = 0; start < sum.size_bytes;) {
        size_t end = term_end(sum, start);
        if (out->count == MAX_TERMS)
            return false;
        out->terms[out->count++] = make_term((chat_span){sum.data + start, end - start});
        start = end + 1;
    }
    return true;
}

// Steps to the next {{ }} from *position on; false if there is none.
static bool next_expression(chat_span text, size_t *position, expression *out)
{
    while (*position < text.size_bytes) {
        chat_span rest = {text.data + *position, text.size_bytes - *position};
        size_t open = chat_find(rest, "{{");
        if (open == SIZE_MAX)
            return false;
        rest = (chat_span){rest.data + open + 2, rest.size_bytes - open - 2};
        size_t close = chat_find(rest, "}}");
        if (close == SIZE_MAX)
            return false;
        *position = (size_t)(rest.data - text.data) + close + 2;
        if (read_expression((chat_span){rest.data, close}, out))
            return true;
    }
    return false;
}

static bool holds(const term *t, bool is_literal, const char *needle)
{
    return t->is_literal == is_literal && chat_find(t->text, needle) != SIZE_MAX;
}

static size_t find_term(const expression *e, bool is_literal, const char *needle)
{
    size_t i = 0;
    while (i < e->count && !holds(&e->terms[i], is_literal, needle))
        i++;
    return i;
}

static bool trims(const term *t)
{
    return holds(t, false, "strip()") || holds(t, false, "trim");
}

// Appends a literal; false if it is too long or holds an escape other than \n.
static bool append_literal(char *out, const term *literal)
{
    size_t count = strlen(out);
    for (size_t i = 0; i < literal->text.size_bytes; i++) {
        char c = literal->text.data[i];
        if (c == '\\') {
            i++;
            if (i == literal->text.size_bytes || literal->text.data[i] != 'n')
                return false;
            c = '\n';
        }
        if (count + 1 == CHAT_LITERAL_BYTES)
            return false;
        out[count++] = c;
    }
    out[count] = '\0';
    return true;
}

// bos? '[INST] ' content ' [/INST]'
static bool read_user_turn(chat_template *t, const expression *e)
{
    size_t open = find_term(e, true, "[INST]");
    size_t close = find_term(e, true, "[/INST]");
    if (close == e->count || close != open + 2 || e->terms[open + 1].is_literal ||
        close + 1 != e->count)
        return false;
    if (open > 1 || (open == 1 && !holds(&e->terms[0], false, "bos_token")))
        return false;
    t->bos_each_turn = open == 1;
    t->trims = trims(&e->terms[open + 1]);
    return append_literal(t->user_open, &e->terms[open]) &&
           append_literal(t->user_close, &e->terms[close]);
}

// ' '? content ' '? eos ' '?
static bool read_reply(chat_template *t, const expression *e)
{
    size_t content = find_term(e, false, "content");
    size_t eos = find_term(e, false, "eos_token");
    if (content >= eos)
        return false;
    for (size_t i = 0; i < e->count; i++) {
        char *out = i < content ? t->reply_open : i < eos ? t->reply_close : t->reply_end;
        if (i != content && i != eos &&
            (!e->terms[i].is_literal || !append_literal(out, &e->terms[i])))
            return false;
    }
    t->trims_reply = trims(&e->terms[content]);
    return true;
}

static bool same_user_turn(const chat_template *a, const chat_template *b)
{
    return a->bos_each_turn == b->bos_each_turn && a->trims == b->trims &&
           strcmp(a->user_open, b->user_open) == 0 && strcmp(a->user_close, b->user_close) == 0;
}

// Every expression that prints a user's turn must print it alike; those with the system text are left to
// read_system.
static bool read_turns(chat_template *t, chat_span text)
{
    expression e;
    bool has_user = false, has_reply = false;
    for (size_t position = 0; next_expression(text, &position, &e);) {
        bool marked =
            find_term(&e, true, "[INST]") < e.count || find_term(&e, true, "[/INST]") < e.count;
        if (marked && find_term(&e, false, "system") == e.count) {
            chat_template turn = {0};
            if (!read_user_turn(has_user ? &turn : t, &e) ||
                (has_user && !same_user_turn(t, &turn)))
                return false;
            has_user = true;
        } else if (!has_reply && find_term(&e, false, "eos_token") < e.count &&
                   find_term(&e, false, "content") < e.count) {
            has_reply = read_reply(t, &e);
        }
    }
    return has_user && has_reply;
}

static bool read_system(chat_template *t, chat_span text)
{
    if (chat_find(text, "<<SYS>>") != SIZE_MAX)
        t->system = CHAT_SYSTEM_TAGS;
    else if (chat_find(text, "system_message") == SIZE_MAX)
        t->system = CHAT_SYSTEM_NONE;
    else if (chat_find(text, "loop.last and system_message is defined") != SIZE_MAX)
        t->system = CHAT_SYSTEM_LAST;
    else if (chat_find(text, "loop.first and system_message is defined") != SIZE_MAX)
        t->system = CHAT_SYSTEM_FIRST;
    else
        return false;
    // Some write a system text of their own where there is none: "elif true == true".
    return chat_find(text, "true == true") == SIZE_MAX;
}

bool chat_read_inst(chat_template *t, const char *text, size_t text_bytes)
{
    chat_span all = {text, text_bytes};
    if (!read_turns(t, all) || !read_system(t, all))
        return false;
    t->begins_with_bos = !t->bos_each_turn && chat_find(all, "bos_token") != SIZE_MAX;
    t->name = t->system == CHAT_SYSTEM_TAGS ? "llama-2" : "mistral";
    return true;
}
