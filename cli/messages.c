// SPDX-License-Identifier: MIT
#include <stdarg.h>

#include "cli/cli.h"

static void message(const cli_command *self, const char *format, va_list arguments,
                    const char *tail)
{
    fflush(stdout);
    fprintf(stderr, "weft %s: ", self->name);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "%s\n", tail);
}

int cli_bad_usage(const cli_command *self, const char *format, ...)
{
    char tail[64];
    va_list arguments;
    snprintf(tail, sizeof tail, "; see weft %s --help", self->name);
    va_start(arguments, format);
    message(self, format, arguments, tail);
    va_end(arguments);
    return CLI_USAGE;
}

int cli_failed(const cli_command *self, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    message(self, format, arguments, "");
    va_end(arguments);
    return CLI_FAILED;
}
