// SPDX-License-Identifier: MIT
// engine/base: errors, checked arithmetic, allocation, the read cursor, mapped files.

#define _DEFAULT_SOURCE

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/alloc.h"
#include "engine/base/checked.h"
#include "engine/base/cursor.h"
#include "engine/base/error.h"
#include "engine/base/file_map.h"
#include "engine/base/system_memory.h"
#include "engine/base/text.h"
#include "tests/support/scratch.h"

static void errors_are_one_clean_line(void **state)
{
    (void)state;
    engine_error err;
    assert_false(engine_fail(&err, "token '%s' is %d", "a\nb\x1b[31m", 7));
    assert_string_equal(err.text, "token 'a?b?[31m' is 7");
    assert_false(engine_fail_in(&err, "model.gguf"));
    assert_string_equal(err.text, "model.gguf: token 'a?b?[31m' is 7");
    assert_false(engine_fail(NULL, "nobody listens"));
    assert_false(engine_fail_in(NULL, "nobody listens"));

    char longer[2 * sizeof(err.text)];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    engine_fail(&err, "%s", longer);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

static void checked_arithmetic_refuses_wrapping(void **state)
{
    (void)state;
    size_t result;
    assert_true(checked_add(SIZE_MAX - 1, 1, &result) && result == SIZE_MAX);
    assert_false(checked_add(SIZE_MAX, 1, &result));
    assert_true(checked_mul(SIZE_MAX, 1, &result) && result == SIZE_MAX);
    assert_false(checked_mul(SIZE_MAX / 2 + 1, 2, &result));
    int64_t wide;
    assert_false(checked_add_i64(INT64_MAX, 1, &wide));
    assert_false(checked_mul_i64(INT64_MIN, -1, &wide));
    assert_true(checked_mul_i64(INT64_MAX, -1, &wide) && wide == -INT64_MAX);
    assert_true(checked_round_up(0, 32, &result) && result == 0);
    assert_true(checked_round_up(33, 32, &result) && result == 64);
    assert_true(checked_round_up(64, 32, &result) && result == 64);
    assert_false(checked_round_up(SIZE_MAX - 5, 32, &result));
    assert_true(is_power_of_two(1) && is_power_of_two(64));
    assert_false(is_power_of_two(0) || is_power_of_two(48));
}

static void texts_are_made_printable(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
    } cases[] = {{"", ""},
                 {"caf\xc3\xa9 \xe6\x97\xa5", "caf\xc3\xa9 \xe6\x97\xa5"},
                 {"a\x1b[31mb\n\x7f", "a?[31mb??"},
                 {"\xff\xfe\x9b", "???"},
                 {"\xc2\x9b"
                  "2J",
                  "??2J"},                // CSI in one character
                 {"\xe6\x97", "??"},      // cut short
                 {"\xed\xa0\x80", "???"}, // half of a surrogate pair
                 {"\xc0\xaf", "??"}};     // longer than need be
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[32];
        snprintf(text, sizeof text, "%s", cases[i].from);
        bool same = strcmp(cases[i].from, cases[i].to) == 0;
        assert_int_equal(text_is_printable(text, strlen(text)), same);
        text_make_printable(text);
        assert_string_equal(text, cases[i].to);
        assert_true(text_is_printable(text, strlen(text)));
    }
}

static void memory_is_known(void **state)
{
    (void)state;
    int64_t all = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    assert_true(system_memory_available() > 1 << 20);
    assert_true(system_memory_available() < all);
}

// However long a path is, what is wrong with the file is said.
static void long_contexts_leave_room(void **state)
{
    (void)state;
    char path[5000];
    engine_error err = {""};
    memset(path, 'a', sizeof path);
    snprintf(path + sizeof path - 12, 12, "/model.gguf");
    engine_fail(&err, "is damaged; download it again");
    engine_fail_in(&err, path);
    assert_non_null(strstr(err.text, "/model.gguf: is damaged; download it again"));
}

static void allocation_is_zeroed_and_checked(void **state)
{
    (void)state;
    uint8_t *memory = engine_alloc(3, 5);
    assert_non_null(memory);
    for (int i = 0; i < 15; i++)
        assert_int_equal(memory[i], 0);
    memory[14] = 9;
    memory = engine_realloc(memory, 100, 5);
    assert_non_null(memory);
    assert_int_equal(memory[14], 9);
    assert_null(engine_realloc(memory, SIZE_MAX / 2, 4));
    free(memory);
    assert_null(engine_alloc(SIZE_MAX / 2, 4));
    void *nothing = engine_alloc(0, 8);
    assert_non_null(nothing);
    free(nothing);
    char *copy = engine_copy_text("weft and warp", 4);
    assert_string_equal(copy, "weft");
    free(copy);
    assert_null(engine_copy_text("", SIZE_MAX));
}

static void arrays_grow(void **state)
{
    (void)state;
    int32_t *array = NULL;
    size_t room = 0;
    for (int32_t n = 0; n < 100; n++) {
        assert_true(engine_grow(&array, &room, (size_t)n + 1, sizeof *array));
        assert_true(room > (size_t)n);
        array[n] = n;
    }
    for (int32_t n = 0; n < 100; n++)
        assert_int_equal(array[n], n);
    int32_t *before = array;
    size_t had = room;
    assert_false(engine_grow(&array, &room, SIZE_MAX / 2, sizeof *array));
    assert_false(engine_grow(&array, &room, SIZE_MAX, sizeof *array));
    assert_true(array == before && room == had);
    free(array);
}

static void cursor_reads_little_endian_at_any_position(void **state)
{
    (void)state;
    const uint8_t bytes[] = {1,    0x34, 0x12, 0x78, 0x56, 0x34, 0x12, 0xef, 0xcd, 0xab,
                             0x89, 0x67, 0x45, 0x23, 0x01, 0,    0,    0xc0, 0x3f};
    cursor c = cursor_over(bytes, sizeof(bytes));
    assert_int_equal(cursor_u8(&c), 1);
    assert_int_equal(cursor_u16(&c), 0x1234);
    assert_int_equal(cursor_u32(&c), 0x12345678);
    assert_true(cursor_u64(&c) == 0x0123456789abcdef);
    assert_true(cursor_f32(&c) == 1.5f);
    assert_int_equal(cursor_remaining(&c), 0);
    assert_false(c.failed);
}

static void cursor_stays_failed(void **state)
{
    (void)state;
    const uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    cursor c = cursor_over(bytes, sizeof(bytes));
    assert_true(cursor_skip(&c, 5, 1));
    assert_int_equal(cursor_u32(&c), 0); // three bytes are left
    assert_true(c.failed);
    assert_int_equal(cursor_u8(&c), 0); // one would have been there
    assert_null(cursor_bytes(&c, 0));
    assert_false(cursor_skip(&c, 0, 1));

    c = cursor_over(bytes, sizeof(bytes));
    assert_false(cursor_skip(&c, SIZE_MAX / 4, 8)); // the product wraps
    assert_true(c.failed);
    c = cursor_over(bytes, sizeof(bytes));
    assert_null(cursor_bytes(&c, SIZE_MAX));
    assert_true(c.failed);
}

// --- mapped files -----------------------------------------------------------------------------------

static char folder[SCRATCH_PATH_BYTES];

static int make_folder(void **state)
{
    (void)state;
    scratch_folder(folder);
    return chmod(folder, 0755);
}

static int remove_folder(void **state)
{
    (void)state;
    return scratch_remove(folder);
}

static const char *path_in_folder(const char *name)
{
    static char path[SCRATCH_PATH_BYTES + 16];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void expect_no_map(const char *path, const char *fragment)
{
    engine_error err = {""};
    file_map map = {0};
    assert_false(file_map_open(&map, path, &err));
    assert_null(map.data);
    if (strstr(err.text, fragment) == NULL || strstr(err.text, path) == NULL)
        fail_msg("'%s' does not say '%s' of '%s'", err.text, fragment, path);
    assert_null(strchr(err.text, '\n'));
}

static void regular_files_are_mapped(void **state)
{
    (void)state;
    const char *path = path_in_folder("five");
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    fputs("5 byt", stream);
    fclose(stream);
    file_map map;
    engine_error err = {""};
    assert_true(file_map_open(&map, path, &err));
    assert_int_equal(map.size_bytes, 5);
    assert_memory_equal(map.data, "5 byt", 5);
    file_map_prefetch(&map, 0, SIZE_MAX);
    file_map_prefetch(&map, 3, 1);
    file_map_prefetch(&map, 77, 1);
    file_map_close(&map);
    file_map_close(&map);
    assert_null(map.data);
    unlink(path);
}

// Some huge pages and a bit: the same bytes at the same address, whatever becomes of the file.
static void files_become_memory(void **state)
{
    (void)state;
    enum { BYTES = 5000003 };
    const char *path = path_in_folder("owned");
    unsigned char *bytes = malloc(BYTES);
    assert_non_null(bytes);
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (unsigned char)(i * 7 + i / 251);
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    assert_int_equal(fwrite(bytes, 1, BYTES, stream), BYTES);
    fclose(stream);
    file_map map;
    engine_error err = {""};
    assert_true(file_map_open(&map, path, &err));
    const void *at = map.data;
    assert_true(file_map_own(&map, &err) && file_map_own(&map, &err));
    assert_ptr_equal(map.data, at);
    assert_int_equal(truncate(path, 1), 0);
    assert_memory_equal(map.data, bytes, BYTES);
    file_map_close(&map);
    file_map none = {0};
    assert_true(file_map_own(&none, &err));
    free(bytes);
    unlink(path);
}

static void what_cannot_be_mapped_is_refused(void **state)
{
    (void)state;
    expect_no_map(path_in_folder("missing"), "check the path");
    expect_no_map(folder, "is a directory");
    expect_no_map("", "check the path");

    const char *path = path_in_folder("empty");
    fclose(fopen(path, "w"));
    expect_no_map(path, "is empty");
    unlink(path);

    path = path_in_folder("pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_no_map(path, "not a regular file");
    unlink(path);
}

static void unreadable_files_are_refused(void **state)
{
    (void)state;
    const char *path = path_in_folder("secret");
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    fputs("x", stream);
    fclose(stream);
    chmod(path, 0);
    // The superuser may read anything, so become nobody for a moment.
    const uid_t nobody = 65534;
    bool was_root = geteuid() == 0;
    if (was_root && seteuid(nobody) != 0)
        skip();
    expect_no_map(path, "permissions");
    if (was_root)
        assert_int_equal(seteuid(0), 0);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_one_clean_line),
        cmocka_unit_test(checked_arithmetic_refuses_wrapping),
        cmocka_unit_test(texts_are_made_printable),
        cmocka_unit_test(memory_is_known),
        cmocka_unit_test(long_contexts_leave_room),
        cmocka_unit_test(allocation_is_zeroed_and_checked),
        cmocka_unit_test(arrays_grow),
        cmocka_unit_test(cursor_reads_little_endian_at_any_position),
        cmocka_unit_test(cursor_stays_failed),
        cmocka_unit_test(regular_files_are_mapped),
        cmocka_unit_test(files_become_memory),
        cmocka_unit_test(what_cannot_be_mapped_is_refused),
        cmocka_unit_test(unreadable_files_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
