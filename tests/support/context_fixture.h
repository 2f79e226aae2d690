// SPDX-License-Identifier: MIT
// A context for every test of a group: cmocka_run_group_tests(tests, open_context, close_context); the
// state is the weft_context.
#ifndef TESTS_SUPPORT_CONTEXT_FIXTURE_H
#define TESTS_SUPPORT_CONTEXT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

static inline int open_context(void **state)
{
    return weft_context_create(NULL, (weft_context **)(void *)state) == WEFT_OK ? 0 : -1;
}

// The same on the device that WEFT_TEST_DEVICE names (cpu, cuda).
static inline bool on_gpu(void)
{
    const char *device = getenv("WEFT_TEST_DEVICE");
    return device && strcmp(device, "cuda") == 0;
}

static inline int open_device(void **state)
{
    const weft_context_desc desc = {.size = sizeof desc,
                                    .device = on_gpu() ? WEFT_DEVICE_CUDA : WEFT_DEVICE_CPU};
    return weft_context_create(&desc, (weft_context **)(void *)state) == WEFT_OK ? 0 : -1;
}

static inline int close_context(void **state)
{
    weft_context_destroy(*state);
    return 0;
}

// The status was the one wanted and the context's text contains `words`.
#define assert_refused(context, call, status, words)                                               \
    do {                                                                                           \
        assert_int_equal(call, status);                                                            \
        if (!strstr(weft_error_text(context), words))                                              \
            fail_msg("'%s' does not say '%s'", weft_error_text(context), words);                   \
    } while (0)

#endif
