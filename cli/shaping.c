// SPDX-License-Identifier: MIT
// Options of the samplers beyond those of the library.
#include <string.h>

#include "cli/cli.h"

static bool read_order(const cli_command *self, const char *value, engine_shaping *shaping)
{
    for (const char *at = value; *at;) {
        size_t bytes = strcspn(at, ",;");
        if (!engine_shaping_order_add(shaping, at, bytes)) {
            char known[256] = "";
            for (int32_t n = 0; engine_sampler_name(n); n++)
                snprintf(known + strlen(known), sizeof known - strlen(known), " %s",
                         engine_sampler_name(n));
            cli_bad_usage(self, "--samplers takes each of%s once, not '%.*s'", known, (int)bytes,
                          at);
            return false;
        }
        at += bytes + (at[bytes] != 0);
    }
    return true;
}

bool cli_shaping_option(const cli_command *self, int option, const char *value,
                        engine_shaping *shaping)
{
    engine_shaping_setting setting;
    if (option == CLI_OPT_SAMPLERS)
        return read_order(self, value, shaping);
    if (!engine_shaping_setting_at(shaping, option - CLI_OPT_SAMPLERS - 1, &setting))
        return false;
    char name[64];
    snprintf(name, sizeof name, "--%s", setting.option);
    return cli_float(self, name, value, (float)setting.low, (float)setting.high, setting.value);
}

engine_sampling cli_sampling_of(cli_sampling *sampling, const engine_model *model)
{
    engine_shaping *shaping = &sampling->shaping;
    if (shaping->dry_multiplier > 0 && !sampling->dry_breakers) {
        sampling->dry_breakers = engine_dry_breakers(model, NULL, &shaping->dry_breaker_count);
        shaping->dry_breakers = sampling->dry_breakers;
    }
    sampling->sampling.shaping = shaping;
    return sampling->sampling;
}
