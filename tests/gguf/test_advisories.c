// SPDX-License-Identifier: MIT
// Replays the defects that other readers of GGUF files were warned of.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engine/gguf/name_table.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/refusal.h"

enum { F32 = 0, F16 = 1, I8 = 24, F64 = 28 };

// CVE-2025-53630, CVE-2026-27940: the sum of tensor sizes wrapped, so a small buffer was made for them.
static void advisory_sum_of_sizes_wraps(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_info(&w, "a", I8, 1, (int64_t[]){INT64_MAX - 31}, 0);
    gguf_writer_info(&w, "b", I8, 1, (int64_t[]){INT64_MAX - 31}, (uint64_t)INT64_MAX - 31);
    gguf_writer_info(&w, "c", I8, 1, (int64_t[]){64}, UINT64_MAX - 63);
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "beyond the end of the file");
    w = gguf_writer_new();
    gguf_writer_info(&w, "c", I8, 1, (int64_t[]){64}, UINT64_MAX - 63);
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "beyond the end of the file");
    w = gguf_writer_new();
    gguf_writer_info(&w, "c", I8, 1, (int64_t[]){64}, UINT64_MAX - 31);
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "beyond the end of the file");
    w = gguf_writer_new(); // the data begins at byte 64; only the end of the tensor wraps
    gguf_writer_info(&w, "c", I8, 1, (int64_t[]){64}, UINT64_MAX - 31 - 64);
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "beyond the end of the file");
}

// CVE-2026-33298: elements or bytes of one tensor wrapped to a small number.
static void advisory_size_of_a_tensor_wraps(void **state)
{
    (void)state;
    const int64_t two_to_32 = INT64_C(1) << 32;
    gguf_writer w = gguf_writer_new();
    gguf_writer_tensor(&w, "t", F32, 3, (int64_t[]){two_to_32, two_to_32, 4}, NULL, 64);
    refuse(&w, "overflows");
    w = gguf_writer_new(); // 2^62 elements fit 63 bits, their 2^64 bytes do not
    gguf_writer_tensor(&w, "t", F32, 2, (int64_t[]){two_to_32, two_to_32 / 4}, NULL, 64);
    refuse(&w, "beyond the end of the file");
    w = gguf_writer_new(); // the exact bytes are 2^64 + 64
    gguf_writer_tensor(&w, "t", F64, 1, (int64_t[]){(INT64_C(1) << 61) + 8}, NULL, 64);
    refuse(&w, "beyond the end of the file");
}

// llama.cpp#19919: checks for every array element made opening slow.
static void advisory_checks_stay_fast(void **state)
{
    (void)state;
    enum { COUNT = 4 * 1024 * 1024 };
    gguf_writer w = gguf_writer_new();
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
        gguf_writer w = gguf_writer_new();
        w.tensor_count = counts[i];
        refuse(&w, "tensors, more than its 24 bytes can hold");
        w = gguf_writer_new();
        w.key_count = counts[i];
        refuse(&w, "metadata keys, more than its 24 bytes can hold");
    }
    gguf_writer w = gguf_writer_new();
    w.tensor_count = GGUF_MAX_TENSORS + 1;
    buffer_bytes(&w.infos, NULL, (size_t)w.tensor_count * 32);
    refuse(&w, "more than the 262144 that weft accepts");
    w = gguf_writer_new();
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
        gguf_writer w = gguf_writer_new();
        gguf_writer_key(&w, "text", GGUF_STRING);
        buffer_u64(&w.keys, lengths[i]);
        buffer_bytes(&w.keys, "short", 5);
        refuse(&w, "'text' runs beyond the end of the file");

        w = gguf_writer_new(); // as the second element of an array
        gguf_writer_key(&w, "texts", GGUF_ARRAY);
        buffer_u32(&w.keys, GGUF_STRING);
        buffer_u64(&w.keys, 2);
        buffer_string(&w.keys, "fine");
        buffer_u64(&w.keys, lengths[i]);
        refuse(&w, "'texts' runs beyond the end of the file");

        w = gguf_writer_new(); // as the name of a key
        w.key_count = 1;
        buffer_u64(&w.keys, lengths[i]);
        buffer_bytes(&w.keys, NULL, 16);
        refuse(&w, "metadata key 0 runs beyond the end of the file");

        w = gguf_writer_new(); // as the name of a tensor
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
            gguf_writer w = gguf_writer_new();
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
        gguf_writer w = gguf_writer_new();
        gguf_writer_key(&w, "list", GGUF_ARRAY);
        buffer_u32(&w.keys, types[i]);
        buffer_u64(&w.keys, 0);
        refuse(&w, "'list' is an array whose elements have an unknown type");
    }
    // A reader that trusts the key's name would take these strings for numbers, and the other way round.
    gguf_writer w = gguf_writer_new();
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
        gguf_writer w = gguf_writer_new();
        gguf_writer_u32(&w, "general.alignment", alignments[i]);
        gguf_writer_tensor(&w, "t", F32, 1, (int64_t[]){1}, NULL, 4);
        refuse(&w, "'general.alignment' is not a power of two from 8 to 65536");
    }
    gguf_writer w = gguf_writer_new();
    gguf_writer_u64(&w, "general.alignment", (UINT64_C(1) << 32) + 32);
    refuse(&w, "'general.alignment'");
    w = gguf_writer_new();
    gguf_writer_string(&w, "general.alignment", "32");
    refuse(&w, "'general.alignment'");
    w = gguf_writer_new();
    gguf_writer_i32(&w, "general.alignment", -32);
    refuse(&w, "'general.alignment'");
}

// CVE-2026-7482: offset and size of a tensor were believed, and memory beyond the file was read.
static void advisory_tensor_beyond_the_file(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_info(&w, "t", F32, 1, (int64_t[]){17}, 0); // four bytes too many
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "tensor 't' lies beyond the end of the file");
    w = gguf_writer_new();
    gguf_writer_info(&w, "t", F32, 1, (int64_t[]){1}, 64); // starts at the end
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "tensor 't' lies beyond the end of the file");
    w = gguf_writer_new();
    gguf_writer_info(&w, "t", F32, 1, (int64_t[]){1}, 0); // no data section at all
    refuse(&w, "tensor 't' lies beyond the end of the file");
    w = gguf_writer_new();
    gguf_writer_info(&w, "t", F16, 2, (int64_t[]){1 << 20, 1 << 20}, 1 << 20);
    buffer_bytes(&w.data, NULL, 64);
    refuse(&w, "tensor 't' lies beyond the end of the file");
}

// Names chosen to have hashes that all end alike would take time in the square of their number.
static void advisory_names_that_collide(void **state)
{
    (void)state;
    enum { COUNT = 1000, SLOTS = 2048 };
    static char names[COUNT][24];
    name_table table;
    assert_true(name_table_init(&table, COUNT));
    assert_int_equal(table.mask, SLOTS - 1);
    for (int count = 0, number = 0; count < COUNT; number++) {
        size_t bytes = (size_t)snprintf(names[count], sizeof names[count], "blk.%d.x", number);
        if (XXH3_64bits(names[count], bytes) % SLOTS != 0)
            continue;
        assert_true(name_table_insert(&table, names[count], bytes, (size_t)count));
        count++;
    }
    int together = 0; // slots in use at the beginning, where all of them would want to be
    for (int i = 0; i < COUNT; i++)
        together += table.slots[i].name != NULL;
    assert_true(together < COUNT * 3 / 4);
    name_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(advisory_sum_of_sizes_wraps),
        cmocka_unit_test(advisory_size_of_a_tensor_wraps),
        cmocka_unit_test(advisory_checks_stay_fast),
        cmocka_unit_test(advisory_counts_exceed_the_file),
        cmocka_unit_test(advisory_string_longer_than_the_file),
        cmocka_unit_test(advisory_array_longer_than_the_file),
        cmocka_unit_test(advisory_unknown_element_type),
        cmocka_unit_test(advisory_alignment_out_of_bounds),
        cmocka_unit_test(advisory_tensor_beyond_the_file),
        cmocka_unit_test(advisory_names_that_collide),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
