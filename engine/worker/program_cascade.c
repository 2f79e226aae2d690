// SPDX-License-Identifier: MIT
// Sequences of one new token that share the pages of a prefix attend to it once for all: which ones do is
// read off their page lists, so that it does not matter how they came to share them.
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/cache/page_pool.h"
#include "engine/worker/program_steps.h"

// Attention that appends and rounds itself: a cascade's does neither, so what does is planned here, and the descriptor
// becomes that of attention alone.
static bool take_apart(model_program *program, program_step *step, weft_attention_desc *desc,
                       float *out, engine_error *err)
{
    const program_bounds *bounds = &program->bounds;
    const weft_kv_layout *kv = &desc->kv;
    const int32_t v_dim = kv->v_dim ? kv->v_dim : kv->head_dim;
    if (desc->flags & WEFT_ATTENTION_APPEND) {
        const bool narrow = desc->flags & WEFT_ATTENTION_NARROW_QUERIES &&
                            (kv->dtype == WEFT_F16 || kv->dtype == WEFT_BF16);
        const weft_dtype dtype = narrow ? kv->dtype : WEFT_F32;
        const weft_kv_append_desc append = {.size = sizeof append,
                                            .max_tokens = bounds->max_tokens,
                                            .layout = *kv,
                                            .rope = desc->rope,
                                            .num_q_heads = desc->num_q_heads,
                                            .q_out_dtype = dtype};
        step->append = program_plan_for(program, STEP_APPEND, &append, sizeof append, err);
        if (!step->append)
            return false;
        desc->q_dtype = dtype;
    }
    if (desc->flags & WEFT_ATTENTION_OUT_ROUNDED) {
        const weft_round_desc round = {.size = sizeof round,
                                       .max_rows = bounds->max_seqs,
                                       .cols = (int64_t)desc->num_q_heads * v_dim};
        step->unrounded = out;
        step->round = program_plan_for(program, STEP_ROUND, &round, sizeof round, err);
        if (!step->round)
            return false;
    }
    desc->rope = NULL;
    desc->flags &= ~(uint32_t)(WEFT_ATTENTION_APPEND | WEFT_ATTENTION_OUT_ROUNDED);
    return true;
}

bool program_add_cascade(model_program *program, program_step *step, const weft_attention_desc *of,
                         float *out, engine_error *err)
{
    program_cascades *all = &program->cascades;
    const program_bounds *bounds = &program->bounds;
    weft_attention_desc alone = *of, *desc = &alone;
    if (bounds->max_seqs < 2 || bounds->cascade_rows < 0 || desc->window || desc->local_chunk)
        return true;
    step->cascades = all;
    if (!take_apart(program, step, desc, out, err))
        return false;
    for (int32_t i = 0; i < all->count; i++)
        if (memcmp(&all->list[i].desc, desc, sizeof *desc) == 0) {
            step->cascade = all->list[i].made;
            return true;
        }
    program_cascade *list = engine_realloc(all->list, (size_t)all->count + 1, sizeof *list);
    if (!list)
        return engine_fail(err, "not enough memory for the model's plans");
    all->list = list;
    weft_attention_desc each = *desc;
    each.max_q_tokens = each.max_seqs; // one token of each
    const weft_cascade_desc wish = {.size = sizeof wish,
                                    .max_prefixes = bounds->max_seqs,
                                    .max_prefix_len = bounds->max_kv_len,
                                    .attention = &each};
    list[all->count].desc = *desc;
    weft_status status = weft_cascade_create(program->context, &wish, &list[all->count].made);
    if (status == WEFT_EUNSUPPORTED) // sequences each for itself then
        return true;
    if (status != WEFT_OK)
        return engine_fail(err, "attention to shared prefixes cannot be planned: %s",
                           weft_error_text(program->context));
    step->cascade = list[all->count++].made;
    size_t need = weft_cascade_workspace_bytes(step->cascade);
    if (need > program->workspace_bytes)
        program->workspace_bytes = need;
    return true;
}

// The batch of a level of all cascades: the prefixes (0) or the sequences' own keys (1).
static bool make_batch(model_program *program, int32_t level, weft_batch **batch, engine_error *err)
{
    const program_bounds *bounds = &program->bounds;
    const program_cascades *all = &program->cascades;
    const weft_plan **plans = engine_alloc((size_t)all->count, sizeof *plans);
    weft_batch_desc desc = {.size = sizeof desc,
                            .max_seqs = bounds->max_seqs,
                            .max_q_tokens = bounds->max_seqs,
                            .max_kv_len = bounds->max_kv_len,
                            .page_size = program->kv.page_size,
                            .max_pages = bounds->max_seqs * bounds->max_seq_pages,
                            .num_plans = all->count,
                            .plans = plans};
    for (int32_t i = 0; plans && i < all->count; i++)
        plans[i] = weft_cascade_plan_of(all->list[i].made, level);
    weft_status status = plans ? weft_batch_create(program->context, &desc, batch) : WEFT_ENOMEM;
    free(plans);
    return status == WEFT_OK || engine_fail(err, "batches of shared prefixes cannot be made: %s",
                                            weft_error_text(program->context));
}

bool program_open_cascades(model_program *program, engine_error *err)
{
    program_cascades *all = &program->cascades;
    size_t seqs = (size_t)program->bounds.max_seqs;
    if (all->count == 0)
        return true;
    // [max_seqs + 1] each
    int32_t **arrays[] = {&all->cu_q_lens, &all->prefix_lens, &all->prefix_starts,
                          &all->own_lens,  &all->own_starts,  &all->own_capacities,
                          &all->positions, &all->slots};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (!(*arrays[i] = engine_alloc(seqs + 1, sizeof **arrays[i])))
            return engine_fail(err, "not enough memory for the model's program");
    memset(all->slots, -1, (seqs + 1) * sizeof *all->slots); // prefixes are not appended to
    const size_t layers = (size_t)program->config->layers;
    all->least_saved = program->bounds.cascade_bytes * program->kv.page_size /
                       (int64_t)(page_pool_whole_page_bytes(program->pool) / layers);
    return make_batch(program, 0, &all->prefixes, err) && make_batch(program, 1, &all->own, err);
}

void program_drop_cascades(model_program *program)
{
    program_cascades *all = &program->cascades;
    for (int32_t i = 0; i < all->count; i++)
        weft_cascade_destroy(all->list[i].made);
    all->count = 0;
}

void program_close_cascades(model_program *program)
{
    program_cascades *all = &program->cascades;
    weft_batch_destroy(all->prefixes);
    weft_batch_destroy(all->own);
    program_drop_cascades(program);
    free(all->list);
    free(all->cu_q_lens);
    free(all->prefix_lens);
    free(all->prefix_starts);
    free(all->own_lens);
    free(all->own_starts);
    free(all->own_capacities);
    free(all->positions);
    free(all->slots);
}

// Pages that hold nothing but keys from before this pass.
static int32_t old_pages(const model_program *program, int32_t seq)
{
    return (program->inputs.kv_lens[seq] - 1) / program->kv.page_size;
}

// How many of the first `most` pages of two sequences are the same.
static int32_t common_pages(const model_program *program, int32_t a, int32_t b, int32_t most)
{
    size_t stride = (size_t)program->bounds.max_seq_pages;
    const int32_t *of_a = program->inputs.page_table + (size_t)a * stride;
    const int32_t *of_b = program->inputs.page_table + (size_t)b * stride;
    int32_t common = 0, last = old_pages(program, b);
    for (most = most < last ? most : last; common < most && of_a[common] == of_b[common];)
        common++;
    return common;
}

// The sequences from `first` on that share a prefix: *pages becomes its length, the result the first that
// does not belong to them. One more is taken in as long as no more keys have to be read for it. Few rows of
// queries gain nothing by it: they have no prefix then.
static int32_t group_end(const model_program *program, int32_t first, int32_t seqs, int32_t *pages)
{
    int32_t end = first + 1, heads = program->config->q_heads / program->kv.num_kv_heads;
    *pages = old_pages(program, first);
    for (; end < seqs; end++) {
        int64_t common = common_pages(program, first, end, *pages), members = end - first;
        if (common == 0 || common * members < *pages * (members - 1))
            break;
        *pages = (int32_t)common;
    }
    if (end == first + 1 || (end - first) * heads < program->bounds.cascade_rows)
        *pages = 0;
    return end;
}

// Finds the prefixes of a pass; returns how many keys need not be read again.
static int64_t find_prefixes(model_program *program, int32_t seqs, const int32_t *capacities)
{
    program_cascades *all = &program->cascades;
    const program_inputs *in = &program->inputs;
    int32_t page_size = program->kv.page_size, stride = program->bounds.max_seq_pages;
    int64_t saved = 0;
    all->groups = all->cu_q_lens[0] = 0;
    for (int32_t first = 0, end, pages; first < seqs; first = end) {
        end = group_end(program, first, seqs, &pages);
        all->prefix_lens[all->groups] = pages * page_size;
        all->prefix_starts[all->groups] = first * stride;
        all->cu_q_lens[++all->groups] = end;
        saved += (int64_t)(end - first - 1) * pages * page_size;
        for (int32_t s = first; s < end; s++) {
            all->own_lens[s] = in->kv_lens[s] - pages * page_size;
            all->own_starts[s] = s * stride + pages;
            all->own_capacities[s] =
                (capacities ? capacities[s] : in->kv_lens[s]) - pages * page_size;
        }
    }
    return saved;
}

bool program_share_prefixes(model_program *program, int32_t seqs, const int32_t *capacities,
                            engine_error *err)
{
    program_cascades *all = &program->cascades;
    const program_inputs *in = &program->inputs;
    if (all->count == 0 || find_prefixes(program, seqs, capacities) <= all->least_saved)
        return true;
    weft_batch_args args = {.size = sizeof args,
                            .num_seqs = all->groups,
                            .cu_q_lens = all->cu_q_lens,
                            .kv_lens = all->prefix_lens,
                            .page_indices = in->page_table,
                            .page_starts = all->prefix_starts,
                            .positions = all->positions,
                            .slots = all->slots,
                            .num_pages = page_pool_pages(program->pool)};
    weft_status status = weft_batch_set(all->prefixes, &args);
    args.num_seqs = seqs;
    args.cu_q_lens = in->cu_q_lens;
    args.kv_lens = all->own_lens;
    args.kv_capacities = all->own_capacities;
    args.page_starts = all->own_starts;
    args.positions = args.slots = NULL;
    if (status == WEFT_OK)
        status = weft_batch_set(all->own, &args);
    if (status != WEFT_OK)
        return engine_fail(err, "the forward pass failed: %s", weft_error_text(program->context));
    all->now = true;
    return true;
}

// The new keys of whole sequences, whose positions turn them and the queries.
static weft_status append(const program_step *step, int32_t tokens)
{
    const weft_attention_args *whole = &step->args.attention;
    const weft_kv_append_args args = {.size = sizeof args,
                                      .tokens = tokens,
                                      .pool = whole->pool,
                                      .k = whole->append->k,
                                      .v = whole->append->v,
                                      .q = (void *)(uintptr_t)whole->q,
                                      .q_out = step->cascades->queries,
                                      .batch = whole->batch};
    return weft_kv_append_run(step->append, &args);
}

weft_status program_run_cascade(const program_step *step, int32_t tokens)
{
    weft_attention_args own = step->args.attention;
    weft_status status = WEFT_OK;
    if (step->append) {
        status = append(step, tokens);
        own.append = NULL;
        own.q = step->cascades->queries;
    }
    if (step->round)
        own.out = step->unrounded;
    own.batch = step->cascades->own;
    const weft_cascade_args args = {
        .size = sizeof args, .attention = &own, .prefix_batch = step->cascades->prefixes};
    if (status == WEFT_OK)
        status = weft_cascade_run(step->cascade, &args);
    const weft_round_args round = {.size = sizeof round,
                                   .rows = tokens,
                                   .x = step->unrounded,
                                   .rounded = step->args.attention.out};
    return status == WEFT_OK && step->round ? weft_round_run(step->round, &round) : status;
}
