// SPDX-License-Identifier: MIT
#ifndef ENGINE_BASE_TEXT_H
#define ENGINE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

// Text from files and users is shown to people and put into JSON: what could steer a terminal (control
// characters, C1 ones too) and what is not UTF-8 must not get there.
bool text_is_printable(const char *text, size_t size_bytes);

// Puts '?' in the place of every byte of such characters; text is NUL-terminated.
void text_make_printable(char *text);

#endif
