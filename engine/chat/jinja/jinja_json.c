// SPDX-License-Identifier: MIT
#include "engine/chat/jinja/jinja_json.h"

#include <jansson.h>
#include <string.h>

#include "engine/chat/jinja/jinja_box.h"

static jinja_value value_of(jinja_box *box, unsigned char source, const json_t *json);

static void put_members(jinja_box *box, unsigned char source, jinja_value dict, json_t *json)
{
    const char *key;
    json_t *member;
    json_object_foreach(json, key, member)
    {
        jinja_value name = jinja_text_from(box, source, key, strlen(key));
        if (dict.kind == JINJA_DICT)
            jinja_put(box, dict.dict, name, value_of(box, source, member));
    }
}

static jinja_value value_of(jinja_box *box, unsigned char source, const json_t *json)
{
    jinja_value value;
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        value = jinja_new_dict(box);
        put_members(box, source, value, (json_t *)json);
        return value;
    case JSON_ARRAY:
        value = jinja_new_list(box);
        for (size_t i = 0; i < json_array_size(json); i++)
            jinja_append(box, value, value_of(box, source, json_array_get(json, i)));
        return value;
    case JSON_STRING:
        return jinja_text_from(box, source, json_string_value(json), json_string_length(json));
    case JSON_INTEGER: return jinja_int(json_integer_value(json));
    case JSON_REAL: return jinja_float(json_real_value(json));
    case JSON_TRUE: return jinja_bool(true);
    case JSON_FALSE: return jinja_bool(false);
    case JSON_NULL: break;
    }
    return jinja_none();
}

static json_t *read_json(const char *text, engine_error *err)
{
    json_error_t error;
    json_t *json = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!json)
        engine_fail(err, "no JSON: line %d: %s", error.line, error.text);
    return json;
}

bool jinja_from_json(jinja_box *box, unsigned char source, const char *json, jinja_value *value,
                     engine_error *err)
{
    json_t *read = read_json(json, err);
    if (!read)
        return false;
    *value = value_of(box, source, read);
    json_decref(read);
    return true;
}

bool jinja_add_json(jinja_box *box, unsigned char source, jinja_value dict, const char *json,
                    engine_error *err)
{
    json_t *read = read_json(json, err);
    if (!read)
        return false;
    bool fine = json_is_object(read) || engine_fail(err, "no JSON object");
    if (fine)
        put_members(box, source, dict, read);
    json_decref(read);
    return fine;
}
