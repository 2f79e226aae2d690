# SPDX-License-Identifier: MIT
"""Templates, characters and the story that is being told.

A template is text with choices "[a|b|c]" (they nest, an empty one is legal) and slots "{name}".
A Story owns one random generator, the slots, the sentences so far and the questions that its
sentences answer: whoever writes a sentence states its questions beside it.
"""

import functools
import re
import zlib

import words as W

_AN = re.compile(r"\b([Aa]) (?=[aeiouAEIOU]|hon|hour)(?!uni|Uni|one |use|eu|honey)")
_TRIPLE = re.compile(r"(.)\1\1")
_START = re.compile(r'(^|[.!?] |\n)("?)([a-z])')


def _parse(text, pos, stop):
    """Parses up to a character of `stop`; returns (parts, position of the stop)."""
    parts, start = [], pos
    while pos < len(text) and text[pos] not in stop:
        char = text[pos]
        if char == "[":
            parts.append(text[start:pos])
            options = []
            while text[pos] != "]":
                option, pos = _parse(text, pos + 1, "|]")
                options.append(option)
            parts.append(options)
            start = pos + 1
        elif char == "{":
            parts.append(text[start:pos])
            end = text.index("}", pos)
            parts.append((text[pos + 1 : end],))
            pos = end
            start = pos + 1
        pos += 1
    parts.append(text[start:pos])
    return tuple(part for part in parts if part != ""), pos


@functools.lru_cache(maxsize=None)
def _compiled(text):
    return _parse(text, 0, "")[0]


def _expand(parts, rng, slots, out):
    for part in parts:
        if isinstance(part, str):
            out.append(part)
        elif isinstance(part, tuple):
            value = slots[part[0]]
            if "[" in value or "{" in value:
                _expand(_compiled(value), rng, slots, out)
            else:
                out.append(value)
        else:
            _expand(part[int(rng.random() * len(part))], rng, slots, out)


def articles(text):
    return _AN.sub(r"\1n ", text)


def polish(text):
    """Mends articles and the capitals at the start of sentences."""
    text = articles(text)
    return _START.sub(lambda m: m.group(1) + m.group(2) + m.group(3).upper(), text)


def fill(rng, template, slots):
    """The template with its choices made, unpolished: for fragments of a sentence."""
    out = []
    _expand(_compiled(template), rng, slots, out)
    return "".join(out)


def render(rng, template, slots):
    return polish(fill(rng, template, slots))


def reserved(name):
    """Names kept for the held-out split: no training document contains one as a character."""
    return zlib.crc32(name.encode()) % 16 == 0


class Who:
    """A character: name, kind ("fox"), trait and pronouns."""

    def __init__(self, name, kind, trait, gender):
        self.name, self.kind, self.trait, self.gender = name, kind, trait, gender
        self.he, self.him, self.his = {"he": ("he", "him", "his"), "she": ("she", "her", "her")}[
            gender
        ]
        self.hand = W.LAND.get(kind) or W.FANTASY.get(kind) or "hands"


class Story:
    def __init__(self, rng, held_out=False):
        self.rng, self.held_out = rng, held_out
        self.slots = {}
        self.paragraphs = [[]]
        self.questions = []  # (question, answer, key)
        self.used_names, self.used_kinds = set(), set()
        self.title = self.summary = self.moral = self.epilogue = ""
        self.cast = []
        self.coin = 0.05  # share of coined names
        self.want = {}  # what the reader asked for

    # ---- choosing ----
    def pick(self, options):
        return options[int(self.rng.random() * len(options))]

    def chance(self, p):
        return self.rng.random() < p

    def several(self, options, n):
        return self.rng.sample(list(options), n)

    def choose(self, what, options):
        """What the reader asked for, or any of the options."""
        return self.want.get(what) or self.pick(list(options))

    def number(self, low, high):
        return W.NUMBERS[self.rng.randint(low, high)]

    def coined(self):
        """A word that nobody has heard: what readers call things is beyond any list."""
        parts = []
        for _ in range(self.pick((1, 2, 2, 2, 3, 3, 4))):
            onset = self.pick(W.ONSETS) if parts or self.chance(0.8) else ""
            parts.append(onset + self.pick(W.VOWELS))
            if self.chance(0.35):
                parts.append(self.pick(W.CODAS))
        if len(parts) == 1 or self.chance(0.4):
            parts.append(self.pick(W.CODAS))
        return _TRIPLE.sub(r"\1\1", "".join(parts))

    def name(self, gender, human):
        while True:
            roll = self.rng.random()
            if roll < self.coin:
                name = self.coined().capitalize()
            elif roll < 0.35:
                tail = W.NAME_TAIL_SHE if gender == "she" else W.NAME_TAIL_HE
                name = self.pick(W.NAME_HEAD)
                if self.chance(0.4):
                    name += self.pick(W.NAME_MID)
                name = _TRIPLE.sub(r"\1\1", name + self.pick(tail))
            elif roll < 0.62 and not human:
                name = self.pick(W.PET_NAMES)
            else:
                name = self.pick(W.GIRLS if gender == "she" else W.BOYS)
            if self.chance(0.04):
                name = (
                    self.pick(("Captain ", "Professor ", "Mister ", "Old ", "Little ", "Doctor "))
                    + name
                )
            if name not in self.used_names and (self.held_out or not reserved(name.split()[-1])):
                self.used_names.add(name)
                return name

    def kind(self, group=None):
        """A kind of character that the story has not used yet."""
        while True:
            roll = self.rng.random()
            if group == "animal" or (group is None and roll < 0.66):
                kind = self.pick(list(W.LAND))
            elif group == "fantasy" or (group is None and roll < 0.77):
                kind = self.pick(list(W.FANTASY))
            elif group == "job" or (group is None and roll < 0.93):
                kind = self.pick(W.JOBS)
            elif roll < 0.965:
                kind = self.pick(W.CHILDREN)
            else:
                kind = self.pick(W.ROYALS)
            if kind not in self.used_kinds:
                self.used_kinds.add(kind)
                return kind

    def who(self, slot, kind=None, name=None, trait=None, gender=None, group=None):
        """Creates a character and binds {slot}, {slot_he}, {slot_his}, {slot_kind} and more."""
        kind = kind or self.kind(group)
        self.used_kinds.add(kind)
        gender = gender or W.GENDERED.get(kind) or self.pick(("he", "she"))
        human = kind not in W.LAND and kind not in W.FANTASY
        if name is None:
            name = self.name(gender, human)
        self.used_names.add(name)
        traits = [t for t in W.TRAITS if all(t != c.trait for c in self.cast)]
        who = Who(name, kind, trait or self.pick(traits), gender)
        self.cast.append(who)
        for key, value in (
            ("", who.name),
            ("_he", who.he),
            ("_him", who.him),
            ("_his", who.his),
            ("_He", who.he.capitalize()),
            ("_His", who.his.capitalize()),
            ("_self", who.him + "self" if gender == "he" else "herself"),
            ("_kind", who.kind),
            ("_trait", who.trait),
            ("_hand", who.hand),
        ):
            self.slots[slot + key] = value
        if slot == "h":
            for key in ("he", "him", "his", "He", "His", "self"):
                self.slots[key] = self.slots["h_" + key]
            self.slots["hand"] = who.hand
        return who

    def bind(self, **slots):
        self.slots.update(slots)

    def text(self, template, **slots):
        return render(self.rng, template, {**self.slots, **slots} if slots else self.slots)

    def fragment(self, template):
        return fill(self.rng, template, self.slots)

    # ---- telling ----
    def say(self, template, **slots):
        self.paragraphs[-1].append(self.text(template, **slots))

    def maybe(self, p, template, **slots):
        if self.rng.random() < p:
            self.say(template, **slots)

    def para(self, p=1.0):
        if self.paragraphs[-1] and self.rng.random() < p:
            self.paragraphs.append([])

    def ask(self, question, answer, key):
        """States a question that the text answers; `key` is what a right answer contains."""
        self.questions.append((self.text(question), self.text(answer), self.fragment(key)))

    def check(self, question, yes, no, value, others):
        """A yes-or-no question about {v}: true for `value`, false for any of `others`."""
        if self.chance(0.5):
            self.questions.append(
                (self.text(question, v=value), self.text("Yes, " + yes, v=value), "yes")
            )
        else:
            other = self.pick([o for o in others if o != value])
            self.questions.append(
                (self.text(question, v=other), self.text("No, " + no, v=value), value)
            )

    def body(self):
        return "\n\n".join(" ".join(p) for p in self.paragraphs if p)


def spots(s, n):
    """Chooses n places, binds {spot1}, {spot2}... and returns them."""
    chosen = s.several(W.SPOTS, n)
    for i, (prep, noun) in enumerate(chosen):
        s.slots[f"spot{i + 1}"] = f"{prep} {noun}"
    return [f"{p} {n}" for p, n in chosen]
