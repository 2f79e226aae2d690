// SPDX-License-Identifier: MIT
// A host's executor for weft: OpenMP's threads instead of the library's. Compile with -fopenmp.
//
//      int threads = omp_get_max_threads();
//      weft_executor executor = {.user = &threads, .threads = threads, .parallel_for = openmp_for};
//      weft_context_desc desc = {.size = sizeof desc, .executor = &executor};
//
// libgomp's threads meet at a barrier after every loop: on a machine that is busy with other things a
// loop lasts as long as its slowest thread, which the library's own threads avoid. And they are the parent's
// alone: in a child of fork, where libgomp would wait for them for ever, the loop runs on the thread that called.
#ifndef OPENMP_EXECUTOR_H
#define OPENMP_EXECUTOR_H

#include <omp.h>
#include <unistd.h>

#include <weft/context.h>

static inline void openmp_for(void *user, int32_t count, weft_task_fn *task, void *work)
{
    static _Atomic pid_t process; // that has the threads
    int threads = *(const int *)user < count ? *(const int *)user : count;
    if (process == 0)
        process = getpid();
    if (process != getpid())
        threads = 1;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1) if (threads > 1)
    for (int32_t i = 0; i < count; i++)
        task(work, i, omp_get_thread_num());
}

#endif
