// SPDX-License-Identifier: MIT
// Numbers of config.json under GGUF's keys.
#include "engine/safetensors/checkpoint_keys.h"

#include <stdio.h>

const char *checkpoint_key(const checkpoint_writer *w, const char *tail, char key[128])
{
    snprintf(key, 128, "%s.%s", w->c->family->architecture, tail);
    return key;
}

static bool fail_number(const checkpoint_writer *w, const char *name)
{
    return engine_fail(w->err,
                       "config.json: '%s' is missing or no number from 1 to 2^31; download it "
                       "again",
                       name);
}

bool checkpoint_read_int(const checkpoint_writer *w, const json_t *object, const char *name,
                         int64_t fallback, int64_t *value)
{
    const json_t *number = json_object_get(object, name);
    *value = fallback;
    if (!number || json_is_null(number))
        return fallback >= 0 || fail_number(w, name);
    *value = json_integer_value(number);
    return (json_is_integer(number) && *value >= 1 && *value < INT32_MAX) || fail_number(w, name);
}

bool checkpoint_put_int(const checkpoint_writer *w, const char *name, const char *tail,
                        int64_t fallback, int64_t *value)
{
    char key[128];
    if (!checkpoint_read_int(w, w->c->config, name, fallback, value))
        return false;
    if (*value > 0)
        gguf_output_u32(w->output, checkpoint_key(w, tail, key), (uint32_t)*value);
    return true;
}

bool checkpoint_put_float(const checkpoint_writer *w, const json_t *object, const char *name,
                          const char *tail)
{
    char key[128];
    const json_t *number = json_object_get(object, name);
    if (!number || json_is_null(number))
        return true;
    if (!json_is_number(number))
        return engine_fail(w->err, "config.json: '%s' is no number; download it again", name);
    gguf_output_f32(w->output, checkpoint_key(w, tail, key), (float)json_number_value(number));
    return true;
}
