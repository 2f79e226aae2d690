// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "engine/safetensors/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/alloc.h"
#include "engine/safetensors/checkpoint_parts.h"

static void release(void *user)
{
    checkpoint_free(user);
}

// --- shards ---------------------------------------------------------------------------------------------

static bool add_shard(checkpoint *c, const char *name, engine_error *err)
{
    char path[CHECKPOINT_MAX_PATH];
    if (strchr(name, '/') || strcmp(name, "..") == 0)
        return engine_fail(
            err, "model.safetensors.index.json names a file outside the folder: '%.64s'", name);
    if (!checkpoint_path(c, name, path, err))
        return false;
    safetensors *shard = safetensors_open(path, err);
    if (shard)
        c->shards[c->shard_count++] = shard;
    return shard != NULL;
}

// The names of the shards, each once, as keys of an object.
static bool add_shards(checkpoint *c, const json_t *index, engine_error *err)
{
    const char *tensor, *name;
    json_t *value, *names = json_object();
    json_object_foreach((json_t *)json_object_get(index, "weight_map"), tensor, value)
    {
        if (json_is_string(value))
            json_object_set_new(names, json_string_value(value), json_true());
    }
    size_t count = json_object_size(names);
    bool good = count > 0 && count <= CHECKPOINT_MAX_SHARDS;
    if (!good)
        engine_fail(err,
                    "model.safetensors.index.json names no files, or too many; download it again");
    c->shards = engine_alloc(count, sizeof *c->shards);
    if (good && !c->shards)
        good = engine_fail(err, "out of memory for %zu files; close other programs", count);
    json_object_foreach(names, name, value)
    {
        good = good && add_shard(c, name, err);
    }
    json_decref(names);
    return good;
}

static bool open_shards(checkpoint *c, engine_error *err)
{
    bool missing;
    json_t *index = checkpoint_json(c, "model.safetensors.index.json", &missing, err);
    if (index) {
        bool good = add_shards(c, index, err);
        json_decref(index);
        return good;
    }
    if (!missing)
        return false;
    c->shards = engine_alloc(1, sizeof *c->shards);
    return c->shards ? add_shard(c, "model.safetensors", err)
                     : engine_fail(err, "out of memory; close other programs");
}

// What the folder has besides text is named, so that nobody looks for it in vain.
static void put_left_out(const checkpoint *c, gguf_output *output)
{
    char text[96];
    if (c->left_out == 0)
        return;
    snprintf(text, sizeof text, "%lld tensors for images or sound", (long long)c->left_out);
    gguf_output_text(output, "weft.left_out", text);
}

// --- the whole ------------------------------------------------------------------------------------------

static bool assemble(checkpoint *c, gguf_output *output, gguf_assembly *a, engine_error *err)
{
    c->config = checkpoint_json(c, "config.json", NULL, err);
    if (!c->config || !checkpoint_read_config(c, output, err) ||
        !checkpoint_read_tokenizer(c, output, err) || !open_shards(c, err) ||
        !checkpoint_read_tensors(c, &a->tensors, &a->tensor_count, err))
        return false;
    put_left_out(c, output);
    a->head = gguf_output_head(output, &a->head_bytes, err);
    return a->head != NULL;
}

gguf_file *checkpoint_open(const char *folder, engine_error *err)
{
    checkpoint *c = engine_alloc(1, sizeof *c);
    gguf_output *output = gguf_output_open(NULL, err);
    gguf_assembly a = {.release = release, .user = c};
    if (!c || !output) {
        engine_fail(err, "out of memory; close other programs");
        gguf_output_close(output);
        free(c);
        return NULL;
    }
    c->folder = folder;
    bool good = assemble(c, output, &a, err);
    gguf_output_close(output);
    c->folder = NULL; // the caller's
    if (good) {
        gguf_file *file = gguf_assemble(&a, err);
        if (!file)
            engine_fail_in(err, folder);
        return file;
    }
    if (err && strncmp(err->text, folder, strlen(folder)) != 0)
        engine_fail_in(err, folder);
    free(a.tensors);
    checkpoint_free(c);
    return NULL;
}

static bool ends_in(const char *path, const char *tail)
{
    size_t length = strlen(path), tail_length = strlen(tail);
    return length >= tail_length && strcmp(path + length - tail_length, tail) == 0;
}

gguf_file *model_file_open(const char *path, engine_error *err)
{
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        char config[CHECKPOINT_MAX_PATH];
        int length = snprintf(config, sizeof config, "%s/config.json", path);
        if (length > 0 && (size_t)length < sizeof config && access(config, F_OK) == 0)
            return checkpoint_open(path, err);
        engine_fail(err,
                    "is a folder without config.json: name a GGUF file, or the folder of a model");
        engine_fail_in(err, path);
        return NULL;
    }
    if (!ends_in(path, ".safetensors") && !ends_in(path, ".json"))
        return gguf_open(path, err);
    const char *slash = strrchr(path, '/');
    char *folder = slash ? engine_copy_text(path, (size_t)(slash - path) + (slash == path))
                         : engine_copy_text(".", 1);
    if (!folder) {
        engine_fail(err, "out of memory; close other programs");
        return NULL;
    }
    gguf_file *file = checkpoint_open(folder, err);
    free(folder);
    return file;
}
