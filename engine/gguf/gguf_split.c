// SPDX-License-Identifier: MIT
// Models in several files, as llama.cpp's gguf-split writes them.
//
//      NAME-00001-of-00003.gguf     metadata of the model, some tensors (or none)
//      NAME-00002-of-00003.gguf     tensors; "split.no" = 1
//      NAME-00003-of-00003.gguf     tensors; "split.no" = 2
//
// Every file is a GGUF file of its own with "split.count" and "split.no"; the first one says in
// "split.tensors.count" how many tensors there are in all.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/gguf/gguf_file.h"

enum {
    MAX_PARTS = 4096, // real models have fewer than 100
    TAIL_BYTES = sizeof "-00001-of-00003.gguf" - 1,
};

static bool read_place(const gguf_file *file, uint32_t *number, uint32_t *count, engine_error *err)
{
    *number = 0;
    *count = 1;
    if (!gguf_wanted(file, gguf_get_u32(file, "split.count", count), "split.count", "an integer",
                     err))
        return false;
    if (*count <= 1) {
        *count = 1;
        return true;
    }
    if (!gguf_needed(file, gguf_get_u32(file, "split.no", number), "split.no", "an integer", err))
        return false;
    if (*count > MAX_PARTS || *number >= *count)
        return engine_fail(err,
                           "says that it is part %u of %u; the file is damaged: download or "
                           "split it again",
                           *number + 1, *count);
    return true;
}

static gguf_file *open_part(const char *path, uint32_t wanted, uint32_t wanted_count,
                            engine_error *err)
{
    uint32_t number, count;
    gguf_file *part = gguf_open_one(path, err);
    if (!part)
        return NULL;
    if (!read_place(part, &number, &count, err)) {
        engine_fail_in(err, path);
    } else if (number != wanted || count != wanted_count) {
        engine_fail(err, "is part %u of %u, not %u of %u as its name says; download it again",
                    number + 1, count, wanted + 1, wanted_count);
        engine_fail_in(err, path);
    } else {
        return part;
    }
    gguf_close(part);
    return NULL;
}

static bool add_tensors(gguf_file *whole, const gguf_file *part, engine_error *err)
{
    for (size_t i = 0; i < part->tensor_count; i++) {
        gguf_tensor *to = &whole->tensors[whole->tensor_count];
        *to = part->tensors[i];
        if (!name_table_insert(&whole->tensor_names, to->name, strlen(to->name),
                               whole->tensor_count))
            return engine_fail(err, "tensor '%s' appears in two parts; download them again",
                               to->name);
        whole->tensor_count++;
    }
    return true;
}

// Gathers the tensors of all parts in the first one.
static bool gather(gguf_file *whole, size_t total, engine_error *err)
{
    gguf_tensor *own = whole->tensors;
    gguf_file first = *whole; // its tensors, while the list is made anew
    name_table_free(&whole->tensor_names);
    whole->tensor_count = 0;
    whole->tensors = engine_alloc(total, sizeof *whole->tensors);
    bool good = whole->tensors && name_table_init(&whole->tensor_names, total);
    if (!good)
        engine_fail(err, "out of memory for %zu tensors; close other programs", total);
    good = good && add_tensors(whole, &first, err);
    for (uint32_t n = 1; good && n < whole->part_count; n++)
        good = add_tensors(whole, whole->parts[n], err);
    free(own);
    return good;
}

static bool join(gguf_file *first, const char *path, uint32_t count, engine_error *err)
{
    size_t length = strlen(path), total = first->tensor_count;
    char *name = engine_alloc(length + 1, 1);
    first->parts = engine_alloc(count, sizeof *first->parts);
    if (!name || !first->parts) {
        free(name);
        engine_fail(err, "out of memory for %u parts; close other programs", count);
        return engine_fail_in(err, path);
    }
    first->part_count = count;
    bool good = true;
    for (uint32_t n = 1; good && n < count; n++) {
        snprintf(name, length + 1, "%.*s-%05u-of-%05u.gguf", (int)(length - TAIL_BYTES), path,
                 n + 1, count);
        first->parts[n] = open_part(name, n, count, err);
        good = first->parts[n] != NULL;
        if (good) {
            total += first->parts[n]->tensor_count;
            first->size_bytes += first->parts[n]->size_bytes;
        }
    }
    free(name);
    return good && (gather(first, total, err) || engine_fail_in(err, path));
}

static bool check_total(const gguf_file *file, engine_error *err)
{
    uint32_t total;
    gguf_lookup lookup = gguf_get_u32(file, "split.tensors.count", &total);
    if (lookup == GGUF_MISSING)
        return true;
    if (!gguf_needed(file, lookup, "split.tensors.count", "an integer", err))
        return false;
    if (total == file->tensor_count)
        return true;
    return engine_fail(
        err,
        "its parts have %zu tensors, not %u as the first one says: one of them is of "
        "another model; download them again",
        file->tensor_count, total);
}

// Whether the others can be found by this path.
static bool check_name(const char *path, uint32_t number, uint32_t count, engine_error *err)
{
    char tail[TAIL_BYTES + 16];
    size_t length = strlen(path);
    snprintf(tail, sizeof tail, "-%05u-of-%05u.gguf", number + 1, count);
    if (length < TAIL_BYTES || strcmp(path + length - TAIL_BYTES, tail) != 0)
        return engine_fail(err,
                           "is part %u of %u of a model, but its name does not end in %s, so the "
                           "others cannot be found: give it its name back",
                           number + 1, count, tail);
    if (number == 0)
        return true;
    return engine_fail(err,
                       "is part %u of %u of a model: name the first one, which ends in "
                       "-00001-of-%05u.gguf",
                       number + 1, count, count);
}

gguf_file *gguf_open(const char *path, engine_error *err)
{
    uint32_t number, count;
    gguf_file *file = gguf_open_one(path, err);
    if (!file)
        return NULL;
    if (!read_place(file, &number, &count, err) ||
        (count > 1 && !check_name(path, number, count, err)))
        engine_fail_in(err, path);
    else if (count == 1 || (join(file, path, count, err) &&
                            (check_total(file, err) || engine_fail_in(err, path))))
        return file;
    gguf_close(file);
    return NULL;
}
