# SPDX-License-Identifier: MIT
"""Holds what weft makes of a tokenizer.json against the `tokenizers` package, for the ways in which families cut text.

    pip install tokenizers && python3 tests/golden/tokenizer/folders.py build/release/weft [NAME...]

For each way a vocabulary is trained on texts.bin, put beside the tensors of ../checkpoints/qwen3_mlx, and all 5,200 texts, with a control
token between them, are encoded by both. Nothing of it is committed.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

import texts

HERE = pathlib.Path(__file__).parent
FOLDER = HERE.parent / "checkpoints" / "qwen3_mlx"
BREAK = "<|break|>"
CASED = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s|" \
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s|"  # fmt: skip
ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
WORDS = ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|"


def split(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def sequence(*stages, gpt_2=False):
    return pre_tokenizers.Sequence([*stages, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=gpt_2)])


# name: (how text is cut, normaliser, ignore_merges)
WAYS = {
    "llama-bpe": (sequence(split(WORDS + r"\p{N}{1,3}|" + TAIL)), None, True),
    "glm4": (sequence(split(WORDS + r"\p{N}{1,3}|" + TAIL)), None, False),
    "qwen2-whole": (sequence(split(WORDS + r"\p{N}|" + TAIL)), normalizers.NFC(), True),
    "gpt-4o": (sequence(split(CASED % (ENDINGS + "?", ENDINGS + "?") + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")),
               None, False),
    "tiny_aya": (sequence(split(r"\d{1,3}(?=(?:\d{3})*\b)"), split(
        CASED % (ENDINGS + "?", ENDINGS + "?") + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")), None, False),
    "superbpe": (sequence(split(r"\p{N}+"), split(r"(?=(\d{3})+(?!\d))")), None, False),
    "empty": (sequence(split(r"(?=\p{Lu})"), split(r"(?=(\d{2})+(?!\d))|\s+")), None, False),
    "tekken-composed": (sequence(split(CASED % ("", "") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")),
                        normalizers.NFC(), True),
    "deepseek-v3": (sequence(
        split(r"\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"),
        split(r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")),
        None, False),
    "deepseek-coder": (sequence(
        split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[一-龥\u0800-一가-\ud7ff]+"), pre_tokenizers.Digits(True)),
        None, False),
    "starcoder": (sequence(pre_tokenizers.Digits(True), gpt_2=True), None, False),
    "gpt-2": (sequence(gpt_2=True), None, False),
    "modern-bert": (sequence(gpt_2=True), normalizers.NFC(), False),
    "punctuation": (sequence(pre_tokenizers.Punctuation("contiguous"), split(r"\d{2}"), gpt_2=True), None, False),
    "line-ends": (sequence(split(r"\p{Hiragana}+|\p{Katakana}+"), split(r"\s+$|\p{L}+$|\p{N}{1,3}"), gpt_2=True), None, False),
    "single": (sequence(pre_tokenizers.Punctuation("isolated"), split(r"\p{Han}+"), split(r"\s+")), None, False),
}  # fmt: skip


def train(way, kept):
    pre, normalizer, whole = WAYS[way]
    tok = Tokenizer(models.BPE(ignore_merges=whole))
    tok.pre_tokenizer, tok.decoder = pre, decoders.ByteLevel()
    if normalizer:
        tok.normalizer = normalizer
    tok.train_from_iterator(kept, trainers.BpeTrainer(
        vocab_size=3000, special_tokens=[BREAK], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))  # fmt: skip
    return tok


def compare(way, weft, kept, folder):
    tok = train(way, kept)
    tok.save(f"{folder}/tokenizer.json")
    joined = BREAK.join(kept)
    pathlib.Path(folder, "texts").write_text(joined, newline="")
    command = [weft, "tokenize", folder, "-f", f"{folder}/texts", "--special", "--no-bos", "--ids"]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    if out.returncode:
        return out.stderr.strip()
    ids, want = [int(i) for i in out.stdout.split(",")], tok.encode(joined).ids
    if ids == want:
        return f"{len(ids)} ids agree"
    at = next((n for n, pair in enumerate(zip(ids, want)) if pair[0] != pair[1]), min(len(ids), len(want)))
    return f"DIFFER at {at}: {[tok.id_to_token(i) for i in ids[at - 3 : at + 5]]} {[tok.id_to_token(i) for i in want[at - 3 : at + 5]]}"


def main():
    kept = [t for t in texts.stored() if BREAK not in t]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("config.json", "model.safetensors", "tokenizer_config.json"):
            shutil.copy(FOLDER / name, folder)
        for way in sys.argv[2:] or WAYS:
            print(f"{way}: {compare(way, sys.argv[1], kept, folder)}", flush=True)


if __name__ == "__main__":
    main()
