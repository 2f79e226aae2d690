// SPDX-License-Identifier: MIT
// Rows of JSON that the program prints of what it measured. Each of these fails the cmocka test if something is
// not there.
#ifndef TESTS_SUPPORT_BENCH_ROWS_H
#define TESTS_SUPPORT_BENCH_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#define MOST_ROWS 32

// The rows that `weft COMMAND` prints with these words, in `folder`; the caller releases them.
size_t rows_of(const char *folder, json_t *rows[MOST_ROWS], const char *command,
               const char *const words[]);
void release(json_t *rows[MOST_ROWS], size_t count);

void expect_keys(const json_t *row, const char *keys); // words separated by spaces
double number(const json_t *row, const char *key);
const char *text(const json_t *row, const char *key);

// What every row of an operation has, and how its figures hang together.
void expect_figures(const json_t *row, const char *op);

// Does the kernel run on this machine?
bool runs_here(const char *folder, const char *kernel);

#endif
