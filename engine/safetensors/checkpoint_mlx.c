// SPDX-License-Identifier: MIT
// Matrices of MLX: codes in words of 32 bits, the first column in the lowest, with what belongs to groups of columns in
// tensors of their own; matrices of all experts of a layer lie one behind the other in each.
//
//   affine  scales and biases, f32 to bf16: formats of their own, which stay where they are
//   mxfp4   e2m1 with an exponent (e8m0) for 32 columns: blocks of MXFP4
//   nvfp4   e2m1 with an e4m3 for 16 columns: blocks of NVFP4
//   mxfp8   e4m3 with an exponent for 32 columns: bytes beside scales in bf16, which has every exponent
#include <stdio.h>
#include <string.h>

#include <weft/format.h>

#include "engine/base/checked.h"
#include "engine/safetensors/checkpoint_parts.h"

#define DAMAGED "the model is damaged or of another kind: download it again"

typedef struct matrix {
    checkpoint *c;
    const checkpoint_mlx_parts *parts;
    int64_t bits, group;
    int64_t rows, cols; // rows: of all experts
    engine_error *err;
} matrix;

typedef struct mode {
    const char *name;
    int64_t bits, group; // where config.json does not say
    bool (*make)(const matrix *m, gguf_tensor *to);
} mode;

// The entry of the module itself in config.json, else that of the whole model.
static const json_t *settings_of(const checkpoint *c, const char *module)
{
    const json_t *own = json_object_get(c->quantization, module);
    return json_is_object(own) ? own : c->quantization;
}

static int64_t number_of(const matrix *m, const char *name, int64_t fallback)
{
    const json_t *number = json_object_get(settings_of(m->c, m->parts->module), name);
    return json_is_integer(number) ? json_integer_value(number) : fallback;
}

static bool fail_memory(const matrix *m)
{
    return engine_fail(m->err, "out of memory for %s; close other programs", m->parts->module);
}

// Of the codes' shape but for the last dimension, which has groups.
static bool is_beside(const matrix *m, const safetensor *plane)
{
    const safetensor *codes = m->parts->codes;
    return plane && plane->rank == codes->rank && plane->element_count > 0 &&
           memcmp(plane->shape, codes->shape, (codes->rank - 1) * sizeof *codes->shape) == 0 &&
           plane->shape[codes->rank - 1] == m->cols / m->group;
}

static bool is_number(safetensors_dtype dtype)
{
    return dtype == SAFETENSORS_F32 || dtype == SAFETENSORS_F16 || dtype == SAFETENSORS_BF16;
}

static weft_dtype affine_format(const matrix *m)
{
    char name[64];
    snprintf(name, sizeof name, "mlx_q%lld_g%lld", (long long)m->bits, (long long)m->group);
    return weft_dtype_parse(name);
}

static bool make_affine(const matrix *m, gguf_tensor *to)
{
    const safetensor *scales = m->parts->scales, *biases = m->parts->biases;
    to->dtype = affine_format(m);
    if (!is_number(scales->dtype))
        return engine_fail(m->err, "%s is neither f32 nor f16 nor bf16, as scales must be",
                           scales->name);
    if (!is_beside(m, biases) || biases->dtype != scales->dtype)
        return engine_fail(m->err, "the scales of %s do not fit its weights; %s", m->parts->module,
                           DAMAGED);
    to->planes =
        (gguf_planes){checkpoint_aligned(m->c, scales, 4), checkpoint_aligned(m->c, biases, 4),
                      checkpoint_dtype(scales->dtype), 1, m->group};
    to->data = checkpoint_aligned(m->c, m->parts->codes, 4);
    return (to->data && to->planes.scales && to->planes.biases) || fail_memory(m);
}

// Room for blocks of a format in place of codes.
static uint8_t *make_room(const matrix *m, weft_dtype dtype, gguf_tensor *to)
{
    const int64_t row_bytes = weft_dtype_row_bytes(dtype, m->cols);
    void *room = NULL;
    to->dtype = dtype;
    if (row_bytes > 0 && checked_mul((size_t)row_bytes, (size_t)m->rows, &to->size_bytes))
        room = checkpoint_alloc(m->c, to->size_bytes);
    to->data = room;
    return room;
}

static bool make_mxfp4(const matrix *m, gguf_tensor *to)
{
    uint8_t *at = make_room(m, WEFT_MXFP4, to);
    for (int64_t b = 0; at && b < m->rows * (m->cols / 32); b++)
        at = checkpoint_put_mxfp4(at, m->parts->scales->data[b], m->parts->codes->data + b * 16);
    return at || fail_memory(m);
}

// Of 16 columns the first eight are in the low halves of bytes.
static bool make_nvfp4(const matrix *m, gguf_tensor *to)
{
    const uint8_t *codes = m->parts->codes->data, *scales = m->parts->scales->data;
    uint8_t *at;
    if (m->cols % 64 != 0 || m->parts->global)
        return engine_fail(m->err, "%s: nvfp4 %s cannot be read yet", m->parts->module,
                           m->parts->global ? "with a scale of the whole tensor"
                                            : "with columns that are no multiple of 64");
    at = make_room(m, WEFT_NVFP4, to);
    for (int64_t b = 0; at && b < m->rows * (m->cols / 64); b++, scales += 4) {
        memcpy(at, scales, 4);
        at += 4;
        for (int group = 0; group < 4; group++, codes += 8)
            for (int i = 0; i < 8; i++)
                *at++ = (uint8_t)((codes[i / 2] >> (i % 2 * 4) & 15) |
                                  (codes[4 + i / 2] >> (i % 2 * 4) & 15) << 4);
    }
    return at || fail_memory(m);
}

static bool make_mxfp8(const matrix *m, gguf_tensor *to)
{
    const size_t count = (size_t)(m->rows * (m->cols / m->group));
    uint16_t *scales = checkpoint_alloc(m->c, count * sizeof *scales);
    for (size_t i = 0; scales && i < count; i++) {
        const uint8_t exponent = m->parts->scales->data[i];
        scales[i] = (uint16_t)(exponent ? exponent << 7 : 0x40); // 2^-127 is subnormal
    }
    to->dtype = WEFT_FP8_E4M3;
    to->data = checkpoint_aligned(m->c, m->parts->codes, 4);
    to->planes = (gguf_planes){scales, NULL, WEFT_BF16, 1, m->group};
    return (scales && to->data) || fail_memory(m);
}

static const mode modes[] = {
    {"affine", 4, 64, make_affine},
    {"mxfp4", 4, 32, make_mxfp4},
    {"mxfp8", 8, 32, make_mxfp8},
    {"nvfp4", 4, 16, make_nvfp4},
};

const char *checkpoint_mlx_modes(const json_t *settings, const char **known)
{
    const char *name = json_string_value(json_object_get(settings, "mode"));
    *known = "affine, mxfp4, mxfp8 and nvfp4";
    for (size_t i = 0; name && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(modes[i].name, name) == 0)
            return NULL;
    return name;
}

// As mlx_lm has it: a module with an entry that names no mode is affine, whatever the model's is.
static const mode *mode_of(const matrix *m)
{
    const json_t *settings = settings_of(m->c, m->parts->module);
    const char *name = json_string_value(json_object_get(settings, "mode")), *known;
    if (checkpoint_mlx_modes(settings, &known)) {
        engine_fail(m->err, "%s is quantised in MLX's mode '%.32s', which weft cannot read yet",
                    m->parts->module, name);
        return NULL;
    }
    for (size_t i = 0; name && i < sizeof modes / sizeof *modes; i++)
        if (strcmp(modes[i].name, name) == 0)
            return &modes[i];
    return &modes[0];
}

bool checkpoint_read_mlx(checkpoint *c, const checkpoint_mlx_parts *parts, gguf_tensor *to,
                         engine_error *err)
{
    matrix m = {.c = c, .parts = parts, .err = err};
    const safetensor *codes = parts->codes, *scales = parts->scales;
    const mode *as = mode_of(&m);
    const int64_t words = codes->rank >= 2 ? codes->shape[codes->rank - 1] : 0;
    if (!as)
        return false;
    m.group = number_of(&m, "group_size", as->group);
    m.bits = number_of(&m, "bits", as->bits);
    if (as == &modes[0] ? affine_format(&m) == WEFT_DTYPE_NONE
                        : m.bits != as->bits || m.group != as->group)
        return engine_fail(err, "%s has %lld bits in groups of %lld, which weft cannot read",
                           parts->module, (long long)m.bits, (long long)m.group);
    if (words >= 1 && words <= INT32_MAX) {
        m.cols = words * 32 / m.bits;
        m.rows = codes->element_count / words;
    }
    if (m.cols < 1 || m.cols % m.group != 0 || m.cols * m.bits != words * 32 ||
        !is_beside(&m, scales) || (as != &modes[0] && scales->dtype != SAFETENSORS_U8))
        return engine_fail(err, "the scales of %s do not fit its weights; %s", parts->module,
                           DAMAGED);
    to->shape[0] = m.cols;
    return as->make(&m, to);
}
