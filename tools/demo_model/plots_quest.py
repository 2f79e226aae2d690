# SPDX-License-Identifier: MIT
"""Plots of going out: losing, delivering, trading, rescuing."""

import words as W
from grammar import spots


def lost(s):
    """Something dear is lost; two places are empty; a friend remembers; it is found."""
    where = spots(s, 4)
    s.title = s.text("{h} and the [Lost|Missing] {Noun}")
    s.say(
        "{one_day}, {h} [woke up and looked for {his} {thing}, but|wanted to use {his} {thing},"
        " but|reached for {his} {thing}, but] [it|the {noun}] was [gone|missing|nowhere to be"
        " seen]."
    )
    s.say(
        '"[Oh no|Oh dear|This is terrible]! [Where is my {noun}?|Who has seen my {noun}?|My {noun}'
        ' is gone!]" [cried|said|wailed] {h}.'
    )
    s.ask(
        "[Why was {h} sad|Why was {h} upset|What was wrong with {h}]?",
        "{h} was [sad|upset] because {he} had lost {his} {thing}.",
        "{noun}",
    )
    s.ask(
        "[What did {h} lose|What was missing|What was {h} looking for]?",
        "{h} [had lost|was looking for] {his} {thing}.",
        "{thing}",
    )
    s.maybe(
        0.5,
        "It had been a [gift|present] from {his} {elder}, and {h} [loved it more than"
        " anything|would not have swapped it for a mountain of gold|kept it close every night].",
    )
    s.para(0.7)
    s.say(
        "[First|At first] {he} looked {spot1}, but there was [only a {jam}|nothing but a"
        " {jam}|nothing there except a {jam}].",
        jam=(jam := s.pick(W.JAMS)),
    )
    s.ask(
        "[What did {h} find {spot1}|What was {spot1}]?",
        "[There was only a {k}|{h} found only a {k}] {spot1}.".replace("{k}", jam),
        jam,
    )
    s.ask("Where did {h} look first?", "{h} looked {spot1} first.", where[0])
    s.say(
        "[Then|Next|After that] {he} [looked|searched|peeked] {spot2}, but [the {noun} was not"
        " there either|that place was empty too|{he} found nothing at all]."
    )
    s.maybe(
        0.4,
        "[{He} asked a {stranger}, but the {stranger} only shook its head.|{h} began to lose hope."
        "|A {stranger} wished {him} good luck.]",
        stranger=s.kind("animal"),
    )
    s.para(0.8)
    s.say(
        "{h} [sat down and sighed|felt a tear roll down|was about to give up]. [Just then|At that"
        " moment] {f} came [along the path|running|by with a smile]."
    )
    s.say(
        '"[Do not worry|Do not cry|Cheer up], {h}," said {f}. "[Where did you have it last|When did'
        ' you last see it|Think hard. Where were you yesterday]?"'
    )
    s.say(
        '{h} [thought and thought|closed both eyes and thought|remembered]. "I [was playing|had a'
        ' rest|stopped to tie a knot|ate my lunch] {spot3}," {he} said [slowly|at last].'
    )
    s.ask("Who helped {h} [find|look for] the {noun}?", "{f}, the {f_kind}, helped {h}.", "{f}")
    s.say(
        "[They|The two friends|Together they] hurried there, and [sure enough|there it was|to their"
        " joy]: the {thing} was lying {spot3}[, safe and sound|, a little dusty but whole| in a"
        " patch of light|]."
    )
    s.ask(
        "Where [was the {noun}|did they find the {noun}|did {h} find the {noun}]?",
        "[The {noun} was|They found the {noun}] {spot3}.",
        where[2],
    )
    s.check(
        "[Did they find the {noun} {v}|Was the {noun} {v}]?",
        "they found it {v}.",
        "they found it {v}.",
        where[2],
        [where[1], where[3]],
    )
    s.para(0.7)
    s.say(
        '[{h} hugged {f}|{h} danced for joy|{h} laughed out loud]. "[Thank you|You are the best'
        ' friend in the world|What would I do without you]!" {he} said.'
    )
    s.say(
        "[From that day on|After that|Ever since], {h} [kept the {noun} in a safe place|never left"
        " the {noun} behind again|tied a ribbon to the {noun}][ and always remembered who had"
        " helped|]."
    )
    s.moral = (
        "[A good friend helps you look.|When you have lost something, think calmly about where you"
        " had it last.]"
    )
    s.summary = "{h} the {h_kind} lost {his} {thing}, and {f} helped {him} find it {spot3}."
    s.epilogue = (
        "The next day {h} [invited {f} to tea|baked a cake for {f}]. They put the {noun} in the"
        " middle of the table and [laughed about the search|told the story again and again]."
    )


def delivery(s):
    """A parcel must reach someone; something blocks the way."""
    gift = s.pick(W.GIFTS)
    t = s.who("t")
    obstacle = s.pick(list(W.OBSTACLES))
    way = s.fragment(W.OBSTACLES[obstacle])
    far = s.pick(
        [
            "on the other side of the hill",
            "beyond the river",
            "at the end of the valley",
            "across the meadow",
            "in the next village",
            "at the top of the mountain",
            "on the far shore",
            "behind the forest",
        ]
    )
    s.bind(
        gift=gift,
        far=far,
        why=s.pick(
            [
                "was ill in bed",
                "had a birthday",
                "felt lonely",
                "was waiting for it",
                "had hurt a foot",
                "was about to leave on a long journey",
            ]
        ),
    )
    s.title = s.text(
        "[The {Gift}|{h} and the {Gift}|A {Gift} for {t}]",
        Gift=gift.title().replace(" Of ", " of "),
    )
    s.say(
        "{one_day}, {f} [came to the door|knocked three times|arrived out of breath] with a {gift}."
    )
    s.say(
        '"This is for {t}, the {t_kind} who lives {far}," {f} said. "{t} {why}. [Will you take it'
        ' there|Can you carry it|Could you bring it today]?"'
    )
    s.say(
        '"[Of course|I will|You can count on me]," [said|answered] {h}, and {he} [set off at'
        " once|packed {his} bag|put the {gift} into a basket and left]."
    )
    s.ask(
        "[What did {h} carry|What did {f} bring|What was the gift]?",
        "[It was a {gift}|{h} carried a {gift}].",
        gift,
    )
    s.ask(
        "[Who was the {gift} for|Who was waiting for the {gift}]?",
        "The {gift} was for {t}, the {t_kind}.",
        "{t}",
    )
    s.ask("Where did {t} live?", "{t} lived {far}.", far)
    s.ask("Why [did {t} need a visitor|was the {gift} sent to {t}]?", "Because {t} {why}.", "{why}")
    s.para()
    s.say(
        "[At first the road was easy.|The road was long.|{h} sang as {he} went.|For an hour all"
        " went well.] [But then|But soon|Halfway there], {obstacle}.",
        obstacle=obstacle,
    )
    s.ask(
        "[What problem did {h} meet on the way|What stopped {h} on the road|What went wrong on the"
        " way]?",
        "On the way {obstacle}.".replace("{obstacle}", obstacle),
        obstacle,
    )
    s.say(
        '"[There must be a way|I promised, and I will not turn back|Think, {h}, think]," {he} said'
        " to {self}."
    )
    s.say(
        "So {h} {way}[, holding the {gift} tightly|, and did not drop the {gift}|, and soon the"
        " worst was over|].",
        way=way,
    )
    s.ask(
        "How did {h} [get past|solve the problem|go on]?", "{h} {way}.".replace("{way}", way), way
    )
    s.para()
    s.say(
        "[At last|When the sun was low|Tired but proud], {h} reached the house of {t} [and"
        " knocked|and rang the bell|and called out]."
    )
    s.say(
        "{t} opened the {gift_verb} and [began to smile|clapped for joy|could hardly speak]. "
        '"[How kind of you|You came all this way|This is just what I needed]!" {t_he} said.',
        gift_verb="door, saw the {gift},",
    )
    s.say(
        "[They had {food} together|{t} gave {h} a plate of {food}|They shared {food} by the fire],"
        " and {h} [slept well that night|walked home under the stars|was home before midnight]."
    )
    s.ask("What did [they eat|{t} and {h} eat]?", "They [ate|had] {food}.", "{food}")
    s.check("Was the {gift} for {v}?", "it was for {v}.", "it was for {v}.", t.name, [s.slots["f"]])
    s.moral = "A promise is worth [a long walk|a little trouble]."
    s.summary = "{h} the {h_kind} carried a {gift} to {t}, although {o}.".replace("{o}", obstacle)
    s.epilogue = (
        'A week later a letter came from {t}. It said: "[The {gift} was wonderful. Come again'
        ' soon|I am well again, and I think of you]." {h} read it to {f} twice.'
    )


def trade(s):
    """A chain of swaps that ends at the thing wanted."""
    first, second = s.several(W.THINGS[:60], 2)
    noun = s.slots["noun"]
    while noun in (first, second):
        first, second = s.several(W.THINGS[:60], 2)
    s.who("a")
    s.who("b")
    s.bind(x=first, y=second)
    s.title = s.text("[The Three Swaps|How {h} Got a {Noun}|{h} Goes Trading]")
    s.say(
        "{one_day}, {h} saw a {thing} [in a shop window|at the market|in the hands of {b}, the"
        " {b_kind}]. {He} wanted it [very much|more than anything|so badly that {he} could not"
        " sleep]."
    )
    s.ask("What did {h} want?", "{h} wanted [a|the] {thing}.", "{thing}")
    s.say(
        'It belonged to {b}[ the {b_kind}|]. "[You may have it|I will give it to you]," said {b},'
        ' "if you bring me a {y}."'
    )
    s.ask("What did {b} want?", "{b} wanted a {y}.", second)
    s.say(
        "[But {h} had no {y}.|{h} did not own a {y}.] {He} had only [an old|a little|a plain] {x}."
    )
    s.ask("What did {h} have at the [start|beginning]?", "{h} had only a {x}.", first)
    s.para()
    s.say(
        "So {h} went to {a} the {a_kind}, who had [more than one {y}|a {y} to spare|a {y} on the"
        " shelf]."
    )
    s.say(
        '"[Would you swap your {y} for my {x}|Will you give me the {y} for this {x}]?" asked {h}.'
    )
    s.say(
        '"[A {x}! I have needed one for years|Gladly! I lost my own {x} last {season}|Yes! A {x} is'
        ' just what I need]," said {a}, and they [shook {hand2}|swapped|made the trade].',
        hand2=(
            s.slots["hand"] if s.slots["hand"] in ("hands", "paws", "wings", "hooves") else "hands"
        ),
    )
    s.ask("Who [needed|wanted|got] the {x}?", "{a}, the {a_kind}, got the {x}.", "{a}")
    s.ask(
        "[How did {h} get the {y}|What did {h} give {a}]?",
        "{h} gave {a} the {x} and got the {y}.",
        first,
    )
    s.para()
    s.say(
        "[Then|Quickly|With a light heart] {h} [ran|hurried|went] back to {b} with the {y}. "
        '"[Here it is|I have brought it|Look what I have]!" {he} called.'
    )
    s.say(
        "{b} [laughed|smiled|nodded] and [took the {y}|was as good as {b_his} word], and [at"
        " last|so] the {thing} belonged to {h}."
    )
    s.ask(
        "[How did {h} get the {noun}|What did {h} give {b} for the {noun}]?",
        "{h} gave {b} the {y} and got the {noun}.",
        second,
    )
    s.check(
        "Did {v} get the {y}?", "{v} got the {y}.", "{v} got the {y}.", s.slots["b"], [s.slots["a"]]
    )
    s.say(
        "[Everyone was happy|All three were content]: {a} had the {x}, {b} had the {y}, and {h} had"
        " the {thing}."
    )
    s.ask(
        "Who [has|had|got] the {noun} [in the end|at the end]?",
        "In the end {h} had the {noun}.",
        "{h}",
    )
    s.moral = (
        "[What is useless to one may be a treasure to another.|A fair swap makes everyone happy.]"
    )
    s.summary = "{h} the {h_kind} swapped a {x} for a {y} and the {y} for a {thing}."
    s.epilogue = (
        "A year later {h} [lent|gave] the {noun} to {f}, who [needed it more|had never had one]."
        ' "That was the best swap of all," said {h}.'
    )


def rescue(s):
    """A small creature is in trouble; a tool frees it; it gives thanks."""
    creature, trouble = s.pick(W.STUCK)
    while creature in s.used_kinds:
        creature, trouble = s.pick(W.STUCK)
    s.used_kinds.add(creature)
    tool = s.pick(list(W.TOOLS))
    where = spots(s, 2)
    s.bind(creature=creature, trouble=trouble, tool=tool, how=W.TOOLS[tool], noise=s.pick(W.NOISES))
    s.title = s.text("{h} and the Little {Creature}", Creature=creature.title())
    s.say("{one_day}, {h} was [walking|playing|resting|on {his} way home] when {he} heard {noise}.")
    s.ask("What did {h} hear?", "{h} heard {noise}.", "{noise}")
    s.say(
        "[It came from somewhere close. There, {spot1},|{He} followed the sound. There, {spot1},|It"
        " came from close by. And there, {spot1},] was a [little|young|small] {creature}:"
        " {trouble}."
    )
    s.say('"[Please help me!|Help!|Can anyone hear me?]" [cried|squeaked|called] the {creature}.')
    s.ask("[Who needed help|Who was in trouble]?", "A little {creature} needed help.", creature)
    s.ask(
        "[Where was the {creature}|Where did {h} find the {creature}]?",
        "The {creature} was {spot1}.",
        where[0],
    )
    s.ask(
        "[What was wrong with the {creature}|Why did the {creature} need help]?",
        "The {creature} needed help because {trouble}.",
        trouble,
    )
    s.para()
    s.say(
        '"[Do not be afraid|Stay calm|Hold on], [little one|little {creature}|I am here]," said'
        ' {h}. "[I will be right back|I have an idea|I know what to do]."'
    )
    s.say("{He} ran to {f}, who [had|owned|kept] a {tool}.")
    s.ask(
        "[What did {f} have|What did they use|Which tool helped them]?",
        "[{f} had|They used] a {tool}.",
        tool,
    )
    s.say(
        "[Together|Side by side] {h} and {f} took the {tool} and {how}[, very gently|, little by"
        " little|], until [at last|finally] the {creature} was free."
    )
    s.ask("How did they [free|help|save] the {creature}?", "They took a {tool} and {how}.", tool)
    s.ask("Who helped {h}?", "{f}, the {f_kind}, helped {h}.", "{f}")
    s.para(0.7)
    s.say(
        '"[Thank you|You saved me|I will never forget this]!" said the {creature}. "[Take this'
        ' {thing}|Please keep this {thing}|I found this {thing} long ago. It is yours now]."'
    )
    s.ask("What did the {creature} give {h}?", "The {creature} gave {h} a {thing}.", "{thing}")
    s.check(
        "Was the {creature} {v}?",
        "the {creature} was {v}.",
        "the {creature} was {v}.",
        where[0],
        [where[1]],
    )
    s.say(
        "[From then on|Every {season} after that|To this day], the {creature} [came to visit|waved"
        " from far away|sat by {h}'s window], and {h} [was never lonely|smiled every time|kept the"
        " {noun} on a shelf]."
    )
    s.moral = "[No one is too small to be helped.|Kindness comes back to you.]"
    s.summary = (
        "{h} the {h_kind} heard {noise}, found a little {creature} {spot1} and freed it with a"
        " {tool}."
    )
    s.epilogue = (
        "When the {season} came again, the {creature} brought its whole family to meet {h}. There"
        " were [five|six|seven] of them, and every one of them [wanted to hear the story|said thank"
        " you]."
    )
