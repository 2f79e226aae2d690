// SPDX-License-Identifier: MIT
// What a block format is made of, from the function constant WEFT_FORMAT (values of formats.def):
//
//   TILE_BITS    of a code        TILE_TABLE   codes are places in a table of 16 signed bytes
//   TILE_OFFSET  added to a code  TILE_SIGNED  codes of 8 bits are signed
//   TILE_GROUP   columns per scale, 16 or 32   TILE_MIN  a constant per group is added, too
//   TILE_META    bytes of scales per pair (TILE_SUPER 0) or per tile (TILE_SUPER 1)
//   TILE_GRID    codes are coordinates of points of a lattice, so many of a point (linear_grid.cuh)
//   TILE_EIGHTS  a lane has eight columns of a unit side by side (linear_device.h)
#ifndef WEFT_KERNELS_LINEAR_FORMAT_CUH
#define WEFT_KERNELS_LINEAR_FORMAT_CUH

#include "src/kernels/linear/linear_device.h"

#define FORMAT_Q8_0    32
#define FORMAT_Q4_0    33
#define FORMAT_Q4_1    34
#define FORMAT_Q5_0    35
#define FORMAT_Q5_1    36
#define FORMAT_Q2_K    46
#define FORMAT_Q3_K    47
#define FORMAT_Q4_K    48
#define FORMAT_Q5_K    49
#define FORMAT_Q6_K    50
#define FORMAT_IQ4_NL  64
#define FORMAT_IQ4_XS  65
#define FORMAT_IQ3_XXS 66
#define FORMAT_IQ3_S   67
#define FORMAT_IQ2_XXS 68
#define FORMAT_IQ2_XS  69
#define FORMAT_IQ2_S   70
#define FORMAT_IQ1_S   71
#define FORMAT_IQ1_M   72
#define FORMAT_TQ1_0   80
#define FORMAT_TQ2_0   81
#define FORMAT_MXFP4   96
#define FORMAT_NVFP4   97

#define FORMAT_IS_F16_PER_32                                                                       \
    (WEFT_FORMAT == FORMAT_Q8_0 || WEFT_FORMAT == FORMAT_Q4_0 || WEFT_FORMAT == FORMAT_Q5_0 ||     \
     WEFT_FORMAT == FORMAT_IQ4_NL)
#define FORMAT_IS_F16_PAIR_PER_32 (WEFT_FORMAT == FORMAT_Q4_1 || WEFT_FORMAT == FORMAT_Q5_1)
#define FORMAT_IS_TERNARY         (WEFT_FORMAT == FORMAT_TQ1_0 || WEFT_FORMAT == FORMAT_TQ2_0)
#define FORMAT_IS_MLX             (WEFT_FORMAT >= 128)

// Bytes and columns of a block; offsets of its scale and its quants.
#if WEFT_FORMAT == FORMAT_Q8_0
#define TILE_BITS   8
#define TILE_SIGNED 1
#define BLOCK_BYTES 34
#elif WEFT_FORMAT == FORMAT_Q4_0
#define TILE_BITS   4
#define TILE_OFFSET (-8)
#define BLOCK_BYTES 18
#elif WEFT_FORMAT == FORMAT_Q4_1
#define TILE_BITS   4
#define TILE_MIN    1
#define TILE_META   128
#define BLOCK_BYTES 20
#elif WEFT_FORMAT == FORMAT_Q5_0
#define TILE_BITS   5
#define TILE_OFFSET (-16)
#define BLOCK_BYTES 22
#elif WEFT_FORMAT == FORMAT_Q5_1
#define TILE_BITS   5
#define TILE_MIN    1
#define TILE_META   128
#define BLOCK_BYTES 24
#elif WEFT_FORMAT == FORMAT_Q2_K
#define TILE_BITS   2
#define TILE_MIN    1
#define TILE_GROUP  16
#define TILE_META   320
#define BLOCK_BYTES 84
#elif WEFT_FORMAT == FORMAT_Q3_K
#define TILE_BITS   3
#define TILE_OFFSET (-4)
#define TILE_GROUP  16
#define TILE_META   224
#define BLOCK_BYTES 110
#elif WEFT_FORMAT == FORMAT_Q4_K
#define TILE_BITS   4
#define TILE_MIN    1
#define TILE_META   256
#define BLOCK_BYTES 144
#elif WEFT_FORMAT == FORMAT_Q5_K
#define TILE_BITS   5
#define TILE_MIN    1
#define TILE_META   256
#define BLOCK_BYTES 176
#elif WEFT_FORMAT == FORMAT_Q6_K
#define TILE_BITS   6
#define TILE_OFFSET (-32)
#define TILE_GROUP  16
#define TILE_META   288
#define BLOCK_BYTES 210
#elif WEFT_FORMAT == FORMAT_IQ4_NL
#define TILE_BITS   4
#define TILE_TABLE  1
#define BLOCK_BYTES 18
#elif WEFT_FORMAT == FORMAT_IQ4_XS
#define TILE_BITS   4
#define TILE_TABLE  1
#define TILE_META   128
#define BLOCK_BYTES 136
#elif WEFT_FORMAT == FORMAT_IQ3_XXS
#define TILE_GRID   4
#define PAIR_LOW    256
#define PAIR_HIGH   128
#define TILE_META   32
#define BLOCK_BYTES 98
#elif WEFT_FORMAT == FORMAT_IQ3_S
#define TILE_GRID   4
#define PAIR_LOW    256
#define PAIR_HIGH   128
#define TILE_META   224
#define BLOCK_BYTES 110
#elif WEFT_FORMAT == FORMAT_IQ2_XXS
#define TILE_GRID   8
#define PAIR_LOW    256
#define TILE_META   32
#define BLOCK_BYTES 66
#elif WEFT_FORMAT == FORMAT_IQ2_XS
#define TILE_GRID   8
#define TILE_GROUP  16
#define PAIR_LOW    256
#define TILE_META   160
#define BLOCK_BYTES 74
#elif WEFT_FORMAT == FORMAT_IQ2_S
#define TILE_GRID   8
#define TILE_GROUP  16
#define PAIR_LOW    256
#define TILE_META   288
#define BLOCK_BYTES 82
#elif WEFT_FORMAT == FORMAT_IQ1_S
#define TILE_GRID   8
#define TILE_MIN    1
#define PAIR_LOW    128
#define PAIR_HIGH   64
#define TILE_META   32
#define BLOCK_BYTES 50
#elif WEFT_FORMAT == FORMAT_IQ1_M
#define TILE_GRID   8
#define TILE_GROUP  16
#define PAIR_LOW    128
#define PAIR_HIGH   64
#define TILE_META   128
#define BLOCK_BYTES 56
#elif FORMAT_IS_TERNARY // digits of two bits in tiles, five to a byte in blocks of tq1_0
#define TILE_BITS   2
#define TILE_OFFSET (-1)
#define TILE_META   32
#define BLOCK_BYTES (WEFT_FORMAT == FORMAT_TQ1_0 ? 54 : 66)
#elif WEFT_FORMAT == FORMAT_MXFP4
#define TILE_BITS   4
#define TILE_TABLE  1
#define TILE_META   32
#define BLOCK_BYTES 17
#elif WEFT_FORMAT == FORMAT_NVFP4
#define TILE_BITS   4
#define TILE_TABLE  1
#define TILE_GROUP  16
#define TILE_META   64
#define BLOCK_BYTES 36
#define BLOCK_ELEMS 64
#elif FORMAT_IS_MLX
// mlx_q{2,3,4,5,6,8}_g{32,64,128}: y = scale * code + bias; WEFT_SCALE_DTYPE 2 = f16, 3 = bf16.
#define MLX_GROUP (32 << (WEFT_FORMAT - 128) % 3)
#define MLX_WIDTH ((WEFT_FORMAT - 128) / 3)
#if MLX_WIDTH == 5
#define TILE_BITS 8
#elif MLX_WIDTH == 0
#define TILE_BITS 2
#elif MLX_WIDTH == 1
#define TILE_BITS 3
#elif MLX_WIDTH == 2
#define TILE_BITS 4
#elif MLX_WIDTH == 3
#define TILE_BITS 5
#else
#define TILE_BITS 6
#endif
#define TILE_MIN    1
#define TILE_META   (4096 / MLX_GROUP)
#define BLOCK_ELEMS MLX_GROUP
#define BLOCK_BYTES (MLX_GROUP * TILE_BITS / 8)
#else
#error "WEFT_FORMAT names no block format"
#endif

#ifdef TILE_GRID // what comes of a point are bytes with a sign
#define TILE_BITS   8
#define TILE_SIGNED 1
#ifndef PAIR_HIGH
#define PAIR_HIGH 0
#endif
#else
#define TILE_GRID 0
#endif
#define TILE_EIGHTS WEFT__LINEAR_EIGHTS(WEFT_FORMAT)
#ifndef TILE_SIGNED
#define TILE_SIGNED 0
#endif
#ifndef TILE_TABLE
#define TILE_TABLE 0
#endif
#ifndef TILE_OFFSET
#define TILE_OFFSET 0
#endif
#ifndef TILE_GROUP
#define TILE_GROUP 32
#endif
#ifndef TILE_MIN
#define TILE_MIN 0
#endif
#ifndef TILE_META
#define TILE_META 64
#endif
#define TILE_SUPER                                                                                 \
    (WEFT_FORMAT >= FORMAT_Q2_K && WEFT_FORMAT <= FORMAT_Q6_K || WEFT_FORMAT == FORMAT_IQ4_XS ||   \
     TILE_GRID || FORMAT_IS_TERNARY)
#ifndef BLOCK_ELEMS
#define BLOCK_ELEMS (TILE_SUPER ? 256 : 32)
#endif

// Bytes of a pair's planes and of a tile of `pairs` pairs.
#ifndef PAIR_LOW
#define PAIR_LOW  (TILE_BITS == 8 ? 1024 : TILE_BITS >= 4 ? 512 : 256)
#define PAIR_HIGH (TILE_BITS == 6 ? 256 : TILE_BITS == 5 || TILE_BITS == 3 ? 128 : 0)
#endif
#define TILE_BYTES(pairs)                                                                          \
    ((pairs) * (PAIR_LOW + PAIR_HIGH) + (TILE_SUPER ? TILE_META : (pairs)*TILE_META))

#endif
