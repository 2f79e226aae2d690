// SPDX-License-Identifier: MIT
#ifndef ENGINE_MODEL_CONFIG_H
#define ENGINE_MODEL_CONFIG_H

// What a model is, in numbers, read from the metadata of its file and checked.

#include <weft/weft.h>

#include "engine/base/error.h"
#include "engine/gguf/gguf.h"
#include "engine/model/architecture.h"

// Latent attention: what a token's keys and values are made from is cached, and every head's matrices stand
// on the other side of the product. Keys in the cache are [rotated | latent], values their latent part.
typedef struct model_latent {
    int32_t dim;       // of the latent part; 0: no latent attention
    int32_t q_rank;    // what queries are made from; 0: the stream
    int32_t q_dim;     // of a head's query before the latent's matrix is in it
    int32_t value_dim; // of a head's result
} model_latent;

typedef struct model_config {
    const model_architecture *architecture;
    int32_t layers, embedding_dim, feed_forward_dim, vocab;
    int32_t q_heads, kv_heads, head_dim;
    model_latent latent;
    int32_t trained_context;  // tokens
    int32_t window;           // keys, or of a chunk (MODEL_CHUNKS); 0: none
    int32_t window_period;    // one of every so many layers has none; 0: all have it
    int32_t unrotated_period; // the last of every so many layers does not rotate; 0: all do
    bool unit_heads;          // MODEL_HEAD_UNIT
    // Queries of layers that do not rotate grow (weft/kv.h); 0: they do not.
    int32_t q_growth_length;
    float q_growth;
    bool full_mask;        // tokens see those behind them; a window reaches as far to either side
    int32_t positions;     // rows of learned positions; 0: there are none
    int32_t token_types;   // 0: there are none
    int32_t labels;        // scores of a reranker; 0: it is none
    int32_t pooling;       // what the file wants: engine_pooling; 0: it does not say
    int32_t score_pooling; // what a reranker's classifier reads: likewise
    // Mixtures of experts; experts is 0 for other models.
    int32_t experts, experts_used, expert_dim;
    int32_t shared_dim;    // of the expert that all tokens go to; 0: none
    int32_t dense_layers;  // the first ones, without experts
    int32_t expert_period; // of every so many layers one has experts; 0: all but dense_layers
    int32_t expert_place;  // which of them, from 0 on
    int32_t expert_groups, expert_top_groups;
    bool sigmoid_route, normalises_route;
    float expert_scale;            // of the weights of a token's experts; 0: 1
    weft_activation_kind function; // of the feed-forward blocks
    float norm_eps;
    // Factors, of which 0 means none; caps, of which 0 means none either.
    float embedding_scale, residual_scale, attention_scale, logit_scale;
    float attention_softcap, logit_softcap;
    float alibi_bias; // slopes of heads begin at 2^-(this over their number); 0: there are none
    weft_rope_params rope;       // freq_factors are set by the weights
    weft_rope_params local_rope; // of layers with a window, where they differ
} model_config;

// What differs between layers.
typedef struct model_layer_rules {
    int32_t window;               // keys, the own among them; 0: none
    int32_t window_right;         // keys behind the own, where the mask is full; 0: all
    int32_t chunk;                // keys; those of the own chunk are seen; 0: all
    const weft_rope_params *rope; // NULL: heads are not rotated
} model_layer_rules;

// `ropes`: the config's rope and local_rope, in that order.
model_layer_rules model_config_layer(const model_config *config, int32_t layer,
                                     const weft_rope_params ropes[2]);

// Bits of model_layer_tensor that layer n needs, and those that it may have besides.
uint64_t model_config_needs(const model_config *config, int32_t layer);

// Does the model need this model_global_tensor, may it have it?
bool model_config_needs_global(const model_config *config, int tensor);
bool model_config_may_have_global(const model_config *config, int tensor);

// vocab is taken from the embedding table, which the caller passes.
bool model_config_read(model_config *config, const gguf_file *file, engine_error *err);

// Refuses numbers that no forward pass could use; for configs from any source.
bool model_config_check(const model_config *config, engine_error *err);

#endif
