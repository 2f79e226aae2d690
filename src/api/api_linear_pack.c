// SPDX-License-Identifier: MIT
// Packing: by copies, where the device reads weights as a file has them, else by the backend.
#include <weft/experts.h>
#include <weft/linear.h>

#include "src/api/api.h"
#include "src/base/checked.h"
#include "src/kernels/element.h"
#include "src/plan/plan_linear.h"

int64_t weft__api_packed_by_device(const weft_plan *plan, int32_t part)
{
    const struct weft__backend *backend = plan->context->backend;
    return backend->packed_bytes ? backend->packed_bytes(plan, part) : 0;
}

size_t weft_linear_packed_bytes(const weft_plan *plan, int32_t part)
{
    struct weft__linear_packed packed;
    if (!plan || plan->op != WEFT__OP_linear)
        return 0;
    const weft_linear_desc *desc = plan->desc;
    if (part < 0 || part >= desc->num_parts ||
        !weft__plan_linear_packed(&desc->parts[part], desc->cols, &packed))
        return 0;
    int64_t own = weft__api_packed_by_device(plan, part);
    return (size_t)(own ? own : packed.bytes);
}

const char *weft_linear_packed_layout(const weft_plan *plan, int32_t part)
{
    const bool experts =
        plan && plan->op == WEFT__OP_experts && part >= 0 && part < WEFT_EXPERTS_PARTS;
    return (experts || weft_linear_packed_bytes(plan, part)) &&
                   weft__api_packed_by_device(plan, part)
               ? plan->context->backend->layout
               : NULL;
}

// A packing under way.
struct packing {
    const weft_plan *plan;
    const weft_linear_pack_args *args;
    size_t done, total;
    weft_status status;
};

static void copy(struct packing *p, int64_t to, const void *from, size_t bytes)
{
    weft_context *context = p->plan->context;
    if (p->status == WEFT_OK)
        p->status = context->backend->copy(context, (char *)p->args->packed + to, from, bytes,
                                           p->args->stream);
    p->done += bytes;
}

// Rows `stride` apart, close together from `to` on, a few MB between two words of progress.
static void copy_rows(struct packing *p, int64_t to, const void *from, int64_t rows,
                      int64_t row_bytes, int64_t stride)
{
    const int64_t piece_bytes = 8 << 20;
    int64_t most = row_bytes < piece_bytes ? piece_bytes / row_bytes : 1;
    for (int64_t row = 0; row < rows && p->status == WEFT_OK; row += most) {
        int64_t count = rows - row < most ? rows - row : most;
        const char *start = (const char *)from + row * stride;
        if (stride == row_bytes)
            copy(p, to + row * row_bytes, start, (size_t)(count * row_bytes));
        else
            for (int64_t i = 0; i < count; i++)
                copy(p, to + (row + i) * row_bytes, start + i * stride, (size_t)row_bytes);
        if (p->args->progress)
            p->args->progress(p->args->user, p->done, p->total);
    }
}

// A plane of scales or biases; without one, rows of the number that stands for none.
static void copy_plane(struct packing *p, const weft_linear_part *part,
                       const struct weft__linear_packed *packed, int64_t to, const void *from,
                       float none)
{
    enum { PIECE = 256 };
    int64_t size = part->scale_dtype == WEFT_F32 ? 4 : 2;
    int64_t rows = weft__ceil_div(part->rows, part->scale_rows);
    if (from) {
        copy_rows(p, to, from, rows, packed->scale_row * size, p->args->scale_stride * size);
        return;
    }
    float same[PIECE];
    for (int i = 0; i < PIECE; i++)
        weft__element_store(same, part->scale_dtype, i, none);
    int64_t left = rows * packed->scale_row;
    for (; left > 0 && p->status == WEFT_OK; left -= PIECE, to += PIECE * size)
        copy(p, to, same, (size_t)((left < PIECE ? left : PIECE) * size));
}

static weft_status settle(const weft_plan *plan, weft_linear_pack_args *args,
                          struct weft__linear_packed *packed)
{
    const weft_linear_desc *desc = plan->desc;
    if (args->part < 0 || args->part >= desc->num_parts)
        return weft__fail(plan->context, WEFT_EINVAL, "linear: the plan has no part %d",
                          args->part);
    const weft_linear_part *part = &desc->parts[args->part];
    bool planes = weft__plan_linear_planes(part);
    if (!weft__plan_linear_packed(part, desc->cols, packed))
        return weft__fail(plan->context, WEFT_EOVERFLOW, "linear: the bytes of W do not fit");
    if (!args->weight || !args->packed)
        return weft__fail(plan->context, WEFT_EINVAL, "linear: weight and packed must not be NULL");
    if ((args->scales || args->biases) && !planes)
        return weft__fail(plan->context, WEFT_EINVAL,
                          "linear: scales or biases for a part that has none (scale_cols)");
    if (!weft__api_stride(&args->weight_stride_bytes, packed->row_bytes, packed->row_bytes,
                          part->rows) ||
        (planes && !weft__api_stride(&args->scale_stride, packed->scale_row, packed->scale_row,
                                     weft__ceil_div(part->rows, part->scale_rows))))
        return weft__fail(plan->context, WEFT_EINVAL,
                          "linear: a stride is shorter than its row, or too long");
    WEFT__TRY(weft__api_stream(plan->context, args->stream));
    return weft__api_aligned(plan, (uintptr_t)args->packed, 64);
}

weft_status weft_linear_pack(const weft_plan *plan, const weft_linear_pack_args *user_args)
{
    weft_linear_pack_args args;
    struct weft__linear_packed packed;
    WEFT__TRY(weft__api_open(plan, WEFT__OP_linear, &args, WEFT__KNOWN(&args), user_args));
    WEFT__TRY(settle(plan, &args, &packed));
    const weft_linear_desc *desc = plan->desc;
    const weft_linear_part *part = &desc->parts[args.part];
    if (weft__api_packed_by_device(plan, args.part))
        return plan->context->backend->pack(plan, &args);
    struct packing p = {plan, &args, 0, (size_t)packed.bytes, WEFT_OK};
    copy_rows(&p, 0, args.weight, part->rows, packed.row_bytes, args.weight_stride_bytes);
    if (weft__plan_linear_planes(part)) {
        copy_plane(&p, part, &packed, packed.scales, args.scales, 1);
        copy_plane(&p, part, &packed, packed.biases, args.biases, 0);
    }
    if (args.progress && p.status == WEFT_OK)
        args.progress(args.user, p.total, p.total);
    return p.status;
}
