// SPDX-License-Identifier: MIT
// tokenizer.json and its companions to GGUF's tokenizer keys.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/safetensors/checkpoint_parts.h"

enum {
    MAX_PIECES = 1 << 22,
    NORMAL = 1,
    UNKNOWN = 2,
    CONTROL = 3,
    USER_DEFINED = 4,
    BYTE = 6,
};

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define WORDS        "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define TAIL         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

// Patterns of "Split" and the names that GGUF has for them. ignore_merges tells two of them apart.
static const struct {
    const char *pattern, *name, *name_ignoring_merges;
} patterns[] = {
    {CONTRACTIONS WORDS "\\p{N}{1,3}|" TAIL, "dbrx", "llama-bpe"},
    {CONTRACTIONS WORDS "\\p{N}|" TAIL, "qwen2", "qwen2"},
    {"[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
     "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
     "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     "tekken", "tekken"},
};

typedef struct piece {
    const char *text; // NULL: no piece has this id
    int32_t type;
} piece;

typedef struct reader {
    const checkpoint *c;
    const json_t *root, *model;
    piece *pieces;
    size_t count;
    bool sentencepiece;
    gguf_output *output;
    engine_error *err;
} reader;

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static bool set_piece(reader *r, const char *text, const json_t *id, int32_t type)
{
    json_int_t n = json_integer_value(id);
    if (!json_is_integer(id) || n < 0 || (size_t)n >= r->count)
        return engine_fail(r->err, "tokenizer.json: the id of '%.32s' is none; download it again",
                           text);
    r->pieces[n] = (piece){text, type};
    return true;
}

// The highest id decides the size; ids may have gaps.
static bool count_pieces(reader *r, const json_t *vocab, const json_t *added)
{
    json_int_t most = -1;
    const char *text;
    json_t *value;
    size_t i;
    json_object_foreach((json_t *)vocab, text, value)
    {
        most = json_integer_value(value) > most ? json_integer_value(value) : most;
    }
    json_array_foreach(added, i, value)
    {
        json_int_t id = json_integer_value(json_object_get(value, "id"));
        most = id > most ? id : most;
    }
    if (most < 0 || most >= MAX_PIECES)
        return engine_fail(r->err,
                           "tokenizer.json: has no pieces, or an id beyond %d; download it again",
                           MAX_PIECES);
    r->count = (size_t)most + 1;
    r->pieces = engine_alloc(r->count, sizeof *r->pieces);
    return r->pieces || engine_fail(r->err, "out of memory for %zu pieces", r->count);
}

static bool is_byte_piece(const char *text)
{
    return strlen(text) == 6 && strncmp(text, "<0x", 3) == 0 && text[5] == '>';
}

static bool read_pieces(reader *r)
{
    const json_t *vocab = json_object_get(r->model, "vocab");
    const json_t *added = json_object_get(r->root, "added_tokens");
    const char *unknown = text_of(r->model, "unk_token"), *text;
    json_t *value;
    size_t i;
    if (!count_pieces(r, vocab, added))
        return false;
    json_object_foreach((json_t *)vocab, text, value)
    {
        int32_t type = r->sentencepiece && is_byte_piece(text) ? BYTE : NORMAL;
        if (!set_piece(r, text, value, type))
            return false;
    }
    json_array_foreach(added, i, value)
    {
        text = text_of(value, "content");
        if (text &&
            !set_piece(r, text, json_object_get(value, "id"),
                       json_is_true(json_object_get(value, "special")) ? CONTROL : USER_DEFINED))
            return false;
    }
    for (i = 0; r->sentencepiece && unknown && i < r->count; i++)
        if (r->pieces[i].text && strcmp(r->pieces[i].text, unknown) == 0)
            r->pieces[i].type = UNKNOWN;
    return true;
}

static void put_pieces(reader *r)
{
    gguf_output_array(r->output, "tokenizer.ggml.tokens", GGUF_STRING, r->count);
    for (size_t i = 0; i < r->count; i++) {
        char gap[32];
        snprintf(gap, sizeof gap, "[PAD%zu]", i);
        gguf_output_element_text(r->output, r->pieces[i].text ? r->pieces[i].text : gap);
    }
    gguf_output_array(r->output, "tokenizer.ggml.token_type", GGUF_I32, r->count);
    for (size_t i = 0; i < r->count; i++) {
        int32_t type = r->pieces[i].text ? r->pieces[i].type : CONTROL;
        gguf_output_element(r->output, &type, sizeof type);
    }
}

// SentencePiece's own BPE gives ids in the order of its merges: the later, the lower the score.
static void put_scores(reader *r)
{
    gguf_output_array(r->output, "tokenizer.ggml.scores", GGUF_F32, r->count);
    for (size_t i = 0; i < r->count; i++) {
        float score = r->pieces[i].type == NORMAL ? -(float)i : 0;
        gguf_output_element(r->output, &score, sizeof score);
    }
}

static bool put_merges(reader *r)
{
    const json_t *merges = json_object_get(r->model, "merges"), *merge;
    size_t count = json_array_size(merges), i;
    if (count == 0 || count > MAX_PIECES)
        return engine_fail(r->err, "tokenizer.json: has no merges, or too many; download it again");
    gguf_output_array(r->output, "tokenizer.ggml.merges", GGUF_STRING, count);
    json_array_foreach(merges, i, merge)
    {
        const char *whole = json_string_value(merge);
        const char *left = json_string_value(json_array_get(merge, 0));
        const char *right = json_string_value(json_array_get(merge, 1));
        char pair[2048];
        if (!whole && (!left || !right || strlen(left) > 1000 || strlen(right) > 1000))
            return engine_fail(r->err, "tokenizer.json: merge %zu is no pair; download it again",
                               i);
        if (!whole)
            snprintf(pair, sizeof pair, "%.1000s %.1000s", left, right);
        gguf_output_element_text(r->output, whole ? whole : pair);
    }
    return true;
}

// --- how text is cut ------------------------------------------------------------------------------------

static const json_t *member_of_type(const json_t *node, const char *list, const char *type)
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

static bool put_pretokenizer(reader *r)
{
    const json_t *pre = json_object_get(r->root, "pre_tokenizer");
    const json_t *split = member_of_type(pre, "pretokenizers", "Split");
    const json_t *bytes = member_of_type(pre, "pretokenizers", "ByteLevel");
    const char *pattern = text_of(json_object_get(split, "pattern"), "Regex"), *name = NULL;
    bool ignore_merges = json_is_true(json_object_get(r->model, "ignore_merges"));
    for (size_t i = 0; pattern && i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(patterns[i].pattern, pattern) == 0)
            name = ignore_merges ? patterns[i].name_ignoring_merges : patterns[i].name;
    if (!split && bytes)
        name = member_of_type(pre, "pretokenizers", "Digits") ? "smollm" : "gpt-2";
    if (name && strcmp(name, "qwen2") == 0 && json_is_null(json_object_get(r->root, "normalizer")))
        name = "stablelm2";
    if (!name)
        return engine_fail(r->err,
                           "tokenizer.json: text is cut in a way that weft does not know: '%.100s'",
                           pattern ? pattern : "no pattern");
    gguf_output_text(r->output, "tokenizer.ggml.pre", name);
    return true;
}

// --- special pieces -------------------------------------------------------------------------------------

// The id of a piece that a file names by its text: "</s>" or {"content": "</s>"}; -1 if there is none.
static int64_t id_of(const reader *r, const json_t *named)
{
    const char *text = json_is_object(named) ? text_of(named, "content") : json_string_value(named);
    for (size_t i = 0; text && i < r->count; i++)
        if (r->pieces[i].text && strcmp(r->pieces[i].text, text) == 0)
            return (int64_t)i;
    return -1;
}

static void put_id(reader *r, const json_t *tokenizer_config, const char *name, const char *key)
{
    char id_name[64];
    snprintf(id_name, sizeof id_name, "%s_id", name);
    int64_t id = id_of(r, json_object_get(tokenizer_config, name));
    const json_t *number = json_object_get(r->c->config, id_name);
    if (json_is_array(number))
        number = json_array_get(number, 0);
    if (id < 0 && json_is_integer(number))
        id = json_integer_value(number);
    if (id >= 0 && (size_t)id < r->count)
        gguf_output_u32(r->output, key, (uint32_t)id);
}

// Whether a text begins with a piece of its own: what the post-processor says, else the configuration.
static bool adds_bos(const reader *r, const json_t *tokenizer_config)
{
    const json_t *process = member_of_type(json_object_get(r->root, "post_processor"), "processors",
                                           "TemplateProcessing");
    if (process)
        return json_object_get(json_array_get(json_object_get(process, "single"), 0),
                               "SpecialToken") != NULL;
    return json_is_true(json_object_get(tokenizer_config, "add_bos_token"));
}

static void put_flag(reader *r, const char *key, bool value)
{
    const gguf_entry entry = {
        .key = {key, strlen(key)}, .type = GGUF_BOOL, .value = {.boolean = value}};
    gguf_output_entry(r->output, &entry);
}

// A text, or the one of a list that is called "default".
static const char *template_of(const json_t *tokenizer_config)
{
    const json_t *own = json_object_get(tokenizer_config, "chat_template"), *one;
    size_t i;
    json_array_foreach(own, i, one)
    {
        const char *name = text_of(one, "name");
        if (name && strcmp(name, "default") == 0)
            return text_of(one, "template");
    }
    return json_string_value(own);
}

static bool put_companions(reader *r)
{
    bool missing;
    json_t *config = checkpoint_json(r->c, "tokenizer_config.json", &missing, r->err);
    if (!config && !missing)
        return false;
    put_id(r, config, "bos_token", "tokenizer.ggml.bos_token_id");
    put_id(r, config, "eos_token", "tokenizer.ggml.eos_token_id");
    put_id(r, config, "unk_token", "tokenizer.ggml.unknown_token_id");
    put_id(r, config, "pad_token", "tokenizer.ggml.padding_token_id");
    put_flag(r, "tokenizer.ggml.add_bos_token", adds_bos(r, config));
    char *file = checkpoint_text(r->c, "chat_template.jinja");
    const char *chat = file ? file : template_of(config);
    if (chat)
        gguf_output_text(r->output, "tokenizer.chat_template", chat);
    free(file);
    json_decref(config);
    return true;
}

static bool read(reader *r)
{
    const char *type = text_of(r->model, "type");
    if (!type || strcmp(type, "BPE") != 0)
        return engine_fail(r->err, "tokenizer.json: a tokenizer of type '%.32s' cannot be read yet",
                           type ? type : "none");
    r->sentencepiece = json_is_true(json_object_get(r->model, "byte_fallback"));
    gguf_output_text(r->output, "tokenizer.ggml.model", r->sentencepiece ? "llama" : "gpt2");
    if (!read_pieces(r))
        return false;
    put_pieces(r);
    if (r->sentencepiece)
        put_scores(r);
    else if (!put_pretokenizer(r) || !put_merges(r))
        return false;
    return put_companions(r);
}

bool checkpoint_read_tokenizer(const checkpoint *c, gguf_output *output, engine_error *err)
{
    json_t *root = checkpoint_json(c, "tokenizer.json", NULL, err);
    if (!root)
        return false;
    reader r = {.c = c,
                .root = root,
                .model = json_object_get(root, "model"),
                .output = output,
                .err = err};
    bool good = read(&r);
    free(r.pieces);
    json_decref(root);
    return good;
}
