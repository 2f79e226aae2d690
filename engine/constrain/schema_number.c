// SPDX-License-Identifier: MIT
// Numbers with bounds, or that are multiples: an automaton over their digits, whose states become rules. Without a
// sign and zeros in front the longer number is the larger one, and of equally long ones the first digit that differs
// decides; so a state knows how many digits there are, as far as that matters, and how they compare with each bound.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/alloc.h"
#include "engine/constrain/schema_build.h"

enum { MAX_DIGITS = 40, MAX_STATES = 4096, SLOTS = 1 << 14, MAX_DIVISOR = 100000, KEYS = 12 };

// A decimal without exponent; zero has no sign.
typedef struct decimal {
    bool negative;
    int whole_count, fraction_count;
    char whole[MAX_DIGITS], fraction[MAX_DIGITS]; // digits; the fraction does not end with zeros
} decimal;

typedef struct bound {
    bool set, exclusive;
    decimal value;
} bound;

typedef enum digit_phase { BEGIN, SIGN, ZERO, WHOLE, POINT, FRACTION } digit_phase;

typedef struct digit_state {
    uint8_t phase, negative, not_zero;
    uint8_t whole, fraction; // digits, as far as they matter
    int8_t order[2];         // of the digits so far and the bound's: -1, 0, 1
    uint8_t padding;
    uint32_t rest; // of the division
} digit_state;

typedef struct number_state {
    digit_state digits;
    uint32_t next[KEYS]; // by key, 0 to 9, '-', '.': the state's number + 1
    bool ends, useful;
    uint32_t rule;
} number_state;

typedef struct number_work {
    schema_work *work;
    bound bounds[2]; // the least, the largest
    bool integer;
    int most_whole, most_fraction; // digits that are counted
    uint32_t divisor;              // 0: none
    int divisor_fraction;          // it is divisor / 10^this
    number_state *states;
    uint32_t *slots; // of states by their digits: number + 1
    uint32_t count;
    bool full;
} number_work;

// --- decimals -----------------------------------------------------------------------------------------

static void trim(decimal *d)
{
    while (d->fraction_count > 0 && d->fraction[d->fraction_count - 1] == '0')
        d->fraction_count--;
    if (d->whole_count == 1 && d->whole[0] == '0' && d->fraction_count == 0)
        d->negative = false;
}

// Digits with the point behind the first `point` of them.
static bool place_digits(decimal *d, const char *digits, int count, int point)
{
    if (point > MAX_DIGITS - 2 || point < -MAX_DIGITS / 2 || count > 20)
        return false;
    for (int i = 0; i < point || d->whole_count == 0; i++)
        d->whole[d->whole_count++] = point > 0 && i < count ? digits[i] : '0';
    for (int i = point; i < count; i++)
        d->fraction[d->fraction_count++] = i >= 0 ? digits[i] : '0';
    trim(d);
    return true;
}

static bool read_decimal(const json_t *value, decimal *d)
{
    char text[64], digits[32];
    int count = 0, precision;
    *d = (decimal){.whole_count = 0};
    if (json_is_integer(value)) {
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
        d->negative = text[0] == '-';
        const char *first = text + d->negative;
        return place_digits(d, first, (int)strlen(first), (int)strlen(first));
    }
    double number = json_real_value(value);
    if (!json_is_real(value) || !isfinite(number))
        return false;
    for (precision = 14; precision <= 16; precision++) { // as short as it is still the same
        snprintf(text, sizeof text, "%.*e", precision, number);
        if (strtod(text, NULL) == number)
            break;
    }
    d->negative = text[0] == '-';
    const char *at = text + d->negative;
    for (; *at && *at != 'e'; at++)
        if (*at != '.')
            digits[count++] = *at;
    return place_digits(d, digits, count, *at ? atoi(at + 1) + 1 : 1);
}

static bool read_bound(number_work *n, const json_t *schema, int which, const char *name,
                       const char *exclusive)
{
    const json_t *value = json_object_get(schema, name),
                 *other = json_object_get(schema, exclusive);
    bound *b = &n->bounds[which];
    if (value && other)
        return schema_fail(n->work, "'%s' and '%s' cannot stand together", name, exclusive);
    if (!value && !other)
        return true;
    b->set = true;
    b->exclusive = other != NULL;
    return read_decimal(value ? value : other, &b->value) ||
           schema_fail(n->work, "'%s' must be a number of at most 38 digits",
                       value ? name : exclusive);
}

static bool read_divisor(number_work *n, const json_t *schema)
{
    const json_t *value = json_object_get(schema, "multipleOf");
    decimal d;
    uint64_t divisor = 0;
    if (!value)
        return true;
    bool fine = read_decimal(value, &d) && !d.negative && d.fraction_count <= 9;
    for (int i = 0; fine && i < d.whole_count + d.fraction_count; i++) {
        char digit = i < d.whole_count ? d.whole[i] : d.fraction[i - d.whole_count];
        divisor = divisor * 10 + (uint64_t)(digit - '0');
        fine = divisor <= MAX_DIVISOR;
    }
    if (!fine || divisor == 0)
        return schema_fail(n->work, "'multipleOf' must be above 0 and have few digits");
    n->divisor = (uint32_t)divisor;
    n->divisor_fraction = d.fraction_count;
    return true;
}

// --- digits -------------------------------------------------------------------------------------------

static int compare_digit(char digit, const char *digits, int count, int at)
{
    char other = at < count ? digits[at] : '0';
    return digit < other ? -1 : digit > other;
}

// How the whole part, which is complete, compares with the bound's.
static int whole_order(const digit_state *s, const bound *b, int which)
{
    if (s->whole != b->value.whole_count)
        return s->whole < b->value.whole_count ? -1 : 1;
    return s->order[which];
}

static void add_digit(const number_work *n, digit_state *s, char digit, bool fraction)
{
    for (int i = 0; i < 2; i++) {
        const bound *b = &n->bounds[i];
        if (!b->set || s->order[i] != 0)
            continue;
        if (fraction)
            s->order[i] = (int8_t)compare_digit(digit, b->value.fraction, b->value.fraction_count,
                                                s->fraction);
        else if (s->whole < b->value.whole_count)
            s->order[i] =
                (int8_t)compare_digit(digit, b->value.whole, b->value.whole_count, s->whole);
    }
    if (fraction)
        s->fraction = (uint8_t)(s->fraction + (s->fraction < n->most_fraction));
    else
        s->whole = (uint8_t)(s->whole + (s->whole < n->most_whole));
    s->not_zero |= digit != '0';
    if (n->divisor)
        s->rest = (uint32_t)(((uint64_t)s->rest * 10 + (uint64_t)(digit - '0')) % n->divisor);
}

static bool take_digit(const number_work *n, digit_state *s, char digit)
{
    switch ((digit_phase)s->phase) {
    case BEGIN:
    case SIGN:
        s->phase = digit == '0' ? ZERO : WHOLE;
        add_digit(n, s, digit, false);
        return true;
    case ZERO: return false;
    case WHOLE: add_digit(n, s, digit, false); return true;
    case POINT:
    case FRACTION:
        if (n->divisor && s->fraction >= n->divisor_fraction)
            return false;
        s->phase = FRACTION;
        add_digit(n, s, digit, true);
        return true;
    }
    return false;
}

static bool take_key(const number_work *n, digit_state *s, int key)
{
    if (key < 10)
        return take_digit(n, s, (char)('0' + key));
    if (key == 10) { // the sign
        bool first = s->phase == BEGIN;
        s->phase = SIGN;
        s->negative = true;
        return first;
    }
    if (n->integer || (s->phase != ZERO && s->phase != WHOLE) ||
        (n->divisor && n->divisor_fraction == 0))
        return false;
    for (int i = 0; i < 2; i++)
        if (n->bounds[i].set)
            s->order[i] = (int8_t)whole_order(s, &n->bounds[i], i);
    s->phase = POINT;
    s->whole = 0; // compared with
    return true;
}

// How a complete number compares with a bound.
static int number_order(const digit_state *s, const bound *b, int which)
{
    int order = s->phase == FRACTION ? s->order[which] : whole_order(s, b, which);
    if (s->negative != b->value.negative)
        return s->negative ? -1 : 1;
    int places = s->phase == FRACTION ? s->fraction : 0;
    if (order == 0 && places < b->value.fraction_count)
        order = -1;
    return s->negative ? -order : order;
}

static bool is_complete(const number_work *n, const digit_state *s)
{
    if (s->phase == BEGIN || s->phase == SIGN || s->phase == POINT || (s->negative && !s->not_zero))
        return false;
    for (int i = 0; i < 2; i++) {
        const bound *b = &n->bounds[i];
        int order = b->set ? number_order(s, b, i) : 1;
        if (b->set && ((i == 0 ? order < 0 : order > 0) || (b->exclusive && order == 0)))
            return false;
    }
    uint64_t rest = s->rest;
    for (int i = s->phase == FRACTION ? s->fraction : 0; n->divisor && i < n->divisor_fraction; i++)
        rest = rest * 10 % n->divisor;
    return !n->divisor || rest == 0;
}

// --- states -------------------------------------------------------------------------------------------

static uint32_t hash(const digit_state *s)
{
    const unsigned char *bytes = (const unsigned char *)s;
    uint32_t value = 2166136261u;
    for (size_t i = 0; i < sizeof *s; i++)
        value = (value ^ bytes[i]) * 16777619u;
    return value ^ value >> 15;
}

// The number of a state, from 1 on; 0: there are too many.
static uint32_t number_of(number_work *n, const digit_state *s)
{
    uint32_t slot = hash(s) % SLOTS;
    for (; n->slots[slot]; slot = (slot + 1) % SLOTS)
        if (memcmp(&n->states[n->slots[slot] - 1].digits, s, sizeof *s) == 0)
            return n->slots[slot];
    if (n->count == MAX_STATES) {
        n->full = true;
        return 0;
    }
    n->states[n->count].digits = *s;
    return n->slots[slot] = ++n->count;
}

static void explore(number_work *n)
{
    const digit_state begin = {.phase = BEGIN};
    number_of(n, &begin);
    for (uint32_t i = 0; i < n->count && !n->full; i++) {
        number_state *from = &n->states[i];
        from->ends = from->useful = is_complete(n, &from->digits);
        for (int key = 0; key < KEYS; key++) {
            digit_state s = from->digits;
            from->next[key] = take_key(n, &s, key) ? number_of(n, &s) : 0;
        }
    }
}

// From which states a number can still become complete.
static void find_useful(number_work *n)
{
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = n->count; i > 0; i--)
            for (int key = 0; key < KEYS && !n->states[i - 1].useful; key++) {
                uint32_t to = n->states[i - 1].next[key];
                if (to && n->states[to - 1].useful)
                    n->states[i - 1].useful = more = true;
            }
    }
}

// The ways on from a state; digits that lead to the same place together.
static grammar_expr ways_from(number_work *n, const number_state *from)
{
    static const char keys[] = "0123456789-.";
    grammar_builder *b = n->work->b;
    grammar_expr ways = grammar_choice(b);
    if (from->ends)
        grammar_add(b, ways, 0);
    for (int key = 0, last; key < KEYS; key = last + 1) {
        uint32_t to = from->next[key];
        for (last = key; last < 9 && key < 10 && from->next[last + 1] == to;)
            last++;
        if (!to || !n->states[to - 1].useful)
            continue;
        grammar_expr way = grammar_sequence(b);
        grammar_add(b, way, grammar_byte(b, (uint8_t)keys[key], (uint8_t)keys[last]));
        grammar_add(b, way, grammar_call(b, n->states[to - 1].rule));
        grammar_add(b, ways, way);
    }
    return ways;
}

static grammar_expr make_rules(number_work *n)
{
    grammar_builder *b = n->work->b;
    explore(n);
    if (n->full)
        return schema_fail(n->work, "bounds and 'multipleOf' together are too intricate");
    find_useful(n);
    if (!n->states[0].useful)
        return schema_fail(n->work, "no number is within the bounds");
    for (uint32_t i = 0; i < n->count; i++)
        if (n->states[i].useful)
            n->states[i].rule = grammar_new_rule(b, NULL, 0);
    for (uint32_t i = 0; i < n->count && !grammar_failed(b); i++)
        if (n->states[i].useful)
            grammar_define(b, n->states[i].rule, ways_from(n, &n->states[i]));
    return grammar_call(b, n->states[0].rule);
}

static void count_digits(number_work *n)
{
    n->most_fraction = n->divisor_fraction;
    for (int i = 0; i < 2; i++) {
        const bound *b = &n->bounds[i];
        if (b->set && b->value.whole_count + 1 > n->most_whole)
            n->most_whole = b->value.whole_count + 1;
        if (b->set && b->value.fraction_count + 1 > n->most_fraction)
            n->most_fraction = b->value.fraction_count + 1;
    }
}

grammar_expr schema_number(schema_work *work, const json_t *schema, bool integer)
{
    number_work n = {.work = work, .integer = integer};
    if (!read_bound(&n, schema, 0, "minimum", "exclusiveMinimum") ||
        !read_bound(&n, schema, 1, "maximum", "exclusiveMaximum") || !read_divisor(&n, schema))
        return 0;
    if (!n.bounds[0].set && !n.bounds[1].set && !n.divisor)
        return schema_call(work, integer ? SCHEMA_INTEGER : SCHEMA_NUMBER);
    count_digits(&n);
    n.states = engine_alloc(MAX_STATES, sizeof *n.states);
    n.slots = engine_alloc(SLOTS, sizeof *n.slots);
    bool fine = n.states && n.slots;
    grammar_expr value = fine ? make_rules(&n) : schema_fail(work, "not enough memory");
    free(n.states);
    free(n.slots);
    return value;
}
