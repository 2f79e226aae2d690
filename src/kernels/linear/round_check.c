// SPDX-License-Identifier: MIT
// Holds the functions that round activations against the reference: the whole buffer, to the bit. A device has
// rows of its own (linear_device.h): these are made here, from the formula alone.
#include <math.h>
#include <string.h>

#include "src/kernels/check.h"
#include "src/kernels/linear/linear_device.h"
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

// Group `unit` of a device's row, from its 32 numbers.
static void round_group(unsigned char *row, int64_t cols, int64_t unit, const float *x)
{
    float largest = 0;
    int16_t sums[2] = {0, 0};
    unsigned char *meta = row + (cols + 63) / 64 * 64 + unit * 8;
    for (int i = 0; i < 32; i++)
        largest = isnan(x[i]) || isnan(largest) ? NAN : fmaxf(largest, fabsf(x[i]));
    for (int i = 0; i < 32; i++) {
        bool zero = !isfinite(largest) || largest < 0x1p-120f;
        int q = zero ? 0 : (int)nearbyintf(x[i] * (127 / largest));
        int64_t at = unit / 2 * 64 + i % 16 / 4 * 16 + unit % 2 * 8 + i / 16 * 4 + i % 4;
        row[at] = (unsigned char)q;
        sums[i / 16] = (int16_t)(sums[i / 16] + q);
    }
    float scale = largest / 127;
    memcpy(meta, &scale, sizeof scale);
    memcpy(meta + 4, sums, sizeof sums);
}

// All but the sums of squares, whose order of addition is the device's. NaNs of scales are of any kind.
static void check_device(struct check_case *c, const float *x, int64_t stride, int64_t cols,
                         int32_t rows, const unsigned char *got)
{
    const int64_t bytes = weft__linear_rounded_stride(cols), padded = (cols + 63) / 64 * 64;
    unsigned char *want = check_buffer(c, (size_t)bytes, 64);
    for (int32_t m = 0; m < rows; m++, got += bytes) {
        const float *squares = (const float *)(const void *)(got + padded / 64 * 80);
        for (int64_t unit = 0; unit * 32 < padded; unit++) {
            float group[32] = {0};
            double square = 0;
            if (unit * 32 < cols)
                memcpy(group, x + m * stride + unit * 32, sizeof group);
            for (int i = 0; i < 32; i++)
                square += (double)group[i] * group[i];
            round_group(want, cols, unit, group);
            if (square < 1e38 && fabs(squares[unit] - square) > 1e-5 * square + 1e-37)
                check_fail(c, "row %d: squares of group %lld are %g, reference %g", m,
                           (long long)unit, squares[unit], square);
        }
        for (int64_t i = 0; i < padded / 64 * 80; i++) {
            float have, need;
            int64_t scale = i >= padded ? padded + (i - padded) / 8 * 8 : 0;
            memcpy(&have, got + scale, sizeof have);
            memcpy(&need, want + scale, sizeof need);
            bool nans = scale && i < scale + 4 && isnan(have) && isnan(need);
            if (got[i] != want[i] && !nans)
                check_fail(c, "row %d: byte %lld is %d, reference %d", m, (long long)i, got[i],
                           want[i]);
        }
    }
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
    if (c->reference) {
        check_device(c, x, args.x_stride, desc.cols, args.rows, got);
        return;
    }
    const unsigned char *want = run(c, desc, args, "round_ref", bytes);
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != want[i])
            check_fail(c, "byte %zu of %zu a row is %d, reference %d",
                       i % (bytes / (size_t)args.rows), bytes / (size_t)args.rows, got[i], want[i]);
}
