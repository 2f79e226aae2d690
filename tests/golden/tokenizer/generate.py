# SPDX-License-Identifier: MIT
"""Writes the vocabularies (*.gguf), the texts (texts.bin) and the ids that the `tokenizers` package gives (*.ids).

    pip install gguf tokenizers sentencepiece && python3 generate.py

README.md has the layouts. Everything follows from seeds; another version of a package may train another vocabulary.
"""
import io
import json
import pathlib

import sentencepiece
from gguf import GGUFWriter
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import oracle
import texts
from oracle import CONTROL, NORMAL, UNKNOWN, USER_DEFINED

HERE = pathlib.Path(__file__).parent
TRAINING_LINES = 12000


def write_gguf(name, pieces, types, model, pre=None, scores=None, merges=None, **ids):
    writer = GGUFWriter(HERE / f"{name}.gguf", "llama")
    writer.add_tokenizer_model(model)
    if pre:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(pieces)
    writer.add_token_types(types)
    if scores is not None:
        writer.add_token_scores(scores)
    if merges is not None:
        writer.add_token_merges(merges)
    for key, value in ids.items():
        writer.add_uint32(f"tokenizer.ggml.{key}_token_id", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def train_sentencepiece(name, size, byte_fallback, split_by_whitespace):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts.Maker(2).training_lines(TRAINING_LINES)), model_writer=model, vocab_size=size, model_type="bpe",
        normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=True, byte_fallback=byte_fallback,
        split_by_whitespace=split_by_whitespace, split_digits=True, allow_whitespace_only_pieces=True, character_coverage=0.995,
        max_sentencepiece_length=16, control_symbols=["<|im_start|>", "<|im_end|>"], user_defined_symbols=["<tool>"],
        num_threads=1, minloglevel=2)
    spm = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    count = spm.get_piece_size()
    types = []
    for i in range(count):
        piece = spm.id_to_piece(i)
        types.append(UNKNOWN if spm.is_unknown(i) else CONTROL if spm.is_control(i) else oracle.BYTE if spm.is_byte(i)
                     else USER_DEFINED if piece == "<tool>" else NORMAL)
    write_gguf(name, [spm.id_to_piece(i) for i in range(count)], types, "llama", scores=[spm.get_score(i) for i in range(count)],
               bos=spm.bos_id(), eos=spm.eos_id(), unknown=spm.unk_id())


def train_byte_level(name, size, special, user_defined=(), unmergeable=(), **ids):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = oracle.pre_tokenizer(name)
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts.Maker(3).training_lines(TRAINING_LINES), trainer)
    trained = tokenizer.get_vocab()
    pieces = sorted(trained, key=trained.get)
    model = json.loads(tokenizer.to_str())["model"]
    types = [NORMAL] * len(pieces)
    for extra, kind in ((unmergeable, NORMAL), (special, CONTROL), (user_defined, USER_DEFINED)):
        pieces += extra
        types += [kind] * len(extra)
    write_gguf(name, pieces, types, "gpt2", pre=name, merges=[" ".join(pair) for pair in model["merges"]],
               **{key: pieces.index(piece) for key, piece in ids.items()})


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_ids(name, pairs):
    tokenizer = oracle.load(HERE / f"{name}.gguf")
    out = bytearray()
    for text, parse in pairs:
        tokenizer.encode_special_tokens = not parse
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        out += varint(len(ids)) + b"".join(map(varint, ids))
    (HERE / f"{name}.ids").write_bytes(out)
    print(f"{name}: {len(pairs)} texts, {len(out)} bytes")


def main():
    train_sentencepiece("llama", 3000, byte_fallback=True, split_by_whitespace=True)
    train_sentencepiece("llama-unk", 1200, byte_fallback=False, split_by_whitespace=False)
    train_byte_level("gpt-2", 2500, ["<|endoftext|>"], bos="<|endoftext|>", eos="<|endoftext|>")
    train_byte_level("smollm", 2500, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], bos="<|im_start|>", eos="<|im_end|>")
    train_byte_level("qwen2", 2500, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], ["<think>", "</think>", "<tool_call>"],
                     eos="<|im_end|>", padding="<|endoftext|>")
    reserved = [f"<|reserved_special_token_{i}|>" for i in range(12)]
    train_byte_level("llama-bpe", 2500, ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
                                         "<|eot_id|>"] + reserved, unmergeable=["Ġuseword", "Number", "Ġxxxx", "ĠÃ©tre"],
                     bos="<|begin_of_text|>", eos="<|eot_id|>")
    train_byte_level("tekken", 2500, ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"], unmergeable=["Ġuseword", "Number", "Ġxxxx", "ĠÃ©tre"],
                     bos="<s>", eos="</s>")
    pairs = texts.test_texts(4, plain=4400, with_specials=800)
    out = bytearray()
    for text, parse in pairs:
        data = text.encode()
        out += varint(int(parse)) + varint(len(data)) + data
    (HERE / "texts.bin").write_bytes(out)
    for path in sorted(HERE.glob("*.gguf")):
        write_ids(path.stem, pairs)


if __name__ == "__main__":
    main()
