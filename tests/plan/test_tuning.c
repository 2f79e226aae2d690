// SPDX-License-Identifier: MIT
// Thresholds that plans choose by: who wins, how keys are rounded, what a file may say.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "src/plan/tuning.h"

static struct weft__tunings table;

static weft_tuning *add(weft_tuning entry)
{
    weft__plan_tuning_round_key(&entry);
    assert_null(weft__plan_tuning_fault(&entry));
    table.entries[table.count] = entry;
    return &table.entries[table.count++];
}

static int empty(void **state)
{
    (void)state;
    memset(&table, 0, sizeof table);
    return 0;
}

static weft_tuning attention(int32_t kv_heads, int32_t head_dim, int32_t page_size)
{
    return (weft_tuning){.op = WEFT_TUNING_ATTENTION,
                         .dtype = WEFT_F16,
                         .min_threads = 2,
                         .kv_heads = kv_heads,
                         .head_dim = head_dim,
                         .page_size = page_size};
}

static weft_tuning linear(weft_dtype dtype, int64_t rows, int64_t cols, int32_t threads)
{
    return (weft_tuning){.op = WEFT_TUNING_LINEAR,
                         .dtype = dtype,
                         .min_threads = threads,
                         .rows = rows,
                         .cols = cols};
}

static void keys_are_rounded(void **state)
{
    (void)state;
    weft_tuning key = attention(3, 80, 100);
    weft__plan_tuning_round_key(&key);
    assert_int_equal(key.kv_heads, 4);
    assert_int_equal(key.head_dim, 128);
    assert_int_equal(key.page_size, 128);
    key = attention(8, 64, 64);
    weft__plan_tuning_round_key(&key);
    assert_int_equal(key.head_dim, 64);
    key = linear(WEFT_Q4_0, 4096, 14336, 1);
    weft__plan_tuning_round_key(&key);
    assert_int_equal(key.rows, 4096);
    assert_int_equal(key.cols, 16384);
    key = linear(WEFT_Q4_0, 4097, 1, 1);
    weft__plan_tuning_round_key(&key);
    assert_int_equal(key.rows, 8192);
    assert_int_equal(key.cols, 1);
    key = (weft_tuning){.op = WEFT_TUNING_ATTENTION}; // all problems
    weft__plan_tuning_round_key(&key);
    assert_int_equal(key.kv_heads | key.head_dim | key.page_size | (int)key.rows, 0);
}

static void without_entries_the_librarys_values_hold(void **state)
{
    (void)state;
    weft_tuning key = attention(8, 128, 64), chosen = weft__plan_tuning_choose(NULL, &key);
    assert_int_equal(chosen.least_chunk, 1024);
    assert_int_equal(chosen.target_tasks, 96);
    assert_int_equal(chosen.tile_rows, 0);
    assert_int_equal(chosen.source, WEFT_TUNING_BUILT_IN);
    key = linear(WEFT_Q8_0, 1, 32, 1);
    chosen = weft__plan_tuning_choose(&table, &key);
    assert_int_equal(chosen.task_bytes, 192 * 1024);
    assert_int_equal(chosen.tasks_per_thread, 32);
    assert_int_equal(chosen.few_batch, 0);
}

// Every boundary of a key: format, shape, threads.
static void an_entry_serves_its_key_alone(void **state)
{
    (void)state;
    add((weft_tuning){.op = WEFT_TUNING_LINEAR,
                      .dtype = WEFT_Q4_0,
                      .min_threads = 16,
                      .rows = 32768,
                      .cols = 2048,
                      .task_bytes = 1 << 20});
    const struct {
        weft_tuning key;
        int32_t task_bytes;
    } cases[] = {
        {linear(WEFT_Q4_0, 32768, 2048, 16), 1 << 20},
        {linear(WEFT_Q4_0, 16385, 1025, 17), 1 << 20},
        {linear(WEFT_Q4_0, 16384, 2048, 16), 192 << 10},
        {linear(WEFT_Q4_0, 32769, 2048, 16), 192 << 10},
        {linear(WEFT_Q4_0, 32768, 2049, 16), 192 << 10},
        {linear(WEFT_Q4_0, 32768, 1024, 16), 192 << 10},
        {linear(WEFT_Q4_0, 32768, 2048, 15), 192 << 10},
        {linear(WEFT_Q4_1, 32768, 2048, 16), 192 << 10},
        {attention(8, 128, 64), 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(weft__plan_tuning_choose(&table, &cases[i].key).task_bytes,
                         cases[i].task_bytes);
}

static void the_last_entry_goes_first(void **state)
{
    (void)state;
    weft_tuning key = attention(8, 128, 64);
    add((weft_tuning){.op = WEFT_TUNING_ATTENTION,
                      .source = WEFT_TUNING_FILE,
                      .tile_rows = 32,
                      .least_chunk = 256});
    add((weft_tuning){.op = WEFT_TUNING_ATTENTION,
                      .source = WEFT_TUNING_CALLER,
                      .head_dim = 100,
                      .tile_rows = 48});
    weft_tuning chosen = weft__plan_tuning_choose(&table, &key);
    assert_int_equal(chosen.tile_rows, 48);    // the caller's
    assert_int_equal(chosen.least_chunk, 256); // it says nothing of chunks: the file's
    assert_int_equal(chosen.target_tasks, 96); // nor does the file: the library's
    assert_int_equal(chosen.source, WEFT_TUNING_CALLER);
    key.head_dim = 256;
    assert_int_equal(weft__plan_tuning_choose(&table, &key).tile_rows, 32);
}

static void values_have_bounds(void **state)
{
    (void)state;
    const weft_tuning bad[] = {
        {.op = 0},
        {.op = 3},
        {.op = WEFT_TUNING_LINEAR, .dtype = 9999},
        {.op = WEFT_TUNING_LINEAR, .few_batch = 9},
        {.op = WEFT_TUNING_LINEAR, .few_batch = -1},
        {.op = WEFT_TUNING_LINEAR, .task_bytes = 4095},
        {.op = WEFT_TUNING_LINEAR, .tasks_per_thread = 1025},
        {.op = WEFT_TUNING_LINEAR, .rows = -1},
        {.op = WEFT_TUNING_LINEAR, .cols = INT64_MAX},
        {.op = WEFT_TUNING_LINEAR, .tile_rows = 32},
        {.op = WEFT_TUNING_ATTENTION, .few_batch = 4},
        {.op = WEFT_TUNING_ATTENTION, .tile_rows = 4097},
        {.op = WEFT_TUNING_ATTENTION, .least_chunk = 65},
        {.op = WEFT_TUNING_ATTENTION, .least_chunk = 2 << 20},
        {.op = WEFT_TUNING_ATTENTION, .target_tasks = 1025},
        {.op = WEFT_TUNING_ATTENTION, .head_dim = 1025},
        {.op = WEFT_TUNING_ATTENTION, .min_threads = -1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!weft__plan_tuning_fault(&bad[i]))
            fail_msg("bad entry %zu is taken", i);
    weft_tuning endless = {.op = WEFT_TUNING_LINEAR};
    memset(endless.kernel, 'a', sizeof endless.kernel);
    assert_non_null(weft__plan_tuning_fault(&endless));
}

static bool parse(const char *text, size_t bytes)
{
    char why[160] = "";
    bool fine = weft__plan_tuning_parse(text, bytes, "m", &table, why);
    assert_true(fine || *why);
    return fine;
}

#define HEAD "weft-tuning 1\nmachine m\n"

static void a_file_comes_back(void **state)
{
    (void)state;
    char text[1024];
    const weft_tuning *entries[] = {add((weft_tuning){.op = WEFT_TUNING_LINEAR,
                                                      .dtype = WEFT_Q4_K,
                                                      .rows = (int64_t)1 << 40,
                                                      .cols = 4096,
                                                      .few_batch = 3,
                                                      .task_bytes = 1 << 16,
                                                      .tasks_per_thread = 4,
                                                      .kernel = "linear_q4_k_q8_ref"}),
                                    add((weft_tuning){.op = WEFT_TUNING_ATTENTION,
                                                      .min_threads = 8,
                                                      .kv_heads = 8,
                                                      .head_dim = 128,
                                                      .page_size = 64,
                                                      .tile_rows = 48,
                                                      .least_chunk = 512,
                                                      .target_tasks = 32})};
    assert_true(weft__plan_tuning_head("m", text, sizeof text));
    for (int i = 0; i < 2; i++) {
        size_t at = strlen(text);
        assert_true(weft__plan_tuning_format(entries[i], text + at, sizeof text - at));
        strcat(text, "\n");
    }
    weft_tuning before[2];
    memcpy(before, table.entries, sizeof before);
    table.count = 0;
    assert_true(parse(text, strlen(text)));
    assert_int_equal(table.count, 2);
    for (int i = 0; i < 2; i++) {
        before[i].size = sizeof before[i];
        before[i].source = WEFT_TUNING_FILE;
        assert_memory_equal(&table.entries[i], &before[i], sizeof before[i]);
    }
    assert_false(weft__plan_tuning_format(&before[0], text, 40));
    assert_false(weft__plan_tuning_head("m", text, 10));
}

static void hostile_files_are_refused_whole(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "weft-tuning 1\n",
        "weft-tuning 1\nmachine m", // its last line does not end
        "weft-tuning 2\nmachine m\n",
        "weft-tuning 1\nmachine n\n",
        "weft-tuning 1\nmachine mm\n",
        HEAD "linear",
        HEAD "linear\n",
        HEAD "\n",
        HEAD "softmax q4_0\n",
        HEAD "linear q9_9\n",
        HEAD "linear q4_0 few_batch\n",
        HEAD "linear q4_0 few_batch=\n",
        HEAD "linear q4_0 few_batch=-1\n",
        HEAD "linear q4_0 few_batch=0x4\n",
        HEAD "linear q4_0 few_batch=4 4\n",
        HEAD "linear q4_0 few_batch=9\n",
        HEAD "linear q4_0 few_batch=4294967300\n", // 4 in 32 bits
        HEAD "linear q4_0 rows=99999999999999999999999999\n",
        HEAD "linear q4_0 size=4\n",
        HEAD "linear q4_0 kernel=\n",
        HEAD "linear q4_0 kernel="
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
        HEAD "linear q4_0 tile_rows=4\n",
        HEAD "linear q4_0 few_batch=4\nattention f16 least_chunk=63\n",
        HEAD "linear q4_0 few_batch=4\n\xff\xfe\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (parse(bad[i], strlen(bad[i])))
            fail_msg("bad file %zu is taken", i);
        assert_int_equal(table.count, 0);
    }
    assert_false(parse(HEAD "linear q4_0 \0few_batch=4\n", sizeof HEAD - 1 + 26));
    // Every beginning of a sound file ends within a line or is sound itself; nothing is read past it.
    static const char sound[] = HEAD "# measured\nlinear q4_0 rows=100 few_batch=4\nattention *\n";
    assert_true(parse(sound, sizeof sound - 1));
    assert_int_equal(table.count, 2);
    assert_int_equal(table.entries[0].rows, 128);
    for (size_t bytes = 0; bytes < sizeof sound - 1; bytes++) {
        char *exact = malloc(bytes + 1); // a sanitizer sees what is read past it
        memcpy(exact, sound, bytes);
        table.count = 0;
        assert_int_equal(parse(exact, bytes), bytes >= sizeof HEAD - 1 && exact[bytes - 1] == '\n');
        free(exact);
    }
}

static void long_files_are_refused(void **state)
{
    (void)state;
    enum { LINES = WEFT__TUNING_MOST + 1, LINE = 11 };
    char *text = malloc(sizeof HEAD + LINES * LINE);
    strcpy(text, HEAD);
    for (int i = 0; i < WEFT__TUNING_MOST; i++)
        strcat(text, "linear f16\n");
    assert_true(parse(text, strlen(text)));
    assert_int_equal(table.count, WEFT__TUNING_MOST);
    table.count = 0;
    strcat(text, "linear f16\n");
    assert_false(parse(text, strlen(text)));
    assert_int_equal(table.count, 0);
    free(text);
    char *line = malloc(700);
    snprintf(line, 700, HEAD "# %0600d\n", 0);
    assert_false(parse(line, strlen(line)));
    free(line);
    char *huge = calloc(1, WEFT__TUNING_FILE_BYTES + 1);
    assert_false(parse(huge, WEFT__TUNING_FILE_BYTES + 1));
    free(huge);
}

// Sound files with some bytes changed, cut or doubled: taken whole or not at all, every entry within its bounds.
static void mutations_are_taken_whole_or_not(void **state)
{
    (void)state;
    static const char sound[] = HEAD "linear q4_0 rows=100 cols=256 few_batch=4 task_bytes=65536\n"
                                     "attention f16 head_dim=128 tile_rows=96 least_chunk=512\n"
                                     "linear * min_threads=16 tasks_per_thread=4 kernel=some\n";
    static const char likely[] = "0123456789=_- \n#*abcdefghijklmnopqrstuvwxyz\xff";
    char text[2 * sizeof sound];
    uint32_t seed = 1;
    for (int round = 0; round < 50000; round++) {
        size_t bytes = sizeof sound - 1;
        memcpy(text, sound, bytes);
        for (int change = 0; change < 1 + round % 4; change++) {
            seed = seed * 1664525u + 1013904223u;
            size_t at = (seed >> 8) % bytes;
            switch (seed >> 29) {
            case 0: bytes = at + 1; break;
            case 1: // doubled
                memmove(text + at + 1, text + at, bytes - at);
                bytes += bytes < sizeof text - 1;
                break;
            default: text[at] = likely[(seed >> 3) % (sizeof likely)]; break;
            }
        }
        table.count = 0;
        bool fine = parse(text, bytes);
        assert_true(fine ? table.count <= 4 : table.count == 0);
        for (int32_t i = 0; i < table.count; i++)
            assert_null(weft__plan_tuning_fault(&table.entries[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(keys_are_rounded, empty),
        cmocka_unit_test_setup(without_entries_the_librarys_values_hold, empty),
        cmocka_unit_test_setup(an_entry_serves_its_key_alone, empty),
        cmocka_unit_test_setup(the_last_entry_goes_first, empty),
        cmocka_unit_test_setup(values_have_bounds, empty),
        cmocka_unit_test_setup(a_file_comes_back, empty),
        cmocka_unit_test_setup(hostile_files_are_refused_whole, empty),
        cmocka_unit_test_setup(long_files_are_refused, empty),
        cmocka_unit_test_setup(mutations_are_taken_whole_or_not, empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
