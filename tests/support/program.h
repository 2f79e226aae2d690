// SPDX-License-Identifier: MIT
#ifndef TESTS_SUPPORT_PROGRAM_H
#define TESTS_SUPPORT_PROGRAM_H

// Runs a program the way a shell would and keeps what it says.

#include <stdbool.h>

typedef struct program_result {
    int status; // of its exit; 128 + the signal that ended it
    char *out, *err;
} program_result;

// words[0] is the program, NULL ends the list; standard input is empty, `folder` the working directory. In a
// cross build the program runs under the emulator that runs the tests.
// Fails the cmocka test if it cannot be started.
program_result program_run(const char *folder, const char *const words[]);
void program_result_free(program_result *result);

// A new empty folder (tests/support/scratch.h), and its removal with all that is in it. The names end the test
// program on failure.
char *folder_make(void);
void folder_remove(char *folder);
int folder_count(const char *folder); // files in it

#endif
