// SPDX-License-Identifier: MIT
// --bench in a build without the program weft, whose benchmarks it uses.
#include <stdio.h>

#include "tools/weft-check/bench.h"

int check_bench(const struct weft__kernel *row, bool json)
{
    (void)row;
    (void)json;
    fputs("weft-check: this build has no benchmarks: configure with -DWEFT_ENGINE=ON\n", stderr);
    return 1;
}
