// SPDX-License-Identifier: MIT
#include "src/backend/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

weft_status weft__fail(weft_context *context, weft_status status, const char *format, ...)
{
    va_list arguments;
    char text[sizeof context->error];
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    while (atomic_flag_test_and_set_explicit(&context->error_lock, memory_order_acquire))
        ;
    memcpy(context->error, text, strlen(text) + 1);
    atomic_flag_clear_explicit(&context->error_lock, memory_order_release);
    return status;
}
