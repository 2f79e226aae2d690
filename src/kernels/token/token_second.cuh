// SPDX-License-Identifier: MIT
// A second format, WEFT_SECOND (and WEFT_FIRST that of all others, for NVRTC does not put macros away): V and down of some layers have it (weft__token_args.second). Its decoding and its products are
// those of linear_few_one.cuh, compiled once more under a name of their own.
//
// A slot has two tiles of it, one for each warp of the team: two columns of one block, of down of one and the other block in turn, so that a
// warp has the columns of a chain of eight of one block; or, where chains are of sixteen, first those of the first block.
//
// Two slots are asked for at a time: they have less than other slots, and who asks has a slot's time whatever its bytes (NOTES.md).
#ifndef WEFT_KERNELS_TOKEN_SECOND_CUH
#define WEFT_KERNELS_TOKEN_SECOND_CUH

#if WEFT_SECOND
#undef WEFT_FORMAT
#define WEFT_FORMAT WEFT_SECOND
namespace second_format
{
#include "src/kernels/linear/linear_few_one.cuh"
enum { SECOND_TILE_BYTES = TILE_BYTES(4) };
} // namespace second_format
#include "src/kernels/linear/linear_format_end.cuh"
#undef WEFT_FORMAT
#define WEFT_FORMAT WEFT_FIRST
#endif

#endif
