// SPDX-License-Identifier: MIT
#ifndef ENGINE_BASE_CURSOR_H
#define ENGINE_BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Reads little-endian values from a piece of memory and never goes past its end. The first read that
// would do so sets `failed`, which stays set: a failed cursor yields zeros and NULL, so a parser may read
// a whole record and look once. Positions need no alignment.
typedef struct cursor {
    const uint8_t *data;
    size_t size_bytes;
    size_t position;
    bool failed;
} cursor;

cursor cursor_over(const void *data, size_t size_bytes);

static inline size_t cursor_remaining(const cursor *c)
{
    return c->size_bytes - c->position;
}

// The next count bytes, which the cursor then has behind it; NULL if there are fewer.
const uint8_t *cursor_bytes(cursor *c, size_t count);

// Steps over count items of item_bytes each; false if there are fewer.
bool cursor_skip(cursor *c, size_t count, size_t item_bytes);

uint8_t cursor_u8(cursor *c);
uint16_t cursor_u16(cursor *c);
uint32_t cursor_u32(cursor *c);
uint64_t cursor_u64(cursor *c);
float cursor_f32(cursor *c);
double cursor_f64(cursor *c);

// The same for memory whose bounds are known already.
uint16_t load_le16(const uint8_t *bytes);
uint32_t load_le32(const uint8_t *bytes);
uint64_t load_le64(const uint8_t *bytes);
float load_le_f32(const uint8_t *bytes);
double load_le_f64(const uint8_t *bytes);

#endif
