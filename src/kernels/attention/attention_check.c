// SPDX-License-Identifier: MIT
// Attention against an oracle of its own (attention_oracle_check.c): sequences that lie in one piece and
// masks written down apart (attention_draw_check.c), so that page arithmetic, masks, splits and merging
// are held against something that has none of them.
#include <float.h>
#include <math.h>

#include "src/base/half.h"
#include "src/kernels/attention/attention_oracle.h"
#include "src/kernels/attention/attention_problem.h"
#include "src/kernels/check.h"

static weft_dtype out_dtype(const struct problem *p)
{
    return p->desc.out_dtype ? p->desc.out_dtype : WEFT_F32;
}

// One rounding to the format of the results.
static double rounding(weft_dtype dtype, double y)
{
    if (dtype == WEFT_F32)
        return 0;
    return dtype == WEFT_F16 ? 0x1p-11 * fabs(y) + 0x1p-25 : 0x1p-8 * fabs(y) + 0x1p-134;
}

static void verify_row(struct check_case *c, const struct problem *p, int64_t row, int64_t head,
                       const struct oracle_answer *want)
{
    const weft_attention_args *args = &p->args;
    int64_t at = row * p->out_token_stride + head * p->out_head_stride;
    for (int64_t d = 0; d < p->value_dim; d++) {
        float got = weft__problem_load(out_dtype(p), args->out, at + d);
        double bound = want->bound[d];
        bound += rounding(out_dtype(p), fabs(want->y[d]) + bound);
        if (out_dtype(p) == WEFT_F16 && isinf(got) && got * want->y[d] > 0 &&
            fabs(want->y[d]) + bound >= 65520)
            continue; // beyond what the format holds
        // A weight may vanish in f32 and not in double: infinity or NaN, but never a number.
        if (isfinite(want->y[d]))
            check_close(c, got, want->y[d], bound, "out", at + d);
        else if (isfinite(got))
            check_fail(c, "out[%lld] = %.9g, reference %g", (long long)(at + d), got, want->y[d]);
    }
    if (args->lse)
        check_close(c, args->lse[row * p->desc.num_q_heads + head], want->lse, want->lse_bound,
                    "lse", row * p->desc.num_q_heads + head);
}

// What a query adds to the scores of its keys; NULL if nothing.
static const double *make_bias(const struct problem *p, int32_t s, int32_t token, int64_t head,
                               const bool *seen, double *bias)
{
    bool soft = p->desc.flags & WEFT_ATTENTION_MASK_VALUE;
    if (!p->args.alibi_slopes && !soft)
        return NULL;
    for (int32_t t = 0; t < p->kv_lens[s]; t++) {
        bias[t] = p->args.alibi_slopes ? -(double)p->args.alibi_slopes[head] *
                                             fabs((double)p->kv_lens[s] - p->q_lens[s] + token - t)
                                       : 0;
        bias[t] += soft && !seen[t] ? p->desc.mask_value : 0;
    }
    return bias;
}

// What the kernel under test rounds by design (attention_kernel.h).
static void set_rounding(const struct check_case *c, const struct problem *p, const float *v_scales,
                         struct oracle_query *query)
{
    const struct weft__attention_kernel *kernel = (const void *)c->kernel;
    weft_dtype kv = p->desc.kv.dtype;
    if (!kernel->narrow_weights)
        return;
    query->weight_floor = kv == WEFT_F16 ? 0x1p-39 : 0;
    // Tensor cores align what f16 has below 2^-14 as if it were that: 2^-23 of it is cut off, 10^-4 of the
    // least f16 number.
    query->tiny = kv == WEFT_F16 ? 0x1p-37 : 0x1p-126;
    query->flushes = kernel->q;
    query->q_unit = kernel->integers ? 0x1p-14 : 0;
    query->v_scales = kernel->integers ? v_scales : NULL;
    const weft_dtype narrow = weft_dtype_block_bytes(kv) == 1 ? WEFT_BF16 : kv;
    if (p->desc.q_dtype == narrow && weft_dtype_block_bytes(narrow) == 2) {
        query->weight_rounding = narrow == WEFT_F16 ? 0x1p-11 : 0x1p-8;
        query->weight_floor = narrow == WEFT_F16 ? 0x1p-31 : 0;
        query->cuts = c->reference && c->reference != c->context;
    }
}

// Memory for one query.
struct room {
    double *work, *bias;
    bool *seen, *counts;
    struct oracle_answer want;
};

static void verify_query(struct check_case *c, const struct problem *p, int32_t s, int32_t token,
                         struct room *room)
{
    const weft_attention_args *args = &p->args;
    int64_t kv_heads = p->desc.kv.num_kv_heads, group = p->desc.num_q_heads / kv_heads;
    int64_t row = args->cu_q_lens[s] + (int64_t)token;
    for (int64_t head = 0; head < p->desc.num_q_heads && !c->failed; head++) {
        bool heads_differ = p->desc.flags & (WEFT_ATTENTION_SPARSE | WEFT_ATTENTION_SPARSE_LISTS);
        for (int32_t t = 0; t < p->kv_lens[s] && (head == 0 || heads_differ); t++) {
            room->seen[t] = weft__problem_sees(p, s, token, (int32_t)head, t);
            room->counts[t] =
                room->seen[t] || (p->desc.flags & WEFT_ATTENTION_MASK_VALUE && t >= p->starts[s]);
        }
        struct oracle_query query = {
            .q = p->q + row * p->q_token_stride + head * p->q_head_stride,
            .k = p->k[s] + head / group * p->key_dim,
            .v = p->v[s] + head / group * p->value_dim,
            .k_stride = kv_heads * p->key_dim,
            .v_stride = kv_heads * p->value_dim,
            .scale_stride = kv_heads,
            .head_dim = p->key_dim,
            .value_dim = p->value_dim,
            .num_keys = p->kv_lens[s],
            .sees = room->counts,
            .bias = make_bias(p, s, token, head, room->seen, room->bias),
            .scale = p->scale,
            .softcap = p->desc.softcap,
            .sink = args->sinks ? args->sinks[head] : -INFINITY,
        };
        set_rounding(c, p, p->v_scales[s] + head / group, &query);
        weft__attention_oracle(&query, room->work, &room->want);
        // Scores that a soft mask lowers end where floats do, in units of log2; no key at all is less.
        if (p->desc.flags & WEFT_ATTENTION_MASK_VALUE && p->starts[s] < p->kv_lens[s])
            room->want.lse = fmax(room->want.lse, -FLT_MAX * log(2));
        verify_row(c, p, row, head, &room->want);
    }
}

static void verify(struct check_case *c, const struct problem *p)
{
    size_t keys = (size_t)p->desc.max_kv_len;
    static struct room room;
    room.work = check_room(c, ORACLE_WORK * keys * sizeof(double));
    room.bias = check_room(c, keys * sizeof(double));
    room.seen = check_room(c, keys);
    room.counts = check_room(c, keys);
    for (int32_t s = 0; s < p->args.num_seqs; s++)
        for (int32_t token = 0; token < p->q_lens[s] && !c->failed; token++)
            verify_query(c, p, s, token, &room);
}

// Elements of out that no row covers must be as they were.
static void verify_gaps(struct check_case *c, const struct problem *p)
{
    int64_t tokens = p->args.cu_q_lens[p->args.num_seqs], heads = p->desc.num_q_heads;
    size_t elem = (size_t)weft_dtype_block_bytes(out_dtype(p));
    char *expected = p->before;
    for (int64_t i = 0; i < tokens * heads; i++) {
        size_t at =
            elem * (size_t)(i / heads * p->out_token_stride + i % heads * p->out_head_stride);
        memcpy(expected + at, (const char *)p->args.out + at, elem * (size_t)p->value_dim);
    }
    if (memcmp(expected, p->args.out, elem * (size_t)p->out_elems) != 0)
        check_fail(c, "what lies between the rows of out changed");
}

// Half of the problems say in memory how many sequences there are, of more.
static weft_attention_args counted(struct check_case *c, const struct problem *p)
{
    weft_attention_args args = p->args;
    const bool can = (args.page_table || args.page_indices) &&
                     (p->desc.mask != WEFT_MASK_BITS || args.mask_stride > 0);
    if (!can || check_range(c, 0, 1))
        return args;
    int32_t *num_seqs = check_buffer(c, sizeof *num_seqs, 4);
    *num_seqs = args.num_seqs;
    args.num_seqs_at = num_seqs;
    args.num_seqs = p->desc.max_seqs;
    return args;
}

// The same problem again gives the same bits; with BATCH_INVARIANT also the last sequence alone.
static void verify_repeats(struct check_case *c, const struct problem *p, const weft_plan *plan,
                           weft_attention_args args)
{
    bool alone = p->desc.flags & WEFT_ATTENTION_BATCH_INVARIANT && !args.seq_rows &&
                 !args.page_indices && !args.kv_starts && !args.tree_parents && !args.mask_bits &&
                 !args.sparse_first && !args.q_scales && !args.pool.k.scale_seq_stride &&
                 !args.pool.v.scale_seq_stride;
    int32_t s = alone ? (int32_t)check_range(c, 0, p->args.num_seqs - 1) : 0;
    size_t elem = (size_t)weft_dtype_block_bytes(out_dtype(p));
    int64_t first = args.cu_q_lens[s], heads = p->desc.num_q_heads;
    int64_t tokens = alone ? p->q_lens[s] : args.cu_q_lens[p->args.num_seqs];
    int32_t *cu = check_buffer(c, 2 * sizeof *cu, sizeof *cu); // where a device may read it
    cu[0] = 0, cu[1] = p->q_lens[s];
    char *out = check_buffer(c, elem * (size_t)p->out_elems, elem);
    args.out = out;
    args.lse = NULL;
    if (alone) {
        weft_dtype q_dtype = p->desc.q_dtype ? p->desc.q_dtype : WEFT_F32;
        args.num_seqs = 1;
        args.num_seqs_at = NULL;
        args.cu_q_lens = cu;
        args.kv_lens += s;
        args.page_table += s * args.page_table_stride;
        args.q_token_stride = p->q_token_stride;
        args.out_token_stride = p->out_token_stride;
        args.q = (const char *)args.q + weft_dtype_row_bytes(q_dtype, first * p->q_token_stride);
        args.out = out + elem * (size_t)(first * p->out_token_stride);
    }
    if (!check_ok(c, weft_attention_run(plan, &args), "second run"))
        return;
    for (int64_t i = 0; i < tokens * heads; i++) {
        int64_t at = (first + i / heads) * p->out_token_stride + i % heads * p->out_head_stride;
        if (memcmp(out + elem * (size_t)at, (const char *)p->args.out + elem * (size_t)at,
                   elem * (size_t)p->value_dim) != 0) {
            check_fail(c, "row %lld differs when run %s", (long long)i, alone ? "alone" : "again");
            return;
        }
    }
}

// Fails the case where a row of out is not, to the bit, that of `want`.
static void same_rows(struct check_case *c, const struct problem *p, const void *out,
                      const void *want, const char *when)
{
    const size_t elem = (size_t)weft_dtype_block_bytes(out_dtype(p));
    const int64_t heads = p->desc.num_q_heads;
    for (int64_t i = 0; i < p->args.cu_q_lens[p->args.num_seqs] * heads && !c->failed; i++) {
        const size_t at =
            elem * (size_t)(i / heads * p->out_token_stride + i % heads * p->out_head_stride);
        if (memcmp((const char *)out + at, (const char *)want + at, elem * (size_t)p->value_dim))
            check_fail(c, "row %lld differs when %s", (long long)i, when);
    }
}

// Other lengths and pages, where what they uncover is there to be read.
static void change_lengths(struct check_case *c, const struct problem *p)
{
    const weft_attention_args *args = &p->args;
    int32_t *kv_lens = (int32_t *)(uintptr_t)args->kv_lens;
    int32_t *table =
        (int32_t *)(uintptr_t)(args->page_table ? args->page_table : args->page_indices);
    const weft_attention_desc *desc = &p->desc;
    if (desc->window || desc->local_chunk || desc->ring_len || desc->mask == WEFT_MASK_BITS)
        return;
    for (int32_t s = 0; s < args->num_seqs; s++) {
        const int32_t row = args->seq_rows ? args->seq_rows[s] : s;
        int32_t *pages =
            table + (args->page_table ? row * args->page_table_stride : args->page_starts[row]);
        const int32_t least = p->q_lens[s] > p->starts[s] ? p->q_lens[s] : p->starts[s];
        if (p->kv_lens[s] > least)
            kv_lens[s] = (int32_t)check_range(c, least, p->kv_lens[s]);
        if (p->kv_lens[s] >= 2 * desc->kv.page_size && p->starts[s] == 0) {
            const int32_t first = pages[0];
            pages[0] = pages[1], pages[1] = first;
        }
    }
}

// A recorded run gives the bits of a run; launched again, with other lengths and pages, those of a run with them.
static void verify_replay(struct check_case *c, const struct problem *p, const weft_plan *plan,
                          weft_attention_args args)
{
    const size_t elem = (size_t)weft_dtype_block_bytes(out_dtype(p));
    const size_t bytes = elem * (size_t)p->out_elems;
    char *replayed = check_buffer(c, bytes, elem), *fresh = check_buffer(c, bytes, elem);
    weft_program *program = NULL;
    args.lse = NULL;
    args.out = replayed;
    if (!check_ok(c, weft_program_begin(c->context, &program), "recording"))
        return;
    check_ok(c, weft_attention_run(plan, &args), "recorded run");
    if (check_ok(c, weft_program_end(program), "end of recording") &&
        check_ok(c, weft_program_launch(program, NULL), "launch")) {
        same_rows(c, p, replayed, p->args.out, "recorded");
        change_lengths(c, p);
        check_ok(c, weft_program_launch(program, NULL), "second launch");
        args.out = fresh;
        if (check_ok(c, weft_attention_run(plan, &args), "run of other lengths"))
            same_rows(c, p, replayed, fresh, "launched with other lengths");
    }
    weft_program_destroy(program);
}

static void note(struct check_case *c, const struct problem *p)
{
    static const char *const masks[] = {"causal", "full", "tree", "bits"};
    const weft_attention_desc *desc = &p->desc;
    check_note(c,
               "%s/%s %d/%d heads x %d/%d page %d %s window %d/%d chunk %d ring %d softcap %g "
               "splits %d/%d flags %u q %s tile %d heads %d block %d sparse %d/%d/%d step %d rank "
               "%d lists %d/%d "
               "inner %d/%d, %d seqs, first %d/%d",
               weft_dtype_name(desc->kv.dtype),
               weft_dtype_name(desc->kv.v_dtype ? desc->kv.v_dtype : desc->kv.dtype),
               desc->num_q_heads, desc->kv.num_kv_heads, p->key_dim, p->value_dim,
               desc->kv.page_size, masks[desc->mask], desc->window, desc->window_right,
               desc->local_chunk, desc->ring_len, desc->softcap, desc->num_splits, desc->chunk_keys,
               desc->flags, weft_dtype_name(desc->q_dtype ? desc->q_dtype : WEFT_F32),
               desc->tile_rows, desc->tile_heads, desc->block_keys, desc->sparse_block,
               desc->sparse_local, desc->sparse_stride, desc->sparse_head_step, desc->sparse_rank,
               desc->sparse_queries, desc->sparse_keys, desc->kv.inner, desc->kv.v_inner,
               p->args.num_seqs, p->q_lens[0], p->kv_lens[0]);
}

// Lengths, contents and a run.
static void check_lengths(struct check_case *c, struct problem *p)
{
    weft_plan *plan;
    weft__problem_draw_lengths(c, p);
    note(c, p);
    weft__problem_fill_queries(c, p);
    weft__problem_fill_cache(c, p);
    if (!check_ok(c, weft_attention_plan(c->context, &p->desc, &plan), "plan"))
        return;
    p->args.size = sizeof p->args;
    p->args.workspace_bytes = weft_plan_workspace_bytes(plan);
    p->args.workspace = check_buffer(c, p->args.workspace_bytes, 64);
    const weft_attention_args args = counted(c, p);
    if (check_ok(c, weft_attention_run(plan, &args), "run")) {
        verify_gaps(c, p);
        verify(c, p);
        if (!c->failed)
            verify_repeats(c, p, plan, args);
        if (!c->failed && check_range(c, 0, 2) == 0)
            verify_replay(c, p, plan, args);
    }
    weft_plan_destroy(plan);
}

// The modes that problem `number` of a shape has: those of the shape first, each for some problems, whose kind
// of lengths is one if they are several, so that they run the same kernels.
static void set_modes(struct check_case *c, struct problem *p, uint64_t shape, int32_t number)
{
    const int32_t modes = number / (c->each ? c->each : 1);
    if (c->each)
        c->state = check_derived(shape, -1 - modes);
    if (modes > 0)
        weft__problem_draw_modes(c, p);
    if (c->each > 1)
        p->kind = weft__problem_draw_kind(c, p);
}

// Where kernels are compiled for a shape, the shape meets several modes and lengths.
check_fn weft__attention_check;
void weft__attention_check(struct check_case *c)
{
    enum { COMPILED_LENGTHS = 6 };
    const bool compiled = c->reference && c->reference != c->context;
    const int32_t lengths = c->lengths ? c->lengths : compiled ? COMPILED_LENGTHS : 1;
    const int32_t problems = lengths * (c->each ? c->each : 1);
    struct problem shape = {0};
    if (check_range(c, 0, 5) == 0) {
        weft__attention_append_check(c, problems);
        return;
    }
    weft__problem_draw_shape(c, &shape);
    if (c->format != WEFT_DTYPE_NONE && c->format != shape.desc.kv.dtype) {
        check_skip(c);
        return;
    }
    const uint64_t state = c->state;
    for (int32_t i = 0; i < problems && !c->failed; i++) {
        struct problem p = shape;
        set_modes(c, &p, state, i);
        if (!check_problem_begin(c, state, i))
            continue;
        check_lengths(c, &p);
        check_problem_done(c);
    }
}
