// SPDX-License-Identifier: MIT
// Few rows over caches of int8 by products of integers (attention_int8_avx512vnni.c), for the kernels that
// serve such caches where the CPU has AVX512-VNNI.
#ifndef WEFT_KERNELS_ATTENTION_INT8_H
#define WEFT_KERNELS_ATTENTION_INT8_H

#include "src/kernels/attention/attention_kernel.h"

// Does the first of the tiles and those after it that are alike. Returns how many; 0: the first has no keys, more than
// WEFT__ATTENTION_FEW_ROWS rows, or a head that is too long.
int32_t weft__attention_int8_few(const struct weft__attention_call *call,
                                 const struct weft__attention_tile *tiles, int32_t count);

#endif
