#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tiny random models: GGUF files as llama.cpp's converter lays them out, and what transformers makes
of them in f32.

    generate.py [NAME ...]        default: all

A golden file holds the GGUF file up to its tensor data as the `gguf` package wrote it, a recipe for
the data (see fill.py), a prompt of 300 tokens followed by the 64 tokens that greedy decoding adds,
and the logits at some positions. Of many random prompts, the one with the widest margins between
first and second choice along the greedy path is taken, so that a rounding error cannot flip a token;
paths that merely repeat a few tokens are passed over.
"""

import math
import os
import pathlib
import sys
import tempfile
import zlib

import gguf
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

import families
import fill
import latent
import mixtures
import vocab

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from container import GoldenFile  # noqa: E402

PROMPT, GREEDY, CANDIDATES, VARIETY = 300, 64, 192, 16
POSITIONS = [*range(0, PROMPT, 30), PROMPT - 1]
CONTEXT = 512
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)  # fmt: skip
SHAPE = dict(hidden_size=256, intermediate_size=512, num_hidden_layers=2, vocab_size=vocab.SIZE,
             num_attention_heads=8, max_position_embeddings=CONTEXT)  # fmt: skip


def rope(theta, **scaling):
    return {"rope_parameters": {"rope_type": "default"} | scaling | {"rope_theta": theta}}


# family: (architecture in GGUF, model class, config, vocabulary writer)
FAMILIES = {
    "llama": ("llama", LlamaForCausalLM, LlamaConfig(
        **SHAPE, num_key_value_heads=4, rms_norm_eps=1e-5, **rope(10000.0)),
        vocab.sentencepiece),
    "llama3": ("llama", LlamaForCausalLM, LlamaConfig(
        **SHAPE, num_key_value_heads=2, rms_norm_eps=1e-5, tie_word_embeddings=True,
        **rope(500000.0, **LLAMA3)),
        lambda w: vocab.byte_level(w, "llama-bpe")),
    "mistral": ("llama", MistralForCausalLM, MistralConfig(
        **SHAPE, num_key_value_heads=2, rms_norm_eps=1e-5, sliding_window=64, head_dim=32,
        **rope(10000.0)),
        vocab.sentencepiece),
    "qwen2": ("qwen2", Qwen2ForCausalLM, Qwen2Config(
        **(SHAPE | dict(num_attention_heads=4)), num_key_value_heads=2, rms_norm_eps=1e-6,
        tie_word_embeddings=True, use_sliding_window=False, **rope(1e6)),
        lambda w: vocab.byte_level(w, "qwen2")),
    "qwen3": ("qwen3", Qwen3ForCausalLM, Qwen3Config(
        **SHAPE, num_key_value_heads=2, rms_norm_eps=1e-6, head_dim=64,
        tie_word_embeddings=True, use_sliding_window=False, **rope(1e6)),
        lambda w: vocab.byte_level(w, "qwen2")),
    # Rope scaling that stands in the metadata.
    "linear": ("llama", LlamaForCausalLM, LlamaConfig(
        **SHAPE, num_key_value_heads=4, rms_norm_eps=1e-5,
        **rope(10000.0, rope_type="linear", factor=4.0)),
        vocab.sentencepiece),
    "yarn": ("llama", LlamaForCausalLM, LlamaConfig(
        **SHAPE, num_key_value_heads=4, rms_norm_eps=1e-5,
        **rope(10000.0, rope_type="yarn", factor=8.0, original_max_position_embeddings=64)),
        vocab.sentencepiece),
    "yarnkeys": ("qwen2", Qwen2ForCausalLM, Qwen2Config(
        **(SHAPE | dict(num_attention_heads=4)), num_key_value_heads=2, rms_norm_eps=1e-6,
        tie_word_embeddings=True, use_sliding_window=False,
        **rope(10000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=128,
               beta_fast=8.0, beta_slow=2.0, attention_factor=1.25)),
        lambda w: vocab.byte_level(w, "qwen2")),
    "llama3keys": ("llama", LlamaForCausalLM, LlamaConfig(
        **SHAPE, num_key_value_heads=2, rms_norm_eps=1e-5, tie_word_embeddings=True,
        **rope(10000.0, **(LLAMA3 | dict(low_freq_factor=2.0, high_freq_factor=6.0)))),
        lambda w: vocab.byte_level(w, "llama-bpe")),
}  # fmt: skip
OTHERS = families.FAMILIES | mixtures.FAMILIES | latent.FAMILIES
FAMILIES |= {name: (f.arch, f.model, f.config, vocab.sentencepiece)
             for name, f in OTHERS.items()}  # fmt: skip
PERMUTED = ("llama", "smollm3", "granite", "minicpm")  # heads' rows go from halves to neighbouring pairs
IN_METADATA = ("linear", "yarn", "yarnkeys", "llama3keys", "gemma3", "gptoss", "deepseek2", "deepseek2old", "deepseek3")
MIXED = ["q6_k", "q4_k", "q8_0", "q4_0"]  # the embedding is q6_k, as llama.cpp chooses it
MODELS = {
    "llama": ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_k", "q6_k", "mixed"],
    "llama3": ["f32", "f16", "mixed"],
    "mistral": ["f32", "bf16", "q8_0"],
    "qwen2": ["f32", "f16", "q4_k"],
    "qwen3": ["f32", "bf16", "mixed"],
    "linear": ["f32"],
    "yarn": ["f32"],
    "yarnkeys": ["f32"],
    "llama3keys": ["f32"],
} | {name: ["f32"] + (["mixed"] if name in families.MIXED else []) for name in families.FAMILIES}
MODELS |= mixtures.VARIANTS | latent.VARIANTS
KINDS = {
    n: getattr(fill, n.upper())
    for n in ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_k", "q6_k", "mxfp4")
}


def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def permute(weights, heads):
    """Converter: each head's rows from (first halves, second halves) to neighbouring pairs."""
    shape = weights.shape
    return weights.reshape(heads, 2, shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(shape)


def unpermute(weights, heads):
    shape = weights.shape
    return weights.reshape(heads, shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(shape)


def write_scaling(writer, arch, rope):
    """As llama.cpp's converter writes linear and yarn; it has no keys for llama3's rule, weft's are
    named alike."""
    prefix = f"{arch}.rope.scaling"
    writer.add_string(f"{prefix}.type", rope["rope_type"])
    writer.add_rope_scaling_factor(rope["factor"])
    if "original_max_position_embeddings" in rope:
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    keys = {"beta_fast": "yarn_beta_fast", "beta_slow": "yarn_beta_slow",
            "attention_factor": "yarn_attn_factor", "low_freq_factor": "low_freq_factor",
            "high_freq_factor": "high_freq_factor"}  # fmt: skip
    for name, key in keys.items():
        if rope.get(name) is not None:
            writer.add_float32(f"{prefix}.{key}", rope[name])


def numbers(config):
    """Those that every family has, whatever its names are."""
    heads = config.num_attention_heads
    names = ("intermediate_size_mlp", "intermediate_size", "ffn_hidden_size")
    wide = next(getattr(config, name) for name in names if getattr(config, name, None))
    if hasattr(config, "kv_lora_rank"):
        return wide, heads if latent.is_old(config) else 1
    return wide, getattr(config, "num_key_value_heads", None) or getattr(config, "num_kv_heads", heads)


def write_norm_eps(writer, config):
    if hasattr(config, "rms_norm_eps"):
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        return
    names = ("layer_norm_eps", "norm_epsilon", "layer_norm_epsilon")
    writer.add_layer_norm_eps(next(getattr(config, n) for n in names if hasattr(config, n)))


def write_metadata(writer, arch, config, write_vocab, in_metadata):
    rope = getattr(config, "rope_parameters", None) or {}
    rope = rope.get("full_attention", rope)
    feed_forward, kv_heads = numbers(config)
    writer.add_name(f"weft golden {arch}")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(feed_forward)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(kv_heads)
    if rope:
        writer.add_rope_freq_base(rope["rope_theta"])
    write_norm_eps(writer, config)
    if arch == "llama":
        writer.add_vocab_size(config.vocab_size)
        writer.add_rope_dimension_count(head_dim_of(config))
    if arch == "qwen3":
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
    if isinstance(config, MistralConfig):
        writer.add_sliding_window(config.sliding_window)
    if in_metadata:
        write_scaling(writer, arch, rope)
    write_vocab(writer)


def rope_factors(config):
    """The tensor rope_freqs.weight: what the llama3 rule divides each frequency by."""
    p, dim = config.rope_parameters, head_dim_of(config)
    frequencies = 1.0 / p["rope_theta"] ** (np.arange(0, dim, 2) / dim)
    turns = p["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    low, high = p["low_freq_factor"], p["high_freq_factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / p["factor"] + smooth)).astype(np.float32)


def name_map(arch, config):
    by_name = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}
    return gguf.get_tensor_name_map(by_name[arch], config.num_hidden_layers)


def is_tied(hf_name, config):
    return hf_name in ("lm_head.weight", "embed_out.weight") and config.tie_word_embeddings


def kind_of(name, shape, variant, mixed):
    """What fills a tensor, the power of two of its size, and whether it counts among the mixed."""
    if len(shape) == 1 or mixtures.is_small(name):
        kind, scale = mixtures.small(name) or (
            (fill.F32, -2) if name.endswith(".bias") else (fill.NORM, 0)
        )
        return kind, scale, 0
    if variant == "mxfp4":
        return (fill.MXFP4 if "_exps" in name else fill.F32), -4, 0
    return KINDS[MIXED[mixed % 4] if variant == "mixed" else variant], -4, 1


def plan_tensors(family, config, model, variant):
    """[(name, shape, kind, scale)] in the converter's order."""
    arch, more = FAMILIES[family][0], OTHERS.get(family)
    names = name_map(arch, config)
    planned, mixed = [], 0
    for hf_name, tensor in model.state_dict().items():
        if is_tied(hf_name, config):
            continue
        whole = tuple(tensor.shape)
        whole = more.shape(hf_name, whole) if more else whole
        for name, shape in mixtures.pieces(names, hf_name, whole, arch):
            kind, scale, counts = kind_of(name, shape, variant, mixed)
            mixed += counts
            if name == "token_embd.weight":
                scale = more.embedding_scale if more else -4
                scale += 0 if config.tie_word_embeddings else 2
            planned.append((name, shape, kind, scale))
    return planned


def gguf_type(kind):
    name = {fill.NORM: "F32", fill.LITERAL: "F32"}
    name |= {value: key.upper() for key, value in KINDS.items()}
    return gguf.GGMLQuantizationType[name[kind]]


def make_file(family, variant, model, path):
    """Writes the GGUF file; returns its head and the recipe for the rest."""
    arch, _, config, write_vocab = FAMILIES[family]
    writer = gguf.GGUFWriter(path, arch)
    write_metadata(writer, arch, config, write_vocab, family in IN_METADATA)
    more = OTHERS.get(family)
    if more:
        more.keys(writer, config)
    literal = rope_factors(config) if family == "llama3" else np.zeros(0, np.float32)
    tensors = plan_tensors(family, config, model, variant)
    if len(literal):
        tensors.insert(0, ("rope_freqs.weight", literal.shape, fill.LITERAL, 0))
    for name, elements in more.vectors.items() if more else ():
        tensors.append((name, (elements,), fill.NORM, 0))
    recipe, data = [], b""
    for name, shape, kind, scale in tensors:
        of = "f32" if more and name in more.vectors else variant  # these are in the config as well
        count, seed = math.prod(shape), zlib.crc32(f"{family} {of} {name}".encode())
        made = literal if kind == fill.LITERAL else fill.fill(kind, count, seed, scale)
        bytes_ = made.tobytes()
        qtype = gguf_type(kind)
        stored = gguf.quant_shape_to_byte_shape(shape, qtype)
        plain = {fill.F16: np.float16}.get(kind, np.float32)
        block = kind in (fill.BF16, fill.Q8_0, fill.Q4_0, fill.Q4_K, fill.Q6_K, fill.MXFP4)
        writer.add_tensor_info(name, stored if block else shape,
                               np.dtype(np.uint8 if block else plain), len(bytes_), qtype)  # fmt: skip
        recipe.append([kind, len(data), count, seed, scale])
        data += bytes_ + b"\0" * (-len(bytes_) % 32)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    head = pathlib.Path(path).read_bytes()
    head += b"\0" * (-len(head) % 32)
    pathlib.Path(path).write_bytes(head + data)
    return head, recipe, literal, data


def load_weights(family, model, path):
    """Reads the file back with the gguf package and undoes what the converter does."""
    arch, _, config, _ = FAMILIES[family]
    names, more = name_map(arch, config), OTHERS.get(family)
    stored = {t.name: t for t in gguf.GGUFReader(path).tensors}
    state = model.state_dict()
    for hf_name, tensor in state.items():
        wanted = [n for n, _ in mixtures.pieces(names, hf_name, tuple(tensor.shape), arch)]
        if wanted[0] not in stored:
            assert is_tied(hf_name, config), wanted
            wanted = ["token_embd.weight"]
        values = mixtures.join(hf_name, arch, [
            gguf.quants.dequantize(stored[n].data, stored[n].tensor_type).astype(np.float32)
            .reshape([int(d) for d in reversed(stored[n].shape)]) for n in wanted])  # fmt: skip
        if more:
            values = more.undo(hf_name, values, config)
        if arch in PERMUTED and ("q_proj" in hf_name or "k_proj" in hf_name):
            heads = (
                config.num_attention_heads if "q_proj" in hf_name else config.num_key_value_heads
            )
            values, converted = unpermute(values, heads), values
            assert (permute(values, heads) == converted).all()
        tensor.copy_(torch.from_numpy(np.ascontiguousarray(values).reshape(tensor.shape)))
    model.tie_weights()


def greedy(model, prompts):
    """Continues every prompt; returns the tokens, the margins per step and the largest |logit|."""
    step = model(prompts, use_cache=True)
    largest = step.logits.abs().amax((1, 2))
    tokens, margins = [], []
    for _ in range(GREEDY):
        best = step.logits[:, -1].topk(2)
        tokens.append(best.indices[:, :1])
        margins.append(best.values[:, 0] - best.values[:, 1])
        step = model(tokens[-1], past_key_values=step.past_key_values, use_cache=True)
    return torch.cat(tokens, 1), torch.stack(margins, 1), largest


def generate(family, variant, folder):
    _, model_class, config, _ = FAMILIES[family]
    model = model_class._from_config(config, attn_implementation="eager").eval()
    head, recipe, literal, data = make_file(family, variant, model, f"{folder}/model.gguf")
    load_weights(family, model, f"{folder}/model.gguf")
    gen = torch.Generator().manual_seed(20261120)
    candidates = torch.randint(0, vocab.SIZE, (CANDIDATES, PROMPT), generator=gen)
    if family in mixtures.FAMILIES or family in latent.FAMILIES:
        candidates = candidates[: 4 if family == "deepseek2old" else 64]
    best = None
    for prompts in candidates.split(32):
        tokens, margins, largest = greedy(model, prompts)
        relative = margins.amin(1) / largest
        varied = torch.tensor([len(set(t)) >= VARIETY for t in tokens.tolist()])
        relative = torch.where(varied, relative, relative - 1)
        row = int(relative.argmax())
        if best is None or relative[row] > best[0]:
            best = relative[row], prompts[row], tokens[row]
    margin, prompt, tokens = best
    logits = model(torch.cat([prompt, tokens])[None]).logits[0]
    assert (logits[PROMPT - 1 : -1].argmax(-1) == tokens).all()
    largest = float(logits[:PROMPT].abs().max())
    print(f"{family}_{variant}: margin {float(margin):.4f} of max |logit| {largest:.2f},"
          f" deviation {float(logits[:PROMPT].std()):.2f}, {len(set(tokens.tolist()))} tokens")  # fmt: skip
    checksum = np.frombuffer(data, np.uint64).sum(dtype=np.uint64)
    params = dict(variant=variant, family=family, greedy=GREEDY, prompt=PROMPT, vocab=vocab.SIZE)
    params.update(max_abs_logit=largest, margin=float(margin), data_bytes=len(data))
    file = GoldenFile()
    file.add(
        "model",
        params,
        head=np.frombuffer(head, np.uint8),
        recipe=np.array(recipe, np.int64),
        literal=literal,
        checksum=np.array([checksum], np.uint64).view(np.int64),
        tokens=torch.cat([prompt, tokens]).int(),
        positions=np.array(POSITIONS, np.int32),
        logits=logits[POSITIONS],
    )
    file.write(pathlib.Path(__file__).parent / f"{family}_{variant}.safetensors")


def main():
    torch.set_num_threads(os.cpu_count())
    wanted = sys.argv[1:]
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for family, variants in MODELS.items():
            for variant in variants:
                if not wanted or f"{family}_{variant}" in wanted:
                    generate(family, variant, folder)


if __name__ == "__main__":
    main()
