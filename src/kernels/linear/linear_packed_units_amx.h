// SPDX-License-Identifier: MIT
// What tiles of AMX multiply for packed weights (linear_packed_amx.c): a unit of 256 columns of a panel of 16 rows, unpacked
// into slots, and what vectors need of a tile of X.
//
//      w[slot]      32 columns as signed bytes, four columns of 16 rows a row of the tile. q6_k has two: codes times scales are
//                   13 bits and a sign, of which one has seven
//      minima       of k-quants, small integers that dmin times sums of X meet. As bf16 they are exact, and a sum of X is
//                   what three numbers of bf16 add up to: products of tiles in place of vectors'
#ifndef WEFT_KERNELS_LINEAR_PACKED_UNITS_AMX_H
#define WEFT_KERNELS_LINEAR_PACKED_UNITS_AMX_H

#include "src/kernels/cpu/amx.h"
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_packed_groups_avx512.h"

enum {
    TILE_STEP = 16,  // rows of X in a tile
    SLOTS = 8,       // tiles of W whose sums wait for vectors together
    QUADS = 8,       // rows of a tile of W, of four columns each
    UNIT_COLS = 256, // that are unpacked at a time
};

// Minima that small integers times dmin are, by sums of X, in so many products of tiles a unit: of 16 columns of two rows of W,
// eight numbers that groups have, and again with what bf16 leaves of X, or 16 that halves have.
enum minima { OF_NONE, OF_GROUPS = 2, OF_HALVES = 3 };

// How a format becomes tiles.
struct tile_format {
    struct format f;
    int parts;          // slots of a group
    int offset;         // that codes are too large by
    enum minima minima; // else (f.minimum) each slot has a minimum
};

struct unit {
    _Alignas(64) __m512i w[2 * SLOTS][QUADS];
    __m512 scale[2 * SLOTS], minimum[2 * SLOTS];
    __m512i minima[QUADS]; // bf16, two a lane
    __m512 dmin;           // what they are worth
};

// The scales of a tile of X and a unit's groups, and these times sums of its bytes: where minima are products, as three
// numbers of bf16 that add up to them, of groups two beside one another.
struct x_scales {
    _Alignas(64) float scale[TILE_STEP][SLOTS];
    union {
        float scaled[TILE_STEP][SLOTS];
        uint16_t part[3][TILE_STEP][2 * SLOTS];
    };
};

// What is done with sums of tiles: parts are slots of a group, rows those of X that vectors finish.
struct how {
    int parts, rows;
    bool whole; // all of these are wanted
    bool minimum, late;
    enum minima minima;
};

// The bytes of 16 rows, each four times.
WEFT__INLINE __m512i four_times(const uint8_t rows[16])
{
    const __m512i of =
        _mm512_setr_epi32(0x00000000, 0x01010101, 0x02020202, 0x03030303, 0x04040404, 0x05050505,
                          0x06060606, 0x07070707, 0x08080808, 0x09090909, 0x0a0a0a0a, 0x0b0b0b0b,
                          0x0c0c0c0c, 0x0d0d0d0d, 0x0e0e0e0e, 0x0f0f0f0f);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_load_si128((const void *)rows)), of);
}

// What codes of two bits times a number of their row are: four rows a lane have sixteen, so that one shuffle looks up a register.
WEFT__INLINE __m512i times_two_bits(__m512i s)
{
    const __m512i odd = _mm512_maskz_mov_epi8(0xaaaaaaaaaaaaaaaa, s);
    return _mm512_mask_add_epi8(odd, 0xcccccccccccccccc, odd, _mm512_add_epi8(s, s));
}

WEFT__INLINE __m512i look_up_two_bits(__m512i table, __m512i codes)
{
    const __m512i row = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
    return _mm512_shuffle_epi8(table, with_bits(row, codes, 3));
}

// Codes times their scales are 0 to 45, and d is what all of them have.
UNPACK(scaled_q2_k)
{
    const __m512i two[2] = {load(codes), load(codes + 64)};
    WEFT__UNROLL for (int p = 0; p < 2; p++)
    {
        const __m512i table = times_two_bits(four_times(head->entry[2 * g + p]));
        WEFT__UNROLL for (int i = 0; i < 4; i++)
        {
            out->w[4 * p + i] = look_up_two_bits(table, moved(two[p], -2 * i));
        }
    }
    (void)chunk;
    out->scale[0] = head->d;
}

// Codes, -4 to 3, times their scales, -32 to 31: the negative of that is a signed byte, and -d the scale of all.
UNPACK(signed_q3_k)
{
    const __m512i bits = load(codes + 128), two[2] = {load(codes), load(codes + 64)};
    WEFT__UNROLL for (int p = 0; p < 2; p++)
    {
        const __m512i s = _mm512_sub_epi8(_mm512_setzero_si512(),
                                          four_times(head->entry[2 * g + p])),
                      twice = _mm512_add_epi8(s, s), four = _mm512_add_epi8(twice, twice),
                      table = times_two_bits(s);
        WEFT__UNROLL for (int i = 0; i < 4; i++)
        {
            const __mmask64 less =
                _mm512_testn_epi8_mask(bits, _mm512_set1_epi8((char)(1 << (4 * p + i))));
            const __m512i low = look_up_two_bits(table, moved(two[p], -2 * i));
            out->w[4 * p + i] = _mm512_mask_sub_epi8(low, less, low, four);
        }
    }
    (void)chunk;
    out->scale[0] = _mm512_sub_ps(_mm512_setzero_ps(), head->d);
}

// Numbers of four bits less 8, sixteen times: in the high half of a byte a shift and the top bit's turning make them.
UNPACK(signed_q4_0)
{
    enum { A_XOR_B_AND_C = 0x78 };
    const __m512i top = _mm512_set1_epi8((char)0x80), high = _mm512_set1_epi8((char)0xf0);
    (void)head;
    WEFT__UNROLL for (int i = 0; i < 4; i++)
    {
        const __m512i v = load(codes + 64 * i);
        out->w[i] = _mm512_gf2p8affine_epi64_epi8(v, _mm512_set1_epi64(0x0000000001020408), 0x80);
        out->w[i + 4] = _mm512_ternarylogic_epi32(top, v, high, A_XOR_B_AND_C);
    }
    out->scale[0] = _mm512_mul_ps(load_halves(chunk + 32 * g), _mm512_set1_ps(1.f / 16));
}

UNPACK(signed_iq4_nl)
{
    (void)head;
    out->scale[0] = load_halves(chunk + 32 * g);
    unpack_nibbles(codes, out->w);
    look_up(weft__iq4_levels, 0, out->w);
}

UNPACK(signed_iq4_xs)
{
    (void)chunk;
    out->scale[0] = _mm512_mul_ps(entry_signed(head, g), head->d);
    unpack_nibbles(codes, out->w);
    look_up(weft__iq4_levels, 0, out->w);
}

UNPACK(signed_mxfp4)
{
    (void)head;
    out->scale[0] = exponents(chunk + 16 * g);
    unpack_nibbles(codes, out->w);
    look_up(weft__e2m1_twice, 0, out->w);
}

WEFT__INLINE void put_group(struct unit *u, int slot, const struct group *g, struct tile_format t)
{
    const __m512i offset = _mm512_set1_epi8((char)t.offset);
    WEFT__UNROLL for (int n = 0; n < QUADS; n++)
    {
        u->w[slot][n] = t.offset ? _mm512_sub_epi8(g->w[n], offset) : g->w[n];
    }
    u->scale[slot] = g->scale[0];
    if (t.f.minimum)
        u->minimum[slot] = g->minimum[0];
}

// Puts a group of q6_k into two slots: codes times scales are low + 128 high, bytes both.
WEFT__INLINE void put_planes(struct unit *u, int slot, const struct group *group,
                             const struct head *head, int g, int offset)
{
    const __m512i even = _mm512_set1_epi16(0xff);
    const __m512i less = _mm512_set1_epi8((char)offset);
    WEFT__UNROLL for (int n = 0; n < QUADS; n++)
    {
        const uint8_t *of = head->entry[2 * g + n / (QUADS / 2)];
        const __m512i top =
            _mm512_slli_epi32(_mm512_cvtepi8_epi32(_mm_load_si128((const void *)of)), 24);
        const __m512i scale = _mm512_or_si512(top, _mm512_srli_epi32(top, 16)); // 256 of it
        const __m512i code = _mm512_sub_epi8(group->w[n], less);
        const __m512i a = _mm512_mulhi_epi16(_mm512_slli_epi16(code, 8), scale),
                      b = _mm512_mulhi_epi16(_mm512_andnot_si512(even, code), scale);
        u->w[slot][n] =
            masked(_mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaa, a, _mm512_slli_epi16(b, 8)), 127);
        u->w[slot + 1][n] = _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaa, _mm512_srli_epi16(a, 7),
                                                   _mm512_slli_epi16(b, 1));
    }
    u->scale[slot] = u->scale[slot + 1] = head->d;
}

// The bytes of bf16 0 to 63.
_Alignas(64) static const uint8_t bf16_low[64] = {
    0x00, 0x80, 0x00, 0x40, 0x80, 0xa0, 0xc0, 0xe0, 0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70,
    0x80, 0x88, 0x90, 0x98, 0xa0, 0xa8, 0xb0, 0xb8, 0xc0, 0xc8, 0xd0, 0xd8, 0xe0, 0xe8, 0xf0, 0xf8,
    0x00, 0x04, 0x08, 0x0c, 0x10, 0x14, 0x18, 0x1c, 0x20, 0x24, 0x28, 0x2c, 0x30, 0x34, 0x38, 0x3c,
    0x40, 0x44, 0x48, 0x4c, 0x50, 0x54, 0x58, 0x5c, 0x60, 0x64, 0x68, 0x6c, 0x70, 0x74, 0x78, 0x7c,
};
_Alignas(64) static const uint8_t bf16_high[64] = {
    0x00, 0x3f, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41,
    0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41, 0x41,
    0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42,
    0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42, 0x42,
};

// Integers below 64 of two columns of K, 16 rows each, as bf16.
WEFT__INLINE __m512i pair(const uint8_t (*columns)[16])
{
    const __m512i of =
        _mm512_setr_epi32(0x10100000, 0x11110101, 0x12120202, 0x13130303, 0x14140404, 0x15150505,
                          0x16160606, 0x17170707, 0x18180808, 0x19190909, 0x1a1a0a0a, 0x1b1b0b0b,
                          0x1c1c0c0c, 0x1d1d0d0d, 0x1e1e0e0e, 0x1f1f0f0f);
    const __m256i both = _mm256_load_si256((const void *)columns);
    const __m512i twice = _mm512_permutexvar_epi8(of, _mm512_castsi256_si512(both));
    return _mm512_mask_permutexvar_epi8(_mm512_permutexvar_epi8(twice, load(bf16_low)),
                                        0xaaaaaaaaaaaaaaaa, twice, load(bf16_high));
}

// Row `n` of the tile of a chunk's minima: q2_k's meet -32 times sums.
WEFT__INLINE void put_minima(struct unit *u, int n, const struct head *head, struct tile_format t)
{
    const bool groups = t.minima == OF_GROUPS;
    const int at = groups ? QUADS + 2 * (n % 4) : 2 * n;
    const uint8_t(*m)[16] = groups ? head->entry : head->minimum;
    u->minima[n] = pair(m + at);
    u->dmin = groups ? _mm512_sub_ps(_mm512_setzero_ps(), head->dmin) : head->dmin;
}

// A slot of columns that W has not.
WEFT__INLINE void clear_slot(struct unit *u, int slot)
{
    WEFT__UNROLL for (int n = 0; n < QUADS; n++)
    {
        u->w[slot][n] = _mm512_setzero_si512();
    }
    u->scale[slot] = u->minimum[slot] = _mm512_setzero_ps();
}

// `columns` of a panel, at most a unit.
WEFT__INLINE void unpack(struct unit *u, const unsigned char *chunk, int64_t columns,
                         struct tile_format t)
{
    const struct weft__packed_shape shape = weft__packed_shape(t.f.dtype);
    int slot = 0;
    for (int64_t k = 0; k < columns; k += shape.cols) {
        struct head head;
        const unsigned char *codes = chunk + shape.head_bytes;
        t.f.begin(chunk, &head);
        for (int n = 0; n < QUADS && t.minima; n++)
            put_minima(u, n, &head, t);
        for (int g = 0; g < shape.cols / WEFT__PACKED_GROUP; g++, codes += shape.group_bytes) {
            struct group group;
            t.f.unpack(chunk, codes, g, &head, &group);
            if (t.parts == 2)
                put_planes(u, slot, &group, &head, g, t.offset);
            else
                put_group(u, slot, &group, t);
            slot += t.parts;
        }
        chunk = codes;
    }
    for (; slot < SLOTS; slot++)
        clear_slot(u, slot);
}

// What a bf16 has of a number, cut off, and what is left of it: three of them add up to it.
WEFT__INLINE __m512 after_bf16(__m512 v)
{
    const __m512i first = _mm512_set1_epi32((int)0xffff0000);
    return _mm512_sub_ps(v, _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(v), first)));
}

// The bf16 that lanes of two registers begin with: eight of one and eight of the other, then the same of their second halves.
WEFT__INLINE void put_by_eights(void *to, __m512 a, __m512 b)
{
    const __m512i odd =
        _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 31, 29, 27, 25, 23, 21, 19, 17, 47, 45, 43,
                         41, 39, 37, 35, 33, 15, 13, 11, 9, 7, 5, 3, 1);
    _mm512_store_si512(
        to, _mm512_permutex2var_epi16(_mm512_castps_si512(a), odd, _mm512_castps_si512(b)));
}

// All of one, then all of the other.
WEFT__INLINE void put_both(void *to, __m512 a, __m512 b)
{
    const __m512i odd =
        _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                         25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    _mm512_store_si512(
        to, _mm512_permutex2var_epi16(_mm512_castps_si512(a), odd, _mm512_castps_si512(b)));
}

// Eight numbers of each of two rows.
WEFT__INLINE __m512 two_rows(const float *a, const float *b)
{
    return _mm512_castpd_ps(
        _mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(_mm256_loadu_ps(a))),
                           _mm256_castps_pd(_mm256_loadu_ps(b)), 1));
}

// Scales times sums of the halves of a unit's groups.
WEFT__INLINE __m512 half_sums(const struct weft__rounded_row *x, int64_t k)
{
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    const __m256 scale = _mm256_loadu_ps(x->scale + k / WEFT__PACKED_GROUP);
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(x->sum16 + k / 16)),
                         _mm512_permutexvar_ps(twice, _mm512_castps256_ps512(scale)));
}

// Scales of `rows` rows of X, the groups of a unit from column k on, two rows at a time.
WEFT__INLINE void copy_scales(struct x_scales *to, const struct weft__rounded *acts, int32_t m,
                              int rows, int64_t k, struct how how)
{
    const int64_t g = k / WEFT__PACKED_GROUP;
    for (int c = 0; c < rows; c += 2) {
        const struct weft__rounded_row x = weft__rounded_row(acts, m + c),
                                       y = c + 1 < rows ? weft__rounded_row(acts, m + c + 1) : x;
        _mm512_store_ps(to->scale[c], two_rows(x.scale + g, y.scale + g));
        if (how.minimum)
            _mm512_store_ps(to->scaled[c], two_rows(x.scaled + g, y.scaled + g));
        if (how.parts == 2)
            _mm512_store_ps(to->scaled[c],
                            _mm512_mul_ps(two_rows(x.scale + g, y.scale + g), _mm512_set1_ps(128)));
        if (how.minima == OF_GROUPS) {
            const __m512 sum = two_rows(x.scaled + g, y.scaled + g), left = after_bf16(sum);
            put_by_eights(to->part[0][c], sum, left);
            put_by_eights(to->part[1][c], after_bf16(left), _mm512_setzero_ps());
        } else if (how.minima == OF_HALVES) {
            __m512 a = half_sums(&x, k), b = half_sums(&y, k);
            WEFT__UNROLL for (int n = 0; n < OF_HALVES; n++)
            {
                put_both(to->part[n][c], a, b);
                a = after_bf16(a);
                b = after_bf16(b);
            }
        }
    }
}

#endif
