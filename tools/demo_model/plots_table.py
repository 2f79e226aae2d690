# SPDX-License-Identifier: MIT
"""Plots round a table: a recipe, a market, a picnic."""

import words as W
from grammar import spots


def recipe(s):
    """Three ingredients from three places, one of them missing."""
    i1, i2, i3 = s.several(W.INGREDIENTS, 3)
    a = s.who("a")
    b = s.who("b")
    where = spots(s, 1)
    s.bind(
        i1=i1,
        i2=i2,
        i3=i3,
        guest=s.pick(
            [
                "the queen",
                "the mayor",
                "a famous cook",
                "an old aunt",
                "a famous painter",
                "the king",
                "a hungry giant",
                "the new teacher",
                "a tired traveller",
            ]
        ),
    )
    s.title = s.text(
        "[The Best {Food}|{h} Bakes for {Guest}|Three Things for the Pot]",
        Food=s.slots["food"].title(),
        Guest=s.slots["guest"].title(),
    )
    s.say(
        '{one_day}, {h} heard that {guest} would come to visit. "[I shall make|I will make]'
        ' {food}!" {he} [cried|said|decided]. "For that I need {i1}, {i2} and {i3}."'
    )
    s.ask("Who [would come|was coming] to visit?", "It was {guest}.", "{guest}")
    s.ask("What did {h} [make|want to make|cook]?", "{h} made {food}.", "{food}")
    s.ask(
        "[What did {h} need|Which things did {h} need|What were the three things]?",
        "{h} needed {i1}, {i2} and {i3}.",
        "{i1}, {i2} and {i3}",
    )
    s.para()
    s.say(
        "[First|To begin with] {he} went to {a} the {a_kind}, who [gave|lent|sold] {him} the {i1}."
        ' "[Save me a piece|Keep me a bite|I want to taste it]," said {a}.'
    )
    s.ask(
        "[Who had the {i1}|Where did {h} get the {i1}|Who gave {h} the {i1}]?",
        "{a}, the {a_kind}, gave {h} the {i1}.",
        "{a}",
    )
    s.say(
        "[Then|Next] {he} called on {b} the {b_kind}, who had [plenty of|more than enough] {i2}."
        ' "[Take as much as you like|It is yours|Only if I may stir]," said {b}.'
    )
    s.ask(
        "[Who had the {i2}|Where did {h} get the {i2}|Who gave {h} the {i2}]?",
        "{b}, the {b_kind}, gave {h} the {i2}.",
        "{b}",
    )
    s.check(
        "Did {v} give {h} the {i1}?",
        "{v} gave {h} the {i1}.",
        "{v} gave {h} the {i1}.",
        a.name,
        [b.name, s.slots["f"]],
    )
    s.say(
        "But [nobody had|nowhere could {he} find] any {i3}. {h} [searched every shop|asked at every"
        " door|nearly gave up]."
    )
    s.ask(
        "What was hard to find?",
        "The {i3} was hard to find." if not i3.endswith("s") else "The {i3} were hard to find.",
        "{i3}",
    )
    s.para()
    s.say(
        '"[Come with me|I know a place|Follow me]," said {f}, and there, {spot1}, [was all the {i3}'
        " they could wish for|they found what they needed|{f} had hidden some {i3} for a rainy"
        " day]."
    )
    s.ask(
        (
            "Where [did they find the {i3}|was the {i3}]?"
            if not i3.endswith("s")
            else "Where [did they find|were] the {i3}?"
        ),
        "They found the {i3} {spot1}.",
        where[0],
    )
    s.ask("Who [helped|knew where to find the {i3}]?", "{f} did.", "{f}")
    s.say(
        "Soon the [kitchen|house|whole street] smelled of {food}. When {guest} [arrived|sat"
        " down|knocked], there was just enough for everyone: for {a}, for {b}, for {f} and for {h}."
    )
    s.say('"[What is your secret|May I have some more|Who taught you to cook]?" asked the visitor.')
    s.say(
        '"[Good friends|A little help from everyone|My neighbours know the answer]," said {h}[ and'
        " winked|, and passed the plate|]."
    )
    s.moral = "[Many hands make a good meal.|The best dish is made by many.]"
    s.summary = (
        "{h} made {food} for {guest}, with {i1} from {a}, {i2} from {b} and {i3} that {f} knew"
        " where to find."
    )
    s.epilogue = (
        "The visitor wrote the recipe down. Under {i1}, {i2} and {i3} stood one more line, in big"
        ' letters: "[And friends|Share it at once]."'
    )


def market(s):
    """Selling and giving; counting what is left."""
    fruit = s.pick([f for f in W.FRUITS if f not in ("mushrooms",)])
    a, b = s.who("a"), s.who("b")
    first, second = s.rng.randint(2, 6), s.rng.randint(2, 5)
    left = s.rng.randint(2, 6)
    number = W.NUMBERS
    total = first + second + left
    s.bind(
        fruit=fruit,
        total=number[total],
        first=number[first],
        second=number[second],
        left=number[left],
        mid=number[total - first],
    )
    s.title = s.text(
        "[A Day at the Market|{h} Goes to Market|{Total} {Fruit}]",
        Total=number[total].title(),
        Fruit=fruit.title(),
    )
    s.say(
        "{one_day}, {h} [went to market|carried a basket to market|set up a little table] with"
        ' {total} {fruit}. "[When I have sold them, I can buy|I want to sell them and buy] a'
        ' {thing}," {he} told {f}.'
    )
    s.ask(
        "How many {fruit} did {h} [have|take to market|have at first]?",
        "{h} had {total} {fruit} at first.",
        "{total}",
    )
    s.ask("What did {h} want to buy?", "{h} wanted to buy a {thing}.", "{thing}")
    s.ask("What did {h} sell?", "{h} sold {fruit}.", fruit)
    s.para()
    s.say(
        "[First|Early] came {a} the {a_kind} and bought {first} of them. [That left {mid}.|Now"
        " there were {mid}.|{Mid} were left.]",
        Mid=number[total - first],
    )
    s.ask("How many {fruit} did {a} buy?", "{a} bought {first} {fruit}.", "{first}")
    s.ask(
        "How many {fruit} were left after {a} [had bought some|came]?",
        "There were {mid} left.",
        "{mid}",
    )
    s.say(
        "Then came {b}, a {b_kind} [with an empty purse|who had no money|with holes in every"
        " pocket]. {b} [looked at the {fruit} for a long time|only wanted to look|was too proud to"
        " ask]."
    )
    s.say(
        '"[Take these|These are for you|I have more than I need]," said {h}, and gave {b} {second}'
        " {fruit} for nothing. [Only {left} were left.|That left {left}.]"
    )
    s.ask("How many {fruit} did {h} give {b}?", "{h} gave {b} {second} {fruit}.", "{second}")
    s.ask(
        "How many {fruit} were left [in the end|at the end]?",
        "In the end there were {left} left.",
        "{left}",
    )
    s.ask(
        "[Who had no money|Who got {fruit} for nothing]?", "{b}, the {b_kind}, had no money.", "{b}"
    )
    s.para()
    s.say(
        "In the evening {h} [counted the coins|emptied the purse|counted twice]. It was not enough"
        " for the {noun}. [{He} shrugged.|{He} sighed a little.] Then {b} came back, [with"
        " something under one arm|smiling|out of breath]."
    )
    s.say(
        '"[I have no money, but I can make things|I made this for you|This is my thanks]," said'
        " {b}. It was a {thing}!"
    )
    s.ask(
        "[How did {h} get the {noun}|Who made the {noun}]?", "{b} made the {noun} for {h}.", "{b}"
    )
    s.check(
        "Did {v} make the {noun}?", "{v} made it.", "{v} made it.", b.name, [a.name, s.slots["f"]]
    )
    s.say(
        "{h} and {f} [ate the last {fruit} together|shared what was left|sat on the empty table]"
        " and [watched the sun go down|laughed about the day|agreed that it had been a good day]."
    )
    s.moral = "[What you give comes back.|Generosity is the best trade.]"
    s.summary = (
        "{h} took {total} {fruit} to market, sold {first}, gave {second} to {b}, and got a {thing}"
        " as thanks."
    )
    s.epilogue = (
        'The next week {b} stood beside {h} at the market. Their sign said: "[Good fruit and good'
        ' company|Pay what you can]."'
    )


def picnic(s):
    """Each brings something; one thing is forgotten; the day is saved all the same."""
    c = s.who("c")
    i1, i2 = s.several([f for f in W.FOODS if f != s.slots["food"]], 2)
    forgotten = s.pick(
        [
            "the spoons",
            "the cups",
            "the blanket",
            "the basket",
            "the plates",
            "the knife",
            "the lemonade",
            "the salt",
        ]
    )
    where = spots(s, 1)
    cure = {
        "spoons": "used big shells instead",
        "cups": "drank from folded leaves",
        "blanket": "sat on a heap of soft leaves",
        "basket": "ate under a tree that was full of ripe plums",
        "plates": "ate from flat stones",
        "knife": "broke everything by hand",
        "lemonade": "drank cold water from the spring",
        "salt": "put wild herbs on everything",
    }[forgotten[4:]]
    s.bind(i1=i1, i2=i2, forgotten=forgotten, cure=cure)
    s.title = s.text(
        "[The Picnic|The Picnic Without {X}|{h} Forgets Something]", X=forgotten[4:].title()
    )
    s.say(
        "{one_day}, {h}, {f} and {c} the {c_kind} went on a picnic. {f} brought {i1}, {c} brought"
        " {i2}, and {h} [had promised|was supposed] to bring {food} and {forgotten}."
    )
    s.ask("What did {f} bring?", "{f} brought {i1}.", i1)
    s.ask("What did {c} bring?", "{c} brought {i2}.", i2)
    s.ask(
        "Who [went on the picnic|was at the picnic]?",
        "{h}, {f} and {c} went on the picnic.",
        "{f} and {c}",
    )
    s.check(
        "Did {v} bring the {i1}?".replace("the {i1}", i1),
        "{v} brought {i1}.",
        "{v} brought {i1}.",
        s.slots["f"],
        [c.name, s.slots["h"]],
    )
    s.say(
        "They found a [lovely|sunny|quiet] place {spot1} and [unpacked|sat down|opened their bags]."
    )
    s.ask("Where [did they have the picnic|was the picnic]?", "The picnic was {spot1}.", where[0])
    s.para()
    s.say(
        '"[Oh no|Oh dear|Good heavens]," said {h}, and turned [red|pale|pink]. "I have forgotten'
        ' {forgotten}!" Instead {he} had packed {his} {thing}[, and nobody knew why|, of all'
        " things|]."
    )
    s.ask("What did {h} forget?", "{h} forgot {forgotten}.", forgotten)
    s.ask("What did {h} bring [instead|by mistake]?", "{h} brought {his} {thing}.", "{thing}")
    s.say(
        '[For a moment nobody spoke.|{h} wanted to run home.] Then {c} began to laugh. "[It does'
        ' not matter|We will manage]!" {c_he} said.'
    )
    s.ask("Who laughed?", "{c} laughed.", "{c}")
    s.para()
    s.say(
        "So they {cure}. [Everything tasted better than at home.|It was even more fun.|Nobody had"
        " ever had such a picnic.]"
    )
    s.ask("[What did they do without {forgotten}|How did they manage]?", "They {cure}.", cure)
    s.say(
        "And the {noun} was not useless: [they played with it all {part}|it kept the wasps away|{f}"
        " used it to scare off a crow].",
        part=s.pick(["afternoon", "day"]),
    )
    s.say(
        '"[Next time I will forget it again|Let us always forget something|That was the best picnic'
        ' ever]," said {h} on the way home.'
    )
    s.moral = "[A mistake can be the start of the fun.|Laugh, and think of something else.]"
    s.summary = "{h}, {f} and {c} went on a picnic; {h} forgot {forgotten}, so they {cure}."
    s.epilogue = (
        "Before the next picnic {f} wrote a list. {h} read it carefully, packed everything, and"
        " left the list and the whole basket at home."
    )
