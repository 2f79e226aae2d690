// SPDX-License-Identifier: MIT
// What kernels of one new token, with its key on the way, share: which keys are seen, where they lie, angles, scores. The kernel
// defines shared_factors(), of the rows of queries, and shared_angles(), of pairs, before it includes this.
#ifndef WEFT_KERNELS_ATTENTION_ONE_CUH
#define WEFT_KERNELS_ATTENTION_ONE_CUH

DEVICE bool sees(const struct place *at, int32_t key)
{
    return key >= at->seq.first_key && key < at->seq.end_key;
}

DEVICE int64_t plane_at(const struct weft__attention_device_plane *plane, int32_t kv_head,
                        int32_t page, int32_t key)
{
    return page * plane->page_stride + kv_head * plane->head_stride +
           key % PAGE * plane->token_stride;
}

DEVICE struct turns turns_shared(int32_t lane)
{
    return turns_by(lane, [](int32_t pair) { return shared_angles()[pair]; });
}

DEVICE void tile_log2(const struct weft__attention_device_args *args, const struct place *at,
                      int32_t key0, int32_t lane, float score[KEYS / 8][4])
{
    const bool whole = key0 >= at->seq.first_key && key0 + KEYS <= at->seq.end_key;
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
        for (int32_t i = 0; i < 2 * STATE_EIGHTS; i++)
            score[t][i] *= FACTORS ? shared_factors()[lane / 4 + i / 2 * 8] : 1.0f;
    scores_cap<KEYS / 8, 2 * STATE_EIGHTS>(args, score);
    if (whole)
        return;
#pragma unroll
    for (int32_t t = 0; t < KEYS / 8; t++)
#pragma unroll
        for (int32_t i = 0; i < 2 * STATE_EIGHTS; i++)
            if (!sees(at, key0 + 8 * t + 2 * (lane % 4) + i % 2))
                score[t][i] = NEGATIVE_INFINITY;
}

#endif
