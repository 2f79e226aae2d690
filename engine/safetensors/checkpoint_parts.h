// SPDX-License-Identifier: MIT
#ifndef ENGINE_SAFETENSORS_CHECKPOINT_PARTS_H
#define ENGINE_SAFETENSORS_CHECKPOINT_PARTS_H

// A folder in the making; for the files of this room only.

#include <jansson.h>

#include "engine/gguf/gguf_output.h"
#include "engine/safetensors/safetensors.h"

enum { CHECKPOINT_MAX_SHARDS = 4096, CHECKPOINT_MAX_PATH = 4096 };

// How rows of a fused matrix of queries, keys and values lie.
typedef enum checkpoint_qkv {
    CHECKPOINT_QKV_APART, // all queries, all keys, all values, as in GGUF files
    CHECKPOINT_QKV_PER_HEAD,
    CHECKPOINT_QKV_PER_KV_HEAD, // the queries that share a key, the key, the value
} checkpoint_qkv;

// How rows of gate and up lie in a tensor of all experts of a layer.
typedef enum checkpoint_stacking {
    CHECKPOINT_EXPERTS_APART, // in no such tensor
    CHECKPOINT_EXPERTS_BY_TURNS,
    CHECKPOINT_EXPERTS_HALVES, // gate's, then up's
    CHECKPOINT_EXPERTS_BELOW, // no gate, and experts' rows one below the other: up's, and columns of down's
} checkpoint_stacking;

// What folders of a family do otherwise than GGUF files.
typedef struct checkpoint_family {
    const char *model_type, *architecture; // GGUF's name: "llama", "qwen2", "qwen3"
    bool halves;                           // RoPE pairs the halves of a head, in files neighbours
    bool post_norms;                       // post_attention_layernorm is the norm behind that block
    bool stream_norms; // post_attention_layernorm and post_mlp_layernorm are norms of the stream
    bool plus_one;     // norms' weights are stored less 1
    bool tied;         // no output matrix of its own, unless the config says so
    int32_t window_period;    // one of every so many layers sees all keys, which files do not say
    int32_t unrotated_period; // likewise the last that does not rotate
    bool layer_norm;          // norms are LayerNorm
    bool transposed;          // matrices are stored columns first
    bool latent;              // latent attention: keys and values of heads come from one matrix
    bool encoder;
    // What the config means that gives only some layers experts (moe_every_n_layers).
    bool some_sparse;
    bool alibi; // what the config means that has positions of this kind
    checkpoint_stacking stacking;
    int32_t first_position; // rows of the table of positions that no token uses
    checkpoint_qkv qkv;
    const char *defaults; // JSON: what the config may leave out; NULL: nothing
} checkpoint_family;

// Rows whose order depends on the family.
typedef enum checkpoint_rows {
    CHECKPOINT_ROWS_AS_THEY_ARE,
    CHECKPOINT_ROWS_OF_QUERIES, // heads, whose halves RoPE may pair
    CHECKPOINT_ROWS_OF_KEYS,
    CHECKPOINT_ROWS_FUSED,     // queries, keys and values
    CHECKPOINT_ROWS_OF_LATENT, // keys and values of all heads, made from the latent
    CHECKPOINT_ROWS_STACKED, // of all experts of a layer (MLX), or of all heads, one matrix behind the other
} checkpoint_rows;

typedef struct checkpoint {
    const char *folder;
    json_t *config;
    const checkpoint_family *family;
    int64_t layers, q_heads, kv_heads, head_dim;
    int64_t plain_dim,
        value_dim;    // of latent attention: elements of a key that do not rotate, of a value
    int64_t experts;  // of a mixture, else 0
    bool tied;        // no output matrix of its own
    bool scores;      // an encoder that says how well two texts go together
    int64_t left_out; // tensors of other senses than text
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

// Brings c->config to one set of names and finds its family.
bool checkpoint_settle_config(checkpoint *c, engine_error *err);

// Reads into c how the weights are quantised; only what its tensors tell, others would be read as something
// they are not.
bool checkpoint_read_quantization(checkpoint *c, engine_error *err);

// Reads what c->config says into c and the metadata.
bool checkpoint_read_config(checkpoint *c, gguf_output *output, engine_error *err);

// Reads the tokenizer into the metadata.
bool checkpoint_read_tokenizer(const checkpoint *c, gguf_output *output, engine_error *err);

// The tensors of all shards, under GGUF's names; *tensors from engine_alloc.
bool checkpoint_read_tensors(checkpoint *c, gguf_tensor **tensors, size_t *count,
                             engine_error *err);

// What the name of a tensor says.
typedef enum checkpoint_use {
    CHECKPOINT_USED,
    CHECKPOINT_NEEDLESS,        // belongs to another one (scales), or no text needs it
    CHECKPOINT_OF_OTHER_SENSES, // eyes and ears
} checkpoint_use;

typedef struct checkpoint_name {
    char module[SAFETENSORS_MAX_NAME_BYTES + 1]; // theirs, without ".weight"
    char ours[GGUF_MAX_NAME_BYTES + 1];
    int layer; // -1: outside the layers
    checkpoint_rows rows;
} checkpoint_name;

// A tensor's name without what wraps the language model, in any order.
const char *checkpoint_unwrapped(const char *name);

checkpoint_use checkpoint_name_of(const checkpoint *c, const char *theirs, checkpoint_name *name);

weft_dtype checkpoint_dtype(safetensors_dtype dtype);

// Brings rows of heads into the order of files, and with them the scales that belong to single rows.
bool checkpoint_order_rows(checkpoint *c, checkpoint_rows rows, gguf_tensor *to, engine_error *err);
// Columns become rows.
bool checkpoint_transpose(checkpoint *c, gguf_tensor *to, engine_error *err);
// The matrix that keys and values of all heads are made by, as one tensor for the keys, turned round, and one
// for the values; both have their names already.
bool checkpoint_split_latent(checkpoint *c, const gguf_tensor *whole, gguf_tensor to[2],
                             engine_error *err);
// The numbers that codes and what lies beside them stand for, in f32.
bool checkpoint_decode(checkpoint *c, gguf_tensor *to, engine_error *err);
// Leaves out rows of the table of positions that no token uses.
void checkpoint_skip_positions(const checkpoint *c, gguf_tensor *to);
// The same numbers in f32, each plus `plus`.
bool checkpoint_widen(checkpoint *c, gguf_tensor *to, float plus, engine_error *err);

// What a tensor of all experts of a layer is called behind its layer: "gate_up_proj_blocks"; NULL: it is none.
const char *checkpoint_stack_name(const char *theirs);

// Appends a block of 32 elements, of which 2 i and 2 i + 1 share a byte of `codes`; returns its end.
uint8_t *checkpoint_put_mxfp4(uint8_t *to, uint8_t exponent, const uint8_t codes[16]);

// All experts of a layer in one tensor (gpt-oss, Llama 4, nomic-bert); exponents: of codes, NULL for numbers.
// Makes *count of the tensors of a file, at most 2.
bool checkpoint_add_stack(checkpoint *c, const safetensor *from, const safetensor *exponents,
                          gguf_tensor *to, int *count, engine_error *err);

// Is `module` ("model.layers.3.mlp.experts.7.up_proj") a matrix of one expert? Then the tensor of all experts
// of its layer is called `ours`, "blk.3.ffn_up_exps.weight".
bool checkpoint_expert_name(const char *module, char ours[GGUF_MAX_NAME_BYTES + 1],
                            int64_t *expert);

// Copies an expert's matrix and what lies beside it to its place among the others', for which *to is begun if
// it has no data yet.
bool checkpoint_add_expert(checkpoint *c, const gguf_tensor *matrix, int64_t expert,
                           gguf_tensor *to, engine_error *err);

// The tensors of a matrix of MLX, or of those of all experts: codes, and NULL or what lies beside them.
typedef struct checkpoint_mlx_parts {
    const char *module; // as config.json names it
    const safetensor *codes, *scales, *biases, *global;
} checkpoint_mlx_parts;

// Sets format, data, planes, shape[0] and, where data is made anew, size_bytes of `to`.
bool checkpoint_read_mlx(checkpoint *c, const checkpoint_mlx_parts *parts, gguf_tensor *to,
                         engine_error *err);

// The mode that an entry of config.json names and weft does not know, or NULL; *known: those it does.
const char *checkpoint_mlx_modes(const json_t *settings, const char **known);

// The tensors of a matrix of GPTQ or AWQ; each but the codes may be missing (NULL), which is refused where it must not.
typedef struct checkpoint_integers_parts {
    const safetensor *codes, *zeros, *scales, *groups_of;
} checkpoint_integers_parts;

// Makes codes with planes, or numbers, of them; all but the name of `to` is filled in.
bool checkpoint_read_integers(checkpoint *c, const checkpoint_integers_parts *parts,
                              gguf_tensor *to, engine_error *err);

// The data of a tensor, copied if it does not begin at a multiple of `alignment`; NULL when memory is short.
const void *checkpoint_aligned(checkpoint *c, const safetensor *from, size_t alignment);

// Memory that lives as long as the model, zeroed; NULL when memory is short.
void *checkpoint_alloc(checkpoint *c, size_t size_bytes);
// Releases some of c->copies before that.
void checkpoint_drop(checkpoint *c, size_t first, size_t end);

#endif
