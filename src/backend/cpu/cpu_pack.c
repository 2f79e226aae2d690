// SPDX-License-Identifier: MIT
// Packing of weights into panels (src/kernels/linear/linear_packed.h), by all threads.
#include "src/backend/cpu/cpu_device.h"
#include "src/backend/cpu/cpu_experts.h"
#include "src/backend/cpu/cpu_linear.h"
#include "src/base/checked.h"
#include "src/kernels/linear/linear_packed.h"
#include "src/kernels/linear/linear_packed_bf16.h"

struct matrix {
    weft_dtype dtype;
    int64_t rows, cols;
};

// Panels of a matrix, a few at a time.
struct packing {
    struct matrix w;
    const weft_linear_pack_args *args;
    weft__pack_fn *pack;
    int64_t panel_bytes, panels, panels_per_task, first;
};

// NULL: the weights of this part lie as in a file.
static const struct weft__linear_kernel *kernel_of(const weft_plan *plan, int32_t part)
{
    const struct weft__linear_launch *launch = plan->launch;
    if (plan->op == WEFT__OP_experts)
        return weft__cpu_experts_packed(plan, part);
    return plan->op == WEFT__OP_linear ? launch->parts[part].packed : NULL;
}

// The matrix of a part: of experts that of all, one below the other.
static struct matrix matrix_of(const weft_plan *plan, int32_t part)
{
    const weft_linear_desc *linear = plan->desc;
    const weft_experts_desc *experts = plan->desc;
    if (plan->op == WEFT__OP_linear)
        return (struct matrix){linear->parts[part].weight_dtype, linear->parts[part].rows,
                               linear->cols};
    return (struct matrix){experts->parts[part].weight_dtype,
                           experts->parts[part].rows * experts->experts,
                           part == WEFT_EXPERTS_DOWN ? experts->inner : experts->cols};
}

static int64_t panel_bytes(struct matrix w)
{
    return weft__packed_panel_bytes(weft__packed_shape(w.dtype), w.cols);
}

int64_t weft__cpu_packed_bytes(const weft_plan *plan, int32_t part)
{
    const struct weft__linear_kernel *kernel = kernel_of(plan, part);
    if (!kernel)
        return 0;
    const struct matrix w = matrix_of(plan, part);
    struct weft__codes_layout codes;
    int64_t bytes;
    if (kernel->codes)
        return weft__codes_lay_out(w.rows, w.cols, &codes) ? codes.bytes : 0;
    return weft__mul_i64(weft__ceil_div(w.rows, WEFT__PACKED_ROWS), panel_bytes(w), &bytes) ? bytes
                                                                                            : 0;
}

static void pack_task(void *opaque, int32_t index, int32_t thread)
{
    const struct packing *p = opaque;
    int64_t panel = p->first + index * p->panels_per_task, end = panel + p->panels_per_task;
    (void)thread;
    for (; panel < end && panel < p->panels; panel++) {
        int64_t row = panel * WEFT__PACKED_ROWS, left = p->w.rows - row;
        p->pack(p->w.dtype,
                (const unsigned char *)p->args->weight + row * p->args->weight_stride_bytes,
                p->args->weight_stride_bytes, left < WEFT__PACKED_ROWS ? left : WEFT__PACKED_ROWS,
                p->w.cols, (unsigned char *)p->args->packed + panel * p->panel_bytes);
    }
}

weft_status weft__cpu_pack(const weft_plan *plan, const weft_linear_pack_args *args)
{
    enum { TASKS = 64 }; // between two words of progress
    const int64_t task_bytes = 128 << 10;
    const struct matrix w = matrix_of(plan, args->part);
    const struct weft__linear_kernel *kernel = kernel_of(plan, args->part);
    if (kernel->codes)
        return weft__cpu_pack_codes(plan, args, kernel->codes);
    struct packing p = {.w = w, .args = args, .pack = kernel->pack, .panel_bytes = panel_bytes(w)};
    if (args->weight_stride_bytes > INT32_MAX / WEFT__PACKED_ROWS)
        return weft__fail(plan->context, WEFT_EINVAL, "linear: rows of W lie too far apart");
    p.panels = weft__ceil_div(w.rows, WEFT__PACKED_ROWS);
    p.panels_per_task = weft__ceil_div(task_bytes, p.panel_bytes);
    while (p.first < p.panels) {
        int64_t tasks = weft__ceil_div(p.panels - p.first, p.panels_per_task);
        tasks = tasks < TASKS ? tasks : TASKS;
        weft__cpu_parallel_for(plan->context, (int32_t)tasks, pack_task, &p);
        p.first += tasks * p.panels_per_task;
        int64_t done = p.first < p.panels ? p.first : p.panels;
        if (args->progress)
            args->progress(args->user, (size_t)(done * p.panel_bytes),
                           (size_t)(p.panels * p.panel_bytes));
    }
    return WEFT_OK;
}
