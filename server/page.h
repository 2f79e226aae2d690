// SPDX-License-Identifier: MIT
#ifndef SERVER_PAGE_H
#define SERVER_PAGE_H

#include <stddef.h>

// The page at / (page/page.html), which the build embeds.
extern const unsigned char server_page[];
extern const size_t server_page_bytes;

#endif
