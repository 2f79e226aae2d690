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

// Starts the program at a terminal of so many columns, 0: the terminal does not say.
static void start_program(talk *t, const char *const words[], unsigned short columns)
{
    const struct winsize size = {.ws_row = 25, .ws_col = columns};
    memset(t, 0, sizeof *t);
    t->terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(t->terminal >= 0 && grantpt(t->terminal) == 0 && unlockpt(t->terminal) == 0);
    t->other_end = open(ptsname(t->terminal), O_RDWR | O_NOCTTY);
    assert_true(t->other_end >= 0);
    assert_int_equal(ioctl(t->terminal, TIOCSWINSZ, &size), 0);
    t->program = fork();
    assert_true(t->program >= 0);
    if (t->program == 0) {
        setsid();
        become_chat(ptsname(t->terminal), words);
    }
}

static void start(talk *t, const char *tokens)
{
    const char *const words[] = {
        WEFT_TEST_PROGRAM, "chat", MODEL, "--temp", "0", "-n", tokens, NULL};
    start_program(t, words, 0);
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
static int wait_for_end(talk *t)
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
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int finish(talk *t)
{
    int status = wait_for_end(t);
    assert_false(is_raw(t)); // the terminal is as it was
    close(t->terminal);
    close(t->other_end);
    return status;
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

// The terminal holds output back (Ctrl-S) until the interrupt: what is being written then is not lost.
static void interrupted_while_it_writes(void **state)
{
    (void)state;
    talk t;
    start(&t, "0");
    expect_prompt(&t);
    type(&t, "Tell me a long story about a fox.\r");
    expect(&t, "Once");
    type(&t, "\x13");
    poll(NULL, 0, 300);
    type(&t, "\x03");
    expect_prompt(&t);
    type(&t, "\x04");
    assert_int_equal(finish(&t), 0);
}

// What the commands answer.
static void commands(void **state)
{
    (void)state;
    talk t;
    start(&t, "1");
    expect_prompt(&t);
    type(&t, "/foo\r");
    expect(&t, "unknown command /foo;");
    expect_prompt(&t);
    type(&t, "/stats\r");
    expect(&t, "figures after each answer: on");
    expect_prompt(&t);
    type(&t, "hi\r");
    expect(&t, "generated 1 token, "); // one of them, and not "1 tokens"
    expect_prompt(&t);
    type(&t, "/stats\r");
    expect(&t, "figures after each answer: off");
    expect_prompt(&t);
    type(&t, "/reset\r");
    expect(&t, "forgotten");
    expect_prompt(&t);
    type(&t, "/quit\r");
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

// A conversation that does not fit any more loses its oldest turns, not its system message, and goes on.
static void drops_the_oldest_turns(void **state)
{
    (void)state;
    program_result result =
        shell("for i in 1 2 3 4 5 6; do echo \"Tell me a story about a fox $i.\"; done | "
              "\"$weft\" chat " MODEL " --system 'You tell long stories.' --ctx 96 --temp 0 -n 24");
    assert_int_equal(result.status, 0);
    assert_non_null(strstr(result.err, "dropped"));
    assert_non_null(strstr(result.err, "/reset"));
    assert_null(strstr(result.err, "weft chat:"));
    int lines = 0;
    for (const char *at = result.out; (at = strchr(at, '\n')); at++)
        lines++;
    assert_true(lines >= 6);
    program_result_free(&result);
    // Or it says what to do, once for every message that does not fit.
    result = shell("for i in 1 2 3 4 5 6; do echo \"Tell me a story about a fox $i.\"; done | "
                   "\"$weft\" chat " MODEL " --when-full stop --ctx 96 --temp 0 -n 24");
    assert_int_equal(result.status, 1);
    assert_null(strstr(result.err, "dropped"));
    assert_non_null(strstr(result.err, "/reset"));
    program_result_free(&result);
    // A message that alone is too long is refused, and nothing is dropped for it.
    result = shell("printf 'hi\\n%0300d\\n' 1 | \"$weft\" chat " MODEL " --ctx 96 --temp 0 -n 8");
    assert_int_equal(result.status, 1);
    assert_null(strstr(result.err, "dropped"));
    assert_non_null(strstr(result.err, "--ctx"));
    program_result_free(&result);
}

// Without a template: one text, as weft run --raw would continue it.
static void raw(void **state)
{
    (void)state;
    program_result result =
        shell("echo 'Once upon a time' | \"$weft\" chat " MODEL " --raw --temp 0 -n 8");
    assert_int_equal(result.status, 0);
    assert_string_equal(result.err, "");
    program_result same =
        shell("printf 'Once upon a time\\n' | \"$weft\" run " MODEL " --raw --temp 0 -n 8 --quiet");
    assert_string_equal(result.out, same.out);
    program_result_free(&same);
    program_result_free(&result);
    result = shell("echo a | \"$weft\" chat " MODEL " --raw --system b");
    assert_int_equal(result.status, 2);
    program_result_free(&result);
}

// A context beyond the trained one is used, with a warning.
static void warns_of_long_contexts(void **state)
{
    (void)state;
    static const char *const lines[] = {"echo hi | \"$weft\" chat " MODEL " -n 1 --ctx %s",
                                        "\"$weft\" run " MODEL " -p hi -n 1 --quiet --ctx %s",
                                        "\"$weft\" logits " MODEL
                                        " --tokens 1,2 --out /dev/null --ctx %s"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        for (int beyond = 0; beyond < 2; beyond++) {
            char line[512];
            snprintf(line, sizeof line, lines[i], beyond ? "1025" : "1024");
            program_result result = shell(line);
            assert_int_equal(result.status, 0);
            assert_int_equal(strstr(result.err, "rope scaling") != NULL, beyond);
            program_result_free(&result);
        }
}

// What a terminal shows of the bytes it is sent: "\r" and ESC [ n D go back, ESC [ K wipes what is behind.
static void show(const char *sent, char *screen, size_t room)
{
    size_t used = 0, cursor = 0;
    for (const char *at = sent; *at; at++) {
        assert_true(cursor + 1 < room);
        if (*at == '\r') {
            while (at[1] != '\n' && cursor > 0 && screen[cursor - 1] != '\n')
                cursor--;
            continue;
        }
        if (*at == '\033' && at[1] == '[' && at[2] == 'K') {
            used = cursor;
            at += 2;
        } else if (*at == '\033') {
            char *end;
            long back = strtol(at + 2, &end, 10);
            assert_true(*end == 'D' && (size_t)back <= cursor);
            cursor -= (size_t)back;
            at = end;
        } else {
            screen[cursor++] = *at;
            used = cursor;
        }
    }
    screen[used] = 0;
}

// At the edge of a terminal words stay whole, and nothing but line ends comes in between.
static void keeps_words_whole(void **state)
{
    (void)state;
    enum { COLUMNS = 24 };
    static const char *const words[] = {
        WEFT_TEST_PROGRAM, "run", MODEL, "--raw", "-p", "Once upon a time", "-n", "80",
        "--temp",          "0",   NULL};
    talk t;
    char screen[sizeof t.text];
    start_program(&t, words, COLUMNS);
    time_t end = time(NULL) + PATIENCE_SECONDS;
    while (!strstr(t.text, "[prompt") && time(NULL) < end) {
        struct pollfd poll_fd = {t.terminal, POLLIN, 0};
        if (poll(&poll_fd, 1, 100) <= 0)
            continue;
        ssize_t bytes = read(t.terminal, t.text + t.bytes, sizeof t.text - 1 - t.bytes);
        t.bytes += bytes > 0 ? (size_t)bytes : 0;
        t.text[t.bytes] = 0;
    }
    char *figures = strstr(t.text, "[prompt");
    assert_non_null(figures);
    *figures = 0;
    char *answer = strrchr(t.text, '\r') ? t.text : NULL; // the terminal wrote line ends
    assert_non_null(answer);
    show(answer, screen, sizeof screen);
    assert_int_equal(finish(&t), 0);
    program_result plain = program_run(".", words);
    size_t lines = 0;
    for (char *line = screen, *next; (next = strchr(line, '\n')); line = next + 1) {
        if (next - line >= COLUMNS)
            fail_msg("a line of %d: '%s'", (int)(next - line), screen);
        lines++;
    }
    assert_true(lines > 10);
    char *in_screen, *in_plain, *shown = strtok_r(screen, " \n", &in_screen);
    char *wanted = strtok_r(plain.out, " \n", &in_plain);
    for (; wanted && shown; wanted = strtok_r(NULL, " \n", &in_plain)) {
        assert_string_equal(shown, wanted);
        shown = strtok_r(NULL, " \n", &in_screen);
    }
    assert_true(!wanted && !shown);
    program_result_free(&plain);
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
        cmocka_unit_test(interrupted_while_it_writes),
        cmocka_unit_test(terminated),
        cmocka_unit_test(piped),
        cmocka_unit_test(commands),
        cmocka_unit_test(drops_the_oldest_turns),
        cmocka_unit_test(raw),
        cmocka_unit_test(warns_of_long_contexts),
        cmocka_unit_test(keeps_words_whole),
    };
    return cmocka_run_group_tests(tests, need_model, NULL);
}
