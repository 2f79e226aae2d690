// SPDX-License-Identifier: MIT
#include "engine/tokenizer/tokenizer_data.h"

bool encode_no_memory(encode_work *work)
{
    return engine_fail(work->err, "tokenizer: not enough memory to encode the text");
}

// Several unknown things in a row are one unknown piece.
static bool push_unknown(encode_work *work, size_t fragment_start)
{
    const tokenizer_ids *list = work->list;
    int32_t unknown = work->t->unknown;
    if (list->count > fragment_start && list->ids[list->count - 1] == unknown)
        return true;
    return tokenizer_ids_push(work->list, unknown) || encode_no_memory(work);
}

static bool push_bytes(encode_work *work, const char *bytes, size_t count, size_t fragment_start)
{
    const int32_t *byte_ids = work->t->vocab.byte_ids;
    for (size_t i = 0; i < count; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (byte_ids[byte] != TOKENIZER_NONE)
            continue;
        if (work->t->unknown == TOKENIZER_NONE)
            return engine_fail(work->err,
                               "tokenizer: the vocabulary has no piece for byte 0x%02X; "
                               "take it out of the text",
                               byte);
        return push_unknown(work, fragment_start);
    }
    for (size_t i = 0; i < count; i++) {
        if (!tokenizer_ids_push(work->list, byte_ids[(unsigned char)bytes[i]]))
            return encode_no_memory(work);
    }
    return true;
}

bool encode_symbols(encode_work *work, const char *word, size_t fragment_start)
{
    const bpe_work *bpe = &work->bpe;
    for (size_t i = 0; i < bpe->count; i++) {
        const bpe_symbol *symbol = &bpe->symbols[i];
        if (symbol->id != TOKENIZER_NONE) {
            if (!tokenizer_ids_push(work->list, symbol->id))
                return encode_no_memory(work);
            continue;
        }
        size_t end = i + 1 < bpe->count ? symbol[1].offset : bpe->size_bytes;
        if (!push_bytes(work, word + symbol->offset, end - symbol->offset, fragment_start))
            return false;
    }
    return true;
}

static bool encode_fragment(encode_work *work, const char *text, size_t text_bytes)
{
    if (text_bytes == 0)
        return true;
    return work->t->kind == TOKENIZER_SENTENCEPIECE ? sentencepiece_encode(work, text, text_bytes)
                                                    : byte_level_encode(work, text, text_bytes);
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
    return ok;
}
