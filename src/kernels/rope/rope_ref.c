// SPDX-License-Identifier: MIT
#include "src/kernels/rope/rope_kernel.h"

static void turn(const float *x, float *y, int32_t a, int32_t b, float cosine, float sine)
{
    double xa = x[a], xb = x[b];
    y[a] = (float)(xa * cosine - xb * sine);
    y[b] = (float)(xa * sine + xb * cosine);
}

weft__rope_rotate_fn weft__rope_split_half_ref;
void weft__rope_split_half_ref(const float *x, float *y, const float *cosines, const float *sines,
                               int32_t rotary_dim)
{
    for (int32_t i = 0; i < rotary_dim / 2; i++)
        turn(x, y, i, i + rotary_dim / 2, cosines[i], sines[i]);
}

weft__rope_rotate_fn weft__rope_interleaved_ref;
void weft__rope_interleaved_ref(const float *x, float *y, const float *cosines, const float *sines,
                                int32_t rotary_dim)
{
    for (int32_t i = 0; i < rotary_dim / 2; i++)
        turn(x, y, 2 * i, 2 * i + 1, cosines[i], sines[i]);
}
