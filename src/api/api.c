// SPDX-License-Identifier: MIT
#include "src/api/api.h"

#include <weft/weft.h>

#include "src/base/memory.h"
#include "src/formats/row.h"

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

bool weft__api_answer(void *to, const void *known, uint32_t known_bytes)
{
    uint32_t size = 0;
    if (to)
        memcpy(&size, to, sizeof size);
    if (size < 8 || size > known_bytes)
        return false;
    memcpy((char *)to + sizeof size, (const char *)known + sizeof size, size - sizeof size);
    return true;
}

weft_status weft__api_desc(weft_context *context, enum weft__op op, void *copy, uint32_t copy_bytes,
                           const void *desc, weft_plan *const *out)
{
    if (!context)
        return WEFT_EINVAL;
    const char *name = context->backend->tables[op]->op;
    if (!out)
        return weft__fail(context, WEFT_EINVAL, "%s: no place for the plan: out is NULL", name);
    if (!weft__api_read(copy, copy_bytes, desc))
        return weft__fail(
            context, WEFT_EINVAL,
            "%s: the descriptor is NULL, lacks its size (.size = sizeof desc) or sets "
            "members unknown to this version",
            name);
    return WEFT_OK;
}

weft_status weft__api_most(weft_context *context, enum weft__op op, const char *what, int32_t *most)
{
    if (*most < 0)
        return weft__fail(context, WEFT_EINVAL, "%s: %s=%d is negative",
                          context->backend->tables[op]->op, what, *most);
    *most = *most ? *most : 1;
    return WEFT_OK;
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
                          "%s: args is NULL, lacks its size (.size = sizeof args) or sets members "
                          "unknown to this version",
                          plan->context->backend->tables[op]->op);
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

bool weft__api_is_host(const weft_plan *plan, const void *array)
{
    return plan->context->backend->is_host(plan->context, array);
}

weft_status weft__api_stream(weft_context *context, const weft_stream *stream)
{
    if (!stream || stream->context == context)
        return WEFT_OK;
    return weft__fail(context, WEFT_EINVAL, "the stream was made for another context");
}

weft_status weft__api_count(const weft_plan *plan, const char *what, int32_t count, int32_t most)
{
    if (count >= 0 && count <= most)
        return WEFT_OK;
    return weft__fail(plan->context, WEFT_EINVAL, "%s: %s=%d is outside 0..%d",
                      plan->context->backend->tables[plan->op]->op, what, count, most);
}

bool weft__api_stride(int64_t *stride, int64_t packed, int64_t row, int64_t count)
{
    const int64_t most_elems = INT64_MAX / 16; // two such distances and 4-byte elements
    if (*stride == 0)
        *stride = packed;
    return *stride >= row && *stride <= most_elems / (count > 1 ? count : 1);
}

weft_status weft__api_aligned(const weft_plan *plan, uintptr_t addresses, size_t bytes)
{
    if (addresses % bytes == 0)
        return WEFT_OK;
    return weft__fail(plan->context, WEFT_EINVAL,
                      "%s: a buffer is not aligned to its elements of %zu bytes",
                      plan->context->backend->tables[plan->op]->op, bytes);
}

weft_status weft__api_dtype(weft_context *context, enum weft__op op, const char *what,
                            weft_dtype *dtype)
{
    if (*dtype == WEFT_DTYPE_NONE)
        *dtype = WEFT_F32;
    if (*dtype == WEFT_F32 || *dtype == WEFT_F16 || *dtype == WEFT_BF16)
        return WEFT_OK;
    const char *name = weft_dtype_name(*dtype), *table = context->backend->tables[op]->op;
    if (!name)
        return weft__fail(context, WEFT_EINVAL, "%s: %s %d is no format", table, what, (int)*dtype);
    return weft__fail(context, WEFT_EUNSUPPORTED,
                      "%s: %s %s is no format of activations: use f32, f16 or bf16", table, what,
                      name);
}

weft_status weft__api_tail(weft_context *context, const char *what, const uint64_t *reserved,
                           int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        if (reserved[i])
            return weft__fail(context, WEFT_EINVAL, "%s sets members unknown to this version",
                              what);
    return WEFT_OK;
}

size_t weft__api_alignment(weft_dtype dtype)
{
    return weft__row_alignment(dtype);
}

const char *weft_version(void)
{
#define TEXT_OF(x)  #x
#define VALUE_OF(x) TEXT_OF(x)
    return VALUE_OF(WEFT_VERSION_MAJOR) "." VALUE_OF(WEFT_VERSION_MINOR) "." VALUE_OF(
        WEFT_VERSION_PATCH);
}
