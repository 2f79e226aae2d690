// SPDX-License-Identifier: MIT
// Stop strings in text that comes in pieces: nothing of one is ever released, everything else is.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/session/stop_filter.h"

// Feeds the pieces and checks what comes out, in total and after every piece.
static void expect(const char *const *stops, const char *const *pieces, const char *released,
                   bool stopped)
{
    stop_filter filter = {.stops = stops};
    char out[256] = "";
    size_t used = 0;
    for (int i = 0; pieces[i] && !filter.stopped; i++) {
        assert_true(stop_filter_add(&filter, pieces[i], strlen(pieces[i])));
        memcpy(out + used, filter.held.data, filter.release_bytes);
        used += filter.release_bytes;
        stop_filter_released(&filter);
        assert_memory_equal(out, released, used);
    }
    assert_int_equal(filter.stopped, stopped);
    if (!stopped) {
        stop_filter_end(&filter);
        if (filter.release_bytes > 0)
            memcpy(out + used, filter.held.data, filter.release_bytes);
        used += filter.release_bytes;
    }
    out[used] = 0;
    assert_string_equal(out, released);
    stop_filter_free(&filter);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void passes_text_without_stops(void **state)
{
    (void)state;
    expect(NULL, LIST("one ", "two"), "one two", false);
    expect(LIST("END"), LIST("one ", "two"), "one two", false);
}

static void ends_before_a_stop(void **state)
{
    (void)state;
    expect(LIST("END"), LIST("one END two"), "one ", true);
    expect(LIST("END"), LIST("one E", "N", "D two"), "one ", true);
    expect(LIST("END"), LIST("END"), "", true);
}

static void gives_back_a_false_start(void **state)
{
    (void)state;
    expect(LIST("END"), LIST("E", "N", "E", "N", "x"), "ENENx", false);
    expect(LIST("aab"), LIST("aa", "a", "b"), "a", true);
    expect(LIST("END"), LIST("last E"), "last E", false);
}

static void takes_the_earliest_of_several(void **state)
{
    (void)state;
    expect(LIST("three", "two"), LIST("one two three"), "one ", true);
    expect(LIST("two", "three"), LIST("one two three"), "one ", true);
    expect(LIST("xyz", "\n\n"), LIST("a\n", "\nb"), "a", true);
}

// Whatever the order of the list and however the text is cut: the stop string that is complete first.
static void neither_order_nor_cut_matters(void **state)
{
    (void)state;
    static const struct {
        const char *stops[3], *text, *released;
    } cases[] = {
        {{"bc", "ab"}, "abc", ""},         {{"abcd", "bc"}, "xabcd", "xa"},
        {{"cd", "abcd"}, "xabcd", "x"},    {{"b", "abc"}, "abc", "a"},
        {{"aab", "ab"}, "aaabb", "a"},     {{"ab", "zz"}, "cabzz", "c"},
        {{"abd", "bce"}, "abcabd", "abc"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *a = cases[i].stops[0], *b = cases[i].stops[1], *text = cases[i].text;
        for (size_t cut = 0; cut <= strlen(text); cut++) {
            char head[16] = "";
            memcpy(head, text, cut);
            expect(LIST(a, b), LIST(head, text + cut), cases[i].released, true);
            expect(LIST(b, a), LIST(head, text + cut), cases[i].released, true);
        }
        char letters[16][2] = {{0}};
        const char *pieces[17] = {NULL};
        for (size_t n = 0; text[n]; n++) {
            letters[n][0] = text[n];
            pieces[n] = letters[n];
        }
        expect(LIST(a, b), pieces, cases[i].released, true);
        expect(LIST(b, a), pieces, cases[i].released, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_text_without_stops),
        cmocka_unit_test(ends_before_a_stop),
        cmocka_unit_test(gives_back_a_false_start),
        cmocka_unit_test(takes_the_earliest_of_several),
        cmocka_unit_test(neither_order_nor_cut_matters),
    };
    return cmocka_run_group_tests_name("stop_filter", tests, NULL, NULL);
}
