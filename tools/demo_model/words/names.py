# SPDX-License-Identifier: MIT
"""Names of people, pets and towns, and the syllables and sounds that more are made of."""

from words.lists import words

GIRLS = words("""Ada Agnes Alice Amber Anna Aria Astrid Beatrice Bella Betty Bonnie Bridget Camille
Carla Cecily Clara Cora Dahlia Daisy Delia Dora Edith Elena Elise Ella Elsa Emily
Emma Esther Eva Fatima Fern Fiona Flora Freya Gemma Gloria Grace Greta Hana Hannah
Hazel Heidi Helen Ida Imogen Ingrid Irene Iris Isabel Isla Ivy Jade Jane Jasmine
Josie Joy Julia June Kate Keiko Laila Lara Laura Layla Leah Lena Lily Lola Lucy Luna
Mabel Maggie Maisie Margot Maria Martha Mary Matilda Maya Mei Mia Mila Mina Mira
Molly Nadia Nell Nina Nora Olive Olivia Opal Paula Pearl Penny Petra Phoebe Pia
Poppy Priya Rosa Rose Rosie Ruby Ruth Sadie Sara Selma Sofia Stella Sunita Suki
Sylvia Tessa Thea Tilda Tilly Una Vera Violet Wanda Willa Winnie Yara Yuki Zara
Zelda Zoe""")
BOYS = words("""Aaron Abel Adam Alan Albert Alfie Amir Andrew Anton Archie Arlo Arthur Ben Benny
Bertram Boris Bruno Carl Caspar Cedric Charlie Colin Conrad Cyril Dan Daniel David
Dexter Diego Edgar Edmund Edwin Eli Elliot Emil Ernest Ethan Ezra Felix Finn Frank
Fred Gabriel George Gilbert Gus Hamish Hans Harold Harry Henry Hugo Hugh Ian Idris
Isaac Ivan Jack Jacob Jake James Jasper Jim Joe Jonas Joseph Julian Karim Karl Kenji
Kofi Lars Leo Leon Lewis Liam Louis Luca Lucas Magnus Malik Marco Martin Max Milo
Mohan Monty Ned Neil Noah Oliver Omar Oscar Otis Otto Owen Pablo Patrick Paul Percy
Peter Philip Quentin Rafael Ralph Ravi Reuben Robin Roger Rory Rufus Sam Samir Seth
Simon Stefan Sven Tariq Ted Theo Thomas Tim Toby Tom Tomas Ugo Victor Viktor Wilbur
Will Wilfred Yusuf Zack""")
PET_NAMES = words("""Acorn Almond Apple Basil Bean Berry Biscuit Blossom Bobbin Bracken Bramble Bubbles
Button Candle Caramel Cinder Clover Cobble Comet Cookie Coral Crumb Dapple Dandy Dew
Digby Dot Dusty Ember Fable Fennel Fidget Fig Flick Flint Fudge Fuzzy Ginger Gizmo
Gravel Hickory Honey Hop Inkwell Jelly Jinx Juniper Kipper Lark Lemon Maple Marble
Marigold Mocha Moss Muffin Mustard Nettle Nibble Nimbus Noodle Nugget Nutmeg Oats
Onyx Orbit Pebble Pepper Pickle Pip Pippin Plum Pocket Pudding Puddle Quill Quince
Raisin Ripple Rocket Rusty Saffron Sage Scout Shadow Smudge Snap Sorrel Spark Specks
Splash Sprout Squeak Star Sunny Tangle Thimble Thistle Toffee Topaz Truffle Tumble
Twig Velvet Waffle Walnut Whisker Widget Willow Zigzag""")
NAME_HEAD = words(
    """Al An Ar Bal Bel Bo Bram Bri Cal Cas Chi Da Del Di Do Dru El Em Er Fa Fen Fi Fo Gal
Gi Go Gri Ha Hel Ho Ila Ish Ja Jo Ka Kel Ki Kor La Lem Li Lo Lu Ma Mel Mi Mo Na Ne
Ni No Nu Ol Or Pa Pel Pi Po Qui Ra Ri Ro Ru Sa Sel Shi Si So Su Ta Tel Ti To Tru Tu
Ul Va Vel Vi Vo Wa Wen Wi Wo Ya Yo Za Ze Zi Zu"""
)
NAME_MID = words(
    "ba bi bo da di do ga go ka ki ko la le li lo lu ma me mi mo na ne ni no pa pi po ra ri ro sa"
    " si ta ti to va vi za zi"
)
NAME_TAIL_SHE = words(
    "bel ca da della dra la lia lina lle ly mina na nelle nia ra ria sa sha tha thea tta via ya"
)
NAME_TAIL_HE = words(
    "bin bo ck don do dor go kin ko lin lo lor mo mond mus nard nix no rick rin ro ron sh son"
    " ston to vin zo"
)
# Sounds of arbitrary names: a reader's hero may be called anything.
ONSETS = words("""b bl br c ch cl cr d dr f fl fr g gl gr h j k kl kn kr l m n p ph pl pr qu r s sc sh
sk sl sm sn sp st str sv t th tr tw v w wh x y z b d f g h j k l m n p r s t v w z""")
VOWELS = words("a e i o u a e i o u a e i o u ai au ea ee ei ia ie io oa oo ou ue y")
CODAS = words("n r l s m t d k nd nt rt rk rn st x ck ng sh th lf mp ff ll ss tt z b g p w")
TOWN_HEAD = words("""Willow Bramble Stone Fern Amber Silver Oak Maple Thorn Marsh Honey Rose Winter
Summer Elder Ash Pebble Raven Clover Moon Star Copper Green Black White Red Salt
Sand Fox Otter Lark Apple Thistle Juniper""")
TOWN_TAIL = words(
    "brook dale ford wick ton bury field bridge haven wood mere port well cliff gate hollow by ley"
)
