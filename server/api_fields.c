// SPDX-License-Identifier: MIT
#include "server/api_fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

bool api_fail(api_error *error, int status, const char *param, const char *format, ...)
{
    va_list arguments;
    *error = (api_error){.status = status,
                         .type = status >= 500   ? "server_error"
                                 : status == 401 ? "authentication_error"
                                                 : "invalid_request_error"};
    snprintf(error->param, sizeof error->param, "%s", param ? param : "");
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    text_make_printable(error->param);
    text_make_printable(error->message);
    return false;
}

json_t *field_body(const char *body, size_t bytes, api_error *error)
{
    json_error_t where;
    json_t *root = json_loadb(body, bytes, JSON_ALLOW_NUL, &where);
    if (root && json_is_object(root))
        return root;
    if (root)
        api_fail(error, 400, NULL, "the body must be a JSON object");
    else
        api_fail(error, 400, NULL, "the body cannot be read as JSON: %.160s (line %d, column %d)",
                 where.text, where.line, where.column);
    json_decref(root);
    return NULL;
}

json_t *field_get(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

bool field_bool(const json_t *object, const char *name, bool *value, api_error *error)
{
    const json_t *field = field_get(object, name);
    if (!field)
        return true;
    if (!json_is_boolean(field))
        return api_fail(error, 400, name, "'%s' must be true or false", name);
    *value = json_is_true(field);
    return true;
}

bool field_int(const json_t *object, const char *name, int64_t low, int64_t high, int32_t *value,
               api_error *error)
{
    const json_t *field = field_get(object, name);
    if (!field)
        return true;
    double number = json_number_value(field);
    if (!json_is_number(field) || number != floor(number) || number < (double)low ||
        number > (double)high)
        return api_fail(error, 400, name, "'%s' must be a whole number from %lld to %lld", name,
                        (long long)low, (long long)high);
    *value = (int32_t)number;
    return true;
}

bool field_float(const json_t *object, const char *name, double low, double high, float *value,
                 api_error *error)
{
    const json_t *field = field_get(object, name);
    if (!field)
        return true;
    double number = json_number_value(field);
    if (!json_is_number(field) || !(number >= low && number <= high))
        return api_fail(error, 400, name, "'%s' must be a number from %.9g to %.9g", name, low,
                        high);
    *value = (float)number;
    return true;
}

bool field_ids(const json_t *list, const char *name, int32_t vocab, tokenizer_ids *ids,
               api_error *error)
{
    size_t n;
    const json_t *one;
    json_array_foreach(list, n, one)
    {
        json_int_t id = json_integer_value(one);
        if (!json_is_integer(one) || id < 0 || id >= vocab)
            return api_fail(error, 400, name, "'%s' must be token ids from 0 to %d", name,
                            vocab - 1);
        if (!tokenizer_ids_push(ids, (int32_t)id))
            return api_fail(error, 500, NULL, "not enough memory");
    }
    return true;
}
