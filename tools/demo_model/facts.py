# SPDX-License-Identifier: MIT
"""Small worlds of plain facts: who has, likes, is or goes what and where, and questions about them.

They teach the model to read what a reader types, not only the stories that it would tell itself.
"""

import re

import plots
import words as W


def _facts(s, people):
    """Yields (sentence, questions). Often all people differ in the same thing, which is harder."""
    same = s.rng.sample(range(12), s.rng.randint(1, 2)) if s.chance(0.5) else None
    things = s.several(W.THINGS, len(people) * 3)
    for who in people:
        n, colour, thing, hidden, given = (
            who.name,
            s.pick(W.PLAIN_COLOURS),
            things.pop(),
            things.pop(),
            things.pop(),
        )
        food, room, number = s.pick(W.FOODS), s.pick(W.ROOMS), s.number(2, 20)
        other = s.pick([p.name for p in people if p is not who])
        prep, spot = s.pick(W.SPOTS)
        kind, (at, place, _), trait = s.kind(), plots.place_noun(s), s.pick(W.TRAITS)
        options = [
            (
                f"{n} [has|had|owns|found|bought] a {colour} {thing}.",
                [
                    (
                        f"[What does {n} have|What did {n} have]?",
                        f"{n} has a {colour} {thing}.",
                        f"{colour} {thing}",
                    ),
                    (f"[Who has the {thing}|Who has a {thing}]?", f"{n} has the {thing}.", n),
                    (
                        f"What colour is [{n}'s {thing}|the {thing}]?",
                        f"The {thing} is {colour}.",
                        colour,
                    ),
                ],
            ),
            (
                f"{n} [likes|loves] {food}.",
                [
                    (f"What does {n} like?", f"{n} likes {food}.", food),
                    (f"Who likes {food}?", f"{n} likes {food}.", n),
                ],
            ),
            (
                f"{n} is a {kind}.",
                [
                    (f"What is {n}?", f"{n} is a {kind}.", kind),
                    (f"Who is [a|the] {kind}?", f"{n} is a {kind}.", n),
                ],
            ),
            (
                f"{n} is {number} years old.",
                [
                    (f"How old is {n}?", f"{n} is {number} years old.", number),
                    (f"Who is {number} years old?", f"{n} is {number} years old.", n),
                ],
            ),
            (
                f"{n} is in the {room}.",
                [
                    (f"Where is {n}?", f"{n} is in the {room}.", room),
                    (f"Who is in the {room}?", f"{n} is in the {room}.", n),
                ],
            ),
            (
                f"{n} [put|hid|left] the {hidden} {prep} {spot}.",
                [
                    (
                        f"Where is the {hidden}?",
                        f"The {hidden} is {prep} {spot}.",
                        f"{prep} {spot}",
                    ),
                    (f"Who put the {hidden} {prep} {spot}?", f"{n} did.", n),
                ],
            ),
            (
                f"{n} gave {other} a {colour} {given}.",
                [
                    (
                        f"What did {n} give {other}?",
                        f"{n} gave {other} a {colour} {given}.",
                        f"{colour} {given}",
                    ),
                    (f"Who gave {other} a {given}?", f"{n} gave {other} the {given}.", n),
                    (f"Who has the {given}[ now|]?", f"{other} has the {given}.", other),
                ],
            ),
            (
                f"{n} lives {at} a {place}.",
                [
                    (f"Where does {n} live?", f"{n} lives {at} a {place}.", place),
                    (f"Who lives {at} a {place}?", f"{n} lives {at} a {place}.", n),
                ],
            ),
            (f"{n} has {number} {s.pick(W.FRUITS)}.", []),
            (f"{n} is {trait}.", [(f"[What is {n} like|How is {n}]?", f"{n} is {trait}.", trait)]),
            (
                f"{n} wants to {(skill := s.pick(list(W.SKILLS)))}.",
                [(f"What does {n} want to do?", f"{n} wants to {skill}.", skill)],
            ),
            (
                f"{n} is afraid of {(fear := s.pick(list(W.FEARS)))}.",
                [
                    (f"What is {n} afraid of?", f"{n} is afraid of {fear}.", fear),
                    (f"Who is afraid of {fear}?", f"{n} is afraid of {fear}.", n),
                ],
            ),
        ]
        for sentence, questions in (
            [options[i] for i in same] if same else s.several(options, s.rng.randint(1, 3))
        ):
            counted = re.fullmatch(rf"{n} has {number} (\w+)\.", sentence)
            if counted:
                fruit = counted.group(1)
                questions = [
                    (f"How many {fruit} does {n} have?", f"{n} has {number} {fruit}.", number)
                ]
            yield sentence, questions


def small_world(s):
    """Returns (text, questions) about two to four people."""
    people = [s.who(f"p{i}") for i in range(s.rng.randint(2, 4))]
    facts = list(_facts(s, people))
    s.rng.shuffle(facts)
    # A question whose answer two sentences could give is left out.
    asked = [q[0] for _, qs in facts for q in qs]
    lines = [s.text(sentence) for sentence, _ in facts]
    if len(lines) > 1 and s.chance(0.3):
        lines[:2] = [f"{lines[0][:-1]} and {lines[1]}"]
    text = " ".join(lines)
    questions = [
        (s.text(q), s.text(a), k)
        for _, qs in facts
        for q, a, k in qs
        if asked.count(q) == 1 and len(re.findall(rf"\b{re.escape(k)}\b", text)) > 0
    ]
    return text, questions


def moving(s):
    """People walk from room to room, and things change hands."""
    people = [s.who(f"p{i}").name for i in range(s.rng.randint(2, 3))]
    rooms = s.several(W.ROOMS, 4)
    thing = s.pick(W.THINGS)
    where, holder, lines = {}, None, []
    for _ in range(s.rng.randint(3, 7)):
        n = s.pick(people)
        if holder is None and n in where and s.chance(0.5):
            holder = n
            lines.append(f"{n} [picked up|took|found] the {thing}[ there|].")
        elif holder == n and s.chance(0.5):
            holder = s.pick([p for p in people if p != n])
            lines.append(f"{n} gave the {thing} to {holder}.")
        else:
            room = s.pick([r for r in rooms if r != where.get(n)])
            lines.append(
                f"{'Then ' if n in where and s.chance(0.4) else ''}{n} [went to|walked to|ran"
                f" to|moved to] the {room}."
            )
            where[n] = room
    questions = [
        (f"Where is {n}[ now|]?", f"{n} is in the {room}.", room) for n, room in where.items()
    ]
    if holder:
        questions.append((f"Who has the {thing}[ now|]?", f"{holder} has the {thing}.", holder))
    return " ".join(s.text(line) for line in lines), [(s.text(q), a, k) for q, a, k in questions]


def mine(s):
    """The reader speaks of a pet, a friend or a relative."""
    gender = s.pick(("he", "she"))
    kind = s.kind("animal") if s.chance(0.6) else s.pick(W.FAMILY)
    gender = W.GENDERED.get(kind) or gender
    who = s.who("m", kind, gender=gender)
    colour, food, habit = s.pick(W.PLAIN_COLOURS), s.pick(W.FOODS), s.pick(W.HABITS)
    number, (prep, spot) = s.number(2, 20), s.pick(W.SPOTS)
    s.bind(kind=kind, colour=colour, food=food, habit=habit, n=number, spot=f"{prep} {spot}")
    options = [
        ("{m_He} is {colour}.", "What colour is my {kind}?", "Your {kind} is {colour}.", colour),
        ("{m_He} likes {food}.", "What does [my {kind}|{m}] like?", "{m} likes {food}.", food),
        (
            "{m_He} is {n} years old.",
            "How old is [my {kind}|{m}]?",
            "{m} is {n} years old.",
            number,
        ),
        ("{m_He} likes to {habit}.", "What does {m} like to do?", "{m} likes to {habit}.", habit),
        (
            "{m_He} sleeps {spot}.",
            "Where does [my {kind}|{m}] sleep?",
            "{m} sleeps {spot}.",
            f"{prep} {spot}",
        ),
        (
            "{m_He} is [very |]{m_trait}.",
            "What is [my {kind}|{m}] like?",
            "{m} is {m_trait}.",
            who.trait,
        ),
    ]
    if kind in W.FAMILY:
        options = options[1:]  # people have no colour
    chosen = s.several(options, s.rng.randint(1, 4))
    text = "[I have a {kind} called {m}.|I have a {kind} named {m}.|My {kind} is called {m}.]"
    lines = [s.text(text)] + [s.text(line) for line, _, _, _ in chosen]
    questions = [(s.text(q), s.text(a), k) for _, q, a, k in chosen]
    questions.append(
        (
            s.text("[What is my {kind} called|What is the name of my {kind}]?"),
            s.text("Your {kind} is called {m}."),
            who.name,
        )
    )
    return " ".join(lines), questions
