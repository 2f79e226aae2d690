// SPDX-License-Identifier: MIT
#include "engine/constrain/constraint.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/alloc.h"
#include "engine/constrain/mask.h"

enum { MAX_MACHINE_BYTES = 16 << 20 }; // more is swept before the next mask

struct constraint {
    grammar *g;
    const token_trie *trie;
    machine machine;
    mask_table masks;
    constraint_cursor *cursors;
    uint32_t start;
    size_t count; // of the cursors
};

struct constraint_cursor {
    constraint *of;
    constraint_cursor *next, **link; // in the constraint's list
    uint32_t state;
};

static const char TOO_AMBIGUOUS[] =
    "the grammar is too ambiguous here: too many of its ways remain open at once";

constraint *constraint_open(grammar *g, const token_trie *trie, engine_error *err)
{
    constraint *c = engine_alloc(1, sizeof *c);
    if (!c) {
        grammar_free(g);
        engine_fail(err, "not enough memory for a grammar");
        return NULL;
    }
    c->g = g;
    c->trie = trie;
    if (!machine_open(&c->machine, g) || !mask_open(&c->masks, trie, &c->machine))
        engine_fail(err, "not enough memory for a grammar");
    else {
        c->start = machine_start(&c->machine, g->entries[g->root], MACHINE_BOTTOM);
        if (c->start != MACHINE_DEAD)
            return c;
        engine_fail(err, "%s", c->machine.failed ? TOO_AMBIGUOUS : "no text fits the grammar");
    }
    constraint_close(c);
    return NULL;
}

void constraint_close(constraint *c)
{
    if (!c)
        return;
    mask_free(&c->masks);
    machine_free(&c->machine);
    grammar_free(c->g);
    free(c);
}

constraint_cursor *constraint_begin(constraint *c, engine_error *err)
{
    constraint_cursor *cursor = engine_alloc(1, sizeof *cursor);
    if (!cursor) {
        engine_fail(err, "not enough memory for a grammar");
        return NULL;
    }
    *cursor =
        (constraint_cursor){.of = c, .next = c->cursors, .link = &c->cursors, .state = c->start};
    if (c->cursors)
        c->cursors->link = &cursor->next;
    c->cursors = cursor;
    c->count++;
    return cursor;
}

void constraint_end(constraint_cursor *cursor)
{
    if (!cursor)
        return;
    *cursor->link = cursor->next;
    if (cursor->next)
        cursor->next->link = cursor->link;
    cursor->of->count--;
    free(cursor);
}

// Keeps of the machine what is in use.
static void sweep(constraint *c)
{
    uint32_t **live = engine_alloc(c->count + 1, sizeof *live);
    size_t count = 0;
    if (!live)
        return;
    live[count++] = &c->start;
    for (constraint_cursor *cursor = c->cursors; cursor; cursor = cursor->next)
        live[count++] = &cursor->state;
    if (machine_sweep(&c->machine, live, count))
        mask_forget_states(&c->masks);
    free(live);
}

static void sweep_if_needed(constraint *c)
{
    if (c->machine.failed || machine_bytes(&c->machine) > MAX_MACHINE_BYTES)
        sweep(c);
}

static const uint64_t *mask(constraint_cursor *cursor)
{
    sweep_if_needed(cursor->of);
    return mask_of(&cursor->of->masks, cursor->state);
}

static bool may_end(const constraint *c, uint32_t state)
{
    return c->machine.states[state].ends;
}

bool constraint_may_end(const constraint_cursor *cursor)
{
    return may_end(cursor->of, cursor->state);
}

bool constraint_complete(const constraint_cursor *cursor)
{
    return constraint_may_end(cursor) && cursor->of->machine.states[cursor->state].count == 0;
}

// Tokens 64 at a time; true if any of them can be.
static bool apply_word(uint64_t word, float *logits, int32_t count)
{
    if (word == UINT64_MAX)
        return true;
    for (int32_t i = 0; word == 0 && i < count; i++)
        logits[i] = -INFINITY;
    if (word == 0)
        return false;
    for (uint64_t out = ~word; out; out &= out - 1) {
        int32_t i = __builtin_ctzll(out);
        if (i >= count)
            break;
        logits[i] = -INFINITY;
    }
    return true;
}

bool constraint_apply(constraint_cursor *cursor, float *logits, int32_t vocab, engine_error *err)
{
    const constraint *c = cursor->of;
    const token_trie *trie = c->trie;
    const uint64_t *bits = mask(cursor);
    float ends[64];
    uint32_t kept = constraint_may_end(cursor) ? trie->end_count : 0;
    int32_t known = trie->vocab < vocab ? trie->vocab : vocab;
    bool any = false;
    if (!bits)
        return engine_fail(err, "%s",
                           c->machine.failed ? TOO_AMBIGUOUS : "not enough memory for a grammar");
    kept = kept < 64 ? kept : 64;
    for (uint32_t i = 0; i < kept; i++)
        ends[i] = trie->ends[i] < vocab ? logits[trie->ends[i]] : 0;
    for (int32_t at = 0; at < known; at += 64) {
        int32_t count = known - at < 64 ? known - at : 64;
        any = apply_word(bits[at / 64], logits + at, count) || any;
    }
    for (int32_t id = known; id < vocab; id++)
        logits[id] = -INFINITY;
    for (uint32_t i = 0; i < kept; i++)
        if (trie->ends[i] < vocab) {
            logits[trie->ends[i]] = ends[i];
            any = true;
        }
    return any || engine_fail(err, "no token of the vocabulary goes on as the grammar wants");
}

// Where a token leads; MACHINE_DEAD if nowhere.
static uint32_t follow(constraint_cursor *cursor, int32_t id)
{
    constraint *c = cursor->of;
    tokenizer_bytes text;
    bool special;
    if (id < 0 || id >= c->trie->vocab || !token_trie_bytes(c->trie, id, &text, &special))
        return MACHINE_DEAD;
    uint32_t state = cursor->state;
    if (special)
        state = machine_step(&c->machine, state, GRAMMAR_SPECIAL);
    for (size_t i = 0; i < text.size_bytes && state != MACHINE_DEAD; i++)
        state = machine_step(&c->machine, state, (uint8_t)text.data[i]);
    if (special && state != MACHINE_DEAD)
        state = machine_step(&c->machine, state, GRAMMAR_SPECIAL_END);
    return state;
}

// --- the likeliest alone ------------------------------------------------------------------------------

enum { MOST_LIKELY = 64, MOST_ASKED = 2 * MOST_LIKELY + 16 };

typedef struct likely {
    float logit;
    int32_t id;
} likely;

// In order, the likeliest first, of equal ones the lower ids.
typedef struct likely_list {
    int32_t room, count;
    likely at[MOST_ASKED];
} likely_list;

static void enter_likely(likely_list *list, likely one)
{
    int32_t n = list->count < list->room ? list->count++ : list->room - 1;
    for (; n > 0 && one.logit > list->at[n - 1].logit; n--)
        list->at[n] = list->at[n - 1];
    list->at[n] = one;
}

// Few of a row get into the list, so what is looked at is whether any of a piece does.
static void find_likeliest(const float *logits, int32_t vocab, likely_list *list)
{
    enum { PIECE = 64 };
    float least = -INFINITY;
    for (int32_t at = 0; at < vocab; at += PIECE) {
        int32_t end = vocab - at < PIECE ? vocab : at + PIECE;
        int any = 0;
        for (int32_t id = at; id < end; id++)
            any |= logits[id] > least;
        for (int32_t id = at; any && id < end; id++) {
            if (!(logits[id] > least))
                continue;
            enter_likely(list, (likely){logits[id], id});
            least = list->count == list->room ? list->at[list->room - 1].logit : least;
        }
    }
}

// Leaves in the list those that can come next: `most`, and those as likely as the last of them. False where it is too
// short to tell.
static bool keep_possible(constraint_cursor *cursor, int32_t most, likely_list *list)
{
    const tokenizer *t = cursor->of->trie->tokenizer;
    int32_t kept = 0, n = 0;
    for (; n < list->count; n++) {
        likely one = list->at[n];
        if (kept >= most && one.logit < list->at[kept - 1].logit)
            break;
        bool end = tokenizer_is_end(t, one.id);
        if (end ? constraint_may_end(cursor) : follow(cursor, one.id) != MACHINE_DEAD)
            list->at[kept++] = one;
    }
    bool tells = n < list->count;
    list->count = kept;
    return tells && !cursor->of->machine.failed;
}

bool constraint_apply_likeliest(constraint_cursor *cursor, float *logits, int32_t vocab,
                                int32_t most, engine_error *err)
{
    likely_list list;
    sweep_if_needed(cursor->of);
    if (most < 1 || most > MOST_LIKELY || mask_is_known(&cursor->of->masks, cursor->state))
        return constraint_apply(cursor, logits, vocab, err);
    list.room = 2 * most + 16;
    list.count = 0;
    find_likeliest(logits, vocab, &list);
    if (!keep_possible(cursor, most, &list))
        return constraint_apply(cursor, logits, vocab, err);
    for (int32_t id = 0; id < vocab; id++)
        logits[id] = -INFINITY;
    for (int32_t i = 0; i < list.count; i++)
        logits[list.at[i].id] = list.at[i].logit;
    return true;
}

bool constraint_allows(constraint_cursor *cursor, int32_t id)
{
    const uint64_t *bits = mask(cursor);
    if (!bits || id < 0 || id >= cursor->of->trie->vocab)
        return false;
    if (tokenizer_is_end(cursor->of->trie->tokenizer, id))
        return constraint_may_end(cursor);
    return bits[id / 64] >> (id % 64) & 1;
}

bool constraint_accept(constraint_cursor *cursor, int32_t id, engine_error *err)
{
    sweep_if_needed(cursor->of);
    uint32_t state = follow(cursor, id);
    if (state == MACHINE_DEAD)
        return engine_fail(err, "%s",
                           cursor->of->machine.failed
                               ? TOO_AMBIGUOUS
                               : "a token does not go on as the grammar wants");
    cursor->state = state;
    return true;
}

bool constraint_matches(constraint *c, const char *text, size_t bytes)
{
    sweep_if_needed(c);
    uint32_t state = c->start;
    for (size_t i = 0; i < bytes && state != MACHINE_DEAD; i++)
        state = machine_step(&c->machine, state, (uint8_t)text[i]);
    return may_end(c, state);
}
