// SPDX-License-Identifier: MIT
// Running one case: verdicts, crashes caught and named.
#define _GNU_SOURCE
#include "tools/weft-check/check_case.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __x86_64__
#include <xmmintrin.h>
#endif

#include "tools/weft-check/check_memory.h"

void check_skip(struct check_case *c)
{
    c->skipped = true;
}

void check_note(struct check_case *c, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->note, sizeof c->note, format, arguments);
    va_end(arguments);
}

void check_fail(struct check_case *c, const char *format, ...)
{
    if (c->failed)
        return;
    c->failed = true;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->failure, sizeof c->failure, format, arguments);
    va_end(arguments);
}

weft_context *check_context(const struct check_case *c, const char *variant)
{
    size_t length = strlen(variant);
    bool is_reference = length > 4 && strcmp(variant + length - 4, "_ref") == 0;
    return is_reference && c->reference ? c->reference : c->context;
}

// On a device a call has only started when it returns.
bool check_ok(struct check_case *c, weft_status status, const char *what)
{
    if (status == WEFT_OK && c->reference)
        status = weft_stream_synchronize(c->context, NULL);
    if (status != WEFT_OK)
        check_fail(c, "%s: %s (%s)", what, weft_status_text(status), weft_error_text(c->context));
    return status == WEFT_OK;
}

const char *check_reference(const struct check_case *c, char name[64])
{
    const char *isa = strrchr(c->kernel->name, '_');
    snprintf(name, 64, "%.*s_ref", (int)(isa - c->kernel->name), c->kernel->name);
    return name;
}

void check_close(struct check_case *c, double got, double want, double bound, const char *what,
                 int64_t at)
{
    if (isnan(want) ? isnan(got) : got == want)
        return;
    double error = fabs(got - want);
    double ratio = bound > 0 ? error / bound : INFINITY;
    if (ratio > c->worst)
        c->worst = ratio;
    if (!(error <= bound)) {
        if (isnan(ratio))
            c->worst = INFINITY;
        check_fail(c, "%s[%lld] = %.9g, reference %.9g, error %.3g, bound %.3g", what,
                   (long long)at, got, want, error, bound);
    }
}

static struct check_case *running;
static pthread_t running_thread;
static sigjmp_buf crash_exit;

// Kernels run on any thread: a crash on the checking thread fails the case, one on another thread
// ends the program, after naming the kernel.
static void on_crash(int signal_number, siginfo_t *info, void *unused)
{
    (void)unused;
    if (running && pthread_equal(pthread_self(), running_thread)) {
        check_fail(running, "%s at %p%s", signal_number == SIGILL ? "illegal instruction" : "crash",
                   info->si_addr, check_memory_describe(running, info->si_addr));
        siglongjmp(crash_exit, 1);
    }
    char text[256];
    int length = snprintf(text, sizeof text,
                          "crash in a worker thread of %s%s, seed %llu\n0 passed, 1 failed\n",
                          running ? running->kernel->name : "?",
                          running ? check_memory_describe(running, info->si_addr) : "",
                          running ? (unsigned long long)running->seed : 0);
    ssize_t written = write(STDOUT_FILENO, text, (size_t)length);
    _exit(written < 0 ? 2 : 1);
}

void check_catch_crashes(void)
{
    struct sigaction action = {.sa_sigaction = on_crash, .sa_flags = SA_SIGINFO | SA_NODEFER};
    const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}

static unsigned float_state(void)
{
#ifdef __x86_64__
    return _mm_getcsr() & 0xffc0u; // rounding, masks, FTZ, DAZ; not the sticky flags
#else
    return 0;
#endif
}

void check_case_run(struct check_case *c, check_fn *check)
{
    unsigned state = float_state();
    running_thread = pthread_self();
    running = c;
    if (sigsetjmp(crash_exit, 1) == 0)
        check(c);
    if (float_state() != state)
        check_fail(c, "the floating-point control state changed");
    running = NULL;
    check_memory_close(c);
}
