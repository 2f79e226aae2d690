// SPDX-License-Identifier: MIT
#ifndef ENGINE_SESSION_STOP_FILTER_H
#define ENGINE_SESSION_STOP_FILTER_H

// Looks for stop strings in text that comes in pieces, and holds back what may be the beginning of one.

#include "engine/tokenizer/tokenizer.h"

typedef struct stop_filter {
    const char *const *stops; // NULL-terminated; NULL: none
    tokenizer_text held;      // text that was not released yet
    size_t release_bytes;     // of held, that may be written now
    bool stopped;             // a stop string was found; held ends before it
} stop_filter;

// Adds text; afterwards held[0 .. release_bytes) may be written, and stop_filter_released tells that it
// was. False when memory is short.
bool stop_filter_add(stop_filter *filter, const char *text, size_t bytes);
void stop_filter_released(stop_filter *filter);

// The text has ended: all that was held back may be written.
void stop_filter_end(stop_filter *filter);

void stop_filter_free(stop_filter *filter);

#endif
