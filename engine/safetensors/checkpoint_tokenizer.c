// SPDX-License-Identifier: MIT
// tokenizer.json and its companions to GGUF's tokenizer keys.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/safetensors/checkpoint_tokenizer.h"

enum {
    MAX_PIECES = 1 << 22,
    NORMAL = 1,
    UNKNOWN = 2,
    CONTROL = 3,
    USER_DEFINED = 4,
    BYTE = 6,
};

typedef tokenizer_json reader;

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
    bool unknown = r->kind == TOKENIZER_JSON_UNIGRAM && r->pieces[n].type == UNKNOWN;
    r->pieces[n] = (tokenizer_json_piece){text, unknown ? UNKNOWN : type, 0};
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
    if (r->kind == TOKENIZER_JSON_UNIGRAM && json_array_size(vocab) < MAX_PIECES)
        most = (json_int_t)json_array_size(vocab) - 1;
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

static bool is_sentencepiece(const reader *r)
{
    return r->kind == TOKENIZER_JSON_SENTENCEPIECE || r->kind == TOKENIZER_JSON_UNIGRAM;
}

static bool is_byte_piece(const char *text)
{
    return strlen(text) == 6 && strncmp(text, "<0x", 3) == 0 && text[5] == '>';
}

// Unigram has a list of pieces with their scores, in the order of their ids.
static bool read_scored(reader *r, const json_t *vocab)
{
    json_t *pair;
    size_t i;
    json_int_t unknown = json_integer_value(json_object_get(r->model, "unk_id"));
    bool has_unknown = json_is_integer(json_object_get(r->model, "unk_id"));
    json_array_foreach(vocab, i, pair)
    {
        const char *text = json_string_value(json_array_get(pair, 0));
        const json_t *score = json_array_get(pair, 1);
        if (!text || !json_is_number(score) || i >= r->count)
            return engine_fail(r->err,
                               "tokenizer.json: piece %zu is no text with a score; download "
                               "it again",
                               i);
        int32_t type = has_unknown && unknown == (json_int_t)i ? UNKNOWN
                       : is_byte_piece(text)                   ? BYTE
                                                               : NORMAL;
        r->pieces[i] = (tokenizer_json_piece){text, type, (float)json_number_value(score)};
    }
    return true;
}

static bool read_pieces(reader *r)
{
    const json_t *vocab = json_object_get(r->model, "vocab");
    const json_t *added = json_object_get(r->root, "added_tokens");
    const char *unknown = text_of(r->model, "unk_token"), *text;
    json_t *value;
    size_t i;
    if (!count_pieces(r, vocab, added) || !read_scored(r, vocab))
        return false;
    json_object_foreach((json_t *)vocab, text, value)
    {
        int32_t type = is_sentencepiece(r) && is_byte_piece(text) ? BYTE : NORMAL;
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
    for (i = 0; r->kind != TOKENIZER_JSON_BYTE_LEVEL && unknown && i < r->count; i++)
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
        const char *text = r->pieces[i].text ? r->pieces[i].text : gap;
        if (r->kind == TOKENIZER_JSON_WORDPIECE)
            tokenizer_json_put_wordpiece(r, text);
        else
            gguf_output_element_text(r->output, text);
    }
    gguf_output_array(r->output, "tokenizer.ggml.token_type", GGUF_I32, r->count);
    for (size_t i = 0; i < r->count; i++) {
        int32_t type = r->pieces[i].text ? r->pieces[i].type : CONTROL;
        gguf_output_element(r->output, &type, sizeof type);
    }
}

// Unigram's are its own. SentencePiece's own BPE gives ids in the order of its merges: the later, the lower the score.
static void put_scores(reader *r)
{
    gguf_output_array(r->output, "tokenizer.ggml.scores", GGUF_F32, r->count);
    for (size_t i = 0; i < r->count; i++) {
        float score = r->pieces[i].score;
        if (r->kind == TOKENIZER_JSON_SENTENCEPIECE && r->pieces[i].type == NORMAL)
            score = -(float)i;
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

// What the post-processor puts around a text: *first and *last are pieces or NULL. False if nothing is said.
static bool read_frame(const reader *r, const char **first, const char **last)
{
    const json_t *process = json_object_get(r->root, "post_processor");
    const json_t *single = json_object_get(
        tokenizer_json_member(process, "processors", "TemplateProcessing"), "single");
    const json_t *bert = tokenizer_json_member(process, "processors", "BertProcessing");
    if (!bert)
        bert = tokenizer_json_member(process, "processors", "RobertaProcessing");
    *first = *last = NULL;
    if (bert) {
        *first = json_string_value(json_array_get(json_object_get(bert, "cls"), 0));
        *last = json_string_value(json_array_get(json_object_get(bert, "sep"), 0));
        return true;
    }
    if (json_array_size(single) == 0)
        return false;
    *first = text_of(json_object_get(json_array_get(single, 0), "SpecialToken"), "id");
    *last = text_of(
        json_object_get(json_array_get(single, json_array_size(single) - 1), "SpecialToken"), "id");
    return true;
}

static bool same_piece(const reader *r, const char *text, const json_t *named)
{
    int64_t id = id_of(r, named);
    return text && id >= 0 && strcmp(r->pieces[id].text, text) == 0;
}

// A text may end with a piece of its own; where models generate that must be their eos.
static void put_frame(reader *r, const json_t *config)
{
    const char *first, *last;
    bool said = read_frame(r, &first, &last), encoder = r->kind >= TOKENIZER_JSON_WORDPIECE;
    gguf_output_bool(r->output, "tokenizer.ggml.add_bos_token",
                     said ? first != NULL : json_is_true(json_object_get(config, "add_bos_token")));
    bool ends = last && (same_piece(r, last, json_object_get(config, "eos_token")) ||
                         same_piece(r, last, json_object_get(config, "sep_token")));
    if (said && (encoder || ends))
        gguf_output_bool(r->output, "tokenizer.ggml.add_eos_token", ends);
    put_id(r, config, "cls_token", "tokenizer.ggml.cls_token_id");
    put_id(r, config, "sep_token", "tokenizer.ggml.seperator_token_id");
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
    put_frame(r, config);
    char *file = checkpoint_text(r->c, "chat_template.jinja");
    const char *chat = file ? file : template_of(config);
    if (chat)
        gguf_output_text(r->output, "tokenizer.chat_template", chat);
    free(file);
    json_decref(config);
    return true;
}

static bool read_kind(reader *r)
{
    static const char *const names[] = {"gpt2", "llama", "bert", "t5"};
    const char *type = text_of(r->model, "type");
    if (type && strcmp(type, "BPE") == 0)
        r->kind = json_is_true(json_object_get(r->model, "byte_fallback"))
                      ? TOKENIZER_JSON_SENTENCEPIECE
                      : TOKENIZER_JSON_BYTE_LEVEL;
    else if (type && strcmp(type, "WordPiece") == 0)
        r->kind = TOKENIZER_JSON_WORDPIECE;
    else if (type && strcmp(type, "Unigram") == 0)
        r->kind = TOKENIZER_JSON_UNIGRAM;
    else
        return engine_fail(r->err, "tokenizer.json: a tokenizer of type '%.32s' cannot be read yet",
                           type ? type : "none");
    gguf_output_text(r->output, "tokenizer.ggml.model", names[r->kind]);
    return true;
}

static bool read(reader *r)
{
    if (!read_kind(r) || !read_pieces(r))
        return false;
    put_pieces(r);
    if (is_sentencepiece(r))
        put_scores(r);
    bool good = true;
    switch (r->kind) {
    case TOKENIZER_JSON_BYTE_LEVEL: good = tokenizer_json_put_words(r) && put_merges(r); break;
    case TOKENIZER_JSON_WORDPIECE: good = tokenizer_json_put_bert_normalizer(r); break;
    case TOKENIZER_JSON_UNIGRAM: good = tokenizer_json_put_unigram_normalizer(r); break;
    case TOKENIZER_JSON_SENTENCEPIECE: break;
    }
    return good && put_companions(r);
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
