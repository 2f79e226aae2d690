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


def split_then_bytes(pattern):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])


def pre_tokenizer(name):
    by_regex = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return {
        "llama-bpe": lambda: split_then_bytes(LLAMA3),
        "qwen2": lambda: split_then_bytes(QWEN2),
        "tekken": lambda: split_then_bytes(TEKKEN),
        "gpt-2": lambda: by_regex,
        "smollm": lambda: pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), by_regex]),
    }[name]()


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


def load(path):
    reader = GGUFReader(path)
    pieces, types = field(reader, "tokens"), field(reader, "token_type")
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
        if pre == "qwen2":
            tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizer(pre)
        tokenizer.decoder = decoders.ByteLevel()
    for piece, kind in zip(pieces, types):
        if kind in (CONTROL, UNKNOWN):
            tokenizer.add_special_tokens([AddedToken(piece, special=True, normalized=False)])
        elif kind == USER_DEFINED:
            tokenizer.add_tokens([AddedToken(piece, special=False, normalized=False)])
    return tokenizer
