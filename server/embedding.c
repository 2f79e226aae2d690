// SPDX-License-Identifier: MIT
#include "server/embedding.h"

#include <stdlib.h>
#include <string.h>

#include "server/api_fields.h"

// --- reading ------------------------------------------------------------------------------------------

static bool read_text(embedding *e, const json_t *text, int32_t vocab, api_error *error)
{
    int32_t n = e->count++;
    if (json_is_array(text) && json_array_size(text) > 0)
        return field_ids(text, "input", vocab, &e->ids[n], error);
    if (!json_is_string(text) || json_string_length(text) == 0)
        return api_fail(error, 400, "input",
                        "'input' must be a text that is not empty, a list of such, or token ids");
    e->text[n] = (tokenizer_bytes){json_string_value(text), json_string_length(text)};
    return true;
}

static bool read_input(embedding *e, int32_t vocab, api_error *error)
{
    const json_t *input = field_get(e->root, "input"), *one;
    bool list = json_is_array(input) && !json_is_integer(json_array_get(input, 0));
    size_t count = list ? json_array_size(input) : 1, n;
    if (count < 1 || count > EMBEDDING_MAX_TEXTS)
        return api_fail(error, 400, "input", "'input' may have 1 to %d texts", EMBEDDING_MAX_TEXTS);
    e->text = calloc(count, sizeof *e->text);
    e->ids = calloc(count, sizeof *e->ids);
    if (!e->text || !e->ids)
        return api_fail(error, 500, NULL, "not enough memory for the request");
    if (!list)
        return read_text(e, input, vocab, error);
    json_array_foreach(input, n, one)
    {
        if (!read_text(e, one, vocab, error))
            return false;
    }
    return true;
}

bool embedding_read(embedding *e, const char *body, size_t bytes, int32_t vocab, api_error *error)
{
    *e = (embedding){.root = field_body(body, bytes, error)};
    if (!e->root)
        return false;
    const json_t *format = field_get(e->root, "encoding_format");
    const char *name = json_string_value(format);
    e->base64 = name && strcmp(name, "base64") == 0;
    if (format && !e->base64 && (!name || strcmp(name, "float") != 0))
        return api_fail(error, 400, "encoding_format",
                        "'encoding_format' must be \"float\" or \"base64\"");
    return field_int(e->root, "dimensions", 1, INT32_MAX, &e->dimensions, error) &&
           read_input(e, vocab, error);
}

void embedding_free(embedding *e)
{
    for (int32_t i = 0; e->ids && i < e->count; i++)
        tokenizer_ids_free(&e->ids[i]);
    free(e->text);
    free(e->ids);
    free(e->vectors);
    json_decref(e->root);
    *e = (embedding){0};
}

bool embedding_encode(embedding *e, const tokenizer *t, int32_t most, api_error *error)
{
    engine_error err = {""};
    for (int32_t i = 0; i < e->count; i++) {
        tokenizer_ids *ids = &e->ids[i];
        if (e->text[i].data && !tokenizer_encode(t, e->text[i].data, e->text[i].size_bytes,
                                                 TOKENIZER_ADD_SPECIAL, ids, &err))
            return api_fail(error, 400, "input", "%s", err.text);
        if (ids->count > (size_t)most || ids->count == 0) {
            api_fail(error, 400, "input", "text %d has %zu tokens: they must be 1 to %d", i,
                     ids->count, most);
            error->code = ids->count > 0 ? "context_length_exceeded" : NULL;
            return false;
        }
    }
    return true;
}

// --- writing ------------------------------------------------------------------------------------------

static json_t *as_base64(const float *vector, int32_t dim)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t bytes = (size_t)dim * sizeof *vector, at = 0;
    const unsigned char *from = (const unsigned char *)vector;
    char *text = malloc((bytes + 2) / 3 * 4 + 1);
    for (size_t i = 0; text && i < bytes; i += 3) {
        size_t left = bytes - i;
        uint32_t three = (uint32_t)from[i] << 16 | (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) |
                         (left > 2 ? from[i + 2] : 0);
        text[at++] = digits[three >> 18];
        text[at++] = digits[three >> 12 & 63];
        text[at++] = left > 1 ? digits[three >> 6 & 63] : '=';
        text[at++] = left > 2 ? digits[three & 63] : '=';
    }
    json_t *string = text ? json_stringn(text, at) : NULL;
    free(text);
    return string;
}

static json_t *as_numbers(const float *vector, int32_t dim)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < dim; i++)
        json_array_append_new(list, json_real((double)vector[i]));
    return list;
}

json_t *embedding_answer(const embedding *e, const char *model_name)
{
    json_t *list = json_array();
    json_int_t tokens = 0;
    for (int32_t i = 0; i < e->count; i++) {
        const float *vector = e->vectors + (size_t)i * (size_t)e->dim;
        json_t *told = e->base64 ? as_base64(vector, e->dim) : as_numbers(vector, e->dim);
        json_array_append_new(list, json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", i,
                                              "embedding", told));
        tokens += (json_int_t)e->ids[i].count;
    }
    return json_pack("{s:s, s:o, s:s, s:{s:I, s:I}}", "object", "list", "data", list, "model",
                     model_name, "usage", "prompt_tokens", tokens, "total_tokens", tokens);
}
