// SPDX-License-Identifier: MIT
#include "engine/base/system_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// The number that a file consists of; INT64_MAX for another text, such as "max", or no file.
static int64_t number_in(const char *path)
{
    int64_t number = INT64_MAX;
    FILE *file = fopen(path, "r");
    if (!file)
        return INT64_MAX;
    if (fscanf(file, "%" SCNd64, &number) != 1 || number < 0)
        number = INT64_MAX;
    fclose(file);
    return number;
}

// The lowest limit from a group up to the root of its hierarchy; takes the group's path apart.
static int64_t limit_from(const char *root, char *group, const char *limit_file)
{
    int64_t lowest = INT64_MAX;
    for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
        char path[4608];
        *end = 0;
        snprintf(path, sizeof path, "%s%s/%s", root, group, limit_file);
        lowest = smaller(lowest, number_in(path));
    }
    return lowest;
}

// A line of /proc/self/cgroup is "number:controllers:path"; the second version has number 0 and no names.
static int64_t limit_of_groups(void)
{
    char line[4096], group[4096], controllers[256];
    int64_t lowest = INT64_MAX;
    FILE *file = fopen("/proc/self/cgroup", "r");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "0::%4095[^\n]", group) == 1)
            lowest = smaller(lowest, limit_from("/sys/fs/cgroup", group, "memory.max"));
        else if (sscanf(line, "%*d:%255[^:]:%4095[^\n]", controllers, group) == 2 &&
                 strcmp(controllers, "memory") == 0)
            lowest = smaller(lowest,
                             limit_from("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
    if (file)
        fclose(file);
    return lowest;
}

int64_t system_memory_available(void)
{
    char line[256];
    int64_t kib, available = INT64_MAX;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %" SCNd64 " kB", &kib) == 1 && kib < INT64_MAX / 1024)
            available = kib * 1024;
    if (file)
        fclose(file);
    return smaller(available, limit_of_groups());
}
