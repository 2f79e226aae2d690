// SPDX-License-Identifier: MIT
// What is guessed, as trees, and when it pays.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/speculate/lookup.h"
#include "engine/speculate/payoff.h"

// --- lookup -------------------------------------------------------------------------------------------

static void check_tree(const guess_tree *tree, int32_t count, const int32_t *tokens,
                       const int32_t *parents)
{
    assert_int_equal(tree->count, count);
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(tree->tokens[i], tokens[i]);
        assert_int_equal(tree->parents[i], parents[i]);
    }
}

static void guesses_what_followed_the_longest_agreement(void **state)
{
    (void)state;
    static const int32_t ids[] = {1, 2, 3, 4, 9, 2, 3, 5, 8, 1, 2, 3};
    static const int32_t row[] = {-1, 0, 1, 2};
    guess_tree guesses;
    lookup l;
    assert_true(lookup_make(&l, 32));
    lookup_guess(&l, ids, 12, 4, 1, &guesses);
    check_tree(&guesses, 4, ids + 3, row);
    assert_int_equal(guesses.kinds[0], 3);
    assert_true(guess_tree_is_chain(&guesses));
    lookup_guess(&l, ids, 12, 0, 1, &guesses);
    assert_int_equal(guesses.count, 0);
    lookup_clear(&l);
    // Of equal agreements the latest counts: 2 3 -> 5.
    static const int32_t again[] = {2, 3, 4, 7, 2, 3, 5, 6, 2, 3}, latest[] = {5, 6};
    lookup_guess(&l, again, 10, 2, 1, &guesses);
    check_tree(&guesses, 2, latest, row);
    lookup_free(&l);
}

// Ways that begin alike are one until they part; equal ones are one.
static void guesses_every_way_that_followed(void **state)
{
    (void)state;
    static const int32_t ids[] = {9, 2, 3, 4, 5, 0, 2, 3, 4, 6, 1, 2,
                                  3, 4, 5, 8, 2, 3, 7, 7, 9, 2, 3};
    static const int32_t tokens[] = {4, 5, 0, 7, 7, 9, 8, 6, 1},
                         parents[] = {-1, 0, 1, -1, 3, 4, 1, 0, 7};
    static const int32_t ranks[] = {0, 0, 0, 1, 0, 0, 1, 1, 0};
    guess_tree guesses;
    lookup l;
    assert_true(lookup_make(&l, 32));
    lookup_guess(&l, ids, 23, 3, 4, &guesses);
    check_tree(&guesses, 9, tokens, parents);
    assert_memory_equal(guesses.ranks, ranks, sizeof ranks);
    assert_int_equal(guesses.kinds[0], 3); // 9 2 3
    assert_int_equal(guesses.kinds[3], 2);
    assert_false(guess_tree_is_chain(&guesses));
    lookup_guess(&l, ids, 23, 3, 2, &guesses);
    check_tree(&guesses, 6, tokens, parents);
    lookup_free(&l);
}

static void guesses_nothing_where_nothing_agrees(void **state)
{
    (void)state;
    int32_t ids[200];
    guess_tree guesses;
    lookup l;
    assert_true(lookup_make(&l, 200));
    for (int32_t i = 0; i < 200; i++) {
        ids[i] = i;
        lookup_guess(&l, ids, i + 1, 4, LOOKUP_WAYS, &guesses);
        assert_int_equal(guesses.count, 0);
    }
    lookup_free(&l);
    lookup_free(&l);
}

// A text that repeats itself goes on beyond its end, however it is handed over, and there is one way only.
static void goes_on_with_a_period(void **state)
{
    (void)state;
    int32_t ids[64];
    guess_tree guesses;
    for (int32_t i = 0; i < 64; i++)
        ids[i] = i % 3;
    for (int32_t step = 1; step < 30; step += 7) {
        lookup l;
        assert_true(lookup_make(&l, 64));
        for (int32_t count = 1; count <= 50; count += step) {
            lookup_guess(&l, ids, count, 10, LOOKUP_WAYS, &guesses);
            assert_int_equal(guesses.count, count < 5 ? 0 : 10);
            for (int32_t i = 0; i < guesses.count; i++)
                assert_int_equal(guesses.tokens[i], (count + i) % 3);
        }
        lookup_free(&l);
    }
}

// --- what pays ----------------------------------------------------------------------------------------

static payoff_costs costs_of(double pass, double row)
{
    payoff_costs costs = {0};
    for (int32_t n = 0; n < 300; n++) {
        int32_t rows = 1 + n % 9;
        payoff_time(&costs, rows, pass + row * rows);
    }
    return costs;
}

// How many guesses in a row are made of those that are each right with the probability.
static int32_t row_of(const payoff_costs *costs, double seconds, double right, int32_t rows,
                      int32_t most)
{
    payoff_pass pass = payoff_begin(costs, rows, 0);
    int32_t count = 0;
    for (double way = right; count < most && payoff_add(&pass, way, seconds); way *= right)
        count++;
    return count;
}

static void guesses_as_long_as_it_pays(void **state)
{
    (void)state;
    payoff_costs free_rows = costs_of(1, 0.01), dear_rows = costs_of(0.1, 1);
    assert_int_equal(row_of(&free_rows, 0, 0.99, 1, 12), 12);
    assert_int_equal(row_of(&dear_rows, 0, 0.05, 1, 12), 0);
    assert_int_equal(row_of(&dear_rows, 0, 0.65, 1, 12), 0);
    int32_t some = row_of(&free_rows, 0, 0.65, 1, 12);
    assert_true(some > 1 && some < 12);
    // Beside many rows a row costs more of what a pass brings; and guesses may take time themselves.
    assert_true(row_of(&free_rows, 0, 0.65, 30, 12) < some);
    assert_int_equal(row_of(&free_rows, 2, 0.65, 1, 12), 0);
    payoff_costs unknown = {0};
    assert_int_equal(row_of(&unknown, 0, 0.99, 1, 12), 0);
}

// As many as bring the most tokens a second, by the costs and the probability that were told: within what the margin
// gives away.
static void guesses_as_many_as_bring_the_most(void **state)
{
    (void)state;
    static const double rows[] = {0.05, 0.25, 0.5};
    for (int n = 0; n < 9; n++) {
        double row = rows[n % 3], best = 0, tokens = 1, guessed_rate = 0;
        payoff_costs costs = costs_of(1, row);
        double right = n < 3 ? 0.55 : n < 6 ? 0.8 : 0.95, brings = right;
        int32_t guesses = row_of(&costs, 0, right, 1, 15);
        for (int32_t i = 0; i <= 15; i++, tokens += brings, brings *= right) {
            double rate = tokens / (1 + row * (1 + i));
            best = rate > best ? rate : best;
            guessed_rate = i == guesses ? rate : guessed_rate;
        }
        assert_true(guesses > 0 && guessed_rate > 0.985 * best);
    }
}

// Of a tree the likeliest guesses are taken, wherever they hang; the first way comes first.
static void takes_the_likeliest_branches(void **state)
{
    (void)state;
    static const int32_t tokens[] = {1, 2, 3, 4, 5, 6}, parents[] = {-1, -1, 0, 0, 1, 2};
    static const double right[] = {0.6, 0.3, 0.5, 0.08, 0.2, 0.4};
    static const int32_t all[] = {1, 3, 6, 2, 4, 5}, all_parents[] = {-1, 0, 1, -1, 0, 3};
    guess_tree tree = {.count = 0}, chosen;
    for (int32_t i = 0; i < 6; i++) {
        assert_int_equal(guess_tree_add(&tree, parents[i], tokens[i], i), i);
        assert_int_equal(guess_tree_add(&tree, parents[i], tokens[i], 9), i);
        tree.right[i] = right[i];
    }
    guess_tree_choose(&tree, NULL, 15, &chosen);
    check_tree(&chosen, 6, all, all_parents);
    assert_int_equal(chosen.ranks[guess_tree_find(&chosen, -1, 2)], 1);
    assert_int_equal(chosen.kinds[guess_tree_find(&chosen, -1, 2)], 1);
    guess_tree_choose(&tree, NULL, 4, &chosen);
    check_tree(&chosen, 4, all, all_parents);
    // A row costs a fifth of a pass: those of 0.6, 0.5 and 0.4 are worth it, a branch of 0.3 beside them is not.
    payoff_costs costs = costs_of(0.8, 0.2);
    payoff_pass pass = payoff_begin(&costs, 1, 0);
    guess_tree_choose(&tree, &pass, 15, &chosen);
    check_tree(&chosen, 3, all, all_parents);
    assert_true(pass.tokens > 2.49 && pass.tokens < 2.51);
}

static void trees_end_at_their_room(void **state)
{
    (void)state;
    guess_tree tree = {.count = 0};
    for (int32_t i = 0; i < GUESS_TREE_ROOM; i++)
        assert_int_equal(guess_tree_add(&tree, i - 1, i, 0), i);
    assert_int_equal(guess_tree_add(&tree, -1, 999, 0), -1);
    assert_int_equal(guess_tree_add(&tree, -1, 0, 0), 0);
}

static void learns_what_is_right(void **state)
{
    (void)state;
    payoff_record record = {0};
    assert_true(payoff_right(&record, 0.65) == 0.65);
    for (int32_t n = 0; n < 200; n++)
        payoff_learn(&record, n % 4 != 0);
    double right = payoff_right(&record, 0.1);
    assert_true(right > 0.6 && right < 0.85);
    for (int32_t n = 0; n < 120; n++)
        payoff_learn(&record, false);
    assert_true(payoff_right(&record, 0.65) < 0.12);
}

static void tries_again_now_and_then(void **state)
{
    (void)state;
    payoff_costs costs = costs_of(1, 0.4);
    payoff_record bad = {0};
    int32_t waited = 0;
    for (int32_t n = 0; n < 60; n++)
        payoff_learn(&bad, false);
    for (; row_of(&costs, 0, payoff_right(&bad, 0.65), 1, 8) == 0; waited++) {
        assert_true(waited < 1000);
        payoff_fade(&bad);
    }
    assert_true(waited > 20);
}

// --- machines that others use -------------------------------------------------------------------------

static uint32_t dice = 1;

static double throw_dice(void)
{
    dice = dice * 1664525u + 1013904223u;
    return (dice >> 8) / 16777216.0;
}

// Its speed changes by a factor of three every so many passes, one in twenty takes up to five times as long, all are
// uncertain by a fifth.
static double noisy(int32_t pass, double seconds)
{
    if (pass / 37 % 2)
        seconds *= 3;
    if (throw_dice() < 0.05)
        seconds *= 1 + 4 * throw_dice();
    return seconds * (0.9 + 0.2 * throw_dice());
}

// Tokens for what they would have taken on a quiet machine, with guesses that are right with the probability.
static double rate_of(double row, double right, int32_t passes)
{
    payoff_costs costs = {0};
    payoff_record record = {0};
    double tokens = 0, quiet = 0;
    for (int32_t pass = 0; pass < passes; pass++) {
        int32_t guesses = row_of(&costs, 0, payoff_right(&record, 0.65), 1, 15), way = 0;
        if (guesses == 0)
            payoff_fade(&record);
        while (way < guesses && throw_dice() < right)
            payoff_learn(&record, true), way++;
        if (way < guesses)
            payoff_learn(&record, false);
        tokens += 1 + way;
        quiet += 1 + row * guesses;
        payoff_time(&costs, 1 + guesses, noisy(pass, 1 + row * guesses));
    }
    return tokens / quiet;
}

static double best_rate(double row, double right)
{
    double best = 1, tokens = 1, brings = right;
    for (int32_t n = 1; n <= 15; n++, brings *= right) {
        tokens += brings;
        double rate = tokens / (1 + row * n);
        best = rate > best ? rate : best;
    }
    return best;
}

static void noise_costs_little(void **state)
{
    (void)state;
    static const double rows[] = {0.03, 0.1, 0.2, 0.35}, rights[] = {0.5, 0.75, 0.9};
    for (uint32_t n = 0; n < 12; n++) {
        double row = rows[n / 3], right = rights[n % 3], share = 0;
        for (uint32_t seed = 1; seed <= 8; seed++) {
            dice = seed;
            share += rate_of(row, right, 400) / best_rate(row, right) / 8;
        }
        if (share < 0.92)
            fail_msg("a row of %g, %g right: %g of what is possible", row, right, share);
    }
    // Where it does not pay, trying costs little.
    assert_true(rate_of(0.9, 0.1, 400) > 0.85);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guesses_what_followed_the_longest_agreement),
        cmocka_unit_test(guesses_every_way_that_followed),
        cmocka_unit_test(guesses_nothing_where_nothing_agrees),
        cmocka_unit_test(goes_on_with_a_period),
        cmocka_unit_test(guesses_as_long_as_it_pays),
        cmocka_unit_test(guesses_as_many_as_bring_the_most),
        cmocka_unit_test(takes_the_likeliest_branches),
        cmocka_unit_test(trees_end_at_their_room),
        cmocka_unit_test(learns_what_is_right),
        cmocka_unit_test(tries_again_now_and_then),
        cmocka_unit_test(noise_costs_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
