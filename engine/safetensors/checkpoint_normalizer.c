// SPDX-License-Identifier: MIT
// What the tokenizer.json of an encoder does to text before it is cut: WordPiece and Unigram.
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/safetensors/checkpoint_tokenizer.h"

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

const json_t *tokenizer_json_member(const json_t *node, const char *list, const char *type)
{
    const char *own = text_of(node, "type");
    const json_t *part;
    size_t i;
    if (own && strcmp(own, type) == 0)
        return node;
    json_array_foreach(json_object_get(node, list), i, part)
    {
        const char *name = text_of(part, "type");
        if (name && strcmp(name, type) == 0)
            return part;
    }
    return NULL;
}

static bool is_bracketed(const char *text)
{
    size_t length = strlen(text);
    return length > 1 && text[0] == '[' && text[length - 1] == ']';
}

void tokenizer_json_put_wordpiece(const tokenizer_json *r, const char *text)
{
    char marked[256] = "\xe2\x96\x81";
    const char *prefix = text_of(r->model, "continuing_subword_prefix");
    prefix = prefix ? prefix : "##";
    size_t length = strlen(prefix);
    if (length > 0 && strncmp(text, prefix, length) == 0 && text[length] != '\0')
        gguf_output_element_text(r->output, text + length);
    else if (is_bracketed(text) || strlen(text) > sizeof marked - 4)
        gguf_output_element_text(r->output, text);
    else
        gguf_output_element_text(r->output, strcat(marked, text));
}

bool tokenizer_json_put_bert_normalizer(const tokenizer_json *r)
{
    const json_t *bert = tokenizer_json_member(json_object_get(r->root, "normalizer"),
                                               "normalizers", "BertNormalizer");
    const json_t *strip = json_object_get(bert, "strip_accents");
    const json_t *most = json_object_get(r->model, "max_input_chars_per_word");
    bool lower = json_is_true(json_object_get(bert, "lowercase"));
    if (!bert || json_is_false(json_object_get(bert, "clean_text")) ||
        json_is_false(json_object_get(bert, "handle_chinese_chars")) ||
        (json_is_integer(most) && json_integer_value(most) != 100))
        return engine_fail(r->err, "tokenizer.json: text is cleaned in a way that weft does not "
                                   "know: it must be as BERT does");
    gguf_output_bool(r->output, "tokenizer.ggml.normalizer.lowercase", lower);
    gguf_output_bool(r->output, "tokenizer.ggml.normalizer.strip_accents",
                     json_is_boolean(strip) ? json_is_true(strip) : lower);
    return true;
}

// --- Unigram ----------------------------------------------------------------------------------------------

static int value_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

// Base64 in groups of four, the last one padded. The result is to be released with free(); NULL on failure.
static unsigned char *decode_base64(const char *text, size_t *bytes)
{
    size_t length = strlen(text);
    unsigned char *out = length % 4 == 0 ? engine_alloc(length / 4 * 3 + 1, 1) : NULL;
    *bytes = 0;
    for (size_t i = 0; out && i < length; i += 4) {
        size_t padding = i + 4 == length ? (text[i + 3] == '=') + (text[i + 2] == '=') : 0;
        uint32_t group = 0;
        for (size_t k = 0; k < 4; k++) {
            int value = k + padding >= 4 ? 0 : value_of(text[i + k]);
            if (value < 0) {
                free(out);
                return NULL;
            }
            group = group << 6 | (uint32_t)value;
        }
        for (size_t k = 0; k < 3 - padding; k++)
            out[(*bytes)++] = (unsigned char)(group >> (16 - 8 * k));
    }
    return out;
}

static bool put_charsmap(const tokenizer_json *r, const json_t *normalizer)
{
    const json_t *precompiled = tokenizer_json_member(normalizer, "normalizers", "Precompiled");
    const char *coded = text_of(precompiled, "precompiled_charsmap");
    size_t bytes;
    if (!precompiled)
        return true;
    unsigned char *map = coded ? decode_base64(coded, &bytes) : NULL;
    if (!map)
        return engine_fail(r->err, "tokenizer.json: precompiled_charsmap is no base64 text; "
                                   "download it again");
    gguf_output_array(r->output, "tokenizer.ggml.precompiled_charsmap", GGUF_U8, bytes);
    gguf_output_element(r->output, map, bytes);
    free(map);
    return true;
}

bool tokenizer_json_put_unigram_normalizer(const tokenizer_json *r)
{
    const json_t *normalizer = json_object_get(r->root, "normalizer");
    const json_t *pre = json_object_get(r->root, "pre_tokenizer");
    const json_t *marks = tokenizer_json_member(pre, "pretokenizers", "Metaspace");
    const char *scheme = text_of(marks, "prepend_scheme");
    bool prefix = marks && (scheme ? strcmp(scheme, "never") != 0
                                   : !json_is_false(json_object_get(marks, "add_prefix_space")));
    bool squeeze = tokenizer_json_member(pre, "pretokenizers", "WhitespaceSplit") ||
                   tokenizer_json_member(normalizer, "normalizers", "Replace") ||
                   tokenizer_json_member(normalizer, "normalizers", "Strip");
    gguf_output_bool(r->output, "tokenizer.ggml.add_space_prefix", prefix);
    gguf_output_bool(r->output, "tokenizer.ggml.remove_extra_whitespaces", squeeze);
    return put_charsmap(r, normalizer);
}
