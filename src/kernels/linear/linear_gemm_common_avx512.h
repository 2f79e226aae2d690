// SPDX-License-Identifier: MIT
// Panels (linear_gemm_avx512.h) of the commonest formats, for LINEAR_GEMM_ISA.
#include "src/kernels/linear/linear_gemm_avx512.h"

WEFT__INLINE void unpack_blocks4(const unsigned char *row, int64_t k, int64_t cols, __m512i w[2],
                                 int block_bytes, weft__vnni_unpack_fn *unpack)
{
    struct weft__vnni_blocks4 b;
    unsigned char tail[4 * 34] = {0};
    const unsigned char *blocks = row + k / 32 * block_bytes;
    if (k + 128 > cols) {
        memcpy(tail, blocks, (size_t)((cols - k) / 32 * block_bytes));
        blocks = tail;
    }
    unpack(blocks, &b);
    w[0] = b.w[0];
    w[1] = b.w[1];
}

WEFT__INLINE void unpack_scales_blocks(struct panel *p, const unsigned char *const rows[16],
                                       int64_t k, int64_t cols, int half, int block_bytes)
{
    __m512 v[16];
    int64_t blocks = (cols - k) / 32 < CHUNK / 32 ? (cols - k) / 32 : CHUNK / 32;
    for (int r = 0; r < 16; r++) {
        const unsigned char *block = rows[r] + k / 32 * block_bytes;
        uint16_t d[CHUNK / 32] = {0};
        for (int64_t i = 0; i < blocks; i++)
            memcpy(&d[i], block + i * block_bytes, sizeof d[i]);
        v[r] = vf32_load_f16(d);
    }
    turn_scales(v, p->scale, half);
}

WEFT__INLINE void unpack_q8_0(const unsigned char *row, int64_t k, int64_t cols, __m512i w[2])
{
    unpack_blocks4(row, k, cols, w, 34, weft__vnni_unpack_q8_0);
}

WEFT__INLINE void unpack_q4_0(const unsigned char *row, int64_t k, int64_t cols, __m512i w[2])
{
    unpack_blocks4(row, k, cols, w, 18, weft__vnni_unpack_q4_0);
}

WEFT__INLINE void unpack_scales_q8_0(struct panel *p, const unsigned char *const rows[16],
                                     int64_t k, int64_t cols, int half)
{
    unpack_scales_blocks(p, rows, k, cols, half, 34);
}

WEFT__INLINE void unpack_scales_q4_0(struct panel *p, const unsigned char *const rows[16],
                                     int64_t k, int64_t cols, int half)
{
    unpack_scales_blocks(p, rows, k, cols, half, 18);
}

WEFT__INLINE void unpack_q4_k(const unsigned char *row, int64_t k, int64_t cols, __m512i w[2])
{
    (void)cols;
    weft__vnni_unpack_q4_k(row + k / 256 * 144 + 16 + k % 256 / 2, w);
}

WEFT__INLINE void unpack_scales_q4_k(struct panel *p, const unsigned char *const rows[16],
                                     int64_t k, int64_t cols, int half)
{
    unpack_scales_q45_k(p, rows, k, cols, half, 144);
}

WEFT__INLINE void unpack_q6_k(const unsigned char *row, int64_t k, int64_t cols, __m512i w[2])
{
    (void)cols;
    weft__vnni_unpack_q6_k(row + k / 256 * 210, (int)(k / 128 % 2), w);
}

WEFT__INLINE void unpack_scales_q6_k(struct panel *p, const unsigned char *const rows[16],
                                     int64_t k, int64_t cols, int half)
{
    for (int i = 0; i < 2 && k + 256 * i < cols; i++) {
        __m512 v[16];
        for (int r = 0; r < 16; r++)
            v[r] = weft__vnni_scales_q6_k(rows[r] + (k / 256 + i) * 210);
        turn_scales(v, p->scale + 16 * i, half);
    }
}

LINEAR_GEMM(Q8_0, unpack_q8_0, unpack_scales_q8_0, {0, 4, 1, 5, 2, 6, 3, 7}, 32, 136, false, 4,
            NULL)
LINEAR_GEMM(Q4_0, unpack_q4_0, unpack_scales_q4_0, {0, 4, 1, 5, 2, 6, 3, 7}, 32, 72, false, 0, NULL)
LINEAR_GEMM(Q4_K, unpack_q4_k, unpack_scales_q4_k, {0, 1, 4, 5, 2, 3, 6, 7}, 32, 72, true, 0, NULL)
LINEAR_GEMM(Q6_K, unpack_q6_k, unpack_scales_q6_k, {0, 1, 2, 3, 4, 5, 6, 7}, 16, 105, false, 0,
            NULL)
