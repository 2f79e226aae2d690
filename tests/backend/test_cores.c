// SPDX-License-Identifier: MIT
// The default number of threads, on machines made of files.
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "src/backend/cpu/cpu_cores.h"
#include "tests/support/scratch.h"

static char root[SCRATCH_PATH_BYTES];

static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_root(void **state)
{
    (void)state;
    scratch_folder(root);
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    return scratch_remove(root);
}

static struct weft__cpu_cores choose(int first, int last)
{
    struct weft__cpu_cores cores;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    for (int i = first; i <= last; i++)
        CPU_SET(i, &allowed);
    weft__cpu_choose_cores(root, &allowed, &cores);
    return cores;
}

static void a_machine_that_says_nothing(void **state)
{
    (void)state;
    struct weft__cpu_cores cores = choose(2, 9);
    assert_int_equal(cores.count, 8);
    assert_false(cores.restricted);
}

static void intel_lists_its_fast_cores(void **state)
{
    (void)state;
    put("/sys/devices/cpu_core/cpus", "0-7,16\n");
    put("/sys/devices/cpu_atom/cpus", "8-15\n");
    struct weft__cpu_cores cores = choose(0, 16);
    assert_int_equal(cores.count, 9);
    assert_true(cores.restricted && CPU_ISSET(16, &cores.cores) && !CPU_ISSET(8, &cores.cores));
    assert_int_equal(choose(8, 12).count, 5); // only slow ones are allowed: then these
}

static void arm_tells_capacities(void **state)
{
    (void)state;
    char path[64];
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpu_capacity", i);
        put(path, i < 4 ? "402\n" : i < 7 ? "870\n" : "1024\n");
    }
    struct weft__cpu_cores cores = choose(0, 7);
    assert_int_equal(cores.count, 4);
    assert_true(CPU_ISSET(4, &cores.cores) && CPU_ISSET(7, &cores.cores));
    assert_int_equal(choose(0, 3).count, 4);
}

static void frequencies_tell_too(void **state)
{
    (void)state;
    char path[64];
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", i);
        put(path, i < 2 ? "5200000\n" : i < 4 ? "4900000\n" : "3300000\n");
    }
    assert_int_equal(choose(0, 5).count, 4); // a favoured core is no other kind of core
    assert_int_equal(choose(0, 6).count, 7); // one says nothing: then all do not
}

static void one_node(void **state)
{
    (void)state;
    put("/sys/devices/system/node/node0/cpulist", "0-3,8-11\n");
    put("/sys/devices/system/node/node1/cpulist", "4-7,12-15\n");
    put("/sys/devices/system/node/node2/cpulist", "\n"); // memory without cores
    assert_int_equal(choose(0, 15).count, 8);
    struct weft__cpu_cores cores = choose(2, 7); // two of one, four of the other
    assert_int_equal(cores.count, 4);
    assert_true(CPU_ISSET(4, &cores.cores) && !CPU_ISSET(2, &cores.cores));
}

static void quotas_of_version_2(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/system/box.service\n");
    assert_int_equal(choose(0, 7).count, 8);
    put("/sys/fs/cgroup/system/box.service/cpu.max", "max 100000\n");
    assert_int_equal(choose(0, 7).count, 8);
    put("/sys/fs/cgroup/system/cpu.max", "350000 100000\n"); // of the group above
    struct weft__cpu_cores cores = choose(0, 7);
    assert_int_equal(cores.count, 3);
    assert_false(cores.restricted); // any cores will do
    put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    assert_int_equal(choose(0, 7).count, 1);
}

static void quotas_of_version_1(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "12:cpuset:/box\n4:cpu,cpuacct:/box\n1:name=systemd:/box\n");
    put("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(choose(0, 7).count, 8);
    put("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "200000\n");
    assert_int_equal(choose(0, 7).count, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_machine_that_says_nothing, make_root, remove_root),
        cmocka_unit_test_setup_teardown(intel_lists_its_fast_cores, make_root, remove_root),
        cmocka_unit_test_setup_teardown(arm_tells_capacities, make_root, remove_root),
        cmocka_unit_test_setup_teardown(frequencies_tell_too, make_root, remove_root),
        cmocka_unit_test_setup_teardown(one_node, make_root, remove_root),
        cmocka_unit_test_setup_teardown(quotas_of_version_2, make_root, remove_root),
        cmocka_unit_test_setup_teardown(quotas_of_version_1, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
