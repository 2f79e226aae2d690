// SPDX-License-Identifier: MIT
#ifndef ENGINE_BASE_FILE_MAP_H
#define ENGINE_BASE_FILE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/error.h"

// A regular file mapped read-only. data is page-aligned. Whoever shortens the file while it is mapped
// makes reads beyond its new end fatal (SIGBUS); replacing it by rename is harmless.
typedef struct file_map {
    const void *data;
    size_t size_bytes;
    int64_t written_ns; // when, by the system's clock; 0: no file
    bool owned;         // see file_map_own()
} file_map;

// Refuses what is missing, unreadable, empty or not a regular file. *map is untouched on failure.
bool file_map_open(file_map *map, const char *path, engine_error *err);

// Asks the kernel to read the pages of [offset, offset + size_bytes) ahead; only a hint.
void file_map_prefetch(const file_map *map, size_t offset, size_t size_bytes);

// Puts memory of the process, in huge pages where the system has them, with the same bytes in the place of the mapped
// file: addresses stay what they are. Matrices that are read again and again are read faster so
// (docs/benchmarks.md). Nobody may read meanwhile. Refused, with nothing changed, if the memory is not there.
bool file_map_own(file_map *map, engine_error *err);

// Memory of the process instead of a file, zeros, in huge pages where the system has them. *data is where it
// may be written.
bool file_map_memory(file_map *map, size_t size_bytes, char **data, engine_error *err);

// The process's memory need not keep what it has read of a mapped file: it is read again when it is wanted.
void file_map_leave(const file_map *map);

// Unmaps and zeroes *map; a zeroed map may be closed again.
void file_map_close(file_map *map);

#endif
