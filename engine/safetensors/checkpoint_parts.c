// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "engine/safetensors/checkpoint_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/base/file_map.h"

void checkpoint_free(checkpoint *c)
{
    for (size_t i = 0; i < c->shard_count; i++)
        safetensors_close(c->shards[i]);
    for (size_t i = 0; i < c->copy_count; i++)
        free(c->copies[i]);
    json_decref(c->config);
    free(c->shards);
    free(c->copies);
    free(c);
}

void *checkpoint_alloc(checkpoint *c, size_t size_bytes)
{
    if (c->copy_count == c->copy_room) {
        size_t room = c->copy_room * 2 + 64;
        void **grown = engine_realloc(c->copies, room, sizeof *grown);
        if (!grown)
            return NULL;
        c->copies = grown;
        c->copy_room = room;
    }
    void *copy = engine_alloc(size_bytes, 1);
    if (copy)
        c->copies[c->copy_count++] = copy;
    return copy;
}

void checkpoint_drop(checkpoint *c, size_t first, size_t end)
{
    if (first == end) // there may be none at all
        return;
    for (size_t i = first; i < end; i++)
        free(c->copies[i]);
    memmove(c->copies + first, c->copies + end, (c->copy_count - end) * sizeof *c->copies);
    c->copy_count -= end - first;
}

const void *checkpoint_aligned(checkpoint *c, const safetensor *from, size_t alignment)
{
    if ((uintptr_t)from->data % alignment == 0)
        return from->data;
    void *copy = checkpoint_alloc(c, from->size_bytes);
    if (copy)
        memcpy(copy, from->data, from->size_bytes);
    return copy;
}

bool checkpoint_path(const checkpoint *c, const char *name, char path[CHECKPOINT_MAX_PATH],
                     engine_error *err)
{
    int length = snprintf(path, CHECKPOINT_MAX_PATH, "%s/%s", c->folder, name);
    return (length > 0 && length < CHECKPOINT_MAX_PATH) ||
           engine_fail(err, "the path of %.64s is too long", name);
}

json_t *checkpoint_json(const checkpoint *c, const char *name, bool *missing, engine_error *err)
{
    char path[CHECKPOINT_MAX_PATH];
    file_map map;
    json_error_t where;
    if (!checkpoint_path(c, name, path, err))
        return NULL;
    if (missing)
        *missing = access(path, F_OK) != 0;
    if ((missing && *missing) || !file_map_open(&map, path, err))
        return NULL;
    json_t *json = json_loadb(map.data, map.size_bytes, 0, &where);
    // transformers writes 1000000000000000019884624838656 for a length that nobody set.
    if (!json && json_error_code(&where) == json_error_numeric_overflow)
        json = json_loadb(map.data, map.size_bytes, JSON_DECODE_INT_AS_REAL, &where);
    file_map_close(&map);
    if (json_is_object(json))
        return json;
    if (json)
        engine_fail(err, "is no JSON object; download it again");
    else
        engine_fail(err, "is no JSON: line %d, %.100s; download it again", where.line, where.text);
    engine_fail_in(err, path);
    json_decref(json);
    return NULL;
}

char *checkpoint_text(const checkpoint *c, const char *name)
{
    char path[CHECKPOINT_MAX_PATH];
    file_map map;
    if (!checkpoint_path(c, name, path, NULL) || !file_map_open(&map, path, NULL))
        return NULL;
    char *text = engine_copy_text(map.data, map.size_bytes);
    file_map_close(&map);
    return text;
}
