// SPDX-License-Identifier: MIT
#ifndef ENGINE_BASE_ERROR_H
#define ENGINE_BASE_ERROR_H

#include <stdbool.h>

// How the engine reports failure: a function that can fail takes `engine_error *err` last and returns
// false or NULL. The text is one line that names cause and cure, with no period or newline at its end.
// err may be NULL where the caller does not care for the reason.
typedef struct engine_error {
    char text[512];
} engine_error;

#if defined(__GNUC__)
#define ENGINE_PRINTF(format_index, first_index)                                                   \
    __attribute__((format(printf, format_index, first_index)))
#else
#define ENGINE_PRINTF(format_index, first_index)
#endif

// Writes the text (cut to fit, made printable: base/text.h) and returns false.
bool engine_fail(engine_error *err, const char *format, ...) ENGINE_PRINTF(2, 3);

// Puts "context: " before a text that is already there and returns false; of a long context only the end.
bool engine_fail_in(engine_error *err, const char *context);

#endif
