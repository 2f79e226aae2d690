# SPDX-License-Identifier: MIT
"""A whole story: a wish (what the reader asked for), an opening, a plot, an ending."""

import plots_friends as friends
import plots_home as home
import plots_night as night
import plots_quest as quest
import plots_table as table
import plots_wonder as wonder
import words as W
from grammar import Story, articles

PLOTS = {
    "lost": quest.lost,
    "delivery": quest.delivery,
    "trade": quest.trade,
    "rescue": quest.rescue,
    "treasure": wonder.treasure,
    "mystery": wonder.mystery,
    "wish": wonder.wish,
    "storm": wonder.storm,
    "build": home.build,
    "learn": home.learn,
    "garden": home.garden,
    "mend": home.mend,
    "quarrel": friends.quarrel,
    "birthday": friends.birthday,
    "fear": friends.fear,
    "contest": friends.contest,
    "neighbour": friends.neighbour,
    "recipe": table.recipe,
    "letter": night.letter,
    "star": night.star,
    "way_home": night.way_home,
    "market": table.market,
    "attic": night.attic,
    "picnic": table.picnic,
}
# These plots always mention the thing, so a story that must honour it uses one of them.
THING_PLOTS = [
    "lost",
    "trade",
    "rescue",
    "treasure",
    "mystery",
    "wish",
    "storm",
    "garden",
    "quarrel",
    "birthday",
    "fear",
    "neighbour",
    "letter",
    "way_home",
    "market",
    "attic",
    "picnic",
]
THEMES = {
    "lost": ["losing something", "looking for something"],
    "delivery": ["a long walk", "keeping a promise"],
    "trade": ["trading", "swapping things"],
    "rescue": ["a rescue", "helping someone", "kindness"],
    "treasure": ["a treasure hunt", "a secret map", "an adventure"],
    "mystery": ["a mystery", "a detective"],
    "wish": ["a wish", "magic"],
    "storm": ["a storm", "sharing"],
    "build": ["building something", "an invention"],
    "learn": ["learning something new", "practice"],
    "garden": ["a garden", "waiting"],
    "mend": ["a broken machine", "mending something"],
    "quarrel": ["a quarrel", "saying sorry", "friendship"],
    "birthday": ["a birthday", "a surprise", "a party"],
    "fear": ["courage", "being brave", "being afraid"],
    "contest": ["a contest", "winning and losing"],
    "neighbour": ["a new neighbour", "a rumour"],
    "recipe": ["cooking", "a recipe", "baking"],
    "letter": ["a letter", "a message in a bottle", "the sea"],
    "star": ["a star", "a fallen star", "the night sky"],
    "way_home": ["getting lost", "a lost child", "finding the way home"],
    "market": ["a market", "being generous", "numbers"],
    "attic": ["a ghost", "a strange noise", "music"],
    "picnic": ["a picnic", "forgetting something", "food"],
}
ENDINGS = [
    (
        "[And so the day ended|And that was that|So it was], and {the_place} was"
        " [quiet|peaceful|happy] once more."
    ),
    "That night {h} fell asleep with a smile.",
    "And if you ever come to {the_place}, [ask for|look for|say hello to] {h} the {h_kind}.",
    (
        "[The moon rose over {the_place}|The stars came out over {the_place}|The lamps were lit in"
        " {the_place}], and all was well."
    ),
    "{h} and {f} still [talk about it|laugh about it|tell the story] today.",
    "And they [lived happily|were the best of friends] ever after.",
    "The end.",
]


def _thing(s, thing=None):
    """Binds {thing} ("brass key") and {noun} ("key")."""
    noun = thing or s.pick(W.THINGS)
    if " " in noun and thing:
        s.slots["thing"], noun = thing, (
            noun.split(" ", 1)[1] if noun.split()[0] in _ADJECTIVES else noun
        )
    else:
        adjective = s.pick(s.pick((W.COLOURS, W.COLOURS, W.MATERIALS, W.SIZES, W.LOOKS)))
        s.slots["thing"] = f"{adjective} {noun}" if s.chance(0.85) else noun
    s.bind(noun=noun, Noun=noun.title())


_ADJECTIVES = set(W.COLOURS + W.MATERIALS + W.SIZES + W.LOOKS)


def place_noun(s):
    if s.chance(0.06):
        return s.pick(W.FAR_PLACES)
    prep, noun = s.pick(W.PLACES)
    return prep, noun, s.pick(W.PLACE_ADJ) if s.chance(0.7) else ""


def place_phrase(place):
    prep, noun, adjective = place
    if adjective == "-":
        return f"{prep} {noun}"
    if adjective == "the":
        return f"{prep} the {noun}"
    return articles(f"{prep} a {adjective} {noun}" if adjective else f"{prep} a {noun}")


def _place(s, place=None):
    """Binds {place_in} ("in a quiet village by the sea") and {the_place} ("the village")."""
    prep, noun, adjective = place = place or place_noun(s)
    full = place_phrase(place)
    if s.chance(0.3) and adjective not in ("the", "-"):
        town = s.pick(W.TOWN_HEAD) + s.pick(W.TOWN_TAIL)
        s.slots["town"] = town
        full += f" called {town}"
    elif s.chance(0.55) and adjective not in ("the", "-"):
        full += " " + s.pick(W.PLACE_TAIL)
    the_place = noun if adjective == "-" else f"the {noun}"
    s.bind(place_in=full, the_place=the_place, the_Place=f"the {noun}".title(), place_noun=noun)
    near = noun in W.COMMUNITIES
    s.bind(
        everyone=s.pick(
            (f"all of the {noun}", f"everyone in the {noun}", "everyone")
            if near and prep != "at" and prep != "on"
            else ("everyone", "all the neighbours", "everyone far and wide")
        ),
        of_place=f"of the {noun}" if near else f"near {the_place}",
    )
    s.bind(Everyone=s.slots["everyone"].capitalize())


def _opening(s):
    s.say(
        s.pick(
            (
                (
                    "[Once upon a time|Long ago|Many years ago|Not so long ago], {place_in}, there"
                    " lived a {h_trait} {h_kind} [named|called] {h}."
                ),
                (
                    "[Once upon a time|Once|Long ago] there was a {h_trait} {h_kind} [named|called]"
                    " {h}, who lived {place_in}."
                ),
                "{h} was a {h_trait} {h_kind} who lived {place_in}.",
                "{Place_in} lived a {h_trait} {h_kind}. {His} name was {h}.",
                (
                    "[Once upon a time|Once|Long ago] there was a {h_trait} {h_kind}"
                    " who lived {place_in}. {His} name was {h}."
                ),
                (
                    "[Once upon a time|Once|Long ago] there was a [little|young|small] {h_kind}"
                    " who lived {place_in}. {His} name was {h}, and {he} was [very |]{h_trait}."
                ),
                "This is the story of {h}, a {h_trait} {h_kind} who lived {place_in}.",
            )
        ),
        Place_in=s.slots["place_in"],
    )
    s.ask(
        "[Where did {h} live|Where does the story take place|Where was {h}'s home]?",
        "{h} lived {place_in}.",
        "{place_noun}",
    )
    s.ask(
        "[Who was {h}|What kind of creature was {h}|What was {h}]?",
        "{h} was a {h_trait} {h_kind}.",
        "{h_kind}",
    )
    s.ask("[What was {h} like|How is {h} described]?", "{h} was {h_trait}.", "{h_trait}")
    s.ask(
        "[Who is the main character|Who is the story about|Who is the hero]?",
        "The story is about {h}, a {h_trait} {h_kind}.",
        "{h}",
    )
    s.ask(
        "[What was the name of the {h_kind}|What was the {h_kind} called]?",
        "The {h_kind} was called {h}.",
        "{h}",
    )
    kinds = [
        k
        for k in ("fox", "bear", "owl", "rabbit", "baker", "robot", "mouse", "cat")
        if k != s.slots["h_kind"]
    ]
    s.check("Was {h} a {v}?", "{h} was a {v}.", "{h} was a {v}.", s.slots["h_kind"], kinds)
    if "town" in s.slots:
        s.ask("What was the {place_noun} called?", "The {place_noun} was called {town}.", "{town}")
    if s.chance(0.5) and s.cast[0].trait in W.TRAIT_LINES:
        s.say(W.TRAIT_LINES[s.cast[0].trait])
    if s.chance(0.5):
        garment = s.pick(W.GARMENTS)
        colour = s.pick(W.COLOURS) if s.chance(0.85) else s.pick(W.STRIPES)
        s.bind(garment=garment, gcolour=colour)
        s.say(
            "{He} [always wore|never left home without|was proud of|was known for] {his} {gcolour}"
            " {garment}[, even in {season}|, which {his} {elder} had made|]."
        )
        s.ask(
            "What did {h} [always wear|wear]?",
            "{h} wore a {gcolour} {garment}.",
            f"{colour} {garment}",
        )
        if colour in W.COLOURS:
            are = "were" if garment.startswith("pair of") else "was"
            piece = garment.replace("pair of ", "")
            s.ask(
                f"What colour {are} {{h}}'s {piece}?", f"{{h}}'s {piece} {are} {{gcolour}}.", colour
            )
            s.check(
                f"{are.capitalize()} {{h}}'s {piece} {{v}}?",
                f"{'they were' if are == 'were' else 'it was'} {{v}}.",
                f"{'they were' if are == 'were' else 'it was'} {{v}}.",
                colour,
                W.PLAIN_COLOURS,
            )
    if s.chance(0.35):
        habit = s.pick(W.HABITS)
        s.say(
            "[Every {dp}|Each {dp}|On most days] {he} [liked to|would|loved to] {habit}.",
            habit=habit,
            dp=s.pick(W.DAYPARTS),
        )
        s.ask("What did {h} like to do?", "{h} liked to {x}.".replace("{x}", habit), habit)
    s.say(
        "{His} best friend was {f}, a {f_trait} {f_kind}[ with {feature}| from next door| who loved"
        " {ffood}| who lived {fspot}||].",
        feature=W.FEATURES.get(
            s.cast[1].hand, "[a loud laugh|a warm smile|a crooked hat|a squeaky voice|a big heart]"
        ),
        ffood=s.pick(W.FOODS),
        fspot=" ".join(s.pick(W.SPOTS)),
    )
    s.ask(
        "[Who was {h}'s best friend|Who was {h}'s friend]?",
        "{h}'s best friend was {f}, a {f_trait} {f_kind}.",
        "{f}",
    )
    s.ask(
        "[Who was {f}|What kind of creature was {f}|What was {f}]?",
        "{f} was a {f_trait} {f_kind}.",
        "{f_kind}",
    )


def _day(s, plot):
    """States weather and time of day, in the opening sentence of the plot or before it."""
    dry = ["sunny", "bright", "windy", "hot"]
    weather = s.choose("weather", dry if plot == "picnic" else W.WEATHER)
    part = "evening" if plot == "star" else s.pick(W.DAYPARTS)
    season = s.choose("season", W.WEATHER_SEASONS.get(weather, W.SEASONS))
    s.bind(season=season)
    if s.chance(0.4) and plot != "fear":
        s.say(
            s.pick(
                (
                    f"[It was|Then came] a {weather} {season} {part}.",
                    f"It was a {weather} {part} in {season}.",
                    f"It all began on a {weather} {season} {part}.",
                )
            )
        )
        s.maybe(0.6, W.WEATHER[weather])
        s.bind(one_day=s.pick(("That day", f"That {part}", "On that day")))
    else:
        s.bind(
            one_day=s.pick(
                (
                    f"One {weather} {part}",
                    f"One {weather} {season} {part}",
                    f"On a {weather} {part}",
                    f"On a {weather} {part} in {season}",
                )
            )
        )
    s.ask("What was the weather like?", f"It was a {weather} {part}.", weather)
    s.ask(
        "[What time of day was it|When did it happen]?", f"It happened on a {weather} {part}.", part
    )


def tell(rng, held_out=False, want=None):
    """Returns a finished Story. `want` may fix: plot, kind, name, trait, gender, friend_kind,
    friend_name, friend_gender, thing, place,
    and what the plots choose: build, skill, crop, fear, contest, machine, fruit."""
    want = want or {}
    s = Story(rng, held_out)
    s.want = want
    plots = THING_PLOTS if want.get("thing") else list(PLOTS)
    plot = want.get("plot") or s.pick(plots)
    s.plot = plot
    for key in ("name", "friend_name"):
        if want.get(key):
            s.used_names.add(want[key])
    if want.get("friend_kind"):
        s.used_kinds.add(want["friend_kind"])
    hero = s.who("h", want.get("kind"), want.get("name"), want.get("trait"), want.get("gender"))
    # A friend of the other pronoun more often: fewer sentences in which "she" could be either.
    gender = {"he": "she", "she": "he"}[hero.gender] if s.chance(0.5) else None
    kind = want.get("friend_kind") or s.kind()
    s.who(
        "f",
        kind,
        want.get("friend_name"),
        None,
        want.get("friend_gender") or W.GENDERED.get(kind) or gender,
    )
    _place(s, want.get("place"))
    _thing(s, want.get("thing"))
    s.bind(
        season=s.pick(W.SEASONS),
        elder_of=hero.his + " teacher",
        food=s.pick(W.FOODS),
        jam=s.pick(W.JAMS),
        elder=s.pick(
            ["grandmother", "grandfather", "mother", "father", "aunt", "uncle", "old teacher"]
        ),
    )
    _opening(s)
    s.para(0.8)
    _day(s, plot)
    PLOTS[plot](s)
    ending = s.pick(ENDINGS)
    s.maybe(0.6, ending)
    for key in ("title", "summary", "moral", "epilogue"):
        setattr(s, key, s.text(getattr(s, key)))
    s.ask(
        "[What is the story about?|What happens in the story?|Sum up the story.|Tell me the story"
        " in one sentence.]",
        s.summary,
        "{h}",
    )
    return s
