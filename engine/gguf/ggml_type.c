// SPDX-License-Identifier: MIT
#include "engine/gguf/ggml_type.h"

#include <string.h>

#define FORMAT(id, name, elements, bytes, alignment) [id] = {id, name, elements, bytes, alignment}

static const ggml_type_info formats[] = {
    FORMAT(0, "f32", 1, 4, 4),         FORMAT(1, "f16", 1, 2, 2),
    FORMAT(2, "q4_0", 32, 18, 2),      FORMAT(3, "q4_1", 32, 20, 2),
    FORMAT(6, "q5_0", 32, 22, 2),      FORMAT(7, "q5_1", 32, 24, 2),
    FORMAT(8, "q8_0", 32, 34, 2),      FORMAT(9, "q8_1", 32, 36, 2),
    FORMAT(10, "q2_k", 256, 84, 2),    FORMAT(11, "q3_k", 256, 110, 2),
    FORMAT(12, "q4_k", 256, 144, 2),   FORMAT(13, "q5_k", 256, 176, 2),
    FORMAT(14, "q6_k", 256, 210, 2),   FORMAT(15, "q8_k", 256, 292, 4),
    FORMAT(16, "iq2_xxs", 256, 66, 2), FORMAT(17, "iq2_xs", 256, 74, 2),
    FORMAT(18, "iq3_xxs", 256, 98, 2), FORMAT(19, "iq1_s", 256, 50, 2),
    FORMAT(20, "iq4_nl", 32, 18, 2),   FORMAT(21, "iq3_s", 256, 110, 2),
    FORMAT(22, "iq2_s", 256, 82, 2),   FORMAT(23, "iq4_xs", 256, 136, 2),
    FORMAT(24, "i8", 1, 1, 1),         FORMAT(25, "i16", 1, 2, 2),
    FORMAT(26, "i32", 1, 4, 4),        FORMAT(27, "i64", 1, 8, 8),
    FORMAT(28, "f64", 1, 8, 8),        FORMAT(29, "iq1_m", 256, 56, 1),
    FORMAT(30, "bf16", 1, 2, 2),       FORMAT(34, "tq1_0", 256, 54, 2),
    FORMAT(35, "tq2_0", 256, 66, 2),   FORMAT(39, "mxfp4", 32, 17, 1),
    FORMAT(40, "nvfp4", 64, 36, 1),    FORMAT(41, "q1_0", 128, 18, 2),
    FORMAT(42, "q2_0", 64, 18, 2),
};

enum { FORMAT_COUNT = sizeof(formats) / sizeof(formats[0]) };

static const char *const removed_names[] = {
    [4] = "q4_2",      [5] = "q4_3",        [31] = "q4_0_4_4",   [32] = "q4_0_4_8",
    [33] = "q4_0_8_8", [36] = "iq4_nl_4_4", [37] = "iq4_nl_4_8", [38] = "iq4_nl_8_8",
};

enum { REMOVED_COUNT = sizeof(removed_names) / sizeof(removed_names[0]) };

const ggml_type_info *ggml_type_find(uint32_t id)
{
    if (id >= FORMAT_COUNT || formats[id].name == NULL)
        return NULL;
    return &formats[id];
}

size_t ggml_type_count(void)
{
    return FORMAT_COUNT;
}

weft_dtype ggml_type_dtype(const ggml_type_info *type)
{
#define RETURN_IF_SAME_NAME(id, value, dtype_name, block_elems, block_bytes)                       \
    if (strcmp(type->name, dtype_name) == 0)                                                       \
        return WEFT_##id;
    WEFT_DTYPE_MAP(RETURN_IF_SAME_NAME)
#undef RETURN_IF_SAME_NAME
    return WEFT_DTYPE_NONE;
}

const char *ggml_type_removed_name(uint32_t id)
{
    return id < REMOVED_COUNT ? removed_names[id] : NULL;
}
