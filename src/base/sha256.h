// SPDX-License-Identifier: MIT
// SHA-256 (FIPS 180-4), for the keys and checksums of cached files.
#ifndef WEFT_BASE_SHA256_H
#define WEFT_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { WEFT__SHA256_BYTES = 32 };

struct weft__sha256 {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[64];
};

void weft__sha256_begin(struct weft__sha256 *sha);
void weft__sha256_add(struct weft__sha256 *sha, const void *data, size_t bytes);
void weft__sha256_end(struct weft__sha256 *sha, unsigned char digest[WEFT__SHA256_BYTES]);

// 64 lower-case digits and a zero byte.
void weft__sha256_text(const unsigned char digest[WEFT__SHA256_BYTES], char text[65]);

#endif
