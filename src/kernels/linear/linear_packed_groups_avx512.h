// SPDX-License-Identifier: MIT
// What lies in a chunk of a panel of 16 rows (linear_packed.h), unpacked into registers a group of 32 columns
// at a time: for each format what serves all groups of a chunk (begin_*), then a group's weights and their
// scales (unpack_*).
#ifndef WEFT_KERNELS_LINEAR_PACKED_GROUPS_AVX512_H
#define WEFT_KERNELS_LINEAR_PACKED_GROUPS_AVX512_H

#include "src/formats/iq4_nl.h"
#include "src/formats/mxfp4.h"
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_packed.h"

// The numbers of a chunk that serve its groups.
struct head {
    __m512 d, dmin;
    _Alignas(64) uint8_t entry[16][16];   // of each group of 32 or 16, by rows
    _Alignas(64) uint8_t minimum[16][16]; // of q2_k
};

// 32 columns of 16 rows.
struct group {
    __m512i w[8]; // four columns each, unsigned
    __m512 scale[2], minimum[2];
};

struct format {
    weft_dtype dtype;
    bool far;    // weights are asked for as weft__linear_call.asks_far says
    bool halves; // a scale for each 16 columns
    bool once;   // halves: the scale of a row of X meets the sum of both, which is another last bit
    bool chunks; // a chunk's products are a sum of their own, which is another last bit
    bool late;   // chunks: the scale of W, which all of a chunk has, meets that sum
    bool minimum;     // that is taken off
    int offset_shift; // weights are 8 << offset_shift too large (halves: 32 >> -offset_shift)
    void (*begin)(const unsigned char *chunk, struct head *head);
    void (*unpack)(const unsigned char *chunk, const unsigned char *codes, int g,
                   const struct head *head, struct group *out);
};

WEFT__INLINE __m512i load(const unsigned char *at)
{
    return _mm512_load_si512(at);
}

WEFT__INLINE __m512 load_halves(const unsigned char *at)
{
    return _mm512_cvtph_ps(_mm256_load_si256((const void *)at));
}

WEFT__INLINE __m512i masked(__m512i v, int mask)
{
    return _mm512_and_si512(v, _mm512_set1_epi8((char)mask));
}

// low | high & mask
WEFT__INLINE __m512i with_bits(__m512i low, __m512i high, int mask)
{
    enum { A_OR_B_AND_C = 0xf8 };
    return _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi8((char)mask), A_OR_B_AND_C);
}

// Bits move by -by places to the right or by places to the left, within their bytes where what leaves is masked.
WEFT__INLINE __m512i moved(__m512i v, int by)
{
    return by > 0   ? _mm512_slli_epi16(v, (unsigned)by)
           : by < 0 ? _mm512_srli_epi16(v, (unsigned)-by)
                    : v;
}

WEFT__INLINE void unpack_nibbles(const unsigned char *codes, __m512i w[8])
{
    WEFT__UNROLL for (int i = 0; i < 4; i++)
    {
        __m512i v = _mm512_loadu_si512(codes + 64 * i);
        w[i] = masked(v, 15);
        w[i + 4] = _mm512_gf2p8affine_epi64_epi8(v, _mm512_set1_epi64(0x1020408000000000), 0);
    }
}

WEFT__INLINE __m512 entry(const uint8_t rows[16])
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_load_si128((const void *)rows)));
}

WEFT__INLINE __m512 entry_signed(const struct head *head, int n)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_load_si128((const void *)head->entry[n])));
}

// The 16 numbers of 6 bits, less `less`.
WEFT__INLINE void unpack_sixes(const unsigned char *sixes, struct head *head, int less)
{
    __m512i first = load(sixes), second = load(sixes + 64), tops = load(sixes + 128);
    __m512i e[4] = {masked(first, 15), masked(moved(first, -4), 15), masked(second, 15),
                    masked(moved(second, -4), 15)};
    WEFT__UNROLL for (int i = 0; i < 4; i++)
    {
        e[i] = with_bits(e[i], moved(tops, 4 - 2 * i), 0x30);
        if (less)
            e[i] = _mm512_sub_epi8(e[i], _mm512_set1_epi8((char)less));
        _mm512_store_si512(head->entry[4 * i], e[i]);
    }
}

WEFT__INLINE void begin_blocks(const unsigned char *chunk, struct head *head)
{
    (void)chunk;
    (void)head;
}

WEFT__INLINE void begin_q45_k(const unsigned char *chunk, struct head *head)
{
    head->d = load_halves(chunk);
    head->dmin = load_halves(chunk + 32);
    unpack_sixes(chunk + 64, head, 0);
}

WEFT__INLINE void begin_q3_k(const unsigned char *chunk, struct head *head)
{
    head->d = load_halves(chunk);
    unpack_sixes(chunk + 64, head, 32);
}

// dmin is a 32nd of itself: it meets -32 times sums of activations.
WEFT__INLINE void begin_q2_k(const unsigned char *chunk, struct head *head)
{
    head->d = load_halves(chunk);
    head->dmin = _mm512_mul_ps(load_halves(chunk + 32), _mm512_set1_ps(1.f / 32));
    WEFT__UNROLL for (int i = 0; i < 4; i++)
    {
        const __m512i both = load(chunk + 64 + 64 * i);
        _mm512_store_si512(head->entry[4 * i], masked(both, 15));
        _mm512_store_si512(head->minimum[4 * i], masked(moved(both, -4), 15));
    }
}

WEFT__INLINE void begin_q6_k(const unsigned char *chunk, struct head *head)
{
    head->d = load_halves(chunk);
    WEFT__UNROLL for (int i = 0; i < 4; i++)
    {
        _mm512_store_si512(head->entry[4 * i], load(chunk + 64 + 64 * i));
    }
}

WEFT__INLINE void begin_iq4_xs(const unsigned char *chunk, struct head *head)
{
    const __m512i by =
        _mm512_setr_epi64(0, 0, 0x0002000200020002, 0x0002000200020002, 0x0004000400040004,
                          0x0004000400040004, 0x0006000600060006, 0x0006000600060006);
    __m512i low = load(chunk + 64);
    head->d = load_halves(chunk);
    WEFT__UNROLL for (int i = 0; i < 2; i++)
    {
        __m512i tops = _mm512_broadcast_i32x4(_mm_load_si128((const void *)(chunk + 32 + 16 * i)));
        tops = masked(_mm512_srlv_epi16(tops, by), 3);
        __m512i e = with_bits(masked(moved(low, -4 * i), 15), _mm512_slli_epi16(tops, 4), 0x30);
        _mm512_store_si512(head->entry[4 * i], _mm512_sub_epi8(e, _mm512_set1_epi8(32)));
    }
}

#define UNPACK(name)                                                                               \
    WEFT__INLINE void unpack_##name(const unsigned char *chunk, const unsigned char *codes, int g, \
                                    const struct head *head, struct group *out)

UNPACK(q4_0)
{
    (void)head;
    out->scale[0] = load_halves(chunk + 32 * g);
    unpack_nibbles(codes, out->w);
}

UNPACK(q8_0)
{
    (void)head;
    out->scale[0] = load_halves(chunk + 32 * g);
    WEFT__UNROLL for (int i = 0; i < 8; i++)
    {
        out->w[i] = load(codes + 64 * i);
    }
}

UNPACK(q4_1)
{
    (void)head;
    out->scale[0] = load_halves(chunk + 32 * g);
    out->minimum[0] = load_halves(chunk + 64 + 32 * g);
    unpack_nibbles(codes, out->w);
}

// The fifth bits, behind the nibbles.
WEFT__INLINE void add_fifths(const unsigned char *codes, __m512i w[8])
{
    const __m512i bits = load(codes + 256);
    WEFT__UNROLL for (int i = 0; i < 8; i++)
    {
        w[i] = with_bits(w[i], moved(bits, 4 - i), 16);
    }
}

UNPACK(q5_0)
{
    (void)head;
    out->scale[0] = load_halves(chunk + 32 * g);
    unpack_nibbles(codes, out->w);
    add_fifths(codes, out->w);
}

UNPACK(q5_1)
{
    unpack_q4_1(chunk, codes, g, head, out);
    add_fifths(codes, out->w);
}

// Codes of four bits are places among 16 numbers.
WEFT__INLINE void look_up(const int8_t levels[16], int offset, __m512i w[8])
{
    __m128i numbers = _mm_loadu_si128((const void *)levels);
    __m512i all = _mm512_broadcast_i32x4(_mm_add_epi8(numbers, _mm_set1_epi8((char)offset)));
    WEFT__UNROLL for (int i = 0; i < 8; i++)
    {
        w[i] = _mm512_shuffle_epi8(all, w[i]);
    }
}

UNPACK(iq4_nl)
{
    (void)head;
    out->scale[0] = load_halves(chunk + 32 * g);
    unpack_nibbles(codes, out->w);
    look_up(weft__iq4_levels, 128, out->w);
}

UNPACK(q4_k)
{
    (void)chunk;
    out->scale[0] = _mm512_mul_ps(entry(head->entry[g]), head->d);
    out->minimum[0] = _mm512_mul_ps(entry(head->entry[8 + g]), head->dmin);
    unpack_nibbles(codes, out->w);
}

UNPACK(q5_k)
{
    unpack_q4_k(chunk, codes, g, head, out);
    add_fifths(codes, out->w);
}

UNPACK(q6_k)
{
    __m512i pairs[2] = {load(codes + 256), load(codes + 320)};
    (void)chunk;
    unpack_nibbles(codes, out->w);
    WEFT__UNROLL for (int i = 0; i < 8; i++)
    {
        out->w[i] = with_bits(out->w[i], moved(pairs[i / 4], 4 - 2 * (i % 4)), 0x30);
    }
    WEFT__UNROLL for (int i = 0; i < 2; i++)
    {
        out->scale[i] = _mm512_mul_ps(entry_signed(head, 2 * g + i), head->d);
    }
}

UNPACK(q2_k)
{
    __m512i two[2] = {load(codes), load(codes + 64)};
    (void)chunk;
    WEFT__UNROLL for (int i = 0; i < 8; i++)
    {
        out->w[i] = masked(moved(two[i / 4], -2 * (i % 4)), 3);
    }
    WEFT__UNROLL for (int i = 0; i < 2; i++)
    {
        out->scale[i] = _mm512_mul_ps(entry(head->entry[2 * g + i]), head->d);
        out->minimum[i] = _mm512_mul_ps(entry(head->minimum[2 * g + i]), head->dmin);
    }
}

UNPACK(q3_k)
{
    __m512i bits = load(codes + 128), two[2] = {load(codes), load(codes + 64)};
    (void)chunk;
    WEFT__UNROLL for (int i = 0; i < 8; i++)
    {
        out->w[i] = with_bits(masked(moved(two[i / 4], -2 * (i % 4)), 3), moved(bits, 2 - i), 4);
    }
    WEFT__UNROLL for (int i = 0; i < 2; i++)
    {
        out->scale[i] = _mm512_mul_ps(entry_signed(head, 2 * g + i), head->d);
    }
}

// The eight codes of each of 16 rows times its scale, as in unpack_scaled_q3_k().
WEFT__INLINE void scaled_codes_q3_k(const uint8_t scales[16], __m512i table[2])
{
    const __m512i all = _mm512_broadcast_i32x4(_mm_load_si128((const void *)scales));
    WEFT__UNROLL for (int i = 0; i < 2; i++)
    {
        const long long each = 0x0101010101010101, row = 8 * i; // two rows a lane
        const __m512i of = _mm512_setr_epi64(row * each, (row + 1) * each, (row + 2) * each,
                                             (row + 3) * each, (row + 4) * each, (row + 5) * each,
                                             (row + 6) * each, (row + 7) * each);
        const __m512i s = _mm512_shuffle_epi8(all, of), twice = _mm512_add_epi8(s, s),
                      four = _mm512_add_epi8(twice, twice);
        __m512i t = _mm512_add_epi8(four, _mm512_set1_epi8((char)128));
        t = _mm512_mask_sub_epi8(t, 0xaaaaaaaaaaaaaaaa, t, s);
        t = _mm512_mask_sub_epi8(t, 0xcccccccccccccccc, t, twice);
        table[i] = _mm512_mask_sub_epi8(t, 0xf0f0f0f0f0f0f0f0, t, four);
    }
}

// A code times its scale is -124 to 128: the negative of that, raised by 128, is a byte, and -d the scale of all.
UNPACK(scaled_q3_k)
{
    const __m512i bits = load(codes + 128), two[2] = {load(codes), load(codes + 64)};
    const __m512i row =
        _mm512_setr_epi32(0, 0x08080808, 0x10101010, 0x18181818, 0x20202020, 0x28282828, 0x30303030,
                          0x38383838, 0x40404040, 0x48484848, 0x50505050, 0x58585858, 0x60606060,
                          0x68686868, 0x70707070, 0x78787878);
    (void)chunk;
    out->scale[0] = _mm512_sub_ps(_mm512_setzero_ps(), head->d);
    WEFT__UNROLL for (int p = 0; p < 2; p++)
    {
        __m512i table[2];
        scaled_codes_q3_k(head->entry[2 * g + p], table);
        WEFT__UNROLL for (int i = 0; i < 4; i++)
        {
            const __m512i low = with_bits(row, moved(two[p], -2 * i), 3);
            out->w[4 * p + i] = _mm512_permutex2var_epi8(
                table[0], with_bits(low, moved(bits, 2 - (4 * p + i)), 4), table[1]);
        }
    }
}

UNPACK(iq4_xs)
{
    (void)chunk;
    out->scale[0] = _mm512_mul_ps(entry_signed(head, g), head->d);
    unpack_nibbles(codes, out->w);
    look_up(weft__iq4_levels, 128, out->w);
}

// 2^(e - 128), subnormal where e < 2.
WEFT__INLINE __m512 exponents(const unsigned char *e)
{
    const __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)e));
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(wide, _mm512_set1_epi32(1)), 23);
    return _mm512_castsi512_ps(
        _mm512_mask_sllv_epi32(normal, _mm512_cmplt_epu32_mask(wide, _mm512_set1_epi32(2)),
                               _mm512_set1_epi32(0x00200000), wide));
}

UNPACK(mxfp4)
{
    (void)head;
    out->scale[0] = exponents(chunk + 16 * g);
    unpack_nibbles(codes, out->w);
    look_up(weft__e2m1_twice, 16, out->w);
}

#endif
