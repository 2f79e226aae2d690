// SPDX-License-Identifier: MIT
// Matrices of GPTQ and AWQ: integers in words of 32 bits, with scales and zeros for groups of columns.
//
//   GPTQ    qweight [cols / per][rows]   `per` columns of a row in a word, the first in the lowest bits
//           g_idx   [cols]               the group of every column; with act-order in no order
//   AWQ     qweight [cols][rows / 8]     rows 0, 2, 4, 6, 1, 3, 5, 7 of eight, from the lowest bits on
//   both    scales  [groups][rows]
//           qzeros  [groups][rows / per] packed as AWQ's weights or, GPTQ's, in order
//
// A weight is scale * (code - zero); GPTQ's first version stores zero - 1. They become codes of MLX, [rows][cols] with
// the first column in the lowest bits, with f32 planes: scale, and -scale * zero, which f32 holds exactly where the
// scale is f16 or bf16. Groups that no format has are halved until one does. With columns in no order every column
// has a scale of its own, so to say: such a matrix becomes f32.
#include <stdlib.h>
#include <string.h>

#include "engine/safetensors/checkpoint_parts.h"
#include "weft/weft.h"

static const int awq_row[8] = {0, 2, 4, 6, 1, 3, 5, 7}; // by place in a word

typedef struct integers {
    const checkpoint *c;
    const safetensor *codes, *zeros, *scales, *groups_of;
    int64_t rows, cols, groups;
    int64_t group; // columns; of ordered groups
    int bits, per; // per: codes in a word
    bool awq, ordered;
    float *scale; // [groups][rows], widened
} integers;

static uint32_t word_at(const safetensor *from, int64_t index)
{
    uint32_t word;
    memcpy(&word, from->data + 4 * index, sizeof word);
    return word;
}

static uint32_t code_of(const integers *in, uint32_t word, int place)
{
    return word >> (place * in->bits) & ((1u << in->bits) - 1);
}

// The place of a row among the `per` of a word.
static int place_of(const integers *in, int64_t row)
{
    int within = (int)(row % in->per), place = 0;
    while (in->awq && awq_row[place] != within)
        place++;
    return in->awq ? place : within;
}

static int32_t zero_at(const integers *in, int64_t group, int64_t row)
{
    uint32_t word = word_at(in->zeros, group * (in->rows / in->per) + row / in->per);
    return (int32_t)code_of(in, word, place_of(in, row)) + in->c->integers.zero_offset;
}

static uint32_t weight_code(const integers *in, int64_t row, int64_t col)
{
    if (in->awq)
        return code_of(in, word_at(in->codes, col * (in->rows / 8) + row / 8), place_of(in, row));
    return code_of(in, word_at(in->codes, col / in->per * in->rows + row), (int)(col % in->per));
}

static int64_t group_of(const integers *in, int64_t col)
{
    return in->groups_of ? (int32_t)word_at(in->groups_of, col) : col / in->group;
}

// --- checks ---------------------------------------------------------------------------------------------

static bool has_shape(const safetensor *t, safetensors_dtype dtype, int64_t down, int64_t across)
{
    return t && t->dtype == dtype && t->rank == 2 && t->shape[0] == down && t->shape[1] == across;
}

// Columns are in the order of their groups, which are of one length; groups that do not exist are damage.
static bool check_groups(integers *in)
{
    in->ordered = true;
    for (int64_t col = 0; in->groups_of && col < in->cols; col++) {
        int64_t group = group_of(in, col);
        if (group < 0 || group >= in->groups)
            return false;
        in->ordered = in->ordered && group == col / in->group;
    }
    return true;
}

static bool check(integers *in)
{
    int64_t group = in->c->integers.group;
    const safetensor *codes = in->codes, *scales = in->scales;
    if (codes->rank != 2 || codes->dtype != SAFETENSORS_I32 || !scales || scales->rank != 2 ||
        codes->shape[0] < 1 || codes->shape[1] < 1 || codes->shape[0] > INT32_MAX ||
        codes->shape[1] > INT32_MAX)
        return false;
    in->rows = codes->shape[1] * (in->awq ? in->per : 1);
    in->cols = codes->shape[0] * (in->awq ? 1 : in->per);
    in->group = group > 0 && group < in->cols ? group : in->cols;
    in->groups = (in->cols + in->group - 1) / in->group;
    const safetensor *of = in->groups_of;
    return in->rows % in->per == 0 && in->cols % 32 == 0 && in->cols % in->group == 0 &&
           scales->shape[0] == in->groups && scales->shape[1] == in->rows &&
           has_shape(in->zeros, SAFETENSORS_I32, in->groups, in->rows / in->per) &&
           (!of || (of->dtype == SAFETENSORS_I32 && of->element_count == in->cols)) &&
           check_groups(in);
}

// --- conversion -----------------------------------------------------------------------------------------

// GPTQ's words are those of MLX, in columns.
static void transpose_words(const integers *in, uint32_t *to)
{
    enum { TILE = 16 };
    int64_t words = in->cols / in->per;
    for (int64_t row0 = 0; row0 < in->rows; row0 += TILE)
        for (int64_t word = 0; word < words; word++)
            for (int64_t row = row0; row < in->rows && row < row0 + TILE; row++)
                to[row * words + word] = word_at(in->codes, word * in->rows + row);
}

static void gather_codes(const integers *in, uint32_t *to)
{
    int64_t words = in->cols / 8, across = in->rows / 8;
    for (int64_t word = 0; word < words; word++)
        for (int64_t eight = 0; eight < across; eight++) {
            uint32_t from[8];
            for (int i = 0; i < 8; i++)
                from[i] = word_at(in->codes, (8 * word + i) * across + eight);
            for (int place = 0; place < 8; place++) {
                uint32_t made = 0;
                for (int i = 0; i < 8; i++)
                    made |= code_of(in, from[i], place) << (4 * i);
                to[(8 * eight + awq_row[place]) * words + word] = made;
            }
        }
}

// Groups of `step` columns, each within one of the file's.
static bool make_planes(checkpoint *c, const integers *in, int64_t step, gguf_tensor *to)
{
    int64_t count = in->cols / step;
    size_t bytes = (size_t)in->rows * (size_t)count * sizeof(float);
    float *scales = checkpoint_alloc(c, bytes), *biases = checkpoint_alloc(c, bytes);
    for (int64_t row = 0; scales && biases && row < in->rows; row++)
        for (int64_t i = 0; i < count; i++) {
            int64_t group = i * step / in->group;
            float scale = in->scale[group * in->rows + row];
            scales[row * count + i] = scale;
            biases[row * count + i] = -scale * (float)zero_at(in, group, row);
        }
    to->planes = (gguf_planes){scales, biases, WEFT_F32, 1, step};
    return scales && biases;
}

static bool make_codes(checkpoint *c, const integers *in, gguf_tensor *to)
{
    int64_t step = in->group % 128 == 0 ? 128 : in->group % 64 == 0 ? 64 : 32;
    static const weft_dtype formats[2][3] = {{WEFT_MLX_Q4_G32, WEFT_MLX_Q4_G64, WEFT_MLX_Q4_G128},
                                             {WEFT_MLX_Q8_G32, WEFT_MLX_Q8_G64, WEFT_MLX_Q8_G128}};
    to->dtype = formats[in->bits == 8][step == 128 ? 2 : step / 64];
    to->size_bytes = (size_t)(in->rows * in->cols / in->per) * sizeof(uint32_t);
    uint32_t *codes = checkpoint_alloc(c, to->size_bytes);
    if (codes && in->awq)
        gather_codes(in, codes);
    else if (codes)
        transpose_words(in, codes);
    to->data = codes;
    return codes && make_planes(c, in, step, to);
}

static bool make_numbers(checkpoint *c, const integers *in, gguf_tensor *to)
{
    to->dtype = WEFT_F32;
    to->size_bytes = (size_t)in->rows * (size_t)in->cols * sizeof(float);
    float *y = checkpoint_alloc(c, to->size_bytes);
    for (int64_t row = 0; y && row < in->rows; row++)
        for (int64_t col = 0; col < in->cols; col++) {
            int64_t group = group_of(in, col);
            int32_t code = (int32_t)weight_code(in, row, col) - zero_at(in, group, row);
            y[row * in->cols + col] = in->scale[group * in->rows + row] * (float)code;
        }
    to->data = y;
    return y != NULL;
}

// Scales as f32; they stay as long as the conversion.
static bool widen(integers *in)
{
    weft_dtype dtype = in->scales->dtype == SAFETENSORS_F16    ? WEFT_F16
                       : in->scales->dtype == SAFETENSORS_BF16 ? WEFT_BF16
                       : in->scales->dtype == SAFETENSORS_F32  ? WEFT_F32
                                                               : WEFT_DTYPE_NONE;
    in->scale = malloc((size_t)in->scales->element_count * sizeof *in->scale);
    return in->scale && dtype != WEFT_DTYPE_NONE &&
           weft_dequantize_row(dtype, in->scales->data, in->scales->element_count, in->scale) ==
               WEFT_OK;
}

bool checkpoint_read_integers(checkpoint *c, const checkpoint_integers_parts *parts,
                              gguf_tensor *to, engine_error *err)
{
    integers in = {.c = c,
                   .codes = parts->codes,
                   .zeros = parts->zeros,
                   .scales = parts->scales,
                   .groups_of = parts->groups_of,
                   .bits = (int)c->integers.bits,
                   .per = (int)(32 / c->integers.bits),
                   .awq = c->integers.awq};
    if (!check(&in))
        return engine_fail(err,
                           "%s, its scales, zeros and groups do not fit each other; the model is "
                           "damaged or of another kind: download it again",
                           parts->codes->name);
    to->rank = 2;
    to->shape[0] = in.cols;
    to->shape[1] = in.rows;
    to->shape[2] = to->shape[3] = 1;
    bool good = widen(&in) && (in.ordered && in.group % 32 == 0 ? make_codes(c, &in, to)
                                                                : make_numbers(c, &in, to));
    free(in.scale);
    to->type = ggml_type_of(to->dtype);
    to->element_count = in.rows * in.cols;
    return good || engine_fail(err, "out of memory for %s, or its scales are no numbers",
                               parts->codes->name);
}
