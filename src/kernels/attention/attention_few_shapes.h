// SPDX-License-Identifier: MIT
// Few rows: which text serves a head's format, dim and rows. Part of attention_few.h.
#ifndef WEFT_KERNELS_ATTENTION_FEW_SHAPES_H
#define WEFT_KERNELS_ATTENTION_FEW_SHAPES_H

// WEFT_FEW_SHAPES: one head_dim is a constant and the others share a text, for builds that compile slowly
// (cmake/isa_flags.cmake).
#ifdef WEFT_FEW_SHAPES
enum { EVEN_DIM = 128 };
#else
enum { EVEN_DIM = 64 }; // beside 128
#endif

INLINE void attend_by_parts(struct state *s, int32_t count, weft_dtype kv, const int32_t head_dim)
{
    struct shape shape = shape_of(kv, FEW_ROWS, head_dim);
    shape.by_parts = true;
    shape.in_order = __builtin_constant_p(head_dim) && head_dim * elem_bytes(shape) % LINE == 0;
    attend_shape(s, count, shape);
}

// Do keys and values lie at even distances, turn by turn?
INLINE bool lies_evenly(const struct state *s, int32_t count)
{
    const struct weft__attention_call *call = s->call;
    int32_t begins = 0;
    for (int32_t i = 0; i < count; i++)
        begins |= s->tile[i].key0;
    return ((call->page_size | call->ring_len | call->block_keys | begins) & (EVEN_KEYS - 1)) == 0;
}

// Heads of whole lines, where turns are short. Pieces of 4 KB side by side are read faster but where keys of 256 bytes under
// few rows come in long pages. False: they are not for these.
INLINE bool attend_short(struct state *s, int32_t count, weft_dtype kv, const int rows)
{
    const bool even = lies_evenly(s, count);
    if (!SHORT_TURNS || (kv != WEFT_F16 && kv != WEFT_BF16) || s->call->by_parts ||
        s->call->generic)
        return false;
    if (even && s->call->k.dim == 128 && (rows == FEW_ROWS || s->call->page_size < BLOCK))
        attend_shape(s, count, short_shape_of(kv, rows, 128, true, true));
    else if (even && s->call->k.dim == 128)
        attend_shape(s, count, short_shape_of(kv, rows, 128, true, rows == FEW_ROWS));
    else if (even && EVEN_DIM != 128 && s->call->k.dim == EVEN_DIM)
        attend_shape(s, count, short_shape_of(kv, rows, EVEN_DIM, true, true));
    else if (rows < FEW_ROWS && s->call->k.dim == 128)
        attend_shape(s, count, short_shape_of(kv, rows, 128, false, false));
    else
        return false;
    return true;
}

INLINE void attend_rows(struct state *s, int32_t count, weft_dtype kv, const int rows)
{
    if (attend_short(s, count, kv, rows))
        return;
    if (PART_KEYS > 0 && rows == FEW_ROWS && is_wide(kv) && s->call->by_parts) {
        switch (s->call->generic ? 0 : s->call->k.dim) {
        case 128: attend_by_parts(s, count, kv, 128); break;
#ifndef WEFT_FEW_SHAPES
        case 64: attend_by_parts(s, count, kv, 64); break;
#endif
        default: attend_by_parts(s, count, kv, s->call->k.dim);
        }
        return;
    }
    const bool bytes = kv == WEFT_INT8 || kv == WEFT_FP8_E4M3 || kv == WEFT_FP8_E5M2;
    const bool common = (kv == WEFT_F16 || kv == WEFT_BF16) && !s->call->generic;
    if (bytes && !s->call->generic && s->call->k.dim == 128) {
        struct shape shape = shape_of(kv, rows, 128);
        shape.by_32 = true;
        attend_shape(s, count, shape);
        return;
    }
    switch (common ? s->call->k.dim : 0) {
    case 128: attend_shape(s, count, shape_of(kv, rows, 128)); break;
#ifndef WEFT_FEW_SHAPES
    case 64: attend_shape(s, count, shape_of(kv, rows, 64)); break;
    case 80: attend_shape(s, count, shape_of(kv, rows, 80)); break;
    case 96: attend_shape(s, count, shape_of(kv, rows, 96)); break;
    case 192: attend_shape(s, count, shape_of(kv, rows, 192)); break;
    case 256: attend_shape(s, count, shape_of(kv, rows, 256)); break;
#endif
    default: attend_shape(s, count, shape_of(kv, rows, s->call->k.dim));
    }
}

INLINE void attend_few(struct state *s, int32_t count, weft_dtype kv)
{
    if (s->rows > FEW_ROWS / 2)
        attend_rows(s, count, kv, FEW_ROWS);
    else
        attend_rows(s, count, kv, FEW_ROWS / 2);
}

// Keys and values of a byte or less.
static void attend_codes(struct state *s, int32_t count)
{
    switch (s->call->k.dtype) {
    case WEFT_INT8: attend_few(s, count, WEFT_INT8); break;
    case WEFT_FP8_E4M3: attend_few(s, count, WEFT_FP8_E4M3); break;
    case WEFT_FP8_E5M2: attend_few(s, count, WEFT_FP8_E5M2); break;
    case WEFT_Q8_0: attend_few(s, count, WEFT_Q8_0); break;
    case WEFT_Q5_0: attend_few(s, count, WEFT_Q5_0); break;
    case WEFT_Q4_0: attend_few(s, count, WEFT_Q4_0); break;
    case WEFT_IQ4_NL: attend_few(s, count, WEFT_IQ4_NL); break;
    default: break; // no other format comes here: s would be left as it was
    }
}

#endif
