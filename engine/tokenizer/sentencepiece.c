// SPDX-License-Identifier: MIT
#include <string.h>

#include "engine/tokenizer/normalize.h"
#include "engine/tokenizer/tokenizer_data.h"

// Spaces are kept as spaces here: pieces of the vocabulary have them where the file has U+2581.
static bool prepare(encode_work *work, const char *text, size_t text_bytes)
{
    const tokenizer *t = work->t;
    tokenizer_text *out = &work->text;
    bool squeeze = t->remove_extra_whitespaces;
    out->size_bytes = 0;
    if (t->add_space_prefix && !tokenizer_text_append(out, " ", 1))
        return false;
    if (t->add_space_prefix && work->flags & TOKENIZER_SPACE_IS_PREFIX && text[0] == ' ') {
        text++;
        text_bytes--;
    }
    size_t prefix = out->size_bytes;
    for (size_t i = 0; i < text_bytes;) {
        size_t plain = i;
        bool mark = false;
        while (plain < text_bytes && text[plain] != ' ' && !mark) {
            mark = text_bytes - plain >= 3 && memcmp(text + plain, "\xe2\x96\x81", 3) == 0;
            plain += !mark;
        }
        if (!tokenizer_text_append(out, text + i, plain - i))
            return false;
        if (plain == text_bytes)
            break;
        bool dropped =
            squeeze && (out->size_bytes == prefix || out->data[out->size_bytes - 1] == ' ');
        if (!dropped && !tokenizer_text_append(out, " ", 1))
            return false;
        i = plain + (mark ? 3 : 1);
    }
    while (squeeze && out->size_bytes > prefix && out->data[out->size_bytes - 1] == ' ')
        out->size_bytes--;
    if (out->size_bytes == prefix)
        out->size_bytes = 0;
    return true;
}

size_t sentencepiece_word_end(const tokenizer *t, const tokenizer_text *text, size_t start)
{
    if (!t->words_begin_with_space)
        return text->size_bytes;
    size_t i = start;
    while (i < text->size_bytes && text->data[i] == ' ')
        i++;
    while (i < text->size_bytes && text->data[i] != ' ')
        i++;
    return i;
}

size_t sentencepiece_character_bytes(const char *text, size_t text_bytes)
{
    unsigned char lead = (unsigned char)text[0];
    size_t n = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (n == 1)
        return 1;
    // An invalid byte is a character by itself.
    return n <= text_bytes && normalize_valid_bytes(text, n) == n ? n : 1;
}

static bool encode_word(encode_work *work, const char *word, size_t word_bytes,
                        size_t fragment_start)
{
    const vocab *v = &work->t->vocab;
    bpe_work *bpe = &work->bpe;
    if (!bpe_reserve(bpe, word_bytes))
        return encode_no_memory(work);
    bpe->count = 0;
    bpe->size_bytes = (uint32_t)word_bytes;
    for (size_t i = 0; i < word_bytes;) {
        size_t n = sentencepiece_character_bytes(word + i, word_bytes - i);
        int32_t id = vocab_find(v, word + i, n);
        if (id != TOKENIZER_NONE && v->types[id] != TOKENIZER_NORMAL)
            id = TOKENIZER_NONE;
        bpe->symbols[bpe->count++] = (bpe_symbol){id, (uint32_t)i, 0, 0};
        i += n;
    }
    if (!bpe_merge(&work->t->merges, bpe))
        return encode_no_memory(work);
    return encode_symbols(work, word, fragment_start);
}

bool sentencepiece_encode(encode_work *work, const char *text, size_t text_bytes)
{
    size_t fragment_start = work->list->count;
    if (!prepare(work, text, text_bytes))
        return encode_no_memory(work);
    for (size_t start = 0; start < work->text.size_bytes;) {
        size_t end = sentencepiece_word_end(work->t, &work->text, start);
        if (!encode_word(work, work->text.data + start, end - start, fragment_start))
            return false;
        start = end;
    }
    return true;
}
