// SPDX-License-Identifier: MIT
// How a format's header joins the list in include/weft/formats.def.
//
// The header draws the bits, declares `struct weft__<name>` and `weft__<name>_decode(block, y)`, and ends
// with WEFT__BLOCK_FORMAT(ID, name). From then on weft__block_<ID> is one block and weft__decode_<ID>
// decodes it; formats.h holds the size against the list.
//
// Kernels and encoders can be in the header as well:
//
//   WEFT__CODES_<ID>   SIGNED or UNSIGNED (where there are minima; codes are below 64 then), and
//                      weft__codes_<ID>(block, j, codes): group j of 32 elements as the kernels of every
//                      instruction set take it. A format that is worth vector code has it in
//                      src/kernels/linear/linear_groups.h instead.
//   weft__<name>_decode_32(block, j, y)  group j of 32 elements of a longer block alone, as the whole block's.
//   weft__encode_<ID>  as src/formats/encode.h says, within #ifdef WEFT__ENCODERS; or in an encode_*.c.
#ifndef WEFT_FORMATS_BLOCK_H
#define WEFT_FORMATS_BLOCK_H

#include "src/base/half.h"

// 32 elements: scale[i / 16] * q[i] - minimum[i / 16].
struct weft__codes {
    uint8_t q[32]; // or int8_t
    float scale[2], minimum[2];
};

#define WEFT__BLOCK_FORMAT(ID, name)                                                               \
    typedef struct weft__##name weft__block_##ID;                                                  \
    static inline void weft__decode_##ID(const void *block, float *y)                              \
    {                                                                                              \
        weft__##name##_decode((const struct weft__##name *)block, y);                              \
    }

#endif
