// SPDX-License-Identifier: MIT
#ifndef TESTS_SUPPORT_GGUF_TOUCH_H
#define TESTS_SUPPORT_GGUF_TOUCH_H

#include <stdint.h>

#include "engine/gguf/gguf.h"

// Uses everything that an open file hands out: every key through every getter, every array element, the
// first and last byte of every string and tensor. Returns a checksum of what it read; ends the program
// if the reader breaks a promise of gguf.h.
uint64_t gguf_touch(const gguf_file *file);

#endif
