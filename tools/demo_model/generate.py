#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes documents of the demo model's world, one JSON object per line.

Document number i of a split is a function of (split, i) alone. The held-out split has seeds of
its own, one in eight of the names its readers ask for never occurs in training, and a training
document that equals a held-out one is dropped.
"""

import argparse
import hashlib
import json
import random

import chat

HELD_OUT = 4000  # documents of the held-out split that training is checked against


def digest(text):
    return hashlib.blake2b(text.encode(), digest_size=8).digest()


def document(split, index):
    held_out = split != "train"
    return chat.document(random.Random(f"weft demo {split} {index}"), held_out)


def held_out_digests(count=HELD_OUT):
    return {digest(document("held-out", i)[0]) for i in range(count)}


def documents(split, start, count, avoid=frozenset()):
    """Yields (text, probes), without repetitions inside the range and without those in `avoid`."""
    seen = set(avoid)
    for index in range(start, start + count):
        text, probes = document(split, index)
        mark = digest(text)
        if mark not in seen:
            seen.add(mark)
            yield text, probes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", default="train", choices=["train", "held-out"])
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--plain", action="store_true", help="text instead of JSON")
    args = parser.parse_args()
    for text, probes in documents(args.split, args.start, args.count):
        print(text + "\n" if args.plain else json.dumps({"text": text, "probes": probes}))


if __name__ == "__main__":
    main()
