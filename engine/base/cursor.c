// SPDX-License-Identifier: MIT
#include "engine/base/cursor.h"

#include <string.h>

#include "engine/base/checked.h"

uint16_t load_le16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | (unsigned)bytes[1] << 8);
}

uint32_t load_le32(const uint8_t *bytes)
{
    return (uint32_t)load_le16(bytes) | (uint32_t)load_le16(bytes + 2) << 16;
}

uint64_t load_le64(const uint8_t *bytes)
{
    return (uint64_t)load_le32(bytes) | (uint64_t)load_le32(bytes + 4) << 32;
}

float load_le_f32(const uint8_t *bytes)
{
    uint32_t bits = load_le32(bytes);
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

double load_le_f64(const uint8_t *bytes)
{
    uint64_t bits = load_le64(bytes);
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

cursor cursor_over(const void *data, size_t size_bytes)
{
    return (cursor){.data = data, .size_bytes = size_bytes};
}

const uint8_t *cursor_bytes(cursor *c, size_t count)
{
    if (c->failed || count > cursor_remaining(c)) {
        c->failed = true;
        return NULL;
    }
    const uint8_t *bytes = c->data + c->position;
    c->position += count;
    return bytes;
}

bool cursor_skip(cursor *c, size_t count, size_t item_bytes)
{
    size_t bytes;
    if (!checked_mul(count, item_bytes, &bytes)) {
        c->failed = true;
        return false;
    }
    return cursor_bytes(c, bytes) != NULL;
}

uint8_t cursor_u8(cursor *c)
{
    const uint8_t *bytes = cursor_bytes(c, 1);
    return bytes != NULL ? bytes[0] : 0;
}

uint16_t cursor_u16(cursor *c)
{
    const uint8_t *bytes = cursor_bytes(c, 2);
    return bytes != NULL ? load_le16(bytes) : 0;
}

uint32_t cursor_u32(cursor *c)
{
    const uint8_t *bytes = cursor_bytes(c, 4);
    return bytes != NULL ? load_le32(bytes) : 0;
}

uint64_t cursor_u64(cursor *c)
{
    const uint8_t *bytes = cursor_bytes(c, 8);
    return bytes != NULL ? load_le64(bytes) : 0;
}

float cursor_f32(cursor *c)
{
    const uint8_t *bytes = cursor_bytes(c, 4);
    return bytes != NULL ? load_le_f32(bytes) : 0.0f;
}

double cursor_f64(cursor *c)
{
    const uint8_t *bytes = cursor_bytes(c, 8);
    return bytes != NULL ? load_le_f64(bytes) : 0.0;
}
