// SPDX-License-Identifier: MIT
// Accesses of many bytes are refused as AddressSanitizer says of each byte (asan_access.c): every place and size round
// a block of the heap.
#define _POSIX_C_SOURCE 200809L
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int __asan_address_is_poisoned(void const volatile *address);
void __asan_loadN(void *address, long size); // as gcc knows it
void __asan_storeN(void *address, long size);

enum { BLOCK_BYTES = 203, ROUND = 24 };
typedef void access_fn(void *address, long size);

static bool is_good(const char *at, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (__asan_address_is_poisoned(at + i))
            return false;
    return true;
}

// Does it come back?
static bool is_allowed(access_fn *access, char *at, size_t size)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        fclose(stderr);
        close(STDERR_FILENO);
        access(at, (long)size);
        _exit(0);
    }
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(void)
{
    static const size_t sizes[] = {3, 20, 32, 48, 64, 100};
    char *block = malloc(BLOCK_BYTES);
    int refused = 0, wrong = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int at = -ROUND; at <= BLOCK_BYTES - (int)sizes[s] + ROUND; at++) {
            bool good = is_good(block + at, sizes[s]);
            if (good) { // in this process: what is refused ends it
                __asan_loadN(block + at, (long)sizes[s]);
                __asan_storeN(block + at, (long)sizes[s]);
            } else if (at % 11 == 0 || at == -1 || at == BLOCK_BYTES - (int)sizes[s] + 1) {
                bool allowed =
                    is_allowed(s % 2 ? __asan_loadN : __asan_storeN, block + at, sizes[s]);
                refused += !allowed;
                wrong += allowed;
            }
        }
    free(block);
    printf("%d refused, %d allowed that are bad\n", refused, wrong);
    return wrong || refused < 24;
}
