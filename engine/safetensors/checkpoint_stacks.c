// SPDX-License-Identifier: MIT
// Experts of a layer that lie in one tensor, gate and up by turns (gpt-oss) or one behind the other (Llama 4): as
// mxfp4, whose codes and exponents lie apart, or as numbers with columns first. Those of nomic-bert are
// matrices: rows of up, or columns of down, of all experts one below the other.
#include <stdio.h>
#include <string.h>

#include <weft/format.h>

#include "engine/base/checked.h"
#include "engine/safetensors/checkpoint_parts.h"

#define DAMAGED "the model is damaged or of another kind: download it again"

enum { CODE_BYTES = 16, BLOCK_ELEMS = 32, TILE = 32 };

typedef struct stack {
    checkpoint *c;
    const safetensor *codes, *exponents; // exponents: NULL for numbers
    int64_t experts, rows, cols;         // of the whole
    weft_dtype dtype;
    engine_error *err;
} stack;

// Which rows of a stack a matrix has: so many from `first` on, every `step`-th.
typedef struct part {
    const char *name; // "blk.7.ffn_gate_exps"
    int64_t rows, first, step;
} part;

// Elements i and i + 16 share a byte in files.
uint8_t *checkpoint_put_mxfp4(uint8_t *to, uint8_t exponent, const uint8_t codes[CODE_BYTES])
{
    *to++ = exponent;
    for (int i = 0; i < CODE_BYTES; i++) {
        int low = codes[i / 2] >> (i % 2 * 4) & 15, high = codes[8 + i / 2] >> (i % 2 * 4) & 15;
        *to++ = (uint8_t)(low | high << 4);
    }
    return to;
}

static void put_codes(const stack *s, const part *p, uint8_t *to)
{
    const int64_t blocks = s->cols / BLOCK_ELEMS, rows = p->rows;
    for (int64_t n = 0; n < s->experts * rows; n++) {
        int64_t row = n / rows * s->rows + n % rows * p->step + p->first;
        for (int64_t b = 0; b < blocks; b++)
            to = checkpoint_put_mxfp4(to, s->exponents->data[row * blocks + b],
                                      s->codes->data + (row * blocks + b) * CODE_BYTES);
    }
}

// Rows [row, row + TILE) by columns [col, col + TILE) of an expert, so that lines of what is read stay in a cache
// until all of them is written.
static void put_tile(const part *p, const stack *s, const uint8_t *from, uint8_t *to, int64_t row,
                     int64_t col, size_t size)
{
    for (int64_t r = row; r < row + TILE && r < p->rows; r++)
        for (int64_t c = col; c < col + TILE && c < s->cols; c++)
            memcpy(to + (size_t)(r * s->cols + c) * size,
                   from + (size_t)(c * s->rows + r * p->step + p->first) * size, size);
}

static void put_numbers(const stack *s, const part *p, uint8_t *to)
{
    const size_t size = (size_t)weft_dtype_block_bytes(s->dtype);
    for (int64_t e = 0; e < s->experts; e++)
        for (int64_t row = 0; row < p->rows; row += TILE)
            for (int64_t col = 0; col < s->cols; col += TILE)
                put_tile(p, s, s->codes->data + (size_t)(e * s->cols * s->rows) * size,
                         to + (size_t)(e * p->rows * s->cols) * size, row, col, size);
}

static bool put_matrix(const stack *s, const part *p, gguf_tensor *to)
{
    size_t bytes;
    const weft_dtype dtype = s->exponents ? WEFT_MXFP4 : s->dtype;
    const int64_t row_bytes = weft_dtype_row_bytes(dtype, s->cols);
    memset(to, 0, sizeof *to);
    snprintf(to->name, sizeof to->name, "%.48s.weight", p->name);
    if (row_bytes < 0 || !checked_mul((size_t)row_bytes, (size_t)(s->experts * p->rows), &bytes))
        return engine_fail(s->err, "%s is more than memory can hold", to->name);
    uint8_t *copy = checkpoint_alloc(s->c, bytes);
    if (!copy)
        return engine_fail(s->err, "out of memory for %s; close other programs", to->name);
    if (s->exponents)
        put_codes(s, p, copy);
    else
        put_numbers(s, p, copy);
    to->data = copy;
    to->dtype = dtype;
    to->type = ggml_type_of(dtype);
    to->rank = 3;
    to->shape[0] = s->cols;
    to->shape[1] = p->rows;
    to->shape[2] = s->experts;
    to->shape[3] = 1;
    to->element_count = s->cols * to->shape[1] * s->experts;
    to->size_bytes = bytes;
    return true;
}

// [experts][rows], which become f32.
static bool put_bias(const stack *s, const part *p, gguf_tensor *to)
{
    const int64_t rows = p->rows;
    const size_t size = (size_t)weft_dtype_block_bytes(s->dtype);
    memset(to, 0, sizeof *to);
    snprintf(to->name, sizeof to->name, "%.48s.bias", p->name);
    uint8_t *copy = checkpoint_alloc(s->c, (size_t)(s->experts * rows) * size);
    if (!copy)
        return engine_fail(s->err, "out of memory for %s; close other programs", to->name);
    for (int64_t n = 0; n < s->experts * rows; n++) {
        int64_t at = n / rows * s->rows + n % rows * p->step + p->first;
        memcpy(copy + (size_t)n * size, s->codes->data + (size_t)at * size, size);
    }
    to->data = copy;
    to->dtype = s->dtype;
    to->rank = 2;
    to->shape[0] = rows;
    to->shape[1] = s->experts;
    to->shape[2] = to->shape[3] = 1;
    to->element_count = s->experts * rows;
    return checkpoint_widen(s->c, to, 0, s->err);
}

static bool is_number(weft_dtype dtype)
{
    return dtype != WEFT_DTYPE_NONE && weft_dtype_block_elems(dtype) == 1 &&
           weft_dtype_block_bytes(dtype) > 1;
}

// The numbers of a tensor and what they must be for it to be a stack.
static bool measure(stack *s, bool bias)
{
    const safetensor *codes = s->codes, *exponents = s->exponents;
    const uint32_t rank = exponents ? 4 : bias ? 2 : 3;
    s->dtype = checkpoint_dtype(codes->dtype);
    s->experts = codes->shape[0];
    s->rows = exponents || bias ? codes->shape[1] : codes->shape[2];
    s->cols = exponents ? codes->shape[2] * BLOCK_ELEMS : codes->shape[1];
    bool fits = codes->rank == rank && codes->element_count > 0 && s->experts == s->c->experts;
    if (exponents)
        fits = fits && codes->dtype == SAFETENSORS_U8 && exponents->dtype == SAFETENSORS_U8 &&
               codes->shape[3] == CODE_BYTES && exponents->rank == 3 &&
               memcmp(exponents->shape, codes->shape, 3 * sizeof *codes->shape) == 0;
    else
        fits = fits && is_number(s->dtype);
    return fits ||
           engine_fail(s->err, "%s are no experts of config.json; %s", codes->name, DAMAGED);
}

const char *checkpoint_stack_name(const char *theirs)
{
    static const char *const blocks[] = {".mlp.experts.", ".feed_forward.experts."};
    static const char *const below[] = {"mlp.w1", "mlp.w2"};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        const char *found = strstr(theirs, blocks[i]), *name;
        if (!found)
            continue;
        name = found + strlen(blocks[i]);
        if (strncmp(name, "gate_up_proj", 12) == 0 || strcmp(name, "down_proj") == 0 ||
            strncmp(name, "down_proj_", 10) == 0 || strcmp(name, below[0]) == 0 ||
            strcmp(name, below[1]) == 0)
            return name;
    }
    return NULL;
}

// Rows of one expert after the other are a tensor of all as they lie.
static bool put_rows(const stack *s, const char *name, gguf_tensor *to)
{
    const safetensor *from = s->codes;
    memset(to, 0, sizeof *to);
    snprintf(to->name, sizeof to->name, "%.48s.weight", name);
    to->data = from->data;
    if ((uintptr_t)from->data % 4 != 0) {
        uint8_t *copy = checkpoint_alloc(s->c, from->size_bytes);
        if (!copy)
            return engine_fail(s->err, "out of memory for %s; close other programs", to->name);
        memcpy(copy, from->data, from->size_bytes);
        to->data = copy;
    }
    to->dtype = s->dtype;
    to->type = ggml_type_of(s->dtype);
    to->rank = 3;
    to->shape[0] = s->cols;
    to->shape[1] = s->rows;
    to->shape[2] = s->experts;
    to->shape[3] = 1;
    to->element_count = from->element_count;
    to->size_bytes = from->size_bytes;
    return true;
}

// Matrices of all experts one below the other; of down each expert's columns become rows.
static bool put_below(stack *s, int layer, bool down, gguf_tensor *to)
{
    char name[64];
    const safetensor *from = s->codes;
    s->dtype = checkpoint_dtype(from->dtype);
    s->experts = s->c->experts;
    if (from->rank != 2 || from->element_count <= 0 || from->shape[0] % s->experts != 0 ||
        !is_number(s->dtype))
        return engine_fail(s->err, "%s are no experts of config.json; %s", from->name, DAMAGED);
    snprintf(name, sizeof name, "blk.%d.ffn_%s_exps", layer, down ? "down" : "up");
    const int64_t each = from->shape[0] / s->experts;
    s->rows = down ? from->shape[1] : each;
    s->cols = down ? each : from->shape[1];
    const part p = {name, s->rows, 0, 1};
    return down ? put_matrix(s, &p, to) : put_rows(s, name, to);
}

bool checkpoint_add_stack(checkpoint *c, const safetensor *from, const safetensor *exponents,
                          gguf_tensor *to, int *count, engine_error *err)
{
    int layer = -1;
    const char *tail = checkpoint_stack_name(from->name);
    stack s = {.c = c, .codes = from, .exponents = exponents, .err = err};
    *count = 0;
    if (!tail || sscanf(checkpoint_unwrapped(from->name), "layers.%6d.", &layer) != 1 || layer < 0)
        return engine_fail(err, "%s has no layer; %s", from->name, DAMAGED);
    if (c->family->stacking == CHECKPOINT_EXPERTS_BELOW) {
        *count = 1;
        return strncmp(tail, "mlp.w", 5) == 0
                   ? put_below(&s, layer, tail[5] == '2', to)
                   : engine_fail(err, "%s are experts of another family; %s", from->name, DAMAGED);
    }
    const bool bias = strstr(tail, "_bias") != NULL, pair = strncmp(tail, "gate_up_proj", 12) == 0;
    if (!measure(&s, bias))
        return false;
    if (pair && s.rows % 2 != 0)
        return engine_fail(err, "%s has an odd number of rows; %s", from->name, DAMAGED);
    for (int i = 0; i < (pair ? 2 : 1); i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.ffn_%s_exps", layer,
                 !pair    ? "down"
                 : i == 0 ? "gate"
                          : "up");
        const int64_t rows = pair ? s.rows / 2 : s.rows;
        const bool turns = c->family->stacking == CHECKPOINT_EXPERTS_BY_TURNS;
        const part p = {name, rows, turns ? i : i * rows, pair && turns ? 2 : 1};
        if (!(bias ? put_bias(&s, &p, &to[i]) : put_matrix(&s, &p, &to[i])))
            return false;
        ++*count;
    }
    return true;
}
