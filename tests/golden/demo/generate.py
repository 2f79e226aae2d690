#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes greedy.json: what models/demo.gguf continues greedily, by PyTorch in float32.

The weights are dequantised from the file: an engine with f32 activations must agree. Each case
has the text, its token ids and 64 greedy ids; "margins" is the distance of the two largest
logits at each step, so that a test can tell a wrong engine from a near tie.
"""
import argparse
import json
import os
import re
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tools", "demo_model"))

import chat  # noqa: E402
import evaluate  # noqa: E402

PROMPTS = [
    evaluate.chat_prompt("Tell me a story about a brave mouse named Pepper."),
    evaluate.chat_prompt("Anna has a red ball. Ben has a blue kite. Who has the kite?"),
    chat.BOS + "Once upon a time",
]


def greedy(model, ids, count):
    caches, out, margins, piece = [[None, None] for _ in model.blk], [], [], list(ids)
    for _ in range(count):
        at = len(ids) + len(out) - len(piece)
        with torch.no_grad():
            logits = model(torch.tensor([piece]), at, caches)[0, -1]
        best, second = logits.topk(2).values.tolist()
        margins.append(round(best - second, 4))
        piece = [int(logits.argmax())]
        out += piece
    return out, margins


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=os.path.join(ROOT, "models", "demo.gguf"))
    args = parser.parse_args()
    model, tokenizer = evaluate.load(args.model)
    cases = []
    for prompt in PROMPTS:
        ids = tokenizer.encode(prompt).ids
        out, margins = greedy(model, ids, 64)
        text = tokenizer.decode(out, skip_special_tokens=False)
        cases.append({"prompt": prompt, "ids": ids, "greedy": out, "margins": margins, "text": text})
    text = json.dumps({"model": "models/demo.gguf", "cases": cases}, indent=1)
    # Lists of numbers on one line each.
    text = re.sub(r"\[\s+([-\d.,\s]+?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text)
    with open(os.path.join(HERE, "greedy.json"), "w") as file:
        file.write(text + "\n")


if __name__ == "__main__":
    main()
