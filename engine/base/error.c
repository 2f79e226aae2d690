// SPDX-License-Identifier: MIT
#include "engine/base/error.h"

#include <stdarg.h>
#include <stdio.h>

// Names from hostile files end up in these texts; none of them may steer the reader's terminal.
static void blank_control_bytes(char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == 0x7f)
            *text = '?';
    }
}

bool engine_fail(engine_error *err, const char *format, ...)
{
    if (err == NULL)
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->text, sizeof(err->text), format, arguments);
    va_end(arguments);
    blank_control_bytes(err->text);
    return false;
}

bool engine_fail_in(engine_error *err, const char *context)
{
    if (err == NULL)
        return false;
    engine_error inner = *err;
    return engine_fail(err, "%s: %s", context, inner.text);
}
