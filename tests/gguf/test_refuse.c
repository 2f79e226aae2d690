// SPDX-License-Identifier: MIT
// Bad files: each is refused with one line that names cause and cure.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/gguf_touch.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/refusal.h"
#include "tests/support/scratch.h"

enum { F32 = 0, F16 = 1, Q4_0 = 2, I8 = 24, F64 = 28 };

// A file that has some of everything, whose last tensor ends where the file ends.
static uint8_t *sample_file(size_t *size_bytes)
{
    gguf_writer w = gguf_writer_new();
    gguf_writer_string(&w, "general.architecture", "llama");
    gguf_writer_u32(&w, "general.alignment", 64);
    w.alignment = 64;
    gguf_writer_f32(&w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_writer_bool(&w, "tokenizer.ggml.add_bos_token", true);
    gguf_writer_strings(&w, "tokenizer.ggml.tokens", (const char *[]){"<s>", "a", ""}, 3);
    gguf_writer_array(&w, "tokenizer.ggml.scores", GGUF_F32, (float[]){0, 1, 2}, 3);
    gguf_writer_key(&w, "nested", GGUF_ARRAY);
    buffer_u32(&w.keys, GGUF_ARRAY);
    buffer_u64(&w.keys, 2);
    for (int i = 0; i < 2; i++) {
        buffer_u32(&w.keys, GGUF_U8);
        buffer_u64(&w.keys, 1);
        buffer_u8(&w.keys, 1);
    }
    gguf_writer_tensor(&w, "norm", F32, 1, (int64_t[]){4}, (float[]){1, 2, 3, 4}, 16);
    gguf_writer_tensor(&w, "proj", Q4_0, 2, (int64_t[]){32, 2}, NULL, 36);
    gguf_writer_tensor(&w, "wide", I8, 4, (int64_t[]){3, 1, 1, 1}, NULL, 3);
    return gguf_writer_finish(&w, size_bytes);
}

// --- whole files ------------------------------------------------------------------------------------

static void truncation_at_every_byte_is_refused(void **state)
{
    (void)state;
    size_t size_bytes;
    uint8_t *bytes = sample_file(&size_bytes);
    gguf_file *file = gguf_open_memory(bytes, size_bytes, NULL);
    assert_non_null(file);
    gguf_touch(file);
    gguf_close(file);
    for (size_t length = 0; length < size_bytes; length++) {
        uint8_t *part = malloc(length + (length == 0));
        assert_non_null(part);
        memcpy(part, bytes, length);
        refuse_bytes(part, length, "");
        free(part);
    }
    free(bytes);
}

// Whatever one changed byte does, the file is refused or can be used.
static void any_changed_byte_is_harmless(void **state)
{
    (void)state;
    size_t size_bytes;
    uint8_t *bytes = sample_file(&size_bytes);
    const uint8_t changes[] = {0x01, 0x02, 0x08, 0x40, 0x80, 0xff};
    int accepted = 0;
    for (size_t position = 0; position < size_bytes; position++) {
        for (size_t i = 0; i < sizeof(changes); i++) {
            bytes[position] ^= changes[i];
            engine_error err = {""};
            gguf_file *file = gguf_open_memory(bytes, size_bytes, &err);
            if (file != NULL)
                gguf_touch(file);
            else
                check_refusal(&err, "");
            accepted += file != NULL;
            gguf_close(file);
            bytes[position] ^= changes[i];
        }
    }
    assert_true(accepted > 0);
    free(bytes);
}

static void foreign_files_are_recognised(void **state)
{
    (void)state;
    _Alignas(8) uint8_t bytes[64] = {0};
    refuse_bytes(bytes, 3, "too short");
    refuse_bytes(bytes, sizeof(bytes), "is not a GGUF file");
    memcpy(bytes, "PK\3\4", 4);
    refuse_bytes(bytes, sizeof(bytes), "zip archive");
    memcpy(bytes, "tjgg", 4);
    refuse_bytes(bytes, sizeof(bytes), "older than GGUF");
    memcpy(bytes, "GGUF", 4);
    refuse_bytes(bytes, 7, "ends inside its header");
    refuse_bytes(bytes + 1, 32, "multiple of 8");
    refuse_bytes(NULL, 0, "multiple of 8");
}

static void other_versions_are_refused(void **state)
{
    (void)state;
    const struct {
        uint32_t version;
        const char *fragment;
    } cases[] = {{0, "version 0"},           {1, "version 1"},           {4, "version 4 is newer"},
                 {0x02000000, "big-endian"}, {0x03000000, "big-endian"}, {UINT32_MAX, "newer"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        gguf_writer w = gguf_writer_new();
        w.version = cases[i].version;
        refuse(&w, cases[i].fragment);
    }
}

static void what_is_no_regular_file_is_refused(void **state)
{
    (void)state;
    char path[SCRATCH_PATH_BYTES];
    scratch_file(path, NULL, 0);
    engine_error err = {""};
    assert_null(gguf_open(path, &err));
    check_refusal(&err, "is empty");
    scratch_remove(path);
    scratch_file(path, "GGUF?", 5);
    assert_null(gguf_open(path, &err));
    check_refusal(&err, "ends inside its header");
    assert_memory_equal(err.text, path, strlen(path)); // the text begins with the path
    scratch_remove(path);
    assert_null(gguf_open(path, &err));
    check_refusal(&err, "check the path");
    assert_null(gguf_open("/tmp", &err));
    check_refusal(&err, "is a directory");
    assert_null(gguf_open(path, NULL));
}

// --- metadata ---------------------------------------------------------------------------------------

static void bad_keys_are_refused(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_u32(&w, "twice", 1);
    gguf_writer_u32(&w, "twice", 1);
    refuse(&w, "'twice' appears twice");
    w = gguf_writer_new();
    gguf_writer_u32(&w, "", 1);
    refuse(&w, "key 0 is empty");
    w = gguf_writer_new();
    gguf_writer_u32(&w, "bad\nkey", 1);
    refuse(&w, "control characters");
    w = gguf_writer_new();
    gguf_writer_u32(&w, "bad\xff", 1);
    refuse(&w, "not UTF-8");
    w = gguf_writer_new();
    char *longest = malloc(GGUF_MAX_KEY_BYTES + 2);
    memset(longest, 'k', GGUF_MAX_KEY_BYTES + 1);
    longest[GGUF_MAX_KEY_BYTES + 1] = '\0';
    gguf_writer_u32(&w, longest, 1);
    refuse(&w, "longer than 65535 bytes");
    free(longest);
    w = gguf_writer_new();
    gguf_writer_key(&w, "odd", GGUF_VALUE_TYPE_COUNT);
    buffer_u64(&w.keys, 0);
    refuse(&w, "'odd' has an unknown type");
    w = gguf_writer_new();
    gguf_writer_key(&w, "cut", GGUF_U64);
    buffer_u32(&w.keys, 0);
    refuse(&w, "'cut' runs beyond the end");
}

static void deep_arrays_are_refused(void **state)
{
    (void)state;
    const int depths[] = {GGUF_MAX_ARRAY_DEPTH + 1, 100000};
    for (int i = 0; i < 2; i++) {
        gguf_writer w = gguf_writer_new();
        gguf_writer_key(&w, "deep", GGUF_ARRAY);
        for (int depth = 1; depth < depths[i]; depth++) {
            buffer_u32(&w.keys, GGUF_ARRAY);
            buffer_u64(&w.keys, 1);
        }
        buffer_u32(&w.keys, GGUF_STRING);
        buffer_u64(&w.keys, 1);
        buffer_string(&w.keys, "leaf");
        refuse(&w, "nests arrays too deep");
    }
}

// --- tensors ----------------------------------------------------------------------------------------

static void bad_tensor_names_are_refused(void **state)
{
    (void)state;
    const int64_t shape[] = {4};
    gguf_writer w = gguf_writer_new();
    gguf_writer_tensor(&w, "same", F32, 1, shape, NULL, 16);
    gguf_writer_tensor(&w, "same", F32, 1, shape, NULL, 16);
    refuse(&w, "tensor 'same' appears twice");
    w = gguf_writer_new();
    gguf_writer_tensor(&w, "", F32, 1, shape, NULL, 16);
    refuse(&w, "tensor 0 is empty");
    w = gguf_writer_new();
    gguf_writer_tensor(&w, "esc\x1b[2J", F32, 1, shape, NULL, 16);
    refuse(&w, "control characters");
    w = gguf_writer_new();
    gguf_writer_tensor(&w, "csi\xc2\x9b", F32, 1, shape, NULL, 16);
    refuse(&w, "control characters");
    char name[GGUF_MAX_NAME_BYTES + 2];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    w = gguf_writer_new();
    gguf_writer_tensor(&w, name, F32, 1, shape, NULL, 16);
    refuse(&w, "longer than 64 bytes");
    w = gguf_writer_new();
    gguf_writer_tensor(&w, name + 1, F32, 1, shape, NULL, 16); // 64 bytes are legal
    size_t size_bytes;
    uint8_t *bytes = gguf_writer_finish(&w, &size_bytes);
    gguf_file *file = gguf_open_memory(bytes, size_bytes, NULL);
    assert_non_null(gguf_find_tensor(file, name + 1));
    gguf_close(file);
    free(bytes);
}

static void bad_shapes_are_refused(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_tensor(&w, "t", F32, 5, (int64_t[]){1, 1, 1, 1, 1}, NULL, 4);
    refuse(&w, "has 5 dimensions");
    w = gguf_writer_new();
    gguf_writer_tensor(&w, "t", F32, 2, (int64_t[]){4, 0}, NULL, 4);
    refuse(&w, "empty or negative dimension");
    w = gguf_writer_new();
    gguf_writer_tensor(&w, "t", F32, 2, (int64_t[]){-4, -4}, NULL, 64);
    refuse(&w, "empty or negative dimension");
    w = gguf_writer_new();
    gguf_writer_tensor(&w, "t", Q4_0, 2, (int64_t[]){33, 32}, NULL, 33 * 18);
    refuse(&w, "33 elements, not a multiple of the 32 of a q4_0 block");
}

// A few may be newer than this program (test_read.c); a file of nothing else is damaged.
// Two of them had more than 2^63 elements together, and two in two parts of a model.
static void unknown_formats_have_bytes(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_tensor(&w, "t", 99, 2, (int64_t[]){INT64_C(1) << 40, INT64_C(1) << 22}, NULL, 64);
    gguf_writer_tensor(&w, "u", 99, 2, (int64_t[]){INT64_C(1) << 40, INT64_C(1) << 22}, NULL, 64);
    refuse(&w, "'t' has 4611686018427387904 elements in 64 bytes");
}

static void too_many_unknown_formats_are_refused(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    for (uint32_t i = 0; i <= GGUF_MAX_UNKNOWN; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%u", i);
        gguf_writer_tensor(&w, name, 43 + i, 1, (int64_t[]){256}, NULL, 256);
    }
    refuse(&w, "tensor 't16' has the format 59, and 16 others are unknown too");
}

static void unknown_formats_lie_inside(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_info(&w, "t", 99, 1, (int64_t[]){16}, 1 << 20);
    refuse(&w, "lies beyond the end of the file");
    w = gguf_writer_new();
    gguf_writer_info(&w, "here", 99, 1, (int64_t[]){16}, 0);
    gguf_writer_info(&w, "too", 99, 1, (int64_t[]){16}, 0);
    buffer_bytes(&w.data, NULL, 32);
    refuse(&w, "overlap");
}

static void overlapping_tensors_are_refused(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_info(&w, "late", F32, 1, (int64_t[]){16}, 32);
    gguf_writer_info(&w, "early", F32, 1, (int64_t[]){16}, 0); // 64 bytes
    buffer_bytes(&w.data, NULL, 96);
    refuse(&w, "'early' and 'late' overlap");
    w = gguf_writer_new();
    gguf_writer_info(&w, "a", F32, 1, (int64_t[]){8}, 0);
    gguf_writer_info(&w, "b", F32, 1, (int64_t[]){8}, 0);
    buffer_bytes(&w.data, NULL, 32);
    refuse(&w, "overlap");
}

static void misaligned_tensors_are_refused(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_info(&w, "f32", F32, 1, (int64_t[]){8}, 2);
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "offset 2, not a multiple of the file's alignment 32");
    w = gguf_writer_new();
    gguf_writer_info(&w, "f64", F64, 1, (int64_t[]){1}, 16);
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "not a multiple of the file's alignment 32");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncation_at_every_byte_is_refused),
        cmocka_unit_test(any_changed_byte_is_harmless),
        cmocka_unit_test(foreign_files_are_recognised),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(what_is_no_regular_file_is_refused),
        cmocka_unit_test(bad_keys_are_refused),
        cmocka_unit_test(deep_arrays_are_refused),
        cmocka_unit_test(bad_tensor_names_are_refused),
        cmocka_unit_test(bad_shapes_are_refused),
        cmocka_unit_test(unknown_formats_have_bytes),
        cmocka_unit_test(too_many_unknown_formats_are_refused),
        cmocka_unit_test(unknown_formats_lie_inside),
        cmocka_unit_test(overlapping_tensors_are_refused),
        cmocka_unit_test(misaligned_tensors_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
