# SPDX-License-Identifier: MIT
"""Writes corpus/tokenizer and corpus/chat: pip install gguf && python3 tests/fuzz/seeds_tokenizer.py"""
import pathlib
import tempfile

from gguf import GGUFWriter

HERE = pathlib.Path(__file__).parent
TEXTS = [
    "the abab  a 12 345\n\n it's WE'LL", "<s>x<s> <|im_end|>", "e\u0301 a\u0308\u0323 漢字 \u00a0\u3000", "a b a  b", "👩‍👩‍👧 ▁▁a",
]
INVALID = b"ab\xff\xc3 \xe2\x96 \xed\xa0\x80 \xf0\x9f\x98"


def tiny_gguf(model):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tiny.gguf"
        writer = GGUFWriter(path, "llama")
        writer.add_tokenizer_model(model)
        writer.add_token_list(["<unk>", "<s>", "a", "b", "ab", "<0x41>"])
        writer.add_token_types([2, 3, 1, 1, 1, 6] if model in ("llama", "t5") else [2, 3, 1, 1, 1, 5])
        if model in ("llama", "t5"):
            writer.add_token_scores([0.0, 0.0, -1.0, -2.0, -0.5, 0.0])
        if model == "t5":
            writer.add_precompiled_charsmap((256).to_bytes(4, "little") + bytes(range(256)) + b"a\0bc\0")
            writer.add_remove_extra_whitespaces(True)
        if model == "gpt2":
            writer.add_tokenizer_pre("gpt-2")
            writer.add_token_merges(["a b"])
        writer.add_bos_token_id(1)
        writer.add_unk_token_id(0)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def vocabulary(choice, pre):
    """A vocabulary in the shape that fuzz_tokenizer.c reads, with all bytes, two pieces and a merge."""
    pieces = bytes([2, 0x14]) + b"<ab>" + bytes([0x43]) + b"tag"
    return bytes([192, choice, pre, 0, 1]) + pieces + bytes([2, 97, 98, 98, 97]) + b"abba <ab> tag"


def write(folder, seeds):
    target = HERE / "corpus" / folder
    target.mkdir(parents=True, exist_ok=True)
    for name, data in seeds.items():
        (target / name).write_bytes(data)


def main():
    seeds = {f"text_{i}": bytes([i]) + (TEXTS + [INVALID.decode("latin-1")])[i].encode() for i in range(6)}
    seeds |= {f"invalid_{i}": bytes([12 + i]) + INVALID for i in range(6)}
    seeds |= {f"vocabulary_{i}": vocabulary(2 + i, i) for i in range(4)}
    seeds |= {f"vocabulary_unigram_{i}": vocabulary(7, 128 + i) for i in range(2)}
    seeds |= {"vocabulary_charsmap": bytes([192, 7, 160, 4]) + bytes(range(16)) + bytes([3, 97, 0, 98]) + vocabulary(7, 160)[3:]}
    seeds |= {"vocabulary_wordpiece": vocabulary(5, 200)}
    seeds |= {f"file_{model}": bytes([240]) + tiny_gguf(model) for model in ("llama", "gpt2", "bert", "t5")}
    write("tokenizer", seeds)
    chats = {}
    for path in sorted((HERE.parent / "golden" / "chat").glob("*.jinja")):
        text = path.read_bytes()
        chats[path.stem] = bytes([len(text) >> 8, len(text) & 255, 13]) + text + b"<|im_end|>a<s> b</think>c<|eot_id|>"
    write("chat", chats)


if __name__ == "__main__":
    main()
