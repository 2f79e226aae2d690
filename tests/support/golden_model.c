// SPDX-License-Identifier: MIT
#include "tests/support/golden_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The recipe, and how numbers come from a seed, is drawn in tests/golden/models/fill.py.
enum fill_kind {
    FILL_LITERAL,
    FILL_NORM,
    FILL_F32,
    FILL_F16,
    FILL_BF16,
    FILL_Q8_0,
    FILL_Q4_0,
    FILL_Q4_K,
    FILL_Q6_K,
    FILL_MXFP4,
    FILL_KINDS,
};

typedef struct fill_tensor {
    int64_t kind, offset, elements, seed, scale;
} fill_tensor;

static const struct {
    int elems, bytes; // of a block
    int scale_at;     // offset of the half-precision scale in a block
    int exponent;     // of that scale relative to the values'; bias of plain formats
    int mantissa_bits;
} kinds[FILL_KINDS] = {
    [FILL_LITERAL] = {1, 4, 0, 0, 0},      [FILL_NORM] = {1, 4, 0, 127, 23},
    [FILL_F32] = {1, 4, 0, 127, 23},       [FILL_F16] = {1, 2, 0, 15, 10},
    [FILL_BF16] = {1, 2, 0, 127, 7},       [FILL_Q8_0] = {32, 34, 0, -7, 0},
    [FILL_Q4_0] = {32, 18, 0, -3, 0},      [FILL_Q4_K] = {256, 144, 0, -9, 0},
    [FILL_Q6_K] = {256, 210, 208, -11, 0}, [FILL_MXFP4] = {32, 17, 0, -1, 0},
};

static uint64_t fill_word(uint64_t seed, uint64_t index)
{
    uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void store_le(uint8_t *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(value >> (8 * i));
    }
}

static void fill_plain(const fill_tensor *tensor, uint8_t *to)
{
    int mantissa_bits = kinds[tensor->kind].mantissa_bits, bytes = kinds[tensor->kind].bytes;
    for (int64_t i = 0; i < tensor->elements; i++, to += bytes) {
        uint64_t r = fill_word((uint64_t)tensor->seed, (uint64_t)i);
        uint64_t mantissa = (r >> 8) & ((UINT64_C(1) << mantissa_bits) - 1);
        uint64_t sign = r >> 63;
        int64_t exponent = kinds[tensor->kind].exponent;
        if (tensor->kind == FILL_NORM) {
            sign = 0;
            exponent -= (int64_t)(r & 1);
        } else {
            exponent += tensor->scale - __builtin_ctz((unsigned)(r & 0x7f) | 0x80);
        }
        uint64_t bits = sign << (8 * bytes - 1) | (uint64_t)exponent << mantissa_bits | mantissa;
        store_le(to, bits, bytes);
    }
}

static void fill_blocks(const fill_tensor *tensor, uint8_t *to)
{
    int bytes = kinds[tensor->kind].bytes, words = (bytes + 7) / 8;
    int64_t exponent = 15 + tensor->scale + kinds[tensor->kind].exponent;
    if (exponent < 0) {
        exponent = 0;
    }
    uint64_t next = 0;
    for (int64_t b = 0; b < tensor->elements / kinds[tensor->kind].elems; b++, to += bytes) {
        for (int w = 0; w < words; w++) {
            int left = bytes - 8 * w;
            store_le(to + 8 * w, fill_word((uint64_t)tensor->seed, next++), left < 8 ? left : 8);
        }
        uint64_t last = fill_word((uint64_t)tensor->seed, next++);
        if (tensor->kind == FILL_MXFP4) {
            *to = (uint8_t)(127 + tensor->scale + kinds[FILL_MXFP4].exponent - (int64_t)(last & 1));
            continue;
        }
        store_le(to + kinds[tensor->kind].scale_at, (last & 0x83ff) | (uint64_t)exponent << 10, 2);
        if (tensor->kind == FILL_Q4_K) {
            uint64_t minimum = (last & 0x8000) | (uint64_t)(exponent + 3) << 10;
            store_le(to + 2, minimum | (last >> 16 & 0x3ff), 2);
        }
    }
}

static uint64_t data_checksum(const uint8_t *data, size_t bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes; i++) {
        sum += (uint64_t)data[i] << (8 * (i % 8));
    }
    return sum;
}

static bool write_all(const char *path, const golden_tensor *head, const void *data, size_t bytes)
{
    FILE *stream = fopen(path, "wb");
    if (!stream) {
        return false;
    }
    bool written = fwrite(head->data, 1, head->bytes, stream) == head->bytes &&
                   fwrite(data, 1, bytes, stream) == bytes;
    return fclose(stream) == 0 && written;
}

bool golden_model_write(const golden *file, const char *path)
{
    size_t bytes = (size_t)golden_number(file, "model", "data_bytes", 0);
    const fill_tensor *tensors = golden_data(file, "model", "recipe", GOLDEN_I64);
    int64_t num_tensors = golden_find(file, "model", "recipe")->shape[0];
    const golden_tensor *literal = golden_find(file, "model", "literal");
    uint8_t *data = calloc(bytes, 1);
    if (!data) {
        fprintf(stderr, "golden: out of memory\n");
        return false;
    }
    for (int64_t i = 0; i < num_tensors; i++) {
        if (tensors[i].kind == FILL_LITERAL) {
            memcpy(data + tensors[i].offset, literal->data, literal->bytes);
        } else if (tensors[i].kind <= FILL_BF16) {
            fill_plain(&tensors[i], data + tensors[i].offset);
        } else {
            fill_blocks(&tensors[i], data + tensors[i].offset);
        }
    }
    const uint64_t *checksum = golden_data(file, "model", "checksum", GOLDEN_I64);
    bool good = data_checksum(data, bytes) == *checksum;
    if (!good) {
        fprintf(stderr, "golden: the data made for %s is not the generator's\n", path);
    } else if (!write_all(path, golden_find(file, "model", "head"), data, bytes)) {
        fprintf(stderr, "golden: cannot write %s\n", path);
        good = false;
    }
    free(data);
    return good;
}

float golden_model_distance(const golden *file, const float *logits)
{
    return golden_model_distance_of(file, logits, INT32_MAX);
}

float golden_model_distance_of(const golden *file, const float *logits, int32_t tokens)
{
    const golden_tensor *positions = golden_find(file, "model", "positions");
    const int32_t *at = positions->data;
    const float *should = golden_data(file, "model", "logits", GOLDEN_F32);
    int64_t vocab = golden_find(file, "model", "logits")->shape[1];
    float largest = 0;
    for (int64_t i = 0; i < positions->elements * vocab; i++) {
        if (at[i / vocab] >= tokens)
            continue;
        float difference = fabsf(logits[at[i / vocab] * vocab + i % vocab] - should[i]);
        if (!(difference <= largest)) {
            largest = isnan(difference) ? INFINITY : difference;
        }
    }
    return largest;
}

int32_t golden_model_wrong_choice(const golden *file, const float *logits)
{
    const int32_t *tokens = golden_data(file, "model", "tokens", GOLDEN_I32);
    int32_t prompt = (int32_t)golden_number(file, "model", "prompt", 0);
    int32_t greedy = (int32_t)golden_number(file, "model", "greedy", 0);
    int64_t vocab = golden_find(file, "model", "logits")->shape[1];
    for (int32_t i = 0; i < greedy; i++) {
        const float *row = logits + (prompt - 1 + i) * vocab;
        int32_t best = 0;
        for (int32_t t = 1; t < vocab; t++) {
            best = row[t] > row[best] ? t : best;
        }
        if (best != tokens[prompt + i]) {
            return i;
        }
    }
    return -1;
}

bool golden_model_open(golden_written *model, const char *name)
{
    model->file = golden_open(name);
    scratch_file(model->path, NULL, 0);
    if (!model->file || !golden_model_write(model->file, model->path))
        return false;
    model->tokens = golden_data(model->file, "model", "tokens", GOLDEN_I32);
    model->vocab = (int32_t)golden_number(model->file, "model", "vocab", 0);
    return true;
}

int golden_model_close(golden_written *model)
{
    golden_close(model->file);
    return scratch_remove(model->path);
}
