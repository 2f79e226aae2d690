// SPDX-License-Identifier: MIT
// Where rows begin is found by one lane each and handed over by shuffle: `lanes` of a warp copy a row, sixteen bytes each, and
// would otherwise compute the same address. Of 32 rows a lane computes one, not as many as it copies.
//
//      lane n finds        row  n % together  of those that its warp copies in step  n / together
//      in step k lane l    copies what lane  k * together + l / lanes  has found,        together = 32 / lanes
//
// In a step all `warps` warps copy rows that follow each other.
#ifndef WEFT_KERNELS_ATTENTION_ROW_LANES_CUH
#define WEFT_KERNELS_ATTENTION_ROW_LANES_CUH

// The row that a lane finds, of the block's.
DEVICE int32_t row_found(int32_t lane, int32_t lanes, int32_t warp, int32_t warps)
{
    const int32_t together = 32 / lanes;
    return lane / together * (warps * together) + warp * together + lane % together;
}

// The lane that has found what `lane` copies in step k.
DEVICE uint32_t row_finder(uint32_t k, uint32_t lane, uint32_t lanes)
{
    return k * (32 / lanes) + lane / lanes;
}

#endif
