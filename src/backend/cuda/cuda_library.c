// SPDX-License-Identifier: MIT
#include "src/backend/cuda/cuda_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool weft__cuda_library_open(const struct weft__library *library,
                             const struct weft__symbol *symbols, size_t num_symbols, void *table,
                             char why[256])
{
    const char *own = getenv(library->variable);
    void *handle = NULL;
    if (own && *own)
        handle = dlopen(own, RTLD_NOW | RTLD_LOCAL);
    for (const char *const *name = library->names; !(own && *own) && !handle && *name; name++)
        handle = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(why, 256, "%s (%s) was not found: %s", library->what,
                 own && *own ? own : library->names[0], library->cure);
        return false;
    }
    for (size_t i = 0; i < num_symbols; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address) {
            snprintf(why, 256, "%s has no function %s: it is too old, update it", library->what,
                     symbols[i].name);
            dlclose(handle);
            return false;
        }
        memcpy((char *)table + symbols[i].offset, &address, sizeof address);
    }
    return true;
}
