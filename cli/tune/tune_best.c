// SPDX-License-Identifier: MIT
#include "cli/tune/tune.h"

bool tune_is_sound(const tune_candidate *candidate)
{
    return candidate->worst <= 1; // a NaN is not
}

const tune_candidate *tune_best(const tune_candidate candidates[], int32_t count)
{
    const tune_candidate *own = NULL, *best = NULL;
    for (int32_t i = 0; i < count; i++) {
        own = candidates[i].is_default ? &candidates[i] : own;
        if (tune_is_sound(&candidates[i]) && (!best || candidates[i].cost < best->cost))
            best = &candidates[i];
    }
    return own && tune_is_sound(own) && (!best || best->cost > own->cost * 29 / 30) ? own : best;
}
