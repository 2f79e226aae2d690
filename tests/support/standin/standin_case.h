// SPDX-License-Identifier: MIT
// What the tests of the CUDA backend on the stand-in driver share. Each case is a process of its own, as a driver
// is opened once in one; a case that finds something wrong says it and ends its process.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

#include "tests/support/standin/standin.h"

struct standin_case {
    const char *name;
    void (*body)(void);
};

// What the driver of this case has seen, and what it is to do wrong.
extern struct standin *standin;

// Where the compiled kernels are kept.
extern char standin_cache_folder[];

// In a case: says what is not so and ends the process.
#define CHECK(condition) CHECK_OR_SAY(condition, weft_error_text(NULL))

// The same with the text of who failed.
#define CHECK_OR_SAY(condition, text)                                                              \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, text);  \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define CHECK_TEXT(text, part)                                                                     \
    do {                                                                                           \
        if (!strstr(text, part)) {                                                                 \
            fprintf(stderr, "%s:%d: '%s' does not say '%s'\n", __FILE__, __LINE__, text, part);    \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

// Runs every case, with a folder of their own for the compiled kernels: the number of those that failed.
int standin_run(const struct standin_case *cases, int num_cases);

weft_status open_context(weft_context **context);
weft_context *must_open(void);

// Memory of the device with a copy of `from`, unless that is NULL.
void *on_device(weft_context *context, const void *from, size_t bytes);

// The smallest plan there is, and a run of it.
weft_plan *norm_plan(weft_context *context);
weft_status norm_run(const weft_plan *plan, float *x, int32_t rows, weft_stream *stream);
