// SPDX-License-Identifier: MIT
// What passes are made of, chosen for requests that are made up, on a clock that counts passes: budgets and pages
// are kept to, whoever came first goes on, users are served alike, and all come to their end.
// An argument is the number of requests of the simulation (a million: a minute).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/schedule/choose.h"
#include "engine/schedule/users.h"

enum { PAGE = 16, BUDGET = 64, PLACES = 12, QUEUE = 40, USERS = 5 };

static int32_t all_requests = 20000;
static uint64_t state = 1;

static int32_t draw(int32_t low, int32_t high)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + (int32_t)((state >> 33) % (uint64_t)(high - low + 1));
}

static int32_t pages_for(int32_t tokens)
{
    return (tokens + PAGE - 1) / PAGE;
}

// --- single questions ---------------------------------------------------------------------------------

static const schedule_limits plenty = {BUDGET, PLACES, PAGE, 1000};

static schedule_entry running(uint64_t arrival, int32_t length, int32_t count)
{
    int32_t pages = pages_for(length);
    return (schedule_entry){.tag = (int32_t)arrival,
                            .arrival = arrival,
                            .length = length,
                            .count = count,
                            .pages = pages,
                            .own = pages,
                            .user = (int32_t)arrival};
}

static const schedule_entry *find(const schedule_entry *entries, int32_t count, int32_t tag)
{
    for (int32_t i = 0; i < count; i++)
        if (entries[i].tag == tag)
            return &entries[i];
    fail_msg("entry %d is gone", tag);
    return NULL;
}

static void decodes_come_first(void **unused)
{
    (void)unused;
    schedule_entry entries[] = {running(0, 0, 500), running(1, 40, 41), running(2, 0, 10),
                                running(3, 15, 16)};
    schedule_pass(&plenty, entries, 4);
    assert_int_equal(find(entries, 4, 1)->tokens, 1);
    assert_int_equal(find(entries, 4, 3)->tokens, 1);
    assert_int_equal(find(entries, 4, 0)->tokens, BUDGET - 2); // who came first has the rest
    assert_int_equal(find(entries, 4, 2)->tokens, 0);
}

static void pieces_go_to_who_was_served_less(void **unused)
{
    (void)unused;
    schedule_entry entries[] = {running(0, 0, 500), running(1, 0, 20), running(2, 0, 30)};
    entries[0].served = 1000;
    entries[2].priority = -1;
    schedule_pass(&plenty, entries, 3);
    assert_int_equal(find(entries, 3, 1)->tokens, 20);
    assert_int_equal(find(entries, 3, 0)->tokens, BUDGET - 20);
    assert_int_equal(find(entries, 3, 2)->tokens, 0); // a lower priority waits for both
}

static void the_youngest_gives_way(void **unused)
{
    (void)unused;
    schedule_limits limits = {BUDGET, 0, PAGE, 0};
    schedule_entry entries[] = {running(7, 32, 33), running(5, 32, 33), running(9, 20, 21),
                                running(6, 20, 100)};
    schedule_pass(&limits, entries, 4);
    assert_int_equal(find(entries, 4, 5)->tokens, 1); // 9 gives two pages, which 5 and 7 need
    assert_int_equal(find(entries, 4, 7)->tokens, 1);
    assert_true(find(entries, 4, 9)->preempted);
    assert_false(find(entries, 4, 6)->preempted);
    assert_int_equal(find(entries, 4, 6)->tokens, 12); // as far as its page goes
    entries[0] = running(1, 32, 33);
    entries[1] = running(2, 32, 33);
    entries[0].priority = -1; // came first, counts less
    schedule_pass(&limits, entries, 2);
    assert_true(find(entries, 2, 1)->preempted);
    assert_int_equal(find(entries, 2, 2)->tokens, 1);
}

static void a_shared_page_takes_one_more(void **unused)
{
    (void)unused;
    schedule_limits limits = {BUDGET, 0, PAGE, 1};
    schedule_entry entries[] = {running(0, 20, 21), running(1, 20, 21)};
    entries[0].copies = entries[1].copies = true;
    entries[0].own = entries[1].own = 0;
    schedule_pass(&limits, entries, 2);
    assert_int_equal(find(entries, 2, 0)->tokens, 1);
    assert_true(find(entries, 2, 1)->preempted);
}

static void who_is_alone_and_too_long_is_told(void **unused)
{
    (void)unused;
    schedule_limits limits = {BUDGET, 0, PAGE, 0};
    schedule_entry decoding = running(0, 32, 33), reading = running(0, 32, 80);
    schedule_pass(&limits, &decoding, 1);
    assert_true(decoding.stuck);
    schedule_pass(&limits, &reading, 1);
    assert_true(reading.stuck);
    schedule_entry both[] = {running(0, 32, 80), running(1, 32, 90)}; // each waits for the other
    schedule_pass(&limits, both, 2);
    assert_true(find(both, 2, 1)->preempted);
    assert_false(find(both, 2, 0)->stuck);
}

static void joining_is_in_turns(void **unused)
{
    (void)unused;
    schedule_limits limits = {BUDGET, 3, PAGE, 100};
    schedule_entry waiting[6];
    for (int32_t i = 0; i < 6; i++) {
        waiting[i] = running((uint64_t)i, 0, 10);
        waiting[i].user = i < 4 ? 0 : i; // 0 has come four times, 4 and 5 once
    }
    schedule_join(&limits, NULL, 0, waiting, 6);
    assert_true(waiting[0].joins && waiting[4].joins && waiting[5].joins);
    waiting[0].held = waiting[5].resumes = true;
    waiting[3].priority = 1;
    limits.places = 2;
    schedule_join(&limits, NULL, 0, waiting, 6);
    assert_true(waiting[3].joins && waiting[5].joins && !waiting[0].joins);
}

static void joining_waits_for_pages(void **unused)
{
    (void)unused;
    schedule_limits limits = {BUDGET, 5, PAGE, 7};
    schedule_entry runs = running(0, 16, 60);
    schedule_entry waiting[] = {running(1, 0, 40), running(2, 0, 2)};
    schedule_join(&limits, &runs, 1, waiting, 2); // 3 pages and one more are promised to who runs
    assert_false(waiting[0].joins);
    assert_false(waiting[1].joins); // it must not overtake for ever
    limits.free_pages = 1;
    schedule_join(&limits, NULL, 0, waiting, 2); // but one joins if nobody runs
    assert_true(waiting[0].joins && !waiting[1].joins);
}

static void turns_are_not_saved_up(void **unused)
{
    (void)unused;
    schedule_user list[3];
    memset(list, 0, sizeof list);
    schedule_users users = {list, 3};
    int32_t a = schedule_users_enter(&users, 10), b = schedule_users_enter(&users, 20);
    assert_int_not_equal(a, b);
    assert_int_equal(schedule_users_enter(&users, 10), a);
    list[a].served = 100;
    list[b].served = 70;
    int32_t c = schedule_users_enter(&users, 30);
    assert_int_equal(list[c].served, 70);
    schedule_users_leave(&users, b);
    assert_int_equal(schedule_users_enter(&users, 40), b);
    assert_int_equal(list[b].served, 70);
}

// --- many requests ------------------------------------------------------------------------------------

typedef struct made_up {
    schedule_entry entry;
    int32_t prompt, wanted; // tokens of the whole timeline
    int32_t joined_at;
} made_up;

typedef struct world {
    made_up live[PLACES + QUEUE]; // those that run first
    int32_t runs, count;
    int32_t pool, free;
    int32_t arrived, ended, preempted;
    int64_t served[USERS];
} world;

static void arrive(world *w)
{
    while (w->arrived < all_requests && w->count - w->runs < QUEUE && draw(0, 3) > 0) {
        int32_t prompt = draw(0, 9) == 0 ? draw(1, 300) : draw(1, 60);
        made_up new = {.entry = {.arrival = (uint64_t)w->arrived++,
                                 .priority = draw(0, 19) == 0,
                                 .user = draw(0, USERS - 1),
                                 .count = prompt},
                       .prompt = prompt,
                       .wanted = prompt + draw(1, 120)};
        w->live[w->count++] = new;
    }
}

static void join(world *w)
{
    schedule_entry runs[PLACES], waiting[PLACES + QUEUE];
    schedule_limits limits = {BUDGET, PLACES - w->runs, PAGE, w->free};
    int32_t waits = w->count - w->runs;
    for (int32_t i = 0; i < w->count; i++) {
        w->live[i].entry.served = w->served[w->live[i].entry.user];
        *(i < w->runs ? &runs[i] : &waiting[i - w->runs]) = w->live[i].entry;
    }
    schedule_join(&limits, runs, w->runs, waiting, waits);
    int32_t joined = 0;
    for (int32_t i = 0; i < waits; i++)
        if (waiting[i].joins) {
            int32_t at = w->runs + i;
            made_up one = w->live[at];
            one.entry.resumes = false;
            w->live[at] = w->live[w->runs + joined];
            w->live[w->runs + joined++] = one;
        }
    assert_true(joined <= limits.places);
    w->runs += joined;
}

static void end(world *w, int32_t i)
{
    w->ended++;
    w->free += w->live[i].entry.pages;
    w->live[i] = w->live[--w->runs];
    w->live[w->runs] = w->live[--w->count];
}

// The oldest of the most important that run is never held up nor preempted.
static void check_first(const schedule_entry *entries, int32_t count)
{
    const schedule_entry *first = &entries[0];
    for (int32_t i = 1; i < count; i++)
        if (entries[i].priority > first->priority ||
            (entries[i].priority == first->priority && entries[i].arrival < first->arrival))
            first = &entries[i];
    assert_false(first->preempted);
    if (first->count - first->length == 1)
        assert_int_equal(first->tokens, 1);
}

static void pass(world *w)
{
    schedule_entry entries[PLACES];
    schedule_limits limits = {BUDGET, PLACES - w->runs, PAGE, w->free};
    for (int32_t i = 0; i < w->runs; i++) {
        entries[i] = w->live[i].entry;
        entries[i].tag = i;
        entries[i].own = entries[i].pages;
    }
    int32_t runs = w->runs, tokens = 0, preempted = 0;
    schedule_pass(&limits, entries, runs);
    check_first(entries, runs);
    for (int32_t i = 0; i < runs; i++) {
        schedule_entry *entry = &w->live[entries[i].tag].entry;
        assert_false(entries[i].stuck);
        assert_true(!entries[i].preempted || entries[i].tokens == 0);
        assert_in_range(entries[i].tokens, 0, entry->count - entry->length);
        if (entries[i].preempted) {
            w->free += entry->pages;
            entry->pages = entry->length = 0;
            entry->resumes = true;
            preempted++;
        }
    }
    for (int32_t i = 0; i < runs; i++) {
        schedule_entry *entry = &w->live[entries[i].tag].entry;
        int32_t pages = pages_for(entry->length + entries[i].tokens) - entry->pages;
        tokens += entries[i].tokens;
        entry->length += entries[i].tokens;
        entry->pages += pages;
        w->free -= pages;
        w->served[entry->user] += entries[i].tokens;
        if (entries[i].tokens > 0 && entry->length == entry->count)
            entry->count++;
    }
    assert_true(w->free >= 0);
    assert_true(tokens <= BUDGET);
    assert_true(tokens > 0 || preempted > 0 || runs == 0);
    w->preempted += preempted;
    for (int32_t i = w->runs - 1; i >= 0; i--)
        if (w->live[i].entry.resumes) { // to those that wait
            made_up gone = w->live[i];
            w->live[i] = w->live[--w->runs];
            w->live[w->runs] = gone;
        } else if (w->live[i].entry.count > w->live[i].wanted)
            end(w, i);
}

static void all_come_to_their_end(void **unused)
{
    (void)unused;
    static world w;
    w = (world){.pool = 40, .free = 40};
    int64_t passes = 0;
    for (; w.ended < all_requests; passes++) {
        arrive(&w);
        join(&w);
        pass(&w);
        assert_true(passes < 100 * (int64_t)all_requests);
    }
    assert_int_equal(w.free, w.pool);
    assert_true(w.preempted > all_requests / 1000);
    print_message("%d requests in %lld passes, %d preempted\n", w.ended, (long long)passes,
                  w.preempted);
}

// One user floods the queue, another asks now and then: both are given the same number of tokens as long as
// both want something.
static void users_are_served_alike(void **unused)
{
    (void)unused;
    static world w;
    w = (world){.pool = 1000, .free = 1000};
    uint64_t arrival = 0;
    for (int32_t n = 0; n < 3000; n++) {
        int32_t waits[2] = {0, 0};
        for (int32_t i = w.runs; i < w.count; i++)
            waits[w.live[i].entry.user]++;
        for (int32_t user = 0; user < 2; user++)
            for (int32_t more = waits[user]; more < (user ? 1 : 20); more++)
                w.live[w.count++] = (made_up){
                    .entry = {.arrival = arrival++, .user = user, .count = 50}, .wanted = 70};
        join(&w);
        pass(&w);
    }
    assert_true(llabs(w.served[0] - w.served[1]) < w.served[0] / 20);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        all_requests = atoi(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_come_first),
        cmocka_unit_test(pieces_go_to_who_was_served_less),
        cmocka_unit_test(the_youngest_gives_way),
        cmocka_unit_test(a_shared_page_takes_one_more),
        cmocka_unit_test(who_is_alone_and_too_long_is_told),
        cmocka_unit_test(joining_is_in_turns),
        cmocka_unit_test(joining_waits_for_pages),
        cmocka_unit_test(turns_are_not_saved_up),
        cmocka_unit_test(all_come_to_their_end),
        cmocka_unit_test(users_are_served_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
