// SPDX-License-Identifier: MIT
// Model folders: safetensors, config.json and tokenizer.json against transformers and tokenizers; as GGUF
// files through quantize; and refusals.
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

#include "engine/engine.h"
#include "tests/support/golden.h"
#include "tests/support/program.h"

static const char *const models[] = {
    "llama",        "qwen3_mlx",   "qwen2_fp8", "qwen2_moe",   "mixtral",     "gemma",
    "gemma2",       "gemma3_text", "phi3",      "olmo2",       "granite",     "glm4",
    "smollm3",      "cohere",      "cohere2",   "phi",         "phi3_long",   "stablelm",
    "starcoder2",   "gpt2",        "gpt_neox",  "falcon",      "falcon_new",  "exaone",
    "exaone4",      "minicpm",     "dots1",     "deepseek_v2", "deepseek_v3", "gpt_oss",
    "gpt_oss_bf16", "gemma3"};
enum { MODEL_COUNT = sizeof models / sizeof *models, MAX_TOKENS = 256 };

static char *scratch;

static const char *joined(const char *folder, const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static const char *folder_of(const char *model)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], WEFT_TEST_GOLDEN "/checkpoints/%s", model);
    return path;
}

static golden *golden_of(const char *model)
{
    char path[128];
    snprintf(path, sizeof path, "checkpoints/%s/golden.safetensors", model);
    return golden_open(path);
}

// The largest difference from the golden logits, over the largest of these.
static double distance(engine_model *model, const golden *file)
{
    engine_error err = {""};
    const int32_t *tokens = golden_data(file, "model", "tokens", GOLDEN_I32);
    const float *want = golden_data(file, "model", "logits", GOLDEN_F32);
    int32_t count = (int32_t)golden_find(file, "model", "tokens")->elements;
    int64_t vocab = golden_find(file, "model", "logits")->shape[1];
    engine_worker *worker = engine_worker_open(
        model, &(engine_options){.exact = true, .kv_dtype = WEFT_F32, .threads = 1}, &err);
    engine_session *session = worker ? engine_session_open(worker, &err) : NULL;
    float *logits = calloc((size_t)(count * vocab), sizeof *logits);
    if (!session || !logits)
        fail_msg("%s", err.text);
    engine_feed feed = {.session = session, .ids = tokens, .count = count, .logits = logits};
    if (!engine_eval(worker, &feed, 1, NULL, NULL, &err))
        fail_msg("%s", err.text);
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < count * vocab; i++) {
        worst = fmax(worst, fabs((double)logits[i] - want[i]));
        largest = fmax(largest, fabs((double)want[i]));
    }
    free(logits);
    engine_session_close(session);
    engine_worker_close(worker);
    return worst / largest;
}

static void logits_equal_transformers(void **state)
{
    (void)state;
    for (int i = 0; i < MODEL_COUNT; i++) {
        engine_error err = {""};
        golden *file = golden_of(models[i]);
        engine_model *model = engine_model_open(folder_of(models[i]), &err);
        if (!model)
            fail_msg("%s", err.text);
        double off = distance(model, file);
        if (!(off < 2e-5))
            fail_msg("%s: off by %g", models[i], off);
        engine_model_close(model);
        golden_close(file);
    }
}

// With activations rounded to 8 bits, as they are by default.
static void rounded_activations_stay_near(void **state)
{
    (void)state;
    engine_error err = {""};
    golden *file = golden_of("qwen3_mlx");
    const int32_t *tokens = golden_data(file, "model", "tokens", GOLDEN_I32);
    int32_t count = (int32_t)golden_find(file, "model", "tokens")->elements;
    int64_t vocab = golden_find(file, "model", "logits")->shape[1];
    const float *want =
        (const float *)golden_data(file, "model", "logits", GOLDEN_F32) + (count - 1) * vocab;
    engine_model *model = engine_model_open(folder_of("qwen3_mlx"), &err);
    engine_worker *worker = model ? engine_worker_open(model, NULL, &err) : NULL;
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
        golden *file = golden_of(models[i]);
        const char *text = golden_text(file, "model", "text");
        const int32_t *want = golden_data(file, "model", "tokens", GOLDEN_I32);
        int32_t count = (int32_t)golden_find(file, "model", "tokens")->elements;
        engine_model *model = engine_model_open(folder_of(models[i]), &err);
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
        snprintf(path, sizeof path, "%s/%s", folder_of("llama"), inside[i]);
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
    gguf_file *file = model_file_open(folder_of("gemma3"), &err);
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
        golden *file = golden_of(models[i]);
        const char *out = joined(scratch, "out.gguf");
        if (!engine_quantize(folder_of(models[i]), out,
                             &(quantize_options){.mix = "f32", .again = true}, &err))
            fail_msg("%s", err.text);
        engine_model *model = engine_model_open(out, &err);
        if (!model)
            fail_msg("%s", err.text);
        assert_true(distance(model, file) < 2e-5);
        engine_model_close(model);
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

static void check_encoder(const char *name)
{
    engine_error err = {""};
    golden *file = golden_of(name);
    const float *want = golden_data(file, "model", "states", GOLDEN_F32);
    int64_t elements = golden_find(file, "model", "states")->elements;
    engine_text text = {.ids = golden_data(file, "model", "tokens", GOLDEN_I32),
                        .count = (int32_t)golden_find(file, "model", "tokens")->elements};
    engine_model *model = engine_model_open(folder_of(name), &err);
    engine_worker *worker =
        !model ? NULL
               : engine_worker_open(
                     model, &(engine_options){.exact = true, .kv_dtype = WEFT_F32, .threads = 1},
                     &err);
    float vector[64] = {0};
    text.states = calloc((size_t)elements, sizeof *text.states);
    bool ranks = golden_find(file, "model", "scores") != NULL;
    if (!worker || !text.states ||
        !engine_embed(
            worker, &text, 1,
            &(engine_embedding){.pooling = ranks ? ENGINE_POOLING_RANK : ENGINE_POOLING_MEAN},
            vector, &err))
        fail_msg("%s: %s", name, err.text);
    double off = largest_distance(text.states, want, elements);
    if (ranks)
        off = fmax(off,
                   largest_distance(vector, golden_data(file, "model", "scores", GOLDEN_F32), 1));
    if (!(off < 2e-5))
        fail_msg("%s: off by %g", name, off);
    free(text.states);
    engine_worker_close(worker);
    engine_model_close(model);
    golden_close(file);
}

static void encoders_equal_transformers(void **state)
{
    (void)state;
    static const char *const encoders[] = {"bert", "xlm_roberta", "nomic_bert", "modernbert",
                                           "eurobert"};
    for (size_t i = 0; i < sizeof encoders / sizeof *encoders; i++)
        check_encoder(encoders[i]);
}

// --- tokenizers of encoders ----------------------------------------------------------------------------------

static void write_bytes(const char *name, const char *text, size_t bytes);
static void copy_all(void);
static void copy_edited(const char *name, const char *from, const char *to);

// A folder with another tokenizer: its ids of a text, between the pieces that the file puts around it.
static void expect_encoding(const char *json, const char *config, const char *text,
                            const int32_t *want, size_t count)
{
    engine_error err = {""};
    tokenizer_ids ids = {0};
    copy_all();
    write_bytes("tokenizer.json", json, strlen(json));
    write_bytes("tokenizer_config.json", config, strlen(config));
    gguf_file *file = model_file_open(scratch, &err);
    tokenizer *t = file ? tokenizer_from_gguf(file, &err) : NULL;
    if (!t || !tokenizer_encode(t, text, strlen(text), TOKENIZER_ADD_SPECIAL, &ids, &err))
        fail_msg("%s", err.text);
    assert_int_equal(ids.count, count);
    assert_memory_equal(ids.ids, want, count * sizeof *want);
    tokenizer_ids_free(&ids);
    tokenizer_free(t);
    gguf_close(file);
}

static void wordpiece_is_read(void **state)
{
    (void)state;
    const char *json =
        "{\"added_tokens\": [{\"id\": 1, \"content\": \"[CLS]\", \"special\": true},"
        "{\"id\": 2, \"content\": \"[SEP]\", \"special\": true}],"
        "\"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true,"
        "\"handle_chinese_chars\": true, \"strip_accents\": false, \"lowercase\": true},"
        "\"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"[SEP]\", 2],"
        "\"cls\": [\"[CLS]\", 1]},"
        "\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", \"vocab\": {"
        "\"[UNK]\": 0, \"[CLS]\": 1, \"[SEP]\": 2, \"play\": 3, \"##ing\": 4, \"\u00e9\": 5}}}";
    const char *config = "{\"cls_token\": \"[CLS]\", \"sep_token\": \"[SEP]\","
                         "\"unk_token\": \"[UNK]\"}";
    expect_encoding(json, config, "Playing \u00c9 ing", (int32_t[]){1, 3, 4, 5, 0, 2}, 6);
}

// The charsmap is a trie of one unit: nothing is replaced.
static void unigram_is_read(void **state)
{
    (void)state;
    const char *json =
        "{\"added_tokens\": [{\"id\": 0, \"content\": \"</s>\", \"special\": true}],"
        "\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Precompiled\","
        "\"precompiled_charsmap\": \"BAAAAAAAAAAA\"}]},"
        "\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\":"
        "\"WhitespaceSplit\"}, {\"type\": \"Metaspace\", \"prepend_scheme\": \"always\"}]},"
        "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\":"
        "{\"id\": \"A\"}}, {\"SpecialToken\": {\"id\": \"</s>\"}}]},"
        "\"model\": {\"type\": \"Unigram\", \"unk_id\": 1, \"vocab\": [[\"</s>\", 0.0],"
        "[\"<unk>\", 0.0], [\"\u2581\", -2.0], [\"a\", -3.0], [\"b\", -3.5], [\"ab\", -5.0]]}}";
    expect_encoding(json, "{\"eos_token\": \"</s>\"}", " ab  a ", (int32_t[]){2, 5, 2, 3, 0}, 5);
}

// Patterns that have no name in files come along with what they mean for PCRE2.
static void other_patterns_are_read(void **state)
{
    (void)state;
    engine_error err = {""};
    gguf_string pre;
    static const char want[] =
        "patterns:c\n(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
        "\\p{M}| ?[^\\p{Z}\\t-\\r\\x{85}\\p{L}\\p{N}]+[\\r\\n]*|"
        "[\\p{Z}\\t-\\r\\x{85}]*[\\r\\n]+|[\\p{Z}\\t-\\r\\x{85}]+"
        "(?![^\\p{Z}\\t-\\r\\x{85}])|[\\p{Z}\\t-\\r\\x{85}]+";
    copy_all();
    copy_edited("tokenizer.json", "\\\\p{N}|", "\\\\p{M}|");
    gguf_file *file = model_file_open(scratch, &err);
    if (!file)
        fail_msg("%s", err.text);
    assert_int_equal(gguf_get_string(file, "tokenizer.ggml.pre", &pre), GGUF_FOUND);
    assert_int_equal(pre.size_bytes, sizeof want - 1);
    assert_memory_equal(pre.data, want, sizeof want - 1);
    tokenizer *t = tokenizer_from_gguf(file, &err);
    if (!t)
        fail_msg("%s", err.text);
    tokenizer_free(t);
    gguf_close(file);
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
    assert_int_equal(tensor->shape[1], shape->shape[0]);
    for (int64_t row = 0; row < tensor->shape[1]; row++)
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
} packed[] = {{"gptq4", WEFT_MLX_Q4_G32},
              {"gptq8_order", WEFT_F32},
              {"gptq4_whole", WEFT_MLX_Q4_G64},
              {"awq", WEFT_MLX_Q4_G64},
              {"int8", WEFT_INT8}};

static void integers_lose_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        engine_error err = {""};
        golden *wanted = golden_of(packed[i].folder);
        engine_model *model = engine_model_open(folder_of(packed[i].folder), &err);
        if (!model)
            fail_msg("%s", err.text);
        const gguf_file *file = engine_model_file(model);
        assert_int_equal(gguf_find_tensor(file, "blk.0.attn_q.weight")->dtype, packed[i].dtype);
        expect_matrix(file, "blk.0.attn_q.weight", wanted, "q");
        expect_matrix(file, "blk.0.ffn_down.weight", wanted, "down");
        const int32_t tokens[] = {5, 70, 300};
        engine_worker *worker = engine_worker_open(model, NULL, &err);
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

// --- refusals -------------------------------------------------------------------------------------------

static void write_bytes(const char *name, const char *text, size_t bytes)
{
    FILE *file = fopen(joined(scratch, name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    fclose(file);
}

static void write_index(const char *text)
{
    write_bytes("model.safetensors.index.json", text, strlen(text));
}

static const char *copied = "qwen3_mlx"; // the golden model whose files are edited

// Copies a file of the golden folder, with the first `from` replaced by `to` of the same length.
static void copy_edited(const char *name, const char *from, const char *to)
{
    static char bytes[1 << 18];
    FILE *file = fopen(joined(folder_of(copied), name), "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (size_t i = 0; from && i + strlen(from) <= size; i++)
        if (memcmp(bytes + i, from, strlen(from)) == 0) {
            memcpy(bytes + i, to, strlen(to));
            from = NULL;
        }
    assert_null(from);
    write_bytes(name, bytes, size);
}

static void copy_all(void)
{
    copy_edited("config.json", NULL, NULL);
    copy_edited("tokenizer.json", NULL, NULL);
    copy_edited("tokenizer_config.json", NULL, NULL);
    copy_edited("model.safetensors", NULL, NULL);
}

static void expect_refusal(const char *reason)
{
    engine_error err = {""};
    engine_model *model = engine_model_open(scratch, &err);
    assert_null(model);
    if (!strstr(err.text, reason))
        fail_msg("'%s' does not say '%s'", err.text, reason);
    assert_null(strchr(err.text, '\n'));
}

static void refuse_edited(const char *name, const char *from, const char *to, const char *reason)
{
    copy_all();
    copy_edited(name, from, to);
    expect_refusal(reason);
}

static void damaged_integers(void **state)
{
    (void)state;
    copied = "gptq8_order";
    refuse_edited("config.json", "\"bits\": 8", "\"bits\": 4", "do not fit each other");
    refuse_edited("config.json", "\"bits\": 8", "\"bits\": 3", "3 bits");
    refuse_edited("config.json", "\"bits\": 8", "\"bits\": 0", "0 bits");
    refuse_edited("config.json", "\"group_size\": 32", "\"group_size\": 16", "do not fit");
    refuse_edited("model.safetensors", "q_proj.scales", "q_proj.skales", "do not fit");
    refuse_edited("model.safetensors", "q_proj.qzeros", "q_proj.qzeroz", "do not fit");
    copied = "awq";
    refuse_edited("config.json", "\"gemm\"", "\"gemv\"", "'gemv'");
    copied = "qwen3_mlx";
}

static void refuses(void **state)
{
    (void)state;
    unlink(joined(scratch, "out.gguf"));
    unlink(joined(scratch, "config.json"));
    expect_refusal("without config.json");
    copy_all();
    engine_error err = {""};
    engine_model *model = engine_model_open(scratch, &err);
    if (!model)
        fail_msg("%s", err.text);
    engine_model_close(model);
    refuse_edited("config.json", "\"qwen3\"", "\"qwenX\"", "model_type 'qwenX' cannot be read");
    refuse_edited("config.json", "num_hidden_layers", "num_hidden_lawyer",
                  "'num_hidden_layers' is");
    refuse_edited("config.json", "\"group_size\": 32", "\"group_size\": 48", "groups of 48");
    refuse_edited("config.json", "\"group_size\": 32", "\"group_size\": 64", "do not fit");
    refuse_edited("config.json", "affine", "mxfp_4", "mode 'mxfp_4'");
    refuse_edited("config.json", "{", "[", "is no JSON");
    refuse_edited("tokenizer.json", "\"BPE\"", "\"BPX\"", "type 'BPX'");
    refuse_edited("tokenizer.json", "\\\\p{N}|", "\\\\w{N}|",
                  "cut in a way that weft does not know");
    refuse_edited("tokenizer.json", "\\\\p{N}|", "(*CU)|", "cut in a way");
    refuse_edited("tokenizer.json", "\"NFC\"", "\"NFD\"", "normalised by 'NFD'");
    refuse_edited("model.safetensors", "norm.weight", "norm.height", "");
    refuse_edited("model.safetensors", "\"U32\"", "\"Q32\"", "unknown format 'Q32'");
    refuse_edited("model.safetensors", "\"U32\"", "\"I32\"", "integers that weft cannot read");
    copy_all();
    write_index("{\"weight_map\": {\"a\": \"../x.safetensors\"}}");
    expect_refusal("outside the folder");
    write_index("{\"weight_map\": {}}");
    expect_refusal("names no files");
    unlink(joined(scratch, "model.safetensors.index.json"));
    unlink(joined(scratch, "model.safetensors"));
    expect_refusal("model.safetensors: cannot open");
}

// Scales are read by their first two dimensions: a third must neither take them away nor add any.
static void refuses_scales_of_other_shapes(void **state)
{
    (void)state;
    copied = "qwen2_fp8";
    refuse_edited("model.safetensors", "[4,2],\"data_offsets\":[32,64]",
                  "[4,2,0],\"data_offsets\":[0,0]", "do not fit");
    refuse_edited("model.safetensors", "F32\",\"shape\":[4,2]", "I32\",\"shape\":[4,2]",
                  "as scales must be");
}

// What a config says otherwise than its family, or beyond what can be.
static void refuses_other_layers(void **state)
{
    (void)state;
    copied = "gemma2";
    refuse_edited("config.json", "\"full_attention\"", "\"long_attention\"",
                  "layers with a window are not those of other gemma2 models");
    copied = "phi3";
    refuse_edited("config.json", "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 9.5",
                  "outside 0 to 1");
    refuse_edited("config.json", "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": -.5",
                  "is no JSON");
}

// Tensors that hold several of a file's, and rows whose order depends on numbers of the config.
static void refuses_what_cannot_be_taken_apart(void **state)
{
    (void)state;
    copied = "gpt_oss";
    refuse_edited("config.json", "\"num_local_experts\": 3", "\"num_local_experts\": 4",
                  "are no experts of config.json");
    refuse_edited("model.safetensors", "gate_up_proj_scales", "gate_up_proj_scalez",
                  "gate_up_proj_scales is missing");
    refuse_edited("model.safetensors", "[3,64,1]", "[3,32,2]", "");
    copied = "deepseek_v2";
    refuse_edited("config.json", "\"v_head_dim\": 8", "\"v_head_dim\": 9", "not 8 and 9");
    refuse_edited("config.json", "\"kv_lora_rank\": 16", "\"kv_lora_rank\": 24", "");
    copied = "gpt_neox";
    refuse_edited("config.json", "\"num_attention_heads\": 4", "\"num_attention_heads\": 5",
                  "not the same number for each of 15 heads");
    copied = "falcon";
    refuse_edited("config.json", "\"alibi\": false", "\"alibi\": true ", "alibi");
    copied = "smollm3";
    refuse_edited("config.json", "\"no_rope_layers\": [\n  1", "\"no_rope_layers\": [\n  0",
                  "not those of other smollm3");
    copied = "qwen3_mlx";
}

// A missing expert would be one of zeros.
static void refuses_incomplete_mixtures(void **state)
{
    (void)state;
    copied = "mixtral";
    refuse_edited("model.safetensors", "experts.2.w1", "experts.7.w1",
                  "has an expert 7, config.json speaks of 3");
    refuse_edited("model.safetensors", "experts.2.w1", "experts.2.w9",
                  "17 matrices of experts do not make 6 times 3");
    refuse_edited("config.json", "\"num_local_experts\": 3", "\"num_local_experts\": 4",
                  "18 matrices of experts do not make 6 times 4");
    refuse_edited("config.json", "\"num_local_experts\": 3", "\"num_local_experts\": 2",
                  "has an expert 2");
    refuse_edited("config.json", "num_experts_per_tok", "num_experts_per_tik",
                  "num_experts_per_tok");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_equal_transformers),
        cmocka_unit_test(integers_lose_nothing),
        cmocka_unit_test(rounded_activations_stay_near),
        cmocka_unit_test(tokenizer_equals_tokenizers),
        cmocka_unit_test(encoders_equal_transformers),
        cmocka_unit_test(wordpiece_is_read),
        cmocka_unit_test(unigram_is_read),
        cmocka_unit_test(other_patterns_are_read),
        cmocka_unit_test(other_names_of_the_folder),
        cmocka_unit_test(names_what_it_leaves_out),
        cmocka_unit_test(becomes_a_gguf_file),
        cmocka_unit_test(refuses),
        cmocka_unit_test(damaged_integers),
        cmocka_unit_test(refuses_scales_of_other_shapes),
        cmocka_unit_test(refuses_other_layers),
        cmocka_unit_test(refuses_incomplete_mixtures),
        cmocka_unit_test(refuses_what_cannot_be_taken_apart),
    };
    scratch = folder_make();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    folder_remove(scratch);
    return failed;
}
