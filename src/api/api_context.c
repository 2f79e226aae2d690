// SPDX-License-Identifier: MIT
#include <stdarg.h>
#include <stdio.h>

#include <weft/weft.h>

#include "src/api/api.h"
#include "src/base/memory.h"

enum { MAX_THREADS = 1024 };

// Why the last weft_context_create() of this thread failed: there is no context to keep it.
static _Thread_local char creation_error[512];

weft_status weft__api_fail(weft_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(creation_error, sizeof creation_error, format, arguments);
    va_end(arguments);
    return status;
}

static weft_status check_desc(const weft_context_desc *desc)
{
    if (desc->threads < 0 || desc->threads > MAX_THREADS)
        return weft__api_fail(WEFT_EINVAL, "threads must be 0 (one per core) to %d", MAX_THREADS);
    const weft_executor *executor = desc->executor;
    if (executor &&
        (!executor->parallel_for || executor->threads < 1 || executor->threads > MAX_THREADS))
        return weft__api_fail(WEFT_EINVAL, "an executor needs parallel_for and 1 to %d threads",
                              MAX_THREADS);
    if (desc->device_index < 0)
        return weft__api_fail(WEFT_EINVAL, "device_index=%d is negative", desc->device_index);
    if (desc->allocator && (!desc->allocator->allocate || !desc->allocator->release))
        return weft__api_fail(WEFT_EINVAL, "an allocator needs both allocate and release");
    if ((executor && (executor->reserved[0] || executor->reserved[1])) ||
        (desc->allocator && (desc->allocator->reserved[0] || desc->allocator->reserved[1])))
        return weft__api_fail(WEFT_EINVAL,
                              "executor or allocator sets members unknown to this version");
    return WEFT_OK;
}

weft_status weft__api_backend(weft_device device, const struct weft__backend **out)
{
    if (device == WEFT_DEVICE_CPU) {
        *out = &weft__backend_cpu;
        return WEFT_OK;
    }
    if (device != WEFT_DEVICE_CUDA)
        return weft__api_fail(WEFT_EINVAL, "no such device: %d", (int)device);
    const char *why = "";
    *out = weft__backend_cuda(&why);
    return *out ? WEFT_OK : weft__api_fail(WEFT_EUNSUPPORTED, "%s", why);
}

static void *counted_allocate(void *user, size_t bytes)
{
    weft_context *context = user;
    atomic_fetch_add_explicit(&context->allocations, 1, memory_order_relaxed);
    return context->host.allocate(context->host.user, bytes);
}

static void counted_release(void *user, void *memory)
{
    weft_context *context = user;
    context->host.release(context->host.user, memory);
}

static void log_choice(const weft_context *context)
{
    char line[160];
    if (!context->log)
        return;
    snprintf(line, sizeof line, "weft %s: %s, %s, %d threads", weft_version(),
             context->backend->name, weft_context_isa(context), weft_context_threads(context));
    context->log(context->log_user, line);
}

weft_status weft_context_create(const weft_context_desc *user_desc, weft_context **out)
{
    static const weft_allocator c_library = {.allocate = weft__base_allocate,
                                             .release = weft__base_release};
    weft_context_desc desc = {0};
    const struct weft__backend *backend;

    if (!out)
        return weft__api_fail(WEFT_EINVAL, "context: out is NULL");
    if (user_desc && !weft__api_read(&desc, WEFT__KNOWN(&desc), user_desc))
        return weft__api_fail(WEFT_EINVAL, "context: the descriptor lacks its size (.size = sizeof "
                                           "desc) or sets members unknown to this version");
    WEFT__TRY(check_desc(&desc));
    WEFT__TRY(weft__api_backend(desc.device, &backend));

    if (desc.device_index >= backend->count())
        return weft__api_fail(WEFT_EINVAL, "there is no %s device %d: this machine has %d",
                              backend->name, desc.device_index, backend->count());

    weft_allocator allocator = desc.allocator ? *desc.allocator : c_library;
    weft_context *context = allocator.allocate(allocator.user, sizeof *context);
    if (!context)
        return weft__api_fail(WEFT_ENOMEM, "no memory for a context");
    memset(context, 0, sizeof *context);
    atomic_flag_clear(&context->error_lock);
    context->backend = backend;
    context->host = allocator;
    context->allocator =
        (weft_allocator){.user = context, .allocate = counted_allocate, .release = counted_release};
    context->log = desc.log;
    context->log_user = desc.log_user;
    weft_status status = backend->open(context, &desc);
    if (status != WEFT_OK) {
        weft__api_fail(status, "%s", context->error);
        weft_context_destroy(context);
        return status;
    }
    weft__api_tuning_open(context, desc.tuning);
    log_choice(context);
    *out = context;
    return WEFT_OK;
}

void weft_context_destroy(weft_context *context)
{
    if (!context)
        return;
    context->backend->close(context);
    if (context->tunings)
        context->host.release(context->host.user, context->tunings);
    context->host.release(context->host.user, context);
}

const char *weft_error_text(const weft_context *context)
{
    return context ? context->error : creation_error;
}

const char *weft_context_isa(const weft_context *context)
{
    return context ? context->backend->level(context) : "";
}

int32_t weft_context_threads(const weft_context *context)
{
    return context ? context->backend->threads(context) : 0;
}

weft_status weft_context_count(const weft_context *context, weft_counters *counters)
{
    if (!context)
        return WEFT_EINVAL;
    const weft_counters known = {.runs = atomic_load(&context->runs),
                                 .allocations = atomic_load(&context->allocations)};
    return weft__api_answer(counters, &known, sizeof known) ? WEFT_OK : WEFT_EINVAL;
}

weft_status weft_plan_query(const weft_plan *plan, weft_plan_info *info)
{
    if (!plan)
        return WEFT_EINVAL;
    weft_plan_info known = plan->info;
    known.workspace_bytes = (int64_t)plan->workspace_bytes;
    if (!weft__api_answer(info, &known, sizeof known))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "info is NULL or lacks its size (.size = sizeof info)");
    return WEFT_OK;
}

size_t weft_plan_workspace_bytes(const weft_plan *plan)
{
    return plan ? plan->workspace_bytes : 0;
}

const char *weft_plan_describe(const weft_plan *plan)
{
    return plan ? plan->description : "";
}

void weft_plan_destroy(weft_plan *plan)
{
    if (!plan)
        return;
    const weft_allocator *allocator = &plan->context->allocator;
    weft_plan_destroy(plan->append);
    weft_plan_destroy(plan->round);
    if (plan->context->backend->release_plan)
        plan->context->backend->release_plan(plan);
    if (plan->launch)
        allocator->release(allocator->user, plan->launch);
    allocator->release(allocator->user, plan);
}

bool weft_kernel_at(const weft_context *context, int32_t n, weft_kernel_info *out)
{
    if (!context || !out || n < 0)
        return false;
    for (int op = 0; op < WEFT__OP_COUNT; op++) {
        const struct weft__kernel_table *table = context->backend->tables[op];
        if (n >= table->count) {
            n -= table->count;
            continue;
        }
        const struct weft__kernel *row =
            (const void *)((const char *)table->rows + (size_t)n * (size_t)table->row_bytes);
        *out = (weft_kernel_info){.op = row->op,
                                  .name = row->name,
                                  .isa = context->backend->level_name(row->level),
                                  .backend = context->backend->name,
                                  .usable = context->backend->fits(context, row)};
        return true;
    }
    return false;
}

bool weft_instance_at(weft_context *context, int32_t n, weft_instance_info *out)
{
    weft_instance_info known = {0};
    if (!context || n < 0 || !context->backend->instance_at ||
        !context->backend->instance_at(context, n, &known))
        return false;
    return weft__api_answer(out, &known, sizeof known);
}

weft_status weft_prewarm(weft_context *context, weft_progress_fn *progress, void *user)
{
    if (!context)
        return WEFT_EINVAL;
    return context->backend->prewarm ? context->backend->prewarm(context, progress, user) : WEFT_OK;
}
