#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tiny random encoders: GGUF files as llama.cpp's converter lays them out, and what transformers makes of
three texts in f32, each alone.

    encoders.py [NAME ...]        default: all

A golden file holds a recipe for the GGUF file as those of generate.py do, the texts one after the other with
their lengths, the states of some tokens behind the last layer, and of rerankers their scores. nomic-bert and jina-bert-v2,
whose code transformers leaves to the models' own folders, are written down here.
"""

import dataclasses
import math
import pathlib
import sys
import tempfile
import typing
import zlib

import gguf
import numpy as np
import torch
from transformers import BertConfig, BertModel, EuroBertConfig, EuroBertModel, ModernBertConfig
from transformers import ModernBertForSequenceClassification, ModernBertModel, RobertaConfig, RobertaForSequenceClassification

import fill
import vocab

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from container import GoldenFile  # noqa: E402

CONTEXT, LENGTHS, POSITIONS = 256, (200, 37, 1), [*range(0, 238, 17), 199, 200, 236, 237]
SHAPE = dict(hidden_size=256, intermediate_size=512, num_hidden_layers=2, vocab_size=vocab.SIZE,
             num_attention_heads=8)  # fmt: skip


@dataclasses.dataclass
class Encoder:
    arch: str
    model: typing.Callable
    config: typing.Any
    keys: typing.Callable
    pooling: gguf.PoolingType
    offset: int = 0  # rows of the position table that the converter leaves out


class NomicBert(torch.nn.Module):
    """Blocks of BERT with rotated heads (halves) and a gate; no biases but those of the norms."""

    def __init__(self, config):
        super().__init__()
        dim, wide = config.hidden_size, config.intermediate_size
        self.config = config
        self.embeddings = torch.nn.ModuleDict(dict(
            word_embeddings=torch.nn.Embedding(config.vocab_size, dim),
            token_type_embeddings=torch.nn.Embedding(2, dim)))  # fmt: skip
        self.emb_ln = torch.nn.LayerNorm(dim, eps=config.layer_norm_eps)
        self.encoder = torch.nn.ModuleDict(dict(layers=torch.nn.ModuleList(
            torch.nn.ModuleDict(dict(
                attn=torch.nn.ModuleDict(dict(Wqkv=torch.nn.Linear(dim, 3 * dim, bias=False),
                                              out_proj=torch.nn.Linear(dim, dim, bias=False))),
                norm1=torch.nn.LayerNorm(dim, eps=config.layer_norm_eps),
                mlp=torch.nn.ModuleDict(dict(fc11=torch.nn.Linear(dim, wide, bias=False),
                                             fc12=torch.nn.Linear(dim, wide, bias=False),
                                             fc2=torch.nn.Linear(wide, dim, bias=False))),
                norm2=torch.nn.LayerNorm(dim, eps=config.layer_norm_eps)))
            for _ in range(config.num_hidden_layers))))  # fmt: skip

    def rotated(self, x):
        half = x.shape[-1] // 2
        frequencies = self.config.rope_theta ** (-torch.arange(half, dtype=torch.float64) / half)
        turns = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * frequencies
        cos, sin = turns.cos().float(), turns.sin().float()
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, input_ids, token_type_ids=None):
        x = self.embeddings["word_embeddings"](input_ids)[0]
        types = torch.zeros(len(x), dtype=torch.int64) if token_type_ids is None else token_type_ids[0]
        x = self.emb_ln(x + self.embeddings["token_type_embeddings"](types))
        heads = self.config.num_attention_heads
        for layer in self.encoder["layers"]:
            q, k, v = layer["attn"]["Wqkv"](x).view(len(x), 3, heads, -1).permute(1, 2, 0, 3)
            q, k = self.rotated(q), self.rotated(k)
            weights = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)
            x = layer["norm1"](x + layer["attn"]["out_proj"]((weights @ v).transpose(0, 1).flatten(1)))
            mlp = layer["mlp"]
            gated = mlp["fc11"](x) * torch.nn.functional.silu(mlp["fc12"](x))
            x = layer["norm2"](x + mlp["fc2"](gated))
        return type("Output", (), {"last_hidden_state": x[None]})


def alibi_slopes(heads):
    """Of a power of two of heads a geometric row from 2^(-8/n); others take every second slope of twice the power below."""
    power = 2 ** int(math.log2(heads))
    row = [2.0 ** (-8 * (n + 1) / power) for n in range(power)]
    return row if power == heads else row + alibi_slopes(2 * power)[0::2][:heads - power]


def jina_begins(embeddings, config, input_ids, token_type_ids):
    """The stream before the first layer, and what is added to scores."""
    x = embeddings["word_embeddings"](input_ids)[0]
    types = torch.zeros(len(x), dtype=torch.int64) if token_type_ids is None else token_type_ids[0]
    x = embeddings["LayerNorm"](x + embeddings["token_type_embeddings"](types))
    places = torch.arange(len(x))
    slopes = torch.tensor(alibi_slopes(config.num_attention_heads))[:, None, None]
    return x, -slopes * (places[:, None] - places).abs()


class JinaBert(torch.nn.Module):
    """BERT without positions, whose scores fall with the distance of keys, and with GELU as a gate."""

    def __init__(self, config):
        super().__init__()
        dim, wide, modules = config.hidden_size, config.intermediate_size, torch.nn.ModuleDict
        norm = lambda: torch.nn.LayerNorm(dim, eps=config.layer_norm_eps)  # noqa: E731
        linear = torch.nn.Linear
        self.config = config
        self.embeddings = modules(dict(word_embeddings=torch.nn.Embedding(config.vocab_size, dim),
                                       token_type_embeddings=torch.nn.Embedding(2, dim), LayerNorm=norm()))  # fmt: skip
        self.encoder = modules(dict(layer=torch.nn.ModuleList(
            modules(dict(
                attention=modules({"self": modules(dict(query=linear(dim, dim), key=linear(dim, dim), value=linear(dim, dim))),
                                   "output": modules(dict(dense=linear(dim, dim), LayerNorm=norm()))}),
                mlp=modules(dict(gated_layers=linear(dim, 2 * wide, bias=False), wo=linear(wide, dim), layernorm=norm()))))
            for _ in range(config.num_hidden_layers))))  # fmt: skip

    def forward(self, input_ids, token_type_ids=None):
        x, bias = jina_begins(self.embeddings, self.config, input_ids, token_type_ids)
        heads = self.config.num_attention_heads
        for layer in self.encoder["layer"]:
            own, out, mlp = layer["attention"]["self"], layer["attention"]["output"], layer["mlp"]
            q, k, v = (own[name](x).view(len(x), heads, -1).transpose(0, 1) for name in ("query", "key", "value"))
            weights = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias).softmax(-1)
            x = out["LayerNorm"](x + out["dense"]((weights @ v).transpose(0, 1).flatten(1)))
            gate, up = mlp["gated_layers"](x).chunk(2, -1)
            x = mlp["layernorm"](x + mlp["wo"](torch.nn.functional.gelu(gate) * up))
        return type("Output", (), {"last_hidden_state": x[None]})


class JinaCode(torch.nn.Module):
    """jina-embeddings-v2-base-code: JinaBert with norms of all queries and keys, the stream added to attention's result twice, a
    norm behind each, and a gate that follows what it multiplies."""

    def __init__(self, config):
        super().__init__()
        plain, dim, wide = JinaBert(config), config.hidden_size, config.intermediate_size
        norm = lambda: torch.nn.LayerNorm(dim, eps=config.layer_norm_eps)  # noqa: E731
        self.config, self.embeddings, self.encoder = config, plain.embeddings, plain.encoder
        for layer in self.encoder["layer"]:
            layer["attention"]["self"].update(dict(layer_norm_q=norm(), layer_norm_k=norm()))
            layer["mlp"] = torch.nn.ModuleDict(dict(up_gated_layer=torch.nn.Linear(dim, 2 * wide, bias=False),
                                                    down_layer=torch.nn.Linear(wide, dim)))  # fmt: skip
            layer.update(dict(layer_norm_1=norm(), layer_norm_2=norm()))

    def forward(self, input_ids, token_type_ids=None):
        x, bias = jina_begins(self.embeddings, self.config, input_ids, token_type_ids)
        heads = self.config.num_attention_heads
        for layer in self.encoder["layer"]:
            own, out, mlp = layer["attention"]["self"], layer["attention"]["output"], layer["mlp"]
            rows = own["layer_norm_q"](own["query"](x)), own["layer_norm_k"](own["key"](x)), own["value"](x)
            q, k, v = (row.view(len(x), heads, -1).transpose(0, 1) for row in rows)
            weights = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias).softmax(-1)
            attended = out["LayerNorm"](x + out["dense"]((weights @ v).transpose(0, 1).flatten(1)))
            x = layer["layer_norm_1"](x + attended)
            up, gate = mlp["up_gated_layer"](x).chunk(2, -1)
            x = layer["layer_norm_2"](x + mlp["down_layer"](up * torch.nn.functional.gelu(gate)))
        return type("Output", (), {"last_hidden_state": x[None]})


def bert_keys(writer, config):
    writer.add_layer_norm_eps(config.layer_norm_eps)
    writer.add_token_type_count(config.type_vocab_size)


def nomic_keys(writer, config):
    bert_keys(writer, config)
    writer.add_rope_freq_base(config.rope_theta)


def modern_keys(writer, config):
    writer.add_layer_norm_eps(config.norm_eps)
    writer.add_sliding_window(config.local_attention)
    writer.add_rope_freq_base(config.rope_parameters["full_attention"]["rope_theta"])
    writer.add_float32("modern-bert.rope.freq_base_swa",
                       config.rope_parameters["sliding_attention"]["rope_theta"])  # fmt: skip


def euro_keys(writer, config):
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_head_count_kv(config.num_key_value_heads)


NOMIC = BertConfig(**SHAPE, max_position_embeddings=CONTEXT, layer_norm_eps=1e-12)
NOMIC.rope_theta = 1000.0
# (six heads: no power of two)
JINA = BertConfig(**(SHAPE | dict(hidden_size=192, num_attention_heads=6)), layer_norm_eps=1e-12)
WRITTEN_DOWN = (NomicBert, JinaBert, JinaCode)
ENCODERS = {
    "bert": Encoder("bert", BertModel, BertConfig(
        **SHAPE, max_position_embeddings=CONTEXT, layer_norm_eps=1e-12), bert_keys, gguf.PoolingType.MEAN),
    "xlmr": Encoder("bert", RobertaForSequenceClassification, RobertaConfig(
        **SHAPE, max_position_embeddings=CONTEXT + 2, layer_norm_eps=1e-5, type_vocab_size=1, pad_token_id=1,
        num_labels=1), bert_keys, gguf.PoolingType.RANK, offset=2),
    "jina": Encoder("jina-bert-v2", JinaBert, JINA, bert_keys, gguf.PoolingType.MEAN),
    "jinacode": Encoder("jina-bert-v2", JinaCode, JINA, bert_keys, gguf.PoolingType.MEAN),
    "nomic": Encoder("nomic-bert", NomicBert, NOMIC, nomic_keys, gguf.PoolingType.MEAN),
    "modernbert": Encoder("modern-bert", ModernBertModel, ModernBertConfig(
        **(SHAPE | dict(num_hidden_layers=4)), max_position_embeddings=CONTEXT, local_attention=64,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2), modern_keys,
        gguf.PoolingType.CLS),
    "modernrank": Encoder("modern-bert", ModernBertForSequenceClassification, ModernBertConfig(
        **SHAPE, max_position_embeddings=CONTEXT, local_attention=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        cls_token_id=1, sep_token_id=2, classifier_pooling="mean", num_labels=1), modern_keys, gguf.PoolingType.RANK),
    "eurobert": Encoder("eurobert", EuroBertModel, EuroBertConfig(
        **SHAPE, num_key_value_heads=4, max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, pad_token_id=0,
        rope_parameters={"rope_type": "default", "rope_theta": 250000.0}), euro_keys, gguf.PoolingType.LAST),
}  # fmt: skip


def write_head(writer, encoder):
    config = encoder.config
    writer.add_name(f"weft golden {encoder.arch}")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_causal_attention(False)
    writer.add_pooling_type(encoder.pooling)
    encoder.keys(writer, config)
    vocab.sentencepiece(writer)


def converted_name(encoder, names, hf_name):
    """None for what the converter leaves out."""
    for prefix in ("roberta.", "model."):
        hf_name = hf_name.removeprefix(prefix)
    if "pooler" in hf_name or "position_ids" in hf_name:
        return None
    if encoder.arch == "modern-bert" and hf_name.startswith("classifier."):
        hf_name = hf_name.replace("classifier.", "classifier.out_proj.")
    return names.get_name(hf_name, try_suffixes=(".weight", ".bias"))


def make_file(name, encoder, model, path):
    by_name = {text: key for key, text in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(by_name[encoder.arch], encoder.config.num_hidden_layers)
    writer = gguf.GGUFWriter(path, encoder.arch)
    write_head(writer, encoder)
    recipe, data = [], b""
    for hf_name, tensor in model.state_dict().items():
        ours = converted_name(encoder, names, hf_name)
        if ours is None:
            continue
        shape = list(tensor.shape)
        if ours == "position_embd.weight":
            shape[0] -= encoder.offset
        kind, scale = (fill.F32, -2) if ours.endswith(".bias") else (fill.NORM, 0) if len(shape) == 1 else (fill.F32, -4)
        count, seed = math.prod(shape), zlib.crc32(f"{name} f32 {ours}".encode())
        made = fill.fill(kind, count, seed, scale)
        writer.add_tensor_info(ours, shape, np.dtype(np.float32), count * 4, gguf.GGMLQuantizationType.F32)
        recipe.append([kind, len(data), count, seed, scale])
        data += made.tobytes() + b"\0" * (-made.nbytes % 32)
        values = torch.from_numpy(made.view(np.float32).reshape(shape).copy())
        tensor[encoder.offset if ours == "position_embd.weight" else 0:].copy_(values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    head = pathlib.Path(path).read_bytes()
    return head + b"\0" * (-len(head) % 32), recipe, data


def generate(name, folder):
    encoder = ENCODERS[name]
    if encoder.model in WRITTEN_DOWN:
        model = encoder.model(encoder.config).eval()
    else:
        model = encoder.model._from_config(encoder.config, attn_implementation="eager").eval()
    head, recipe, data = make_file(name, encoder, model, f"{folder}/model.gguf")
    tokens = torch.randint(3, vocab.SIZE, (sum(LENGTHS),), generator=torch.Generator().manual_seed(20261122))
    states, scores, seconds = [], [], []
    body = getattr(model, "roberta", getattr(model, "model", model))
    for text in tokens.split(LENGTHS):
        second = len(text) // 2 if name in ("bert", "nomic", "jina", "jinacode") and len(text) > 1 else 0
        types = dict(token_type_ids=(torch.arange(len(text)) >= second).long()[None]) if second else {}
        states.append(body(input_ids=text[None], **types).last_hidden_state[0])
        seconds.append(second)
        if body is not model:
            scores.append(model(input_ids=text[None]).logits[0])
    states = torch.cat(states)
    print(f"{name}: largest state {float(states.abs().max()):.2f}, deviation {float(states.std()):.2f}, scores {scores}")
    file = GoldenFile()
    params = dict(family=name, data_bytes=len(data), largest=float(states.abs().max()))
    more = dict(scores=torch.stack(scores)) if scores else {}
    file.add("model", params, head=np.frombuffer(head, np.uint8), recipe=np.array(recipe, np.int64),
             literal=np.zeros(0, np.float32),
             checksum=np.array([np.frombuffer(data, np.uint64).sum(dtype=np.uint64)], np.uint64).view(np.int64),
             tokens=tokens.int(), lengths=np.array(LENGTHS, np.int32), seconds=np.array(seconds, np.int32),
             positions=np.array(POSITIONS, np.int32), states=states[POSITIONS], **more)  # fmt: skip
    file.write(pathlib.Path(__file__).parent / "encoders" / f"{name}.safetensors")


def main():
    pathlib.Path(__file__).parent.joinpath("encoders").mkdir(exist_ok=True)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or ENCODERS:
            generate(name, folder)


if __name__ == "__main__":
    main()
