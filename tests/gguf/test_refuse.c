// SPDX-License-Identifier: MIT
// Bad files: each is refused with one line that names cause and cure. Tests called advisory_* replay
// defects that other readers of GGUF files were warned of.

#define _DEFAULT_SOURCE

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/gguf_touch.h"
#include "tests/support/gguf_writer.h"

enum { F32 = 0, F16 = 1, Q4_0 = 2, I8 = 24, F64 = 28 };

static void check_text(const engine_error *err, const char *fragment)
{
    size_t length = strlen(err->text);
    if (strstr(err->text, fragment) == NULL)
        fail_msg("'%s' does not say '%s'", err->text, fragment);
    assert_null(strchr(err->text, '\n'));
    assert_true(length < sizeof(err->text) - 1);
    assert_int_not_equal(err->text[length - 1], '.');
    if (strstr(err->text, "; ") == NULL && strstr(err->text, ": ") == NULL)
        fail_msg("'%s' names no cure", err->text);
}

static void refuse_bytes(const void *bytes, size_t size_bytes, const char *fragment)
{
    engine_error err = {""};
    gguf_file *file = gguf_open_memory(bytes, size_bytes, &err);
    if (file != NULL)
        fail_msg("accepted what is %s", fragment);
    check_text(&err, fragment);
}

static void refuse(gguf_writer *writer, const char *fragment)
{
    size_t size_bytes;
    uint8_t *bytes = gguf_writer_finish(writer, &size_bytes);
    refuse_bytes(bytes, size_bytes, fragment);
    free(bytes);
}

static gguf_writer fresh(void)
{
    gguf_writer writer;
    gguf_writer_init(&writer);
    return writer;
}

// A file that has some of everything, whose last tensor ends where the file ends.
static uint8_t *sample_file(size_t *size_bytes)
{
    gguf_writer w = fresh();
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
                check_text(&err, "");
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
        gguf_writer w = fresh();
        w.version = cases[i].version;
        refuse(&w, cases[i].fragment);
    }
}

static void what_is_no_regular_file_is_refused(void **state)
{
    (void)state;
    char path[] = P_tmpdir "/weft-refuse-XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    engine_error err = {""};
    assert_null(gguf_open(path, &err));
    check_text(&err, "is empty");
    assert_true(write(descriptor, "GGUF?", 5) == 5);
    close(descriptor);
    assert_null(gguf_open(path, &err));
    check_text(&err, "ends inside its header");
    assert_memory_equal(err.text, path, strlen(path)); // the text begins with the path
    unlink(path);
    assert_null(gguf_open(path, &err));
    check_text(&err, "check the path");
    assert_null(gguf_open("/tmp", &err));
    check_text(&err, "is a directory");
    assert_null(gguf_open(path, NULL));
}

// --- metadata ---------------------------------------------------------------------------------------

static void bad_keys_are_refused(void **state)
{
    (void)state;
    gguf_writer w = fresh();
    gguf_writer_u32(&w, "twice", 1);
    gguf_writer_u32(&w, "twice", 1);
    refuse(&w, "'twice' appears twice");
    w = fresh();
    gguf_writer_u32(&w, "", 1);
    refuse(&w, "key 0 is empty");
    w = fresh();
    gguf_writer_u32(&w, "bad\nkey", 1);
    refuse(&w, "control characters");
    w = fresh();
    char *longest = malloc(GGUF_MAX_KEY_BYTES + 2);
    memset(longest, 'k', GGUF_MAX_KEY_BYTES + 1);
    longest[GGUF_MAX_KEY_BYTES + 1] = '\0';
    gguf_writer_u32(&w, longest, 1);
    refuse(&w, "longer than 65535 bytes");
    free(longest);
    w = fresh();
    gguf_writer_key(&w, "odd", GGUF_VALUE_TYPE_COUNT);
    buffer_u64(&w.keys, 0);
    refuse(&w, "'odd' has an unknown type");
    w = fresh();
    gguf_writer_key(&w, "cut", GGUF_U64);
    buffer_u32(&w.keys, 0);
    refuse(&w, "'cut' runs beyond the end");
}

static void deep_arrays_are_refused(void **state)
{
    (void)state;
    gguf_writer w = fresh();
    gguf_writer_key(&w, "deep", GGUF_ARRAY);
    for (int depth = 0; depth < 100000; depth++) {
        buffer_u32(&w.keys, GGUF_ARRAY);
        buffer_u64(&w.keys, 1);
    }
    refuse(&w, "nests arrays too deep");
}

// --- tensors ----------------------------------------------------------------------------------------

static void bad_tensor_names_are_refused(void **state)
{
    (void)state;
    const int64_t shape[] = {4};
    gguf_writer w = fresh();
    gguf_writer_tensor(&w, "same", F32, 1, shape, NULL, 16);
    gguf_writer_tensor(&w, "same", F32, 1, shape, NULL, 16);
    refuse(&w, "tensor 'same' appears twice");
    w = fresh();
    gguf_writer_tensor(&w, "", F32, 1, shape, NULL, 16);
    refuse(&w, "tensor 0 is empty");
    w = fresh();
    gguf_writer_tensor(&w, "esc\x1b[2J", F32, 1, shape, NULL, 16);
    refuse(&w, "control characters");
    char name[GGUF_MAX_NAME_BYTES + 2];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    w = fresh();
    gguf_writer_tensor(&w, name, F32, 1, shape, NULL, 16);
    refuse(&w, "longer than 64 bytes");
    w = fresh();
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
    gguf_writer w = fresh();
    gguf_writer_tensor(&w, "t", F32, 5, (int64_t[]){1, 1, 1, 1, 1}, NULL, 4);
    refuse(&w, "has 5 dimensions");
    w = fresh();
    gguf_writer_tensor(&w, "t", F32, 2, (int64_t[]){4, 0}, NULL, 4);
    refuse(&w, "empty or negative dimension");
    w = fresh();
    gguf_writer_tensor(&w, "t", F32, 2, (int64_t[]){-4, -4}, NULL, 64);
    refuse(&w, "empty or negative dimension");
    w = fresh();
    gguf_writer_tensor(&w, "t", Q4_0, 2, (int64_t[]){33, 32}, NULL, 33 * 18);
    refuse(&w, "33 elements, not a multiple of the 32 of a q4_0 block");
}

static void unknown_formats_are_refused(void **state)
{
    (void)state;
    gguf_writer w = fresh();
    gguf_writer_tensor(&w, "t", 43, 1, (int64_t[]){256}, NULL, 256);
    refuse(&w, "unknown format 43");
    w = fresh();
    gguf_writer_tensor(&w, "t", 4, 1, (int64_t[]){256}, NULL, 256);
    refuse(&w, "format q4_2, which was withdrawn");
    w = fresh();
    gguf_writer_tensor(&w, "t", 33, 1, (int64_t[]){256}, NULL, 256);
    refuse(&w, "withdrawn");
    w = fresh();
    gguf_writer_tensor(&w, "t", UINT32_MAX, 1, (int64_t[]){256}, NULL, 256);
    refuse(&w, "unknown format 4294967295");
}

static void overlapping_tensors_are_refused(void **state)
{
    (void)state;
    gguf_writer w = fresh();
    gguf_writer_info(&w, "late", F32, 1, (int64_t[]){16}, 32);
    gguf_writer_info(&w, "early", F32, 1, (int64_t[]){16}, 0); // 64 bytes
    buffer_bytes(&w.data, NULL, 96);
    refuse(&w, "'early' and 'late' overlap");
    w = fresh();
    gguf_writer_info(&w, "a", F32, 1, (int64_t[]){8}, 0);
    gguf_writer_info(&w, "b", F32, 1, (int64_t[]){8}, 0);
    buffer_bytes(&w.data, NULL, 32);
    refuse(&w, "overlap");
}

static void misaligned_tensors_are_refused(void **state)
{
    (void)state;
    gguf_writer w = fresh();
    gguf_writer_info(&w, "f32", F32, 1, (int64_t[]){8}, 2);
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "offset 2, not a multiple of the file's alignment 32");
    w = fresh();
    gguf_writer_info(&w, "f64", F64, 1, (int64_t[]){1}, 16);
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "not a multiple of the file's alignment 32");
}

// --- advisories -------------------------------------------------------------------------------------

// CVE-2025-53630, CVE-2026-27940: the sum of tensor sizes wrapped, so a small buffer was made for them.
static void advisory_sum_of_sizes_wraps(void **state)
{
    (void)state;
    gguf_writer w = fresh();
    gguf_writer_info(&w, "a", I8, 1, (int64_t[]){INT64_MAX - 31}, 0);
    gguf_writer_info(&w, "b", I8, 1, (int64_t[]){INT64_MAX - 31}, (uint64_t)INT64_MAX - 31);
    gguf_writer_info(&w, "c", I8, 1, (int64_t[]){64}, UINT64_MAX - 63);
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "beyond the end of the file");
    w = fresh();
    gguf_writer_info(&w, "c", I8, 1, (int64_t[]){64}, UINT64_MAX - 63);
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "beyond the end of the file");
    w = fresh();
    gguf_writer_info(&w, "c", I8, 1, (int64_t[]){64}, UINT64_MAX - 31);
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "beyond the end of the file");
}

// CVE-2026-33298: elements or bytes of one tensor wrapped to a small number.
static void advisory_size_of_a_tensor_wraps(void **state)
{
    (void)state;
    const int64_t two_to_32 = INT64_C(1) << 32;
    gguf_writer w = fresh();
    gguf_writer_tensor(&w, "t", F32, 3, (int64_t[]){two_to_32, two_to_32, 4}, NULL, 64);
    refuse(&w, "overflows");
    w = fresh(); // 2^62 elements fit 63 bits, their 2^64 bytes do not
    gguf_writer_tensor(&w, "t", F32, 2, (int64_t[]){two_to_32, two_to_32 / 4}, NULL, 64);
    refuse(&w, "beyond the end of the file");
    w = fresh(); // the exact bytes are 2^64 + 64
    gguf_writer_tensor(&w, "t", F64, 1, (int64_t[]){(INT64_C(1) << 61) + 8}, NULL, 64);
    refuse(&w, "beyond the end of the file");
}

// llama.cpp#19919: checks for every array element made opening slow.
static void advisory_checks_stay_fast(void **state)
{
    (void)state;
    enum { COUNT = 4 * 1024 * 1024 };
    gguf_writer w = fresh();
    float *scores = calloc(COUNT, sizeof(*scores));
    assert_non_null(scores);
    gguf_writer_array(&w, "scores", GGUF_F32, scores, COUNT);
    free(scores);
    size_t size_bytes;
    uint8_t *bytes = gguf_writer_finish(&w, &size_bytes);
    clock_t start = clock();
    gguf_file *file = gguf_open_memory(bytes, size_bytes, NULL);
    double ms = 1e3 * (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_non_null(file);
    gguf_close(file);
    free(bytes);
    assert_true(ms < 5);
}

// llama.cpp#15711: the number of tensors times the size of a record wrapped.
static void advisory_counts_exceed_the_file(void **state)
{
    (void)state;
    const uint64_t counts[] = {2, GGUF_MAX_TENSORS + 1, UINT64_C(1) << 60, INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        gguf_writer w = fresh();
        w.tensor_count = counts[i];
        refuse(&w, "tensors, more than its 24 bytes can hold");
        w = fresh();
        w.key_count = counts[i];
        refuse(&w, "metadata keys, more than its 24 bytes can hold");
    }
    gguf_writer w = fresh();
    w.tensor_count = GGUF_MAX_TENSORS + 1;
    buffer_bytes(&w.infos, NULL, (size_t)w.tensor_count * 32);
    refuse(&w, "more than the 262144 that weft accepts");
    w = fresh();
    w.key_count = GGUF_MAX_KEYS + 1;
    buffer_bytes(&w.keys, NULL, (size_t)w.key_count * 32);
    refuse(&w, "more than the 65536 that weft accepts");
}

// llama.cpp#19003: the length of a string led to an allocation of that size.
static void advisory_string_longer_than_the_file(void **state)
{
    (void)state;
    const uint64_t lengths[] = {100, UINT64_C(1) << 31, UINT64_C(1) << 62, UINT64_MAX - 7,
                                UINT64_MAX};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        gguf_writer w = fresh();
        gguf_writer_key(&w, "text", GGUF_STRING);
        buffer_u64(&w.keys, lengths[i]);
        buffer_bytes(&w.keys, "short", 5);
        refuse(&w, "'text' runs beyond the end of the file");

        w = fresh(); // as the second element of an array
        gguf_writer_key(&w, "texts", GGUF_ARRAY);
        buffer_u32(&w.keys, GGUF_STRING);
        buffer_u64(&w.keys, 2);
        buffer_string(&w.keys, "fine");
        buffer_u64(&w.keys, lengths[i]);
        refuse(&w, "'texts' runs beyond the end of the file");

        w = fresh(); // as the name of a key
        w.key_count = 1;
        buffer_u64(&w.keys, lengths[i]);
        buffer_bytes(&w.keys, NULL, 16);
        refuse(&w, "metadata key 0 runs beyond the end of the file");

        w = fresh(); // as the name of a tensor
        w.tensor_count = 1;
        buffer_u64(&w.infos, lengths[i]);
        buffer_bytes(&w.infos, NULL, 20);
        refuse(&w, "the name of tensor 0 runs beyond the end of the file");
    }
}

// The same for arrays, whose byte size may wrap as well.
static void advisory_array_longer_than_the_file(void **state)
{
    (void)state;
    const uint64_t counts[] = {3, UINT64_C(1) << 30, UINT64_C(1) << 61, UINT64_MAX};
    const uint32_t types[] = {GGUF_U64, GGUF_STRING, GGUF_ARRAY};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++) {
            gguf_writer w = fresh();
            gguf_writer_key(&w, "list", GGUF_ARRAY);
            buffer_u32(&w.keys, types[t]);
            buffer_u64(&w.keys, counts[i]);
            buffer_bytes(&w.keys, NULL, 16);
            refuse(&w, "'list' claims more elements than the file can hold");
        }
    }
}

// llama.cpp#26690: the element type of an array was used before it was checked.
static void advisory_unknown_element_type(void **state)
{
    (void)state;
    const uint32_t types[] = {GGUF_VALUE_TYPE_COUNT, 255, INT32_MAX, UINT32_MAX};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        gguf_writer w = fresh();
        gguf_writer_key(&w, "list", GGUF_ARRAY);
        buffer_u32(&w.keys, types[i]);
        buffer_u64(&w.keys, 0);
        refuse(&w, "'list' is an array whose elements have an unknown type");
    }
    // A reader that trusts the key's name would take these strings for numbers, and the other way round.
    gguf_writer w = fresh();
    gguf_writer_strings(&w, "tokenizer.ggml.scores", (const char *[]){"1"}, 1);
    gguf_writer_array(&w, "tokenizer.ggml.tokens", GGUF_U64, (uint64_t[]){1}, 1);
    size_t size_bytes;
    uint8_t *bytes = gguf_writer_finish(&w, &size_bytes);
    gguf_file *file = gguf_open_memory(bytes, size_bytes, NULL);
    gguf_array array;
    float f32;
    gguf_string string;
    assert_int_equal(gguf_get_array(file, "tokenizer.ggml.scores", &array), GGUF_FOUND);
    assert_false(gguf_array_f32(&array, 0, &f32));
    assert_int_equal(gguf_get_array(file, "tokenizer.ggml.tokens", &array), GGUF_FOUND);
    assert_false(gguf_array_strings(&array, &string));
    gguf_close(file);
    free(bytes);
}

// llama.cpp#24997, #26318: an alignment of 0, or so large that rounding up wrapped.
static void advisory_alignment_out_of_bounds(void **state)
{
    (void)state;
    const uint32_t alignments[] = {0, 1, 4, 24, 33, 1u << 17, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < sizeof(alignments) / sizeof(alignments[0]); i++) {
        gguf_writer w = fresh();
        gguf_writer_u32(&w, "general.alignment", alignments[i]);
        gguf_writer_tensor(&w, "t", F32, 1, (int64_t[]){1}, NULL, 4);
        refuse(&w, "'general.alignment' is not a power of two from 8 to 65536");
    }
    gguf_writer w = fresh();
    gguf_writer_u64(&w, "general.alignment", (UINT64_C(1) << 32) + 32);
    refuse(&w, "'general.alignment'");
    w = fresh();
    gguf_writer_string(&w, "general.alignment", "32");
    refuse(&w, "'general.alignment'");
    w = fresh();
    gguf_writer_i32(&w, "general.alignment", -32);
    refuse(&w, "'general.alignment'");
}

// CVE-2026-7482: offset and size of a tensor were believed, and memory beyond the file was read.
static void advisory_tensor_beyond_the_file(void **state)
{
    (void)state;
    gguf_writer w = fresh();
    gguf_writer_info(&w, "t", F32, 1, (int64_t[]){17}, 0); // four bytes too many
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "tensor 't' lies beyond the end of the file");
    w = fresh();
    gguf_writer_info(&w, "t", F32, 1, (int64_t[]){1}, 64); // starts at the end
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "tensor 't' lies beyond the end of the file");
    w = fresh();
    gguf_writer_info(&w, "t", F32, 1, (int64_t[]){1}, 0); // no data section at all
    refuse(&w, "tensor 't' lies beyond the end of the file");
    w = fresh();
    gguf_writer_info(&w, "t", F16, 2, (int64_t[]){1 << 20, 1 << 20}, 1 << 20);
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "tensor 't' lies beyond the end of the file");
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
        cmocka_unit_test(unknown_formats_are_refused),
        cmocka_unit_test(overlapping_tensors_are_refused),
        cmocka_unit_test(misaligned_tensors_are_refused),
        cmocka_unit_test(advisory_sum_of_sizes_wraps),
        cmocka_unit_test(advisory_size_of_a_tensor_wraps),
        cmocka_unit_test(advisory_checks_stay_fast),
        cmocka_unit_test(advisory_counts_exceed_the_file),
        cmocka_unit_test(advisory_string_longer_than_the_file),
        cmocka_unit_test(advisory_array_longer_than_the_file),
        cmocka_unit_test(advisory_unknown_element_type),
        cmocka_unit_test(advisory_alignment_out_of_bounds),
        cmocka_unit_test(advisory_tensor_beyond_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
