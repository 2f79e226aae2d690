// SPDX-License-Identifier: MIT
#include <stdlib.h>

#include "engine/tokenizer/tokenizer_data.h"

static bool encode_fragment(encode_work *work, const char *text, size_t text_bytes)
{
    if (text_bytes == 0)
        return true;
    switch (work->t->kind) {
    case TOKENIZER_SENTENCEPIECE: return sentencepiece_encode(work, text, text_bytes);
    case TOKENIZER_BYTE_LEVEL: return byte_level_encode(work, text, text_bytes);
    case TOKENIZER_WORDPIECE: return wordpiece_encode(work, text, text_bytes);
    case TOKENIZER_UNIGRAM: return unigram_encode(work, text, text_bytes);
    }
    return false;
}

static bool encode_all(encode_work *work, const char *text, size_t text_bytes, unsigned flags)
{
    const tokenizer *t = work->t;
    bool add = flags & TOKENIZER_ADD_SPECIAL;
    if (add && t->add_bos && !tokenizer_ids_push(work->list, t->bos))
        return encode_no_memory(work);
    for (size_t position = 0; position < text_bytes;) {
        size_t start, match_bytes = 0;
        int32_t id = special_search(&t->specials, text, text_bytes, position,
                                    flags & TOKENIZER_PARSE_SPECIAL, &start, &match_bytes);
        if (!encode_fragment(work, text + position, start - position))
            return false;
        if (id != TOKENIZER_NONE && !tokenizer_ids_push(work->list, id))
            return encode_no_memory(work);
        position = start + match_bytes;
    }
    if (add && t->add_eos && !tokenizer_ids_push(work->list, t->eos))
        return encode_no_memory(work);
    return true;
}

bool tokenizer_encode(const tokenizer *t, const char *text, size_t text_bytes, unsigned flags,
                      tokenizer_ids *list, engine_error *err)
{
    if (text_bytes > TOKENIZER_MAX_TEXT_BYTES)
        return engine_fail(err,
                           "tokenizer: a text of %zu bytes is more than the limit of %d; encode "
                           "it in parts",
                           text_bytes, TOKENIZER_MAX_TEXT_BYTES);
    encode_work work = {.t = t, .flags = flags, .list = list, .err = err};
    size_t count = list->count;
    bool ok = true;
    if (t->kind == TOKENIZER_BYTE_LEVEL)
        ok = pretokenizer_start(&t->pre, &work.walk) || encode_no_memory(&work);
    ok = ok && encode_all(&work, text, text_bytes, flags);
    if (!ok)
        list->count = count;
    pretokenizer_stop(&work.walk);
    bpe_free(&work.bpe);
    tokenizer_text_free(&work.text);
    free(work.places);
    return ok;
}
