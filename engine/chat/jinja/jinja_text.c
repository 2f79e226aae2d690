// SPDX-License-Identifier: MIT
#include <string.h>

#include <utf8proc.h>

#include "engine/chat/jinja/jinja_box.h"

jinja_text jinja_part(jinja_text text, size_t start, size_t size_bytes)
{
    text.size_bytes = size_bytes;
    if (start == 0)
        return text; // which may be of no bytes, at no address
    text.data += start;
    if (text.origin)
        text.origin += start;
    return text;
}

bool jinja_same(jinja_text a, jinja_text b)
{
    return a.size_bytes == b.size_bytes && memcmp(a.data, b.data, a.size_bytes) == 0;
}

bool jinja_text_is(jinja_text text, const char *word)
{
    return text.size_bytes == strlen(word) && memcmp(text.data, word, text.size_bytes) == 0;
}

size_t jinja_seek(jinja_text text, jinja_text needle, size_t from)
{
    if (needle.size_bytes == 0)
        return from <= text.size_bytes ? from : SIZE_MAX;
    while (from + needle.size_bytes <= text.size_bytes) {
        const char *at = memchr(text.data + from, needle.data[0],
                                text.size_bytes - from - needle.size_bytes + 1);
        if (!at)
            return SIZE_MAX;
        if (memcmp(at, needle.data, needle.size_bytes) == 0)
            return (size_t)(at - text.data);
        from = (size_t)(at - text.data) + 1;
    }
    return SIZE_MAX;
}

static bool continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

size_t jinja_characters(jinja_text text)
{
    size_t count = 0;
    for (size_t i = 0; i < text.size_bytes; i++)
        count += !continues(text.data[i]);
    return count;
}

size_t jinja_character_at(jinja_text text, size_t index)
{
    size_t at = 0;
    for (; at < text.size_bytes; at++)
        if (!continues(text.data[at]) && index-- == 0)
            return at;
    return at;
}

// What Python's str.strip() takes away: white space by Unicode's bidirectional classes and separators.
static bool is_space(utf8proc_int32_t c)
{
    if (c < 128)
        return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

// Is the character of `size` bytes at `at` one that strip() takes away?
static bool strips(jinja_text text, size_t at, size_t size, const jinja_text *set)
{
    if (set)
        return jinja_seek(*set, jinja_part(text, at, size), 0) != SIZE_MAX;
    utf8proc_int32_t c;
    utf8proc_iterate((const utf8proc_uint8_t *)text.data + at, (utf8proc_ssize_t)size, &c);
    return is_space(c);
}

jinja_text jinja_strip(jinja_text text, const jinja_text *set, bool left, bool right)
{
    size_t begin = 0, end = text.size_bytes;
    while (left && begin < end) {
        size_t size = 1;
        while (begin + size < end && continues(text.data[begin + size]))
            size++;
        if (!strips(text, begin, size, set))
            break;
        begin += size;
    }
    while (right && end > begin) {
        size_t size = 1;
        while (size < end - begin && continues(text.data[end - size]))
            size++;
        if (!strips(text, end - size, size, set))
            break;
        end -= size;
    }
    return jinja_part(text, begin, end - begin);
}

// --- writing --------------------------------------------------------------------------------------------

static bool make_room(jinja_writer *writer, size_t more)
{
    if (!jinja_step(writer->box, more / 64 + 1))
        return false;
    if (more <= writer->capacity - writer->size_bytes)
        return true;
    size_t capacity = writer->capacity ? 2 * writer->capacity : 256;
    while (capacity - writer->size_bytes < more && capacity < SIZE_MAX / 4)
        capacity *= 2;
    char *data = jinja_take(writer->box, capacity, 1);
    unsigned char *origin = jinja_take(writer->box, capacity, 1);
    if (!data || !origin)
        return false;
    if (writer->size_bytes) {
        memcpy(data, writer->data, writer->size_bytes);
        memcpy(origin, writer->origin, writer->size_bytes);
    }
    writer->data = data;
    writer->origin = origin;
    writer->capacity = capacity;
    return true;
}

void jinja_write(jinja_writer *writer, jinja_text text)
{
    if (text.size_bytes == 0 || !make_room(writer, text.size_bytes))
        return;
    memcpy(writer->data + writer->size_bytes, text.data, text.size_bytes);
    if (text.origin)
        memcpy(writer->origin + writer->size_bytes, text.origin, text.size_bytes);
    else
        memset(writer->origin + writer->size_bytes, text.source, text.size_bytes);
    writer->size_bytes += text.size_bytes;
}

void jinja_write_bytes(jinja_writer *writer, const char *data, size_t size_bytes,
                       unsigned char source)
{
    jinja_write(writer, (jinja_text){.data = data, .size_bytes = size_bytes, .source = source});
}

void jinja_write_own(jinja_writer *writer, const char *text)
{
    jinja_write_bytes(writer, text, strlen(text), false);
}

jinja_text jinja_written(const jinja_writer *writer)
{
    return (jinja_text){.data = writer->data ? writer->data : "",
                        .origin = writer->origin,
                        .size_bytes = writer->size_bytes};
}
