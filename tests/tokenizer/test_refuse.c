// SPDX-License-Identifier: MIT
// Vocabularies that are damaged or hostile: each is refused with one line that names cause and cure, or
// made harmless.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/refusal.h"
#include "tests/support/tokenizer_builder.h"

static void refuse_vocabulary(tokenizer_builder *b, const char *fragment)
{
    engine_error err = {{0}};
    tokenizer *t = builder_finish(b, &err);
    if (t)
        fail_msg("accepted what is \"%s\"", fragment);
    check_refusal(&err, fragment);
}

static tokenizer_builder byte_level(void)
{
    tokenizer_builder b = builder_new(TOKENIZER_BYTE_LEVEL);
    builder_bytes(&b);
    return b;
}

static tokenizer_builder sentencepiece(void)
{
    tokenizer_builder b = builder_new(TOKENIZER_SENTENCEPIECE);
    builder_bytes(&b);
    return b;
}

static void no_pieces(void **state)
{
    (void)state;
    tokenizer_builder b = builder_new(TOKENIZER_BYTE_LEVEL);
    refuse_vocabulary(&b, "no pieces");
    b = builder_new(TOKENIZER_SENTENCEPIECE);
    refuse_vocabulary(&b, "no pieces");
    b = byte_level();
    b.spec.kind = (tokenizer_kind)9;
    refuse_vocabulary(&b, "no kind of vocabulary");
}

static void pieces_that_encoding_could_confuse(void **state)
{
    (void)state;
    tokenizer_builder b = byte_level();
    builder_piece(&b, "a", TOKENIZER_NORMAL, 0);
    refuse_vocabulary(&b, "pieces 97 and 256 are the same text");
    b = byte_level();
    builder_piece(&b, "", TOKENIZER_NORMAL, 0);
    refuse_vocabulary(&b, "piece 256 is empty");
    b = byte_level();
    builder_piece(&b, "", TOKENIZER_CONTROL, 0);
    refuse_vocabulary(&b, "piece 256 is empty");
    b = byte_level();
    builder_piece(&b, "<x>", TOKENIZER_CONTROL, 0);
    builder_piece(&b, "<x>", TOKENIZER_CONTROL, 0);
    refuse_vocabulary(&b, "special pieces 256 and 257 are the same text");
    b = sentencepiece();
    builder_piece(&b, "\xe2\x96\x81", TOKENIZER_NORMAL, 0);
    builder_piece(&b, " ", TOKENIZER_NORMAL, 0);
    refuse_vocabulary(&b, "pieces 256 and 257 are the same text");
}

static void unused_pieces_may_repeat(void **state)
{
    (void)state;
    tokenizer_builder b = byte_level();
    builder_piece(&b, "", TOKENIZER_UNUSED, 0);
    builder_piece(&b, "", TOKENIZER_UNUSED, 0);
    builder_piece(&b, "a", TOKENIZER_UNUSED, 0);
    engine_error err = {{0}};
    tokenizer *t = builder_finish(&b, &err);
    assert_non_null(t);
    tokenizer_ids list = {0};
    assert_true(tokenizer_encode(t, "a", 1, 0, &list, &err));
    assert_int_equal(list.ids[0], 'a');
    tokenizer_ids_free(&list);
    tokenizer_free(t);
}

static void types_out_of_range(void **state)
{
    (void)state;
    static const int32_t bad[] = {0, 7, -1, INT32_MAX, INT32_MIN, 259};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tokenizer_builder b = byte_level();
        builder_piece(&b, "ab", bad[i], 0);
        refuse_vocabulary(&b, "piece 256 has type");
    }
}

static void ids_out_of_range(void **state)
{
    (void)state;
    static const int32_t bad[] = {256, -2, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tokenizer_builder b = byte_level();
        b.spec.bos = bad[i];
        refuse_vocabulary(&b, "the bos token is");
        b = byte_level();
        b.spec.eos = bad[i];
        refuse_vocabulary(&b, "the eos token is");
        b = byte_level();
        b.spec.eot = bad[i];
        refuse_vocabulary(&b, "the eot token is");
        b = byte_level();
        b.spec.eom = bad[i];
        refuse_vocabulary(&b, "the eom token is");
        b = byte_level();
        b.spec.unknown = bad[i];
        refuse_vocabulary(&b, "the unknown token is");
        b = byte_level();
        b.spec.padding = bad[i];
        refuse_vocabulary(&b, "the padding token is");
    }
    tokenizer_builder b = byte_level();
    b.spec.add_bos = 1;
    refuse_vocabulary(&b, "bos_token_id");
    b = byte_level();
    b.spec.add_eos = 1;
    refuse_vocabulary(&b, "eos_token_id");
}

// llama.cpp#25969, #26511: a byte piece "<0x-1>" wrote in front of a table of 256.
static void byte_pieces_are_exact(void **state)
{
    (void)state;
    static const char *const bad[] = {"<0x-1>",  "<0x1>",  "<0x4g>", "<0xab>",  "<0X41>",
                                      "<0x041>", "<0x41",  "0x41",   "<0x41> ", "<0x100>",
                                      "<0xFFF>", "<0x+1>", "<0x 1>", "a"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tokenizer_builder b = sentencepiece();
        builder_piece(&b, bad[i], TOKENIZER_BYTE, 0);
        refuse_vocabulary(&b, "byte piece 256");
    }
    tokenizer_builder b = sentencepiece();
    builder_piece(&b, "<0x41>", TOKENIZER_BYTE, 0);
    refuse_vocabulary(&b, "pieces 65 and 256 are both byte 65");
    b = byte_level();
    builder_piece(&b, "<0x41>", TOKENIZER_BYTE, 0);
    refuse_vocabulary(&b, "byte piece 256");
    b = builder_new(TOKENIZER_SENTENCEPIECE);
    builder_piece(&b, "a", TOKENIZER_NORMAL, 0);
    refuse_vocabulary(&b, "neither a piece for byte 0");
}

// CVE-2025-49847 and CVE-2025-52566: lengths of pieces and of results that did not fit their type.
static void lengths_out_of_range(void **state)
{
    (void)state;
    size_t n = TOKENIZER_MAX_PIECE_BYTES + 1;
    char *text = malloc(n);
    assert_non_null(text);
    memset(text, 'a', n);
    tokenizer_builder b = byte_level();
    builder_piece_bytes(&b, text, n, TOKENIZER_NORMAL, 0);
    refuse_vocabulary(&b, "65537 bytes");
    b = byte_level();
    builder_piece_bytes(&b, text, TOKENIZER_MAX_SPECIAL_BYTES + 1, TOKENIZER_CONTROL, 0);
    refuse_vocabulary(&b, "special piece 256 has 1025 bytes");
    b = sentencepiece();
    builder_piece_bytes(&b, text, 257, TOKENIZER_NORMAL, 0);
    refuse_vocabulary(&b, "257 bytes");
    free(text);
}

static void merges_of_what_is_not_there(void **state)
{
    (void)state;
    static const char *const bad[] = {"x",      "",       " ",          "a ",   " a",
                                      "a  b",   "a b c",  "a b",        "ab c", "a bc",
                                      "\xff a", "\xc4 b", "\xc5\x84 b", "é é"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tokenizer_builder b = byte_level();
        builder_merge(&b, bad[i]);
        refuse_vocabulary(&b, "merge 0");
    }
    tokenizer_builder b = byte_level();
    builder_piece(&b, "ab", TOKENIZER_UNUSED, 0);
    builder_merge(&b, "a b");
    refuse_vocabulary(&b, "merge 0");
    b = byte_level();
    b.spec.merge_count = 3;
    engine_error err = {{0}};
    b.spec.pieces = b.pieces;
    b.spec.types = b.types;
    assert_null(tokenizer_create(&b.spec, &err));
    check_refusal(&err, "needs merges");
    b.spec.merge_count = 0;
    tokenizer_free(builder_finish(&b, &err));
}

static void scores_that_are_no_numbers(void **state)
{
    (void)state;
    tokenizer_builder b = sentencepiece();
    builder_piece(&b, "a", TOKENIZER_NORMAL, NAN);
    refuse_vocabulary(&b, "score of piece 256");
    b = sentencepiece();
    builder_piece(&b, "a", TOKENIZER_NORMAL, INFINITY);
    builder_piece(&b, "b", TOKENIZER_NORMAL, -INFINITY);
    builder_piece(&b, "ab", TOKENIZER_NORMAL, INFINITY);
    engine_error err = {{0}};
    tokenizer *t = builder_finish(&b, &err);
    assert_non_null(t);
    tokenizer_free(t);
}

static void unknown_pretokenizers(void **state)
{
    (void)state;
    static const char *const bad[] = {"default", "llama", "qwen99", "LLAMA-BPE", "%s%n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tokenizer_builder b = byte_level();
        b.spec.pre = bad[i];
        refuse_vocabulary(&b, "unknown pre-tokenizer");
    }
    tokenizer_builder b = byte_level();
    b.spec.pre = NULL;
    refuse_vocabulary(&b, "tokenizer.ggml.pre");
    b = byte_level();
    b.spec.pre = "";
    refuse_vocabulary(&b, "tokenizer.ggml.pre");
}

// --- from files -------------------------------------------------------------------------------------

static void refuse_file(gguf_writer *writer, const char *fragment)
{
    size_t size_bytes;
    uint8_t *bytes = gguf_writer_finish(writer, &size_bytes);
    engine_error err = {{0}};
    gguf_file *file = gguf_open_memory(bytes, size_bytes, &err);
    if (!file)
        fail_msg("%s", err.text);
    tokenizer *t = tokenizer_from_gguf(file, &err);
    if (t)
        fail_msg("accepted what is \"%s\"", fragment);
    check_refusal(&err, fragment);
    gguf_close(file);
    free(bytes);
}

static gguf_writer file_of(const char *model)
{
    gguf_writer w = gguf_writer_new();
    gguf_writer_string(&w, "tokenizer.ggml.model", model);
    return w;
}

static gguf_writer file_with_tokens(const char *model)
{
    gguf_writer w = file_of(model);
    gguf_writer_strings(&w, "tokenizer.ggml.tokens", (const char *[]){"a", "b", "ab"}, 3);
    return w;
}

static void files_without_tokenizer(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    refuse_file(&w, "tokenizer.ggml.model");
    w = gguf_writer_new();
    gguf_writer_u32(&w, "tokenizer.ggml.model", 1);
    refuse_file(&w, "tokenizer.ggml.model");
    w = file_of("rwkv");
    refuse_file(&w, "unknown tokenizer \"rwkv\"");
    w = file_of("gpt2");
    refuse_file(&w, "tokenizer.ggml.tokens");
    w = file_of("llama");
    gguf_writer_strings(&w, "tokenizer.ggml.tokens", NULL, 0);
    refuse_file(&w, "no pieces");
    w = file_of("llama");
    gguf_writer_array(&w, "tokenizer.ggml.tokens", GGUF_U32, (uint32_t[]){1}, 1);
    refuse_file(&w, "tokenizer.ggml.tokens");
}

static void files_whose_arrays_do_not_fit(void **state)
{
    (void)state;
    gguf_writer w = file_with_tokens("llama");
    refuse_file(&w, "tokenizer.ggml.scores");
    w = file_with_tokens("llama");
    gguf_writer_array(&w, "tokenizer.ggml.scores", GGUF_F32, (float[]){0, 0}, 2);
    refuse_file(&w, "2 entries for 3 pieces");
    w = file_with_tokens("llama");
    gguf_writer_array(&w, "tokenizer.ggml.scores", GGUF_U32, (uint32_t[]){0, 0, 0}, 3);
    refuse_file(&w, "tokenizer.ggml.scores");
    w = file_with_tokens("gpt2");
    refuse_file(&w, "tokenizer.ggml.merges");
    w = file_with_tokens("gpt2");
    gguf_writer_strings(&w, "tokenizer.ggml.merges", (const char *[]){"a b"}, 1);
    refuse_file(&w, "tokenizer.ggml.pre");
    w = file_with_tokens("gpt2");
    gguf_writer_strings(&w, "tokenizer.ggml.merges", (const char *[]){"a b"}, 1);
    gguf_writer_string(&w, "tokenizer.ggml.pre", "gpt-2");
    gguf_writer_array(&w, "tokenizer.ggml.token_type", GGUF_I64, (int64_t[]){1, 1, 1LL << 32 | 1},
                      3);
    refuse_file(&w, "tokenizer.ggml.token_type");
    w = file_with_tokens("gpt2");
    gguf_writer_strings(&w, "tokenizer.ggml.merges", (const char *[]){"a b"}, 1);
    gguf_writer_string(&w, "tokenizer.ggml.pre", "gpt-2");
    gguf_writer_u64(&w, "tokenizer.ggml.bos_token_id", 1ull << 32);
    refuse_file(&w, "tokenizer.ggml.bos_token_id");
    w = file_with_tokens("gpt2");
    gguf_writer_strings(&w, "tokenizer.ggml.merges", (const char *[]){"a b"}, 1);
    gguf_writer_string(&w, "tokenizer.ggml.pre", "gpt-2");
    gguf_writer_u32(&w, "tokenizer.ggml.eos_token_id", 3);
    refuse_file(&w, "the eos token is 3 in a vocabulary of 3");
    w = file_with_tokens("gpt2");
    gguf_writer_strings(&w, "tokenizer.ggml.merges", (const char *[]){"a b"}, 1);
    gguf_writer_string(&w, "tokenizer.ggml.pre", "gpt-2");
    gguf_writer_u32(&w, "tokenizer.ggml.add_bos_token", 1);
    refuse_file(&w, "tokenizer.ggml.add_bos_token");
}

static void a_file_without_types_is_read(void **state)
{
    (void)state;
    gguf_writer w = file_of("gpt2");
    gguf_writer_strings(&w, "tokenizer.ggml.tokens",
                        (const char *[]){"a", "b", "ab", "<|im_end|>", "z"}, 5);
    gguf_writer_strings(&w, "tokenizer.ggml.merges", (const char *[]){"a b"}, 1);
    gguf_writer_string(&w, "tokenizer.ggml.pre", "gpt-2");
    gguf_writer_u32(&w, "tokenizer.ggml.bos_token_id", 4);
    gguf_writer_bool(&w, "tokenizer.ggml.add_bos_token", true);
    size_t size_bytes;
    uint8_t *bytes = gguf_writer_finish(&w, &size_bytes);
    engine_error err = {{0}};
    gguf_file *file = gguf_open_memory(bytes, size_bytes, &err);
    tokenizer *t = tokenizer_from_gguf(file, &err);
    gguf_close(file);
    free(bytes);
    if (!t)
        fail_msg("%s", err.text);
    tokenizer_ids list = {0};
    assert_true(tokenizer_encode(t, "ab<|im_end|>", 12,
                                 TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL, &list, &err));
    assert_int_equal(list.count, 3);
    assert_memory_equal(list.ids, ((int32_t[]){4, 2, 3}), 12);
    assert_true(tokenizer_is_end(t, 3));
    assert_true(tokenizer_is_special(t, 4));
    assert_int_equal(tokenizer_size(t), 5);
    assert_string_equal(tokenizer_pre(t), "gpt-2");
    tokenizer_ids_free(&list);
    tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_pieces),
        cmocka_unit_test(pieces_that_encoding_could_confuse),
        cmocka_unit_test(unused_pieces_may_repeat),
        cmocka_unit_test(types_out_of_range),
        cmocka_unit_test(ids_out_of_range),
        cmocka_unit_test(byte_pieces_are_exact),
        cmocka_unit_test(lengths_out_of_range),
        cmocka_unit_test(merges_of_what_is_not_there),
        cmocka_unit_test(scores_that_are_no_numbers),
        cmocka_unit_test(unknown_pretokenizers),
        cmocka_unit_test(files_without_tokenizer),
        cmocka_unit_test(files_whose_arrays_do_not_fit),
        cmocka_unit_test(a_file_without_types_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
