// SPDX-License-Identifier: MIT
#include "engine/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"

enum { MAX_CONTEXT_BYTES = 200 }; // so that a long path leaves room for what is wrong with it

bool engine_fail(engine_error *err, const char *format, ...)
{
    if (err == NULL)
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->text, sizeof(err->text), format, arguments);
    va_end(arguments);
    text_make_printable(err->text);
    return false;
}

bool engine_fail_in(engine_error *err, const char *context)
{
    if (err == NULL)
        return false;
    engine_error inner = *err;
    size_t bytes = strlen(context);
    if (bytes > MAX_CONTEXT_BYTES)
        return engine_fail(err, "...%s: %s", context + (bytes - MAX_CONTEXT_BYTES), inner.text);
    return engine_fail(err, "%s: %s", context, inner.text);
}
