// SPDX-License-Identifier: MIT
#include "engine/tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/tokenizer/tokenizer_data.h"

tokenizer_spec tokenizer_spec_default(tokenizer_kind kind)
{
    return (tokenizer_spec){
        .kind = kind,
        .bos = TOKENIZER_NONE,
        .eos = TOKENIZER_NONE,
        .eot = TOKENIZER_NONE,
        .eom = TOKENIZER_NONE,
        .unknown = TOKENIZER_NONE,
        .padding = TOKENIZER_NONE,
        .add_bos = -1,
        .add_eos = -1,
        .add_space_prefix = kind == TOKENIZER_SENTENCEPIECE || kind == TOKENIZER_UNIGRAM,
        .lower_case = -1,
        .strip_accents = -1,
    };
}

static bool check_ids(const tokenizer_spec *spec, engine_error *err)
{
    const struct {
        const char *name;
        int32_t id;
    } ids[] = {
        {"bos", spec->bos}, {"eos", spec->eos},         {"eot", spec->eot},
        {"eom", spec->eom}, {"unknown", spec->unknown}, {"padding", spec->padding},
    };
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        if (ids[i].id != TOKENIZER_NONE &&
            (ids[i].id < 0 || (size_t)ids[i].id >= spec->piece_count))
            return engine_fail(err,
                               "tokenizer: the %s token is %d in a vocabulary of %zu; the file "
                               "is damaged",
                               ids[i].name, (int)ids[i].id, spec->piece_count);
    }
    if (spec->add_bos > 0 && spec->bos == TOKENIZER_NONE)
        return engine_fail(err, "tokenizer: the file asks for a bos token and names none; it needs "
                                "tokenizer.ggml.bos_token_id");
    if (spec->add_eos > 0 && spec->eos == TOKENIZER_NONE)
        return engine_fail(err,
                           "tokenizer: the file asks for an eos token and names none; it needs "
                           "tokenizer.ggml.eos_token_id");
    return true;
}

static bool check_bytes(const tokenizer *t, engine_error *err)
{
    if (t->kind == TOKENIZER_WORDPIECE && t->unknown == TOKENIZER_NONE)
        return engine_fail(err,
                           "tokenizer: a WordPiece vocabulary needs an unknown piece; the file "
                           "has no tokenizer.ggml.unknown_token_id");
    for (int byte = 0; byte < 256 && t->unknown == TOKENIZER_NONE; byte++) {
        if (t->kind != TOKENIZER_BYTE_LEVEL && t->vocab.byte_ids[byte] == TOKENIZER_NONE)
            return engine_fail(err,
                               "tokenizer: the vocabulary has neither a piece for byte %d nor an "
                               "unknown piece; the file is damaged",
                               byte);
    }
    return true;
}

static bool any_space_inside(const vocab *v)
{
    for (size_t id = 0; id < v->count; id++) {
        if (v->types[id] != TOKENIZER_NORMAL)
            continue;
        tokenizer_bytes piece = vocab_piece(v, (int32_t)id);
        size_t i = 0;
        while (i < piece.size_bytes && piece.data[i] == ' ')
            i++;
        if (i < piece.size_bytes && memchr(piece.data + i, ' ', piece.size_bytes - i))
            return true;
    }
    return false;
}

static int32_t find_control(const tokenizer *t, const char *name)
{
    int32_t id = special_find(&t->specials, name, strlen(name));
    return id != TOKENIZER_NONE && t->vocab.types[id] == TOKENIZER_CONTROL ? id : TOKENIZER_NONE;
}

// Where an answer has channels (gpt-oss), <|end|> closes one of them; the answer ends with a return or a call.
static void mark_channel_ends(tokenizer *t, const tokenizer_spec *spec)
{
    int32_t back = find_control(t, "<|return|>"), call = find_control(t, "<|call|>"),
            end = find_control(t, "<|end|>");
    if (back == TOKENIZER_NONE || call == TOKENIZER_NONE)
        return;
    t->ends[back] = t->ends[call] = true;
    if (end != TOKENIZER_NONE && end != spec->eos)
        t->ends[end] = false;
}

static bool mark_ends(tokenizer *t, const tokenizer_spec *spec, engine_error *err)
{
    static const char *const names[] = {
        "<|eot_id|>", "<|eom_id|>",    "<|im_end|>",      "<|end_of_text|>", "<|endoftext|>",
        "<|end|>",    "<|endofturn|>", "<end_of_turn>",   "<turn|>",         "</s>",
        "<|eom|>",    "<EOT>",         "<|end_of_turn|>",
    };
    const int32_t ids[] = {spec->eos, spec->eot, spec->eom};
    t->ends = engine_alloc(t->vocab.count, sizeof *t->ends);
    if (!t->ends)
        return engine_fail(err, "tokenizer: not enough memory for %zu pieces", t->vocab.count);
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        if (ids[i] != TOKENIZER_NONE)
            t->ends[ids[i]] = true;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int32_t id = find_control(t, names[i]);
        if (id != TOKENIZER_NONE)
            t->ends[id] = true;
    }
    mark_channel_ends(t, spec);
    return true;
}

// Where the file does not say.
static bool usually_adds_bos(const tokenizer *t)
{
    return t->kind == TOKENIZER_SENTENCEPIECE || t->kind == TOKENIZER_WORDPIECE ||
           (t->kind == TOKENIZER_BYTE_LEVEL && t->pre.rules->adds_bos);
}

static bool usually_adds_eos(const tokenizer *t)
{
    return t->kind == TOKENIZER_WORDPIECE || t->kind == TOKENIZER_UNIGRAM ||
           (t->kind == TOKENIZER_BYTE_LEVEL && t->pre.rules->adds_eos);
}

static bool chosen(int wish, bool usual, int32_t id)
{
    return wish < 0 ? usual && id != TOKENIZER_NONE : wish > 0;
}

static void copy_choices(tokenizer *t, const tokenizer_spec *spec)
{
    bool byte_level = spec->kind == TOKENIZER_BYTE_LEVEL;
    bool sentencepiece = spec->kind == TOKENIZER_SENTENCEPIECE || spec->kind == TOKENIZER_UNIGRAM;
    t->bos = spec->bos;
    t->eos = spec->eos;
    t->add_bos = chosen(spec->add_bos, usually_adds_bos(t), spec->bos);
    t->add_eos = chosen(spec->add_eos, usually_adds_eos(t), spec->eos);
    t->add_space_prefix =
        (sentencepiece && spec->add_space_prefix) || spec->kind == TOKENIZER_WORDPIECE;
    t->remove_extra_whitespaces = sentencepiece && spec->remove_extra_whitespaces;
    t->words_begin_with_space = sentencepiece && !any_space_inside(&t->vocab);
    t->unknown = spec->unknown;
    // Converters name <|endoftext|> as the unknown piece of vocabularies that have none; text must not
    // become it.
    if (byte_level && t->unknown != TOKENIZER_NONE &&
        (t->ends[t->unknown] || t->unknown == spec->bos))
        t->unknown = TOKENIZER_NONE;
    for (size_t id = 0; id < t->vocab.count && !byte_level && t->unknown == TOKENIZER_NONE; id++) {
        if (t->vocab.types[id] == TOKENIZER_UNKNOWN)
            t->unknown = (int32_t)id;
    }
}

static bool build_model(tokenizer *t, const tokenizer_spec *spec, engine_error *err)
{
    if (t->kind == TOKENIZER_SENTENCEPIECE) {
        if (!spec->scores)
            return engine_fail(err,
                               "tokenizer: a SentencePiece vocabulary needs scores; the file has "
                               "no tokenizer.ggml.scores");
        return merges_from_scores(&t->merges, &t->vocab, spec->scores, err);
    }
    if (t->kind == TOKENIZER_UNIGRAM)
        return unigram_build(&t->unigram, &t->vocab, spec, err);
    if (t->kind == TOKENIZER_WORDPIECE) {
        wordpiece_guess(t, spec->lower_case, spec->strip_accents);
        return true;
    }
    if (!spec->merges && spec->merge_count > 0)
        return engine_fail(err, "tokenizer: a byte-level vocabulary needs merges; the file has no "
                                "tokenizer.ggml.merges");
    return pretokenizer_build(&t->pre, spec->pre, err) &&
           merges_from_list(&t->merges, &t->vocab, spec, err);
}

tokenizer *tokenizer_create(const tokenizer_spec *spec, engine_error *err)
{
    if (spec->kind < TOKENIZER_SENTENCEPIECE || spec->kind > TOKENIZER_UNIGRAM) {
        engine_fail(err, "tokenizer: %d is no kind of vocabulary", (int)spec->kind);
        return NULL;
    }
    if (!check_ids(spec, err))
        return NULL;
    tokenizer *t = engine_alloc(1, sizeof *t);
    if (!t) {
        engine_fail(err, "tokenizer: not enough memory");
        return NULL;
    }
    t->kind = spec->kind;
    if (!vocab_build(&t->vocab, spec, err) || !special_build(&t->specials, &t->vocab, err) ||
        !build_model(t, spec, err) || !mark_ends(t, spec, err)) {
        tokenizer_free(t);
        return NULL;
    }
    copy_choices(t, spec);
    if (!check_bytes(t, err)) {
        tokenizer_free(t);
        return NULL;
    }
    return t;
}

void tokenizer_free(tokenizer *t)
{
    if (!t)
        return;
    vocab_free(&t->vocab);
    special_free(&t->specials);
    merges_free(&t->merges);
    unigram_free(&t->unigram);
    pretokenizer_free(&t->pre);
    free(t->ends);
    free(t);
}

size_t tokenizer_size(const tokenizer *t)
{
    return t->vocab.count;
}

tokenizer_kind tokenizer_get_kind(const tokenizer *t)
{
    return t->kind;
}

const char *tokenizer_pre(const tokenizer *t)
{
    return t->pre.rules ? t->pre.rules->name : "";
}

int32_t tokenizer_bos(const tokenizer *t)
{
    return t->bos;
}

int32_t tokenizer_eos(const tokenizer *t)
{
    return t->eos;
}

int32_t tokenizer_unknown(const tokenizer *t)
{
    return t->unknown;
}

bool tokenizer_adds_bos(const tokenizer *t)
{
    return t->add_bos;
}

bool tokenizer_adds_eos(const tokenizer *t)
{
    return t->add_eos;
}

static bool in_range(const tokenizer *t, int32_t id)
{
    return id >= 0 && (size_t)id < t->vocab.count;
}

bool tokenizer_is_end(const tokenizer *t, int32_t id)
{
    return in_range(t, id) && t->ends[id];
}

bool tokenizer_is_special(const tokenizer *t, int32_t id)
{
    if (!in_range(t, id))
        return false;
    int type = t->vocab.types[id];
    return type == TOKENIZER_CONTROL || type == TOKENIZER_UNKNOWN || type == TOKENIZER_UNUSED;
}

bool tokenizer_piece(const tokenizer *t, int32_t id, tokenizer_bytes *piece)
{
    if (!in_range(t, id))
        return false;
    *piece = vocab_piece(&t->vocab, id);
    return true;
}

int32_t tokenizer_next_special(const tokenizer *t, const char *text, size_t text_bytes, size_t from,
                               size_t *start, size_t *size_bytes)
{
    return special_search(&t->specials, text, text_bytes, from, true, start, size_bytes);
}

int32_t tokenizer_find_special(const tokenizer *t, const char *text, size_t text_bytes)
{
    return special_find(&t->specials, text, text_bytes);
}
