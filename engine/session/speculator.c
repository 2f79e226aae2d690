// SPDX-License-Identifier: MIT
#include "engine/session/speculator.h"

#include <string.h>

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
    if (s->wish.most < 1 || s->wish.most > ENGINE_MAX_GUESSES)
        s->wish.most = ENGINE_MAX_GUESSES;
    draft_begin(&s->draft, wish->draft, sampling);
    return !wish->lookup || lookup_make(&s->lookup, room);
}

void speculator_end(speculator *s)
{
    lookup_free(&s->lookup);
    draft_end(&s->draft);
    *s = (speculator){0};
}

// --- how likely guesses are -----------------------------------------------------------------------------

static int32_t lookup_kind(int32_t agreed)
{
    return agreed < 3 ? 0 : agreed < 4 ? 1 : agreed < 8 ? 2 : 3;
}

// Least probabilities of the kinds of a draft's guesses, and 1.
static const double steps[SPECULATOR_DRAFTS + 1] = {0, 0.1, 0.25, 0.5, 0.75, 0.9, 1};

static int32_t draft_kind(double likely)
{
    int32_t kind = 0;
    while (kind < SPECULATOR_DRAFTS - 1 && likely >= steps[kind + 1])
        kind++;
    return SPECULATOR_LOOKUPS + kind;
}

static payoff_record *record_of(speculator *s, int32_t kind, int32_t rank)
{
    return &s->records[kind][rank < SPECULATOR_RANKS ? rank : SPECULATOR_RANKS - 1];
}

// Before anything is known of a kind: of what a draft draws as much as of all that it drew, of the others what it says.
static double assumed(speculator *s, int32_t kind, int32_t rank)
{
    const double first = 0.65, other = 0.3;
    if (kind < SPECULATOR_LOOKUPS)
        return rank == 0 ? first : other;
    if (kind == SPECULATOR_ROW)
        return first;
    if (rank == 0)
        return payoff_right(record_of(s, SPECULATOR_ROW, 0), first);
    const double *step = &steps[kind - SPECULATOR_LOOKUPS];
    return (step[0] + step[1]) / 2;
}

static double likely(speculator *s, int32_t kind, int32_t rank)
{
    return payoff_right(record_of(s, kind, rank), assumed(s, kind, rank));
}

// How likely the way to each guess from `first` on is: a guess is right if those before it behind the same
// parent are wrong and it is of those that its kind has right then.
static void rate(speculator *s, guess_tree *tree, int32_t first)
{
    for (int32_t i = first; i < tree->count; i++) {
        int32_t parent = tree->parents[i];
        double right = parent < 0 ? 1 : tree->right[parent];
        for (int32_t n = parent + 1; n < i; n++)
            if (tree->parents[n] == parent)
                right -= tree->right[n];
        tree->right[i] = right * likely(s, tree->kinds[i], tree->ranks[i]);
    }
}

// Takes of all guesses those that are worth their rows; `spent` are the seconds that it took to make them.
static void choose(speculator *s, const payoff_costs *costs, int32_t rows, double spent,
                   int32_t most, const guess_tree *all)
{
    payoff_pass pass = payoff_begin(costs, rows, spent);
    guess_tree_choose(all, s->wish.always ? NULL : &pass, most, &s->guesses);
    if (all->count > 0 && s->guesses.count == 0)
        payoff_fade(record_of(s, all->kinds[0], 0));
}

// --- making them ----------------------------------------------------------------------------------------

static void look_up(speculator *s, const payoff_costs *costs, const int32_t *ids, int32_t count,
                    int32_t rows, int32_t most, bool branches)
{
    guess_tree all;
    lookup_guess(&s->lookup, ids, count, most, branches ? LOOKUP_WAYS : 1, &all);
    for (int32_t i = 0; i < all.count; i++)
        all.kinds[i] = lookup_kind(all.kinds[i]);
    rate(s, &all, 0);
    choose(s, costs, rows, 0, most, &all);
}

// Is a token more of the draft worth asking for, behind guesses that are right with the probability?
static bool goes_on(speculator *s, payoff_pass *pass, double right)
{
    if (s->wish.always)
        return true;
    right *= likely(s, SPECULATOR_ROW, 0);
    return payoff_add(pass, right, s->draft.seconds);
}

// As many tokens in a row as are worth it, before any is asked for.
static void draft_row(speculator *s, const payoff_costs *costs, int32_t token, int32_t rows,
                      int32_t most)
{
    payoff_pass pass = payoff_begin(costs, rows, 0);
    int32_t count = 0, tokens[ENGINE_MAX_GUESSES];
    for (double right = 1; count < most && goes_on(s, &pass, right); count++)
        right *= likely(s, SPECULATOR_ROW, 0);
    if (count > 0 && draft_chain(&s->draft, token, count, tokens))
        for (int32_t i = 0; i < count; i++)
            guess_tree_add(&s->guesses, i - 1, tokens[i], SPECULATOR_ROW);
}

// Along the tokens that the draft draws, with what else it holds likely beside them.
static void draft_tree(speculator *s, const payoff_costs *costs, int32_t token, int32_t rows,
                       int32_t most)
{
    payoff_pass pass = payoff_begin(costs, rows, 0);
    guess_tree all = {.count = 0};
    int32_t last = -1;
    double spent = 0;
    for (int32_t n = 0; n < most; n++) {
        draft_step step;
        int32_t first = all.count;
        if (!goes_on(s, &pass, last < 0 ? 1 : all.right[last]) ||
            !draft_ask(&s->draft, token, &step))
            break;
        spent += s->draft.seconds;
        for (int32_t i = 0; i < step.count; i++)
            guess_tree_add(&all, last, step.tokens[i], draft_kind(step.likely[i]));
        rate(s, &all, first);
        last = first;
        token = step.tokens[0];
    }
    choose(s, costs, rows, spent, most, &all);
}

static void ask_draft(speculator *s, const payoff_costs *costs, const int32_t *ids, int32_t count,
                      int32_t rows, int32_t most, bool branches)
{
    payoff_pass pass = payoff_begin(costs, rows, 0);
    if (!goes_on(s, &pass, 1)) {
        payoff_fade(record_of(s, SPECULATOR_ROW, 0));
        return;
    }
    most = draft_follow(&s->draft, ids, count, most);
    if (most > 0 && branches)
        draft_tree(s, costs, ids[count - 1], rows, most);
    else if (most > 0)
        draft_row(s, costs, ids[count - 1], rows, most);
}

int32_t speculator_guess(speculator *s, const payoff_costs *costs, const int32_t *ids,
                         int32_t count, int32_t rows, int32_t most, bool branches)
{
    s->guesses.count = 0;
    s->at = -1;
    branches = branches && !s->wish.chains;
    most = most < s->wish.most ? most : s->wish.most;
    if (s->lookup.heads)
        look_up(s, costs, ids, count, rows, most, branches);
    if (s->guesses.count == 0 && s->draft.worker)
        ask_draft(s, costs, ids, count, rows, most, branches);
    s->guessed += s->guesses.count;
    return s->guesses.count;
}

bool speculator_learn(speculator *s, int32_t token)
{
    const guess_tree *tree = &s->guesses;
    for (int32_t i = s->at + 1; i < tree->count; i++) {
        if (tree->parents[i] != s->at)
            continue;
        bool right = tree->tokens[i] == token;
        payoff_learn(record_of(s, tree->kinds[i], tree->ranks[i]), right);
        if (tree->kinds[i] >= SPECULATOR_LOOKUPS && tree->kinds[i] != SPECULATOR_ROW &&
            tree->ranks[i] == 0)
            payoff_learn(record_of(s, SPECULATOR_ROW, 0), right);
        if (right) {
            s->accepted++;
            s->at = i;
            return true;
        }
    }
    s->guesses.count = 0;
    return false;
}
