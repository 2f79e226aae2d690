// SPDX-License-Identifier: MIT
// Buffers between a canary and a page that must not be touched.
//
//      | canary ........ | bytes | (< align) | guard page |
//      ^ mapping                             ^ PROT_NONE
#define _GNU_SOURCE
#include "tools/weft-check/check_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/backend/context.h"
#include "src/base/half.h"

enum { CANARY_BYTE = 0xa5 };
#define CANARY_BITS 0x7fa5c0deu // a NaN that no arithmetic makes

struct check_memory {
    struct check_memory *next;
    unsigned char *mapping, *data;
    size_t mapping_bytes, bytes;
    bool lent; // to the device of the case
};

// Lets a device reach a buffer where it lies, so that it ends at a guard page for the device too.
static bool lend(const struct check_case *c, void *mapping, size_t bytes)
{
    const struct weft__backend *backend = c->context->backend;
    return backend->lend && backend->lend(c->context, mapping, bytes) == WEFT_OK;
}

void *check_buffer(struct check_case *c, size_t bytes, size_t align)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t body = (bytes + align + page - 1) / page * page;
    struct check_memory *memory = malloc(sizeof *memory);
    unsigned char *mapping =
        mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!memory || mapping == MAP_FAILED || mprotect(mapping + body, page, PROT_NONE) != 0)
        abort();
    unsigned char *data = mapping + (body - bytes) / align * align;
    memset(mapping, CANARY_BYTE, body);
    check_fill_bytes(c, data, bytes);
    *memory = (struct check_memory){c->memory, mapping, data, body + page, bytes, false};
    memory->lent = lend(c, mapping, body);
    c->memory = memory;
    return data;
}

float *check_output(struct check_case *c, int64_t count)
{
    float *output = check_buffer(c, (size_t)count * sizeof *output, sizeof *output);
    for (int64_t i = 0; i < count; i++)
        output[i] = weft__f32_from_bits(CANARY_BITS);
    return output;
}

bool check_is_canary(float value)
{
    return weft__f32_bits(value) == CANARY_BITS;
}

void check_written(struct check_case *c, const float *output, int64_t count, const char *what)
{
    for (int64_t i = 0; i < count; i++)
        if (check_is_canary(output[i])) {
            check_fail(c, "%s[%lld] was never written", what, (long long)i);
            return;
        }
}

void check_written_rows(struct check_case *c, const float *output, int64_t rows, int64_t count,
                        int64_t stride, const char *what)
{
    for (int64_t row = 0; row < rows; row++) {
        check_written(c, output + row * stride, count, what);
        for (int64_t i = count; row < rows - 1 && i < stride; i++)
            if (!check_is_canary(output[row * stride + i])) {
                check_fail(c, "%s: wrote %lld elements past row %lld", what,
                           (long long)(i - count + 1), (long long)row);
                return;
            }
    }
}

static void check_canaries(struct check_case *c, const struct check_memory *memory)
{
    for (const unsigned char *at = memory->mapping; at < memory->data; at++)
        if (*at != CANARY_BYTE) {
            check_fail(c, "wrote %td bytes before a buffer of %zu", memory->data - at,
                       memory->bytes);
            return;
        }
    const unsigned char *end =
        memory->mapping + memory->mapping_bytes - (size_t)sysconf(_SC_PAGESIZE);
    for (const unsigned char *at = memory->data + memory->bytes; at < end; at++)
        if (*at != CANARY_BYTE) {
            check_fail(c, "wrote %td bytes past a buffer of %zu",
                       at - memory->data - (ptrdiff_t)memory->bytes, memory->bytes);
            return;
        }
}

void check_memory_close(struct check_case *c)
{
    while (c->memory) {
        struct check_memory *memory = c->memory;
        c->memory = memory->next;
        check_canaries(c, memory);
        if (memory->lent)
            c->context->backend->take_back(c->context, memory->mapping);
        munmap(memory->mapping, memory->mapping_bytes);
        free(memory);
    }
}

const char *check_memory_describe(const struct check_case *c, const void *address)
{
    const unsigned char *at = address;
    for (const struct check_memory *memory = c->memory; memory; memory = memory->next)
        if (at >= memory->mapping && at < memory->mapping + memory->mapping_bytes)
            return ", past the end of a buffer of the case";
    return "";
}
