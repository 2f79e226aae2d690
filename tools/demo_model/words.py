# SPDX-License-Identifier: MIT
"""The vocabulary of the demo model's world: names, creatures, places, things, feelings.

Plain lists only. Everything that combines them is in grammar.py, plots_*.py and chat.py.
"""


def _w(text):
    return text.split()


def _c(text):
    return [" ".join(part.split()) for part in text.split(",") if part.strip()]


GIRLS = _w("""Ada Agnes Alice Amber Anna Aria Astrid Beatrice Bella Betty Bonnie Bridget Camille
Carla Cecily Clara Cora Dahlia Daisy Delia Dora Edith Elena Elise Ella Elsa Emily
Emma Esther Eva Fatima Fern Fiona Flora Freya Gemma Gloria Grace Greta Hana Hannah
Hazel Heidi Helen Ida Imogen Ingrid Irene Iris Isabel Isla Ivy Jade Jane Jasmine
Josie Joy Julia June Kate Keiko Laila Lara Laura Layla Leah Lena Lily Lola Lucy Luna
Mabel Maggie Maisie Margot Maria Martha Mary Matilda Maya Mei Mia Mila Mina Mira
Molly Nadia Nell Nina Nora Olive Olivia Opal Paula Pearl Penny Petra Phoebe Pia
Poppy Priya Rosa Rose Rosie Ruby Ruth Sadie Sara Selma Sofia Stella Sunita Suki
Sylvia Tessa Thea Tilda Tilly Una Vera Violet Wanda Willa Winnie Yara Yuki Zara
Zelda Zoe""")

BOYS = _w("""Aaron Abel Adam Alan Albert Alfie Amir Andrew Anton Archie Arlo Arthur Ben Benny
Bertram Boris Bruno Carl Caspar Cedric Charlie Colin Conrad Cyril Dan Daniel David
Dexter Diego Edgar Edmund Edwin Eli Elliot Emil Ernest Ethan Ezra Felix Finn Frank
Fred Gabriel George Gilbert Gus Hamish Hans Harold Harry Henry Hugo Hugh Ian Idris
Isaac Ivan Jack Jacob Jake James Jasper Jim Joe Jonas Joseph Julian Karim Karl Kenji
Kofi Lars Leo Leon Lewis Liam Louis Luca Lucas Magnus Malik Marco Martin Max Milo
Mohan Monty Ned Neil Noah Oliver Omar Oscar Otis Otto Owen Pablo Patrick Paul Percy
Peter Philip Quentin Rafael Ralph Ravi Reuben Robin Roger Rory Rufus Sam Samir Seth
Simon Stefan Sven Tariq Ted Theo Thomas Tim Toby Tom Tomas Ugo Victor Viktor Wilbur
Will Wilfred Yusuf Zack""")

PET_NAMES = _w("""Acorn Almond Apple Basil Bean Berry Biscuit Blossom Bobbin Bracken Bramble Bubbles
Button Candle Caramel Cinder Clover Cobble Comet Cookie Coral Crumb Dapple Dandy Dew
Digby Dot Dusty Ember Fable Fennel Fidget Fig Flick Flint Fudge Fuzzy Ginger Gizmo
Gravel Hickory Honey Hop Inkwell Jelly Jinx Juniper Kipper Lark Lemon Maple Marble
Marigold Mocha Moss Muffin Mustard Nettle Nibble Nimbus Noodle Nugget Nutmeg Oats
Onyx Orbit Pebble Pepper Pickle Pip Pippin Plum Pocket Pudding Puddle Quill Quince
Raisin Ripple Rocket Rusty Saffron Sage Scout Shadow Smudge Snap Sorrel Spark Specks
Splash Sprout Squeak Star Sunny Tangle Thimble Thistle Toffee Topaz Truffle Tumble
Twig Velvet Waffle Walnut Whisker Widget Willow Zigzag""")

NAME_HEAD = _w(
    """Al An Ar Bal Bel Bo Bram Bri Cal Cas Chi Da Del Di Do Dru El Em Er Fa Fen Fi Fo Gal
Gi Go Gri Ha Hel Ho Ila Ish Ja Jo Ka Kel Ki Kor La Lem Li Lo Lu Ma Mel Mi Mo Na Ne
Ni No Nu Ol Or Pa Pel Pi Po Qui Ra Ri Ro Ru Sa Sel Shi Si So Su Ta Tel Ti To Tru Tu
Ul Va Vel Vi Vo Wa Wen Wi Wo Ya Yo Za Ze Zi Zu"""
)
NAME_MID = _w(
    "ba bi bo da di do ga go ka ki ko la le li lo lu ma me mi mo na ne ni no pa pi po ra ri ro sa"
    " si ta ti to va vi za zi"
)
NAME_TAIL_SHE = _w(
    "bel ca da della dra la lia lina lle ly mina na nelle nia ra ria sa sha tha thea tta via ya"
)
NAME_TAIL_HE = _w(
    "bin bo ck don do dor go kin ko lin lo lor mo mond mus nard nix no rick rin ro ron sh son"
    " ston to vin zo"
)

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
    for kind in _c(kinds)
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
    for kind in _c(kinds)
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

JOBS = _c("""baker, tailor, shepherd, sailor, gardener, clockmaker, painter, carpenter,
blacksmith, miller, weaver, potter, cobbler, farmer, postman, librarian, teacher,
doctor, pilot, astronaut, musician, fiddler, beekeeper, candlemaker, juggler,
inventor, explorer, lighthouse keeper, bell ringer, toymaker, cook, knight, pirate,
detective, scientist, ferryman, locksmith, storyteller, glassblower, mapmaker,
chimney sweep, nurse, train driver, firefighter, dancer, magician, zookeeper,
puppeteer, bookbinder, hatmaker, stonemason""")
ROYALS = _c("princess, prince, queen, king, witch, wizard")
CHILDREN = ["girl", "boy"]

TRAITS = _w("""brave curious kind clever shy cheerful gentle patient stubborn dreamy careful proud
lonely generous honest clumsy hungry sleepy playful quiet grumpy wise tiny merry
thoughtful adventurous nervous noisy polite lazy hopeful silly serious bold loyal
helpful messy tidy forgetful musical""")

COLOURS = _c("""red, blue, green, yellow, purple, orange, pink, white, black, brown, grey, golden,
silver, scarlet, crimson, turquoise, violet, emerald, copper, cream""")
PLAIN_COLOURS = COLOURS[:11]
STRIPES = _c("striped, spotted, checked, patched, velvet, faded, shiny, embroidered")
GARMENTS = _c("""scarf, hat, cap, coat, waistcoat, jacket, cloak, ribbon, bow tie, cape, apron,
jumper, pair of boots, pair of mittens, pair of glasses, backpack, satchel,
necklace, belt, bonnet, shawl, raincoat, neckerchief, pair of socks, top hat,
headband, bracelet""")

MATERIALS = _c(
    "wooden, brass, silver, golden, glass, copper, iron, tin, paper, clay, ivory, stone, crystal,"
    " velvet"
)
SIZES = _c("tiny, small, big, huge, enormous, little")
LOOKS = _c(
    "old, shiny, dusty, strange, beautiful, magic, broken, rusty, lovely, plain, precious, curious,"
    " famous"
)
THINGS = _c("""key, lantern, kite, drum, compass, bell, flute, whistle, map, music box, teapot,
clock, locket, ring, crown, telescope, button, marble, spoon, cup, basket, ball,
doll, toy boat, book, diary, feather, shell, pebble, ladder, rope, bucket, broom,
hammer, candle, mirror, fiddle, trumpet, harp, pocket watch, coin, medal, blanket,
pillow, painting, paintbrush, pencil, letter, stamp, envelope, jar, bottle, box,
chest, whisk, rolling pin, cooking pot, kettle, thimble, needle, spinning top,
puzzle, yo-yo, magnifying glass, camera, radio, wheel, sled, bicycle, scooter,
wagon, boat, paddle, fishing rod, net, tent, umbrella, fan, vase, statue, snow
globe, acorn, pine cone, star, egg, crystal, gem, pearl, hat, scarf, shoe, glove,
cloak, button box, jigsaw piece, toy train, wooden horse, puppet, mask, flag,
trophy, ribbon, scroll, quill, inkpot, hourglass, guitar, accordion, tambourine,
banjo, violin, horn, wand, shield, helmet, saddle, horseshoe, anchor, oar,
wheelbarrow, watering can, spade, rake""")

FOODS = _c("""apple pie, honey cake, blueberry muffins, cheese, bread, strawberry jam, pumpkin
soup, carrot stew, ginger biscuits, plum tart, pancakes, chocolate cake, cherry pie,
mushroom soup, roasted chestnuts, walnut bread, lemon tart, porridge, noodles,
dumplings, butter buns, raspberry ice cream, toffee apples, rice pudding, berry
juice, cinnamon rolls, onion soup, potato pie, oat cookies, hot chocolate, peach
crumble, sweet corn, pear cake, fresh rolls, coconut cake, banana bread, almond
cake, vegetable curry, fish stew, tomato soup, waffles, marmalade, fig rolls""")
FRUITS = _c("""apples, pears, plums, cherries, strawberries, blueberries, raspberries, peaches,
oranges, lemons, figs, grapes, blackberries, apricots, melons, chestnuts, walnuts,
acorns, mushrooms, pumpkins, carrots, turnips, onions, potatoes, cabbages, beans,
radishes, tomatoes, sunflowers, tulips, roses, daisies, eggs, buns, pies""")
CROPS = _c("""sunflowers, pumpkins, carrots, tulips, beans, strawberries, tomatoes, melons, roses,
daisies, radishes, cabbages, peas, turnips, poppies, marigolds, lavender, corn,
cucumbers, bluebells""")

# (preposition, noun, adjectives that suit it)
PLACES = [
    (prep, noun)
    for prep, nouns in {
        "in": (
            """village, town, valley, forest, wood, meadow, castle, city, garden, orchard, jungle,
desert, cave, kingdom, library, museum, palace, tower, windmill, cottage, toyshop,
bakery, swamp, burrow, treehouse, market town, space station, train station, circus,
school, fishing village, mountain village, harbour town"""
        ),
        "on": (
            "farm, island, hill, mountain, ship, river boat, houseboat, cliff, planet, beach, ranch"
        ),
        "by": "lake, river, pond, waterfall, lighthouse, harbour, stream, bay, canal, well",
        "at": "lighthouse, inn, mill, zoo, railway station, observatory",
        "near": "volcano, great wall, glacier, old bridge",
    }.items()
    for noun in _c(nouns)
]
PLACE_ADJ = _c(
    """quiet, small, busy, sleepy, sunny, snowy, misty, windy, green, old, faraway, hidden,
cosy, crooked, lonely, bright, peaceful, rainy, golden, silver, cold, warm, great,
lovely, forgotten, merry, colourful, dusty"""
)
PLACE_TAIL = _c(
    """by the sea, at the edge of the forest, at the foot of a mountain, between two hills,
beside a slow river, at the end of the road, where the wind never stopped, where
everyone knew everyone, far to the north, deep in the south, under a wide sky,
behind the hills, near the old bridge, where the bells rang every hour, full of
flowers, with crooked chimneys, not far from the coast"""
)
TOWN_HEAD = _w("""Willow Bramble Stone Fern Amber Silver Oak Maple Thorn Marsh Honey Rose Winter
Summer Elder Ash Pebble Raven Clover Moon Star Copper Green Black White Red Salt
Sand Fox Otter Lark Apple Thistle Juniper""")
TOWN_TAIL = _w(
    "brook dale ford wick ton bury field bridge haven wood mere port well cliff gate hollow by ley"
)

SPOTS = [
    (prep, f"the {noun}")
    for prep, nouns in {
        "under": (
            "old stone bridge, kitchen table, big oak tree, bed, stairs, garden bench, wooden pier,"
            " haystack, carpet"
        ),
        "behind": (
            """bakery, mill, barn, waterfall, church, bookshelf, garden wall, stable, post office,
curtain, blacksmith's shop, rose bushes, old fountain, school"""
        ),
        "inside": (
            "hollow log, empty barrel, clock tower, flower pot, old boot, cave, cupboard,"
            " boathouse, piano, rabbit hole"
        ),
        "in": (
            """orchard, tall grass, cellar, attic, pumpkin patch, greenhouse, reeds, laundry
basket, snow, market square, bell tower, rowing boat, hay cart, vegetable garden,
blackberry hedge, empty nest, library, toy box"""
        ),
        "on": (
            "roof, windowsill, top shelf, river bank, hilltop, garden gate, railway bench, tree"
            " stump, beach, highest branch"
        ),
        "beside": (
            "pond, well, railway line, lighthouse, mossy rock, campfire, windmill, old gate, duck"
            " pond, signpost"
        ),
        "near": (
            "crossroads, harbour, stepping stones, beehives, fallen tree, statue, watermill, lily"
            " pads, sand dunes"
        ),
        "between": "two tall rocks, two birch trees, two barrels, two haystacks",
    }.items()
    for noun in _c(nouns)
]
SPOTS = [(p, n.replace("the two", "two")) for p, n in SPOTS]

SEASONS = _w("spring summer autumn winter")
DAYPARTS = _w("morning afternoon evening")
WEATHER = {
    "sunny": "The sun [was shining|shone on the rooftops|warmed the stones|smiled down].",
    "rainy": "Rain [was drumming on the roofs|fell in long silver lines|tapped at every window].",
    "windy": (
        "The wind [was pulling at every door|chased the leaves down the road|sang in the trees]."
    ),
    "snowy": "Snow [was falling softly|lay on everything like sugar|covered the path].",
    "foggy": "A thick fog [had rolled in|hid the trees|lay over everything like a blanket].",
    "cloudy": "Grey clouds [hung low in the sky|drifted over the hills|hid the sun].",
    "frosty": "Frost [sparkled on the grass|had painted the windows|glittered on the fences].",
    "stormy": "Thunder [was rumbling far away|rolled over the hills] and the sky was dark.",
    "hot": (
        "It was so hot that [the birds had stopped singing|even the shadows looked tired|the road"
        " shimmered]."
    ),
    "chilly": (
        "There was a chill in the air, and [smoke rose from the chimneys|everyone wore a"
        " scarf|breath turned to mist]."
    ),
    "bright": (
        "The sky was clear and [blue|wide|full of swallows], and [everything seemed possible|the"
        " air smelled of grass]."
    ),
}
# weather: the seasons in which it happens
WEATHER_SEASONS = {
    "snowy": ["winter"],
    "frosty": ["winter", "autumn"],
    "chilly": ["winter", "autumn"],
    "hot": ["summer"],
    "sunny": ["spring", "summer", "autumn"],
}
COMMUNITIES = set(
    _c("""village, town, city, valley, kingdom, castle, palace, market town, fishing village,
mountain village, harbour town, island, farm, school, circus, space station, ship,
zoo, planet""")
)
HABITS = _c("""walk along the river, count the clouds, sing to the birds, read old books, bake
bread, draw maps, collect smooth stones, listen to the wind, watch the boats, feed
the ducks, climb the tallest tree, tell jokes, water the flowers, sweep the steps,
polish the windows, hum old songs, skip stones across the water, whistle, write
letters, fly paper birds, look at the stars, drink peppermint tea, sit by the
window, chase butterflies, pick wild flowers, mend old toys, paint little pictures,
dance in the kitchen, ride the milk cart, build tiny towers""")
FEARS = {
    "the dark": "there was no light at all",
    "thunder": "the thunder was crashing overhead",
    "deep water": "the water was deep and cold",
    "heights": "it was terribly high",
    "spiders": "spiders hung in every corner",
    "the old forest": "the old forest was full of shadows",
    "loud noises": "everything boomed and clattered",
    "strangers": "it was full of strangers",
    "caves": "the cave was black and narrow",
    "bridges": "the bridge swung over the gap",
    "the wind": "the wind howled like a wolf",
    "ghosts": "people said there were ghosts",
}
SKILLS = {  # skill: (verb phrase, noun for the show)
    "play the fiddle": "the harvest dance",
    "juggle": "the summer fair",
    "swim": "the river race",
    "dance": "the midsummer ball",
    "paint": "the village exhibition",
    "bake bread": "the baking day",
    "sing": "the winter concert",
    "ride a bicycle": "the bicycle parade",
    "play the drum": "the spring parade",
    "skate": "the ice festival",
    "whistle": "the whistling contest",
    "play the trumpet": "the town concert",
    "sew": "the costume party",
    "walk on stilts": "the circus night",
    "fly a kite": "the kite festival",
    "read": "the story evening",
    "do magic tricks": "the lantern festival",
    "play the harp": "the moonlight concert",
    "climb": "the mountain day",
    "row a boat": "the boat race",
}
CONTESTS = {  # contest: what one does in it
    "boat race": "row",
    "running race": "run",
    "baking contest": "bake",
    "kite contest": "fly a kite",
    "singing contest": "sing",
    "painting contest": "paint",
    "sandcastle contest": "build a sandcastle",
    "snowman contest": "build a snowman",
    "dancing contest": "dance",
    "cart race": "race",
    "pumpkin contest": "show a pumpkin",
    "jumping contest": "jump",
}
PRIZES = _c("""golden cup, silver medal, blue ribbon, giant cake, basket of cherries, brass trophy,
jar of honey, bag of gold coins, red rosette, crown of flowers, barrel of apples,
box of chocolates, wooden medal, painted shield""")
STUCK = [
    (c, w)
    for w, cs in {
        "its wing was caught in a thorn bush": "blackbird, sparrow, swallow, moth, bat, wren",
        "its leg was trapped under a stone": "lizard, beetle, grasshopper, cricket, frog, crab",
        "it had fallen into a deep hole": "hedgehog, rabbit, mole, duckling, puppy, piglet",
        "it was tangled in an old net": "seal, turtle, otter, fish, gull, swan",
        "it could not get down from a branch": "kitten, squirrel, owlet, bear cub, koala",
        "it was stuck in the mud": "lamb, foal, calf, pony, donkey",
    }.items()
    for c in _c(cs)
]
TOOLS = {  # tool: how it frees something
    "rope": "tied it to a tree and pulled",
    "ladder": "leaned it against the side",
    "long stick": "pushed and lifted",
    "pair of scissors": "cut away what held it",
    "spade": "dug carefully all around",
    "plank": "laid it down like a bridge",
    "basket": "lowered it gently",
    "blanket": "made a soft sling out of it",
    "lamp": "found the way in by its light",
    "jar of butter": "rubbed until everything was slippery",
}
BUILDS = {  # what is built: (materials, what it is for)
    "raft": "cross the lake",
    "kite": "touch the clouds",
    "treehouse": "watch the stars",
    "bridge": "reach the other bank",
    "boat": "sail to the island",
    "sled": "race down the hill",
    "windmill": "grind the flour",
    "swing": "fly over the grass",
    "hot-air balloon": "see the world from above",
    "snow fort": "keep out the wind",
    "bird house": "give the sparrows a home",
    "wagon": "carry the harvest",
    "lighthouse": "guide the boats home",
    "flying machine": "fly over the rooftops",
    "stage": "put on a play",
    "clock": "tell everyone the time",
    "rocket": "visit the moon",
    "puppet theatre": "make everyone laugh",
}
MATERIAL_STUFF = _c(
    """planks, nails, ropes, sticks, old sheets, barrels, wheels, bricks, reeds, ribbons,
buckets, copper pipes, feathers, strings, logs, boxes, stones, sails, hinges,
branches"""
)
GIFTS = _c("""jar of honey, basket of plums, warm blanket, birthday cake, letter, bag of seeds,
bottle of medicine, parcel, box of candles, pot of soup, bunch of roses, sack of
flour, book of songs, wool scarf, crate of oranges, barrel of butter, bag of
buttons, silver spoon, photograph, invitation, pie, painted bowl, pair of slippers""")
OBSTACLES = {  # obstacle: (how it is met)
    "a river had washed the bridge away": (
        "[floated across on a log|hopped from stone to stone|made a raft out of branches]"
    ),
    "a fallen tree blocked the road": (
        "[crawled underneath it|climbed over it slowly|found a narrow way around it]"
    ),
    "thick fog hid the path": (
        "[followed the sound of the bells|counted every step|kept one eye on the fence]"
    ),
    "a grumpy goose stood in the way": (
        "[offered it a crumb of bread|sang it a song|asked very politely to pass]"
    ),
    "the road split in three": (
        "[asked a passing swallow|looked for fresh tracks|followed the smell of the sea]"
    ),
    "a deep ditch crossed the field": (
        "[laid a plank across it|took a long run and jumped|climbed down and up again]"
    ),
    "a locked gate closed the lane": (
        "[squeezed between the bars|found the key under a stone|climbed over the top]"
    ),
    "the snow was too deep to walk": (
        "[tied two boards to the feet|slid along on an old tray|followed the sled tracks]"
    ),
    "a swarm of bees filled the lane": (
        "[walked very, very slowly|waited until they flew away|hummed along with them]"
    ),
    "a herd of sheep filled the road": (
        "[asked the shepherd for help|walked in the middle of them|whistled until they moved]"
    ),
}
TREASURES = _c(
    """a chest of old letters, a box full of buttons, a nest of blue eggs, a silver bell, a
library of tiny books, a garden that nobody had seen for years, a music box that
still played, a bag of golden coins, a sleeping baby owl, a map of the stars, a jar
of fireflies, a mirror that showed only smiles, a field of wild strawberries, a
spring of clear water, a crown made of leaves, a picture of the whole village, a
telescope wrapped in cloth"""
)
MACHINES = {  # machine: what happens without it
    "town clock": "nobody knew when to eat lunch",
    "old windmill": "there was no flour for bread",
    "merry-go-round": "the children had nothing to ride",
    "water pump": "the fields were dry",
    "steam train": "nobody could travel",
    "church organ": "there was no music for the wedding",
    "ferry": "nobody could cross the river",
    "lighthouse lamp": "the ships could not find the harbour",
    "printing press": "there was no newspaper",
    "bread oven": "there was no breakfast",
    "fountain": "the ducks had nowhere to bathe",
    "drawbridge": "nobody could enter the castle",
}
JAMS = _c("""acorn, button, pebble, feather, marble, mitten, apple core, spoon, snail shell,
ribbon, coin, pencil, bird's nest, sock, thimble, pine cone, cherry stone, key,
teaspoon, toy soldier""")
NOISES = _c(
    "a soft cry, a strange squeak, a sad little whimper, a faint call, a small sob, a rustling"
    " sound, a tiny voice"
)
SAID = _c("said, cried, laughed, whispered, called, announced, replied")
COUNTRIES = _w(
    """France Spain Italy Japan Brazil Canada Egypt India China Kenya Norway Sweden Poland
Greece Peru Mexico Chile Germany Austria Turkey Morocco Finland Portugal Ireland
Iceland Australia Cuba Vietnam Thailand"""
)
NUMBERS = _w(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty"
)

INGREDIENTS = _c("""flour, honey, butter, sugar, milk, cream, salt, cinnamon, vanilla, cheese, rice,
mint, ginger, nutmeg, eggs, walnuts, raisins, lemons, cherries, apples, onions,
carrots, chestnuts, almonds, oats, blueberries, maple syrup, yeast""")
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
ROOMS = _c("""kitchen, garden, bedroom, office, attic, hall, park, shop, school, library, forest,
cellar, garage, market, station, bathroom, living room, bakery, field, harbour,
museum, castle""")

# Sounds of arbitrary names: a reader's hero may be called anything.
ONSETS = _w("""b bl br c ch cl cr d dr f fl fr g gl gr h j k kl kn kr l m n p ph pl pr qu r s sc sh
sk sl sm sn sp st str sv t th tr tw v w wh x y z b d f g h j k l m n p r s t v w z""")
VOWELS = _w("a e i o u a e i o u a e i o u ai au ea ee ei ia ie io oa oo ou ue y")
CODAS = _w("n r l s m t d k nd nt rt rk rn st x ck ng sh th lf mp ff ll ss tt z b g p w")
FAMILY = _c(
    "grandmother, grandfather, uncle, aunt, sister, brother, mother, father, cousin, teacher"
)
FAR_PLACES = [  # (preposition, noun, "the", or "-" for a proper name)
    ("on", "moon", "the"),
    ("in", "ocean", "the"),
    ("by", "sea", "the"),
    ("under", "sea", "the"),
    ("in", "mountains", "the"),
    ("in", "clouds", "the"),
    ("in", "sky", "the"),
    ("on", "coast", "the"),
    ("in", "snow", "the"),
    ("in", "space", "-"),
    ("on", "Mars", "-"),
    ("at", "North Pole", "the"),
    ("in", "jungle", "the"),
    ("in", "forest", "the"),
    ("in", "desert", "the"),
    ("in", "woods", "the"),
]
TOPICS = {  # what a reader may name instead of a hero, and the places it may mean
    "space": [("in", "space", "-"), ("on", "moon", "the"), ("on", "planet", "faraway")],
    "the moon": [("on", "moon", "the")],
    "the sea": [("by", "sea", "the"), ("under", "sea", "the"), ("on", "ship", "old")],
    "the ocean": [("in", "ocean", "the")],
    "the forest": [("in", "forest", "the"), ("in", "forest", "quiet")],
    "the mountains": [("in", "mountains", "the"), ("on", "mountain", "snowy")],
    "the jungle": [("in", "jungle", "the")],
    "the desert": [("in", "desert", "the")],
    "a faraway country": [("in", "kingdom", "faraway"), ("on", "island", "faraway")],
    "the city": [("in", "city", "busy"), ("in", "city", "great")],
    "the countryside": [("on", "farm", "small"), ("in", "village", "quiet")],
    "a school": [("in", "school", "")],
    "a castle": [("in", "castle", "old")],
    "a train": [("in", "train station", "busy")],
    "a lighthouse": [("in", "lighthouse", "lonely"), ("by", "lighthouse", "")],
    "a circus": [("in", "circus", "colourful")],
}
