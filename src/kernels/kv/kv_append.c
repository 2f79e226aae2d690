// SPDX-License-Identifier: MIT
// Appending tokens: cos and sin of a token's position once, then head by head.
#include "src/kernels/kv/kv_kernel.h"

struct angles {
    float cosines[WEFT__KV_MAX_HEAD_DIM / 2], sines[WEFT__KV_MAX_HEAD_DIM / 2];
};

static void store_key(const struct weft__kv_launch *launch, const struct angles *angles,
                      const float *key, void *to)
{
    int32_t head_dim = launch->layout.head_dim;
    if (!launch->rope) {
        launch->kernel->store(key, to, head_dim);
        return;
    }
    float turned[WEFT__KV_MAX_HEAD_DIM];
    int32_t rotary_dim = launch->frequencies.rotary_dim;
    launch->rope->rotate(key, turned, angles->cosines, angles->sines, rotary_dim);
    memcpy(turned + rotary_dim, key + rotary_dim, (size_t)(head_dim - rotary_dim) * sizeof *key);
    launch->kernel->store(turned, to, head_dim);
}

static void store_token(const struct weft__kv_launch *launch, const struct weft__kv_call *call,
                        const struct angles *angles, int64_t token)
{
    const weft_kv_layout *layout = &launch->layout;
    const weft_kv_pool *pool = &call->pool;
    int32_t slot = call->slots[token];
    if (slot < 0)
        return;
    int64_t first = slot / layout->page_size * pool->page_stride +
                    slot % layout->page_size * pool->token_stride;
    int64_t elem_bytes = weft_dtype_block_bytes(layout->dtype);
    for (int32_t head = 0; head < layout->num_kv_heads; head++) {
        int64_t at = (first + head * pool->head_stride) * elem_bytes;
        int64_t row = (int64_t)head * layout->head_dim;
        store_key(launch, angles, call->k + token * call->k_token_stride + row,
                  (char *)pool->k + at);
        launch->kernel->store(call->v + token * call->v_token_stride + row, (char *)pool->v + at,
                              layout->head_dim);
    }
}

static void turn_queries(const struct weft__kv_launch *launch, const struct weft__kv_call *call,
                         const struct angles *angles, int64_t token)
{
    float *q = call->q + token * call->q_token_stride;
    for (int32_t head = 0; head < launch->num_q_heads; head++, q += launch->layout.head_dim)
        launch->rope->rotate(q, q, angles->cosines, angles->sines, launch->frequencies.rotary_dim);
}

void weft__kv_append(const struct weft__kv_launch *launch, const struct weft__kv_call *call,
                     int64_t token0, int64_t token1)
{
    struct angles angles;
    for (int64_t token = token0; token < token1; token++) {
        if (launch->rope)
            weft__rope_angles(&launch->frequencies, call->positions[token], angles.cosines,
                              angles.sines);
        store_token(launch, call, &angles, token);
        if (call->q && launch->rope)
            turn_queries(launch, call, &angles, token);
    }
}
