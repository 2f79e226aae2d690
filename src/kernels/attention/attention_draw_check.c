// SPDX-License-Identifier: MIT
// Which problems weft-check puts to attention: kernels of one format get what they serve, those of any
// format everything else as well.
#include <math.h>

#include "src/base/half.h"
#include "src/formats/row.h"
#include "src/kernels/attention/attention_problem.h"
#include "src/kernels/check.h"

static bool is_byte(weft_dtype dtype)
{
    return weft_dtype_block_bytes(dtype) == 1;
}

float weft__problem_load(weft_dtype dtype, const void *from, int64_t at)
{
    float x;
    if (is_byte(dtype)) {
        weft__row_decoder(dtype)((const char *)from + at, 1, &x);
        return x;
    }
    if (dtype == WEFT_F32)
        return ((const float *)from)[at];
    uint16_t half = ((const uint16_t *)from)[at];
    return dtype == WEFT_F16 ? weft__f16_to_f32(half) : weft__bf16_to_f32(half);
}

static bool one_in(struct check_case *c, int n)
{
    return check_range(c, 1, n) == 1;
}

static weft_dtype draw_plain(struct check_case *c)
{
    return (weft_dtype)check_pick(c, 3, WEFT_F32, WEFT_F16, WEFT_BF16);
}

static weft_dtype draw_format(struct check_case *c)
{
    return (weft_dtype)check_pick(c, 12, WEFT_F32, WEFT_F16, WEFT_BF16, WEFT_FP8_E4M3,
                                  WEFT_FP8_E5M2, WEFT_INT8, WEFT_Q8_0, WEFT_Q5_1, WEFT_Q5_0,
                                  WEFT_Q4_1, WEFT_Q4_0, WEFT_IQ4_NL);
}

static int32_t draw_dim(struct check_case *c, int32_t most, int32_t step)
{
    int32_t dim = one_in(c, 2) ? (int32_t)check_pick(c, 4, 64, 128, 96, 256)
                               : step * (int32_t)check_range(c, 1, most / step);
    return dim > most ? most : dim;
}

// Groups of elements that lie together: a divisor of dim in whole blocks.
static int32_t draw_inner(struct check_case *c, int32_t dim, int32_t block)
{
    int32_t inner = block > 1 ? block : (int32_t)check_pick(c, 3, 1, 4, 8);
    return one_in(c, 4) && dim % inner == 0 ? inner : 0;
}

static weft_kv_scaling draw_scaling(struct check_case *c, weft_dtype dtype)
{
    if (weft_dtype_block_elems(dtype) > 1)
        return WEFT_KV_SCALING_NONE;
    bool narrow = weft_dtype_block_bytes(dtype) == 1;
    return narrow ? (weft_kv_scaling)check_range(c, 0, 1)
                  : (weft_kv_scaling)(one_in(c, 6) ? WEFT_KV_SCALING_GIVEN : 0);
}

// What only kernels of any format serve.
static void draw_cache(struct check_case *c, struct problem *p)
{
    weft_kv_layout *kv = &p->desc.kv;
    kv->dtype = draw_format(c);
    kv->v_dtype = one_in(c, 2) ? draw_format(c) : WEFT_DTYPE_NONE;
    weft_dtype v_dtype = kv->v_dtype ? kv->v_dtype : kv->dtype;
    int32_t k_block = weft_dtype_block_elems(kv->dtype), v_block = weft_dtype_block_elems(v_dtype);
    int32_t most = one_in(c, 5) ? 1024 : 256, block = k_block > v_block ? k_block : v_block;
    kv->head_dim = draw_dim(c, most, block > 8 ? block : 8);
    if (one_in(c, 3))
        kv->v_dim = draw_dim(c, most, block > 8 ? block : 8);
    kv->inner = draw_inner(c, kv->head_dim, k_block);
    kv->v_inner = draw_inner(c, kv->v_dim ? kv->v_dim : kv->head_dim, v_block);
    kv->scaling = draw_scaling(c, kv->dtype);
    kv->v_scaling = draw_scaling(c, v_dtype);
    if (one_in(c, 2))
        p->desc.mask = (weft_mask)check_range(c, WEFT_MASK_TREE, WEFT_MASK_BITS);
    if (one_in(c, 8)) {
        p->desc.flags |= WEFT_ATTENTION_MASK_VALUE;
        p->desc.mask_value = one_in(c, 2) ? -2.4e38f : (float)check_range(c, -20, 0);
    }
}

static void draw_sparse(struct check_case *c, weft_attention_desc *desc)
{
    if (desc->mask != WEFT_MASK_TREE && one_in(c, 4)) {
        desc->flags |= WEFT_ATTENTION_SPARSE;
        desc->sparse_block = (int32_t)check_pick(c, 5, 1, 8, 16, 64, 23);
        desc->sparse_local = (int32_t)check_range(c, 0, 4);
        desc->sparse_stride = (int32_t)check_range(c, 1, 6);
        desc->sparse_head_step = (int32_t)check_range(c, -2, 2);
        desc->sparse_rank = (int32_t)check_range(c, 0, 2);
    }
    if (one_in(c, 4)) {
        desc->flags |= WEFT_ATTENTION_SPARSE_LISTS;
        desc->flags |= one_in(c, 2) ? WEFT_ATTENTION_SPARSE_HEADS : 0;
        desc->sparse_queries = (int32_t)check_pick(c, 3, 1, 16, 5);
        desc->sparse_keys = (int32_t)check_pick(c, 4, 1, 16, 64, 37);
    }
}

// What changes speed and the order of sums at most.
static void draw_tiles(struct check_case *c, weft_attention_desc *desc)
{
    int32_t group = desc->num_q_heads / desc->kv.num_kv_heads;
    if (one_in(c, 4))
        desc->tile_heads = (int32_t)check_range(c, 1, group);
    while (desc->tile_heads > 1 && group % desc->tile_heads != 0)
        desc->tile_heads--;
    if (one_in(c, 4))
        desc->block_keys = (int32_t)check_range(c, 1, 64);
    desc->stages = one_in(c, 6) ? 1 : 0;
    if (one_in(c, 6))
        desc->flags |= WEFT_ATTENTION_GENERIC;
}

// Some kernels know trees on intervals alone (weft__attention_is_late()).
static void drop_windows(const struct check_case *c, weft_attention_desc *desc)
{
    const struct weft__attention_kernel *kernel = (const void *)c->kernel;
    if (desc->mask == WEFT_MASK_TREE && kernel->kv && !kernel->every_mask)
        desc->window = desc->local_chunk = 0;
}

// What no kernel minds.
static void draw_common(struct check_case *c, weft_attention_desc *desc)
{
    *desc = (weft_attention_desc){.size = sizeof *desc, .variant = c->kernel->name};
    desc->kv.num_kv_heads = (int32_t)check_pick(c, 5, 1, 2, 3, 1, 4);
    desc->kv.page_size = (int32_t)check_pick(c, 9, 1, 2, 5, 16, 64, 128, 3, 17, 256);
    desc->num_q_heads = desc->kv.num_kv_heads *
                        (int32_t)check_pick(c, 14, 1, 2, 3, 4, 5, 6, 7, 8, 12, 4, 17, 24, 33, 100);
    desc->mask = one_in(c, 4) ? WEFT_MASK_FULL : WEFT_MASK_CAUSAL;
    desc->num_splits = (int32_t)check_pick(c, 6, 0, 1, 2, 3, 7, 0);
    if (one_in(c, 3))
        desc->window = (int32_t)check_length(c, 200, 32);
    if (one_in(c, 4))
        desc->softcap = check_range(c, 0, 5) ? (float)check_pick(c, 3, 15, 30, 50)
                                             : exp2f((float)check_range(c, -99, 99));
    if (one_in(c, 4))
        desc->scale = check_uniform(c, -0.5f, 0.5f);
    if (one_in(c, 4))
        desc->flags = WEFT_ATTENTION_BATCH_INVARIANT;
    if (one_in(c, 5))
        desc->flags |= WEFT_ATTENTION_SINKS;
    if (one_in(c, 6))
        desc->local_chunk = (int32_t)check_length(c, 300, 64);
    desc->q_dtype = one_in(c, 3) ? draw_plain(c) : WEFT_DTYPE_NONE;
    if (one_in(c, 8))
        desc->q_dtype = (weft_dtype)check_pick(c, 2, WEFT_FP8_E4M3, WEFT_FP8_E5M2);
    if (one_in(c, 4))
        desc->tile_rows = (int32_t)check_range(c, 1, 200);
    if (desc->num_splits == 0 && one_in(c, 4))
        desc->chunk_keys = (int32_t)check_length(c, 400, 64);
    desc->out_dtype = one_in(c, 3) ? draw_plain(c) : WEFT_DTYPE_NONE;
    const bool compiled = c->reference && c->reference != c->context;
    if (!compiled && !((const struct weft__attention_kernel *)(const void *)c->kernel)->q &&
        one_in(c, 8))
        desc->flags |= WEFT_ATTENTION_PRECISE;
    draw_tiles(c, desc);
}

// Single tokens of several KV heads behind many keys, which kernels read beside each other: in one chunk, or in many.
static void draw_together(struct check_case *c, struct problem *p)
{
    weft_attention_desc *desc = &p->desc;
    p->together = true;
    desc->kv.num_kv_heads = (int32_t)check_pick(c, 4, 2, 3, 4, 8);
    desc->num_q_heads = desc->kv.num_kv_heads * (int32_t)check_pick(c, 5, 1, 2, 3, 4, 8);
    desc->kv.head_dim = (int32_t)check_pick(c, 4, 64, 128, 96, 32);
    if (!one_in(c, 4))
        desc->kv.page_size = (int32_t)check_pick(c, 5, 1, 4, 16, 64, 256);
    desc->window = desc->local_chunk = desc->chunk_keys = desc->tile_heads = 0;
    desc->num_splits = one_in(c, 4) ? 9 : 1;
    desc->flags &= ~(uint32_t)(WEFT_ATTENTION_BATCH_INVARIANT | WEFT_ATTENTION_GENERIC);
}

void weft__problem_draw_shape(struct check_case *c, struct problem *p)
{
    weft_attention_desc *desc = &p->desc;
    const struct weft__attention_kernel *kernel = (const void *)c->kernel;
    const weft_dtype format = kernel->kv;
    draw_common(c, desc);
    desc->kv.dtype = format;
    const bool bytes = format && weft_dtype_block_bytes(format) == 1;
    desc->kv.head_dim = draw_dim(c, 256, bytes ? 16 : 8);
    if (bytes) {
        desc->kv.scaling = draw_scaling(c, format);
        desc->kv.v_scaling = draw_scaling(c, format);
    }
    if (kernel->q)
        desc->q_dtype = kernel->q;
    if (kernel->narrow_queries && !one_in(c, 4)) {
        desc->q_dtype = format;
        desc->kv.head_dim = (int32_t)check_pick(c, 3, 64, 128, 256);
    }
    if (!format) {
        draw_cache(c, p);
        draw_sparse(c, desc);
    } else if ((kernel->every_mask || kernel->late_masks) && one_in(c, 3)) {
        desc->mask = (weft_mask)check_range(c, WEFT_MASK_TREE, WEFT_MASK_BITS);
    } else if (kernel->every_mask && one_in(c, 3)) {
        draw_sparse(c, desc);
    }
    if (format && one_in(c, 6))
        draw_together(c, p);
    drop_windows(c, desc);
    if (desc->mask == WEFT_MASK_FULL && !p->together && one_in(c, 3))
        desc->window_right = (int32_t)check_length(c, 60, 16);
    if (desc->mask != WEFT_MASK_TREE && one_in(c, 6))
        desc->flags |= WEFT_ATTENTION_ALIBI;
    p->key_dim = desc->kv.head_dim;
    p->value_dim = desc->kv.v_dim ? desc->kv.v_dim : desc->kv.head_dim;
    p->scale = desc->scale != 0 ? desc->scale : 1 / sqrtf((float)desc->kv.head_dim);
}

// Not the same again: what kernels are not compiled for (attention_plan_cuda.h, attention_any_cuda.c has their
// constants).
void weft__problem_draw_modes(struct check_case *c, struct problem *p)
{
    weft_attention_desc *desc = &p->desc;
    desc->kv.num_kv_heads = (int32_t)check_pick(c, 5, 1, 2, 3, 1, 4);
    desc->num_q_heads =
        desc->kv.num_kv_heads * (int32_t)check_pick(c, 12, 1, 2, 3, 4, 5, 6, 7, 8, 12, 4, 17, 33);
    if (desc->mask == WEFT_MASK_CAUSAL || desc->mask == WEFT_MASK_FULL)
        desc->mask = one_in(c, 4) ? WEFT_MASK_FULL : WEFT_MASK_CAUSAL;
    desc->num_splits = (int32_t)check_pick(c, 6, 0, 1, 2, 3, 7, 0);
    desc->chunk_keys =
        desc->num_splits == 0 && one_in(c, 4) ? (int32_t)check_length(c, 400, 64) : 0;
    desc->window = one_in(c, 3) ? (int32_t)check_length(c, 200, 32) : 0;
    desc->window_right =
        desc->mask == WEFT_MASK_FULL && one_in(c, 3) ? (int32_t)check_length(c, 60, 16) : 0;
    desc->local_chunk = one_in(c, 6) ? (int32_t)check_length(c, 300, 64) : 0;
    drop_windows(c, desc);
    if (desc->softcap > 0)
        desc->softcap = check_range(c, 0, 5) ? (float)check_pick(c, 3, 15, 30, 50)
                                             : exp2f((float)check_range(c, -99, 99));
    desc->scale = one_in(c, 4) ? check_uniform(c, -0.5f, 0.5f) : 0;
    desc->flags &= ~(uint32_t)(WEFT_ATTENTION_BATCH_INVARIANT | WEFT_ATTENTION_SINKS);
    desc->flags |= one_in(c, 4) ? WEFT_ATTENTION_BATCH_INVARIANT : 0;
    desc->flags |= one_in(c, 5) ? WEFT_ATTENTION_SINKS : 0;
    desc->tile_heads = desc->block_keys = 0;
    draw_tiles(c, desc);
    p->scale = desc->scale != 0 ? desc->scale : 1 / sqrtf((float)desc->kv.head_dim);
}

// A sequence's queries and keys that fit together.
static void draw_sequence(struct check_case *c, struct problem *p, int32_t s, int64_t style,
                          int64_t most_keys, int64_t budget)
{
    const weft_attention_desc *desc = &p->desc;
    if (p->together && !p->kind.held) {
        p->q_lens[s] = 1;
        p->kv_lens[s] =
            (int32_t)check_range(c, 300, 600 + 6 * budget > 5000 ? 5000 : 600 + 6 * budget);
        return;
    }
    int32_t kv_len = (int32_t)check_length(c, most_keys, 64);
    int64_t most_q = budget / p->args.num_seqs / kv_len;
    most_q = most_q < 1 ? 1 : most_q > 150 ? 150 : most_q;
    int32_t q_len = style == 0 ? 1 : (int32_t)check_length(c, most_q, 16);
    if (style == 2 && one_in(c, 2))
        q_len = 1;
    if (one_in(c, 10))
        q_len = 0;
    bool own_keys = desc->mask == WEFT_MASK_CAUSAL || desc->mask == WEFT_MASK_TREE ||
                    desc->mask == WEFT_MASK_BITS;
    if (own_keys && kv_len < q_len)
        kv_len = q_len;
    if (one_in(c, 10) && (!own_keys || q_len == 0))
        kv_len = 0;
    p->q_lens[s] = q_len;
    p->kv_lens[s] = kv_len;
}

static bool may_ring(const weft_attention_desc *desc)
{
    return desc->window > 0 && !(desc->flags & WEFT_ATTENTION_MASK_VALUE);
}

struct problem_kind weft__problem_draw_kind(struct check_case *c, const struct problem *p)
{
    return (struct problem_kind){
        .held = true, .single = one_in(c, 3), .ring = may_ring(&p->desc) && one_in(c, 3)};
}

// Splits alone of what modes are: chunks, or shares, as before.
static void draw_splits(struct check_case *c, weft_attention_desc *desc)
{
    if (desc->num_splits > 0)
        desc->num_splits = (int32_t)check_range(c, 1, 7);
    if (desc->chunk_keys > 0)
        desc->chunk_keys = (int32_t)check_length(c, 400, 64);
}

void weft__problem_draw_lengths(struct check_case *c, struct problem *p)
{
    // Prefill, decode, both; now and then long sequences, or a single one; costs stay around 10^7 products.
    weft_attention_desc *desc = &p->desc;
    const struct problem_kind kind = p->kind;
    int64_t style = kind.held ? (kind.single ? 0 : check_range(c, 1, 3)) : check_range(c, 0, 3);
    int64_t most_keys = 600;
    if (kind.held)
        draw_splits(c, desc);
    int64_t budget = 3000000 / (desc->num_q_heads * (int64_t)(p->key_dim + p->value_dim) / 2);
    p->args.num_seqs = (int32_t)check_range(c, 1, p->together ? 2 : PROBLEM_MOST_SEQS);
    if (style == 0 && one_in(c, 3)) {
        if (one_in(c, 2))
            p->args.num_seqs = 1;
        most_keys = 200 + 5 * budget / p->args.num_seqs;
        most_keys = most_keys > 20000 ? 20000 : most_keys;
    }
    int32_t total = 0, longest = 0, most_q = 0;
    for (int32_t s = 0; s < p->args.num_seqs; s++) {
        draw_sequence(c, p, s, style, most_keys, budget);
        total += p->q_lens[s];
        longest = p->kv_lens[s] > longest ? p->kv_lens[s] : longest;
        most_q = p->q_lens[s] > most_q ? p->q_lens[s] : most_q;
    }
    if (kind.held ? kind.ring : may_ring(desc) && one_in(c, 3))
        desc->ring_len = desc->window + most_q - 1 + (int32_t)check_range(c, 0, 20);
    desc->ring_len = desc->ring_len < 1 && desc->ring_len ? 1 : desc->ring_len;
    desc->max_seqs = p->args.num_seqs + (int32_t)check_range(c, 0, 2);
    const int32_t more = (int32_t)check_range(c, 0, 40); // none half of the time
    desc->max_q_tokens = total + (more > 20 ? more : 0);
    if (kind.held) // which decides whether there is prefill
        desc->max_q_tokens = kind.single ? total : desc->max_seqs + 1 + total;
    desc->max_kv_len = longest + (int32_t)check_range(c, 0, 100);
    bool padded = one_in(c, desc->flags & WEFT_ATTENTION_MASK_VALUE ? 2 : 6);
    for (int32_t s = 0; s < p->args.num_seqs && padded; s++)
        p->starts[s] = one_in(c, 3) ? p->kv_lens[s] : (int32_t)check_range(c, 0, p->kv_lens[s]);
    if (padded) {
        int32_t *starts = check_buffer(c, sizeof *starts * (size_t)p->args.num_seqs, 4);
        memcpy(starts, p->starts, sizeof *starts * (size_t)p->args.num_seqs);
        p->args.kv_starts = starts;
    }
}

static bool is_ancestor(const struct problem *p, int32_t s, int32_t above, int32_t token)
{
    const int32_t *parents = p->args.tree_parents + p->args.cu_q_lens[s];
    while (token > above)
        token = parents[token];
    return token == above;
}

static int32_t depth(const struct problem *p, int32_t s, int32_t token)
{
    int32_t steps = 0;
    for (; token >= 0; token = p->args.tree_parents[p->args.cu_q_lens[s] + token])
        steps++;
    return steps - 1;
}

static bool bit_is_set(const struct problem *p, int32_t s, int32_t token, int32_t t)
{
    int32_t column = t - (p->kv_lens[s] - p->columns[s]);
    const uint32_t *row = p->args.mask_bits + (p->args.cu_q_lens[s] + token) * p->args.mask_stride;
    return column < 0 || (row[column / 32] >> column % 32 & 1) != 0;
}

static bool in_bands(const weft_attention_desc *desc, int32_t own, int32_t head, int32_t t)
{
    int32_t kv_head = head / (desc->num_q_heads / desc->kv.num_kv_heads),
            step = desc->sparse_head_step;
    int32_t offset = step * (desc->sparse_rank * desc->num_q_heads + head) + 1;
    if (step < 0)
        offset = (desc->sparse_rank * desc->kv.num_kv_heads + kv_head) * -step + 1;
    int32_t block = t / desc->sparse_block;
    return block > floor((double)own / desc->sparse_block) - desc->sparse_local ||
           (block + offset) % desc->sparse_stride == 0;
}

static bool in_list(const struct problem *p, int32_t s, int32_t token, int32_t head, int32_t t)
{
    const weft_attention_desc *desc = &p->desc;
    int32_t kv_head = head / (desc->num_q_heads / desc->kv.num_kv_heads);
    int32_t list = p->args.sparse_first[s] + token / desc->sparse_queries;
    if (desc->flags & WEFT_ATTENTION_SPARSE_HEADS)
        list = list * desc->kv.num_kv_heads + kv_head;
    for (int32_t i = p->args.sparse_starts[list]; i < p->args.sparse_starts[list + 1]; i++)
        if (p->args.sparse_blocks[i] == t / desc->sparse_keys)
            return true;
    return false;
}

bool weft__problem_sees(const struct problem *p, int32_t s, int32_t token, int32_t head, int32_t t)
{
    const weft_attention_desc *desc = &p->desc;
    int32_t old = p->kv_lens[s] - p->q_lens[s]; // keys before the new ones
    int32_t own = old + token, at = t;          // positions of the query and of the key
    if (desc->mask == WEFT_MASK_TREE) {
        own = old + depth(p, s, token);
        at = t < old ? t : old + depth(p, s, t - old);
        if (t >= old && !is_ancestor(p, s, t - old, token))
            return false;
    }
    if (t < p->starts[s] || (desc->mask == WEFT_MASK_CAUSAL && at > own) ||
        (desc->mask == WEFT_MASK_BITS && !bit_is_set(p, s, token, t)))
        return false;
    if (desc->flags & WEFT_ATTENTION_SPARSE && !in_bands(desc, own, head, t))
        return false;
    if (desc->flags & WEFT_ATTENTION_SPARSE_LISTS && !in_list(p, s, token, head, t))
        return false;
    if (desc->window > 0 && at <= own - desc->window)
        return false;
    if (desc->window_right > 0 && at > own + desc->window_right)
        return false;
    return desc->local_chunk == 0 || own < 0 || at / desc->local_chunk >= own / desc->local_chunk;
}
