// SPDX-License-Identifier: MIT
// Plain weights (f16, bf16; linear_numbers.cu): rows of W come as boxes of two tiles side by side, X is numbers of 32 bits, and rows
// that are handed over are numbers.
//
// A tile is 16 rows by 64 columns, 128 bytes a row, in which 16 bytes stand at place i ^ (row % 8). As in linear_numbers.cu lane (r, c) of a warp has
// chunks c and c + 4 of two rows eight apart, and tiles t, t + 16 ... of a row come to the same warp in their order. Rows of lanes are
// numbered so that eight lanes read of every bank.
//
//      slot of gate and up    columns 2k, 2k + 1 of sixteen rows of gate, then of up
//      of other matrices      columns 32q + 2m, + 1, + 16, + 17 of sixteen rows: slot 8q + m
#ifndef WEFT_KERNELS_TOKEN_PLAIN_CUH
#define WEFT_KERNELS_TOKEN_PLAIN_CUH

#include "src/kernels/token/token_shared.cuh"

enum { CHUNK = 8 }; // columns of 16 bytes

// The first column of tiles of a slot, for the team's first warp; the second is that, or sixteen further on.
DEVICE int32_t slot_column(enum form form, int32_t slot)
{
    return form == PAIRS ? 2 * slot : slot / TEAMS * 32 + slot % TEAMS * 2;
}

// --- words of rows --------------------------------------------------------------------------------

// Sixteen numbers are a unit: four words of 16 bytes, of three numbers, the upper bytes of a fourth and the turn; and a word of 8 bytes with the
// lowest bytes of the fourth ones. A row has all words of 16 bytes, then those of 8.
DEVICE uint64_t *low_words(void *row, int32_t cols)
{
    return (uint64_t *)((uint8_t *)row + cols * 4);
}

// `count` units, 1 or 2, from `unit` on: lane l has number l.
DEVICE void numbers_send(const struct weft__token_args *args, int32_t row, int32_t unit,
                         int32_t count, int32_t own_lane, float x, uint32_t turn)
{
    const int32_t lane = computed_here(own_lane);
    const uint32_t bits = float_bits(x);
    uint32_t word[4];
#pragma unroll
    for (int32_t i = 0; i < 4; i++)
        word[i] = __shfl_sync(0xffffffffu, bits, (4 * lane + i) % 32);
    uint32_t low = word[3] & 255u;
    low |= __shfl_down_sync(0xffffffffu, low, 1) << 8;
    low |= __shfl_down_sync(0xffffffffu, low, 2) << 16;
    word[3] = word[3] >> 8 | turn << TURN_SHIFT;
    const int32_t cols = row == WEFT__TOKEN_ROW_attended ? ATTENDED
                         : row == WEFT__TOKEN_ROW_down   ? WIDE
                                                         : EMBED;
    if (lane < 4 * count) {
        send_whole((uint8_t *)args->rows[row] + (4 * unit + lane) * 16, word);
        if (lane % 4 == 0)
            turn_send(low_words(args->rows[row], cols) + unit + lane / 4, bits_float(low), turn);
    }
    __syncwarp();
    if (lane == 0)
        count_arrival(counter_of(args, row));
}

DEVICE float4 norm_weights(const float *norm, float plus, int32_t four)
{
    if (!norm)
        return make_float4(1, 1, 1, 1);
    const float4 w = __ldg((const float4 *)norm + four);
    return make_float4(w.x + plus, w.y + plus, w.z + plus, w.w + plus);
}

// A row of words to shared memory by all warps that multiply, four numbers a thread, which asks for some of them before it looks at any.
// A thread has the columns that it has in linear_numbers.cu, so that sums of squares are the same. Weights of the norm are asked for before
// the row is waited for.
template <int COLS, bool NORM>
DEVICE void numbers_take(const struct weft__token_args *args, int32_t row, uint32_t turn,
                         const float *weights)
{
    enum {
        FOURS = COLS / 4,
        STEPS = (FOURS + MULTIPLYING - 1) / MULTIPLYING,
        AT_ONCE = STEPS < 4 ? STEPS : 4,
        NORMS = NORM ? STEPS : 1,
    };
    const int32_t own = computed_here((int32_t)threadIdx.x);
    float4 by[NORMS];
#pragma unroll
    for (int32_t k = 0; NORM && k < NORMS; k++)
        by[k] = norm_weights(weights, args->norm_plus, min(own + k * MULTIPLYING, FOURS - 1));
    if (own == 0)
        arrivals_wait(args, row, turn,
                      (uint32_t)COLS / (row == WEFT__TOKEN_ROW_attended ? 32 : 16));
    part_sync<MULTIPLYING>(MULTIPLIERS_MEET);
    const uint8_t *words = (const uint8_t *)args->rows[row];
    const uint64_t *lows = low_words(args->rows[row], COLS);
    float *to = (float *)shared_row(QKV);
    float square = 0;
#pragma unroll
    for (int32_t first = 0; first < STEPS; first += AT_ONCE) {
        uint32_t word[AT_ONCE][4];
        float low[AT_ONCE];
        bool there;
        do {
            there = true;
#pragma unroll
            for (int32_t k = 0; k < AT_ONCE && first + k < STEPS; k++) {
                const int32_t four = min(own + (first + k) * MULTIPLYING, FOURS - 1);
                there &= word_look(words + four * 16, turn, word[k]);
                there &= turn_look(lows + four / 4, turn, &low[k]);
            }
        } while (!there);
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE && first + k < STEPS; k++) {
            const int32_t four = own + (first + k) * MULTIPLYING;
            if (FOURS % MULTIPLYING && four >= FOURS)
                break;
            const uint32_t last = word[k][3] << 8 | (float_bits(low[k]) >> four % 4 * 8 & 255u);
            float4 v = make_float4(bits_float(word[k][0]), bits_float(word[k][1]),
                                   bits_float(word[k][2]), bits_float(last));
            if (NORM) {
                const float4 w = by[(first + k) % NORMS];
                square += squares_of(v);
                v = make_float4(v.x * w.x, v.y * w.y, v.z * w.z, v.w * w.w);
            }
            ((float4 *)to)[four] = v;
        }
    }
    if (NORM) {
        square = warp_sum(square, 32);
        if (own % WARP == 0)
            shared_rest()->squares[own / WARP] = square;
    }
    part_sync<MULTIPLYING + DELIVERING>(ROW_IS_THERE);
}

// 1/rms of the row of X; as norm_store() has it.
DEVICE float numbers_norm(float eps, int32_t lane)
{
    const float square = lane < MULTIPLIERS ? shared_rest()->squares[lane] : 0.0f;
    return 1.0f / sqrtf(warp_sum(square, 32) / (float)EMBED + eps);
}

// --- slots ----------------------------------------------------------------------------------------

// Two tiles of two matrices, or of two places in a row; what lies past the row's end is zeros.
DEVICE void boxes_of_slot(uint32_t to, const void *first, const void *second, int32_t column,
                          int32_t second_column, int32_t row, uint32_t barrier, uint64_t policy)
{
    barrier_expect(barrier, SLOT);
    copy_box_of_pile_as(to, first, 0, row, column, 0, barrier, policy);
    copy_box_of_pile_as(to + 2 * TILE, second, 0, row, second_column, 0, barrier, policy);
}

DEVICE float2 plain_pair(uint32_t two)
{
    return WEFT_FORMAT == 2 ? f16x2_float2(two) : bf16x2_float2(two);
}

DEVICE void chunk_floats(uint4 chunk, float w[CHUNK])
{
    const uint32_t words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
    for (int32_t i = 0; i < 4; i++) {
        const float2 pair = plain_pair(words[i]);
        w[2 * i] = pair.x, w[2 * i + 1] = pair.y;
    }
}

// The row of a lane: of eight that read at a time, two whose chunks lie in different halves of 128 bytes.
DEVICE int32_t plain_row(int32_t lane)
{
    return lane / 8 | (lane / 4 & 1) << 2;
}

// A warp's two tiles of a slot in registers, so that the slot can be asked for anew before they are multiplied, and the first of a matrix
// before its X is there: chunk c + 4 i of the lane's two rows.
struct held {
    uint4 top[2][2], bottom[2][2]; // of a tile, i
};

// Returns a number made of all loads.
DEVICE uint32_t held_load(struct held *held, const uint8_t *first, const uint8_t *second,
                          int32_t lane)
{
    uint32_t all = 0;
    const int32_t row = plain_row(lane);
#pragma unroll
    for (int32_t t = 0; t < 2; t++)
#pragma unroll
        for (int32_t i = 0; i < 2; i++) {
            const uint8_t *from =
                (t ? second : first) + row * 128 + ((lane % 4 + 4 * i) ^ row) * 16;
            held->top[t][i] = *(const uint4 *)from;
            held->bottom[t][i] = *(const uint4 *)(from + 8 * 128);
            all ^= held->top[t][i].x ^ held->bottom[t][i].x;
        }
    return all;
}

// acc += a chunk of two rows by x of its columns.
DEVICE void chunk_add(uint4 top_chunk, uint4 bottom_chunk, const float x[CHUNK], float acc[2])
{
    float top[CHUNK], bottom[CHUNK];
    chunk_floats(top_chunk, top);
    chunk_floats(bottom_chunk, bottom);
#pragma unroll
    for (int32_t k = 0; k < CHUNK; k++) {
        acc[0] = fmaf(top[k], x[k], acc[0]);
        acc[1] = fmaf(bottom[k], x[k], acc[1]);
    }
}

DEVICE void chunk_x(const float *row, int32_t column, int32_t i, int32_t lane, float x[CHUNK])
{
    const float *from = row + column * TILE_COLS + (lane % 4 + 4 * i) * CHUNK;
#pragma unroll
    for (int32_t k = 0; k < CHUNK; k += 4) {
        const float4 four = *(const float4 *)(from + k);
        x[k] = four.x, x[k + 1] = four.y, x[k + 2] = four.z, x[k + 3] = four.w;
    }
}

// The warp's two tiles of a slot: of one column and two matrices, or of two columns.
template <bool PAIRED>
DEVICE void plain_add(const struct held *held, const float *row, int32_t column, bool both,
                      int32_t lane, float sum[2][2])
{
    float x[CHUNK];
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        chunk_x(row, column, i, lane, x);
        chunk_add(held->top[0][i], held->bottom[0][i], x, sum[0]);
        if (PAIRED)
            chunk_add(held->top[1][i], held->bottom[1][i], x, sum[1]);
    }
#pragma unroll
    for (int32_t i = 0; !PAIRED && i < 2; i++) {
        if (!both)
            break;
        chunk_x(row, column + 16, i, lane, x);
        chunk_add(held->top[1][i], held->bottom[1][i], x, sum[0]);
    }
}

#endif
