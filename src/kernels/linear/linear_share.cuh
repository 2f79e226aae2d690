// SPDX-License-Identifier: MIT
// Rows of X that go to the same expert share a pass over its weights: places of the sorted choices (linear_device.h)
// are dealt out in shares of a few, of one expert each. A warp finds its share itself: nothing of a route needs the host.
#ifndef WEFT_KERNELS_LINEAR_SHARE_CUH
#define WEFT_KERNELS_LINEAR_SHARE_CUH

#include "src/kernels/cuda/warp.cuh"
#include "src/kernels/linear/linear_device.h"

// Places [first, first + count) of one expert.
struct share {
    int32_t expert, first, count;
};

// Share number `wanted`, when the places of every expert are dealt out by `columns`; a count of 0 if there are fewer.
// A whole warp.
DEVICE struct share find_share(const struct weft__linear_experts *to, int32_t wanted,
                               int32_t columns)
{
    const int32_t lane = (int32_t)threadIdx.x % WARP;
    struct share found = {0, 0, 0};
    for (int32_t e0 = 0, before = 0; e0 < to->experts; e0 += WARP) {
        const int32_t e = e0 + lane;
        const int32_t start = e < to->experts ? to->starts[e] : 0;
        const int32_t places = e < to->experts ? to->starts[e + 1] - start : 0;
        const int32_t shares = (places + columns - 1) / columns;
        int32_t end = shares;
        for (int32_t step = 1; step < WARP; step *= 2) {
            const int32_t other = __shfl_up_sync(0xffffffffu, end, step);
            end += lane >= step ? other : 0;
        }
        const int32_t mine = wanted - (before + end - shares);
        const uint32_t whose = __ballot_sync(0xffffffffu, mine >= 0 && mine < shares);
        if (whose) {
            const int32_t from = __ffs((int32_t)whose) - 1;
            const int32_t first = start + mine * columns;
            found.expert = e0 + from;
            found.first = __shfl_sync(0xffffffffu, first, from);
            found.count = __shfl_sync(0xffffffffu, min(start + places - first, columns), from);
            return found;
        }
        before += __shfl_sync(0xffffffffu, end, WARP - 1);
    }
    return found;
}

// Rows of X and Y of a share's place n; past its end, those of another place.
struct share_row {
    int32_t x, y;
};

DEVICE struct share_row share_row_of(const struct weft__linear_experts *to,
                                     const struct share *share, int32_t n)
{
    const int32_t place = min(share->first + n, to->choices - 1);
    const int32_t choice = min(max(to->order[place], 0), to->choices - 1); // whatever it says
    struct share_row row = {to->gather ? choice / to->top_k : place, to->gather ? place : choice};
    return row;
}

// What the row of X that went to a place is multiplied by.
DEVICE float share_weight(const struct weft__linear_experts *to, int32_t place)
{
    return to->weights[min(max(to->order[min(place, to->choices - 1)], 0), to->choices - 1)];
}

#endif
