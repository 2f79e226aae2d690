// SPDX-License-Identifier: MIT
#ifndef ENGINE_QUANTIZE_JOB_H
#define ENGINE_QUANTIZE_JOB_H

// A file in the making; for the files of this room only.

#include "engine/gguf/gguf_output.h"
#include "engine/gguf/mix.h"
#include "engine/quantize/importance.h"
#include "engine/quantize/quantize.h"

typedef struct quantize_tensor {
    gguf_tensor from; // with data == NULL its numbers are made up from the seed
    uint64_t seed;
    const ggml_type_info *to;
    int64_t rows;
    const float *importance; // or NULL
    size_t importance_count;
} quantize_tensor;

typedef struct quantize_job {
    const quantize_options *options;
    int32_t threads;
    const gguf_mix *mix;
    gguf_mix_facts facts;
    importance *importance; // or NULL
    quantize_tensor *tensors;
    size_t count;
    double elements, elements_done;
    gguf_output *output;
} quantize_job;

// Fills in a job without tensors; quantize_job_free is due also after failure.
bool quantize_job_start(quantize_job *job, const quantize_options *options, engine_error *err);
void quantize_job_free(quantize_job *job);

// Adds a tensor to job->tensors, which has room for it, and chooses its format.
bool quantize_job_add(quantize_job *job, const gguf_tensor *from, engine_error *err);

// Writes all tensors behind the metadata that job->output was given, and finishes the file.
bool quantize_job_run(quantize_job *job, engine_error *err);

#endif
