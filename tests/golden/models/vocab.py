# SPDX-License-Identifier: MIT
"""Small complete vocabularies of 320 tokens, so that the golden models are whole GGUF files."""

import gguf

SIZE = 320


def byte_characters():
    """GPT-2's printable character for every byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    table = {b: chr(b) for b in printable} | {b: chr(256 + i) for i, b in enumerate(others)}
    return [table[b] for b in range(256)]


def byte_level(writer, pre):
    specials = ["<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>"]
    tokens, merges = byte_characters(), []
    letters = "Ġetaoinshrdlu"
    for left in letters:
        for right in letters[1:]:
            if len(tokens) < SIZE - len(specials):
                merges.append(f"{left} {right}")
                tokens.append(left + right)
    types = [gguf.TokenType.NORMAL] * len(tokens) + [gguf.TokenType.CONTROL] * len(specials)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens + specials)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(SIZE - 4)
    writer.add_eos_token_id(SIZE - 3)
    writer.add_add_bos_token(pre == "llama-bpe")


def sentencepiece(writer):
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    types = [gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.BYTE] * 256
    scores = [0.0] * len(tokens)
    pieces = ["▁t", "he", "▁the", "in", "er", "an", "▁a", "on", "re", "▁s", "at", "nd", "▁and"]
    pieces += ["▁", *"etaoinsrhldcumfpgwybvkxjqz", *"ETAOINSRHLDCUMFPG", *".,!?"]
    assert len(tokens) + len(pieces) == SIZE
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens + pieces)
    writer.add_token_scores(scores + [-float(i) for i in range(len(pieces))])
    writer.add_token_types(types + [gguf.TokenType.NORMAL] * len(pieces))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(True)
