// SPDX-License-Identifier: MIT
// --baseline: rows that an earlier run printed.
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"

// What says how a problem was done, not what it was.
static const char *const ways[] = {"variant",           "isa",   "plan", "runs",
                                   "working_set_bytes", "bytes", "flops"};

static bool is_way(const char *key)
{
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i], key) == 0)
            return true;
    return false;
}

static bool same_problem(json_t *row, const json_t *before)
{
    const char *key;
    json_t *value;
    json_object_foreach(row, key,
                        value) if (!json_is_real(value) && !is_way(key) &&
                                   !json_equal(value, json_object_get(before, key))) return false;
    return true;
}

bool bench_read_baseline(bench *run)
{
    size_t bytes;
    if (!run->baseline_path)
        return true;
    char *text = cli_read_file(run->self, run->baseline_path, &bytes), *rest = text;
    if (!text)
        return false;
    run->baseline = json_array();
    bool fine = run->baseline && strlen(text) == bytes;
    for (char *line; fine && (line = strtok_r(rest, "\n", &rest));) {
        json_t *row = json_loads(line, 0, NULL);
        fine = json_is_object(row) && json_is_number(json_object_get(row, "us_median")) &&
               json_array_append(run->baseline, row) == 0;
        json_decref(row);
    }
    free(text);
    if (!fine)
        cli_failed(run->self, "%s holds no rows of weft bench --json", run->baseline_path);
    return fine;
}

void bench_add_baseline(const bench *run, json_t *row)
{
    size_t i;
    json_t *before;
    double us = json_number_value(json_object_get(row, "us_median"));
    json_array_foreach(run->baseline, i, before)
    {
        double then = json_number_value(json_object_get(before, "us_median"));
        if (us <= 0 || !same_problem(row, before))
            continue;
        json_object_set_new(row, "baseline_us", json_real(then));
        json_object_set_new(row, "speed_up", json_real(then / us));
        return;
    }
}
