# SPDX-License-Identifier: MIT
"""Builds the `tokenizers` package's tokenizer from a vocabulary-only GGUF file: the oracle of the golden ids.

The components are those of the models' own tokenizer.json files.
"""
from gguf import GGUFReader
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + TAIL
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + TAIL
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
TEKKEN = (rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*|\p{{N}}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
WHOLE_PIECES = ("llama-bpe", "tekken")  # a word that is a piece is not split
COMPOSED = ("qwen2", "qwen35", "command-r", "mpt")  # NFC first
ALIASES = {"command-r": "smollm", "mpt": "gpt-2", "refact": "smollm", "starcoder": "smollm"}


GPT_2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
EAST_ASIAN = "[一-龥ࠀ-一가-퟿]+"
DEEPSEEK_LETTERS = "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃"
SYMBOL_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"

DEEPSEEK_3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+""")
GPT_4O = (rf"[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]*[{LOWER}]+{CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}]+[{LOWER}]*{CONTRACTIONS}?"
          r"|\p{N}{1,3}" + SYMBOL_TAIL)
POWERS = "|".join(rf"\s{{{1 << n}}}(?!\S)" for n in range(9, 1, -1)) + r"|\s{1,2}(?!\S)|\s{1}"

# What tokenizer.json files have: patterns that cut one after the other.
STAGES = {
    "llama-bpe": [LLAMA3], "dbrx": [LLAMA3], "glm4": [LLAMA3], "qwen2": [QWEN2], "stablelm2": [QWEN2], "tekken": [TEKKEN],
    "qwen35": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "gpt-4o": [GPT_4O], "granite-embed-multi-97m": [GPT_4O], "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", GPT_4O],
    "youtu": ["[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+", GPT_4O.replace("{1,3}", "")],
    "jais-2": [LLAMA3.replace(r"|\s+(?!\S)|\s+", "|" + POWERS)],
    "minicpm5": [r"\p{N}{1,3}", LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+")],
    "laguna": [r"[^\n]+|[\n]+", QWEN2], "ufakzeka": [QWEN2.removeprefix(CONTRACTIONS + "|")],
    "chameleon": ["<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", "([\\t\\n]|    |  )", r"\p{N}", r"[\p{P}!-/:-@\[-`{-~]", GPT_2],
    "superbpe": [r"\p{N}+", r"(?=(\d{3})+(?!\d))"],
    "spark2_5": [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_3 + r"|[\r\n]|\s+(?!\S)|\s+", r"\p{N}"],
    "afmoe": [r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
              "[一-鿿㐀-䶿\uf900-\ufaff぀-ゟ゠-ヿ･-ﾟ⼀-\u2fdf\u0e40-\u0e7f\u0e80-\u0effក-\u17ffက-႟ꩠ-ꩿꧠ-\ua9ff가-\ud7afᄀ-ᇿ]+",
              DEEPSEEK_3 + r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "kimi-k2": [rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}&&[^\p{{Han}}]]*[{LOWER}&&[^\p{{Han}}]]+{CONTRACTIONS}?"
                rf"|[^\r\n\p{{L}}\p{{N}}]?[{UPPER}&&[^\p{{Han}}]]+[{LOWER}&&[^\p{{Han}}]]*{CONTRACTIONS}?|\p{{N}}{{1,3}}" + TAIL],
    "gpt-2": [GPT_2], "roberta-bpe": [GPT_2], "smollm": [r"\p{N}", GPT_2], "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT_2, "[0-9][0-9][0-9]"],
    "deepseek-llm": ["[\r\n]", rf"\s?[{DEEPSEEK_LETTERS}]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", EAST_ASIAN, r"\p{N}+"],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST_ASIAN, r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_3 + r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    "seed-coder": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "exaone-moe": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"],
    "bloom": [BLOOM], "viking": [BLOOM, r"\p{N}"],
}


def words(name):
    """Cuts text into words, without turning their bytes into characters."""
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in STAGES[name]])


def pre_tokenizer(name):
    name = ALIASES.get(name, name)
    if name in ("gpt-2", "smollm"):  # as their files have it
        by_regex = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        digits = [pre_tokenizers.Digits(individual_digits=True)] if name == "smollm" else []
        return pre_tokenizers.Sequence(digits + [by_regex])
    return pre_tokenizers.Sequence([words(name), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def field(reader, name, default=None):
    found = reader.fields.get("tokenizer.ggml." + name)
    return default if found is None else found.contents()


def merges_of_scores(pieces, scores, types):
    """Every split of a piece into two pieces, best score first, as transformers converts SentencePiece models."""
    ids = {piece: i for i, piece in enumerate(pieces)}
    merges = []
    for piece, score, kind in zip(pieces, scores, types):
        if kind != NORMAL:
            continue
        local = [(piece[:i], piece[i:]) for i in range(1, len(piece))
                 if piece[:i] in ids and piece[i:] in ids]
        local.sort(key=lambda pair: (ids[pair[0]], ids[pair[1]]))
        merges.extend((score, pair) for pair in local)
    merges.sort(key=lambda entry: entry[0], reverse=True)
    return [pair for _, pair in merges]


def load_wordpiece(pieces, types):
    """Undoes what the converter does; an uncased vocabulary has no capital letter outside of brackets."""
    bracketed = [piece.startswith("[") and piece.endswith("]") for piece in pieces]
    written = [piece if plain else piece[1:] if piece.startswith("▁") else "##" + piece for piece, plain in zip(pieces, bracketed)]
    lowercase = all(plain or piece == piece.lower() for piece, plain in zip(pieces, bracketed))
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(written)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens([AddedToken(p, special=True, normalized=False) for p, t in zip(pieces, types) if t == CONTROL])
    return tokenizer


def load(path):
    reader = GGUFReader(path)
    pieces, types = field(reader, "tokens"), field(reader, "token_type")
    if field(reader, "model") == "bert":
        return load_wordpiece(pieces, types)
    vocab = {piece: i for i, piece in enumerate(pieces)}
    if field(reader, "model") == "llama":
        merges = merges_of_scores(pieces, field(reader, "scores"), types)
        tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True,
                                         byte_fallback=BYTE in types))
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer.decoder = decoders.Sequence([
            decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
            decoders.Strip(content=" ", left=1)])
    else:
        pre = field(reader, "pre")
        merges = [tuple(merge.split(" ")) for merge in field(reader, "merges")]
        tokenizer = Tokenizer(models.BPE(vocab, merges, ignore_merges=pre in WHOLE_PIECES))
        if pre in COMPOSED:
            tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizer(pre)
        tokenizer.decoder = decoders.ByteLevel()
    for piece, kind in zip(pieces, types):
        if kind in (CONTROL, UNKNOWN):
            tokenizer.add_special_tokens([AddedToken(piece, special=True, normalized=False)])
        elif kind == USER_DEFINED:
            tokenizer.add_tokens([AddedToken(piece, special=False, normalized=False)])
    return tokenizer
