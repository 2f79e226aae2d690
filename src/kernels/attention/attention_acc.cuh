// SPDX-License-Identifier: MIT
// What a warp of decode keeps of its rows between tiles, as tensor cores take and give it.
#ifndef WEFT_KERNELS_ATTENTION_ACC_CUH
#define WEFT_KERNELS_ATTENTION_ACC_CUH

#include "src/kernels/attention/attention_rows.cuh"

// Columns of the values that a warp has of its rows: all, unless the kernel says so before.
#ifndef STATE_DIM
#define STATE_DIM DIM
#endif

// Eights of sixteen rows that there are queries of: both, unless the kernel says so before. Of the others nothing is computed but what
// tensor cores do anyway.
#ifndef STATE_EIGHTS
#define STATE_EIGHTS 2
#endif

enum { ROW_SIXTEENS = ROWS / 16 };

// What a lane holds of its warp's rows r and r + 8.
struct state {
    float acc[STATE_DIM / 8][4];
    float largest[2], sum[2]; // sum: of this lane's keys
};

DEVICE void state_begin(struct state *state)
{
#pragma unroll
    for (int32_t t = 0; t < STATE_DIM / 8; t++)
#pragma unroll
        for (int32_t i = 0; i < 4; i++)
            state->acc[t][i] = 0;
#pragma unroll
    for (int32_t i = 0; i < 2; i++)
        state->largest[i] = NEGATIVE_INFINITY, state->sum[i] = 0;
}

// The element of a row that lane `lane` has in acc[t][2 half + i].
DEVICE int32_t acc_element(int32_t t, int32_t i, int32_t lane)
{
    return WEFT_CODES ? (2 * (lane % 4) + i) * (DIM / 8) + t : 8 * t + 2 * (lane % 4) + i;
}

#endif
