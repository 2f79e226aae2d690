// SPDX-License-Identifier: MIT
#include "engine/gguf/ggml_type.h"

// What the library says of its formats, for constant tables.
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    ELEMS_##ID = (block_elems), BYTES_##ID = (block_bytes),
enum {
#include <weft/formats.def>
};
#undef WEFT_FORMAT

#define LIBRARY(id, ID, name, alignment)                                                           \
    [id] = {id, name, ELEMS_##ID, BYTES_##ID, alignment, WEFT_##ID}
#define OTHER(id, name, elements, bytes, alignment)                                                \
    [id] = {id, name, elements, bytes, alignment, WEFT_DTYPE_NONE}

// The numbers of ggml.h (enum ggml_type).
static const ggml_type_info formats[] = {
    LIBRARY(0, F32, "f32", 4),          LIBRARY(1, F16, "f16", 2),
    LIBRARY(2, Q4_0, "q4_0", 2),        LIBRARY(3, Q4_1, "q4_1", 2),
    LIBRARY(6, Q5_0, "q5_0", 2),        LIBRARY(7, Q5_1, "q5_1", 2),
    LIBRARY(8, Q8_0, "q8_0", 2),        OTHER(9, "q8_1", 32, 36, 2),
    LIBRARY(10, Q2_K, "q2_k", 2),       LIBRARY(11, Q3_K, "q3_k", 2),
    LIBRARY(12, Q4_K, "q4_k", 2),       LIBRARY(13, Q5_K, "q5_k", 2),
    LIBRARY(14, Q6_K, "q6_k", 2),       OTHER(15, "q8_k", 256, 292, 4),
    LIBRARY(16, IQ2_XXS, "iq2_xxs", 2), LIBRARY(17, IQ2_XS, "iq2_xs", 2),
    LIBRARY(18, IQ3_XXS, "iq3_xxs", 2), LIBRARY(19, IQ1_S, "iq1_s", 2),
    LIBRARY(20, IQ4_NL, "iq4_nl", 2),   LIBRARY(21, IQ3_S, "iq3_s", 2),
    LIBRARY(22, IQ2_S, "iq2_s", 2),     LIBRARY(23, IQ4_XS, "iq4_xs", 2),
    OTHER(24, "i8", 1, 1, 1),           OTHER(25, "i16", 1, 2, 2),
    OTHER(26, "i32", 1, 4, 4),          OTHER(27, "i64", 1, 8, 8),
    OTHER(28, "f64", 1, 8, 8),          LIBRARY(29, IQ1_M, "iq1_m", 1),
    LIBRARY(30, BF16, "bf16", 2),       OTHER(31, "q4_0_4_4", 32, 18, 2),
    OTHER(32, "q4_0_4_8", 32, 18, 2),   OTHER(33, "q4_0_8_8", 32, 18, 2),
    LIBRARY(34, TQ1_0, "tq1_0", 2),     LIBRARY(35, TQ2_0, "tq2_0", 2),
    OTHER(36, "iq4_nl_4_4", 32, 18, 2), OTHER(37, "iq4_nl_4_8", 32, 18, 2),
    OTHER(38, "iq4_nl_8_8", 32, 18, 2), LIBRARY(39, MXFP4, "mxfp4", 1),
    LIBRARY(40, NVFP4, "nvfp4", 1),     OTHER(41, "q1_0", 128, 18, 2),
    OTHER(42, "q2_0", 64, 18, 2),
};

static const ggml_type_info without_id[] = {
#define WEFT_FORMAT(ID, value, name, block_elems, block_bytes)                                     \
    {GGML_TYPE_NO_ID, name, block_elems, block_bytes, 1, WEFT_##ID},
#include <weft/formats.def>
#undef WEFT_FORMAT
};

enum { FORMAT_COUNT = sizeof(formats) / sizeof(formats[0]) };

// Older than GGUF. Formats that were withdrawn later (31 to 33, 36 to 38: q4_0 and iq4_nl with their rows
// interleaved for one CPU) still lie about in files, whose rest can be shown.
static const char *const removed_names[] = {[4] = "q4_2", [5] = "q4_3"};

enum { REMOVED_COUNT = sizeof(removed_names) / sizeof(removed_names[0]) };

const ggml_type_info *ggml_type_find(uint32_t id)
{
    if (id >= FORMAT_COUNT || formats[id].name == NULL)
        return NULL;
    return &formats[id];
}

const ggml_type_info *ggml_type_of(weft_dtype dtype)
{
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        if (formats[i].name && formats[i].dtype == dtype)
            return &formats[i];
    for (size_t i = 0; i < sizeof without_id / sizeof *without_id; i++)
        if (without_id[i].dtype == dtype)
            return &without_id[i];
    return NULL;
}

size_t ggml_type_count(void)
{
    return FORMAT_COUNT;
}

const char *ggml_type_removed_name(uint32_t id)
{
    return id < REMOVED_COUNT ? removed_names[id] : NULL;
}
