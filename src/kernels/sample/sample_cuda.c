// SPDX-License-Identifier: MIT
// Sampling on CUDA: its kernels and how they are launched. Parameters in pageable memory travel with the
// launches, so that the caller may change them at once; others are read by the device. Workspace, for max_rows rows:
//
//      | best [rows][parts] | cleaned logits [rows][vocab] | counts [rows][vocab] |
#include <stdio.h>

#include "src/base/checked.h"
#include "src/kernels/cuda/launch.h"
#include "src/kernels/sample/sample_cuda.h"
#include "src/kernels/sample/sample_device.h"

_Static_assert(sizeof(struct weft__sample_device_params) == sizeof(weft_sample_params) &&
                   offsetof(struct weft__sample_device_params, seed) ==
                       offsetof(weft_sample_params, seed) &&
                   offsetof(struct weft__sample_device_params, history_room) ==
                       offsetof(weft_sample_params, history_room),
               "the device reads weft_sample_params as it lies");

static const struct weft__kernel rows[] = {{"sample", "sample_radix_sm80", WEFT__CUDA_sm80}};
static const struct weft__kernel_table table = {"sample", rows, sizeof rows[0], 1};

#define CONSTANTS(X) X(X_DTYPE)
WEFT__CUDA_CONSTANTS(sample, CONSTANTS)

enum {
    BEST_THREADS = 256,
    THREADS = 1024,
    MOST_ROWS = WEFT__SAMPLE_INLINE * (WEFT__CUDA_MAX_STEPS - 1),
};

struct launch {
    int32_t vocab;
    int64_t cleaned_offset, counts_offset;
};

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_sample_desc *desc = opaque_desc;
    struct launch *launch = choice->launch;
    weft_status status;
    if (!weft__cuda_choose(&table, limits, desc->variant, NULL, desc, choice, &status))
        return status;
    if (desc->max_rows > MOST_ROWS) {
        snprintf(choice->text, sizeof choice->text, "sample: max_rows=%d is more than %d on a GPU",
                 desc->max_rows, MOST_ROWS);
        return WEFT_EUNSUPPORTED;
    }
    struct weft__sample_constants constants = {.X_DTYPE = (int32_t)desc->logits_dtype};
    weft__cuda_want(choice, "src/kernels/sample/sample_best.cu", "weft_sample_best",
                    WEFT__CUDA_VALUES(sample, constants));
    weft__cuda_want(choice, "src/kernels/sample/sample.cu", "weft_sample",
                    WEFT__CUDA_VALUES(sample, constants));
    int64_t plane = weft__align_up((int64_t)desc->vocab * desc->max_rows * 4, 256);
    launch->vocab = desc->vocab;
    launch->cleaned_offset = weft__align_up(
        (int64_t)desc->max_rows * WEFT__SAMPLE_PARTS * (int64_t)sizeof(uint64_t), 256);
    launch->counts_offset = launch->cleaned_offset + plane;
    choice->workspace_bytes = (size_t)(launch->counts_offset + plane);
    snprintf(choice->text, sizeof choice->text, " vocab %d rows<=%d", desc->vocab, desc->max_rows);
    return WEFT_OK;
}

static int32_t steps(const void *opaque_launch, const void *opaque_args,
                     struct weft__cuda_step *step)
{
    const struct launch *launch = opaque_launch;
    const struct weft__sample_cuda_args *run = opaque_args;
    const weft_sample_args *args = &run->base;
    unsigned char *workspace = args->workspace;
    struct weft__sample_device_args device = {
        .logits = args->logits,
        .logits_stride = args->logits_stride,
        .params = run->device_reads_params
                      ? (const struct weft__sample_device_params *)(const void *)args->params
                      : NULL,
        .next = (struct weft__sample_device_params *)(void *)args->next,
        .tokens = args->tokens,
        .logprobs = args->logprobs,
        .best = (void *)workspace,
        .cleaned = (void *)(workspace + launch->cleaned_offset),
        .counts = (void *)(workspace + launch->counts_offset),
        .vocab = launch->vocab};
    weft__cuda_step(&step[0], 0, WEFT__SAMPLE_PARTS, (uint32_t)args->rows, BEST_THREADS, &device,
                    sizeof device);
    int32_t count = 1, most = device.params ? args->rows : WEFT__SAMPLE_INLINE;
    for (int32_t row = 0; row < args->rows; row += most, count++) {
        int32_t here = args->rows - row < most ? args->rows - row : most;
        device.first_row = row;
        if (!device.params)
            memcpy(device.own, args->params + row, (size_t)here * sizeof *args->params);
        weft__cuda_step(&step[count], 1, (uint32_t)here, 1, THREADS, &device, sizeof device);
        step[count].overlap = 1;
    }
    step[0].overlap = 1;
    return count;
}

const struct weft__cuda_op weft__sample_cuda = {&table, sizeof(struct launch), plan, steps};
