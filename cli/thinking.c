// SPDX-License-Identifier: MIT
// Sections of thinking, dimmed.
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

static const char opening[] = "<think>", closing[] = "</think>";

void cli_thinking_start(cli_thinking *thinking, bool inside)
{
    const char *kind = getenv("TERM"), *plain = getenv("NO_COLOR");
    *thinking = (cli_thinking){.inside = inside};
    thinking->dims =
        isatty(STDOUT_FILENO) && kind && strcmp(kind, "dumb") != 0 && !(plain && *plain);
    if (thinking->dims && inside)
        fputs("\033[2m", stdout);
}

bool cli_thinking_is_open(const char *text, size_t bytes)
{
    size_t mark = sizeof opening - 1;
    while (bytes > 0 && strchr(" \n\r\t", text[bytes - 1]))
        bytes--;
    return bytes >= mark && memcmp(text + bytes - mark, opening, mark) == 0;
}

// What was kept back is a whole mark: it is shown dimmed itself.
static bool turn(cli_thinking *thinking, cli_wrap *wrap)
{
    if (!thinking->inside)
        fputs("\033[2m", stdout);
    bool fine = cli_wrap_write(wrap, thinking->kept, thinking->kept_bytes);
    if (thinking->inside)
        fputs("\033[22m", stdout);
    thinking->inside = !thinking->inside;
    thinking->kept_bytes = 0;
    return fine;
}

bool cli_thinking_write(cli_thinking *thinking, cli_wrap *wrap, const char *text, size_t bytes)
{
    size_t shown = 0; // of text
    if (!thinking->dims)
        return cli_wrap_write(wrap, text, bytes);
    for (size_t i = 0; i < bytes; i++) {
        const char *mark = thinking->inside ? closing : opening;
        if (text[i] != mark[thinking->kept_bytes]) {
            // What was kept back is no mark, and of it only its first letter can begin another.
            if (!cli_wrap_write(wrap, thinking->kept, thinking->kept_bytes))
                return false;
            thinking->kept_bytes = 0;
            if (text[i] != mark[0])
                continue;
        }
        size_t plain = thinking->kept_bytes == 0 ? i - shown : 0;
        if (!cli_wrap_write(wrap, text + shown, plain))
            return false;
        shown = i + 1;
        thinking->kept[thinking->kept_bytes++] = text[i];
        if (!mark[thinking->kept_bytes] && !turn(thinking, wrap))
            return false;
    }
    return cli_wrap_write(wrap, text + shown, bytes - shown);
}

bool cli_thinking_end(cli_thinking *thinking, cli_wrap *wrap)
{
    bool fine = cli_wrap_write(wrap, thinking->kept, thinking->kept_bytes);
    if (thinking->dims && thinking->inside)
        fputs("\033[22m", stdout);
    *thinking = (cli_thinking){0};
    return fine;
}
