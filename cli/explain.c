// SPDX-License-Identifier: MIT
// weft explain: small examples worked out step by step, with the numbers that a kernel keeps.
#include <math.h>
#include <string.h>

#include "cli/cli.h"

static const char help[] =
    "usage: weft explain attention|linear\n"
    "\n"
    "Works a small example step by step and prints what a kernel holds after each.\n"
    "\n"
    "  attention           six keys, one query: running maximum, correction, sum and output\n"
    "  linear              one row of Q4_0 weights by activations rounded to 8 bits, block by\n"
    "                      block\n";

enum { KEYS = 6, DIM = 2, BLOCKS = 4, BLOCK = 32 };

// The largest score so far is m, the sum of exp(score - m) is l, and out is the sum of exp(score - m) v.
// When a larger score comes, what was summed is corrected by exp(old m - new m).
static int explain_attention(const cli_command *self)
{
    static const float scores[KEYS] = {1.0f, 0.5f, 3.0f, 2.0f, -1.0f, 2.5f};
    static const float values[KEYS][DIM] = {{1, 0}, {0, 1}, {2, 1}, {1, 1}, {4, 0}, {0, 3}};
    float m = -INFINITY, l = 0, out[DIM] = {0};
    printf("one query, %d keys; out = sum of softmax(scores) times values\n\n"
           "  %3s %8s %8s %12s %10s %10s %10s %10s\n",
           KEYS, "key", "score", "max", "correction", "weight", "sum", "out[0]", "out[1]");
    for (int t = 0; t < KEYS; t++) {
        float largest = fmaxf(m, scores[t]);
        float correction = expf(m - largest), weight = expf(scores[t] - largest);
        l = l * correction + weight;
        for (int d = 0; d < DIM; d++)
            out[d] = out[d] * correction + weight * values[t][d];
        m = largest;
        printf("  %3d %8.3f %8.3f %12.6f %10.6f %10.6f %10.6f %10.6f\n", t, scores[t], m,
               correction, weight, l, out[0], out[1]);
    }
    printf("\n  out / sum = %.6f %.6f, log of the sum = %.6f\n", out[0] / l, out[1] / l,
           m + logf(l));
    (void)self;
    return CLI_DONE;
}

// What the library makes of a row, held against exact arithmetic.
static int explain_linear(const cli_command *self)
{
    float w[BLOCKS * BLOCK], decoded[BLOCKS * BLOCK], x[BLOCKS * BLOCK];
    unsigned char row[BLOCKS * 18];
    double exact = 0, rounded = 0;
    for (int i = 0; i < BLOCKS * BLOCK; i++) {
        w[i] = sinf(0.37f * (float)i) * (1 + (float)(i / BLOCK));
        x[i] = cosf(0.11f * (float)i);
    }
    if (weft_quantize_row(WEFT_Q4_0, w, BLOCKS * BLOCK, row) != WEFT_OK ||
        weft_dequantize_row(WEFT_Q4_0, row, BLOCKS * BLOCK, decoded) != WEFT_OK)
        return cli_failed(self, "the library has no q4_0");
    printf("one row of %d weights in %d blocks of q4_0 (18 bytes each: a scale and 32 nibbles)\n\n"
           "  %5s %12s %12s %12s %12s %14s\n",
           BLOCKS * BLOCK, BLOCKS, "block", "w scale", "x scale", "integer dot", "block's sum",
           "running sum");
    for (int b = 0; b < BLOCKS; b++) {
        float a = 0, step = 0;
        int64_t dot = 0;
        for (int i = 0; i < BLOCK; i++) {
            a = fmaxf(a, fabsf(x[b * BLOCK + i]));
            exact += (double)w[b * BLOCK + i] * (double)x[b * BLOCK + i];
            float size = fabsf(decoded[b * BLOCK + i]);
            step = size > 0 && (step == 0 || size < step) ? size : step;
        }
        for (int i = 0; i < BLOCK; i++)
            dot += lrintf(decoded[b * BLOCK + i] / step) * lrintf(x[b * BLOCK + i] * 127 / a);
        double part = (double)step * (double)(a / 127) * (double)dot;
        rounded += part;
        printf("  %5d %12.6f %12.6f %12lld %12.6f %14.6f\n", b, (double)step, (double)(a / 127),
               (long long)dot, part, rounded);
    }
    printf("\n  the same with weights and activations as they were: %.6f\n", exact);
    return CLI_DONE;
}

static int explain_main(const cli_command *self, int argc, char **argv)
{
    static const struct option options[] = {{"help", no_argument, NULL, CLI_OPT_HELP}, {0}};
    int option, status;
    while ((option = cli_next_option(self, argc, argv, options, &status)) != CLI_OPTIONS_END)
        if (option == CLI_OPTIONS_BAD)
            return status;
    const char *what = cli_operand(self, argc, argv, "attention or linear");
    if (!what)
        return CLI_USAGE;
    if (strcmp(what, "attention") == 0)
        return explain_attention(self);
    if (strcmp(what, "linear") == 0)
        return explain_linear(self);
    return cli_bad_usage(self, "nothing is known of '%s': attention or linear", what);
}

const cli_command cli_explain = {
    "explain", "attention and linear, worked out step by step", {help}, explain_main};
