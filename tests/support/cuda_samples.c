// SPDX-License-Identifier: MIT
#include "tests/cuda/samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

enum { MOST = 512 };

static struct cuda_sample samples[MOST];
static int num_samples;

static union {
    weft_norm_desc norm;
    weft_activation_desc activation;
    weft_softmax_desc softmax;
    weft_merge_desc merge;
    weft_rope_desc rope;
    weft_kv_append_desc kv;
    weft_pages_desc pages;
    weft_sample_desc sample;
    weft_embedding_desc embedding;
    weft_probe_args probe;
    weft_linear_desc linear;
    weft_round_desc round;
    weft_attention_desc attention;
    weft_route_desc route;
    weft_experts_desc experts;
} descs[MOST];

#define ADD(OP, ...)                                                                               \
    do {                                                                                           \
        int n = num_samples++;                                                                     \
        if (n >= MOST)                                                                             \
            abort();                                                                               \
        descs[n].OP = __VA_ARGS__;                                                                 \
        descs[n].OP.size = sizeof descs[n].OP;                                                     \
        samples[n] = (struct cuda_sample){.op = WEFT__OP_##OP, .desc = &descs[n].OP};              \
        snprintf(samples[n].name, sizeof samples[n].name, "%s sample %d", #OP, n);                 \
    } while (0)

static void small_operations(void)
{
    for (int kind = 0; kind < 2; kind++)
        for (int dim = 100; dim <= 4096; dim += 3996)
            ADD(norm, (weft_norm_desc){.kind = (weft_norm_kind)kind,
                                       .x_dtype = WEFT_F32,
                                       .y_dtype = dim == 100 ? WEFT_BF16 : WEFT_F32,
                                       .weight_dtype = WEFT_F32,
                                       .dim = dim,
                                       .max_rows = 4});
    for (int kind = 0; kind < 3; kind++)
        ADD(activation, (weft_activation_desc){.kind = (weft_activation_kind)kind,
                                               .x_dtype = (weft_dtype)(kind + 1),
                                               .y_dtype = (weft_dtype)(kind + 1),
                                               .dim = 4096,
                                               .max_rows = 4});
    ADD(merge, (weft_merge_desc){.dtype = WEFT_F32,
                                 .out_dtype = WEFT_F16,
                                 .dim = 128,
                                 .num_heads = 8,
                                 .max_states = 2,
                                 .max_tokens = 4});
    ADD(softmax, (weft_softmax_desc){.dtype = WEFT_F32, .dim = 4096, .max_rows = 4, .scale = 1});
    for (int style = 0; style < 2; style++)
        ADD(rope, (weft_rope_desc){.num_heads = 8,
                                   .head_dim = 128,
                                   .max_tokens = 4,
                                   .dtype = (weft_dtype)(style + 1),
                                   .rope = {.style = (weft_rope_style)style, .base = 10000}});
}

static const weft_rope_params append_ropes[] = {
    {.style = WEFT_ROPE_SPLIT_HALF, .base = 10000, .factor = 1},
    {.style = WEFT_ROPE_INTERLEAVED, .base = 10000, .factor = 1}};

static void appends(void)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F16, WEFT_BF16};
    for (int i = 0; i < 9; i++)
        ADD(kv, (weft_kv_append_desc){.max_tokens = 4,
                                      .x_dtype = dtypes[i == 5   ? 1
                                                        : i == 7 ? 2
                                                                 : 0],
                                      .layout = {.dtype = dtypes[i / 3],
                                                 .num_kv_heads = 8,
                                                 .head_dim = 128,
                                                 .page_size = 16,
                                                 .v_dtype = dtypes[i / 3],
                                                 .v_dim = 128,
                                                 .inner = 128,
                                                 .v_inner = 128},
                                      .rope = i % 3 ? &append_ropes[i % 3 - 1] : NULL,
                                      .num_q_heads = 32});
    static const weft_dtype blocks[] = {WEFT_Q8_0, WEFT_Q5_1, WEFT_Q5_0,
                                        WEFT_Q4_1, WEFT_Q4_0, WEFT_IQ4_NL};
    for (int i = 0; i < 6; i++) {
        ADD(kv, (weft_kv_append_desc){.max_tokens = 4,
                                      .x_dtype = dtypes[i % 3],
                                      .layout = {.dtype = blocks[i],
                                                 .num_kv_heads = 8,
                                                 .head_dim = 128,
                                                 .page_size = 16,
                                                 .v_dtype = (weft_dtype)(WEFT_FP8_E4M3 + i % 3),
                                                 .v_dim = 64,
                                                 .inner = 128,
                                                 .v_inner = 32,
                                                 .v_scaling = WEFT_KV_SCALING_TOKEN},
                                      .rope = &append_ropes[i % 2],
                                      .num_q_heads = 32});
        samples[num_samples - 1].seldom = i > 0;
    }
}

static void pages(void)
{
    for (int mode = WEFT_PAGES_COPY; mode <= WEFT_PAGES_OWN; mode++)
        ADD(pages, (weft_pages_desc){.mode = (weft_pages_mode)mode,
                                     .max_pairs = 4,
                                     .layout = {.dtype = WEFT_F16,
                                                .num_kv_heads = 8,
                                                .head_dim = 128,
                                                .page_size = 16,
                                                .v_dtype = WEFT_F16,
                                                .v_dim = 128,
                                                .inner = 128,
                                                .v_inner = 128}});
}

// Queries that grow with their position.
static void growing_appends(void)
{
    for (int i = 0; i < 2; i++)
        ADD(kv, (weft_kv_append_desc){.max_tokens = 4,
                                      .x_dtype = WEFT_F32,
                                      .layout = {.dtype = i ? WEFT_Q8_0 : WEFT_F16,
                                                 .num_kv_heads = 8,
                                                 .head_dim = 128,
                                                 .page_size = 16,
                                                 .v_dtype = i ? WEFT_Q8_0 : WEFT_F16,
                                                 .v_dim = 128,
                                                 .inner = 128,
                                                 .v_inner = 128},
                                      .num_q_heads = 32,
                                      .q_growth_length = 8192,
                                      .q_growth = 0.1f});
}

static void tokens(void)
{
    for (int32_t i = 0; weft_dtype_at(i) != WEFT_DTYPE_NONE; i++) {
        ADD(embedding, (weft_embedding_desc){.table_dtype = weft_dtype_at(i),
                                             .rows = 1000,
                                             .dim = 4096,
                                             .max_tokens = 4,
                                             .scale = 1,
                                             .y_dtype = WEFT_F32});
        samples[num_samples - 1].seldom = i % 8 != 2;
    }
    for (int kind = 0; kind <= WEFT_PROBE_MMA_F16; kind++)
        ADD(probe, (weft_probe_args){.kind = (weft_probe_kind)kind});
    ADD(sample, (weft_sample_desc){.logits_dtype = WEFT_F32, .max_rows = 4, .vocab = 128256});
}

// As a plan has it: the matrices are parts.
static weft_linear_desc layer(weft_dtype format, int32_t num_parts, uint32_t flags)
{
    weft_linear_desc desc = {.flags = flags,
                             .x_dtype = WEFT_F32,
                             .y_dtype = WEFT_F32,
                             .cols = 4096,
                             .max_batch = 16,
                             .num_parts = num_parts};
    for (int p = 0; p < num_parts; p++)
        desc.parts[p] = (weft_linear_part){
            .weight_dtype = format, .scale_dtype = WEFT_F32, .rows = 4096, .scale_rows = 1};
    return desc;
}

// Scales and biases of the format's groups, in 16 bits: tiles have them.
static weft_linear_desc groups(weft_dtype format, weft_dtype scales)
{
    weft_linear_desc desc = layer(format, 1, 0);
    desc.parts[0].scale_dtype = scales;
    desc.parts[0].scale_cols = weft_dtype_block_elems(format);
    return desc;
}

static void linear_of_groups(void)
{
    for (int value = WEFT_MLX_Q2_G32; value <= WEFT_MLX_Q8_G128; value++) {
        const bool often = value == WEFT_MLX_Q3_G32 || value == WEFT_MLX_Q4_G64;
        weft_linear_desc desc =
            groups((weft_dtype)value, value == WEFT_MLX_Q4_G64 ? WEFT_F16 : WEFT_BF16);
        desc.max_batch = value == WEFT_MLX_Q4_G64 ? 512 : 16;
        ADD(linear, desc);
        samples[num_samples - 1].seldom = !often;
    }
}

static void linear_forms(void)
{
    static const char *const names[] = {
        "linear_q4_0_q8_standard_sm80", "linear_q4_0_q8_large_sm80", "linear_q4_0_q8_wide_sm80",
        "linear_q4_0_q8_batched_sm80",  "linear_f16_f32_wide_sm80",  "linear_q2_k_q8_wide_sm80",
        "linear_iq2_xs_q8_wide_sm80"};
    static const weft_dtype formats[] = {WEFT_Q4_0, WEFT_Q4_0, WEFT_Q4_0,  WEFT_Q4_0,
                                         WEFT_F16,  WEFT_Q2_K, WEFT_IQ2_XS};
    for (int i = 0; i < 7; i++) {
        weft_linear_desc desc = layer(formats[i], 1, 0);
        desc.variant = names[i];
        desc.max_batch = i == 3 || i > 4 ? 8 : 1;
        ADD(linear, desc);
        samples[num_samples - 1].seldom = i > 0 && i < 5;
    }
    weft_linear_desc few_bits = groups(WEFT_MLX_Q2_G64, WEFT_BF16);
    few_bits.variant = "linear_mlx_q2_g64_q8_wide_sm80";
    few_bits.max_batch = 8;
    ADD(linear, few_bits);
}

static void linear_layers(void)
{
    static const weft_dtype formats[] = {
        WEFT_Q4_0,  WEFT_Q4_K,    WEFT_BF16,   WEFT_Q8_0,  WEFT_Q6_K,    WEFT_Q4_1,   WEFT_Q5_0,
        WEFT_Q5_1,  WEFT_Q2_K,    WEFT_Q3_K,   WEFT_Q5_K,  WEFT_IQ4_NL,  WEFT_IQ4_XS, WEFT_MXFP4,
        WEFT_NVFP4, WEFT_IQ2_XXS, WEFT_IQ2_XS, WEFT_IQ2_S, WEFT_IQ3_XXS, WEFT_IQ3_S,  WEFT_IQ1_S,
        WEFT_IQ1_M, WEFT_TQ2_0,   WEFT_F32,    WEFT_F16,   WEFT_TQ1_0};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        for (int exact = 0; exact < 2; exact++) {
            ADD(linear, layer(formats[i], 1, exact ? WEFT_LINEAR_EXACT : 0));
            samples[num_samples - 1].seldom =
                (i > 2 && formats[i] != WEFT_Q2_K && formats[i] != WEFT_Q3_K &&
                 formats[i] != WEFT_IQ2_XS && formats[i] != WEFT_IQ3_XXS) ||
                exact;
        }
    for (size_t i = 0; i < 23; i++) { // many rows of X
        weft_linear_desc wide = layer(formats[i], 1, 0);
        wide.max_batch = 512;
        ADD(linear, wide);
        samples[num_samples - 1].seldom = i > 2;
    }
    // what engines ask for: Q, K and V behind a norm; a gate; what the next layer reads
    for (size_t i = 0; i < 23; i++) {
        if (i >= 5 && i < 15)
            continue;
        weft_linear_desc qkv = layer(formats[i], 3, 0), gate = layer(formats[i], 2, 0);
        weft_linear_desc down = layer(formats[i], 1, WEFT_LINEAR_NEXT);
        qkv.norm = gate.norm = WEFT_LINEAR_NORM_RMS;
        gate.gate = WEFT_LINEAR_GATE_SILU;
        gate.flags = WEFT_LINEAR_Y_ROUNDED;
        down.y_dtype = WEFT_BF16;
        ADD(linear, qkv);
        samples[num_samples - 1].seldom = i > 0;
        ADD(linear, gate);
        samples[num_samples - 1].seldom = i > 0 && i != 2;
        ADD(linear, down);
        samples[num_samples - 1].seldom = i > 0 && i != 2;
    }
    // rows that no shared memory holds
    for (int i = 0; i < 3; i++) {
        weft_linear_desc wide = layer(formats[i], 1, i == 1 ? WEFT_LINEAR_EXACT : 0);
        wide.cols = 1 << 22;
        ADD(linear, wide);
        samples[num_samples - 1].seldom = i > 0;
    }
    weft_linear_desc mixed = layer(WEFT_Q4_K, 2, 0);
    mixed.parts[1].weight_dtype = WEFT_Q6_K;
    mixed.gate = WEFT_LINEAR_GATE_GELU;
    mixed.norm = WEFT_LINEAR_NORM_LAYER;
    ADD(linear, mixed);
    for (int dtype = 1; dtype <= 3; dtype++)
        ADD(round, (weft_round_desc){.x_dtype = (weft_dtype)dtype, .max_rows = 4, .cols = 4096});
}

// One of few experts and of many, every format once.
static void mixtures(void)
{
    for (int many = 0; many < 2; many++)
        ADD(route, (weft_route_desc){.experts = many ? 256 : 8,
                                     .top_k = many ? 8 : 2,
                                     .logits_dtype = many ? WEFT_BF16 : WEFT_F32,
                                     .groups = many ? 8 : 1,
                                     .top_groups = many ? 4 : 1,
                                     .group_best = many ? 2 : 1,
                                     .max_rows = 4,
                                     .scale = 1});
    for (int32_t i = 0; weft_dtype_at(i) != WEFT_DTYPE_NONE; i++) {
        const weft_linear_desc like = layer(weft_dtype_at(i), 3, 0);
        weft_experts_desc desc = {.experts = 32,
                                  .top_k = 4,
                                  .max_batch = 4,
                                  .gate = WEFT_LINEAR_GATE_SILU,
                                  .cols = 4096,
                                  .inner = 4096,
                                  .x_dtype = WEFT_F32,
                                  .y_dtype = WEFT_BF16,
                                  .norm = WEFT_LINEAR_NORM_RMS};
        memcpy(desc.parts, like.parts, sizeof desc.parts);
        desc.clamp_limit = i % 2 ? 7 : 0;
        for (int p = 0; p < WEFT_EXPERTS_PARTS; p++)
            desc.parts[p].scale_cols = weft_dtype_block_elems(weft_dtype_at(i)) == 1 ? 4096 : 0;
        ADD(experts, desc);
        samples[num_samples - 1].seldom = weft_dtype_at(i) != WEFT_MXFP4;
        weft_experts_desc plain = desc;
        plain.flags = WEFT_EXPERTS_PLAIN;
        plain.gate = WEFT_LINEAR_GATE_GELU;
        plain.clamp_limit = 0;
        memset(&plain.parts[WEFT_EXPERTS_UP], 0, sizeof plain.parts[0]);
        ADD(experts, plain);
        samples[num_samples - 1].seldom =
            weft_dtype_at(i) != WEFT_Q4_0 && weft_dtype_at(i) != WEFT_MLX_Q4_G128;
        if (weft_dtype_at(i) == WEFT_F16 || weft_dtype_at(i) == WEFT_FP8_E4M3) {
            desc.max_batch = plain.max_batch = 512; // tiles of many places
            plain.adapter_rank = 16;
            plain.flags |= WEFT_EXPERTS_WEIGH_INPUT;
            ADD(experts, desc);
            ADD(experts, plain);
        }
        if (weft_dtype_at(i) != WEFT_Q4_0)
            continue;
        desc.flags = WEFT_EXPERTS_WEIGH_INPUT;
        desc.adapter_rank = 16;
        ADD(experts, desc);
    }
}

static weft_attention_desc attention_sample(weft_dtype kv, weft_dtype q, int32_t head_dim,
                                            int32_t max_q_tokens)
{
    return (weft_attention_desc){
        .kv = {.dtype = kv, .num_kv_heads = 8, .head_dim = head_dim, .page_size = 16},
        .q_dtype = q,
        .out_dtype = WEFT_F32,
        .num_q_heads = 32,
        .scale = 1,
        .max_seqs = 4,
        .max_q_tokens = max_q_tokens,
        .max_kv_len = 8192};
}

// Append, attention and rounding in one launch.
static void attention_of_new_tokens(void)
{
    static const weft_rope_params ropes[] = {
        {.style = WEFT_ROPE_SPLIT_HALF, .base = 10000, .rotary_dim = 128},
        {.style = WEFT_ROPE_INTERLEAVED, .base = 10000, .rotary_dim = 64}};
    for (int i = 0; i < 6; i++) {
        static const int32_t head_dims[] = {128, 64, 96, 256, 128, 128};
        weft_attention_desc desc =
            attention_sample(i % 2 ? WEFT_BF16 : WEFT_F16, WEFT_F32, head_dims[i], 4);
        desc.flags = WEFT_ATTENTION_APPEND | (i < 5 ? WEFT_ATTENTION_NARROW_QUERIES : 0u) |
                     (i < 4 ? WEFT_ATTENTION_OUT_ROUNDED : 0u);
        desc.rope = i == 4 ? NULL : &ropes[head_dims[i] < 128];
        ADD(attention, desc);
        samples[num_samples - 1].seldom = i > 1;
    }
}

// What the CPU takes: sparse masks on tensor cores too; mask values, fp8 queries, dims up to 1024, mixed formats.
static void attention_of_every_mode(void)
{
    for (int i = 0; i < 4; i++) {
        weft_attention_desc desc =
            attention_sample(WEFT_BF16, i % 2 ? WEFT_FP8_E4M3 : WEFT_BF16, 128, 512);
        desc.flags = WEFT_ATTENTION_SPARSE_LISTS | (i ? WEFT_ATTENTION_SPARSE : 0u);
        desc.sparse_queries = desc.sparse_keys = desc.sparse_block = 64, desc.sparse_stride = 8;
        if (i > 1) {
            desc.flags |= WEFT_ATTENTION_MASK_VALUE;
            desc.kv.dtype = i == 2 ? WEFT_FP8_E5M2 : WEFT_Q4_0, desc.kv.v_dtype = WEFT_INT8;
            desc.kv.head_dim = i == 2 ? 576 : 1024, desc.kv.v_dim = i == 2 ? 512 : 1024;
            desc.kv.v_inner = 1, desc.kv.v_scaling = WEFT_KV_SCALING_GIVEN;
        }
        ADD(attention, desc);
        samples[num_samples - 1].seldom = i != 1;
    }
}

// Prefill by warpgroups, which other devices than those of compute capability 9.0 refuse.
static void attention_by_warpgroups(void)
{
    static const int32_t head_dims[] = {128, 64, 256, 128, 64, 256};
    for (int i = 0; i < 6; i++) {
        const weft_dtype kv = i < 3 ? WEFT_BF16 : WEFT_F16;
        weft_attention_desc desc = attention_sample(kv, kv, head_dims[i], 512);
        desc.variant = i < 3 ? "attention_bf16_sm90a" : "attention_f16_sm90a";
        desc.kv.page_size = i < 3 ? 64 : 16; // tiles in boxes, or by cp.async
        desc.softcap = i % 2 ? 30 : 0, desc.flags = i == 5 ? WEFT_ATTENTION_ALIBI : 0;
        ADD(attention, desc);
        samples[num_samples - 1].seldom = i > 2;
        samples[num_samples - 1].sm = 90;
    }
}

// The next token of one sequence: clusters of attention_cluster.cu, whose blocks have 4, 8 or 12 warps by the
// number of keys.
static void attention_of_one_sequence(void)
{
    static const int32_t lengths[] = {4096, 8192, 4096, 6000, 16384};
    for (int i = 0; i < 5; i++) {
        const weft_dtype kv = i < 2 ? WEFT_BF16 : WEFT_F16;
        weft_attention_desc desc = attention_sample(kv, kv, i == 3 ? 64 : 128, 1);
        desc.max_seqs = 1, desc.max_kv_len = lengths[i];
        desc.softcap = i == 2 || i == 4 ? 30 : 0;
        desc.flags = desc.softcap > 0 ? WEFT_ATTENTION_ALIBI | WEFT_ATTENTION_SINKS : 0;
        ADD(attention, desc);
        samples[num_samples - 1].seldom = i == 3;
    }
}

// Pages of few tokens: attention_abreast.cu is compiled beside what such caches have else.
static void attention_of_whole_tokens(void)
{
    for (int i = 0; i < 3; i++) {
        const weft_dtype kv = i ? WEFT_F16 : WEFT_BF16;
        weft_attention_desc desc = attention_sample(kv, kv, i == 1 ? 64 : 128, 4);
        desc.kv.page_size = i == 1 ? 5 : 1;
        desc.softcap = i == 2 ? 30 : 0;
        desc.variant = i ? "attention_f16_sm90a" : "attention_bf16_sm90a";
        ADD(attention, desc);
        samples[num_samples - 1].sm = 90;
        samples[num_samples - 1].seldom = i > 0;
    }
}

// Decode alone, and with prefill beside it; queries in parts and not; every mask.
static void attention_of_caches(void)
{
    static const int32_t head_dims[] = {128, 64, 96, 256, 80};
    for (int i = 0; i < 20; i++) {
        weft_dtype kv = i / 5 % 2 ? WEFT_F16 : WEFT_BF16;
        ADD(attention, attention_sample(kv, i < 10 ? WEFT_F32 : kv, head_dims[i % 5], 512));
        samples[num_samples - 1].seldom = i != 0 && i != 10;
    }
    for (int i = 0; i < 4; i++) {
        weft_attention_desc desc =
            attention_sample(WEFT_BF16, i % 2 ? WEFT_F32 : WEFT_BF16, i / 2 ? 256 : 128, 512);
        desc.softcap = 30, desc.ring_len = 4096, desc.window = 100;
        desc.flags = WEFT_ATTENTION_ALIBI | WEFT_ATTENTION_SINKS;
        desc.mask = WEFT_MASK_BITS;
        ADD(attention, desc);
        samples[num_samples - 1].seldom = i > 0;
    }
    for (int i = 0; i < 6; i++) { // a byte an element
        weft_attention_desc desc =
            attention_sample((weft_dtype)(WEFT_FP8_E4M3 + i % 3), i % 2 ? WEFT_BF16 : WEFT_F32,
                             i < 3 ? 128 : 256, 512);
        desc.kv.scaling = desc.kv.v_scaling = WEFT_KV_SCALING_GIVEN;
        ADD(attention, desc);
        samples[num_samples - 1].seldom = i > 0;
    }
    attention_of_one_sequence();
    attention_of_whole_tokens();
    attention_of_new_tokens();
    attention_of_every_mode();
    attention_by_warpgroups();
}

int cuda_num_samples(void)
{
    if (num_samples == 0) {
        attention_of_caches();
        linear_layers();
        linear_of_groups();
        linear_forms();
        mixtures();
        small_operations();
        appends();
        pages();
        growing_appends();
        tokens();
    }
    return num_samples;
}

struct cuda_sample cuda_sample(int n)
{
    return samples[n];
}
