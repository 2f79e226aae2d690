// SPDX-License-Identifier: MIT
#ifndef ENGINE_MODEL_SETTINGS_H
#define ENGINE_MODEL_SETTINGS_H

// What the options of a worker mean for a model: bounds, defaults, the size of the KV pool.

#include "engine/engine.h"
#include "engine/model/config.h"

enum { ENGINE_PAGE_TOKENS = 64 };

typedef struct worker_settings {
    engine_options options; // without zeros
    weft_kv_layout kv;
    int32_t values_at;         // element of a key that its value begins at; PAGE_POOL_APART
    int32_t pages_per_session; // of a full timeline
    int32_t pool_pages;
    int64_t pool_bytes;    // keys and values of all layers
    int64_t cascade_bytes; // of keys and values, that a layer must save by a cascade
} worker_settings;

// wish may be NULL; `matrices` is the format of the layers' matrices. Refuses what is out of bounds or could not be addressed.
bool worker_settings_make(worker_settings *settings, const engine_options *wish,
                          const model_config *config, weft_dtype matrices, engine_error *err);

#endif
