// SPDX-License-Identifier: MIT
// Blocks as files have them to panels (linear_packed.h). Four bytes of each of 16 rows make a register.
#include <immintrin.h>

#include "src/kernels/cpu/avx512.h"
#include "src/kernels/linear/linear_packed.h"

// Where the rows of a panel lie.
struct rows {
    const unsigned char *first;
    __m512i offset; // of each row
};

WEFT__INLINE __m512i quad(const struct rows *w, int64_t at)
{
    return _mm512_i32gather_epi32(w->offset, w->first + at, 1);
}

// 16 bits of each row, of which `at` is even in the block and the two bytes before it are the block's too.
WEFT__INLINE void put_half(unsigned char *to, __m512i bits)
{
    _mm256_store_si256((void *)to, _mm512_cvtepi32_epi16(bits));
}

WEFT__INLINE __m512i bits_at(__m512i v, int shift, int mask)
{
    return _mm512_and_si512(_mm512_srli_epi32(v, (unsigned)shift), _mm512_set1_epi8((char)mask));
}

// A number of each row, the lowest byte of a lane.
WEFT__INLINE void put_entry(unsigned char *to, __m512i v)
{
    _mm_store_si128((void *)to, _mm512_cvtepi32_epi8(v));
}

WEFT__INLINE void put_nibbles(unsigned char *to, const __m512i c[8])
{
    for (int i = 0; i < 4; i++)
        _mm512_store_si512(
            to + 64 * i,
            _mm512_or_si512(bits_at(c[i], 0, 15), _mm512_slli_epi32(bits_at(c[i + 4], 0, 15), 4)));
}

// Bit `bit` of eight quads.
WEFT__INLINE void put_bits(unsigned char *to, const __m512i c[8], int bit)
{
    __m512i all = _mm512_setzero_si512();
    for (int i = 0; i < 8; i++)
        all = _mm512_or_si512(all, _mm512_slli_epi32(bits_at(c[i], bit, 1), (unsigned)i));
    _mm512_store_si512(to, all);
}

// Bits `bit` and `bit` + 1 of eight quads.
WEFT__INLINE void put_pairs(unsigned char *to, const __m512i c[8], int bit)
{
    for (int n = 0; n < 2; n++) {
        __m512i all = _mm512_setzero_si512();
        for (int i = 0; i < 4; i++)
            all = _mm512_or_si512(
                all, _mm512_slli_epi32(bits_at(c[4 * n + i], bit, 3), 2u * (unsigned)i));
        _mm512_store_si512(to + 64 * n, all);
    }
}

WEFT__INLINE __m512i low_and_high(__m512i low, __m512i high)
{
    return _mm512_or_si512(bits_at(low, 0, 15), _mm512_slli_epi32(bits_at(high, 0, 15), 4));
}

static void put_sixes(unsigned char *to, const unsigned char entries[256])
{
    __m512i e[4], tops = _mm512_setzero_si512();
    for (int i = 0; i < 4; i++) {
        e[i] = _mm512_load_si512(entries + 64 * i);
        tops = _mm512_or_si512(tops, _mm512_slli_epi32(bits_at(e[i], 4, 3), 2u * (unsigned)i));
    }
    _mm512_store_si512(to, low_and_high(e[0], e[1]));
    _mm512_store_si512(to + 64, low_and_high(e[2], e[3]));
    _mm512_store_si512(to + 128, tops);
}

// Scales and minima of q4_k and q5_k: dwords 1 to 3 of a block, by bytes as q4_k.h has them.
static void put_scales_q45_k(unsigned char *to, const struct rows *w, int64_t block)
{
    _Alignas(64) unsigned char entries[256];
    __m512i d = quad(w, block), sc = quad(w, block + 4), m = quad(w, block + 8);
    __m512i low = quad(w, block + 12);
    put_half(to, d);
    put_half(to + 32, _mm512_srli_epi32(d, 16));
    for (int j = 0; j < 4; j++) {
        const __m512i by = _mm512_set1_epi32(8 * j);
        __m512i s = _mm512_srlv_epi32(sc, by), t = _mm512_srlv_epi32(m, by),
                l = _mm512_srlv_epi32(low, by);
        put_entry(entries + 16 * j, bits_at(s, 0, 63));
        put_entry(entries + 16 * (8 + j), bits_at(t, 0, 63));
        put_entry(entries + 16 * (4 + j),
                  _mm512_or_si512(bits_at(l, 0, 15), _mm512_slli_epi32(bits_at(s, 6, 3), 4)));
        put_entry(entries + 16 * (12 + j),
                  _mm512_or_si512(bits_at(l, 4, 15), _mm512_slli_epi32(bits_at(t, 6, 3), 4)));
    }
    put_sixes(to + 64, entries);
}

static void chunk_Q4_0(const struct rows *w, int64_t block, unsigned char *to)
{
    for (int g = 0; g < 4; g++, block += 18) {
        put_half(to + 32 * g, quad(w, block));
        for (int i = 0; i < 4; i++)
            _mm512_store_si512(to + 128 + 256 * g + 64 * i, quad(w, block + 2 + 4 * i));
    }
}

static void chunk_Q8_0(const struct rows *w, int64_t block, unsigned char *to)
{
    for (int g = 0; g < 4; g++, block += 34) {
        put_half(to + 32 * g, quad(w, block));
        for (int i = 0; i < 8; i++)
            _mm512_store_si512(
                to + 128 + 512 * g + 64 * i,
                _mm512_xor_si512(quad(w, block + 2 + 4 * i), _mm512_set1_epi8((char)0x80)));
    }
}

// Minima as kernels take them: off.
static void put_minus(unsigned char *to, __m512i halves)
{
    put_half(to, _mm512_xor_si512(halves, _mm512_set1_epi32(0x8000)));
}

static void chunk_Q4_1(const struct rows *w, int64_t block, unsigned char *to)
{
    for (int g = 0; g < 2; g++, block += 20) {
        const __m512i both = quad(w, block);
        put_half(to + 32 * g, both);
        put_minus(to + 64 + 32 * g, _mm512_srli_epi32(both, 16));
        for (int i = 0; i < 4; i++)
            _mm512_store_si512(to + 128 + 256 * g + 64 * i, quad(w, block + 4 + 4 * i));
    }
}

// Bit i of a row's 32 is column i's.
static void put_fifths(unsigned char *to, __m512i bits)
{
    __m512i all = _mm512_setzero_si512();
    for (int b = 0; b < 4; b++) { // of each quad's column b, eight bits to lie side by side
        __m512i v =
            _mm512_and_si512(_mm512_srli_epi32(bits, (unsigned)b), _mm512_set1_epi32(0x11111111));
        v = _mm512_and_si512(_mm512_or_si512(v, _mm512_srli_epi32(v, 3)),
                             _mm512_set1_epi32(0x03030303));
        v = _mm512_and_si512(_mm512_or_si512(v, _mm512_srli_epi32(v, 6)),
                             _mm512_set1_epi32(0x000f000f));
        v = _mm512_and_si512(_mm512_or_si512(v, _mm512_srli_epi32(v, 12)), _mm512_set1_epi32(0xff));
        all = _mm512_or_si512(all, _mm512_slli_epi32(v, 8u * (unsigned)b));
    }
    _mm512_store_si512(to, all);
}

static void chunk_Q5_0(const struct rows *w, int64_t block, unsigned char *to)
{
    for (int g = 0; g < 2; g++, block += 22) {
        unsigned char *group = to + 64 + 320 * g;
        put_half(to + 32 * g, quad(w, block));
        put_fifths(group + 256, quad(w, block + 2));
        for (int i = 0; i < 4; i++)
            _mm512_store_si512(group + 64 * i, quad(w, block + 6 + 4 * i));
    }
}

static void chunk_Q5_1(const struct rows *w, int64_t block, unsigned char *to)
{
    for (int g = 0; g < 2; g++, block += 24) {
        unsigned char *group = to + 128 + 320 * g;
        const __m512i both = quad(w, block);
        put_half(to + 32 * g, both);
        put_minus(to + 64 + 32 * g, _mm512_srli_epi32(both, 16));
        put_fifths(group + 256, quad(w, block + 4));
        for (int i = 0; i < 4; i++)
            _mm512_store_si512(group + 64 * i, quad(w, block + 8 + 4 * i));
    }
}

static void chunk_IQ4_NL(const struct rows *w, int64_t block, unsigned char *to)
{
    for (int g = 0; g < 2; g++, block += 18) {
        put_half(to + 32 * g, quad(w, block));
        for (int i = 0; i < 4; i++)
            _mm512_store_si512(to + 64 + 256 * g + 64 * i, quad(w, block + 2 + 4 * i));
    }
}

// 32 bytes of each row. They are read once for all groups whose bits they hold: gathering is what packing costs.
WEFT__INLINE void eight(const struct rows *w, int64_t at, __m512i b[8])
{
    for (int i = 0; i < 8; i++)
        b[i] = quad(w, at + 4 * i);
}

WEFT__INLINE void bits_of_eight(__m512i to[8], const __m512i b[8], int shift, int mask)
{
    for (int i = 0; i < 8; i++)
        to[i] = bits_at(b[i], shift, mask);
}

static void chunk_Q4_K(const struct rows *w, int64_t block, unsigned char *to)
{
    __m512i b[8], c[8];
    put_scales_q45_k(to, w, block);
    for (int two = 0; two < 8; two += 2) {
        eight(w, block + 16 + 16 * two, b);
        for (int g = two; g < two + 2; g++) {
            bits_of_eight(c, b, 4 * (g - two), 15);
            put_nibbles(to + 256 + 256 * g, c);
        }
    }
}

static void chunk_Q5_K(const struct rows *w, int64_t block, unsigned char *to)
{
    __m512i b[8], c[8], high[8];
    put_scales_q45_k(to, w, block);
    eight(w, block + 16, high);
    for (int two = 0; two < 8; two += 2) {
        eight(w, block + 48 + 16 * two, b);
        for (int g = two; g < two + 2; g++) {
            bits_of_eight(c, b, 4 * (g - two), 15);
            put_nibbles(to + 256 + 320 * g, c);
            bits_of_eight(c, high, g, 1);
            put_bits(to + 256 + 320 * g + 256, c, 0);
        }
    }
}

static void chunk_Q6_K(const struct rows *w, int64_t block, unsigned char *to)
{
    put_half(to, _mm512_srli_epi32(quad(w, block + 206), 16));
    memset(to + 32, 0, 32);
    for (int j = 0; j < 16; j++)
        put_entry(to + 64 + 16 * j, _mm512_srlv_epi32(quad(w, block + 192 + j / 4 * 4),
                                                      _mm512_set1_epi32(8 * (j % 4))));
    for (int n = 0; n < 2; n++) {
        __m512i low[2][8], high[8], c[8];
        eight(w, block + 64 * n, low[0]);
        eight(w, block + 64 * n + 32, low[1]);
        eight(w, block + 128 + 32 * n, high);
        for (int of = 0; of < 4; of++) {
            unsigned char *group = to + 320 + 384 * (4 * n + of);
            bits_of_eight(c, low[of % 2], 4 * (of / 2), 15);
            put_nibbles(group, c);
            bits_of_eight(c, high, 2 * of, 3);
            put_pairs(group + 256, c, 0);
        }
    }
}

static void chunk_Q2_K(const struct rows *w, int64_t block, unsigned char *to)
{
    __m512i d = quad(w, block + 80);
    put_half(to, d);
    put_half(to + 32, _mm512_srli_epi32(d, 16));
    for (int j = 0; j < 16; j++)
        put_entry(to + 64 + 16 * j,
                  _mm512_srlv_epi32(quad(w, block + j / 4 * 4), _mm512_set1_epi32(8 * (j % 4))));
    __m512i b[8], c[8];
    for (int four = 0; four < 8; four += 4) {
        eight(w, block + 16 + 8 * four, b);
        for (int g = four; g < four + 4; g++) {
            bits_of_eight(c, b, 2 * (g - four), 3);
            put_pairs(to + 320 + 128 * g, c, 0);
        }
    }
}

// Low nibbles in bytes 96 to 103 of a block, tops in the four behind (q3_k.h).
static void put_scales_q3_k(unsigned char *to, const struct rows *w, int64_t block)
{
    _Alignas(64) unsigned char entries[256];
    __m512i tops = quad(w, block + 104);
    put_half(to, _mm512_srli_epi32(quad(w, block + 106), 16));
    memset(to + 32, 0, 32);
    for (int k = 0; k < 16; k++) {
        __m512i low =
            _mm512_srlv_epi32(quad(w, block + 96 + k % 8 / 4 * 4), _mm512_set1_epi32(8 * (k % 4)));
        __m512i top = _mm512_srlv_epi32(tops, _mm512_set1_epi32(8 * (k % 4)));
        put_entry(entries + 16 * k,
                  _mm512_or_si512(bits_at(low, 4 * (k / 8), 15),
                                  _mm512_slli_epi32(bits_at(top, 2 * (k / 4), 3), 4)));
    }
    put_sixes(to + 64, entries);
}

static void chunk_Q3_K(const struct rows *w, int64_t block, unsigned char *to)
{
    __m512i b[8], high[8], c[8];
    put_scales_q3_k(to, w, block);
    eight(w, block, high);
    for (int four = 0; four < 8; four += 4) {
        eight(w, block + 32 + 8 * four, b);
        for (int g = four; g < four + 4; g++) {
            bits_of_eight(c, b, 2 * (g - four), 3);
            put_pairs(to + 256 + 192 * g, c, 0);
            bits_of_eight(c, high, g, 1);
            put_bits(to + 256 + 192 * g + 128, c, 0);
        }
    }
}

static void chunk_IQ4_XS(const struct rows *w, int64_t block, unsigned char *to)
{
    __m512i head = quad(w, block), tops = _mm512_srli_epi32(head, 16), low = quad(w, block + 4);
    _Alignas(64) unsigned char entries[128];
    put_half(to, head);
    put_entry(to + 32, tops); // two bits of each of four numbers, as they are
    put_entry(to + 48, _mm512_srli_epi32(tops, 8));
    for (int j = 0; j < 8; j++)
        put_entry(entries + 16 * j, _mm512_srlv_epi32(low, _mm512_set1_epi32(4 * j)));
    _mm512_store_si512(to + 64,
                       low_and_high(_mm512_load_si512(entries), _mm512_load_si512(entries + 64)));
    for (int g = 0; g < 8; g++)
        for (int i = 0; i < 4; i++)
            _mm512_store_si512(to + 128 + 256 * g + 64 * i, quad(w, block + 8 + 16 * g + 4 * i));
}

static void chunk_MXFP4(const struct rows *w, int64_t block, unsigned char *to)
{
    for (int g = 0; g < 2; g++, block += 17) {
        put_entry(to + 16 * g, quad(w, block));
        for (int i = 0; i < 4; i++)
            _mm512_storeu_si512(to + 32 + 256 * g + 64 * i, quad(w, block + 1 + 4 * i));
    }
}

typedef void chunk_fn(const struct rows *w, int64_t block, unsigned char *to);

weft__pack_fn weft__linear_pack_avx512vnni;
void weft__linear_pack_avx512vnni(weft_dtype dtype, const unsigned char *weight,
                                  int64_t stride_bytes, int64_t rows, int64_t cols,
                                  unsigned char *to)
{
    const struct weft__packed_shape shape = weft__packed_shape(dtype);
    const int64_t from_bytes = weft_dtype_row_bytes(dtype, shape.cols);
    const int64_t to_bytes = weft__packed_panel_bytes(shape, shape.cols);
    int32_t offset[WEFT__PACKED_ROWS];
    chunk_fn *chunk = NULL;
    switch (dtype) {
#define CHUNK_CASE(ID, ...)                                                                        \
    case WEFT_##ID: chunk = chunk_##ID; break;
        WEFT__PACKED_MAP(CHUNK_CASE)
    default: return;
    }
    for (int64_t r = 0; r < WEFT__PACKED_ROWS; r++)
        offset[r] = (int32_t)((r < rows ? r : rows - 1) * stride_bytes);
    struct rows w = {weight, _mm512_loadu_si512(offset)};
    for (int64_t k = 0; k < cols; k += shape.cols, w.first += from_bytes, to += to_bytes)
        chunk(&w, 0, to);
}
