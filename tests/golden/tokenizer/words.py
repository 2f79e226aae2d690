# SPDX-License-Identifier: MIT
"""Writes words.bin: where the pre-tokenizers of oracle.py cut the texts of texts.bin.

    pip install gguf tokenizers xxhash && python3 words.py

For each name: its length and bytes, then for every eight texts the XXH32 of the byte offsets at which words end, each as four
bytes, lowest first, with a zero behind each text.
"""
import pathlib

import xxhash

import oracle
import texts

HERE = pathlib.Path(__file__).parent
GROUP = 8


def ends(splitter, text):
    out, offset = b"", 0
    for word, _ in splitter.pre_tokenize_str(text):
        offset += len(word.encode())
        out += offset.to_bytes(4, "little")
    assert offset == len(text.encode())
    return out + bytes(4)


def main():
    kept, out = texts.stored(), bytearray()
    for name in oracle.STAGES:
        splitter = oracle.words(name)
        out += bytes([len(name)]) + name.encode()
        for first in range(0, len(kept), GROUP):
            out += xxhash.xxh32(b"".join(ends(splitter, text) for text in kept[first:first + GROUP])).intdigest().to_bytes(4, "little")
    (HERE / "words.bin").write_bytes(out)
    print(f"{len(oracle.STAGES)} pre-tokenizers, {len(kept)} texts, {len(out)} bytes")


if __name__ == "__main__":
    main()
