// SPDX-License-Identifier: MIT
// Sections of thinking at a terminal, in pieces of every length; tools and documents given to the program.
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "tests/support/program.h"

#define MODEL WEFT_TEST_GOLDEN "/../../models/demo.gguf"

// Writes the text in pieces, as the child of a terminal.
static void write_pieces(const char *path, const char *text, size_t piece, bool inside)
{
    cli_wrap wrap;
    cli_thinking thinking;
    size_t bytes = strlen(text);
    int fd = open(path, O_RDWR);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) != STDOUT_FILENO)
        _exit(1);
    cli_wrap_start(&wrap);
    cli_thinking_start(&thinking, inside);
    for (size_t at = 0; at < bytes; at += piece)
        if (!cli_thinking_write(&thinking, &wrap, text + at,
                                bytes - at < piece ? bytes - at : piece))
            _exit(1);
    bool fine = cli_thinking_end(&thinking, &wrap);
    fputs("@", stdout);
    _exit(fine && fflush(stdout) == 0 ? 0 : 1);
}

// What a terminal is sent up to '@'.
static void sent(const char *text, size_t piece, bool inside, char *got, size_t room)
{
    const struct winsize size = {.ws_row = 25, .ws_col = 200};
    int terminal = posix_openpt(O_RDWR | O_NOCTTY), status = 0;
    size_t used = 0;
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
    int other_end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    assert_true(other_end >= 0);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        write_pieces(ptsname(terminal), text, piece, inside);
    while (used + 1 < room && read(terminal, got + used, 1) == 1 && got[used] != '@')
        used++;
    got[used] = 0;
    waitpid(child, &status, 0);
    close(other_end);
    close(terminal);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void dims(void **state)
{
    static const struct {
        const char *text, *wanted;
        bool inside;
    } cases[] = {
        {"plain", "plain", false},
        {"<think>a b</think>c", "\033[2m<think>a b</think>\033[22mc", false},
        {"x<think></think>", "x\033[2m<think></think>\033[22m", false},
        {"a <<think>b<</think>c", "a <\033[2m<think>b<</think>\033[22mc", false},
        {"<thin <thinker </think> <", "<thin <thinker </think> <", false},
        {"a<think>b", "a\033[2m<think>b\033[22m", false},
        {"why</think>so <think>x", "\033[2mwhy</think>\033[22mso \033[2m<think>x\033[22m", true},
        {"<think>a<think>b</think></think>c", "\033[2m<think>a<think>b</think>\033[22m</think>c",
         false},
        {"a</thin", "\033[2ma</thin\033[22m", true},
    };
    char got[512];
    (void)state;
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t piece = 1; piece <= 12; piece++) {
            sent(cases[i].text, piece, cases[i].inside, got, sizeof got);
            if (strcmp(got, cases[i].wanted) != 0)
                fail_msg("case %zu, pieces of %zu: '%s'", i, piece, got);
        }
    setenv("NO_COLOR", "1", 1);
    sent("<think>a</think>", 3, false, got, sizeof got);
    assert_string_equal(got, "<think>a</think>");
    unsetenv("NO_COLOR");
    setenv("TERM", "dumb", 1);
    sent("<think>a</think>", 3, true, got, sizeof got);
    assert_string_equal(got, "<think>a</think>");
}

static void knows_what_is_open(void **state)
{
    (void)state;
    assert_true(cli_thinking_is_open("x<think>", 8));
    assert_true(cli_thinking_is_open("x<think>\n \n", 11));
    assert_false(cli_thinking_is_open("<think>\n\n</think>\n", 18));
    assert_false(cli_thinking_is_open("think>", 6));
    assert_false(cli_thinking_is_open("", 0));
}

static char *folder;

static int make_files(void **state)
{
    char path[256];
    (void)state;
    folder = folder_make();
    snprintf(path, sizeof path, "%s/list.json", folder);
    FILE *file = fopen(path, "w");
    if (!file)
        return -1;
    fputs("[{\"text\": \"one\"}]", file);
    return fclose(file);
}

static int remove_files(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

static void refuse(const char *command, const char *option, const char *file, const char *raw,
                   int status, const char *fragment)
{
    const char *words[] = {WEFT_TEST_PROGRAM, command, MODEL, option, file, "-n", "1", raw, NULL};
    program_result result = program_run(folder, words);
    assert_int_equal(result.status, status);
    if (!strstr(result.err, fragment))
        fail_msg("'%s' does not say '%s'", result.err, fragment);
    program_result_free(&result);
}

static void takes_files(void **state)
{
    (void)state;
    refuse("run", "--tools", "absent.json", NULL, 2, "absent.json cannot be read");
    refuse("run", "--documents", "list.json", "--raw", 2, "--documents belong to the chat");
    refuse("chat", "--tools", "list.json", "--raw", 2, "--tools");
    // This program's template has no place for either; test_chat_tools has templates that do.
    if (access(MODEL, R_OK) != 0)
        return;
    refuse("run", "--tools", "list.json", "-pHello", 1, "no place for tools");
    refuse("run", "--documents", "list.json", "-pHello", 1, "no place for documents");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(dims), cmocka_unit_test(knows_what_is_open),
                                       cmocka_unit_test(takes_files)};
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
