// SPDX-License-Identifier: MIT
// Lines typed at a terminal. libedit's own interface, for its readline emulation neither comes back from
// Ctrl-C nor takes more than ASCII before the locale is set.
#define _GNU_SOURCE
#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/cli.h"

enum { REMEMBERED_LINES = 500 };

struct cli_line_editor {
    EditLine *editor;
    History *history;
    sigset_t blocked; // signals, before a line was read
};

static char *prompt(EditLine *editor)
{
    static char text[] = "> ";
    (void)editor;
    return text;
}

// Blocks the signals that end a program, and returns what was blocked before.
static sigset_t block_endings(void)
{
    sigset_t endings, before;
    sigemptyset(&endings);
    sigaddset(&endings, SIGINT);
    sigaddset(&endings, SIGTERM);
    sigaddset(&endings, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &endings, &before);
    return before;
}

// Waits for a key. Signals are let through only while this waits: Ctrl-C at any other moment would be
// lost, for then nothing is there to be interrupted. `before`: what was blocked before the line.
static bool wait_for_key(const sigset_t *before)
{
    struct pollfd terminal = {STDIN_FILENO, POLLIN, 0};
    if (ppoll(&terminal, 1, NULL, before) >= 0)
        return true;
    // libedit has given the terminal back and sent the signal again.
    int error = errno;
    pthread_sigmask(SIG_SETMASK, before, NULL);
    block_endings();
    errno = error;
    return false;
}

// For libedit: the next character; 1 if there is one, 0 at the end of input, -1 on a failure.
static int read_key(EditLine *editor, wchar_t *key)
{
    mbstate_t state = {0};
    char byte;
    cli_line_editor *lines;
    el_get(editor, EL_CLIENTDATA, &lines);
    for (;;) {
        if (!wait_for_key(&lines->blocked))
            return -1;
        ssize_t bytes = read(STDIN_FILENO, &byte, 1);
        if (bytes <= 0)
            return (int)bytes;
        size_t used = mbrtowc(key, &byte, 1, &state);
        if (used == (size_t)-1)
            state = (mbstate_t){0}; // no character: go on behind it
        else if (used != (size_t)-2)
            return 1;
    }
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
    el_set(lines->editor, EL_CLIENTDATA, lines);
    el_set(lines->editor, EL_GETCFN, read_key);
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
    lines->blocked = block_endings();
    do {
        cli_catch_interrupt();
        line = el_gets(lines->editor, &bytes);
        if (!line && cli_interrupted())
            putchar('\n');
    } while (!line && bytes < 0 && errno == EINTR);
    pthread_sigmask(SIG_SETMASK, &lines->blocked, NULL);
    if (!line)
        return NULL;
    char *copy = strdup(line);
    if (copy)
        copy[strcspn(copy, "\n")] = 0;
    if (copy && *copy)
        history(lines->history, &event, H_ENTER, copy);
    return copy;
}
