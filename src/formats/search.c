// SPDX-License-Identifier: MIT
// The searches of encode.h: candidates for where the largest number falls on the grid, numbers rounded
// under each, scales by least squares. The method is that of ggml's quantisers (ggml-quants.c:
// make_qx_quants, make_qkx2_quants, make_qp_quants).
#include "src/formats/encode.h"

// Sums over one candidate. The scale is xq / qq; the error falls by xq^2 / qq.
struct fit {
    float xq, qq;
};

static inline int better(struct fit a, struct fit b)
{
    return a.qq > 0 && a.xq * a.xq * b.qq > b.xq * b.xq * a.qq;
}

static float scale_of(struct fit best)
{
    return best.qq > 0 ? best.xq / best.qq : 0;
}

static struct fit fit_integers(const float *x, const float *weights, int n, float inverse, int low,
                               int high)
{
    struct fit f = {0, 0};
    for (int i = 0; i < n; i++) {
        float q = rintf(fminf(fmaxf(x[i] * inverse, (float)low), (float)high));
        f.xq += weights[i] * x[i] * q;
        f.qq += weights[i] * q * q;
    }
    return f;
}

float weft__search_scale(const float *x, const float *weights, int n, int low, int high)
{
    float largest = weft__largest_signed(x, n);
    struct fit best = {0, 0};
    if (!(fabsf(largest) > 1e-30f))
        return 0;
    // Up to 30 % beyond the end of the grid for few bits, where clipping pays; less for many.
    float step = low > -16 ? 0.08f : 0.1f;
    for (int n_step = -12; n_step <= 12; n_step++) {
        float inverse = ((float)low + step * (float)n_step) / largest;
        struct fit f = fit_integers(x, weights, n, inverse, low, high);
        if (n_step == -12 || better(f, best))
            best = f;
    }
    struct fit again = fit_integers(x, weights, n, weft__inverse(scale_of(best)), low, high);
    return scale_of(better(again, best) ? again : best);
}

float weft__search_unsigned(const float *x, const float *weights, int n, int high)
{
    float largest = weft__largest_magnitude(x, n);
    struct fit best = {0, 0};
    float least = INFINITY;
    if (!(largest > 1e-30f))
        return 0;
    for (int n_step = -6; n_step <= 6; n_step++) {
        float inverse = ((float)high + 0.1f * (float)n_step) / largest;
        struct fit f = fit_integers(x, weights, n, inverse, 0, high);
        float error = -f.xq * (f.qq > 0 ? f.xq / f.qq : 0);
        if (error < least) {
            least = error;
            best = f;
        }
    }
    return scale_of(best);
}

static struct fit fit_levels(const float *x, const float *weights, int n, float inverse,
                             const int8_t levels[16])
{
    struct fit f = {0, 0};
    for (int i = 0; i < n; i++) {
        float q = (float)levels[weft__nearest_level(levels, x[i] * inverse)];
        f.xq += weights[i] * x[i] * q;
        f.qq += weights[i] * q * q;
    }
    return f;
}

float weft__search_levels(const float *x, const float *weights, int n, const int8_t levels[16])
{
    float largest = weft__largest_signed(x, n);
    struct fit best = {0, 0};
    if (!(fabsf(largest) > 1e-30f))
        return 0;
    // Both ends of the grid: they differ.
    const int8_t ends[2] = {levels[0], levels[15]};
    for (int end = 0; end < 2; end++)
        for (int n_step = -7; n_step <= 7; n_step++) {
            float inverse = (float)ends[end] * (1 + 0.02f * (float)n_step) / largest;
            struct fit f = fit_levels(x, weights, n, inverse, levels);
            if (best.qq == 0 || better(f, best))
                best = f;
        }
    struct fit again = fit_levels(x, weights, n, weft__inverse(scale_of(best)), levels);
    return scale_of(better(again, best) ? again : best);
}

// Least squares of scale * q + low for numbers q rounded under a candidate.
struct span_fit {
    float scale, low, error;
};

static struct span_fit fit_span(const float *x, const float *weights, int n, float inverse,
                                float low, int high, int any_low)
{
    float w = 0, wx = 0, wxx = 0, wq = 0, wqq = 0, wxq = 0;
    for (int i = 0; i < n; i++) {
        float q = rintf(fminf(fmaxf((x[i] - low) * inverse, 0), (float)high));
        w += weights[i];
        wx += weights[i] * x[i];
        wxx += weights[i] * x[i] * x[i];
        wq += weights[i] * q;
        wqq += weights[i] * q * q;
        wxq += weights[i] * x[i] * q;
    }
    struct span_fit f = {0, 0, INFINITY};
    float determinant = w * wqq - wq * wq;
    if (determinant > 0) {
        f.scale = (w * wxq - wx * wq) / determinant;
        f.low = (wqq * wx - wq * wxq) / determinant;
        if (f.low > 0 && !any_low) {
            f.low = 0;
            f.scale = wxq / wqq;
        }
        double s = f.scale, m = f.low;
        f.error = (float)(s * s * wqq + m * m * w + wxx + 2 * (s * m * wq - s * wxq - m * wx));
    }
    return f;
}

void weft__search_span(const float *x, const float *weights, int n, int high, int any_low,
                       float *scale, float *low)
{
    float least = x[0], most = x[0];
    for (int i = 1; i < n; i++) {
        least = fminf(least, x[i]);
        most = fmaxf(most, x[i]);
    }
    if (least > 0 && !any_low)
        least = 0;
    *scale = 0;
    *low = least;
    if (!(most - least > 1e-30f))
        return;
    struct span_fit best = {(most - least) / (float)high, least, INFINITY};
    for (int n_step = -8; n_step <= 10; n_step++) {
        float inverse = ((float)high + 0.1f * (float)n_step) / (most - least);
        struct span_fit f = fit_span(x, weights, n, inverse, least, high, any_low);
        if (f.scale > 0 && f.error < best.error)
            best = f;
    }
    for (int again = 0; again < 3; again++) {
        struct span_fit f =
            fit_span(x, weights, n, weft__inverse(best.scale), best.low, high, any_low);
        if (!(f.scale > 0 && f.error < best.error))
            break;
        best = f;
    }
    *scale = best.scale;
    *low = best.low;
}

float weft__best_factor(const float *x, const float *weights, const float *y, int n)
{
    double xy = 0, yy = 0;
    for (int i = 0; i < n; i++) {
        xy += (double)weights[i] * x[i] * y[i];
        yy += (double)weights[i] * y[i] * y[i];
    }
    return yy > 0 && xy > 0 ? (float)(xy / yy) : 1;
}
