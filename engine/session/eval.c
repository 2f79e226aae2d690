// SPDX-License-Identifier: MIT
// engine_eval: any number of new tokens for any number of sessions, cut into passes.
#include <string.h>

#include "engine/base/checked.h"
#include "engine/session/session_state.h"

static bool check_feed(const engine_model *model, const engine_feed *feeds, int32_t n,
                       engine_error *err)
{
    const engine_feed *feed = &feeds[n];
    if (feed->session->model != model)
        return engine_fail(err, "a session belongs to another model");
    for (int32_t i = 0; i < n; i++)
        if (feeds[i].session == feed->session)
            return engine_fail(err, "a session occurs twice in one evaluation");
    if (feed->count < 0 || feed->count > model->options.context_tokens - feed->session->length)
        return engine_fail(
            err,
            "%d tokens behind %d do not fit into the context of %d: shorten the text "
            "or choose a larger context (--ctx)",
            feed->count, feed->session->length, model->options.context_tokens);
    for (int32_t i = 0; i < feed->count; i++)
        if (feed->ids[i] < 0 || feed->ids[i] >= model->config.vocab)
            return engine_fail(err, "token %d is outside the vocabulary: ids go from 0 to %d",
                               feed->ids[i], model->config.vocab - 1);
    return true;
}

// Takes the pages of all feeds, or none.
static bool reserve_all(const engine_feed *feeds, int32_t count, engine_error *err)
{
    for (int32_t n = 0; n < count; n++) {
        if (session_reserve(feeds[n].session, feeds[n].session->length + feeds[n].count))
            continue;
        for (int32_t i = 0; i < n; i++)
            engine_session_truncate(feeds[i].session, feeds[i].session->length);
        return engine_fail(err, "the KV pool is full: close a session or open the model for more");
    }
    return true;
}

// A pass being filled: tokens [from, from + count) of some feeds, one sequence each.
typedef struct filling {
    engine_model *model;
    model_batch batch;
} filling;

static void add_output(filling *f, int32_t row, float *logits)
{
    pass_arrays *a = &f->model->arrays;
    a->output_rows[f->batch.outputs] = row;
    a->logits[f->batch.outputs++] = logits;
}

// Appends tokens [from, from + count) of a feed to its session and to the pass.
static void add_tokens(filling *f, const engine_feed *feed, int32_t from, int32_t count)
{
    pass_arrays *a = &f->model->arrays;
    engine_session *session = feed->session;
    size_t vocab = (size_t)f->model->config.vocab;
    for (int32_t i = from; i < from + count; i++) {
        int32_t row = f->batch.tokens++, position = session->length++;
        int32_t page = session->page_table[position / ENGINE_PAGE_TOKENS];
        session->ids[position] = feed->ids[i];
        a->ids[row] = feed->ids[i];
        a->positions[row] = position;
        a->slots[row] = page * ENGINE_PAGE_TOKENS + position % ENGINE_PAGE_TOKENS;
        if (feed->logits)
            add_output(f, row, feed->logits + (size_t)i * vocab);
        else if (i == feed->count - 1)
            add_output(f, row, session->logits);
    }
    int32_t seq = f->batch.seqs++;
    a->cu_q_lens[seq + 1] = f->batch.tokens;
    a->kv_lens[seq] = session->length;
    memcpy(a->page_table + (size_t)seq * (size_t)f->model->pages_per_session, session->page_table,
           (size_t)session->pages * sizeof *session->page_table);
}

static filling start_pass(engine_model *model)
{
    pass_arrays *a = &model->arrays;
    a->cu_q_lens[0] = 0;
    return (filling){model,
                     {.ids = a->ids,
                      .positions = a->positions,
                      .slots = a->slots,
                      .cu_q_lens = a->cu_q_lens,
                      .kv_lens = a->kv_lens,
                      .page_table = a->page_table,
                      .page_table_stride = model->pages_per_session,
                      .output_rows = a->output_rows,
                      .logits = a->logits}};
}

// Where the evaluation stands: the next token to run.
typedef struct place {
    int32_t feed, token;
} place;

// Runs one pass from `at` on and moves `at` behind it.
static bool run_pass(engine_model *model, const engine_feed *feeds, int32_t count, place *at,
                     engine_error *err)
{
    filling f = start_pass(model);
    while (at->feed < count && f.batch.tokens < model->options.chunk_tokens) {
        const engine_feed *feed = &feeds[at->feed];
        int32_t room = model->options.chunk_tokens - f.batch.tokens;
        int32_t left = feed->count - at->token;
        int32_t take = left < room ? left : room;
        if (take > 0)
            add_tokens(&f, feed, at->token, take);
        at->token += take;
        if (at->token == feed->count)
            *at = (place){at->feed + 1, 0};
    }
    return f.batch.tokens == 0 || model_runner_forward(model->runner, &f.batch, err);
}

static void keep_last_logits(const engine_model *model, const engine_feed *feed)
{
    size_t vocab = (size_t)model->config.vocab;
    if (feed->count == 0)
        return;
    feed->session->has_logits = true;
    if (feed->logits)
        memcpy(feed->session->logits, feed->logits + (size_t)(feed->count - 1) * vocab,
               vocab * sizeof(float));
}

// After a pass that failed nobody can say which keys and values are valid: the timelines become what
// they were.
static bool take_back(const engine_feed *feeds, int32_t count)
{
    for (int32_t n = 0; n < count; n++)
        engine_session_truncate(feeds[n].session, feeds[n].session->length_before);
    return false;
}

static int32_t tokens_before(const engine_feed *feeds, place at)
{
    int32_t tokens = at.token;
    for (int32_t n = 0; n < at.feed; n++)
        tokens += feeds[n].count;
    return tokens;
}

bool engine_eval(engine_model *model, const engine_feed *feeds, int32_t count,
                 engine_progress_fn *progress, void *user, engine_error *err)
{
    if (count < 0 || count > model->options.max_sessions)
        return engine_fail(err, "%d sessions at once, but the model was opened for %d", count,
                           model->options.max_sessions);
    int64_t all = 0;
    for (int32_t n = 0; n < count; n++) {
        if (!check_feed(model, feeds, n, err))
            return false;
        all += feeds[n].count;
    }
    if (all > INT32_MAX)
        return engine_fail(err, "more than 2^31 tokens at once: evaluate in pieces");
    if (!reserve_all(feeds, count, err))
        return false;
    for (int32_t n = 0; n < count; n++) {
        feeds[n].session->length_before = feeds[n].session->length;
        if (feeds[n].count > 0)
            feeds[n].session->has_logits = false;
    }
    place at = {0, 0};
    while (at.feed < count) {
        if (!run_pass(model, feeds, count, &at, err))
            return take_back(feeds, count);
        int32_t done = tokens_before(feeds, at);
        if (progress && !progress(user, done, (int32_t)all) && done < all)
            return engine_fail(err, "stopped");
    }
    for (int32_t n = 0; n < count; n++)
        keep_last_logits(model, &feeds[n]);
    return true;
}
