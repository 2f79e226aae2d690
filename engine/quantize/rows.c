// SPDX-License-Identifier: MIT
#include "engine/quantize/rows.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <weft/format.h>

#include "engine/base/alloc.h"

enum { MAX_THREADS = 256 };

typedef struct crew {
    const quantize_rows *work;
    atomic_llong next;
    atomic_bool failed;
} crew;

// Uniform in +-0.05: of the size that trained weights have, and the same in every format. Seed 0: ones.
static void make_up(uint64_t seed, int64_t row, int64_t cols, float *x)
{
    uint64_t state = seed + (uint64_t)row * 0x9e3779b97f4a7c15u;
    for (int64_t i = 0; i < cols; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = seed == 0 ? 1 : ((float)(state >> 40) * 0x1p-24f - 0.5f) * 0.1f;
    }
}

static bool decode(const quantize_rows *work, int64_t row, float *x)
{
    int64_t row_bytes = weft_dtype_row_bytes(work->from_dtype, work->cols);
    const gguf_planes *planes = &work->planes;
    weft_row_planes from = {.size = sizeof from,
                            .dtype = work->from_dtype,
                            .data = (const char *)work->from + row * row_bytes,
                            .scale_dtype = planes->scale_dtype};
    if (planes->scales) {
        int64_t scales = (work->cols - 1) / planes->scale_cols + 1;
        int64_t at = row / planes->scale_rows * weft_dtype_row_bytes(planes->scale_dtype, scales);
        from.scale_elems = planes->scale_cols;
        from.scales = (const char *)planes->scales + at;
        from.biases = planes->biases ? (const char *)planes->biases + at : NULL;
    }
    return weft_dequantize_planes(&from, work->cols, x) == WEFT_OK;
}

static bool convert(const quantize_rows *work, int64_t n, float *x, float *y)
{
    int64_t to_bytes = weft_dtype_row_bytes(work->to_dtype, work->cols);
    int64_t row = work->first + n;
    char *to = (char *)work->to + n * to_bytes;
    if (!work->from)
        make_up(work->seed, row, work->cols, x);
    else if (!decode(work, row, x))
        return false;
    weft_status status =
        work->search ? weft_quantize_row_search(work->to_dtype, x, work->importance, work->cols, to)
                     : weft_quantize_row(work->to_dtype, x, work->cols, to);
    if (status != WEFT_OK || weft_dequantize_row(work->to_dtype, to, work->cols, y) != WEFT_OK)
        return false;
    double error = 0, square = 0;
    for (int64_t i = 0; i < work->cols; i++) {
        error += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
        square += (double)x[i] * x[i];
    }
    work->errors[n] = error;
    work->squares[n] = square;
    return true;
}

static void *take_rows(void *user)
{
    crew *c = user;
    const quantize_rows *work = c->work;
    float *x = engine_alloc((size_t)work->cols * 2, sizeof *x);
    if (!x)
        c->failed = true;
    for (int64_t n; x && !c->failed && (n = atomic_fetch_add(&c->next, 1)) < work->count;)
        if (!convert(work, n, x, x + work->cols))
            c->failed = true;
    free(x);
    return NULL;
}

bool quantize_rows_run(const quantize_rows *work, int32_t threads)
{
    crew c = {.work = work};
    pthread_t others[MAX_THREADS];
    int32_t started = 0;
    if (threads > work->count)
        threads = (int32_t)work->count;
    // A thread that cannot be started is not missed: the others take its rows.
    while (started + 1 < threads && started < MAX_THREADS &&
           pthread_create(&others[started], NULL, take_rows, &c) == 0)
        started++;
    take_rows(&c);
    while (started > 0)
        pthread_join(others[--started], NULL);
    return !c.failed;
}
