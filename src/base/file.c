// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "src/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool weft__file_cache_folder(char path[WEFT__PATH_BYTES])
{
    const char *own = getenv("WEFT_CACHE_DIR"), *shared = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int length;
    if (own && *own)
        length = snprintf(path, WEFT__PATH_BYTES, "%s", own);
    else if (shared && *shared)
        length = snprintf(path, WEFT__PATH_BYTES, "%s/weft", shared);
    else if (home && *home)
        length = snprintf(path, WEFT__PATH_BYTES, "%s/.cache/weft", home);
    else
        return false;
    return length > 0 && length < WEFT__PATH_BYTES - 128;
}

void weft__file_make_folders(const char *folder)
{
    char path[WEFT__PATH_BYTES];
    snprintf(path, sizeof path, "%s", folder);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    mkdir(path, 0777);
}

bool weft__file_transfer(int file, void *data, size_t bytes, bool writing)
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

int weft__file_read(const char *path, char *data, size_t most, size_t *bytes)
{
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe must not keep us waiting
    if (file < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
    bool fine = fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size >= 0 &&
                (size_t)about.st_size <= most &&
                weft__file_transfer(file, data, (size_t)about.st_size, false);
    close(file);
    if (fine)
        *bytes = (size_t)about.st_size;
    return fine ? 1 : -1;
}

bool weft__file_write(const char *path, const struct weft__file_part *parts, int count)
{
    static _Atomic int number; // of the writers of this process
    char folder[WEFT__PATH_BYTES], beside[WEFT__PATH_BYTES + 48];
    struct stat about;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) // a device would be gone
        return false;
    if (snprintf(folder, sizeof folder, "%s", path) >= (int)sizeof folder)
        return false;
    char *slash = strrchr(folder, '/');
    if (slash && slash > folder) {
        *slash = 0;
        weft__file_make_folders(folder);
    }
    snprintf(beside, sizeof beside, "%s.%ld.%d", path, (long)getpid(),
             atomic_fetch_add(&number, 1));
    int file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0)
        return false;
    bool written = true;
    for (int i = 0; written && i < count; i++)
        written = weft__file_transfer(file, (void *)(size_t)parts[i].data, parts[i].bytes, true);
    written = close(file) == 0 && written && rename(beside, path) == 0;
    if (!written)
        unlink(beside);
    return written;
}
