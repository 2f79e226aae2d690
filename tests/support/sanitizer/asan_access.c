// SPDX-License-Identifier: MIT
// AddressSanitizer's question for an access of a whole vector, answered at once where all of it is good. The runtime
// answers by walking the region, which was three quarters of the time of a model's test: kernels ask by a call
// (cmake/isa_flags.cmake), and of other sizes than 1 to 16 bytes there is only this one. Where a shadow byte is not
// zero, the runtime decides and reports, as ever.
//
// For gcc on x86-64, whose checks compiled into other code have the same place of the shadow.
#include <stdint.h>
#include <string.h>

#define SHADOW        0x7fff8000u
#define GRANULE_SHIFT 3 // eight bytes of memory have one of shadow

void *__asan_region_is_poisoned(void *begin, size_t size);
void __asan_report_load_n(uintptr_t address, size_t size);
void __asan_report_store_n(uintptr_t address, size_t size);
void __asan_loadN(void *address, long size); // as gcc knows it
void __asan_storeN(void *address, long size);
extern const int weft__asan_access;
const int weft__asan_access = 1; // what the linker is told to look for

// Are all shadow bytes of the region zero? Reads no others; two overlapping words are the whole of a vector.
static inline _Bool all_good(uintptr_t address, size_t size)
{
    if (size == 0)
        return 1;
    const unsigned char *first = (const unsigned char *)((address >> GRANULE_SHIFT) + SHADOW);
    const unsigned char *last =
        (const unsigned char *)(((address + size - 1) >> GRANULE_SHIFT) + SHADOW);
    size_t more = (size_t)(last - first);
    if (more >= 7 && more < 16) {
        uint64_t a, b;
        memcpy(&a, first, sizeof a);
        memcpy(&b, last - 7, sizeof b);
        return (a | b) == 0;
    }
    if (more >= 3 && more < 8) {
        uint32_t a, b;
        memcpy(&a, first, sizeof a);
        memcpy(&b, last - 3, sizeof b);
        return (a | b) == 0;
    }
    return 0; // others are rare
}

void __asan_loadN(void *address, long size)
{
    if (!all_good((uintptr_t)address, (size_t)size) &&
        __asan_region_is_poisoned(address, (size_t)size))
        __asan_report_load_n((uintptr_t)address, (size_t)size);
}

void __asan_storeN(void *address, long size)
{
    if (!all_good((uintptr_t)address, (size_t)size) &&
        __asan_region_is_poisoned(address, (size_t)size))
        __asan_report_store_n((uintptr_t)address, (size_t)size);
}
