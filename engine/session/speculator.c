// SPDX-License-Identifier: MIT
#include "engine/session/speculator.h"

#include <string.h>

#include "engine/base/clock.h"

enum { KIND_DRAFT = SPECULATOR_KINDS - 1 };

bool engine_speculation_fits(const engine_model *model, const engine_model *draft,
                             engine_error *err)
{
    const tokenizer *ours = model->tokenizer, *theirs = draft->tokenizer;
    if (draft->config.full_mask)
        return engine_fail(err, "the draft model is an encoder: it cannot guess text");
    if (draft->config.vocab != model->config.vocab || !ours != !theirs ||
        (ours && tokenizer_size(ours) != tokenizer_size(theirs)))
        return engine_fail(err,
                           "the draft model has %d tokens, the model %d: choose one with the "
                           "same vocabulary",
                           draft->config.vocab, model->config.vocab);
    for (size_t id = 0; ours && id < tokenizer_size(ours); id++) {
        tokenizer_bytes a = {"", 0}, b = {"", 0};
        bool known = tokenizer_piece(ours, (int32_t)id, &a);
        if (known != tokenizer_piece(theirs, (int32_t)id, &b) || a.size_bytes != b.size_bytes ||
            memcmp(a.data, b.data, a.size_bytes) != 0)
            return engine_fail(err,
                               "token %zu of the draft model is another than the model's: "
                               "choose one with the same vocabulary",
                               id);
    }
    return true;
}

bool speculator_begin(speculator *s, const engine_speculation *wish,
                      const engine_sampling *sampling, int32_t room)
{
    *s = (speculator){0};
    if (!wish)
        return true;
    s->wish = *wish;
    s->sampling = *sampling;
    if (s->wish.most < 1 || s->wish.most > ENGINE_MAX_GUESSES)
        s->wish.most = ENGINE_MAX_GUESSES;
    return !wish->lookup || lookup_make(&s->lookup, room);
}

void speculator_end(speculator *s)
{
    lookup_free(&s->lookup);
    engine_session_close(s->draft);
    *s = (speculator){0};
}

// How many of `most` guesses of the kind are worth making.
static int32_t worth(speculator *s, const payoff_costs *costs, double seconds, int32_t rows,
                     int32_t most)
{
    if (s->wish.always)
        return most < 0 ? 0 : most;
    return payoff_guesses(costs, seconds, &s->records[s->kind], rows, most);
}

static int32_t kind_of(int32_t agreed)
{
    return agreed < 3 ? 0 : agreed < 4 ? 1 : agreed < 8 ? 2 : 3;
}

// Brings the draft's timeline to all but the last token.
static bool follow(speculator *s, const int32_t *ids, int32_t count)
{
    if (!s->draft)
        s->draft = engine_session_open(s->wish.draft, NULL);
    if (!s->draft)
        return false;
    int32_t common = engine_session_common(s->draft, ids, count);
    common = common < count - 1 ? common : count - 1;
    engine_session_truncate(s->draft, common);
    engine_feed feed = {.session = s->draft, .ids = ids + common, .count = count - 1 - common};
    return feed.count == 0 || engine_eval(s->wish.draft, &feed, 1, NULL, NULL, NULL);
}

// The draft draws with the text's own seed: where both models are of one mind, they draw the same.
static int32_t ask_draft(speculator *s, const int32_t *ids, int32_t count, int32_t most)
{
    int32_t room = s->wish.draft->settings.options.context_tokens - count;
    most = most < room ? most : room;
    if (most < 1)
        return 0;
    s->no_draft = !follow(s, ids, count);
    engine_draw draw = {s->draft, &s->sampling, ids[count - 1]};
    double started = engine_seconds();
    if (s->no_draft || !engine_decode(s->wish.draft, &draw, 1, most, s->guesses, NULL)) {
        s->no_draft = true;
        return 0;
    }
    double one = (engine_seconds() - started) / most;
    s->draft_seconds = s->draft_seconds > 0 ? 0.9 * s->draft_seconds + 0.1 * one : one;
    return most;
}

int32_t speculator_guess(speculator *s, const payoff_costs *costs, const int32_t *ids,
                         int32_t count, int32_t rows, int32_t most)
{
    s->made = 0;
    most = most < s->wish.most ? most : s->wish.most;
    if (s->lookup.heads) {
        int32_t agreed, found = lookup_guess(&s->lookup, ids, count, most, s->guesses, &agreed);
        s->kind = kind_of(agreed);
        if (found > 0)
            s->made = worth(s, costs, 0, rows, found);
    }
    if (s->made > 0 || !s->wish.draft || s->no_draft)
        return s->made;
    s->kind = KIND_DRAFT;
    most = worth(s, costs, s->draft_seconds, rows, most);
    return s->made = ask_draft(s, ids, count, most);
}

void speculator_learn(speculator *s, int32_t right)
{
    if (s->made == 0)
        return;
    payoff_learn(&s->records[s->kind], s->made, right);
    s->guessed += s->made;
    s->accepted += right;
    s->made = 0;
}
