// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/tokenizer/tokenizer.h"

bool tokenizer_ids_push(tokenizer_ids *list, int32_t id)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 64;
        int32_t *ids = engine_realloc(list->ids, capacity, sizeof *ids);
        if (!ids)
            return false;
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->count++] = id;
    return true;
}

void tokenizer_ids_free(tokenizer_ids *list)
{
    free(list->ids);
    *list = (tokenizer_ids){0};
}

bool tokenizer_text_append(tokenizer_text *text, const char *data, size_t size_bytes)
{
    size_t needed;
    if (__builtin_add_overflow(text->size_bytes, size_bytes, &needed) || needed == SIZE_MAX)
        return false;
    if (needed >= text->capacity) {
        size_t doubled = text->capacity <= SIZE_MAX / 2 ? text->capacity * 2 : SIZE_MAX;
        size_t capacity = needed + 1 > doubled ? needed + 1 : doubled;
        char *grown = engine_realloc(text->data, capacity < 32 ? 32 : capacity, 1);
        if (!grown)
            return false;
        text->data = grown;
        text->capacity = capacity < 32 ? 32 : capacity;
    }
    if (size_bytes > 0)
        memcpy(text->data + text->size_bytes, data, size_bytes);
    text->size_bytes = needed;
    text->data[needed] = '\0';
    return true;
}

void tokenizer_text_free(tokenizer_text *text)
{
    free(text->data);
    *text = (tokenizer_text){0};
}
