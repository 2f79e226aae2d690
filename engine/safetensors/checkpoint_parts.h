// SPDX-License-Identifier: MIT
#ifndef ENGINE_SAFETENSORS_CHECKPOINT_PARTS_H
#define ENGINE_SAFETENSORS_CHECKPOINT_PARTS_H

// A folder in the making; for the files of this room only.

#include <jansson.h>

#include "engine/gguf/gguf_output.h"
#include "engine/safetensors/safetensors.h"

enum { CHECKPOINT_MAX_SHARDS = 4096, CHECKPOINT_MAX_PATH = 4096 };

// What folders of a family do otherwise than GGUF files.
typedef struct checkpoint_family {
    const char *model_type, *architecture; // GGUF's name: "llama", "qwen2", "qwen3"
    bool halves;                           // RoPE pairs the halves of a head, in files neighbours
    bool post_norms;                       // post_attention_layernorm is the norm behind that block
    bool plus_one;                         // norms' weights are stored less 1
    bool tied;                             // no output matrix of its own, unless the config says so
    int32_t window_period; // the last of every so many layers sees all keys, which files do not say
} checkpoint_family;

typedef struct checkpoint {
    const char *folder;
    json_t *config;
    const checkpoint_family *family;
    int64_t q_heads, kv_heads;
    int64_t experts;            // of a mixture, else 0
    bool tied;                  // no output matrix of its own
    const json_t *quantization; // MLX's part of the config, or NULL
    struct {
        int64_t bits, group; // bits: 4 or 8, 0 where there are none; group: columns, -1 all
        int32_t zero_offset; // added to zeros
        bool awq;
    } integers; // of GPTQ and AWQ
    safetensors **shards;
    size_t shard_count;
    void **copies; // of tensors that could not stay where they are
    size_t copy_count, copy_room;
} checkpoint;

void checkpoint_free(checkpoint *c);

// "<folder>/<name>"; false (with a text) if it is too long.
bool checkpoint_path(const checkpoint *c, const char *name, char path[CHECKPOINT_MAX_PATH],
                     engine_error *err);

// A JSON file of the folder. With `may_lack`, *missing tells that there is none (and NULL is returned).
json_t *checkpoint_json(const checkpoint *c, const char *name, bool *missing, engine_error *err);

// A text file of the folder, NUL-terminated, to be released with free(); NULL if there is none.
char *checkpoint_text(const checkpoint *c, const char *name);

// Reads what c->config says into c and the metadata.
bool checkpoint_read_config(checkpoint *c, gguf_output *output, engine_error *err);

// Reads the tokenizer into the metadata.
bool checkpoint_read_tokenizer(const checkpoint *c, gguf_output *output, engine_error *err);

// The tensors of all shards, under GGUF's names; *tensors from engine_alloc.
bool checkpoint_read_tensors(checkpoint *c, gguf_tensor **tensors, size_t *count,
                             engine_error *err);

// Is `module` ("model.layers.3.mlp.experts.7.up_proj") a matrix of one expert? Then the tensor of all experts
// of its layer is called `ours`, "blk.3.ffn_up_exps.weight".
bool checkpoint_expert_name(const char *module, char ours[GGUF_MAX_NAME_BYTES + 1],
                            int64_t *expert);

// Copies an expert's matrix to its place among the others', for which *to is begun if it has no data yet.
bool checkpoint_add_expert(checkpoint *c, const gguf_tensor *matrix, int64_t expert,
                           gguf_tensor *to, engine_error *err);

// The tensors of a matrix of GPTQ or AWQ; each but the codes may be missing (NULL), which is refused where it must not.
typedef struct checkpoint_integers_parts {
    const safetensor *codes, *zeros, *scales, *groups_of;
} checkpoint_integers_parts;

// Makes codes with planes, or numbers, of them; all but the name of `to` is filled in.
bool checkpoint_read_integers(checkpoint *c, const checkpoint_integers_parts *parts,
                              gguf_tensor *to, engine_error *err);

// Memory that lives as long as the model, zeroed; NULL when memory is short.
void *checkpoint_alloc(checkpoint *c, size_t size_bytes);

#endif
