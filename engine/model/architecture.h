// SPDX-License-Identifier: MIT
#ifndef ENGINE_MODEL_ARCHITECTURE_H
#define ENGINE_MODEL_ARCHITECTURE_H

// Model families as data. A family says which tensors a layer has, how its heads rotate, and what a layer
// does, line by line. A new family is a few lines in architecture.c.

#include <stdbool.h>
#include <stdint.h>

#include <weft/activation.h>
#include <weft/linear.h>
#include <weft/norm.h>
#include <weft/rope.h>

// X(id, name in the file after "blk.N.", rows, cols): every tensor a layer may have. Extents are
// symbols of model_extent; a vector has one row.
#define MODEL_LAYER_TENSORS(X)                                                                     \
    X(ATTN_NORM, "attn_norm.weight", ONE, EMBEDDING)                                               \
    X(ATTN_NORM_BIAS, "attn_norm.bias", ONE, EMBEDDING)                                            \
    X(ATTN_NORM_2, "attn_norm_2.weight", ONE, EMBEDDING)    /* of attention alone, where blocks */ \
    X(ATTN_NORM_2_BIAS, "attn_norm_2.bias", ONE, EMBEDDING) /* side by side have one each; of */   \
                                                            /* jina's code encoder behind it */    \
    X(ATTN_QKV, "attn_qkv.weight", QKV, EMBEDDING)                                                 \
    X(ATTN_QKV_BIAS, "attn_qkv.bias", ONE, QKV)                                                    \
    X(ATTN_Q, "attn_q.weight", Q, EMBEDDING)                                                       \
    X(ATTN_K, "attn_k.weight", KV, EMBEDDING)                                                      \
    X(ATTN_V, "attn_v.weight", KV, EMBEDDING)                                                      \
    X(ATTN_Q_BIAS, "attn_q.bias", ONE, Q)                                                          \
    X(ATTN_K_BIAS, "attn_k.bias", ONE, KV)                                                         \
    X(ATTN_V_BIAS, "attn_v.bias", ONE, KV)                                                         \
    X(ATTN_Q_NORM, "attn_q_norm.weight", ONE, HEAD)                                                \
    X(ATTN_K_NORM, "attn_k_norm.weight", ONE, HEAD)                                                \
    X(ATTN_WIDE_Q_NORM, "attn_q_norm.weight", ONE, Q)                                              \
    X(ATTN_WIDE_K_NORM, "attn_k_norm.weight", ONE, KV)                                             \
    X(ATTN_WIDE_Q_NORM_BIAS, "attn_q_norm.bias", ONE, Q) /* with these they are LayerNorms */      \
    X(ATTN_WIDE_K_NORM_BIAS, "attn_k_norm.bias", ONE, KV)                                          \
    X(ATTN_OUT, "attn_output.weight", EMBEDDING, ATTENDED)                                         \
    X(ATTN_OUT_BIAS, "attn_output.bias", ONE, EMBEDDING)                                           \
    X(LATENT_Q, "attn_q.weight", QUERIES, EMBEDDING)                                               \
    X(LATENT_Q_A, "attn_q_a.weight", Q_RANK, EMBEDDING)                                            \
    X(LATENT_Q_NORM, "attn_q_a_norm.weight", ONE, Q_RANK)                                          \
    X(LATENT_Q_B, "attn_q_b.weight", QUERIES, Q_RANK)                                              \
    X(LATENT_KV, "attn_kv_a_mqa.weight", HEAD, EMBEDDING) /* rows: the latent, then the rotated */ \
    X(LATENT_KV_NORM, "attn_kv_a_norm.weight", ONE, LATENT)                                        \
    X(LATENT_K_B, "attn_k_b.weight", HEADS_LATENT, PLAIN)                                          \
    X(LATENT_V_B, "attn_v_b.weight", HEADS_VALUE, LATENT)                                          \
    X(ATTN_POST_NORM, "post_attention_norm.weight", ONE, EMBEDDING)                                \
    X(FFN_NORM, "ffn_norm.weight", ONE, EMBEDDING)                                                 \
    X(FFN_NORM_BIAS, "ffn_norm.bias", ONE, EMBEDDING)                                              \
    X(FFN_GATE_UP, "ffn_up.weight", GATE_UP, EMBEDDING)                                            \
    X(FFN_UP_GATE, "ffn_up.weight", GATE_UP, EMBEDDING) /* the same, the rows of up first */       \
    X(FFN_GATE, "ffn_gate.weight", FEED_FORWARD, EMBEDDING)                                        \
    X(FFN_UP, "ffn_up.weight", FEED_FORWARD, EMBEDDING)                                            \
    X(FFN_UP_BIAS, "ffn_up.bias", ONE, FEED_FORWARD)                                               \
    X(FFN_DOWN, "ffn_down.weight", EMBEDDING, FEED_FORWARD)                                        \
    X(FFN_DOWN_BIAS, "ffn_down.bias", ONE, EMBEDDING)                                              \
    X(FFN_POST_NORM, "post_ffw_norm.weight", ONE, EMBEDDING)                                       \
    X(ATTN_OUT_NORM, "attn_output_norm.weight", ONE, EMBEDDING)    /* of the stream, in its */     \
    X(ATTN_OUT_NORM_BIAS, "attn_output_norm.bias", ONE, EMBEDDING) /* place */                     \
    X(LAYER_OUT_NORM, "layer_output_norm.weight", ONE, EMBEDDING)                                  \
    X(LAYER_OUT_NORM_BIAS, "layer_output_norm.bias", ONE, EMBEDDING)                               \
    X(ATTN_SINKS, "attn_sinks.weight", ONE, Q_HEADS)                                               \
    X(ROUTER, "ffn_gate_inp.weight", EXPERTS, EMBEDDING)                                           \
    X(ROUTER_BIAS, "ffn_gate_inp.bias", ONE, EXPERTS)                                              \
    X(ROUTER_CHOICE, "exp_probs_b.bias", ONE, EXPERTS) /* added to choose, not to weigh */         \
    X(EXPERTS_GATE, "ffn_gate_exps.weight", EXPERTS_INNER, EMBEDDING)                              \
    X(EXPERTS_UP, "ffn_up_exps.weight", EXPERTS_INNER, EMBEDDING)                                  \
    X(EXPERTS_DOWN, "ffn_down_exps.weight", EXPERTS_EMBEDDING, INNER)                              \
    X(EXPERTS_GATE_BIAS, "ffn_gate_exps.bias", EXPERTS, INNER)                                     \
    X(EXPERTS_UP_BIAS, "ffn_up_exps.bias", EXPERTS, INNER)                                         \
    X(EXPERTS_DOWN_BIAS, "ffn_down_exps.bias", EXPERTS, EMBEDDING)                                 \
    X(SHARED_ROUTER, "ffn_gate_inp_shexp.weight", ONE, EMBEDDING)                                  \
    X(SHARED_GATE, "ffn_gate_shexp.weight", SHARED, EMBEDDING)                                     \
    X(SHARED_UP, "ffn_up_shexp.weight", SHARED, EMBEDDING)                                         \
    X(SHARED_DOWN, "ffn_down_shexp.weight", EMBEDDING, SHARED)

// The same for the tensors outside the layers.
#define MODEL_GLOBAL_TENSORS(X)                                                                    \
    X(EMBEDDING, "token_embd.weight", VOCAB, EMBEDDING)                                            \
    X(OUTPUT_NORM, "output_norm.weight", ONE, EMBEDDING)                                           \
    X(OUTPUT_NORM_BIAS, "output_norm.bias", ONE, EMBEDDING)                                        \
    X(OUTPUT, "output.weight", VOCAB, EMBEDDING)                                                   \
    X(OUTPUT_BIAS, "output.bias", ONE, VOCAB)                                                      \
    X(POSITIONS, "position_embd.weight", POSITIONS, EMBEDDING)                                     \
    X(TOKEN_TYPES, "token_types.weight", TOKEN_TYPES, EMBEDDING)                                   \
    X(EMBEDDING_NORM, "token_embd_norm.weight", ONE, EMBEDDING)                                    \
    X(EMBEDDING_NORM_BIAS, "token_embd_norm.bias", ONE, EMBEDDING)                                 \
    X(CLASSIFIER, "cls.weight", EMBEDDING, EMBEDDING) /* of rerankers: a function of this, */      \
    X(CLASSIFIER_BIAS, "cls.bias", ONE, EMBEDDING)                                                 \
    X(CLASSIFIER_NORM, "cls.norm.weight", ONE, EMBEDDING) /* the norm of it where there is one, */ \
    X(CLASSIFIER_NORM_BIAS, "cls.norm.bias", ONE, EMBEDDING)                                       \
    X(SCORE, "cls.output.weight", LABELS, EMBEDDING) /* then that */                               \
    X(SCORE_BIAS, "cls.output.bias", ONE, LABELS)                                                  \
    X(ROPE_FREQS, "rope_freqs.weight", ONE, HALF_ROTARY)                                           \
    X(ROPE_LONG, "rope_factors_long.weight", ONE, HALF_ROTARY)   /* of contexts beyond the */      \
    X(ROPE_SHORT, "rope_factors_short.weight", ONE, HALF_ROTARY) /* original one, and within */

typedef enum model_extent {
    MODEL_ONE,
    MODEL_EMBEDDING,
    MODEL_Q,   // q_heads * head_dim
    MODEL_KV,  // kv_heads * head_dim
    MODEL_QKV, // the rows of Q, K and V one below the other
    MODEL_HEAD,
    MODEL_ATTENDED, // what attention gives, as the matrix behind it reads it
    // Latent attention:
    MODEL_LATENT,       // elements of a token's values in the cache
    MODEL_Q_RANK,       // elements that queries are made from; 0: from the stream
    MODEL_QUERIES,      // queries of all heads before the latent's matrix is in them
    MODEL_PLAIN,        // elements of such a query that do not rotate
    MODEL_HEADS_LATENT, // these two: the rows of all heads one below the other, a tensor of
    MODEL_HEADS_VALUE,  // three dimensions in a file
    MODEL_LATENT_ROW,   // elements of a token's keys in the cache
    MODEL_FEED_FORWARD,
    MODEL_GATE_UP, // the rows of gate and up one below the other
    MODEL_VOCAB,
    MODEL_HALF_ROTARY,
    MODEL_Q_HEADS,
    MODEL_WIDEST, // of the feed-forward blocks that are no experts
    MODEL_EXPERTS,
    MODEL_INNER,         // of an expert
    MODEL_EXPERTS_INNER, // the rows of all experts one below the other: a tensor of three dimensions
    MODEL_EXPERTS_EMBEDDING, // in a file
    MODEL_SHARED,            // of the expert that all tokens go to
    MODEL_POSITIONS,         // that have a row of their own
    MODEL_TOKEN_TYPES,
    MODEL_LABELS, // scores of a reranker
} model_extent;

enum model_layer_tensor {
    MODEL_NO_TENSOR,
#define MODEL_LAYER_ENUM(id, name, rows, cols) MODEL_##id,
    MODEL_LAYER_TENSORS(MODEL_LAYER_ENUM)
#undef MODEL_LAYER_ENUM
        MODEL_LAYER_TENSOR_COUNT
};

enum model_global_tensor {
#define MODEL_GLOBAL_ENUM(id, name, rows, cols) MODEL_GLOBAL_##id,
    MODEL_GLOBAL_TENSORS(MODEL_GLOBAL_ENUM)
#undef MODEL_GLOBAL_ENUM
        MODEL_GLOBAL_TENSOR_COUNT
};

typedef struct model_tensor_spec {
    const char *name;
    model_extent rows, cols;
} model_tensor_spec;

extern const model_tensor_spec model_layer_specs[MODEL_LAYER_TENSOR_COUNT];
extern const model_tensor_spec model_global_specs[MODEL_GLOBAL_TENSOR_COUNT];

// The buffers of a forward pass: X(id, extent of a token's row).
#define MODEL_BUFFERS(X)                                                                           \
    X(HIDDEN, EMBEDDING)   /* the residual stream */                                               \
    X(GATHERED, EMBEDDING) /* rows of HIDDEN that logits are wanted of */                          \
    X(Q, Q)                                                                                        \
    X(K, KV) /* latent attention: [rotated | latent], as the cache has it */                       \
    X(V, KV)                                                                                       \
    X(ATTENDED, ATTENDED)                                                                          \
    X(QUERY_RANK, Q_RANK)                                                                          \
    X(QUERIES, QUERIES)       /* heads of [plain | rotated] */                                     \
    X(COMPRESSED, LATENT_ROW) /* [latent | rotated] */                                             \
    X(LATENTS, HEADS_LATENT)  /* what attention gives, still latent */                             \
    X(BRANCH, EMBEDDING)      /* what a block adds to the stream, before its norm */               \
    X(GATED, WIDEST)                                                                               \
    X(ROUTED, EXPERTS)   /* a logit for every expert */                                            \
    X(NORMED, EMBEDDING) /* these two only where runs are separate */                              \
    X(UP, WIDEST)

enum model_buffer {
#define MODEL_BUFFER_ENUM(id, extent) MODEL_BUFFER_##id,
    MODEL_BUFFERS(MODEL_BUFFER_ENUM)
#undef MODEL_BUFFER_ENUM
        MODEL_BUFFER_COUNT
};

typedef enum model_op {
    MODEL_END = 0,   // of a layer's lines
    MODEL_LINEAR,    // in -> [norm] -> up to three matrices (+ bias) -> outs, [gate], [residual]
    MODEL_HEAD_NORM, // `in` in its place, in rows of the norm's length: each head, or all as one
    MODEL_HEAD_UNIT, // `in` in its place, each head to a mean square of 1, where the layer rotates
    MODEL_ADD_NORM,  // HIDDEN += norm of `in`
    MODEL_NORM,      // `in` = norm of `in`
    MODEL_ACTIVATE,  // the feed-forward's function on `in` in its place
    MODEL_APPEND,    // Q and K rotated; K and V into the pages
    MODEL_ATTENTION, // Q and pages -> ATTENDED
    MODEL_ABSORB, // QUERIES and COMPRESSED -> Q and K: the latent normed; heads times the first part
    MODEL_EXPAND, // LATENTS -> ATTENDED: heads times the first part
    MODEL_ROUTE,  // logits in `in`, of the first part's matrix (+ bias to choose by) -> the routing
    MODEL_MIX,    // in -> [norm] -> gate, up (or none) and down of the routed experts; the third
                  // part's buffer becomes what is in `base` plus that
    MODEL_ADD_BIAS, // `in` += the first part's bias, if there is one
} model_op;

enum { MODEL_MAX_PARTS = 3 };

// A line of what a layer does. Lines whose first matrix a layer may have and has not are left out, norms
// too; a LINEAR without the norm it names takes its input as it is.
typedef struct model_line {
    model_op op;
    enum model_buffer in;
    enum model_layer_tensor norm; // of LINEAR: in front; of the other norms: itself
    enum model_layer_tensor norm_bias;
    struct {
        enum model_layer_tensor matrix, bias;
        enum model_buffer out;
    } parts[MODEL_MAX_PARTS]; // ends at the first without a matrix
    bool gate;                // two parts become function(first) * second, in the first's buffer
    bool residual;            // the result is added to what is in `base`
    enum model_buffer base;   // of MIX and such a LINEAR; by default HIDDEN
} model_line;

// What a family does with the stream besides its lines.
enum {
    MODEL_SCALES_EMBEDDING = 1u << 0, // by the square root of its length
    MODEL_DIVIDES_LOGITS = 1u << 1,   // logit_scale divides
    MODEL_IGNORES_WINDOW = 1u << 2,   // the file's window is not used
    MODEL_LOCAL_ROPE =
        1u << 3, // layers with a window rotate without scaling, by a base of their own
    MODEL_NORMALISES_ROUTE =
        1u << 4, // weights of a token's experts add up to 1, if the file does not say
    MODEL_SIGMOID_ROUTE = 1u << 5, // likewise
    MODEL_CLAMPS_GATE = 1u << 6,   // the clamped gate of gpt-oss
    MODEL_LATENT_ATTENTION = 1u << 7,
    MODEL_ENCODER = 1u << 8,                 // tokens see those behind them; there are no logits
    MODEL_FIRST_SEES_ALL = 1u << 9,          // of window_period the first layer, not the last
    MODEL_ROTATES_WITHOUT_WINDOW = 1u << 10, // unrotated_period is of models with a window
    MODEL_SCALES_BY_SIZE = 1u << 11,         // scales of MiniCPM, if the file does not say
    MODEL_CHUNKS = 1u << 12,                 // the window is a chunk: keys of the own one are seen
    MODEL_QUERIES_GROW = 1u << 13,           // of layers that do not rotate, with the position
    MODEL_WEIGHS_INPUT = 1u << 14,           // of experts, not their results
    MODEL_SHARES_WIDTH = 1u << 15,   // the expert that all tokens go to is as wide as the others
    MODEL_SCORES_BY_GELU = 1u << 16, // of a reranker the classifier's function is GELU, not tanh;
                                     // it reads the states' mean, if the file does not say
    MODEL_ALIBI = 1u << 17, // scores fall with the distance of keys, by a slope of each head
};

typedef struct model_architecture {
    const char *name; // general.architecture
    weft_rope_style rope_style;
    weft_norm_kind norm;           // of every norm but those of heads that have no bias
    weft_activation_kind function; // of the feed-forward block
    uint32_t traits;
    // The last of every so many layers sees all keys, the others those of the window; 0: all layers alike.
    int32_t window_period;
    int32_t unrotated_period; // the last of every so many layers does not rotate; 0: all do
    int32_t window;           // keys, if the file does not say
    // A model of so many scales scores by its width over its heads, not head_dim.
    int32_t narrow_layers;
    uint64_t needs;  // bits of model_layer_tensor that every layer has
    uint64_t may;    // and those that it may have besides
    uint64_t sparse; // bits that layers with experts need besides,
    uint64_t dense;  // and layers without, of models that have such
    // Bits of model_global_tensor beside the embedding; 0: the norm behind the layers.
    uint32_t globals;
    // What a file is that has experts; NULL: what it is without.
    const struct model_architecture *mixture;
    // What a file is that has MODEL_ATTN_NORM_2 besides; NULL: there is no such kind.
    const struct model_architecture *two_norms;
    const struct model_architecture
        *sequential;         // what a file is that says that its blocks are not side by side
    const model_line *lines; // of every layer, up to MODEL_END
} model_architecture;

// NULL if the family is unknown.
const model_architecture *model_architecture_find(const char *name, size_t name_bytes);

// The n-th family; NULL past the last.
const model_architecture *model_architecture_at(int32_t n);

#endif
