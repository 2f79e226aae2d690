// SPDX-License-Identifier: MIT
// Answers with thoughts.
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static bool can_dim(void)
{
    const char *kind = getenv("TERM"), *plain = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && kind && strcmp(kind, "dumb") != 0 && !(plain && *plain);
}

static bool write_words(cli_thinking *thinking, const char *words)
{
    return cli_wrap_write(&thinking->wrap, words, strlen(words));
}

// Shows what stands between thoughts and text. Codes of the terminal take no columns.
static bool turn(cli_thinking *thinking)
{
    thinking->inside = !thinking->inside;
    if (thinking->dims)
        fputs(thinking->inside ? "\033[2m" : "\033[22m", stdout);
    if (thinking->inside)
        return thinking->dims || write_words(thinking, "<think>\n");
    return write_words(thinking, thinking->dims ? "\n\n" : "\n</think>\n\n");
}

static void say(void *user, answer_part part, const char *text, size_t bytes)
{
    cli_thinking *thinking = user;
    bool thought = part == PART_THOUGHT;
    tokenizer_text *kept = thought ? &thinking->thoughts : &thinking->text;
    thinking->fine = thinking->fine && tokenizer_text_append(kept, text, bytes);
    if (thinking->fine && thinking->shown)
        thinking->fine = (thinking->inside == thought || turn(thinking)) &&
                         cli_wrap_write(&thinking->wrap, text, bytes);
}

void cli_thinking_start(cli_thinking *thinking, const chat_template *t, const tokenizer *tok,
                        const tokenizer_ids *prompt, chat_thinking wish, bool shown)
{
    const thought_style *style = chat_template_thoughts(t);
    bool channels = style && style->lead; // these are there in any case
    answer_thoughts thoughts = wish == CHAT_THINKING_OFF && !channels
                                   ? ANSWER_NO_THOUGHTS
                                   : answer_thoughts_of(style, tok, prompt);
    cli_thinking_free(thinking);
    *thinking = (cli_thinking){.tokenizer = tok,
                               .parts = {.thoughts = style,
                                         .thinks = thoughts != ANSWER_NO_THOUGHTS,
                                         .calls = {.say = say, .user = thinking}},
                               .shown = shown,
                               .dims = can_dim(),
                               .fine = true};
    if (thoughts == ANSWER_THINKS)
        answer_parts_think(&thinking->parts);
    cli_wrap_start(&thinking->wrap);
}

bool cli_thinking_token(cli_thinking *thinking, const engine_token *token)
{
    answer_parts_token(&thinking->parts, thinking->tokenizer, token->id, token->text,
                       token->text_bytes);
    return thinking->fine && !thinking->parts.no_memory;
}

bool cli_thinking_end(cli_thinking *thinking)
{
    answer_parts_end(&thinking->parts);
    if (thinking->dims && thinking->inside)
        fputs("\033[22m", stdout);
    thinking->inside = false;
    return thinking->fine;
}

void cli_thinking_free(cli_thinking *thinking)
{
    answer_parts_free(&thinking->parts);
    tokenizer_text_free(&thinking->thoughts);
    tokenizer_text_free(&thinking->text);
    *thinking = (cli_thinking){0};
}
