// SPDX-License-Identifier: MIT
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/tune/tune.h"

int tune_parse(bench *run, const bench_option *own, int argc, char **argv)
{
    int status = bench_parse(run, own, argc, argv);
    if (status < 0 && (run->hot || run->variant || run->baseline_path))
        return cli_bad_usage(run->self, "--hot, --variant and --baseline belong to weft bench");
    return status;
}

bool tune_apply(bench *run, const tune_candidate *candidate)
{
    weft_tuning entry = candidate->entry;
    entry.size = sizeof entry;
    weft_tuning_clear(run->context);
    return weft_tuning_add(run->context, &entry) == WEFT_OK || bench_error(run);
}

static const bench_column columns[] = {
    {"problem", "problem", -34, 0, 0},
    {"candidate", "candidate", -24, 0, 0},
    {"cost", "cost", 10, 3, 0},
    {"speed_up", "speed-up", 8, 2, 0},
    {"error", "err/bound", 9, 3, 0},
    {"verdict", "", -8, 0, 0},
    {0},
};

bool tune_print(bench *run, const char *op, const char *problem, const tune_candidate candidates[],
                int32_t count)
{
    const tune_candidate *best = tune_best(candidates, count), *own = NULL;
    for (int32_t i = 0; i < count; i++)
        own = candidates[i].is_default ? &candidates[i] : own;
    for (int32_t i = 0; i < count; i++) {
        const tune_candidate *c = &candidates[i];
        const char *verdict = !tune_is_sound(c) ? "refused" : c == best ? "chosen" : "";
        json_t *row =
            json_pack("{s:s, s:s, s:s, s:s, s:b, s:f, s:f, s:f, s:s}", "op", op, "device",
                      bench_device_name(run), "problem", problem, "candidate", c->label, "default",
                      c->is_default, "cost", c->cost, "speed_up", own ? own->cost / c->cost : 1.0,
                      "error", isfinite(c->worst) ? c->worst : 1e9, "verdict", verdict);
        if (!bench_print(run, row, columns))
            return false;
    }
    return true;
}

bool tune_print_left_out(bench *run, const char *op, const char *problem, const char *choice)
{
    json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:s}", "op", op, "device", bench_device_name(run),
                            "problem", problem, "candidate", choice, "verdict", "left out");
    return bench_print(run, row, columns);
}

bool tune_keep(bench *run, tune_findings *findings, const weft_tuning *entry)
{
    if (findings->count == TUNE_MAX_ENTRIES) {
        cli_failed(run->self, "more than %d problems: tune fewer at a time", TUNE_MAX_ENTRIES);
        return false;
    }
    findings->entries[findings->count] = *entry;
    findings->entries[findings->count++].size = sizeof *entry;
    return true;
}

static weft_context *open_table(const bench *run, const char *out)
{
    weft_context *context = NULL;
    const weft_context_desc desc = {.size = sizeof desc,
                                    .device = run->options.device,
                                    .device_index = run->options.device_index,
                                    .threads = 1,
                                    .tuning = out};
    return weft_context_create(&desc, &context) == WEFT_OK ? context : NULL;
}

int tune_write(bench *run, const tune_findings *findings, const char *out)
{
    weft_context *table = open_table(run, out);
    if (!table)
        return cli_failed(run->self, "%s", weft_error_text(NULL));
    bool fine = true;
    for (int32_t i = 0; fine && i < findings->count; i++)
        fine = weft_tuning_add(table, &findings->entries[i]) == WEFT_OK;
    fine = fine && weft_tuning_write(table, out) == WEFT_OK;
    int status = fine ? CLI_DONE : cli_failed(run->self, "%s", weft_error_text(table));
    weft_context_destroy(table);
    table = fine ? open_table(run, out) : NULL;
    if (table && !run->json)
        printf("\n%s\n", weft_tuning_note(table));
    weft_context_destroy(table);
    return status;
}
