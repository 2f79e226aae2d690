// SPDX-License-Identifier: MIT
#include "engine/tokenizer/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

enum { SHORT_WORD = 48 }; // symbols up to which looking through all pairs beats a heap

bool bpe_reserve(bpe_work *work, size_t count)
{
    if (count <= work->capacity)
        return true;
    size_t capacity = count > work->capacity * 2 ? count : work->capacity * 2;
    bpe_symbol *symbols = engine_realloc(work->symbols, capacity, sizeof *symbols);
    if (!symbols)
        return false;
    work->symbols = symbols;
    work->capacity = capacity;
    return true;
}

void bpe_free(bpe_work *work)
{
    free(work->symbols);
    free(work->heap);
    *work = (bpe_work){0};
}

static const merge_rule *find_rule(const merge_table *table, const bpe_symbol *left,
                                   const bpe_symbol *right)
{
    if (left->id == TOKENIZER_NONE || right->id == TOKENIZER_NONE)
        return NULL;
    return merges_find(table, left->id, right->id);
}

static void merge_short(const merge_table *table, bpe_work *work)
{
    bpe_symbol *symbols = work->symbols;
    const merge_rule *rules[SHORT_WORD];
    size_t count = work->count;
    for (size_t i = 0; i + 1 < count; i++)
        rules[i] = find_rule(table, &symbols[i], &symbols[i + 1]);
    for (;;) {
        size_t best = count;
        uint32_t best_rank = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            if (rules[i] && (best == count || rules[i]->rank < best_rank)) {
                best = i;
                best_rank = rules[i]->rank;
            }
        }
        if (best == count)
            break;
        symbols[best].id = rules[best]->id;
        count--;
        memmove(&symbols[best + 1], &symbols[best + 2], (count - best - 1) * sizeof *symbols);
        if (best + 1 < count) {
            memmove(&rules[best], &rules[best + 1], (count - best - 1) * sizeof *rules);
            rules[best] = find_rule(table, &symbols[best], &symbols[best + 1]);
        }
        if (best > 0)
            rules[best - 1] = find_rule(table, &symbols[best - 1], &symbols[best]);
    }
    work->count = count;
}

static void sift_up(bpe_candidate *heap, size_t at)
{
    bpe_candidate moving = heap[at];
    while (at > 0 && moving.order < heap[(at - 1) / 2].order) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = moving;
}

static void sift_down(bpe_candidate *heap, size_t count, size_t at)
{
    bpe_candidate moving = heap[at];
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        child += child + 1 < count && heap[child + 1].order < heap[child].order;
        if (moving.order <= heap[child].order)
            break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

static uint32_t symbol_end(const bpe_work *work, const bpe_symbol *symbol)
{
    return symbol->next < 0 ? work->size_bytes : work->symbols[symbol->next].offset;
}

// Notes the pair of the symbol at `at` and its next, if they join.
static void push_pair(const merge_table *table, bpe_work *work, int32_t at)
{
    const bpe_symbol *left = &work->symbols[at];
    if (left->next < 0)
        return;
    const bpe_symbol *right = &work->symbols[left->next];
    const merge_rule *rule = find_rule(table, left, right);
    if (!rule)
        return;
    work->heap[work->heap_count] = (bpe_candidate){(uint64_t)rule->rank << 32 | (uint32_t)at,
                                                   symbol_end(work, right), rule->id};
    sift_up(work->heap, work->heap_count++);
}

// A candidate still holds if its bytes are two symbols now: boundaries between symbols only vanish.
static bool still_holds(const bpe_work *work, const bpe_candidate *candidate)
{
    const bpe_symbol *left = &work->symbols[(uint32_t)candidate->order];
    if (left->offset == UINT32_MAX || left->next < 0)
        return false;
    return symbol_end(work, &work->symbols[left->next]) == candidate->end;
}

static void join(const merge_table *table, bpe_work *work, const bpe_candidate *candidate)
{
    int32_t at = (int32_t)(uint32_t)candidate->order;
    bpe_symbol *left = &work->symbols[at];
    bpe_symbol *right = &work->symbols[left->next];
    left->id = candidate->id;
    left->next = right->next;
    right->offset = UINT32_MAX; // gone
    if (left->next >= 0)
        work->symbols[left->next].previous = at;
    if (left->previous >= 0)
        push_pair(table, work, left->previous);
    push_pair(table, work, at);
}

static bool merge_long(const merge_table *table, bpe_work *work)
{
    // A join takes one candidate and one symbol away and adds two candidates at most.
    size_t heap_needed = work->count * 2;
    if (work->heap_capacity < heap_needed) {
        free(work->heap);
        work->heap_capacity = 0;
        work->heap = engine_alloc(heap_needed, sizeof *work->heap);
        if (!work->heap)
            return false;
        work->heap_capacity = heap_needed;
    }
    work->heap_count = 0;
    for (size_t i = 0; i < work->count; i++) {
        work->symbols[i].previous = (int32_t)i - 1;
        work->symbols[i].next = i + 1 < work->count ? (int32_t)i + 1 : -1;
    }
    for (size_t i = 0; i < work->count; i++)
        push_pair(table, work, (int32_t)i);
    while (work->heap_count > 0) {
        bpe_candidate top = work->heap[0];
        work->heap[0] = work->heap[--work->heap_count];
        if (work->heap_count > 0)
            sift_down(work->heap, work->heap_count, 0);
        if (still_holds(work, &top))
            join(table, work, &top);
    }
    size_t kept = 0;
    for (int32_t i = 0; i >= 0; i = work->symbols[i].next)
        work->symbols[kept++] = work->symbols[i];
    work->count = kept;
    return true;
}

bool bpe_merge(const merge_table *table, bpe_work *work)
{
    if (work->count > SHORT_WORD)
        return merge_long(table, work);
    merge_short(table, work);
    return true;
}
