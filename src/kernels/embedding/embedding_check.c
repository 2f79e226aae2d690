// SPDX-License-Identifier: MIT
// Holds embedding against weft_dequantize_planes(): equal to the bit, scaled by one f32 product.
#include "src/kernels/check.h"
#include "src/kernels/embedding/embedding_kernel.h"

struct problem {
    weft_embedding_desc desc;
    weft_embedding_args args;
    weft_dtype y_dtype;
    float *residual; // a copy in f32; NULL: none
};

// Every third problem has scales, half of those biases.
static void draw_scales(struct check_case *c, struct problem *p)
{
    static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F16, WEFT_BF16};
    if (check_range(c, 0, 2) != 0)
        return;
    int64_t block = weft_dtype_block_elems(p->desc.table_dtype);
    p->desc.scale_dtype = dtypes[check_range(c, 0, 2)];
    p->desc.scale_cols = check_range(c, 0, 1) ? 0 : check_range(c, 1, p->desc.dim + 3);
    p->desc.scale_rows = check_range(c, 0, 1) ? 0 : check_range(c, 1, p->desc.rows + 3);
    int64_t cols = p->desc.scale_cols ? p->desc.scale_cols : block > 1 ? block : p->desc.dim;
    int64_t rows = p->desc.scale_rows ? p->desc.scale_rows : 1;
    int64_t row = (p->desc.dim - 1) / cols + 1, count = (p->desc.rows - 1) / rows + 1;
    p->args.scale_stride = row + check_range(c, 0, 3);
    size_t bytes = (size_t)weft_dtype_block_bytes(p->desc.scale_dtype);
    for (int plane = 0; plane < 1 + check_range(c, 0, 1); plane++) {
        int64_t elements = (count - 1) * p->args.scale_stride + row;
        void *scales = check_buffer(c, (size_t)elements * bytes, bytes);
        check_fill_blocks(c, p->desc.scale_dtype, scales, elements);
        *(plane ? &p->args.biases : &p->args.scales) = scales;
    }
}

// One row as the check has it: through weft_dequantize_planes, scale by scale.
static void decode_row(const struct problem *p, int32_t id, float *want)
{
    const char *row = (const char *)p->args.table + id * p->args.table_stride_bytes;
    int64_t block = weft_dtype_block_elems(p->desc.table_dtype);
    int64_t cols = p->desc.scale_cols ? p->desc.scale_cols : block > 1 ? block : p->desc.dim;
    int64_t at = id / (p->desc.scale_rows ? p->desc.scale_rows : 1) * p->args.scale_stride *
                 weft_dtype_block_bytes(p->desc.scale_dtype);
    weft_row_planes planes = {.size = sizeof planes,
                              .dtype = p->desc.table_dtype,
                              .data = row,
                              .scale_dtype = p->desc.scale_dtype,
                              .scale_elems = cols};
    if (p->args.scales)
        planes.scales = (const char *)p->args.scales + at;
    if (p->args.biases)
        planes.biases = (const char *)p->args.biases + at;
    weft_dequantize_planes(&planes, p->desc.dim, want);
}

// Every fourth problem adds to what is there, half of those in its place.
static void draw_residual(struct check_case *c, struct problem *p, int64_t elems)
{
    if (check_range(c, 0, 3) != 0 || p->y_dtype != WEFT_F32)
        return;
    float *residual = check_range(c, 0, 1)
                          ? p->args.y
                          : check_buffer(c, (size_t)elems * sizeof *residual, sizeof *residual);
    p->residual = check_buffer(c, (size_t)elems * sizeof *residual, sizeof *residual);
    for (int64_t i = 0; i < elems; i++) {
        float value = (float)check_range(c, -1000, 1000) / 64;
        bool inside = i % p->args.y_stride < p->desc.dim;
        p->residual[i] = value;
        if (inside)
            residual[i] = value;
    }
    p->args.residual = residual;
}

static struct problem draw(struct check_case *c)
{
    struct problem p = {.desc = {.size = sizeof p.desc, .variant = c->kernel->name},
                        .args = {.size = sizeof p.args}};
    weft_dtype format = ((const struct weft__embedding_kernel *)c->kernel)->format;
    int64_t block = weft_dtype_block_elems(format);
    p.desc.table_dtype = format;
    p.desc.rows = check_length(c, 60, 8);
    p.desc.dim = block == 1 ? check_length(c, 1500, 32) : block * check_length(c, 1500 / block, 4);
    p.desc.scale = (float)check_pick(c, 3, 0, 1, -7) * 1.1f;
    p.desc.max_tokens = p.args.tokens = (int32_t)check_range(c, 1, 50);
    p.args.y_stride = p.desc.dim + check_range(c, 0, 5);
    int64_t row_bytes = weft_dtype_row_bytes(format, p.desc.dim);
    p.args.table_stride_bytes = row_bytes + 4 * check_range(c, 0, 3);
    char *table = check_buffer(
        c, (size_t)((p.desc.rows - 1) * p.args.table_stride_bytes + row_bytes), block == 1 ? 4 : 2);
    for (int64_t i = 0; i < p.desc.rows; i++)
        check_fill_blocks(c, format, table + i * p.args.table_stride_bytes, p.desc.dim);
    int32_t *ids = check_buffer(c, (size_t)p.args.tokens * sizeof *ids, sizeof *ids);
    for (int32_t i = 0; i < p.args.tokens; i++)
        ids[i] = (int32_t)check_range(c, 0, p.desc.rows - 1);
    ids[0] = (int32_t)p.desc.rows - 1; // the row before the guard page
    p.args.table = table;
    p.args.ids = ids;
    int64_t elems = (p.args.tokens - 1) * p.args.y_stride + p.desc.dim;
    p.y_dtype = c->kernel->level < WEFT__ISA_COUNT ? check_dtype(c) : WEFT_F32;
    p.desc.y_dtype = p.y_dtype;
    p.args.y = p.y_dtype == WEFT_F32 ? (void *)check_output(c, elems)
                                     : check_buffer(c, (size_t)elems * 2, 2);
    draw_scales(c, &p);
    draw_residual(c, &p, elems);
    check_note(c,
               "%s %lldx%lld, %d tokens, scale %g, scales %d per %lldx%lld biases %d, residual %d",
               weft_dtype_name(format), (long long)p.desc.rows, (long long)p.desc.dim,
               p.args.tokens, p.desc.scale, p.args.scales != NULL, (long long)p.desc.scale_rows,
               (long long)p.desc.scale_cols, p.args.biases != NULL,
               p.residual ? 1 + (p.args.residual == p.args.y) : 0);
    return p;
}

check_fn weft__embedding_check;
void weft__embedding_check(struct check_case *c)
{
    weft_plan *plan = NULL;
    if (c->format && c->format != ((const struct weft__embedding_kernel *)c->kernel)->format) {
        check_skip(c);
        return;
    }
    struct problem p = draw(c);
    if (check_ok(c, weft_embedding_plan(check_context(c, p.desc.variant), &p.desc, &plan), "plan"))
        check_ok(c, weft_embedding_run(plan, &p.args), "run");
    weft_plan_destroy(plan);
    if (p.y_dtype == WEFT_F32)
        check_written_rows(c, p.args.y, p.args.tokens, p.desc.dim, p.args.y_stride, "y");
    float scale = p.desc.scale == 0 ? 1 : p.desc.scale;
    const float *y =
        check_widen(c, p.y_dtype, p.args.y, (p.args.tokens - 1) * p.args.y_stride + p.desc.dim);
    float *want = check_buffer(c, (size_t)p.desc.dim * sizeof *want, sizeof *want);
    for (int32_t token = 0; token < p.args.tokens && !c->failed; token++) {
        decode_row(&p, p.args.ids[token], want);
        for (int64_t i = 0; i < p.desc.dim; i++)
            check_close_as(c, p.y_dtype, y[token * p.args.y_stride + i],
                           want[i] * scale +
                               (p.residual ? p.residual[token * p.args.y_stride + i] : 0),
                           0, "y", token * p.args.y_stride + i);
    }
}
