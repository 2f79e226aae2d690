#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Judges an exported model as anybody would run it: weights from the GGUF file, in float32.

Held-out loss, answers to questions about held-out stories (with names that training never
saw), requests honoured, and samples.
"""

import argparse
import json
import random
import re

import gguf
import torch
import torch.nn.functional as F
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import asking
import chat
import generate
from model import Config, Llama

PROMPTS = [
    "Tell me a story about a brave mouse named Pepper.",
    "Tell me a story about an owl who lives in a lighthouse.",
    "Tell me a story about a robot and a red kite.",
    "Once upon a time",
    "Hello!",
    "What is the capital of France?",
]


def load(path):
    """Returns (model, tokenizer) from a GGUF file alone."""
    reader = gguf.GGUFReader(path)

    def field(name):
        return reader.get_field(name).contents()

    a = "llama."
    config = Config(
        vocab=field(a + "vocab_size"),
        dim=field(a + "embedding_length"),
        layers=field(a + "block_count"),
        heads=field(a + "attention.head_count"),
        kv_heads=field(a + "attention.head_count_kv"),
        ffn=field(a + "feed_forward_length"),
        context=field(a + "context_length"),
        rope_base=field(a + "rope.freq_base"),
        eps=field(a + "attention.layer_norm_rms_epsilon"),
    )
    model = Llama(config)
    model.load_state_dict(
        {
            t.name: torch.from_numpy(gguf.quants.dequantize(t.data, t.tensor_type).copy())
            for t in reader.tensors
        }
    )
    tokens = field("tokenizer.ggml.tokens")
    merges = [tuple(m.split(" ")) for m in field("tokenizer.ggml.merges")]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(t, special=True) for t in (chat.BOS, chat.START, chat.END)]
    )
    return model.eval(), tokenizer


def chat_prompt(user):
    return f"{chat.BOS}{chat.START}user\n{user}{chat.END}\n{chat.START}assistant\n"


class Judge:
    def __init__(self, path, device):
        self.model, self.tokenizer = load(path)
        self.model.to(device)
        self.device = device
        self.stop = self.tokenizer.token_to_id(chat.END)

    def answer(self, prompt, count=48, temperature=0.0, seed=0):
        ids = self.tokenizer.encode(prompt).ids
        return self.tokenizer.decode(self.model.generate(ids, count, self.stop, temperature, seed))

    def loss(self, documents):
        total = tokens = 0
        for text, _ in generate.documents("held-out", 0, documents):
            ids = torch.tensor([self.tokenizer.encode(text).ids], device=self.device)
            with torch.no_grad():
                total += float(
                    F.cross_entropy(self.model(ids[:, :-1])[0], ids[0, 1:], reduction="sum")
                )
            tokens += ids.shape[1] - 1
        return total / tokens

    def questions(self, count, show=0):
        """Shares of answers that contain the key, and that equal the expected sentence."""
        rng = random.Random(7)
        probes = [p for _, ps in generate.documents("held-out", 1000, count) for p in ps]
        rng.shuffle(probes)
        keyed = exact = 0
        for prompt, answer, key in probes[:count]:
            got = self.answer(prompt)
            right = re.search(r"\b" + re.escape(key.lower()) + r"\b", got.lower()) is not None
            keyed += right
            exact += got == answer
            if not right and show > 0:
                show -= 1
                question = prompt.rsplit(f"{chat.START}user\n", 1)[1].split(chat.END)[0]
                print(f"  wrong: {question[-90:]!r}: {got!r}, not {answer!r}")
        return keyed / count, exact / count

    def requests(self, count):
        """Share of requested names, kinds, things and places that the story mentions."""
        good = total = 0
        for i in range(count):
            words, want = asking.request(random.Random(f"request {i}"), True)
            story = self.answer(chat_prompt(words), 400)
            parts = [
                want[k]
                for k in ("name", "kind", "friend_kind", "friend_name", "thing")
                if k in want
            ]
            parts += [want["place"][1]] if "place" in want else []
            good += sum(part in story for part in parts)
            total += len(parts)
        return good / total


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--samples", action="store_true")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    judge = Judge(args.model, args.device)
    if args.samples:
        for prompt in PROMPTS:
            for temperature, seed in ((0.0, 0), (0.7, 1), (0.7, 2)):
                print(
                    f"--- {prompt!r} temperature {temperature} seed"
                    f" {seed}\n{judge.answer(chat_prompt(prompt), 400, temperature, seed)}\n"
                )
    result = {"parameters": sum(p.numel() for p in judge.model.parameters())}
    result["held_out_loss"] = round(judge.loss(args.documents), 4)
    result["answers_with_key"], result["answers_exact"] = judge.questions(args.questions, show=12)
    result["requests_honoured"] = round(judge.requests(args.requests), 4)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
