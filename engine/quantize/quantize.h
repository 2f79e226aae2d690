// SPDX-License-Identifier: MIT
#ifndef ENGINE_QUANTIZE_QUANTIZE_H
#define ENGINE_QUANTIZE_QUANTIZE_H

// Model files in other formats. Tensor by tensor, a few rows at a time: memory does not depend on the size
// of the model. The result does not depend on the number of threads.

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/error.h"

// What became of a tensor, or is becoming of it.
typedef struct quantize_progress {
    const char *tensor;
    const char *from, *to; // formats
    int64_t index, count;  // of the tensor, among all
    int64_t elements, from_bytes, to_bytes;
    bool done; // false: `rows_done` of `rows`
    int64_t rows_done, rows;
    double error;         // root of the mean squared error; 0 for what was copied
    double relative;      // the same divided by the root of the mean square
    double done_fraction; // of the whole file, 0 to 1
} quantize_progress;

// False stops the work; nothing is left behind then.
typedef bool quantize_progress_fn(void *user, const quantize_progress *progress);

typedef struct quantize_options {
    const char *mix;                // "q4_k_m", "q4_0", ...
    const char *importance_path;    // or NULL
    bool pure;                      // every matrix in the mix's own format
    bool again;                     // from quantised matrices too
    int32_t threads;                // 0: one per core
    quantize_progress_fn *progress; // or NULL
    void *user;
} quantize_options;

// Writes the model at `in` (all its parts) to `out`. Refused: unknown mixes, matrices that are quantised
// already (unless `again`), numbers that are not finite, importance weights of another shape. A file that is
// at `out` is replaced when the new one is complete, and never before.
bool engine_quantize(const char *in, const char *out, const quantize_options *options,
                     engine_error *err);

// Writes a model of a known shape (engine_shape_at) with made-up weights and a made-up vocabulary: other
// programs can be measured with it. options->importance_path does not apply.
bool engine_quantize_shape(const char *shape, const char *out, const quantize_options *options,
                           engine_error *err);

// The n-th name that options.mix can have; NULL past the last.
const char *engine_mix_at(int32_t n);

#endif
