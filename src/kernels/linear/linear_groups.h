// SPDX-License-Identifier: MIT
// Every format of formats.def, 32 weights at a time: its one description for kernels. An instruction set
// includes its linear_bytes_<isa>.h first. A format has a GROUP with its TRAITS here, in vectors, or
// weft__codes_<ID>() in its own header (src/formats/block.h), in plain C; without either it does not
// compile.
//
//      w[i] = scale[i / 16] * q[i] - minimum[i / 16]
//
// Bytes of formats without minima are signed numbers, of those with minima unsigned codes.
#ifndef WEFT_KERNELS_LINEAR_GROUPS_H
#define WEFT_KERNELS_LINEAR_GROUPS_H

#include <string.h>

#include "src/formats/formats.h"
#include "src/kernels/element.h"
#include "src/kernels/linear/linear_any.h"

struct weft__any_group {
    weft__bytes32 q;
    float scale[2], minimum[2];
};

WEFT__INLINE struct weft__any_group weft__any_group(weft__bytes32 q, float scale, float minimum)
{
    return (struct weft__any_group){q, {scale, scale}, {minimum, minimum}};
}

// Group j of a block.
#define GROUP(ID) WEFT__INLINE struct weft__any_group group_##ID(const weft__block_##ID *b, int j)

#define TRAITS_Q8_0 false, WEFT__NO_MINIMA, false
GROUP(Q8_0)
{
    (void)j;
    return weft__any_group(weft__bytes32_load(b->q), weft__half(&b->d), 0);
}

#define TRAITS_Q4_0 false, WEFT__NO_MINIMA, false
GROUP(Q4_0)
{
    (void)j;
    return weft__any_group(weft__bytes32_minus(weft__nibbles_split(b->q), 8), weft__half(&b->d), 0);
}

#define TRAITS_Q4_1 false, WEFT__MINIMA_32, false
GROUP(Q4_1)
{
    (void)j;
    return weft__any_group(weft__nibbles_split(b->q), weft__half(&b->d), -weft__half(&b->m));
}

// Nibbles, with bit i of `high` as bit 4 of nibble i.
WEFT__INLINE weft__bytes32 weft__five_bits(const uint8_t *q, const uint8_t high[4])
{
    uint32_t bits;
    memcpy(&bits, high, sizeof bits);
    return weft__bytes32_or(weft__nibbles_split(q),
                            weft__bytes32_and(weft__bytes32_of_bits(bits), 16));
}

#define TRAITS_Q5_0 false, WEFT__NO_MINIMA, false
GROUP(Q5_0)
{
    (void)j;
    return weft__any_group(weft__bytes32_minus(weft__five_bits(b->q, b->qh), 16), weft__half(&b->d),
                           0);
}

#define TRAITS_Q5_1 false, WEFT__MINIMA_32, false
GROUP(Q5_1)
{
    (void)j;
    return weft__any_group(weft__five_bits(b->q, b->qh), weft__half(&b->d), -weft__half(&b->m));
}

#define TRAITS_Q2_K true, WEFT__MINIMA_16, false
GROUP(Q2_K)
{
    float d = weft__half(&b->d), dmin = weft__half(&b->dmin);
    const uint8_t *sc = b->scales + 2 * j;
    return (struct weft__any_group){weft__bytes32_field(b->q + 32 * (j / 4), 2 * (j % 4), 3),
                                    {d * (float)(sc[0] & 15), d * (float)(sc[1] & 15)},
                                    {dmin * (float)(sc[0] >> 4), dmin * (float)(sc[1] >> 4)}};
}

#define TRAITS_Q3_K true, WEFT__NO_MINIMA, false
GROUP(Q3_K)
{
    float d = weft__half(&b->d);
    weft__bytes32 low = weft__bytes32_field(b->q + 32 * (j / 4), 2 * (j % 4), 3);
    weft__bytes32 high = weft__bytes32_and(weft__bytes32_plane(b->hmask, j), 4);
    return (struct weft__any_group){weft__bytes32_minus(weft__bytes32_or(low, high), 4),
                                    {d * (float)weft__q3_k_scale(b->scales, 2 * j),
                                     d * (float)weft__q3_k_scale(b->scales, 2 * j + 1)},
                                    {0, 0}};
}

#define TRAITS_Q4_K false, WEFT__MINIMA_32, false
GROUP(Q4_K)
{
    uint8_t sc, m;
    weft__q4_k_scale_min(b->scales, j, &sc, &m);
    return weft__any_group(weft__nibbles(b->q + 32 * (j / 2), j & 1), weft__half(&b->d) * (float)sc,
                           weft__half(&b->dmin) * (float)m);
}

#define TRAITS_Q5_K false, WEFT__MINIMA_32, false
GROUP(Q5_K)
{
    uint8_t sc, m;
    weft__q4_k_scale_min(b->scales, j, &sc, &m);
    weft__bytes32 high = weft__bytes32_and(weft__bytes32_plane(b->qh, j), 16);
    return weft__any_group(weft__bytes32_or(weft__nibbles(b->q + 32 * (j / 2), j & 1), high),
                           weft__half(&b->d) * (float)sc, weft__half(&b->dmin) * (float)m);
}

#define TRAITS_Q6_K true, WEFT__NO_MINIMA, false
GROUP(Q6_K)
{
    const unsigned char *block = (const unsigned char *)b;
    int n = j / 4, g = j % 4;
    float d = weft__half(block + 208);
    const int8_t *sc = (const int8_t *)block + 192 + 2 * j;
    weft__bytes32 low = weft__nibbles(block + 64 * n + 32 * (g & 1), g >= 2);
    weft__bytes32 high = weft__top_bits(block + 128 + 32 * n, 2 * g);
    return (struct weft__any_group){weft__bytes32_minus(weft__bytes32_or(low, high), 32),
                                    {d * (float)sc[0], d * (float)sc[1]},
                                    {0, 0}};
}

#define TRAITS_IQ4_NL false, WEFT__NO_MINIMA, false
GROUP(IQ4_NL)
{
    (void)j;
    return weft__any_group(weft__bytes32_lookup(weft__iq4_levels, weft__nibbles_split(b->q)),
                           weft__half(&b->d), 0);
}

#define TRAITS_IQ4_XS false, WEFT__NO_MINIMA, false
GROUP(IQ4_XS)
{
    return weft__any_group(
        weft__bytes32_lookup(weft__iq4_levels, weft__nibbles_split(b->q + 16 * j)),
        weft__half(&b->d) * (float)weft__iq4_xs_scale(b, j), 0);
}

// Points of a grid with their signs: 8 bytes each.
WEFT__INLINE weft__bytes32 weft__points8(const uint64_t points[4], uint32_t signs)
{
    return weft__bytes32_negate(weft__bytes32_load(points), weft__bytes32_of_bits(signs));
}

WEFT__INLINE weft__bytes32 weft__points4(const uint32_t points[8], uint32_t signs)
{
    return weft__bytes32_negate(weft__bytes32_load(points), weft__bytes32_of_bits(signs));
}

// Four times seven signs, the eighth by parity.
WEFT__INLINE uint32_t weft__four_signs(uint32_t sevens)
{
    uint32_t signs = 0;
    for (int l = 0; l < 4; l++)
        signs |= (uint32_t)weft__iq_signs(sevens >> 7 * l & 127) << 8 * l;
    return signs;
}

#define TRAITS_IQ2_XXS false, WEFT__NO_MINIMA, false
GROUP(IQ2_XXS)
{
    uint8_t at[4];
    uint32_t signs;
    memcpy(at, b->q + 4 * j, sizeof at);
    memcpy(&signs, b->q + 4 * j + 2, sizeof signs);
    const uint64_t points[4] = {weft__iq2_xxs_grid[at[0]], weft__iq2_xxs_grid[at[1]],
                                weft__iq2_xxs_grid[at[2]], weft__iq2_xxs_grid[at[3]]};
    return weft__any_group(weft__points8(points, weft__four_signs(signs)),
                           weft__half(&b->d) * (0.5f + (float)(signs >> 28)) * 0.25f, 0);
}

#define TRAITS_IQ2_XS true, WEFT__NO_MINIMA, false
GROUP(IQ2_XS)
{
    const uint16_t *q = b->q + 4 * j;
    float d = weft__half(&b->d);
    const uint64_t points[4] = {weft__iq2_xs_grid[q[0] & 511], weft__iq2_xs_grid[q[1] & 511],
                                weft__iq2_xs_grid[q[2] & 511], weft__iq2_xs_grid[q[3] & 511]};
    uint32_t signs = 0;
    for (int l = 0; l < 4; l++)
        signs |= (uint32_t)weft__iq_signs(q[l] >> 9) << 8 * l;
    return (struct weft__any_group){weft__points8(points, signs),
                                    {d * (0.5f + (float)(b->scales[j] & 15)) * 0.25f,
                                     d * (0.5f + (float)(b->scales[j] >> 4)) * 0.25f},
                                    {0, 0}};
}

#define TRAITS_IQ2_S true, WEFT__NO_MINIMA, false
GROUP(IQ2_S)
{
    const uint8_t *q = b->q + 4 * j;
    int high = b->qh[j];
    float d = weft__half(&b->d);
    const uint64_t points[4] = {weft__iq2_s_grid[q[0] | (high & 3) << 8],
                                weft__iq2_s_grid[q[1] | (high >> 2 & 3) << 8],
                                weft__iq2_s_grid[q[2] | (high >> 4 & 3) << 8],
                                weft__iq2_s_grid[q[3] | (high >> 6 & 3) << 8]};
    uint32_t signs;
    memcpy(&signs, b->sign + 4 * j, sizeof signs);
    return (struct weft__any_group){weft__points8(points, signs),
                                    {d * (0.5f + (float)(b->scales[j] & 15)) * 0.25f,
                                     d * (0.5f + (float)(b->scales[j] >> 4)) * 0.25f},
                                    {0, 0}};
}

#define TRAITS_IQ3_XXS false, WEFT__NO_MINIMA, false
GROUP(IQ3_XXS)
{
    uint32_t points[8], signs;
    memcpy(&signs, b->signs + 2 * j, sizeof signs);
    for (int i = 0; i < 8; i++)
        points[i] = weft__iq3_xxs_grid[b->q[8 * j + i]];
    return weft__any_group(weft__points4(points, weft__four_signs(signs)),
                           weft__half(&b->d) * (0.5f + (float)(signs >> 28)) * 0.5f, 0);
}

#define TRAITS_IQ3_S false, WEFT__NO_MINIMA, false
GROUP(IQ3_S)
{
    uint32_t points[8], signs;
    memcpy(&signs, b->sign + 4 * j, sizeof signs);
    for (int i = 0; i < 8; i++)
        points[i] = weft__iq3_s_grid[b->q[8 * j + i] | (b->qh[j] >> i & 1) << 8];
    int scale = b->scales[j / 2] >> 4 * (j & 1) & 15;
    return weft__any_group(weft__points4(points, signs), weft__half(&b->d) * (float)(1 + 2 * scale),
                           0);
}

// Points of -1, 0, 1 shifted by an eighth: 8 times as large, an eighth of the scale. `shift` has bit l for
// eight l where the shift is down.
WEFT__INLINE weft__bytes32 weft__points3(const uint64_t points[4], uint32_t down)
{
    uint64_t shifted[4];
    for (int l = 0; l < 4; l++)
        shifted[l] = (points[l] << 3 & 0xf8f8f8f8f8f8f8f8u);
    uint32_t signs = 0;
    for (int l = 0; l < 4; l++)
        signs |= (down >> l & 1 ? 255u : 0u) << 8 * l;
    // 8 p + 1, or 8 p + 1 - 2.
    return weft__bytes32_minus(
        weft__bytes32_plus(weft__bytes32_load(shifted),
                           weft__bytes32_and(weft__bytes32_of_bits(signs), (uint8_t)-2)),
        -1);
}

#define TRAITS_IQ1_S false, WEFT__NO_MINIMA, false
GROUP(IQ1_S)
{
    uint64_t points[4];
    int qh = b->qh[j];
    for (int l = 0; l < 4; l++)
        points[l] = weft__iq1_grid[b->q[4 * j + l] | (qh >> 3 * l & 7) << 8];
    return weft__any_group(weft__points3(points, qh & 0x8000 ? 15 : 0),
                           weft__half(&b->d) * (float)(2 * (qh >> 12 & 7) + 1) * 0.125f, 0);
}

#define TRAITS_IQ1_M true, WEFT__NO_MINIMA, false
GROUP(IQ1_M)
{
    uint64_t points[4];
    uint32_t down = 0;
    float d = weft__iq1_m_scale(b), scale[2];
    for (int l = 0; l < 4; l++) {
        int h = b->qh[2 * j + l / 2] >> 4 * (l & 1) & 15;
        points[l] = weft__iq1_grid[b->q[4 * j + l] | (h & 7) << 8];
        down |= (uint32_t)(h >> 3) << l;
    }
    for (int i = 0; i < 2; i++) {
        int k = 2 * j + i;
        scale[i] = d * (float)(2 * (b->scales[k / 4] >> 3 * (k % 4) & 7) + 1) * 0.125f;
    }
    return (struct weft__any_group){weft__points3(points, down), {scale[0], scale[1]}, {0, 0}};
}

#define TRAITS_TQ1_0 false, WEFT__NO_MINIMA, false
GROUP(TQ1_0)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    uint8_t f[32], q[32];
    for (int i = 0; j < 5 && i < 32; i++)
        f[i] = (uint8_t)(b->q[i] * power[j]);
    for (int i = 0; j >= 5 && i < 16; i++) {
        f[i] = (uint8_t)(b->q[32 + i] * power[2 * j - 10]);
        f[16 + i] =
            (uint8_t)(j < 7 ? b->q[32 + i] * power[2 * j - 9] : b->qh[i % 4] * power[i / 4]);
    }
    for (int i = 0; i < 32; i++)
        q[i] = (uint8_t)((f[i] > 85) + (f[i] > 170)); // f * 3 / 256
    return weft__any_group(weft__bytes32_minus(weft__bytes32_load(q), 1), weft__half(&b->d), 0);
}

#define TRAITS_TQ2_0 false, WEFT__NO_MINIMA, false
GROUP(TQ2_0)
{
    weft__bytes32 q = weft__bytes32_field(b->q + 32 * (j / 4), 2 * (j % 4), 3);
    return weft__any_group(weft__bytes32_minus(q, 1), weft__half(&b->d), 0);
}

#define TRAITS_MXFP4 false, WEFT__NO_MINIMA, false
GROUP(MXFP4)
{
    (void)j;
    return weft__any_group(weft__bytes32_lookup(weft__e2m1_twice, weft__nibbles_split(b->q)),
                           weft__mxfp4_scale(b->e), 0);
}

#define TRAITS_NVFP4 true, WEFT__NO_MINIMA, false
GROUP(NVFP4)
{
    // Eights of low nibbles and of high nibbles take turns.
    weft__bytes32 q = weft__bytes32_middle(weft__nibbles_split(b->q + 16 * j));
    return (struct weft__any_group){
        weft__bytes32_lookup(weft__e2m1_twice, q),
        {weft__nvfp4_scale(b->d[2 * j]), weft__nvfp4_scale(b->d[2 * j + 1])},
        {0, 0}};
}

// 32 codes of a stream of `bits` bits each; scales and biases lie elsewhere.
WEFT__INLINE struct weft__any_group weft__mlx_group(const uint8_t *codes, int bits)
{
    return weft__any_group(weft__bytes32_stream(codes, bits), 1, 0);
}

#define TRAITS_MLX_Q2_G32  false, WEFT__MINIMA_32, false
#define TRAITS_MLX_Q2_G64  false, WEFT__MINIMA_32, false
#define TRAITS_MLX_Q2_G128 false, WEFT__MINIMA_32, false
#define TRAITS_MLX_Q3_G32  false, WEFT__MINIMA_32, false
#define TRAITS_MLX_Q3_G64  false, WEFT__MINIMA_32, false
#define TRAITS_MLX_Q3_G128 false, WEFT__MINIMA_32, false
#define TRAITS_MLX_Q4_G32  false, WEFT__MINIMA_32, false
#define TRAITS_MLX_Q4_G64  false, WEFT__MINIMA_32, false
#define TRAITS_MLX_Q4_G128 false, WEFT__MINIMA_32, false
#define TRAITS_MLX_Q5_G32  false, WEFT__MINIMA_32, false
#define TRAITS_MLX_Q5_G64  false, WEFT__MINIMA_32, false
#define TRAITS_MLX_Q5_G128 false, WEFT__MINIMA_32, false
#define TRAITS_MLX_Q6_G32  false, WEFT__MINIMA_32, false
#define TRAITS_MLX_Q6_G64  false, WEFT__MINIMA_32, false
#define TRAITS_MLX_Q6_G128 false, WEFT__MINIMA_32, false
#define TRAITS_MLX_Q8_G32  false, WEFT__MINIMA_32, true
#define TRAITS_MLX_Q8_G64  false, WEFT__MINIMA_32, true
#define TRAITS_MLX_Q8_G128 false, WEFT__MINIMA_32, true

#define MLX_GROUP(bits, group)                                                                     \
    GROUP(MLX_Q##bits##_G##group)                                                                  \
    {                                                                                              \
        return weft__mlx_group(b->q + 4 * (bits)*j, bits);                                         \
    }
#define MLX_GROUPS(bits) MLX_GROUP(bits, 32) MLX_GROUP(bits, 64) MLX_GROUP(bits, 128)
MLX_GROUPS(2)
MLX_GROUPS(3)
MLX_GROUPS(4)
MLX_GROUPS(5)
MLX_GROUPS(6)
MLX_GROUPS(8)

static inline float weft__plane_load(const void *plane, weft_dtype dtype, int64_t at)
{
    return dtype == WEFT_F16 ? weft__half((const uint16_t *)plane + at)
                             : weft__element_load(plane, dtype, at);
}

// What lies beside the codes: (s q - m) scale + bias.
static inline void weft__any_planes(const struct weft__linear_planes *p, int64_t row, int64_t k,
                                    int n, struct weft__piece *out)
{
    float scale = 1, bias = 0;
    for (int64_t i = 0, last = -1; i < n / 16; i++) {
        int64_t at = row / p->scale_rows * p->stride + (k + 16 * i) / p->scale_cols;
        if (at != last && p->scales)
            scale = weft__plane_load(p->scales, p->dtype, at);
        if (at != last && p->biases)
            bias = weft__plane_load(p->biases, p->dtype, at);
        last = at;
        out->scale[i] *= scale;
        out->minimum[i] = out->minimum[i] * scale - bias;
    }
}

typedef struct weft__any_group weft__any_group_fn(const void *block, int j);

WEFT__INLINE void weft__any_expand(const struct weft__linear_call *call, int64_t row, int64_t k,
                                   int n, struct weft__piece *out, int block_elems, int block_bytes,
                                   uint8_t flip, weft__any_group_fn *group_of)
{
    const unsigned char *start = call->weight + row * call->weight_stride_bytes;
    for (int i = 0; i < n; i += 32) {
        const unsigned char *block = start + (k + i) / block_elems * block_bytes;
        struct weft__any_group g = group_of(block, (int)((k + i) % block_elems / 32));
        weft__bytes32_store(out->q + i, weft__bytes32_flip(g.q, flip));
        memcpy(out->scale + i / 16, g.scale, sizeof g.scale);
        memcpy(out->minimum + i / 16, g.minimum, sizeof g.minimum);
    }
    for (int i = n / 16; i < WEFT__PIECE / 16; i++)
        out->scale[i] = out->minimum[i] = 0;
    if (call->planes)
        weft__any_planes(call->planes, row, k, n, out);
}

// Formats without TRAITS here are those with codes in their headers: FORM_OF(ID) is OWN or CODED.
#define FOURTH(a, b, c, d, ...) d
#define FORM(...)               FOURTH(__VA_ARGS__, OWN, CODED, CODED, CODED)
#define FORM_OF(ID)             FORM(TRAITS_##ID)
#define JOIN_(a, b)             a##b
#define JOIN(a, b)              JOIN_(a, b)

#define TRAITS_SIGNED    true, WEFT__NO_MINIMA, false
#define TRAITS_UNSIGNED  true, WEFT__MINIMA_16, false
#define TRAITS_OWN(ID)   TRAITS_##ID
#define TRAITS_CODED(ID) JOIN(TRAITS_, WEFT__CODES_##ID)
#define TRAITS_OF(ID)    JOIN(TRAITS_, FORM_OF(ID))(ID)

#define ANY_OWN(ID)                                                                                \
    WEFT__INLINE struct weft__any_group any_##ID(const void *block, int j) {                       \
        return group_##ID(block, j);                                                               \
    }
#define ANY_CODED(ID)                                                                              \
    WEFT__INLINE struct weft__any_group any_##ID(const void *block, int j) {                       \
        struct weft__codes codes = {.minimum = {0, 0}};                                            \
        weft__codes_##ID(block, j, &codes);                                                        \
        return (struct weft__any_group){weft__bytes32_load(codes.q),                               \
                                        {codes.scale[0], codes.scale[1]},                          \
                                        {codes.minimum[0], codes.minimum[1]}};                     \
    }
#define ANY_GROUP(ID) JOIN(ANY_, FORM_OF(ID))(ID)

#define EXPAND_1(ID, block_elems, block_bytes)
#define EXPAND_BLOCKS(ID, block_elems, block_bytes)                                                \
    ANY_GROUP(ID)                                                                                  \
    static void expand_##ID(const struct weft__linear_call *call, int64_t row, int64_t k, int n,   \
                            struct weft__piece *out)                                               \
    {                                                                                              \
        weft__any_expand(                                                                          \
            call, row, k, n, out, block_elems, block_bytes,                                        \
            ((const struct weft__traits){TRAITS_OF(ID)}).minima == WEFT__NO_MINIMA ? 128 : 0,      \
            any_##ID);                                                                             \
    }
#define EXPAND_32(...)  EXPAND_BLOCKS(__VA_ARGS__)
#define EXPAND_64(...)  EXPAND_BLOCKS(__VA_ARGS__)
#define EXPAND_128(...) EXPAND_BLOCKS(__VA_ARGS__)
#define EXPAND_256(...) EXPAND_BLOCKS(__VA_ARGS__)
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    EXPAND_##block_elems(ID, block_elems, block_bytes)
#include <weft/formats.def>
#undef WEFT_FORMAT

#define ANY_1(ID)      {WEFT_##ID, NULL, {false, WEFT__NO_MINIMA, false}},
#define ANY_BLOCKS(ID) {WEFT_##ID, expand_##ID, {TRAITS_OF(ID)}},
#define ANY_32(ID)     ANY_BLOCKS(ID)
#define ANY_64(ID)     ANY_BLOCKS(ID)
#define ANY_128(ID)    ANY_BLOCKS(ID)
#define ANY_256(ID)    ANY_BLOCKS(ID)

// Defines weft__any_format_<isa>().
#define WEFT__ANY_FORMATS(isa)                                                                     \
    const struct weft__any_format *weft__any_format_##isa(weft_dtype dtype)                        \
    {                                                                                              \
        const struct weft__any_format *format = any_formats;                                       \
        while (format->dtype != dtype)                                                             \
            format++;                                                                              \
        return format;                                                                             \
    }

static const struct weft__any_format any_formats[] = {
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes) ANY_##block_elems(ID)
#include <weft/formats.def>
#undef WEFT_FORMAT
};

#endif
