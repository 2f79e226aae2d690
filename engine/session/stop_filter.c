// SPDX-License-Identifier: MIT
#include "engine/session/stop_filter.h"

#include <stdint.h>
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

// A stop string in the text held.
typedef struct occurrence {
    size_t start, end; // end is SIZE_MAX if there is none
} occurrence;

// The stop string that is complete first, as if the text came byte by byte: so neither the order of the
// list nor how the text is cut into pieces matters. Of two that end together the longer one.
static occurrence first_stop(const stop_filter *filter)
{
    const tokenizer_text *held = &filter->held;
    occurrence first = {0, SIZE_MAX};
    for (const char *const *stop = filter->stops; stop && *stop; stop++) {
        size_t bytes = strlen(*stop);
        const char *at = bytes ? find(held->data, held->size_bytes, *stop, bytes) : NULL;
        if (!at)
            continue;
        size_t start = (size_t)(at - held->data), end = start + bytes;
        if (end < first.end || (end == first.end && start < first.start))
            first = (occurrence){start, end};
    }
    return first;
}

bool stop_filter_add(stop_filter *filter, const char *text, size_t bytes)
{
    if (!tokenizer_text_append(&filter->held, text, bytes))
        return false;
    tokenizer_text *held = &filter->held;
    occurrence found = first_stop(filter);
    if (found.end != SIZE_MAX) {
        filter->stopped = true;
        held->size_bytes = filter->release_bytes = found.start;
        return true;
    }
    size_t keep = 0;
    for (const char *const *stop = filter->stops; stop && *stop; stop++) {
        size_t stop_bytes = strlen(*stop);
        size_t partial =
            stop_bytes ? partial_match(held->data, held->size_bytes, *stop, stop_bytes) : 0;
        keep = partial > keep ? partial : keep;
    }
    filter->release_bytes = held->size_bytes - keep;
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
