#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the byte-level BPE tokenizer (GPT-2 pre-tokenizer) and writes tokenizer.json."""

import argparse

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import chat
import generate

SPECIALS = [chat.BOS, chat.START, chat.END]  # ids 0, 1, 2
VOCAB = 4096
# Characters of ordinary prompts: without them a reader's words would fall into rare byte pieces.
EXTRA = (
    "The quick brown fox jumps over the lazy dog. What is the answer? I don't know, it's"
    " 0123456789! (Yes) & no; a-b 'c' \"d\": #1, $2, 50%\n"
)


def train(documents, vocab=VOCAB):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=SPECIALS,
        show_progress=False,
        min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )

    def texts():
        for text, _ in generate.documents("train", 0, documents):
            for special in SPECIALS:
                text = text.replace(special, "\n")
            yield text
        for _ in range(20):
            yield EXTRA

    tokenizer.train_from_iterator(texts(), trainer)
    return tokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=20000)
    parser.add_argument("--out", default="tokenizer.json")
    args = parser.parse_args()
    tokenizer = train(args.documents)
    tokenizer.save(args.out)
    print(f"{tokenizer.get_vocab_size()} tokens -> {args.out}")


if __name__ == "__main__":
    main()
