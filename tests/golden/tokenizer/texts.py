# SPDX-License-Identifier: MIT
"""Text in many scripts, made from a seed: to train the vocabularies on and to hold the tokenizers against."""
import pathlib
import random

SCRIPTS = {
    "latin": "abcdefghijklmnopqrstuvwxyz" "etaoinshr" "etaoin",
    "accented": "aàáâäbcçdeèéêëfghiîïjklmnñoôöpqrsßtuùûüvwxyzœæøåłşğı",
    "greek": "αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώ",
    "cyrillic": "абвгдежзийклмнопрстуфхцчшщъыьэюяёіїєґ",
    "armenian": "աբգդեզէըթժիլխծկհձղճմյնշոչպջռսվտ",
    "hebrew": "אבגדהוזחטיכלמנסעפצקרשתםןףץ",
    "arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهويةىء",
    "devanagari": "अआइईउऊएऐओकखगघचछजटडणतथदनपबमयरलवशसहािीुूेैोौं्",
    "bengali": "অআইউএকখগঘচছজটডতথদনপবমযরলশসহািীুে্",
    "tamil": "அஆஇஈஉஎகஙசஞடணதநபமயரலவழளறனாிீுூெே்",
    "thai": "กขคงจฉชซญดตถทธนบปผพฟมยรลวศสหอะาิีึืุูเแโใไ่้",
    "georgian": "აბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხჯჰ",
    "ethiopic": "ሀለሐመሠረሰሸቀበተቸኀነኘአከወዐዘየደጀገጠጨጰጸፀፈፐ",
    "hangul": "가나다라마바사아자차카타파하국말한글을는이고에서",
    "kana": "あいうえおかきくけこさしすせそアイウエオカキクケコッャュョー",
    "han": "的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年得就那要下以生会自着去之过家学",
}
LIGHT = ("latin", "accented", "cyrillic", "han", "kana", "arabic", "devanagari", "hangul")
CODE = [
    "for (int i = 0; i < n; i++) {", "    return x->next;", "}", "def f(self, *args, **kwargs):",
    "\tif err != nil {", "\t\treturn nil, err", "#include <stdio.h>", "printf(\"%d\\n\", i);",
    "SELECT id, name FROM users WHERE age >= 18;", "a[i] += b[j] * 0.5f;", "// comment: see RFC-2119",
    "<div class=\"row\">text</div>", "let v: Vec<u8> = vec![0; 16];", "https://example.org/a?b=c&d=%20e",
    "x = {'key': [1, 2, 3], \"other\": None}", "std::unique_ptr<Foo>(new Foo());", "0xDEADBEEF 1e-6 3.14159",
]
ENGLISH = ("the of and to in a is that for it was on are as with his they be at one have this from or had by hot but some "
           "what there we can out other were all your when up use word how said an each she which do their time if will way "
           "about many then them would write like so these her long make thing see him two has look more day could go come "
           "did my sound no most number who over know water than call first people may down side been now find it's don't "
           "I'm you're we've they'll he'd isn't THE It's DON'T WE'RE I'VE").split()
PUNCTUATION = list(".,;:!?()[]{}<>-–—…'\"“”‘’«»/\\|@#$%^&*_+=~`¿¡§°€£¥©®™×÷±")
EMOJI = ["😀", "😂", "❤️", "👍", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "🇯🇵", "1️⃣", "🤷🏿‍♀️", "☃", "♥", "🎉", "🦊", "✈️"]
SPACES = [" ", "  ", "   ", "    ", "\t", "\n", "\n\n", "\r\n", "\r", " \n", "\n ", "\t\t", "\v", "\f", "\u0085", "\u00a0",
          "\u1680", "\u180e", "\u2003", "\u2009", "\u200a", "\u200b", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000",
          "\ufeff", " \u00a0 ", "      ", "\n\n\n\n", "\x1c", "\x1f"]
DIGITS = ["0", "1", "7", "12", "123", "1234", "12345", "1234567890", "3.14", "1,000,000", "٣٤٥", "१२३", "四二", "½", "²³", "Ⅷ", "①②", "𝟘𝟙", "৪৫৬৭"]
MARKS = ["e\u0301", "a\u0308\u0304", "n\u0303o", "o\u0323\u0302", "o\u0302\u0323", "\u0301", "q\u0307\u0323", "A\u030a", "\u212b", "\u1100\u1161\u11a8",
         "\uac00\u11a8", "\u0915\u093c", "\u0958", "\u0344", "\u1e9b\u0323", "s\u0323\u0307", "Z\u0335\u0321\u0353\u0354", "\ufb01", "\u2126", "\u0340",
         "\u05e9\u05bc\u05c1", "\u0627\u0653", "i\u0307", "\u0f71\u0f72\u0f74", "\U0001d15e"]
CONTRACTION_BAIT = ["'s", "'S", "'t", "'T", "'re", "'RE", "'rE", "'ve", "'m", "'ll", "'LL", "'lL", "'d", "'D", "'\u017f", "'x", "''s", "’s", "'", "'l", "'v"]
SPECIAL = ["<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>",
           "<|end_of_text|>", "<think>", "</think>", "<tool_call>", "<tool>", "<|tool|>", "<|", "|>", "<|im_start", "<0x41>", "<0x0A>", "[INST]", "[/INST]",
           "<|reserved_special_token_1|>", "<|reserved_special_token_10|>"]


def lexicon(rng, alphabet, count):
    return ["".join(rng.choice(alphabet) for _ in range(rng.choice((1, 2, 3, 3, 4, 5, 6, 7, 9)))) for _ in range(count)]


class Maker:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        lexicons = random.Random(1)  # the same words whatever the seed
        self.words = {name: lexicon(lexicons, letters, 160) for name, letters in SCRIPTS.items()}
        self.words["english"] = ENGLISH

    def word(self, script):
        words = self.words[script]
        word = words[min(int(self.rng.paretovariate(0.7)) - 1, len(words) - 1)]
        roll = self.rng.random()
        return word.capitalize() if roll < 0.1 else word.upper() if roll < 0.13 else word

    def sentence(self, script, length):
        gap = "" if script in ("han", "kana", "thai") else " "
        text = gap.join(self.word(script) for _ in range(length))
        return text + self.rng.choice((".", ".", "?", "!", ",", "", "。"))

    def random_character(self):
        """Any assigned character that has been in Unicode for long, so that no library's tables differ."""
        ranges = ((0x00, 0x7f), (0x80, 0x24f), (0x250, 0x36f), (0x391, 0x3a1), (0x400, 0x52f), (0x5d0, 0x5ea), (0x621, 0x64a),
                  (0x905, 0x939), (0xe01, 0xe3a), (0x10d0, 0x10f0), (0x1100, 0x1159), (0x1e00, 0x1e9b), (0x1f00, 0x1f15),
                  (0x2000, 0x2064), (0x20a0, 0x20ac), (0x2100, 0x2138), (0x2150, 0x2188), (0x2190, 0x23f3), (0x2460, 0x24ff), (0x2500, 0x26ff),
                  (0x3000, 0x3096), (0x30a1, 0x30fe), (0x3400, 0x4db5), (0x4e00, 0x9fa5), (0xac00, 0xd7a3), (0xe000, 0xe010),
                  (0xf900, 0xfa2d), (0xfb00, 0xfb06), (0xfe20, 0xfe23), (0xff01, 0xff5e), (0xfffc, 0xfffd), (0x10300, 0x1031e), (0x10400, 0x1044f),
                  (0x1d100, 0x1d126), (0x1d400, 0x1d454), (0x1f300, 0x1f320), (0x1f600, 0x1f640), (0x20000, 0x2a6d6), (0xe0100, 0xe01ef), (0x100000, 0x100010))
        low, high = self.rng.choice(ranges)
        return chr(self.rng.randint(low, high))

    def fragment(self):
        rng = self.rng
        kind = rng.randrange(14)
        if kind < 3:
            return self.sentence(rng.choice(list(self.words)), rng.randint(1, 6))
        if kind == 3:
            return self.sentence("english", rng.randint(1, 10))
        if kind == 4:
            return rng.choice(CODE) + rng.choice(("", "\n"))
        if kind == 5:
            return "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 4)))
        if kind == 6:
            return rng.choice(DIGITS)
        if kind == 7:
            return rng.choice(EMOJI) * rng.choice((1, 1, 2))
        if kind == 8:
            return "".join(rng.choice(MARKS) for _ in range(rng.randint(1, 3)))
        if kind == 9:
            return "".join(rng.choice(PUNCTUATION) for _ in range(rng.randint(1, 4)))
        if kind == 10:
            return "".join(self.random_character() for _ in range(rng.randint(1, 6)))
        if kind == 11:
            return self.word("english") + rng.choice(CONTRACTION_BAIT)
        if kind == 12:
            return rng.choice((" ", "\n", " ")) * rng.randint(1, 12)
        return "".join(chr(rng.randint(0, 0x1f)) for _ in range(rng.randint(1, 3)))

    def text(self):
        return "".join(self.fragment() + self.rng.choice(("", "", " ", "\n"))
                       for _ in range(self.rng.choice((1, 1, 2, 2, 3, 4, 5))))

    def text_with_specials(self):
        parts = [self.rng.choice((self.fragment(), self.rng.choice(SPECIAL), self.rng.choice(SPECIAL)))
                 for _ in range(self.rng.randint(1, 6))]
        return self.rng.choice(("", "", " ")).join(parts + [self.rng.choice(SPECIAL)])

    def training_lines(self, count):
        for _ in range(count):
            roll = self.rng.random()
            if roll < 0.5:
                yield self.sentence("english", self.rng.randint(3, 12))
            elif roll < 0.62:
                yield self.rng.choice(CODE)
            elif roll < 0.9:
                yield self.sentence(self.rng.choice(LIGHT), self.rng.randint(2, 8))
            else:
                yield self.text()


def test_texts(seed, plain, with_specials):
    """Pairs of a text and whether control tokens in it are parsed."""
    maker = Maker(seed)
    edge = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "a", " a", "a ", "  a", "a  b", "a   b  ", " \n a", "a \n", "\n\n a", "1", " 1", "  1", "12 345  6",
            "'", "'s", " 's", "é", "e\u0301", "\u0301", "▁", "▁▁a", "a▁b", "\0", "\0\0a", "Hello, world!", "hello  \n  world\n\n\n", "x" * 200, "ab" * 150, " " * 120,
            "\n" * 60, "=" * 90, "1234567890" * 12, "é" * 70, "漢字" * 60, "a " * 60, " \n" * 40, "'s" * 40, "👍🏽" * 20, "a useword Number xxxx étre", "userword\nNumber Numbers"]
    pairs = [(text, False) for text in edge]
    pairs += [(maker.text(), False) for _ in range(plain - len(edge))]
    pairs += [(maker.text_with_specials(), i % 2 == 0) for i in range(with_specials)]
    return pairs


def stored():
    """The texts of texts.bin, which generate.py has written: for each whether control tokens in it are parsed, its length
    and its bytes."""
    data, at, found = (pathlib.Path(__file__).parent / "texts.bin").read_bytes(), 0, []

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte, at = data[at], at + 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        varint()
        size = varint()
        found.append(data[at:at + size].decode())
        at += size
    return found
