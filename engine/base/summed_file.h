// SPDX-License-Identifier: MIT
#ifndef ENGINE_BASE_SUMMED_FILE_H
#define ENGINE_BASE_SUMMED_FILE_H

// Files that end with a sum (XXH3) of all before it, so that damage shows, and that come into their place whole.

#include <stdbool.h>
#include <stddef.h>

typedef struct summed_file {
    void *file, *hash;
    char *path, *beside; // where it is written until it is whole: a name of this writer's own
    int error;           // of the first failure, by errno; 0: none
} summed_file;

// What is put after a failure goes nowhere; only the end says whether all went well. It is called in any case.
void summed_file_begin(summed_file *file, const char *path);
void summed_file_put(summed_file *file, const void *data, size_t bytes);
// Not to be kept, or after a failure, which errno says then: it is as if it had not begun, false.
bool summed_file_end(summed_file *file, bool keep);

// The bytes of a file in front of its sum; 0: the sum is not theirs.
size_t summed_file_check(const void *data, size_t bytes);

#endif
