// SPDX-License-Identifier: MIT
// Model folders: safetensors, config.json and tokenizer.json against transformers and tokenizers: logits however
// the tokens are cut, and greedy tokens; as GGUF files through quantize.
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
#include "tests/support/checkpoint_copy.h"
#include "tests/support/checkpoint_run.h"
#include "tests/support/open_worker.h"

static const char *const models[] = {
    "llama",       "qwen3_mlx",       "qwen2_fp8",     "qwen2_moe",
    "mixtral",     "gemma",           "gemma2",        "gemma3_text",
    "phi3",        "olmo2",           "granite",       "glm4",
    "smollm3",     "cohere",          "cohere2",       "phi",
    "phi3_long",   "stablelm",        "starcoder2",    "gpt2",
    "gpt_neox",    "falcon",          "falcon_new",    "exaone",
    "exaone4",     "minicpm",         "dots1",         "deepseek_v2",
    "deepseek_v3", "gpt_oss",         "gpt_oss_bf16",  "gemma3",
    "llama4",      "llama4_text",     "mistral",       "qwen3_moe",
    "olmoe",       "qwen3_moe_mlx",   "mixtral_mlx",   "olmoe_mlx",
    "gpt_oss_mlx", "deepseek_v3_mlx", "phi3_mlx",      "qwen3_moe_mxfp4",
    "qwen3_mxfp8", "qwen3_nvfp4",     "qwen3_moe_fp8", "deepseek_v3_moe_fp8",
    "qwen2",       "qwen3",           "glm",
};
enum { MODEL_COUNT = sizeof models / sizeof *models, MAX_TOKENS = 256 };

static void logits_equal_transformers(void **state)
{
    (void)state;
    golden *greedy = golden_open("checkpoints/greedy.safetensors");
    for (int i = 0; i < MODEL_COUNT; i++) {
        engine_error err = {""};
        golden *file = checkpoint_golden(models[i]);
        engine_model *model = engine_model_open(checkpoint_golden_folder(models[i]), &err);
        if (!model)
            fail_msg("%s", err.text);
        double off = checkpoint_distance_however_cut(model, file);
        if (!(off < 2e-5))
            fail_msg("%s: off by %g", models[i], off);
        checkpoint_expect_greedy(models[i], model, file, greedy);
        engine_model_close(model);
        golden_close(file);
    }
    golden_close(greedy);
}

static double distance_edited(const char *name, const char *from, const char *to)
{
    checkpoint_copy copy;
    engine_error err = {""};
    golden *file = checkpoint_golden(name);
    checkpoint_copy_open(&copy, name);
    checkpoint_copy_edit(&copy, "config.json", from, to);
    engine_model *model = engine_model_open(copy.folder, &err);
    if (!model)
        fail_msg("%s", err.text);
    double off = checkpoint_distance(model, file);
    engine_model_close(model);
    checkpoint_copy_close(&copy);
    golden_close(file);
    return off;
}

// The feed-forward's function is the config's, not the family's; but what Gemma's first configs call gelu is
// its tanh form.
static void function_of_the_config(void **state)
{
    (void)state;
    assert_true(
        distance_edited("gpt_neox", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"silu\"") > 1e-2);
    double tanh_off =
        distance_edited("starcoder2", "\"gelu_pytorch_tanh\"", "\"gelu\"             ");
    assert_true(tanh_off > 2e-5 && tanh_off < 1e-2);
    assert_true(distance_edited("starcoder2", "\"gelu_pytorch_tanh\"", "\"gelu_fast\"        ") <
                2e-5);
    assert_true(distance_edited("gemma", "\"gelu_pytorch_tanh\"", "\"gelu\"             ") < 2e-5);
}

// With activations rounded to 8 bits, as they are by default.
static void rounded_activations_stay_near(void **state)
{
    (void)state;
    engine_error err = {""};
    golden *file = checkpoint_golden("qwen3_mlx");
    const int32_t *tokens = golden_data(file, "model", "tokens", GOLDEN_I32);
    int32_t count = (int32_t)golden_find(file, "model", "tokens")->elements;
    int64_t vocab = golden_find(file, "model", "logits")->shape[1];
    const float *want =
        (const float *)golden_data(file, "model", "logits", GOLDEN_F32) + (count - 1) * vocab;
    engine_model *model = engine_model_open(checkpoint_golden_folder("qwen3_mlx"), &err);
    engine_worker *worker = model ? open_worker_of(model, NULL, &err) : NULL;
    engine_session *session = worker ? engine_session_open(worker, &err) : NULL;
    if (!session)
        fail_msg("%s", err.text);
    engine_feed feed = {.session = session, .ids = tokens, .count = count};
    assert_true(engine_eval(worker, &feed, 1, NULL, NULL, &err));
    const float *logits = engine_session_logits(session);
    double sum = 0, square = 0;
    for (int64_t i = 0; i < vocab; i++) {
        sum += (logits[i] - want[i]) * (logits[i] - want[i]);
        square += want[i] * want[i];
    }
    assert_true(sqrt(sum / square) < 0.03);
    engine_session_close(session);
    engine_worker_close(worker);
    engine_model_close(model);
    golden_close(file);
}

static void tokenizer_equals_tokenizers(void **state)
{
    (void)state;
    for (int i = 0; i < MODEL_COUNT; i++) {
        engine_error err = {""};
        golden *file = checkpoint_golden(models[i]);
        const char *text = golden_text(file, "model", "text");
        const int32_t *want = golden_data(file, "model", "tokens", GOLDEN_I32);
        int32_t count = (int32_t)golden_find(file, "model", "tokens")->elements;
        engine_model *model = engine_model_open(checkpoint_golden_folder(models[i]), &err);
        if (!model)
            fail_msg("%s", err.text);
        tokenizer_ids ids = {0};
        assert_true(tokenizer_encode(engine_model_tokenizer(model), text, strlen(text),
                                     TOKENIZER_ADD_SPECIAL, &ids, &err));
        assert_int_equal(ids.count, count);
        assert_memory_equal(ids.ids, want, (size_t)count * sizeof *want);
        tokenizer_ids_free(&ids);
        engine_model_close(model);
        golden_close(file);
    }
}

static void other_names_of_the_folder(void **state)
{
    (void)state;
    static const char *const inside[] = {"config.json", "model-00001-of-00002.safetensors"};
    for (size_t i = 0; i < 2; i++) {
        engine_error err = {""};
        char path[512];
        snprintf(path, sizeof path, "%s/%s", checkpoint_golden_folder("llama"), inside[i]);
        gguf_file *file = model_file_open(path, &err);
        if (!file)
            fail_msg("%s", err.text);
        assert_non_null(gguf_find(file, "tokenizer.chat_template"));
        gguf_close(file);
    }
}

// What is not for text is left out and named.
static void names_what_it_leaves_out(void **state)
{
    (void)state;
    engine_error err = {""};
    gguf_string text;
    gguf_file *file = model_file_open(checkpoint_golden_folder("gemma3"), &err);
    if (!file)
        fail_msg("%s", err.text);
    assert_int_equal(gguf_get_string(file, "weft.left_out", &text), GGUF_FOUND);
    assert_true(gguf_string_equals(text, "2 tensors for images or sound"));
    assert_null(
        gguf_find_tensor(file, "vision_tower.vision_model.embeddings.patch_embedding.bias"));
    gguf_close(file);
}

// A folder becomes a GGUF file that computes the same.
static void becomes_a_gguf_file(void **state)
{
    (void)state;
    for (int i = 0; i < MODEL_COUNT; i++) {
        engine_error err = {""};
        golden *file = checkpoint_golden(models[i]);
        char out[SCRATCH_PATH_BYTES];
        scratch_file(out, NULL, 0);
        if (!engine_quantize(checkpoint_golden_folder(models[i]), out,
                             &(quantize_options){.mix = "f32", .again = true}, &err))
            fail_msg("%s", err.text);
        engine_model *model = engine_model_open(out, &err);
        if (!model)
            fail_msg("%s", err.text);
        assert_true(checkpoint_distance(model, file) < 2e-5);
        engine_model_close(model);
        scratch_remove(out);
        golden_close(file);
    }
}

// --- encoders ------------------------------------------------------------------------------------------------

static double largest_distance(const float *is, const float *want, int64_t count)
{
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double d = fabs((double)is[i] - want[i]);
        worst = d <= worst ? worst : isnan(d) ? INFINITY : d;
        largest = fmax(largest, fabs((double)want[i]));
    }
    return worst / largest;
}

static void check_encoder(const char *name, const char *path)
{
    engine_error err = {""};
    golden *file = checkpoint_golden(name);
    const float *want = golden_data(file, "model", "states", GOLDEN_F32);
    int64_t elements = golden_find(file, "model", "states")->elements;
    engine_text text = {.ids = golden_data(file, "model", "tokens", GOLDEN_I32),
                        .count = (int32_t)golden_find(file, "model", "tokens")->elements};
    engine_model *model = engine_model_open(path, &err);
    engine_worker *worker =
        !model
            ? NULL
            : open_worker_of(model,
                             &(engine_options){.exact = true, .kv_dtype = WEFT_F32, .threads = 1},
                             &err);
    float vector[64] = {0};
    const golden_tensor *scores = golden_find(file, "model", "scores");
    text.states = calloc((size_t)elements, sizeof *text.states);
    bool ranks = scores != NULL;
    if (!worker || !text.states ||
        !engine_embed(
            worker, &text, 1,
            &(engine_embedding){.pooling = ranks ? ENGINE_POOLING_RANK : ENGINE_POOLING_MEAN},
            vector, &err))
        fail_msg("%s: %s", name, err.text);
    double off = largest_distance(text.states, want, elements);
    if (ranks)
        off = fmax(off, largest_distance(vector, golden_data(file, "model", "scores", GOLDEN_F32),
                                         scores->elements));
    // A folder of a class that gives scores says so.
    assert_int_equal(engine_embedding_dim(model, ENGINE_POOLING_DEFAULT),
                     ranks ? scores->elements : golden_find(file, "model", "states")->shape[1]);
    if (!(off < 2e-5))
        fail_msg("%s: off by %g", path, off);
    free(text.states);
    engine_worker_close(worker);
    engine_model_close(model);
    golden_close(file);
}

static const char *const encoders[] = {
    "bert",       "jina_bert_v2",   "nomic_bert_hf",    "xlm_roberta",          "nomic_bert",
    "modernbert", "nomic_bert_moe", "modernbert_rank",  "modernbert_rank_mean", "eurobert",
    "jina_code",  "jina_rank",      "xlm_roberta_flash"};
enum { ENCODER_COUNT = sizeof encoders / sizeof *encoders };

static void encoders_equal_transformers(void **state)
{
    (void)state;
    for (int i = 0; i < ENCODER_COUNT; i++)
        check_encoder(encoders[i], checkpoint_golden_folder(encoders[i]));
}

// RoBERTa's folders differ from XLM-R's in what they call themselves, as far as the model goes.
static void roberta_is_read(void **state)
{
    (void)state;
    checkpoint_copy copy;
    checkpoint_copy_open(&copy, "xlm_roberta");
    checkpoint_copy_edit(&copy, "config.json", "\"model_type\": \"xlm-roberta\"",
                         "\"model_type\": \"roberta\"    ");
    check_encoder("xlm_roberta", copy.folder);
    checkpoint_copy_close(&copy);
}

static void encoders_become_gguf_files(void **state)
{
    (void)state;
    for (int i = 0; i < ENCODER_COUNT; i++) {
        engine_error err = {""};
        char out[SCRATCH_PATH_BYTES];
        scratch_file(out, NULL, 0);
        if (!engine_quantize(checkpoint_golden_folder(encoders[i]), out,
                             &(quantize_options){.mix = "f32", .again = true}, &err))
            fail_msg("%s", err.text);
        check_encoder(encoders[i], out);
        scratch_remove(out);
    }
}

// A bias of experts that is all zero is left out: other programs' files have none.
static void idle_biases_are_left_out(void **state)
{
    (void)state;
    engine_error err = {""};
    gguf_file *file = model_file_open(checkpoint_golden_folder("nomic_bert_moe"), &err);
    if (!file)
        fail_msg("%s", err.text);
    assert_non_null(gguf_find_tensor(file, "blk.1.ffn_down.bias"));
    assert_null(gguf_find_tensor(file, "blk.3.ffn_down.bias"));
    assert_non_null(gguf_find_tensor(file, "blk.3.ffn_down_exps.weight"));
    gguf_close(file);
}

// What lies beside codes counts: two scales in bf16 for 32 elements of half a byte.
static void scales_are_counted(void **state)
{
    (void)state;
    engine_error err = {""};
    engine_model_info info;
    engine_model *model = engine_model_open(checkpoint_golden_folder("qwen3_moe_mlx"), &err);
    if (!model)
        fail_msg("%s", err.text);
    const gguf_file *file = engine_model_file(model);
    const gguf_tensor *experts = gguf_find_tensor(file, "blk.1.ffn_down_exps.weight");
    assert_int_equal(experts->element_count, 4 * 64 * 64);
    assert_int_equal(gguf_tensor_bytes(experts), 4 * 64 * (32 + 2 * 2 * 2));
    int64_t all = 0, idle = 0;
    for (size_t i = 0; i < gguf_tensor_count(file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(file, i);
        all += gguf_tensor_bytes(tensor);
        if (strcmp(tensor->name, "token_embd.weight") == 0)
            idle += gguf_tensor_bytes(tensor); // there is an output matrix
        else if (strstr(tensor->name, "_exps."))
            idle += gguf_tensor_bytes(tensor) / 2; // two experts of four
    }
    engine_model_describe(model, &info);
    assert_int_equal(info.weight_bytes, all);
    assert_int_equal(info.streamed_bytes, all - idle);
    engine_model_close(model);
}

// --- integers -------------------------------------------------------------------------------------------

// Element (row, col) of a matrix in codes with planes, or in f32: written down apart from what reads it.
static float element(const gguf_tensor *t, int64_t row, int64_t col)
{
    const gguf_planes *planes = &t->planes;
    int64_t cols = t->shape[0], at = row * cols + col;
    if (t->dtype == WEFT_F32)
        return ((const float *)t->data)[at];
    if (t->dtype == WEFT_INT8) {
        uint32_t bits = (uint32_t)((const uint16_t *)planes->scales)[row] << 16;
        float scale;
        memcpy(&scale, &bits, sizeof scale);
        return (float)((const int8_t *)t->data)[at] * scale;
    }
    bool four =
        t->dtype == WEFT_MLX_Q4_G32 || t->dtype == WEFT_MLX_Q4_G64 || t->dtype == WEFT_MLX_Q4_G128;
    const uint8_t *codes = t->data;
    int code = four ? codes[at / 2] >> (at % 2 * 4) & 15 : codes[at];
    int64_t group = row * (cols / planes->scale_cols) + col / planes->scale_cols;
    return (float)code * ((const float *)planes->scales)[group] +
           ((const float *)planes->biases)[group];
}

static void expect_matrix(const gguf_file *file, const char *name, const golden *wanted,
                          const char *golden_name)
{
    const gguf_tensor *tensor = gguf_find_tensor(file, name);
    const float *want = golden_data(wanted, "model", golden_name, GOLDEN_F32);
    const golden_tensor *shape = golden_find(wanted, "model", golden_name);
    assert_non_null(tensor);
    assert_int_equal(tensor->shape[0], shape->shape[1]);
    assert_int_equal(tensor->shape[1] * tensor->shape[2], shape->shape[0]);
    for (int64_t row = 0; row < shape->shape[0]; row++)
        for (int64_t col = 0; col < tensor->shape[0]; col++) {
            float got = element(tensor, row, col), exact = want[row * tensor->shape[0] + col];
            if (got != exact)
                fail_msg("%s (%d, %d) is %.9g, not %.9g", name, (int)row, (int)col, (double)got,
                         (double)exact);
        }
}

static const struct {
    const char *folder;
    weft_dtype dtype; // of Q; columns without order become numbers
    const char *down;
} packed[] = {{"gptq4", WEFT_MLX_Q4_G32, "blk.0.ffn_down.weight"},
              {"gptq8_order", WEFT_F32, "blk.0.ffn_down.weight"},
              {"gptq4_whole", WEFT_MLX_Q4_G64, "blk.0.ffn_down.weight"},
              {"awq", WEFT_MLX_Q4_G64, "blk.0.ffn_down.weight"},
              {"int8", WEFT_INT8, "blk.0.ffn_down.weight"},
              {"gptq4_moe", WEFT_MLX_Q4_G32, "blk.0.ffn_down_exps.weight"}};

static void integers_lose_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        engine_error err = {""};
        golden *wanted = checkpoint_golden(packed[i].folder);
        engine_model *model = engine_model_open(checkpoint_golden_folder(packed[i].folder), &err);
        if (!model)
            fail_msg("%s", err.text);
        const gguf_file *file = engine_model_file(model);
        assert_int_equal(gguf_find_tensor(file, "blk.0.attn_q.weight")->dtype, packed[i].dtype);
        expect_matrix(file, "blk.0.attn_q.weight", wanted, "q");
        expect_matrix(file, packed[i].down, wanted, "down");
        const int32_t tokens[] = {5, 70, 300};
        engine_worker *worker = open_worker_of(model, NULL, &err);
        engine_session *session = worker ? engine_session_open(worker, &err) : NULL;
        if (!session || !engine_session_sync(session, tokens, 3, NULL, NULL, &err))
            fail_msg("%s: %s", packed[i].folder, err.text);
        assert_true(isfinite(engine_session_logits(session)[0]));
        engine_session_close(session);
        engine_worker_close(worker);
        engine_model_close(model);
        golden_close(wanted);
    }
}

// The one folder that the program was given, which has logits or states.
static const char *chosen;

static void one_folder(void **state)
{
    (void)state;
    engine_error err = {""};
    golden *file = checkpoint_golden(chosen);
    if (!golden_find(file, "model", "logits")) {
        check_encoder(chosen, checkpoint_golden_folder(chosen));
        golden_close(file);
        return;
    }
    engine_model *model = engine_model_open(checkpoint_golden_folder(chosen), &err);
    if (!model)
        fail_msg("%s", err.text);
    double off = checkpoint_distance(model, file);
    printf("%s: off by %g of the largest logit, allowed 2e-5\n", chosen, off);
    assert_true(off < 2e-5);
    engine_model_close(model);
    golden_close(file);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest one[] = {cmocka_unit_test(one_folder)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_equal_transformers),
        cmocka_unit_test(function_of_the_config),
        cmocka_unit_test(integers_lose_nothing),
        cmocka_unit_test(rounded_activations_stay_near),
        cmocka_unit_test(tokenizer_equals_tokenizers),
        cmocka_unit_test(encoders_equal_transformers),
        cmocka_unit_test(roberta_is_read),
        cmocka_unit_test(encoders_become_gguf_files),
        cmocka_unit_test(idle_biases_are_left_out),
        cmocka_unit_test(scales_are_counted),
        cmocka_unit_test(other_names_of_the_folder),
        cmocka_unit_test(names_what_it_leaves_out),
        cmocka_unit_test(becomes_a_gguf_file),
    };
    chosen = argc > 1 ? argv[1] : NULL;
    return chosen ? cmocka_run_group_tests(one, NULL, NULL)
                  : cmocka_run_group_tests(tests, NULL, NULL);
}
