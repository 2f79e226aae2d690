// SPDX-License-Identifier: MIT
// Source: the kernel's documentation of sysfs (devices/system/cpu, devices/system/node), cpu.max of
// cgroup v2 and cpu.cfs_quota_us of v1.
#define _GNU_SOURCE
#include "src/backend/cpu/cpu_cores.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    SLOW_PERCENT = 70, // a core with less of the fastest one's speed would hold up the others
    MOST_NODES = 64,
};

// The first line of a file, or false.
__attribute__((format(printf, 3, 4))) static bool read_line(char *line, int bytes,
                                                            const char *format, ...)
{
    char path[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    FILE *file = length < (int)sizeof path ? fopen(path, "r") : NULL;
    bool read = file && fgets(line, bytes, file);
    if (file)
        fclose(file);
    return read;
}

// "0-3,8" -> a set.
static void parse_list(const char *text, cpu_set_t *set)
{
    CPU_ZERO(set);
    int first, length;
    while (sscanf(text, "%d%n", &first, &length) == 1) {
        int last = first, more = 0;
        text += length;
        if (sscanf(text, "-%d%n", &last, &more) == 1)
            text += more;
        for (int i = first; i <= last && i < CPU_SETSIZE; i++)
            CPU_SET(i, set);
        if (*text++ != ',')
            break;
    }
}

// Keeps what `list` names, unless nothing would be left.
static void keep(cpu_set_t *cores, const char *list)
{
    cpu_set_t named, both;
    parse_list(list, &named);
    CPU_AND(&both, cores, &named);
    if (CPU_COUNT(&both) > 0)
        *cores = both;
}

static void keep_one_node(const char *root, cpu_set_t *cores)
{
    char line[1024], best[1024] = "";
    int most = 0;
    for (int node = 0; node < MOST_NODES; node++) {
        cpu_set_t set;
        if (!read_line(line, sizeof line, "%s/sys/devices/system/node/node%d/cpulist", root, node))
            continue;
        parse_list(line, &set);
        CPU_AND(&set, &set, cores);
        if (CPU_COUNT(&set) > most) {
            most = CPU_COUNT(&set);
            memcpy(best, line, sizeof best);
        }
    }
    if (most > 0)
        keep(cores, best);
}

// Keeps the cores whose number in `file` is near the largest.
static bool keep_fastest(const char *root, const char *file, cpu_set_t *cores)
{
    static const char format[] = "%s/sys/devices/system/cpu/cpu%d/%s";
    cpu_set_t fast = *cores;
    char line[64];
    long speed, largest = 0;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, cores))
            continue;
        if (!read_line(line, sizeof line, format, root, i, file) ||
            sscanf(line, "%ld", &speed) != 1)
            return false;
        largest = speed > largest ? speed : largest;
    }
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, cores) && read_line(line, sizeof line, format, root, i, file) &&
            sscanf(line, "%ld", &speed) == 1 && speed < largest / 100 * SLOW_PERCENT)
            CPU_CLR(i, &fast);
    *cores = fast;
    return true;
}

// Intel's hybrid CPUs list their fast cores, ARM's tell each core's capacity; others may differ by the
// frequency that they reach.
static void leave_out_slow(const char *root, cpu_set_t *cores)
{
    char line[1024];
    if (read_line(line, sizeof line, "%s/sys/devices/cpu_core/cpus", root))
        keep(cores, line);
    else if (!keep_fastest(root, "cpu_capacity", cores))
        keep_fastest(root, "cpufreq/cpuinfo_max_freq", cores);
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

// Cores that one folder of a controller pays for.
static double quota_of_folder(const char *root, const char *controller, const char *path)
{
    const double unlimited = CPU_SETSIZE;
    char line[64];
    double quota, period;
    if (read_line(line, sizeof line, "%s/sys/fs/cgroup%s%s/cpu.max", root, controller, path))
        return sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0 ? quota / period
                                                                           : unlimited;
    if (!read_line(line, sizeof line, "%s/sys/fs/cgroup%s%s/cpu.cfs_quota_us", root, controller,
                   path) ||
        sscanf(line, "%lf", &quota) != 1 || quota <= 0 ||
        !read_line(line, sizeof line, "%s/sys/fs/cgroup%s%s/cpu.cfs_period_us", root, controller,
                   path) ||
        sscanf(line, "%lf", &period) != 1 || period <= 0)
        return unlimited;
    return quota / period;
}

// Of a group and all above it: the smallest counts.
static double quota_of_group(const char *root, const char *controller, char *path)
{
    double quota = quota_of_folder(root, controller, "");
    for (char *end = path + strlen(path); end > path; end = strrchr(path, '/')) {
        *end = 0;
        quota = smaller(quota, quota_of_folder(root, controller, path));
        if (!strchr(path, '/'))
            break;
    }
    return quota;
}

// Lines of /proc/self/cgroup: "0::/path" (v2), "4:cpu,cpuacct:/path" (v1).
static double quota(const char *root)
{
    char path[512], line[512];
    double least = CPU_SETSIZE;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':'),
             *group = controllers ? strchr(controllers + 1, ':') : 0;
        if (!group)
            continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        char mount[128] = "";
        if (controllers[1]) {
            if (strncmp(controllers + 1, "cpu", 3) != 0 || strstr(controllers, "cpuset"))
                continue;
            snprintf(mount, sizeof mount, "/%s", controllers + 1);
        }
        least = smaller(least, quota_of_group(root, mount, group));
    }
    if (file)
        fclose(file);
    return least;
}

void weft__cpu_choose_cores(const char *root, const cpu_set_t *allowed, struct weft__cpu_cores *out)
{
    out->cores = *allowed;
    keep_one_node(root, &out->cores);
    leave_out_slow(root, &out->cores);
    out->restricted = !CPU_EQUAL(&out->cores, allowed);
    // A thread that is stopped for want of quota holds up all: rather one too few.
    double paid = quota(root), cores = CPU_COUNT(&out->cores);
    out->count = (int32_t)smaller(cores, paid);
    if (out->count < 1)
        out->count = 1;
}

void weft__cpu_own_cores(struct weft__cpu_cores *out)
{
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) == 0)
        CPU_SET(0, &allowed);
    weft__cpu_choose_cores("", &allowed, out);
}
