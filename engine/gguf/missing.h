// SPDX-License-Identifier: MIT
#ifndef ENGINE_GGUF_MISSING_H
#define ENGINE_GGUF_MISSING_H

#include <stddef.h>

// Families that are known and cannot run, by their name in files or in folders: what weft lacks for them, as the
// end of a sentence. NULL for all others.
const char *gguf_family_lacks(const char *name, size_t name_bytes);

#endif
