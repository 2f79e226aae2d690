// SPDX-License-Identifier: MIT
// Routing (weft/route.h): a warp a row, its scores in shared memory; and the choices sorted by expert, a block.
//
// The best of many is found on keys: 32 bits that are ordered as the numbers are, NaN below them, what is taken
// below NaN. Of equal keys the lower number is first.
//
// Constants: EXPERTS, X_DTYPE
#include "src/kernels/cuda/elements.cuh"
#include "src/kernels/cuda/memory.cuh"
#include "src/kernels/cuda/warp.cuh"
#include "src/kernels/route/route_device.h"

// Loops are not unrolled: a launch runs this text once and finds it cold (36 KB took twice the time). ROOM: elements of
// an array, whole vectors, which the compiler may read beyond its end.
enum {
    TAKEN = 0,
    KEY_OF_NAN = 1,
    SORTERS = (EXPERTS + 31) / 32 * 32,
    ROOM = (EXPERTS + 3) / 4 * 4,
};

DEVICE uint32_t key_of(float value)
{
    const uint32_t bits = float_bits(value + 0.0f); // both zeros are one
    if (value != value)
        return KEY_OF_NAN;
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// The place of the largest of keys [0, count), all lanes; it is taken from then on. count > 0.
DEVICE int32_t take_best(uint32_t *keys, int32_t count)
{
    const int32_t lane = (int32_t)threadIdx.x;
    uint32_t best = TAKEN, at = 0;
#pragma unroll 1
    for (int32_t i = lane; i < count; i += WARP)
        if (i == lane || keys[i] > best)
            best = keys[i], at = (uint32_t)i;
    const uint32_t most = warp_most(best);
    const int32_t place = (int32_t)~warp_most(lane < count && best == most ? ~at : 0u);
    __syncwarp();
    if (lane == 0)
        keys[place] = TAKEN;
    __syncwarp();
    return place;
}

// exp(a - b), b being the larger: what f32 loses of the difference is a factor of its own.
DEVICE float exp_of_difference(float a, float b)
{
    const double exact = (double)a - b;
    const float rounded = (float)exact, e = expf(rounded);
    return exact > -200 ? fmaf(e, (float)(exact - rounded), e) : e;
}

// score = softmax or sigmoid of the row's logits.
DEVICE void row_scores(const struct weft__route_device_args *args, const float *logits,
                       float *score)
{
    const int32_t lane = (int32_t)threadIdx.x;
    float largest = bits_float(0xff800000u);
    double sum = 0;
#pragma unroll 1
    for (int32_t e = lane; e < EXPERTS; e += WARP)
        largest = fmaxf(largest, logits[e]);
    largest = warp_max(largest, WARP);
#pragma unroll 1
    for (int32_t e = lane; e < EXPERTS; e += WARP) {
        score[e] = args->sigmoid ? 1.0f / (1.0f + expf(-logits[e]))
                                 : exp_of_difference(logits[e], largest);
        sum += score[e];
    }
    for (int32_t step = WARP / 2; step; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (!args->sigmoid)
#pragma unroll 1
        for (int32_t e = lane; e < EXPERTS; e += WARP)
            score[e] = (float)(score[e] / sum);
    __syncwarp();
}

// Takes the experts of all groups but the best. A group is worth the sum of its best values; `used` and `worth` are
// room for keys of a group's experts and of all groups.
DEVICE void close_groups(const struct weft__route_device_args *args, const float *value,
                         uint32_t *keys, uint32_t *used, uint32_t *worth)
{
    const int32_t lane = (int32_t)threadIdx.x, size = EXPERTS / args->groups;
#pragma unroll 1
    for (int32_t g = 0; g < args->groups; g++) {
        float sum = 0;
#pragma unroll 1
        for (int32_t i = lane; i < size; i += WARP)
            used[i] = keys[g * size + i];
        __syncwarp();
#pragma unroll 1
        for (int32_t i = 0; i < args->group_best; i++)
            sum += value[g * size + take_best(used, size)];
        if (lane == 0)
            worth[g] = key_of(sum);
    }
    __syncwarp();
#pragma unroll 1
    for (int32_t g = 0; g < args->top_groups; g++)
        take_best(worth, args->groups);
#pragma unroll 1
    for (int32_t e = lane; e < EXPERTS; e += WARP)
        if (worth[e / size] != TAKEN)
            keys[e] = TAKEN;
    __syncwarp();
}

// The choices of a single row by expert: no two of them are the same.
DEVICE void sort_row(const struct weft__route_device_args *args, const int32_t *ids)
{
    const int32_t lane = (int32_t)threadIdx.x;
#pragma unroll 1
    for (int32_t e = lane; e <= EXPERTS; e += WARP) {
        int32_t below = 0;
#pragma unroll 1
        for (int32_t k = 0; k < args->top_k; k++)
            below += ids[k] < e;
        args->starts[e] = below;
    }
#pragma unroll 1
    for (int32_t k = lane; k < args->top_k; k += WARP) {
        int32_t place = 0;
#pragma unroll 1
        for (int32_t j = 0; j < args->top_k; j++)
            place += ids[j] < ids[k];
        args->order[place] = k;
    }
}

// Grid (rows).
extern "C" __global__ void __launch_bounds__(32)
    weft_route(const __grid_constant__ struct weft__route_device_args args)
{
    __shared__ float logits[ROOM], score[ROOM], value[ROOM];
    __shared__ uint32_t keys[ROOM], used[ROOM], worth[ROOM];
    __shared__ int32_t best[ROOM];
    const int32_t lane = (int32_t)threadIdx.x;
    int32_t *ids = args.ids + (int64_t)blockIdx.x * args.top_k;
    float *weights = args.weights + (int64_t)blockIdx.x * args.top_k;
    const bool by_logit = !args.bias && args.group_best == 1;
    double sum = 0;
    wait_for_previous();
    let_next_start();
#pragma unroll 1
    for (int32_t e = lane; e < EXPERTS; e += WARP)
        logits[e] = element<X_DTYPE>(args.logits, blockIdx.x * args.logits_stride + e);
    row_scores(&args, logits, score);
#pragma unroll 1
    for (int32_t e = lane; e < EXPERTS; e += WARP) {
        value[e] = by_logit ? logits[e] : score[e] + (args.bias ? args.bias[e] : 0.0f);
        keys[e] = key_of(value[e]);
    }
    __syncwarp();
    if (args.top_groups < args.groups)
        close_groups(&args, value, keys, used, worth);
#pragma unroll 1
    for (int32_t k = 0; k < args.top_k; k++) {
        const int32_t e = take_best(keys, EXPERTS);
        sum += score[e];
        if (lane == 0)
            best[k] = e;
    }
    __syncwarp();
    if (!args.normalise || sum == 0)
        sum = 1;
#pragma unroll 1
    for (int32_t k = lane; k < args.top_k; k += WARP) {
        ids[k] = best[k];
        weights[k] = (float)((double)args.scale * score[best[k]] / sum);
    }
    if (args.starts)
        sort_row(&args, best);
}

// The experts of the choices from `first` on, as many as there are threads; returns how many there were.
DEVICE int32_t choices_load(const struct weft__route_sort_args *args, int32_t first, int32_t *ids)
{
    const int32_t here = min(args->choices - first, (int32_t)SORTERS);
    __syncthreads();
    if ((int32_t)threadIdx.x < here)
        ids[threadIdx.x] = args->ids[first + (int32_t)threadIdx.x];
    __syncthreads();
    return here;
}

// A thread an expert, which counts its choices, and writes them when all have counted. One block.
extern "C" __global__ void __launch_bounds__(SORTERS)
    weft_route_sort(const __grid_constant__ struct weft__route_sort_args args)
{
    __shared__ int32_t ids[SORTERS], ends[WARP];
    const int32_t e = (int32_t)threadIdx.x, lane = e % WARP;
    int32_t count = 0, end, before = 0;
    wait_for_previous();
#pragma unroll 1
    for (int32_t first = 0; first < args.choices; first += SORTERS) {
        const int32_t here = choices_load(&args, first, ids);
#pragma unroll 1
        for (int32_t i = 0; i < here; i++)
            count += ids[i] == e;
    }
    end = count;
    for (int32_t step = 1; step < WARP; step *= 2) {
        const int32_t other = __shfl_up_sync(0xffffffffu, end, step);
        end += lane >= step ? other : 0;
    }
    if (lane == WARP - 1)
        ends[e / WARP] = end;
    __syncthreads();
#pragma unroll 1
    for (int32_t w = 0; w < e / WARP; w++)
        before += ends[w];
    int32_t at = before + end - count;
    if (e <= EXPERTS)
        args.starts[e] = at;
    if (e == SORTERS - 1 && e < EXPERTS)
        args.starts[EXPERTS] = at + count;
#pragma unroll 1
    for (int32_t first = 0; first < args.choices; first += SORTERS) {
        const int32_t here = choices_load(&args, first, ids);
#pragma unroll 1
        for (int32_t i = 0; i < here; i++)
            if (ids[i] == e)
                args.order[at++] = first + i;
    }
    let_next_start();
}
