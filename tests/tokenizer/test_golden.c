// SPDX-License-Identifier: MIT
// Ids of 5,200 texts for each vocabulary, held against those of the `tokenizers` package, and the way
// back. tests/golden/tokenizer/README.md says how the files were made.
//
// Called with paths, it compares the vocabularies PATH.gguf with PATH.texts, PATH.ids and PATH.decoded
// instead: what tests/golden/tokenizer/real_vocabularies.py writes.
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
#include "engine/tokenizer/normalize.h"
#include "engine/tokenizer/tokenizer_data.h"

#define GOLDEN WEFT_TEST_GOLDEN "/tokenizer/"

enum { SHOWN_TEXTS = 20, SHOWN_IDS = 200, SHOWN_BYTES = 300 };

typedef struct reader {
    file_map map;
    size_t position;
} reader;

static void open_reader(reader *r, const char *stem, const char *suffix)
{
    char path[1024];
    engine_error err = {{0}};
    snprintf(path, sizeof path, "%s%s", stem, suffix);
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

static tokenizer *load(const char *stem)
{
    char path[1024];
    engine_error err = {{0}};
    snprintf(path, sizeof path, "%s.gguf", stem);
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
    for (size_t i = 0; i < count && i < SHOWN_IDS; i++) {
        tokenizer_bytes piece = {"?", 1};
        tokenizer_piece(t, ids[i], &piece);
        printf(" %d(%.*s)", (int)ids[i], (int)piece.size_bytes, piece.data);
    }
    printf("\n");
}

static tokenizer_ids read_ids(reader *r)
{
    tokenizer_ids list = {0};
    for (size_t left = read_varint(r); left > 0; left--)
        assert_true(tokenizer_ids_push(&list, (int32_t)read_varint(r)));
    return list;
}

static tokenizer_bytes read_text(reader *r)
{
    size_t size_bytes = read_varint(r);
    assert_true(size_bytes <= r->map.size_bytes - r->position);
    const char *data = (const char *)r->map.data + r->position;
    r->position += size_bytes;
    return (tokenizer_bytes){data, size_bytes};
}

static bool same_ids(const tokenizer_ids *a, const tokenizer_ids *b)
{
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->ids, b->ids, a->count * sizeof *a->ids) == 0);
}

static bool same_bytes(tokenizer_bytes a, tokenizer_bytes b)
{
    return a.size_bytes == b.size_bytes &&
           (a.size_bytes == 0 || memcmp(a.data, b.data, a.size_bytes) == 0);
}

static bool is_special_text(const tokenizer *t, int32_t id)
{
    tokenizer_bytes piece;
    return tokenizer_piece(t, id, &piece) &&
           tokenizer_find_special(t, piece.data, piece.size_bytes) == id;
}

// SentencePiece reads U+2581 as a space and puts a space behind special pieces, and some names
// compose: such texts come back changed.
static bool comes_back(const tokenizer *t, const tokenizer_ids *list, tokenizer_bytes text)
{
    if (tokenizer_get_kind(t) == TOKENIZER_SENTENCEPIECE) {
        for (size_t i = 0; i < list->count; i++) {
            if (is_special_text(t, list->ids[i]))
                return false;
        }
        return memmem(text.data, text.size_bytes, "\xe2\x96\x81", 3) == NULL;
    }
    for (size_t i = 0; i < text.size_bytes && t->pre.compose; i++) {
        if ((unsigned char)text.data[i] >= 0x80)
            return false;
    }
    return true;
}

// The pieces, joined, are the text: for bytes of any kind.
static bool joins_to(const tokenizer *t, const tokenizer_ids *list, tokenizer_bytes text)
{
    tokenizer_text joined = {0};
    for (size_t i = 0; i < list->count; i++) {
        tokenizer_bytes piece = {0};
        assert_true(tokenizer_piece(t, list->ids[i], &piece));
        assert_true(tokenizer_text_append(&joined, piece.data, piece.size_bytes));
    }
    size_t prefix = tokenizer_get_kind(t) == TOKENIZER_SENTENCEPIECE && joined.size_bytes > 0;
    bool same =
        same_bytes((tokenizer_bytes){joined.data + prefix, joined.size_bytes - prefix}, text);
    tokenizer_text_free(&joined);
    return same;
}

// Decoded id by id: each gives whole characters only, and at the end the text is the expected one.
static bool decodes_to(const tokenizer *t, const tokenizer_ids *list, unsigned flags,
                       tokenizer_bytes text)
{
    tokenizer_text back = {0};
    engine_error err = {{0}};
    tokenizer_decoder d = tokenizer_decoder_start(t, flags);
    bool whole = true;
    for (size_t i = 0; i < list->count; i++) {
        size_t before = back.size_bytes;
        assert_true(tokenizer_decoder_feed(&d, list->ids[i], &back, &err));
        size_t added = back.size_bytes - before;
        whole = whole && (added == 0 || normalize_valid_bytes(back.data + before, added) == added);
    }
    assert_true(tokenizer_decoder_finish(&d, &back, &err));
    bool same = same_bytes((tokenizer_bytes){back.data, back.size_bytes}, text);
    if (!same || !whole)
        printf("  decoded%s: \"%.*s\"\n", whole ? "" : " in parts of characters",
               (int)back.size_bytes, back.data ? back.data : "");
    tokenizer_text_free(&back);
    return same && whole;
}

static bool comes_back_whole(const tokenizer *t, const tokenizer_ids *list, tokenizer_bytes text)
{
    const unsigned flags = TOKENIZER_SHOW_SPECIAL | TOKENIZER_STRIP_SPACE_PREFIX;
    bool valid = normalize_valid_bytes(text.data, text.size_bytes) == text.size_bytes;
    return joins_to(t, list, text) && (!valid || decodes_to(t, list, flags, text));
}

// One text of the files: its ids, and the way back if nothing is lost on the way.
static bool check_text(const tokenizer *t, reader *texts, reader *golden, bool lossless)
{
    bool parse = read_varint(texts) != 0;
    tokenizer_bytes text = read_text(texts);
    tokenizer_ids expected = read_ids(golden), list = {0};
    engine_error err = {{0}};
    if (!tokenizer_encode(t, text.data, text.size_bytes, parse ? TOKENIZER_PARSE_SPECIAL : 0, &list,
                          &err))
        fail_msg("%s", err.text);
    bool fine = same_ids(&list, &expected);
    if (!fine) {
        print_ids(t, "golden", expected.ids, expected.count);
        print_ids(t, "weft  ", list.ids, list.count);
    }
    if (lossless && !parse && comes_back(t, &list, text) && !comes_back_whole(t, &list, text)) {
        printf("  does not come back\n");
        fine = false;
    }
    if (!fine)
        printf("  text: \"%.*s\"\n",
               (int)(text.size_bytes < SHOWN_BYTES ? text.size_bytes : SHOWN_BYTES), text.data);
    tokenizer_ids_free(&expected);
    tokenizer_ids_free(&list);
    return fine;
}

// The number of texts; *wrong counts those that differ, and after too many of them it ends.
static size_t check_texts(const tokenizer *t, reader *texts, reader *golden, bool lossless,
                          size_t *wrong)
{
    size_t count = 0;
    for (; texts->position < texts->map.size_bytes && *wrong < SHOWN_TEXTS; count++)
        *wrong += !check_text(t, texts, golden, lossless);
    if (*wrong < SHOWN_TEXTS)
        assert_int_equal(golden->position, golden->map.size_bytes);
    file_map_close(&texts->map);
    file_map_close(&golden->map);
    return count;
}

static void check_vocabulary(const char *name, bool lossless)
{
    char stem[1024];
    reader texts, golden;
    size_t wrong = 0;
    snprintf(stem, sizeof stem, GOLDEN "%s", name);
    tokenizer *t = load(stem);
    open_reader(&texts, GOLDEN "texts", ".bin");
    open_reader(&golden, stem, ".ids");
    size_t count = check_texts(t, &texts, &golden, lossless, &wrong);
    assert_int_equal(wrong, 0);
    assert_true(count >= 5000);
    tokenizer_free(t);
}

// Lists of ids, and what they are as text.
static size_t check_decoded(const tokenizer *t, reader *decoded, size_t *wrong)
{
    size_t count = 0;
    for (; decoded->position < decoded->map.size_bytes && *wrong < SHOWN_TEXTS; count++) {
        tokenizer_ids list = read_ids(decoded);
        tokenizer_bytes text = read_text(decoded);
        if (!decodes_to(t, &list, 0, text)) {
            printf("  golden:  \"%.*s\"\n", (int)text.size_bytes, text.data);
            ++*wrong;
        }
        tokenizer_ids_free(&list);
    }
    file_map_close(&decoded->map);
    return count;
}

static const char *compared;

static void compare(void **state)
{
    (void)state;
    reader texts, golden, decoded;
    size_t wrong = 0, wrong_lists = 0;
    tokenizer *t = load(compared);
    open_reader(&texts, compared, ".texts");
    open_reader(&golden, compared, ".ids");
    open_reader(&decoded, compared, ".decoded");
    bool lossless = tokenizer_get_kind(t) <= TOKENIZER_BYTE_LEVEL;
    size_t count = check_texts(t, &texts, &golden, lossless, &wrong);
    size_t lists = check_decoded(t, &decoded, &wrong_lists);
    printf("%s: %zu pieces; %zu texts, %zu differ; %zu lists of ids, %zu differ\n", compared,
           tokenizer_size(t), count, wrong, lists, wrong_lists);
    tokenizer_free(t);
    assert_int_equal(wrong + wrong_lists, 0);
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

static void wordpiece_uncased(void **state)
{
    (void)state;
    check_vocabulary("bert-uncased", false);
}

static void wordpiece_cased(void **state)
{
    (void)state;
    check_vocabulary("bert-cased", false);
}

static void unigram_normalised(void **state)
{
    (void)state;
    check_vocabulary("t5", false);
}

static void unigram_with_bytes(void **state)
{
    (void)state;
    check_vocabulary("t5-bytes", false);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest of_paths[] = {cmocka_unit_test(compare)};
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        compared = argv[i];
        failed += cmocka_run_group_tests(of_paths, NULL, NULL);
    }
    if (argc > 1)
        return failed;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sentencepiece_with_bytes), cmocka_unit_test(sentencepiece_without_bytes),
        cmocka_unit_test(byte_level_gpt2),          cmocka_unit_test(byte_level_smollm),
        cmocka_unit_test(byte_level_qwen2),         cmocka_unit_test(byte_level_llama3),
        cmocka_unit_test(byte_level_tekken),        cmocka_unit_test(wordpiece_uncased),
        cmocka_unit_test(wordpiece_cased),          cmocka_unit_test(unigram_normalised),
        cmocka_unit_test(unigram_with_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
