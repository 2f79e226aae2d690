// SPDX-License-Identifier: MIT
#include "engine/session/answer.h"

static bool reserve_text(tokenizer_text *text)
{
    static const char blank[1024];
    bool fine = tokenizer_text_append(text, blank, sizeof blank);
    text->size_bytes = 0;
    return fine;
}

bool answer_begin(answer *a, const tokenizer *t, const char *const *stops, engine_error *err)
{
    *a = (answer){.tokenizer = t, .filter.stops = stops};
    if (t)
        a->decoder = tokenizer_decoder_start(t, 0);
    return (reserve_text(&a->piece) && reserve_text(&a->filter.held)) ||
           engine_fail(err, "not enough memory for the text");
}

// Hands what is in a->piece to the filter.
static bool filter_piece(answer *a, engine_error *err)
{
    size_t bytes = a->piece.size_bytes;
    a->piece.size_bytes = 0;
    return bytes == 0 || stop_filter_add(&a->filter, a->piece.data, bytes) ||
           engine_fail(err, "not enough memory for the text");
}

bool answer_add(answer *a, int32_t token, engine_error *err)
{
    // A matrix may have more rows than the tokenizer has pieces; such ids have no text.
    if (!a->tokenizer || (size_t)token >= tokenizer_size(a->tokenizer))
        return true;
    return tokenizer_decoder_feed(&a->decoder, token, &a->piece, err) && filter_piece(a, err);
}

bool answer_finish(answer *a, engine_error *err)
{
    if (a->filter.stopped || !a->tokenizer)
        return true;
    if (!tokenizer_decoder_finish(&a->decoder, &a->piece, err) || !filter_piece(a, err))
        return false;
    stop_filter_end(&a->filter);
    return true;
}

tokenizer_bytes answer_text(const answer *a)
{
    return (tokenizer_bytes){a->filter.release_bytes ? a->filter.held.data : "",
                             a->filter.release_bytes};
}

void answer_written(answer *a)
{
    stop_filter_released(&a->filter);
}

void answer_free(answer *a)
{
    tokenizer_text_free(&a->piece);
    stop_filter_free(&a->filter);
}
