// SPDX-License-Identifier: MIT
#include "src/formats/iq_grids.h"

// Field j of a code with eight fields of two bits, or four of four bits.
#define FIELD2(code, j) ((code) >> 2 * (j)&3u)
#define FIELD4(code, j) ((code) >> 4 * (j)&15u)

#define IQ2(field)     (8u + 17u * (field) + ((field) == 2u))
#define IQ3_XXS(field) (4u + 8u * (field) + 2u * ((field) == 7u))
#define IQ3_S(field)   (1u + 2u * (field))
#define IQ1(field)     (((field) + 255u) & 255u)

#define AT8(value, code, j) ((uint64_t)value(FIELD2(code, j)) << 8 * (j))
#define POINT8(value, code)                                                                        \
    AT8(value, code, 0) | AT8(value, code, 1) | AT8(value, code, 2) | AT8(value, code, 3) |        \
        AT8(value, code, 4) | AT8(value, code, 5) | AT8(value, code, 6) | AT8(value, code, 7)

#define AT4(value, code, j) (value(FIELD4(code, j)) << 8 * (j))
#define POINT4(value, code)                                                                        \
    AT4(value, code, 0) | AT4(value, code, 1) | AT4(value, code, 2) | AT4(value, code, 3)

#define X(code) POINT8(IQ2, code),
const uint64_t weft__iq2_xxs_grid[256] = {
#include "src/formats/iq2_xxs_grid.def"
};

const uint64_t weft__iq2_xs_grid[512] = {
#include "src/formats/iq2_xs_grid.def"
};

const uint64_t weft__iq2_s_grid[1024] = {
#include "src/formats/iq2_s_grid.def"
};
#undef X

#define X(code) POINT4(IQ3_XXS, code),
const uint32_t weft__iq3_xxs_grid[256] = {
#include "src/formats/iq3_xxs_grid.def"
};
#undef X

#define X(code) POINT4(IQ3_S, code),
const uint32_t weft__iq3_s_grid[512] = {
#include "src/formats/iq3_s_grid.def"
};
#undef X

#define X(code) POINT8(IQ1, code),
const uint64_t weft__iq1_grid[2048] = {
#include "src/formats/iq1_grid.def"
};
#undef X
