// SPDX-License-Identifier: MIT
// What becomes of the state of a row: the output, or a part that is merged later.
#include <math.h>
#include <stdatomic.h>

#include "src/base/half.h"
#include "src/kernels/attention/attention_kernel.h"

static const float LN2 = 0.693147180559945309417f, LOG2E = 1.44269504088896340736f;

void weft__attention_count(const struct weft__attention_call *call, uint64_t blocks,
                           uint64_t masked)
{
    if (!call->counts)
        return;
    _Atomic uint64_t *counts = (_Atomic uint64_t *)(void *)call->counts;
    atomic_fetch_add_explicit(counts + WEFT_ATTENTION_COUNT_BLOCKS, blocks, memory_order_relaxed);
    atomic_fetch_add_explicit(counts + WEFT_ATTENTION_COUNT_MASKED, masked, memory_order_relaxed);
}

// Numbers to 16 bits.
static void narrow(const struct weft__attention_call *call, int64_t at, const float *y)
{
    uint16_t *half = call->out;
    if (call->out_dtype == WEFT_F16)
        for (int32_t i = 0; i < call->v.dim; i++)
            half[at + i] = weft__f16_from_f32(y[i]);
    else
        for (int32_t i = 0; i < call->v.dim; i++)
            half[at + i] = weft__bf16_from_f32(y[i]);
}

// A sink is one more score, without a value. Whichever is larger is what the others are weighed against.
float weft__attention_close(const struct weft__attention_call *call, int64_t token, int64_t head,
                            float largest, float sum)
{
    float weight = 1, sink = call->sinks ? call->sinks[head] * LOG2E : -INFINITY;
    if (sink > -INFINITY) {
        float before = largest;
        largest = sink > largest ? sink : largest;
        weight = before == largest ? 1 : exp2f(before - largest);
        sum = sum * weight + exp2f(sink - largest);
    }
    if (call->lse)
        call->lse[token * call->num_q_heads + head] =
            sum == 0 ? -INFINITY : LN2 * (largest + log2f(sum));
    return sum == 0 ? -1 : weight / sum;
}

static void finish_row(const struct weft__attention_call *call, int64_t token, int64_t head,
                       float largest, float sum, const float *acc)
{
    int64_t at = token * call->out_token_stride + head * call->out_head_stride;
    float room[WEFT__ATTENTION_MAX_DIM];
    float *y = call->out_dtype == WEFT_F32 ? (float *)call->out + at : room;
    const float inverse = weft__attention_close(call, token, head, largest, sum);
    for (int32_t i = 0; i < call->v.dim; i++)
        y[i] = inverse < 0 ? 0 : acc[i] * inverse;
    if (y == room)
        narrow(call, at, y);
}

void weft__attention_finish(const struct weft__attention_call *call,
                            const struct weft__attention_tile *tile, int32_t row, float largest,
                            float sum, const float *acc)
{
    if (tile->partial) {
        float *state = tile->partial + row * weft__attention_state_floats(call->v.dim);
        memcpy(state, acc, (size_t)call->v.dim * sizeof *state);
        state[call->v.dim] = largest;
        state[call->v.dim + 1] = sum;
        return;
    }
    int64_t token =
        (int64_t)call->lengths.cu_q_lens[tile->seq] + weft__attention_token(call, tile, row);
    int64_t head = weft__attention_head(call, tile, row);
    finish_row(call, token, head, largest, sum, acc);
}

// One row: chunks that saw nothing have largest = -infinity and take no part.
static void merge_row(const struct weft__attention_call *call,
                      const struct weft__attention_tile *tile, int32_t row, const float *slots,
                      int64_t slot_floats, int32_t chunks)
{
    const int32_t dim = call->v.dim;
    const float *first = slots + row * weft__attention_state_floats(dim);
    float acc[WEFT__ATTENTION_MAX_DIM];
    float largest = -INFINITY, sum = 0;
    for (int32_t c = 0; c < chunks; c++) {
        float of_chunk = first[c * slot_floats + dim];
        largest = of_chunk > largest ? of_chunk : largest;
    }
    memset(acc, 0, (size_t)dim * sizeof *acc);
    for (int32_t c = 0; c < chunks; c++) {
        const float *state = first + c * slot_floats;
        if (state[dim + 1] == 0)
            continue;
        float weight = state[dim] == largest ? 1 : exp2f(state[dim] - largest);
        sum += weight * state[dim + 1];
        for (int32_t i = 0; i < dim; i++)
            acc[i] += weight * state[i];
    }
    weft__attention_finish(call, tile, row, largest, sum, acc);
}

void weft__attention_merge(const struct weft__attention_call *call,
                           const struct weft__attention_tile *tile, const float *slots,
                           int64_t slot_floats, int32_t chunks)
{
    for (int32_t row = 0; row < weft__attention_rows(call, tile); row++)
        merge_row(call, tile, row, slots, slot_floats, chunks);
}

void weft__attention_tell(const struct weft__attention_call *call,
                          const struct weft__attention_tile *tile, const float *slots,
                          int64_t slot_floats, int32_t chunks, const weft_attention_report *report)
{
    const int32_t dim = call->v.dim;
    if (!report->max_logits && !report->exp_sums && !report->chunk_out)
        return;
    for (int32_t row = 0; row < weft__attention_rows(call, tile); row++) {
        int64_t token =
            (int64_t)call->lengths.cu_q_lens[tile->seq] + weft__attention_token(call, tile, row);
        int64_t at = (token * call->num_q_heads + weft__attention_head(call, tile, row)) * chunks;
        for (int32_t c = 0; c < chunks; c++) {
            const float *state = slots + c * slot_floats + row * weft__attention_state_floats(dim);
            if (report->max_logits)
                report->max_logits[at + c] = LN2 * state[dim];
            if (report->exp_sums)
                report->exp_sums[at + c] = state[dim + 1];
            if (report->chunk_out)
                memcpy(report->chunk_out + (at + c) * dim, state, (size_t)dim * sizeof *state);
        }
    }
}
