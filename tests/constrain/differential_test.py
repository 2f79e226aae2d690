#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Grammars and schemas against independent readers: Python's `re`, and `jsonschema` (tests/support/packages.py) where it is there.

What a schema's grammar takes must be valid; what is valid, in the order and spelling that the grammar writes, must be
taken. Texts are made from the schema at random, then broken.

usage: differential_test.py MATCH [CASES [SEED]]
"""
import json
import pathlib
import random
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import packages

jsonschema = None
if packages.find("jsonschema"):
    import jsonschema

NAMES = ["a", "b", "ab", "name", "x-1"]
WORDS = ["", "a", "ab", "abc", "name", "héllo", "😀", "q\"r", "back\\slash", "tab\tnew\nline", "0", "-3.5", " "]


class Match:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, **wish):
        self.process.stdin.write(json.dumps(wish) + "\n")
        self.process.stdin.flush()
        said = json.loads(self.process.stdout.readline())
        if isinstance(said, dict):
            raise SystemExit(f"refused: {said['error']}\n{wish}")
        return said


# --- regular expressions --------------------------------------------------------------------------------

def make_regex(rng, depth=0, repeated=0):
    """A pattern, and a function that makes a string of it. Repetitions of repetitions take `re` for ever."""
    kind = rng.choice([0, 1] + [2, 2, 3] * (repeated < 2) + [5, 6, 7] * (depth < 3))
    if kind == 0:
        text = rng.choice(["a", "b", "xyz", "0", "é", r"\.", r"\"", "-", r"\\", r"\n"])
        plain = text.replace(r"\n", "\n") if text == r"\n" else text.replace("\\", "", 1) if text[0] == "\\" else text
        return text, lambda: plain
    if kind == 1:
        text, chars = rng.choice([("[a-c]", "abc"), (r"\d", "059"), (r"[^a-y\n]", "z0 \"\\é"), (r"[\w.]", "aZ_9."),
                                  (".", "a\"é "), (r"\s", " \t"), (r"[\]\-x]", "]-x"), (r"\S", "a!\\")])
        return text, lambda: rng.choice(chars)
    if kind in (2, 3):
        text, make = make_regex(rng, depth + 1, repeated + 1)
        sign, least, most = rng.choice([("*", 0, 3), ("+", 1, 3), ("?", 0, 1), ("{2}", 2, 2), ("{1,3}", 1, 3), ("{2,}", 2, 4), ("*?", 0, 2)])
        return f"(?:{text}){sign}", lambda: "".join(make() for _ in range(rng.randint(least, most)))
    if kind == 5:
        parts = [make_regex(rng, depth + 1, repeated) for _ in range(rng.randint(2, 3))]
        return "(" + "|".join(text for text, _ in parts) + ")", lambda: rng.choice(parts)[1]()
    parts = [make_regex(rng, depth + 1, repeated) for _ in range(rng.randint(1, 3))]
    return "".join(text for text, _ in parts), lambda: "".join(make() for _, make in parts)


def spoil(rng, text, alphabet):
    place = rng.randrange(len(text) + 1)
    if rng.randrange(3) == 0:
        return text[:place] + text[place + 1:]
    return text[:place] + rng.choice(alphabet) + text[place + rng.randrange(2):]


def check_patterns(match, rng, cases):
    for _ in range(cases):
        body, make = make_regex(rng)
        begin, end = rng.choice(["^", ""]), rng.choice(["$", ""])
        pattern = f"{begin}(?:{body}){end}"
        wanted = re.compile(f"{begin}(?:{body})" + (r"\Z" if end else ""), re.ASCII)
        texts = [make() for _ in range(6)]
        texts += [spoil(rng, text, "ab0z.\"\\- \n") for text in texts] + rng.choices(WORDS, k=4)
        said = match.ask(schema={"type": "string", "pattern": pattern}, texts=[json.dumps(text, ensure_ascii=False) for text in texts])
        for text, fits in zip(texts, said):
            assert fits == bool(wanted.search(text)), (pattern, text, fits)


def check_grammars(match, rng, cases):
    """The same expressions as GBNF: what is a group or a quantifier there is so here."""
    for _ in range(cases):
        parts, wanted, makers = [], [], []
        for _ in range(rng.randint(1, 4)):
            word = rng.choice(["a", "bc", "é", "x y"])
            chars, sample = rng.choice([("[a-c]", "abc"), ("[^a]", "bé \""), ("[0-9x]", "07x"), (".", "a\n\"")])
            least, most = rng.choice([(0, 1), (1, 1), (0, 3), (2, 3), (1, None), (0, None)])
            times = "{%d,%s}" % (least, "" if most is None else most)
            parts.append(f'("{word}" | {chars}){times}')
            wanted.append(f"(?:{word}|{chars}){times}")
            makers.append(lambda word=word, sample=sample, least=least, most=most: "".join(
                rng.choice([word, rng.choice(sample)]) for _ in range(rng.randint(least, most or least + 2))))
        pattern = re.compile("".join(wanted), re.DOTALL)
        texts = ["".join(make() for make in makers) for _ in range(8)]
        texts += [spoil(rng, text, "abcx \n0é") for text in texts]
        said = match.ask(grammar="root ::= " + " ".join(parts), texts=texts)
        for text, fits in zip(texts, said):
            assert fits == bool(pattern.fullmatch(text)), (parts, text, fits)


# --- schemas --------------------------------------------------------------------------------------------

def make_number(rng, integer):
    schema, low, high = {"type": "integer" if integer else "number"}, None, None
    digits = 0 if integer else rng.randrange(3)
    if rng.randrange(2):
        low = round(rng.uniform(-200, 200), digits)
        schema[rng.choice(["minimum", "exclusiveMinimum"])] = int(low) if integer else low
    if rng.randrange(2):
        high = round((low if low is not None else rng.uniform(-200, 200)) + rng.uniform(30, 300), digits)
        schema[rng.choice(["maximum", "exclusiveMaximum"])] = int(high) if integer else high
    if rng.randrange(4) == 0:
        schema["multipleOf"] = rng.choice([2, 3, 7, 10] if integer else [2, 5, 0.5])

    def make():
        base = rng.choice([low if low is not None else -50, high if high is not None else 120, 0])
        step = schema.get("multipleOf", 1 if integer else 0.25)
        value = round((base + rng.choice([0, 1, -1, rng.uniform(-40, 40)])) / step) * step
        return int(value) if integer or value == int(value) else value  # a multiple of 5 is not written 10.0

    return schema, make


def make_object(rng, depth):
    members = {name: make_schema(rng, depth + 1) for name in rng.sample(NAMES, rng.randint(0, 4))}
    required = [name for name in members if rng.randrange(2)]
    schema = {"type": "object", "properties": {name: one for name, (one, _) in members.items()}, "required": required}
    more = make_schema(rng, depth + 1) if rng.randrange(3) == 0 else None
    schema["additionalProperties"] = more[0] if more else False

    def make():
        value = {name: make() for name, (_, make) in members.items() if name in required or rng.randrange(2)}
        if more and rng.randrange(2):
            value.update({name: more[1]() for name in rng.sample(["more", "c", "nam", "names"], 2)})
        return value

    return schema, make


def make_array(rng, depth):
    item, make = make_schema(rng, depth + 1)
    least, most = rng.choice([(0, None), (1, None), (0, 2), (2, 3)])
    schema = {"type": "array", "items": item, "minItems": least} | ({"maxItems": most} if most else {})
    return schema, lambda: [make() for _ in range(rng.randint(least, most or least + 2))]


def make_string(rng):
    if rng.randrange(2):
        least, most = rng.choice([(0, 2), (1, 3), (2, 8)])
        return ({"type": "string", "minLength": least, "maxLength": most},
                lambda: "".join(rng.choice("ab\"\\é😀\n") for _ in range(rng.randint(least, most))))
    return {"type": "string"}, lambda: rng.choice(WORDS)


def make_schema(rng, depth=0):
    """A schema, and a function that makes values that are mostly valid for it."""
    kind = rng.randrange(10 if depth < 3 else 6)
    if kind < 2:
        return make_number(rng, kind == 0)
    if kind == 2:
        return make_string(rng)
    if kind == 3:
        return rng.choice([({"type": "boolean"}, lambda: rng.choice([True, False])), ({"type": "null"}, lambda: None)])
    if kind == 4:
        values = rng.sample([1, "a", None, True, "q\"r", 2.5, [1], {"b": 2}, "é"], 3)
        return {"enum": values}, lambda: rng.choice(values)
    if kind == 5:
        value = rng.choice(["a", 7, None])
        return {"const": value}, lambda: value
    if kind == 6:
        ways = [make_schema(rng, depth + 1) for _ in range(rng.randint(2, 3))]
        return {"anyOf": [one for one, _ in ways]}, lambda: rng.choice(ways)[1]()
    return make_array(rng, depth) if kind == 7 else make_object(rng, depth)


def spell(value, rng):
    # A literal has one spelling.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":") if rng.randrange(2) else (",", ": "))


def strictly(text):
    def refuse(_):
        raise ValueError("no JSON")

    def members(pairs):
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a name twice")
        return dict(pairs)

    return json.loads(text, parse_constant=refuse, object_pairs_hook=members)


def has_literals(schema):
    return "enum" in json.dumps(schema) or '"const"' in json.dumps(schema)


def check_schemas(match, rng, cases):
    taken = refused = 0
    for _ in range(cases):
        schema, make = make_schema(rng)
        validator = jsonschema.Draft202012Validator(schema)
        made = [make() for _ in range(8)]
        values = [json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in made]
        loose = [spell(value, rng) for value in made] if not has_literals(schema) else []
        whole = [json.dumps(value, ensure_ascii=False, indent=2) for value in made] if not has_literals(schema) else []
        texts = values + loose + whole
        broken = [spoil(rng, text, "{}[],:\"0123456789.-etfn \\a") for text in texts]
        said = match.ask(schema=schema, texts=texts + broken)
        for n, (text, fits) in enumerate(zip(texts + broken, said)):
            try:
                valid = validator.is_valid(strictly(text))
            except (ValueError, RecursionError):
                valid = False
            if fits:
                assert valid, (schema, text)
                taken += 1
            elif n < len(texts) and valid and "e" not in re.sub(r'"[^"]*"|true|false', "", text):
                raise AssertionError(("valid and refused", schema, text))
            else:
                refused += 1
    assert taken > 3 * cases and refused > 2 * cases, (taken, refused)


def main():
    match = Match(sys.argv[1])
    cases = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    check_patterns(match, rng, cases)
    check_grammars(match, rng, cases)
    if jsonschema is None:
        print("differential_test: schemas are skipped: the Python package 'jsonschema' is not installed (scripts/python-packages)")
        sys.exit(77)
    check_schemas(match, rng, cases)


if __name__ == "__main__":
    main()
