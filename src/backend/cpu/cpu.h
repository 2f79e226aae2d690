// SPDX-License-Identifier: MIT
// The CPU: which instruction sets it has, and its threads.
#ifndef WEFT_BACKEND_CPU_H
#define WEFT_BACKEND_CPU_H

#include "src/backend/context.h"
#include "src/backend/cpu/cpu_pool.h"
#include "src/plan/plan.h"

// What a context of the CPU keeps behind context->device.
struct weft__cpu {
    uint32_t isa_mask; // a bit for every enum weft__isa that may be used
    bool asks_far;  // weights of few rows of X come faster when kernels ask for them some KB ahead
    bool asks_near; // and these are two, in two streams of rows where they lie as in a file
    int32_t threads;
    weft_executor executor;
    struct weft__cpu_pool *pool; // behind the executor, NULL if it is a host's
};

static inline const struct weft__cpu *weft__cpu_of(const weft_context *context)
{
    return context->device;
}

// Whether a kernel of packed or of other weights asks far ahead for so many rows of X. Where there is AMX,
// others gain with one row alone.
static inline bool weft__cpu_asks(const struct weft__cpu *cpu, bool packed, int32_t batch)
{
    return cpu->asks_far && (packed || batch == 1 || !(cpu->isa_mask >> WEFT__ISA_amx & 1u));
}

// A bit for every enum weft__isa that this CPU has and the operating system saves the registers of.
uint32_t weft__cpu_isa_mask(void);

// What struct weft__cpu has of this CPU.
bool weft__cpu_asks_far(void);
bool weft__cpu_asks_near(void);

// Lowers `mask` to `level` and what lies below it. NULL, or what `level` is instead of a level of this
// architecture.
const char *weft__cpu_lower(uint32_t *mask, const char *level);

// The levels of this architecture, as "ref, avx2, ...".
const char *weft__cpu_levels(char *text, size_t bytes);

// The name of an enum weft__isa, and of the highest level in a mask.
const char *weft__cpu_level_name(int32_t isa);
const char *weft__cpu_isa_name(uint32_t mask);

// May a kernel be used under this mask?
static inline bool weft__cpu_fits(const struct weft__kernel *row, uint32_t isa_mask)
{
    return isa_mask >> row->level & 1u;
}

// weft__backend.rounded_row_bytes
int64_t weft__cpu_rounded_row_bytes(const weft_context *context, int64_t cols);

// Does the tasks [0, count) on the context's executor.
static inline void weft__cpu_parallel_for(const weft_context *context, int32_t count,
                                          weft_task_fn *task, void *work)
{
    const weft_executor *executor = &weft__cpu_of(context)->executor;
    if (count > 0)
        executor->parallel_for(executor->user, count, task, work);
}

#endif
