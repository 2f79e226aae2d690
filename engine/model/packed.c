// SPDX-License-Identifier: MIT
// A file of packed weights:
//
//     packed_head, zeros up to HEAD_BYTES | the matrices as they lie in memory | the sum of all (summed_file.h)
#include "engine/model/packed.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <weft/weft.h>

#include "engine/base/alloc.h"
#include "engine/base/file_map.h"
#include "engine/base/summed_file.h"

static const char magic[16] = "weft packed 1\n";

enum {
    HEAD_BYTES = 4096, // so that matrices begin at a page
    SAMPLES = 4,       // of a matrix, from its first byte to its last
    SAMPLE_BYTES = 4096
};

typedef struct packed_head {
    char magic[16];
    uint64_t identity, bytes;
} packed_head;

_Static_assert(sizeof(packed_head) == 32, "the head of a file has no gaps");

struct packed_weights {
    packed_weights *next;
    uint64_t shapes, places, identity;
    size_t bytes;
    file_map map;
    char *data;
    char *path; // of the file, NULL: none
    int32_t holders;
    bool complete; // else the one holder has the lock
};

struct packed_store {
    pthread_mutex_t lock;
    packed_weights *first;
};

packed_store *packed_store_make(void)
{
    packed_store *store = engine_alloc(1, sizeof *store);
    if (store && pthread_mutex_init(&store->lock, NULL) != 0) {
        free(store);
        store = NULL;
    }
    return store;
}

void packed_store_free(packed_store *store)
{
    if (!store)
        return;
    pthread_mutex_destroy(&store->lock);
    free(store);
}

static void mix(uint64_t *hash, const void *data, size_t bytes)
{
    *hash = XXH3_64bits_withSeed(data, bytes, *hash);
}

void packed_wish_add(packed_wish *wish, const model_tensor *matrix, const char *layout)
{
    const uint64_t shape[] = {(uint64_t)matrix->dtype, (uint64_t)matrix->rows,
                              (uint64_t)matrix->cols};
    const uintptr_t place = (uintptr_t)matrix->data;
    const size_t bytes =
        (size_t)weft_dtype_row_bytes(matrix->dtype, matrix->cols) * (size_t)matrix->rows;
    const size_t piece = bytes < SAMPLE_BYTES ? bytes : SAMPLE_BYTES;
    mix(&wish->shapes, shape, sizeof shape);
    mix(&wish->shapes, layout, strlen(layout));
    mix(&wish->places, &place, sizeof place);
    for (size_t i = 0; i < SAMPLES && wish->folder; i++)
        mix(&wish->contents, (const char *)matrix->data + (bytes - piece) / (SAMPLES - 1) * i,
            piece);
}

// What a file must be of.
static uint64_t identity_of(const packed_wish *wish)
{
    const uint64_t numbers[] = {wish->stamp, wish->shapes, wish->contents, wish->bytes};
    uint64_t hash = XXH3_64bits(numbers, sizeof numbers);
    mix(&hash, weft_version(), strlen(weft_version()));
    return hash;
}

static char *path_of(const packed_wish *wish)
{
    uint64_t hash = wish->shapes;
    mix(&hash, wish->name, strlen(wish->name));
    const size_t room = strlen(wish->folder) + 64;
    char *path = engine_alloc(room, 1);
    if (path)
        snprintf(path, room, "%s/%016llx.weftpack", wish->folder, (unsigned long long)hash);
    return path;
}

static bool is_head_of(const packed_head *head, const packed_weights *weights)
{
    return memcmp(head->magic, magic, sizeof magic) == 0 && head->identity == weights->identity &&
           head->bytes == weights->bytes;
}

// A file that is missing, of something else or damaged is none: it will be written anew.
static bool find_file(packed_weights *weights)
{
    packed_head head;
    if (!weights->path || !file_map_open(&weights->map, weights->path, NULL))
        return false;
    const char *data = weights->map.data;
    const size_t size_bytes = weights->map.size_bytes;
    if (size_bytes > HEAD_BYTES) {
        memcpy(&head, data, sizeof head);
        weights->data = (char *)data + HEAD_BYTES;
        if (is_head_of(&head, weights) &&
            summed_file_check(data, size_bytes) == HEAD_BYTES + weights->bytes)
            return true;
    }
    file_map_close(&weights->map);
    return false;
}

static bool fill_in(packed_weights *weights, const packed_wish *wish, bool *found,
                    engine_error *err)
{
    weights->shapes = wish->shapes;
    weights->places = wish->places;
    weights->bytes = wish->bytes;
    weights->identity = identity_of(wish);
    weights->path = wish->folder ? path_of(wish) : NULL;
    if (wish->folder && !weights->path)
        return engine_fail(err, "not enough memory for packed weights");
    *found = find_file(weights);
    if (wish->folder && !*found)
        mkdir(wish->folder, 0777); // where that fails, so does writing the file, which says why
    return *found || file_map_memory(&weights->map, weights->bytes, &weights->data, err);
}

static void unlink_weights(packed_store *store, packed_weights *weights)
{
    packed_weights **at = &store->first;
    while (*at && *at != weights)
        at = &(*at)->next;
    if (*at)
        *at = weights->next;
    file_map_close(&weights->map);
    free(weights->path);
    free(weights);
}

static bool is_wished(const packed_weights *weights, const packed_wish *wish)
{
    return weights->shapes == wish->shapes && weights->places == wish->places &&
           weights->bytes == wish->bytes;
}

packed_weights *packed_take(packed_store *store, const packed_wish *wish, bool *found,
                            engine_error *err)
{
    pthread_mutex_lock(&store->lock);
    packed_weights *weights = store->first;
    while (weights && !is_wished(weights, wish))
        weights = weights->next;
    *found = weights != NULL;
    if (!weights) {
        weights = engine_alloc(1, sizeof *weights);
        if (!weights) {
            engine_fail(err, "not enough memory for packed weights");
        } else if (!fill_in(weights, wish, found, err)) {
            unlink_weights(store, weights);
            weights = NULL;
        } else {
            weights->next = store->first;
            store->first = weights;
            weights->complete = *found;
        }
    }
    if (weights)
        weights->holders++;
    if (!weights || *found)
        pthread_mutex_unlock(&store->lock);
    return weights;
}

static bool write_file(const packed_weights *weights, engine_error *err)
{
    static const char zeros[HEAD_BYTES];
    packed_head head = {.identity = weights->identity, .bytes = weights->bytes};
    summed_file file;
    memcpy(head.magic, magic, sizeof magic);
    errno = 0;
    summed_file_begin(&file, weights->path);
    summed_file_put(&file, &head, sizeof head);
    summed_file_put(&file, zeros, HEAD_BYTES - sizeof head);
    summed_file_put(&file, weights->data, weights->bytes);
    if (summed_file_end(&file, true))
        return true;
    engine_fail(err, "packed weights cannot be kept: %s; choose another folder", strerror(errno));
    return engine_fail_in(err, weights->path);
}

bool packed_complete(packed_store *store, packed_weights *weights, engine_error *err)
{
    const bool kept = !weights->path || write_file(weights, err);
    weights->complete = true;
    pthread_mutex_unlock(&store->lock);
    return kept;
}

void packed_release(packed_store *store, packed_weights *weights)
{
    if (!weights)
        return;
    if (weights->complete)
        pthread_mutex_lock(&store->lock);
    if (--weights->holders == 0)
        unlink_weights(store, weights);
    pthread_mutex_unlock(&store->lock);
}

char *packed_data(const packed_weights *weights)
{
    return weights->data;
}
