// SPDX-License-Identifier: MIT
// The oracle of attention and its bounds, u = 2^-24.
//
// A kernel works in f32 in an order of its own. What it does to every number in the same way (rounding a
// constant, the error of a polynomial) is bounded by its largest value and added up; what rounding does
// is independent from operation to operation, uniform in +-u times the result, and bounded by SIGMAS
// standard deviations of the sum. The order assumed is one key and one element after the other: every
// other order that kernels use has fewer steps. What is below u of the sum that it joins is not rounded but
// lost, always in the same direction: kernels whose weights are exact add at most 64 keys one by one before
// those join the rest, so that this stays below 64 u |y| where 4 sqrt(64 / 3) u |y| for values, as much for
// weights and 8 u |y| are allowed.
//
//   score    steady  u (3 |s| + 8 |s| with a soft-cap + 4 |bias|)
//            random  sum over the partial sums of q.k, of the products, and s - largest
//   weight   p (steady + EXP_ERROR u), p random
//   lse      sum p (steady + EXP_ERROR u), p random, what rounded queries do to all scores together; log sum p e^d and -log sum p e^-d at most, if scores are off by d that is not small
//   output   sum p steady |v - y|, sqrt(sum (p random (v - y))^2), partial sums of p v and of p, 8 u |y|
//
// Kernels that round weights to 16 bits (rounding w) before they multiply values, but sum them unrounded:
// sum p e v = sum p e (v - y) + y sum p e, the first at random, SIGMAS w, the second w |y| at most.
//
// Tensor cores cut off instead of rounding. They add sixteen products and the sum so far at a time: each of
// these loses what lies below 2^-24 of the largest of them, m, and the new sum S what f32 has no room for, all
// towards zero. So a term is off by 0 to u m, S by 0 to 2 u |S|; what that is at random is below what roundings
// one after the other are allowed. In the mean a term is off by u m / 2, S by u |S|, for all keys alike: steady
// gets u (n m / 2 + |S|) of every sixteen, n the greater of how many products raise the sum and how many lower
// it. (One part of queries: the sums of several parts begin at 0 and are added in f32.)
//
// Kernels that multiply integers round elements of queries, and weights times the scales of their values, to a unit: at
// random within half of it, SIGMAS / sqrt(12) of it times what they are multiplied by; weights below half a
// unit vanish. A query's element is off by the same for all keys: scores go up or down together where keys are
// alike, which leaves the weights as they are but not the LSE. That is off by (what q is off by) . sum p k,
// with the slope of a soft-cap in the sum: SIGMAS |sum p k| / sqrt(12) units.
//
// Scores whose uncertainty is not small against 1 (values of 10^4 and more) get the plain worst case; their weights are
// rounded at random all the same.
#include "src/kernels/attention/attention_oracle.h"

#include <float.h>
#include <math.h>

static const double u = 0x1p-24, SIGMAS = 4, EXP_ERROR = 2, DOUBTFUL = 0.01;

enum { TENSOR_STEP = 16 };

// Of every key's score.
struct uncertainty {
    double *steady, *noise, *alone; // alone: noise without what rounded queries add
    double *unit, *slope;
};

// Sum and spread of the rounding errors of a sum made one by one.
struct running {
    double sum, squares;
};

static void add(struct running *r, double term)
{
    r->sum += term;
    r->squares += (r->sum * r->sum + term * term) / 3;
}

static double spread(const struct running *r)
{
    return SIGMAS * u * sqrt(r->squares);
}

// An element of a query or key as the kernel reads it.
static double element(const struct oracle_query *query, float x)
{
    return query->flushes && fabsf(x) < FLT_MIN ? 0 : x;
}

// What a score is off by queries that are rounded to a unit.
static double spread_of_unit(const struct oracle_query *query, const float *k)
{
    double largest = 0, squares = 0;
    for (int32_t i = 0; i < query->head_dim; i++) {
        largest = fmax(largest, fabs((double)query->q[i]));
        squares += (double)k[i] * k[i];
    }
    return SIGMAS * query->q_unit * largest * sqrt(squares / 12);
}

// What tensor cores cut off in the mean of the sum of q.k, sixteen elements at a time.
static double cut_of(const struct oracle_query *query, const float *k)
{
    double sum = 0, cut = 0;
    for (int32_t first = 0; first < query->head_dim; first += TENSOR_STEP) {
        const int32_t end =
            first + TENSOR_STEP < query->head_dim ? first + TENSOR_STEP : query->head_dim;
        double largest = fabs(sum);
        int32_t up = sum > 0, down = sum < 0;
        for (int32_t i = first; i < end; i++) {
            const double term = (double)query->q[i] * k[i];
            largest = fmax(largest, fabs(term));
            up += term > 0, down += term < 0;
            sum += term;
        }
        cut += largest * (up > down ? up : down) / 2 + fabs(sum);
    }
    return u * cut;
}

// Score of a key; *steady and *noise are the two kinds of its uncertainty, *unit what rounded queries add to
// the second, *slope what of an error of q.k is left.
static double score_of(const struct oracle_query *query, int32_t t, struct uncertainty at)
{
    const float *k = query->k + t * query->k_stride;
    struct running dot = {0};
    for (int32_t i = 0; i < query->head_dim; i++)
        add(&dot, element(query, query->q[i]) * element(query, k[i]));
    double score = dot.sum * query->scale, slope = 1;
    const double cut = query->cuts ? cut_of(query, k) * fabs(query->scale) : 0;
    at.steady[t] = 3 * u * fabs(score) + cut;
    if (query->softcap > 0) {
        // tanh turns an error of x into one of at most 1 - tanh^2 x times it
        const double x = score / query->softcap;
        slope = 1 - tanh(x) * tanh(x);
        at.steady[t] = at.steady[t] * slope + 8 * u * query->softcap * fabs(tanh(x));
        score = query->softcap * tanh(x);
    }
    at.noise[t] = spread(&dot) * fabs(query->scale) * slope;
    at.unit[t] = query->q_unit > 0 ? spread_of_unit(query, k) * fabs(query->scale) * slope : 0;
    at.slope[t] = slope;
    return score;
}

// What the LSE is off by queries that are rounded to a unit.
static double spread_of_queries(const struct oracle_query *query, const double *p,
                                const double *slope)
{
    double sum[ORACLE_MOST_DIM] = {0}, largest = 0, squares = 0;
    for (int32_t t = 0; t < query->num_keys; t++)
        for (int32_t i = 0; i < query->head_dim && query->sees[t] && p[t] > 0; i++)
            sum[i] += p[t] * slope[t] * query->k[t * query->k_stride + i];
    for (int32_t i = 0; i < query->head_dim; i++) {
        largest = fmax(largest, fabs((double)query->q[i]));
        squares += sum[i] * sum[i];
    }
    return SIGMAS * query->q_unit * largest * fabs(query->scale) * sqrt(squares / 12);
}

// p (e^d - 1): how far a weight is off whose score is uncertain by d, p normalised.
static double uncertain(double p, double d)
{
    return fmin(p * expm1(fmin(d, 700)), 1);
}

// What weights of codes near key t are rounded to.
static double unit_near(const struct oracle_query *query, const double *p, int32_t t)
{
    enum { MOST_KEYS = 64 }; // of a block
    double largest = 0;
    for (int32_t i = t - MOST_KEYS + 1; i < t + MOST_KEYS; i++)
        if (i >= 0 && i < query->num_keys && query->sees[i])
            largest = fmax(largest, p[i] * fabs((double)query->v_scales[i * query->scale_stride]));
    return largest / INT16_MAX;
}

// Adds to the bounds what rounding the weight of key t to a unit does.
static void add_unit(const struct oracle_query *query, const double *p, int32_t t, double *linear,
                     double *squares)
{
    const float *v = query->v + t * query->v_stride;
    const double scale = fabs((double)query->v_scales[t * query->scale_stride]);
    const double unit = unit_near(query, p, t), random = SIGMAS * unit / sqrt(12) / scale;
    for (int32_t i = 0; i < query->value_dim; i++)
        if (p[t] * scale < unit / 2)
            linear[i] += p[t] * fabs((double)v[i]);
        else
            squares[i] += random * random * v[i] * v[i];
}

// The output and its bounds, key by key. p, steady and noise are 0 for keys of no weight.
static void sum_values(const struct oracle_query *query, const double *p, const double *steady,
                       const double *noise, double doubt, struct oracle_answer *answer)
{
    const int32_t dim = query->value_dim;
    double y[ORACLE_MOST_DIM] = {0}, partial[ORACLE_MOST_DIM] = {0}, all[ORACLE_MOST_DIM] = {0};
    double linear[ORACLE_MOST_DIM] = {0}, squares[ORACLE_MOST_DIM] = {0};
    struct running sum = {0};
    for (int32_t t = 0; t < query->num_keys; t++) {
        const float *v = query->v + t * query->v_stride;
        if (!query->sees[t])
            continue;
        add(&sum, p[t]);
        for (int32_t i = 0; i < dim; i++) {
            double term = p[t] * v[i];
            y[i] += term;
            partial[i] += y[i] * y[i] + term * term;
            all[i] += fabs((double)v[i]);
        }
    }
    for (int32_t t = 0; t < query->num_keys; t++) {
        const float *v = query->v + t * query->v_stride;
        if (!query->sees[t] || p[t] == 0)
            continue;
        double fixed = p[t] * (steady[t] + EXP_ERROR * u);
        double random =
            p[t] * ((doubt > DOUBTFUL ? 0 : noise[t]) + SIGMAS * query->weight_rounding);
        double most = uncertain(p[t], steady[t] + noise[t] + EXP_ERROR * u);
        for (int32_t i = 0; i < dim; i++) {
            double far = fabs(v[i] - y[i]);
            linear[i] += (doubt > DOUBTFUL ? 2 * most : fixed) * far;
            squares[i] += random * random * far * far;
        }
        if (query->v_scales)
            add_unit(query, p, t, linear, squares);
    }
    for (int32_t i = 0; i < dim; i++) {
        answer->y[i] = y[i];
        answer->bound[i] = linear[i] + sqrt(squares[i]) + SIGMAS * u * sqrt(partial[i] / 3) +
                           (spread(&sum) + 8 * u) * fabs(y[i]) +
                           query->weight_rounding * fabs(y[i]) +
                           fmax(query->weight_floor, 0x1p-110) * all[i] + query->tiny + 0x1p-140;
    }
}

void weft__attention_oracle(const struct oracle_query *query, double *work,
                            struct oracle_answer *answer)
{
    int32_t n = query->num_keys;
    double *p = work, largest = query->sink;
    const struct uncertainty at = {work + n, work + 2 * n, work + 3 * n, work + 4 * n,
                                   work + 5 * n};
    double *const steady = at.steady, *const noise = at.noise;
    for (int32_t t = 0; t < n; t++)
        if (query->sees[t]) {
            p[t] = score_of(query, t, at);
            if (query->bias) {
                p[t] += query->bias[t];
                steady[t] += 4 * u * fabs(query->bias[t]);
            }
            largest = fmax(largest, p[t]);
        }
    double from = largest == -INFINITY ? 0 : largest, squares = 0, linear = 0, doubt = 0;
    struct running sum = {0};
    if (largest > -INFINITY)
        add(&sum, exp(query->sink - from));
    for (int32_t t = 0; t < n; t++)
        if (query->sees[t]) {
            const double less_exact = u * (fabs(p[t]) + fabs(p[t] - from));
            at.alone[t] = noise[t] + less_exact;
            noise[t] = hypot(noise[t], at.unit[t]) + less_exact;
            p[t] = exp(p[t] - from);
            add(&sum, p[t]);
        }
    bool nothing = sum.sum == 0; // seen, or every score is -infinity
    double more = nothing ? 1 : exp(query->sink - from) / sum.sum, less = more;
    for (int32_t t = 0; t < n; t++)
        if (query->sees[t]) {
            p[t] = nothing ? 0 : p[t] / sum.sum;
            if (p[t] == 0)
                continue;
            linear += p[t] * (steady[t] + EXP_ERROR * u);
            squares += p[t] * at.alone[t] * p[t] * at.alone[t];
            doubt += uncertain(p[t], steady[t] + noise[t]);
            more += p[t] * exp(fmin(steady[t] + noise[t], 700));
            less += p[t] * exp(-fmin(steady[t] + noise[t], 700));
        }
    if (query->q_unit > 0 && !nothing)
        squares += pow(spread_of_queries(query, p, at.slope), 2);
    answer->lse = nothing ? -INFINITY : from + log(sum.sum);
    answer->lse_bound =
        nothing ? 0
                : (doubt > DOUBTFUL ? fmax(log(more), -log(less)) : linear + sqrt(squares)) +
                      spread(&sum) / sum.sum + u * (4 * (fabs(answer->lse) + fabs(from)) + 4);
    for (int32_t i = 0; i < query->value_dim; i++)
        answer->y[i] = answer->bound[i] = 0;
    if (!nothing)
        sum_values(query, p, steady, noise, doubt, answer);
}
