# SPDX-License-Identifier: MIT
"""Plots of the night and the sea: a letter, a star, the way home, a noise."""

import words as W
from grammar import spots


def letter(s):
    """A message in a bottle; an answer; a meeting."""
    where = spots(s, 1)
    w = s.who("w")
    n = s.number(3, 20)
    s.bind(
        n=n,
        far=s.pick(
            [
                "a small island",
                "a lonely lighthouse",
                "a ship without sails",
                "a tower in the sea",
                "a village in the ice",
                "a hut on the far shore",
                "a boat in the fog",
                "a house on a rock",
            ]
        ),
        plea=s.pick(
            [
                "I have nobody to talk to",
                "I would like to have a friend",
                "Please tell me a joke",
                "I wonder if anybody is out there",
                "Nobody has ever written to me",
            ]
        ),
    )
    s.title = s.text("[The Letter in the Bottle|{h} Writes a Letter|A Letter from Far Away]")
    s.say(
        "{one_day}, {h} found a bottle {spot1}. [Inside there was a letter.|There was a piece of"
        ' paper in it.] It said: "{plea}." And below: "{w}, {far}."'
    )
    s.ask("What did {h} find?", "{h} found a bottle with a letter in it.", "letter")
    s.ask("Where did {h} find the bottle?", "{h} found the bottle {spot1}.", where[0])
    s.ask("[Who wrote the letter|Who was the letter from]?", "{w} wrote the letter.", "{w}")
    s.ask("[Where did {w} live|Where was {w}]?", "{w} lived far away, at {far}.", "{far}")
    s.ask("What did the letter say?", 'The letter said: "{plea}."', "{plea}")
    s.say(
        '{h} [read it twice|read it three times|could not stop thinking of it]. "[Poor {w}|Somebody'
        ' must answer|I will write back]!" {he} said.'
    )
    s.para()
    s.say(
        "So {he} [took {his} best pen|sat down at the table|sharpened a pencil] and wrote about"
        " {the_place}, about {f}, and about {his} {thing}. {f} [drew a picture|added a joke|wrote a"
        " line too] at the bottom."
    )
    s.ask(
        "What did {h} write about?",
        "{h} wrote about {the_place}, {f} and {his} {thing}.",
        "{thing}",
    )
    s.say(
        "They put it in the same bottle and [threw it into the water|let the tide take it|gave it"
        " to the waves]. Then they waited for {n} days."
    )
    s.ask("How [many days did they wait|long did they wait]?", "They waited for {n} days.", n)
    s.para()
    s.say(
        "[On the last day|One morning] there was no bottle, but a [little boat|raft|rowing boat]."
        " In it sat {w}, a {w_trait} {w_kind}, [waving|smiling|with the letter in one hand]."
    )
    s.ask("What kind of creature was {w}?", "{w} was a {w_trait} {w_kind}.", "{w_kind}")
    s.say(
        '"[I had to see it for myself|Nobody ever answered me before|You wrote to me, so I came]!"'
        " said {w}."
    )
    s.check(
        "Did {v} write the letter in the bottle?",
        "{v} wrote it.",
        "{v} wrote it.",
        w.name,
        [s.slots["f"]],
    )
    s.say(
        "The three of them [ate {food} until they could eat no more|talked until the moon was"
        " high|shared {food}], and {w} [stayed all {season}|never went back|came again every year]."
    )
    s.moral = "[A few kind words can travel far.|Answer when somebody calls.]"
    s.summary = (
        "{h} found a letter from {w} in a bottle, wrote back, and after {n} days {w} came to visit."
    )
    s.epilogue = (
        "Now there are always three cups on {h}'s table, and an empty bottle on the windowsill,"
        " just in case."
    )


def star(s):
    """A fallen star is carried home."""
    where = spots(s, 1)
    high = s.pick(
        [
            "the church tower",
            "the highest hill",
            "the old lighthouse",
            "the tallest tree",
            "the mountain top",
            "the windmill",
            "the castle roof",
            "the clock tower",
        ]
    )
    n = s.number(10, 20)
    s.bind(
        high=high,
        n=n,
        worry=s.pick(
            [
                "its light was fading",
                "it was turning grey",
                "it grew colder and colder",
                "it could hardly shine",
            ]
        ),
    )
    s.title = s.text("[The Fallen Star|{h} and the Star|How the Star Came Home]")
    s.say(
        "{one_day}, something bright fell from the sky and landed {spot1}. {h} [ran to look|crept"
        " closer|went to see]. It was a star, no bigger than an apple!"
    )
    s.ask("What [fell from the sky|did {h} find]?", "It was a star.", "star")
    s.ask("Where did the star [fall|land]?", "The star landed {spot1}.", where[0])
    s.ask("How big was the star?", "It was no bigger than an apple.", "apple")
    s.say(
        '"[I slipped|I leaned out too far|I wanted to see the flowers]," said the star in a small'
        ' voice. "[Now I cannot get home|Please take me home|I miss the sky]." And {worry}.'
    )
    s.ask("What was wrong with the star?", "The star had fallen, and {worry}.", "{worry}")
    s.para()
    s.say(
        "{h} wrapped it in {his} {thing} and went to {f}."
        if any(x in s.slots["thing"] for x in ("scarf", "blanket", "cloak", "hat", "flag"))
        else "{h} put it into a basket, next to {his} {thing}, and went to {f}."
    )
    s.ask("Who helped {h}?", "{f}, the {f_kind}, helped {h}.", "{f}")
    s.say(
        '{f} [thought for a while|looked up|counted the clouds]. "[We must go up|From {high} it is'
        ' not far to the sky|Let us try {high}]," {f_he} said. So they climbed {high}, [step by'
        " step|all {n} steps|{n} steps and then some more]."
    )
    s.ask("[What did they climb|Where did they take the star]?", "They climbed {high}.", high)
    s.say(
        "[The wind pulled at them.|It grew dark.|Their legs were tired.] [But neither of them"
        ' turned back.|"Nearly there," said {h}.|{f} sang, and the star hummed along.]'
    )
    s.para()
    s.say(
        'At the top {h} [lifted the star high|held up the star|opened both arms]. "[Go home|Good'
        ' luck|Shine again]!" {he} [whispered|called]. And the star [floated up|rose|flew], [slowly'
        " at first|higher and higher|like a spark], until it [was in its place|found its old"
        " place|shone among the others]."
    )
    s.check(
        "Did they climb {v}?",
        "they climbed {v}.",
        "they climbed {v}.",
        high,
        ["the church tower", "the highest hill", "the tallest tree"],
    )
    s.say(
        "[Since then|Ever since|To this day] there is one star over {the_place} that [winks|shines"
        " a little brighter|blinks twice]. {h} and {f} know [why|its name|what it means]."
    )
    s.moral = "[Nobody is too small to carry a star.|Help others to get home.]"
    s.summary = (
        "{h} found a fallen star {spot1}, and with {f} carried it up {high}, so that it could go"
        " home."
    )
    s.epilogue = (
        "One year later, on the same night, something fell softly on {h}'s windowsill. It was a"
        " pinch of silver dust, and it was warm."
    )


def way_home(s):
    """A lost child looks for its mother; two are asked who do not know, the third does."""
    baby, mother = s.pick(
        [(b, m) for b, m in W.BABIES if m not in s.used_kinds and b not in s.used_kinds]
    )
    s.used_kinds.update((baby, mother))
    x, y = s.several([k for k in W.LAND if k not in s.used_kinds], 2)
    where = spots(s, 3)
    mark = s.pick(
        [
            "a white spot on her nose",
            "a very loud voice",
            "one blue eye",
            "the softest ears",
            "a limp",
            "a scar on her back",
            "a song that she always hums",
            "the kindest eyes",
        ]
    )
    s.bind(baby=baby, mother=mother, x=x, y=y, mark=mark)
    s.title = s.text("[The Lost {Baby}|The Way Home|{h} and the {Baby}]", Baby=baby.title())
    s.say(
        '{one_day}, {h} found a {baby} {spot1}. It was [crying|sobbing|all alone]. "[I have lost my'
        ' mother|I cannot find my mother|I want my mother]," it said.'
    )
    s.ask("[Who was lost|Who did {h} find]?", "{h} found a {baby}.", baby)
    s.ask("Where did {h} find the {baby}?", "{h} found the {baby} {spot1}.", where[0])
    s.ask("Why was the {baby} [crying|sad]?", "The {baby} had lost its mother.", "mother")
    s.say(
        '"[Do not cry|We will find her|I will help you]," said {h}. "[What does she look like?|How'
        ' will we know her?|Tell me about her.]" "She has {mark}," said the {baby}.'
    )
    s.ask(
        "[How would they know the mother|What was special about the mother]?",
        "She had {mark}.",
        mark,
    )
    s.para()
    s.say(
        "[So they set out|Off they went|They walked along], and {f} came, too. First they asked a"
        ' {x}. "[I have seen no one|I have slept all day|No, I am sorry]," said the {x}.'
    )
    s.say(
        "{h} [let the {baby} hold {his} {thing}|gave the {baby} {his} {thing} to play with|showed"
        " it {his} {thing}], and that helped a little."
    )
    s.ask(
        "What did {h} give the {baby} [to hold|to play with]?",
        "{h} gave it {his} {thing}.",
        "{thing}",
    )
    s.say(
        'Then they asked a {y}. "[Yes|Oh yes|Of course]!" said the {y}. "[She went by this'
        ' morning|She is looking everywhere|I saw her not an hour ago]. Look {spot2}."'
    )
    s.ask(
        "Who [knew|had seen the mother|told them where to look]?", "The {y} had seen the mother.", y
    )
    s.ask("Who did they ask first?", "They asked a {x} first.", x)
    s.check(
        "Had the {v} seen the mother?", "the {v} had seen her.", "the {v} had seen her.", y, [x]
    )
    s.para()
    s.say(
        'And there, {spot2}, stood a {mother} with {mark}. "[Mama|Mother|There you are]!"'
        " [cried|shouted] the {baby}, and [ran as fast as it could|jumped into her arms|would not"
        " let go of her]."
    )
    s.ask("Where was the mother?", "The mother was {spot2}.", where[1])
    s.say(
        '"[How can I thank you?|You brought my little one back!|You are good friends!]" said the'
        " {mother}, and she [gave them|baked them|brought them] {food}."
    )
    s.ask("What did the mother give them?", "She gave them {food}.", "{food}")
    s.moral = "[Ask until you find the way.|Nobody should be lost alone.]"
    s.summary = "{h} found a lost {baby} {spot1} and brought it to its mother, who was {spot2}."
    s.epilogue = (
        "The {baby} now visits {h} every week. It always knows the way, for {f} has painted little"
        " arrows on the stones."
    )


def attic(s):
    """A noise in the night turns out to be music."""
    ghost = s.pick([k for k in W.LAND if k not in s.used_kinds])
    s.used_kinds.add(ghost)
    thing = s.pick(
        [
            "a tiny flute",
            "a rusty trumpet",
            "three spoons",
            "an old piano",
            "a toy drum",
            "a row of bottles",
            "a cracked bell",
            "a comb and paper",
            "a broken violin",
            "two pan lids",
        ]
    )
    place = s.pick(
        [
            "in the attic",
            "in the cellar",
            "behind the wall",
            "on the roof",
            "in the old wardrobe",
            "under the floor",
            "in the chimney",
            "in the empty house",
        ]
    )
    s.bind(
        ghost=ghost,
        music=thing,
        up=place,
        sound=s.pick(
            [
                "Plink, plonk",
                "Bing, bong",
                "Toot, toot",
                "Tap, tap, tap",
                "Hoo, hoo",
                "Clink, clank",
            ]
        ),
    )
    s.title = s.text("[The Noise in the Night|{h} and the Ghost|Music at Midnight]")
    s.say(
        "{one_day} had gone by, and {h} lay in bed, when there was a noise {up}. {sound}! [{He}"
        " pulled the blanket over {his} head.|{He} sat up.|{His} heart jumped.]"
        if s.slots["one_day"].startswith("That")
        else (
            "{one_day} {h} could not rest, for there was a noise {up}. {sound}! [{He} hid under the"
            " table.|{He} listened.|{His} heart jumped.]"
        )
    )
    s.ask(
        "[Where did the noise come from|Where was the noise]?",
        "The noise came from somewhere {up}.",
        place,
    )
    s.ask("What did the noise sound like?", "It went: {sound}!", "{sound}")
    s.say(
        '"[A ghost|It must be a ghost|There is a ghost in the house]!" [whispered|said] {h}, and'
        " [ran to wake|called|fetched] {f}. {f} [was not sure|did not believe in ghosts|turned"
        " pale]."
    )
    s.ask("What did {h} think it was?", "{h} thought it was a ghost.", "ghost")
    s.ask("Who did {h} [wake|call|fetch]?", "It was {f}.", "{f}")
    s.para()
    s.say(
        "{h} took {his} {thing}, {f} took a candle, and [on tiptoe|holding their breath|one behind"
        " the other] they went to look. {sound}! [It was louder now.|It came again.|The candle"
        " flickered.]"
    )
    s.ask("What did {h} take along?", "{h} took {his} {thing}.", "{thing}")
    s.ask("What did {f} take along?", "{f} took a candle.", "candle")
    s.say(
        "{h} [counted to three|took a deep breath|closed {his} eyes] and [opened the door|pulled"
        " the curtain|looked]."
    )
    s.para()
    s.say(
        'There was no ghost. There sat a {ghost}, playing on {music}! "[Oh, did I wake you|Am I too'
        ' loud|Can you hear me]?" asked the {ghost}. "[I practise at night|By day I am too shy|I'
        ' have no other place to play]."'
    )
    s.ask(
        "[What was the ghost really|Who made the noise|Who was it really]?",
        "It was a {ghost}, playing on {music}.",
        ghost,
    )
    s.ask("What did the {ghost} play on?", "The {ghost} played on {music}.", thing)
    s.check("Was it really a {v}?", "it was a {v}.", "it was a {v}.", ghost, ["ghost"])
    s.say(
        '{h} [laughed with relief|laughed until {he} cried|had to smile]. "[Play us something|Then'
        ' play by day, with us|It sounds beautiful]!" {he} said, and {f} [began to dance|clapped in'
        " time|hummed along]."
    )
    s.say(
        "[From then on|Since that night] there is music every {part}, with {food} for everyone who"
        " listens.",
        part=(part := s.pick(W.DAYPARTS)),
    )
    s.ask("When is there music now?", "There is music every {x}.".replace("{x}", part), part)
    s.moral = "[Look before you are afraid.|Most ghosts have a good reason.]"
    s.summary = (
        "{h} heard a noise {up} and thought of a ghost, but it was a {ghost}, playing on {music}."
    )
    s.epilogue = (
        "A month later they gave a concert. The {ghost} was so nervous that {h} had to hold its"
        " [tail|music|hat]. But it did not miss a note."
    )
