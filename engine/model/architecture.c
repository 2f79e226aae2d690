// SPDX-License-Identifier: MIT
#include "engine/model/architecture.h"

#include <string.h>

#define BIT(id)      (UINT64_C(1) << MODEL_##id)
#define GLOBAL(id)   (1u << MODEL_GLOBAL_##id)
#define QKV          (BIT(ATTN_Q) | BIT(ATTN_K) | BIT(ATTN_V))
#define QKV_BIAS     (BIT(ATTN_Q_BIAS) | BIT(ATTN_K_BIAS) | BIT(ATTN_V_BIAS))
#define FUSED_QKV    (BIT(ATTN_QKV) | BIT(ATTN_QKV_BIAS))
#define QK_NORM      (BIT(ATTN_Q_NORM) | BIT(ATTN_K_NORM))
#define WIDE_QK_NORM (BIT(ATTN_WIDE_Q_NORM) | BIT(ATTN_WIDE_K_NORM))
#define PRE_NORMS    (BIT(ATTN_NORM) | BIT(FFN_NORM))
#define NORM_BIASES  (BIT(ATTN_NORM_BIAS) | BIT(FFN_NORM_BIAS))
#define POST_NORMS   (BIT(ATTN_POST_NORM) | BIT(FFN_POST_NORM))
#define PLAIN_FFN    (BIT(FFN_UP) | BIT(FFN_DOWN))
#define GATED_FFN    (BIT(FFN_GATE) | PLAIN_FFN)
#define FFN_BIASES   (BIT(FFN_UP_BIAS) | BIT(FFN_DOWN_BIAS))
#define MIXTURE      (BIT(ROUTER) | BIT(EXPERTS_GATE) | BIT(EXPERTS_UP) | BIT(EXPERTS_DOWN))
#define EXPERT_BIASES                                                                              \
    (BIT(ROUTER_BIAS) | BIT(EXPERTS_GATE_BIAS) | BIT(EXPERTS_UP_BIAS) | BIT(EXPERTS_DOWN_BIAS))
#define SHARED_FFN (BIT(SHARED_GATE) | BIT(SHARED_UP) | BIT(SHARED_DOWN))
#define ATTENDS    (BIT(ATTN_NORM) | QKV | BIT(ATTN_OUT))
#define DENSE      (PRE_NORMS | QKV | BIT(ATTN_OUT) | GATED_FFN)

// What layers are made of. `normed` names the norm in front.
//
//  x -> norm -> q, k, v            one rounding of the input for three matrices
//  q, k -> norm                    where the layer has such norms; a rotation keeps lengths, so that
//                                  it does not matter that Llama 4's units come behind it
//  q, k, v -> q rotated, pages     append
//  q, pages -> attended            attention
#define ATTEND(normed)                                                                             \
    {.op = MODEL_LINEAR,                                                                           \
     .in = MODEL_BUFFER_HIDDEN,                                                                    \
     .norm = MODEL_##normed,                                                                       \
     .norm_bias = MODEL_##normed##_BIAS,                                                           \
     .parts = {{MODEL_ATTN_Q, MODEL_ATTN_Q_BIAS, MODEL_BUFFER_Q},                                  \
               {MODEL_ATTN_K, MODEL_ATTN_K_BIAS, MODEL_BUFFER_K},                                  \
               {MODEL_ATTN_V, MODEL_ATTN_V_BIAS, MODEL_BUFFER_V}}},                                \
        {.op = MODEL_HEAD_NORM, .in = MODEL_BUFFER_Q, .norm = MODEL_ATTN_Q_NORM},                  \
        {.op = MODEL_HEAD_NORM, .in = MODEL_BUFFER_K, .norm = MODEL_ATTN_K_NORM},                  \
        {.op = MODEL_HEAD_NORM,                                                                    \
         .in = MODEL_BUFFER_Q,                                                                     \
         .norm = MODEL_ATTN_WIDE_Q_NORM,                                                           \
         .norm_bias = MODEL_ATTN_WIDE_Q_NORM_BIAS},                                                \
        {.op = MODEL_HEAD_NORM,                                                                    \
         .in = MODEL_BUFFER_K,                                                                     \
         .norm = MODEL_ATTN_WIDE_K_NORM,                                                           \
         .norm_bias = MODEL_ATTN_WIDE_K_NORM_BIAS},                                                \
        {.op = MODEL_HEAD_UNIT, .in = MODEL_BUFFER_Q},                                             \
        {.op = MODEL_HEAD_UNIT, .in = MODEL_BUFFER_K}, {.op = MODEL_APPEND},                       \
    {                                                                                              \
        .op = MODEL_ATTENTION                                                                      \
    }
//  to = [HIDDEN +] W attended
#define PROJECT(to, adds)                                                                          \
    {                                                                                              \
        .op = MODEL_LINEAR, .in = MODEL_BUFFER_ATTENDED,                                           \
        .parts = {{MODEL_ATTN_OUT, MODEL_ATTN_OUT_BIAS, MODEL_BUFFER_##to}}, .residual = adds      \
    }
//  x -> norm -> gate, up -> function(gate) * up
#define GATE_UP(normed)                                                                            \
    {                                                                                              \
        .op = MODEL_LINEAR, .in = MODEL_BUFFER_HIDDEN, .norm = MODEL_##normed,                     \
        .norm_bias = MODEL_##normed##_BIAS,                                                        \
        .parts = {{MODEL_FFN_GATE, MODEL_NO_TENSOR, MODEL_BUFFER_GATED},                           \
                  {MODEL_FFN_UP, MODEL_NO_TENSOR, MODEL_BUFFER_GATED}},                            \
        .gate = true                                                                               \
    }
//  x -> norm -> up -> function(up)
#define UP(normed)                                                                                 \
    {.op = MODEL_LINEAR,                                                                           \
     .in = MODEL_BUFFER_HIDDEN,                                                                    \
     .norm = MODEL_##normed,                                                                       \
     .norm_bias = MODEL_##normed##_BIAS,                                                           \
     .parts = {{MODEL_FFN_UP, MODEL_FFN_UP_BIAS, MODEL_BUFFER_GATED}}},                            \
    {                                                                                              \
        .op = MODEL_ACTIVATE, .in = MODEL_BUFFER_GATED, .parts = {                                 \
            {MODEL_FFN_UP, MODEL_NO_TENSOR, MODEL_BUFFER_GATED}                                    \
        }                                                                                          \
    }
//  to = [HIDDEN +] W gated
#define DOWN(to, adds)                                                                             \
    {                                                                                              \
        .op = MODEL_LINEAR, .in = MODEL_BUFFER_GATED,                                              \
        .parts = {{MODEL_FFN_DOWN, MODEL_FFN_DOWN_BIAS, MODEL_BUFFER_##to}}, .residual = adds      \
    }
//  x += norm branch
#define ADD_BRANCH(normed)                                                                         \
    {                                                                                              \
        .op = MODEL_ADD_NORM, .in = MODEL_BUFFER_BRANCH, .norm = MODEL_##normed                    \
    }

//  x = norm x
#define NORM_STREAM(normed)                                                                        \
    {                                                                                              \
        .op = MODEL_NORM, .in = MODEL_BUFFER_HIDDEN, .norm = MODEL_##normed,                       \
        .norm_bias = MODEL_##normed##_BIAS                                                         \
    }

//  x -> norm -> a logit for every expert -> who goes where, and how much of it
#define ROUTE(normed, router, bias_of, choice)                                                     \
    {.op = MODEL_LINEAR,                                                                           \
     .in = MODEL_BUFFER_HIDDEN,                                                                    \
     .norm = MODEL_##normed,                                                                       \
     .parts = {{MODEL_##router, bias_of, MODEL_BUFFER_ROUTED}}},                                   \
    {                                                                                              \
        .op = MODEL_ROUTE, .in = MODEL_BUFFER_ROUTED, .parts = {                                   \
            {MODEL_##router, choice, MODEL_BUFFER_ROUTED}                                          \
        }                                                                                          \
    }
//  to = from + sum over a token's experts of weight * W (function(gate) * up) of norm x
#define MIX(normed, from, to)                                                                      \
    {                                                                                              \
        .op = MODEL_MIX, .in = MODEL_BUFFER_HIDDEN, .norm = MODEL_##normed,                        \
        .base = MODEL_BUFFER_##from, .parts = {                                                    \
            {MODEL_EXPERTS_GATE, MODEL_EXPERTS_GATE_BIAS, MODEL_BUFFER_##to},                      \
            {MODEL_EXPERTS_UP, MODEL_EXPERTS_UP_BIAS, MODEL_BUFFER_##to},                          \
            {MODEL_EXPERTS_DOWN, MODEL_EXPERTS_DOWN_BIAS, MODEL_BUFFER_##to}                       \
        }                                                                                          \
    }

//  x -> norm -> queries, compressed          one rounding of the input for both,
//  x -> norm -> rank, compressed             where queries are made from few numbers
//  rank -> norm -> queries
//  queries, compressed -> q, k               absorb
//  q, k -> pages -> latents -> attended      of keys alone: values are the latent part of them
#define ATTEND_LATENT(normed)                                                                      \
    {.op = MODEL_LINEAR,                                                                           \
     .in = MODEL_BUFFER_HIDDEN,                                                                    \
     .norm = MODEL_##normed,                                                                       \
     .parts = {{MODEL_LATENT_Q, MODEL_NO_TENSOR, MODEL_BUFFER_QUERIES},                            \
               {MODEL_LATENT_KV, MODEL_NO_TENSOR, MODEL_BUFFER_COMPRESSED}}},                      \
        {.op = MODEL_LINEAR,                                                                       \
         .in = MODEL_BUFFER_HIDDEN,                                                                \
         .norm = MODEL_##normed,                                                                   \
         .parts = {{MODEL_LATENT_Q_A, MODEL_NO_TENSOR, MODEL_BUFFER_QUERY_RANK},                   \
                   {MODEL_LATENT_KV, MODEL_NO_TENSOR, MODEL_BUFFER_COMPRESSED}}},                  \
        {.op = MODEL_LINEAR,                                                                       \
         .in = MODEL_BUFFER_QUERY_RANK,                                                            \
         .norm = MODEL_LATENT_Q_NORM,                                                              \
         .parts = {{MODEL_LATENT_Q_B, MODEL_NO_TENSOR, MODEL_BUFFER_QUERIES}}},                    \
        {.op = MODEL_ABSORB,                                                                       \
         .norm = MODEL_LATENT_KV_NORM,                                                             \
         .parts = {{MODEL_LATENT_K_B, MODEL_NO_TENSOR, MODEL_BUFFER_Q}}},                          \
        {.op = MODEL_APPEND}, {.op = MODEL_ATTENTION},                                             \
    {                                                                                              \
        .op = MODEL_EXPAND, .parts = {                                                             \
            {MODEL_LATENT_V_B, MODEL_NO_TENSOR, MODEL_BUFFER_ATTENDED}                             \
        }                                                                                          \
    }

static const model_line dense_block[] = {ATTEND(ATTN_NORM),
                                         PROJECT(HIDDEN, true),
                                         GATE_UP(FFN_NORM),
                                         DOWN(HIDDEN, true),
                                         {.op = MODEL_END}};
static const model_line plain_block[] = {
    ATTEND(ATTN_NORM), PROJECT(HIDDEN, true), UP(FFN_NORM), DOWN(HIDDEN, true), {.op = MODEL_END}};
// Norms behind the blocks, and in front where the layer has them.
static const model_line post_norm_block[] = {
    ATTEND(ATTN_NORM),   PROJECT(BRANCH, false),    ADD_BRANCH(ATTN_POST_NORM), GATE_UP(FFN_NORM),
    DOWN(BRANCH, false), ADD_BRANCH(FFN_POST_NORM), {.op = MODEL_END}};
// Both blocks read the stream as it came in; what they add comes last.
static const model_line parallel_block[] = {ATTEND(ATTN_NORM),
                                            GATE_UP(ATTN_NORM),
                                            PROJECT(HIDDEN, true),
                                            DOWN(HIDDEN, true),
                                            {.op = MODEL_END}};
static const model_line parallel_plain_block[] = {
    ATTEND(ATTN_NORM), UP(ATTN_NORM), PROJECT(HIDDEN, true), DOWN(HIDDEN, true), {.op = MODEL_END}};
static const model_line parallel_two_norms_block[] = {
    ATTEND(ATTN_NORM), UP(FFN_NORM), PROJECT(HIDDEN, true), DOWN(HIDDEN, true), {.op = MODEL_END}};
// The same, where files call attention's norm the second.
static const model_line falcon_block[] = {ATTEND(ATTN_NORM_2),
                                          UP(ATTN_NORM),
                                          PROJECT(HIDDEN, true),
                                          DOWN(HIDDEN, true),
                                          {.op = MODEL_END}};

// Encoders with the norms of their time: of the stream, behind each block. ATTN_NORM and FFN_NORM they have not.
static const model_line encoder_block[] = {
    ATTEND(ATTN_NORM),  PROJECT(HIDDEN, true),       NORM_STREAM(ATTN_OUT_NORM), UP(FFN_NORM),
    DOWN(HIDDEN, true), NORM_STREAM(LAYER_OUT_NORM), {.op = MODEL_END}};
static const model_line gated_encoder_block[] = {
    ATTEND(ATTN_NORM),  PROJECT(HIDDEN, true),       NORM_STREAM(ATTN_OUT_NORM), GATE_UP(FFN_NORM),
    DOWN(HIDDEN, true), NORM_STREAM(LAYER_OUT_NORM), {.op = MODEL_END}};

// Encoders of code (jina): a norm behind attention that the stream is added to once more, and another behind that.
static const model_line two_norms_encoder_block[] = {ATTEND(ATTN_NORM),
                                                     PROJECT(BRANCH, true), // + HIDDEN
                                                     {.op = MODEL_ADD_NORM,
                                                      .in = MODEL_BUFFER_BRANCH,
                                                      .norm = MODEL_ATTN_OUT_NORM,
                                                      .norm_bias = MODEL_ATTN_OUT_NORM_BIAS},
                                                     NORM_STREAM(ATTN_NORM_2),
                                                     GATE_UP(FFN_NORM),
                                                     DOWN(HIDDEN, true),
                                                     NORM_STREAM(LAYER_OUT_NORM),
                                                     {.op = MODEL_END}};

// Some layers with experts, which have no gate.
static const model_line mixture_encoder_block[] = {
    ATTEND(ATTN_NORM),
    PROJECT(HIDDEN, true),
    NORM_STREAM(ATTN_OUT_NORM),
    ROUTE(FFN_NORM, ROUTER, MODEL_NO_TENSOR, MODEL_NO_TENSOR),
    UP(FFN_NORM),
    DOWN(HIDDEN, true),
    {.op = MODEL_MIX,
     .in = MODEL_BUFFER_HIDDEN,
     .norm = MODEL_FFN_NORM,
     .base = MODEL_BUFFER_HIDDEN,
     .parts = {{MODEL_EXPERTS_UP, MODEL_NO_TENSOR, MODEL_BUFFER_HIDDEN},
               {MODEL_NO_TENSOR, MODEL_NO_TENSOR, MODEL_BUFFER_HIDDEN},
               {MODEL_EXPERTS_DOWN, MODEL_NO_TENSOR, MODEL_BUFFER_HIDDEN}}},
    {.op = MODEL_ADD_BIAS, // of all experts together: no weight multiplies it
     .in = MODEL_BUFFER_HIDDEN,
     .parts = {{MODEL_EXPERTS_DOWN, MODEL_FFN_DOWN_BIAS, MODEL_BUFFER_HIDDEN}}},
    NORM_STREAM(LAYER_OUT_NORM),
    {.op = MODEL_END}};

// Dense or a mixture, layer by layer. An expert that all tokens go to reads the stream before the others add.
#define DENSE_OR_MIXTURE                                                                           \
    GATE_UP(FFN_NORM), DOWN(HIDDEN, true),                                                         \
        ROUTE(FFN_NORM, ROUTER, MODEL_ROUTER_BIAS, MODEL_ROUTER_CHOICE),                           \
        {.op = MODEL_LINEAR,                                                                       \
         .in = MODEL_BUFFER_HIDDEN,                                                                \
         .norm = MODEL_FFN_NORM,                                                                   \
         .parts = {{MODEL_SHARED_GATE, MODEL_NO_TENSOR, MODEL_BUFFER_GATED},                       \
                   {MODEL_SHARED_UP, MODEL_NO_TENSOR, MODEL_BUFFER_GATED}},                        \
         .gate = true},                                                                            \
        MIX(FFN_NORM, HIDDEN, HIDDEN),                                                             \
    {                                                                                              \
        .op = MODEL_LINEAR, .in = MODEL_BUFFER_GATED,                                              \
        .parts = {{MODEL_SHARED_DOWN, MODEL_NO_TENSOR, MODEL_BUFFER_HIDDEN}}, .residual = true     \
    }

static const model_line mixture_block[] = {
    ATTEND(ATTN_NORM), PROJECT(HIDDEN, true), DENSE_OR_MIXTURE, {.op = MODEL_END}};
static const model_line latent_block[] = {
    ATTEND_LATENT(ATTN_NORM), PROJECT(HIDDEN, true), DENSE_OR_MIXTURE, {.op = MODEL_END}};
// The shared expert has a gate of its own: a mixture of one.
static const model_line gated_shared_block[] = {
    ATTEND(ATTN_NORM),
    PROJECT(HIDDEN, true),
    ROUTE(FFN_NORM, SHARED_ROUTER, MODEL_NO_TENSOR, MODEL_NO_TENSOR),
    {.op = MODEL_MIX,
     .in = MODEL_BUFFER_HIDDEN,
     .norm = MODEL_FFN_NORM,
     .base = MODEL_BUFFER_HIDDEN,
     .parts = {{MODEL_SHARED_GATE, MODEL_NO_TENSOR, MODEL_BUFFER_BRANCH},
               {MODEL_SHARED_UP, MODEL_NO_TENSOR, MODEL_BUFFER_BRANCH},
               {MODEL_SHARED_DOWN, MODEL_NO_TENSOR, MODEL_BUFFER_BRANCH}}},
    ROUTE(FFN_NORM, ROUTER, MODEL_NO_TENSOR, MODEL_NO_TENSOR),
    MIX(FFN_NORM, BRANCH, HIDDEN),
    {.op = MODEL_END}};
// The norm between the blocks has another name.
static const model_line gpt_oss_block[] = {
    ATTEND(ATTN_NORM),
    PROJECT(HIDDEN, true),
    ROUTE(ATTN_POST_NORM, ROUTER, MODEL_ROUTER_BIAS, MODEL_NO_TENSOR),
    MIX(ATTN_POST_NORM, HIDDEN, HIDDEN),
    {.op = MODEL_END}};

#define PAIRS     WEFT_ROPE_INTERLEAVED
#define HALVES    WEFT_ROPE_SPLIT_HALF
#define SILU      WEFT_ACTIVATION_SILU
#define GELU      WEFT_ACTIVATION_GELU
#define GELU_TANH WEFT_ACTIVATION_GELU_TANH
#define LAYER     WEFT_NORM_LAYER

#define ENCODER_NORMS                                                                              \
    (BIT(ATTN_OUT_NORM) | BIT(ATTN_OUT_NORM_BIAS) | BIT(LAYER_OUT_NORM) | BIT(LAYER_OUT_NORM_BIAS))
#define EMBEDDING_NORMS (GLOBAL(EMBEDDING_NORM) | GLOBAL(EMBEDDING_NORM_BIAS))

// Mixtral calls itself llama.
static const model_architecture mixtral = {"llama",
                                           PAIRS,
                                           .traits = MODEL_NORMALISES_ROUTE,
                                           .needs = ATTENDS | BIT(FFN_NORM),
                                           .sparse = MIXTURE,
                                           .lines = mixture_block};

#define FALCON (BIT(ATTN_NORM) | BIT(ATTN_NORM_BIAS) | QKV | BIT(ATTN_OUT) | PLAIN_FFN)
#define NEOX                                                                                       \
    (PRE_NORMS | NORM_BIASES | QKV | BIT(ATTN_OUT) | BIT(ATTN_OUT_BIAS) | PLAIN_FFN | FFN_BIASES)

// Falcon 40B and 180B.
static const model_architecture falcon_two_norms = {"falcon",
                                                    HALVES,
                                                    LAYER,
                                                    GELU,
                                                    .needs = FALCON | BIT(ATTN_NORM_2) |
                                                             BIT(ATTN_NORM_2_BIAS),
                                                    .may = FUSED_QKV,
                                                    .lines = falcon_block};
#define JINA                                                                                       \
    (ENCODER_NORMS | QKV | QKV_BIAS | BIT(ATTN_OUT) | BIT(ATTN_OUT_BIAS) | GATED_FFN |             \
     BIT(FFN_DOWN_BIAS))
static const model_architecture jina_code = {
    "jina-bert-v2",
    HALVES,
    LAYER,
    GELU,
    .traits = MODEL_ENCODER | MODEL_ALIBI,
    .unrotated_period = 1,
    .needs = JINA | WIDE_QK_NORM | BIT(ATTN_WIDE_Q_NORM_BIAS) | BIT(ATTN_WIDE_K_NORM_BIAS) |
             BIT(ATTN_NORM_2) | BIT(ATTN_NORM_2_BIAS),
    .may = FUSED_QKV | BIT(FFN_UP_GATE),
    .globals = EMBEDDING_NORMS | GLOBAL(TOKEN_TYPES),
    .lines = two_norms_encoder_block};
static const model_architecture sequential_neox = {
    "gptneox",           HALVES, LAYER, GELU, .needs = NEOX, .may = FUSED_QKV | QKV_BIAS,
    .lines = plain_block};

// Llama 1 to 3 and Mistral share "llama"; the window of Mistral is a number in the metadata. Converters
// write what differs between sizes of a family as numbers; what they leave out stands here.
static const model_architecture architectures[] = {
    {"llama", PAIRS, .needs = DENSE, .may = FUSED_QKV | QKV_BIAS | BIT(ATTN_OUT_BIAS),
     .mixture = &mixtral, .lines = dense_block},
    {"mistral", PAIRS, .needs = DENSE, .lines = dense_block},
    {"mistral3", PAIRS, .needs = DENSE, .lines = dense_block},
    {"qwen2", HALVES, .needs = DENSE | QKV_BIAS, .lines = dense_block},
    {"qwen3", HALVES, .needs = DENSE | QK_NORM, .may = QKV_BIAS | BIT(ATTN_OUT_BIAS),
     .lines = dense_block},
    {"gemma", HALVES, .function = GELU_TANH, .traits = MODEL_SCALES_EMBEDDING, .needs = DENSE,
     .lines = dense_block},
    {"gemma2", HALVES, .function = GELU_TANH, .traits = MODEL_SCALES_EMBEDDING, .window_period = 2,
     .window = 4096, .narrow_layers = 46, .needs = DENSE | POST_NORMS, .lines = post_norm_block},
    {"gemma3", HALVES, .function = GELU_TANH, .traits = MODEL_SCALES_EMBEDDING | MODEL_LOCAL_ROPE,
     .window_period = 6, .narrow_layers = 62, .needs = DENSE | POST_NORMS | QK_NORM,
     .lines = post_norm_block},
    // Files of Phi-3 carry windows that their models do not keep to in any program we know.
    {"phi3", HALVES, .traits = MODEL_IGNORES_WINDOW, .needs = DENSE,
     .may = FUSED_QKV | BIT(FFN_GATE_UP), .lines = dense_block},
    {"phi2", HALVES, LAYER, GELU_TANH,
     .needs = BIT(ATTN_NORM) | BIT(ATTN_NORM_BIAS) | QKV | BIT(ATTN_OUT) | BIT(ATTN_OUT_BIAS) |
              PLAIN_FFN | FFN_BIASES,
     .may = FUSED_QKV | QKV_BIAS, .lines = parallel_plain_block},
    {"command-r", PAIRS, LAYER, .needs = BIT(ATTN_NORM) | QKV | BIT(ATTN_OUT) | GATED_FFN,
     .lines = parallel_block},
    {"cohere2", PAIRS, LAYER, .window_period = 4, .unrotated_period = 4,
     .needs = BIT(ATTN_NORM) | QKV | BIT(ATTN_OUT) | GATED_FFN, .lines = parallel_block},
    {"starcoder2", HALVES, LAYER, GELU_TANH,
     .needs = PRE_NORMS | NORM_BIASES | QKV | BIT(ATTN_OUT) | PLAIN_FFN,
     .may = FUSED_QKV | QKV_BIAS | BIT(ATTN_OUT_BIAS) | FFN_BIASES, .lines = plain_block},
    {"gptneox", HALVES, LAYER, GELU, .needs = NEOX, .may = FUSED_QKV | QKV_BIAS,
     .sequential = &sequential_neox, .lines = parallel_two_norms_block},
    {"falcon", HALVES, LAYER, GELU, .needs = FALCON, .may = FUSED_QKV,
     .two_norms = &falcon_two_norms, .lines = parallel_plain_block},
    {"stablelm", HALVES, LAYER, .needs = DENSE | NORM_BIASES, .may = QKV_BIAS,
     .lines = dense_block},
    {"olmo2", HALVES, .needs = QKV | BIT(ATTN_OUT) | GATED_FFN | POST_NORMS | WIDE_QK_NORM,
     .lines = post_norm_block},
    {"smollm3", PAIRS, .unrotated_period = 4, .needs = DENSE, .lines = dense_block},
    {"granite", PAIRS, .traits = MODEL_DIVIDES_LOGITS, .needs = DENSE, .may = BIT(ATTN_OUT_BIAS),
     .lines = dense_block},
    {"minicpm", PAIRS, .traits = MODEL_DIVIDES_LOGITS | MODEL_SCALES_BY_SIZE, .needs = DENSE,
     .lines = dense_block},
    {"exaone", HALVES, .needs = DENSE, .lines = dense_block},
    {"exaone4", HALVES, .traits = MODEL_ROTATES_WITHOUT_WINDOW, .window_period = 4,
     .unrotated_period = 4, .needs = QKV | BIT(ATTN_OUT) | GATED_FFN | POST_NORMS | QK_NORM,
     .lines = post_norm_block},
    {"glm4", PAIRS, .needs = DENSE | POST_NORMS, .may = FUSED_QKV | QKV_BIAS | BIT(FFN_GATE_UP),
     .lines = post_norm_block},
    {"chatglm", PAIRS, .needs = DENSE, .may = FUSED_QKV | QKV_BIAS | BIT(FFN_GATE_UP),
     .lines = dense_block},
    {"qwen2moe", HALVES, .needs = ATTENDS | BIT(FFN_NORM), .may = QKV_BIAS,
     .sparse = MIXTURE | SHARED_FFN | BIT(SHARED_ROUTER), .lines = gated_shared_block},
    {"qwen3moe", HALVES, .traits = MODEL_NORMALISES_ROUTE,
     .needs = ATTENDS | BIT(FFN_NORM) | QK_NORM, .sparse = MIXTURE, .lines = mixture_block},
    {"olmoe", HALVES, .needs = ATTENDS | BIT(FFN_NORM) | WIDE_QK_NORM, .sparse = MIXTURE,
     .lines = mixture_block},
    {"dots1", HALVES, .traits = MODEL_SIGMOID_ROUTE | MODEL_NORMALISES_ROUTE,
     .needs = ATTENDS | BIT(FFN_NORM) | QK_NORM,
     .sparse = MIXTURE | SHARED_FFN | BIT(ROUTER_CHOICE), .dense = GATED_FFN,
     .lines = mixture_block},
    {"deepseek2", PAIRS, .traits = MODEL_LATENT_ATTENTION,
     .needs = PRE_NORMS | BIT(LATENT_KV) | BIT(LATENT_KV_NORM) | BIT(LATENT_K_B) | BIT(LATENT_V_B) |
              BIT(ATTN_OUT),
     .may = BIT(ROUTER_CHOICE), .sparse = MIXTURE | SHARED_FFN, .dense = GATED_FFN,
     .lines = latent_block},
    {"llama4", PAIRS,
     .traits = MODEL_SIGMOID_ROUTE | MODEL_WEIGHS_INPUT | MODEL_SHARES_WIDTH | MODEL_CHUNKS |
               MODEL_QUERIES_GROW | MODEL_ROTATES_WITHOUT_WINDOW,
     .window_period = 4, .unrotated_period = 4, .window = 8192, .needs = ATTENDS | BIT(FFN_NORM),
     .may = QKV_BIAS | BIT(ATTN_OUT_BIAS), .sparse = MIXTURE | SHARED_FFN, .dense = GATED_FFN,
     .lines = mixture_block},
    {"gpt2", HALVES, LAYER, GELU_TANH, .unrotated_period = 1,
     .needs = PRE_NORMS | NORM_BIASES | QKV | QKV_BIAS | BIT(ATTN_OUT) | BIT(ATTN_OUT_BIAS) |
              PLAIN_FFN | FFN_BIASES,
     .may = FUSED_QKV,
     .globals = GLOBAL(OUTPUT_NORM) | GLOBAL(OUTPUT_NORM_BIAS) | GLOBAL(POSITIONS),
     .lines = plain_block},
    {"bert", HALVES, LAYER, GELU, .traits = MODEL_ENCODER, .unrotated_period = 1,
     .needs = ENCODER_NORMS | QKV | QKV_BIAS | BIT(ATTN_OUT) | BIT(ATTN_OUT_BIAS) | PLAIN_FFN |
              FFN_BIASES,
     .may = FUSED_QKV, .globals = EMBEDDING_NORMS | GLOBAL(POSITIONS) | GLOBAL(TOKEN_TYPES),
     .lines = encoder_block},
    {"nomic-bert", HALVES, LAYER, .traits = MODEL_ENCODER,
     .needs = ENCODER_NORMS | QKV | BIT(ATTN_OUT) | GATED_FFN, .may = FUSED_QKV,
     .globals = EMBEDDING_NORMS | GLOBAL(TOKEN_TYPES), .lines = gated_encoder_block},
    {"jina-bert-v2", HALVES, LAYER, GELU, .traits = MODEL_ENCODER | MODEL_ALIBI,
     .unrotated_period = 1, .needs = JINA, .may = FUSED_QKV | BIT(FFN_GATE_UP),
     .globals = EMBEDDING_NORMS | GLOBAL(TOKEN_TYPES), .two_norms = &jina_code,
     .lines = gated_encoder_block},
    {"nomic-bert-moe", HALVES, LAYER, GELU, .traits = MODEL_ENCODER,
     .needs = ENCODER_NORMS | QKV | BIT(ATTN_OUT),
     .may = FUSED_QKV | QKV_BIAS | BIT(ATTN_OUT_BIAS) | FFN_BIASES,
     .sparse = BIT(ROUTER) | BIT(EXPERTS_UP) | BIT(EXPERTS_DOWN), .dense = PLAIN_FFN,
     .globals = EMBEDDING_NORMS | GLOBAL(TOKEN_TYPES), .lines = mixture_encoder_block},
    {"modern-bert", HALVES, LAYER, GELU,
     .traits = MODEL_ENCODER | MODEL_LOCAL_ROPE | MODEL_FIRST_SEES_ALL | MODEL_SCORES_BY_GELU,
     .window_period = 3, .needs = BIT(FFN_NORM) | QKV | BIT(ATTN_OUT) | GATED_FFN,
     .may = BIT(ATTN_NORM) | FUSED_QKV | BIT(FFN_GATE_UP),
     .globals = GLOBAL(OUTPUT_NORM) | GLOBAL(EMBEDDING_NORM), .lines = dense_block},
    {"eurobert", HALVES, .traits = MODEL_ENCODER, .needs = DENSE, .lines = dense_block},
    {"gpt-oss", HALVES, .traits = MODEL_NORMALISES_ROUTE | MODEL_CLAMPS_GATE, .window_period = 2,
     .needs = ATTENDS | BIT(ATTN_POST_NORM) | QKV_BIAS | BIT(ATTN_OUT_BIAS) | BIT(ATTN_SINKS),
     .sparse = MIXTURE | EXPERT_BIASES, .lines = gpt_oss_block},
};

#define SPEC(id, name, rows, cols) {name, MODEL_##rows, MODEL_##cols},
const model_tensor_spec model_layer_specs[] = {{NULL, MODEL_ONE, MODEL_ONE},
                                               MODEL_LAYER_TENSORS(SPEC)};
const model_tensor_spec model_global_specs[] = {MODEL_GLOBAL_TENSORS(SPEC)};
#undef SPEC

const model_architecture *model_architecture_at(int32_t n)
{
    int32_t count = sizeof architectures / sizeof *architectures;
    return n >= 0 && n < count ? &architectures[n] : NULL;
}

const model_architecture *model_architecture_find(const char *name, size_t name_bytes)
{
    const model_architecture *architecture;
    for (int32_t n = 0; (architecture = model_architecture_at(n)); n++)
        if (strlen(architecture->name) == name_bytes &&
            memcmp(architecture->name, name, name_bytes) == 0)
            return architecture;
    return NULL;
}
