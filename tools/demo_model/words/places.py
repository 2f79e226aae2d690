# SPDX-License-Identifier: MIT
"""Where and when: places, spots, seasons, weather."""

from words.lists import phrases, words

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
    for noun in phrases(nouns)
]
PLACE_ADJ = phrases(
    """quiet, small, busy, sleepy, sunny, snowy, misty, windy, green, old, faraway, hidden,
cosy, crooked, lonely, bright, peaceful, rainy, golden, silver, cold, warm, great,
lovely, forgotten, merry, colourful, dusty"""
)
PLACE_TAIL = phrases(
    """by the sea, at the edge of the forest, at the foot of a mountain, between two hills,
beside a slow river, at the end of the road, where the wind never stopped, where
everyone knew everyone, far to the north, deep in the south, under a wide sky,
behind the hills, near the old bridge, where the bells rang every hour, full of
flowers, with crooked chimneys, not far from the coast"""
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
    for noun in phrases(nouns)
]
SPOTS = [(p, n.replace("the two", "two")) for p, n in SPOTS]
ROOMS = phrases("""kitchen, garden, bedroom, office, attic, hall, park, shop, school, library, forest,
cellar, garage, market, station, bathroom, living room, bakery, field, harbour,
museum, castle""")
COUNTRIES = words(
    """France Spain Italy Japan Brazil Canada Egypt India China Kenya Norway Sweden Poland
Greece Peru Mexico Chile Germany Austria Turkey Morocco Finland Portugal Ireland
Iceland Australia Cuba Vietnam Thailand"""
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
COMMUNITIES = set(
    phrases("""village, town, city, valley, kingdom, castle, palace, market town, fishing village,
mountain village, harbour town, island, farm, school, circus, space station, ship,
zoo, planet""")
)
SEASONS = words("spring summer autumn winter")
DAYPARTS = words("morning afternoon evening")
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
