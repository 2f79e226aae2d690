// SPDX-License-Identifier: MIT
// Text that a terminal shows word by word: a word that meets the edge is taken back and shown again on the
// next line, so that nothing has to wait for its end.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "cli/cli.h"

enum { NARROWEST = 16 };

// Columns that text may fill; 0: it is not wrapped. The last one stays free, for behind it terminals do
// not agree where the cursor is.
static int terminal_columns(void)
{
    struct winsize size;
    const char *kind = getenv("TERM");
    if ((kind && strcmp(kind, "dumb") == 0) || !isatty(STDOUT_FILENO) ||
        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < NARROWEST)
        return 0;
    return size.ws_col - 1;
}

void cli_wrap_start(cli_wrap *wrap)
{
    cli_use_utf8();
    *wrap = (cli_wrap){.columns = terminal_columns()};
}

static void forget_word(cli_wrap *wrap)
{
    wrap->word_bytes = 0;
    wrap->word_columns = 0;
}

static void next_line(cli_wrap *wrap)
{
    putchar('\n');
    wrap->column = 0;
}

// Moves the word that was begun to the next line. One that fills its line stays and goes on there.
static void break_line(cli_wrap *wrap)
{
    if (wrap->word_columns == 0 || wrap->word_columns >= wrap->column) {
        next_line(wrap);
        forget_word(wrap);
        return;
    }
    printf("\033[%dD\033[K", wrap->word_columns);
    next_line(wrap);
    fwrite(wrap->word, 1, wrap->word_bytes, stdout);
    wrap->column = wrap->word_columns;
}

static void put_letter(cli_wrap *wrap, const char *letter, size_t bytes, int columns)
{
    if (columns > 1) // wide letters are words of their own
        forget_word(wrap);
    if (wrap->column + columns > wrap->columns)
        break_line(wrap);
    fwrite(letter, 1, bytes, stdout);
    wrap->column += columns;
    if (columns > 1 || wrap->word_bytes + bytes > sizeof wrap->word) {
        forget_word(wrap);
        return;
    }
    memcpy(wrap->word + wrap->word_bytes, letter, bytes);
    wrap->word_bytes += bytes;
    wrap->word_columns += columns;
}

static void put_space(cli_wrap *wrap, char space)
{
    int to = space == '\t' ? wrap->column / 8 * 8 + 8 : wrap->column + 1;
    forget_word(wrap);
    if (space == '\n' || to > wrap->columns) { // a space at the edge is the line's end
        next_line(wrap);
        return;
    }
    putchar(space);
    wrap->column = to;
}

bool cli_wrap_write(cli_wrap *wrap, const char *text, size_t bytes)
{
    if (wrap->columns == 0)
        return fwrite(text, 1, bytes, stdout) == bytes && fflush(stdout) == 0;
    for (size_t at = 0; at < bytes;) {
        mbstate_t state = {0};
        wchar_t letter;
        size_t used = mbrtowc(&letter, text + at, bytes - at, &state);
        if (used == 0 || used > bytes)
            used = 1, letter = L'?';
        if (letter == L' ' || letter == L'\n' || letter == L'\t') {
            put_space(wrap, (char)letter);
        } else {
            int columns = wcwidth(letter);
            put_letter(wrap, text + at, used, columns < 0 ? 0 : columns);
        }
        at += used;
    }
    return fflush(stdout) == 0 && !ferror(stdout);
}
