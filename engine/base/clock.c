// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "engine/base/clock.h"

#include <time.h>

double engine_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}
