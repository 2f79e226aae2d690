// SPDX-License-Identifier: MIT
// Attention that begins with an append and ends with a rounding: three runs, or one where the device has a launch for
// single queries of a batch.
//
//      workspace:  | of the attention | queries [q_tokens][heads][head_dim], narrow | results [q_tokens][heads][v_dim] |
#include <weft/linear.h>

#include "src/api/api_attention.h"
#include "src/api/api_rope.h"
#include "src/base/checked.h"
#include "src/base/memory.h"
#include "src/kernels/attention/attention_kernel.h"
#include "src/plan/plan_batch.h"

weft_status weft__api_check_parts(weft_context *context, const weft_attention_desc *desc)
{
    const bool append = desc->flags & WEFT_ATTENTION_APPEND;
    if (!append && desc->rope)
        return weft__fail(context, WEFT_EINVAL,
                          "attention: rope needs WEFT_ATTENTION_APPEND: others hand over what they "
                          "have rotated");
    if (append && weft_dtype_block_bytes(desc->q_dtype) == 1)
        return weft__fail(
            context, WEFT_EINVAL,
            "attention: WEFT_ATTENTION_APPEND takes queries of f32, f16 or bf16, not %s",
            weft_dtype_name(desc->q_dtype));
    if (desc->flags & WEFT_ATTENTION_OUT_ROUNDED && desc->out_dtype != WEFT_F32)
        return weft__fail(context, WEFT_EINVAL,
                          "attention: WEFT_ATTENTION_OUT_ROUNDED leaves out_dtype f32 (or 0)");
    return WEFT_OK;
}

static weft_status plan_append(weft_plan *plan, const weft_attention_desc *desc)
{
    const weft_kv_append_desc append = {.size = sizeof append,
                                        .max_tokens = desc->max_q_tokens,
                                        .layout = desc->kv,
                                        .rope = desc->rope,
                                        .num_q_heads = desc->num_q_heads,
                                        .x_dtype = desc->q_dtype,
                                        .q_out_dtype = plan->narrow ? desc->kv.dtype : 0};
    return weft_kv_append_plan(plan->context, &append, &plan->append);
}

static weft_status plan_round(weft_plan *plan, const weft_attention_desc *desc)
{
    const weft_round_desc round = {.size = sizeof round,
                                   .max_rows = desc->max_q_tokens,
                                   .cols = (int64_t)desc->num_q_heads * desc->kv.v_dim};
    if (!weft_rounded_bytes(plan->context, 1, round.cols))
        return weft__fail(plan->context, WEFT_EUNSUPPORTED,
                          "attention: this device has no rounded buffers of %lld columns",
                          (long long)round.cols);
    return weft_round_plan(plan->context, &round, &plan->round);
}

// Adds `rows` rows of `elems` elements to the workspace.
static bool add_room(weft_plan *plan, weft_dtype dtype, int64_t rows, int64_t elems, size_t *offset)
{
    int64_t bytes = weft__mul_saturated(weft_dtype_row_bytes(dtype, elems), rows);
    *offset = (size_t)weft__align_up((int64_t)plan->workspace_bytes, WEFT__ALIGN);
    if (bytes > INT64_MAX / 4 || (uint64_t)bytes > SIZE_MAX / 4 || *offset > SIZE_MAX / 4)
        return false;
    plan->workspace_bytes = *offset + (size_t)bytes;
    return true;
}

static weft_status add_parts(weft_plan *plan)
{
    const weft_attention_desc *desc = plan->desc;
    bool fits = true;
    if (desc->flags & WEFT_ATTENTION_APPEND)
        WEFT__TRY(plan_append(plan, desc));
    if (desc->flags & WEFT_ATTENTION_OUT_ROUNDED)
        WEFT__TRY(plan_round(plan, desc));
    if (plan->append && plan->narrow)
        fits = add_room(plan, desc->kv.dtype, desc->max_q_tokens,
                        (int64_t)desc->num_q_heads * desc->kv.head_dim, &plan->queries_offset);
    if (plan->round && fits)
        fits = add_room(plan, WEFT_F32, desc->max_q_tokens,
                        (int64_t)desc->num_q_heads * desc->kv.v_dim, &plan->results_offset);
    return fits ? WEFT_OK
                : weft__fail(plan->context, WEFT_EOVERFLOW,
                             "attention: the queries and results of so many tokens do not fit");
}

// What a budget leaves for the attention itself, where results wait to be rounded (room of queries is a GPU's, whose
// plans do not shrink).
static int64_t budget_of_attention(const weft_attention_desc *desc)
{
    int64_t results = weft__mul_saturated(
        weft_dtype_row_bytes(WEFT_F32, (int64_t)desc->num_q_heads * desc->kv.v_dim),
        desc->max_q_tokens);
    if (desc->max_workspace_bytes == 0 || !(desc->flags & WEFT_ATTENTION_OUT_ROUNDED))
        return desc->max_workspace_bytes;
    return desc->max_workspace_bytes > results ? desc->max_workspace_bytes - results : 1;
}

weft_status weft__api_plan_parts(weft_context *context, const weft_attention_desc *user_desc,
                                 weft_plan **out)
{
    weft_rope_params rope;
    weft_attention_desc desc = *user_desc;
    weft_plan *plan = NULL;
    struct weft__plan_array arrays[] = {
        WEFT__VARIANT(&desc), {&rope.freq_factors, 0}, {&desc.rope, 0}};
    if (desc.rope) {
        rope = *desc.rope;
        WEFT__TRY(weft__api_settle_rope(context, "attention", &rope, desc.kv.head_dim));
        desc.rope = &rope;
        arrays[1] = WEFT__FREQ_FACTORS(&rope);
        arrays[2].bytes = sizeof rope;
    }
    desc.max_workspace_bytes = budget_of_attention(&desc);
    WEFT__TRY(weft__api_plan(context, WEFT__OP_attention, &desc, sizeof desc, arrays,
                             desc.rope ? 3 : 1, &plan));
    weft_status status = add_parts(plan);
    if (status != WEFT_OK) {
        weft_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return WEFT_OK;
}

// --- runs -----------------------------------------------------------------------------------------

static weft_status settle(const weft_plan *plan, const weft_attention_args *args,
                          weft_attention_append *append)
{
    const weft_attention_desc *desc = plan->desc;
    const int64_t k_row = (int64_t)desc->kv.num_kv_heads * desc->kv.head_dim;
    const int64_t v_row = (int64_t)desc->kv.num_kv_heads * desc->kv.v_dim;
    const int64_t out_row = (int64_t)desc->num_q_heads * desc->kv.v_dim;
    if (!args->batch)
        return weft__fail(
            plan->context, WEFT_EINVAL,
            "attention: with WEFT_ATTENTION_APPEND or _OUT_ROUNDED runs need a batch");
    if (plan->append) {
        *append = *args->append;
        WEFT__TRY(weft__api_tail(plan->context, "attention: append", append->reserved, 4));
        if (!append->k)
            return weft__fail(plan->context, WEFT_EINVAL, "attention: append.k must not be NULL");
        if (!weft__api_stride(&append->k_token_stride, k_row, k_row, desc->max_q_tokens) ||
            !weft__api_stride(&append->v_token_stride, v_row, v_row, desc->max_q_tokens))
            return weft__fail(plan->context, WEFT_EINVAL,
                              "attention: a stride of append is shorter than its row, or too long");
        WEFT__TRY(weft__api_aligned(plan, (uintptr_t)append->k | (uintptr_t)append->v,
                                    weft__api_alignment(desc->q_dtype)));
    }
    if (plan->append && args->q_head_stride != desc->kv.head_dim)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: queries that are to be rotated lie head by head: "
                          "q_head_stride must be head_dim, not %lld",
                          (long long)args->q_head_stride);
    if (!plan->round)
        return WEFT_OK;
    if (args->out_token_stride != out_row || args->out_head_stride != desc->kv.v_dim)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "attention: a rounded buffer is packed: leave the strides of out 0");
    return weft__api_aligned(plan, (uintptr_t)args->out, WEFT__ALIGN);
}

// One query of every sequence at most, each at the position and in the slot of the last key?
static bool is_single(const weft_batch *batch)
{
    bool single = batch->can_advance && !batch->on_device;
    for (int32_t s = 0; s < batch->num_seqs && single; s++)
        single = batch->cu_q_lens[s + 1] - batch->cu_q_lens[s] <= 1;
    return single;
}

static weft_status run_append(const weft_plan *plan, const weft_attention_append *fresh,
                              weft_attention_args *args)
{
    const weft_attention_desc *desc = plan->desc;
    char *queries = plan->narrow ? (char *)args->workspace + plan->queries_offset : NULL;
    const weft_kv_append_args append = {.size = sizeof append,
                                        .tokens = args->batch->num_tokens,
                                        .pool = args->pool,
                                        .k = fresh->k,
                                        .k_token_stride = fresh->k_token_stride,
                                        .v = fresh->v,
                                        .v_token_stride = fresh->v_token_stride,
                                        .q = desc->rope || queries ? (void *)(uintptr_t)args->q
                                                                   : NULL,
                                        .q_token_stride = args->q_token_stride,
                                        .stream = args->stream,
                                        .batch = args->batch,
                                        .q_out = queries};
    WEFT__TRY(weft_kv_append_run(plan->append, &append));
    if (queries) {
        args->q = queries;
        args->q_token_stride = (int64_t)desc->num_q_heads * desc->kv.head_dim;
    }
    return WEFT_OK;
}

weft_status weft__api_run_parts(const weft_plan *plan, const weft_attention_args *args)
{
    struct weft__attention_args run = {.base = *args};
    weft_attention_append append = {0};
    WEFT__TRY(settle(plan, args, &append));
    run.base.append = NULL;
    if (plan->fuses && append.v && is_single(args->batch)) {
        run.k = append.k, run.k_token_stride = append.k_token_stride;
        run.v = append.v, run.v_token_stride = append.v_token_stride;
        return weft__api_submit(plan, &run, sizeof run, args->stream);
    }
    char *results = (char *)args->workspace + plan->results_offset;
    const weft_round_args round = {.size = sizeof round,
                                   .rows = args->batch->num_tokens,
                                   .x = results,
                                   .rounded = args->out,
                                   .stream = args->stream};
    if (plan->append)
        WEFT__TRY(run_append(plan, &append, &run.base));
    if (plan->round)
        run.base.out = results;
    WEFT__TRY(weft__api_submit(plan, &run, sizeof run, args->stream));
    return plan->round ? weft_round_run(plan->round, &round) : WEFT_OK;
}
