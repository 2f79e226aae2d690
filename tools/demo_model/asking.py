# SPDX-License-Identifier: MIT
"""What readers ask for: a hero, a name, a friend, a place, a thing, a goal, a topic."""

import plots
import words as W
from grammar import articles, fill, polish, reserved

ASK_LEAD = (
    "[Tell me|Please tell me|Can you tell me|Could you tell me|Write|Please write|Make up|I want|I"
    " would like|Give me|Write me|I'd like|Let's hear|Tell us|Invent] a [|short |little |new"
    " |bedtime |nice |good |funny |happy |exciting |silly ||||]story"
)


def free_name(rng, gender, human, held_out):
    """A name as a reader might choose it; one in eight of the held-out ones never occurs in training."""
    helper = plots.Story(rng, held_out)
    while True:
        name = helper.coined().capitalize() if rng.random() < 0.3 else helper.name(gender, human)
        if not held_out and reserved(name.split()[-1]):
            continue
        if not held_out or rng.random() < 0.5 or reserved(name.split()[-1]):
            return name


GOALS = [  # (what the hero wants, what it fixes, its options, the plot)
    ("who wants to build a {v}", "build", W.BUILDS, "build"),
    ("who builds a {v}", "build", W.BUILDS, "build"),
    ("who wants to learn to {v}", "skill", W.SKILLS, "learn"),
    ("who learns to {v}", "skill", W.SKILLS, "learn"),
    ("who wants to {v}", "skill", W.SKILLS, "learn"),
    ("who is afraid of {v}", "fear", W.FEARS, "fear"),
    ("who grows {v}", "crop", W.CROPS, "garden"),
    ("who plants {v}", "crop", W.CROPS, "garden"),
    ("who takes part in a {v}", "contest", W.CONTESTS, "contest"),
    ("and a {v}", "contest", W.CONTESTS, "contest"),
    ("who mends a {v}", "machine", W.MACHINES, "mend"),
    ("and the missing {v}", "fruit", W.FRUITS, "mystery"),
    ("and a fallen star", None, None, "star"),
    ("who finds a letter in a bottle", None, None, "letter"),
    ("who has a birthday", None, None, "birthday"),
    ("who hears a strange noise", None, None, "attic"),
    ("who goes on a picnic", None, None, "picnic"),
    ("who finds a treasure", None, None, "treasure"),
    ("who gets a wish", None, None, "wish"),
    ("and a storm", None, None, "storm"),
    ("who sells things at the market", None, None, "market"),
]


def _any_kind(helper):
    """Mostly a kind of the world, sometimes whatever a reader may think of."""
    roll = helper.rng.random()
    if roll < 0.05:
        return helper.pick(W.THINGS)
    if roll < 0.13:
        return helper.coined()
    if roll < 0.15:
        return helper.coined()[:4].upper()
    return helper.kind()


def _any_thing(helper):
    roll = helper.rng.random()
    if roll < 0.1:
        return helper.coined()
    thing = helper.pick(W.THINGS)
    return f"{helper.pick(W.COLOURS)} {thing}" if roll < 0.5 else thing


def _group_request(rng, helper, want):
    """Two foxes; pirates; a girl and her dog."""
    kind = helper.kind()
    many = W.PLURALS.get(kind) or (kind[:-3] + "men" if kind.endswith("man") else kind + "s")
    want.update(kind=kind)
    roll = rng.random()
    if roll < 0.35:
        if kind not in W.GENDERED:
            want.update(friend_kind=kind)
            return fill(rng, ASK_LEAD, {}) + f" about two {many}."
    elif roll < 0.6:
        return fill(rng, ASK_LEAD, {}) + f" about {many}."
    gender = W.GENDERED.get(kind) or helper.pick(("he", "she"))
    kind = want["kind"] = helper.pick(W.CHILDREN + W.CHILDREN + W.JOBS)
    gender = W.GENDERED.get(kind) or gender
    friend = helper.pick(
        ["dog", "cat", "horse", "parrot", "rabbit", "mouse", "pony", "robot", "dragon", "goat"]
    )
    want.update(gender=gender, friend_kind=friend)
    name = ""
    if rng.random() < 0.7:
        want["name"] = free_name(rng, gender, True, helper.held_out)
        name = fill(rng, "[ named| called] ", {}) + want["name"]
    words = f" about a {kind}{name} and {'his' if gender == 'he' else 'her'} {friend}"
    if rng.random() < 0.3:
        want["friend_gender"] = helper.pick(("he", "she"))
        friend_name = free_name(rng, want["friend_gender"], False, helper.held_out)
        if friend_name != want.get("name"):
            want["friend_name"] = friend_name
            words += fill(rng, "[ named| called|] ", {}) + friend_name
    return polish(fill(rng, ASK_LEAD, {}) + words.replace("  ", " ") + ".")


def _my_request(rng, helper, want):
    """My grandmother; my cat Felix."""
    if rng.random() < 0.4:
        kind = helper.pick(W.FAMILY)
        want.update(kind=kind, gender=W.GENDERED.get(kind) or helper.pick(("he", "she")))
        return fill(rng, ASK_LEAD, {}) + f" about my {kind}."
    want.update(kind=helper.kind("animal"), gender=helper.pick(("he", "she")))
    name = want["name"] = free_name(rng, want["gender"], False, helper.held_out)
    return fill(rng, ASK_LEAD, {}) + f" about my {want['kind']} {name}."


def request(rng, held_out):
    """What a reader asks for: (words of the request, wishes for plots.tell)."""
    words, want = _request(rng, held_out)
    words = articles(words)
    if words.startswith(("Can", "Could")) and ". " not in words and rng.random() < 0.7:
        words = words[:-1] + "?"
    return words, want


def _request(rng, held_out):
    helper = plots.Story(rng, held_out)
    want, pick = {}, helper.pick
    if rng.random() < 0.08:
        return _group_request(rng, helper, want), want
    roll = rng.random()
    if roll < 0.05:
        return fill(rng, ASK_LEAD + ".", {}), want
    if roll < 0.07:
        weather = pick([("it rains", "rainy"), ("it snows", "snowy"), ("the wind blows", "windy")])
        want["weather"] = weather[1]
        return fill(rng, ASK_LEAD + f" in which {weather[0]}.", {}), want
    if roll < 0.09:
        want["season"] = pick(W.SEASONS)
        return fill(rng, ASK_LEAD + f" [about|set in] {want['season']}.", {}), want
    if roll < 0.12:
        topic = pick(list(W.TOPICS))
        want["place"] = pick(W.TOPICS[topic])
        return fill(rng, ASK_LEAD + f" about {topic}.", {}), want
    if roll < 0.17:
        plot = pick(list(plots.PLOTS))
        want["plot"] = plot
        return fill(rng, ASK_LEAD + " about " + pick(plots.THEMES[plot]) + ".", {}), want
    if roll < 0.21:
        want["thing"] = thing = _any_thing(helper)
        return polish(fill(rng, ASK_LEAD + f" about a {thing}.", {})), want
    if roll < 0.25:
        want["place"] = place = plots.place_noun(helper)
        return (
            fill(
                rng,
                ASK_LEAD
                + " [set|that takes place|that happens|] "
                + plots.place_phrase(place)
                + ".",
                {},
            ).replace("  ", " "),
            want,
        )
    if roll < 0.28:
        return _my_request(rng, helper, want), want
    if roll < 0.31:
        first, second = (free_name(rng, pick(("he", "she")), True, held_out) for _ in range(2))
        if first != second:
            want.update(name=first, friend_name=second)
            return fill(rng, ASK_LEAD, {}) + f" about {first} and {second}.", want
    if roll < 0.37:
        gender = pick(("he", "she"))
        want.update(name=free_name(rng, gender, True, held_out), gender=gender)
        return fill(rng, ASK_LEAD + f" about {want['name']}.", {}), want
    kind = _any_kind(helper)
    gender = W.GENDERED.get(kind) or pick(("he", "she"))
    want.update(kind=kind, gender=gender)
    words = f" about a {kind}"
    if rng.random() < 0.4:
        want["trait"] = pick(list(W.TRAITS))
        words = f" about a {want['trait']} {kind}"
    if rng.random() < 0.55:
        want["name"] = free_name(
            rng, gender, kind not in W.LAND and kind not in W.FANTASY, held_out
        )
        words += fill(rng, f"[ named| called| named| with the name] {want['name']}", {})
    if rng.random() < 0.3:
        friend = helper.kind()
        if friend != kind:
            want["friend_kind"] = friend
            if rng.random() < 0.4:
                friend_gender = W.GENDERED.get(friend) or pick(("he", "she"))
                name = free_name(rng, friend_gender, True, held_out)
                if name != want.get("name"):
                    want.update(friend_name=name, friend_gender=friend_gender)
                    words += f" and a {friend} named {name}"
            if "friend_name" not in want:
                words += fill(
                    rng, f"[ and a {friend}| and a {friend}| with a friend who is a {friend}]", {}
                )
    if rng.random() < 0.3:
        want["place"] = plots.place_noun(helper)
        phrase = plots.place_phrase(want["place"])
        words += (
            " " + phrase
            if "friend_kind" in want
            else fill(rng, f"[ who lives| living|] {phrase}", {})
        )
    elif rng.random() < 0.3:
        want["thing"] = thing = _any_thing(helper)
        words += fill(
            rng,
            (
                f"[ and a {thing}| with a {thing}| who finds a {thing}]"
                if "friend_kind" not in want
                else f" and a {thing}"
            ),
            {},
        )
        if "who finds" in words:
            want["plot"] = pick(["rescue", "quarrel"])
    elif rng.random() < 0.4 and "friend_kind" not in want:
        goal, what, options, want["plot"] = pick(GOALS)
        if what:
            want[what] = pick(list(options))
            goal = goal.replace("{v}", want[what])
        words += " " + goal
    elif rng.random() < 0.2:
        want["plot"] = plot = pick(list(plots.PLOTS))
        words += f". It should be about {pick(plots.THEMES[plot])}"
    if rng.random() < 0.12:
        return polish(fill(rng, f"[A story|Story] {words.strip()}.", {})), want
    return polish(fill(rng, ASK_LEAD, {}) + words + "."), want
