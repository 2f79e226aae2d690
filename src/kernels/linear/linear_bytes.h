// SPDX-License-Identifier: MIT
// Groups of 32 weights of every quantised format: signed bytes, a scale for each half, a minimum.
// An instruction set includes its linear_bytes_<isa>.h first.
#ifndef WEFT_KERNELS_LINEAR_BYTES_H
#define WEFT_KERNELS_LINEAR_BYTES_H

// w[i] = scale[i / 16] * q[i] - minimum
struct weft__group {
    weft__bytes32 q;
    float scale[2], minimum;
};

// Group j of a block.
typedef struct weft__group weft__group_fn(const unsigned char *block, int j);

WEFT__INLINE struct weft__group weft__group_q8_0(const unsigned char *block, int j)
{
    float d = weft__half(block);
    (void)j;
    return (struct weft__group){weft__bytes32_load(block + 2), {d, d}, 0};
}

WEFT__INLINE struct weft__group weft__group_q4_0(const unsigned char *block, int j)
{
    float d = weft__half(block);
    (void)j;
    return (struct weft__group){weft__bytes32_minus(weft__nibbles_split(block + 2), 8), {d, d}, 0};
}

WEFT__INLINE struct weft__group weft__group_q4_k(const unsigned char *block, int j)
{
    uint8_t sc, m;
    weft__q4_k_scale_min(block + 4, j, &sc, &m);
    float scale = weft__half(block) * (float)sc;
    return (struct weft__group){weft__nibbles(block + 16 + 32 * (j / 2), j & 1),
                                {scale, scale},
                                weft__half(block + 2) * (float)m};
}

WEFT__INLINE struct weft__group weft__group_q6_k(const unsigned char *block, int j)
{
    int n = j / 4, g = j % 4;
    float d = weft__half(block + 208);
    const int8_t *sc = (const int8_t *)block + 192 + 2 * j;
    weft__bytes32 low = weft__nibbles(block + 64 * n + 32 * (g & 1), g >= 2);
    weft__bytes32 high = weft__top_bits(block + 128 + 32 * n, 2 * g);
    return (struct weft__group){weft__bytes32_minus(weft__bytes32_or(low, high), 32),
                                {d * (float)sc[0], d * (float)sc[1]},
                                0};
}

#endif
