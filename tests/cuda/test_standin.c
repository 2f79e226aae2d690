// SPDX-License-Identifier: MIT
// The CUDA backend on a stand-in driver (tests/support/standin/): memory, streams, kernels, their cache, and
// everything that can go wrong. Each case is a process of its own, as a driver is opened once in one.
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

#include "src/backend/cuda/cuda_context.h"
#include "src/kernels/kv/kv_device.h"
#include "tests/support/standin/standin.h"

static struct standin *standin;
static char cache_folder[] = "weft_standin_XXXXXX";

// In a case: says what is not so and ends the process.
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition,         \
                    weft_error_text(NULL));                                                        \
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

static void load_standin(void)
{
    setenv("WEFT_CUDA_DRIVER", WEFT_TEST_STANDIN, 1);
    setenv("WEFT_CUDA_NVRTC", WEFT_TEST_STANDIN, 1);
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

static weft_status open_context(weft_context **context)
{
    weft_context_desc desc = {.size = sizeof desc, .device = WEFT_DEVICE_CUDA};
    return weft_context_create(&desc, context);
}

static weft_context *must_open(void)
{
    weft_context *context = NULL;
    CHECK(open_context(&context) == WEFT_OK);
    return context;
}

static weft_plan *norm_plan(weft_context *context)
{
    weft_norm_desc desc = {.size = sizeof desc, .dim = 64, .max_rows = 8, .eps = 1e-5f};
    weft_plan *plan = NULL;
    CHECK(weft_norm_plan(context, &desc, &plan) == WEFT_OK);
    return plan;
}

static weft_status norm_run(const weft_plan *plan, float *x, int32_t rows, weft_stream *stream)
{
    return weft_norm_run(
        plan, &(weft_norm_args){
                  .size = sizeof(weft_norm_args), .rows = rows, .x = x, .y = x, .stream = stream});
}

static void case_no_driver(void)
{
    weft_context *context = NULL;
    setenv("WEFT_CUDA_DRIVER", "libno_such_driver.so", 1);
    CHECK(weft_device_count(WEFT_DEVICE_CUDA) == 0);
    CHECK(open_context(&context) == WEFT_EUNSUPPORTED && !context);
    CHECK_TEXT(weft_error_text(NULL), "libno_such_driver.so");
    CHECK_TEXT(weft_error_text(NULL), "install the driver");
}

static void case_no_compiler(void)
{
    weft_context *context = NULL;
    setenv("WEFT_CUDA_NVRTC", "libno_such_compiler.so", 1);
    CHECK(weft_device_count(WEFT_DEVICE_CUDA) == 1);
    CHECK(open_context(&context) == WEFT_EUNSUPPORTED && !context);
    CHECK_TEXT(weft_error_text(NULL), "NVRTC");
    CHECK_TEXT(weft_error_text(NULL), "LD_LIBRARY_PATH");
    CHECK(standin->retained == 0);
}

static void case_no_device(void)
{
    weft_context *context = NULL;
    setenv("STANDIN_DEVICES", "0", 1);
    CHECK(weft_device_count(WEFT_DEVICE_CUDA) == 0);
    CHECK(open_context(&context) == WEFT_EUNSUPPORTED);
    CHECK_TEXT(weft_error_text(NULL), "no GPU");
}

static void case_driver_fails(void)
{
    weft_context *context = NULL;
    setenv("STANDIN_FAIL_INIT", "803", 1);
    CHECK(open_context(&context) == WEFT_EUNSUPPORTED);
    CHECK_TEXT(weft_error_text(NULL), "803");
}

static void case_devices(void)
{
    weft_device_info info = {.size = sizeof info};
    weft_context *context = NULL;
    setenv("STANDIN_DEVICES", "3", 1);
    CHECK(weft_device_count(WEFT_DEVICE_CUDA) == 3);
    CHECK(weft_device_describe(WEFT_DEVICE_CUDA, 2, &info) == WEFT_OK);
    CHECK_TEXT(info.name, "GPU 2");
    CHECK_TEXT(info.architecture, "sm_90");
    CHECK(info.cores == 132 && info.memory_bytes == 1 << 30);
    CHECK(weft_device_describe(WEFT_DEVICE_CUDA, 3, &info) == WEFT_EINVAL);
    weft_context_desc desc = {.size = sizeof desc, .device = WEFT_DEVICE_CUDA, .device_index = 2};
    CHECK(weft_context_create(&desc, &context) == WEFT_OK);
    CHECK(strcmp(weft_context_isa(context), "sm_90a") == 0);
    weft_context_destroy(context);
    desc.device_index = 3;
    CHECK(weft_context_create(&desc, &context) == WEFT_EINVAL);
    CHECK_TEXT(weft_error_text(NULL), "device 3");
    standin->sm = 75;
    desc.device_index = 0;
    CHECK(weft_context_create(&desc, &context) == WEFT_EUNSUPPORTED);
    CHECK_TEXT(weft_error_text(NULL), "7.5");
    CHECK(standin->retained == 0 && standin->live_streams == 0);
}

// Blocks are reused, neighbours merge, and nothing stays behind.
static void case_memory(void)
{
    weft_context *context = must_open();
    void *p[64], *big, *pinned;
    for (int i = 0; i < 64; i++) {
        CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1000 + (size_t)i, &p[i]) ==
              WEFT_OK);
        CHECK((uintptr_t)p[i] % 256 == 0);
        for (int j = 0; j < i; j++)
            CHECK((char *)p[i] >= (char *)p[j] + 1000 + j ||
                  (char *)p[j] >= (char *)p[i] + 1000 + i);
    }
    CHECK(standin->allocations == 1); // one chunk
    for (int i = 0; i < 64; i += 2)
        weft_memory_free(context, p[i]);
    for (int i = 1; i < 64; i += 2)
        weft_memory_free(context, p[i]);
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 30 << 20, &big) == WEFT_OK);
    CHECK(standin->allocations == 1); // the whole chunk was one free block again
    weft_memory_free(context, big);
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 100 << 20, &big) == WEFT_OK);
    CHECK(standin->allocations == 2);
    weft_memory_free(context, big);
    CHECK(standin->frees == 1); // a chunk of its own goes back
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_PINNED, 100, &pinned) == WEFT_OK);
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 0, &big) == WEFT_OK && big);
    weft_context_destroy(context); // frees what was forgotten
    CHECK(standin->live_allocations == 0 && standin->used_bytes == 0);
    CHECK(standin->live_streams == 0 && standin->live_events == 0 && standin->retained == 0);
}

static void case_out_of_memory(void)
{
    weft_context *context = must_open();
    void *p = &p, *keep = p;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, (size_t)2 << 30, &p) == WEFT_ENOMEM);
    CHECK(p == keep);
    CHECK_TEXT(weft_error_text(context), "2048 MiB");
    CHECK_TEXT(weft_error_text(context), "of 1024 MiB");
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, SIZE_MAX, &p) == WEFT_ENOMEM);
    // A device nearly full still gives what is left in small chunks.
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, (size_t)1000 << 20, &p) == WEFT_OK);
    void *small;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 20, &small) == WEFT_OK);
    weft_memory_free(context, p);
    // Whichever allocation fails, nothing is lost and nothing crashes.
    for (int n = 1; n <= 4; n++) {
        void *a = NULL, *b = NULL;
        char host[100] = {0};
        standin->fail_alloc = n;
        if (weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 50 << 20, &a) == WEFT_OK)
            weft_copy(context, a, host, sizeof host, NULL);
        if (weft_memory_allocate(context, WEFT_MEMORY_PINNED, 10, &b) == WEFT_OK)
            weft_memory_free(context, b);
        weft_memory_free(context, a);
        standin->fail_alloc = 0;
    }
    weft_context_destroy(context);
    CHECK(standin->live_allocations == 0);
}

// Pageable, pinned and device memory, in every direction, longer than the staging ring's slots.
static void case_copies(void)
{
    enum { BYTES = 20 << 20 };
    weft_context *context = must_open();
    unsigned char *from = malloc(BYTES), *to = malloc(BYTES);
    void *device, *other, *pinned;
    weft_stream *stream;
    for (int i = 0; i < BYTES; i++)
        from[i] = (unsigned char)(i * 7 + i / 1000);
    CHECK(weft_stream_create(context, &stream) == WEFT_OK);
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, BYTES, &device) == WEFT_OK);
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, BYTES, &other) == WEFT_OK);
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_PINNED, BYTES, &pinned) == WEFT_OK);
    CHECK(weft_copy(context, device, from, BYTES, stream) == WEFT_OK);
    CHECK(weft_copy(context, other, device, BYTES, stream) == WEFT_OK);
    CHECK(weft_copy(context, pinned, other, BYTES, stream) == WEFT_OK);
    CHECK(memcmp(pinned, from, BYTES) == 0);
    CHECK(weft_fill(context, device, 0x5a, BYTES, stream) == WEFT_OK);
    CHECK(weft_copy(context, device, (char *)pinned + 1, BYTES - 1, stream) == WEFT_OK);
    CHECK(weft_copy(context, to, device, BYTES, stream) == WEFT_OK);
    CHECK(memcmp(to, from + 1, BYTES - 1) == 0 && to[BYTES - 1] == 0x5a);
    CHECK(weft_copy(context, to, from, BYTES, stream) == WEFT_OK && memcmp(to, from, BYTES) == 0);
    // A stream of another context is refused.
    weft_context *second = must_open();
    CHECK(weft_copy(second, device, from, 10, stream) == WEFT_EINVAL);
    weft_context_destroy(second);
    weft_stream_destroy(stream);
    weft_context_destroy(context);
    free(from);
    free(to);
    CHECK(standin->live_allocations == 0 && standin->live_events == 0);
}

static void case_kernels(void)
{
    weft_context *context = must_open();
    weft_plan *plan = norm_plan(context);
    weft_stream *stream;
    void *x;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 4096, &x) == WEFT_OK);
    CHECK(weft_stream_create(context, &stream) == WEFT_OK);
    CHECK(norm_run(plan, x, 5, NULL) == WEFT_OK);
    int64_t allocations = standin->allocations, waits = standin->synchronisations;
    for (int i = 0; i < 100; i++)
        CHECK(norm_run(plan, x, 3, stream) == WEFT_OK);
    CHECK(standin->allocations == allocations && standin->synchronisations == waits);
    CHECK(standin->num_launches == 101);
    const struct standin_launch *first = &standin->launches[0], *last = &standin->launches[100];
    CHECK(strcmp(first->function, "weft_norm") == 0);
    CHECK(first->grid[0] == 5 && last->grid[0] == 3 && first->block[0] == 32);
    CHECK(first->stream != last->stream && first->stream && last->stream);
    // The same kernel for another plan is not compiled again.
    int64_t compiles = standin->compiles;
    weft_plan *again = norm_plan(context);
    CHECK(norm_run(again, x, 1, NULL) == WEFT_OK && standin->compiles == compiles);
    weft_plan_destroy(again);
    weft_plan_destroy(plan);
    weft_stream_destroy(stream);
    weft_context_destroy(context);
    CHECK(standin->live_modules == 0);
}

static void case_kernel_refused(void)
{
    weft_context *context = must_open();
    weft_plan *plan;
    standin->fail_compile = true;
    setenv("WEFT_CACHE_DIR", "weft_standin_none", 1);
    plan = norm_plan(context);
    CHECK(norm_run(plan, (float *)(void *)context, 1, NULL) == WEFT_EDEVICE);
    CHECK_TEXT(weft_error_text(context), "weft_norm[");
    CHECK_TEXT(weft_error_text(context), "line 1: error of the stand-in");
    weft_plan_destroy(plan);
    weft_norm_desc desc = {.size = sizeof desc, .dim = 8, .variant = "no_such_kernel"};
    CHECK(weft_norm_plan(context, &desc, &plan) == WEFT_EVARIANT);
    CHECK_TEXT(weft_error_text(context), "no_such_kernel");
    weft_context_destroy(context);
}

static void case_device_lost(void)
{
    weft_context *context = must_open();
    weft_plan *plan = norm_plan(context);
    weft_event *event;
    void *x, *y = NULL;
    char host[8];
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 4096, &x) == WEFT_OK);
    CHECK(weft_event_create(context, &event) == WEFT_OK);
    CHECK(norm_run(plan, x, 1, NULL) == WEFT_OK);
    standin->lost = 700;
    CHECK(norm_run(plan, x, 1, NULL) == WEFT_EDEVICE);
    CHECK_TEXT(weft_error_text(context), "illegal memory access");
    CHECK_TEXT(weft_error_text(context), "make a new one");
    CHECK(weft_stream_synchronize(context, NULL) == WEFT_EDEVICE);
    CHECK(weft_copy(context, host, x, sizeof host, NULL) == WEFT_EDEVICE);
    CHECK(weft_fill(context, x, 0, 10, NULL) == WEFT_EDEVICE);
    CHECK(weft_event_record(event, NULL) == WEFT_EDEVICE);
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 30, &y) == WEFT_EDEVICE && !y);
    weft_event_destroy(event);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

static int entries(const char *folder, char last[512])
{
    DIR *dir = opendir(folder);
    int count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.') {
            count++;
            snprintf(last, 512, "%.200s/%.250s", folder, entry->d_name);
        }
    if (dir)
        closedir(dir);
    return count;
}

static void run_once(int64_t compiles_wanted)
{
    weft_context *context = must_open();
    int64_t before = standin->compiles;
    weft_plan *plan = norm_plan(context);
    void *x;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 4096, &x) == WEFT_OK);
    CHECK(norm_run(plan, x, 1, NULL) == WEFT_OK);
    CHECK(standin->compiles - before == compiles_wanted);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

static void spoil(const char *path, long at, const char *with, size_t bytes)
{
    FILE *file = fopen(path, "r+b");
    CHECK(file);
    fseek(file, at, SEEK_SET);
    fwrite(with, 1, bytes, file);
    fclose(file);
}

// Kept on disk, found again, rebuilt when damaged, cut off, foreign, or not what the driver takes.
static void case_cache(void)
{
    char folder[300], path[512], again[512];
    struct stat info;
    snprintf(folder, sizeof folder, "%s/deep/er", cache_folder);
    setenv("WEFT_CACHE_DIR", folder, 1);
    run_once(1);
    CHECK(entries(folder, path) == 1);
    run_once(0);
    CHECK(stat(path, &info) == 0);
    spoil(path, info.st_size - 2, "?", 1); // checksum
    run_once(1);
    run_once(0);
    spoil(path, 0, "?", 1); // magic
    run_once(1);
    spoil(path, 8, "\377\377\377\377\377\377\377\377", 8); // length
    run_once(1);
    CHECK(truncate(path, info.st_size - 5) == 0);
    run_once(1);
    CHECK(truncate(path, 0) == 0);
    run_once(1);
    run_once(0);
    // A sound file with machine code that the driver does not take is dropped and rebuilt.
    unsigned char key[WEFT__SHA256_BYTES];
    const char *name = strrchr(path, '/') + 1;
    for (int i = 0; i < WEFT__SHA256_BYTES; i++) {
        unsigned value;
        CHECK(sscanf(name + 2 * i, "%2x", &value) == 1);
        key[i] = (unsigned char)value;
    }
    char foreign[] = "code of another machine";
    bool weft__cuda_cache_store(const unsigned char *, const struct weft__cuda_image *);
    CHECK(weft__cuda_cache_store(key, &(struct weft__cuda_image){foreign, sizeof foreign}));
    run_once(1);
    run_once(0);
    CHECK(entries(folder, again) == 1);
}

static void case_cache_read_only(void)
{
    char folder[300], path[512];
    snprintf(folder, sizeof folder, "%s/file", cache_folder);
    FILE *file = fopen(folder, "wb"); // no folder can be made below a file, not even by root
    CHECK(file);
    fclose(file);
    snprintf(folder, sizeof folder, "%s/file/below", cache_folder);
    setenv("WEFT_CACHE_DIR", folder, 1);
    run_once(1);
    run_once(1);
    CHECK(entries(folder, path) == 0);
    unsetenv("WEFT_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    run_once(1);
}

// The caller's driver context and stream are used and left alone.
static void case_native(void)
{
    const char *why;
    const struct weft__cuda_driver *driver = weft__cuda_driver(&why);
    CUcontext own = NULL, current = NULL;
    CUstream stream = NULL;
    CHECK(driver->primary_retain(&own, 0) == 0 && driver->context_push(own) == 0);
    CHECK(driver->stream_create(&stream, 0) == 0);
    weft_context_desc desc = {.size = sizeof desc,
                              .device = WEFT_DEVICE_CUDA,
                              .native_context = own,
                              .native_stream = stream};
    weft_context *context = NULL;
    CHECK(weft_context_create(&desc, &context) == WEFT_OK);
    weft_plan *plan = norm_plan(context);
    CHECK(norm_run(plan, (float *)(void *)context, 1, NULL) == WEFT_OK);
    CHECK(standin->launches[0].stream == stream);
    CHECK(driver->context_current(&current) == 0 && current == own);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
    CHECK(standin->live_streams == 1 && standin->retained == 1);
    // Work of a thread without a current context leaves none behind.
    CHECK(driver->context_pop(&current) == 0);
    context = must_open();
    CHECK(driver->context_current(&current) == 0 && !current);
    weft_context_destroy(context);
    CHECK(driver->context_current(&current) == 0 && !current);
}

// A program is a graph: recorded once, launched with new contents in the same places.
static void case_program(void)
{
    enum { BYTES = 4096 };
    weft_context *context = must_open();
    weft_plan *plan = norm_plan(context);
    weft_program *program = NULL;
    weft_program_info info = {.size = sizeof info};
    unsigned char *pinned, *out;
    void *x;
    char pageable[16];
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, BYTES, &x) == WEFT_OK);
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_PINNED, BYTES, (void **)&pinned) == WEFT_OK);
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_PINNED, BYTES, (void **)&out) == WEFT_OK);
    memset(pinned, 1, BYTES);
    memset(out, 0, BYTES);
    CHECK(weft_program_begin(context, &program) == WEFT_OK);
    CHECK(weft_copy(context, x, pinned, BYTES, NULL) == WEFT_OK);
    CHECK(norm_run(plan, x, 2, NULL) == WEFT_OK && norm_run(plan, x, 3, NULL) == WEFT_OK);
    CHECK(weft_copy(context, out, x, BYTES, NULL) == WEFT_OK);
    CHECK(weft_fill(context, x, 0, BYTES, NULL) == WEFT_OK);
    CHECK(weft_copy(context, x, pageable, sizeof pageable, NULL) == WEFT_EDEVICE);
    CHECK_TEXT(weft_error_text(context), "pinned");
    CHECK(standin->num_launches == 0 && standin->copies == 0 && out[0] == 0);
    CHECK(weft_program_launch(program, NULL) == WEFT_EINVAL); // has not ended
    CHECK(weft_program_end(program) == WEFT_OK);
    int64_t allocations = standin->allocations, waits = standin->synchronisations;
    for (int i = 1; i <= 5; i++) {
        memset(pinned, i, BYTES);
        CHECK(weft_program_launch(program, NULL) == WEFT_OK);
        CHECK(out[0] == i && out[BYTES - 1] == i);
    }
    CHECK(standin->allocations == allocations && standin->synchronisations == waits);
    CHECK(standin->graph_launches == 5 && standin->num_launches == 10);
    CHECK(weft_program_describe(program, &info) == WEFT_OK);
    CHECK(info.runs == 2 && info.copies == 3 && info.launches == 5);
    weft_program_destroy(program);
    // One that is given up, and a device that fails while recording.
    CHECK(weft_program_begin(context, &program) == WEFT_OK);
    CHECK(norm_run(plan, x, 1, NULL) == WEFT_OK);
    weft_program_destroy(program);
    CHECK(weft_program_begin(context, &program) == WEFT_OK);
    standin->lost = 700;
    CHECK(norm_run(plan, x, 1, NULL) == WEFT_EDEVICE);
    CHECK(weft_program_end(program) == WEFT_EDEVICE);
    weft_program_destroy(program);
    standin->lost = 0;
    CHECK(standin->live_graphs == 0);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
    CHECK(standin->live_streams == 0 && standin->live_allocations == 0);
}

// What a batch says is on the device before the runs that take it.
static void case_batch(void)
{
    weft_context *context = must_open();
    const weft_rope_params rope = {.base = 10000};
    const weft_kv_append_desc desc = {
        .size = sizeof desc,
        .max_tokens = 8,
        .layout = {.dtype = WEFT_F16, .num_kv_heads = 2, .head_dim = 64, .page_size = 4},
        .rope = &rope};
    weft_plan *plan = NULL;
    weft_batch *batch = NULL;
    void *memory;
    CHECK(weft_kv_append_plan(context, &desc, &plan) == WEFT_OK);
    const weft_batch_desc batch_desc = {.size = sizeof batch_desc,
                                        .max_seqs = 2,
                                        .max_q_tokens = 8,
                                        .max_kv_len = 16,
                                        .page_size = 4,
                                        .plans = (const weft_plan *const *)&plan,
                                        .num_plans = 1};
    CHECK(weft_batch_create(context, &batch_desc, &batch) == WEFT_OK);
    const int32_t cu_q_lens[] = {0, 1, 2}, kv_lens[] = {5, 2}, table[] = {7, 3, 1, 0};
    const int32_t capacities[] = {8, 4};
    weft_batch_args args = {.size = sizeof args,
                            .num_seqs = 2,
                            .cu_q_lens = cu_q_lens,
                            .kv_lens = kv_lens,
                            .page_table = table,
                            .page_table_stride = 2,
                            .kv_capacities = capacities,
                            .num_pages = 8};
    CHECK(weft_batch_set(batch, &args) == WEFT_OK);
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 20, &memory) == WEFT_OK);
    const weft_kv_append_args append = {
        .size = sizeof append,
        .tokens = 2,
        .pool = {.k.data = memory, .v.data = memory, .num_pages = 8},
        .k = memory,
        .v = memory,
        .batch = batch};
    CHECK(weft_kv_append_run(plan, &append) == WEFT_OK);
    // The stand-in's device is the host's memory: what the kernel would read can be looked at.
    const struct standin_launch *launch = &standin->launches[0];
    const struct weft__kv_device_args *seen = (const void *)launch->args;
    CHECK(strcmp(launch->function, "weft_kv_append") == 0);
    CHECK(seen->positions[0] == 4 && seen->positions[1] == 1);
    CHECK(seen->slots[0] == 3 * 4 + 0 && seen->slots[1] == 1 * 4 + 1);
    CHECK(weft_batch_advance(batch, NULL) == WEFT_OK);
    CHECK(seen->positions[0] == 5 && seen->slots[0] == 3 * 4 + 1 && seen->slots[1] == 1 * 4 + 2);
    weft_batch_destroy(batch);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
    CHECK(standin->live_allocations == 0);
}

struct standin_case {
    const char *name;
    void (*body)(void);
};

static const struct standin_case cases[] = {
    {"no_driver", case_no_driver},
    {"no_compiler", case_no_compiler},
    {"no_device", case_no_device},
    {"driver_fails", case_driver_fails},
    {"devices", case_devices},
    {"memory", case_memory},
    {"out_of_memory", case_out_of_memory},
    {"copies", case_copies},
    {"kernels", case_kernels},
    {"kernel_refused", case_kernel_refused},
    {"device_lost", case_device_lost},
    {"cache", case_cache},
    {"cache_read_only", case_cache_read_only},
    {"native", case_native},
    {"program", case_program},
    {"batch", case_batch},
};
enum { NUM_CASES = sizeof cases / sizeof *cases };

static void run_case(void **state)
{
    in_a_process(((const struct standin_case *)*state)->body);
}

static void remove_all(const char *folder)
{
    char command[400];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        fprintf(stderr, "%s was left behind\n", folder);
}

int main(void)
{
    struct CMUnitTest tests[NUM_CASES];
    for (int i = 0; i < NUM_CASES; i++)
        tests[i] = (struct CMUnitTest){cases[i].name, run_case, NULL, NULL, (void *)&cases[i]};
    if (!mkdtemp(cache_folder))
        return 1;
    setenv("WEFT_CACHE_DIR", cache_folder, 1);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    remove_all(cache_folder);
    return failures;
}
