# SPDX-License-Identifier: MIT
"""Plots of wonder: a treasure, a mystery, a wish, a storm."""

import words as W
from grammar import spots


def treasure(s):
    """Three clues lead to a treasure that is not gold alone."""
    where = spots(s, 4)
    find = s.pick(W.TREASURES)
    s.bind(find=find)
    s.title = s.text("[The Secret Map|{h} and the Three Clues|The Treasure of {the_Place}]")
    s.say(
        "{one_day}, {h} [found|discovered|saw] [an old map|a rolled-up map|half a map] tucked under"
        ' a {thing}. [In one corner|At the bottom] someone had written: "Begin {spot1}."'
    )
    s.ask(
        "[Where was the map|Where did {h} find the map]?",
        "{h} found the map tucked under a {thing}.",
        "{thing}",
    )
    s.ask(
        "Where did the map [say to begin|tell {h} to begin]?",
        "The map said to begin {spot1}.",
        where[0],
    )
    s.say(
        '"[A treasure map|A secret|An adventure]!" [whispered|cried|said] {h}. {He} [ran to'
        " fetch|called|woke] {f}, and [off they went|they set out together|the two of them left"
        " before lunch]."
    )
    s.ask("Who went with {h}?", "{f}, the {f_kind}, went with {h}.", "{f}")
    s.para()
    s.say(
        '{Spot1} they found a [note|stone with letters on it|painted arrow]. It said: "Now look'
        ' {spot2}."',
        Spot1=where[0],
    )
    s.say(
        '{Spot2} a [second note|small flag|piece of blue paper] was waiting. "You are close," it'
        ' said. "The last step is {spot3}."',
        Spot2=where[1],
    )
    s.ask("Where was the second clue?", "The second clue was {spot2}.", where[1])
    s.maybe(
        0.6,
        '"[What if it is only a joke|My feet hurt|I hope it is not a trick]," [said|sighed] {f},'
        " but {h} [kept going|only laughed|took {f_him} by the arm].",
    )
    s.para()
    s.say(
        "They [dug|searched|looked] {spot3} until {h} [shouted|stopped|gasped]. There it was:"
        " {find}!"
    )
    s.ask(
        "[What was the treasure|What did they find in the end]?", "The treasure was {find}.", find
    )
    s.ask("Where was the treasure?", "The treasure was {spot3}.", where[2])
    s.check(
        "Was the treasure {v}?",
        "the treasure was {v}.",
        "the treasure was {v}.",
        where[2],
        [where[1], where[3]],
    )
    s.say(
        '"[It is better than gold|I never dreamed of this|It is perfect]," said {f}, and {h}'
        " [agreed|nodded|could only smile]."
    )
    s.say(
        "They [told {everyone}|shared it with {everyone}|kept it as their secret], and [drew a new "
        "map for the next finder|hid the map again for someone else|celebrated with {food}]."
    )
    s.moral = "[The best treasure is one you can share.|An adventure is better with a friend.]"
    s.summary = "{h} and {f} followed a map from one clue to the next and found {find} {spot3}."
    s.epilogue = (
        "That night {h} could not sleep. {He} drew a small map of {his} own, hid it {spot4}, and"
        " wondered who would find it one day."
    )


def mystery(s):
    """Something vanishes night after night; tracks lead to a culprit with a good reason."""
    where = spots(s, 2)
    fruit = s.choose("fruit", W.FRUITS)
    colour = s.pick(W.PLAIN_COLOURS)
    c = s.who("c")
    clue = s.pick(
        [
            "crumbs",
            "footprints",
            "feathers",
            "threads",
            "hairs",
            "petals",
            "drops of paint",
            "paper scraps",
        ]
    )
    reason = s.pick(
        [
            "was feeding three hungry babies",
            "wanted to bake a surprise cake",
            "had nothing else to eat",
            "was too shy to ask",
            "was making soup for a sick neighbour",
            "thought that nobody wanted them",
        ]
    )
    n = s.number(3, 12)
    s.bind(fruit=fruit, colour=colour, clue=clue, reason=reason, n=n)
    s.title = s.text(
        "[The Mystery of the Missing {Fruit}|Who Took the {Fruit}?|Detective {h}]",
        Fruit=fruit.title(),
    )
    s.say(
        '{one_day}, {f} came to {h} with [a worried face|a long face|bad news]. "Someone has taken'
        ' my {fruit}," {f_he} said. "Last night there were {n} of them. Now there are none!"'
    )
    s.ask("What was [missing|stolen|taken]?", "The {fruit} were missing.", fruit)
    s.ask("How many {fruit} [were there|did {f} have|were missing]?", "There were {n} {fruit}.", n)
    s.ask("Who [had lost|lost] the {fruit}?", "{f} had lost the {fruit}.", "{f}")
    s.say(
        '"[I will find out who did it|Leave it to me|A mystery! Let me think]," said {h}, and [took'
        " out {his} {thing}|picked up {his} {thing}|put {his} {thing} under one arm]."
    )
    s.ask("What did {h} take [along|with {him}]?", "{h} took {his} {thing}.", "{thing}")
    s.para()
    s.say(
        "{h} looked [carefully|everywhere|at the ground]. There were {colour} {clue} [on the"
        " floor|by the door|on the grass]! {He} followed them [step by step|one by one|slowly]"
        " until they stopped {spot1}."
    )
    s.ask(
        "What [clue|clues] did {h} find?",
        "{h} found {colour} {clue}.",
        "{colour} {clue}".format(colour=colour, clue=clue),
    )
    s.ask("What colour were the {clue}?", "The {clue} were {colour}.", colour)
    s.ask("Where did the {clue} [lead|stop|end]?", "The {clue} led to a place {spot1}.", where[0])
    s.say(
        "[There|And there] sat {c}, a {c_trait} {c_kind}, with [the last of the {fruit}|a bag of"
        " {fruit}|all the {fruit}]."
    )
    s.ask("Who [took|had taken] the {fruit}?", "{c}, the {c_kind}, had taken the {fruit}.", "{c}")
    s.para()
    s.say('"[Please do not be angry|I am so sorry|I can explain]," said {c}. {c_He} {reason}.')
    s.ask("Why did {c} take the {fruit}?", "{c} took the {fruit} because {c_he} {reason}.", reason)
    s.say(
        '{h} [thought about it|was quiet for a moment|smiled at {c_him}]. "[Next time, just ask|You'
        ' only had to ask|Let us go and tell {f} together]," {he} said [kindly|gently|softly].'
    )
    s.check(
        "Did {v} take the {fruit}?",
        "{v} took the {fruit}.",
        "{v} took the {fruit}.",
        c.name,
        [s.slots["f"]],
    )
    s.say(
        "{f} [forgave {c} at once|was not angry for long|listened and nodded], and the next day the"
        " three of them [ate {food}|picked new {fruit}|planted more {fruit}] together."
    )
    s.moral = "[Ask before you take.|Listen to the reason before you are angry.]"
    s.summary = "{h} followed {colour} {clue} and found out that {c} had taken the {fruit} of {f}."
    s.epilogue = (
        "After that {f} left one basket of {fruit} at the door every evening, with a note for {c}."
        ' It said: "[For you|Help yourself]."'
    )


def wish(s):
    """A magic creature grants one wish; the hero spends it on somebody else."""
    magic = s.pick(
        [
            "golden fish",
            "talking star",
            "silver frog",
            "tiny genie",
            "white stag",
            "blue butterfly",
            "moonbeam",
            "little wind",
            "glass bird",
            "wishing stone",
            "green fairy",
            "old tree",
        ]
    )
    where = spots(s, 1)
    s.bind(
        magic=magic,
        need=(
            need := s.pick(
                [
                    "could not walk without pain",
                    "had lost {f_his} voice",
                    "had no home",
                    "could not fall asleep",
                    "missed {f_his} family",
                    "was always cold",
                    "had lost all {f_his} colours",
                    "could not see the stars",
                ]
            )
        ),
    )
    result = {
        "walk": "could run and jump again",
        "voice": "could sing again",
        "home": "had a small warm house",
        "asleep": "slept like a stone",
        "family": "saw {f_his} family coming up the road",
        "cold": "was warm from nose to toe",
        "colours": "shone like a rainbow",
        "stars": "could see every star",
    }
    after = next(v for k, v in result.items() if k in need)
    s.bind(after=after)
    s.title = s.text("{h} and the {Magic}", Magic=magic.title())
    s.say(
        "{one_day}, {h} found a {magic} {spot1}. It was caught under a {thing}, and {h} [lifted it"
        " away|set it free|helped at once]."
    )
    s.ask("What did {h} find {spot1}?", "{h} found a {magic} {spot1}.", magic)
    s.ask("Where did {h} [find|meet] the {magic}?", "{h} found the {magic} {spot1}.", where[0])
    s.say(
        '"[Thank you|You are kind], {h}," said the {magic}. "I can give you one wish. [Choose'
        ' well|Only one|Think carefully]!"'
    )
    s.ask("How many wishes did {h} [get|have]?", "{h} had one wish.", "one")
    s.para()
    s.say(
        "{h} thought of [a mountain of {food}|{food} for every day|a house full of {food}]. {He}"
        " thought of [a golden bed|a flying coat|a castle]. Then {he} thought of {f}, who {need}."
    )
    s.ask("[What was wrong with {f}|What was {f}'s trouble]?", "{f} {need}.", "{need}")
    s.say(
        '"I wish [something good for|that all may be well with] {f}," said {h}. "[That is'
        ' all|Nothing for me|That is my wish]."'
    )
    s.ask("Who did {h} [make the wish|wish] for?", "{h} made the wish for {f}.", "{f}")
    s.ask("Why did {h} [use the wish on|help] {f}?", "Because {f} {need}.", "{need}")
    s.say(
        "The {magic} [smiled|glowed|laughed], and [there was a flash of light|a warm wind blew|the"
        " air began to ring]."
    )
    s.para()
    s.say(
        'When {h} came home, {f} {after}! "[How did it happen|It is a wonder|Look at me, {h}]!"'
        " cried {f}."
    )
    s.ask("What happened to {f} [in the end|after the wish]?", "{f} {after}.", "{after}")
    s.check(
        "Did {h} make the wish for {v}?",
        "{he} made it for {v}.",
        "{he} made it for {v}.",
        s.slots["f"],
        ["the " + s.slots["magic"], s.slots["elder_of"]],
    )
    s.say(
        "{h} [only smiled|said nothing|winked at the sky]. [Nothing {he} could have wished for"
        " would have felt better|It was the best wish in the world|{He} had never been so happy]."
    )
    s.moral = "The best wish is one for somebody else."
    s.summary = "{h} freed a {magic} and gave {his} only wish away to help {f}."
    s.epilogue = (
        "Sometimes, at night, {h} still goes there to look for the {magic}. It has never come back,"
        " but the air [smells of honey|hums a little|is always warm]."
    )


def storm(s):
    """A storm comes; those who have no shelter are taken in."""
    guests = s.several([k for k in W.LAND if k not in s.used_kinds], 3)
    n = s.number(4, 12)
    s.bind(
        g1=guests[0],
        g2=guests[1],
        g3=guests[2],
        n=n,
        where=(
            w := s.pick(
                [
                    "a dry cave",
                    "an old barn",
                    "a hollow tree",
                    "the mill",
                    "a tall lighthouse",
                    "the cellar",
                    "an empty ship",
                ]
            )
        ),
    )
    s.title = s.text("[The Night of the Storm|{h} and the Great Storm|Room for One More]")
    s.say(
        "{one_day}, the sky [turned black|grew dark|turned as dark as ink]. The wind"
        " [howled|roared|shook the trees], and [rain began to pour|the first lightning"
        " flashed|thunder rolled over {the_place}]."
    )
    s.say(
        "{h} [ran|hurried] to {where} and [shut the door|made a small fire|lit a candle]. [It was"
        " warm and dry inside.|{He} was safe there.]"
    )
    s.ask(
        "Where did {h} [hide|go|stay] during the storm?",
        "{h} stayed in {w}.".replace("{w}", w),
        w.split(" ", 1)[1],
    )
    s.para()
    s.say(
        '[Soon|Before long] there was a knock. It was a wet {g1}. "[May I come in|Is there room for'
        ' me|Is there a dry corner here]?" asked the {g1}.'
    )
    s.say(
        '"[Of course|Come in, come in]," said {h}. Then came a {g2}, [shivering|dripping|with muddy'
        " feet], and after the {g2} came a {g3}."
    )
    s.ask("Who came first?", "The {g1} came first.", guests[0])
    s.ask("[Who came last|Who came after the {g2}]?", "The {g3} came after the {g2}.", guests[2])
    s.ask(
        "[Which animals came to {h}|Who came to the door|Who came in from the storm]?",
        "A {g1}, a {g2} and a {g3} came in.",
        guests[1],
    )
    s.check(
        "Did a {v} come [in|to the door]?",
        "a {v} came in.",
        "but a {v} did.",
        guests[1],
        [
            k
            for k in ("lobster", "camel", "penguin", "ostrich")
            if k not in guests + [s.slots["h_kind"]]
        ],
    )
    s.say(
        "[There was not much to eat.|{h} had only a little food.] But {he} cut {his} {food} into"
        " four parts, and [everyone had some|nobody stayed hungry|it tasted better than ever]."
    )
    s.ask("What did {h} share?", "{h} shared {his} {food}.", "{food}")
    s.para()
    s.say(
        "To pass the time, {h} [showed them|took out|let them hold] {his} {thing}, and they told"
        " stories for {n} hours, until the storm [was over|grew tired|moved away]."
    )
    s.ask("How [long|many hours] did they tell stories?", "They told stories for {n} hours.", n)
    s.ask("What did {h} show the animals?", "{h} showed them {his} {thing}.", "{thing}")
    s.say(
        "In the morning [a rainbow stood over {the_place}|the sun came out|the whole world"
        ' sparkled]. {f} came running: "[Are you all right, {h}|Were you alone all night|{h}, did'
        ' you sleep at all]?"'
    )
    s.say(
        '"[I was not alone for a minute|I have three new friends|It was the best night of the'
        ' year]," said {h}.'
    )
    s.ask("Who came in the morning?", "{f} came in the morning.", "{f}")
    s.moral = "There is always room for one more."
    s.summary = (
        "During a storm {h} took in a {g1}, a {g2} and a {g3} and shared {his} {food} with them."
    )
    s.epilogue = (
        "Every year, on the day of the storm, the {g1}, the {g2} and the {g3} come back to visit"
        " {h}. They bring {food}, and they never need a storm to stay the night."
    )
