// SPDX-License-Identifier: MIT
#ifndef CLI_TUNE_TUNE_H
#define CLI_TUNE_TUNE_H

// What weft tune linear and weft tune attention share: candidates take turns on the clock, each proven against the
// reference before it counts, and what wins becomes an entry of the machine's table.

#include "cli/bench/bench.h"

enum { TUNE_MAX_CANDIDATES = BENCH_MAX_RACERS, TUNE_MAX_ENTRIES = 256 };

// One way to do a problem: values of an entry.
typedef struct tune_candidate {
    weft_tuning entry;
    char label[48];  // "task_bytes=65536"
    bool is_default; // the library's own
    double cost;     // time, in a measure that all candidates of a problem share
    double worst;    // error over its bound; above 1 is refused
} tune_candidate;

// What is found, over all problems.
typedef struct tune_findings {
    weft_tuning entries[TUNE_MAX_ENTRIES];
    int32_t count;
} tune_findings;

// Takes the options of a command, as bench_parse().
int tune_parse(bench *run, const bench_option *own, int argc, char **argv);

// Makes the context plan as the candidate says.
bool tune_apply(bench *run, const tune_candidate *candidate);

// Did it keep to its bound?
bool tune_is_sound(const tune_candidate *candidate);

// The candidate to take: the fastest sound one, or the default where that is less than a thirtieth faster.
const tune_candidate *tune_best(const tune_candidate candidates[], int32_t count);

// Prints what was measured of a problem. False with a message.
bool tune_print(bench *run, const char *op, const char *problem, const tune_candidate candidates[],
                int32_t count);

// Prints that a choice of a problem was not measured to its end. False with a message.
bool tune_print_left_out(bench *run, const char *op, const char *problem, const char *choice);

// Keeps an entry; a message where there are too many.
bool tune_keep(bench *run, tune_findings *findings, const weft_tuning *entry);

// Writes the entries to `out` (NULL: the machine's own file), beside those that it has for other problems, reads it
// back, and says so. Returns an exit status.
int tune_write(bench *run, const tune_findings *findings, const char *out);

#endif
