// SPDX-License-Identifier: MIT
#include "engine/tokenizer/merges.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engine/base/alloc.h"

enum { MAX_SCORED_BYTES = 256 }; // of a SentencePiece piece; they are made of at most 16 characters

// Where the search for a pair begins.
static size_t first_slot(const merge_table *table, uint32_t left, uint32_t right)
{
    uint64_t key = (uint64_t)left << 32 | right;
    return (size_t)XXH3_64bits(&key, sizeof key) & table->mask;
}

static size_t find_slot(const merge_table *table, uint32_t left, uint32_t right)
{
    size_t slot = first_slot(table, left, right);
    for (;; slot = (slot + 1) & table->mask) {
        const merge_rule *rule = &table->slots[slot];
        if (rule->id == TOKENIZER_NONE || (rule->left == left && rule->right == right))
            return slot;
    }
}

const merge_rule *merges_find(const merge_table *table, int32_t left, int32_t right)
{
    const merge_rule *rule = &table->slots[find_slot(table, (uint32_t)left, (uint32_t)right)];
    return rule->id == TOKENIZER_NONE ? NULL : rule;
}

static bool resize(merge_table *table, size_t slot_count, engine_error *err)
{
    merge_table grown = {engine_alloc(slot_count, sizeof *grown.slots), slot_count - 1,
                         table->count};
    if (!grown.slots)
        return engine_fail(err, "tokenizer: not enough memory for %zu merges", table->count);
    for (size_t i = 0; i < slot_count; i++)
        grown.slots[i].id = TOKENIZER_NONE;
    for (size_t i = 0; table->slots && i <= table->mask; i++) {
        merge_rule rule = table->slots[i];
        if (rule.id != TOKENIZER_NONE)
            grown.slots[find_slot(&grown, rule.left, rule.right)] = rule;
    }
    free(table->slots);
    *table = grown;
    return true;
}

static bool reserve(merge_table *table, size_t count, engine_error *err)
{
    size_t slot_count = table->slots ? table->mask + 1 : 16;
    size_t wanted = slot_count;
    while (wanted / 3 * 2 < count)
        wanted *= 2;
    return (table->slots && wanted == slot_count) || resize(table, wanted, err);
}

// The first rule for a pair stays.
static bool insert(merge_table *table, merge_rule rule, engine_error *err)
{
    if (!reserve(table, table->count + 1, err))
        return false;
    merge_rule *slot = &table->slots[find_slot(table, rule.left, rule.right)];
    if (slot->id != TOKENIZER_NONE)
        return true;
    *slot = rule;
    table->count++;
    return true;
}

// Room for the two halves of a merge, decoded and joined.
typedef struct merge_text {
    char *data;
    size_t capacity;
} merge_text;

// Looks up the three pieces of merge number rank. *rule has no id if the joint piece is one that text may
// never become.
static bool resolve(const vocab *v, tokenizer_bytes merge, size_t rank, merge_text *text,
                    merge_rule *rule, engine_error *err)
{
    const char *space = merge.size_bytes > 0 ? memchr(merge.data, ' ', merge.size_bytes) : NULL;
    size_t left_bytes = space ? (size_t)(space - merge.data) : 0;
    size_t right_bytes = space ? merge.size_bytes - left_bytes - 1 : 0;
    if (left_bytes == 0 || right_bytes == 0)
        return engine_fail(err,
                           "tokenizer: merge %zu is not two pieces with a space between; the "
                           "file is damaged",
                           rank);
    if (merge.size_bytes > text->capacity) {
        char *data = engine_realloc(text->data, merge.size_bytes, 1);
        if (!data)
            return engine_fail(err, "tokenizer: not enough memory for merge %zu", rank);
        *text = (merge_text){data, merge.size_bytes};
    }
    int32_t left = TOKENIZER_NONE, right = TOKENIZER_NONE, joint = TOKENIZER_NONE;
    if (vocab_decode_byte_level(merge.data, left_bytes, text->data, &left_bytes) &&
        vocab_decode_byte_level(space + 1, right_bytes, text->data + left_bytes, &right_bytes)) {
        left = vocab_find(v, text->data, left_bytes);
        right = vocab_find(v, text->data + left_bytes, right_bytes);
        joint = vocab_find(v, text->data, left_bytes + right_bytes);
    }
    if (left == TOKENIZER_NONE || right == TOKENIZER_NONE || joint == TOKENIZER_NONE)
        return engine_fail(err,
                           "tokenizer: merge %zu names a piece that the vocabulary does not "
                           "have; the file is damaged",
                           rank);
    *rule = (merge_rule){(uint32_t)left, (uint32_t)right, (uint32_t)rank, joint};
    return true;
}

bool merges_from_list(merge_table *table, const vocab *v, const tokenizer_spec *spec,
                      engine_error *err)
{
    enum { AHEAD = 16 }; // rules that wait while their slots come from memory
    merge_text text = {0};
    merge_rule waiting[AHEAD];
    const size_t count = spec->merge_count;
    bool ok = reserve(table, count, err);
    for (size_t i = 0; ok && i < count + AHEAD; i++) {
        merge_rule *rule = &waiting[i % AHEAD];
        ok = i < AHEAD || insert(table, *rule, err);
        if (!ok || i >= count)
            continue;
        ok = resolve(v, spec->merges[i], i, &text, rule, err);
        if (ok)
            __builtin_prefetch(&table->slots[first_slot(table, rule->left, rule->right)], 1);
    }
    free(text.data);
    return ok;
}

typedef struct scored_piece {
    float score;
    int32_t id;
} scored_piece;

static int by_score_then_id(const void *a, const void *b)
{
    const scored_piece *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int32_t find_normal(const vocab *v, const char *text, size_t text_bytes)
{
    int32_t id = vocab_find(v, text, text_bytes);
    return id != TOKENIZER_NONE && v->types[id] == TOKENIZER_NORMAL ? id : TOKENIZER_NONE;
}

static bool insert_splits(merge_table *table, const vocab *v, int32_t id, uint32_t rank,
                          engine_error *err)
{
    tokenizer_bytes piece = vocab_piece(v, id);
    if (piece.size_bytes > MAX_SCORED_BYTES)
        return engine_fail(err,
                           "tokenizer: piece %d has %zu bytes, more than %d; the file is "
                           "damaged",
                           (int)id, piece.size_bytes, MAX_SCORED_BYTES);
    for (size_t split = 1; split < piece.size_bytes; split++) {
        if (((unsigned char)piece.data[split] & 0xc0) == 0x80)
            continue;
        int32_t left = find_normal(v, piece.data, split);
        if (left == TOKENIZER_NONE)
            continue;
        int32_t right = find_normal(v, piece.data + split, piece.size_bytes - split);
        merge_rule rule = {(uint32_t)left, (uint32_t)right, rank, id};
        if (right != TOKENIZER_NONE && !insert(table, rule, err))
            return false;
    }
    return true;
}

bool merges_from_scores(merge_table *table, const vocab *v, const float *scores, engine_error *err)
{
    scored_piece *order = engine_alloc(v->count, sizeof *order);
    if (!order)
        return engine_fail(err, "tokenizer: not enough memory for %zu pieces", v->count);
    size_t count = 0;
    bool ok = reserve(table, v->count, err);
    for (size_t id = 0; ok && id < v->count; id++) {
        if (isnan(scores[id]))
            ok = engine_fail(err,
                             "tokenizer: the score of piece %zu is not a number; the file is "
                             "damaged",
                             id);
        else if (v->types[id] == TOKENIZER_NORMAL)
            order[count++] = (scored_piece){scores[id], (int32_t)id};
    }
    if (ok)
        qsort(order, count, sizeof *order, by_score_then_id);
    uint32_t rank = 0;
    for (size_t i = 0; ok && i < count; i++) {
        rank += i > 0 && order[i].score != order[i - 1].score;
        ok = insert_splits(table, v, order[i].id, rank, err);
    }
    free(order);
    return ok;
}

void merges_free(merge_table *table)
{
    free(table->slots);
    *table = (merge_table){0};
}
