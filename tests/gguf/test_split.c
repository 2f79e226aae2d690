// SPDX-License-Identifier: MIT
// Models in several files: joined by their first, refused with the file at fault and the cure.
#define _DEFAULT_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/gguf_writer.h"
#include "tests/support/scratch.h"

enum { PARTS = 3 };

static char folder[SCRATCH_PATH_BYTES];

static const char *path_of(uint32_t number, uint32_t count)
{
    static char path[SCRATCH_PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/model-%05u-of-%05u.gguf", folder, number + 1, count);
    return path;
}

typedef struct part {
    uint32_t number, count, total;
    const char *tensor; // NULL: none
    float value;
} part;

static void save(const part *p, const char *path)
{
    gguf_writer w = gguf_writer_new();
    if (p->number == 0) {
        gguf_writer_string(&w, "general.name", "whole");
        gguf_writer_i32(&w, "split.tensors.count", (int32_t)p->total);
    }
    gguf_writer_u32(&w, "split.no", p->number);
    gguf_writer_u32(&w, "split.count", p->count);
    if (p->tensor) {
        float data[8] = {p->value};
        gguf_writer_tensor(&w, p->tensor, 0, 1, (int64_t[]){8}, data, sizeof data);
    }
    assert_true(gguf_writer_save(&w, path));
}

static void save_all(void)
{
    const part parts[PARTS] = {
        {0, PARTS, 2, NULL, 0}, {1, PARTS, 2, "a", 1}, {2, PARTS, 2, "b", 2}};
    for (uint32_t n = 0; n < PARTS; n++)
        save(&parts[n], path_of(n, PARTS));
}

static void expect_refusal(uint32_t number, const char *reason)
{
    engine_error err = {""};
    char path[SCRATCH_PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s", path_of(number, PARTS));
    assert_null(gguf_open(path, &err));
    if (!strstr(err.text, reason))
        fail_msg("'%s' does not say '%s'", err.text, reason);
    assert_memory_equal(err.text, folder, strlen(folder));
}

static void joins(void **state)
{
    (void)state;
    engine_error err = {""};
    save_all();
    gguf_file *file = gguf_open(path_of(0, PARTS), &err);
    assert_string_equal(err.text, "");
    assert_int_equal(gguf_part_count(file), PARTS);
    assert_int_equal(gguf_tensor_count(file), 2);
    assert_non_null(gguf_find(file, "general.name"));
    const char *names[] = {"a", "b"};
    for (int i = 0; i < 2; i++) {
        const gguf_tensor *tensor = gguf_find_tensor(file, names[i]);
        assert_ptr_equal(tensor, gguf_tensor_at(file, (size_t)i));
        assert_true(*(const float *)tensor->data == (float)(i + 1));
    }
    gguf_prefetch(file);
    gguf_close(file);
}

static void refuses(void **state)
{
    (void)state;
    save_all();
    expect_refusal(1, "is part 2 of 3 of a model: name the first one");
    save(&(part){1, PARTS, 2, "b", 1}, path_of(1, PARTS));
    expect_refusal(0, "'b' appears in two parts");
    save(&(part){2, PARTS, 2, "a", 1}, path_of(1, PARTS));
    expect_refusal(0, "is part 3 of 3, not 2 of 3");
    save(&(part){1, 4, 2, "a", 1}, path_of(1, PARTS));
    expect_refusal(0, "is part 2 of 4, not 2 of 3");
    save(&(part){1, PARTS, 2, NULL, 1}, path_of(1, PARTS));
    expect_refusal(0, "have 1 tensors, not 2");
    unlink(path_of(1, PARTS));
    expect_refusal(0, "00002-of-00003.gguf: cannot open");
    save(&(part){5, 2, 2, NULL, 1}, path_of(0, PARTS));
    expect_refusal(0, "says that it is part 6 of 2");
    save(&(part){0, 1u << 20, 2, NULL, 1}, path_of(0, PARTS));
    expect_refusal(0, "says that it is part 1 of 1048576");
    save(&(part){0, 2, 2, NULL, 1}, path_of(0, PARTS));
    expect_refusal(0, "its name does not end in -00001-of-00002.gguf");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(joins), cmocka_unit_test(refuses)};
    scratch_folder(folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return scratch_remove(folder) ? 1 : failed;
}
