// SPDX-License-Identifier: MIT
// The slice of X that a block of linear_gemm_slice.cu keeps: rounded rows become 16-bit numbers in shared memory, in the order
// of linear_gemm_device.h. The largest number of a row's slice comes to [2^14, 2^15) by a power of two (f16).
//
// A warp has eight rows, a lane four columns of each sixteen of a pair: what lanes store side by side is in banks of its own.
// WEFT_PAIR: of a pair of columns a warp's rows go to the other block of the cluster as soon as they are there.
#ifndef WEFT_KERNELS_LINEAR_GEMM_SLICE_X_CUH
#define WEFT_KERNELS_LINEAR_GEMM_SLICE_X_CUH

enum {
    X_ROWS = WEFT_PAIR ? WEFT_ROWS / 2 : WEFT_ROWS,      // that the block makes
    X_SHARES = WARPS / (X_ROWS / 8),                     // warps that share eight rows
    X_MOST = WEFT__LINEAR_SLICE_X / (X_SHARES * X_PAIR), // pairs of a warp
};

// A lane's place in X.
struct x_place {
    int32_t n, c;       // row, word of a sixteen
    int32_t own;        // the row among those that the block makes
    int32_t share;      // of the pairs: share, share + X_SHARES, ...
    bool there;         // is the row one of the batch?
    const uint8_t *row; // its codes from the slice on
    const uint8_t *scales;
};

DEVICE struct x_place x_place_of(const struct weft__linear_slice_args *args, const struct slice *s)
{
    const int32_t lane = (int32_t)threadIdx.x % WARP, warp = (int32_t)threadIdx.x / WARP;
    struct x_place at;
    at.c = lane % 4, at.own = warp / X_SHARES * 8 + lane / 4, at.share = warp % X_SHARES;
    at.n = at.own + (WEFT_PAIR ? (int32_t)cluster_rank() * X_ROWS : 0);
    at.there = at.n < args->batch;
    const uint8_t *row =
        (const uint8_t *)args->x + (at.there ? at.n : 0) * weft__linear_rounded_stride(args->cols);
    at.row = row + s->tile0 * TILE_PAIRS * 64 + at.c * 16;
    at.scales = row + (int64_t)all_pairs(args) * 64 + s->tile0 * TILE_PAIRS * 16 + at.c * 4;
    return at;
}

// What a lane has of a pair: codes of its row; of both units' scales and sums of sixteens, four words, one.
struct x_pair {
    uint4 codes;
    uint32_t word;
};

// All pairs at once: L2 is a long way, and every block wants the same.
DEVICE void x_ask(const struct slice *s, const struct x_place *at, struct x_pair pair[X_MOST])
{
#pragma unroll
    for (int32_t k = 0; k < X_MOST; k++) {
        const int32_t p = at->share + k * X_SHARES;
        pair[k].codes = make_uint4(0, 0, 0, 0);
        pair[k].word = 0;
        if (at->there && p < s->pairs) {
            pair[k].codes = __ldcg((const uint4 *)(at->row + p * 64));
            pair[k].word = __ldcg((const uint32_t *)(at->scales + p * 16));
        }
    }
}

// The bits of the largest scale that the lane has of its row: words 0 and 2 are scales.
DEVICE uint32_t x_largest(const struct x_place *at, const struct x_pair pair[X_MOST])
{
    uint32_t largest = 0;
#pragma unroll
    for (int32_t k = 0; k < X_MOST; k++)
        largest = max(largest, at->c % 2 ? 0 : pair[k].word & 0x7fffffffu);
    return max(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
}

// The sum of squares of a share of the row, over the lanes that have it.
DEVICE float x_squares(const struct weft__linear_slice_args *args, const struct x_place *at)
{
    const float *squares = round_squares(
        (uint8_t *)args->x + at->n * weft__linear_rounded_stride(args->cols), args->cols);
    float sum = 0;
#pragma unroll 8
    for (int32_t i = 4 * at->share + at->c; i < (args->cols + 31) / 32 && at->there;
         i += 4 * X_SHARES)
        sum += __ldcg(squares + i);
    return warp_sum(sum, 4);
}

// What the lane's row is multiplied by; what its sums are to be goes to shared memory.
DEVICE float x_factor(const struct weft__linear_slice_args *args, const struct x_place *at,
                      const struct x_pair pair[X_MOST])
{
    float *inverse = shared_inverse(args), *largest = inverse + WEFT_ROWS;
    float *squares = largest + X_SHARES * X_ROWS;
    const float sum = args->norm ? x_squares(args, at) : 0.0f;
    const bool scaled = !WEFT_BRAIN;
    const uint32_t own = scaled ? x_largest(at, pair) : 0;
    if (at->c == 0) {
        largest[at->share * X_ROWS + at->own] = bits_float(own);
        squares[at->share * X_ROWS + at->own] = sum;
    }
    __syncthreads();
    uint32_t top = 0;
    float total = 0;
#pragma unroll
    for (int32_t i = 0; i < X_SHARES; i++) {
        top = max(top, float_bits(largest[i * X_ROWS + at->own]));
        total += squares[i * X_ROWS + at->own];
    }
    top = float_bits(bits_float(top) * 127.0f);
    int32_t up = !scaled || top == 0 ? 0 : 14 + 127 - (int32_t)(top >> 23);
    up = up > 126 ? 126 : up < -126 ? -126 : up;
    const float rms = args->norm ? 1.0f / sqrtf(total / (float)args->cols + args->norm_eps) : 1.0f;
    if (at->c == 0 && at->share == 0)
        inverse[at->n] = bits_float((uint32_t)(127 - up) << 23) * rms;
    return bits_float((uint32_t)(127 + up) << 23);
}

// Bytes b and b + 2 of a word of codes whose signs are turned, times the scale; `both`: it as f16, twice. Codes stand under the exponent
// of 1024, whose offset is subtracted exactly.
DEVICE uint32_t x_two(uint32_t word, int32_t b, float scale, uint32_t both)
{
    float v[2];
    if (!WEFT_BRAIN) {
        const uint32_t above = byte_permute(word, 0x64646464u, b ? 0x4341u : 0x4240u);
        return mul_f16x2(sub_f16x2(above, 0x64806480u), both);
    }
#pragma unroll
    for (int32_t i = 0; i < 2; i++) {
        const uint32_t above = byte_permute(word, 0x4b000000u, 0x7440u | (b + 2 * i));
        v[i] = (bits_float(above) - (8388608.0f + 128.0f)) * scale;
    }
    return floats_bf16x2(v[0], v[1]);
}

// Pair p of the slice, by all lanes.
DEVICE void x_store(const struct weft__linear_slice_args *args, const struct x_place *at, int32_t p,
                    const struct x_pair *pair, float factor)
{
    const uint32_t word[4] = {pair->codes.x, pair->codes.y, pair->codes.z, pair->codes.w};
    const int32_t own = (int32_t)threadIdx.x % WARP;
    float scale[2];
    uint32_t both[2];
#pragma unroll
    for (int32_t h = 0; h < 2; h++) {
        scale[h] = factor * bits_float(__shfl_sync(0xffffffffu, pair->word, own - at->c + 2 * h));
        both[h] = floats_f16x2(scale[h], scale[h]);
    }
    uint8_t *to = shared_memory() + p * X_PAIR + at->n * 128;
#pragma unroll
    for (int32_t k = 0; k < 4; k++) {
        const int32_t h = k / 2, half = k % 2;
        const int32_t sixteen = 2 * h + (TILE_EIGHTS ? at->c % 2 : half);
        const int32_t place = TILE_EIGHTS ? half * 2 + at->c / 2 : at->c;
#pragma unroll
        for (int32_t b = 0; b < 2; b++)
            *(uint32_t *)(to + ((2 * sixteen + b) ^ (at->n & 7)) * 16 + place * 4) =
                x_two(word[k] ^ 0x80808080u, b, scale[h], both[h]);
    }
}

#if WEFT_PAIR
// Counts what the other block of the cluster sends.
DEVICE uint32_t pair_barrier(const struct weft__linear_slice_args *args)
{
    return shared_address(shared_inverse(args) + ROW_NUMBERS) + WARPS * WEFT_STAGES * 8;
}

// Before anything is sent: the barrier, and that the block is there.
DEVICE void pair_begin(const struct weft__linear_slice_args *args, const struct slice *s)
{
    if (threadIdx.x == 0) {
        barrier_init(pair_barrier(args), 1);
        barrier_init_end();
        barrier_expect(pair_barrier(args), (uint32_t)(X_ROWS * (s->pairs * 128 + 4)));
    }
    __syncwarp();
    cluster_begun();
}

// Sends what the warp has stored.
DEVICE void pair_send(const struct weft__linear_slice_args *args, const void *own, uint32_t bytes)
{
    bulk_fence();
    __syncwarp();
    if (elected())
        cluster_copy(shared_address(own), cluster_rank() ^ 1, bytes, pair_barrier(args));
}

// Waits for the other half, and lets the other block end once it has been sent.
DEVICE void pair_end(const struct weft__linear_slice_args *args)
{
    barrier_wait(pair_barrier(args), 0);
    cluster_arrive();
}
#endif

// All of the slice, by all warps; what the rings still have room for is asked for once X has been. Rows beyond the batch are zeros.
DEVICE void x_load(const struct weft__linear_slice_args *args, const struct slice *s,
                   const struct ring *ring, struct asking *more)
{
    const struct x_place at = x_place_of(args, s);
    struct x_pair pair[X_MOST];
    x_ask(s, &at, pair);
    const float factor = x_factor(args, &at, pair);
    ask_all(args, s, ring, more, args->early, WEFT_STAGES);
#if WEFT_PAIR
    cluster_wait(); // the other block is there
    if (at.share == 0)
        pair_send(args, shared_inverse(args) + at.n / 8 * 8, 32);
#endif
#pragma unroll
    for (int32_t k = 0; k < X_MOST; k++) {
        const int32_t p = at.share + k * X_SHARES;
        if (p >= s->pairs)
            break;
        x_store(args, &at, p, &pair[k], factor);
#if WEFT_PAIR
        pair_send(args, shared_memory() + p * X_PAIR + at.n / 8 * 1024, 1024);
#endif
    }
#if WEFT_PAIR
    pair_end(args);
#endif
    bulk_fence();
    __syncthreads();
}

#endif
