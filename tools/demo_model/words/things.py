# SPDX-License-Identifier: MIT
"""What one can hold, wear, eat, grow, and how it looks."""

from words.lists import phrases, words

COLOURS = phrases("""red, blue, green, yellow, purple, orange, pink, white, black, brown, grey, golden,
silver, scarlet, crimson, turquoise, violet, emerald, copper, cream""")
PLAIN_COLOURS = COLOURS[:11]
STRIPES = phrases("striped, spotted, checked, patched, velvet, faded, shiny, embroidered")
GARMENTS = phrases("""scarf, hat, cap, coat, waistcoat, jacket, cloak, ribbon, bow tie, cape, apron,
jumper, pair of boots, pair of mittens, pair of glasses, backpack, satchel,
necklace, belt, bonnet, shawl, raincoat, neckerchief, pair of socks, top hat,
headband, bracelet""")
MATERIALS = phrases(
    "wooden, brass, silver, golden, glass, copper, iron, tin, paper, clay, ivory, stone, crystal,"
    " velvet"
)
SIZES = phrases("tiny, small, big, huge, enormous, little")
LOOKS = phrases(
    "old, shiny, dusty, strange, beautiful, magic, broken, rusty, lovely, plain, precious, curious,"
    " famous"
)
THINGS = phrases("""key, lantern, kite, drum, compass, bell, flute, whistle, map, music box, teapot,
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
FOODS = phrases("""apple pie, honey cake, blueberry muffins, cheese, bread, strawberry jam, pumpkin
soup, carrot stew, ginger biscuits, plum tart, pancakes, chocolate cake, cherry pie,
mushroom soup, roasted chestnuts, walnut bread, lemon tart, porridge, noodles,
dumplings, butter buns, raspberry ice cream, toffee apples, rice pudding, berry
juice, cinnamon rolls, onion soup, potato pie, oat cookies, hot chocolate, peach
crumble, sweet corn, pear cake, fresh rolls, coconut cake, banana bread, almond
cake, vegetable curry, fish stew, tomato soup, waffles, marmalade, fig rolls""")
FRUITS = phrases("""apples, pears, plums, cherries, strawberries, blueberries, raspberries, peaches,
oranges, lemons, figs, grapes, blackberries, apricots, melons, chestnuts, walnuts,
acorns, mushrooms, pumpkins, carrots, turnips, onions, potatoes, cabbages, beans,
radishes, tomatoes, sunflowers, tulips, roses, daisies, eggs, buns, pies""")
CROPS = phrases("""sunflowers, pumpkins, carrots, tulips, beans, strawberries, tomatoes, melons, roses,
daisies, radishes, cabbages, peas, turnips, poppies, marigolds, lavender, corn,
cucumbers, bluebells""")
INGREDIENTS = phrases("""flour, honey, butter, sugar, milk, cream, salt, cinnamon, vanilla, cheese, rice,
mint, ginger, nutmeg, eggs, walnuts, raisins, lemons, cherries, apples, onions,
carrots, chestnuts, almonds, oats, blueberries, maple syrup, yeast""")
GIFTS = phrases("""jar of honey, basket of plums, warm blanket, birthday cake, letter, bag of seeds,
bottle of medicine, parcel, box of candles, pot of soup, bunch of roses, sack of
flour, book of songs, wool scarf, crate of oranges, barrel of butter, bag of
buttons, silver spoon, photograph, invitation, pie, painted bowl, pair of slippers""")
TREASURES = phrases(
    """a chest of old letters, a box full of buttons, a nest of blue eggs, a silver bell, a
library of tiny books, a garden that nobody had seen for years, a music box that
still played, a bag of golden coins, a sleeping baby owl, a map of the stars, a jar
of fireflies, a mirror that showed only smiles, a field of wild strawberries, a
spring of clear water, a crown made of leaves, a picture of the whole village, a
telescope wrapped in cloth"""
)
JAMS = phrases("""acorn, button, pebble, feather, marble, mitten, apple core, spoon, snail shell,
ribbon, coin, pencil, bird's nest, sock, thimble, pine cone, cherry stone, key,
teaspoon, toy soldier""")
NUMBERS = words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty"
)
