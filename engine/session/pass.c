// SPDX-License-Identifier: MIT
// Forward passes: which tokens of which sessions go into one, and what becomes of their logits.
#include <string.h>

#include "engine/session/pass.h"

static bool check_feed(const engine_worker *worker, const engine_feed *feeds, int32_t n,
                       engine_error *err)
{
    const engine_feed *feed = &feeds[n];
    const engine_session *session = feed->session;
    int32_t context = worker->settings.options.context_tokens, vocab = worker->model->config.vocab;
    if (!session_is_of(session, worker, err))
        return false;
    for (int32_t i = 0; i < n; i++)
        if (feeds[i].session == session)
            return engine_fail(err, "a session occurs twice in one evaluation");
    if (feed->count < 0 || feed->done < 0 || feed->done > feed->count ||
        feed->count - feed->done > context - session->length)
        return engine_fail(
            err,
            "%d tokens behind %d do not fit into the context of %d: shorten the text "
            "or choose a larger context (--ctx)",
            feed->count - feed->done, session->length, context);
    for (int32_t i = feed->done; i < feed->count; i++)
        if (feed->ids[i] < 0 || feed->ids[i] >= vocab)
            return engine_fail(err, "token %d is outside the vocabulary: ids go from 0 to %d",
                               feed->ids[i], vocab - 1);
    return true;
}

int32_t engine_guess_room(const engine_worker *worker, int32_t feeds)
{
    return model_program_head_rows(worker->program) - feeds;
}

// Does each guess follow the one before it?
static bool is_chain(const engine_feed *feed)
{
    bool chain = true;
    for (int32_t i = 0; feed->parents && i < feed->guesses; i++)
        chain = chain && feed->parents[i] == i - 1;
    return chain;
}

static bool check_tree(const engine_worker *worker, const engine_feed *feed, engine_error *err)
{
    for (int32_t i = 0; feed->parents && i < feed->guesses; i++)
        if (feed->parents[i] < -1 || feed->parents[i] >= i)
            return engine_fail(err, "of the guesses, %d follows %d, which is none before it", i,
                               feed->parents[i]);
    return is_chain(feed) || model_program_takes_trees(worker->program) ||
           engine_fail(err, "this worker takes guesses in a row only, not a tree of them");
}

static bool check_guesses(const engine_worker *worker, const engine_feed *feeds, int32_t count,
                          engine_error *err)
{
    int64_t guesses = 0;
    for (int32_t n = 0; n < count; n++) {
        const engine_feed *feed = &feeds[n];
        if (feed->guesses < 0 || (feed->guesses > 0 && feed->guesses >= feed->count - feed->done) ||
            feed->guesses >= worker->settings.options.chunk_tokens ||
            feed->guesses > ENGINE_MAX_GUESSES)
            return engine_fail(err,
                               "%d guesses among %d new tokens: there must be a token before "
                               "them and room for all in a pass",
                               feed->guesses, feed->count - feed->done);
        if (!check_tree(worker, feed, err))
            return false;
        guesses += feed->guesses;
    }
    return guesses == 0 || guesses <= engine_guess_room(worker, count) ||
           engine_fail(err, "%d guesses in one pass, but there is room for %d", (int)guesses,
                       engine_guess_room(worker, count));
}

static void trim_all(const engine_feed *feeds, int32_t count)
{
    for (int32_t n = 0; n < count; n++)
        session_trim(feeds[n].session);
}

// Takes the pages of all feeds, or none.
static bool reserve_all(const engine_feed *feeds, int32_t count, engine_error *err)
{
    for (int32_t n = 0; n < count; n++) {
        const engine_feed *feed = &feeds[n];
        if (session_reserve(feed->session, feed->session->length + feed->count - feed->done, err))
            continue;
        trim_all(feeds, n);
        return false;
    }
    return true;
}

// A pass being filled: `taken` tokens of some feeds, one sequence each.
typedef struct filling {
    engine_worker *worker;
    const program_inputs *inputs;
    pass_outputs *outputs;
    int32_t tokens, seqs;
    bool states; // are wanted, not logits
    bool trees;  // among the guesses
} filling;

static void add_output(filling *f, int32_t row, float *to)
{
    f->outputs->rows[f->outputs->count] = row;
    f->outputs->to[f->outputs->count++] = to;
}

// Notes a guess; returns its parent.
static int32_t add_guess(engine_session *session, const engine_feed *feed, int32_t guess)
{
    int32_t parent = feed->parents ? feed->parents[guess] : guess - 1;
    session->guesses.tokens[guess] = feed->ids[feed->count - feed->guesses + guess];
    session->guesses.parents[guess] = parent;
    return parent;
}

// Adds the next `take` tokens of a feed.
static void add_tokens(filling *f, const engine_feed *feed, int32_t take)
{
    const program_inputs *in = f->inputs;
    engine_session *session = feed->session;
    size_t vocab = (size_t)f->worker->model->config.vocab;
    for (int32_t i = 0; i < take; i++) {
        int32_t row = f->tokens++, n = feed->done + i, guess = n - (feed->count - feed->guesses);
        in->ids[row] = feed->ids[n];
        if (guess < 0)
            session->ids[session->length + i] = feed->ids[n];
        in->parents[row] = i - 1;
        if (guess >= 0)
            in->parents[row] = i - guess + add_guess(session, feed, guess);
        if (n >= feed->count - 1 - feed->guesses) {
            f->outputs->kept_rows[f->outputs->kept_count] = row;
            f->outputs->kept_to[f->outputs->kept_count] =
                feed->logits ? feed->logits + (size_t)n * vocab : NULL;
            f->outputs->kept[f->outputs->kept_count++] = session;
        } else if (feed->logits)
            add_output(f, row, feed->logits + (size_t)n * vocab);
    }
    f->trees = f->trees || (feed->done + take == feed->count && !is_chain(feed));
    int32_t seq = f->seqs++, pages = f->worker->settings.pages_per_session;
    in->cu_q_lens[seq + 1] = f->tokens;
    in->kv_lens[seq] = session->length + take;
    memcpy(in->page_table + (size_t)seq * (size_t)pages, session->page_table,
           (size_t)session->pages * sizeof *session->page_table);
}

// Sessions that share anything share this; all have pages by now.
static int32_t first_page(const engine_feed *feed)
{
    return feed->session->page_table[0];
}

static bool is_first_of_prefix(const engine_feed *feeds, const int32_t *taken, int32_t n)
{
    for (int32_t m = 0; m < n; m++)
        if (taken[m] && first_page(&feeds[m]) == first_page(&feeds[n]))
            return false;
    return true;
}

// How many of the tokens that are left go into the room: guesses go with the token before them.
static int32_t piece_of(const engine_feed *feed, int32_t left, int32_t room)
{
    if (left <= room)
        return left;
    return room < left - feed->guesses ? room : left - feed->guesses - 1;
}

// Those that wait for one token first, sessions of one prefix side by side; then the others in their order,
// until the pass is full.
static void fill(filling *f, const engine_feed *feeds, int32_t count)
{
    int32_t room = f->worker->settings.options.chunk_tokens, *taken = f->outputs->taken;
    f->inputs->cu_q_lens[0] = 0;
    f->outputs->count = f->outputs->kept_count = 0;
    for (int32_t n = 0; n < count; n++)
        taken[n] = feeds[n].count - feeds[n].done == 1;
    for (int32_t n = 0; n < count; n++)
        if (taken[n] && is_first_of_prefix(feeds, taken, n))
            for (int32_t m = n; m < count; m++)
                if (taken[m] && first_page(&feeds[m]) == first_page(&feeds[n])) {
                    f->outputs->first[m] = f->tokens;
                    add_tokens(f, &feeds[m], 1);
                }
    for (int32_t n = 0; n < count; n++) {
        int32_t left = feeds[n].count - feeds[n].done;
        if (left < 2 || f->tokens == room)
            continue;
        taken[n] = piece_of(&feeds[n], left, room - f->tokens);
        if (taken[n] == 0)
            continue;
        f->outputs->first[n] = f->tokens;
        add_tokens(f, &feeds[n], taken[n]);
    }
}

// The rows of logits that this pass will write are nobody's then.
static bool free_rows(filling *f, const engine_feed *feeds, int32_t count, engine_error *err)
{
    const pass_outputs *out = f->outputs;
    int32_t rows = model_program_head_rows(f->worker->program);
    for (int32_t n = 0; n < count; n++)
        if (out->taken[n])
            session_drop_logits(feeds[n].session);
    if (out->count < rows)
        rows = out->count > out->kept_count ? out->count : out->kept_count;
    for (int32_t row = 0; row < rows; row++)
        if (f->worker->logits_owner[row] && !session_save_logits(f->worker->logits_owner[row], err))
            return false;
    return true;
}

// Logits of last tokens stay where they were made; copies go where a caller wants them.
static bool keep_logits(filling *f, engine_error *err)
{
    const pass_outputs *out = f->outputs;
    const float *logits = model_program_logits(f->worker->program);
    size_t vocab = (size_t)f->worker->model->config.vocab;
    for (int32_t i = 0; i < out->kept_count; i++) {
        engine_session *session = out->kept[i];
        if (i > 0 && out->kept[i - 1] == session)
            session_hold_guess(session);
        else
            session_hold_logits(session, i);
        if (out->kept_to[i] && !model_program_read_logits(f->worker->program, out->kept_to[i],
                                                          logits + (size_t)i * vocab, 1, err))
            return false;
    }
    return true;
}

// Logits of all tokens of a feed that wants them, then those of last tokens.
static bool make_logits(filling *f, engine_error *err)
{
    const pass_outputs *out = f->outputs;
    model_program *program = f->worker->program;
    size_t vocab = (size_t)f->worker->model->config.vocab;
    int32_t most = model_program_head_rows(program);
    for (int32_t first = 0; first < out->count; first += most) {
        int32_t rows = out->count - first < most ? out->count - first : most;
        memcpy(f->inputs->rows, out->rows + first, (size_t)rows * sizeof *out->rows);
        if (!model_program_head(program, rows, err))
            return false;
        for (int32_t i = 0; i < rows; i++)
            if (!model_program_read_logits(program, out->to[first + i],
                                           model_program_logits(program) + (size_t)i * vocab, 1,
                                           err))
                return false;
    }
    memcpy(f->inputs->rows, out->kept_rows, (size_t)out->kept_count * sizeof *out->kept_rows);
    return out->kept_count == 0 ||
           (model_program_head(program, out->kept_count, err) && keep_logits(f, err));
}

static bool run(filling *f, engine_error *err)
{
    const pass_outputs *out = f->outputs;
    model_program *program = f->worker->program;
    if (f->tokens == 0)
        return true;
    if (f->states)
        return model_program_forward(program, f->tokens, f->seqs, err);
    if (f->trees)
        return model_program_forward_trees(program, f->tokens, f->seqs, err) && make_logits(f, err);
    if (f->tokens == out->kept_count && f->tokens == f->seqs && out->count == 0)
        return model_program_decode(program, f->seqs, err) && keep_logits(f, err);
    return model_program_forward(program, f->tokens, f->seqs, err) && make_logits(f, err);
}

// The pass has been run: what it did becomes part of the timelines.
static bool commit(const filling *f, engine_feed *feeds, int32_t count)
{
    bool more = false;
    for (int32_t n = 0; n < count; n++) {
        engine_feed *feed = &feeds[n];
        int32_t taken = f->outputs->taken[n];
        session_guesses *guesses = &feed->session->guesses;
        if (taken > 0) {
            feed->session->length += taken - guesses->count;
            guesses->first = feed->session->length;
            guesses->at = -1;
        }
        session_enter_pages(feed->session);
        feed->done += taken;
        more = more || feed->done < feed->count;
    }
    return more;
}

static bool pass(engine_worker *worker, engine_feed *feeds, int32_t count, bool states, bool *more,
                 engine_error *err)
{
    filling f = {worker, model_program_inputs(worker->program), &worker->outputs, 0, 0, states,
                 false};
    if (!session_admits(worker, count, 0, err))
        return false;
    for (int32_t n = 0; n < count; n++)
        if (!check_feed(worker, feeds, n, err))
            return false;
    if (!check_guesses(worker, feeds, count, err) ||
        !model_program_free_inputs(worker->program, err) || !reserve_all(feeds, count, err))
        return false;
    fill(&f, feeds, count);
    if (!free_rows(&f, feeds, count, err) || !run(&f, err)) {
        for (int32_t n = 0; n < count; n++)
            if (f.outputs->taken[n])
                session_drop_logits(feeds[n].session);
        trim_all(feeds, count);
        return false;
    }
    bool left = commit(&f, feeds, count);
    if (more)
        *more = left;
    return true;
}

bool engine_pass(engine_worker *worker, engine_feed *feeds, int32_t count, bool *more,
                 engine_error *err)
{
    return session_generates(worker, err) && pass(worker, feeds, count, false, more, err);
}

bool pass_states(engine_worker *worker, engine_feed *feeds, int32_t count, engine_error *err)
{
    return pass(worker, feeds, count, true, NULL, err);
}

bool engine_eval(engine_worker *worker, engine_feed *feeds, int32_t count,
                 engine_progress_fn *progress, void *user, engine_error *err)
{
    int64_t all = 0;
    for (int32_t n = 0; n < count; n++) {
        feeds[n].done = 0;
        all += feeds[n].count;
    }
    if (all > INT32_MAX)
        return engine_fail(err, "more than 2^31 tokens at once: evaluate in pieces");
    for (bool more = true; more;) {
        if (!engine_pass(worker, feeds, count, &more, err))
            return false;
        int32_t done = 0;
        for (int32_t n = 0; n < count; n++)
            done += feeds[n].done;
        if (progress && !progress(user, done, (int32_t)all) && more) {
            trim_all(feeds, count);
            return engine_fail(err, "stopped");
        }
    }
    return true;
}

bool session_sync(engine_session *session, const int32_t *ids, int32_t count,
                  engine_progress_fn *progress, void *user, int32_t *evaluated, engine_error *err)
{
    int32_t context = session->worker->settings.options.context_tokens;
    if (count < 1)
        return engine_fail(err, "the prompt is empty: give at least one token");
    if (count > context)
        return engine_fail(err,
                           "the prompt has %d tokens, the context holds %d: shorten it or choose a "
                           "larger context (--ctx)",
                           count, context);
    int32_t reused = session_reuse(session, ids, count);
    *evaluated = count - reused;
    if (reused == count)
        return true;
    engine_feed feed = {.session = session, .ids = ids + reused, .count = count - reused};
    return engine_eval(session->worker, &feed, 1, progress, user, err);
}

bool engine_session_sync(engine_session *session, const int32_t *ids, int32_t count,
                         engine_progress_fn *progress, void *user, engine_error *err)
{
    int32_t evaluated;
    return session_sync(session, ids, count, progress, user, &evaluated, err);
}
