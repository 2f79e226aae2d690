// SPDX-License-Identifier: MIT
// Ranges of characters as nodes over the bytes of UTF-8.
#include "engine/constrain/builder.h"

// A class under way. tails[n]: the node of n bytes of continuation, whichever; 0: not made yet.
typedef struct class_work {
    grammar_builder *b;
    uint32_t next, tails[4], ways;
    bool any; // `ways` is a node
} class_work;

static unsigned encode(uint32_t code, uint8_t bytes[4])
{
    static const uint8_t heads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    unsigned count = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (unsigned i = count - 1; i > 0; i--) {
        bytes[i] = (uint8_t)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    bytes[0] = (uint8_t)(heads[count] | code);
    return count;
}

static uint32_t byte_node(class_work *work, uint8_t low, uint8_t high, uint32_t next)
{
    return grammar_node_make(
        work->b, (grammar_node){.kind = GRAMMAR_BYTES, .low = low, .high = high, .next = next});
}

static uint32_t tail(class_work *work, unsigned count)
{
    if (count == 0)
        return work->next;
    if (!work->tails[count])
        work->tails[count] = byte_node(work, 0x80, 0xBF, tail(work, count - 1));
    return work->tails[count];
}

static uint32_t either(class_work *work, uint32_t one, uint32_t other)
{
    return grammar_node_make(work->b,
                             (grammar_node){.kind = GRAMMAR_SPLIT, .next = one, .other = other});
}

static bool all_are(const uint8_t *bytes, unsigned count, uint8_t value)
{
    for (unsigned i = 0; i < count; i++)
        if (bytes[i] != value)
            return false;
    return true;
}

// Texts of `count` bytes from low to high.
static uint32_t between(class_work *work, const uint8_t *low, const uint8_t *high, unsigned count)
{
    static const uint8_t least[4] = {0x80, 0x80, 0x80, 0x80}, most[4] = {0xBF, 0xBF, 0xBF, 0xBF};
    if (count == 0)
        return work->next;
    if (low[0] == high[0])
        return byte_node(work, low[0], low[0], between(work, low + 1, high + 1, count - 1));
    uint8_t first = low[0], last = high[0];
    bool low_whole = all_are(low + 1, count - 1, 0x80),
         high_whole = all_are(high + 1, count - 1, 0xBF);
    int64_t node = -1;
    if (!low_whole)
        node = byte_node(work, first++, low[0], between(work, low + 1, most, count - 1));
    if (!high_whole) {
        uint32_t way = byte_node(work, last--, high[0], between(work, least, high + 1, count - 1));
        node = node < 0 ? way : either(work, (uint32_t)node, way);
    }
    if (first <= last) {
        uint32_t way = byte_node(work, first, last, tail(work, count - 1));
        node = node < 0 ? way : either(work, (uint32_t)node, way);
    }
    return (uint32_t)node;
}

static void add_range(class_work *work, uint32_t first, uint32_t last)
{
    uint8_t low[4], high[4];
    unsigned count = encode(first, low);
    encode(last, high);
    uint32_t way = between(work, low, high, count);
    work->ways = work->any ? either(work, work->ways, way) : way;
    work->any = true;
}

uint32_t grammar_class_node(grammar_builder *b, const code_range *ranges, uint32_t count,
                            uint32_t next)
{
    static const uint32_t ends[] = {0x7F, 0x7FF, 0xFFFF, GRAMMAR_LAST_CODE}; // of as many bytes
    class_work work = {.b = b, .next = next};
    for (uint32_t i = 0; i < count && !grammar_failed(b); i++) {
        uint32_t first = ranges[i].first;
        for (int n = 0; n < 4 && first <= ranges[i].last; n++) {
            uint32_t last = ranges[i].last < ends[n] ? ranges[i].last : ends[n];
            if (first > last)
                continue;
            add_range(&work, first, last);
            first = last + 1;
        }
    }
    return work.any ? work.ways : grammar_node_make(b, (grammar_node){.kind = GRAMMAR_DEAD});
}
