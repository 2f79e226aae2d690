// SPDX-License-Identifier: MIT
// Which keys a query sees, how a score becomes a number in units of log2, where a key lies.
#ifndef WEFT_KERNELS_ATTENTION_MASK_CUH
#define WEFT_KERNELS_ATTENTION_MASK_CUH

#include "src/kernels/attention/attention_device.h"
#include "src/kernels/cuda/types.cuh"

#define LOG2_E 1.4426950408889634f
#define LN_2   0.6931471805599453f

#define NEGATIVE_INFINITY bits_float(0xff800000u)

struct keys {
    int32_t begin, end;
};

// The first key that token `token` of sequence `seq` may see; grows with the token.
DEVICE int32_t first_key_of(const struct weft__attention_device_args *args, int32_t seq,
                            int32_t q_len, int32_t kv_len, int32_t token)
{
    int32_t start = args->kv_starts ? args->kv_starts[seq] : 0;
    return max(start, args->window > 0 ? kv_len - q_len + token - args->window + 1 : 0);
}

// What it sees; an empty interval is [0, 0).
DEVICE struct keys keys_of(const struct weft__attention_device_args *args, int32_t seq,
                           int32_t q_len, int32_t kv_len, int32_t token)
{
    struct keys keys = {first_key_of(args, seq, q_len, kv_len, token),
                        args->causal ? min(kv_len, kv_len - q_len + token + 1) : kv_len};
    if (keys.end <= keys.begin)
        keys.begin = keys.end = 0;
    return keys;
}

// A score in units of log2.
DEVICE float score_log2(const struct weft__attention_device_args *args, float dot)
{
#if WEFT_SOFTCAP
    return args->softcap * LOG2_E * tanhf(dot * args->scale / args->softcap);
#else
    return dot * (args->scale * LOG2_E);
#endif
}

DEVICE float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// exp2(x - largest), 0 when nothing was seen.
DEVICE float weight_of(float x, float largest)
{
    return largest == NEGATIVE_INFINITY ? 0.0f : exp2_fast(x - largest);
}

DEVICE const int32_t *pages_of(const struct weft__attention_device_args *args, int32_t seq)
{
    int32_t row = args->seq_rows ? args->seq_rows[seq] : seq;
    return args->page_table +
           (args->page_starts ? (int64_t)args->page_starts[row] : row * args->page_table_stride);
}

#endif
