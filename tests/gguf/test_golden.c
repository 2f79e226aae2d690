// SPDX-License-Identifier: MIT
// A file of an independent writer: tests/golden/gguf/generate.py.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/gguf_touch.h"

static gguf_file *open_sample(void)
{
    engine_error err = {""};
    gguf_file *file = gguf_open(WEFT_TEST_GOLDEN "/gguf/sample.gguf", &err);
    if (file == NULL)
        fail_msg("refused: %s", err.text);
    return file;
}

static void every_value_type_is_read(void **state)
{
    (void)state;
    gguf_file *file = open_sample();
    gguf_touch(file);
    const struct {
        const char *key, *text;
    } expected[] = {{"general.architecture", "llama"},
                    {"t.u8", "200"},
                    {"t.i8", "-100"},
                    {"t.u16", "60000"},
                    {"t.i16", "-30000"},
                    {"t.u32", "4000000000"},
                    {"t.i32", "-2000000000"},
                    {"t.u64", "18446744073709551615"},
                    {"t.i64", "-9223372036854775808"},
                    {"t.f32", "0.1"},
                    {"t.f64", "0.1"},
                    {"t.bool", "true"},
                    {"t.string", "K\xc3\xa4se \xf0\x9f\xa7\x80"},
                    {"t.strings", "3 x string"},
                    {"t.ints", "3 x i32"},
                    {"t.floats", "2 x f32"},
                    {"t.bools", "3 x bool"}};
    assert_int_equal(gguf_version(file), 3);
    assert_int_equal(gguf_key_count(file), sizeof(expected) / sizeof(expected[0]));
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        char text[64];
        const gguf_entry *entry = gguf_find(file, expected[i].key);
        assert_non_null(entry);
        assert_string_equal(gguf_value_text(entry, text, sizeof(text)), expected[i].text);
    }
    gguf_array array;
    gguf_string strings[3];
    assert_int_equal(gguf_get_array(file, "t.strings", &array), GGUF_FOUND);
    assert_true(gguf_array_strings(&array, strings));
    assert_true(gguf_string_equals(strings[1], "\xe2\x96\x81the"));
    gguf_close(file);
}

static void tensors_are_where_the_writer_put_them(void **state)
{
    (void)state;
    // As gguf.GGUFReader reports them; rows of the last four hold the bytes 0, 1, 2, ...
    const struct {
        const char *name;
        uint32_t rank;
        int64_t shape[GGUF_MAX_RANK];
        size_t size_bytes;
        bool counts_bytes;
    } expected[] = {
        {"f32", 2, {5, 2, 1, 1}, 40, false},      {"f16", 3, {64, 4, 2, 1}, 1024, false},
        {"bf16", 2, {256, 2, 1, 1}, 1024, false}, {"q4_0", 2, {256, 2, 1, 1}, 288, false},
        {"q8_0", 2, {256, 2, 1, 1}, 544, false},  {"q4_k", 2, {256, 2, 1, 1}, 288, true},
        {"q6_k", 2, {256, 2, 1, 1}, 420, true},   {"iq2_xxs", 2, {256, 2, 1, 1}, 132, true},
        {"mxfp4", 2, {256, 2, 1, 1}, 272, true}};
    gguf_file *file = open_sample();
    assert_int_equal(gguf_tensor_count(file), sizeof(expected) / sizeof(expected[0]));
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        const gguf_tensor *tensor = gguf_find_tensor(file, expected[i].name);
        assert_non_null(tensor);
        assert_string_equal(tensor->type->name, expected[i].name);
        assert_int_equal(tensor->rank, expected[i].rank);
        assert_memory_equal(tensor->shape, expected[i].shape, sizeof(tensor->shape));
        assert_int_equal(tensor->size_bytes, expected[i].size_bytes);
        const uint8_t *bytes = tensor->data;
        for (size_t b = 0; expected[i].counts_bytes && b < tensor->size_bytes; b++)
            assert_int_equal(bytes[b], b & 0xff);
    }
    const float row_ends[] = {4, 256};
    const float *f32 = gguf_find_tensor(file, "f32")->data;
    assert_memory_equal(f32 + 4, row_ends,
                        sizeof(row_ends)); // the last of row 0, the first of row 1
    gguf_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_type_is_read),
        cmocka_unit_test(tensors_are_where_the_writer_put_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
