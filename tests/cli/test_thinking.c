// SPDX-License-Identifier: MIT
// Answers with thoughts at a terminal and elsewhere, in pieces of every length; tools and documents given to
// the program.
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
#include "tests/support/tokenizer_builder.h"

#define MODEL WEFT_TEST_GOLDEN "/../../models/demo.gguf"

// Words of the templates of families, by which they are known.
static const char THINK[] = "{{ messages }}<think>", MISTRAL[] = "{{ messages }}[THINK]",
                  CHANNELS[] = "{{ messages }}<|channel|>analysis<|message|>",
                  NONE[] = "{{ messages }}";

// Marks of some families are special tokens, which are no text.
static const char *const specials[] = {"<|channel|>", "<|message|>", "<|end|>",
                                       "<|start|>",   "[THINK]",     "[/THINK]"};
enum { SPECIALS = sizeof specials / sizeof *specials };

static tokenizer *tok;
static int32_t first_special;

static int make_tokenizer(void)
{
    engine_error err = {""};
    tokenizer_builder b = builder_new(TOKENIZER_BYTE_LEVEL);
    builder_bytes(&b);
    b.spec.pre = "gpt-2";
    for (int i = 0; i < SPECIALS; i++) {
        int32_t id = builder_piece(&b, specials[i], TOKENIZER_CONTROL, 0);
        first_special = i == 0 ? id : first_special;
    }
    tok = builder_finish(&b, &err);
    return tok ? 0 : -1;
}

static int special_at(const char *text)
{
    for (int i = 0; i < SPECIALS; i++)
        if (strncmp(text, specials[i], strlen(specials[i])) == 0)
            return i;
    return SPECIALS;
}

// The text as the tokens of an answer: special ones, and pieces of others.
static bool give(cli_thinking *answer, const char *text, size_t piece)
{
    while (*text) {
        int special = special_at(text);
        engine_token token = {.id = first_special + special, .text = ""};
        size_t bytes = special < SPECIALS ? strlen(specials[special]) : 0;
        if (special == SPECIALS) {
            for (bytes = 1; bytes < piece && text[bytes]; bytes++)
                if (special_at(text + bytes) < SPECIALS)
                    break;
            token = (engine_token){.id = 0, .text = text, .text_bytes = bytes};
        }
        if (!cli_thinking_token(answer, &token))
            return false;
        text += bytes;
    }
    return true;
}

// An answer behind a prompt that ends with these words.
static void start_answer(cli_thinking *answer, const char *template, const char *prompt,
                         chat_thinking wish, bool shown)
{
    engine_error err = {""};
    tokenizer_ids ids = {0};
    chat_template *t = chat_template_parse(template, strlen(template), &err);
    if (!t || !tokenizer_encode(tok, prompt, strlen(prompt), TOKENIZER_PARSE_SPECIAL, &ids, &err))
        _exit(1);
    cli_thinking_start(answer, t, tok, &ids, wish, shown);
    tokenizer_ids_free(&ids);
    chat_template_free(t);
}

typedef struct told {
    const char *template, *prompt, *text, *dimmed, *plain;
    chat_thinking wish;
} told;

// As the child of a terminal.
static void write_pieces(const char *path, const told *one, size_t piece)
{
    cli_thinking answer = {0};
    int fd = open(path, O_RDWR);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) != STDOUT_FILENO)
        _exit(1);
    start_answer(&answer, one->template, one->prompt, one->wish, true);
    bool fine = give(&answer, one->text, piece) && cli_thinking_end(&answer);
    fputs("@", stdout);
    cli_thinking_free(&answer);
    _exit(fine && fflush(stdout) == 0 ? 0 : 1);
}

// What a terminal is sent up to '@'.
static void sent(const told *one, size_t piece, char *got, size_t room)
{
    const struct winsize size = {.ws_row = 25, .ws_col = 200};
    int terminal = posix_openpt(O_RDWR | O_NOCTTY), status = 0;
    size_t used = 0;
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
    int other_end = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    struct termios mode;
    assert_true(other_end >= 0 && tcgetattr(other_end, &mode) == 0);
    mode.c_oflag &= ~(tcflag_t)OPOST; // a line end is one byte
    assert_int_equal(tcsetattr(other_end, TCSANOW, &mode), 0);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        write_pieces(ptsname(terminal), one, piece);
    while (used + 1 < room && read(terminal, got + used, 1) == 1 && got[used] != '@')
        used++;
    got[used] = 0;
    waitpid(child, &status, 0);
    close(other_end);
    close(terminal);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#define ON  "\033[2m"
#define OFF "\033[22m"

static const told answers[] = {
    {NONE, "", "plain <think>x</think>y", "plain <think>x</think>y", "plain <think>x</think>y", 0},
    {THINK, "", "plain", "plain", "plain", 0},
    {THINK, "", "<think>a b</think>c", ON "a b" OFF "\n\nc", "<think>\na b\n</think>\n\nc", 0},
    {THINK, "", "\n<think>\na\n\nb\n</think>\n\nc\n", ON "a\n\nb" OFF "\n\nc\n",
     "<think>\na\n\nb\n</think>\n\nc\n", 0},
    {THINK, "", "<think>\n\n</think>\n\nc", "c", "c", 0},
    {THINK, "", "x<think>a</think>", "x<think>a</think>", "x<think>a</think>", 0},
    {THINK, "", "<thin <thinker </think> <", "<thin <thinker </think> <",
     "<thin <thinker </think> <", 0},
    {THINK, "<think>\n", "why</think>so", ON "why" OFF "\n\nso", "<think>\nwhy\n</think>\n\nso", 0},
    {THINK, "<think>", "a </thin", ON "a </thin" OFF, "<think>\na </thin", 0},
    {THINK, "<think>\n\n</think>\n", "c", "c", "c", 0},
    {THINK, "", "<think>a</think>c", "<think>a</think>c", "<think>a</think>c", CHAT_THINKING_OFF},
    {MISTRAL, "", "[THINK]Hm [T.[/THINK]Yes.", ON "Hm [T." OFF "\n\nYes.",
     "<think>\nHm [T.\n</think>\n\nYes.", 0},
    {MISTRAL, "[THINK]", "Hm.[/THINK]Yes.", ON "Hm." OFF "\n\nYes.",
     "<think>\nHm.\n</think>\n\nYes.", 0},
    {CHANNELS, "<|start|>assistant",
     "<|channel|>analysis<|message|>Well.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
     ON "Well." OFF "\n\nYes.", "<think>\nWell.\n</think>\n\nYes.", 0},
    {CHANNELS, "<|start|>assistant",
     "<|channel|>analysis<|message|>Well.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
     ON "Well." OFF "\n\nYes.", "<think>\nWell.\n</think>\n\nYes.", CHAT_THINKING_OFF},
    {CHANNELS, "", "<|channel|>final<|message|>Yes.", "Yes.", "Yes.", 0},
    {CHANNELS, "", "<|channel|>analysis<|message|>Cut off", ON "Cut off" OFF, "<think>\nCut off",
     0},
};
enum { ANSWERS = sizeof answers / sizeof *answers };

static void check_sent(const told *one, size_t piece, const char *wanted)
{
    char got[512];
    sent(one, piece, got, sizeof got);
    if (strcmp(got, wanted) != 0)
        fail_msg("'%s' in pieces of %zu: '%s'", one->text, piece, got);
}

static void dims(void **state)
{
    (void)state;
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    for (size_t i = 0; i < ANSWERS; i++)
        for (size_t piece = 1; piece <= 12; piece++)
            check_sent(&answers[i], piece, answers[i].dimmed);
}

// Where nothing can be dimmed, one pair of marks does for all families.
static void marks(void **state)
{
    (void)state;
    for (size_t i = 0; i < ANSWERS; i++) {
        setenv("TERM", "xterm", 1);
        setenv("NO_COLOR", "1", 1);
        check_sent(&answers[i], 3, answers[i].plain);
        unsetenv("NO_COLOR");
        setenv("TERM", "dumb", 1);
        check_sent(&answers[i], 5, answers[i].plain);
    }
}

// What is kept for a transcript, or for JSON.
static void keeps(void **state)
{
    cli_thinking answer = {0};
    (void)state;
    start_answer(&answer, MISTRAL, "", 0, false);
    assert_true(give(&answer, "[THINK]Hm.[/THINK]Yes.", 2) && cli_thinking_end(&answer));
    assert_int_equal(answer.thoughts.size_bytes, 3);
    assert_memory_equal(answer.thoughts.data, "Hm.", 3);
    assert_int_equal(answer.text.size_bytes, 4);
    assert_memory_equal(answer.text.data, "Yes.", 4);
    start_answer(&answer, THINK, "", 0, false); // and nothing of it the next time
    assert_true(give(&answer, "No.", 1) && cli_thinking_end(&answer));
    assert_int_equal(answer.thoughts.size_bytes, 0);
    assert_int_equal(answer.text.size_bytes, 3);
    cli_thinking_free(&answer);
}

static char *folder;

static int make_files(void **state)
{
    char path[256];
    (void)state;
    if (make_tokenizer() != 0)
        return -1;
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
    tokenizer_free(tok);
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

// The model with a template that opens the thoughts itself, as long as its own: all that it says is thought then.
static bool write_thinker(const char *path)
{
    static const char own[] =
        "message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}"
        "{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|im_start|>assistant\\n' }}{% endif %}",
                      thinks[] = "message.role + '\\n' + message.content + '<|im_end|>\\n' }}  "
                                 "{%- endfor %}{% if add_generation_prompt %}"
                                 "{{ '<|im_start|>assistant\\n<think>' }}{% endif %}";
    _Static_assert(sizeof own == sizeof thinks, "one takes the place of the other");
    FILE *from = fopen(MODEL, "rb"), *to = fopen(path, "wb");
    bool found = false;
    if (from && to && fseek(from, 0, SEEK_END) == 0) {
        size_t bytes = (size_t)ftell(from);
        char *all = malloc(bytes), *at = NULL;
        rewind(from);
        if (all && fread(all, 1, bytes, from) == bytes)
            at = memmem(all, bytes, own, sizeof own - 1);
        if (at)
            memcpy(at, thinks, sizeof thinks - 1);
        found = at && fwrite(all, 1, bytes, to) == bytes;
        free(all);
    }
    if (from)
        fclose(from);
    return to && fclose(to) == 0 && found;
}

static void tells_thoughts_from_answers(void **state)
{
    char path[256];
    (void)state;
    if (access(MODEL, R_OK) != 0)
        skip();
    snprintf(path, sizeof path, "%s/thinker.gguf", folder);
    assert_true(write_thinker(path));
    const char *plain[] = {WEFT_TEST_PROGRAM, "run", path,      "-pHello", "-n", "6",
                           "--temp",          "0",   "--quiet", NULL};
    const char *json[] = {WEFT_TEST_PROGRAM, "run", path,     "-pHello", "-n", "6",
                          "--temp",          "0",   "--json", NULL};
    program_result result = program_run(folder, plain);
    assert_int_equal(result.status, 0);
    assert_int_equal(strncmp(result.out, "<think>\n", 8), 0);
    assert_null(strstr(result.out, "</think>"));
    program_result_free(&result);
    result = program_run(folder, json);
    assert_int_equal(result.status, 0);
    assert_non_null(strstr(result.out, "\"text\":\"\""));
    assert_non_null(strstr(result.out, "\"reasoning_content\":\""));
    program_result_free(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(dims), cmocka_unit_test(marks),
                                       cmocka_unit_test(keeps), cmocka_unit_test(takes_files),
                                       cmocka_unit_test(tells_thoughts_from_answers)};
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
