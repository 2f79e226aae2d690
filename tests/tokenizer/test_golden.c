// SPDX-License-Identifier: MIT
// Ids of 5,200 texts for each vocabulary, held against those of the `tokenizers` package, and the way
// back. tests/golden/tokenizer/README.md says how the files were made.
#define _GNU_SOURCE // memmem

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file_map.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"

#define GOLDEN WEFT_TEST_GOLDEN "/tokenizer/"

typedef struct reader {
    file_map map;
    size_t position;
} reader;

static void open_reader(reader *r, const char *name, const char *suffix)
{
    char path[1024];
    engine_error err = {{0}};
    snprintf(path, sizeof path, GOLDEN "%s%s", name, suffix);
    *r = (reader){{0}, 0};
    if (!file_map_open(&r->map, path, &err))
        fail_msg("%s", err.text);
}

static size_t read_varint(reader *r)
{
    size_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        assert_true(r->position < r->map.size_bytes && shift < 35);
        unsigned char byte = ((const unsigned char *)r->map.data)[r->position++];
        value |= (size_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
}

static tokenizer *load(const char *name)
{
    char path[1024];
    engine_error err = {{0}};
    snprintf(path, sizeof path, GOLDEN "%s.gguf", name);
    gguf_file *file = gguf_open(path, &err);
    tokenizer *t = file ? tokenizer_from_gguf(file, &err) : NULL;
    gguf_close(file);
    if (!t)
        fail_msg("%s", err.text);
    return t;
}

static void print_ids(const tokenizer *t, const char *label, const int32_t *ids, size_t count)
{
    printf("  %s:", label);
    for (size_t i = 0; i < count; i++) {
        tokenizer_bytes piece = {"?", 1};
        tokenizer_piece(t, ids[i], &piece);
        printf(" %d(%.*s)", (int)ids[i], (int)piece.size_bytes, piece.data);
    }
    printf("\n");
}

// True if the ids are those of the file, which are read in any case.
static bool same_as_golden(const tokenizer *t, const tokenizer_ids *list, reader *golden)
{
    size_t count = read_varint(golden);
    int32_t *ids = calloc(count + 1, sizeof *ids);
    assert_non_null(ids);
    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)read_varint(golden);
    bool same =
        count == list->count && (count == 0 || memcmp(ids, list->ids, count * sizeof *ids) == 0);
    if (!same) {
        print_ids(t, "golden", ids, count);
        print_ids(t, "weft  ", list->ids, list->count);
    }
    free(ids);
    return same;
}

// SentencePiece reads U+2581 as a space, and qwen2 composes: such texts come back changed.
static bool comes_back(const char *name, const char *text, size_t text_bytes)
{
    if (strncmp(name, "llama", 5) == 0 && strcmp(name, "llama-bpe") != 0)
        return memmem(text, text_bytes, "\xe2\x96\x81", 3) == NULL;
    for (size_t i = 0; i < text_bytes && strcmp(name, "qwen2") == 0; i++) {
        if ((unsigned char)text[i] >= 0x80)
            return false;
    }
    return true;
}

static void check_round_trip(const tokenizer *t, const tokenizer_ids *list, const char *text,
                             size_t text_bytes)
{
    tokenizer_text back = {0};
    engine_error err = {{0}};
    unsigned flags = TOKENIZER_SHOW_SPECIAL | TOKENIZER_STRIP_SPACE_PREFIX;
    assert_true(tokenizer_decode(t, list->ids, list->count, flags, &back, &err));
    assert_int_equal(back.size_bytes, text_bytes);
    if (text_bytes > 0)
        assert_memory_equal(back.data, text, text_bytes);
    tokenizer_text_free(&back);
}

static void check_vocabulary(const char *name, bool lossless)
{
    tokenizer *t = load(name);
    reader texts, golden;
    size_t count = 0, wrong = 0;
    open_reader(&texts, "texts", ".bin");
    open_reader(&golden, name, ".ids");
    for (; texts.position < texts.map.size_bytes; count++) {
        bool parse = read_varint(&texts) != 0;
        size_t text_bytes = read_varint(&texts);
        const char *text = (const char *)texts.map.data + texts.position;
        texts.position += text_bytes;
        tokenizer_ids list = {0};
        engine_error err = {{0}};
        unsigned flags = parse ? TOKENIZER_PARSE_SPECIAL : 0;
        if (!tokenizer_encode(t, text, text_bytes, flags, &list, &err))
            fail_msg("%s", err.text);
        if (!same_as_golden(t, &list, &golden) && ++wrong <= 20)
            printf("  text %zu: \"%.*s\"\n", count, (int)text_bytes, text);
        if (lossless && !parse && memmem(text, text_bytes, "<tool>", 6) == NULL &&
            comes_back(name, text, text_bytes))
            check_round_trip(t, &list, text, text_bytes);
        tokenizer_ids_free(&list);
    }
    assert_int_equal(golden.position, golden.map.size_bytes);
    assert_true(count >= 5000);
    assert_int_equal(wrong, 0);
    file_map_close(&texts.map);
    file_map_close(&golden.map);
    tokenizer_free(t);
}

static void sentencepiece_with_bytes(void **state)
{
    (void)state;
    check_vocabulary("llama", true);
}

static void sentencepiece_without_bytes(void **state)
{
    (void)state;
    check_vocabulary("llama-unk", false);
}

static void byte_level_gpt2(void **state)
{
    (void)state;
    check_vocabulary("gpt-2", true);
}

static void byte_level_smollm(void **state)
{
    (void)state;
    check_vocabulary("smollm", true);
}

static void byte_level_qwen2(void **state)
{
    (void)state;
    check_vocabulary("qwen2", true);
}

static void byte_level_llama3(void **state)
{
    (void)state;
    check_vocabulary("llama-bpe", true);
}

static void byte_level_tekken(void **state)
{
    (void)state;
    check_vocabulary("tekken", true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentencepiece_with_bytes), cmocka_unit_test(sentencepiece_without_bytes),
        cmocka_unit_test(byte_level_gpt2),          cmocka_unit_test(byte_level_smollm),
        cmocka_unit_test(byte_level_qwen2),         cmocka_unit_test(byte_level_llama3),
        cmocka_unit_test(byte_level_tekken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
