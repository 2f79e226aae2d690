// SPDX-License-Identifier: MIT
#ifndef ENGINE_SAFETENSORS_CHECKPOINT_KEYS_H
#define ENGINE_SAFETENSORS_CHECKPOINT_KEYS_H

// config.json to GGUF's keys; for the files of this room only.

#include "engine/safetensors/checkpoint_parts.h"

typedef struct checkpoint_writer {
    checkpoint *c;
    gguf_output *output;
    engine_error *err;
} checkpoint_writer;

// "<architecture>.<tail>", in `key`.
const char *checkpoint_key(const checkpoint_writer *w, const char *tail, char key[128]);

// An integer; `fallback` where it is missing or null, which a negative fallback does not allow.
bool checkpoint_read_int(const checkpoint_writer *w, const json_t *object, const char *name,
                         int64_t fallback, int64_t *value);

// The config's `name` under the key of `tail`, where it is more than 0.
bool checkpoint_put_int(const checkpoint_writer *w, const char *name, const char *tail,
                        int64_t fallback, int64_t *value);

// A number of `object`, if there is one.
bool checkpoint_put_float(const checkpoint_writer *w, const json_t *object, const char *name,
                          const char *tail);

// The numbers of a mixture.
bool checkpoint_put_experts(const checkpoint_writer *w);

#endif
