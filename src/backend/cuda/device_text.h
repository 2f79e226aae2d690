// SPDX-License-Identifier: MIT
// The device texts of the library, embedded by cmake/device_text.cmake.
#ifndef WEFT_BACKEND_CUDA_DEVICE_TEXT_H
#define WEFT_BACKEND_CUDA_DEVICE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "src/base/sha256.h"

struct weft__device_text {
    const char *name; // path from the root of the tree
    const char *text; // ends with a zero byte that `bytes` does not count
    int32_t bytes;
};

extern const struct weft__device_text weft__device_texts[];
extern const int32_t weft__num_device_texts;

// What NVRTC is given as headers: all texts, and <stdint.h> and <stddef.h> of our own, which it has not.
enum { WEFT__MOST_DEVICE_TEXTS = 256 };
struct weft__device_headers {
    const char *names[WEFT__MOST_DEVICE_TEXTS];
    const char *texts[WEFT__MOST_DEVICE_TEXTS];
    int32_t count;
};
void weft__device_headers(struct weft__device_headers *out);

// The text of that name, or NULL.
const struct weft__device_text *weft__device_text(const char *name);

// Adds a text and everything it includes to a hash, each once, in the order in which they are met.
void weft__device_text_hash(const char *name, struct weft__sha256 *sha);

#endif
