// SPDX-License-Identifier: MIT
// From what byte-pair merging leaves to ids.
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
