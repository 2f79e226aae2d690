// SPDX-License-Identifier: MIT
// Words of a command line to options: the names that other programs use for them, and what to say of a
// word that is none.
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

enum { MOST_WORD_BYTES = 48, MODEL_OPTION = 'm' };

// Another name of an option, which is known by its number or, where that differs, by its name. A letter
// is one only if a command has the option.
static const struct {
    char letter;
    const char *alias;
    int number;
    const char *name;
} other_names[] = {
    {'p', NULL, 'p', "prompt"},
    {'f', NULL, 'f', "file"},
    {'n', "n-predict", 'n', "generate"},
    {'n', "predict", 'n', "generate"},
    {'t', NULL, CLI_OPT_THREADS, "threads"},
    {'c', "ctx-size", CLI_OPT_CTX, "ctx"},
    {'s', NULL, CLI_OPT_SEED, "seed"},
    {'d', NULL, 'd', "depth"},
    {'m', NULL, 'm', "model"},
    {0, "temperature", CLI_OPT_TEMP, "temp"},
    {0, "ignore-eos", CLI_OPT_IGNORE_END, "ignore-end"},
    {0, "system-prompt", CLI_OPT_SYSTEM, "system"},
};
enum { OTHER_NAMES = sizeof other_names / sizeof *other_names };

// The option of a command that an entry of other_names is; NULL if the command has none.
static const struct option *meant(const struct option *options, int entry)
{
    const struct option *named = NULL;
    for (; options->name; options++) {
        if (options->val == other_names[entry].number)
            return options;
        if (strcmp(options->name, other_names[entry].name) == 0)
            named = options;
    }
    return named;
}

// The options of a command with their other names, and --model, which stands for the operand. Kept until those
// of another command are asked for; NULL when memory is short.
static const struct option *with_other_names(const struct option *options)
{
    static const struct option *made_from, model = {"model", required_argument, NULL, MODEL_OPTION};
    static struct option *all;
    size_t own_count = 0, count = 0;
    bool has_model = false;
    if (made_from == options)
        return all;
    while (options[own_count].name)
        own_count++;
    struct option *room = realloc(all, (own_count + 1 + OTHER_NAMES + 1) * sizeof *room);
    if (!room)
        return NULL;
    all = room;
    for (; count < own_count; count++) {
        has_model |= strcmp(options[count].name, model.name) == 0;
        all[count] = options[count];
    }
    if (!has_model)
        all[count++] = model;
    for (int i = 0; i < OTHER_NAMES; i++) {
        const struct option *own = meant(options, i);
        if (own && other_names[i].alias)
            all[count++] = (struct option){other_names[i].alias, own->has_arg, NULL, own->val};
    }
    all[count] = (struct option){0};
    made_from = options;
    return all;
}

// How many letters must be put in, left out or changed to make one word of the other.
static size_t distance(const char *a, const char *b)
{
    size_t row[MOST_WORD_BYTES + 1], length = strlen(b);
    if (length > MOST_WORD_BYTES || strlen(a) > MOST_WORD_BYTES)
        return SIZE_MAX;
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < length; j++) {
            size_t change = corner + (a[i] != b[j]),
                   less = row[j] < row[j + 1] ? row[j] : row[j + 1];
            corner = row[j + 1];
            row[j + 1] = change <= less ? change : less + 1;
        }
    }
    return row[length];
}

void cli_keep_nearer(const char *word, const char *name, const char **nearest)
{
    size_t most = strlen(word) / 3 + 1; // further away it would be a guess
    size_t kept = *nearest ? distance(word, *nearest) : most + 1;
    if (distance(word, name) < kept)
        *nearest = name;
}

// Words what getopt_long did not understand. For an option that it knows, optopt is its number.
static int bad_option(const cli_command *self, const char *word, const struct option *options)
{
    if (optopt > ' ' && optopt <= '~')
        return cli_bad_usage(self, "unknown option -%c", optopt);
    size_t length = strcspn(word, "=");
    if (optopt != 0)
        return cli_bad_usage(self, "%.*s takes no value", (int)length, word);
    for (const struct option *option = options; length > 2 && option->name; option++)
        if (strncmp(option->name, word + 2, length - 2) == 0)
            return cli_bad_usage(self, "%.*s may be more than one option", (int)length, word);
    char name[MOST_WORD_BYTES + 1] = "";
    const char *nearest = NULL;
    if (length > 2 && length - 2 <= MOST_WORD_BYTES)
        memcpy(name, word + 2, length - 2);
    for (const struct option *option = options; *name && option->name; option++)
        cli_keep_nearer(name, option->name, &nearest);
    if (nearest)
        return cli_bad_usage(self, "unknown option %.*s, did you mean --%s?", (int)length, word,
                             nearest);
    return cli_bad_usage(self, "unknown option %.*s", (int)length, word);
}

// The number of the option that a letter stands for, 0 if the command has none.
static int option_of_letter(int letter, const struct option *options)
{
    for (int i = 0; i < OTHER_NAMES; i++) {
        const struct option *own = other_names[i].letter == letter ? meant(options, i) : NULL;
        if (own)
            return own->val;
    }
    return 0;
}

void cli_print_help(const cli_command *self)
{
    for (size_t i = 0; i < sizeof self->help / sizeof *self->help && self->help[i]; i++)
        fputs(self->help[i], stdout);
}

int cli_next_option(const cli_command *self, int argc, char **argv, const struct option *options,
                    int *status)
{
    static const char letters[] = ":hm:p:n:f:t:c:s:d:";
    static char *model; // given as an option
    const struct option *all = with_other_names(options);
    int option;
    if (!all) {
        *status = cli_failed(self, "not enough memory for its options");
        return CLI_OPTIONS_BAD;
    }
    opterr = 0;
    *status = CLI_DONE;
    while ((option = getopt_long(argc, argv, letters, all, NULL)) == MODEL_OPTION &&
           !option_of_letter(MODEL_OPTION, options))
        model = optarg;
    if (option == CLI_OPTIONS_END && model) {
        argv[--optind] = model; // in front of the other operands, where a word of -m was
        model = NULL;
    }
    if (option == CLI_OPT_HELP || option == 'h') {
        cli_print_help(self);
        return CLI_OPTIONS_BAD;
    }
    int meant_option = option > ' ' && option <= '~' ? option_of_letter(option, options) : option;
    if (option == ':')
        *status = cli_bad_usage(self, "%s needs a value", argv[optind - 1]);
    else if (option == '?')
        *status = bad_option(self, argv[optind - 1], all);
    else if (meant_option == 0)
        *status = cli_bad_usage(self, "-%c is no option of weft %s", option, self->name);
    else
        return meant_option;
    return CLI_OPTIONS_BAD;
}

int cli_take_options(const cli_command *self, int argc, char **argv, const struct option *options,
                     cli_take_fn *take, void *wish)
{
    int option, status;
    while ((option = cli_next_option(self, argc, argv, options, &status)) != CLI_OPTIONS_END)
        if (option == CLI_OPTIONS_BAD)
            return status;
        else if (!take(wish, option))
            return CLI_USAGE;
    return -1;
}
