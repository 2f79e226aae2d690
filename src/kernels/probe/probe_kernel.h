// SPDX-License-Identifier: MIT
// The contract of probe kernels: one thread's share of a run whose arguments have been checked.
//   read     bytes [begin, end) of memory, whole units of 4 KiB; returns the sum of their 64-bit words
//   others   steps [begin, end) of every chain; returns the multiply-adds that the chains counted
#ifndef WEFT_KERNELS_PROBE_KERNEL_H
#define WEFT_KERNELS_PROBE_KERNEL_H

#include <weft/probe.h>

#include "src/kernels/kernel.h"

typedef uint64_t weft__probe_fn(const weft_probe_args *args, int64_t begin, int64_t end);

struct weft__probe_kernel {
    struct weft__kernel base;
    weft_probe_kind kind;
    weft__probe_fn *run;
};

// What the submit of a probe is given: a probe has no plan that is kept, its arguments are the descriptor
// of one that lasts for the call.
struct weft__probe_run {
    weft_probe_result *out;
};

// Numbers that the compiler cannot know, so that it computes with them when asked to. Every chain reads
// its start anew: chains that are known to be equal would be computed once.
extern const volatile float weft__probe_half, weft__probe_one;
extern const volatile int8_t weft__probe_zero, weft__probe_unit;

// bf16, from the lower address: 1, 1 and 1, -1. Their product leaves a chain of f32 where it is.
extern const volatile uint32_t weft__probe_pair, weft__probe_opposite;

#endif
