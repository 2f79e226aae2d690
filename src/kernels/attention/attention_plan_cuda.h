// SPDX-License-Identifier: MIT
// What the planning of the kernels of tensor cores shares: their function constants, sizes of tiles, and who plans what.
#ifndef WEFT_KERNELS_ATTENTION_PLAN_CUDA_H
#define WEFT_KERNELS_ATTENTION_PLAN_CUDA_H

#include "src/kernels/attention/attention_cuda.h"

#define WEFT__ATTENTION_CONSTANTS(X)                                                               \
    X(WEFT_HEAD_DIM)                                                                               \
    X(WEFT_CACHE)                                                                                  \
    X(WEFT_SCALED)                                                                                 \
    X(WEFT_CODES)                                                                                  \
    X(WEFT_BOXES)                                                                                  \
    X(WEFT_KV_DTYPE)                                                                               \
    X(WEFT_X_DTYPE)                                                                                \
    X(WEFT_Y_DTYPE)                                                                                \
    X(WEFT_PARTS)                                                                                  \
    X(WEFT_STAGES)                                                                                 \
    X(WEFT_KEYS)                                                                                   \
    X(WEFT_PAGE)                                                                                   \
    X(WEFT_SOFTCAP)                                                                                \
    X(WEFT_ALIBI)                                                                                  \
    X(WEFT_RING)                                                                                   \
    X(WEFT_SCATTER)                                                                                \
    X(WEFT_SPARSE)                                                                                 \
    X(WEFT_M)                                                                                      \
    X(WEFT_EIGHT)                                                                                  \
    X(WEFT_HANDED)                                                                                 \
    X(WEFT_BLOCKS)                                                                                 \
    X(WEFT_APPEND)                                                                                 \
    X(WEFT_ROPE)                                                                                   \
    X(WEFT_ROTARY)                                                                                 \
    X(WEFT_ROUNDED) X(WEFT_SPLITS) X(WEFT_CLUSTERS) X(WEFT_WARPS) X(WEFT_ABREAST)
WEFT__CUDA_CONSTANTS(attention, WEFT__ATTENTION_CONSTANTS)

enum { WEFT__ATTENTION_KEYS = 16 }; // of a tile of decode

// A cache of one byte an element: tensor cores get it as bf16, or as f16 where codes are widened in registers.
static inline bool weft__attention_is_byte(const weft_kv_layout *kv)
{
    return weft_dtype_block_bytes(kv->dtype) == 1;
}

// Does decode widen codes in registers (attention_codes.cuh)? Queries in parts leave no room for heads of 256.
static inline bool weft__attention_has_codes(const weft_kv_layout *kv, int32_t parts)
{
    return weft__attention_is_byte(kv) &&
           (kv->head_dim == 64 || kv->head_dim == 128 || (kv->head_dim == 256 && parts == 1));
}

static inline bool weft__attention_is_scaled(const weft_kv_layout *kv)
{
    return kv->scaling != WEFT_KV_SCALING_NONE || kv->v_scaling != WEFT_KV_SCALING_NONE;
}

static inline int64_t weft__attention_row_bytes(int32_t head_dim)
{
    return weft__attention_padded_dim(head_dim) * 2 + 16;
}

// Tiles of keys and values: `stages` as the cache has them, with their scales, and one of bytes `widened`.
static inline int64_t weft__attention_tiles_bytes(const weft_kv_layout *kv, int32_t keys,
                                                  int32_t stages, bool widened)
{
    int64_t row = weft__attention_row_bytes(kv->head_dim),
            raw = weft__attention_is_byte(kv) ? kv->head_dim : row;
    return stages * (2 * keys * raw + (weft__attention_is_scaled(kv) ? 8 * keys : 0)) +
           (widened ? 2 * keys * row : 0);
}

// Do keys and values come in boxes (attention_boxes.cuh)?
static inline bool weft__attention_has_boxes(const weft_attention_desc *desc,
                                             const struct weft__cuda_limits *limits)
{
    return limits->sm >= 90 && !weft__attention_is_byte(&desc->kv) && desc->kv.head_dim % 64 == 0 &&
           desc->kv.page_size % WEFT__ATTENTION_KEYS == 0 && desc->ring_len == 0;
}

// Or, of pages of no whole sixteens, in rows that the copy engine brings (attention_ring.cuh)? Rows of 256 bytes are faster in pieces of 16
// (NOTES.md).
static inline bool weft__attention_has_rows(const weft_attention_desc *desc,
                                            const struct weft__cuda_limits *limits)
{
    return limits->sm >= 90 && !weft__attention_is_byte(&desc->kv) && desc->kv.head_dim > 192 &&
           desc->kv.head_dim % 16 == 0 && desc->kv.page_size % WEFT__ATTENTION_KEYS != 0 &&
           desc->ring_len == 0;
}

// attention_decode_cuda.c. Ring and blocks: as many bytes under way as an SM can hold with two blocks on it. False: they do not fit.
bool weft__attention_decode_shape(const weft_attention_desc *desc,
                                  const struct weft__cuda_limits *limits, int32_t parts,
                                  struct weft__attention_cuda_launch *launch, int32_t *stages);

// The kernel, and that of the copy engine in *copied if it serves (how: WEFT_BOXES, 0: it does not); the first is then for
// caches that lie anyhow.
int32_t weft__attention_want_decode(struct weft__attention_constants constants, int32_t how,
                                    struct weft__cuda_choice *choice, int32_t *copied);

// The kernel of boxes for runs that filled shares are for (attention_filled.cuh), 0: the plan has none.
int32_t weft__attention_want_filled(const weft_attention_desc *desc,
                                    const struct weft__cuda_limits *limits,
                                    struct weft__attention_constants constants,
                                    struct weft__cuda_choice *choice);

// attention_cluster.cu, where one sequence is read by it.
void weft__attention_plan_cluster(const weft_attention_desc *desc,
                                  const struct weft__cuda_limits *limits,
                                  struct weft__attention_constants constants,
                                  struct weft__cuda_choice *choice);

// attention_abreast_cuda.c. Decode by blocks that read whole tokens, where that serves.
void weft__attention_plan_abreast(const weft_attention_desc *desc,
                                  const struct weft__cuda_limits *limits,
                                  struct weft__attention_constants constants,
                                  struct weft__cuda_choice *choice);

// attention_prefill_cuda.c. Rows of 64 or 128 for sequences of many queries, where they fit.
bool weft__attention_plan_prefill(const weft_attention_desc *desc,
                                  const struct weft__cuda_limits *limits,
                                  const struct weft__attention_constants *constants,
                                  struct weft__cuda_choice *choice);

// attention_append_cuda.c. Append, attention and rounding of single tokens in one launch, where that serves.
weft_status weft__attention_plan_append(const weft_attention_desc *desc,
                                        const struct weft__cuda_limits *limits,
                                        const struct weft__attention_constants *decode,
                                        struct weft__cuda_choice *choice);

#endif
