// SPDX-License-Identifier: MIT
#include "engine/sample/shaping.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *member, *option, *help;
    double low, high;
    float standard;
    size_t offset;
} settings[] = {
#define ROW(member, option, low, high, standard, help)                                             \
    {#member, option, help, low, high, (float)(standard), offsetof(engine_shaping, member)},
    ENGINE_SHAPING_SETTINGS(ROW)
#undef ROW
};

static const char *const names[] = {
#define NAME(id, name) name,
    ENGINE_SAMPLERS(NAME)
#undef NAME
};

engine_shaping engine_shaping_default(void)
{
    engine_shaping shaping = {0};
    engine_shaping_setting setting;
    for (int32_t n = 0; engine_shaping_setting_at(&shaping, n, &setting); n++)
        *setting.value = settings[n].standard;
    return shaping;
}

bool engine_shaping_asks(const engine_shaping *s)
{
    return s->dynatemp_range > 0 || (s->typical_p > 0 && s->typical_p < 1) || s->top_n_sigma > 0 ||
           s->xtc_probability > 0 || s->dry_multiplier > 0 || s->mirostat_tau > 0 ||
           s->order_count > 0;
}

bool engine_shaping_setting_at(engine_shaping *shaping, int32_t n, engine_shaping_setting *setting)
{
    if (n < 0 || (size_t)n >= sizeof settings / sizeof *settings)
        return false;
    void *value = (char *)shaping + settings[n].offset;
    *setting = (engine_shaping_setting){settings[n].member, settings[n].option, settings[n].help,
                                        settings[n].low,    settings[n].high,   value};
    return true;
}

const char *engine_sampler_name(int32_t n)
{
    return n >= 0 && n < ENGINE_SAMPLER_COUNT ? names[n] : NULL;
}

bool engine_shaping_order_add(engine_shaping *shaping, const char *name, uint64_t bytes)
{
    for (int n = 0; n < ENGINE_SAMPLER_COUNT; n++) {
        if (strlen(names[n]) != bytes || memcmp(names[n], name, bytes) != 0)
            continue;
        for (int32_t i = 0; i < shaping->order_count; i++)
            if (shaping->order[i] == n)
                return false;
        shaping->order[shaping->order_count++] = (uint8_t)n;
        return true;
    }
    return false;
}
