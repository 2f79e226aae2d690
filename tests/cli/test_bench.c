// SPDX-License-Identifier: MIT
// weft bench: every benchmark of an operation runs on a small problem and prints the rows that scripts rely on
// (test_bench_model.c has those of models).
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/support/bench_rows.h"
#include "tests/support/program.h"

static char *folder;

#define ROWS_OF(rows, ...) rows_of(folder, rows, "bench", (const char *const[]){__VA_ARGS__, NULL})

static int make_folder(void **state)
{
    (void)state;
    folder = folder_make();
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    folder_remove(folder);
    return 0;
}

static void device(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    size_t count = ROWS_OF(rows, "device", "--working-set", "1", "--threads", "1");
    assert_true(count >= 3);
    for (size_t i = 0; i < count; i++) {
        bool reads = strcmp(text(rows[i], "what"), "read") == 0;
        expect_keys(rows[i], "op device isa variant cold us_median us_min bytes flops");
        assert_true(number(rows[i], reads ? "gbps" : "gflops") > 0);
        assert_int_equal(number(rows[i], "threads"), 1);
    }
    release(rows, count);
}

static void linear(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    size_t count = ROWS_OF(rows, "linear", "--format", "q4_0,f16", "--rows", "96", "--cols", "64",
                           "--batch", "1,3", "--working-set", "1");
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        int batch = i % 2 ? 3 : 1;
        expect_figures(rows[i], "linear");
        expect_keys(rows[i], "variant exact working_set_bytes");
        assert_string_equal(text(rows[i], "format"), i < 2 ? "q4_0" : "f16");
        assert_int_equal(number(rows[i], "rows"), 96);
        assert_int_equal(number(rows[i], "cols"), 64);
        assert_int_equal(number(rows[i], "batch"), batch);
        assert_int_equal(number(rows[i], "flops"), 2 * 96 * 64 * batch);
        assert_int_equal(number(rows[i], "bytes"),
                         96 * (i < 2 ? 2 * 18 : 128) + batch * (96 + 64) * 4);
        assert_true(json_is_true(json_object_get(rows[i], "cold")));
    }
    release(rows, count);
}

// What a loaded model reads is measured and named, unless weights are to lie as in a file.
static void packed_weights_or_in_place(void **state)
{
    (void)state;
    const char tiles[] = "linear_q6_k_q8_packed_amx",
               vectors[] = "linear_q6_k_q8_packed_avx512vnni";
    const char *packed = runs_here(folder, tiles) ? tiles : vectors;
    const bool packs = runs_here(folder, packed);
    const int row_bytes = 210, panel_bytes = 320 + 8 * 384; // of 256 columns
    for (int in_place = 0; in_place < 2; in_place++) {
        json_t *rows[MOST_ROWS];
        size_t count = ROWS_OF(rows, "linear", "--format", "q6_k", "--rows", "32", "--cols", "256",
                               "--working-set", "1", in_place ? "--in-place" : "--hot");
        const bool has_panels = packs && !in_place;
        assert_int_equal(count, 1);
        assert_int_equal(strcmp(text(rows[0], "variant"), packed) == 0, has_panels);
        assert_int_equal(json_object_get(rows[0], "pack_gbps") != NULL, has_panels);
        assert_int_equal(number(rows[0], "bytes"),
                         (has_panels ? 2 * panel_bytes : 32 * row_bytes) + (256 + 32) * 4);
        release(rows, count);
    }
}

// The best way first, then what lacks a choice each.
static void choices_are_left_out(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    size_t count = ROWS_OF(rows, "linear", "--format", "q4_0", "--rows", "96", "--cols", "256",
                           "--batch", "2", "--working-set", "1", "--ablate");
    bool rounding = false, batching = false, vectors = false;
    assert_true(count > 4);
    for (size_t i = 0; i < count; i++) {
        const char *without = text(rows[i], "ablation");
        expect_figures(rows[i], "linear");
        assert_true(number(rows[i], "slower") > 0);
        rounding = rounding ||
                   (strcmp(without, "rounding") == 0 && strstr(text(rows[i], "variant"), "_f32_"));
        batching = batching || strcmp(without, "batching") == 0;
        vectors = vectors ||
                  (strcmp(without, "vectors") == 0 && strcmp(text(rows[i], "isa"), "ref") == 0);
    }
    assert_string_equal(text(rows[0], "ablation"), "nothing");
    assert_true(number(rows[0], "slower") == 1);
    assert_true(rounding && batching && vectors);
    release(rows, count);
}

// An MLP with its function in three places, the first of them the one that the engine takes; formats that round
// their input and one that does not.
static void the_function_of_an_mlp_has_three_places(void **state)
{
    (void)state;
    static const char *const places[] = {"product", "loading", "apart"};
    json_t *rows[MOST_ROWS];
    size_t count = ROWS_OF(rows, "linear", "--format", "q4_k,f16", "--rows", "256", "--cols", "512",
                           "--batch", "2", "--working-set", "1", "--gate");
    assert_int_equal(count, 6);
    for (size_t i = 0; i < count; i++) {
        expect_figures(rows[i], "mlp");
        assert_string_equal(text(rows[i], "place"), places[i % 3]);
        assert_true(number(rows[i], "slower") > 0);
        assert_int_equal(number(rows[i], "flops"), 2 * 3 * 256 * 512 * 2);
        assert_true(number(rows[i], "bytes") >= 3 * 256 * 512 / 256 * (i < 3 ? 144 : 512));
    }
    release(rows, count);
}

// The projection to the vocabulary of an 8B model, 295.5 MB of Q4_0; a 64th of it where programs run slowly.
static void the_vocabulary(void **state)
{
    (void)state;
#ifdef WEFT_TEST_SLOW
    const int vocabulary = 2004;
    const char *const words = "2004";
#else
    const int vocabulary = 128256;
    const char *const words = "128256";
#endif
    json_t *rows[MOST_ROWS];
    size_t count =
        ROWS_OF(rows, "linear", "--format", "q4_0", "--rows", words, "--cols", "4096", "--hot");
    assert_int_equal(count, 1);
    expect_figures(rows[0], "linear");
    assert_int_equal(number(rows[0], "bytes"), vocabulary * 2304 + (vocabulary + 4096) * 4);
    release(rows, count);
}

static void linear_of_one_kernel(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    size_t count = ROWS_OF(rows, "linear", "--format", "q8_0", "--rows", "32", "--cols", "64",
                           "--hot", "--exact", "--variant", "linear_q8_0_f32_ref");
    assert_int_equal(count, 1);
    expect_figures(rows[0], "linear");
    assert_string_equal(text(rows[0], "variant"), "linear_q8_0_f32_ref");
    assert_string_equal(text(rows[0], "isa"), "ref");
    assert_true(json_is_false(json_object_get(rows[0], "cold")));
    assert_true(json_is_true(json_object_get(rows[0], "exact")));
    release(rows, count);
}

static void attention(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    size_t count =
        ROWS_OF(rows, "attention", "--dtype", "f32", "--kv-dtype", "f16,f32", "--batch", "2",
                "--q-len", "1,5", "--kv-len", "40", "--heads", "4", "--kv-heads", "2", "--head-dim",
                "16", "--page-size", "8", "--mask", "window:10", "--working-set", "1");
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        int q_len = i % 2 ? 5 : 1, elem_bytes = i < 2 ? 2 : 4, keys = 10 + q_len - 1;
        expect_figures(rows[i], "attention");
        expect_keys(rows[i], "variant dtype page_size splits working_set_bytes tile_heads stages");
        assert_true(number(rows[i], "tasks") >= 2);
        assert_true(number(rows[i], "busy") > 0 && number(rows[i], "busy") <= 1);
        assert_string_equal(text(rows[i], "kv_dtype"), i < 2 ? "f16" : "f32");
        assert_string_equal(text(rows[i], "mask"), "window:10");
        assert_int_equal(number(rows[i], "q_len"), q_len);
        assert_int_equal(number(rows[i], "kv_len"), 40);
        assert_int_equal(number(rows[i], "heads"), 4);
        assert_int_equal(number(rows[i], "kv_heads"), 2);
        assert_int_equal(number(rows[i], "head_dim"), 16);
        assert_int_equal(number(rows[i], "flops"), 4 * 2 * (q_len * 10) * 4 * 16);
        assert_int_equal(number(rows[i], "bytes"),
                         2 * 2 * keys * 2 * 16 * elem_bytes + 2 * 2 * q_len * 4 * 16 * 4);
    }
    release(rows, count);
}

// One KV head and one short sequence are one task: of two workers, half are busy.
static void busy_workers_and_shares_of_heads(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    size_t count = ROWS_OF(rows, "attention", "--threads", "2", "--kv-len", "40", "--heads", "4",
                           "--kv-heads", "1", "--head-dim", "16", "--tile-heads", "4,1", "--stages",
                           "1", "--working-set", "1");
    assert_int_equal(count, 2);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(number(rows[i], "tile_heads"), i ? 1 : 4);
        assert_int_equal(number(rows[i], "stages"), 1);
        assert_int_equal(number(rows[i], "tasks"), i ? 4 : 1);
        assert_true(number(rows[i], "busy") == (i ? 1 : 0.5));
    }
    release(rows, count);
}

// Rows of scores that go through more say so: they are no baseline of others.
static void rows_say_what_scores_go_through(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    size_t count =
        ROWS_OF(rows, "attention", "--kv-len", "40", "--heads", "4", "--kv-heads", "2",
                "--head-dim", "16", "--working-set", "1", "--softcap", "30", "--sinks", "--alibi");
    assert_int_equal(count, 1);
    expect_figures(rows[0], "attention");
    assert_int_equal(number(rows[0], "softcap"), 30);
    assert_true(json_is_true(json_object_get(rows[0], "sinks")));
    assert_true(json_is_true(json_object_get(rows[0], "alibi")));
    assert_non_null(strstr(json_string_value(json_object_get(rows[0], "plan")), "softcap"));
    release(rows, count);
}

// A prefix counts once among the bytes, whoever shares it.
static void a_shared_prefix_is_read_once(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    size_t count = ROWS_OF(rows, "attention", "--batch", "3", "--kv-len", "40", "--shared", "32",
                           "--heads", "4", "--kv-heads", "2", "--head-dim", "16", "--page-size",
                           "8", "--working-set", "1");
    assert_int_equal(count, 1);
    expect_figures(rows[0], "attention");
    assert_int_equal(number(rows[0], "shared"), 32);
    assert_int_equal(number(rows[0], "bytes"), 2 * (32 + 3 * 8) * 2 * 16 * 2 + 2 * 3 * 4 * 16 * 4);
    release(rows, count);
}

// A prefix is whole pages of every sequence, and seen by all queries.
static void what_is_no_prefix_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *shared, *option, *value, *says;
    } wants[] = {{"36", "--page-size", "8", "multiple of 8"},
                 {"40", "--page-size", "8", "40 shared keys and its own"},
                 {"48", "--page-size", "8", "48 shared keys and its own"},
                 {"64", "--mask", "tree", "causal and full"},
                 {"64", "--mask", "window:8", "causal and full"},
                 {"64", "--alibi", NULL, "--alibi"},
                 {"64", "--variants", NULL, "--variants"},
                 {"64", "--precise", NULL, "--precise"}};
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        const char *const words[] = {
            WEFT_TEST_PROGRAM, "bench",         "attention",     "--kv-len",     "40",
            "--shared",        wants[i].shared, wants[i].option, wants[i].value, NULL};
        program_result result = program_run(folder, words);
        assert_int_equal(result.status, 2);
        assert_string_equal(result.out, "");
        assert_non_null(strstr(result.err, wants[i].says));
        program_result_free(&result);
    }
}

static void variants_race(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    size_t count =
        ROWS_OF(rows, "attention", "--kv-len", "40,200", "--heads", "4", "--kv-heads", "2",
                "--head-dim", "16", "--page-size", "8", "--working-set", "1", "--variants");
    int fastest = 0, unsplit = 0;
    assert_true(count % 2 == 0 && count <= 2 * 8);
    for (size_t i = 0; i < count; i++) {
        expect_figures(rows[i], "attention");
        assert_int_equal(number(rows[i], "kv_len"), i < count / 2 ? 40 : 200);
        assert_true(number(rows[i], "slower") >= 1);
        assert_string_not_equal(text(rows[i], "isa"), "ref");
        fastest += number(rows[i], "slower") == 1;
        unsplit += number(rows[i], "splits") == 1;
    }
    assert_true(count == 0 || fastest >= 2); // none but the reference in some builds
    assert_int_equal(unsplit, count / 2);
    release(rows, count);
}

// Splits and tiles apart: every pair is a row.
static void splits_cross_tiles(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    size_t count = ROWS_OF(rows, "attention", "--q-len", "9", "--kv-len", "100", "--heads", "4",
                           "--kv-heads", "2", "--head-dim", "16", "--tile-rows", "2,6", "--splits",
                           "1,3", "--working-set", "1");
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        expect_figures(rows[i], "attention");
        assert_int_equal(number(rows[i], "splits"), i < 2 ? 1 : 3);
        assert_int_equal(number(rows[i], "tile_rows"), i % 2 ? 6 : 2);
        assert_non_null(strstr(text(rows[i], "plan"), i % 2 ? "tiles of 3 " : "tiles of 1 "));
    }
    release(rows, count);
}

static void rows_in_place(void **state)
{
    (void)state;
    static const char *const ops[] = {"softmax", "softcap"};
    for (int i = 0; i < 2; i++) {
        json_t *rows[MOST_ROWS];
        size_t count = ROWS_OF(rows, ops[i], "--rows", "1,3", "--cols", "33", "--dtype", "bf16",
                               "--working-set", "1");
        assert_int_equal(count, 2);
        for (size_t r = 0; r < count; r++) {
            expect_figures(rows[r], ops[i]);
            assert_int_equal(number(rows[r], "bytes"), 2 * 2 * 33 * (r ? 3 : 1));
        }
        release(rows, count);
    }
}

// What an earlier run printed stands beside the same problems; others have nothing to stand beside.
static void speed_ups_against_a_baseline(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    char path[256];
    snprintf(path, sizeof path, "%s/before.jsonl", folder);
    FILE *file = fopen(path, "w");
    size_t count = ROWS_OF(rows, "softmax", "--cols", "40", "--working-set", "1");
    json_object_set_new(rows[0], "us_median", json_real(1e9));
    json_object_set_new(rows[0], "variant", json_string("an_older_kernel"));
    json_dumpf(rows[0], file, 0);
    fputs("\n", file);
    fclose(file);
    release(rows, count);
    count = ROWS_OF(rows, "softmax", "--cols", "40,41", "--working-set", "1", "--baseline",
                    "before.jsonl");
    assert_int_equal(count, 2);
    assert_true(number(rows[0], "baseline_us") == 1e9);
    assert_true(number(rows[0], "speed_up") > 100);
    assert_null(json_object_get(rows[1], "speed_up"));
    release(rows, count);
    const char *const bad[] = {"{\"us_median\":1}\n[]\n", "{\"op\":\"softmax\"}\n", "\x01", "{"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        file = fopen(path, "w");
        fputs(bad[i], file);
        fclose(file);
        const char *words[] = {WEFT_TEST_PROGRAM, "bench",        "softmax", "--cols", "8",
                               "--baseline",      "before.jsonl", NULL};
        program_result result = program_run(folder, words);
        assert_int_equal(result.status, 1);
        assert_non_null(strstr(result.err, "holds no rows"));
        program_result_free(&result);
    }
}

static void attention_of_a_triangle(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    size_t count = ROWS_OF(rows, "attention", "--q-len", "6", "--kv-len", "8", "--heads", "1",
                           "--kv-heads", "1", "--head-dim", "8", "--mask", "causal", "--hot");
    assert_int_equal(count, 1);
    assert_int_equal(number(rows[0], "flops"), 4 * 8 * (3 + 4 + 5 + 6 + 7 + 8));
    release(rows, count);
    count =
        ROWS_OF(rows, "attention", "--q-len", "6", "--kv-len", "8", "--heads", "1", "--kv-heads",
                "1", "--head-dim", "8", "--mask", "full", "--splits", "1,2", "--hot");
    assert_int_equal(count, 2);
    assert_int_equal(number(rows[1], "splits"), 2);
    assert_int_equal(number(rows[0], "flops"), 4 * 8 * 6 * 8);
    release(rows, count);
}

// People see a heading and aligned lines.
static void table(void **state)
{
    (void)state;
    program_result result =
        program_run(folder, (const char *const[]){WEFT_TEST_PROGRAM, "bench", "linear", "--format",
                                                  "all", "--rows", "16", "--cols", "256", "--hot",
                                                  "--seconds", "0.002", NULL});
    assert_int_equal(result.status, 0);
    assert_string_equal(result.err, "");
    size_t width = strcspn(result.out, "\n"), lines = 0;
    for (char *line = result.out; *line; line += width + 1, lines++)
        assert_int_equal(strcspn(line, "\n"), width);
    assert_true(lines >= 8);
    assert_non_null(strstr(result.out, "% roof"));
    program_result_free(&result);
}

// The precise exponential is there, and says how far the fast one is from it.
static void exponentials_differ_by_little(void **state)
{
    (void)state;
    json_t *rows[MOST_ROWS];
    size_t count = ROWS_OF(rows, "attention", "--kv-len", "300", "--heads", "4", "--kv-heads", "2",
                           "--head-dim", "64", "--precise", "--hot");
    assert_int_equal(count, 1);
    expect_figures(rows[0], "attention");
    assert_true(number(rows[0], "difference") < 1e-6);
    assert_true(number(rows[0], "difference") > 0 || strcmp(text(rows[0], "isa"), "ref") == 0);
    release(rows, count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponentials_differ_by_little),
        cmocka_unit_test(device),
        cmocka_unit_test(linear),
        cmocka_unit_test(packed_weights_or_in_place),
        cmocka_unit_test(choices_are_left_out),
        cmocka_unit_test(the_function_of_an_mlp_has_three_places),
        cmocka_unit_test(the_vocabulary),
        cmocka_unit_test(linear_of_one_kernel),
        cmocka_unit_test(attention),
        cmocka_unit_test(busy_workers_and_shares_of_heads),
        cmocka_unit_test(rows_say_what_scores_go_through),
        cmocka_unit_test(a_shared_prefix_is_read_once),
        cmocka_unit_test(what_is_no_prefix_is_refused),
        cmocka_unit_test(variants_race),
        cmocka_unit_test(splits_cross_tiles),
        cmocka_unit_test(rows_in_place),
        cmocka_unit_test(speed_ups_against_a_baseline),
        cmocka_unit_test(attention_of_a_triangle),
        cmocka_unit_test(table),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
