# SPDX-License-Identifier: MIT
"""Plots of friends: a quarrel, a birthday, a fear, a contest, a new neighbour."""

import words as W
from grammar import spots


def quarrel(s):
    """Two friends quarrel over a thing, miss each other and make up."""
    where = spots(s, 2)
    n = s.number(2, 9)
    s.bind(n=n)
    s.title = s.text("[The Quarrel|{h} and {f}|One {Noun} for Two]")
    s.say(
        '{one_day}, {h} and {f} found a {thing} {spot1}. "[I saw it first|It is mine]!"'
        ' [said|cried] {h}. "[No, I did|No, it is mine]!" [said|shouted] {f}.'
    )
    s.ask(
        "What did {h} and {f} [find|quarrel about|argue about]?", "They found a {thing}.", "{thing}"
    )
    s.ask("Where did they find the {noun}?", "They found the {noun} {spot1}.", where[0])
    s.ask(
        "[Why were {h} and {f} angry|Why did {h} and {f} quarrel]?",
        "They both wanted the {thing}.",
        "{noun}",
    )
    s.say(
        "They [pulled|tugged] and [shouted|argued] until [the birds flew away|both were red in the"
        " face|{f} stamped a foot]. Then {f} [went home|walked away|ran off] without [a"
        " word|looking back|saying goodbye]."
    )
    s.ask("Who [went home|went away|left]?", "{f} went away.", "{f}")
    s.para()
    s.say(
        "Now {h} had the {noun}. But [playing alone was no fun|it was very quiet|there was nobody"
        " to show it to]. For {n} days {he} [sat by the window|ate {his} {food} alone|hardly"
        " smiled]."
    )
    s.ask(
        "How [many days was {h} alone|long was {h} alone|many days were they apart]?",
        "They were apart for {n} days.",
        n,
    )
    s.say(
        "{f} was [sad|unhappy|lonely] too. {f_He} [missed their games|missed {h}|wrote a letter and"
        " tore it up]."
    )
    s.ask("How did {f} feel?", "{f} was sad and missed {h}.", "sad")
    s.para()
    s.say(
        "[On the next morning|At last|One evening] {h} [took a deep breath|picked up the {noun}|put"
        ' on {his} coat] and went to {f}\'s door. "I am sorry," {he} said. "[You are more important'
        ' than any {noun}|Let us share it|It is yours, if you want it]."'
    )
    s.ask("Who said sorry first?", "{h} said sorry first.", "{h}")
    s.check(
        "Did {v} say sorry first?",
        "{v} said sorry first.",
        "{v} said sorry first.",
        s.slots["h"],
        [s.slots["f"]],
    )
    s.say(
        '"I am sorry too," said {f}. "[I was coming to see you|Without you it is boring|Let us have'
        ' it one day each]."'
    )
    s.say(
        "They [made {food} together|laughed until they cried|sat side by side], and [the {noun} lay"
        " forgotten in the grass|the {noun} belonged to both of them from then on|each had the"
        " {noun} every second day]."
    )
    s.moral = "[A friend is worth more than a thing.|It takes courage to say sorry.]"
    s.summary = "{h} and {f} quarrelled over a {thing}, missed each other and made up."
    s.epilogue = (
        "A month later they found a second {noun}, just like the first. They looked at each other,"
        " laughed, and gave it to [a child who had none|the first person they met]."
    )


def birthday(s):
    """Everyone seems to have forgotten; it is a surprise."""
    n = s.number(5, 12)
    c = s.who("c")
    where = spots(s, 2)
    colour = s.pick(W.PLAIN_COLOURS)
    s.bind(n=n, colour=colour, age=s.number(5, 20))
    s.title = s.text("[The Forgotten Birthday|A Surprise for {h}|{h}'s Birthday]")
    s.say(
        "{one_day}, {h} woke up [with a smile|early|and jumped out of bed]: it was {his} birthday!"
        " {He} was {age} years old."
    )
    s.ask(
        "[Why was {h} happy in the morning|What day was it]?", "It was {h}'s birthday.", "birthday"
    )
    s.ask("How old was {h}?", "{h} was {age} years old.", "{age}")
    s.say(
        'But when {he} met {f}, {f} only said, "[I am busy, I have no time|I have no time today|I'
        ' have no time]," and [hurried away|ran off|was gone].'
    )
    s.ask(
        "What did {f} say [when {h} met {f_him}|in the morning]?",
        "{f} said that {f_he} had no time.",
        "no time",
    )
    s.say("{c} the {c_kind} [did not even look up|walked past with a big bag|said only hello].")
    s.say(
        '"[They have all forgotten|Nobody remembers]," thought {h}, and {his} heart [was'
        " heavy|sank]. {He} [sat alone|went and sat] {spot1}."
    )
    s.ask(
        "Why was {h} sad?", "{h} thought that everyone had forgotten {his} birthday.", "forgotten"
    )
    s.ask("Where did {h} sit?", "{h} sat {spot1}.", where[0])
    s.para()
    s.say(
        "[When the sun went down|In the evening|At six o'clock], {h} [went home|walked slowly"
        " home|opened {his} door]. It was dark inside. [Then|Suddenly] {n} candles [were"
        ' lit|shone]. "Surprise!" [cried|shouted] everyone.'
    )
    s.ask("How many candles were there?", "There were {n} candles.", n)
    s.say(
        "There was {f}, there was {c}, and there was a table full of {food}. {colour}"
        " [ribbons|lanterns|balloons] hung from [the ceiling|every chair|wall to wall]."
    )
    s.ask(
        "[What was on the table|What was there to eat]?", "The table was full of {food}.", "{food}"
    )
    s.ask("What colour were the decorations?", "The decorations were {colour}.", colour)
    s.say(
        '{f} gave {h} a {thing}. "[I was busy making it|I worked on it all day|That is why I had no'
        ' time]," {f_he} said.'
    )
    s.ask("What did {f} give {h}?", "{f} gave {h} a {thing}.", "{thing}")
    s.ask("[Who gave {h} the {noun}|Who is the {noun} from]?", "{f} gave {h} the {noun}.", "{f}")
    s.check(
        "Did {v} give {h} the {noun}?",
        "{v} gave {h} the {noun}.",
        "{v} gave {h} the {noun}.",
        s.slots["f"],
        [c.name],
    )
    s.say(
        "{h} [laughed and cried at the same time|hugged them all|could not stop smiling]. [It was"
        ' the best birthday of all.|"I thought you had forgotten," {he} said. "Never," said {c}.]'
    )
    s.moral = "[True friends do not forget.|Wait before you think badly of your friends.]"
    s.summary = (
        "{h} thought that everyone had forgotten {his} birthday, but {f} and {c} had planned a"
        " surprise."
    )
    s.epilogue = (
        "Before {he} fell asleep, {h} wrote down the birthdays of {f} and {c}. Next to each one"
        " {he} drew a small {colour} candle."
    )


def fear(s):
    """Courage is found because somebody needs it."""
    fear_of = s.choose("fear", W.FEARS)
    where = spots(s, 2)
    s.bind(fear=fear_of, scene=W.FEARS[fear_of])
    s.title = s.text(
        "[Brave {h}|{h} Finds Courage|The {Kind} Who Was Afraid]", Kind=s.slots["h_kind"].title()
    )
    s.say(
        "There was one thing that nobody knew about {h}: {he} was afraid of {fear}. [{He} never"
        " told anyone.|{He} always found an excuse.|Even thinking of it made {him} shiver.]"
    )
    s.ask("What was {h} afraid of?", "{h} was afraid of {fear}.", fear_of)
    s.say(
        "{one_day}, {f} did not come home. [{Everyone} searched.|Everyone called {f_his} name.] {h}"
        " found {f_his} {thing} on the path[, and after that only footprints|, but no trace of"
        " {f}|]."
    )
    s.ask("[Who was missing|Who did not come home]?", "{f} did not come home.", "{f}")
    s.ask("What did {h} find on the path?", "{h} found the {thing} of {f}.", "{thing}")
    s.para()
    s.say(
        '[From far away|Then, very faintly|Somewhere ahead] came a voice: "Help! I am {spot1}!" {h}'
        " [stopped|froze]. To get there {he} would have to be brave, for {scene}."
    )
    s.ask("Where was {f}?", "{f} was {spot1}.", where[0])
    s.say(
        "{His} knees [shook|knocked together]. {His} heart [beat like a drum|jumped into {his}"
        ' throat]. "[But {f} needs me|A friend is waiting|I can be afraid and still go]," {he}'
        " thought."
    )
    s.ask("Why did {h} go [on|there] although {he} was afraid?", "Because {f} needed {him}.", "{f}")
    s.say(
        "{He} [took one step, and then another|closed {his} eyes for a second and went on|sang a"
        " little song and walked on]."
    )
    s.para()
    s.say(
        '{h} found {f} {spot1}, [cold|tired|frightened] but [safe|not hurt|well]. "[You came|I knew'
        ' it would be you|I was so afraid]!" said {f}. "[So was I|I was afraid too|Me too]," said'
        " {h}, and they both laughed."
    )
    s.ask("How did {h} feel?", "{h} was afraid, but {he} went on.", "afraid")
    s.say(
        "They went home [together|side by side|through the quiet evening] and ate {food}[ by the"
        " fire|]. And the strange thing was this: {h} was [not so afraid of {fear} any more|never"
        " quite so afraid of {fear} again]."
    )
    s.ask("What did they eat [at home|afterwards]?", "They ate {food}.", "{food}")
    s.check(
        "Was {h} afraid of {v}?",
        "{he} was afraid of {v}.",
        "{he} was afraid of {v}.",
        fear_of,
        list(W.FEARS),
    )
    s.moral = (
        "[You can be afraid and brave at the same time.|Courage is going on although you are"
        " afraid.]"
    )
    s.summary = "{h} was afraid of {fear}, but {he} went on and found {f} {spot1}."
    s.epilogue = (
        'Sometimes others ask {h} what courage is. "It is being afraid," {he} says, "and going'
        ' anyway, because somebody needs you."'
    )


def contest(s):
    """A contest in which someone stops to help a rival."""
    what = s.choose("contest", W.CONTESTS)
    prize = s.pick(W.PRIZES)
    r = s.who("r", trait=s.pick(["proud", "boastful", "loud", "vain"]))
    n = s.number(5, 20)
    s.bind(
        what=what,
        do=W.CONTESTS[what],
        prize=prize,
        n=n,
        mishap=s.pick(
            [
                "tripped and fell",
                "lost a wheel",
                "dropped everything",
                "got a foot caught",
                "slipped in a puddle",
                "bumped into a post",
                "ran out of strength",
            ]
        ),
    )
    s.title = s.text("[The Great {What}|{h} and the {What}|{h} Against {r}]", What=what.title())
    s.say(
        "{one_day}, it was time for the great {what} {of_place}. The prize was a {prize}, and {n}"
        " contestants had come to [try|take part|win it]."
    )
    s.ask("What was the prize?", "The prize was a {prize}.", prize)
    s.ask(
        "How many [took part|contestants were there|came to take part]?",
        "There were {n} contestants.",
        n,
    )
    s.ask("What kind of contest was it?", "It was a {what}.", what)
    s.say(
        '"[Nobody can beat me|I always win|The {prize} is already mine]," said {r}, a {r_trait}'
        " {r_kind}. {h} [said nothing|only smiled|held {his} lucky {noun} tightly]."
    )
    s.ask("Who [boasted|said that nobody else could win]?", "{r}, the {r_kind}, boasted.", "{r}")
    s.para()
    s.say(
        "The [bell rang|whistle blew|flag dropped], and they began. [{h} was fast, but {r} was"
        " faster.|Soon {h} and {r} were ahead of all the others.|{r} was in front, and {h} was"
        " close behind.] [Then|Suddenly] {r} {mishap}."
    )
    s.ask("What happened to {r}?", "{r} {mishap}.", "{mishap}")
    s.say(
        "{h} could have [gone on|won easily]. But {he} [stopped|turned around] and [helped {r}"
        " up|held out {his} {thing} to {r}|asked if {r_he} was hurt]."
    )
    s.ask("Why did {h} stop?", "{h} stopped to help {r}.", "help")
    s.say(
        '"[Why did you stop|Why do you help me]?" asked {r}. "[Because you needed help|Winning is'
        ' not everything|A prize is only a prize]," said {h}.'
    )
    w = s.who("w")
    s.say(
        "[Meanwhile|While they were talking] {w}, a small {w_kind}, [passed them both|went quietly"
        " past them|came first] and won the {prize}."
    )
    s.ask("Who won [the {what}|the {prize}|in the end]?", "{w}, the {w_kind}, won.", "{w}")
    s.check("Did {v} win?", "{v} won.", "{v} won.", w.name, [r.name, s.slots["h"]])
    s.para()
    s.say(
        "[{h} and {r} came in last, arm in arm|{h} and {r} finished together, laughing], and [the"
        " crowd cheered louder for them than for the winner|{f} cheered until {f_he} was hoarse|{f}"
        " ran to hug them]."
    )
    s.say(
        'That evening {r} brought {h} some {food}. "[You are the real winner|I will never boast'
        ' again|Let us be friends]," {r_he} said.'
    )
    s.ask("What did {r} bring {h}?", "{r} brought {h} some {food}.", "{food}")
    s.moral = "[Kindness is worth more than a prize.|Helping is better than winning.]"
    s.summary = "In a {what} {h} stopped to help {r}, and {w} won the {prize}."
    s.epilogue = (
        "The next year {h} and {r} took part as a team. They did not win then either, but they"
        " laughed the whole way, and {w} saved them the best seats."
    )


def neighbour(s):
    """A rumour, a visit, a friend."""
    nb = s.who("nb")
    rumour = s.pick(
        [
            "eats stones for breakfast",
            "never sleeps",
            "hates music",
            "has a hundred teeth",
            "throws shoes at visitors",
            "turns people into teapots",
            "hides from the sun",
            "speaks only to crows",
        ]
    )
    truth = s.pick(
        [
            "painted tiny pictures",
            "was writing a long letter home",
            "was baking for a whole orchestra",
            "took care of a sick bird",
            "built toys for children",
            "was learning to play the flute",
            "grew rare flowers",
            "was very shy",
        ]
    )
    colour = s.pick(W.PLAIN_COLOURS)
    s.bind(rumour=rumour, truth=truth, colour=colour)
    s.title = s.text(
        "[The New Neighbour|The House with the {Colour} Door|{h} and the New {Kind}]",
        Colour=colour.title(),
        Kind=nb.kind.title(),
    )
    s.say(
        "{one_day}, someone new moved into the house with the {colour} door. It was a {nb_kind}"
        " called {nb}."
    )
    s.ask(
        "Who [moved in|was the new neighbour]?", "The new neighbour was {nb}, a {nb_kind}.", "{nb}"
    )
    s.ask("What colour was the door?", "The door was {colour}.", colour)
    s.say(
        '"[Stay away from there|Be careful|Have you heard]," [whispered|said] {f}. "They say that'
        ' {nb} {rumour}!"'
    )
    s.ask("What did people say about {nb}?", "They said that {nb} {rumour}.", rumour)
    s.ask("Who told {h} [the rumour|about the rumour]?", "{f} told {h} the rumour.", "{f}")
    s.say(
        "{h} [was frightened|felt a shiver|did not know what to think]. But {he} [was curious,"
        " too|did not like rumours|wanted to see for {self}]."
    )
    s.para()
    s.say(
        "So {h} took some {food} and [knocked at the {colour} door|walked up the path]. [It opened"
        " slowly.|There were steps. The door creaked.] There stood {nb}, with a {thing} in one"
        " hand."
    )
    s.ask("What did {h} [bring|take along|take to {nb}]?", "{h} took some {food}.", "{food}")
    s.ask("What was {nb} holding?", "{nb} was holding a {thing}.", "{thing}")
    s.say(
        '"[A visitor|You are the first one to visit me|Nobody has knocked here before]!" said {nb},'
        ' and [smiled|blushed|nearly dropped the {noun}]. "Come in!"'
    )
    s.say("[Inside, {h} saw the truth|And then {h} learned the truth]: {nb} {truth}. That was all!")
    s.ask("What was the truth about {nb}?", "{nb} {truth}.", truth)
    s.check("Was it true that {nb} {v}?", "{nb} {v}.", "{nb} {v}.", truth, [rumour])
    s.para()
    s.say(
        "They [talked|laughed|sat together] until [midnight|the stars came out|the candle burned"
        ' down]. When {h} came home, {f} asked, "Is it true that {nb} {rumour}?"'
    )
    s.say(
        '"[No|Not at all]," said {h}. "{nb} is [kind|the nicest {nb_kind} I know|just like us].'
        ' [Come with me tomorrow and see|You should visit {nb_him} too]."'
    )
    s.say("And the next day [the two of them|{everyone}] knocked at the {colour} door.")
    s.moral = "[Do not believe every rumour.|See for yourself before you judge.]"
    s.summary = "People said that {nb} {rumour}, but {h} visited and found out that {nb} {truth}."
    s.epilogue = (
        "Soon the {colour} door was never closed. {nb} put a bench in front of it, and every"
        " evening somebody sat there with {h} and {f}."
    )
