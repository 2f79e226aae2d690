// SPDX-License-Identifier: MIT
#include "engine/speculate/lookup.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

enum { HEAD_BITS = 12, MOST_PLACES = 64, KEPT_PLACES = 8 };

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

typedef struct lookup_place {
    int32_t at, agreed;
} lookup_place;

// The places of the end's last pair that agree with it the longest, of equal ones the latest first; returns how many.
static int32_t find_places(const lookup *l, const int32_t *ids, int32_t end, lookup_place *places)
{
    int32_t next = l->heads[hash_of(ids + end - 1)], count = 0;
    for (int32_t n = 0; next > 0 && n < MOST_PLACES; n++, next = l->before[next - 1]) {
        lookup_place place = {next - 1, agreement(ids, next - 1, end)};
        if (place.agreed < LOOKUP_SHORTEST ||
            (count == KEPT_PLACES && places[count - 1].agreed >= place.agreed))
            continue;
        int32_t at = count < KEPT_PLACES ? count++ : count - 1;
        for (; at > 0 && places[at - 1].agreed < place.agreed; at--)
            places[at] = places[at - 1];
        places[at] = place;
    }
    return count;
}

// Goes on from a place. Behind the end of the text a text that repeats itself goes on with the guesses.
static void go_on(const int32_t *ids, int32_t count, int32_t most, const lookup_place *place,
                  guess_tree *guesses)
{
    int32_t way[LOOKUP_MOST], from = place->at + 1, parent = -1;
    for (int32_t i = 0; i < most; i++) {
        way[i] = from + i < count ? ids[from + i] : way[from + i - count];
        parent = guess_tree_add(guesses, parent, way[i], place->agreed);
        if (parent < 0)
            return;
    }
}

void lookup_guess(lookup *l, const int32_t *ids, int32_t count, int32_t most, int32_t ways,
                  guess_tree *guesses)
{
    lookup_place places[KEPT_PLACES];
    guesses->count = 0;
    keep_pairs(l, ids, count);
    if (count < LOOKUP_SHORTEST)
        return;
    most = most < LOOKUP_MOST ? most : LOOKUP_MOST;
    int32_t found = find_places(l, ids, count - 1, places);
    for (int32_t i = 0; i < found && ways > 0; i++) {
        int32_t before = guesses->count;
        go_on(ids, count, most, &places[i], guesses);
        ways -= guesses->count > before;
    }
}
