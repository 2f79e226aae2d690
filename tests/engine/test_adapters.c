// SPDX-License-Identifier: MIT
// Adapters beside a model's weights: the logits are those of transformers with the adapter merged, several add
// up, and files that do not fit are refused.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/support/golden_model.h"
#include "tests/support/open_worker.h"
#include "tests/support/refusal.h"

enum {
    ROUGHLY =
        1, // by default, too: not where tokens go to experts, of which rounding sends some elsewhere
    BRIEFLY = 2, // once
#ifdef WEFT_TEST_SLOW
    WHERE_SLOW = BRIEFLY // where only the matrices differ from another model's
#else
    WHERE_SLOW = 0
#endif
};

static golden_written base, adapter;
static float *logits;

static void open_both(const char *model, const char *adapter_name)
{
    char name[64];
    snprintf(name, sizeof name, "models/%s.safetensors", model);
    assert_true(golden_model_open(&base, name));
    snprintf(name, sizeof name, "models/%s.safetensors", adapter_name);
    assert_true(golden_model_open(&adapter, name));
    int64_t tokens = golden_find(adapter.file, "model", "tokens")->elements;
    logits = calloc((size_t)(tokens * adapter.vocab), sizeof *logits);
    assert_non_null(logits);
}

static int close_both(void **state)
{
    (void)state;
    free(logits);
    logits = NULL;
    golden_model_close(&base);
    golden_model_close(&adapter);
    return 0;
}

static engine_options with_adapters(int32_t count, float scale)
{
    engine_options options = {.threads = 1, .kv_dtype = WEFT_F32, .exact = true, .max_sessions = 1};
    options.adapter_count = count;
    for (int32_t i = 0; i < count; i++)
        options.adapters[i] = (engine_adapter){adapter.path, scale};
    return options;
}

// Distance of all logits to transformers', over the largest.
static double distance(const engine_options *options)
{
    engine_error err = {""};
    engine_worker *worker = open_worker(base.path, options, &err);
    if (!worker)
        fail_msg("%s", err.text);
    engine_session *session = engine_session_open(worker, &err);
    assert_non_null(session);
    int32_t tokens = (int32_t)golden_find(adapter.file, "model", "tokens")->elements;
    engine_feed feed = {
        .session = session, .ids = adapter.tokens, .count = tokens, .logits = logits};
    if (!engine_eval(worker, &feed, 1, NULL, NULL, &err))
        fail_msg("%s", err.text);
    engine_session_close(session);
    close_worker(worker);
    return golden_model_distance(adapter.file, logits) /
           (float)golden_number(adapter.file, "model", "max_abs_logit", 0);
}

static void expect(engine_options options, const char *what, double most)
{
    double far = distance(&options);
    print_message("%s: off by %.2g of the largest logit\n", what, far);
    if (!(far <= most))
        fail_msg("%s: off by %g", what, far);
}

// With and without, in pieces, several, half of one.
static void agrees(const char *model, const char *name, int how)
{
    open_both(model, name);
    engine_options options = with_adapters(1, 1);
    expect(options, name, 1e-3);
    if (how & BRIEFLY)
        return;
    options.chunk_tokens = 7;
    expect(options, "chunks of 7", 1e-3);
    options.separate = true;
    expect(options, "separate runs", 1e-3);
    expect(with_adapters(2, 0.5f), "half of it, twice", 1e-3);
    options = with_adapters(2, 1);
    options.adapters[1].scale = 0;
    expect(options, "one of two at 0", 1e-3);
    engine_options rough = with_adapters(1, 1);
    rough.exact = false;
    rough.kv_dtype = WEFT_F16;
    if (how & ROUGHLY)
        expect(rough, "by default", 0.05);
    engine_options none = with_adapters(0, 1);
    assert_true(distance(&none) > 0.05);
    engine_options half = with_adapters(1, 0.5f);
    assert_true(distance(&half) > 0.01);
}

static void plain_matrices(void **state)
{
    (void)state;
    agrees("llama_f32", "llama_lora", ROUGHLY);
}

// Q, K and V are one matrix in the file, gate and up another.
static void fused_matrices(void **state)
{
    (void)state;
    agrees("phi3_f32", "phi3_lora", ROUGHLY | WHERE_SLOW);
}

// Experts of every kind: chosen and weighed in the usual way, with biases and a clamp, with a gate for the shared
// one, weighed before; their router, and an embedding and an output.
static void experts(void **state)
{
    (void)state;
    agrees("qwen3moe_f32", "qwen3moe_lora", 0);
    close_both(NULL);
    agrees("qwen2moe_f32", "qwen2moe_lora", WHERE_SLOW);
    close_both(NULL);
    agrees("gptoss_f32", "gptoss_lora", WHERE_SLOW);
    close_both(NULL);
    agrees("llama4_f32", "llama4_lora", WHERE_SLOW);
}

// All matrices of latent attention, those by heads too, where A or B is the same for all heads.
static void latent_attention(void **state)
{
    (void)state;
    agrees("deepseek2_f32", "deepseek2_lora", WHERE_SLOW);
}

// Nearly what exact activations give, with the adapters of the options; without them, something else.
static void nearly_exact(engine_options options)
{
    size_t last = (size_t)(golden_find(adapter.file, "model", "tokens")->elements - 1);
    size_t row = (size_t)adapter.vocab;
    float *exact = malloc(row * sizeof *exact), off = 0, changed = 0, largest = 0;
    assert_non_null(exact);
    distance(&options);
    memcpy(exact, logits + last * row, row * sizeof *exact);
    options.exact = false;
    distance(&options);
    for (size_t i = 0; i < row; i++) {
        off = fmaxf(off, fabsf(exact[i] - logits[last * row + i]));
        largest = fmaxf(largest, fabsf(exact[i]));
    }
    options.adapter_count = 0;
    distance(&options);
    for (size_t i = 0; i < row; i++)
        changed = fmaxf(changed, fabsf(exact[i] - logits[last * row + i]));
    free(exact);
    print_message("8-bit activations: off by %.2g, changed by %.2g, of %.2g\n", (double)off,
                  (double)changed, (double)largest);
    assert_true(off > 0 && off < 0.1f * largest);
    assert_true(changed > 0.3f * largest);
}

// Beside weights in blocks, whose readers round their input.
static void beside_blocks(void **state)
{
    (void)state;
    open_both("llama_q8_0", "llama_lora");
    nearly_exact(with_adapters(1, 1));
}

static void add_matrix(gguf_writer *w, const char *name, int64_t cols, int64_t rows)
{
    const int64_t shape[] = {cols, rows};
    float *values = malloc((size_t)(cols * rows) * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < cols * rows; i++)
        values[i] = (float)(i * 37 % 101 - 50) / 100;
    gguf_writer_tensor(w, name, 0, 2, shape, values, (size_t)(cols * rows) * sizeof *values);
    free(values);
}

// An adapter beside some matrices only: what stands before them makes rounded input for others.
static void beside_some_blocks(void **state)
{
    enum { RANK = 4, DIM = 256 };
    char path[SCRATCH_PATH_BYTES];
    gguf_writer w = gguf_writer_new();
    (void)state;
    scratch_file(path, NULL, 0);
    open_both("llama_q8_0", "llama_lora");
    gguf_writer_string(&w, "general.architecture", "llama");
    gguf_writer_string(&w, "general.type", "adapter");
    gguf_writer_string(&w, "adapter.type", "lora");
    add_matrix(&w, "blk.1.attn_q.weight.lora_a", DIM, RANK);
    add_matrix(&w, "blk.1.attn_q.weight.lora_b", RANK, DIM);
    add_matrix(&w, "blk.0.ffn_down.weight.lora_a", 2 * DIM, RANK);
    add_matrix(&w, "blk.0.ffn_down.weight.lora_b", RANK, DIM);
    assert_true(gguf_writer_save(&w, path));
    engine_options options = with_adapters(1, 1);
    options.adapters[0] = (engine_adapter){path, 1};
    nearly_exact(options);
    scratch_remove(path);
}

// The adapter with the first `from` replaced, and what follows it after `at` bytes set to value if at >= 0.
static void refuse_edited(const char *from, const char *to, int at, uint64_t value,
                          const char *fragment)
{
    size_t size_bytes, length = strlen(from), i = 0;
    char *bytes = scratch_read(adapter.path, &size_bytes);
    while (i + length <= size_bytes && memcmp(bytes + i, from, length) != 0)
        i++;
    assert_true(i + length <= size_bytes);
    memcpy(bytes + i, to, length);
    if (at >= 0)
        memcpy(bytes + i + length + at, &value, sizeof value);
    char path[SCRATCH_PATH_BYTES];
    scratch_file(path, bytes, size_bytes);
    engine_error err = {""};
    engine_options options = with_adapters(1, 1);
    options.adapters[0].path = path;
    assert_null(open_worker(base.path, &options, &err));
    scratch_remove(path);
    check_refusal(&err, fragment);
    free(bytes);
}

static void refuses(void **state)
{
    enum {
        RANK_OF_B = 4,
        ROWS_OF_B = 12,
        COLS_OF_A = 4,
        ROWS_OF_A = 12
    }; // behind the name: u32 rank
    (void)state;
    open_both("llama_f32", "llama_lora");
    engine_error err = {""};
    refuse_edited("adapter", "adopter", -1, 0, "not an adapter");
    refuse_edited("lora", "dora", -1, 0, "weft knows lora");
    refuse_edited("llama", "phi3x", -1, 0, "the model is of the family llama");
    refuse_edited("blk.0.attn_q.weight.lora_a", "blk.9.attn_q.weight.lora_a", -1, 0, "lora_b");
    refuse_edited("blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_c", -1, 0, "pair");
    refuse_edited("blk.0.attn_q.weight.lora_b", "blk.0.attn_x.weight.lora_b", -1, 0, "beside it");
    refuse_edited("blk.0.attn_q.weight.lora_b", "blk.0.attn_q.weight.lora_b", ROWS_OF_B, 255,
                  "255 rows");
    refuse_edited("blk.0.attn_q.weight.lora_b", "blk.0.attn_q.weight.lora_b", RANK_OF_B, 3,
                  "do not fit");
    refuse_edited("blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_a", COLS_OF_A, 255,
                  "do not fit");
    refuse_edited("blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_a", ROWS_OF_A, 3,
                  "do not fit");
    assert_null(engine_model_open(adapter.path, &err));
    check_refusal(&err, "is an adapter");
    engine_options options = with_adapters(1, INFINITY);
    assert_null(open_worker(base.path, &options, &err));
    check_refusal(&err, "finite");
    options.adapters[0] = (engine_adapter){base.path, 1};
    assert_null(open_worker(base.path, &options, &err));
    check_refusal(&err, "not an adapter");
    options.adapter_count = ENGINE_MAX_ADAPTERS + 1;
    assert_null(open_worker(base.path, &options, &err));
    check_refusal(&err, "too many");
}

static void refuses_of_stacks(void **state)
{
    enum { MATRICES = 20 }; // behind the name
    (void)state;
    open_both("llama4_f32", "llama4_lora");
    refuse_edited("blk.1.ffn_gate_exps.weight.lora_a", "blk.1.ffn_gate_exps.weight.lora_a",
                  MATRICES, 1, "do not fit");
    refuse_edited("blk.1.ffn_down_exps.weight.lora_b", "blk.1.ffn_down_exps.weight.lora_b", 12, 255,
                  "255 rows");
    refuse_edited("token_embd.weight.lora_a", "token_embd.weight.lora_a", 12, 319, "rows");
    refuse_edited("token_embd.weight.lora_a", "token_embe.weight.lora_a", -1, 0, "beside it");
    close_both(NULL);
    open_both("deepseek2_f32", "deepseek2_lora");
    refuse_edited("blk.0.attn_k_b.weight.lora_a", "blk.0.attn_k_b.weight.lora_a", MATRICES, 3,
                  "do not fit");
}

// Writes the bytes to the path and opens a worker with the adapter that they are.
static engine_worker *worker_with(const char *path, const char *bytes, size_t size_bytes)
{
    engine_error err = {""};
    engine_options options = with_adapters(1, 1);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size_bytes, file), size_bytes);
    fclose(file);
    options.adapters[0].path = path;
    engine_worker *worker = open_worker(base.path, &options, &err);
    if (!worker)
        fail_msg("%s", err.text);
    return worker;
}

// A timeline in a file belongs to what the adapter holds, not to where it lies.
static void saved_pages_are_of_one_adapter(void **state)
{
    char path[SCRATCH_PATH_BYTES], other[SCRATCH_PATH_BYTES], pages[SCRATCH_PATH_BYTES];
    engine_error err = {""};
    size_t size_bytes;
    (void)state;
    scratch_file(path, NULL, 0);
    scratch_file(other, NULL, 0);
    scratch_file(pages, NULL, 0);
    open_both("llama_f32", "llama_lora");
    char *bytes = scratch_read(adapter.path, &size_bytes);
    for (int n = 0; n < 3; n++) { // the adapter, the same elsewhere, another in its place
        const char *where = n == 1 ? other : path;
        bytes[size_bytes - 2] ^= n == 2;
        engine_worker *worker = worker_with(where, bytes, size_bytes);
        engine_session *session = engine_session_open(worker, &err);
        engine_feed feed = {.session = session, .ids = adapter.tokens, .count = 3};
        if (n == 0)
            assert_true(engine_eval(worker, &feed, 1, NULL, NULL, &err) &&
                        engine_session_save(session, pages, &err));
        else
            assert_int_equal(engine_session_restore(session, pages, &err), n == 1);
        engine_session_close(session);
        close_worker(worker);
    }
    check_refusal(&err, "another model");
    free(bytes);
    scratch_remove(path);
    scratch_remove(other);
    scratch_remove(pages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(plain_matrices, close_both),
        cmocka_unit_test_teardown(fused_matrices, close_both),
        cmocka_unit_test_teardown(experts, close_both),
        cmocka_unit_test_teardown(latent_attention, close_both),
        cmocka_unit_test_teardown(beside_blocks, close_both),
        cmocka_unit_test_teardown(beside_some_blocks, close_both),
        cmocka_unit_test_teardown(refuses, close_both),
        cmocka_unit_test_teardown(refuses_of_stacks, close_both),
        cmocka_unit_test_teardown(saved_pages_are_of_one_adapter, close_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
