// SPDX-License-Identifier: MIT
// Libraries that are opened when they are first wanted, and whose absence is no error but a sentence.
#ifndef WEFT_BACKEND_CUDA_LIBRARY_H
#define WEFT_BACKEND_CUDA_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

struct weft__symbol {
    const char *name;
    size_t offset; // of its pointer in the table
};

struct weft__library {
    const char *variable;     // names another file
    const char *const *names; // tried in turn, NULL at the end
    const char *what, *cure;
};

// Opens a library and fills its table of pointers. False after `why` has been worded.
bool weft__cuda_library_open(const struct weft__library *library,
                             const struct weft__symbol *symbols, size_t num_symbols, void *table,
                             char why[256]);

#endif
