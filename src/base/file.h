// SPDX-License-Identifier: MIT
// Small files that the library keeps for itself: where they lie, and reading and writing them whole.
#ifndef WEFT_BASE_FILE_H
#define WEFT_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

enum { WEFT__PATH_BYTES = 1024 };

// $WEFT_CACHE_DIR, else $XDG_CACHE_HOME/weft, else ~/.cache/weft; short enough for a name of 128 bytes to follow.
// False if there is none of them.
bool weft__file_cache_folder(char path[WEFT__PATH_BYTES]);

// Makes a folder and those above it, as far as they are missing and can be made.
void weft__file_make_folders(const char *folder);

// All of the bytes, or false.
bool weft__file_transfer(int file, void *data, size_t bytes, bool writing);

// Reads a regular file of at most `most` bytes. 1: read; 0: there is none; -1: it is longer, no file or cannot be
// read.
int weft__file_read(const char *path, char *data, size_t most, size_t *bytes);

// A part of a file to be written.
struct weft__file_part {
    const void *data;
    size_t bytes;
};

// Writes the parts beside `path` and renames: whoever reads sees the old file or the new one whole. Makes the
// folder. False leaves what was there.
bool weft__file_write(const char *path, const struct weft__file_part *parts, int count);

#endif
