// SPDX-License-Identifier: MIT
// The warps of linear_some.cu that deliver: sums of all warps, in the order of the columns, become results. A lane has the
// four sums that it would have of a product: rows r and r + 8 of W by rows 2 c and 2 c + 1 of an eight of X.
#ifndef WEFT_KERNELS_LINEAR_SOME_DELIVER_CUH
#define WEFT_KERNELS_LINEAR_SOME_DELIVER_CUH

// Eights of rows of X that a warp delivers: warp, warp + WEFT_DELIVER, ...
enum { EIGHTS_EACH = (EIGHTS + WEFT_DELIVER - 1) / WEFT_DELIVER };

DEVICE float *shared_rms()
{
    return (float *)(shared_memory() + RMS_AT);
}

// 1/rms of the rows that the warp delivers.
DEVICE void norms(const struct weft__linear_device_args *args, int32_t warp, int32_t row0,
                  int32_t batch)
{
    const int32_t lane = (int32_t)(threadIdx.x % WARP), count = columns_of(args) / 32;
    for (int32_t n = 0; n < WEFT_ROWS; n++) {
        if (n / 8 % WEFT_DELIVER != warp)
            continue;
        float total = 0;
        if (args->norm && n < batch) {
            const float *squares = round_squares(
                (uint8_t *)args->x + (row0 + n) * weft__linear_rounded_stride(columns_of(args)),
                columns_of(args));
#pragma unroll 4
            for (int32_t i = lane; i < count; i += WARP)
                total += __ldcg(squares + i);
        }
        total = warp_sum(total, 32);
        if (lane == 0)
            shared_rms()[n] =
                args->norm ? 1.0f / sqrtf(total / (float)columns_of(args) + args->norm_eps) : 1.0f;
    }
    __syncwarp();
}

// Sums of a row block by eight e, over the block's warps.
DEVICE void sums_add(int32_t slot, int32_t units, int32_t e, float sum[4])
{
    const float4 *from = (const float4 *)(shared_memory() + SUMS_AT) + slot * (SUM_SLOT / 4) +
                         e * WARP + threadIdx.x % WARP;
    const float *inverse = shared_inverse(0) + 8 * e + threadIdx.x % 4 * 2;
    float4 total = make_float4(0, 0, 0, 0);
#pragma unroll 4
    for (int32_t w = 0; w < units; w++) {
        const float4 one = from[w * (EIGHTS * WARP)];
        const float2 by = *(const float2 *)(inverse + w * WEFT_ROWS);
        total.x += by.x * one.x, total.y += by.y * one.y;
        total.z += by.x * one.z, total.w += by.y * one.w;
    }
    sum[0] = total.x, sum[1] = total.y, sum[2] = total.z, sum[3] = total.w;
}

// Results out[output block][sum] of row n (numbers q and 2 + q of a product), as a group of a rounded row.
DEVICE void round_out(const struct weft__linear_device_args *args, int32_t group, int64_t n,
                      bool there, const float out[OUT_BLOCKS][2], const float weight[OUT_BLOCKS][2])
{
    const int32_t rows = args->part[0].rows, r = (int32_t)(threadIdx.x % WARP) / 4;
    uint32_t top = 0;
    float square = 0;
#pragma unroll
    for (int32_t i = 0; i < 2 * OUT_BLOCKS; i++) {
        const float x = out[i / 2][i % 2];
        top = max(top, float_bits(x * weight[i / 2][i % 2]) & 0x7fffffffu);
        square += x * x;
    }
    for (int32_t step = 4; step < WARP; step *= 2) {
        top = max(top, __shfl_xor_sync(0xffffffffu, top, step));
        square += __shfl_xor_sync(0xffffffffu, square, step);
    }
    const float largest = bits_float(top), factor = round_factor(largest);
    uint8_t *row = (uint8_t *)args->rounded + n * weft__linear_rounded_stride(rows);
    uint8_t *bytes = row + group / 2 * 64 + group % 2 * 8;
    uint8_t *meta = row + (rows + 63) / 64 * 64 + group * 8;
    int32_t sums = 0;
#pragma unroll
    for (int32_t i = 0; i < 2 * OUT_BLOCKS; i++) {
        const int32_t q = round_code(out[i / 2][i % 2] * weight[i / 2][i % 2], factor);
        const int32_t col = i % 2 * 8 + r; // of sixteen
        sums += i / 2 ? q * 65536 : q;
        if (there)
            bytes[col / 4 * 16 + i / 2 * 4 + col % 4] = (uint8_t)q;
        // the row's last pair has but one group
        if (there && group % 2 == 0 && group * 32 + 32 == rows)
            bytes[8 + col / 4 * 16 + i / 2 * 4 + col % 4] = 0;
    }
    for (int32_t step = 4; step < WARP; step *= 2)
        sums += __shfl_xor_sync(0xffffffffu, sums, step);
    if (r != 0 || !there)
        return;
    const int32_t first = (int16_t)sums;
    *(uint2 *)meta =
        make_uint2(float_bits(largest / 127.0f), (uint32_t)(sums - first) | (first & 0xffffu));
    if (group % 2 == 0 && group * 32 + 32 == rows)
        *(uint2 *)(meta + 8) = make_uint2(0, 0);
    round_squares(row, rows)[group] = square;
}

// Results of a group, of eight e.
DEVICE void results(const struct weft__linear_device_args *args, int32_t group, int32_t e,
                    int32_t row0, int32_t batch, float sum[GROUP_BLOCKS][4])
{
    const int32_t lane = (int32_t)(threadIdx.x % WARP), r = lane / 4, c = lane % 4;
    const struct weft__linear_device_part *part = &args->part[group_part(args, group)];
    const int32_t first = (group - part->first_group) * OUT_BLOCKS * 16 + r;
    const int64_t slice = blockIdx.y % WEFT_SPLIT;
#pragma unroll
    for (int32_t q = 0; q < 2; q++) {
        const int32_t n = 8 * e + 2 * c + q;
        const int64_t at = row0 + n;
        const float rms = shared_rms()[n];
        float out[OUT_BLOCKS][2], weight[OUT_BLOCKS][2];
#pragma unroll
        for (int32_t i = 0; i < 2 * OUT_BLOCKS; i++) {
            const int32_t row = first + i / 2 * 16 + i % 2 * 8;
            const bool there = n < batch && row < part->rows;
            float value[MATRICES];
#pragma unroll
            for (int32_t m = 0; m < MATRICES; m++) {
                value[m] = part[m].alpha * (rms * sum[i / 2 * MATRICES + m][i % 2 * 2 + q]);
                if (part[m].bias && there && slice == 0)
                    value[m] += part[m].bias[row];
            }
            float y = gated<WEFT_GATE>(value[0], value[MATRICES - 1]);
            if (args->residual && there)
                y += element<WEFT_Y_DTYPE>(args->residual, at * args->residual_stride + row);
            if (part->y && there)
                set_element<WEFT_Y_DTYPE>(part->y, (slice * args->batch + at) * part->y_stride + row, y);
            out[i / 2][i % 2] = part->y ? as_stored<WEFT_Y_DTYPE>(y) : y;
            weight[i / 2][i % 2] = WEFT_ROUND && args->next_weight && there
                                       ? args->next_weight[row] + args->next_weight_plus
                                       : 1.0f;
        }
#if WEFT_ROUND
        round_out(args, group, at, n < batch, out, weight);
#endif
    }
}

// The last of the warps asks for row block i of all that multiply, a lane for each.
DEVICE void ask_all(const struct weft__linear_device_args *args, int32_t units, uint32_t i)
{
    const int32_t lane = (int32_t)(threadIdx.x % WARP);
    if (lane < units && i < (uint32_t)blocks_of(args))
        ask(args, lane, i);
    __syncwarp();
}

DEVICE void deliver_all(const struct weft__linear_device_args *args, int32_t warp, int32_t units,
                        int32_t row0, int32_t batch)
{
    const bool asks = warp == WEFT_DELIVER - 1;
    uint32_t i = 0; // row block
#pragma unroll 1
    for (uint32_t stage = 0; asks && stage < WEFT_STAGES; stage++)
        ask_all(args, units, stage);
    wait_for_previous();
    norms(args, warp, row0, batch);
#pragma unroll 1
    for (int32_t group = first_group(); group < args->num_groups; group += group_step()) {
        float sum[EIGHTS_EACH][GROUP_BLOCKS][4];
#pragma unroll
        for (int32_t block = 0; block < GROUP_BLOCKS; block++, i++) {
            const int32_t slot = (int32_t)(i % 2);
            if (units > 0)
                barrier_wait(sums_full(slot), i / 2 % 2);
            if (asks)
                ask_all(args, units, i + WEFT_STAGES);
#pragma unroll
            for (int32_t k = 0; k < EIGHTS_EACH; k++)
                if (warp + k * WEFT_DELIVER < EIGHTS)
                    sums_add(slot, units, warp + k * WEFT_DELIVER, sum[k][block]);
            __syncwarp();
            if (threadIdx.x % WARP == 0)
                barrier_arrive(sums_free(slot));
        }
#pragma unroll
        for (int32_t k = 0; k < EIGHTS_EACH; k++)
            if (warp + k * WEFT_DELIVER < EIGHTS)
                results(args, group, warp + k * WEFT_DELIVER, row0, batch, sum[k]);
    }
}

#endif
