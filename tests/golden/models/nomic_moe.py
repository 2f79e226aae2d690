# SPDX-License-Identifier: MIT
"""A tiny random nomic-embed-text v2: an encoder of which every second layer has experts without a gate.

    pip install gguf numpy && python3 nomic_moe.py

A golden file as encoders.py has them. Neither transformers nor any package has this model, whose code lies in its own folder; it
is written down here, in f64: blocks of BERT with rotated heads (halves) and GELU; the two experts with the largest probabilities
count with these, which do not add up to 1. Folders have a bias besides, which is added once to what a layer's experts give
together and which no converter writes; ../checkpoints/encoders.py has it.
"""
import dataclasses
import math
import pathlib
import sys
import tempfile
import zlib

import gguf
import numpy as np

import fill
import vocab

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from container import GoldenFile  # noqa: E402

NAME, ARCH = "nomicmoe", "nomic-bert-moe"
CONTEXT, LENGTHS, POSITIONS = 256, (200, 37, 1), [*range(0, 238, 17), 199, 200, 236, 237]
DIM, WIDE, LAYERS, HEADS, EXPERTS, USED, PERIOD, EPS, BASE = 256, 320, 4, 8, 5, 2, 2, 1e-5, 10000.0


@dataclasses.dataclass
class Shape:
    layers: int = LAYERS
    heads: int = HEADS
    used: int = USED


def shapes():
    yield from (("token_embd.weight", (vocab.SIZE, DIM)), ("token_types.weight", (1, DIM)), ("token_embd_norm.weight", (DIM,)),
                ("token_embd_norm.bias", (DIM,)))  # fmt: skip
    for n in range(LAYERS):
        tensors = {"attn_qkv.weight": (3 * DIM, DIM), "attn_qkv.bias": (3 * DIM,), "attn_output.weight": (DIM, DIM),
                   "attn_output.bias": (DIM,), "attn_output_norm.weight": (DIM,), "attn_output_norm.bias": (DIM,),
                   "layer_output_norm.weight": (DIM,), "layer_output_norm.bias": (DIM,)}  # fmt: skip
        if n % PERIOD == 1:
            tensors |= {"ffn_gate_inp.weight": (EXPERTS, DIM), "ffn_up_exps.weight": (EXPERTS, WIDE, DIM),
                        "ffn_down_exps.weight": (EXPERTS, DIM, WIDE)}  # fmt: skip
        else:
            tensors |= {"ffn_up.weight": (WIDE, DIM), "ffn_up.bias": (WIDE,), "ffn_down.weight": (DIM, WIDE), "ffn_down.bias": (DIM,)}
        yield from ((f"blk.{n}.{name}", shape) for name, shape in tensors.items())


def write_head(writer):
    writer.add_name(f"weft golden {ARCH}")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(DIM)
    writer.add_feed_forward_length(WIDE)
    writer.add_head_count(HEADS)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_layer_norm_eps(EPS)
    writer.add_token_type_count(1)
    writer.add_rope_freq_base(BASE)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(USED)
    writer.add_moe_every_n_layers(PERIOD)
    vocab.sentencepiece(writer)


def make_file(path):
    writer = gguf.GGUFWriter(path, ARCH)
    write_head(writer)
    recipe, data, weights = [], b"", {}
    for name, shape in shapes():
        kind, scale = (fill.F32, -2) if name.endswith(".bias") else (fill.NORM, 0) if len(shape) == 1 else (fill.F32, -4)
        if "ffn_gate_inp" in name:
            scale = -1  # so that choices are far apart
        count, seed = math.prod(shape), zlib.crc32(f"{NAME} f32 {name}".encode())
        made = fill.fill(kind, count, seed, scale)
        writer.add_tensor_info(name, list(shape), np.dtype(np.float32), count * 4, gguf.GGMLQuantizationType.F32)
        recipe.append([kind, len(data), count, seed, scale])
        data += made.tobytes() + b"\0" * (-made.nbytes % 32)
        weights[name] = made.view(np.float32).reshape(shape).astype(np.float64)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    head = pathlib.Path(path).read_bytes()
    return head + b"\0" * (-len(head) % 32), recipe, data, weights


def norm(w, name, x):
    x = x - x.mean(-1, keepdims=True)
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * w[f"{name}.weight"] + w[f"{name}.bias"]


def product(a, b):
    """Those that may be rounded (encoders_rounded.py): an f32 file's experts and their router are multiplied as they are."""
    return a @ b


def choose(share, used):
    """The experts of all tokens, the likeliest first."""
    return np.argsort(-share, -1)[:, :used]


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def rotated(x):
    half = x.shape[-1] // 2
    turns = np.arange(x.shape[-2])[:, None] * BASE ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(turns) - b * np.sin(turns), b * np.cos(turns) + a * np.sin(turns)], -1)


def attention(w, blk, x, heads):
    qkv = product(x, w[f"{blk}.attn_qkv.weight"].T) + w[f"{blk}.attn_qkv.bias"]
    q, k, v = qkv.reshape(len(x), 3, heads, -1).transpose(1, 2, 0, 3)
    scores = product(rotated(q), rotated(k).transpose(0, 2, 1)) / math.sqrt(q.shape[-1])
    attended = product(softmax(scores), v).transpose(1, 0, 2).reshape(len(x), -1)
    return product(attended, w[f"{blk}.attn_output.weight"].T) + w[f"{blk}.attn_output.bias"]


def dense(w, blk, x, used):
    wide = gelu(product(x, w[f"{blk}.ffn_up.weight"].T) + w[f"{blk}.ffn_up.bias"])
    return product(wide, w[f"{blk}.ffn_down.weight"].T) + w[f"{blk}.ffn_down.bias"]


def mixture(w, blk, x, used):
    share, out = softmax(x @ w[f"{blk}.ffn_gate_inp.weight"].T), np.zeros_like(x)
    for token, chosen in enumerate(choose(share, used)):
        for e in chosen:
            out[token] += share[token, e] * (w[f"{blk}.ffn_down_exps.weight"][e] @ gelu(w[f"{blk}.ffn_up_exps.weight"][e] @ x[token]))
    return out + w.get(f"{blk}.ffn_down.bias", 0)


def states_of(w, text, shape=Shape()):
    x = norm(w, "token_embd_norm", w["token_embd.weight"][text] + w["token_types.weight"][0])
    for n in range(shape.layers):
        blk = f"blk.{n}"
        x = norm(w, f"{blk}.attn_output_norm", x + attention(w, blk, x, shape.heads))
        x = norm(w, f"{blk}.layer_output_norm", x + (mixture if n % PERIOD == 1 else dense)(w, blk, x, shape.used))
    return x


def main():
    with tempfile.TemporaryDirectory() as folder:
        head, recipe, data, weights = make_file(f"{folder}/model.gguf")
    tokens = np.random.default_rng(20261123).integers(3, vocab.SIZE, sum(LENGTHS), dtype=np.int32)
    states = np.concatenate([states_of(weights, text) for text in np.split(tokens, np.cumsum(LENGTHS)[:-1])]).astype(np.float32)
    largest = float(np.abs(states).max())
    print(f"{NAME}: largest state {largest:.2f}, deviation {states.std():.2f}")
    file = GoldenFile()
    file.add("model", dict(family=NAME, data_bytes=len(data), largest=largest), head=np.frombuffer(head, np.uint8),
             recipe=np.array(recipe, np.int64), literal=np.zeros(0, np.float32),
             checksum=np.array([np.frombuffer(data, np.uint64).sum(dtype=np.uint64)], np.uint64).view(np.int64),
             tokens=tokens, lengths=np.array(LENGTHS, np.int32), seconds=np.zeros(len(LENGTHS), np.int32),
             positions=np.array(POSITIONS, np.int32), states=states[POSITIONS])  # fmt: skip
    file.write(pathlib.Path(__file__).parent / "encoders" / f"{NAME}.safetensors")


if __name__ == "__main__":
    main()
