// SPDX-License-Identifier: MIT
// Files, the terminal, the clock.
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

enum { MOST_BYTES = 1 << 28 }; // of a text: endless files such as /dev/zero must end too

char *cli_read_file(const cli_command *self, const char *path, size_t *bytes)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    if (!file) {
        cli_failed(self, "%s cannot be read: %s", path, strerror(errno));
        return NULL;
    }
    size_t room = 1 << 16, used = 0;
    char *text = malloc(room);
    while (text) {
        used += fread(text + used, 1, room - 1 - used, file);
        if (used < room - 1)
            break;
        char *larger = room < MOST_BYTES ? realloc(text, room *= 2) : NULL;
        if (!larger)
            free(text);
        text = larger;
    }
    const char *why = room < MOST_BYTES ? "out of memory" : "it has more than 256 MiB";
    if (ferror(file))
        why = strerror(errno);
    else if (text)
        why = NULL;
    if (!standard)
        fclose(file);
    if (why) {
        free(text);
        cli_failed(self, "%s cannot be read: %s", path, why);
        return NULL;
    }
    text[used] = 0;
    *bytes = used;
    return text;
}

bool cli_progress_show(void *user, int32_t done_tokens, int32_t all_tokens)
{
    enum { WIDTH = 30 };
    cli_progress *progress = user;
    if (isatty(STDERR_FILENO) && all_tokens > 1) {
        int filled = (int)((int64_t)WIDTH * done_tokens / all_tokens);
        char bar[WIDTH + 1];
        memset(bar, '.', WIDTH);
        memset(bar, '#', (size_t)filled);
        bar[WIDTH] = 0;
        fprintf(stderr, "\r%s [%s] %d/%d tokens", progress->label, bar, done_tokens, all_tokens);
        fflush(stderr);
        progress->shown = true;
    }
    return !cli_interrupted();
}

void cli_progress_clear(cli_progress *progress)
{
    if (progress->shown)
        fputs("\r\033[K", stderr);
    progress->shown = false;
}

static volatile sig_atomic_t interrupts;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    if (interrupts++ > 0)
        _exit(130);
}

// What is being written is written all the same: an answer ends, standard output does not fail.
void cli_catch_interrupt(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    interrupts = 0;
    sigaction(SIGINT, &action, NULL);
}

void cli_let_interrupt_end_reading(void)
{
    struct sigaction action;
    if (sigaction(SIGINT, NULL, &action) == 0) {
        action.sa_flags &= ~SA_RESTART;
        sigaction(SIGINT, &action, NULL);
    }
}

bool cli_interrupted(void)
{
    return interrupts > 0;
}

void cli_use_utf8(void)
{
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

double cli_now_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int64_t cli_peak_memory_bytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (int64_t)usage.ru_maxrss * 1024;
}

enum { TEXTS = 4, TEXT_BYTES = 32 };

static char *next_text(void)
{
    static char texts[TEXTS][TEXT_BYTES];
    static unsigned next;
    return texts[next++ % TEXTS];
}

const char *cli_tokens(int64_t tokens)
{
    char *text = next_text();
    snprintf(text, TEXT_BYTES, "%lld token%s", (long long)tokens, tokens == 1 ? "" : "s");
    return text;
}

const char *cli_bytes(int64_t bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    char *text = next_text();
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1000 && unit < 5) {
        value /= 1000;
        unit++;
    }
    snprintf(text, TEXT_BYTES, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value,
             units[unit]);
    return text;
}
