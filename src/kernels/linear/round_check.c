// SPDX-License-Identifier: MIT
// Holds the functions that round activations against the reference: the whole buffer, to the bit.
#include <math.h>
#include <string.h>

#include "src/kernels/check.h"
#include "src/kernels/linear/linear_kernel.h"

static const unsigned char *run(struct check_case *c, weft_round_desc desc, weft_round_args args,
                                const char *variant, size_t bytes)
{
    weft_plan *plan = NULL;
    desc.variant = variant;
    args.rounded = check_buffer(c, bytes, 64);
    memset(args.rounded, 0x5a, bytes);
    if (check_ok(c, weft_round_plan(c->context, &desc, &plan), "plan"))
        check_ok(c, weft_round_run(plan, &args), "run");
    weft_plan_destroy(plan);
    return args.rounded;
}

check_fn weft__round_check;
void weft__round_check(struct check_case *c)
{
    weft_round_desc desc = {.size = sizeof desc};
    weft_round_args args = {.size = sizeof args};
    desc.cols = 32 * check_length(c, 60, 4);
    desc.flags = check_range(c, 0, 1) ? WEFT_LINEAR_BATCH_INVARIANT : 0;
    args.rows = (int32_t)check_length(c, 20, 8);
    desc.max_rows = args.rows + (int32_t)check_range(c, 0, 2);
    args.x_stride = desc.cols + check_range(c, 0, 5);
    float *x = check_buffer(c, (size_t)((args.rows - 1) * args.x_stride + desc.cols) * sizeof *x,
                            sizeof *x);
    for (int64_t m = 0; m < args.rows; m++) {
        check_fill(c, x + m * args.x_stride, desc.cols);
        if (check_range(c, 0, 3) == 0)
            x[m * args.x_stride + check_range(c, 0, desc.cols - 1)] =
                check_range(c, 0, 1) ? NAN : INFINITY;
        // Halves between two steps.
        for (int64_t i = 0; m % 3 == 2 && i < desc.cols; i++)
            x[m * args.x_stride + i] = i % 32 ? (float)check_range(c, -253, 253) / 2 : 127;
    }
    args.x = x;
    check_note(c, "rows %d cols %lld x+%lld flags %u", args.rows, (long long)desc.cols,
               (long long)(args.x_stride - desc.cols), desc.flags);
    size_t bytes = weft_rounded_bytes(c->context, args.rows, desc.cols);
    const unsigned char *got = run(c, desc, args, c->kernel->name, bytes);
    const unsigned char *want = run(c, desc, args, "round_ref", bytes);
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != want[i])
            check_fail(c, "byte %zu of %zu a row is %d, reference %d",
                       i % (bytes / (size_t)args.rows), bytes / (size_t)args.rows, got[i], want[i]);
}
