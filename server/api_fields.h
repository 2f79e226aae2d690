// SPDX-License-Identifier: MIT
#ifndef SERVER_API_FIELDS_H
#define SERVER_API_FIELDS_H

// Fields of a JSON object: absent and null leave the value as it is, a wrong type or value is an error that names
// the field.

#include "server/api.h"

json_t *field_body(const char *body, size_t bytes, api_error *error); // an object, or NULL
json_t *field_get(const json_t *object, const char *name);            // NULL: absent or null

bool field_bool(const json_t *object, const char *name, bool *value, api_error *error);
bool field_int(const json_t *object, const char *name, int64_t low, int64_t high, int32_t *value,
               api_error *error);
bool field_float(const json_t *object, const char *name, double low, double high, float *value,
                 api_error *error);

// A list of token ids.
bool field_ids(const json_t *list, const char *name, int32_t vocab, tokenizer_ids *ids,
               api_error *error);

#endif
