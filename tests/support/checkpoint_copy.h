// SPDX-License-Identifier: MIT
#ifndef TESTS_SUPPORT_CHECKPOINT_COPY_H
#define TESTS_SUPPORT_CHECKPOINT_COPY_H

// The model folders of tests/golden/checkpoints/, and copies of them with a few bytes changed.

#include "tests/support/golden.h"
#include "tests/support/scratch.h"

enum { CHECKPOINT_PATH_BYTES = SCRATCH_PATH_BYTES + 64 };

// The folder of a model; the text stays until the fourth call after this one.
const char *checkpoint_golden_folder(const char *model);

golden *checkpoint_golden(const char *model);

typedef struct checkpoint_copy {
    char folder[SCRATCH_PATH_BYTES];
    const char *model; // whose files are copied
} checkpoint_copy;

// A new folder with all files of the model. These end the cmocka test on failure.
void checkpoint_copy_open(checkpoint_copy *copy, const char *model);
void checkpoint_copy_close(checkpoint_copy *copy);

void checkpoint_copy_path(const checkpoint_copy *copy, const char *name,
                          char path[CHECKPOINT_PATH_BYTES]);

// Writes a file of the folder anew.
void checkpoint_copy_write(const checkpoint_copy *copy, const char *name, const void *bytes,
                           size_t size_bytes);

// Copies a file again with its first `from` replaced by `to`, of the same length.
void checkpoint_copy_edit(const checkpoint_copy *copy, const char *name, const char *from,
                          const char *to);

#endif
