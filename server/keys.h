// SPDX-License-Identifier: MIT
#ifndef SERVER_KEYS_H
#define SERVER_KEYS_H

// Keys of those who may ask. They are compared in a time that does not tell how much of one was right.

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/error.h"

typedef struct server_keys server_keys;

// One key per line; empty lines and those that begin with # are passed over. NULL with a reason for a file that
// cannot be read or has no key.
server_keys *server_keys_read(const char *path, engine_error *err);
void server_keys_free(server_keys *keys); // may be NULL

// The number of the key, from 1, in a header "Bearer KEY"; 0 if it is none (header may be NULL).
int server_keys_find(const server_keys *keys, const char *header);

#endif
