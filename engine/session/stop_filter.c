// SPDX-License-Identifier: MIT
#include "engine/session/stop_filter.h"

#include <string.h>

// The longest end of the text that is a beginning of the stop string.
static size_t partial_match(const char *text, size_t bytes, const char *stop, size_t stop_bytes)
{
    size_t longest = bytes < stop_bytes ? bytes : stop_bytes - 1;
    for (size_t length = longest; length > 0; length--)
        if (memcmp(text + bytes - length, stop, length) == 0)
            return length;
    return 0;
}

static const char *find(const char *text, size_t bytes, const char *stop, size_t stop_bytes)
{
    for (size_t i = 0; i + stop_bytes <= bytes; i++)
        if (memcmp(text + i, stop, stop_bytes) == 0)
            return text + i;
    return NULL;
}

bool stop_filter_add(stop_filter *filter, const char *text, size_t bytes)
{
    if (!tokenizer_text_append(&filter->held, text, bytes))
        return false;
    tokenizer_text *held = &filter->held;
    size_t keep = 0;
    for (const char *const *stop = filter->stops; stop && *stop; stop++) {
        size_t stop_bytes = strlen(*stop);
        const char *at = stop_bytes ? find(held->data, held->size_bytes, *stop, stop_bytes) : NULL;
        if (at) {
            held->size_bytes = (size_t)(at - held->data);
            filter->stopped = true;
        }
        size_t partial =
            stop_bytes ? partial_match(held->data, held->size_bytes, *stop, stop_bytes) : 0;
        keep = partial > keep ? partial : keep;
    }
    filter->release_bytes = filter->stopped ? held->size_bytes : held->size_bytes - keep;
    return true;
}

void stop_filter_released(stop_filter *filter)
{
    tokenizer_text *held = &filter->held;
    if (held->data)
        memmove(held->data, held->data + filter->release_bytes,
                held->size_bytes - filter->release_bytes);
    held->size_bytes -= filter->release_bytes;
    filter->release_bytes = 0;
}

void stop_filter_end(stop_filter *filter)
{
    filter->release_bytes = filter->held.size_bytes;
}

void stop_filter_free(stop_filter *filter)
{
    tokenizer_text_free(&filter->held);
}
