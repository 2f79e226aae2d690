// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "src/backend/cuda/cuda_cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "src/base/file.h"
#include "src/base/memory.h"

// What stands before the machine code.
struct header {
    char magic[8];
    uint64_t bytes;
    unsigned char checksum[WEFT__SHA256_BYTES]; // of the machine code
};
static const char magic[8] = "weftgpu1";
static const uint64_t most_bytes = 256u << 20;

static bool entry_path(const unsigned char key[WEFT__SHA256_BYTES], char path[WEFT__PATH_BYTES])
{
    char name[65];
    if (!weft__file_cache_folder(path))
        return false;
    weft__sha256_text(key, name);
    size_t used = strlen(path);
    snprintf(path + used, WEFT__PATH_BYTES - used, "/%s.gpu", name);
    return true;
}

static void checksum(const struct weft__cuda_image *image, unsigned char sum[WEFT__SHA256_BYTES])
{
    struct weft__sha256 sha;
    weft__sha256_begin(&sha);
    weft__sha256_add(&sha, image->data, image->bytes);
    weft__sha256_end(&sha, sum);
}

static bool load(int file, struct weft__cuda_image *image)
{
    struct header header;
    unsigned char sum[WEFT__SHA256_BYTES];
    if (!weft__file_transfer(file, &header, sizeof header, false) ||
        memcmp(header.magic, magic, sizeof magic) != 0 || header.bytes == 0 ||
        header.bytes > most_bytes)
        return false;
    image->bytes = (size_t)header.bytes;
    image->data = weft__base_allocate(NULL, image->bytes);
    if (!image->data)
        return false;
    if (weft__file_transfer(file, image->data, image->bytes, false)) {
        checksum(image, sum);
        if (memcmp(sum, header.checksum, sizeof sum) == 0)
            return true;
    }
    weft__base_release(NULL, image->data);
    return false;
}

bool weft__cuda_cache_load(const unsigned char key[WEFT__SHA256_BYTES],
                           struct weft__cuda_image *image)
{
    char path[WEFT__PATH_BYTES];
    if (!entry_path(key, path))
        return false;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    bool loaded = load(file, image);
    close(file);
    return loaded;
}

bool weft__cuda_cache_store(const unsigned char key[WEFT__SHA256_BYTES],
                            const struct weft__cuda_image *image)
{
    char path[WEFT__PATH_BYTES];
    struct header header = {.bytes = image->bytes};
    const struct weft__file_part parts[] = {{&header, sizeof header}, {image->data, image->bytes}};
    if (!entry_path(key, path))
        return false;
    memcpy(header.magic, magic, sizeof magic);
    checksum(image, header.checksum);
    return weft__file_write(path, parts, 2);
}

void weft__cuda_cache_drop(const unsigned char key[WEFT__SHA256_BYTES])
{
    char path[WEFT__PATH_BYTES];
    if (entry_path(key, path))
        unlink(path);
}
