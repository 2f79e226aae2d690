// SPDX-License-Identifier: MIT
// The Jinja of chat templates, held against Jinja itself (tests/golden/chat/jinja.py); where bytes come
// from; and that a template can neither run nor grow without end. With a path, holds only that file of cases,
// and its templates to their time.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/chat/jinja/jinja.h"
#include "engine/chat/jinja/jinja_json.h"

static const char *cases_path = WEFT_TEST_GOLDEN "/chat/jinja.json";

// The text that a template makes of the JSON values, to be freed; NULL if it is refused.
static char *render(const char *template, const char *json, unsigned char **origin,
                    engine_error *err)
{
    jinja_program *program = jinja_parse(template, strlen(template), err);
    jinja_box *box = jinja_box_open(&(jinja_limits){.time_text = "26 Jul 2024"});
    jinja_value values;
    jinja_text text;
    char *copy = NULL;
    assert_non_null(box);
    assert_true(jinja_from_json(box, 1, json, &values, err));
    if (program && jinja_render(program, box, values, &text, err)) {
        copy = malloc(text.size_bytes + 1);
        memcpy(copy, text.data, text.size_bytes);
        copy[text.size_bytes] = '\0';
        if (origin) {
            *origin = malloc(text.size_bytes + 1);
            for (size_t i = 0; i < text.size_bytes; i++)
                (*origin)[i] = text.origin ? text.origin[i] : text.source;
        }
    }
    jinja_box_close(box);
    jinja_program_free(program);
    return copy;
}

static void templates_render_as_jinja_renders_them(void **state)
{
    (void)state;
    json_error_t error;
    json_t *golden = json_load_file(cases_path, 0, &error);
    if (!golden)
        fail_msg("%s", error.text);
    const json_t *cases = json_object_get(golden, "cases");
    assert_true(json_array_size(cases) > 0);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i), *expected = json_object_get(one, "text");
        const json_t *own = json_object_get(one, "values");
        char *values = json_dumps(own ? own : json_object_get(golden, "values"), 0);
        engine_error err = {""};
        char *text =
            render(json_string_value(json_object_get(one, "template")), values, NULL, &err);
        if (!text != json_is_null(expected))
            fail_msg("case %zu: %s", i, text ? "not refused" : err.text);
        if (text && strcmp(text, json_string_value(expected)) != 0)
            fail_msg("case %zu:\n  Jinja %s\n  weft  %s", i, json_string_value(expected), text);
        if (!text)
            assert_true(err.text[0] != '\0');
        free(text);
        free(values);
    }
    json_decref(golden);
}

// Seconds of the fastest of several renderings, from the conversation to the text, until one is fast enough.
static double rendering_seconds(const jinja_program *program, const char *json, double enough)
{
    enum { ATTEMPTS = 20 };
    double best = 1;
    for (int i = 0; i < ATTEMPTS && best > enough; i++) {
        engine_error err = {""};
        jinja_value values;
        jinja_text text;
        double begun = engine_seconds();
        jinja_box *box = jinja_box_open(NULL);
        assert_non_null(box);
        assert_true(jinja_from_json(box, 1, json, &values, &err));
        jinja_render(program, box, values, &text, &err); // or refuses
        jinja_box_close(box);
        double seconds = engine_seconds() - begun;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static void templates_render_within_a_millisecond(void **state)
{
    (void)state;
    const double most = 1e-3;
    json_error_t error;
    json_t *golden = json_load_file(cases_path, 0, &error);
    if (!golden)
        fail_msg("%s", error.text);
    const json_t *cases = json_object_get(golden, "cases");
    double slowest = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        const char *template = json_string_value(json_object_get(one, "template"));
        char *values = json_dumps(json_object_get(one, "values"), 0);
        engine_error err = {""};
        jinja_program *program = jinja_parse(template, strlen(template), &err);
        double seconds = program ? rendering_seconds(program, values, most) : 0;
        slowest = seconds > slowest ? seconds : slowest;
        jinja_program_free(program);
        free(values);
    }
    print_message("the slowest of %zu renderings took %.3f ms\n", json_array_size(cases),
                  1e3 * slowest);
    assert_true(slowest <= most);
    json_decref(golden);
}

// What a value brought in is marked, whatever was done to it: lower case here is what the template wrote.
static void every_byte_knows_where_it_comes_from(void **state)
{
    (void)state;
    static const char *const templates[] = {
        "a{{ x }}b{{ x[1:] }}c",
        "a{{ 'b' ~ x ~ 'c' }}{{ x + 'd' }}",
        "{{ x.replace('Y', 'y') }}{{ x | replace('X', 'x') }}{{ 'aba' | replace('b', x) }}",
        "{% for part in x.split('Y') %}{{ part }}a{% endfor %}{{ x | trim }}{{ x.strip('X') }}",
        "{% set s %}a{{ x }}{% endset %}{{ s }}{{ s[:2] }}{{ [x, 'b'] | join('c') }}",
        "{% macro m(v) %}a{{ v }}{% endmacro %}{{ m(x) }}{{ m('b') }}{{ x | list | join('d') }}",
        "{{ x[::-1] }}{{ x | first }}{{ 'a%s' if false else 'a' }}{{ x * 2 }}{{ '{}a'.format(x) }}",
        "{{ d | items | map('last') | join }}{{ d.values() | list | join('a') }}",
        "{% for key in d %}{{ key }}{% endfor %}{{ d.keys() | join('a') }}",
        "{{ x | indent(1) }}{{ x.splitlines() | join('a') }}{{ x | upper }}{{ x.title() | upper }}",
    };
    for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++) {
        engine_error err = {""};
        unsigned char *origin = NULL;
        char *text = render(templates[i], "{\"x\": \"XYZ\", \"d\": {\"K\": \"V\"}}", &origin, &err);
        if (!text)
            fail_msg("%zu: %s", i, err.text);
        for (size_t at = 0; text[at]; at++)
            if ((text[at] >= 'A' && text[at] <= 'Z') != origin[at])
                fail_msg("template %zu: byte %zu of \"%s\"", i, at, text);
        free(text);
        free(origin);
    }
}

static void refuse(const char *template, const char *fragment)
{
    engine_error err = {""};
    assert_null(render(template, "{\"n\": 3}", NULL, &err));
    if (!strstr(err.text, fragment))
        fail_msg("\"%s\" is not in \"%s\"", fragment, err.text);
}

static void a_template_cannot_take_all_time_and_memory(void **state)
{
    (void)state;
    refuse("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "deeply");
    refuse("{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}",
           "too");
    refuse("{% set ns = namespace(s='aaaaaaaaaaaaaaaa') %}"
           "{% for i in range(64) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
           "too");
    refuse("{% set ns = namespace(l=[]) %}{% for i in range(40) %}{% set ns.l = ns.l + [ns.l] + "
           "ns.l %}{% endfor %}",
           "too");
    refuse("{% set ns = namespace(l=[]) %}{% for i in range(90) %}{% set ns.l = [ns.l] %}{% endfor "
           "%}{{ ns.l }}",
           "nested");
    refuse("{{ range(10000000) | list }}", "100000");
    refuse("{{ 'a' * 1000000000000 }}", "too");
    refuse("{{ '%d' | indent(100000000000) }}{{ 'a\nb' | indent(100000000000) }}", "too");
    refuse("{{ 1[::0] }}", "int");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases_only[] = {
        cmocka_unit_test(templates_render_as_jinja_renders_them),
        cmocka_unit_test(templates_render_within_a_millisecond)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_render_as_jinja_renders_them),
        cmocka_unit_test(every_byte_knows_where_it_comes_from),
        cmocka_unit_test(a_template_cannot_take_all_time_and_memory),
    };
    if (argc > 1) {
        cases_path = argv[1];
        return cmocka_run_group_tests(cases_only, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
