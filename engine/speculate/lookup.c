// SPDX-License-Identifier: MIT
#include "engine/speculate/lookup.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

enum { HEAD_BITS = 12, MOST_PLACES = 64 };

static uint32_t hash_of(const int32_t *pair)
{
    uint32_t mixed = (uint32_t)pair[0] * 2654435761u ^ (uint32_t)pair[1] * 2246822519u;
    return (mixed ^ mixed >> 15) * 2654435761u >> (32 - HEAD_BITS);
}

bool lookup_make(lookup *l, int32_t room)
{
    *l = (lookup){.room = room};
    l->heads = engine_alloc((size_t)1 << HEAD_BITS, sizeof *l->heads);
    l->before = engine_alloc((size_t)room, sizeof *l->before);
    return l->heads && l->before;
}

void lookup_free(lookup *l)
{
    free(l->heads);
    free(l->before);
    *l = (lookup){0};
}

void lookup_clear(lookup *l)
{
    memset(l->heads, 0, sizeof *l->heads << HEAD_BITS);
    l->count = 0;
}

// Keeps the pairs that have a token behind them.
static void keep_pairs(lookup *l, const int32_t *ids, int32_t count)
{
    for (int32_t last = l->count > 1 ? l->count - 1 : 1; last < count - 1; last++) {
        int32_t *head = &l->heads[hash_of(ids + last - 1)];
        l->before[last] = *head;
        *head = last + 1;
    }
    l->count = count;
}

static int32_t agreement(const int32_t *ids, int32_t place, int32_t end)
{
    int32_t same = 0;
    while (same <= place && same < LOOKUP_LONGEST && ids[place - same] == ids[end - same])
        same++;
    return same;
}

int32_t lookup_guess(lookup *l, const int32_t *ids, int32_t count, int32_t most, int32_t *guesses,
                     int32_t *agreed)
{
    int32_t best = -1, end = count - 1;
    *agreed = LOOKUP_SHORTEST - 1;
    keep_pairs(l, ids, count);
    if (count < LOOKUP_SHORTEST || most < 1)
        return 0;
    int32_t next = l->heads[hash_of(ids + end - 1)];
    for (int32_t n = 0; next > 0 && n < MOST_PLACES && *agreed < LOOKUP_LONGEST; n++) {
        int32_t place = next - 1, same = agreement(ids, place, end);
        if (same > *agreed) {
            *agreed = same;
            best = place;
        }
        next = l->before[place];
    }
    if (best < 0)
        return 0;
    // Behind the end of the text a text that repeats itself goes on with the guesses.
    for (int32_t i = 0; i < most; i++)
        guesses[i] = best + 1 + i < count ? ids[best + 1 + i] : guesses[best + 1 + i - count];
    return most;
}
