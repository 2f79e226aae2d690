// SPDX-License-Identifier: MIT
// Every format of include/weft/formats.def: one block of it is a weft__block_<ID>, and
// weft__decode_<ID>(block, y) gives its elements.
#ifndef WEFT_FORMATS_FORMATS_H
#define WEFT_FORMATS_FORMATS_H

#include "src/formats/iq1_m.h"
#include "src/formats/iq1_s.h"
#include "src/formats/iq2_s.h"
#include "src/formats/iq2_xs.h"
#include "src/formats/iq2_xxs.h"
#include "src/formats/iq3_s.h"
#include "src/formats/iq3_xxs.h"
#include "src/formats/iq4_nl.h"
#include "src/formats/iq4_xs.h"
#include "src/formats/mlx.h"
#include "src/formats/mxfp4.h"
#include "src/formats/nvfp4.h"
#include "src/formats/plain.h"
#include "src/formats/q2_k.h"
#include "src/formats/q3_k.h"
#include "src/formats/q4_0.h"
#include "src/formats/q4_1.h"
#include "src/formats/q4_k.h"
#include "src/formats/q5_0.h"
#include "src/formats/q5_1.h"
#include "src/formats/q5_k.h"
#include "src/formats/q6_k.h"
#include "src/formats/q8_0.h"
#include "src/formats/tq1_0.h"
#include "src/formats/tq2_0.h"

#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    _Static_assert(sizeof(weft__block_##ID) == (block_bytes), name " has another size");
#include <weft/formats.def>
#undef WEFT_FORMAT

// Elements of the largest block.
#define WEFT__MAX_BLOCK_ELEMS 256

#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    _Static_assert((block_elems) <= WEFT__MAX_BLOCK_ELEMS, name " has too large a block");
#include <weft/formats.def>
#undef WEFT_FORMAT

#endif
