// SPDX-License-Identifier: MIT
// How a format's header joins the list in include/weft/formats.def.
//
// The header draws the bits, declares `struct weft__<name>` and `weft__<name>_decode(block, y)`, and ends
// with WEFT__BLOCK_FORMAT(ID, name). From then on weft__block_<ID> is one block and weft__decode_<ID>
// decodes it; formats.h holds the size against the list.
#ifndef WEFT_FORMATS_BLOCK_H
#define WEFT_FORMATS_BLOCK_H

#include "src/base/half.h"

#define WEFT__BLOCK_FORMAT(ID, name)                                                               \
    typedef struct weft__##name weft__block_##ID;                                                  \
    static inline void weft__decode_##ID(const void *block, float *y)                              \
    {                                                                                              \
        weft__##name##_decode((const struct weft__##name *)block, y);                              \
    }

#endif
