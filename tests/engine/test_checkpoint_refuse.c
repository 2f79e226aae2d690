// SPDX-License-Identifier: MIT
// Model folders that contradict themselves, or say what weft cannot run: one line with the cause.
#define _XOPEN_SOURCE 700
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/support/checkpoint_copy.h"

static void expect_refusal(const char *folder, const char *reason)
{
    engine_error err = {""};
    engine_model *model = engine_model_open(folder, &err);
    if (model)
        fail_msg("opened, though '%s'", reason);
    if (!strstr(err.text, reason))
        fail_msg("'%s' does not say '%s'", err.text, reason);
    assert_null(strchr(err.text, '\n'));
}

typedef struct edit {
    const char *model, *file, *from, *to; // the first `from` becomes `to`, as long
    const char *reason;                   // that the error names
} edit;

static void refuse_all(const edit *edits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        checkpoint_copy copy;
        checkpoint_copy_open(&copy, edits[i].model);
        checkpoint_copy_edit(&copy, edits[i].file, edits[i].from, edits[i].to);
        expect_refusal(copy.folder, edits[i].reason);
        checkpoint_copy_close(&copy);
    }
}

static void damaged_files(void **state)
{
    (void)state;
    static const edit edits[] = {
        {"qwen3_mlx", "config.json", "\"qwen3\"", "\"qwenX\"", "model_type 'qwenX' cannot be read"},
        {"llama4", "config.json", "llama4_text", "qwen3_next ",
         "model_type 'qwen3_next ' cannot be read"},
        {"llama4", "config.json", "\"llama4_text\"", "\"qwen3_next\" ", "(Gated DeltaNet)"},
        {"qwen3_mlx", "config.json", "\"qwen3\"", "\"t5\"   ", "a learned bias for every head"},
        {"qwen3_mlx", "config.json", "\"qwen3\"", "\"rwkv7\"",
         "layers of it are no attention but a recurrence"},
        {"jina_code", "model.safetensors", "attention.self.layer_norm_q.bias",
         "attention.self.layer_norm_x.bias", "blk.0.attn_q_norm.bias is missing"},
        {"jina_code", "model.safetensors", "encoder.layer.0.layer_norm_1.bias",
         "encoder.layer.0.layer_norm_x.bias", "blk.0.attn_norm_2.bias is missing"},
        {"llama4", "config.json", "\"interleave_moe_layer_step\": 2",
         "\"interleave_moe_layer_step\": 3", "'moe_layers'"},
        {"llama4", "config.json", "\"chunked_attention\"", "\"full_attention\"   ",
         "are not those of other"},
        {"qwen3_mlx", "config.json", "num_hidden_layers", "num_hidden_lawyer",
         "'num_hidden_layers' is"},
        {"qwen3_mlx", "config.json", "\"group_size\": 32", "\"group_size\": 48", "groups of 48"},
        {"qwen3_mlx", "config.json", "\"group_size\": 32", "\"group_size\": 64", "do not fit"},
        {"qwen3_mlx", "config.json", "affine", "mxfp_4", "mode 'mxfp_4'"},
        {"qwen3_mlx", "config.json", "{", "[", "is no JSON"},
        {"qwen3_mlx", "tokenizer.json", "\"BPE\"", "\"BPX\"", "type 'BPX'"},
        {"qwen3_mlx", "tokenizer.json", "\\\\p{N}|", "\\\\w{N}|",
         "cut in a way that weft does not know"},
        {"qwen3_mlx", "tokenizer.json", "\\\\p{N}|", "(*CU)?|", "cut in a way"},
        {"qwen3_mlx", "tokenizer.json", "\"NFC\"", "\"NFD\"", "normalised by 'NFD'"},
        {"qwen3_mlx", "model.safetensors", "norm.weight", "norm.height",
         "attn_norm.weight is missing"},
        {"qwen3_mlx", "model.safetensors", "\"U32\"", "\"Q32\"", "unknown format 'Q32'"},
        {"qwen3_mlx", "model.safetensors", "\"U32\"", "\"I32\"", "integers that weft cannot read"},
    };
    refuse_all(edits, sizeof edits / sizeof *edits);
}

// Folders of mlx_lm: modes, and what lies beside codes.
static void damaged_codes(void **state)
{
    (void)state;
    static const edit edits[] = {
        {"qwen3_moe_mxfp4", "config.json", "\"mxfp4\"", "\"mxfp6\"", "mode 'mxfp6'"},
        {"gpt_oss_mlx", "config.json", "\"affine\"", "\"afine4\"",
         "model.embed_tokens is quantised in MLX's mode 'afine4'"},
        {"qwen3_moe_mxfp4", "config.json", "\"mxfp4\"", "\"nvfp4\"", "4 bits in groups of 32"},
        {"qwen3_mxfp8", "config.json", "\"bits\": 8", "\"bits\": 4", "4 bits in groups of 32"},
        {"qwen3_nvfp4", "model.safetensors", "\"U8\"", "\"I8\"", "do not fit"},
        {"qwen3_nvfp4", "model.safetensors", "\"model.layers.0.post_attention_layernorm.weight\"",
         "\"model.layers.0.self_attn.q_proj.global_scale\"  ", "a scale of the whole tensor"},
        {"qwen3_moe_mlx", "config.json", "\"moe_intermediate_size\": 64",
         "\"moe_intermediate_size\": 32",
         "is 4 x 64 x 64, but the model's numbers ask for 4 x 32 x 64"},
        {"qwen3_moe_mlx", "model.safetensors", "switch_mlp.up_proj.scales",
         "switch_mlp.up_proj.skales", "integers that weft cannot read"},
        {"qwen3_moe_mlx", "model.safetensors", "switch_mlp.up_proj.biases",
         "switch_mlp.up_proj.biasez", "up_proj do not fit its weights"},
        {"qwen3_moe_fp8", "config.json", "\"weight_block_size\": [\n   32",
         "\"weight_block_size\": [\n   63", "of which the 64 of an expert are no multiple"},
        {"gptq4_moe", "model.safetensors", "experts.1.up_proj.qzeros", "experts.1.up_proj.qzeroz",
         "do not fit each other"},
    };
    refuse_all(edits, sizeof edits / sizeof *edits);
}

static void damaged_integers(void **state)
{
    (void)state;
    static const edit edits[] = {
        {"gptq8_order", "config.json", "\"bits\": 8", "\"bits\": 4", "do not fit each other"},
        {"gptq8_order", "config.json", "\"bits\": 8", "\"bits\": 3", "3 bits"},
        {"gptq8_order", "config.json", "\"bits\": 8", "\"bits\": 0", "0 bits"},
        {"gptq8_order", "config.json", "\"group_size\": 32", "\"group_size\": 16", "do not fit"},
        {"gptq8_order", "model.safetensors", "q_proj.scales", "q_proj.skales", "do not fit"},
        {"gptq8_order", "model.safetensors", "q_proj.qzeros", "q_proj.qzeroz", "do not fit"},
        {"awq", "config.json", "\"gemm\"", "\"gemv\"", "'gemv'"},
        {"int8", "model.safetensors", "model.layers.0.post_attention_layernorm.weight",
         "model.layers.0.mlp.down_proj.weight_zero_point", "around a zero of their own"},
    };
    refuse_all(edits, sizeof edits / sizeof *edits);
}

// Scales are read by their first two dimensions: a third must neither take them away nor add any.
static void scales_of_other_shapes(void **state)
{
    (void)state;
    static const edit edits[] = {
        {"qwen2_fp8", "model.safetensors", "[4,2],\"data_offsets\":[32,64]",
         "[4,2,0],\"data_offsets\":[0,0]", "do not fit"},
        {"qwen2_fp8", "model.safetensors", "F32\",\"shape\":[4,2]", "I32\",\"shape\":[4,2]",
         "as scales must be"},
    };
    refuse_all(edits, sizeof edits / sizeof *edits);
}

// What a config says otherwise than its family, or beyond what can be.
static void other_layers(void **state)
{
    (void)state;
    static const edit edits[] = {
        {"gemma2", "config.json", "\"full_attention\"", "\"long_attention\"",
         "layers with a window are not those of other gemma2 models"},
        {"phi3", "config.json", "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": 9.5",
         "outside 0 to 1"},
        {"phi3", "config.json", "\"partial_rotary_factor\": 0.5", "\"partial_rotary_factor\": -.5",
         "is no JSON"},
        {"nomic_bert", "config.json", "\"rotary_emb_fraction\": 1.0",
         "\"moe_every_n_layers\": 2   ", "nomic-bert-moe.expert_count is missing"},
        {"nomic_bert_moe", "config.json", "\"expert_choice_router\": false",
         "\"expert_choice_router\": true ", "'expert_choice_router' of nomic_bert cannot run yet"},
        {"nomic_bert_moe", "config.json", "\"num_shared_experts\": 0", "\"num_shared_experts\": 1",
         "'num_shared_experts' of nomic_bert"},
        {"jina_bert_v2", "config.json", "\"feed_forward_type\": \"geglu\"",
         "\"feed_forward_type\": \"reglu\"", "feed_forward_type 'reglu' cannot run yet"},
        {"nomic_bert_moe", "config.json", "\"prenorm\": false", "\"prenorm\": true ",
         "'prenorm' of nomic_bert"},
        {"nomic_bert_moe", "config.json", "\"num_experts\": 5", "\"num_experts\": 7",
         "w1 are no experts of config.json"},
        {"nomic_bert_moe", "config.json", "\"moe_every_n_layers\": 2", "\"moe_every_n_layers\": 3",
         "the file is incomplete"},
        {"modernbert_rank", "config.json", "\"classifier_activation\": \"gelu\"",
         "\"classifier_activation\": \"relu\"", "a classifier with 'relu'"},
        {"modernbert_rank", "config.json", "\"classifier_pooling\": \"cls\"",
         "\"classifier_pooling\": \"max\"", "a classifier of 'max'"},
        {"gpt_neox", "config.json", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"relu\"",
         "activation 'relu' cannot run yet: weft knows silu"},
        {"gpt_neox", "config.json", "\"hidden_act\": \"gelu\"", "\"hidden_act\": 123456",
         "'hidden_act' is no name"},
        {"bert", "config.json", "\"attention_probs_dropout_prob\": 0.1,\n \"bos_token_id\": 0",
         "\"position_embedding_type\": \"relative_key\"              ",
         "positions of kind 'relative_key'"},
    };
    refuse_all(edits, sizeof edits / sizeof *edits);
}

// Tensors that hold several of a file's, and rows whose order depends on numbers of the config.
static void what_cannot_be_taken_apart(void **state)
{
    (void)state;
    static const edit edits[] = {
        {"gpt_oss", "config.json", "\"num_local_experts\": 3", "\"num_local_experts\": 4",
         "are no experts of config.json"},
        {"gpt_oss", "model.safetensors", "gate_up_proj_scales", "gate_up_proj_scalez",
         "gate_up_proj_scales is missing"},
        {"gpt_oss", "model.safetensors", "[3,64,1]", "[3,32,2]", "are no experts of config.json"},
        {"qwen2_moe", "model.safetensors", ".mlp.experts.3.gate_proj.weight",
         ".mlp.experts.gate_up_proj_other",
         "experts of qwen2_moe in one tensor cannot be read yet"},
        {"deepseek_v2", "config.json", "\"v_head_dim\": 8", "\"v_head_dim\": 9", "not 8 and 9"},
        {"deepseek_v2", "config.json", "\"kv_lora_rank\": 16", "\"kv_lora_rank\": 24",
         "attn_kv_a_mqa.weight is 24 x 32"},
        {"gpt_neox", "config.json", "\"num_attention_heads\": 4", "\"num_attention_heads\": 5",
         "not the same number for each of 15 heads"},
        {"falcon", "config.json", "\"alibi\": false", "\"alibi\": true ", "alibi"},
        {"smollm3", "config.json", "\"no_rope_layers\": [\n  1", "\"no_rope_layers\": [\n  0",
         "not those of other smollm3"},
    };
    refuse_all(edits, sizeof edits / sizeof *edits);
}

// A missing expert would be one of zeros.
static void incomplete_mixtures(void **state)
{
    (void)state;
    static const edit edits[] = {
        {"mixtral", "model.safetensors", "experts.2.w1", "experts.7.w1",
         "has an expert 7, config.json speaks of 3"},
        {"mixtral", "model.safetensors", "experts.2.w1", "experts.2.w9",
         "17 matrices of experts do not make 6 times 3"},
        {"mixtral", "config.json", "\"num_local_experts\": 3", "\"num_local_experts\": 4",
         "18 matrices of experts do not make 6 times 4"},
        {"mixtral", "config.json", "\"num_local_experts\": 3", "\"num_local_experts\": 2",
         "has an expert 2"},
        {"mixtral", "config.json", "num_experts_per_tok", "num_experts_per_tik",
         "num_experts_per_tok"},
    };
    refuse_all(edits, sizeof edits / sizeof *edits);
}

static void remove_file(const checkpoint_copy *copy, const char *name)
{
    char path[CHECKPOINT_PATH_BYTES];
    checkpoint_copy_path(copy, name, path);
    assert_int_equal(unlink(path), 0);
}

static void missing_files(void **state)
{
    static const char outside[] = "{\"weight_map\": {\"a\": \"../x.safetensors\"}}";
    static const char empty[] = "{\"weight_map\": {}}";
    static const char index[] = "model.safetensors.index.json";
    checkpoint_copy copy;
    engine_error err = {""};
    (void)state;
    checkpoint_copy_open(&copy, "qwen3_mlx");
    engine_model *model = engine_model_open(copy.folder, &err);
    if (!model)
        fail_msg("%s", err.text);
    engine_model_close(model);
    checkpoint_copy_write(&copy, index, outside, sizeof outside - 1);
    expect_refusal(copy.folder, "outside the folder");
    checkpoint_copy_write(&copy, index, empty, sizeof empty - 1);
    expect_refusal(copy.folder, "names no files");
    remove_file(&copy, index);
    remove_file(&copy, "model.safetensors");
    expect_refusal(copy.folder, "model.safetensors: cannot open");
    remove_file(&copy, "config.json");
    expect_refusal(copy.folder, "without config.json");
    checkpoint_copy_close(&copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_files),          cmocka_unit_test(damaged_files),
        cmocka_unit_test(damaged_codes),          cmocka_unit_test(damaged_integers),
        cmocka_unit_test(scales_of_other_shapes), cmocka_unit_test(other_layers),
        cmocka_unit_test(incomplete_mixtures),    cmocka_unit_test(what_cannot_be_taken_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
