// SPDX-License-Identifier: MIT
#include "src/api/api.h"

#include "src/base/memory.h"

bool weft__api_read(void *to, uint32_t to_bytes, const void *from)
{
    uint32_t size;
    if (!from)
        return false;
    memcpy(&size, from, sizeof size);
    if (size < 8 || size > 65536)
        return false;
    for (uint32_t i = to_bytes; i < size; i++)
        if (((const unsigned char *)from)[i])
            return false;
    memset(to, 0, to_bytes);
    memcpy(to, from, size < to_bytes ? size : to_bytes);
    return true;
}

weft_status weft__api_open(const weft_plan *plan, enum weft__op op, void *copy, uint32_t copy_bytes,
                           const void *args)
{
    if (!plan)
        return WEFT_EINVAL;
    if (plan->op != op)
        return weft__fail(plan->context, WEFT_EINVAL, "the plan is one of another operation (%s)",
                          plan->context->backend->tables[plan->op]->op);
    if (!weft__api_read(copy, copy_bytes, args))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "args is NULL, has no size, or sets members this version does not know");
    return WEFT_OK;
}

weft_status weft__api_workspace(const weft_plan *plan, const void *workspace, size_t bytes)
{
    if (plan->workspace_bytes == 0)
        return WEFT_OK;
    if (!workspace || bytes < plan->workspace_bytes)
        return weft__fail(plan->context, WEFT_EWORKSPACE,
                          "the plan needs %zu bytes of workspace, the run has %zu",
                          plan->workspace_bytes, workspace ? bytes : 0);
    if ((uintptr_t)workspace % WEFT__ALIGN != 0)
        return weft__fail(plan->context, WEFT_EWORKSPACE,
                          "the workspace is not aligned to %d bytes", WEFT__ALIGN);
    return WEFT_OK;
}

weft_status weft__api_plan(weft_context *context, enum weft__op op, size_t launch_bytes,
                           weft__plan_fn *make, const void *desc, weft_plan **out)
{
    weft_plan *plan;
    WEFT__TRY(weft__plan_create(context, op, launch_bytes, &plan));
    weft_status status = make(plan, desc);
    if (status != WEFT_OK) {
        weft_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return WEFT_OK;
}

weft_status weft__api_count(const weft_plan *plan, const char *what, int32_t count, int32_t most)
{
    if (count >= 0 && count <= most)
        return WEFT_OK;
    return weft__fail(plan->context, WEFT_EINVAL, "%s: %s=%d is outside 0..%d",
                      plan->context->backend->tables[plan->op]->op, what, count, most);
}

bool weft__api_stride(int64_t *stride, int64_t packed)
{
    if (*stride == 0)
        *stride = packed;
    return *stride >= packed;
}
