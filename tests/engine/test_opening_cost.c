// SPDX-License-Identifier: MIT
// What opening a model costs whose vocabulary is as large as vocabularies are: pieces of one to six letters and
// the merges that make them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/engine.h"
#include "tests/support/gguf_tiny_model.h"
#include "tests/support/scratch.h"

enum { BYTES = 256, LETTERS = 64, PAIRS = LETTERS * LETTERS, FOURS = 20000, PIECES = 152000 };
enum { ATTEMPTS = 10, LONGEST = 8 };

static const double most_seconds = 0.25;
static char path[SCRATCH_PATH_BYTES];

// Letters stand for bytes as GPT-2 has them: those that are printed for themselves, others from U+0100 on.
static size_t byte_letter(unsigned byte, char *text)
{
    bool plain = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
    unsigned code = byte;
    if (!plain)
        code = 256 + (byte <= 32 ? byte : byte == 173 ? 67 : byte - 127 + 33);
    if (code < 128) {
        *text = (char)code;
        return 1;
    }
    text[0] = (char)(0xc0 | code >> 6);
    text[1] = (char)(0x80 | (code & 63));
    return 2;
}

static size_t letter(unsigned n, char *text)
{
    static const char letters[LETTERS + 1] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    *text = letters[n];
    return 1;
}

// The two parts of the n-th piece that is merged: numbers of pieces before it, or of letters.
static size_t merged(unsigned n, char *left, size_t *left_bytes, char *right)
{
    char none[LONGEST];
    size_t bytes;
    if (n < PAIRS) {
        *left_bytes = letter(n / LETTERS, left);
        return letter(n % LETTERS, right);
    }
    // Steps that have no divisor in common with the number of pairs: no two pieces are alike.
    n -= PAIRS;
    unsigned before = n < FOURS ? n * 2731u % PAIRS : PAIRS + n % FOURS;
    unsigned behind = n < FOURS ? n / PAIRS * 37u + n % 37u : n / FOURS * 41u + n % 41u;
    bytes = merged(before, left, left_bytes, none);
    memcpy(left + *left_bytes, none, bytes);
    *left_bytes += bytes;
    bytes = letter(behind % PAIRS / LETTERS, right);
    return bytes + letter(behind % LETTERS, right + bytes);
}

static void add_text(byte_buffer *buffer, const char *left, size_t left_bytes, const char *between,
                     const char *right, size_t right_bytes)
{
    buffer_u64(buffer, left_bytes + strlen(between) + right_bytes);
    buffer_bytes(buffer, left, left_bytes);
    buffer_bytes(buffer, between, strlen(between));
    buffer_bytes(buffer, right, right_bytes);
}

static void begin_texts(gguf_writer *w, const char *key, uint64_t count)
{
    gguf_writer_key(w, key, GGUF_ARRAY);
    buffer_u32(&w->keys, GGUF_STRING);
    buffer_u64(&w->keys, count);
}

static void write_tokenizer(gguf_writer *w)
{
    static int32_t types[PIECES];
    char left[LONGEST], right[LONGEST];
    size_t left_bytes, right_bytes;
    gguf_writer_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_writer_string(w, "tokenizer.ggml.pre", "qwen2");
    begin_texts(w, "tokenizer.ggml.tokens", PIECES);
    for (unsigned byte = 0; byte < BYTES; byte++)
        add_text(&w->keys, left, byte_letter(byte, left), "", NULL, 0);
    for (unsigned n = 0; n < PIECES - BYTES; n++) {
        right_bytes = merged(n, left, &left_bytes, right);
        add_text(&w->keys, left, left_bytes, "", right, right_bytes);
    }
    for (int i = 0; i < PIECES; i++)
        types[i] = TOKENIZER_NORMAL;
    gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_I32, types, PIECES);
    begin_texts(w, "tokenizer.ggml.merges", PIECES - BYTES);
    for (unsigned n = 0; n < PIECES - BYTES; n++) {
        right_bytes = merged(n, left, &left_bytes, right);
        add_text(&w->keys, left, left_bytes, " ", right, right_bytes);
    }
    gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 0);
}

static int write_model(void **state)
{
    (void)state;
    gguf_writer w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "llama",
                                                       .matrix_type = 2,
                                                       .dim = 32,
                                                       .vocab = PIECES,
                                                       .write_tokenizer = write_tokenizer});
    scratch_file(path, NULL, 0);
    return gguf_writer_save(&w, path) ? 0 : -1;
}

static int remove_model(void **state)
{
    (void)state;
    return scratch_remove(path);
}

static void opens_a_large_vocabulary(void **state)
{
    (void)state;
    double best = 1e9;
    for (int i = 0; i < ATTEMPTS && best > most_seconds; i++) {
        engine_error err = {""};
        double begun = engine_seconds();
        engine_model *model = engine_model_open(path, &err);
        double seconds = engine_seconds() - begun;
        if (!model)
            fail_msg("%s", err.text);
        const tokenizer *t = engine_model_tokenizer(model);
        assert_int_equal(tokenizer_size(t), PIECES);
        tokenizer_ids ids = {0}; // the merges are there
        assert_true(tokenizer_encode(t, "aaaaaa", 6, 0, &ids, &err));
        assert_in_range(ids.count, 1, 3);
        tokenizer_ids_free(&ids);
        engine_model_close(model);
        best = seconds < best ? seconds : best;
    }
    print_message("opened within %.3f s\n", best);
    assert_true(best <= most_seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(opens_a_large_vocabulary)};
    return cmocka_run_group_tests(tests, write_model, remove_model);
}
