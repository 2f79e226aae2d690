// SPDX-License-Identifier: MIT
// A host's executor for weft: OpenMP's threads instead of the library's. Compile with -fopenmp.
//
//      int threads = omp_get_max_threads();
//      weft_executor executor = {.user = &threads, .threads = threads, .parallel_for = openmp_for};
//      weft_context_desc desc = {.size = sizeof desc, .executor = &executor};
//
// libgomp's threads meet at a barrier after every loop: on a machine that is busy with other things a
// loop lasts as long as its slowest thread, which the library's own threads avoid.
#ifndef OPENMP_EXECUTOR_H
#define OPENMP_EXECUTOR_H

#include <omp.h>

#include <weft/context.h>

static inline void openmp_for(void *user, int32_t count, weft_task_fn *task, void *work)
{
    int threads = *(const int *)user < count ? *(const int *)user : count;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1) if (threads > 1)
    for (int32_t i = 0; i < count; i++)
        task(work, i, omp_get_thread_num());
}

#endif
