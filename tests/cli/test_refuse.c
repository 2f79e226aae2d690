// SPDX-License-Identifier: MIT
// What the program refuses, and how: one line on standard error with cause and cure, exit status 1 or 2,
// nothing on standard output, nothing written.
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/gguf_tiny_model.h"
#include "tests/support/program.h"

static char *folder;

static void path_in(char path[256], const char *name)
{
    snprintf(path, 256, "%s/%s", folder, name);
}

static void save(const char *name, const void *bytes, size_t size_bytes)
{
    char path[256];
    path_in(path, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size_bytes, file), size_bytes);
    assert_int_equal(fclose(file), 0);
}

// Saves the model with `to` in the place of the first `from`; both of the same length.
static void save_edited(const char *name, const uint8_t *bytes, size_t size_bytes, const char *from,
                        const char *to)
{
    size_t length = strlen(from);
    uint8_t *edited = malloc(size_bytes);
    assert_non_null(edited);
    memcpy(edited, bytes, size_bytes);
    for (size_t i = 0; i + length <= size_bytes; i++)
        if (memcmp(edited + i, from, length) == 0)
            memcpy(edited + i, to, length);
    assert_memory_not_equal(edited, bytes, size_bytes);
    save(name, edited, size_bytes);
    free(edited);
}

static int make_files(void **state)
{
    (void)state;
    folder = folder_make();
    size_t size_bytes;
    gguf_writer w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "llama", .dim = 8});
    uint8_t *bytes = gguf_writer_finish(&w, &size_bytes);
    save("fine.gguf", bytes, size_bytes);
    save("half.gguf", bytes, size_bytes / 2);
    save("head.gguf", bytes, 20);
    save("four.gguf", bytes, 4);
    save("empty.gguf", "", 0);
    save_edited("magic.gguf", bytes, size_bytes, "GGUF", "GGUX");
    save_edited("future.gguf", bytes, size_bytes, "GGUF\x03", "GGUF\x09");
    save_edited("family.gguf", bytes, size_bytes, "llama", "lemur");
    save_edited("wordless.gguf", bytes, size_bytes, "tokenizer.ggml.model", "nonsense_.ggml.model");
    free(bytes);
    w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "llama", .dim = 8});
    gguf_writer_tensor(&w, "odd.weight", 999, 1, (int64_t[]){8}, NULL, 32);
    bytes = gguf_writer_finish(&w, &size_bytes);
    save("format.gguf", bytes, size_bytes);
    free(bytes);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

// Runs `weft` with these words (at most 20, NULL-terminated) and expects a refusal that holds `fragment`.
static void refuse(int status, const char *fragment, const char *const words[])
{
    const char *argv[22] = {WEFT_TEST_PROGRAM};
    char line[512] = "weft";
    for (int i = 0; words[i]; i++) {
        assert_true(i < 20);
        argv[i + 1] = words[i];
        size_t used = strlen(line);
        snprintf(line + used, sizeof line - used, " %.40s", words[i]);
    }
    int before = folder_count(folder);
    program_result result = program_run(folder, argv);
    const char *newline = strchr(result.err, '\n');
    if (result.status != status || *result.out || !newline || newline[1] ||
        !strstr(result.err, fragment))
        fail_msg("'%s': exit status %d, output '%s', error '%s'; wanted %d and '%s'", line,
                 result.status, result.out, result.err, status, fragment);
    if (folder_count(folder) != before)
        fail_msg("'%s' wrote a file", line);
    program_result_free(&result);
}

#define REFUSE(status, fragment, ...)                                                              \
    refuse(status, fragment, (const char *const[]){__VA_ARGS__, NULL})

// Every command that opens a model.
static void refuse_file(const char *name, const char *fragment)
{
    REFUSE(1, fragment, "run", name, "-p", "a");
    REFUSE(1, fragment, "chat", name);
    REFUSE(1, fragment, "tokenize", name, "a");
    REFUSE(1, fragment, "detokenize", name, "1");
    REFUSE(1, fragment, "logits", name, "--tokens", "1", "--out", "logits.bin");
    REFUSE(1, fragment, "bench", "model", "--model", name);
}

static void damaged_files(void **state)
{
    (void)state;
    static const struct {
        const char *name, *fragment;
    } files[] = {
        {"half.gguf", "damaged"}, {"head.gguf", "head.gguf"},        {"four.gguf", "four.gguf"},
        {"empty.gguf", "empty"},  {"magic.gguf", "not a GGUF file"}, {"future.gguf", "version 9"},
        {".", "config.json"},     {"nowhere.gguf", "No such file"}};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        refuse_file(files[i].name, files[i].fragment);
        REFUSE(1, files[i].fragment, "inspect", files[i].name);
    }
}

// Listed with what runs and the cure; inspect shows the rest of the file (test_commands.c).
static void unknown_formats(void **state)
{
    (void)state;
    const char *fragment = "type 999 (1 of 12); it runs f32 f16 q4_0";
    REFUSE(1, fragment, "run", "format.gguf", "-p", "a");
    REFUSE(1, "take the model in one of these", "chat", "format.gguf");
    REFUSE(1, fragment, "logits", "format.gguf", "--tokens", "1", "--out", "logits.bin");
    REFUSE(1, fragment, "bench", "model", "--model", "format.gguf");
}

static void files_of_others(void **state)
{
    (void)state;
    REFUSE(1, "lemur", "run", "family.gguf", "-p", "a", "--raw");
    REFUSE(1, "lemur", "logits", "family.gguf", "--tokens", "1", "--out", "logits.bin");
    REFUSE(1, "lemur", "bench", "model", "--model", "family.gguf");
    REFUSE(1, "tokenizer", "run", "wordless.gguf", "-p", "a", "--raw");
    REFUSE(1, "tokenizer", "tokenize", "wordless.gguf", "a");
    REFUSE(1, "tokenizer", "detokenize", "wordless.gguf", "1");
    REFUSE(1, "--raw", "run", "fine.gguf", "-p", "a");
    REFUSE(1, "template", "chat", "fine.gguf");
}

static void unreadable_file(void **state)
{
    (void)state;
    char path[256];
    if (geteuid() == 0)
        skip(); // who may read everything cannot see this
    save("secret.gguf", "GGUF", 4);
    path_in(path, "secret.gguf");
    assert_int_equal(chmod(path, 0), 0);
    refuse_file("secret.gguf", "Permission denied");
    unlink(path);
}

// A new file comes by rename: what is no file would be gone.
static void what_is_no_file_is_not_replaced(void **state)
{
    (void)state;
    char pipe[256], inside[256];
    struct stat about;
    path_in(pipe, "pipe");
    path_in(inside, "inside");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(mkdir(inside, 0700), 0);
    REFUSE(1, "File exists", "quantize", "fine.gguf", "pipe", "--format", "f16");
    REFUSE(1, "Is a directory", "quantize", "fine.gguf", "inside", "--format", "f16");
    assert_int_equal(stat(pipe, &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    unlink(pipe);
    rmdir(inside);
}

static void numbers_out_of_range(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"-n", "-5"},
                                         {"-n", "many"},
                                         {"--threads", "0"},
                                         {"--threads", "10000"},
                                         {"--threads", "2x"},
                                         {"--ctx", "0"},
                                         {"--ctx", "-1"},
                                         {"--chunk", "0"},
                                         {"--temp", "-1"},
                                         {"--temp", "nan"},
                                         {"--top-k", "-1"},
                                         {"--top-p", "2"},
                                         {"--min-p", "-0.5"},
                                         {"--seed", "x"},
                                         {"--repeat-penalty", ""},
                                         {"--device", "gpu"},
                                         {"--kv-dtype", "q4_k"},
                                         {"--kv-dtype", "int"},
                                         {"-n", "99999999999999999999"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        REFUSE(2, bad[i][0], "run", "fine.gguf", "-p", "a", "--raw", bad[i][0], bad[i][1]);
        if (strcmp(bad[i][0], "--threads") == 0)
            REFUSE(2, "--threads", "bench", "linear", "--threads", bad[i][1]);
    }
    REFUSE(1, "NVIDIA", "run", "fine.gguf", "-p", "a", "--raw", "--device", "cuda");
}

static void prompts_and_tokens(void **state)
{
    (void)state;
    char text[401];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    REFUSE(1, "--ctx", "run", "fine.gguf", "--raw", "-p", text);
    REFUSE(1, "--ctx", "run", "fine.gguf", "--raw", "-p", "abab", "--ctx", "2");
    REFUSE(2, "not both", "run", "fine.gguf", "-p", "a", "-f", "b");
    REFUSE(2, "--raw", "run", "fine.gguf", "-p", "a", "--raw", "--system", "Be brief.");
    REFUSE(2, "--raw", "run", "fine.gguf", "-p", "a", "--raw", "--thinking", "off");
    REFUSE(1, "nowhere.txt", "run", "fine.gguf", "-f", "nowhere.txt");
    REFUSE(1, "256 MiB", "tokenize", "fine.gguf", "-f", "/dev/zero");
    REFUSE(1, "outside the vocabulary", "logits", "fine.gguf", "--tokens", "1,8", "--out", "o.bin");
    REFUSE(2, "--tokens", "logits", "fine.gguf", "--tokens", "1,-2", "--out", "o.bin");
    REFUSE(2, "--tokens", "logits", "fine.gguf", "--tokens", "", "--out", "o.bin");
    REFUSE(2, "--out is missing", "logits", "fine.gguf", "--tokens", "1");
    REFUSE(1, "nowhere/o.bin", "logits", "fine.gguf", "--tokens", "1", "--out", "nowhere/o.bin");
    REFUSE(1, "8 is no token", "detokenize", "fine.gguf", "1,8");
    REFUSE(2, "IDS", "detokenize", "fine.gguf", "one");
}

// A disk that fills up while the logits are written: what is there of the file must go.
static void half_a_file(void **state)
{
    (void)state;
    char line[512];
    snprintf(
        line, sizeof line,
        "trap '' XFSZ; ulimit -f 1; exec %s logits fine.gguf --out half.bin --ctx 512 --tokens "
        "$(printf '1%%.0s,' $(seq 400))1",
        WEFT_TEST_PROGRAM);
    int before = folder_count(folder);
    program_result result = program_run(folder, (const char *const[]){"/bin/sh", "-c", line, NULL});
    assert_int_equal(result.status, 1);
    assert_non_null(strstr(result.err, "half.bin: cannot be written: File too large"));
    assert_int_equal(folder_count(folder), before);
    program_result_free(&result);
}

static void wrong_words(void **state)
{
    (void)state;
    static const char *const commands[] = {"run",      "chat",       "inspect",
                                           "tokenize", "detokenize", "logits"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        REFUSE(2, "missing", commands[i]);
        REFUSE(2, "--bogus", commands[i], "fine.gguf", "--bogus");
        REFUSE(2, "see weft", commands[i], "fine.gguf", "more", "and more");
    }
    REFUSE(2, "needs a value", "run", "fine.gguf", "-p");
    REFUSE(2, "-x", "run", "fine.gguf", "-xy", "-p", "a");
    REFUSE(2, "--raw takes no value", "run", "fine.gguf", "--raw=3", "-p", "a");
    REFUSE(2, "--to may be more than one", "run", "fine.gguf", "--to", "3", "-p", "a");
    REFUSE(2, "--no-bos", "detokenize", "fine.gguf", "1", "--no-bos");
    REFUSE(2, "--ids", "detokenize", "fine.gguf", "1", "--ids");
    REFUSE(2, "frobnicate", "frobnicate");
    REFUSE(2, "did you mean --temp?", "run", "fine.gguf", "--tmp", "0");
    REFUSE(2, "did you mean --n-predict?", "run", "fine.gguf", "--npredict=3");
    REFUSE(2, "unknown option --flash-attn;", "run", "fine.gguf", "--flash-attn");
    REFUSE(2, "did you mean inspect?", "inspct", "fine.gguf");
    REFUSE(2, "-p is no option of weft inspect", "inspect", "fine.gguf", "-p", "a");
    REFUSE(2, "-s is no option of weft logits", "logits", "fine.gguf", "-s", "1");
    REFUSE(2, "-c is no option of weft bench linear", "bench", "linear", "-c", "1");
    REFUSE(2, "unexpected argument 'fine.gguf'", "run", "-m", "fine.gguf", "fine.gguf");
    REFUSE(2, "unexpected argument 'fine.gguf'", "info", "-m", "fine.gguf");
    REFUSE(2, "--ctx", "run", "fine.gguf", "-c", "none");
    REFUSE(2, "drop or stop", "chat", "fine.gguf", "--when-full", "burst");
    REFUSE(1, "use --raw", "chat", "fine.gguf");
    REFUSE(2, "extra", "info", "extra");
    REFUSE(2, "--bogus", "info", "--bogus");
}

// Output that does not arrive is a failure of every command.
static void full_disks(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "--help",
        "--version",
        "run --help",
        "run fine.gguf --raw -p a -n 2 --quiet",
        "run fine.gguf --raw -p a -n 2 --json",
        "inspect fine.gguf",
        "inspect fine.gguf --json",
        "tokenize fine.gguf a",
        "tokenize fine.gguf a --json",
        "detokenize fine.gguf 4",
        "info",
        "info --kernels --json",
        "bench linear --rows 8 --cols 32 --hot --seconds 0.001",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char line[512];
        snprintf(line, sizeof line, "%s %s >/dev/full", WEFT_TEST_PROGRAM, lines[i]);
        program_result result =
            program_run(folder, (const char *const[]){"/bin/sh", "-c", line, NULL});
        const char *newline = strchr(result.err, '\n');
        if (result.status != 1 || !strstr(result.err, "standard output cannot be written") ||
            !newline || newline[1])
            fail_msg("weft %s: exit status %d, error '%s'", lines[i], result.status, result.err);
        program_result_free(&result);
    }
}

static void benchmarks(void **state)
{
    (void)state;
    REFUSE(2, "say what to measure", "bench");
    REFUSE(2, "say what to measure", "bench", "speed");
    REFUSE(2, "q9", "bench", "linear", "--format", "q9");
    REFUSE(2, "--format", "bench", "linear", "--format", ",");
    REFUSE(2, "--batch", "bench", "linear", "--batch", "1,,2");
    REFUSE(2, "blocks of 32", "bench", "linear", "--cols", "100");
    REFUSE(1, "memory", "bench", "linear", "--rows", "268435456", "--cols", "268435456");
    REFUSE(1, "info --kernels", "bench", "linear", "--variant", "best");
    REFUSE(1, "info --kernels", "bench", "device", "--variant", "best", "--working-set", "1");
    REFUSE(2, "--seconds", "bench", "device", "--seconds", "-1");
    REFUSE(2, "as many", "bench", "attention", "--q-lens", "1,2", "--kv-lens", "64");
    REFUSE(2, "2 keys", "bench", "attention", "--q-lens", "3", "--kv-lens", "2");
    REFUSE(2, "--mask", "bench", "attention", "--mask", "window:0");
    REFUSE(1, "head_dim", "bench", "attention", "--head-dim", "7");
    REFUSE(1, "num_kv_heads", "bench", "attention", "--heads", "5", "--kv-heads", "3");
    REFUSE(1, "KV cache", "bench", "attention", "--kv-dtype", "q4_k");
    REFUSE(1, "causal", "bench", "attention", "--q-len", "9", "--kv-len", "8", "--hot");
    REFUSE(2, "--hot", "tune", "linear", "--hot");
    REFUSE(2, "--baseline", "tune", "attention", "--baseline", "rows.jsonl");
    REFUSE(2, "--variant", "profile", "fine.gguf", "--variant", "best");
    REFUSE(2, "--shape", "bench", "model");
    REFUSE(2, "--shape", "bench", "model", "--shape", "llama-3.2-1b", "--model", "fine.gguf");
    REFUSE(2, "--format", "bench", "model", "--model", "fine.gguf", "--format", "q4_0");
    // More than the machines have that run this, and less than an address space: 0.8 TB of keys and
    // values, 500 TB of queries.
    REFUSE(1, "weights and a KV cache", "bench", "model", "--shape", "smollm2-135m", "--prompt",
           "16777216", "--batch", "2");
    REFUSE(1, "TB of memory", "bench", "attention", "--mask", "full", "--kv-len", "1", "--batch",
           "1000", "--q-len", "1000000", "--heads", "512", "--kv-heads", "1");
    REFUSE(1, "llama-9", "bench", "model", "--shape", "llama-9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(unknown_formats),
        cmocka_unit_test(files_of_others),
        cmocka_unit_test(unreadable_file),
        cmocka_unit_test(what_is_no_file_is_not_replaced),
        cmocka_unit_test(numbers_out_of_range),
        cmocka_unit_test(prompts_and_tokens),
        cmocka_unit_test(wrong_words),
        cmocka_unit_test(half_a_file),
        cmocka_unit_test(full_disks),
        cmocka_unit_test(benchmarks),
    };
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
