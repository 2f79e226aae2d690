// SPDX-License-Identifier: MIT
// What the CPU is, as Linux tells it.
#define _GNU_SOURCE
#include <stdio.h>
#include <unistd.h>

#include "src/backend/cpu/cpu.h"
#include "src/backend/cpu/cpu_cores.h"
#include "src/backend/cpu/cpu_device.h"

int32_t weft__cpu_count(void)
{
    return 1;
}

// The value of the first line "key : value" of /proc/cpuinfo.
static bool read_cpuinfo(const char *key, char *value, size_t bytes)
{
    char line[256];
    bool found = false;
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key)) != 0)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(value, bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
        found = true;
    }
    if (file)
        fclose(file);
    return found;
}

// "32768K" or "32M" in sysfs; cache 3 is the last one where there are four, 2 where there is no L3.
static int64_t last_cache_bytes(void)
{
    int64_t last = 0;
    for (int i = 0; i < 8; i++) {
        char path[80], unit = 0;
        long long number = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        FILE *file = fopen(path, "r");
        if (!file)
            break;
        int fields = fscanf(file, "%lld%c", &number, &unit);
        fclose(file);
        int64_t bytes = fields < 1    ? 0
                        : unit == 'K' ? number << 10
                        : unit == 'M' ? number << 20
                                      : number;
        last = bytes > last ? bytes : last;
    }
    return last;
}

weft_status weft__cpu_describe(int32_t index, weft_device_info *info)
{
    struct weft__cpu_cores cores;
    (void)index;
    weft__cpu_own_cores(&cores);
    info->cores = cores.count;
    info->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    info->cache_bytes = last_cache_bytes();
    if (!read_cpuinfo("model name", info->name, sizeof info->name))
        snprintf(info->name, sizeof info->name, "CPU");
    snprintf(info->architecture, sizeof info->architecture, "%s",
             weft__cpu_isa_name(weft__cpu_isa_mask()));
    return WEFT_OK;
}
