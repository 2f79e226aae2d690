// SPDX-License-Identifier: MIT
// Tests: what stands behind `is`. Source: the list of builtin tests of Jinja 3.1.
#include "engine/chat/jinja/jinja_run.h"

#define TEST(name) static bool name(jinja_run *run, jinja_value input, const jinja_arguments *given)
#define UNUSED                                                                                     \
    (void)run;                                                                                     \
    (void)given

#define KIND_TEST(name, condition)                                                                 \
    TEST(name)                                                                                     \
    {                                                                                              \
        UNUSED;                                                                                    \
        return condition;                                                                          \
    }

KIND_TEST(t_defined, input.kind != JINJA_UNDEFINED)
KIND_TEST(t_undefined, input.kind == JINJA_UNDEFINED)
KIND_TEST(t_none, input.kind == JINJA_NONE)
KIND_TEST(t_boolean, input.kind == JINJA_BOOL)
KIND_TEST(t_true, input.kind == JINJA_BOOL && input.boolean)
KIND_TEST(t_false, input.kind == JINJA_BOOL && !input.boolean)
KIND_TEST(t_integer, input.kind == JINJA_INT)
KIND_TEST(t_float, input.kind == JINJA_FLOAT)
KIND_TEST(t_number, jinja_is_number(input))
KIND_TEST(t_string, input.kind == JINJA_TEXT)
KIND_TEST(t_mapping, input.kind == JINJA_DICT)
KIND_TEST(t_iterable, input.kind == JINJA_TEXT || input.kind == JINJA_LIST ||
                          input.kind == JINJA_DICT || input.kind == JINJA_UNDEFINED ||
                          input.kind == JINJA_GENERATOR)
KIND_TEST(t_sequence, input.kind == JINJA_TEXT || input.kind == JINJA_LIST ||
                          input.kind == JINJA_DICT || input.kind == JINJA_UNDEFINED)
KIND_TEST(t_callable, input.kind == JINJA_CALLABLE)
KIND_TEST(t_odd, input.kind == JINJA_INT && input.integer % 2 != 0)
KIND_TEST(t_even, input.kind == JINJA_INT && input.integer % 2 == 0)

TEST(t_divisible)
{
    int64_t by = jinja_argument_int(run, given, 0, "num", 0);
    return input.kind == JINJA_INT && by != 0 && by != -1 ? input.integer % by == 0 : by == -1;
}

TEST(t_equal)
{
    return jinja_equal(run->box, input, jinja_argument(run, given, 0, "other"));
}

TEST(t_unequal)
{
    return !jinja_equal(run->box, input, jinja_argument(run, given, 0, "other"));
}

TEST(t_in)
{
    return jinja_contains(run, jinja_argument(run, given, 0, "seq"), input);
}

TEST(t_less)
{
    return jinja_compare(run->box, input, jinja_argument(run, given, 0, "other")) < 0;
}

TEST(t_greater)
{
    return jinja_compare(run->box, input, jinja_argument(run, given, 0, "other")) > 0;
}

TEST(t_at_most)
{
    return jinja_compare(run->box, input, jinja_argument(run, given, 0, "other")) <= 0;
}

TEST(t_at_least)
{
    return jinja_compare(run->box, input, jinja_argument(run, given, 0, "other")) >= 0;
}

static const struct {
    const char *name;
    jinja_test_fn *function;
} tests[] = {
    {"boolean", t_boolean},
    {"callable", t_callable},
    {"defined", t_defined},
    {"divisibleby", t_divisible},
    {"eq", t_equal},
    {"equalto", t_equal},
    {"even", t_even},
    {"false", t_false},
    {"float", t_float},
    {"ge", t_at_least},
    {"greaterthan", t_greater},
    {"gt", t_greater},
    {"in", t_in},
    {"integer", t_integer},
    {"iterable", t_iterable},
    {"le", t_at_most},
    {"lessthan", t_less},
    {"lt", t_less},
    {"mapping", t_mapping},
    {"ne", t_unequal},
    {"none", t_none},
    {"None", t_none},
    {"number", t_number},
    {"odd", t_odd},
    {"sequence", t_sequence},
    {"string", t_string},
    {"true", t_true},
    {"undefined", t_undefined},
};

jinja_test_fn *jinja_test_find(jinja_text name)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (jinja_text_is(name, tests[i].name))
            return tests[i].function;
    return NULL;
}

jinja_value jinja_apply_test(jinja_run *run, jinja_text name, jinja_value input,
                             const jinja_arguments *given, int32_t line)
{
    jinja_test_fn *function = jinja_test_find(name);
    if (!function)
        return jinja_refuse(run->box, "line %d: there is no test '%.*s'", line,
                            (int)name.size_bytes, name.data);
    return run->box->failed ? (jinja_value){.kind = JINJA_UNDEFINED}
                            : jinja_bool(function(run, input, given));
}
