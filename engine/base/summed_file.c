// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include "engine/base/summed_file.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/alloc.h"
#include "engine/base/path.h"

void summed_file_begin(summed_file *file, const char *path)
{
    static _Atomic int number; // of the writers of this process
    enum { SUFFIX_BYTES = 48 };
    size_t size = strlen(path);
    *file = (summed_file){.hash = XXH3_createState(),
                          .path = engine_copy_text(path, size),
                          .beside = engine_alloc(size + SUFFIX_BYTES, 1)};
    if (!file->path || !file->beside || !file->hash || XXH3_64bits_reset(file->hash) != XXH_OK) {
        file->error = ENOMEM;
        return;
    }
    snprintf(file->beside, size + SUFFIX_BYTES, "%s.%ld.%d", path, (long)getpid(),
             atomic_fetch_add(&number, 1));
    file->file = path_takes_a_file(path) ? fopen(file->beside, "wbx") : NULL;
    file->error = file->file ? 0 : errno;
}

void summed_file_put(summed_file *file, const void *data, size_t bytes)
{
    if (!file->error && (XXH3_64bits_update(file->hash, data, bytes) != XXH_OK ||
                         fwrite(data, 1, bytes, file->file) != bytes))
        file->error = errno ? errno : EIO;
}

bool summed_file_end(summed_file *file, bool keep)
{
    bool fine = keep && !file->error;
    errno = 0;
    if (fine) {
        uint64_t sum = XXH3_64bits_digest(file->hash);
        fine = fwrite(&sum, sizeof sum, 1, file->file) == 1;
    }
    if (file->file)
        fine = fclose(file->file) == 0 && fine && rename(file->beside, file->path) == 0;
    const int error = file->error ? file->error : errno ? errno : EIO;
    if (file->file && !fine)
        remove(file->beside);
    XXH3_freeState(file->hash);
    free(file->path);
    free(file->beside);
    *file = (summed_file){0};
    errno = error;
    return fine;
}

size_t summed_file_check(const void *data, size_t bytes)
{
    uint64_t sum;
    if (bytes < sizeof sum)
        return 0;
    bytes -= sizeof sum;
    memcpy(&sum, (const char *)data + bytes, sizeof sum);
    return XXH3_64bits(data, bytes) == sum ? bytes : 0;
}
