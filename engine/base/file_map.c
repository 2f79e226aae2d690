// SPDX-License-Identifier: MIT
#define _GNU_SOURCE // mremap

#include "engine/base/file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "engine/base/system_memory.h"

enum { HUGE_PAGE_BYTES = 2 << 20 };

static const char *cure_for(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR: return "check the path";
    case EACCES:
    case EPERM: return "check the permissions of the file and its folders";
    case EMFILE:
    case ENFILE: return "close other files or raise the limit (ulimit -n)";
    case ENOMEM: return "free some memory or raise the limit (ulimit -v)";
    default: return "check that the disk is sound and the file complete";
    }
}

static bool fail_with_errno(engine_error *err, const char *action)
{
    int error = errno;
    return engine_fail(err, "cannot %s: %s; %s", action, strerror(error), cure_for(error));
}

static bool map_descriptor(file_map *map, int descriptor, engine_error *err)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return fail_with_errno(err, "examine");
    if (S_ISDIR(status.st_mode))
        return engine_fail(err, "is a directory; name a file inside it");
    if (!S_ISREG(status.st_mode))
        return engine_fail(err, "is not a regular file and cannot be mapped; copy it to disk");
    if (status.st_size <= 0)
        return engine_fail(err, "is empty; download or write it again");
    size_t size_bytes;
    if (!checked_size((uint64_t)status.st_size, &size_bytes))
        return engine_fail(err, "is too large for this machine's address space");
    void *data = mmap(NULL, size_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED)
        return fail_with_errno(err, "map");
    *map = (file_map){.data = data,
                      .size_bytes = size_bytes,
                      .written_ns =
                          (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec};
    return true;
}

bool file_map_open(file_map *map, const char *path, engine_error *err)
{
    // O_NONBLOCK: opening a pipe must lead to an error, not wait for a writer.
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool mapped =
        descriptor >= 0 ? map_descriptor(map, descriptor, err) : fail_with_errno(err, "open");
    if (descriptor >= 0)
        close(descriptor);
    return mapped || engine_fail_in(err, path);
}

void file_map_prefetch(const file_map *map, size_t offset, size_t size_bytes)
{
    if (map->data == NULL || offset >= map->size_bytes)
        return;
    if (size_bytes > map->size_bytes - offset)
        size_bytes = map->size_bytes - offset;
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    size_t lead_bytes = offset % page_bytes;
    const char *start = (const char *)map->data + (offset - lead_bytes);
    madvise((void *)start, size_bytes + lead_bytes, MADV_WILLNEED);
}

// Memory that lies to huge pages as `like` does, so that it can take its place without being cut up; NULL if there is
// none. Whole pages.
static char *take_memory(const void *like, size_t bytes)
{
    const size_t huge = HUGE_PAGE_BYTES, lead = (uintptr_t)like % huge;
    if (bytes > SIZE_MAX - 2 * huge)
        return NULL;
    char *all =
        mmap(NULL, bytes + 2 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    char *memory = all + (huge - (uintptr_t)all % huge) % huge + lead;
    if (memory > all)
        munmap(all, (size_t)(memory - all));
    munmap(memory + bytes, (size_t)(all + bytes + 2 * huge - (memory + bytes)));
    madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

bool file_map_own(file_map *map, engine_error *err)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    const size_t bytes = (map->size_bytes + page_bytes - 1) / page_bytes * page_bytes;
    if (map->data == NULL || map->owned)
        return true;
    if ((double)bytes > (double)system_memory_available())
        return engine_fail(err,
                           "%.1f GB of weights do not fit into the memory that is available: let "
                           "them be read from the mapped file (without --no-mmap)",
                           (double)bytes * 1e-9);
    char *memory = take_memory(map->data, bytes);
    if (!memory)
        return fail_with_errno(err, "copy the file into memory");
    memcpy(memory, map->data, map->size_bytes);
    mprotect(memory, bytes, PROT_READ);
    if (mremap(memory, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)map->data) ==
        MAP_FAILED) {
        fail_with_errno(err, "put memory in the place of the file");
        munmap(memory, bytes);
        return false;
    }
    map->owned = true;
    return true;
}

bool file_map_memory(file_map *map, size_t size_bytes, char **data, engine_error *err)
{
    const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (size_bytes > SIZE_MAX / 2)
        return engine_fail(err, "%zu bytes are too many for this machine's memory", size_bytes);
    const size_t bytes = (size_bytes + page_bytes - 1) / page_bytes * page_bytes;
    char *memory = take_memory(NULL, bytes);
    if (!memory)
        return engine_fail(err, "%zu MB of memory are not to be had", size_bytes >> 20);
    *map = (file_map){.data = memory, .size_bytes = bytes, .owned = true};
    *data = memory;
    return true;
}

void file_map_leave(const file_map *map)
{
    if (map->data != NULL && !map->owned)
        madvise((void *)map->data, map->size_bytes, MADV_DONTNEED);
}

void file_map_close(file_map *map)
{
    if (map->data != NULL)
        munmap((void *)map->data, map->size_bytes);
    *map = (file_map){0};
}
