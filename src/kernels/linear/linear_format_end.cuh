// SPDX-License-Identifier: MIT
// Ends what linear_format.cuh, linear_tile.cuh and linear_few_one.cuh have defined by the format, so that they can be included
// again for another one. (No guard: it may be included as often.)
#undef WEFT_KERNELS_LINEAR_FORMAT_CUH
#undef WEFT_KERNELS_LINEAR_TILE_CUH
#undef WEFT_KERNELS_LINEAR_FEW_ONE_CUH
#undef BLOCK_BYTES
#undef BLOCK_ELEMS
#undef CODE_FACTOR
#undef MLX_GROUP
#undef MLX_WIDTH
#undef ONE_FACTOR
#undef ONE_OFFSET
#undef PAIR_HIGH
#undef PAIR_LOW
#undef SIGNED_TABLE_0
#undef SIGNED_TABLE_1
#undef SIGNED_TABLE_2
#undef SIGNED_TABLE_3
#undef TABLE_0
#undef TABLE_1
#undef TABLE_2
#undef TABLE_3
#undef TABLE_FIRST_NEGATIVE
#undef TILE_BITS
#undef TILE_GRID
#undef TILE_GROUP
#undef TILE_META
#undef TILE_MIN
#undef TILE_OFFSET
#undef TILE_SIGNED
#undef TILE_TABLE
