// SPDX-License-Identifier: MIT
// weft chat at a terminal, which here is the other end of a pseudo-terminal, and with its input piped in.
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/program.h"

#define MODEL "models/demo.gguf"

enum { PATIENCE_SECONDS = 60 };

// A conversation at a terminal.
typedef struct talk {
    int terminal, other_end; // of the pseudo-terminal; the program has the other end
    pid_t program;
    char text[1 << 16]; // what was shown since the last expectation
    size_t bytes;
} talk;

static void become_chat(const char *path, const char *const words[])
{
    int fd = open(path, O_RDWR); // of a leader of a session: its controlling terminal
    if (fd >= 0 && ioctl(fd, TIOCSCTTY, 0) == 0 && dup2(fd, 0) == 0 && dup2(fd, 1) == 1 &&
        dup2(fd, 2) == 2)
        execv(words[0], (char *const *)words);
    _exit(127);
}

static void start(talk *t, const char *tokens)
{
    const char *const words[] = {
        WEFT_TEST_PROGRAM, "chat", MODEL, "--temp", "0", "-n", tokens, NULL};
    memset(t, 0, sizeof *t);
    t->terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(t->terminal >= 0 && grantpt(t->terminal) == 0 && unlockpt(t->terminal) == 0);
    t->other_end = open(ptsname(t->terminal), O_RDWR | O_NOCTTY);
    assert_true(t->other_end >= 0);
    t->program = fork();
    assert_true(t->program >= 0);
    if (t->program == 0) {
        setsid();
        become_chat(ptsname(t->terminal), words);
    }
}

// Waits for the text to be shown and forgets what came up to then.
static void expect(talk *t, const char *wanted)
{
    time_t end = time(NULL) + PATIENCE_SECONDS;
    char *found;
    while (!(found = strstr(t->text, wanted))) {
        struct pollfd poll_fd = {t->terminal, POLLIN, 0};
        ssize_t bytes = 0;
        if (time(NULL) > end || t->bytes + 1 >= sizeof t->text)
            fail_msg("'%s' was not shown: '%s'", wanted, t->text);
        if (poll(&poll_fd, 1, 100) > 0)
            bytes = read(t->terminal, t->text + t->bytes, sizeof t->text - 1 - t->bytes);
        t->bytes += bytes > 0 ? (size_t)bytes : 0;
        t->text[t->bytes] = 0;
    }
    size_t used = (size_t)(found - t->text) + strlen(wanted);
    memmove(t->text, t->text + used, t->bytes - used + 1);
    t->bytes -= used;
}

static bool is_raw(const talk *t)
{
    struct termios mode;
    assert_int_equal(tcgetattr(t->other_end, &mode), 0);
    return !(mode.c_lflag & ICANON) && !(mode.c_lflag & ECHO);
}

static void expect_prompt(talk *t)
{
    expect(t, "> ");
    for (int i = 0; !is_raw(t) && i < PATIENCE_SECONDS * 100; i++)
        poll(NULL, 0, 10);
    assert_true(is_raw(t));
}

static void type(talk *t, const char *text)
{
    assert_int_equal(write(t->terminal, text, strlen(text)), strlen(text));
}

// Waits for the end and returns the exit status, 128 + the signal if it was one.
static int finish(talk *t)
{
    int status = 0;
    pid_t ended = 0;
    for (int i = 0; ended == 0 && i < PATIENCE_SECONDS * 100; i++) {
        char rest[4096];
        struct pollfd poll_fd = {t->terminal, POLLIN, 0};
        if (poll(&poll_fd, 1, 10) > 0 && read(t->terminal, rest, sizeof rest) < 0)
            break;
        ended = waitpid(t->program, &status, WNOHANG);
    }
    if (ended == 0)
        kill(t->program, SIGKILL);
    assert_int_equal(ended, t->program);
    assert_false(is_raw(t)); // the terminal is as it was
    close(t->terminal);
    close(t->other_end);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int need_model(void **state)
{
    (void)state;
    return access(MODEL, R_OK);
}

// The end of input ends the conversation.
static void ends(void **state)
{
    (void)state;
    talk t;
    start(&t, "8");
    expect_prompt(&t);
    type(&t, "hi\r");
    expect(&t, "hi\r\n");
    expect_prompt(&t);
    type(&t, "\x04");
    assert_int_equal(finish(&t), 0);
}

// Ctrl-C discards the line that is being typed, before and after answers, as often as one likes.
static void interrupted_at_the_prompt(void **state)
{
    (void)state;
    talk t;
    start(&t, "4");
    expect_prompt(&t);
    type(&t, "abc\x03");
    expect(&t, "\r\n");
    expect_prompt(&t);
    type(&t, "hi\r");
    expect(&t, "\r\n");
    expect_prompt(&t);
    for (int i = 0; i < 3; i++) {
        type(&t, "\x03");
        expect(&t, "\r\n");
        expect_prompt(&t);
    }
    type(&t, "/bogus\r");
    expect(&t, "/reset forgets");
    expect_prompt(&t);
    type(&t, "/quit\r");
    assert_int_equal(finish(&t), 0);
}

// Ctrl-C in an answer stops the answer, not the conversation.
static void interrupted_in_an_answer(void **state)
{
    (void)state;
    talk t;
    start(&t, "0");
    expect_prompt(&t);
    type(&t, "Tell me a long story about a fox.\r");
    expect(&t, "a fox.\r\n");
    expect(&t, " a ");
    type(&t, "\x03");
    expect_prompt(&t);
    type(&t, "\x03");
    expect(&t, "\r\n");
    expect_prompt(&t);
    type(&t, "\x04");
    assert_int_equal(finish(&t), 0);
}

// Letters beyond ASCII arrive, whatever the locale is.
static void types_any_letter(void **state)
{
    (void)state;
    talk t;
    setenv("LC_ALL", "C", 1);
    start(&t, "1");
    expect_prompt(&t);
    type(&t, "/caf\xc3\xa9\r");
    expect(&t, "caf\xc3\xa9");
    expect_prompt(&t);
    type(&t, "\x04");
    assert_int_equal(finish(&t), 0);
    unsetenv("LC_ALL");
}

// A window that changes its size leaves the line as it is.
static void resized(void **state)
{
    (void)state;
    talk t;
    struct winsize size = {.ws_row = 30, .ws_col = 50};
    start(&t, "1");
    expect_prompt(&t);
    type(&t, "/bo");
    expect(&t, "/bo");
    assert_int_equal(ioctl(t.terminal, TIOCSWINSZ, &size), 0); // sends SIGWINCH
    poll(NULL, 0, 50);
    type(&t, "gus\r");
    expect(&t, "/reset forgets");
    expect_prompt(&t);
    type(&t, "\x04");
    assert_int_equal(finish(&t), 0);
}

// Ctrl-C straight behind a message is meant for its answer.
static void interrupted_at_once(void **state)
{
    (void)state;
    talk t;
    start(&t, "0");
    expect_prompt(&t);
    for (int i = 0; i < 3; i++) {
        type(&t, "Tell me a long story about a fox.\r");
        expect(&t, "fox.");
        type(&t, "\x03");
        expect_prompt(&t);
    }
    type(&t, "\x04");
    assert_int_equal(finish(&t), 0);
}

static void terminated(void **state)
{
    (void)state;
    talk t;
    start(&t, "1");
    expect_prompt(&t);
    kill(t.program, SIGTERM);
    assert_int_equal(finish(&t), 128 + SIGTERM);
}

// Runs a line of the shell in which $weft is the program, and returns its exit status.
static program_result shell(const char *line)
{
    setenv("weft", WEFT_TEST_PROGRAM, 1);
    return program_run(".", (const char *const[]){"/bin/sh", "-c", line, NULL});
}

static void piped(void **state)
{
    (void)state;
    program_result result =
        shell("printf 'hi\\n\\n/reset\\nhi' | \"$weft\" chat " MODEL " --temp 0 -n 3");
    assert_int_equal(result.status, 0);
    assert_string_equal(result.err, "");
    char *half = strchr(result.out, '\n');
    assert_non_null(half);
    assert_memory_equal(result.out, half + 1, (size_t)(half + 1 - result.out)); // the same twice
    program_result_free(&result);
    // An answer that nobody receives is a failure, and so is input that cannot be read.
    result = shell("echo hi | \"$weft\" chat " MODEL " -n 3 >/dev/full");
    assert_int_equal(result.status, 1);
    assert_non_null(strstr(result.err, "standard output cannot be written"));
    program_result_free(&result);
    result = shell("\"$weft\" chat " MODEL " </");
    assert_int_equal(result.status, 1);
    assert_non_null(strstr(result.err, "standard input cannot be read"));
    program_result_free(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends),
        cmocka_unit_test(interrupted_at_the_prompt),
        cmocka_unit_test(interrupted_in_an_answer),
        cmocka_unit_test(types_any_letter),
        cmocka_unit_test(resized),
        cmocka_unit_test(interrupted_at_once),
        cmocka_unit_test(terminated),
        cmocka_unit_test(piped),
    };
    return cmocka_run_group_tests(tests, need_model, NULL);
}
