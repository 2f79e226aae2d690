// SPDX-License-Identifier: MIT
// Lines typed at a terminal. libedit's own interface, for its readline emulation neither comes back from
// Ctrl-C nor takes more than ASCII before the locale is set.
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { REMEMBERED_LINES = 500 };

struct cli_line_editor {
    EditLine *editor;
    History *history;
};

static char *prompt(EditLine *editor)
{
    static char text[] = "> ";
    (void)editor;
    return text;
}

cli_line_editor *cli_line_editor_open(void)
{
    HistEvent event;
    // Models read and write UTF-8 whatever the user's locale is.
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
    cli_line_editor *lines = calloc(1, sizeof *lines);
    if (!lines)
        return NULL;
    lines->history = history_init();
    lines->editor = el_init("weft", stdin, stdout, stderr);
    if (!lines->history || !lines->editor) {
        cli_line_editor_close(lines);
        return NULL;
    }
    history(lines->history, &event, H_SETSIZE, REMEMBERED_LINES);
    el_set(lines->editor, EL_PROMPT, prompt);
    el_set(lines->editor, EL_EDITOR, "emacs");
    el_set(lines->editor, EL_HIST, history, lines->history);
    el_set(lines->editor, EL_SIGNAL, 1); // gives the terminal back before a signal does its work
    el_source(lines->editor, NULL);
    return lines;
}

void cli_line_editor_close(cli_line_editor *lines)
{
    if (!lines)
        return;
    if (lines->editor)
        el_end(lines->editor);
    if (lines->history)
        history_end(lines->history);
    free(lines);
}

char *cli_line_editor_read(cli_line_editor *lines)
{
    HistEvent event;
    const char *line;
    int bytes;
    do {
        cli_catch_interrupt();
        line = el_gets(lines->editor, &bytes);
        if (!line && cli_interrupted())
            putchar('\n');
    } while (!line && bytes < 0 && errno == EINTR);
    if (!line)
        return NULL;
    char *copy = strdup(line);
    if (copy)
        copy[strcspn(copy, "\n")] = 0;
    if (copy && *copy)
        history(lines->history, &event, H_ENTER, copy);
    return copy;
}
