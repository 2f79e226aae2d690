// SPDX-License-Identifier: MIT
#include "engine/tokenizer/normalize.h"
#include "engine/tokenizer/tokenizer_data.h"

static bool encode_word(encode_work *work, const char *word, size_t word_bytes)
{
    const tokenizer *t = work->t;
    if (t->pre.rules->whole_pieces) {
        int32_t id = vocab_find(&t->vocab, word, word_bytes);
        if (id != TOKENIZER_NONE && t->vocab.types[id] == TOKENIZER_NORMAL)
            return tokenizer_ids_push(work->list, id) || encode_no_memory(work);
    }
    bpe_work *bpe = &work->bpe;
    if (!bpe_reserve(bpe, word_bytes))
        return encode_no_memory(work);
    for (size_t i = 0; i < word_bytes; i++)
        bpe->symbols[i] =
            (bpe_symbol){t->vocab.byte_ids[(unsigned char)word[i]], (uint32_t)i, 0, 0};
    bpe->count = word_bytes;
    bpe->size_bytes = (uint32_t)word_bytes;
    if (!bpe_merge(&t->merges, bpe))
        return encode_no_memory(work);
    return encode_symbols(work, word, work->list->count);
}

static bool encode_valid(encode_work *work, const char *text, size_t text_bytes)
{
    if (work->t->pre.compose) {
        work->text.size_bytes = 0;
        if (!normalize_compose(text, text_bytes, &work->text))
            return encode_no_memory(work);
        text = work->text.data;
        text_bytes = work->text.size_bytes;
    }
    pretokenizer_text(&work->walk, text, text_bytes);
    for (size_t start = 0; start < text_bytes;) {
        size_t end = pretokenizer_next(&work->walk, start);
        if (!encode_word(work, text + start, end - start))
            return false;
        start = end;
    }
    return true;
}

// Valid UTF-8 is cut by the pattern; each run of invalid bytes is a word.
bool byte_level_encode(encode_work *work, const char *text, size_t text_bytes)
{
    for (size_t i = 0; i < text_bytes;) {
        size_t valid = normalize_valid_bytes(text + i, text_bytes - i);
        if (valid > 0 && !encode_valid(work, text + i, valid))
            return false;
        size_t start = i += valid;
        while (i < text_bytes &&
               normalize_valid_bytes(text + i, text_bytes - i < 4 ? text_bytes - i : 4) == 0)
            i++;
        if (i > start && !encode_word(work, text + start, i - start))
            return false;
    }
    return true;
}
