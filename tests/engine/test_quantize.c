// SPDX-License-Identifier: MIT
// Model files in other formats: which tensor gets which, what is kept, importance weights, refusals that
// leave nothing behind.
#define _XOPEN_SOURCE 700
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <weft/format.h>

#include "engine/gguf/mix.h"
#include "engine/quantize/importance.h"
#include "engine/quantize/quantize.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/program.h"
#include "tests/support/refusal.h"

enum { LAYERS = 8, DIM = 256, F32 = 0, F16 = 1, Q4_0 = 2 };

static char *folder;

static const char *in_folder(const char *name)
{
    static char paths[16][256];
    static int next;
    char *path = paths[next++ % 16];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static float number(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(int32_t)*state * 0x1p-31f;
}

static void add_matrix(gguf_writer *w, const char *name, int64_t cols, float first)
{
    uint32_t state = (uint32_t)strlen(name) + (uint32_t)name[4];
    float *x = malloc((size_t)(cols * 4) * sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < cols * 4; i++)
        x[i] = number(&state) * 0.1f;
    x[0] = first;
    gguf_writer_tensor(w, name, F32, 2, (int64_t[]){cols, 4}, x, (size_t)(cols * 4) * sizeof *x);
    free(x);
}

static void write_model(const char *path, float first)
{
    static const char *const parts[] = {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_down"};
    const float ones[DIM] = {1};
    gguf_writer w = gguf_writer_new();
    gguf_writer_string(&w, "general.architecture", "llama");
    gguf_writer_u32(&w, "general.file_type", 0);
    gguf_writer_u32(&w, "llama.block_count", LAYERS);
    gguf_writer_u32(&w, "llama.attention.head_count", 8);
    gguf_writer_u32(&w, "llama.attention.head_count_kv", 2);
    gguf_writer_i64(&w, "odd.number", -7);
    gguf_writer_strings(&w, "odd.texts", (const char *[]){"a", "", "bc"}, 3);
    add_matrix(&w, "token_embd.weight", DIM, first);
    add_matrix(&w, "narrow.weight", 32, 0);
    add_matrix(&w, "odd.weight", 33, 0);
    gguf_writer_tensor(&w, "output_norm.weight", F32, 1, (int64_t[]){DIM}, ones, sizeof ones);
    for (int n = 0; n < LAYERS; n++)
        for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
            char name[64];
            snprintf(name, sizeof name, "blk.%d.%s.weight", n, parts[p]);
            add_matrix(&w, name, DIM, 0);
        }
    assert_true(gguf_writer_save(&w, path));
}

static gguf_file *make(const quantize_options *options)
{
    engine_error err = {""};
    if (!engine_quantize(in_folder("in.gguf"), in_folder("out.gguf"), options, &err))
        fail_msg("%s", err.text);
    gguf_file *file = gguf_open(in_folder("out.gguf"), &err);
    if (!file)
        fail_msg("%s", err.text);
    return file;
}

static const char *type_of(const gguf_file *file, const char *name)
{
    const gguf_tensor *tensor = gguf_find_tensor(file, name);
    assert_non_null(tensor);
    return tensor->type->name;
}

static void writes_a_mix(void **state)
{
    (void)state;
    uint32_t number32 = 0;
    int64_t number64 = 0;
    gguf_array texts;
    gguf_file *file = make(&(quantize_options){.mix = "Q4_K_M"});
    assert_string_equal(type_of(file, "token_embd.weight"), "q6_k"); // the output matrix as well
    assert_string_equal(type_of(file, "output_norm.weight"), "f32");
    assert_string_equal(type_of(file, "narrow.weight"), "q5_0");
    assert_string_equal(type_of(file, "odd.weight"), "f16");
    assert_string_equal(type_of(file, "blk.0.attn_q.weight"), "q4_k");
    // The first eighth, the last eighth, every third between.
    static const char *const v[LAYERS] = {"q6_k", "q4_k", "q4_k", "q6_k",
                                          "q4_k", "q4_k", "q6_k", "q6_k"};
    for (int n = 0; n < LAYERS; n++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.attn_v.weight", n);
        assert_string_equal(type_of(file, name), v[n]);
        snprintf(name, sizeof name, "blk.%d.ffn_down.weight", n);
        assert_string_equal(type_of(file, name), v[n]);
    }
    assert_int_equal(gguf_get_u32(file, "general.file_type", &number32), GGUF_FOUND);
    assert_int_equal(number32, 15);
    assert_int_equal(gguf_get_i64(file, "odd.number", &number64), GGUF_FOUND);
    assert_int_equal(number64, -7);
    assert_int_equal(gguf_get_array(file, "odd.texts", &texts), GGUF_FOUND);
    gguf_string strings[3];
    assert_int_equal(texts.count, 3);
    assert_true(gguf_array_strings(&texts, strings));
    assert_true(gguf_string_equals(strings[2], "bc"));
    gguf_close(file);
}

// What llama.cpp's llama_tensor_get_type_impl gives, written down tensor by tensor.
static const struct {
    const char *mix, *tensor;
    int32_t layers, heads_per_kv_head;
    bool tied, importance;
    const char *format;
} published[] = {
    {"q4_0", "blk.0.ffn_down.weight", 32, 4, false, false, "q4_0"},
    {"q4_0", "blk.3.ffn_down.weight", 32, 4, false, true, "q4_1"},
    {"q4_0", "blk.4.ffn_down.weight", 32, 4, false, true, "q4_0"},
    {"q5_0", "blk.0.ffn_down.weight", 32, 4, false, true, "q5_1"},
    {"q4_0", "output.weight", 32, 4, false, false, "q6_k"},
    {"q8_0", "output.weight", 32, 4, false, false, "q8_0"},
    {"q4_0", "token_embd.weight", 32, 4, false, false, "q4_0"},
    {"q4_0", "token_embd.weight", 32, 4, true, false, "q6_k"},
    {"q2_k", "blk.9.attn_v.weight", 32, 4, false, false, "q4_k"},
    {"q2_k", "blk.9.attn_v.weight", 32, 1, false, false, "q3_k"},
    {"q2_k", "blk.9.ffn_down.weight", 32, 4, false, false, "q3_k"},
    {"q2_k", "blk.9.attn_output.weight", 32, 4, false, false, "q3_k"},
    {"q3_k_s", "blk.0.attn_v.weight", 32, 4, false, false, "q3_k"},
    {"q3_k_m", "blk.1.attn_v.weight", 32, 4, false, false, "q5_k"},
    {"q3_k_m", "blk.2.attn_v.weight", 32, 4, false, false, "q4_k"},
    {"q3_k_m", "blk.1.ffn_down.weight", 32, 4, false, false, "q5_k"},
    {"q3_k_m", "blk.2.ffn_down.weight", 32, 4, false, false, "q4_k"},
    {"q3_k_m", "blk.2.attn_output.weight", 32, 4, false, false, "q4_k"},
    {"q3_k_m", "blk.2.ffn_up.weight", 32, 4, false, false, "q3_k"},
    {"q3_k_l", "blk.20.ffn_down.weight", 32, 4, false, false, "q5_k"},
    {"q4_k_s", "blk.3.attn_v.weight", 32, 4, false, false, "q5_k"},
    {"q4_k_s", "blk.4.attn_v.weight", 32, 4, false, false, "q4_k"},
    {"q4_k_s", "blk.3.ffn_down.weight", 32, 4, false, false, "q5_k"},
    {"q4_k_m", "blk.4.attn_v.weight", 32, 4, false, false, "q4_k"},
    {"q4_k_m", "blk.6.attn_v.weight", 32, 4, false, false, "q6_k"},
    {"q4_k_m", "blk.28.attn_v.weight", 32, 4, false, false, "q6_k"},
    {"q4_k_m", "blk.20.attn_v.weight", 80, 8, false, false, "q5_k"},
    {"q5_k_m", "blk.31.ffn_down.weight", 32, 4, false, false, "q6_k"},
    {"iq4_xs", "blk.0.ffn_down.weight", 32, 1, false, false, "q5_k"},
    {"iq4_xs", "blk.0.ffn_down.weight", 32, 1, false, true, "iq4_xs"},
    {"iq4_xs", "blk.0.attn_v.weight", 32, 4, false, true, "q5_k"},
    {"iq3_xxs", "blk.9.attn_q.weight", 32, 4, false, true, "iq2_s"},
    {"iq3_xxs", "blk.9.attn_v.weight", 32, 1, false, true, "iq3_xxs"},
    {"iq3_xxs", "blk.9.attn_v.weight", 32, 1, false, false, "iq3_s"},
    {"iq3_xxs", "blk.9.ffn_down.weight", 32, 1, false, false, "q3_k"},
    {"iq3_xs", "blk.9.ffn_up.weight", 32, 1, false, true, "iq3_xxs"},
    {"iq3_xs", "blk.3.ffn_up.weight", 32, 1, false, true, "iq3_s"},
    {"iq3_m", "blk.9.attn_output.weight", 32, 1, false, true, "q4_k"},
    {"iq2_xs", "token_embd.weight", 32, 1, false, true, "q2_k"},
    {"iq2_xs", "token_embd.weight", 32, 1, true, true, "q5_k"},
    {"iq2_s", "blk.9.attn_q.weight", 32, 1, false, true, "iq2_xs"},
    {"iq2_m", "blk.9.attn_output.weight", 32, 1, false, true, "iq3_s"},
    {"iq1_s", "blk.9.attn_output.weight", 32, 1, false, true, "iq2_xxs"},
    {"q4_k_m", "blk.0.ffn_gate_inp.weight", 32, 4, false, false, "f16"},
    {"q4_k_m", "blk.0.attn_q_norm.weight", 32, 4, false, false, "f16"},
    {"q4_k_m", "blk.0.attn_q.bias", 32, 4, false, false, "f16"},
    {"f32", "output.weight", 32, 4, false, false, "f32"},
};

static void chooses_as_published(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        const gguf_mix_facts facts = {.layers = published[i].layers,
                                      .heads_per_kv_head = published[i].heads_per_kv_head,
                                      .tied = published[i].tied,
                                      .importance = published[i].importance};
        const ggml_type_info *type =
            gguf_mix_choose(gguf_mix_find(published[i].mix), &facts, published[i].tensor, 2,
                            (int64_t[]){512, 512, 1, 1}, ggml_type_find(F16));
        if (strcmp(type->name, published[i].format) != 0)
            fail_msg("%s, %s: %s instead of %s", published[i].mix, published[i].tensor, type->name,
                     published[i].format);
    }
    const gguf_mix_facts pure = {.layers = 32, .heads_per_kv_head = 4, .pure = true};
    assert_string_equal(gguf_mix_choose(gguf_mix_find("q2_k"), &pure, "output.weight", 2,
                                        (int64_t[]){512, 512, 1, 1}, ggml_type_find(F16))
                            ->name,
                        "q2_k");
    const int64_t vector[] = {512, 1, 1, 1};
    assert_string_equal(
        gguf_mix_choose(gguf_mix_find("q2_k"), &pure, "a.weight", 2, vector, ggml_type_find(F16))
            ->name,
        "f16");
}

static void every_mix_is_written(void **state)
{
    (void)state;
    const char *mix;
    for (int32_t n = 0; (mix = engine_mix_at(n)); n++) {
        gguf_file *file = make(&(quantize_options){.mix = mix});
        assert_int_equal(gguf_tensor_count(file), 4 + LAYERS * 5);
        gguf_close(file);
    }
}

static void threads_change_nothing(void **state)
{
    (void)state;
    gguf_file *one = make(&(quantize_options){.mix = "iq4_xs", .threads = 1});
    assert_int_equal(rename(in_folder("out.gguf"), in_folder("one.gguf")), 0);
    gguf_file *three = make(&(quantize_options){.mix = "iq4_xs", .threads = 3});
    for (size_t i = 0; i < gguf_tensor_count(one); i++) {
        const gguf_tensor *a = gguf_tensor_at(one, i), *b = gguf_tensor_at(three, i);
        assert_int_equal(a->size_bytes, b->size_bytes);
        assert_memory_equal(a->data, b->data, a->size_bytes);
    }
    gguf_close(one);
    gguf_close(three);
}

typedef struct heard {
    int32_t done, stop_after;
    double error; // of blk.0.attn_q.weight
} heard;

static bool listen(void *user, const quantize_progress *p)
{
    heard *h = user;
    assert_true(p->done_fraction > 0 && p->done_fraction <= 1.000001);
    if (p->done && strcmp(p->tensor, "blk.0.attn_q.weight") == 0)
        h->error = p->relative;
    h->done += p->done;
    return h->stop_after == 0 || h->done < h->stop_after;
}

static void reports_errors(void **state)
{
    (void)state;
    heard fine = {0}, coarse = {0};
    gguf_close(make(&(quantize_options){.mix = "q6_k", .progress = listen, .user = &fine}));
    gguf_close(make(&(quantize_options){.mix = "q3_k", .progress = listen, .user = &coarse}));
    assert_int_equal(fine.done, 4 + LAYERS * 5);
    assert_true(fine.error > 0.005 && fine.error < 0.02);
    assert_true(coarse.error > 0.07 && coarse.error < 0.16);
}

static void expect_refusal(const quantize_options *options, const char *out, const char *reason)
{
    engine_error err = {""};
    unlink(in_folder("out.gguf"));
    assert_false(engine_quantize(in_folder("in.gguf"), in_folder(out), options, &err));
    if (!strstr(err.text, reason))
        fail_msg("'%s' does not say '%s'", err.text, reason);
    assert_int_equal(access(in_folder("out.gguf"), F_OK), -1);
    assert_int_equal(access(in_folder("out.gguf.part"), F_OK), -1);
}

static void refuses(void **state)
{
    (void)state;
    heard impatient = {.stop_after = 5};
    expect_refusal(&(quantize_options){.mix = "q9_k"}, "out.gguf", "no format or mix is called");
    expect_refusal(&(quantize_options){.mix = "q4_0"}, "in.gguf", "is the model that is read");
    expect_refusal(&(quantize_options){.mix = "q4_0"}, "none/out.gguf", "cannot be written");
    expect_refusal(&(quantize_options){.mix = "q4_0", .importance_path = in_folder("none")},
                   "out.gguf", "cannot open");
    expect_refusal(&(quantize_options){.mix = "q4_0", .progress = listen, .user = &impatient},
                   "out.gguf", "stopped");
    write_model(in_folder("in.gguf"), NAN);
    expect_refusal(&(quantize_options){.mix = "q4_0"}, "out.gguf", "not finite");
    write_model(in_folder("in.gguf"), 1e30f);
    expect_refusal(&(quantize_options){.mix = "q4_0"}, "out.gguf", "too large for q6_k");
    write_model(in_folder("in.gguf"), 0);
    gguf_close(make(&(quantize_options){.mix = "q4_0"}));
    assert_int_equal(rename(in_folder("out.gguf"), in_folder("in.gguf")), 0);
    expect_refusal(&(quantize_options){.mix = "q5_0"}, "out.gguf", "--requantize");
    gguf_close(make(&(quantize_options){.mix = "q5_0", .again = true}));
    write_model(in_folder("in.gguf"), 0);
}

// --- importance weights ---------------------------------------------------------------------------------

// Columns of blk.0.attn_q.weight matter, one of four a hundred times as much.
static void write_importance(const char *path, bool old, int64_t cols, float first)
{
    float sums[2 * DIM];
    const float count = 4;
    for (int i = 0; i < 2 * DIM; i++)
        sums[i] = count * (i % 4 == 0 ? 100 : 1);
    sums[0] = first;
    if (old) {
        byte_buffer b = {0};
        buffer_u32(&b, 1);
        buffer_u32(&b, 19);
        buffer_bytes(&b, "blk.0.attn_q.weight", 19);
        buffer_u32(&b, 4);
        buffer_u32(&b, (uint32_t)cols);
        buffer_bytes(&b, sums, (size_t)cols * sizeof *sums);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(b.data, 1, b.size_bytes, file), b.size_bytes);
        fclose(file);
        buffer_free(&b);
        return;
    }
    gguf_writer w = gguf_writer_new();
    gguf_writer_tensor(&w, "blk.0.attn_q.weight.in_sum2", F32, 1, &cols, sums,
                       (size_t)cols * sizeof *sums);
    gguf_writer_tensor(&w, "blk.0.attn_q.weight.counts", F32, 1, (int64_t[]){1}, &count, 4);
    assert_true(gguf_writer_save(&w, path));
}

static double weighted_error(const gguf_file *file)
{
    engine_error err = {""};
    gguf_file *in = gguf_open(in_folder("in.gguf"), &err);
    const gguf_tensor *a = gguf_find_tensor(in, "blk.0.attn_q.weight");
    const gguf_tensor *b = gguf_find_tensor(file, "blk.0.attn_q.weight");
    double sum = 0;
    for (int row = 0; row < 4; row++) {
        float y[DIM];
        const float *x = (const float *)a->data + row * DIM;
        const char *packed =
            (const char *)b->data + (size_t)row * (size_t)weft_dtype_row_bytes(b->dtype, DIM);
        assert_int_equal(weft_dequantize_row(b->dtype, packed, DIM, y), WEFT_OK);
        for (int i = 0; i < DIM; i++)
            sum += (x[i] - y[i]) * (x[i] - y[i]) * (i % 4 == 0 ? 100 : 1);
    }
    gguf_close(in);
    return sum;
}

static void weighs_columns(void **state)
{
    (void)state;
    gguf_file *plain = make(&(quantize_options){.mix = "q2_k"});
    double without = weighted_error(plain);
    gguf_close(plain);
    for (int old = 0; old < 2; old++) {
        write_importance(in_folder("imatrix"), old, DIM, 400);
        gguf_file *file =
            make(&(quantize_options){.mix = "q2_k", .importance_path = in_folder("imatrix")});
        double with = weighted_error(file);
        if (!(with < 0.7 * without))
            fail_msg("%g with importance weights, %g without", with, without);
        assert_non_null(gguf_find(file, "quantize.imatrix.file"));
        gguf_close(file);
    }
}

static void refuses_importance(void **state)
{
    (void)state;
    char path[256];
    snprintf(path, sizeof path, "%s", in_folder("imatrix"));
    const quantize_options options = {.mix = "q4_0", .importance_path = path};
    for (int old = 0; old < 2; old++) {
        write_importance(in_folder("imatrix"), old, DIM + 1, 400);
        expect_refusal(&options, "out.gguf", "not one for each of its 256 columns");
        write_importance(in_folder("imatrix"), old, DIM, -1);
        expect_refusal(&options, "out.gguf", "negative or not finite");
    }
    write_model(in_folder("imatrix"), 0);
    expect_refusal(&options, "out.gguf", "without importance weights");
    const uint32_t lies[] = {1, 19, 0, 0, 0, 0, 0, 0x7fffffff, 0x7fffffff, 0};
    engine_error err = {""};
    assert_null(importance_open_memory(lies, sizeof lies, &err));
    check_refusal(&err, "the file is damaged");
    assert_null(importance_open_memory("\0\0\0", 3, &err));
    check_refusal(&err, "no entries");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_a_mix),         cmocka_unit_test(chooses_as_published),
        cmocka_unit_test(every_mix_is_written), cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(reports_errors),       cmocka_unit_test(refuses),
        cmocka_unit_test(weighs_columns),       cmocka_unit_test(refuses_importance),
    };
    folder = folder_make();
    write_model(in_folder("in.gguf"), 0);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    folder_remove(folder);
    return failed;
}
