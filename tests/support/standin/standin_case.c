// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "tests/support/standin/standin_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/support/scratch.h"

enum { MAX_CASES = 64 };

struct standin *standin;
char standin_cache_folder[SCRATCH_PATH_BYTES];

static void load_standin(void)
{
    setenv("WEFT_CUDA_DRIVER", WEFT_TEST_STANDIN, 1);
    setenv("WEFT_CUDA_NVRTC", WEFT_TEST_STANDIN, 1);
    setenv("WEFT_CUDA_CUBLASLT", WEFT_TEST_STANDIN, 1);
    void *handle = dlopen(WEFT_TEST_STANDIN, RTLD_NOW);
    CHECK(handle);
    standin = dlsym(handle, "standin");
    CHECK(standin);
}

static void in_a_process(void (*body)(void))
{
    fflush(NULL);
    pid_t child = fork();
    int status = 0;
    assert_true(child >= 0);
    if (child == 0) {
        load_standin();
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

weft_status open_context(weft_context **context)
{
    weft_context_desc desc = {.size = sizeof desc, .device = WEFT_DEVICE_CUDA};
    return weft_context_create(&desc, context);
}

weft_context *must_open(void)
{
    weft_context *context = NULL;
    CHECK(open_context(&context) == WEFT_OK);
    return context;
}

weft_plan *norm_plan(weft_context *context)
{
    weft_norm_desc desc = {.size = sizeof desc, .dim = 64, .max_rows = 8, .eps = 1e-5f};
    weft_plan *plan = NULL;
    CHECK(weft_norm_plan(context, &desc, &plan) == WEFT_OK);
    return plan;
}

weft_status norm_run(const weft_plan *plan, float *x, int32_t rows, weft_stream *stream)
{
    return weft_norm_run(
        plan, &(weft_norm_args){
                  .size = sizeof(weft_norm_args), .rows = rows, .x = x, .y = x, .stream = stream});
}

static void run_case(void **state)
{
    in_a_process(((const struct standin_case *)*state)->body);
}

int standin_run(const struct standin_case *cases, int num_cases)
{
    struct CMUnitTest tests[MAX_CASES];
    if (num_cases > MAX_CASES)
        return 1;
    scratch_folder(standin_cache_folder);
    for (int i = 0; i < num_cases; i++)
        tests[i] = (struct CMUnitTest){cases[i].name, run_case, NULL, NULL, (void *)&cases[i]};
    setenv("WEFT_CACHE_DIR", standin_cache_folder, 1);
    int failures = _cmocka_run_group_tests("standin", tests, (size_t)num_cases, NULL, NULL);
    return scratch_remove(standin_cache_folder) ? 1 : failures;
}

void *on_device(weft_context *context, const void *from, size_t bytes)
{
    void *to;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, bytes, &to) == WEFT_OK);
    if (from)
        CHECK(weft_copy(context, to, from, bytes, NULL) == WEFT_OK);
    return to;
}
