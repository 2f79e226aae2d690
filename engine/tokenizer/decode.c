// SPDX-License-Identifier: MIT
#include "engine/tokenizer/tokenizer_data.h"

static const char REPLACEMENT[] = "\xef\xbf\xbd"; // U+FFFD

// Bytes of the character that begins with lead; 0 if none does.
static unsigned sequence_bytes(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

// Whether byte may follow the count bytes of an unfinished character (Unicode, table 3-7).
static bool continues(const unsigned char *bytes, unsigned count, unsigned char byte)
{
    unsigned char low = 0x80, high = 0xbf;
    if (count == 1) {
        low = bytes[0] == 0xe0 ? 0xa0 : bytes[0] == 0xf0 ? 0x90 : low;
        high = bytes[0] == 0xed ? 0x9f : bytes[0] == 0xf4 ? 0x8f : high;
    }
    return byte >= low && byte <= high;
}

static bool feed_byte(tokenizer_decoder *d, unsigned char byte, tokenizer_text *text)
{
    if (d->waiting_bytes > 0) {
        if (continues(d->waiting, d->waiting_bytes, byte)) {
            d->waiting[d->waiting_bytes++] = byte;
            if (d->waiting_bytes < sequence_bytes(d->waiting[0]))
                return true;
            unsigned count = d->waiting_bytes;
            d->waiting_bytes = 0;
            return tokenizer_text_append(text, (const char *)d->waiting, count);
        }
        d->waiting_bytes = 0;
        if (!tokenizer_text_append(text, REPLACEMENT, 3))
            return false;
    }
    unsigned n = sequence_bytes(byte);
    if (n == 0)
        return tokenizer_text_append(text, REPLACEMENT, 3);
    if (n == 1)
        return tokenizer_text_append(text, (const char *)&byte, 1);
    d->waiting[0] = byte;
    d->waiting_bytes = 1;
    return true;
}

tokenizer_decoder tokenizer_decoder_start(const tokenizer *t, unsigned flags)
{
    return (tokenizer_decoder){.t = t, .flags = flags};
}

bool tokenizer_decoder_feed(tokenizer_decoder *d, int32_t id, tokenizer_text *text,
                            engine_error *err)
{
    tokenizer_bytes piece;
    if (!tokenizer_piece(d->t, id, &piece))
        return engine_fail(err, "tokenizer: %d is no token of this vocabulary; ids are 0 to %zu",
                           (int)id, tokenizer_size(d->t) - 1);
    bool special = tokenizer_is_special(d->t, id);
    if (special && !(d->flags & TOKENIZER_SHOW_SPECIAL))
        return true;
    size_t i = 0;
    if (!special && !d->started) {
        bool strip = d->t->add_space_prefix && (d->flags & TOKENIZER_STRIP_SPACE_PREFIX);
        i = strip && piece.size_bytes > 0 && piece.data[0] == ' ';
        d->started = true;
    }
    for (; i < piece.size_bytes; i++) {
        if (!feed_byte(d, (unsigned char)piece.data[i], text))
            return engine_fail(err, "tokenizer: not enough memory to decode");
    }
    return true;
}

bool tokenizer_decoder_finish(tokenizer_decoder *d, tokenizer_text *text, engine_error *err)
{
    bool unfinished = d->waiting_bytes > 0;
    d->waiting_bytes = 0;
    d->started = false;
    if (unfinished && !tokenizer_text_append(text, REPLACEMENT, 3))
        return engine_fail(err, "tokenizer: not enough memory to decode");
    return true;
}

bool tokenizer_decode(const tokenizer *t, const int32_t *ids, size_t count, unsigned flags,
                      tokenizer_text *text, engine_error *err)
{
    tokenizer_decoder d = tokenizer_decoder_start(t, flags);
    for (size_t i = 0; i < count; i++) {
        if (!tokenizer_decoder_feed(&d, ids[i], text, err))
            return false;
    }
    return tokenizer_decoder_finish(&d, text, err);
}
