// SPDX-License-Identifier: MIT
#include "tests/support/attention_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Numbers in [-1, 1).
static float draw(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) * 0x1p-23f - 1;
}

static void *make_pool(const attention_case *c, int64_t elems, uint32_t seed, float **numbers)
{
    weft_dtype dtype = c->desc.kv.dtype;
    void *pool = malloc((size_t)weft_dtype_row_bytes(dtype, elems));
    *numbers = malloc((size_t)elems * sizeof **numbers);
    for (int64_t i = 0; i < elems; i++)
        (*numbers)[i] = draw(&seed);
    if (weft_quantize_row(dtype, *numbers, elems, pool) != WEFT_OK ||
        weft_dequantize_row(dtype, pool, elems, *numbers) != WEFT_OK)
        abort();
    return pool;
}

void attention_case_make(attention_case *c)
{
    const weft_kv_layout *kv = &c->desc.kv;
    int32_t longest = 0;
    for (int32_t s = 0; s < c->num_seqs; s++) {
        c->cu[s + 1] = c->cu[s] + c->q_lens[s];
        longest = c->kv_lens[s] > longest ? c->kv_lens[s] : longest;
    }
    c->table_stride = (longest + kv->page_size - 1) / kv->page_size;
    c->pages = c->num_seqs * c->table_stride;
    c->table = malloc((size_t)c->pages * sizeof *c->table);
    for (int32_t i = 0; i < c->pages; i++) // 0, n - 1, 1, n - 2, ...
        c->table[i] = i % 2 ? c->pages - 1 - i / 2 : i / 2;
    int64_t elems = (int64_t)c->pages * kv->page_size * kv->num_kv_heads * kv->head_dim;
    c->k = make_pool(c, elems, 17, &c->keys);
    c->v = make_pool(c, elems, 23, &c->values);
    c->lse_elems = (int64_t)c->cu[c->num_seqs] * c->desc.num_q_heads;
    c->out_elems = c->lse_elems * kv->head_dim;
    c->q = malloc((size_t)c->out_elems * sizeof *c->q);
    uint32_t seed = 31;
    for (int64_t i = 0; i < c->out_elems; i++)
        c->q[i] = 3 * draw(&seed);
    c->desc.size = sizeof c->desc;
    c->desc.max_seqs = c->num_seqs;
    c->desc.max_q_tokens = c->cu[c->num_seqs];
    c->desc.max_kv_len = longest;
}

void attention_case_free(attention_case *c)
{
    free(c->table);
    free(c->k);
    free(c->v);
    free(c->keys);
    free(c->values);
    free(c->q);
}

// Memory that a context's kernels reach: on a GPU its own, with a copy of what the host has.
struct room {
    weft_context *context;
    void *taken[12];
    int count;
};

static void *device_room(struct room *room, size_t bytes)
{
    void *to = NULL;
    if (room->count == (int)(sizeof room->taken / sizeof *room->taken) ||
        weft_memory_allocate(room->context, WEFT_MEMORY_DEVICE, bytes, &to) != WEFT_OK)
        abort();
    room->taken[room->count++] = to;
    return to;
}

static void *reachable(struct room *room, const void *from, size_t bytes)
{
    if (strncmp(weft_context_isa(room->context), "sm_", 3) != 0 || !from)
        return (void *)(uintptr_t)from;
    void *to = device_room(room, bytes);
    if (weft_copy(room->context, to, from, bytes, NULL) != WEFT_OK)
        abort();
    return to;
}

// The queries in the format that the plan takes.
static void *queries(struct room *room, const attention_case *c, const weft_attention_desc *desc)
{
    const size_t bytes = (size_t)c->out_elems * sizeof(float);
    if (desc->q_dtype == WEFT_DTYPE_NONE || desc->q_dtype == WEFT_F32)
        return reachable(room, c->q, bytes);
    void *narrow = malloc(bytes);
    if (weft_quantize_row(desc->q_dtype, c->q, c->out_elems, narrow) != WEFT_OK)
        abort();
    void *to = device_room(room, bytes);
    weft_status status = weft_copy(room->context, to, narrow, bytes, NULL);
    if (status != WEFT_OK || weft_stream_synchronize(room->context, NULL) != WEFT_OK)
        abort();
    free(narrow);
    return to;
}

// Brings a result back, if it is not where it is wanted.
static void fetch(struct room *room, void *to, const void *from, size_t bytes)
{
    if (to != from && weft_copy(room->context, to, from, bytes, NULL) != WEFT_OK)
        abort();
}

static size_t queries_of(const attention_case *c)
{
    return (size_t)c->cu[c->num_seqs];
}

// The sequences of the arguments as a batch.
static weft_status into_batch(weft_context *context, const attention_case *c, const weft_plan *plan,
                              weft_attention_args *args, weft_batch **batch)
{
    const weft_batch_desc desc = {.size = sizeof desc,
                                  .max_seqs = c->num_seqs,
                                  .max_q_tokens = c->cu[c->num_seqs],
                                  .max_kv_len = c->desc.max_kv_len,
                                  .page_size = c->desc.kv.page_size,
                                  .plans = &plan,
                                  .num_plans = 1};
    const weft_batch_args set = {.size = sizeof set,
                                 .num_seqs = c->num_seqs,
                                 .cu_q_lens = c->cu,
                                 .kv_lens = c->kv_lens,
                                 .page_table = c->table,
                                 .page_table_stride = c->table_stride,
                                 .num_pages = c->pages};
    weft_status status = weft_batch_create(context, &desc, batch);
    if (status == WEFT_OK)
        status = weft_batch_set(*batch, &set);
    args->batch = *batch, args->num_seqs = 0, args->page_table_stride = 0;
    args->cu_q_lens = args->kv_lens = args->page_table = NULL;
    return status;
}

weft_status attention_case_run(weft_context *context, const attention_case *c,
                               const weft_attention_desc *desc, float *out, float *lse)
{
    struct room room = {.context = context};
    weft_plan *plan;
    weft_status status = weft_attention_plan(context, desc, &plan);
    if (status != WEFT_OK)
        return status;
    const size_t bytes = (weft_plan_workspace_bytes(plan) + 63) / 64 * 64;
    const size_t pool =
        (size_t)weft_dtype_row_bytes(desc->kv.dtype, (int64_t)c->pages * desc->kv.page_size *
                                                         desc->kv.num_kv_heads * desc->kv.head_dim);
    const size_t out_bytes = (size_t)c->out_elems * sizeof *out;
    const size_t lse_bytes = (size_t)c->lse_elems * sizeof *lse;
    void *workspace = aligned_alloc(64, bytes + 64);
    memset(workspace, 0xff, bytes + 64);
    weft_attention_args args = {
        .size = sizeof args,
        .num_seqs = c->num_seqs,
        .q = queries(&room, c, desc),
        .out = reachable(&room, out, out_bytes),
        .lse = reachable(&room, lse, lse_bytes),
        .pool = {.k.data = reachable(&room, c->k, pool),
                 .v.data = reachable(&room, c->v, pool),
                 .num_pages = c->pages},
        .cu_q_lens = reachable(&room, c->cu, sizeof c->cu),
        .kv_lens = reachable(&room, c->kv_lens, sizeof c->kv_lens),
        .page_table = reachable(&room, c->table, (size_t)c->pages * sizeof *c->table),
        .page_table_stride = c->table_stride,
        .tree_parents = desc->mask == WEFT_MASK_TREE
                            ? reachable(&room, c->parents, queries_of(c) * sizeof *c->parents)
                            : NULL,
        .mask_bits = desc->mask == WEFT_MASK_BITS
                         ? reachable(&room, c->bits,
                                     queries_of(c) * (size_t)c->bits_stride * sizeof *c->bits)
                         : NULL,
        .mask_stride = desc->mask == WEFT_MASK_BITS ? c->bits_stride : 0,
        .workspace = reachable(&room, workspace, bytes + 64),
        .workspace_bytes = bytes};
    weft_batch *batch = NULL;
    if (c->batched)
        status = into_batch(context, c, plan, &args, &batch);
    if (status == WEFT_OK)
        status = weft_attention_run(plan, &args);
    if (status == WEFT_OK && c->again) {
        memset(out, 0xff, out_bytes);
        status = args.out == out ? WEFT_OK : weft_copy(context, args.out, out, out_bytes, NULL);
        status = status == WEFT_OK ? weft_attention_run(plan, &args) : status;
    }
    if (status == WEFT_OK) {
        fetch(&room, out, args.out, out_bytes);
        fetch(&room, lse, args.lse, lse ? lse_bytes : 0);
        status = weft_stream_synchronize(context, NULL);
    }
    while (room.count > 0)
        weft_memory_free(context, room.taken[--room.count]);
    free(workspace);
    weft_batch_destroy(batch);
    weft_plan_destroy(plan);
    return status;
}

// Is query `other` of a sequence `token` or one of its ancestors?
static bool descends(const int32_t *parents, int32_t token, int64_t other)
{
    while (token > other)
        token = parents[token];
    return token == other;
}

static bool sees(const attention_case *c, int32_t s, int32_t token, int64_t key)
{
    const weft_attention_desc *desc = &c->desc;
    const int64_t before = (int64_t)c->kv_lens[s] - c->q_lens[s], own = before + token;
    if (desc->mask == WEFT_MASK_TREE)
        return key < before || descends(c->parents + c->cu[s], token, key - before);
    return (desc->mask == WEFT_MASK_FULL || key <= own) &&
           (desc->window == 0 || key > own - desc->window);
}

// Where head `head` of key `key` of a sequence begins.
static int64_t place_of(const attention_case *c, int32_t s, int32_t head, int32_t key)
{
    const weft_kv_layout *kv = &c->desc.kv;
    int64_t page = c->table[s * c->table_stride + key / kv->page_size];
    return ((page * kv->num_kv_heads + head) * kv->page_size + key % kv->page_size) * kv->head_dim;
}

static void answer_row(const attention_case *c, int32_t s, int32_t token, int32_t head,
                       double *weight, float *out, float *lse)
{
    const weft_attention_desc *desc = &c->desc;
    const int32_t dim = desc->kv.head_dim, keys = c->kv_lens[s];
    const int32_t kv_head = head / (desc->num_q_heads / desc->kv.num_kv_heads);
    int64_t row = ((int64_t)c->cu[s] + token) * desc->num_q_heads + head;
    const float *q = c->q + row * dim;
    double largest = -INFINITY, sum = 0, y[1024] = {0};
    for (int32_t t = 0; t < keys; t++) {
        const float *k = c->keys + place_of(c, s, kv_head, t);
        double dot = 0;
        for (int32_t i = 0; i < dim; i++)
            dot += (double)q[i] * k[i];
        dot *= desc->scale != 0 ? desc->scale : 1 / sqrt(dim);
        dot = desc->softcap > 0 ? desc->softcap * tanh(dot / desc->softcap) : dot;
        weight[t] = sees(c, s, token, t) ? dot : -INFINITY;
        largest = fmax(largest, weight[t]);
    }
    for (int32_t t = 0; t < keys && largest > -INFINITY; t++) {
        const float *v = c->values + place_of(c, s, kv_head, t);
        double p = exp(weight[t] - largest);
        sum += p;
        for (int32_t i = 0; i < dim; i++)
            y[i] += p * v[i];
    }
    for (int32_t i = 0; i < dim; i++)
        out[row * dim + i] = sum > 0 ? (float)(y[i] / sum) : 0;
    lse[row] = sum > 0 ? (float)(largest + log(sum)) : -INFINITY;
}

void attention_case_answer(const attention_case *c, float *out, float *lse, int64_t step)
{
    const int32_t heads = c->desc.num_q_heads;
    double *weight = malloc(((size_t)c->desc.max_kv_len + 1) * sizeof *weight);
    for (int64_t i = 0; i < c->out_elems; i++)
        out[i] = NAN;
    for (int64_t i = 0; i < c->lse_elems; i++)
        lse[i] = NAN;
    for (int32_t s = 0; s < c->num_seqs; s++)
        for (int64_t row = 0; row < (int64_t)c->q_lens[s] * heads; row++)
            if ((row + (int64_t)c->cu[s] * heads) % step == 0)
                answer_row(c, s, (int32_t)(row / heads), (int32_t)(row % heads), weight, out, lse);
    free(weight);
}

double attention_case_far(const float *got, const float *want, int64_t count)
{
    double far = 0;
    for (int64_t i = 0; i < count; i++)
        if (got[i] != want[i] && !isnan(want[i])) // infinities are equal
            far = fmax(far, isnan(got[i]) ? INFINITY : fabs((double)got[i] - want[i]));
    return far;
}
