// SPDX-License-Identifier: MIT
#include "src/backend/context.h"

#include <stdarg.h>
#include <stdio.h>

weft_status weft__fail(weft_context *context, weft_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context->error, sizeof context->error, format, arguments);
    va_end(arguments);
    return status;
}
