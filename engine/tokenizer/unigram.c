// SPDX-License-Identifier: MIT
// SentencePiece's Unigram: of all ways to cut a text into pieces, the one with the largest sum of scores.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/tokenizer/tokenizer_data.h"

enum { MAX_UNIGRAM_BYTES = 256 }; // of a piece; they are made of at most 16 characters

static const float LARGEST_SUM = 100000; // as SentencePiece has it since 0.2.2
static const float UNKNOWN_PENALTY = 10; // below the worst piece, as SentencePiece has it

bool unigram_build(unigram_model *model, const vocab *v, const tokenizer_spec *spec,
                   engine_error *err)
{
    if (!spec->scores)
        return engine_fail(err, "tokenizer: a Unigram vocabulary needs scores; the file has no "
                                "tokenizer.ggml.scores");
    model->scores = engine_alloc(v->count, sizeof *model->scores);
    if (!model->scores)
        return engine_fail(err, "tokenizer: not enough memory for %zu scores", v->count);
    float worst = INFINITY;
    for (size_t id = 0; id < v->count; id++) {
        if (!isfinite(spec->scores[id]))
            return engine_fail(err, "tokenizer: piece %zu has no finite score; the file is damaged",
                               id);
        model->scores[id] = spec->scores[id];
        if (v->types[id] != TOKENIZER_NORMAL)
            continue;
        worst = spec->scores[id] < worst ? spec->scores[id] : worst;
        if (vocab_piece(v, (int32_t)id).size_bytes <= MAX_UNIGRAM_BYTES &&
            !special_insert(&model->pieces, v, (int32_t)id, err))
            return false;
    }
    model->unknown_score = (isfinite(worst) ? worst : 0) - UNKNOWN_PENALTY;
    return !spec->charsmap ||
           charsmap_build(&model->charsmap, spec->charsmap, spec->charsmap_bytes, err);
}

void unigram_free(unigram_model *model)
{
    free(model->scores);
    special_free(&model->pieces);
    charsmap_free(&model->charsmap);
}

// --- what SentencePiece does to a text first --------------------------------------------------------------

// The text's beginning as it is normalised: *bytes of it become the result.
static tokenizer_bytes next_normal(const charsmap *map, const char *text, size_t text_bytes,
                                   size_t *bytes)
{
    tokenizer_bytes normal;
    *bytes = charsmap_find(map, text, text_bytes, &normal);
    if (*bytes > 0)
        return normal;
    *bytes = sentencepiece_character_bytes(text, text_bytes);
    return (tokenizer_bytes){text, *bytes};
}

// Spaces and U+2581, which is how pieces are written with spaces, become the same.
static bool append_normal(tokenizer_text *out, tokenizer_bytes normal)
{
    for (size_t i = 0; i < normal.size_bytes;) {
        size_t left = normal.size_bytes - i, plain = i;
        bool mark = left >= 3 && memcmp(normal.data + i, "\xe2\x96\x81", 3) == 0;
        plain = mark ? 3 : 1;
        if (!tokenizer_text_append(out, mark ? " " : normal.data + i, 1))
            return false;
        i += plain;
    }
    return true;
}

static bool normalise(encode_work *work, const char *text, size_t text_bytes)
{
    const tokenizer *t = work->t;
    const charsmap *map = &t->unigram.charsmap;
    tokenizer_text *out = &work->text;
    bool squeeze = t->remove_extra_whitespaces, after_space = squeeze;
    out->size_bytes = 0;
    if (t->add_space_prefix && work->flags & TOKENIZER_SPACE_IS_PREFIX && text[0] == ' ') {
        text++;
        text_bytes--;
    }
    if (t->add_space_prefix && !tokenizer_text_append(out, " ", 1))
        return encode_no_memory(work);
    size_t prefix = out->size_bytes;
    for (size_t i = 0, bytes; i < text_bytes; i += bytes) {
        tokenizer_bytes normal = next_normal(map, text + i, text_bytes - i, &bytes);
        while (after_space && normal.size_bytes > 0 && normal.data[0] == ' ') {
            normal.data++;
            normal.size_bytes--;
        }
        if (normal.size_bytes == 0)
            continue;
        if (!append_normal(out, normal))
            return encode_no_memory(work);
        if (out->size_bytes > 4 * (size_t)TOKENIZER_MAX_TEXT_BYTES)
            return engine_fail(work->err, "tokenizer: the normalised text is too long; encode it "
                                          "in parts");
        after_space = squeeze && normal.data[normal.size_bytes - 1] == ' ';
    }
    while (squeeze && out->size_bytes > prefix && out->data[out->size_bytes - 1] == ' ')
        out->size_bytes--;
    if (out->size_bytes == prefix && (squeeze || text_bytes == 0))
        out->size_bytes = 0;
    return true;
}

// --- the best way to cut ---------------------------------------------------------------------------------

static void offer(unigram_place *place, float score, size_t start, int32_t id)
{
    if (place->start != UINT32_MAX && !(score > place->score))
        return;
    *place = (unigram_place){score, (uint32_t)start, id};
}

// Sums of long texts begin again at zero, so that they keep their digits.
static void begin_again(unigram_place *places, size_t at, size_t word_bytes)
{
    float sum = places[at].score;
    if (fabsf(sum) <= LARGEST_SUM)
        return;
    for (size_t i = at; i <= word_bytes && i - at <= MAX_UNIGRAM_BYTES; i++)
        if (i == at || places[i].start != UINT32_MAX)
            places[i].score -= sum;
}

// places[i]: the best way to cut the first i bytes of a word. Sums are those of SentencePiece, in single precision
// and on from the words before, because how they are rounded decides between ways that score alike.
static void search(const tokenizer *t, const char *word, size_t word_bytes, float sum,
                   unigram_place *places)
{
    const unigram_model *model = &t->unigram;
    for (size_t i = 0; i <= word_bytes; i++)
        places[i].start = UINT32_MAX;
    places[0].score = sum;
    for (size_t at = 0, bytes; at < word_bytes; at += bytes) {
        bool alone = false;
        uint32_t node = 0;
        begin_again(places, at, word_bytes);
        bytes = sentencepiece_character_bytes(word + at, word_bytes - at);
        for (size_t end = at; end < word_bytes;) {
            node = special_step(&model->pieces, node, (uint8_t)word[end++]);
            if (node == 0)
                break;
            int32_t id = model->pieces.nodes[node].id;
            if (id == TOKENIZER_NONE)
                continue;
            offer(&places[end], places[at].score + model->scores[id], at, id);
            alone = alone || end - at == bytes;
        }
        if (!alone)
            offer(&places[at + bytes], places[at].score + model->unknown_score, at, TOKENIZER_NONE);
    }
}

// The places of the best way, from the last piece to the first, become symbols in their order.
static bool collect(encode_work *work, size_t word_bytes)
{
    bpe_work *bpe = &work->bpe;
    size_t count = 0;
    for (size_t end = word_bytes; end > 0; end = work->places[end].start)
        count++;
    if (!bpe_reserve(bpe, count))
        return false;
    bpe->count = count;
    bpe->size_bytes = (uint32_t)word_bytes;
    for (size_t end = word_bytes; end > 0; end = work->places[end].start)
        bpe->symbols[--count] = (bpe_symbol){work->places[end].id, work->places[end].start, 0, 0};
    return true;
}

static bool encode_word(encode_work *work, const char *word, size_t word_bytes,
                        size_t fragment_start, float *sum)
{
    if (work->place_room <= word_bytes) {
        unigram_place *places = engine_realloc(work->places, word_bytes + 1, sizeof *places);
        if (!places)
            return encode_no_memory(work);
        work->places = places;
        work->place_room = word_bytes + 1;
    }
    search(work->t, word, word_bytes, *sum, work->places);
    *sum = work->places[word_bytes].score;
    return collect(work, word_bytes) ? encode_symbols(work, word, fragment_start)
                                     : encode_no_memory(work);
}

bool unigram_encode(encode_work *work, const char *text, size_t text_bytes)
{
    size_t fragment_start = work->list->count;
    float sum = 0;
    if (!normalise(work, text, text_bytes))
        return false;
    for (size_t start = 0; start < work->text.size_bytes;) {
        size_t end = sentencepiece_word_end(work->t, &work->text, start);
        if (!encode_word(work, work->text.data + start, end - start, fragment_start, &sum))
            return false;
        start = end;
    }
    return true;
}
