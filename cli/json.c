// SPDX-License-Identifier: MIT
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

json_t *cli_json_text(const char *text)
{
    char *copy = strdup(text);
    if (!copy)
        return NULL;
    text_make_printable(copy);
    json_t *value = json_string(copy);
    free(copy);
    return value;
}

int cli_print_json(const cli_command *self, json_t *object)
{
    if (!object)
        return cli_failed(self, "out of memory");
    json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(object);
    return CLI_DONE;
}
