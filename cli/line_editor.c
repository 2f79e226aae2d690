// SPDX-License-Identifier: MIT
// Lines typed at a terminal. libedit's own interface, for its readline emulation neither comes back from
// Ctrl-C nor takes more than ASCII before the locale is set.
#define _GNU_SOURCE
#include <errno.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/cli.h"

enum { REMEMBERED_LINES = 500 };

struct cli_line_editor {
    EditLine *editor;
    History *history;
    int signals;      // where those of watched_signals() arrive while a line is read
    sigset_t blocked; // before that
    bool discarded;   // the line, by Ctrl-C
};

static char *prompt(EditLine *editor)
{
    static char text[] = "> ";
    (void)editor;
    return text;
}

// A line is read with these signals blocked, and they are taken up where a key is waited for: one that
// came at any other moment would interrupt nothing, and Ctrl-C be lost.
static sigset_t watched_signals(void)
{
    static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++)
        sigaddset(&set, watched[i]);
    return set;
}

// Lets a signal do its work with the terminal as the program found it, and comes back from a pause.
static void pass_on(cli_line_editor *lines, int signal_number)
{
    const sigset_t watched = watched_signals();
    el_set(lines->editor, EL_PREP_TERM, 0);
    raise(signal_number);
    pthread_sigmask(SIG_SETMASK, &lines->blocked, NULL);
    pthread_sigmask(SIG_BLOCK, &watched, NULL);
    el_set(lines->editor, EL_PREP_TERM, 1);
    el_set(lines->editor, EL_REFRESH);
}

// Waits for a key and obeys the signals that come before it; false if one discards the line.
static bool wait_for_key(cli_line_editor *lines)
{
    struct pollfd wait[2] = {{STDIN_FILENO, POLLIN, 0}, {lines->signals, POLLIN, 0}};
    struct signalfd_siginfo came;
    for (;;) {
        if (poll(wait, 2, -1) < 0) {
            if (errno == EINTR)
                continue;
            return true; // the read will say why
        }
        if (!(wait[1].revents & POLLIN) || read(lines->signals, &came, sizeof came) <= 0) {
            if (wait[0].revents)
                return true;
        } else if (came.ssi_signo == SIGINT) {
            lines->discarded = true;
            return false;
        } else if (came.ssi_signo == SIGWINCH) {
            el_resize(lines->editor);
        } else {
            pass_on(lines, (int)came.ssi_signo);
        }
    }
}

// For libedit: the next character; 1 if there is one, 0 at the end of input, -1 on a failure.
static int read_key(EditLine *editor, wchar_t *key)
{
    mbstate_t state = {0};
    char byte;
    cli_line_editor *lines;
    el_get(editor, EL_CLIENTDATA, &lines);
    for (;;) {
        if (!wait_for_key(lines))
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
    cli_use_utf8();
    cli_line_editor *lines = calloc(1, sizeof *lines);
    if (!lines)
        return NULL;
    const sigset_t watched = watched_signals();
    lines->signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    lines->history = history_init();
    lines->editor = el_init("weft", stdin, stdout, stderr);
    if (lines->signals < 0 || !lines->history || !lines->editor) {
        cli_line_editor_close(lines);
        return NULL;
    }
    history(lines->history, &event, H_SETSIZE, REMEMBERED_LINES);
    el_set(lines->editor, EL_PROMPT, prompt);
    el_set(lines->editor, EL_EDITOR, "emacs");
    el_set(lines->editor, EL_HIST, history, lines->history);
    el_set(lines->editor, EL_CLIENTDATA, lines);
    el_set(lines->editor, EL_GETCFN, read_key);
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
    if (lines->signals >= 0)
        close(lines->signals);
    free(lines);
}

char *cli_line_editor_read(cli_line_editor *lines)
{
    HistEvent event;
    const char *line;
    int bytes;
    const sigset_t watched = watched_signals();
    pthread_sigmask(SIG_BLOCK, &watched, &lines->blocked);
    do {
        lines->discarded = false;
        line = el_gets(lines->editor, &bytes);
        if (lines->discarded)
            putchar('\n');
    } while (!line && lines->discarded);
    cli_catch_interrupt(); // what comes from here on is meant for the answer
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
