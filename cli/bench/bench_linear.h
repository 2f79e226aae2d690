// SPDX-License-Identifier: MIT
// A problem of weft bench linear: what is asked for, and the memory that one row of the result is measured on.
#ifndef WEFT_CLI_BENCH_LINEAR_H
#define WEFT_CLI_BENCH_LINEAR_H

#include "cli/bench/bench.h"

typedef struct linear_request {
    bench run;
    bench_formats formats;
    bench_list batches;
    int32_t rows, cols;
    bool exact, ablate, gate, in_place;
} linear_request;

// Columns of ways to do one problem, held beside one another: the arguments are what tells them apart.
#define LINEAR_RACE_COLUMNS(...)                                                                   \
    {"format", "format", -8, 0, 0}, {"rows", "rows", 6, 0, 0}, {"cols", "cols", 6, 0, 0},          \
        {"batch", "batch", 5, 0, 0}, __VA_ARGS__, {"us_median", "us median", 10, 1, 0},            \
        {"slower", "slower", 7, 3, 0}, {"gbps", "GB/s", 7, 1, 0}, {"gflops", "GFLOP/s", 8, 1, 0},  \
        {"roof_fraction", "% roof", 6, 1, 100},                                                    \
    {                                                                                              \
        0                                                                                          \
    }

// One row of the result.
typedef struct linear_problem {
    linear_request *wish;
    weft_dtype format;
    const char *weights; // as a file has them
    int32_t batch, copies;
    int64_t weight_bytes, stride_bytes, slack; // slack: bytes of memory behind a copy
    int64_t read_bytes;                        // of the weights, in a run
    bool scaled;         // MLX on a GPU: scales of 16 bits beside the codes, all of them 1
    double pack_seconds; // of W once, the shortest of a few
    weft_plan *plan;
    weft_linear_args args;
} linear_problem;

// W on the host, as a file has it: some rows of real values, repeated. NULL with a message.
char *linear_make_weights(const linear_request *wish, weft_dtype format);

// The plan, copies of W as the plan's device reads them, activations. False with a message.
bool linear_make_ready(linear_problem *p);

// A bench_body of a linear_problem, on the copy whose turn it is.
bool linear_run_once(void *problem);

void linear_drop(linear_problem *p);

// The kernel that the runs of the problem use.
bench_kernel linear_kernel_of(const linear_problem *p);

// What a kernel multiplies.
bench_products linear_products(const bench_kernel *kernel, weft_dtype format);

// Measures the problem as it is done best and without one choice after another, side by side, and prints them.
// False with a message.
bool linear_ablate(linear_request *wish, const char *weights, weft_dtype format, int32_t batch);

// Measures an MLP whose down-projection the problem is, with its function applied in three places, side by side, and
// prints them. False with a message.
bool linear_gate(linear_request *wish, const char *weights, weft_dtype format, int32_t batch);

#endif
