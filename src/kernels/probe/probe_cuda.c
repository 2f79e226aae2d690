// SPDX-License-Identifier: MIT
// Probes on CUDA: which kernel, and how it is launched. What serves as the descriptor are the arguments.
#include "src/kernels/cuda/launch.h"
#include "src/kernels/probe/probe_device.h"
#include "src/kernels/probe/probe_kernel.h"

// As the CPU's rows begin, so that tools read them alike.
static const struct weft__probe_kernel rows[] = {
    {.base = {"probe", "probe_read_sm80", WEFT__CUDA_sm80}, .kind = WEFT_PROBE_READ},
    {.base = {"probe", "probe_fma_f32_sm80", WEFT__CUDA_sm80}, .kind = WEFT_PROBE_FMA_F32},
    {.base = {"probe", "probe_dot_i8_sm80", WEFT__CUDA_sm80}, .kind = WEFT_PROBE_DOT_I8},
    {.base = {"probe", "probe_mma_f16_sm90a", WEFT__CUDA_sm90a}, .kind = WEFT_PROBE_MMA_F16},
    {.base = {"probe", "probe_mma_f16_sm80", WEFT__CUDA_sm80}, .kind = WEFT_PROBE_MMA_F16},
};
static const struct weft__kernel_table table = {"probe", rows, sizeof rows[0],
                                                sizeof rows / sizeof rows[0]};

#define CONSTANTS(X) X(KIND) X(WGMMA)
WEFT__CUDA_CONSTANTS(probe, CONSTANTS)

enum { THREADS = 256, BLOCKS_PER_SM = 8 };

struct launch {
    uint32_t blocks;
};

static bool serves(const struct weft__kernel *row, const void *args)
{
    return ((const struct weft__probe_kernel *)(const void *)row)->kind ==
           ((const weft_probe_args *)args)->kind;
}

static weft_status plan(const void *opaque_args, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_probe_args *args = opaque_args;
    struct launch *launch = choice->launch;
    weft_status status;
    const struct weft__kernel *row =
        weft__cuda_choose(&table, limits, args->variant, serves, args, choice, &status);
    if (!row)
        return status;
    struct weft__probe_constants constants = {.KIND = (int32_t)args->kind,
                                              .WGMMA = row->level == WEFT__CUDA_sm90a};
    weft__cuda_want(choice, "src/kernels/probe/probe.cu", "weft_probe",
                    WEFT__CUDA_VALUES(probe, constants));
    // matrix products fill an SM with one block
    launch->blocks = (uint32_t)limits->num_sms * (constants.WGMMA ? 1 : BLOCKS_PER_SM);
    return WEFT_OK;
}

static int32_t steps(const void *opaque_launch, const void *opaque_run,
                     struct weft__cuda_step *step)
{
    const struct launch *launch = opaque_launch;
    const struct weft__probe_device_args *args = opaque_run;
    weft__cuda_step(step, 0, launch->blocks, 1, THREADS, args, sizeof *args);
    return 1;
}

const struct weft__cuda_op weft__probe_cuda = {&table, sizeof(struct launch), plan, steps};
