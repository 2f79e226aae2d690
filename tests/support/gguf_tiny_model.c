// SPDX-License-Identifier: MIT
#include "tests/support/gguf_tiny_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/gguf/ggml_type.h"

enum { F32 = 0, F16 = 1 };

static void write_keys(gguf_writer *w, const gguf_tiny_shape *shape)
{
    const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {{"block_count", 1},
                   {"embedding_length", (uint32_t)shape->dim},
                   {"feed_forward_length", (uint32_t)shape->dim},
                   {"context_length", 64},
                   {"attention.head_count", 1},
                   {"attention.head_count_kv", 1}};
    gguf_writer_string(w, "general.architecture", shape->architecture);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s.%s", shape->architecture, numbers[i].name);
        gguf_writer_u32(w, key, numbers[i].value);
    }
}

static void write_tokenizer(gguf_writer *w)
{
    static const char *const pieces[TINY_MODEL_VOCAB] = {"<unk>",
                                                         "<s>",
                                                         "</s>",
                                                         "\xe2\x96\x81",
                                                         "a",
                                                         "b",
                                                         "ab",
                                                         ("\xe2\x96\x81"
                                                          "a")};
    static const float scores[TINY_MODEL_VOCAB] = {0, 0, 0, -1, -2, -3, -4, -5};
    static const int32_t types[TINY_MODEL_VOCAB] = {2, 3, 3, 1, 1, 1, 1, 1};
    gguf_writer_string(w, "tokenizer.ggml.model", "llama");
    gguf_writer_strings(w, "tokenizer.ggml.tokens", pieces, TINY_MODEL_VOCAB);
    gguf_writer_array(w, "tokenizer.ggml.scores", GGUF_F32, scores, TINY_MODEL_VOCAB);
    gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_I32, types, TINY_MODEL_VOCAB);
    gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", 1);
    gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 2);
}

static void write_matrix(gguf_writer *w, const gguf_tiny_shape *shape, const char *name,
                         int64_t rows)
{
    const ggml_type_info *type = ggml_type_find(shape->matrix_type);
    size_t blocks = (size_t)(shape->dim * rows) / type->block_elements;
    gguf_writer_tensor(w, name, type->id, 2, (int64_t[]){shape->dim, rows}, NULL,
                       blocks * type->block_bytes);
}

static void write_norm(gguf_writer *w, const gguf_tiny_shape *shape, const char *name)
{
    const uint16_t half_one = 0x3c00;
    const float one = shape->norms_are_nan ? (float)NAN : 1;
    byte_buffer ones = {0};
    for (int64_t i = 0; i < shape->dim; i++)
        buffer_bytes(&ones, shape->norms_in_f16 ? (const void *)&half_one : &one,
                     shape->norms_in_f16 ? sizeof half_one : sizeof one);
    gguf_writer_tensor(w, name, shape->norms_in_f16 ? F16 : F32, shape->norms_in_f16 ? 2 : 1,
                       (int64_t[]){shape->dim, 1}, ones.data, ones.size_bytes);
    buffer_free(&ones);
}

// Every token goes to one of them.
static void write_experts(gguf_writer *w, const gguf_tiny_shape *shape)
{
    static const char *const names[] = {"blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight",
                                        "blk.0.ffn_down_exps.weight"};
    const ggml_type_info *type = ggml_type_find(shape->matrix_type);
    const int64_t extents[] = {shape->dim, shape->dim, shape->experts};
    size_t count = (size_t)(shape->dim * shape->experts);
    size_t blocks = count * (size_t)shape->dim / type->block_elements;
    char key[64];
    snprintf(key, sizeof key, "%s.expert_count", shape->architecture);
    gguf_writer_u32(w, key, shape->experts);
    snprintf(key, sizeof key, "%s.expert_used_count", shape->architecture);
    gguf_writer_u32(w, key, 1);
    gguf_writer_tensor(w, "blk.0.ffn_gate_inp.weight", F32, 2,
                       (int64_t[]){shape->dim, shape->experts}, NULL, count * sizeof(float));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        gguf_writer_tensor(w, names[i], type->id, 3, extents, NULL, blocks * type->block_bytes);
}

gguf_writer gguf_tiny_model(const gguf_tiny_shape *shape)
{
    static const char *const matrices[] = {"blk.0.attn_q.weight",   "blk.0.attn_k.weight",
                                           "blk.0.attn_v.weight",   "blk.0.ffn_gate.weight",
                                           "blk.0.ffn_down.weight", "blk.0.attn_output.weight",
                                           "blk.0.ffn_up.weight"};
    gguf_writer w = gguf_writer_new();
    write_keys(&w, shape);
    (shape->write_tokenizer ? shape->write_tokenizer : write_tokenizer)(&w);
    write_matrix(&w, shape, "token_embd.weight", shape->vocab ? shape->vocab : TINY_MODEL_VOCAB);
    for (size_t i = 0; i < sizeof matrices / sizeof matrices[0]; i++)
        if (!shape->experts || !strstr(matrices[i], "ffn"))
            write_matrix(&w, shape, matrices[i], shape->dim);
    if (shape->experts)
        write_experts(&w, shape);
    write_norm(&w, shape, "output_norm.weight");
    write_norm(&w, shape, "blk.0.attn_norm.weight");
    write_norm(&w, shape, "blk.0.ffn_norm.weight");
    if (strncmp(shape->architecture, "qwen3", 5) == 0) {
        write_norm(&w, shape, "blk.0.attn_q_norm.weight");
        write_norm(&w, shape, "blk.0.attn_k_norm.weight");
    }
    return w;
}
