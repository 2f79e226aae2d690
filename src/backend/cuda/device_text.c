// SPDX-License-Identifier: MIT
#include "src/backend/cuda/device_text.h"

#include <stdbool.h>
#include <string.h>

static const char stdint_text[] =
    "#pragma once\n"
    "typedef signed char int8_t;\ntypedef unsigned char uint8_t;\n"
    "typedef short int16_t;\ntypedef unsigned short uint16_t;\n"
    "typedef int int32_t;\ntypedef unsigned int uint32_t;\n"
    "typedef long int64_t;\ntypedef unsigned long uint64_t;\n"
    "typedef unsigned long uintptr_t;\ntypedef long intptr_t;\n"
    "#define INT32_MAX 2147483647\n#define INT64_MAX 9223372036854775807L\n"
    "#define UINT32_MAX 4294967295u\n";
static const char stddef_text[] = "#pragma once\n"
                                  "#define NULL nullptr\n";

void weft__device_headers(struct weft__device_headers *out)
{
    out->names[0] = "stdint.h";
    out->texts[0] = stdint_text;
    out->names[1] = "stddef.h";
    out->texts[1] = stddef_text;
    out->names[2] = "string.h";
    out->texts[2] = ""; // memcpy is the compiler's
    out->count = 3;
    for (int32_t i = 0; i < weft__num_device_texts && out->count < WEFT__MOST_DEVICE_TEXTS; i++) {
        const char *name = weft__device_texts[i].name;
        out->names[out->count] = strncmp(name, "include/", 8) == 0 ? name + 8 : name;
        out->texts[out->count++] = weft__device_texts[i].text;
    }
}

const struct weft__device_text *weft__device_text(const char *name)
{
    for (int32_t i = 0; i < weft__num_device_texts; i++)
        if (strcmp(weft__device_texts[i].name, name) == 0)
            return &weft__device_texts[i];
    return NULL;
}

// The text that the line at `line` includes, or NULL.
static const struct weft__device_text *included(const char *line)
{
    static const char directive[] = "#include \"";
    if (strncmp(line, directive, sizeof directive - 1) != 0)
        return NULL;
    const char *name = line + sizeof directive - 1, *end = strchr(name, '"');
    for (int32_t i = 0; end && i < weft__num_device_texts; i++)
        if (strlen(weft__device_texts[i].name) == (size_t)(end - name) &&
            memcmp(weft__device_texts[i].name, name, (size_t)(end - name)) == 0)
            return &weft__device_texts[i];
    return NULL;
}

void weft__device_text_hash(const char *name, struct weft__sha256 *sha)
{
    const struct weft__device_text *queue[WEFT__MOST_DEVICE_TEXTS] = {weft__device_text(name)};
    int32_t count = queue[0] != NULL;
    for (int32_t i = 0; i < count; i++) {
        weft__sha256_add(sha, queue[i]->text, (size_t)queue[i]->bytes + 1);
        for (const char *line = queue[i]->text; line; line = strchr(line, '\n')) {
            line += *line == '\n';
            const struct weft__device_text *next = included(line);
            bool known = !next;
            for (int32_t j = 0; j < count; j++)
                known |= queue[j] == next;
            if (!known && count < WEFT__MOST_DEVICE_TEXTS)
                queue[count++] = next;
        }
    }
}
