// SPDX-License-Identifier: MIT
#include "server/keys.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

enum { MAX_KEYS = 1024, MAX_KEY_BYTES = 256 };

struct server_keys {
    int count;
    char list[MAX_KEYS][MAX_KEY_BYTES]; // padded with zeros
};

static bool add(server_keys *keys, const char *line, const char *path, engine_error *err)
{
    size_t bytes = strcspn(line, "\r\n");
    while (bytes > 0 && line[bytes - 1] == ' ')
        bytes--;
    if (bytes == 0 || *line == '#')
        return true;
    if (keys->count == MAX_KEYS || bytes >= MAX_KEY_BYTES)
        return engine_fail(err, "%s: at most %d keys of at most %d bytes", path, MAX_KEYS,
                           MAX_KEY_BYTES - 1);
    memcpy(keys->list[keys->count++], line, bytes);
    return true;
}

server_keys *server_keys_read(const char *path, engine_error *err)
{
    FILE *file = fopen(path, "r");
    server_keys *keys = calloc(1, sizeof *keys);
    char line[2 * MAX_KEY_BYTES];
    bool fine = file && keys;
    if (!file)
        engine_fail(err, "%s: keys cannot be read: %s; check the path", path, strerror(errno));
    while (fine && fgets(line, sizeof line, file))
        fine = add(keys, line, path, err);
    if (fine && keys->count == 0)
        fine = engine_fail(err, "%s: there is no key in it: write one per line", path);
    if (file)
        fclose(file);
    if (fine)
        return keys;
    free(keys);
    return NULL;
}

void server_keys_free(server_keys *keys)
{
    free(keys);
}

int server_keys_find(const server_keys *keys, const char *header)
{
    static const char scheme[] = "Bearer ";
    char given[MAX_KEY_BYTES] = "";
    int found = 0;
    if (header && strncmp(header, scheme, sizeof scheme - 1) == 0 &&
        strlen(header) < sizeof scheme - 1 + sizeof given)
        snprintf(given, sizeof given, "%s", header + sizeof scheme - 1);
    size_t bytes = strlen(given);
    memset(given + bytes, 0, sizeof given - bytes);
    for (int n = 0; n < keys->count; n++) {
        unsigned difference = 0;
        for (int i = 0; i < MAX_KEY_BYTES; i++)
            difference |= (unsigned char)keys->list[n][i] ^ (unsigned char)given[i];
        found |= (n + 1) & (int)(0u - (difference == 0));
    }
    return found;
}
