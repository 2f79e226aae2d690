// SPDX-License-Identifier: MIT
#include "src/kernels/probe/probe_kernel.h"

const volatile float weft__probe_half = 0.5f, weft__probe_one = 1;
const volatile uint32_t weft__probe_pair = 0x3f803f80, weft__probe_opposite = 0xbf803f80;
const volatile int8_t weft__probe_zero = 0, weft__probe_unit = 1;
