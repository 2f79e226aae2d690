// SPDX-License-Identifier: MIT
// The file of a machine's entries:
//
//      weft-tuning 1
//      machine AMD EPYC 9R14, avx512bf16, weft 0.2.0
//      linear q4_0 rows=4096 cols=16384 few_batch=6 task_bytes=262144
//      attention f16 kv_heads=8 head_dim=128 tile_rows=48
//
// A line is an operation, a format or *, and members of weft_tuning with their values; # begins one that says
// nothing. What is not known makes the whole file unsound: half of a measurement is none.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/format.h>

#include "src/plan/tuning.h"

enum { LINE_BYTES = 512 };
static const char title[] = "weft-tuning 1";

// The members that are numbers, by name.
static const struct member {
    const char *name;
    size_t offset;
    bool wide;
} members[] = {
    {"min_threads", offsetof(weft_tuning, min_threads), false},
    {"rows", offsetof(weft_tuning, rows), true},
    {"cols", offsetof(weft_tuning, cols), true},
    {"kv_heads", offsetof(weft_tuning, kv_heads), false},
    {"head_dim", offsetof(weft_tuning, head_dim), false},
    {"page_size", offsetof(weft_tuning, page_size), false},
    {"few_batch", offsetof(weft_tuning, few_batch), false},
    {"task_bytes", offsetof(weft_tuning, task_bytes), false},
    {"tasks_per_thread", offsetof(weft_tuning, tasks_per_thread), false},
    {"tile_rows", offsetof(weft_tuning, tile_rows), false},
    {"block_keys", offsetof(weft_tuning, block_keys), false},
    {"least_chunk", offsetof(weft_tuning, least_chunk), false},
    {"target_tasks", offsetof(weft_tuning, target_tasks), false},
    {"few_keys", offsetof(weft_tuning, few_keys), false},
    {"cluster_keys", offsetof(weft_tuning, cluster_keys), false},
};
enum { MEMBERS = sizeof members / sizeof *members };

static int64_t value_of(const weft_tuning *entry, const struct member *member)
{
    const char *at = (const char *)entry + member->offset;
    return member->wide ? *(const int64_t *)(const void *)at : *(const int32_t *)(const void *)at;
}

static bool set_number(weft_tuning *entry, const char *name, const char *text)
{
    char *end, *at = (char *)entry;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || *text < '0' || *text > '9')
        return false;
    for (int i = 0; i < MEMBERS; i++)
        if (strcmp(members[i].name, name) == 0) {
            if (members[i].wide)
                *(int64_t *)(void *)(at + members[i].offset) = value;
            else if (value <= INT32_MAX)
                *(int32_t *)(void *)(at + members[i].offset) = (int32_t)value;
            return members[i].wide || value <= INT32_MAX;
        }
    return false;
}

bool weft__plan_tuning_format(const weft_tuning *entry, char *text, size_t bytes)
{
    int at =
        snprintf(text, bytes, "%s %s", entry->op == WEFT_TUNING_LINEAR ? "linear" : "attention",
                 entry->dtype ? weft_dtype_name(entry->dtype) : "*");
    for (int i = 0; i < MEMBERS && at >= 0 && (size_t)at < bytes; i++)
        if (value_of(entry, &members[i]))
            at += snprintf(text + at, bytes - (size_t)at, " %s=%lld", members[i].name,
                           (long long)value_of(entry, &members[i]));
    if (*entry->kernel && at >= 0 && (size_t)at < bytes)
        at += snprintf(text + at, bytes - (size_t)at, " kernel=%s", entry->kernel);
    return at >= 0 && (size_t)at < bytes;
}

bool weft__plan_tuning_head(const char *machine, char *text, size_t bytes)
{
    int at = snprintf(text, bytes, "%s\nmachine %s\n", title, machine);
    return at >= 0 && (size_t)at < bytes;
}

// The next word of a line, or NULL; ends it with a zero byte.
static char *next_word(char **at)
{
    *at += strspn(*at, " ");
    char *word = *at;
    *at += strcspn(*at, " ");
    if (**at)
        *(*at)++ = 0;
    return *word ? word : NULL;
}

static bool set_member(weft_tuning *entry, char *word)
{
    char *value = strchr(word, '=');
    if (!value)
        return false;
    *value++ = 0;
    if (strcmp(word, "kernel") != 0)
        return set_number(entry, word, value);
    int length = snprintf(entry->kernel, sizeof entry->kernel, "%s", value);
    return length > 0 && length < (int)sizeof entry->kernel;
}

// NULL, or what is wrong with the line.
static const char *parse_line(char *line, weft_tuning *entry)
{
    *entry = (weft_tuning){.size = sizeof *entry, .source = WEFT_TUNING_FILE};
    const char *op = next_word(&line), *dtype = next_word(&line);
    if (!op || !dtype)
        return "no entry";
    entry->op = strcmp(op, "linear") == 0      ? WEFT_TUNING_LINEAR
                : strcmp(op, "attention") == 0 ? WEFT_TUNING_ATTENTION
                                               : 0;
    if (strcmp(dtype, "*") != 0 && !(entry->dtype = weft_dtype_parse(dtype)))
        return "no such format";
    for (char *word; (word = next_word(&line));)
        if (!set_member(entry, word))
            return "no such member, or a value that it cannot have";
    const char *fault = weft__plan_tuning_fault(entry);
    weft__plan_tuning_round_key(entry);
    return fault;
}

// Copies the line at *at and steps behind it; false where it is too long, holds a zero byte or does not end.
static bool next_line(const char **at, const char *end, char line[LINE_BYTES])
{
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    size_t length = stop ? (size_t)(stop - *at) : 0;
    if (!stop || length >= LINE_BYTES || memchr(*at, 0, length))
        return false;
    memcpy(line, *at, length);
    line[length] = 0;
    *at = stop + 1;
    return true;
}

static bool parse_head(const char **at, const char *end, const char *machine, char why[160])
{
    char line[LINE_BYTES];
    if (!next_line(at, end, line) || strcmp(line, title) != 0) {
        snprintf(why, 160, "it does not begin with '%s'", title);
        return false;
    }
    if (!next_line(at, end, line) || strncmp(line, "machine ", 8) != 0 ||
        strcmp(line + 8, machine) != 0) {
        snprintf(why, 160, "it was measured on another machine, instruction set or version");
        return false;
    }
    return true;
}

bool weft__plan_tuning_parse(const char *text, size_t bytes, const char *machine,
                             struct weft__tunings *to, char why[160])
{
    const char *at = text, *end = text + bytes;
    int32_t before = to->count, number = 2;
    char line[LINE_BYTES];
    if (bytes > WEFT__TUNING_FILE_BYTES) {
        snprintf(why, 160, "it is longer than %d bytes", WEFT__TUNING_FILE_BYTES);
        return false;
    }
    if (!parse_head(&at, end, machine, why))
        return false;
    while (at < end) {
        const char *fault = "no line of text";
        number++;
        if (next_line(&at, end, line)) {
            if (*line == '#')
                continue;
            fault = to->count == WEFT__TUNING_MOST ? "too many entries"
                                                   : parse_line(line, &to->entries[to->count]);
            to->count += !fault;
        }
        if (fault) {
            snprintf(why, 160, "line %d: %s", number, fault);
            to->count = before;
            return false;
        }
    }
    return true;
}
