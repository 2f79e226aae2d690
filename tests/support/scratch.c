// SPDX-License-Identifier: MIT
#define _XOPEN_SOURCE 700
#include "tests/support/scratch.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Noreturn void give_up(const char *path)
{
    perror(path);
    exit(1);
}

static void name_it(char path[SCRATCH_PATH_BYTES])
{
    const char *below = getenv("TMPDIR");
    int length = snprintf(path, SCRATCH_PATH_BYTES, "%s/weft-test-XXXXXX",
                          below && *below ? below : P_tmpdir);
    if (length >= SCRATCH_PATH_BYTES) {
        fprintf(stderr, "TMPDIR is too long for a test\n");
        exit(1);
    }
}

void scratch_file(char path[SCRATCH_PATH_BYTES], const void *bytes, size_t size_bytes)
{
    name_it(path);
    int descriptor = mkstemp(path);
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
    if (!file || (size_bytes && fwrite(bytes, 1, size_bytes, file) != size_bytes) ||
        fclose(file) != 0)
        give_up(path);
}

void scratch_folder(char path[SCRATCH_PATH_BYTES])
{
    name_it(path);
    if (!mkdtemp(path))
        give_up(path);
}

char *scratch_read(const char *path, size_t *size_bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        give_up(path);
    const long end = ftell(file);
    char *bytes = end < 0 ? NULL : calloc((size_t)end + 1, 1);
    rewind(file);
    if (!bytes || fread(bytes, 1, (size_t)end, file) != (size_t)end)
        give_up(path);
    fclose(file);
    *size_bytes = (size_t)end;
    return bytes;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status, (void)type, (void)at;
    return remove(path);
}

int scratch_remove(const char *path)
{
    enum { MOST_OPEN = 8 };
    if (nftw(path, remove_one, MOST_OPEN, FTW_DEPTH | FTW_PHYS) == 0)
        return 0;
    perror(path);
    return -1;
}
