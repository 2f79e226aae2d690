# SPDX-License-Identifier: MIT
"""Writes jinja.json: small templates as Jinja itself renders them, in the environment that transformers uses.

    pip install jinja2 && python3 jinja.py

With a folder of templates (jinja.py FOLDER, *.jinja), holds weft against Jinja on those and twenty conversations each instead, with
and without a prompt for the answer, through the test program, and writes nothing; the test chat_templates does so with this folder:

    python3 jinja.py FOLDER build/dev/test_chat_jinja [transformers]

FOLDER may be one of an installed package, such as trl/chat_templates, where the templates of many models are as their makers wrote
them: the test chat_templates_real. With the word `transformers` the environment is the one that this package itself makes, not the one written down here.
"""
import copy
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "support"))
import packages

packages.need("jinja2")
import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

TIME = "26 Jul 2024"


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("inside"), [], [], body).set_lineno(line)

    def inside(self, caller):
        return caller()


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = lambda _: TIME
    return env


def environment_of_transformers():
    from transformers.utils import chat_template_utils as utils

    env = utils._cached_compile_jinja_template("").environment
    env.globals["strftime_now"] = lambda _: TIME
    return env


VALUES = {
    "messages": [
        {"role": "system", "content": " Be brief.\n"},
        {"role": "user", "content": "Grüsse, \"you\" <b> 漢字 🦊\n\nlines"},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, None, True], "é": "ü"}}}]},
    ],
    "bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True, "n": 7, "empty": [],
}

TEMPLATES = [
    "{{ [1,2,3][::-1] }} {{ 'abc'[1:] }} {{ 'héllo'[-3:-1] }} {{ 'héllo'[1] }} {{ (1,2) }} {{ (1,) }} {{ {'a':1,'b':[none,true,2.5]} }}",
    "{{ 7//2 }} {{ -7//2 }} {{ -7%3 }} {{ 7/2 }} {{ 2**10 }} {{ 1e20 }} {{ 1e-7 }} {{ 0.1+0.2 }} {{ 100000.0 }} {{ 1_000 }} {{ 7 % 2.5 }}",
    "{{ 1/0 }}", "{{ 9223372036854775807 + 0 }}",
    "{% for k, v in {'a':1,'b':2}.items() %}{{ loop.index }}{{ k }}={{ v }}{% if not loop.last %}, {% endif %}{% else %}none{% endfor %}"
    "|{% for x in [] %}x{% else %}none{% endfor %}",
    "{% for x in 'abc' %}{{ loop.revindex }}{{ x }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('p', 'q') }}{% endfor %}",
    "{% for i in range(6) if i is even %}{{ i }}/{{ loop.length }} {% endfor %}{{ range(3)|list }}{{ range(5, 0, -2)|list }}",
    "{% macro m(a, b='x', c=none) %}[{{ a }}{{ b }}{{ c }}{{ caller() if caller is defined }}]{% endmacro %}{{ m(1) }}{{ m(1, c=2) }}{% call m(5) %}inner{% endcall %}",
    "{% macro rec(n) %}{{ n }}{% if n > 0 %}{{ rec(n - 1) }}{% endif %}{% endmacro %}{{ rec(5) }}",
    "{% set ns = namespace(n=0) %}{% for i in range(5) %}{% if i == 3 %}{% break %}{% endif %}{% if i is odd %}{% continue %}{% endif %}{% set ns.n = ns.n + i %}{{ i }}"
    "{% endfor %}={{ ns.n }}{% set x %} blk {{ ns.n }} {% endset %}{{ x|trim|upper }}{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}{% if true %}{% set x = 3 %}{% endif %}{{ x }}",
    "{% set messages.x = 1 %}",
    "{{ messages | map(attribute='role') | join(',') }} {{ messages|selectattr('role','equalto','user')|list|length }} {{ messages|rejectattr('role','in',['user'])"
    "|map(attribute='role')|list }} {{ [3,1,2]|sort }} {{ [3,1,2]|sort(reverse=true) }} {{ ['b','A']|sort }} {{ [1,1,2]|unique|list }} {{ {'b':1,'a':2}|dictsort }} {{ [1,2,3]|sum }}",
    "{{ messages|selectattr('tool_calls','defined')|list|length }} {{ [0,1,2]|select|list }} {{ [0,1,2]|reject('odd')|list }} {{ [[1,2],[3]]|map('first')|list }} {{ none|map('first')|list }}",
    "{{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',',1) }} {{ 'a,b,c'.rsplit(',',1) }} {{ ' a  b '.split() }} {{ ' a  b c '.split(none, 1) }} {{ 'x\\ny\\r\\nz'.splitlines() }}",
    "{{ 'Hello World'.title() }} {{ 'hELLO'.capitalize() }} {{ 'É'.lower() }} {{ 'abcabc'.replace('b','X',1) }} {{ 'ab'.replace('','-') }} {{ 'abc'.startswith(('x','ab')) }}"
    " {{ 'abc'.find('c') }} {{ 'aéa'.rfind('a') }} {{ 'aXbX'.count('X') }} {{ '{} {1} {a}'.format(1) if false }} {{ '{}-{}'.format(1, 'b') }} {{ '{a}'.format(a=2) }}",
    "{{ '  x '.strip() }}|{{ 'xxaxx'.lstrip('x') }}|{{ 'xxaxx'.rstrip('x') }}|{{ '\\u3000a\\u00a0'.strip() }}|{{ '12'.isdigit() }}|{{ ','.join(['a','b']) }}|{{ 'abc'.removeprefix('a') }}",
    "{{ messages[1].content | tojson }} {{ messages[2] | tojson }} {{ {'a': [1, {'b': []}], 'c': {}} | tojson(indent=2) }} {{ 'é🦊'|tojson(ensure_ascii=true) }}",
    "{{ 'a\\nb' | indent(2) }}|{{ 'a\\nb\\n\\nc' | indent(4, true) }}|{{ '<a&b>' | e }}|{{ none | default('d') }}|{{ nothing | default('d') }}|{{ '' | default('d', true) }}|{{ nothing | d }}",
    "{{ 1 if true else 2 }}{{ 'x' if false }}{{ not false and true or false }}{{ 1 < 2 < 3 }}{{ 3 > 2 > 2 }}{{ 'a' in 'abc' }}{{ 'z' not in ['z'] }}{{ 1 == 1.0 }}{{ true == 1 }}{{ 'a' ~ 1 ~ none }}",
    "{{ 3 is divisibleby 3 }}{{ x is defined }}{{ messages.y is defined }}", "{{ n is number }}{{ n is string }}{{ messages is iterable }}{{ messages[0] is mapping }}{{ none is none }}{{ n is not odd }}{{ n is gt 3 }}{{ n is in [7] }}",
    "{{ x.y }}", "{{ x }}{{ x|length }}", "{{ x + 'a' }}", "{{ messages.nothing }}{{ messages[0]['nothing'] }}{{ messages[99] is defined }}", "{{ 'a' + 1 }}", "{{ nothing() }}",
    "{{ 'a' | nothing }}", "{{ 'a' is nothing }}", "{{ raise_exception('no: ' ~ n) }}", "{{ strftime_now('%d %b %Y') }}", "{{ messages.append(1) }}",
    "   {%- if true -%}   a   {%- endif -%}   b\n  {# comment #}\n  {% if true %}\n line\n  {% endif %}\n{{ 'end' }}\n\n",
    "a\n  {%+ if true %}b\n  {% endif +%}\nc {{- ' d ' -}}\n e\n\n{#- gone -#}  f", "{{ '}}' }}{{ {'a': {'b': 1}}['a']['b'] }}{{ {'a':{}} }}",
    "{{ 'it' 's' \"joined\" }} {{ '\\u00e9\\x41\\\\ \\q \\'' }} {{ 'abc' * 3 }} {{ [1]+[2] }} {{ 'a' + 'b' }} {{ 5|string + 'x' }} {{ '5'|int + 1 }} {{ '2.5'|float }} {{ 3.7|int }} {{ 'x'|int(4) }} {{ -3|abs }}",
    "{% filter upper %}shout {{ 1 }}{% endfilter %}{{ dict(a=1).a }}{{ loop is defined }}{{ messages[-1]['role'] }}{{ messages|length }}{{ (messages|first).role }}",
    "{{ {'a':1}.get('b') }}{{ {'a':1}.get('b', 3) }}{{ {'a':1}.keys()|list }}{{ {'a':1}.values()|list }}{{ 'a' in {'a':1} }}{{ ['a','b']|map('upper')|join }}{{ [3,1]|max }}{{ [3,1]|min }}",
    "{% generation %}kept{% endgeneration %}{% if n %}{% elif false %}{% else %}no{% endif %}{% if false %}{% elif n == 7 %}seven{% endif %}",
    "{{ [1,2] == [1,2] }}{{ {'a':1} == {'a':1.0} }}{{ 'a' < 'b' }}{{ [1] < [1,2] }}", "{{ 'a' < 1 }}", "{{ \"it's\" }} {{ ['it\\'s', 'a\"b\\n'] }}", "{% for a in n %}{% endfor %}", "{% if %}{% endif %}", "{{ 1 + }}", "{% for %}",
    "{{ 'a<'|safe + '<b' }} {{ '<b' + 'a<'|safe }} {{ ('a<'|safe + n|string)|trim + '\"' }} {{ '<'|e + '<'|e + '<' }} {{ '<' ~ '<'|safe ~ '>' }} {{ 'a<'|safe * 2 + '<' }}"
    " {{ ('<a>'|safe)[1:] + '>' }} {{ {'a': '<'|safe}|tojson }} {{ '<'|safe == '<' }}",
    "{% set g = messages|map(attribute='role') %}{{ g|list }}{{ g|list }}{% if [] | select %}yes{% endif %}{{ [1]|map('string') is sequence }}{{ [1]|map('string') is iterable }}",
    "{% set g = [1,2,3,4]|select %}{{ g|first }}{{ 2 in g }}{{ g|list }}{{ g|first is defined }}{% set r = [1,2]|reverse %}{{ r|list }}{{ r|list }}{{ [1,2]|select|reverse }}",
    "{{ ([1,2]|select)[0] is defined }}{% for x in [1,2]|select %}{{ loop.index }}/{{ loop.length }}{{ x }}{% endfor %}{{ [1]|select == [1] }}{{ {'a': 1}|items|list }}{{ [2,1]|unique|sort }}",
    "{{ [1]|select|length }}", "{{ [1]|map('string')|tojson }}", "{{ [1]|select|last }}", "{{ ([1]|select)[:1] }}", "{{ [1]|select + [2] }}", "{{ [2]|reverse|length }}",
    "{{ messages[1].content[3:9] }}|{{ messages[1].content | length }}|{{ messages[1].content | reverse }}|{{ messages[1].content.upper() }}|{{ messages[1].content | replace('\\n', '⏎') }}",
]


def render(compiled, values):
    try:
        return {"text": compiled.render(**copy.deepcopy(values))}
    except Exception:  # it refuses
        return {"text": None}


class Unreadable:
    def render(self, **_):
        raise ValueError


def compiled(env, template):
    try:
        return env.from_string(template)
    except Exception:
        return Unreadable()


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


CALLS = [{"id": "call_abc12", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Zürich", "x": [1, 2.5, None, True]}}}]
RESULT = {"role": "tool", "content": "{\"t\": 21}", "name": "get_weather", "tool_call_id": "call_abc12"}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Say the \"weather\"", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "description": "The city"}, "days": {"type": "integer", "default": 3}}, "required": ["city"]}}}]
CONVERSATIONS = [
    [user("Hi")], [system("Be nice.\n"), user(" Hello there ")], [user("a"), assistant("b"), user("c")], [system("s"), user("a"), assistant("b"), user("c"), assistant("d"), user("e é 你好 🦊")],
    [user("x"), assistant("<think>\nhm\n</think>\n\nanswer"), user("y")], [user("x"), assistant("ans", reasoning_content="because"), user("y")],
    [user("weather?"), assistant("", tool_calls=CALLS), RESULT], [system("sys"), user("weather?"), assistant(None, tool_calls=CALLS), RESULT, assistant("It is 21."), user("thanks")],
    [user("a"), user("b")], [assistant("z"), user("q")], [system("one"), system("two"), user("x")], [user([{"type": "text", "text": "part"}, {"type": "text", "text": " two"}])],
    [user("it's \"q\" <|im_end|> \\n {{ x }}")], [{"role": "developer", "content": "dev"}, user("x")], [user("l1\nl2\n\nl4  "), assistant("  r \n"), user("\tz")], [system(""), user("")],
    [user("x"), assistant("")], [user("long " * 50), assistant("ok"), user("again")], [user("x"), assistant("t", thinking="deep"), user("y")], [system("s"), user("u"), assistant("a")],
]


def conversations():
    for number, messages in enumerate(CONVERSATIONS):
        for prompt in (True, False):
            values = {"messages": messages, "add_generation_prompt": prompt, "bos_token": "<s>", "eos_token": "</s>"}
            yield values | ({"tools": TOOLS} if number % 3 == 1 else {}) | ({"enable_thinking": number % 8 == 2} if number % 4 == 2 else {})


def write_golden(env):
    cases = [{"template": template, **render(compiled(env, template), VALUES)} for template in TEMPLATES]
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    (HERE / "jinja.json").write_text('{"values":\n' + json.dumps(VALUES, ensure_ascii=False) + ',\n"cases": [\n' + lines + "\n]}\n")
    print(f"{len(cases)} templates, {sum(case['text'] is None for case in cases)} refused")


def fails(program, cases):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"cases": cases}, file)
        file.flush()
        return subprocess.run([program, file.name], capture_output=True, check=False).returncode != 0


def compare(env, folder, program):
    paths, differing, refused = sorted(folder.glob("*.jinja")), 0, 0
    for path in paths:
        template = path.read_text()
        program_of_jinja = compiled(env, template)
        cases = [{"template": template, "values": values, **render(program_of_jinja, values)} for values in conversations()]
        refused += all(case["text"] is None for case in cases)
        if fails(program, cases):
            differing += 1
            print(f"{path.name}: {sum(fails(program, [case]) for case in cases)} of {len(cases)} renderings differ")
    print(f"{len(paths) - differing} of {len(paths)} templates render alike in all of {2 * len(CONVERSATIONS)} ways" +
          (f"; {refused} of them refuse all" if refused else ""))
    return not paths or differing or refused == len(paths)


def folder_of(name):
    """A folder, or package/folder."""
    if pathlib.Path(name).is_dir():
        return pathlib.Path(name)
    package, _, rest = name.partition("/")
    packages.need(package)
    return pathlib.Path(importlib.util.find_spec(package).submodule_search_locations[0]) / rest


if __name__ == "__main__":
    if len(sys.argv) > 2:
        env = environment_of_transformers() if sys.argv[3:] == ["transformers"] else environment()
        sys.exit(bool(compare(env, folder_of(sys.argv[1]), sys.argv[2])))
    else:
        write_golden(environment())
