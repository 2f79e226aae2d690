# SPDX-License-Identifier: MIT
"""Writes the vocabularies (*.gguf), the texts (texts.bin) and the ids that the `tokenizers` package gives (*.ids).

    pip install gguf tokenizers sentencepiece protobuf && python3 generate.py [encoders]

README.md has the layouts. Everything follows from seeds; another version of a package may train another vocabulary.
"""
import io
import json
import pathlib
import re
import sys

import sentencepiece
from gguf import GGUFWriter
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

import oracle
import texts
from oracle import CONTROL, NORMAL, UNKNOWN, USER_DEFINED

HERE = pathlib.Path(__file__).parent
TRAINING_LINES = 12000


def write_gguf(name, pieces, types, model, pre=None, scores=None, merges=None, charsmap=None, squeeze=None, **ids):
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
    if charsmap:
        writer.add_precompiled_charsmap(charsmap)
    if squeeze is not None:
        writer.add_remove_extra_whitespaces(squeeze)
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


# --- vocabularies of encoders ---------------------------------------------------------------------------


def train_wordpiece(name, size, lowercase):
    """As llama.cpp's converter writes BERT's: ## goes, what begins a word gets U+2581 in front."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(texts.Maker(5).training_lines(TRAINING_LINES), trainer)
    trained = tokenizer.get_vocab()
    pieces, types = sorted(trained, key=trained.get), []
    for i, piece in enumerate(pieces):
        bracketed = piece.startswith("[") and piece.endswith("]")
        pieces[i] = piece[2:] if piece.startswith("##") else piece if bracketed else "▁" + piece
        types.append(CONTROL if piece in special and piece != "[unused0]" else NORMAL)
    write_gguf(name, pieces, types, "bert", cls=special.index("[CLS]"), seperator=special.index("[SEP]"),
               unknown=special.index("[UNK]"), mask=special.index("[MASK]"), padding=special.index("[PAD]"))
    return oracle.load(HERE / f"{name}.gguf")


def train_unigram(name, size, rules, byte_fallback, squeeze):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts.Maker(6).training_lines(TRAINING_LINES)), model_writer=model, vocab_size=size,
        model_type="unigram", normalization_rule_name=rules, remove_extra_whitespaces=squeeze, add_dummy_prefix=True,
        byte_fallback=byte_fallback, split_by_whitespace=squeeze, character_coverage=0.99, bos_id=-1, pad_id=0, eos_id=1, unk_id=2,
        control_symbols=["<|im_start|>", "<|im_end|>"], num_threads=1, minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    spm = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    kinds = {1: NORMAL, 2: UNKNOWN, 3: CONTROL, 6: oracle.BYTE}
    charsmap = proto.normalizer_spec.precompiled_charsmap
    write_gguf(name, [p.piece for p in proto.pieces], [kinds[p.type] for p in proto.pieces], "t5", charsmap=charsmap,
               squeeze=squeeze, scores=[p.score for p in proto.pieces], eos=spm.eos_id(), padding=spm.pad_id(), unknown=spm.unk_id())
    return spm


def unigram_ids(spm, text, parse):
    """Control pieces cut out, what is between them by itself: what tokenizer.json files with Metaspace do too."""
    names = [spm.id_to_piece(i) for i in range(spm.get_piece_size()) if spm.is_control(i) or spm.is_unknown(i)]
    pattern = "(" + "|".join(re.escape(name) for name in names) + ")"
    ids = []
    for part in re.split(pattern, text) if parse else [text]:
        ids += [spm.piece_to_id(part)] if parse and part in names else spm.encode(part) if part else []
    return ids


def write_encoders(pairs):
    for name, lowercase in ("bert-uncased", True), ("bert-cased", False):
        tokenizer = train_wordpiece(name, 2200, lowercase)
        write_list(name, pairs, lambda text, parse: package_ids(tokenizer, text, parse))
    for name, rules, byte_fallback, squeeze in ("t5", "nmt_nfkc", False, True), ("t5-bytes", "identity", True, False):
        spm = train_unigram(name, 1800, rules, byte_fallback, squeeze)
        write_list(name, pairs, lambda text, parse: unigram_ids(spm, text, parse))


def package_ids(tokenizer, text, parse):
    tokenizer.encode_special_tokens = not parse
    return tokenizer.encode(text, add_special_tokens=False).ids


def write_list(name, pairs, encode):
    out = bytearray()
    for text, parse in pairs:
        ids = encode(text, parse)
        out += varint(len(ids)) + b"".join(map(varint, ids))
    (HERE / f"{name}.ids").write_bytes(out)
    print(f"{name}: {len(pairs)} texts, {len(out)} bytes")


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_ids(name, pairs):
    tokenizer = oracle.load(HERE / f"{name}.gguf")
    write_list(name, pairs, lambda text, parse: package_ids(tokenizer, text, parse))


def main():
    pairs = texts.test_texts(4, plain=4400, with_specials=800)
    if sys.argv[1:] == ["encoders"]:
        write_encoders(pairs)
        return
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
    out = bytearray()
    for text, parse in pairs:
        data = text.encode()
        out += varint(int(parse)) + varint(len(data)) + data
    (HERE / "texts.bin").write_bytes(out)
    for name in ("gpt-2", "llama", "llama-bpe", "llama-unk", "qwen2", "smollm", "tekken"):
        write_ids(name, pairs)
    write_encoders(pairs)


if __name__ == "__main__":
    main()
