# SPDX-License-Identifier: MIT
"""Creatures and people: what kinds there are, what they do for a living, what they are like."""

from words.lists import phrases, words

# kind: what it holds things with
LAND = {
    kind: hand
    for hand, kinds in {
        "paws": (
            """fox, rabbit, hare, badger, bear, mouse, cat, dog, squirrel, hedgehog, otter, wolf,
lion, tiger, beaver, mole, weasel, panda, koala, raccoon, hamster, kitten, puppy,
dormouse, ferret, leopard, lynx, polar bear, red panda, guinea pig, chipmunk, rat,
meerkat, sloth, kangaroo, cheetah, jackal, skunk"""
        ),
        "hands": "monkey, gorilla, lemur, chimpanzee",
        "hooves": (
            """horse, pony, donkey, goat, sheep, lamb, cow, deer, pig, llama, camel, zebra,
giraffe, moose, reindeer, piglet, foal, yak, antelope, buffalo"""
        ),
        "trunk": "elephant, mammoth",
        "feet": (
            "tortoise, lizard, frog, toad, crocodile, hippo, rhino, gecko, chameleon, newt,"
            " armadillo"
        ),
        "claws": "crab, lobster, mantis, beetle, anteater",
        "legs": "spider, ant, cricket, ladybird, grasshopper, caterpillar",
        "wings": (
            """owl, sparrow, robin, crow, magpie, duck, goose, swan, penguin, parrot, pigeon,
raven, heron, eagle, bat, bee, butterfly, moth, hen, rooster, turkey, peacock,
puffin, seagull, stork, wren, swallow, blackbird, kingfisher, pelican, flamingo,
ostrich, dragonfly, firefly, duckling, woodpecker"""
        ),
        "fins": "seal, whale, dolphin, fish, walrus, goldfish, shark, sea turtle",
        "arms": "octopus, starfish, squid",
        "shell": "snail",
        "tail": "snake, worm, seahorse",
    }.items()
    for kind in phrases(kinds)
}
FANTASY = {
    kind: hand
    for hand, kinds in {
        "claws": "dragon, griffin, baby dragon",
        "hooves": "unicorn, centaur",
        "hands": (
            """robot, giant, ghost, elf, gnome, goblin, troll, fairy, pixie, ogre, yeti, snowman,
scarecrow, puppet, tin soldier, alien, genie, vampire, mermaid"""
        ),
        "wings": "phoenix, pegasus",
        "arms": "teapot, clock, candle, broom, cloud, toy train",
    }.items()
    for kind in phrases(kinds)
}
GENDERED = {
    "girl": "she",
    "boy": "he",
    "queen": "she",
    "king": "he",
    "princess": "she",
    "prince": "he",
    "witch": "she",
    "wizard": "he",
    "grandmother": "she",
    "grandfather": "he",
    "mermaid": "she",
    "knight": "",
    "hen": "she",
    "rooster": "he",
    "old woman": "she",
    "old man": "he",
    "cow": "she",
    "aunt": "she",
    "sister": "she",
    "mother": "she",
    "uncle": "he",
    "brother": "he",
    "father": "he",
}
JOBS = phrases("""baker, tailor, shepherd, sailor, gardener, clockmaker, painter, carpenter,
blacksmith, miller, weaver, potter, cobbler, farmer, postman, librarian, teacher,
doctor, pilot, astronaut, musician, fiddler, beekeeper, candlemaker, juggler,
inventor, explorer, lighthouse keeper, bell ringer, toymaker, cook, knight, pirate,
detective, scientist, ferryman, locksmith, storyteller, glassblower, mapmaker,
chimney sweep, nurse, train driver, firefighter, dancer, magician, zookeeper,
puppeteer, bookbinder, hatmaker, stonemason""")
ROYALS = phrases("princess, prince, queen, king, witch, wizard")
CHILDREN = ["girl", "boy"]
FAMILY = phrases(
    "grandmother, grandfather, uncle, aunt, sister, brother, mother, father, cousin, teacher"
)
BABIES = [
    ("lamb", "sheep"),
    ("kitten", "cat"),
    ("puppy", "dog"),
    ("foal", "horse"),
    ("calf", "cow"),
    ("chick", "hen"),
    ("duckling", "duck"),
    ("bear cub", "bear"),
    ("lion cub", "lion"),
    ("fawn", "deer"),
    ("piglet", "pig"),
    ("owlet", "owl"),
    ("baby elephant", "elephant"),
    ("baby whale", "whale"),
    ("tiger cub", "tiger"),
    ("gosling", "goose"),
    ("baby seal", "seal"),
    ("baby kangaroo", "kangaroo"),
    ("little penguin", "penguin"),
    ("fox cub", "fox"),
    ("baby giraffe", "giraffe"),
    ("little hedgehog", "hedgehog"),
]
PLURALS = {
    "mouse": "mice",
    "goose": "geese",
    "sheep": "sheep",
    "fish": "fish",
    "wolf": "wolves",
    "deer": "deer",
    "moose": "moose",
    "goldfish": "goldfish",
    "elf": "elves",
    "witch": "witches",
    "fox": "foxes",
    "walrus": "walruses",
    "octopus": "octopuses",
    "fairy": "fairies",
    "pony": "ponies",
    "puppy": "puppies",
    "butterfly": "butterflies",
    "dragonfly": "dragonflies",
    "donkey": "donkeys",
    "monkey": "monkeys",
    "ostrich": "ostriches",
    "dormouse": "dormice",
    "snowman": "snowmen",
    "finch": "finches",
}
TRAITS = words("""brave curious kind clever shy cheerful gentle patient stubborn dreamy careful proud
lonely generous honest clumsy hungry sleepy playful quiet grumpy wise tiny merry
thoughtful adventurous nervous noisy polite lazy hopeful silly serious bold loyal
helpful messy tidy forgetful musical""")
TRAIT_LINES = {
    "brave": (
        "[{He} had once chased a thunderstorm.|{He} always went first into dark rooms.|Nothing"
        " under the bed could frighten {him}.]"
    ),
    "curious": (
        "[{He} had looked under every stone twice.|{He} asked forty questions before breakfast.|No"
        " drawer stayed closed when {he} was near.]"
    ),
    "kind": (
        "[{He} said good morning even to the snails.|{He} carried worms off the road when it"
        " rained.|{He} always kept the biggest piece for others.]"
    ),
    "clever": (
        "[{He} could do sums with both eyes closed.|{He} had taught the kettle to whistle a"
        " song.|{He} knew three ways out of every room.]"
    ),
    "shy": (
        "[{He} blushed when the moon looked at {him}.|{He} spoke so softly that only the mice could"
        " hear.|{He} liked corners best.]"
    ),
    "cheerful": (
        "[{He} whistled even when it hailed.|{He} woke up laughing.|Rain only made {him} sing.]"
    ),
    "gentle": (
        "[Butterflies liked to sit on {him}.|{He} closed every door without a sound.|{He} never"
        " stepped on a flower.]"
    ),
    "patient": (
        "[{He} could wait for an egg to hatch.|{He} had once watched a tree grow.|{He} never looked"
        " at the clock.]"
    ),
    "stubborn": (
        "[{He} had never once changed {his} mind.|{He} had argued with a mule, and won.|No was"
        " {his} favourite word.]"
    ),
    "dreamy": (
        "[{He} often walked into trees.|{He} put sugar in the soup and salt in the tea.|{He} saw"
        " castles in every cloud.]"
    ),
    "careful": (
        "[{He} looked left and right before crossing a room.|{He} tied every knot twice.|{He} had"
        " never broken a cup.]"
    ),
    "proud": (
        "[{He} bowed to {his} own reflection.|{He} walked as if there were a band behind"
        " {him}.|{He} never asked for help.]"
    ),
    "lonely": (
        "[{He} set two places at the table, just in case.|{He} told {his} secrets to the moon.|{He}"
        " knew every crack in the ceiling.]"
    ),
    "generous": (
        "[{He} gave away {his} last biscuit every day.|{His} door was never locked.|{He} owned"
        " little, because {he} gave so much away.]"
    ),
    "honest": (
        "[{He} told the truth even to mirrors.|{He} had never told a lie, not even a small"
        " one.|{He} once walked a mile to return a button.]"
    ),
    "clumsy": (
        "[{He} fell over {his} own feet twice a day.|Vases trembled when {he} came in.|{He} had"
        " spilled milk in every room.]"
    ),
    "hungry": (
        "[{He} ate breakfast three times.|{He} could smell a pie from a mile away.|{He} dreamed of"
        " dumplings.]"
    ),
    "sleepy": (
        "[{He} could sleep standing up.|{He} yawned so widely that birds flew in.|{He} had never"
        " seen a sunrise.]"
    ),
    "playful": (
        "[{He} could make a game out of a puddle.|{He} never walked when {he} could hop.|{He} raced"
        " against the clouds.]"
    ),
    "quiet": (
        "[{He} could hear the snow fall.|{He} said one word a day, and chose it well.|Even {his}"
        " shoes made no sound.]"
    ),
    "grumpy": (
        "[{He} complained about the sun and the shade.|{He} growled at alarm clocks.|{He} only"
        " smiled in secret.]"
    ),
    "wise": (
        "[Even the owls came to {him} for advice.|{He} knew when to say nothing.|{He} had read"
        " every book, and some of them twice.]"
    ),
    "tiny": (
        "[{He} could sleep in a teacup.|{He} used a thimble as a hat stand.|{He} had to jump to see"
        " over the grass.]"
    ),
    "merry": (
        "[{He} laughed at {his} own jokes before the end.|{He} danced with {his} broom.|{His} laugh"
        " could be heard across the hills.]"
    ),
    "thoughtful": (
        "[{He} thought about things while others slept.|{He} never answered at once.|{He} wrote"
        " {his} thoughts on little cards.]"
    ),
    "adventurous": (
        "[{He} kept a packed bag by the door.|{He} had been to the edge of the map.|{He} never took"
        " the same road twice.]"
    ),
    "nervous": (
        "[{He} jumped when a leaf fell.|{He} checked the door nine times each night.|{He} carried"
        " an umbrella on sunny days.]"
    ),
    "noisy": (
        "[{He} even tiptoed loudly.|{He} sang at the top of {his} voice, and not very well.|The"
        " neighbours wore earmuffs.]"
    ),
    "polite": (
        "[{He} said thank you to doors.|{He} raised {his} hat to the trees.|{He} always asked the"
        " flowers before picking them.]"
    ),
    "lazy": (
        "[{He} had trained the wind to close the door.|{He} did nothing on Mondays, and rested on"
        " Tuesdays.|{He} yawned at the word work.]"
    ),
    "hopeful": (
        "[{He} kept a candle in the window.|{He} believed that tomorrow would be better.|{He}"
        " planted a seed wherever {he} went.]"
    ),
    "silly": (
        "[{He} wore odd socks on purpose.|{He} tried to teach the soup to dance.|{He} laughed at"
        " the word noodle.]"
    ),
    "serious": (
        "[{He} had smiled twice in {his} life.|{He} wrote lists of {his} lists.|{He} read the"
        " dictionary for pleasure.]"
    ),
    "bold": (
        "[{He} knocked at every door.|{He} said what others only thought.|{He} had once winked at a"
        " lion.]"
    ),
    "loyal": (
        "[{He} had never broken a promise.|{He} waited for {his} friends in any weather.|{He} would"
        " walk through snow for a friend.]"
    ),
    "helpful": (
        "[{He} carried everybody's bags.|{He} mended things before they broke.|{He} asked everyone"
        " what {he} could do.]"
    ),
    "messy": (
        "[{His} floor had not been seen for years.|{He} kept jam in {his} pockets.|There was always"
        " a leaf on {his} head.]"
    ),
    "tidy": (
        "[{He} ironed {his} handkerchiefs twice.|{He} swept the path before and after each"
        " walk.|{He} put even the pebbles in rows.]"
    ),
    "forgetful": (
        "[{He} looked for the hat that was on {his} head.|{He} had forgotten {his} own birthday"
        " twice.|{He} tied knots in {his} handkerchief and forgot why.]"
    ),
    "musical": (
        "[{He} could play a tune on a garden fence.|{He} hummed even when {he} slept.|{He} tapped a"
        " rhythm on everything.]"
    ),
}
FEATURES = {  # how somebody looks, by what they hold things with
    "paws": (
        "[whiskers that never stopped twitching|a tail like a feather duster|the softest ears|one"
        " ear that would not stand up|very quick paws]"
    ),
    "wings": (
        "[feathers that were never quite tidy|one white feather|a funny way of landing|wings as"
        " soft as butter|a very loud voice]"
    ),
    "hooves": (
        "[hooves that clicked like little drums|a long and tangled mane|the longest eyelashes|very"
        " large ears|a bell around the neck]"
    ),
    "hands": (
        "[a freckle on the tip of the nose|pockets full of string|ink on every finger|hair that"
        " stood up like grass|a laugh like a bell]"
    ),
    "feet": (
        "[a slow and careful walk|the wisest eyes|a crooked smile|green spots|a great love of"
        " sunshine]"
    ),
    "fins": (
        "[silver scales|a deep and gentle voice|a splash that everyone knew|the shiniest nose|a"
        " small scar]"
    ),
}
