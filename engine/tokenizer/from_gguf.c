// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/gguf/gguf.h"
#include "engine/tokenizer/tokenizer.h"

#define KEY(name) "tokenizer.ggml." name

// The arrays that a spec points to while a tokenizer is made.
typedef struct spec_arrays {
    tokenizer_bytes *pieces;
    tokenizer_bytes *merges;
    float *scores;
    int32_t *types;
    unsigned char *charsmap;
    char *pre;
} spec_arrays;

static bool no_memory(engine_error *err)
{
    return engine_fail(err, "tokenizer: not enough memory to read the vocabulary");
}

static bool read_strings(const gguf_file *file, const char *key, size_t limit,
                         tokenizer_bytes **strings, size_t *count, engine_error *err)
{
    gguf_array array;
    if (!gguf_needed(file, gguf_get_array(file, key, &array), key, "an array of strings", err))
        return false;
    if (array.type != GGUF_STRING)
        return engine_fail(err, "%s: expected an array of strings; the file is damaged", key);
    if (array.count > limit)
        return engine_fail(err,
                           "%s: %zu entries are more than the limit of %zu; the file is damaged",
                           key, array.count, limit);
    gguf_string *views = engine_alloc(array.count, sizeof *views);
    *strings = engine_alloc(array.count, sizeof **strings);
    *count = array.count;
    bool ok = views && *strings && gguf_array_strings(&array, views);
    for (size_t i = 0; ok && i < array.count; i++)
        (*strings)[i] = (tokenizer_bytes){views[i].data, views[i].size_bytes};
    free(views);
    return ok || no_memory(err);
}

// Arrays with one number for each piece. *there is false if the file has none.
static bool find_numbers(const gguf_file *file, const char *key, const char *expected,
                         size_t piece_count, gguf_array *array, bool *there, engine_error *err)
{
    gguf_lookup lookup = gguf_get_array(file, key, array);
    if (!gguf_wanted(file, lookup, key, expected, err))
        return false;
    *there = lookup == GGUF_FOUND;
    if (*there && array->count != piece_count)
        return engine_fail(err, "%s: %zu entries for %zu pieces; the file is damaged", key,
                           array->count, piece_count);
    return true;
}

static bool read_scores(const gguf_file *file, tokenizer_spec *spec, spec_arrays *arrays,
                        engine_error *err)
{
    gguf_array array;
    bool there;
    if (!find_numbers(file, KEY("scores"), "an array of floats", spec->piece_count, &array, &there,
                      err))
        return false;
    if (!there)
        return true;
    arrays->scores = engine_alloc(array.count, sizeof *arrays->scores);
    if (!arrays->scores)
        return no_memory(err);
    for (size_t i = 0; i < array.count; i++) {
        if (!gguf_array_f32(&array, i, &arrays->scores[i]))
            return engine_fail(err, KEY("scores") ": entry %zu is not a float; the file is damaged",
                               i);
    }
    spec->scores = arrays->scores;
    return true;
}

static bool read_types(const gguf_file *file, tokenizer_spec *spec, spec_arrays *arrays,
                       engine_error *err)
{
    gguf_array array;
    bool there;
    if (!find_numbers(file, KEY("token_type"), "an array of integers", spec->piece_count, &array,
                      &there, err))
        return false;
    if (!there)
        return true;
    arrays->types = engine_alloc(array.count, sizeof *arrays->types);
    if (!arrays->types)
        return no_memory(err);
    for (size_t i = 0; i < array.count; i++) {
        int64_t type;
        if (!gguf_array_i64(&array, i, &type) || type < INT32_MIN || type > INT32_MAX)
            return engine_fail(err,
                               KEY("token_type") ": entry %zu is not a piece type; the file is "
                                                 "damaged",
                               i);
        arrays->types[i] = (int32_t)type;
    }
    spec->types = arrays->types;
    return true;
}

// Elements of one byte, whatever their sign.
static bool read_charsmap(const gguf_file *file, tokenizer_spec *spec, spec_arrays *arrays,
                          engine_error *err)
{
    gguf_array array;
    gguf_lookup lookup = gguf_get_array(file, KEY("precompiled_charsmap"), &array);
    if (!gguf_wanted(file, lookup, KEY("precompiled_charsmap"), "an array of bytes", err))
        return false;
    if (lookup == GGUF_MISSING || array.count == 0)
        return true;
    if (array.type != GGUF_U8 && array.type != GGUF_I8)
        return engine_fail(err,
                           KEY("precompiled_charsmap") ": expected an array of bytes; the file "
                                                       "is damaged");
    arrays->charsmap = engine_alloc(array.count, 1);
    if (!arrays->charsmap)
        return no_memory(err);
    for (size_t i = 0; i < array.count; i++) {
        int64_t byte = 0;
        gguf_array_i64(&array, i, &byte);
        arrays->charsmap[i] = (unsigned char)byte;
    }
    spec->charsmap = arrays->charsmap;
    spec->charsmap_bytes = array.count;
    return true;
}

static bool read_ids(const gguf_file *file, tokenizer_spec *spec, engine_error *err)
{
    int32_t cls = TOKENIZER_NONE, separator = TOKENIZER_NONE;
    const struct {
        const char *key;
        int32_t *id;
    } ids[] = {
        {KEY("bos_token_id"), &spec->bos},
        {KEY("eos_token_id"), &spec->eos},
        {KEY("eot_token_id"), &spec->eot},
        {KEY("eom_token_id"), &spec->eom},
        {KEY("unknown_token_id"), &spec->unknown},
        {KEY("padding_token_id"), &spec->padding},
        {KEY("cls_token_id"), &cls},
        {KEY("seperator_token_id"), &separator},
    };
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        gguf_lookup lookup = gguf_get_i32(file, ids[i].key, ids[i].id);
        if (!gguf_wanted(file, lookup, ids[i].key, "a token id", err))
            return false;
    }
    // What encoders put around a text has names of its own.
    bool wordpiece = spec->kind == TOKENIZER_WORDPIECE;
    if (cls != TOKENIZER_NONE && (wordpiece || spec->bos == TOKENIZER_NONE))
        spec->bos = cls;
    if (separator != TOKENIZER_NONE && (wordpiece || spec->eos == TOKENIZER_NONE))
        spec->eos = separator;
    return true;
}

static bool read_flag(const gguf_file *file, const char *key, bool *value, bool *there,
                      engine_error *err)
{
    gguf_lookup lookup = gguf_get_bool(file, key, value);
    *there = lookup == GGUF_FOUND;
    return gguf_wanted(file, lookup, key, "a boolean", err);
}

static bool read_flags(const gguf_file *file, tokenizer_spec *spec, engine_error *err)
{
    bool value = false, there;
    if (!read_flag(file, KEY("add_bos_token"), &value, &there, err))
        return false;
    if (there)
        spec->add_bos = value;
    if (!read_flag(file, KEY("add_eos_token"), &value, &there, err))
        return false;
    if (there)
        spec->add_eos = value;
    if (!read_flag(file, KEY("normalizer.lowercase"), &value, &there, err))
        return false;
    if (there)
        spec->lower_case = value;
    if (!read_flag(file, KEY("normalizer.strip_accents"), &value, &there, err))
        return false;
    if (there)
        spec->strip_accents = value;
    return read_flag(file, KEY("add_space_prefix"), &spec->add_space_prefix, &there, err) &&
           read_flag(file, KEY("remove_extra_whitespaces"), &spec->remove_extra_whitespaces, &there,
                     err);
}

static bool read_pre(const gguf_file *file, tokenizer_spec *spec, spec_arrays *arrays,
                     engine_error *err)
{
    gguf_string pre = {"", 0};
    gguf_lookup lookup = gguf_get_string(file, KEY("pre"), &pre);
    if (!gguf_wanted(file, lookup, KEY("pre"), "a string", err))
        return false;
    arrays->pre = engine_copy_text(pre.data, pre.size_bytes);
    if (!arrays->pre)
        return no_memory(err);
    spec->pre = arrays->pre;
    return true;
}

static bool read_spec(const gguf_file *file, tokenizer_spec *spec, spec_arrays *arrays,
                      engine_error *err)
{
    static const struct {
        const char *name;
        tokenizer_kind kind;
    } kinds[] = {{"llama", TOKENIZER_SENTENCEPIECE},
                 {"gpt2", TOKENIZER_BYTE_LEVEL},
                 {"bert", TOKENIZER_WORDPIECE},
                 {"t5", TOKENIZER_UNIGRAM}};
    size_t kind = 0;
    gguf_string model;
    if (!gguf_needed(file, gguf_get_string(file, KEY("model"), &model), KEY("model"),
                     "a string that names the kind of tokenizer", err))
        return false;
    while (kind < sizeof kinds / sizeof kinds[0] && !gguf_string_equals(model, kinds[kind].name))
        kind++;
    if (kind == sizeof kinds / sizeof kinds[0])
        return engine_fail(err,
                           "tokenizer: unknown tokenizer \"%.*s\"; weft knows llama, gpt2, bert "
                           "and t5",
                           GGUF_SHOWN(model));
    *spec = tokenizer_spec_default(kinds[kind].kind);
    if (!read_strings(file, KEY("tokens"), TOKENIZER_MAX_PIECES, &arrays->pieces,
                      &spec->piece_count, err))
        return false;
    spec->pieces = arrays->pieces;
    if (spec->kind == TOKENIZER_BYTE_LEVEL) {
        if (!read_pre(file, spec, arrays, err) ||
            !read_strings(file, KEY("merges"), TOKENIZER_MAX_PIECES, &arrays->merges,
                          &spec->merge_count, err))
            return false;
        spec->merges = arrays->merges;
    } else if (spec->kind != TOKENIZER_WORDPIECE && !read_scores(file, spec, arrays, err)) {
        return false;
    }
    if (spec->kind == TOKENIZER_UNIGRAM && !read_charsmap(file, spec, arrays, err))
        return false;
    return read_types(file, spec, arrays, err) && read_ids(file, spec, err) &&
           read_flags(file, spec, err);
}

tokenizer *tokenizer_from_gguf(const gguf_file *file, engine_error *err)
{
    spec_arrays arrays = {0};
    tokenizer_spec spec;
    tokenizer *t = NULL;
    if (read_spec(file, &spec, &arrays, err))
        t = tokenizer_create(&spec, err);
    free(arrays.pieces);
    free(arrays.merges);
    free(arrays.scores);
    free(arrays.types);
    free(arrays.charsmap);
    free(arrays.pre);
    return t;
}
