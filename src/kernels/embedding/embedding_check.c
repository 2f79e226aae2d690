// SPDX-License-Identifier: MIT
// Holds embedding against weft_dequantize_row(): equal to the bit, scaled by one f32 product.
#include "src/kernels/check.h"
#include "src/kernels/embedding/embedding_kernel.h"

struct problem {
    weft_embedding_desc desc;
    weft_embedding_args args;
};

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
    p.args.y = check_output(c, (p.args.tokens - 1) * p.args.y_stride + p.desc.dim);
    check_note(c, "%s %lldx%lld, %d tokens, scale %g", weft_dtype_name(format),
               (long long)p.desc.rows, (long long)p.desc.dim, p.args.tokens, p.desc.scale);
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
    check_written_rows(c, p.args.y, p.args.tokens, p.desc.dim, p.args.y_stride, "y");
    float scale = p.desc.scale == 0 ? 1 : p.desc.scale;
    const float *y = p.args.y;
    float *want = check_buffer(c, (size_t)p.desc.dim * sizeof *want, sizeof *want);
    for (int32_t token = 0; token < p.args.tokens && !c->failed; token++) {
        const char *row =
            (const char *)p.args.table + p.args.ids[token] * p.args.table_stride_bytes;
        weft_dequantize_row(p.desc.table_dtype, row, p.desc.dim, want);
        for (int64_t i = 0; i < p.desc.dim; i++)
            check_close(c, y[token * p.args.y_stride + i], want[i] * scale, 0, "y",
                        token * p.args.y_stride + i);
    }
}
