// SPDX-License-Identifier: MIT
#ifndef ENGINE_MODEL_PACKED_H
#define ENGINE_MODEL_PACKED_H

// Matrices that were laid out for the kernels of the CPU: once for all workers of a model that want the same, and in a
// folder for the next start where the user names one.

#include <stdint.h>

#include "engine/model/weights.h"

typedef struct packed_store packed_store;     // of a model
typedef struct packed_weights packed_weights; // all matrices of a worker

packed_store *packed_store_make(void);       // NULL: no memory
void packed_store_free(packed_store *store); // may be NULL; nobody holds weights any more

// Says which matrices in which layouts, one after the other. Begins as zeros with the first three members.
typedef struct packed_wish {
    const char *folder; // where they are kept; NULL: nowhere
    const char *name;   // of the model
    uint64_t stamp;     // of its file (gguf_stamp)
    uint64_t shapes;    // of formats, sizes and layouts: what a file in the folder is named by
    uint64_t places;    // where the matrices are as well: equal only within a process
    uint64_t contents;  // samples of them instead
    size_t bytes;
} packed_wish;

void packed_wish_add(packed_wish *wish, const model_tensor *matrix, const char *layout);

// What is wished: found as another worker or an earlier start has left it, or else memory that the caller fills
// before it says packed_complete() or packed_release(); until then others wait. NULL on failure.
packed_weights *packed_take(packed_store *store, const packed_wish *wish, bool *found,
                            engine_error *err);

// All is written. Keeps it in the folder; fails if that cannot be done.
bool packed_complete(packed_store *store, packed_weights *weights, engine_error *err);

void packed_release(packed_store *store, packed_weights *weights); // may be NULL

char *packed_data(const packed_weights *weights); // 64-byte aligned

#endif
