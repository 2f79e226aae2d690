// SPDX-License-Identifier: MIT
// Good files: everything that was written comes back.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/gguf/ggml_type.h"
#include "tests/support/gguf_touch.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/scratch.h"

typedef struct opened {
    uint8_t *bytes;
    gguf_file *file;
} opened;

static opened open_finished(gguf_writer *writer)
{
    size_t size_bytes;
    engine_error err = {""};
    opened o = {.bytes = gguf_writer_finish(writer, &size_bytes)};
    o.file = gguf_open_memory(o.bytes, size_bytes, &err);
    if (o.file == NULL)
        fail_msg("refused: %s", err.text);
    gguf_touch(o.file);
    return o;
}

static void close_opened(opened *o)
{
    gguf_close(o->file);
    free(o->bytes);
}

static void empty_file_is_legal(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    opened o = open_finished(&w);
    assert_int_equal(gguf_version(o.file), 3);
    assert_int_equal(gguf_key_count(o.file), 0);
    assert_int_equal(gguf_tensor_count(o.file), 0);
    assert_int_equal(gguf_alignment(o.file), GGUF_DEFAULT_ALIGNMENT);
    close_opened(&o);
}

static void version_2_is_read(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    w.version = 2;
    gguf_writer_u32(&w, "llama.block_count", 22);
    gguf_writer_tensor(&w, "t", 0, 1, (int64_t[]){2}, (float[]){1, 2}, 8);
    opened o = open_finished(&w);
    assert_int_equal(gguf_version(o.file), 2);
    assert_int_equal(gguf_key_count(o.file), 1);
    assert_non_null(gguf_find_tensor(o.file, "t"));
    close_opened(&o);
}

static void integers_widen_and_narrow_by_value(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_u8(&w, "u8", 200);
    gguf_writer_u32(&w, "u32", 4000000000u);
    gguf_writer_i32(&w, "i32", 7);
    gguf_writer_i32(&w, "minus", -7);
    gguf_writer_u64(&w, "u64", UINT64_MAX);
    gguf_writer_i64(&w, "i64", INT64_MIN);
    opened o = open_finished(&w);

    uint32_t u32 = 0;
    int32_t i32 = 0;
    uint64_t u64 = 0;
    int64_t i64 = 0;
    assert_int_equal(gguf_get_u32(o.file, "u8", &u32), GGUF_FOUND);
    assert_int_equal(u32, 200);
    assert_int_equal(gguf_get_i32(o.file, "u8", &i32), GGUF_FOUND);
    assert_int_equal(i32, 200);
    assert_int_equal(gguf_get_u32(o.file, "i32", &u32), GGUF_FOUND);
    assert_int_equal(u32, 7);
    assert_int_equal(gguf_get_i64(o.file, "u32", &i64), GGUF_FOUND);
    assert_true(i64 == 4000000000);
    assert_int_equal(gguf_get_u64(o.file, "u64", &u64), GGUF_FOUND);
    assert_true(u64 == UINT64_MAX);
    assert_int_equal(gguf_get_i64(o.file, "i64", &i64), GGUF_FOUND);
    assert_true(i64 == INT64_MIN);
    assert_int_equal(gguf_get_i32(o.file, "minus", &i32), GGUF_FOUND);
    assert_int_equal(i32, -7);

    u32 = 99;
    assert_int_equal(gguf_get_i32(o.file, "u32", &i32), GGUF_OUT_OF_RANGE);
    assert_int_equal(gguf_get_u32(o.file, "minus", &u32), GGUF_OUT_OF_RANGE);
    assert_int_equal(gguf_get_u64(o.file, "minus", &u64), GGUF_OUT_OF_RANGE);
    assert_int_equal(gguf_get_i64(o.file, "u64", &i64), GGUF_OUT_OF_RANGE);
    assert_int_equal(gguf_get_u32(o.file, "u64", &u32), GGUF_OUT_OF_RANGE);
    assert_int_equal(gguf_get_u32(o.file, "nowhere", &u32), GGUF_MISSING);
    assert_int_equal(u32, 99);
    close_opened(&o);
}

static void other_scalars_are_read_exactly(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_f32(&w, "f32", 1e-5f);
    gguf_writer_f64(&w, "f64", 0.25);
    gguf_writer_f64(&w, "huge", 1e300);
    gguf_writer_bool(&w, "true", true);
    gguf_writer_bool(&w, "false", false);
    gguf_writer_string(&w, "general.architecture", "llama");
    gguf_writer_string(&w, "nothing", "");
    opened o = open_finished(&w);

    float f32 = 0;
    assert_int_equal(gguf_get_f32(o.file, "f32", &f32), GGUF_FOUND);
    assert_true(f32 == 1e-5f);
    assert_int_equal(gguf_get_f32(o.file, "f64", &f32), GGUF_FOUND);
    assert_true(f32 == 0.25f);
    assert_int_equal(gguf_get_f32(o.file, "huge", &f32), GGUF_OUT_OF_RANGE);
    bool boolean = false;
    assert_int_equal(gguf_get_bool(o.file, "true", &boolean), GGUF_FOUND);
    assert_true(boolean);
    assert_int_equal(gguf_get_bool(o.file, "false", &boolean), GGUF_FOUND);
    assert_false(boolean);
    gguf_string string;
    assert_int_equal(gguf_get_string(o.file, "general.architecture", &string), GGUF_FOUND);
    assert_true(gguf_string_equals(string, "llama"));
    assert_false(gguf_string_equals(string, "llam"));
    assert_false(gguf_string_equals(string, "llamas"));
    assert_int_equal(gguf_get_string(o.file, "nothing", &string), GGUF_FOUND);
    assert_int_equal(string.size_bytes, 0);
    close_opened(&o);
}

static void wrong_types_are_told_from_missing_keys(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_u32(&w, "number", 1);
    gguf_writer_string(&w, "text", "1");
    gguf_writer_array(&w, "list", GGUF_I32, (int32_t[]){1}, 1);
    opened o = open_finished(&w);

    uint32_t u32;
    float f32;
    bool boolean;
    gguf_string string;
    gguf_array array;
    assert_int_equal(gguf_get_u32(o.file, "text", &u32), GGUF_WRONG_TYPE);
    assert_int_equal(gguf_get_u32(o.file, "list", &u32), GGUF_WRONG_TYPE);
    assert_int_equal(gguf_get_f32(o.file, "number", &f32), GGUF_WRONG_TYPE);
    assert_int_equal(gguf_get_bool(o.file, "number", &boolean), GGUF_WRONG_TYPE);
    assert_int_equal(gguf_get_string(o.file, "number", &string), GGUF_WRONG_TYPE);
    assert_int_equal(gguf_get_array(o.file, "text", &array), GGUF_WRONG_TYPE);
    assert_int_equal(gguf_get_string(o.file, "gone", &string), GGUF_MISSING);

    engine_error err = {""};
    assert_false(gguf_needed(o.file, GGUF_MISSING, "gone", "a string", &err));
    assert_non_null(strstr(err.text, "'gone' is missing (a string is needed)"));
    assert_true(gguf_wanted(o.file, GGUF_MISSING, "gone", "a string", &err));
    assert_false(gguf_wanted(o.file, GGUF_WRONG_TYPE, "list", "an integer", &err));
    assert_non_null(strstr(err.text, "'list' holds an array of i32 where an integer is needed"));
    assert_false(gguf_needed(o.file, GGUF_OUT_OF_RANGE, "number", "an integer", &err));
    assert_non_null(strstr(err.text, "out of range"));
    assert_true(gguf_needed(o.file, GGUF_FOUND, "number", "an integer", &err));
    close_opened(&o);
}

static void arrays_give_their_elements(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_u8(&w, "shift", 0); // the arrays start at odd addresses
    gguf_writer_array(&w, "i32", GGUF_I32, (int32_t[]){-1, 2, INT32_MAX}, 3);
    gguf_writer_array(&w, "u64", GGUF_U64, (uint64_t[]){5, UINT64_MAX}, 2);
    gguf_writer_array(&w, "f32", GGUF_F32, (float[]){0.5f, -2}, 2);
    gguf_writer_array(&w, "bool", GGUF_BOOL, (uint8_t[]){1, 0}, 2);
    gguf_writer_array(&w, "none", GGUF_F32, NULL, 0);
    gguf_writer_strings(&w, "strings", (const char *[]){"a", "", "\xe2\x96\x81the"}, 3);
    opened o = open_finished(&w);

    gguf_array array;
    int64_t i64;
    uint32_t u32;
    float f32;
    bool boolean;
    assert_int_equal(gguf_get_array(o.file, "i32", &array), GGUF_FOUND);
    assert_int_equal(array.count, 3);
    assert_true(gguf_array_i64(&array, 0, &i64) && i64 == -1);
    assert_true(gguf_array_u32(&array, 2, &u32) && u32 == INT32_MAX);
    assert_false(gguf_array_u32(&array, 0, &u32));
    assert_false(gguf_array_f32(&array, 0, &f32));
    assert_int_equal(gguf_get_array(o.file, "u64", &array), GGUF_FOUND);
    assert_true(gguf_array_u32(&array, 0, &u32) && u32 == 5);
    assert_false(gguf_array_i64(&array, 1, &i64));
    assert_int_equal(gguf_get_array(o.file, "f32", &array), GGUF_FOUND);
    assert_true(gguf_array_f32(&array, 1, &f32) && f32 == -2);
    assert_int_equal(gguf_get_array(o.file, "bool", &array), GGUF_FOUND);
    assert_true(gguf_array_bool(&array, 0, &boolean) && boolean);
    assert_true(gguf_array_bool(&array, 1, &boolean) && !boolean);
    assert_int_equal(gguf_get_array(o.file, "none", &array), GGUF_FOUND);
    assert_int_equal(array.count, 0);

    gguf_string strings[3];
    assert_false(gguf_array_strings(&array, strings));
    assert_int_equal(gguf_get_array(o.file, "strings", &array), GGUF_FOUND);
    assert_int_equal(array.count, 3);
    assert_true(gguf_array_strings(&array, strings));
    assert_true(gguf_string_equals(strings[0], "a"));
    assert_true(gguf_string_equals(strings[1], ""));
    assert_true(gguf_string_equals(strings[2], "\xe2\x96\x81the"));
    close_opened(&o);
}

static void shallow_nested_arrays_are_walked(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_key(&w, "nested", GGUF_ARRAY);
    for (int depth = 1; depth < GGUF_MAX_ARRAY_DEPTH; depth++) {
        buffer_u32(&w.keys, GGUF_ARRAY);
        buffer_u64(&w.keys, 1);
    }
    buffer_u32(&w.keys, GGUF_STRING);
    buffer_u64(&w.keys, 1);
    buffer_string(&w.keys, "leaf");
    gguf_writer_u32(&w, "after", 5);
    opened o = open_finished(&w);
    uint32_t after = 0;
    assert_int_equal(gguf_get_u32(o.file, "after", &after), GGUF_FOUND);
    assert_int_equal(after, 5);
    close_opened(&o);
}

static void tensors_come_back_with_shape_and_data(void **state)
{
    (void)state;
    uint8_t q4_0[2 * 18];
    memset(q4_0, 0x5a, sizeof(q4_0));
    gguf_writer w = gguf_writer_new();
    gguf_writer_tensor(&w, "norm.weight", 0, 1, (int64_t[]){3}, (float[]){1, 2, 3}, 12);
    gguf_writer_tensor(&w, "proj.weight", 2, 2, (int64_t[]){32, 2}, q4_0, sizeof(q4_0));
    gguf_writer_tensor(&w, "scalar", 30, 0, NULL, (uint16_t[]){0x3f80}, 2);
    gguf_writer_tensor(&w, "iq", 16, 4, (int64_t[]){256, 1, 2, 3}, NULL, 6 * 66);
    opened o = open_finished(&w);

    assert_int_equal(gguf_tensor_count(o.file), 4);
    const gguf_tensor *norm = gguf_find_tensor(o.file, "norm.weight");
    assert_ptr_equal(norm, gguf_tensor_at(o.file, 0));
    assert_int_equal(norm->dtype, WEFT_F32);
    assert_int_equal(norm->element_count, 3);
    assert_memory_equal(norm->data, ((float[]){1, 2, 3}), 12);
    const gguf_tensor *proj = gguf_find_tensor(o.file, "proj.weight");
    assert_string_equal(proj->type->name, "q4_0");
    assert_int_equal(proj->dtype, WEFT_Q4_0);
    assert_int_equal(proj->rank, 2);
    assert_int_equal(proj->shape[0], 32);
    assert_int_equal(proj->shape[1], 2);
    assert_int_equal(proj->shape[2], 1);
    assert_int_equal(proj->size_bytes, sizeof(q4_0));
    assert_memory_equal(proj->data, q4_0, sizeof(q4_0));
    const gguf_tensor *scalar = gguf_find_tensor(o.file, "scalar");
    assert_int_equal(scalar->element_count, 1);
    assert_int_equal(scalar->dtype, WEFT_BF16);
    const gguf_tensor *iq = gguf_find_tensor(o.file, "iq");
    assert_string_equal(iq->type->name, "iq2_xxs");
    assert_int_equal(iq->size_bytes, 6 * 66);
    assert_null(gguf_find_tensor(o.file, "norm.weigh"));
    close_opened(&o);
}

static void tensors_may_be_stored_in_any_order(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_info(&w, "third", 0, 1, (int64_t[]){8}, 128); // leaves a gap before it
    gguf_writer_info(&w, "second", 0, 1, (int64_t[]){8}, 32);
    gguf_writer_info(&w, "first", 0, 1, (int64_t[]){8}, 0);
    buffer_bytes(&w.data, NULL, 128 + 32);
    opened o = open_finished(&w);
    const char *first = gguf_find_tensor(o.file, "first")->data;
    assert_ptr_equal(gguf_find_tensor(o.file, "second")->data, first + 32);
    assert_ptr_equal(gguf_find_tensor(o.file, "third")->data, first + 128);
    close_opened(&o);
}

static void alignment_key_is_obeyed(void **state)
{
    (void)state;
    for (uint32_t alignment = GGUF_MIN_ALIGNMENT; alignment <= GGUF_MAX_ALIGNMENT; alignment *= 2) {
        gguf_writer w = gguf_writer_new();
        w.alignment = alignment;
        gguf_writer_u32(&w, "general.alignment", alignment);
        gguf_writer_tensor(&w, "a", 0, 1, (int64_t[]){1}, (float[]){1}, 4);
        gguf_writer_tensor(&w, "b", 0, 1, (int64_t[]){1}, (float[]){2}, 4);
        opened o = open_finished(&w);
        assert_int_equal(gguf_alignment(o.file), alignment);
        assert_int_equal(gguf_data_offset(o.file) % alignment, 0);
        assert_true(*(const float *)gguf_find_tensor(o.file, "b")->data == 2);
        close_opened(&o);
    }
}

static void formats_are_totalled_largest_first(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_tensor(&w, "a", 0, 1, (int64_t[]){3}, NULL, 12);
    gguf_writer_tensor(&w, "b", 2, 2, (int64_t[]){32, 4}, NULL, 72);
    gguf_writer_tensor(&w, "c", 0, 1, (int64_t[]){4}, NULL, 16);
    opened o = open_finished(&w);
    gguf_format_total totals[GGUF_MAX_FORMATS];
    assert_int_equal(gguf_format_totals(o.file, totals), 2);
    assert_string_equal(totals[0].type->name, "q4_0");
    assert_int_equal(totals[0].tensor_count, 1);
    assert_int_equal(totals[0].element_count, 128);
    assert_int_equal(totals[0].size_bytes, 72);
    assert_string_equal(totals[1].type->name, "f32");
    assert_int_equal(totals[1].tensor_count, 2);
    assert_int_equal(totals[1].element_count, 7);
    assert_int_equal(totals[1].size_bytes, 28);
    assert_true(ggml_type_count() <= GGUF_MAX_FORMATS);
    close_opened(&o);
}

// Formats that nobody here knows are there by their number, as large as the room they have.
static void unknown_formats_are_named(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_tensor(&w, "a", 99, 2, (int64_t[]){33, 2}, NULL, 200);
    gguf_writer_tensor(&w, "b", 0, 1, (int64_t[]){4}, NULL, 16);
    gguf_writer_tensor(&w, "c", UINT32_MAX, 1, (int64_t[]){7}, NULL, 10);
    gguf_writer_tensor(&w, "d", 99, 1, (int64_t[]){5}, NULL, 32);
    gguf_writer_tensor(&w, "e", 4, 1, (int64_t[]){5}, NULL, 64);
    opened o = open_finished(&w);
    gguf_format_total totals[GGUF_MAX_FORMATS];
    assert_int_equal(gguf_format_totals(o.file, totals), 4);
    assert_string_equal(totals[0].type->name, "type 99");
    assert_int_equal(totals[0].tensor_count, 2);
    assert_int_equal(totals[0].size_bytes, 224 + 32);
    assert_string_equal(gguf_find_tensor(o.file, "c")->type->name, "type 4294967295");
    assert_string_equal(gguf_find_tensor(o.file, "e")->type->name, "q4_2");
    gguf_touch(o.file);
    close_opened(&o);
}

// It is formats that are limited (test_refuse.c), not their tensors.
static void many_tensors_of_an_unknown_format(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    for (int i = 0; i < 3 * GGUF_MAX_UNKNOWN; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        gguf_writer_tensor(&w, name, 99, 1, (int64_t[]){8}, NULL, 32);
    }
    opened o = open_finished(&w);
    gguf_format_total totals[GGUF_MAX_FORMATS];
    assert_int_equal(gguf_format_totals(o.file, totals), 1);
    assert_int_equal(totals[0].tensor_count, 3 * GGUF_MAX_UNKNOWN);
    close_opened(&o);
}

static void values_are_shown_as_text(void **state)
{
    (void)state;
    gguf_writer w = gguf_writer_new();
    gguf_writer_u64(&w, "u64", UINT64_MAX);
    gguf_writer_i32(&w, "i32", -5);
    gguf_writer_f32(&w, "f32", 0.5f);
    gguf_writer_bool(&w, "bool", true);
    gguf_writer_string(&w, "string", "100%s\n\x1b[2J of a long text");
    gguf_writer_array(&w, "array", GGUF_U32, (uint32_t[]){1, 2, 3}, 3);
    const char *const expected[] = {"18446744073709551615",    "-5",     "0.5", "true",
                                    "100%s??[2J of a long te", "3 x u32"};
    opened o = open_finished(&w);
    for (size_t i = 0; i < gguf_key_count(o.file); i++) {
        char text[24];
        assert_string_equal(gguf_value_text(gguf_entry_at(o.file, i), text, sizeof(text)),
                            expected[i]);
    }
    close_opened(&o);
}

static void kernel_formats_agree_with_the_library(void **state)
{
    (void)state;
    int shared = 0;
    for (uint32_t i = 0; i < ggml_type_count(); i++) {
        const ggml_type_info *type = ggml_type_find(i);
        weft_dtype same_name = type ? weft_dtype_parse(type->name) : WEFT_DTYPE_NONE;
        if (type)
            assert_int_equal(type->dtype, same_name);
        if (same_name == WEFT_DTYPE_NONE)
            continue;
        shared++;
        assert_int_equal(type->block_elements, weft_dtype_block_elems(same_name));
        assert_int_equal(type->block_bytes, weft_dtype_block_bytes(same_name));
    }
    assert_int_equal(shared, 26);
}

static void format_table_is_consistent(void **state)
{
    (void)state;
    int known = 0;
    for (uint32_t id = 0; id < ggml_type_count(); id++) {
        const ggml_type_info *type = ggml_type_find(id);
        assert_true((type == NULL) == (ggml_type_removed_name(id) != NULL));
        if (type == NULL)
            continue;
        known++;
        assert_int_equal(type->id, id);
        assert_int_equal(type->block_bytes % type->alignment_bytes, 0);
        assert_true(type->block_elements >= 1);
    }
    assert_int_equal(known, 41);
    assert_int_equal(ggml_type_count(), 43);
    assert_null(ggml_type_find(43));
    assert_null(ggml_type_find(UINT32_MAX));
    assert_null(ggml_type_removed_name(UINT32_MAX));
}

// A vocabulary of 150,000 tokens with as many merges, as today's models have.
static void large_vocabularies_open_quickly(void **state)
{
    (void)state;
    enum { VOCAB = 150000 };
    gguf_writer w = gguf_writer_new();
    const char *const keys[] = {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"};
    for (int k = 0; k < 2; k++) {
        gguf_writer_key(&w, keys[k], GGUF_ARRAY);
        buffer_u32(&w.keys, GGUF_STRING);
        buffer_u64(&w.keys, VOCAB);
        for (int i = 0; i < VOCAB; i++)
            buffer_string(&w.keys, &"piece piece"[i % 6]);
    }
    char path[SCRATCH_PATH_BYTES];
    scratch_file(path, NULL, 0);
    assert_true(gguf_writer_save(&w, path));

    double best_ms = 1e9;
    gguf_string *strings = malloc(VOCAB * sizeof(*strings));
    for (int repetition = 0; repetition < 10; repetition++) {
        clock_t start = clock();
        engine_error err = {""};
        gguf_file *file = gguf_open(path, &err);
        assert_string_equal(err.text, "");
        gguf_array array;
        assert_int_equal(gguf_get_array(file, keys[0], &array), GGUF_FOUND);
        assert_int_equal(array.count, VOCAB);
        assert_true(gguf_array_strings(&array, strings));
        double ms = 1e3 * (double)(clock() - start) / CLOCKS_PER_SEC;
        best_ms = ms < best_ms ? ms : best_ms;
        gguf_close(file);
    }
    free(strings);
    scratch_remove(path);
    print_message("opened in %.2f ms\n", best_ms);
    assert_true(best_ms < 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_file_is_legal),
        cmocka_unit_test(version_2_is_read),
        cmocka_unit_test(integers_widen_and_narrow_by_value),
        cmocka_unit_test(other_scalars_are_read_exactly),
        cmocka_unit_test(wrong_types_are_told_from_missing_keys),
        cmocka_unit_test(arrays_give_their_elements),
        cmocka_unit_test(shallow_nested_arrays_are_walked),
        cmocka_unit_test(tensors_come_back_with_shape_and_data),
        cmocka_unit_test(tensors_may_be_stored_in_any_order),
        cmocka_unit_test(alignment_key_is_obeyed),
        cmocka_unit_test(formats_are_totalled_largest_first),
        cmocka_unit_test(values_are_shown_as_text),
        cmocka_unit_test(kernel_formats_agree_with_the_library),
        cmocka_unit_test(format_table_is_consistent),
        cmocka_unit_test(unknown_formats_are_named),
        cmocka_unit_test(many_tensors_of_an_unknown_format),
        cmocka_unit_test(large_vocabularies_open_quickly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
