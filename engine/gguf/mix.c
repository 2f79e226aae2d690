// SPDX-License-Identifier: MIT
#include "engine/gguf/mix.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

// A rule: tensors of this part of a model, where the condition holds, get this format. The first that
// holds decides; without one it is the mix's own.
typedef enum part {
    PART_END = 0,
    PART_OUTPUT, // and the embedding of a model whose output matrix it is
    PART_EMBEDDING,
    PART_V, // and Q, K, V in one
    PART_K,
    PART_Q,
    PART_ATTN_OUT,
    PART_DOWN,
    PART_GATE,
    PART_UP,
    PART_OTHER,
} part;

typedef enum condition {
    ALWAYS = 0,
    FIRST_TWO, // layers
    FIRST_FOUR,
    FIRST_SIXTEENTH, // of the layers
    FIRST_EIGHTH,
    MIDDLE,   // neither the first nor the last eighth
    OFTEN,    // the first and the last eighth, and every third layer between
    SHARED_V, // four or more query heads for each head of V
    WITHOUT_IMPORTANCE,
    FIRST_EIGHTH_WITHOUT, // importance
    FIRST_EIGHTH_WITH,
} condition;

typedef struct rule {
    part part;
    condition when;
    weft_dtype format;
} rule;

struct gguf_mix {
    const char *name;
    uint32_t file_type; // enum llama_ftype
    weft_dtype format;
    const rule *rules; // up to PART_END
};

// The output matrix gets q6_k unless a rule says otherwise, or the format is as good as that.
static const rule none[] = {{0}};
static const rule q8_0[] = {{PART_OUTPUT, ALWAYS, WEFT_Q8_0}, {0}};
static const rule q4_0[] = {{PART_DOWN, FIRST_EIGHTH_WITH, WEFT_Q4_1}, {0}};
static const rule q5_0[] = {{PART_DOWN, FIRST_EIGHTH_WITH, WEFT_Q5_1}, {0}};
static const rule q2_k[] = {{PART_V, SHARED_V, WEFT_Q4_K},
                            {PART_V, ALWAYS, WEFT_Q3_K},
                            {PART_DOWN, ALWAYS, WEFT_Q3_K},
                            {PART_ATTN_OUT, ALWAYS, WEFT_Q3_K},
                            {0}};
static const rule q2_k_s[] = {
    {PART_V, SHARED_V, WEFT_Q4_K}, {PART_DOWN, FIRST_EIGHTH, WEFT_Q4_K}, {0}};
static const rule q3_k_m[] = {
    {PART_V, FIRST_TWO, WEFT_Q5_K},          {PART_V, ALWAYS, WEFT_Q4_K},
    {PART_DOWN, FIRST_SIXTEENTH, WEFT_Q5_K}, {PART_DOWN, ALWAYS, WEFT_Q4_K},
    {PART_ATTN_OUT, ALWAYS, WEFT_Q4_K},      {0}};
static const rule q3_k_l[] = {{PART_V, ALWAYS, WEFT_Q5_K},
                              {PART_DOWN, ALWAYS, WEFT_Q5_K},
                              {PART_ATTN_OUT, ALWAYS, WEFT_Q5_K},
                              {0}};
static const rule q4_k_s[] = {
    {PART_V, FIRST_FOUR, WEFT_Q5_K}, {PART_DOWN, FIRST_EIGHTH, WEFT_Q5_K}, {0}};
static const rule mostly_q6[] = {{PART_V, OFTEN, WEFT_Q6_K}, {PART_DOWN, OFTEN, WEFT_Q6_K}, {0}};
static const rule iq4[] = {
    {PART_V, SHARED_V, WEFT_Q5_K}, {PART_DOWN, FIRST_EIGHTH_WITHOUT, WEFT_Q5_K}, {0}};
static const rule iq3_xxs[] = {{PART_OUTPUT, ALWAYS, WEFT_Q5_K},
                               {PART_EMBEDDING, ALWAYS, WEFT_IQ3_S},
                               {PART_V, SHARED_V, WEFT_Q4_K},
                               {PART_V, WITHOUT_IMPORTANCE, WEFT_IQ3_S},
                               {PART_K, ALWAYS, WEFT_IQ2_S},
                               {PART_Q, ALWAYS, WEFT_IQ2_S},
                               {PART_DOWN, FIRST_EIGHTH_WITHOUT, WEFT_Q4_K},
                               {PART_DOWN, WITHOUT_IMPORTANCE, WEFT_Q3_K},
                               {PART_ATTN_OUT, ALWAYS, WEFT_IQ3_S},
                               {0}};
static const rule iq3_xs[] = {{PART_V, SHARED_V, WEFT_Q4_K},   {PART_K, ALWAYS, WEFT_IQ3_XXS},
                              {PART_Q, ALWAYS, WEFT_IQ3_XXS},  {PART_GATE, MIDDLE, WEFT_IQ3_XXS},
                              {PART_UP, MIDDLE, WEFT_IQ3_XXS}, {0}};
static const rule iq3_s[] = {{PART_V, SHARED_V, WEFT_Q4_K}, {0}};
static const rule iq3_m[] = {{PART_V, ALWAYS, WEFT_Q4_K},
                             {PART_DOWN, FIRST_EIGHTH, WEFT_Q4_K},
                             {PART_ATTN_OUT, ALWAYS, WEFT_Q4_K},
                             {0}};
static const rule iq2_x[] = {
    {PART_OUTPUT, ALWAYS, WEFT_Q5_K},     {PART_EMBEDDING, ALWAYS, WEFT_Q2_K},
    {PART_V, SHARED_V, WEFT_Q4_K},        {PART_V, ALWAYS, WEFT_Q2_K},
    {PART_DOWN, FIRST_EIGHTH, WEFT_Q2_K}, {0}};
static const rule iq2[] = {{PART_OUTPUT, ALWAYS, WEFT_Q5_K},
                           {PART_EMBEDDING, ALWAYS, WEFT_IQ3_S},
                           {PART_V, SHARED_V, WEFT_Q4_K},
                           {PART_V, ALWAYS, WEFT_IQ3_S},
                           {PART_DOWN, FIRST_EIGHTH, WEFT_IQ3_S},
                           {PART_ATTN_OUT, ALWAYS, WEFT_IQ3_S},
                           {0}};
static const rule iq1[] = {{PART_OUTPUT, ALWAYS, WEFT_Q5_K},
                           {PART_EMBEDDING, ALWAYS, WEFT_Q2_K},
                           {PART_V, SHARED_V, WEFT_Q4_K},
                           {PART_V, ALWAYS, WEFT_Q2_K},
                           {PART_DOWN, FIRST_EIGHTH, WEFT_Q2_K},
                           {PART_ATTN_OUT, ALWAYS, WEFT_IQ2_XXS},
                           {0}};
static const rule ternary[] = {{PART_EMBEDDING, ALWAYS, WEFT_Q4_K}, {0}};

static const gguf_mix mixes[] = {
    {"f32", 0, WEFT_F32, none},           {"f16", 1, WEFT_F16, none},
    {"bf16", 32, WEFT_BF16, none},        {"q8_0", 7, WEFT_Q8_0, q8_0},
    {"q4_0", 2, WEFT_Q4_0, q4_0},         {"q4_1", 3, WEFT_Q4_1, none},
    {"q5_0", 8, WEFT_Q5_0, q5_0},         {"q5_1", 9, WEFT_Q5_1, none},
    {"q2_k", 10, WEFT_Q2_K, q2_k},        {"q2_k_s", 21, WEFT_Q2_K, q2_k_s},
    {"q3_k", 11, WEFT_Q3_K, none},        {"q3_k_s", 11, WEFT_Q3_K, none},
    {"q3_k_m", 12, WEFT_Q3_K, q3_k_m},    {"q3_k_l", 13, WEFT_Q3_K, q3_k_l},
    {"q4_k", 14, WEFT_Q4_K, none},        {"q4_k_s", 14, WEFT_Q4_K, q4_k_s},
    {"q4_k_m", 15, WEFT_Q4_K, mostly_q6}, {"q5_k", 16, WEFT_Q5_K, none},
    {"q5_k_s", 16, WEFT_Q5_K, none},      {"q5_k_m", 17, WEFT_Q5_K, mostly_q6},
    {"q6_k", 18, WEFT_Q6_K, none},        {"iq4_nl", 25, WEFT_IQ4_NL, iq4},
    {"iq4_xs", 30, WEFT_IQ4_XS, iq4},     {"iq3_xxs", 23, WEFT_IQ3_XXS, iq3_xxs},
    {"iq3_xs", 22, WEFT_IQ3_S, iq3_xs},   {"iq3_s", 26, WEFT_IQ3_S, iq3_s},
    {"iq3_m", 27, WEFT_IQ3_S, iq3_m},     {"iq2_xxs", 19, WEFT_IQ2_XXS, iq2_x},
    {"iq2_xs", 20, WEFT_IQ2_XS, iq2_x},   {"iq2_s", 28, WEFT_IQ2_XS, iq2},
    {"iq2_m", 29, WEFT_IQ2_S, iq2},       {"iq1_s", 24, WEFT_IQ1_S, iq1},
    {"iq1_m", 31, WEFT_IQ1_M, iq1},       {"tq1_0", 36, WEFT_TQ1_0, ternary},
    {"tq2_0", 37, WEFT_TQ2_0, ternary},   {"mxfp4", 38, WEFT_MXFP4, q8_0},
    {"nvfp4", 39, WEFT_NVFP4, q8_0},
};

enum { MIX_COUNT = sizeof mixes / sizeof *mixes };

const gguf_mix *gguf_mix_at(int32_t n)
{
    return n >= 0 && n < MIX_COUNT ? &mixes[n] : NULL;
}

const gguf_mix *gguf_mix_find(const char *name)
{
    for (int32_t n = 0; n < MIX_COUNT; n++)
        if (strcasecmp(mixes[n].name, name) == 0)
            return &mixes[n];
    return NULL;
}

const char *gguf_mix_name(const gguf_mix *mix)
{
    return mix->name;
}

weft_dtype gguf_mix_format(const gguf_mix *mix)
{
    return mix->format;
}

uint32_t gguf_mix_file_type(const gguf_mix *mix)
{
    return mix->file_type;
}

static part part_of(const char *name, bool tied)
{
    static const struct {
        const char *piece;
        part part;
    } pieces[] = {
        {"attn_qkv.weight", PART_V},    {"attn_v.weight", PART_V},
        {"attn_k.weight", PART_K},      {"attn_q.weight", PART_Q},
        {"attn_output", PART_ATTN_OUT}, {"ffn_down", PART_DOWN},
        {"ffn_gate", PART_GATE},        {"ffn_up", PART_UP},
    };
    if (strcmp(name, "output.weight") == 0)
        return PART_OUTPUT;
    if (strcmp(name, "token_embd.weight") == 0)
        return tied ? PART_OUTPUT : PART_EMBEDDING;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        if (strstr(name, pieces[i].piece))
            return pieces[i].part;
    return PART_OTHER;
}

static bool holds(condition when, int32_t layer, const gguf_mix_facts *facts)
{
    int32_t n = facts->layers, eighth = n / 8;
    switch (when) {
    case ALWAYS: return true;
    case FIRST_TWO: return layer < 2;
    case FIRST_FOUR: return layer < 4;
    case FIRST_SIXTEENTH: return layer < n / 16;
    case FIRST_EIGHTH: return layer < eighth;
    case MIDDLE: return layer >= eighth && layer < 7 * (int64_t)n / 8;
    case OFTEN: return layer < eighth || layer >= 7 * (int64_t)n / 8 || (layer - eighth) % 3 == 2;
    case SHARED_V: return facts->heads_per_kv_head >= 4;
    case WITHOUT_IMPORTANCE: return !facts->importance;
    case FIRST_EIGHTH_WITHOUT: return layer < eighth && !facts->importance;
    case FIRST_EIGHTH_WITH: return layer < eighth && facts->importance;
    }
    return false;
}

static weft_dtype format_for(const gguf_mix *mix, const gguf_mix_facts *facts, const char *name)
{
    part which = part_of(name, facts->tied);
    int32_t layer = 0;
    weft_dtype format = mix->format;
    if (facts->pure || weft_dtype_block_elems(format) == 1)
        return format;
    if (sscanf(name, "blk.%d.", &layer) != 1)
        layer = 0;
    if (which == PART_OUTPUT)
        format = WEFT_Q6_K;
    for (const rule *r = mix->rules; r->part != PART_END; r++)
        if (r->part == which && holds(r->when, layer, facts)) {
            format = r->format;
            break;
        }
    // 70B models share V among eight heads: it is small, and much hangs on it.
    if (which == PART_V && facts->layers == 80 && facts->heads_per_kv_head >= 8 &&
        (format == WEFT_Q3_K || format == WEFT_Q4_K))
        format = WEFT_Q5_K;
    return format;
}

// A format of smaller blocks for rows that are no whole number of blocks.
static weft_dtype fitting(weft_dtype format, int64_t cols)
{
    static const struct {
        weft_dtype wanted, smaller;
    } fallbacks[] = {
        {WEFT_IQ1_S, WEFT_IQ4_NL},  {WEFT_IQ1_M, WEFT_IQ4_NL},  {WEFT_IQ2_XXS, WEFT_IQ4_NL},
        {WEFT_IQ2_XS, WEFT_IQ4_NL}, {WEFT_IQ2_S, WEFT_IQ4_NL},  {WEFT_IQ3_XXS, WEFT_IQ4_NL},
        {WEFT_IQ3_S, WEFT_IQ4_NL},  {WEFT_IQ4_XS, WEFT_IQ4_NL}, {WEFT_Q2_K, WEFT_Q4_0},
        {WEFT_Q3_K, WEFT_Q4_0},     {WEFT_TQ1_0, WEFT_Q4_0},    {WEFT_TQ2_0, WEFT_Q4_0},
        {WEFT_Q4_K, WEFT_Q5_0},     {WEFT_Q5_K, WEFT_Q5_1},     {WEFT_Q6_K, WEFT_Q8_0},
        {WEFT_NVFP4, WEFT_MXFP4},
    };
    if (cols % weft_dtype_block_elems(format) == 0)
        return format;
    for (size_t i = 0; i < sizeof fallbacks / sizeof *fallbacks; i++)
        if (fallbacks[i].wanted == format && cols % 32 == 0)
            return fallbacks[i].smaller;
    return WEFT_F16;
}

// Vectors, norms and small matrices of routing and positions stay what they are.
static bool is_matrix(const char *name, uint32_t rank, const int64_t *shape)
{
    static const char *const kept[] = {
        "_norm.weight", "ffn_gate_inp.weight", "position_embd",        "token_types",
        "ssm_conv1d",   "attn_rel_b",          "shortconv.conv.weight"};
    static const char tail[] = "weight";
    size_t length = strlen(name);
    while (rank > 0 && shape[rank - 1] == 1)
        rank--;
    if (rank < 2 || length < sizeof tail - 1 ||
        strcmp(name + length - (sizeof tail - 1), tail) != 0)
        return false;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strstr(name, kept[i]))
            return false;
    return true;
}

const ggml_type_info *gguf_mix_choose(const gguf_mix *mix, const gguf_mix_facts *facts,
                                      const char *name, uint32_t rank, const int64_t *shape,
                                      const ggml_type_info *type)
{
    if (!is_matrix(name, rank, shape)) // (formats of folders have no number in files)
        return type->id == GGML_TYPE_NO_ID ? ggml_type_of(WEFT_F32) : type;
    weft_dtype format = fitting(format_for(mix, facts, name), shape[0]);
    return ggml_type_of(format);
}
