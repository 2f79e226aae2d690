// SPDX-License-Identifier: MIT
#ifndef TESTS_SUPPORT_SCRATCH_H
#define TESTS_SUPPORT_SCRATCH_H

// Files and folders for the length of a test, below $TMPDIR (P_tmpdir where that is not set) and never in the
// tree, where a test that is killed would leave them. Without cmocka: fuzz targets use it too.

#include <stddef.h>

enum { SCRATCH_PATH_BYTES = 256 };

// A new file of these bytes (NULL, 0: empty), a new empty folder. They end the program if that fails.
void scratch_file(char path[SCRATCH_PATH_BYTES], const void *bytes, size_t size_bytes);
void scratch_folder(char path[SCRATCH_PATH_BYTES]);

// All bytes of a file and a NUL behind them, to be released with free(). Ends the program if it cannot be read.
char *scratch_read(const char *path, size_t *size_bytes);

// The file, or the folder with all that is in it. Returns 0, as a tear-down of cmocka does.
int scratch_remove(const char *path);

#endif
