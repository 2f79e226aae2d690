// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

// The next word of a list separated by commas; false at its end or with a word that is too long.
static bool next_word(const char **at, char word[64])
{
    size_t length = strcspn(*at, ",");
    if (length == 0 || length >= 64)
        return false;
    memcpy(word, *at, length);
    word[length] = 0;
    *at += length;
    *at += **at == ',';
    return true;
}

bool bench_parse_list(const cli_command *self, const char *option, const char *text, int32_t low,
                      int32_t high, bench_list *list)
{
    char word[64];
    const char *at = text;
    for (list->count = 0; next_word(&at, word) && list->count < BENCH_MAX_LIST; list->count++)
        if (!cli_int32(self, option, word, low, high, &list->values[list->count]))
            return false;
    if (*at || list->count == 0) {
        cli_bad_usage(self, "%s must be up to %d numbers such as 1,2,4, not '%s'", option,
                      BENCH_MAX_LIST, text);
        return false;
    }
    return true;
}

bool bench_parse_formats(const cli_command *self, const char *option, const char *text,
                         bench_formats *formats)
{
    char word[64];
    const char *at = text;
    formats->count = 0;
    if (strcmp(text, "all") == 0) {
        weft_dtype format;
        while ((format = weft_dtype_at(formats->count)) && formats->count < BENCH_MAX_LIST)
            formats->values[formats->count++] = format;
        return true;
    }
    for (; next_word(&at, word) && formats->count < BENCH_MAX_LIST; formats->count++)
        if (!cli_dtype(self, option, word, &formats->values[formats->count]))
            return false;
    if (*at || formats->count == 0) {
        cli_bad_usage(self, "%s must be formats such as q4_0,q8_0, not '%s'", option, text);
        return false;
    }
    return true;
}

bench bench_default(const cli_command *self)
{
    return (bench){.self = self, .seconds = 1};
}

bool bench_option(bench *run, int option, const char *value)
{
    engine_options options = {0};
    switch (option) {
    case BENCH_OPT_JSON: run->json = true; return true;
    case BENCH_OPT_HOT: run->hot = true; return true;
    case BENCH_OPT_VARIANT: run->variant = value; return true;
    case BENCH_OPT_SECONDS:
        return cli_float(run->self, "--seconds", value, 0.001f, 3600, &run->seconds);
    case BENCH_OPT_WORKING_SET:
        return cli_int32(run->self, "--working-set", value, 1, 1 << 24, &run->working_set_mib);
    case CLI_OPT_THREADS:
    case CLI_OPT_DEVICE:
        if (!cli_model_option(run->self, option, value, &options))
            return false;
        if (option == CLI_OPT_THREADS)
            run->threads = options.threads;
        else
            run->device = options.device;
        return true;
    default: cli_bad_usage(run->self, "-%c belongs to weft run", option); return false;
    }
}
