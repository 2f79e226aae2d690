// SPDX-License-Identifier: MIT
#include <stddef.h>
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

static bool parse_formats(const cli_command *self, const char *option, const char *text,
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

static bool take_seconds(void *request, const char *value)
{
    bench *run = request;
    return cli_float(run->self, "--seconds", value, 0.001f, 3600, &run->seconds);
}

static const bench_option common[] = {
    {"json", BENCH_FLAG, .offset = offsetof(bench, json)},
    {"hot", BENCH_FLAG, .offset = offsetof(bench, hot)},
    {"seconds", .kind = BENCH_OTHER, .take = take_seconds},
    {"working-set", BENCH_INT, .offset = offsetof(bench, working_set_mib), .low = 1,
     .high = 1 << 24},
    {"variant", BENCH_TEXT, .offset = offsetof(bench, variant)},
    {"baseline", BENCH_TEXT, .offset = offsetof(bench, baseline_path)},
    {"threads", .kind = BENCH_ENGINE, .engine_option = CLI_OPT_THREADS},
    {"device", .kind = BENCH_ENGINE, .engine_option = CLI_OPT_DEVICE},
    {0},
};

static bool take(bench *request, const bench_option *option, const char *value)
{
    char name[32];
    const cli_command *self = request->self;
    void *to = (char *)request + option->offset;
    snprintf(name, sizeof name, "--%s", option->name);
    switch (option->kind) {
    case BENCH_FLAG: *(bool *)to = true; return true;
    case BENCH_TEXT: *(const char **)to = value; return true;
    case BENCH_INT: return cli_int32(self, name, value, option->low, option->high, to);
    case BENCH_LIST: return bench_parse_list(self, name, value, option->low, option->high, to);
    case BENCH_DTYPE: return cli_dtype(self, name, value, to);
    case BENCH_MADE_UP: return cli_formats(self, name, value, to);
    case BENCH_FORMATS: return parse_formats(self, name, value, to);
    case BENCH_ENGINE:
        return cli_model_option(self, option->engine_option, value, &request->options);
    case BENCH_OTHER: return option->take(request, value);
    }
    return false;
}

// The options of both tables, numbered from FIRST_NUMBER on.
enum { MOST_OPTIONS = 32, FIRST_NUMBER = 2000 };

typedef struct option_set {
    const bench_option *described[MOST_OPTIONS];
    struct option options[MOST_OPTIONS + 2]; // with --help and the end
    int count;
} option_set;

static void add_options(option_set *set, const bench_option *table)
{
    for (; table->name && set->count < MOST_OPTIONS; table++) {
        bool alone = table->kind == BENCH_FLAG || table->engine_option == CLI_OPT_EXACT ||
                     table->engine_option == CLI_OPT_NO_MMAP ||
                     table->engine_option == CLI_OPT_NO_PACK;
        set->described[set->count] = table;
        set->options[set->count] = (struct option){
            table->name, alone ? no_argument : required_argument, NULL, FIRST_NUMBER + set->count};
        set->count++;
    }
}

int bench_parse(bench *request, const bench_option *own, int argc, char **argv)
{
    option_set set = {.count = 0};
    const cli_command *self = request->self;
    int option, status;
    add_options(&set, own);
    add_options(&set, common);
    set.options[set.count] = (struct option){"help", no_argument, NULL, CLI_OPT_HELP};
    while ((option = cli_next_option(self, argc, argv, set.options, &status)) != CLI_OPTIONS_END) {
        if (option == CLI_OPTIONS_BAD)
            return status;
        if (!take(request, set.described[option - FIRST_NUMBER], optarg))
            return CLI_USAGE;
    }
    if (optind < argc)
        return cli_bad_usage(self, "unexpected argument '%s'", argv[optind]);
    return -1;
}
