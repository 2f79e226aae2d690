// SPDX-License-Identifier: MIT
#include <omp.h>

#include "src/backend/cpu/cpu.h"

// `user` points to the number of threads.
void weft__cpu_openmp(void *user, int32_t count, weft_task_fn *task, void *work)
{
    int32_t threads = *(const int32_t *)user;
    if (threads > count)
        threads = count;
    if (threads <= 1) {
        for (int32_t i = 0; i < count; i++)
            task(work, i, 0);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (int32_t i = 0; i < count; i++)
        task(work, i, omp_get_thread_num());
}
