// SPDX-License-Identifier: MIT
#include "engine/chat/jinja/jinja_box.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"

enum {
    BLOCK_BYTES = 1 << 16,
    DEFAULT_STEPS = 20000000,
};
static const size_t DEFAULT_MEMORY_BYTES = (size_t)64 << 20;

jinja_box *jinja_box_open(const jinja_limits *limits)
{
    jinja_box *box = engine_alloc(1, sizeof *box);
    if (!box)
        return NULL;
    box->left_bytes = limits && limits->memory_bytes ? limits->memory_bytes : DEFAULT_MEMORY_BYTES;
    box->left_steps = limits && limits->steps ? limits->steps : DEFAULT_STEPS;
    box->time_text = limits ? limits->time_text : NULL;
    return box;
}

void jinja_box_close(jinja_box *box)
{
    if (!box)
        return;
    for (jinja_block *block = box->blocks; block;) {
        jinja_block *next = block->next;
        free(block);
        block = next;
    }
    free(box);
}

jinja_value jinja_refuse(jinja_box *box, const char *format, ...)
{
    char text[sizeof box->error.text];
    va_list arguments;
    if (!box->failed) {
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        engine_fail(&box->error, "%s", text);
        box->failed = true;
    }
    return (jinja_value){.kind = JINJA_UNDEFINED};
}

bool jinja_step(jinja_box *box, size_t steps)
{
    if (box->failed)
        return false;
    if (steps <= (uint64_t)box->left_steps) {
        box->left_steps -= (int64_t)steps;
        return true;
    }
    jinja_refuse(box, "the template runs too long: it may be damaged or hostile");
    return false;
}

static jinja_block *add_block(jinja_box *box, size_t need)
{
    size_t size = need > BLOCK_BYTES ? need : BLOCK_BYTES;
    if (size > box->left_bytes)
        size = need;
    jinja_block *block = size <= box->left_bytes ? engine_alloc(1, sizeof *block + size) : NULL;
    if (!block) {
        jinja_refuse(box, "the template needs too much memory: it may be damaged or hostile");
        return NULL;
    }
    box->left_bytes -= size;
    block->size = size;
    block->next = box->blocks;
    box->blocks = block;
    return block;
}

void *jinja_take(jinja_box *box, size_t count, size_t size)
{
    size_t bytes;
    if (box->failed)
        return NULL;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4) {
        jinja_refuse(box, "the template needs too much memory: it may be damaged or hostile");
        return NULL;
    }
    bytes = (bytes + 15) / 16 * 16;
    jinja_block *block = box->blocks;
    if (!block || block->size - block->used < bytes)
        block = add_block(box, bytes);
    if (!block)
        return NULL;
    void *memory = block->bytes + block->used;
    block->used += bytes;
    return memory;
}

// --- making values --------------------------------------------------------------------------------------

jinja_value jinja_none(void)
{
    return (jinja_value){.kind = JINJA_NONE};
}

jinja_value jinja_bool(bool value)
{
    return (jinja_value){.kind = JINJA_BOOL, .boolean = value};
}

jinja_value jinja_int(int64_t value)
{
    return (jinja_value){.kind = JINJA_INT, .integer = value};
}

jinja_value jinja_float(double value)
{
    return (jinja_value){.kind = JINJA_FLOAT, .real = value};
}

jinja_value jinja_of_text(jinja_box *box, jinja_text text)
{
    jinja_text *kept = jinja_take(box, 1, sizeof *kept);
    if (!kept)
        return (jinja_value){.kind = JINJA_UNDEFINED};
    *kept = text;
    return (jinja_value){.kind = JINJA_TEXT, .text = kept};
}

jinja_value jinja_text_from(jinja_box *box, unsigned char source, const char *data,
                            size_t size_bytes)
{
    char *copy = jinja_take(box, size_bytes + 1, 1);
    if (!copy)
        return (jinja_value){.kind = JINJA_UNDEFINED};
    memcpy(copy, data, size_bytes);
    return jinja_of_text(box,
                         (jinja_text){.data = copy, .size_bytes = size_bytes, .source = source});
}

jinja_value jinja_literal(jinja_box *box, const char *text)
{
    return jinja_of_text(box, (jinja_text){.data = text, .size_bytes = strlen(text)});
}

jinja_value jinja_new_list(jinja_box *box)
{
    jinja_list *list = jinja_take(box, 1, sizeof *list);
    return list ? (jinja_value){.kind = JINJA_LIST, .list = list}
                : (jinja_value){.kind = JINJA_UNDEFINED};
}

jinja_value jinja_new_dict(jinja_box *box)
{
    jinja_dict_data *dict = jinja_take(box, 1, sizeof *dict);
    return dict ? (jinja_value){.kind = JINJA_DICT, .dict = dict}
                : (jinja_value){.kind = JINJA_UNDEFINED};
}

void jinja_append(jinja_box *box, jinja_value list, jinja_value item)
{
    jinja_list *l = list.list;
    if (list.kind != JINJA_LIST || !jinja_step(box, 1))
        return;
    if (l->count == l->capacity) {
        size_t capacity = l->capacity ? 2 * l->capacity : 8;
        jinja_value *items = jinja_take(box, capacity, sizeof *items);
        if (!items)
            return;
        if (l->count)
            memcpy(items, l->items, l->count * sizeof *items);
        l->items = items;
        l->capacity = capacity;
    }
    l->items[l->count++] = item;
}
