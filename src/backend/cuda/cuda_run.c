// SPDX-License-Identifier: MIT
// Plans and runs of every operation. An operation says what to compile and what to launch
// (src/kernels/cuda/launch.h); this file does it.
#include <stdio.h>
#include <string.h>

#include "src/backend/cuda/cuda_backend.h"
#include "src/backend/cuda/cuda_context.h"
#include "src/plan/plan.h"
#include "src/plan/plan_attention.h"
#include "src/plan/tuning.h"

// Operations that have a CUDA side.
extern const struct weft__cuda_op weft__linear_cuda;
extern const struct weft__cuda_op weft__round_cuda;
extern const struct weft__cuda_op weft__attention_cuda;
extern const struct weft__cuda_op weft__merge_cuda;
extern const struct weft__cuda_op weft__kv_cuda;
extern const struct weft__cuda_op weft__pages_cuda;
extern const struct weft__cuda_op weft__norm_cuda;
extern const struct weft__cuda_op weft__rope_cuda;
extern const struct weft__cuda_op weft__activation_cuda;
extern const struct weft__cuda_op weft__softmax_cuda;
extern const struct weft__cuda_op weft__embedding_cuda;
extern const struct weft__cuda_op weft__sample_cuda;
extern const struct weft__cuda_op weft__probe_cuda;
extern const struct weft__cuda_op weft__route_cuda;
extern const struct weft__cuda_op weft__experts_cuda;

static const struct weft__cuda_op *const ops[WEFT__OP_COUNT] = {
    [WEFT__OP_linear] = &weft__linear_cuda,
    [WEFT__OP_round] = &weft__round_cuda,
    [WEFT__OP_attention] = &weft__attention_cuda,
    [WEFT__OP_merge] = &weft__merge_cuda,
    [WEFT__OP_kv] = &weft__kv_cuda,
    [WEFT__OP_pages] = &weft__pages_cuda,
    [WEFT__OP_norm] = &weft__norm_cuda,
    [WEFT__OP_rope] = &weft__rope_cuda,
    [WEFT__OP_activation] = &weft__activation_cuda,
    [WEFT__OP_softmax] = &weft__softmax_cuda,
    [WEFT__OP_embedding] = &weft__embedding_cuda,
    [WEFT__OP_sample] = &weft__sample_cuda,
    [WEFT__OP_probe] = &weft__probe_cuda,
    [WEFT__OP_route] = &weft__route_cuda,
    [WEFT__OP_experts] = &weft__experts_cuda,
};

const struct weft__cuda_op *weft__cuda_op(enum weft__op op)
{
    static const struct weft__kernel_table tables[WEFT__OP_COUNT] = {
#define OP_TABLE(name) [WEFT__OP_##name] = {.op = #name},
        WEFT__OP_MAP(OP_TABLE)};
    static const struct weft__cuda_op none[WEFT__OP_COUNT] = {
#define OP_NONE(name) [WEFT__OP_##name] = {.table = &tables[WEFT__OP_##name]},
        WEFT__OP_MAP(OP_NONE)};
    return ops[op] ? ops[op] : &none[op];
}

// A plan's launch: the pipelines, and behind them what the operation decided.
struct launch {
    int32_t num_pipelines;
    void *table; // on the device, or NULL
    struct weft__cuda_pipeline *pipelines[WEFT__CUDA_MAX_KERNELS];
    const struct weft__cuda_blas_product *products[WEFT__CUDA_MAX_PRODUCTS];
    struct weft__cuda_offer *offers[WEFT__CUDA_MAX_PRODUCTS]; // in `own`
    int32_t num_products;
    bool needs_products;
    _Alignas(64) unsigned char own[];
};

static weft_status copy_table(weft_context *context, struct launch *launch,
                              const struct weft__cuda_choice *choice)
{
    weft_status status =
        weft__cuda_allocate(context, WEFT_MEMORY_DEVICE, choice->table_bytes, &launch->table);
    if (status == WEFT_OK)
        status = weft__cuda_copy(context, launch->table, choice->table, choice->table_bytes, NULL);
    *choice->table_at = launch->table;
    return status;
}

void weft__cuda_release_plan(weft_plan *plan)
{
    const struct launch *launch = plan->launch;
    if (launch && launch->table)
        weft__cuda_free(plan->context, launch->table);
}

// What the machine's table says of a plan that neither names a kernel nor promises bits.
static void prefer_kernels(const weft_plan *plan, weft_tuning tuned[WEFT_LINEAR_MAX_PARTS],
                           struct weft__cuda_choice *choice)
{
    if (plan->op == WEFT__OP_attention) {
        const weft_attention_desc *const attention = plan->desc;
        tuned[0] = weft__plan_attention_tuning(plan->context, attention, 1);
        choice->attention = attention->variant ? NULL : &tuned[0];
        return;
    }
    const weft_linear_desc *desc = plan->desc;
    if (plan->op != WEFT__OP_linear || !plan->context->tunings || desc->variant ||
        desc->flags & (WEFT_LINEAR_EXACT | WEFT_LINEAR_BATCH_INVARIANT))
        return;
    for (int32_t p = 0; p < desc->num_parts; p++) {
        const weft_tuning problem = {.op = WEFT_TUNING_LINEAR,
                                     .dtype = desc->parts[p].weight_dtype,
                                     .rows = desc->parts[p].rows,
                                     .cols = desc->cols};
        tuned[p] = weft__plan_tuning_choose(plan->context->tunings, &problem);
        choice->tuned[p] = tuned[p].kernel;
    }
}

// Products that a library is to make. Where it cannot, the operation's own kernels serve, unless it was asked
// for by name.
static weft_status want_products(weft_plan *plan, struct launch *launch,
                                 const struct weft__cuda_choice *choice)
{
    struct weft__cuda *cuda = weft__cuda_of(plan->context);
    const size_t at = (choice->workspace_bytes + 255) / 256 * 256;
    plan->workspace_bytes = choice->workspace_bytes;
    launch->num_products = choice->num_products;
    for (int32_t i = 0; i < choice->num_products; i++) {
        const struct weft__cuda_product *wish = &choice->products[i];
        const char *why;
        const struct weft__cuda_blas_product *product = weft__cuda_blas_want(cuda, wish, &why);
        if (!product && wish->needed)
            return weft__fail(plan->context, WEFT_EUNSUPPORTED, "%s", why);
        launch->products[i] = product;
        launch->offers[i] = wish->offer;
        launch->needs_products = wish->needed;
        wish->offer->workspace_at = (int64_t)at;
        wish->offer->apart = product && product->apart;
        atomic_store_explicit(&wish->offer->serves, product != NULL, memory_order_relaxed);
        if (product && at + product->workspace_bytes > plan->workspace_bytes)
            plan->workspace_bytes = at + product->workspace_bytes;
    }
    return WEFT_OK;
}

weft_status weft__cuda_prepare(weft_plan *plan)
{
    weft_context *context = plan->context;
    const struct weft__cuda_op *op = weft__cuda_op(plan->op);
    if (!op->plan)
        return weft__fail(context, WEFT_EUNSUPPORTED, "no %s kernel on cuda", op->table->op);
    size_t bytes = sizeof(struct launch) + op->launch_bytes;
    struct launch *launch = context->allocator.allocate(context->allocator.user, bytes);
    if (!launch)
        return weft__fail(context, WEFT_ENOMEM, "no memory for a plan of %zu bytes", bytes);
    memset(launch, 0, bytes);
    plan->launch = launch;
    struct weft__cuda_choice choice = {.launch = launch->own,
                                       .device = weft__cuda_of(context)->name};
    weft_tuning tuned[WEFT_LINEAR_MAX_PARTS];
    prefer_kernels(plan, tuned, &choice);
    weft_status status = op->plan(plan->desc, &weft__cuda_of(context)->limits, &choice);
    if (status != WEFT_OK)
        return weft__fail(context, status, "%s", choice.text);
    for (int32_t i = 0; i < choice.num_kernels; i++) {
        status = weft__cuda_pipeline_want(context, &choice.kernels[i], &launch->pipelines[i]);
        if (status != WEFT_OK)
            return status;
    }
    launch->num_pipelines = choice.num_kernels;
    if (choice.table) {
        status = copy_table(context, launch, &choice);
        if (status != WEFT_OK)
            return status;
    }
    status = want_products(plan, launch, &choice);
    if (status != WEFT_OK)
        return status;
    plan->narrow = choice.narrow, plan->fuses = choice.fuses;
    plan->info.kernel = choice.row->name;
    char by_library[64] = "";
    for (int32_t i = 0; i < choice.num_products && !*by_library; i++)
        if (launch->products[i])
            weft__cuda_blas_describe(launch->products[i], by_library, sizeof by_library);
    snprintf(plan->description, sizeof plan->description, "%s%s%s: %s", op->table->op, choice.text,
             by_library, choice.row->name);
    return WEFT_OK;
}

// What became of a run's launches: the one that failed last, and why.
struct outcome {
    CUresult result;
    int refused;  // by the library
    int32_t step; // the last one
    bool added;   // a product has added to what it wrote over: the run cannot begin anew
};

static struct outcome launch_steps(const weft_plan *plan, struct weft__cuda_step *steps,
                                   int32_t count, CUstream stream)
{
    struct weft__cuda *cuda = weft__cuda_of(plan->context);
    const struct launch *launch = plan->launch;
    struct outcome at = {CUDA_SUCCESS, 0, 0, false};
    bool entered = weft__cuda_enter(cuda);
    for (int32_t i = 0; i < count && at.result == CUDA_SUCCESS && !at.refused; i++) {
        at.step = i;
        if (!steps[i].product) {
            at.result =
                weft__cuda_launch_step(cuda, launch->pipelines[steps[i].kernel], &steps[i], stream);
            continue;
        }
        const struct weft__cuda_product_call *call = (const void *)steps[i].args;
        at.refused =
            weft__cuda_blas_run(cuda, launch->products[steps[i].product - 1], call, stream);
        at.added = at.added || (!at.refused && call->beta != 0 && call->c == call->y);
    }
    weft__cuda_leave(cuda, entered);
    return at;
}

// The library refused a product of a run that may begin anew: from now on the plan's own kernels serve.
static void stop_products(const weft_plan *plan, int refused)
{
    const struct launch *launch = plan->launch;
    char line[512];
    for (int32_t i = 0; i < launch->num_products; i++)
        atomic_store_explicit(&launch->offers[i]->serves, false, memory_order_relaxed);
    if (!plan->context->log)
        return;
    snprintf(line, sizeof line, "%s: cuBLASLt does not run (%s), other kernels do",
             plan->description, weft__cuda_blas_status(refused));
    plan->context->log(plan->context->log_user, line);
}

weft_status weft__cuda_submit(const weft_plan *plan, const void *args, weft_stream *stream)
{
    return weft__cuda_submit_part(plan, args, 0, WEFT__CUDA_MAX_STEPS, stream);
}

weft_status weft__cuda_submit_part(const weft_plan *plan, const void *args, int32_t first,
                                   int32_t end, weft_stream *stream)
{
    const struct launch *launch = plan->launch;
    struct weft__cuda_step all[WEFT__CUDA_MAX_STEPS], *steps = all + first;
    int32_t count = weft__cuda_steps_of(plan, args, all);
    if (count > 0 && weft__cuda_batch_changes(plan, args))
        all[0].overlap = 0;
    count = (count < end ? count : end) - first;
    for (int32_t i = 0; i < count; i++) {
        weft_status status =
            steps[i].product
                ? WEFT_OK
                : weft__cuda_pipeline_ready(plan->context, launch->pipelines[steps[i].kernel]);
        if (status != WEFT_OK)
            return status;
    }
    const struct outcome at = launch_steps(
        plan, steps, count, weft__cuda_stream_of(weft__cuda_of(plan->context), stream));
    if (at.refused && !at.added && !launch->needs_products) {
        stop_products(plan, at.refused);
        return weft__cuda_submit_part(plan, args, first, end, stream);
    }
    if (at.refused)
        return weft__fail(plan->context, WEFT_EDEVICE, "%s: cuBLASLt does not run: %s",
                          plan->description, weft__cuda_blas_status(at.refused));
    if (at.result != CUDA_SUCCESS)
        return weft__cuda_fail(plan->context, at.result,
                               launch->pipelines[steps[at.step].kernel]->name);
    return WEFT_OK;
}

int32_t weft__cuda_steps_of(const weft_plan *plan, const void *args, struct weft__cuda_step *steps)
{
    const struct launch *launch = plan->launch;
    union weft__cuda_args room;
    const void *resolved = weft__cuda_resolve(plan, args, &room);
    return weft__cuda_op(plan->op)->steps(launch->own, resolved, steps);
}

const struct weft__cuda_kernel *weft__cuda_kernel_of(const weft_plan *plan, int32_t kernel)
{
    return &((const struct launch *)plan->launch)->pipelines[kernel]->kernel;
}

const void *weft__cuda_own_launch(const weft_plan *plan)
{
    return ((const struct launch *)plan->launch)->own;
}

weft_status weft__cuda_pipeline_of(const weft_plan *plan, int32_t kernel,
                                   const struct weft__cuda_pipeline **out)
{
    const struct launch *launch = plan->launch;
    *out = launch->pipelines[kernel];
    return weft__cuda_pipeline_wait(plan->context, launch->pipelines[kernel]);
}
