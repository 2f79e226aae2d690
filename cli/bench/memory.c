// SPDX-License-Identifier: MIT
// The memory that is measured, and the run that owns it.
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/bench/bench.h"

enum { DEVICE_WORKING_SET = 1 << 30 }; // of a device with memory of its own, at least

// Bytes of the largest cache, from what Linux says of the first core; 32 MiB if it says nothing.
static int64_t last_cache_bytes(void)
{
    int64_t most = 0;
    for (int index = 0; index < 8; index++) {
        char path[96], unit = 0;
        long long size = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
        FILE *file = fopen(path, "r");
        if (!file)
            break;
        if (fscanf(file, "%lld%c", &size, &unit) == 2) {
            size *= unit == 'M' ? 1 << 20 : unit == 'K' ? 1 << 10 : 1;
            most = size > most ? size : most;
        }
        fclose(file);
    }
    return most ? most : 32 << 20;
}

bool bench_error(const bench *run)
{
    cli_failed(run->self, "%s", weft_error_text(run->context));
    return false;
}

static bool on_host(const bench *run)
{
    return run->options.device == WEFT_DEVICE_CPU;
}

bool bench_put(bench *run, void *to, const void *from, int64_t bytes)
{
    return weft_copy(run->context, to, from, (size_t)bytes, NULL) == WEFT_OK || bench_error(run);
}

void *bench_allocate(bench *run, size_t bytes)
{
    void *memory;
    if (weft_memory_allocate(run->context, WEFT_MEMORY_DEVICE, bytes, &memory) == WEFT_OK)
        return memory;
    bench_error(run);
    return NULL;
}

static void drop_memory(bench *run)
{
    if (run->memory && on_host(run))
        munmap(run->memory, (size_t)run->memory_bytes);
    else
        weft_memory_free(run->context, run->memory);
    run->memory = NULL;
    run->memory_bytes = run->next_byte = 0;
}

bool bench_begin(bench *run)
{
    weft_context_desc desc = {.size = sizeof desc,
                              .device = run->options.device,
                              .device_index = run->options.device_index,
                              .threads = run->options.threads};
    return bench_read_baseline(run) &&
           (weft_context_create(&desc, &run->context) == WEFT_OK || bench_error(run));
}

void bench_end(bench *run)
{
    bench_progress(run, NULL);
    drop_memory(run);
    weft_context_destroy(run->context);
    json_decref(run->baseline);
}

const char *bench_device_name(const bench *run)
{
    return on_host(run) ? "cpu" : "cuda";
}

int64_t bench_working_set(const bench *run, int64_t problem_bytes)
{
    if (run->hot)
        return problem_bytes;
    weft_device_info device = {.size = sizeof device};
    int64_t wanted = 4 * last_cache_bytes();
    int64_t most = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 4;
    if (!on_host(run) &&
        weft_device_describe(run->options.device, run->options.device_index, &device) == WEFT_OK) {
        wanted = device.cache_bytes * 4 > DEVICE_WORKING_SET ? device.cache_bytes * 4
                                                             : DEVICE_WORKING_SET;
        most = device.memory_bytes / 4;
    }
    if (run->working_set_mib)
        wanted = (int64_t)run->working_set_mib << 20;
    else if (wanted > most)
        wanted = most;
    return wanted > problem_bytes ? wanted : problem_bytes;
}

static bool no_memory(const bench *run, double bytes)
{
    cli_failed(run->self, "no %s of memory: measure less with --working-set or smaller sizes",
               cli_bytes(bytes < 9e18 ? (int64_t)bytes : INT64_MAX));
    return false;
}

bool bench_fits(const bench *run, double bytes)
{
    return bytes <= 0.75 * (double)system_memory_available() || no_memory(run, bytes);
}

bool bench_reserve(bench *run, int64_t bytes)
{
    bytes = (bytes + WEFT_PROBE_UNIT_BYTES - 1) / WEFT_PROBE_UNIT_BYTES * WEFT_PROBE_UNIT_BYTES;
    if (bytes == run->memory_bytes)
        return true;
    drop_memory(run);
    if (on_host(run) && !bench_fits(run, (double)bytes))
        return false;
    bench_progress(run, "preparing %s of memory", cli_bytes(bytes));
    if (!on_host(run)) {
        run->memory = bench_allocate(run, (size_t)bytes);
        run->memory_bytes = run->memory ? bytes : 0;
        return run->memory &&
               (weft_fill(run->context, run->memory, 1, (size_t)bytes, NULL) == WEFT_OK ||
                bench_error(run));
    }
    void *memory =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return no_memory(run, (double)bytes);
    madvise(memory, (size_t)bytes, MADV_HUGEPAGE);
    memset(memory, 1, (size_t)bytes); // pages of zeros would all be one page
    run->memory = memory;
    run->memory_bytes = bytes;
    return true;
}

int32_t bench_copies(const bench *run, int64_t problem_bytes, int64_t *stride_bytes)
{
    enum { ALIGN = WEFT_PROBE_UNIT_BYTES };
    *stride_bytes = (problem_bytes + ALIGN - 1) / ALIGN * ALIGN;
    int64_t copies = run->hot ? 1 : run->memory_bytes / *stride_bytes;
    return copies < 1 ? 1 : copies > INT32_MAX ? INT32_MAX : (int32_t)copies;
}

int32_t bench_next_copy(bench *run, int64_t stride_bytes)
{
    if (run->hot)
        return 0;
    int64_t copy = (run->next_byte + stride_bytes - 1) / stride_bytes;
    if ((copy + 1) * stride_bytes > run->memory_bytes)
        copy = 0;
    run->next_byte = (copy + 1) * stride_bytes;
    return (int32_t)copy;
}
