// SPDX-License-Identifier: MIT
// cos and sin of a position, without calls, so that the compiler can do several pairs at once.
#include <math.h>

#include "src/kernels/rope/rope_kernel.h"

// The angle in turns is reduced to the nearest quarter, |f| <= 1/8 turn; what is left is within reach of
// the Taylor series (last terms 2^-31 and 2^-33). The quarter then says which function is which.
void weft__rope_angles(const struct weft__rope_frequencies *frequencies, int64_t position,
                       float *cosines, float *sines)
{
    const double two_pi = 6.283185307179586476925;
    const double to_integer = 0x1.8p52; // adding it rounds to an integer
    double factor = frequencies->attention_factor;
    for (int32_t i = 0; i < frequencies->rotary_dim / 2; i++) {
        double quarters = (double)position * frequencies->turns[i] * 4;
        double nearest = (quarters + to_integer) - to_integer;
        double angle = (quarters - nearest) * (two_pi / 4), z = angle * angle;
        double sine = 1 + z * (-1 / 6.0 + z * (1 / 120.0 + z * (-1 / 5040.0 + z / 362880)));
        double cosine = 1 + z * (-1 / 2.0 + z * (1 / 24.0 + z * (-1 / 720.0 + z / 40320)));
        sine *= angle;
        // nearest = 4 n + quarter, quarter in {-2, -1, 0, 1, 2}
        double quarter = nearest - 4 * ((nearest * 0.25 + to_integer) - to_integer);
        double across = quarter * quarter; // 0: as it is, 1: a quarter on, 4: half a turn
        bool swapped = across == 1;
        double sign = across == 4 ? -factor : swapped ? quarter * factor : factor;
        cosines[i] = (float)((swapped ? -sine : cosine) * sign);
        sines[i] = (float)((swapped ? cosine : sine) * sign);
    }
}
