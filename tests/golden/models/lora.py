#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Adapters for golden models, as llama.cpp's convert_lora_to_gguf lays them out, and the logits of
transformers with what they add merged into the weights.

    lora.py [NAME ...]        default: all

A golden file is one of generate.py's, with the adapter's file in place of the model's and the name of the
model that it is for; tokens are that model's.
"""

import math
import pathlib
import re
import sys
import tempfile
import zlib

import gguf
import numpy as np
import torch

import fill
import generate
import mixtures

ALPHA = 8.0
LATENT = r"(q_a_proj|q_b_proj|q_proj|kv_a_proj_with_mqa|kv_b_proj|o_proj|gate_proj|up_proj|down_proj)\.weight"
EXPERTS = r"experts\.(gate_up_proj|down_proj)$"
# name: (family, tensors that are adapted, kind, rank)
ADAPTERS = {
    "llama_lora": ("llama", r"(q|k|v|o|gate|up|down)_proj\.weight", fill.F16, 4),
    "phi3_lora": ("phi3", r"(qkv|o|gate_up|down)_proj\.weight", fill.F32, 8),
    "qwen3moe_lora": ("qwen3moe", rf"{EXPERTS}|mlp\.gate\.weight|o_proj|lm_head|embed_tokens", fill.F16, 4),
    "gptoss_lora": ("gptoss", EXPERTS, fill.F32, 6),
    "qwen2moe_lora": ("qwen2moe", rf"{EXPERTS}|shared_expert\.", fill.BF16, 4),
    "llama4_lora": ("llama4", rf"{EXPERTS}|shared_expert\.|q_proj|router|embed_tokens", fill.F32, 3),
    "deepseek2_lora": ("deepseek2", LATENT, fill.F32, 5),
}


def shapes_of(file_name, shape, rank):
    """Of A and of B. Rows of an embedding are A's; experts have both for each; of the matrices of latent attention by heads
    one of the two comes from what is the same for all."""
    *stack, rows, cols = shape
    if file_name == "token_embd.weight":
        return (rows, rank), (cols, rank)
    if "attn_k_b" in file_name:
        return (*stack, rank, cols), (1, rows, rank)
    if "attn_v_b" in file_name:
        return (1, rank, cols), (*stack, rows, rank)
    return (*stack, rank, cols), (*stack, rows, rank)


def matrices(name, model):
    """{name in transformers: [(name in the file, shape of A, shape of B)]}"""
    family, wanted, _, rank = ADAPTERS[name]
    arch, _, config, _ = generate.FAMILIES[family]
    names = generate.name_map(arch, config)
    found = {}
    for hf_name, tensor in model.state_dict().items():
        if re.search(wanted, hf_name):
            parts = mixtures.pieces(names, hf_name, tuple(tensor.shape), arch)
            found[hf_name] = [(part, *shapes_of(part, shape, rank)) for part, shape in parts]
    return found


def make_file(name, model, path):
    """Writes the adapter; returns its head, recipe, data and {name in transformers: what it adds}."""
    family, _, kind, rank = ADAPTERS[name]
    arch, _, config, _ = generate.FAMILIES[family]
    writer = gguf.GGUFWriter(path, arch)
    writer.add_string("general.type", "adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", ALPHA)
    recipe, data, added = [], b"", {}
    for hf_name, parts in matrices(name, model).items():
        deltas = []
        for file_name, *shapes in parts:
            made = []
            for end, shape in zip(("lora_a", "lora_b"), shapes):
                full = f"{file_name}.{end}"
                count, seed = math.prod(shape), zlib.crc32(f"{name} {full}".encode())
                values = fill.fill(kind, count, seed, -3)
                block = kind == fill.BF16
                dtype = np.uint8 if block else np.float16 if kind == fill.F16 else np.float32
                qtype = generate.gguf_type(kind)
                stored = gguf.quant_shape_to_byte_shape(shape, qtype) if block else shape
                writer.add_tensor_info(full, stored, np.dtype(dtype), values.nbytes, qtype)
                recipe.append([kind, len(data), count, seed, -3])
                data += values.tobytes() + b"\0" * (-values.nbytes % 32)
                made.append(gguf.quants.dequantize(values, qtype).astype(np.float32).reshape(shape))
            if file_name == "token_embd.weight":
                made = [made[1].T, made[0]]
            deltas.append(made[1] @ made[0] * (ALPHA / rank))
        delta = mixtures.join(hf_name, arch, deltas)
        if arch in generate.PERMUTED and ("q_proj" in hf_name or "k_proj" in hf_name):
            heads = config.num_attention_heads if "q_proj" in hf_name else config.num_key_value_heads
            delta = generate.unpermute(delta, heads)
        added[hf_name] = delta
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    head = pathlib.Path(path).read_bytes()
    return head + b"\0" * (-len(head) % 32), recipe, data, added


def generate_one(name, folder):
    family = ADAPTERS[name][0]
    _, model_class, config, _ = generate.FAMILIES[family]
    model = model_class._from_config(config, attn_implementation="eager").eval()
    generate.make_file(family, "f32", model, f"{folder}/model.gguf")
    generate.load_weights(family, model, f"{folder}/model.gguf")
    gen = torch.Generator().manual_seed(20261122)
    tokens = torch.randint(0, config.vocab_size, (generate.PROMPT,), generator=gen)
    plain = model(tokens[None]).logits[0]
    head, recipe, data, added = make_file(name, model, f"{folder}/adapter.gguf")
    state = model.state_dict()
    for hf_name, delta in added.items():
        state[hf_name].add_(torch.from_numpy(np.ascontiguousarray(delta)).reshape(state[hf_name].shape))
    logits = model(tokens[None]).logits[0]
    largest = float(logits.abs().max())
    print(f"{name}: changes logits by {float((logits - plain).abs().max()):.3f} of {largest:.3f}")
    checksum = np.frombuffer(data, np.uint64).sum(dtype=np.uint64)
    file = generate.GoldenFile()
    file.add(
        "model",
        dict(family=family, base=f"{family}_f32", prompt=generate.PROMPT, vocab=config.vocab_size,
             max_abs_logit=largest, data_bytes=len(data)),
        head=np.frombuffer(head, np.uint8),
        recipe=np.array(recipe, np.int64),
        literal=np.zeros(0, np.float32),
        checksum=np.array([checksum], np.uint64).view(np.int64),
        tokens=tokens.int(),
        positions=np.array(generate.POSITIONS, np.int32),
        logits=logits[generate.POSITIONS],
    )  # fmt: skip
    file.write(pathlib.Path(__file__).parent / f"{name}.safetensors")


def main():
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or ADAPTERS:
            generate_one(name, folder)


if __name__ == "__main__":
    main()
