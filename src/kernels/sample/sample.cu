// SPDX-License-Identifier: MIT
// Sampling on the device, with the rules of sample_kernel.h: the survivors are a prefix of the order "higher
// logit first, then lower id"; the draw walks them in order of id.
//
//   weft_sample_best   [rows x parts]  the largest logit of a part of a row (sample_best.cu)
//   weft_sample        [rows]          argmax; or penalties, cuts and the draw
//
// A prefix is known by its last member: the key of its logit and its id. Where it ends is found by digits of
// the key, as in a radix sort, with sums of weights in place of counts. Weights are fixed-point numbers (2^-40
// of the likeliest token's), so that no sum depends on an order.
//
// Constants: X_DTYPE
#include "src/kernels/sample/sample.cuh"

DEVICE double uniform(uint64_t seed, uint64_t step)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)step, c1 = (uint32_t)(step >> 32), c2 = 0, c3 = 0;
    for (int round = 0; round < 10; round++) {
        uint64_t even = (uint64_t)0xd2511f53u * c0, odd = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(odd >> 32) ^ c1 ^ key0;
        c1 = (uint32_t)odd;
        c2 = (uint32_t)(even >> 32) ^ c3 ^ key1;
        c3 = (uint32_t)even;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    return (double)(((uint64_t)c1 << 32 | c0) >> 11) * 0x1p-53;
}

// One row at work.
struct sampler {
    const float *logits;
    int32_t vocab;
    float largest, temperature;
    // The last member of the prefix that is kept so far.
    uint32_t cut;
    int32_t last_id;

    __device__ __forceinline__ float weight(float logit) const
    {
        return expf((logit - largest) / temperature);
    }
    __device__ __forceinline__ wide fixed(float logit) const
    {
        return (wide)(weight(logit) * 0x1p40f);
    }
    __device__ __forceinline__ bool keeps(uint32_t key, int32_t id) const
    {
        return key > cut || (key == cut && id <= last_id);
    }
};

// The key at which the sum of weight(logit, id), from the highest key down, reaches `wanted` (which it
// does), and the sum above that key.
template <class Weight>
DEVICE uint32_t reach(const struct sampler &s, Weight weight, wide wanted, wide *above)
{
    __shared__ wide sums[256];
    __shared__ uint32_t found;
    __shared__ wide passed;
    uint32_t prefix = 0;
    wide before = 0;
    for (int32_t shift = 24; shift >= 0; shift -= 8) {
        for (int32_t i = threadIdx.x; i < 256; i += blockDim.x)
            sums[i] = 0;
        __syncthreads();
        for (int32_t id = threadIdx.x; id < s.vocab; id += blockDim.x) {
            uint32_t key = key_of(s.logits[id]);
            if (shift < 24 && key >> (shift + 8) != prefix)
                continue;
            wide w = weight(s.logits[id], id);
            if (w)
                atomicAdd(&sums[key >> shift & 255], w);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int32_t digit = 255;
            wide sum = before;
            while (digit > 0 && sum + sums[digit] < wanted)
                sum += sums[digit--];
            found = prefix << 8 | (uint32_t)digit;
            passed = sum;
        }
        __syncthreads();
        prefix = found;
        before = passed;
    }
    *above = before;
    return prefix;
}

// The first id at which the running sum of weight(id), in order of id, exceeds `target` (which it does).
template <class Weight> DEVICE int32_t first_past(int32_t vocab, Weight weight, wide target)
{
    __shared__ wide sums[32];
    __shared__ int32_t found;
    int32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
    int32_t length = (vocab + warps * WARP - 1) / (warps * WARP) * WARP;
    int32_t begin = warp * length, end = min(begin + length, vocab);
    wide sum = 0;
    for (int32_t id = begin + lane; id < end; id += WARP)
        sum += weight(id);
    for (int32_t step = WARP / 2; step; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    __syncthreads();
    if (lane == 0)
        sums[warp] = sum;
    if (threadIdx.x == 0)
        found = vocab - 1;
    __syncthreads();
    wide before = 0;
    for (int32_t i = 0; i < warp; i++)
        before += sums[i];
    bool here = before <= target && target < before + sums[warp];
    for (int32_t id = begin + lane; here && id - lane < end; id += WARP) {
        wide running = id < end ? weight(id) : 0;
        for (int32_t step = 1; step < WARP; step *= 2) {
            wide left = __shfl_up_sync(0xffffffffu, running, step);
            running += lane >= step ? left : 0;
        }
        uint32_t past = __ballot_sync(0xffffffffu, before + running > target);
        if (past) {
            if (lane == 0)
                found = id + __ffs(past) - 1;
            break;
        }
        before += __shfl_sync(0xffffffffu, running, WARP - 1);
    }
    __syncthreads();
    return found;
}

// Ends the prefix at the n-th (from 1) of the tokens with key `cut` that it keeps so far.
DEVICE void end_at(struct sampler *s, uint32_t cut, wide n)
{
    const struct sampler now = *s;
    int32_t last = first_past(
        now.vocab,
        [&](int32_t id) {
            uint32_t key = key_of(now.logits[id]);
            return (wide)(key == cut && now.keeps(key, id));
        },
        n - 1);
    s->cut = cut;
    s->last_id = last;
}

// A lower bound of the k-th largest key: the k-th largest of the threads' own maxima.
DEVICE uint32_t floor_of_top(const struct sampler &s, int32_t k)
{
    __shared__ uint32_t keys[1024];
    __shared__ uint32_t bound;
    uint32_t own = 0;
    for (int32_t id = threadIdx.x; id < s.vocab; id += blockDim.x)
        own = max(own, key_of(s.logits[id]));
    __syncthreads();
    keys[threadIdx.x] = own;
    if (threadIdx.x == 0)
        bound = 0;
    __syncthreads();
    int32_t rank = 0;
    for (int32_t i = 0; k <= 1024 && i < (int32_t)blockDim.x; i++)
        rank += keys[i] > own || (keys[i] == own && i < (int32_t)threadIdx.x);
    if (k <= 1024 && rank == k - 1)
        bound = own;
    __syncthreads();
    return bound;
}

DEVICE void cut_top_k(struct sampler *s, int32_t k)
{
    uint32_t least = floor_of_top(*s, k);
    wide above;
    uint32_t cut = reach(
        *s, [&](float logit, int32_t) { return (wide)(key_of(logit) >= least); }, (wide)k, &above);
    end_at(s, cut, (wide)k - above);
}

DEVICE wide kept_sum(const struct sampler &s)
{
    wide sum = 0;
    for (int32_t id = threadIdx.x; id < s.vocab; id += blockDim.x)
        sum += s.keeps(key_of(s.logits[id]), id) ? s.fixed(s.logits[id]) : 0;
    return block_sum(sum);
}

DEVICE void cut_top_p(struct sampler *s, float top_p)
{
    const struct sampler now = *s;
    wide whole = kept_sum(now), above;
    wide wanted = (wide)ceil((double)top_p * (double)whole);
    wanted = wanted < 1 ? 1 : wanted > whole ? whole : wanted;
    uint32_t cut = reach(
        now,
        [&](float logit, int32_t id) {
            return now.keeps(key_of(logit), id) ? now.fixed(logit) : 0;
        },
        wanted, &above);
    wide each = now.fixed(float_of(cut));
    end_at(s, cut, each ? (wanted - above + each - 1) / each : 1);
}

DEVICE int32_t draw(const struct sampler &s, float min_p, int32_t best, double u)
{
    auto weight = [&](int32_t id) {
        float logit = s.logits[id];
        bool kept = s.keeps(key_of(logit), id) && (id == best || s.weight(logit) >= min_p);
        return kept ? s.fixed(logit) : (wide)0;
    };
    wide whole = 0;
    for (int32_t id = threadIdx.x; id < s.vocab; id += blockDim.x)
        whole += weight(id);
    whole = block_sum(whole);
    wide target = (wide)(u * (double)whole);
    return first_past(s.vocab, weight, target < whole ? target : whole - 1);
}

DEVICE bool has_penalty(const struct weft__sample_device_params &p)
{
    bool repeats = p.repetition_penalty != 0 && p.repetition_penalty != 1;
    return p.history_len > 0 && (repeats || p.frequency_penalty != 0 || p.presence_penalty != 0);
}

DEVICE float penalised(float logit, float repetition, int32_t count,
                       const struct weft__sample_device_params &p)
{
    if (logit == MINUS_INFINITY)
        return logit; // masked
    float own = logit > 0 ? __fdiv_rn(logit, repetition) : __fmul_rn(logit, repetition);
    float value =
        __fsub_rn(__fsub_rn(own, __fmul_rn((float)count, p.frequency_penalty)), p.presence_penalty);
    if (value >= -FLOAT_MAX && value <= FLOAT_MAX)
        return value;
    // What f32 cannot say f64 can.
    double wider = logit > 0 ? logit / (double)repetition : logit * (double)repetition;
    wider -= count * (double)p.frequency_penalty + p.presence_penalty;
    return (float)fmax(-(double)FLOAT_MAX, fmin(wider, (double)FLOAT_MAX));
}

// Each token of the history once, with the number of times it is there.
DEVICE void penalise(const struct weft__sample_device_params &p, float *logits, int32_t *counts)
{
    float repetition = p.repetition_penalty == 0 ? 1 : p.repetition_penalty;
    // A token that was noted as one without a finite logit counts for nothing.
    for (int64_t i = threadIdx.x; i < p.history_len; i += blockDim.x)
        if (p.history[i] >= 0)
            counts[p.history[i]] = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < p.history_len; i += blockDim.x)
        if (p.history[i] >= 0)
            atomicAdd(&counts[p.history[i]], 1);
    __syncthreads();
    for (int64_t i = threadIdx.x; i < p.history_len; i += blockDim.x) {
        int32_t id = p.history[i], count = id < 0 ? 0 : atomicExch(&counts[id], 0);
        if (count == 0)
            continue;
        logits[id] = penalised(logits[id], repetition, count, p);
    }
    __syncthreads();
}

// Copies a row, cleaned and penalised, and returns the rank of its best token.
DEVICE wide prepare(const struct weft__sample_device_args &args,
                    const struct weft__sample_device_params &params, int32_t row, float *logits,
                    wide best)
{
    int64_t x0 = row * args.logits_stride;
    for (int32_t id = threadIdx.x; id < args.vocab; id += blockDim.x)
        logits[id] = cleaned(element<X_DTYPE>(args.logits, x0 + id));
    __syncthreads();
    if (!has_penalty(params))
        return best;
    penalise(params, logits, args.counts + (int64_t)row * args.vocab);
    best = 0;
    for (int32_t id = threadIdx.x; id < args.vocab; id += blockDim.x)
        best = larger(best, rank_of(logits[id], id));
    return block_combine(best, (wide)0, larger);
}

DEVICE void choose(const struct weft__sample_device_args &args,
                   const struct weft__sample_device_params &params, int32_t row, wide best)
{
    float *logits = args.cleaned + (int64_t)row * args.vocab;
    best = prepare(args, params, row, logits, best);
    int32_t token = (int32_t) ~(uint32_t)best;
    struct sampler s = {logits,
                        args.vocab,
                        float_of((uint32_t)(best >> 32)),
                        params.temperature == 0 ? 1 : params.temperature,
                        0,
                        args.vocab};
    if (s.largest == MINUS_INFINITY) { // the penalties left nothing
        if (threadIdx.x == 0) {
            args.tokens[row] = 0;
            if (args.logprobs)
                args.logprobs[row] = MINUS_INFINITY;
        }
        return;
    }
    double whole = 0;
    for (int32_t id = threadIdx.x; args.logprobs && id < s.vocab; id += blockDim.x)
        whole += s.weight(logits[id]);
    whole = block_sum(whole);
    if (params.temperature > 0) {
        if (params.top_k > 0 && params.top_k < s.vocab)
            cut_top_k(&s, params.top_k);
        if (params.top_p > 0 && params.top_p < 1)
            cut_top_p(&s, params.top_p);
        token = draw(s, params.min_p, token, uniform(params.seed, params.step));
    }
    if (threadIdx.x == 0) {
        args.tokens[row] = token;
        if (args.logprobs)
            args.logprobs[row] =
                (float)(((double)logits[token] - s.largest) / s.temperature - log(whole));
    }
}

// One thread notes the row's token behind its history and makes the parameters of the next draw.
DEVICE void move_on(const struct weft__sample_device_args &args,
                    const struct weft__sample_device_params &params, int32_t row)
{
    struct weft__sample_device_params next = params;
    int32_t token = args.tokens[row];
    float logit = element<X_DTYPE>(args.logits, row * args.logits_stride + token);
    next.step++;
    if (params.history) {
        bool finite = logit >= -FLOAT_MAX && logit <= FLOAT_MAX;
        ((int32_t *)params.history)[params.history_len] = finite ? token : -1;
        if (params.history_len < params.history_room)
            next.history_len++;
        else
            next.history++;
    }
    args.next[row] = next;
}

extern "C" __global__ void __launch_bounds__(1024, 1)
    weft_sample(const struct weft__sample_device_args args)
{
    wait_for_previous();
    int32_t row = args.first_row + blockIdx.x;
    const struct weft__sample_device_params params =
        args.params ? args.params[row] : args.own[blockIdx.x];
    wide best =
        threadIdx.x < WEFT__SAMPLE_PARTS ? args.best[row * WEFT__SAMPLE_PARTS + threadIdx.x] : 0;
    int any = __syncthreads_or((int)(best >> 31 & 1));
    best = block_combine(best | 0x80000000ull, (wide)0, larger);
    if (any && (params.temperature > 0 || args.logprobs || has_penalty(params))) {
        choose(args, params, row, best);
    } else if (threadIdx.x == 0) {
        args.tokens[row] = any ? (int32_t) ~(uint32_t)best : 0;
        if (args.logprobs)
            args.logprobs[row] = MINUS_INFINITY;
    }
    // All threads have read the parameters; the token was written by this one.
    if (args.next && threadIdx.x == 0)
        move_on(args, params, row);
}
