// SPDX-License-Identifier: MIT
#include <string.h>

#include "server/api_fields.h"

static bool read_order(api_wish *wish, api_error *error)
{
    const json_t *list = field_get(wish->root, "samplers"), *one;
    size_t n;
    if (!list)
        return true;
    if (!json_is_array(list))
        return api_fail(error, 400, "samplers", "'samplers' must be a list of names");
    json_array_foreach(list, n, one)
    {
        if (!json_is_string(one) ||
            !engine_shaping_order_add(&wish->shaping, json_string_value(one),
                                      json_string_length(one)))
            return api_fail(error, 400, "samplers",
                            "'samplers' must have names of samplers, each once");
    }
    return true;
}

static bool read_breakers(api_wish *wish, api_error *error)
{
    const json_t *list = field_get(wish->root, "dry_sequence_breakers"), *one;
    size_t n;
    if (!list)
        return true;
    if (!json_is_array(list) || json_array_size(list) > API_MAX_BREAKERS)
        return api_fail(error, 400, "dry_sequence_breakers",
                        "'dry_sequence_breakers' must be a list of at most %d strings",
                        API_MAX_BREAKERS);
    json_array_foreach(list, n, one)
    {
        if (!json_is_string(one) || json_string_length(one) == 0 ||
            strlen(json_string_value(one)) != json_string_length(one))
            return api_fail(error, 400, "dry_sequence_breakers",
                            "'dry_sequence_breakers' must have strings that are not empty");
        wish->breakers[n] = json_string_value(one);
    }
    return true;
}

bool api_read_shaping(api_wish *wish, api_error *error)
{
    engine_shaping_setting setting;
    wish->shaping = engine_shaping_default();
    for (int32_t n = 0; engine_shaping_setting_at(&wish->shaping, n, &setting); n++)
        if (!field_float(wish->root, setting.member, setting.low, setting.high, setting.value,
                         error))
            return false;
    return read_order(wish, error) && read_breakers(wish, error);
}
