// SPDX-License-Identifier: MIT
// cos and sin of a position, without calls, so that the compiler can do several pairs at once.
#include <math.h>

#include "src/kernels/rope/rope_kernel.h"

// The angle in turns is reduced to the nearest quarter, |f| <= 1/8 turn; what is left is within reach of
// the Taylor series (what it leaves out is below 2^-28). No branch keeps the loop from becoming vectors.
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
        double sine = z / 362880 - 1 / 5040.0;
        double cosine = 1 / 40320.0 - z / 3628800;
        sine = 1 + z * (-1 / 6.0 + z * (1 / 120.0 + z * sine));
        cosine = 1 + z * (-1 / 2.0 + z * (1 / 24.0 + z * (-1 / 720.0 + z * cosine)));
        sine *= angle;
        // nearest = 4 n + quarter, quarter in {-2, -1, 0, 1, 2}: a turn by i^quarter = a + b i.
        double quarter = nearest - 4 * ((nearest * 0.25 + to_integer) - to_integer);
        double a = 1 - fabs(quarter), b = quarter * (2 - fabs(quarter));
        cosines[i] = (float)((cosine * a - sine * b) * factor);
        sines[i] = (float)((sine * a + cosine * b) * factor);
    }
}
