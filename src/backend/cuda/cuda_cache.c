// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "src/backend/cuda/cuda_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/base/memory.h"

// What stands before the machine code.
struct header {
    char magic[8];
    uint64_t bytes;
    unsigned char checksum[WEFT__SHA256_BYTES]; // of the machine code
};
static const char magic[8] = "weftgpu1";
static const uint64_t most_bytes = 256u << 20;

enum { PATH_BYTES = 1024 };

static bool folder(char path[PATH_BYTES])
{
    const char *own = getenv("WEFT_CACHE_DIR"), *shared = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int length;
    if (own && *own)
        length = snprintf(path, PATH_BYTES, "%s", own);
    else if (shared && *shared)
        length = snprintf(path, PATH_BYTES, "%s/weft", shared);
    else if (home && *home)
        length = snprintf(path, PATH_BYTES, "%s/.cache/weft", home);
    else
        return false;
    return length > 0 && length < PATH_BYTES - 128; // room for a file's name
}

static bool entry_path(const unsigned char key[WEFT__SHA256_BYTES], char path[PATH_BYTES])
{
    char name[65];
    if (!folder(path))
        return false;
    weft__sha256_text(key, name);
    size_t used = strlen(path);
    snprintf(path + used, PATH_BYTES - used, "/%s.gpu", name);
    return true;
}

static void make_folders(const char *folder_path)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s", folder_path);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    mkdir(path, 0777);
}

static bool transfer(int file, void *data, size_t bytes, bool writing)
{
    for (size_t done = 0; done < bytes;) {
        char *at = (char *)data + done;
        ssize_t part = writing ? write(file, at, bytes - done) : read(file, at, bytes - done);
        if (part < 0 && errno == EINTR)
            continue;
        if (part <= 0)
            return false;
        done += (size_t)part;
    }
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
    if (!transfer(file, &header, sizeof header, false) ||
        memcmp(header.magic, magic, sizeof magic) != 0 || header.bytes == 0 ||
        header.bytes > most_bytes)
        return false;
    image->bytes = (size_t)header.bytes;
    image->data = weft__base_allocate(NULL, image->bytes);
    if (!image->data)
        return false;
    if (transfer(file, image->data, image->bytes, false)) {
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
    char path[PATH_BYTES];
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
    char path[PATH_BYTES], beside[PATH_BYTES + 48];
    struct header header = {.bytes = image->bytes};
    if (!entry_path(key, path))
        return false;
    char *slash = strrchr(path, '/');
    *slash = 0;
    make_folders(path);
    *slash = '/';
    memcpy(header.magic, magic, sizeof magic);
    checksum(image, header.checksum);
    snprintf(beside, sizeof beside, "%s.%ld.%p", path, (long)getpid(), (const void *)image);
    int file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0)
        return false;
    bool written = transfer(file, &header, sizeof header, true) &&
                   transfer(file, image->data, image->bytes, true);
    written = close(file) == 0 && written && rename(beside, path) == 0;
    if (!written)
        unlink(beside);
    return written;
}

void weft__cuda_cache_drop(const unsigned char key[WEFT__SHA256_BYTES])
{
    char path[PATH_BYTES];
    if (entry_path(key, path))
        unlink(path);
}
