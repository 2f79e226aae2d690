# SPDX-License-Identifier: MIT
"""Plots of work: building, learning, growing, mending."""

import words as W


def build(s):
    """Something is built from three materials; it breaks; a better idea holds."""
    what = s.choose("build", W.BUILDS)
    m1, m2, m3 = s.several(W.MATERIAL_STUFF, 3)
    n = s.number(3, 14)
    s.bind(
        what=what,
        purpose=W.BUILDS[what],
        m1=m1,
        m2=m2,
        m3=m3,
        n=n,
        broke=s.pick(
            [
                "the wind blew it over",
                "it fell apart",
                "it leaned to one side and collapsed",
                "a corner broke off",
                "it sank into the mud",
                "the middle gave way",
            ]
        ),
    )
    s.title = s.text("[{h} Builds a {What}|The {What}|{h} and the {What}]", What=what.title())
    s.say(
        '{one_day}, {h} had an idea. "I will build a {what}," {he} said, "[so that I can|because I'
        ' want to] {purpose}!"'
    )
    s.ask("What did {h} [want to build|build|make]?", "{h} built a {what}.", what)
    s.ask("Why did {h} [build|want] a {what}?", "{h} wanted to {purpose}.", "{purpose}")
    s.say(
        "{He} [gathered|collected|found] {n} {m1} and some {m2}, and [worked all day|hammered and"
        " tied|measured and sawed][ until dark|]."
    )
    s.ask("How many {m1} did {h} [gather|collect|find|use]?", "{h} used {n} {m1}.", n)
    s.ask("What did {h} use to build the {what}?", "{h} used {m1} and {m2}[ at first|].", m1)
    s.say(
        "[But as soon as it was finished|But that very night|Yet on the first try], {broke}. {h}"
        " [stared at the mess|kicked a stone|wanted to cry]."
    )
    s.ask(
        "[What went wrong|What happened to the first {what}|What happened to the {what}]?",
        "[At first|On the first try] {broke}.",
        "{broke}",
    )
    s.para()
    s.say(
        '{f} [looked at it from all sides|scratched {f_his} head|walked around it twice]. "[It'
        ' needs {m3}|Why not use {m3}|You forgot the {m3}]," {f_he} said.'.replace(
            "Why not use {m3}", "You should use {m3}"
        )
    )
    s.ask(
        "[What did {f} say it needed|What was {f}'s idea|What did {f} tell {h} to use]?",
        "{f}'s idea was to use {m3}.",
        m3,
    )
    s.ask("Who [had the good idea|helped {h}]?", "{f}, the {f_kind}, did.", "{f}")
    s.say(
        '"[Of course|You are right|That is it]!" cried {h}. They [worked|built|laboured] together[,'
        " singing as they went|, side by side| for two more days|], and this time the {what} [stood"
        " firm|was strong|held]."
    )
    s.maybe(
        0.5, "On the very top they fixed {h}'s {thing}[, for luck|, because it looked so fine|]."
    )
    s.para()
    s.say(
        "[At last|Then|When it was done], {h} and {f} could {purpose}. [{Everyone} came to"
        " watch.|Nobody had ever seen such a fine {what}.|It was even better than they had"
        " dreamed.]"
    )
    s.check("Did {h} build a {v}?", "{h} built a {v}.", "{h} built a {v}.", what, list(W.BUILDS))
    s.say(
        '"[Two heads are better than one|We did it together|It is our {what} now]," said {h}, and'
        " [{f} grinned|{f} laughed|they shook on it]."
    )
    s.moral = "[If it breaks, try again in another way.|Two heads are better than one.]"
    s.summary = "{h} built a {what}, but {broke}; then {f} told {him} to use {m3}, and it held."
    s.epilogue = (
        "Soon {everyone} wanted a {what}. {h} and {f} opened a small workshop and painted a sign: "
        '"[We build anything|Broken things welcome]."'
    )


def learn(s):
    """Practice beats failure; a teacher; a performance."""
    skill = s.choose("skill", W.SKILLS)
    show = W.SKILLS[skill]
    s.who("t")
    n = s.number(3, 14)
    s.bind(
        skill=skill,
        show=show,
        n=n,
        fail=s.pick(
            [
                "Everyone looked away",
                "{He} fell flat on {his} face",
                "Nothing went right",
                "{He} made so many mistakes that {he} lost count",
                "A {x} ran away in fright".format(x=s.kind("animal")),
                "It looked more like an accident",
            ]
        ),
    )
    s.title = s.text(
        "[{h} Learns Something New|How {h} Learned to {Skill}|The Patient {Kind}]",
        Skill=skill.title(),
        Kind=s.slots["h_kind"].title(),
    )
    s.say(
        "More than anything, {h} wanted to {skill}. {one_day}, {he} tried for the first time."
        " {fail}."
    )
    s.ask("What did {h} want to [learn|do]?", "{h} wanted to {skill}.", skill)
    s.say(
        '"[I will never learn it|It is too hard|I am no good at this]," [sighed|said|groaned] {h}.'
    )
    s.para()
    s.say(
        "But {t}, [an old|a wise|a friendly] {t_kind}, [had been watching|heard {him}|was sitting"
        ' nearby]. "I could not {skill} at first either," said {t}. "[Practise a little every'
        ' day|Come to me every morning|Start slowly, and do not stop]."'
    )
    s.ask("Who [taught|helped] {h}?", "{t}, the {t_kind}, taught {h}.", "{t}")
    s.ask("What did {t} tell {h}?", "{t} told {h} to practise and not give up.", "practise")
    s.say(
        "So {h} [practised|tried again] every {part} for {n} [days|weeks]. [{f} brought {food} and"
        " cheered.|{f} sat beside {him} and counted.|{f} never laughed at {him}.]",
        part=s.pick(W.DAYPARTS),
    )
    s.say(
        "[The first day was bad.|At first it was hopeless.] [The third was better.|Then it was only"
        " bad.] [One day it worked!|And then, suddenly, {he} could do it!]"
    )
    s.para()
    s.say(
        "[When the day of {show} came|On the day of {show}|At {show}], {h} [stood before"
        " everyone|was as white as chalk|trembled from head to toe]. {He} [took a deep"
        " breath|thought of {t}|held {his} {thing} for luck], and began."
    )
    s.ask("Where did {h} [show what {he} had learned|perform]?", "{h} showed it at {show}.", show)
    s.say(
        "[It was wonderful|There was not one mistake|The crowd went wild]! {t} [wiped away a"
        " tear|clapped loudest of all|nodded proudly]."
    )
    s.ask("How did {h} feel before {show}?", "{h} was nervous before {show}.", "nervous")
    s.check(
        "Did {v} teach {h}?", "{v} taught {h}.", "{v} taught {h}.", s.slots["t"], [s.slots["f"]]
    )
    s.say(
        '"[How did you do it|What is your secret|Was it hard]?" asked {f}. "[One day at a time|I'
        ' fell down, and I got up again|I had a good teacher]," said {h}.'
    )
    s.moral = "[Practice makes the hard things easy.|Everyone is a beginner once.]"
    s.summary = "{h} wanted to {skill}, practised with the help of {t} and did it at {show}."
    s.epilogue = (
        "Now {h} teaches others to {skill}. When they sigh and say that it is too hard, {he} only"
        " smiles and tells them about {t}."
    )


def garden(s):
    """Seeds, waiting, a pest, a harvest that is shared."""
    crop = s.choose("crop", W.CROPS)
    n = s.number(3, 15)
    pest = s.pick(
        [
            "a hungry snail",
            "a flock of crows",
            "a cold wind",
            "a long dry week",
            "a family of beetles",
            "a greedy goat",
            "heavy hail",
            "a thick carpet of weeds",
        ]
    )
    fix = {
        "snail": "carried the snail to a distant heap of leaves",
        "crows": "put up a scarecrow in an old coat",
        "wind": "covered the bed with blankets",
        "dry": "carried water from the well",
        "beetles": "picked off the beetles one by one",
        "goat": "built a little fence",
        "hail": "held an umbrella over the plants",
        "weeds": "pulled out the weeds",
    }
    cure = next(v for k, v in fix.items() if k in pest)
    s.bind(crop=crop, n=n, pest=pest, cure=cure, m=s.number(2, 12))
    s.title = s.text("[{h}'s Garden|The {Crop}|{h} and the {Crop}]", Crop=crop.title())
    s.say(
        "{one_day}, {h} [found|was given|bought] {n} [seeds|tiny seeds] in [a paper bag|a"
        ' matchbox|an old tin]. "[I will grow {crop}|These will become {crop}]," {he} said.'
    )
    s.ask("How many seeds [did {h} have|were there]?", "{h} had {n} seeds.", n)
    s.ask("What did {h} [grow|plant|want to grow]?", "{h} planted {crop}.", crop)
    s.say(
        "{He} [dug the earth|made neat rows|worked until {his} back ached] and [watered them|sang"
        " to them|watched over them] every {part}. But for {m} days nothing happened.",
        part=(part := s.pick(W.DAYPARTS)),
    )
    s.ask(
        "When did {h} look after the [plants|seeds]?",
        "{h} did it every {p}.".replace("{p}", part),
        part,
    )
    s.ask(
        "[How many days did nothing happen|How long did nothing happen]?",
        "Nothing happened for {m} days.",
        "{m}",
    )
    s.say('"[Perhaps they are asleep|Be patient|Good things take time]," said {f}.')
    s.para()
    s.say(
        "[Then one day|At last] there was a [tiny green tip|little green leaf|small shoot]! {h}"
        " [jumped for joy|called everyone|danced around it]. But trouble was near: {pest}"
        " [came|arrived|was there the next day] and [harmed the plants|nearly ruined everything]."
    )
    s.ask(
        "What [trouble came|harmed the plants|threatened the garden]?",
        "It was {pest}.",
        pest.split(" ", 1)[1],
    )
    s.say("{h} did not give up. {He} {cure}, and {f} helped with {f_his} {thing}.")
    s.ask(
        "[How did {h} save the plants|What did {h} do about it|How did {h} save the garden]?",
        "{h} {cure}.",
        cure,
    )
    s.ask("What did {f} use to help?", "{f} used {f_his} {thing}.", "{thing}")
    s.para()
    s.say(
        "By {season2} the garden was full of {crop}. There were so many that {h} [gave some to"
        " every house|shared them with {everyone}|filled {n2} baskets].",
        season2=(s2 := s.pick(W.SEASONS)),
        n2=s.number(3, 9),
    )
    s.ask("When was the garden full?", "The garden was full by {x}.".replace("{x}", s2), s2)
    s.check("Did {h} grow {v}?", "{h} grew {v}.", "{h} grew {v}.", crop, W.CROPS)
    s.say(
        "They [cooked|baked|served] {food} and sat [among the rows|under the open sky|in the last"
        ' light], and {f} said, "[It was worth the wait|You have a green thumb|Next year we will'
        ' plant even more]."'
    )
    s.moral = "Good things take time."
    s.summary = "{h} planted {n} seeds, waited, saved the plants from {pest} and shared the {crop}."
    s.epilogue = (
        '{h} kept {n} of the best seeds in a little box. "For next year," {he} said, and put them'
        " on the windowsill."
    )


def mend(s):
    """A machine stops; the reason is tiny."""
    machine = s.choose("machine", W.MACHINES)
    jam = s.pick(W.JAMS)
    e = s.who("e")
    s.bind(machine=machine, trouble=W.MACHINES[machine], jam=jam, n=s.number(3, 20))
    s.title = s.text(
        "[The Day the {M} Stopped|{h} and the {M}|A Very Small {J}]",
        M=machine.title(),
        J=jam.title(),
    )
    s.say(
        "{one_day}, the {machine} {of_place} stopped. [Nobody knew why.|It gave one last groan and"
        " stood still.|There was a clunk, and then silence.] Without it {trouble}."
    )
    s.ask("What [stopped|was broken|did not work]?", "The {machine} stopped.", machine)
    s.ask(
        "Why was [it a problem|everyone worried|it bad] that the {machine} stopped?",
        "Without the {machine} {trouble}.",
        "{trouble}",
    )
    s.say(
        "{e} the {e_kind} [hit it with a hammer|oiled every wheel|read {n} books about it], but [it"
        " did not help|nothing moved|it stayed as still as a stone]."
    )
    s.ask("Who tried to mend the {machine} first?", "{e}, the {e_kind}, tried first.", "{e}")
    s.para()
    s.say(
        '"[May I look|Let me try|Let me listen to it]," said {h}. [Some people laughed.|"You?" said'
        ' {e}. "You are only a {h_kind}."|{e} shrugged.] But {h} [lit a lamp|took {his}'
        " {thing}|rolled up {his} sleeves] and [crawled inside|looked behind the big wheel|opened"
        " the little door]."
    )
    s.say(
        "{He} [looked and listened|followed every rod and wire|went from wheel to wheel], while {f}"
        " [held the light|handed {him} the tools|waited below]."
    )
    s.say(
        "And there, between two [teeth|wheels|springs], was a {jam}! {h} [pulled it out|picked it"
        " out with care|gave it a small tug]."
    )
    s.ask(
        "[Why did the {machine} stop|What was wrong with the {machine}|What was stuck in the"
        " {machine}]?",
        "A {jam} was stuck in the {machine}.",
        jam,
    )
    s.ask("What did {h} find [inside|in the {machine}]?", "{h} found a {jam}.", jam)
    s.para()
    s.say(
        "The {machine} [coughed|shook|gave a sigh] and [began to move|came to life|turned again]."
        " Everyone [cheered|threw their hats into the air|hugged {h}]."
    )
    s.ask("Who [mended|repaired] the {machine}?", "{h}, the {h_kind}, mended the {machine}.", "{h}")
    s.check(
        "Did {v} mend the {machine}?",
        "{v} mended it.",
        "{v} mended it.",
        s.slots["h"],
        [e.name, s.slots["f"]],
    )
    s.say(
        '"[How did you know|How did you find it]?" asked {e}. "[I looked for something small|Big'
        ' troubles often have small reasons|I listened]," said {h}[, and put the {jam} in {his}'
        " pocket|]."
    )
    s.moral = "[Big troubles often have small reasons.|Look closely before you give up.]"
    s.summary = "The {machine} stopped, and {h} found out that a {jam} was stuck in it."
    s.epilogue = (
        'The {jam} now hangs on a nail beside the {machine}, with a small sign that says: "Look'
        ' closely." {e} dusts it every week.'
    )
