#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes those seeds of fuzz_checkpoint that are tensors: of a dense model, and of its mixture in codes of many kinds."""

import json
import pathlib

HERE = pathlib.Path(__file__).parent
BYTES = {"F32": 4, "BF16": 2, "F16": 2, "F8_E4M3": 1, "U8": 1, "U32": 4, "I32": 4}
LAYER = "model.layers.0."
MLP = f"{LAYER}mlp.switch_mlp."


def tensors(which, shapes):
    """shapes: {name: (format, dimensions...)}"""
    header, data = {}, b""
    for name, (kind, *shape) in shapes.items():
        count = BYTES[kind]
        for extent in shape:
            count *= extent
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + count]}
        data += bytes(i * 37 % 120 for i in range(count))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return bytes([which]) + len(text).to_bytes(8, "little") + text + data


def codes(module, rows, cols, group, plane, *experts, bits=4, biases=False):
    made = {f"{module}.weight": ("U32", *experts, rows, cols * bits // 32),
            f"{module}.scales": (plane, *experts, rows, cols // group)}  # fmt: skip
    if biases:
        made[f"{module}.biases"] = made[f"{module}.scales"]
    return made


def main():
    dense = {"model.embed_tokens.weight": ("F32", 3, 8), "model.norm.weight": ("F32", 8),
             f"{LAYER}self_attn.q_proj.weight": ("BF16", 8, 8), f"{LAYER}mlp.up_proj.weight": ("F16", 8, 8)}  # fmt: skip
    stacked = (codes(f"{MLP}gate_proj", 64, 64, 32, "U8", 2) | codes(f"{MLP}up_proj", 64, 64, 16, "U8", 2)
               | codes(f"{MLP}down_proj", 64, 64, 32, "BF16", 2, biases=True)
               | codes(f"{LAYER}self_attn.q_proj", 80, 64, 32, "U8", bits=8))  # fmt: skip
    apart = {}
    for n in range(2):
        for part in ("gate", "up", "down"):
            apart[f"{LAYER}mlp.experts.{n}.{part}_proj.weight"] = ("F8_E4M3", 64, 64)
            apart[f"{LAYER}mlp.experts.{n}.{part}_proj.weight_scale_inv"] = ("F32", 2, 2)
    latent = {f"{LAYER}self_attn.kv_b_proj.weight": ("F8_E4M3", 128, 32),
              f"{LAYER}self_attn.kv_b_proj.weight_scale_inv": ("F32", 4, 1)}  # fmt: skip
    by_heads = (codes(f"{LAYER}self_attn.embed_q", 32, 32, 32, "F16", 2, biases=True)
                | codes(f"{LAYER}self_attn.unembed_out", 32, 32, 32, "F16", 2, biases=True))  # fmt: skip
    seeds = {"tensors": tensors(4, dense), "tensors_stacked": tensors(5, stacked), "tensors_apart": tensors(5, apart),
             "tensors_latent": tensors(5, latent), "tensors_by_heads": tensors(5, by_heads)}  # fmt: skip
    for name, data in seeds.items():
        (HERE / "corpus" / "checkpoint" / name).write_bytes(data)


if __name__ == "__main__":
    main()
