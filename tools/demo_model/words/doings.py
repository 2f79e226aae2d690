# SPDX-License-Identifier: MIT
"""What happens in stories: habits, fears, contests, obstacles, tools."""

from words.lists import phrases

HABITS = phrases("""walk along the river, count the clouds, sing to the birds, read old books, bake
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
PRIZES = phrases("""golden cup, silver medal, blue ribbon, giant cake, basket of cherries, brass trophy,
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
    for c in phrases(cs)
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
MATERIAL_STUFF = phrases(
    """planks, nails, ropes, sticks, old sheets, barrels, wheels, bricks, reeds, ribbons,
buckets, copper pipes, feathers, strings, logs, boxes, stones, sails, hinges,
branches"""
)
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
NOISES = phrases(
    "a soft cry, a strange squeak, a sad little whimper, a faint call, a small sob, a rustling"
    " sound, a tiny voice"
)
SAID = phrases("said, cried, laughed, whispered, called, announced, replied")
