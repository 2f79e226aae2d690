// SPDX-License-Identifier: MIT
// Machine code on disk: one file per kernel and device, named by its key, in $WEFT_CACHE_DIR, else
// $XDG_CACHE_HOME/weft, else ~/.cache/weft. A file is written beside its place and renamed, so that
// readers never see half of one; what is damaged counts as absent; a folder that cannot be written is
// no error.
#ifndef WEFT_BACKEND_CUDA_CACHE_H
#define WEFT_BACKEND_CUDA_CACHE_H

#include <stdbool.h>

#include "src/backend/cuda/pipeline.h"

bool weft__cuda_cache_load(const unsigned char key[WEFT__SHA256_BYTES],
                           struct weft__cuda_image *image);
bool weft__cuda_cache_store(const unsigned char key[WEFT__SHA256_BYTES],
                            const struct weft__cuda_image *image);

// Forgets an entry that the driver refused.
void weft__cuda_cache_drop(const unsigned char key[WEFT__SHA256_BYTES]);

#endif
