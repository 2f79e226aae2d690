// SPDX-License-Identifier: MIT
#ifndef ENGINE_GGUF_MIX_H
#define ENGINE_GGUF_MIX_H

// Which format each tensor of a file gets. A mix has a format for most matrices and better ones for those
// that suffer most. The mixes and their names are those that llama.cpp publishes files in
// (src/llama-quant.cpp), so that a file made here has the sizes that people expect of its name.

#include <stdbool.h>

#include "engine/gguf/ggml_type.h"

typedef struct gguf_mix gguf_mix;

// By name: a mix ("q4_k_m") or a format ("q4_0"); NULL if there is none. Case does not matter.
const gguf_mix *gguf_mix_find(const char *name);

// The n-th; NULL past the last.
const gguf_mix *gguf_mix_at(int32_t n);

const char *gguf_mix_name(const gguf_mix *mix);

// That of most matrices.
weft_dtype gguf_mix_format(const gguf_mix *mix);

// general.file_type of such files.
uint32_t gguf_mix_file_type(const gguf_mix *mix);

// What the choice depends on besides the tensor itself.
typedef struct gguf_mix_facts {
    int32_t layers, heads_per_kv_head;
    bool tied;       // the embedding is the output matrix as well
    bool importance; // importance weights are there
    bool pure;       // no exceptions: one format for all matrices
} gguf_mix_facts;

// The format of a tensor that now has `type`; `type` itself for what is not quantised: vectors, norms,
// small matrices of routing. Rows that are no whole number of blocks get a format of smaller blocks.
const ggml_type_info *gguf_mix_choose(const gguf_mix *mix, const gguf_mix_facts *facts,
                                      const char *name, uint32_t rank, const int64_t *shape,
                                      const ggml_type_info *type);

#endif
