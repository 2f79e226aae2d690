// SPDX-License-Identifier: MIT
// Opens a model in up to three files. The first byte says how many; two bytes each (low first) are the lengths
// of all files but the last, which has the rest. If the reader accepts them, everything in them is used.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/gguf_touch.h"
#include "tests/support/scratch.h"

enum { MOST_PARTS = 3, PATH_BYTES = SCRATCH_PATH_BYTES + 32 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static char folder[SCRATCH_PATH_BYTES];

static void remove_folder(void)
{
    scratch_remove(folder);
}

static const char *path_of(int number, int count)
{
    static char path[PATH_BYTES + 32];
    snprintf(path, sizeof path, "%s/m-%05d-of-%05d.gguf", folder, number + 1, count);
    return path;
}

// The files lie in memory: the folder has links to them, by the names that each number of parts gives.
static void make_files(int files[MOST_PARTS])
{
    char target[64];
    scratch_folder(folder);
    atexit(remove_folder);
    for (int n = 0; n < MOST_PARTS; n++) {
        files[n] = memfd_create("part", MFD_CLOEXEC);
        snprintf(target, sizeof target, "/proc/self/fd/%d", files[n]);
        for (int count = n + 1; count <= MOST_PARTS; count++)
            if (files[n] < 0 || symlink(target, path_of(n, count)) != 0)
                abort();
    }
}

static void write_file(int file, const uint8_t *data, size_t bytes)
{
    if (ftruncate(file, 0) != 0 || pwrite(file, data, bytes, 0) != (ssize_t)bytes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static int made, files[MOST_PARTS];
    if (!made++)
        make_files(files);
    const int count = size_bytes ? 1 + data[0] % MOST_PARTS : 1;
    const size_t lengths = 2 * (size_t)(count - 1);
    if (size_bytes < 1 + lengths)
        return 0;
    const uint8_t *at = data + 1 + lengths;
    size_t left = size_bytes - 1 - lengths;
    for (int n = 0; n < count; n++) {
        const uint8_t *two = data + 1 + 2 * n;
        size_t bytes = n == count - 1 ? left : (size_t)(two[0] | two[1] << 8);
        bytes = bytes < left ? bytes : left;
        write_file(files[n], at, bytes);
        at += bytes;
        left -= bytes;
    }
    engine_error err = {""};
    gguf_file *file = gguf_open(path_of(0, count), &err);
    if (file != NULL)
        gguf_touch(file);
    else if (err.text[0] == '\0' || strchr(err.text, '\n') != NULL)
        abort(); // a refusal gives its reason in one line
    gguf_close(file);
    return 0;
}
