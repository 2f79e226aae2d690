// SPDX-License-Identifier: MIT
// Places in memory that blocks leave states in for other blocks. The words of a place say by themselves whether they are there:
// between launches all their bits are set, which no word of a state has in its upper half, and who has read them sets the
// bits again. So one store and one load lie between a block's last tile and the merge, where a counter takes a fence, an
// atomic and a load.
#ifndef WEFT_KERNELS_ATTENTION_PLACES_CUH
#define WEFT_KERNELS_ATTENTION_PLACES_CUH

#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/types.cuh"

static const uint32_t NOTHING = 0xffffffffu;

DEVICE bool is_there(float2 pair)
{
    return float_bits(pair.y) != NOTHING;
}

// What is stored is no NOTHING: such a NaN becomes another.
DEVICE float2 pair_of(float2 x)
{
    return make_float2(x.x, bits_float(min(float_bits(x.y), NOTHING - 1)));
}

// As a pair is between launches.
DEVICE float2 no_pair()
{
    return make_float2(bits_float(NOTHING), bits_float(NOTHING));
}

#endif
