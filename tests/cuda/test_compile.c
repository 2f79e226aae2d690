// SPDX-License-Identifier: MIT
// A sample of every CUDA kernel compiles for every architecture, without spills, where NVRTC is; no GPU is
// needed. (An operation's first sample for every architecture; of the rest a third for an H200, a 24th for each of
// the others. What a GPU is asked for is compiled there, tests/gpu.sh.)
// Kernels that have not changed since they last passed are not compiled again: they are found in the cache
// (WEFT_CACHE_DIR, which the test sets to a folder of the build). WEFT_TEST_ALL_KERNELS=1
// compiles all for all, WEFT_TEST_VERBOSE=1 shows the compiler's report.
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <weft/weft.h>

#include "src/backend/cuda/cuda_backend.h"
#include "src/backend/cuda/cuda_cache.h"
#include "src/base/memory.h"
#include "src/kernels/token/token_kernel.h"
#include "tests/cuda/samples.h"

// What the arithmetic is told of devices: an A100, an RTX 3090, an RTX 4090, an H200, an RTX 5090.
static const struct weft__cuda_limits devices[] = {
    {80, 108, 166912, 167936, 65536, 2048, 40 << 20},
    {86, 82, 101376, 102400, 65536, 1536, 6 << 20},
    {89, 128, 101376, 102400, 65536, 1536, 72 << 20},
    {90, 132, 232448, 233472, 65536, 2048, 60 << 20},
    {120, 170, 101376, 102400, 65536, 1536, 96 << 20},
};

static int compiled, reused;

// ptxas says "N bytes spill stores" for every function.
static bool spills(const char *log)
{
    for (const char *at = log; (at = strstr(at, " bytes spill ")) != NULL; at++) {
        const char *number = at;
        while (number > log && number[-1] >= '0' && number[-1] <= '9')
            number--;
        if (atoi(number) != 0)
            return true;
    }
    return false;
}

static bool compiles(const struct weft__nvrtc *nvrtc, const struct weft__cuda_kernel *kernel,
                     int32_t sm)
{
    static char log[65536];
    char arch[16], name[192];
    unsigned char key[WEFT__SHA256_BYTES];
    struct weft__cuda_image image;
    weft__cuda_arch(nvrtc, sm, arch);
    weft__cuda_kernel_key(nvrtc, kernel, arch, key);
    weft__cuda_kernel_name(kernel, name, sizeof name);
    if (weft__cuda_cache_load(key, &image)) {
        weft__base_release(NULL, image.data);
        reused++;
        return true;
    }
    compiled++;
    if (weft__cuda_compile(nvrtc, kernel, arch, true, &image, log, sizeof log) != WEFT_OK) {
        fprintf(stderr, "%s for %s: does not compile\n%s\n", name, arch, log);
        return false;
    }
    bool passed = !spills(log);
    if (getenv("WEFT_TEST_VERBOSE"))
        print_message("%s for %s: %s\n", name, arch, log);
    if (passed)
        weft__cuda_cache_store(key, &image);
    else
        fprintf(stderr, "%s for %s: spills\n%s\n", name, arch, log);
    weft__base_release(NULL, image.data);
    return passed;
}

// Plans a sample for a device and compiles what the plan asks for.
static int failures_of(const struct weft__nvrtc *nvrtc, const struct cuda_sample *sample,
                       const struct weft__cuda_limits *limits)
{
    const struct weft__cuda_op *op = weft__cuda_op(sample->op);
    struct weft__cuda_choice choice = {.launch = calloc(1, op->launch_bytes + 64)};
    int failures = 0;
    weft_status status = op->plan(sample->desc, limits, &choice);
    if (sample->sm && sample->sm != limits->sm) {
        assert_int_equal(status, WEFT_EVARIANT);
        free(choice.launch);
        return 0;
    }
    if (status != WEFT_OK && !(status == WEFT_EUNSUPPORTED && sample->optional)) {
        fprintf(stderr, "%s on sm_%d: %s\n", sample->name, limits->sm, choice.text);
        failures++;
    }
    for (int32_t i = 0; status == WEFT_OK && i < choice.num_kernels; i++)
        failures += !compiles(nvrtc, &choice.kernels[i], limits->sm);
    free(choice.launch);
    return failures;
}

// A whole token as one launch, for the one family of devices that it is meant for.
static int token_failures(const struct weft__nvrtc *nvrtc)
{
    static const struct {
        weft_dtype format, second;
        int32_t even;
    } samples[] = {{WEFT_Q4_0, 0, 27}, {WEFT_Q8_0, 0, 17},         {WEFT_Q4_K, 0, 27},
                   {WEFT_Q6_K, 0, 17}, {WEFT_Q4_K, WEFT_Q6_K, 27}, {WEFT_BF16, 0, 31}};
    struct weft__cuda_kernel kernel;
    int failures = 0;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        weft__token_sample(samples[i].format, samples[i].second, samples[i].even, &kernel);
        failures += !compiles(nvrtc, &kernel, 90);
    }
    return failures;
}

static void kernels_compile_without_spills(void **state)
{
    const char *why;
    const struct weft__nvrtc *nvrtc = weft__nvrtc(&why);
    int failures = 0, covered[WEFT__OP_COUNT] = {0};
    (void)state;
    if (!nvrtc) {
        print_message("no kernel compiled: %s\n", why);
        skip();
    }
    for (int i = 0; i < cuda_num_samples(); i++) {
        struct cuda_sample sample = cuda_sample(i);
        if (!weft__cuda_op(sample.op)->plan)
            continue;
        covered[sample.op]++;
        const bool all = getenv("WEFT_TEST_ALL_KERNELS") != NULL;
        if (sample.seldom && !all)
            continue;
        for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
            if (all || covered[sample.op] == 1 ||
                (covered[sample.op] + (int)d) % (devices[d].sm == 90 ? 3 : 24) == 0)
                failures += failures_of(nvrtc, &sample, &devices[d]);
    }
    for (int i = 0; i < WEFT__CUDA_BATCH_KERNELS; i++)
        for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
            failures += !compiles(nvrtc, &weft__cuda_batch_kernels[i], devices[d].sm);
    failures += token_failures(nvrtc);
    for (int op = 0; op < WEFT__OP_COUNT; op++)
        if (weft__cuda_op((enum weft__op)op)->plan && !covered[op]) {
            fprintf(stderr, "no sample of %s\n", weft__cuda_op((enum weft__op)op)->table->op);
            failures++;
        }
    print_message("%d kernels compiled, %d known from before\n", compiled, reused);
    assert_int_equal(failures, 0);
}

// Every row of a table can be chosen by its name, on a device that it fits.
static void rows_are_chosen_by_name(void **state)
{
    (void)state;
    for (int i = 0; i < cuda_num_samples(); i++) {
        struct cuda_sample sample = cuda_sample(i);
        const struct weft__cuda_op *op = weft__cuda_op(sample.op);
        struct weft__cuda_choice choice = {0};
        if (!op->plan)
            continue;
        choice.launch = calloc(1, op->launch_bytes + 64);
        if (op->plan(sample.desc, &devices[3], &choice) == WEFT_OK) {
            assert_non_null(choice.row);
            assert_true(choice.num_kernels > 0);
            assert_true(weft__cuda_fits(&devices[3], choice.row));
        }
        free(choice.launch);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_compile_without_spills),
                                       cmocka_unit_test(rows_are_chosen_by_name)};
    setenv("WEFT_CACHE_DIR", WEFT_TEST_CUDA_CACHE, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
