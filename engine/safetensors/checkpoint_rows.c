// SPDX-License-Identifier: MIT
// Rows of matrices in the order that GGUF files have them in.
#include <string.h>

#include <weft/format.h>

#include "engine/base/checked.h"
#include "engine/safetensors/checkpoint_parts.h"

#define DAMAGED "the model is damaged or of another kind: download it again"

weft_dtype checkpoint_dtype(safetensors_dtype dtype)
{
    switch (dtype) {
    case SAFETENSORS_F32: return WEFT_F32;
    case SAFETENSORS_F16: return WEFT_F16;
    case SAFETENSORS_BF16: return WEFT_BF16;
    case SAFETENSORS_F8_E4M3: return WEFT_FP8_E4M3;
    case SAFETENSORS_F8_E5M2: return WEFT_FP8_E5M2;
    case SAFETENSORS_I8: return WEFT_INT8;
    case SAFETENSORS_U8:
    case SAFETENSORS_I32:
    case SAFETENSORS_U32:
    case SAFETENSORS_OTHER: break;
    }
    return WEFT_DTYPE_NONE;
}

static int64_t rows_of(const gguf_tensor *to)
{
    return to->rank > 1 ? to->shape[1] : to->shape[0];
}

static bool fail_memory(const gguf_tensor *to, engine_error *err)
{
    return engine_fail(err, "out of memory for %s; close other programs", to->name);
}

// Where the row that becomes `row` comes from.
typedef struct order {
    checkpoint_rows rows;
    checkpoint_qkv qkv;
    int64_t q_heads, kv_heads, head_dim;
} order;

// Row 2 i + h of a head comes from row h * head_dim / 2 + i.
static int64_t from_halves(int64_t row, int64_t head_dim)
{
    int64_t i = row % head_dim;
    return row - i + i % 2 * (head_dim / 2) + i / 2;
}

// Rows are all queries, all keys, all values; they come from groups of the queries that share a key, the key
// and the value.
static int64_t from_groups(const order *o, int64_t row)
{
    int64_t head = row / o->head_dim, share = o->q_heads / o->kv_heads, group, place;
    if (head < o->q_heads) {
        group = head / share;
        place = head % share;
    } else {
        group = (head - o->q_heads) % o->kv_heads;
        place = share + (head - o->q_heads) / o->kv_heads;
    }
    return (group * (share + 2) + place) * o->head_dim + row % o->head_dim;
}

static void *reordered(checkpoint *c, const order *o, const void *from, int64_t rows,
                       size_t row_bytes)
{
    char *copy = checkpoint_alloc(c, (size_t)rows * row_bytes);
    for (int64_t row = 0; copy && row < rows; row++) {
        int64_t source =
            o->rows == CHECKPOINT_ROWS_FUSED ? from_groups(o, row) : from_halves(row, o->head_dim);
        memcpy(copy + (size_t)row * row_bytes, (const char *)from + (size_t)source * row_bytes,
               row_bytes);
    }
    return copy;
}

// With the rows go the scales that belong to single ones.
static bool reorder(checkpoint *c, const order *o, gguf_tensor *to, engine_error *err)
{
    int64_t rows = rows_of(to);
    gguf_planes *planes = &to->planes;
    to->data = reordered(c, o, to->data, rows, (size_t)(to->size_bytes / (size_t)rows));
    bool good = to->data != NULL;
    if (planes->scales && planes->scale_rows == 1) {
        int64_t count = (to->shape[0] + planes->scale_cols - 1) / planes->scale_cols;
        size_t bytes = (size_t)(count * weft_dtype_block_bytes(planes->scale_dtype));
        planes->scales = reordered(c, o, planes->scales, rows, bytes);
        planes->biases = planes->biases ? reordered(c, o, planes->biases, rows, bytes) : NULL;
        good = good && planes->scales;
    } else if (planes->scales && planes->scale_rows < rows &&
               (o->rows == CHECKPOINT_ROWS_FUSED || planes->scale_rows % o->head_dim)) {
        return engine_fail(err, "%s has scales for parts of a head, which weft cannot read yet",
                           to->name);
    }
    return good || fail_memory(to, err);
}

bool checkpoint_order_rows(checkpoint *c, checkpoint_rows rows, gguf_tensor *to, engine_error *err)
{
    order o = {rows, c->family->qkv, c->q_heads, c->kv_heads, 0};
    int64_t count = rows_of(to),
            heads = rows == CHECKPOINT_ROWS_OF_QUERIES ? o.q_heads : o.kv_heads;
    bool fused = rows == CHECKPOINT_ROWS_FUSED && o.qkv != CHECKPOINT_QKV_APART;
    bool paired = rows == CHECKPOINT_ROWS_OF_QUERIES || rows == CHECKPOINT_ROWS_OF_KEYS;
    if (!fused && !(paired && c->family->halves))
        return true;
    if (fused)
        heads = o.q_heads + 2 * o.kv_heads;
    o.head_dim = heads > 0 && count % heads == 0 ? count / heads : 0;
    if (o.head_dim == 0 || (paired && o.head_dim % 2 != 0) || (fused && o.q_heads % o.kv_heads))
        return engine_fail(err, "%s has %lld rows, not the same number for each of %lld heads; %s",
                           to->name, (long long)count, (long long)heads, DAMAGED);
    return reorder(c, &o, to, err);
}

// Columns of `size` bytes become rows.
static void transpose(char *to, const char *from, int64_t rows, int64_t cols, size_t size)
{
    for (int64_t row = 0; row < rows; row++)
        for (int64_t col = 0; col < cols; col++)
            memcpy(to + (size_t)(row * cols + col) * size, from + (size_t)(col * rows + row) * size,
                   size);
}

bool checkpoint_transpose(checkpoint *c, gguf_tensor *to, engine_error *err)
{
    int64_t rows = to->shape[0], cols = to->shape[1];
    size_t size = (size_t)weft_dtype_block_bytes(to->dtype);
    if (to->planes.scales || weft_dtype_block_elems(to->dtype) != 1)
        return engine_fail(err, "%s in codes cannot be read yet: its columns lie one by one",
                           to->name);
    char *copy = checkpoint_alloc(c, to->size_bytes);
    if (!copy)
        return fail_memory(to, err);
    transpose(copy, to->data, rows, cols, size);
    to->data = copy;
    to->shape[0] = cols;
    to->shape[1] = rows;
    return true;
}

bool checkpoint_split_latent(checkpoint *c, const gguf_tensor *whole, gguf_tensor to[2],
                             engine_error *err)
{
    int64_t plain = c->plain_dim, value = c->value_dim, rank = whole->shape[0], per_head;
    size_t size = (size_t)weft_dtype_block_bytes(whole->dtype), bytes;
    if (!checked_add_i64(plain, value, &per_head) || whole->rank != 2 || plain < 1 || value < 1 ||
        whole->shape[1] % c->q_heads != 0 || whole->shape[1] / c->q_heads != per_head)
        return engine_fail(err, "%s has %lld rows, not %lld and %lld for each of %lld heads; %s",
                           whole->name, (long long)whole->shape[1], (long long)plain,
                           (long long)value, (long long)c->q_heads, DAMAGED);
    const int64_t rows[2] = {plain, value};
    for (int part = 0; part < 2; part++) {
        char name[GGUF_MAX_NAME_BYTES + 1];
        memcpy(name, to[part].name, sizeof name);
        to[part] = *whole;
        memcpy(to[part].name, name, sizeof name);
        bytes = (size_t)(rows[part] * rank) * size; // of a head; not more than the whole
        char *copy = checkpoint_alloc(c, bytes * (size_t)c->q_heads);
        if (!copy)
            return fail_memory(whole, err);
        for (int64_t head = 0; head < c->q_heads; head++) {
            const char *from = (const char *)whole->data +
                               (size_t)((head * per_head + part * plain) * rank) * size;
            if (part == 0) // [plain][rank] becomes [rank][plain]
                transpose(copy + (size_t)head * bytes, from, rank, plain, size);
            else
                memcpy(copy + (size_t)head * bytes, from, bytes);
        }
        to[part].data = copy;
        to[part].rank = 3;
        to[part].shape[0] = part ? rank : plain;
        to[part].shape[1] = part ? value : rank;
        to[part].shape[2] = c->q_heads;
        to[part].element_count = rows[part] * rank * c->q_heads;
        to[part].size_bytes = bytes * (size_t)c->q_heads;
    }
    return true;
}

bool checkpoint_decode(checkpoint *c, gguf_tensor *to, engine_error *err)
{
    const gguf_planes *planes = &to->planes;
    const int64_t cols = to->shape[0], rows = to->element_count / cols;
    const int64_t row_bytes = weft_dtype_row_bytes(to->dtype, cols);
    size_t bytes;
    if (!planes->scales && weft_dtype_block_elems(to->dtype) == 1 &&
        weft_dtype_block_bytes(to->dtype) > 1)
        return true;
    float *y = checked_mul((size_t)to->element_count, sizeof *y, &bytes)
                   ? checkpoint_alloc(c, bytes)
                   : NULL;
    if (!y)
        return fail_memory(to, err);
    weft_row_planes from = {.size = sizeof from,
                            .dtype = to->dtype,
                            .scale_dtype = planes->scale_dtype,
                            .scale_elems = planes->scale_cols};
    for (int64_t row = 0; row < rows; row++) {
        from.data = (const char *)to->data + row * row_bytes;
        if (planes->scales) {
            int64_t at =
                row / planes->scale_rows *
                weft_dtype_row_bytes(planes->scale_dtype, (cols - 1) / planes->scale_cols + 1);
            from.scales = (const char *)planes->scales + at;
            from.biases = planes->biases ? (const char *)planes->biases + at : NULL;
        }
        if (weft_dequantize_planes(&from, cols, y + row * cols) != WEFT_OK)
            return engine_fail(err, "%s cannot be read as f32; %s", to->name, DAMAGED);
    }
    to->data = y;
    to->planes = (gguf_planes){.scales = NULL};
    to->dtype = WEFT_F32;
    to->type = ggml_type_of(WEFT_F32);
    to->size_bytes = bytes;
    return true;
}

void checkpoint_skip_positions(const checkpoint *c, gguf_tensor *to)
{
    int64_t skipped = c->family->first_position;
    if (skipped == 0 || strcmp(to->name, "position_embd.weight") != 0 || to->shape[1] <= skipped)
        return;
    size_t row_bytes = to->size_bytes / (size_t)to->shape[1];
    to->data = (const char *)to->data + (size_t)skipped * row_bytes;
    to->size_bytes -= (size_t)skipped * row_bytes;
    to->shape[1] -= skipped;
    to->element_count = to->shape[0] * to->shape[1];
}

bool checkpoint_widen(checkpoint *c, gguf_tensor *to, float plus, engine_error *err)
{
    float *copy = checkpoint_alloc(c, (size_t)to->element_count * sizeof *copy);
    if (!copy)
        return fail_memory(to, err);
    if (weft_dequantize_row(to->dtype, to->data, to->element_count, copy) != WEFT_OK)
        return engine_fail(err, "%s cannot be read as f32; %s", to->name, DAMAGED);
    for (int64_t i = 0; i < to->element_count; i++)
        copy[i] += plus;
    to->data = copy;
    to->dtype = WEFT_F32;
    to->type = ggml_type_of(WEFT_F32);
    to->size_bytes = (size_t)to->element_count * sizeof *copy;
    return true;
}
