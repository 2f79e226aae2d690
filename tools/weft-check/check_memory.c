// SPDX-License-Identifier: MIT
// Buffers between a canary and a page that must not be touched.
//
//      | canary ........ | bytes | (< align) | guard page |
//      ^ mapping                             ^ PROT_NONE
//
// Mappings outlive their case: to make one, and to lend it to a device, costs more than most problems.
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
    size_t body_bytes, bytes; // of the mapping without its guard page; of the buffer
    weft_context *lent_to;    // or NULL
};

// Mappings that no case has, by size_class().
enum { CLASSES = 160, STEPS = 4 }; // STEPS sizes from one power of two to the next
// Large ones are seldom wanted again: no more than so many bytes of them stay.
enum { LARGE_BYTES = 1 << 20, LARGE_IDLE_BYTES = 192 << 20 };
static struct check_memory *idle[CLASSES];
static size_t large_idle_bytes;

// The class of mappings with room for so many pages; *pages becomes what those have.
static int size_class(size_t *pages)
{
    int number = 0;
    size_t room = 1, step = 1;
    for (; room < *pages; number++) {
        step = room / STEPS > 1 && (room & (room - 1)) == 0 ? room / STEPS : step;
        room += step;
    }
    *pages = room;
    return number;
}

// Lets a device reach a buffer where it lies, so that it ends at a guard page for the device too.
static bool lend(const struct check_case *c, void *mapping, size_t bytes)
{
    const struct weft__backend *backend = c->context->backend;
    return backend->lend && backend->lend(c->context, mapping, bytes) == WEFT_OK;
}

static struct check_memory *make_mapping(const struct check_case *c, size_t body, size_t page)
{
    struct check_memory *memory = malloc(sizeof *memory);
    unsigned char *mapping =
        mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!memory || mapping == MAP_FAILED || mprotect(mapping + body, page, PROT_NONE) != 0)
        abort();
    *memory = (struct check_memory){.mapping = mapping, .body_bytes = body};
    memory->lent_to = lend(c, mapping, body) ? c->context : NULL;
    return memory;
}

static void unmap(struct check_memory *memory)
{
    if (memory->lent_to)
        memory->lent_to->backend->take_back(memory->lent_to, memory->mapping);
    munmap(memory->mapping, memory->body_bytes + (size_t)sysconf(_SC_PAGESIZE));
    free(memory);
}

// A buffer of the case, as the one before left it.
static struct check_memory *take(struct check_case *c, size_t bytes, size_t align)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t pages = (bytes + align + page - 1) / page;
    struct check_memory **same_size = &idle[size_class(&pages)], *memory = *same_size;
    const size_t body = pages * page;
    if (memory) {
        *same_size = memory->next;
        large_idle_bytes -= body >= LARGE_BYTES ? body : 0;
    } else {
        memory = make_mapping(c, body, page);
    }
    memory->data = memory->mapping + (body - bytes) / align * align;
    memory->bytes = bytes;
    memory->next = c->memory;
    c->memory = memory;
    unsigned char *end = memory->data + bytes;
    memset(memory->mapping, CANARY_BYTE, (size_t)(memory->data - memory->mapping));
    memset(end, CANARY_BYTE, (size_t)(memory->mapping + body - end));
    return memory;
}

void *check_buffer(struct check_case *c, size_t bytes, size_t align)
{
    unsigned char *data = take(c, bytes, align)->data;
    check_fill_bytes(c, data, bytes);
    return data;
}

void *check_room(struct check_case *c, size_t bytes)
{
    check_skip_bytes(c, bytes);
    return take(c, bytes, sizeof(double))->data;
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
    const unsigned char *end = memory->mapping + memory->body_bytes;
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
        size_t pages = memory->body_bytes / (size_t)sysconf(_SC_PAGESIZE);
        c->memory = memory->next;
        check_canaries(c, memory);
        const size_t large = memory->body_bytes >= LARGE_BYTES ? memory->body_bytes : 0;
        if (large && large_idle_bytes + large > LARGE_IDLE_BYTES) {
            unmap(memory);
            continue;
        }
        struct check_memory **same_size = &idle[size_class(&pages)];
        large_idle_bytes += large;
        memory->next = *same_size;
        *same_size = memory;
    }
}

bool check_problem_begin(struct check_case *c, uint64_t shape, int32_t number)
{
    if (!c->each) // as seeds that people wrote down have them
        return true;
    c->problem = number;
    c->state = number ? check_derived(shape, number) : shape;
    return c->only < 0 || c->only == number;
}

void check_problem_done(struct check_case *c)
{
    c->problems++;
    check_memory_close(c);
}

void check_memory_release(void)
{
    for (int number = 0; number < CLASSES; number++)
        while (idle[number]) {
            struct check_memory *memory = idle[number];
            idle[number] = memory->next;
            unmap(memory);
        }
    large_idle_bytes = 0;
}

const char *check_memory_describe(const struct check_case *c, const void *address)
{
    const unsigned char *at = address;
    for (const struct check_memory *memory = c->memory; memory; memory = memory->next)
        if (at >= memory->mapping &&
            at < memory->mapping + memory->body_bytes + (size_t)sysconf(_SC_PAGESIZE))
            return ", past the end of a buffer of the case";
    return "";
}
