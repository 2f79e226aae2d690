// SPDX-License-Identifier: MIT
#ifndef ENGINE_BASE_PATH_H
#define ENGINE_BASE_PATH_H

#include <stdbool.h>

// May a file come to this path by rename? Not where a folder or a device is, which would be gone: errno says so.
bool path_takes_a_file(const char *path);

#endif
