// SPDX-License-Identifier: MIT
#define _XOPEN_SOURCE 700
#include "tests/support/program.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/scratch.h"

static char *read_all(FILE *file)
{
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    long size_bytes = ftell(file);
    assert_true(size_bytes >= 0);
    rewind(file);
    char *text = malloc((size_t)size_bytes + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size_bytes, file), size_bytes);
    text[size_bytes] = 0;
    fclose(file);
    return text;
}

enum { MOST_WORDS = 64 };

// In a cross build, the words that start a program of the target: each is followed by a comma.
#ifndef WEFT_TEST_EMULATOR
#define WEFT_TEST_EMULATOR
#endif

static void become(const char *folder, const char *const words[], int out, int err)
{
    const char *command[MOST_WORDS + 1] = {WEFT_TEST_EMULATOR NULL};
    int count = 0;
    while (command[count])
        count++;
    for (; *words && count < MOST_WORDS; words++)
        command[count++] = *words;
    int in = open("/dev/null", O_RDONLY);
    if (!*words && in >= 0 && dup2(in, 0) == 0 && dup2(out, 1) == 1 && dup2(err, 2) == 2 &&
        chdir(folder) == 0)
        execvp(command[0], (char *const *)command);
    _exit(127);
}

program_result program_run(const char *folder, const char *const words[])
{
    int status = 0;
    FILE *out = tmpfile(), *err = tmpfile();
    assert_true(out && err);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        become(folder, words, fileno(out), fileno(err));
    assert_int_equal(waitpid(child, &status, 0), child);
    return (program_result){WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                            read_all(out), read_all(err)};
}

void program_result_free(program_result *result)
{
    free(result->out);
    free(result->err);
    *result = (program_result){0};
}

char *folder_make(void)
{
    char path[SCRATCH_PATH_BYTES];
    scratch_folder(path);
    char *folder = strdup(path);
    assert_non_null(folder);
    return folder;
}

int folder_count(const char *folder)
{
    int count = 0;
    DIR *open_folder = opendir(folder);
    assert_non_null(open_folder);
    for (struct dirent *entry; (entry = readdir(open_folder));)
        count += entry->d_name[0] != '.';
    closedir(open_folder);
    return count;
}

void folder_remove(char *folder)
{
    scratch_remove(folder);
    free(folder);
}
