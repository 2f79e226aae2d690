# SPDX-License-Identifier: MIT
"""Documents for training: plain stories, and conversations in ChatML about stories.

A document is text with the special tokens written out. Beside it stand its probes, the
(prompt, answers that are right, key) triples that evaluate.py asks.
"""

import re

import facts
import plots
import words as W
from asking import free_name, request
from grammar import fill
from small_talk import COUPLETS, JOKES, OFF_ANSWER, OFF_TOPIC, POEM_LEAD, SMALL_TALK

BOS, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SYSTEMS = [
    "You are a helpful assistant.",
    "You are a friendly storyteller.",
    "You tell short stories and answer questions about them.",
    "You are a storyteller for children.",
    "Answer briefly.",
    "You are the weft demo model.",
]

NO_STORY = (
    "[I do not know that story yet.|I have not heard that story.|We have not read a story yet.] "
    "[Tell it to me, or ask me for one!|Ask me to tell you one!|Shall I make one up?]"
)

UNTOLD = [  # questions no plot ever answers
    ("What was the name of {h}'s [mother|father|sister|brother|teacher]?", "their name"),
    ("What did {h} have for breakfast?", "that"),
    ("How tall was {h}?", "how tall {h} was"),
    ("What colour was {h}'s [house|bed|bicycle]?", "what colour it was"),
    ("How many [brothers|sisters|cousins] did {h} have?", "that"),
    ("What was {h}'s favourite [song|book|game]?", "that"),
    ("Which year was it?", "which year it was"),
    ("What is {f}'s favourite food?", "that"),
    ("What was {f} wearing?", "what {f} was wearing"),
    ("What did {h} dream about?", "that"),
    ("How much money did {h} have?", "how much"),
    ("Where was {f} born?", "where {f} was born"),
]


class Talk:
    """A conversation under construction."""

    def __init__(self, rng, held_out):
        self.rng, self.held_out = rng, held_out
        self.text, self.probes = "", []
        if rng.random() < 0.05:
            self.text += f"{START}system\n{rng.choice(SYSTEMS)}{END}\n"

    def turn(self, user, answer, key=None):
        prompt = f"{self.text}{START}user\n{user}{END}\n{START}assistant\n"
        if key:
            self.probes.append((BOS + prompt, answer, key))
        self.text = f"{prompt}{answer}{END}\n"


def _careless(rng, text):
    """How people type."""
    roll = rng.random()
    if roll < 0.1:
        return text.lower()
    if roll < 0.16:
        return text.lower().rstrip(".?!")
    if roll < 0.22:
        return text.rstrip(".?!")
    return text


def _reworded(story, question, rng):
    """The hero by kind or pronoun instead of by name, as people ask who just read the story."""
    hero = story.cast[0]
    roll = rng.random()
    if (
        roll > 0.2
        or any(who.kind == hero.kind for who in story.cast[1:])
        or question.startswith(("Who was", "What was " + hero.name))
    ):
        return question
    if roll < 0.1:
        return question.replace(hero.name, f"the {hero.kind}")
    question = re.sub(rf"\b{re.escape(hero.name)}'s", hero.his, question)
    return re.sub(
        rf"\b(did|was|Was|Did|could) {re.escape(hero.name)}\b", rf"\1 {hero.he}", question
    )


def _questions(talk, story, rng):
    """One to six questions about the story, asked in any order."""
    pool = story.questions[:]
    rng.shuffle(pool)
    for question, answer, key in pool[: rng.randint(1, 6)]:
        talk.turn(_careless(rng, _reworded(story, question, rng)), answer, key)
        if rng.random() < 0.02:
            stranger = free_name(rng, "he", False, talk.held_out)
            if all(who.name != stranger for who in story.cast):
                asked = fill(
                    rng,
                    f"[Who is {stranger}|Who was {stranger}|What did {stranger} do|Where did"
                    f" {stranger} live|What was {stranger} like]?",
                    {},
                )
                talk.turn(
                    _careless(rng, asked), f"There is no {stranger} in the story.", "no " + stranger
                )
        roll = rng.random()
        if roll < 0.05:
            question, what = rng.choice(UNTOLD)
            what = fill(rng, what, story.slots)
            question = fill(rng, question, story.slots)
            talk.turn(
                _careless(rng, question),
                rng.choice(
                    (f"The story does not say {what}.", f"The story does not tell us {what}.")
                ),
                "does not",
            )


def _follow_up(talk, story, rng):
    roll = rng.random()
    if roll < 0.2:
        talk.turn(
            _careless(
                rng,
                fill(
                    rng,
                    "[What happened next|And then|What happened then|What happened afterwards|Then"
                    " what|Go on, what came after that]?",
                    {},
                ),
            ),
            story.epilogue,
        )
    elif roll < 0.35:
        talk.turn(
            _careless(
                rng,
                fill(
                    rng,
                    "[What is the moral of the story|What is the lesson|What can we learn from"
                    " it|What do we learn from the story|What is the moral]?",
                    {},
                ),
            ),
            story.moral,
        )
    elif roll < 0.5:
        talk.turn(
            _careless(
                rng,
                fill(
                    rng,
                    "[Give the story a title|Give it a title|What is the title|What would be a good"
                    " title|Find a title for it].",
                    {},
                ),
            ),
            f'"{story.title}"',
        )
    elif roll < 0.6:
        cast = [f"{who.name} the {who.kind}" for who in story.cast]
        listed = ", ".join(cast[:-1]) + " and " + cast[-1]
        talk.turn(
            _careless(
                rng,
                fill(
                    rng,
                    "[Who are the characters|Who is in the story|Name the characters|List the"
                    " characters].",
                    {},
                ).replace("story.", "story?"),
            ),
            f"The characters are {listed}.",
            listed,
        )
    elif roll < 0.75:
        question, answer = rng.choice(SMALL_TALK[8:9] + SMALL_TALK[14:16])
        talk.turn(_careless(rng, fill(rng, question, {})), fill(rng, answer, {}))


def _told(rng, held_out):
    """The reader asks for a story, then asks about it."""
    talk = Talk(rng, held_out)
    if rng.random() < 0.08:
        question, answer = rng.choice(SMALL_TALK[:3])
        talk.turn(_careless(rng, fill(rng, question, {})), fill(rng, answer, {}))
    words, want = request(rng, held_out)
    story = plots.tell(rng, held_out, want)
    talk.turn(_careless(rng, words), story.body())
    _questions(talk, story, rng)
    if rng.random() < 0.4:
        _follow_up(talk, story, rng)
    if rng.random() < 0.12:
        hero, friend = story.cast[0], story.cast[1]
        if rng.random() < 0.5:
            again = dict(
                kind=hero.kind,
                name=hero.name,
                trait=hero.trait,
                gender=hero.gender,
                friend_kind=friend.kind,
                friend_name=friend.name,
                friend_gender=friend.gender,
            )
            words = fill(
                rng,
                "[Tell me another story about {h}.|Another story about {h}, please.|What else"
                " happened to {h}?]",
                story.slots,
            )
            story = plots.tell(rng, held_out, again)
        else:
            words = fill(
                rng,
                "[Another one!|Another story, please.|Tell me another one.|One more story!|Now a"
                " different story.]",
                {},
            )
            story = plots.tell(rng, held_out)
        talk.turn(_careless(rng, words), story.body())
        _questions(talk, story, rng)
    return talk


def _read(rng, held_out):
    """The reader brings the story."""
    talk = Talk(rng, held_out)
    story = plots.tell(rng, held_out)
    pool = story.questions[:]
    rng.shuffle(pool)
    question, answer, key = pool.pop()
    body = story.body()
    if rng.random() < 0.3:
        body = body.replace("\n\n", " ")
    lead = fill(
        rng,
        "[Read this story:|Here is a story:|Listen:|Read the story and answer the"
        " question.|Story:|] ",
        {},
    ).strip()
    asked = fill(rng, "[|Question: |]", {}) + question
    parts = [lead, body, asked] if rng.random() < 0.8 else [question, body]
    talk.turn("\n\n".join(part for part in parts if part), answer, key)
    story.questions = pool
    _questions(talk, story, rng)
    if rng.random() < 0.3:
        _follow_up(talk, story, rng)
    return talk


def _continue(rng, held_out):
    """The reader begins, the assistant goes on."""
    talk = Talk(rng, held_out)
    story = plots.tell(rng, held_out)
    body = story.body()
    spaces = [i for i, c in enumerate(body) if c == " "]
    cut = spaces[3 + int((len(spaces) - 3) * rng.random() ** 3)]
    if rng.random() < 0.4:
        ends = [i for i in spaces if body[i - 1] in ".!" and "\n" not in body[:i]]
        cut = ends[int(len(ends) * rng.random() ** 2)] if ends else cut
    head, tail = body[:cut], body[cut + 1 :]
    lead = fill(
        rng,
        "[|||Continue this story: |Go on: |Continue: |Finish this story: |How does it go on? ]",
        {},
    )
    talk.turn(lead + head, tail)
    _questions(talk, story, rng)
    return talk


def _world(rng, held_out):
    """The reader states plain facts and asks about them."""
    talk = Talk(rng, held_out)
    story = plots.Story(rng, held_out)
    story.coin = 0.25
    make = rng.choices((facts.small_world, facts.moving, facts.mine), (0.6, 0.25, 0.15))[0]
    text, questions = make(story)
    while not questions:
        story = plots.Story(rng, held_out)
        text, questions = facts.small_world(story)
    rng.shuffle(questions)
    question, answer, key = questions.pop()
    gap = rng.choice((" ", " ", "\n", "\n\n"))
    talk.turn(text + gap + (question if rng.random() < 0.9 else question.lower()), answer, key)
    for question, answer, key in questions[: rng.randint(0, 4)]:
        talk.turn(_careless(rng, question), answer, key)
    return talk


def _chatter(talk, rng, held_out):
    question, answer = rng.choice(SMALL_TALK)
    slots = dict(
        topic=rng.choice(list(W.TOPICS) + ["the " + k for k in list(W.LAND)[:60]]),
        joke=rng.choice(JOKES),
        poem=rng.choice(POEM_LEAD) + "\n\n" + "\n".join(rng.sample(COUPLETS, 2)),
    )
    talk.turn(_careless(rng, fill(rng, question, slots)), fill(rng, answer, slots))


def _introduction(talk, rng, held_out):
    """The reader gives a name, and wants it remembered."""
    name = free_name(rng, rng.choice(("he", "she")), True, held_out)
    hello = fill(rng, "[|Hello! |Hi, |Hello, ][my name is|I am|I'm|call me] ", {}) + name + "."
    hello = hello[0].upper() + hello[1:]
    answer = fill(rng, f"[Hello, {name}!|Nice to meet you, {name}!|Welcome, {name}!] ", {})
    answer += fill(rng, "[Shall I tell you a story?|Would you like to hear a story?]", {})
    talk.turn(hello, answer, name)
    if rng.random() < 0.5:
        talk.turn(_careless(rng, "What is my name?"), f"Your name is {name}.", name)
    if rng.random() < 0.3:
        story = plots.tell(rng, held_out, {"name": name})
        talk.turn(_careless(rng, "Tell me a story about me."), story.body())
        _questions(talk, story, rng)


def _small(rng, held_out):
    talk = Talk(rng, held_out)
    for _ in range(rng.randint(1, 4)):
        roll = rng.random()
        if roll < 0.55:
            _chatter(talk, rng, held_out)
        elif roll < 0.6:
            _introduction(talk, rng, held_out)
        elif roll < 0.92:
            slots = dict(
                country=rng.choice(W.COUNTRIES),
                n=rng.choice(W.NUMBERS),
                m=rng.choice(W.NUMBERS),
                d=str(rng.randint(0, 999)),
                e=str(rng.randint(0, 999)),
                noun=rng.choice(W.THINGS),
                other=rng.choice(W.THINGS),
            )
            talk.turn(
                _careless(rng, fill(rng, rng.choice(OFF_TOPIC), slots)), fill(rng, OFF_ANSWER, {})
            )
        elif not talk.text:
            question = rng.choice(plots.tell(rng, held_out).questions)[0]
            talk.turn(_careless(rng, question), fill(rng, NO_STORY, {}))
    if rng.random() < 0.5:
        words = fill(
            rng,
            "[Yes|Yes please|Yes, please|Sure|OK|Please do|Go on|Okay, tell me one|Yes, tell me"
            " one|Tell me a story then][!|.|]",
            {},
        )
        story = plots.tell(rng, held_out)
        if not talk.text:
            words = "Tell me a story."
        talk.turn(_careless(rng, words), story.body())
        _questions(talk, story, rng)
    return talk


def document(rng, held_out=False):
    """Returns (text, probes). Every document starts with BOS and ends with END."""
    roll = rng.random()
    if roll < 0.16:
        story = plots.tell(rng, held_out)
        title = story.title + "\n\n" if rng.random() < 0.35 else ""
        tail = ""
        if rng.random() < 0.2:
            tail = "\n\n" + story.epilogue
        if rng.random() < 0.25:
            pool = story.questions[:]
            rng.shuffle(pool)
            tail += "\n" + "".join(
                f"\nQuestion: {q}\nAnswer: {a}" for q, a, _ in pool[: rng.randint(2, 6)]
            )
        return f"{BOS}{title}{story.body()}{tail}{END}", []
    if roll < 0.5:
        talk = _told(rng, held_out)
    elif roll < 0.62:
        talk = _read(rng, held_out)
    elif roll < 0.83:
        talk = _world(rng, held_out)
    elif roll < 0.91:
        talk = _continue(rng, held_out)
    else:
        talk = _small(rng, held_out)
    return BOS + talk.text.rstrip("\n"), talk.probes
