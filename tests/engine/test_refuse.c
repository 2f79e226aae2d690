// SPDX-License-Identifier: MIT
// Model files and requests that the engine cannot serve: one line with cause and cure, nothing else.

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
#include "tests/support/gguf_tiny_model.h"
#include "tests/support/open_worker.h"
#include "tests/support/refusal.h"
#include "tests/support/scratch.h"

static const engine_options small = {.threads = 1, .context_tokens = 16, .chunk_tokens = 4};

// Puts `to` in the place of every `from` of the same length.
static void replace_text(uint8_t *bytes, size_t size_bytes, const char *from, const char *to)
{
    size_t length = strlen(from);
    assert_int_equal(length, strlen(to));
    int replaced = 0;
    for (size_t i = 0; i + length <= size_bytes; i++) {
        if (memcmp(bytes + i, from, length) != 0)
            continue;
        memcpy(bytes + i, to, length);
        replaced++;
    }
    assert_true(replaced > 0);
}

// Opens a file made of these bytes.
static engine_worker *open_bytes(const uint8_t *bytes, size_t size_bytes,
                                 const engine_options *options, engine_error *err)
{
    char path[SCRATCH_PATH_BYTES];
    scratch_file(path, bytes, size_bytes);
    engine_worker *worker = open_worker(path, options, err);
    scratch_remove(path);
    return worker;
}

static engine_worker *open_shape(const gguf_tiny_shape *shape)
{
    gguf_writer w = gguf_tiny_model(shape);
    size_t size_bytes;
    uint8_t *bytes = gguf_writer_finish(&w, &size_bytes);
    engine_error err = {""};
    engine_worker *worker = open_bytes(bytes, size_bytes, &small, &err);
    if (worker == NULL)
        fail_msg("refused: %s", err.text);
    free(bytes);
    return worker;
}

static const gguf_tiny_shape llama = {.architecture = "llama", .dim = 8};

// Writes the model with one text replaced and expects a refusal.
static void refuse_edited(const char *from, const char *to, const char *fragment)
{
    gguf_writer w = gguf_tiny_model(&llama);
    size_t size_bytes;
    uint8_t *bytes = gguf_writer_finish(&w, &size_bytes);
    replace_text(bytes, size_bytes, from, to);
    engine_error err = {""};
    assert_null(open_bytes(bytes, size_bytes, &small, &err));
    check_refusal(&err, fragment);
    free(bytes);
}

static void refuse_writer(gguf_writer *w, const char *fragment)
{
    size_t size_bytes;
    uint8_t *bytes = gguf_writer_finish(w, &size_bytes);
    engine_error err = {""};
    assert_null(open_bytes(bytes, size_bytes, &small, &err));
    check_refusal(&err, fragment);
    free(bytes);
}

static void evaluate(engine_worker *worker)
{
    engine_error err = {""};
    engine_session *session = engine_session_open(worker, &err);
    assert_non_null(session);
    engine_feed feed = {.session = session, .ids = (int32_t[]){1, 4, 5, 6, 7}, .count = 5};
    if (!engine_eval(worker, &feed, 1, NULL, NULL, &err))
        fail_msg("not evaluated: %s", err.text);
    const float *logits = engine_session_logits(session);
    for (int i = 0; i < TINY_MODEL_VOCAB; i++)
        assert_true(logits[i] == 0); // all matrices are zero
    engine_session_close(session);
}

static void smallest_models_run(void **state)
{
    (void)state;
    const gguf_tiny_shape shapes[] = {
        {.architecture = "llama", .matrix_type = 0, .dim = 8},
        {.architecture = "qwen3", .matrix_type = 1, .dim = 8},
        {.architecture = "mistral", .matrix_type = 2, .dim = 32},
        {.architecture = "mistral3", .matrix_type = 2, .dim = 32},
        {.architecture = "llama", .matrix_type = 2, .dim = 32, .experts = 3},
        // A vector is a vector also if its second dimension is written out.
        {.architecture = "llama", .matrix_type = 0, .dim = 8, .norms_in_f16 = true}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        engine_worker *worker = open_shape(&shapes[i]);
        evaluate(worker);
        close_worker(worker);
    }
}

static void unknown_architectures_are_refused(void **state)
{
    (void)state;
    gguf_writer w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "openelm", .dim = 8});
    refuse_writer(&w, "architecture 'openelm' cannot run yet: weft knows llama");
    w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "mamba", .dim = 8});
    refuse_writer(&w, "architecture 'mamba' cannot run: layers of it are no attention but a "
                      "recurrence with a state, which weft does not have");
    w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "t5encoder", .dim = 8});
    refuse_writer(&w, "a learned bias for every head and distance to the scores, which weft does "
                      "not have");
    w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "qwen3next", .dim = 8});
    refuse_writer(&w, "architecture 'qwen3next' cannot run: three of its layers in four are no "
                      "attention but a recurrence with a state (Gated DeltaNet)");
    w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "mistral3", .dim = 8});
    gguf_writer_f32(&w, "mistral3.attention.temperature_scale", 0.1f);
    refuse_writer(&w, "queries that grow with the position (Ministral 3) cannot run yet");
    refuse_edited("general.architecture", "general.architectuur", "general.architecture");
    w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "clip", .dim = 8});
    refuse_writer(&w, "is the part of a model that sees or hears");
}

// One layer of a family whose every fourth sees all keys, with what the file says of that.
static gguf_writer windowed_model(void)
{
    gguf_writer w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "exaone4", .dim = 8});
    gguf_writer_u32(&w, "exaone4.attention.sliding_window", 4);
    return w;
}

static void other_windows_are_refused(void **state)
{
    static const char key[] = "exaone4.attention.sliding_window_pattern", says[] = "with a window";
    const uint8_t windowed = 1, sees_all = 0;
    (void)state;
    gguf_writer w = windowed_model();
    gguf_writer_array(&w, key, GGUF_BOOL, &windowed, 1);
    refuse_writer(&w, "attn_q_norm.weight is missing"); // past the pattern, on to the tensors
    w = windowed_model();
    gguf_writer_array(&w, key, GGUF_BOOL, &sees_all, 1);
    refuse_writer(&w, says);
    w = windowed_model();
    gguf_writer_array(&w, key, GGUF_BOOL, &windowed, 0);
    refuse_writer(&w, says);
    w = windowed_model();
    gguf_writer_array(&w, key, GGUF_U32, &(uint32_t){1}, 1);
    refuse_writer(&w, says);
    w = windowed_model();
    gguf_writer_u32(&w, key, 4);
    refuse_writer(&w, "attn_q_norm.weight is missing");
    w = windowed_model();
    gguf_writer_u32(&w, key, 3);
    refuse_writer(&w, says);
    w = windowed_model();
    gguf_writer_string(&w, key, "LLLG");
    refuse_writer(&w, says);
}

static void formats_without_kernels_are_refused(void **state)
{
    (void)state;
    gguf_writer w =
        gguf_tiny_model(&(gguf_tiny_shape){.architecture = "llama", .matrix_type = 15, .dim = 256});
    gguf_writer_tensor(&w, "extra.weight", 26, 1, (int64_t[]){8}, NULL, 32);
    refuse_writer(&w, "cannot run yet: q8_k (8 of 12), i32 (1 of 12); it runs f32 f16 q4_0");
    // withdrawn, but there are files
    w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "llama", .matrix_type = 32, .dim = 32});
    refuse_writer(&w, "cannot run yet: q4_0_4_8 (8 of 11); it runs f32 f16 q4_0");
    // newer than this program, or of a fork
    w = gguf_tiny_model(&llama);
    gguf_writer_tensor(&w, "extra.0.weight", 99, 1, (int64_t[]){8}, NULL, 64);
    gguf_writer_tensor(&w, "extra.1.weight", 99, 1, (int64_t[]){8}, NULL, 64);
    gguf_writer_tensor(&w, "extra.2.weight", 15, 1, (int64_t[]){256}, NULL, 292);
    refuse_writer(&w, "cannot run yet: q8_k (1 of 14), type 99 (2 of 14); it runs f32 f16 q4_0");
    w = gguf_tiny_model(&llama);
    for (uint32_t i = 0; i < 16; i++) {
        char name[16];
        snprintf(name, sizeof name, "extra.%u.weight", i);
        gguf_writer_tensor(&w, name, 4000000000u + i, 1, (int64_t[]){8}, NULL, 64);
    }
    refuse_writer(&w, " and 12 more; it runs f32 f16 q4_0");
}

static void incomplete_models_are_refused(void **state)
{
    (void)state;
    refuse_edited("output_norm.weight", "output_nose.weight", "output_norm.weight is missing");
    refuse_edited("blk.0.ffn_up", "blk.1.ffn_up", "blk.0.ffn_up.weight is missing");
    refuse_edited("token_embd", "token_embt", "token_embd.weight is missing");
    refuse_edited("llama.block_count", "llama.block_kount", "'llama.block_count' is missing");
    refuse_edited("tokenizer.ggml.model", "tokenizer.ggml.modem", "'tokenizer.ggml.model' is");
    refuse_edited("tokenizer.ggml.tokens", "tokenizer.ggml.tokenz", "'tokenizer.ggml.tokens' is");
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    gguf_writer w = gguf_tiny_model(&llama);
    gguf_writer_tensor(&w, "blk.0.surprise.weight", 0, 1, (int64_t[]){8}, NULL, 32);
    refuse_writer(&w, "cannot run yet");
    w = gguf_tiny_model(&llama);
    gguf_writer_u32(&w, "llama.attention.key_length", 16);
    refuse_writer(&w, "blk.0.attn_q.weight is 8 x 8");
    w = gguf_tiny_model(&llama);
    gguf_writer_u32(&w, "llama.attention.key_length", 0x80000000u);
    refuse_writer(&w, "out of range");
    w = gguf_tiny_model(&llama);
    gguf_writer_f32(&w, "llama.attention.layer_norm_rms_epsilon", (float)NAN);
    refuse_writer(&w, "layer_norm_rms_epsilon");
    w = gguf_tiny_model(&llama);
    gguf_writer_string(&w, "llama.rope.scaling.type", "spiral");
    refuse_writer(&w, "rope scaling 'spiral'");
    w = gguf_tiny_model(&llama);
    gguf_writer_string(&w, "llama.hidden_activation", "relu");
    refuse_writer(&w, "activation 'relu' cannot run yet");
    w = gguf_tiny_model(&llama);
    gguf_writer_u32(&w, "llama.hidden_activation", 1);
    refuse_writer(&w, "llama.hidden_activation");
    w = gguf_tiny_model(&llama);
    gguf_writer_u32(&w, "llama.expert_count", 8);
    refuse_writer(&w, "'llama.expert_used_count' is missing");
    w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "qwen3", .dim = 8, .experts = 3});
    refuse_writer(&w, "a mixture of 3 experts of the family qwen3 cannot run yet");
    w = gguf_tiny_model(&llama);
    gguf_writer_u32(&w, "tokenizer.ggml.unknown_token_id", TINY_MODEL_VOCAB);
    refuse_writer(&w, "unknown");
}

// Numbers of experts that contradict each other, or the tensors.
static void odd_mixtures_are_refused(void **state)
{
    const gguf_tiny_shape mixtral = {.architecture = "llama", .dim = 8, .experts = 3};
    static const struct {
        const char *key;
        uint32_t value;
        const char *says;
    } odd[] = {{"llama.expert_feed_forward_length", 16, "ffn_gate_exps.weight is 3 x 8 x 8"},
               {"llama.expert_feed_forward_length", 0, "expert_feed_forward_length is 0"},
               {"llama.expert_group_count", 2, "1 of 3 experts cannot be chosen from 2 of 2"},
               {"llama.expert_group_count", 9, "expert_group_count is 9"},
               {"llama.expert_group_used_count", 2, "expert_group_used_count is 2"},
               {"llama.expert_gating_func", 7, "function 7"}};
    (void)state;
    close_worker(open_shape(&mixtral));
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        gguf_writer w = gguf_tiny_model(&mixtral);
        gguf_writer_u32(&w, odd[i].key, odd[i].value);
        refuse_writer(&w, odd[i].says);
    }
    gguf_writer w = gguf_tiny_model(&(gguf_tiny_shape){
        .architecture = "llama", .dim = 8, .experts = WEFT_ROUTE_MAX_EXPERTS + 1});
    refuse_writer(&w, "expert_count is 1025");
    w = gguf_tiny_model(&(gguf_tiny_shape){.architecture = "qwen3moe", .dim = 8});
    refuse_writer(&w, "qwen3moe.expert_count is missing");
    w = gguf_tiny_model(&mixtral);
    gguf_writer_f32(&w, "llama.expert_weights_scale", (float)NAN);
    refuse_writer(&w, "expert_weights_scale");
}

// A model that computes NaN must not pass for one that has nothing to say.
static void logits_that_are_no_numbers_are_refused(void **state)
{
    (void)state;
    engine_worker *worker =
        open_shape(&(gguf_tiny_shape){.architecture = "llama", .dim = 8, .norms_are_nan = true});
    const float temperatures[] = {0, 1};
    for (size_t i = 0; i < sizeof temperatures / sizeof temperatures[0]; i++) {
        engine_error err = {""};
        engine_result result;
        engine_session *session = engine_session_open(worker, &err);
        engine_generation wish = {.max_tokens = 3, .sampling.params.temperature = temperatures[i]};
        assert_false(engine_generate(session, (int32_t[]){1, 4}, 2, &wish, &result, &err));
        check_refusal(&err, "not finite numbers");
        engine_session_close(session);
    }
    // drawn by itself, without a history and with one
    engine_session *session = engine_session_open(worker, NULL);
    engine_feed feed = {.session = session, .ids = (int32_t[]){1, 4}, .count = 2};
    assert_true(engine_eval(worker, &feed, 1, NULL, NULL, NULL));
    const float penalties[] = {0, 0.5f};
    for (size_t i = 0; i < sizeof penalties / sizeof penalties[0]; i++) {
        engine_error err = {""};
        const engine_sampling sampling = {.params.presence_penalty = penalties[i]};
        int32_t token;
        assert_false(engine_sample(session, &sampling, &token, &err));
        check_refusal(&err, "not finite numbers");
    }
    engine_session_close(session);
    close_worker(worker);
}

static void impossible_options_are_refused(void **state)
{
    (void)state;
    gguf_writer w = gguf_tiny_model(&llama);
    size_t size_bytes;
    uint8_t *bytes = gguf_writer_finish(&w, &size_bytes);
    const struct {
        engine_options options;
        const char *fragment;
    } cases[] = {{{.threads = -1}, "threads"},
                 {{.threads = 10000}, "threads"},
                 {{.context_tokens = -5}, "context"},
                 {{.chunk_tokens = -5}, "chunk"},
                 {{.max_sessions = 1 << 20}, "sessions"},
                 {{.max_sessions = 4096, .context_tokens = 1 << 26, .pool_tokens = 64},
                  "page tables of 4096 sessions"},
                 {{.kv_dtype = WEFT_Q4_K}, "KV cache"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        engine_error err = {""};
        assert_null(open_bytes(bytes, size_bytes, &cases[i].options, &err));
        check_refusal(&err, cases[i].fragment);
    }
    free(bytes);
}

static void impossible_tokens_are_refused(void **state)
{
    (void)state;
    engine_worker *worker = open_shape(&llama);
    engine_error err = {""};
    engine_session *session = engine_session_open(worker, &err);
    const int32_t bad_ids[] = {-1, TINY_MODEL_VOCAB, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof bad_ids / sizeof bad_ids[0]; i++) {
        engine_feed feed = {.session = session, .ids = &bad_ids[i], .count = 1};
        assert_false(engine_eval(worker, &feed, 1, NULL, NULL, &err));
        check_refusal(&err, "");
        assert_int_equal(engine_session_length(session), 0);
    }
    int32_t ids[17] = {0};
    engine_feed feed = {.session = session, .ids = ids, .count = 17};
    assert_false(engine_eval(worker, &feed, 1, NULL, NULL, &err));
    check_refusal(&err, "16");
    feed.count = -1;
    assert_false(engine_eval(worker, &feed, 1, NULL, NULL, &err));
    assert_int_equal(engine_session_length(session), 0);
    feed.count = 16;
    assert_true(engine_eval(worker, &feed, 1, NULL, NULL, &err));
    feed.count = 1;
    assert_false(engine_eval(worker, &feed, 1, NULL, NULL, &err));
    assert_int_equal(engine_session_length(session), 16);
    engine_session_close(session);
    close_worker(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smallest_models_run),
        cmocka_unit_test(unknown_architectures_are_refused),
        cmocka_unit_test(other_windows_are_refused),
        cmocka_unit_test(formats_without_kernels_are_refused),
        cmocka_unit_test(incomplete_models_are_refused),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(odd_mixtures_are_refused),
        cmocka_unit_test(logits_that_are_no_numbers_are_refused),
        cmocka_unit_test(impossible_options_are_refused),
        cmocka_unit_test(impossible_tokens_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
