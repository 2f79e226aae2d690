// SPDX-License-Identifier: MIT
// The CUDA backend on a stand-in driver (tests/support/standin/): memory, streams, kernels, their cache, and
// everything that can go wrong.
#define _GNU_SOURCE
#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <weft/sample.h>

#include "src/backend/cuda/cuda_backend.h"
#include "src/backend/cuda/cuda_context.h"
#include "src/kernels/sample/sample_device.h"
#include "tests/support/standin/standin_case.h"

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
    CHECK_TEXT(info.tier, "SMs");
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
    // What is left of such a chunk serves others, whose end does not take the chunk away.
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, (100 << 20) + 1, &big) == WEFT_OK);
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1000, &p[0]) == WEFT_OK);
    CHECK((char *)p[0] > (char *)big && (char *)p[0] < (char *)big + (102 << 20));
    weft_memory_free(context, p[0]);
    CHECK(standin->frees == 1);
    CHECK(weft_fill(context, big, 1, 100 << 20, NULL) == WEFT_OK);
    weft_memory_free(context, big);
    CHECK(standin->frees == 2);
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

// Where the device finds the parameters of draws is what their address says, whatever lies in the members that no version has: a run's own
// copy of what its caller filled in ends before them.
static void case_draws(void)
{
    weft_context *context = must_open();
    const weft_sample_desc desc = {.size = sizeof desc, .vocab = 64, .max_rows = 2};
    weft_plan *plan = NULL;
    char *m;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 20, (void **)&m) == WEFT_OK);
    CHECK(weft_sample_plan(context, &desc, &plan) == WEFT_OK);
    const weft_sample_params own[2] = {{.temperature = 1, .seed = 7}, {.temperature = 2}};
    const weft_sample_params *const places[] = {own, (const void *)m};
    for (int32_t i = 0; i < 4; i++) {
        weft_sample_args args = {.size = sizeof args, .logits = m, .params = places[i % 2]};
        args.rows = 2, args.tokens = (int32_t *)m, args.workspace = m;
        args.reserved[0] = (uint64_t)(i / 2);
        struct weft__cuda_step steps[WEFT__CUDA_MAX_STEPS];
        CHECK(weft__cuda_steps_of(plan, &args, steps) == 2);
        const struct weft__sample_device_args *device = (const void *)steps[1].args;
        CHECK((const void *)device->params == (i % 2 ? m : NULL));
        CHECK(i % 2 || device->own[0].seed == 7);
    }
    weft_plan_destroy(plan);
    weft_memory_free(context, m);
    weft_context_destroy(context);
}

// Kept on disk, found again, rebuilt when damaged, cut off, foreign, or not what the driver takes.
static void case_cache(void)
{
    char folder[300], path[512], again[512];
    struct stat info;
    snprintf(folder, sizeof folder, "%s/deep/er", standin_cache_folder);
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
    snprintf(folder, sizeof folder, "%s/file", standin_cache_folder);
    FILE *file = fopen(folder, "wb"); // no folder can be made below a file, not even by root
    CHECK(file);
    fclose(file);
    snprintf(folder, sizeof folder, "%s/file/below", standin_cache_folder);
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
    standin->devices = 3;
    CHECK(driver->primary_retain(&own, 1) == 0 && driver->context_push(own) == 0);
    CHECK(driver->stream_create(&stream, 0) == 0);
    weft_context_desc desc = {.size = sizeof desc,
                              .device = WEFT_DEVICE_CUDA,
                              .native_context = own,
                              .native_stream = stream};
    weft_context *context = NULL;
    CHECK(weft_context_create(&desc, &context) == WEFT_OK);
    CHECK(weft__cuda_of(context)->index == 1);
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
    {"draws", case_draws},
    {"cache", case_cache},
    {"cache_read_only", case_cache_read_only},
    {"native", case_native},
};

int main(void)
{
    return standin_run(cases, sizeof cases / sizeof *cases);
}
