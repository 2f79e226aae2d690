// SPDX-License-Identifier: MIT
// Opens a model folder of which one file is the input: the first byte says which, config.json, tokenizer.json,
// tokenizer_config.json, the index of shards, or the tensors, of a dense model or of a mixture in codes of many
// kinds; the others are whole. Of tensors that open all bytes that they promise are there.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/safetensors/checkpoint.h"
#include "tests/support/scratch.h"

static const char *const names[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                    "model.safetensors.index.json", "model.safetensors"};
static const char *const whole[] = {
    "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":8,\"intermediate_size\":8,"
    "\"max_position_embeddings\":64,\"num_attention_heads\":1,\"tie_word_embeddings\":true}",
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]},"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
    "{\"eos_token\":\"a\"}",
    "{\"weight_map\":{\"a\":\"model.safetensors\"}}",
    "", // (no tensors: EMPTY)
};
enum { CONFIG = 0, TENSORS = 4, MIXTURE, KINDS, FILES = sizeof names / sizeof *names };
#define EMPTY "\2\0\0\0\0\0\0\0{}"

// The config beside tensors of a mixture: gate in mxfp4, up in nvfp4, Q in mxfp8, all else affine or fp8.
#define MLP "model.layers.0.mlp.switch_mlp."
static const char mixture[] =
    "{\"model_type\":\"deepseek_v3\",\"num_hidden_layers\":1,\"hidden_size\":64,\"intermediate_"
    "size\":64,"
    "\"max_position_embeddings\":64,\"num_attention_heads\":2,\"num_key_value_heads\":2,\"kv_lora_"
    "rank\":"
    "32,\"qk_rope_head_dim\":8,\"qk_nope_head_dim\":32,\"v_head_dim\":32,\"n_routed_experts\":2,"
    "\"num_experts_per_tok\":1,\"moe_intermediate_size\":64,\"quantization_config\":{\"quant_"
    "method\":"
    "\"fp8\",\"weight_block_size\":[32,32]},\"quantization\":{\"group_size\":32,\"bits\":4,\"" MLP
    "gate_proj\":{\"mode\":\"mxfp4\"},\"" MLP "up_proj\":{\"mode\":\"nvfp4\"},"
    "\"model.layers.0.self_attn.q_proj\":{\"mode\":\"mxfp8\"}}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

// The files lie in memory: the folder has links to them.
static int make_file(const char *folder, const char *name)
{
    char path[SCRATCH_PATH_BYTES + 32], target[64];
    int file = memfd_create(name, MFD_CLOEXEC);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    snprintf(target, sizeof target, "/proc/self/fd/%d", file);
    if (file < 0 || symlink(target, path) != 0)
        abort();
    return file;
}

static void write_file(int file, const void *data, size_t bytes)
{
    if (ftruncate(file, 0) != 0 || pwrite(file, data, bytes, 0) != (ssize_t)bytes)
        abort();
}

static char folder[SCRATCH_PATH_BYTES];

static void remove_folder(void)
{
    scratch_remove(folder);
}

// The ends of all bytes that a file promises.
static unsigned touch(const gguf_file *file)
{
    unsigned sum = 0;
    for (size_t i = 0; i < gguf_tensor_count(file); i++) {
        const gguf_tensor *tensor = gguf_tensor_at(file, i);
        const size_t beside = (size_t)gguf_tensor_bytes(tensor) - tensor->size_bytes;
        const size_t each = tensor->planes.biases ? beside / 2 : beside;
        const struct {
            const unsigned char *at;
            size_t bytes;
        } parts[] = {{tensor->data, tensor->size_bytes},
                     {tensor->planes.scales, each},
                     {tensor->planes.biases, tensor->planes.biases ? each : 0}};
        for (int p = 0; p < 3; p++)
            sum += parts[p].bytes ? parts[p].at[0] + parts[p].at[parts[p].bytes - 1] : 0u;
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static int made, files[FILES];
    static volatile unsigned sum;
    if (size_bytes == 0)
        return 0;
    if (!made++) {
        scratch_folder(folder);
        atexit(remove_folder);
        for (int i = 0; i < FILES; i++) {
            files[i] = make_file(folder, names[i]);
            write_file(files[i], whole[i], strlen(whole[i]));
        }
        write_file(files[TENSORS], EMPTY, sizeof EMPTY - 1);
    }
    const int kind = data[0] % KINDS, which = kind == MIXTURE ? TENSORS : kind;
    if (kind == MIXTURE)
        write_file(files[CONFIG], mixture, sizeof mixture - 1);
    write_file(files[which], data + 1, size_bytes - 1);
    engine_error err = {""};
    gguf_file *file = checkpoint_open(folder, &err);
    if (file == NULL && (err.text[0] == '\0' || strchr(err.text, '\n') != NULL))
        abort();
    if (file)
        sum += touch(file);
    gguf_close(file);
    write_file(files[CONFIG], whole[CONFIG], strlen(whole[CONFIG]));
    if (which == TENSORS)
        write_file(files[TENSORS], EMPTY, sizeof EMPTY - 1);
    else
        write_file(files[which], whole[which], strlen(whole[which]));
    return 0;
}
