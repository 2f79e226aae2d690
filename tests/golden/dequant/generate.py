#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Blocks of weight formats and the f32 values that other packages decode them to: `gguf` for GGUF's
formats, `mlx` for MLX's, `ml_dtypes` for fp8.

    generate.py [FORMAT ...]      default: all formats

Each format gets blocks of random bits (scales kept finite, subnormal and negative ones included), blocks
made from normally distributed numbers where the package can encode, and "wild" blocks of random bytes
with any scales: infinite, NaN, subnormal. MLX formats have rows with scales and biases as well.
"""

import pathlib
import sys

import gguf
import ml_dtypes
import mlx.core as mx
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from container import GoldenFile  # noqa: E402

# Made first, with more blocks and without wild ones.
FIRST = ["f16", "bf16", "q8_0", "q4_0", "q4_k", "q6_k"]
# Byte offsets of the half-precision fields of a block.
HALVES = {
    "q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0],
    "q2_k": [80, 82], "q3_k": [108], "q4_k": [0, 2], "q5_k": [0, 2], "q6_k": [208],
    "iq4_nl": [0], "iq4_xs": [0], "tq1_0": [52], "tq2_0": [64],
    "iq2_xxs": [0], "iq2_xs": [0], "iq2_s": [0], "iq3_xxs": [0], "iq3_s": [0], "iq1_s": [0],
    "iq1_m": [], "mxfp4": [], "nvfp4": [],
}  # fmt: skip


def finite(bits, exponent_mask):
    """Clears one exponent bit of infinities and NaNs."""
    top = exponent_mask & ~(exponent_mask >> 1)
    return np.where((bits & exponent_mask) == exponent_mask, bits & ~np.uint16(top), bits)


def random_blocks(name, qtype, count, rng):
    _, block_bytes = gguf.GGML_QUANT_SIZES[qtype]
    blocks = rng.integers(0, 256, (count, block_bytes), dtype=np.uint8)
    if name in ("f16", "bf16"):
        mask = np.uint16(0x7C00 if name == "f16" else 0x7F80)
        return finite(blocks.view(np.uint16), mask).astype(np.uint16).view(np.uint8)
    for offset in HALVES[name]:
        half = np.ascontiguousarray(blocks[:, offset : offset + 2]).view(np.uint16)
        half = finite(half, np.uint16(0x7C00)).astype(np.uint16)
        half[0], half[1], half[2], half[3] = 0, 0x8000, 0x0001, 0x83FF
        blocks[:, offset : offset + 2] = half.view(np.uint8)
    if name == "iq1_m":  # its half lies in the top nibbles of four words
        blocks[:, 55] &= 0xBF
        blocks[0, 49:56:2] &= 0x0F
        blocks[1, 51:56:2] &= 0x0F
    if name == "mxfp4":  # an E8M0 exponent per block; the largest ones overflow
        blocks[:, 0] = np.minimum(blocks[:, 0], 250)
    return blocks


def encoded_blocks(qtype, count, rng):
    block_elems, block_bytes = gguf.GGML_QUANT_SIZES[qtype]
    values = rng.normal(0, 0.05, (count, block_elems)).astype(np.float32)
    try:
        blocks = np.ascontiguousarray(gguf.quants.quantize(values, qtype))
        return blocks.view(np.uint8).reshape(count, block_bytes)
    except NotImplementedError:
        return np.empty((0, block_bytes), np.uint8)


def wild_blocks(name, qtype, rng):
    """Random bytes; the halves of the first blocks are infinities, NaNs and subnormal numbers."""
    _, block_bytes = gguf.GGML_QUANT_SIZES[qtype]
    blocks = rng.integers(0, 256, (8, block_bytes), dtype=np.uint8)
    for offset in HALVES[name]:
        half = np.array([0x7C00, 0xFC00, 0x7E00, 0x7C01, 0x03FF, 0x8001, 0x7BFF, 0x0400], np.uint16)
        blocks[:, offset : offset + 2] = half.view(np.uint8).reshape(8, 2)
    if name == "iq1_m":  # the top nibbles of four words
        blocks[:2, 49:56:2] |= 0xF0
    if name == "mxfp4":
        blocks[:, 0] = [0, 1, 2, 127, 252, 253, 254, 255]
    if name == "nvfp4":
        blocks[:, 0:4] = np.array([0, 0x7F, 0x80, 0xFF, 1, 7, 8, 0x7E] * 4, np.uint8).reshape(8, 4)
    return blocks


def decode(name, qtype, blocks):
    view = blocks.view(np.float16) if name == "f16" else blocks
    with np.errstate(all="ignore"):
        values = gguf.quants.dequantize(view, qtype).astype(np.float32)
    return values.reshape(len(blocks), gguf.GGML_QUANT_SIZES[qtype][0])


def gguf_case(name):
    qtype = gguf.GGMLQuantizationType[name.upper()]
    block_elems, _ = gguf.GGML_QUANT_SIZES[qtype]
    first = name in FIRST
    count = {1: 2048, 32: 128}.get(block_elems, 64) if first else {32: 32, 64: 16}.get(block_elems, 12)
    rng = np.random.default_rng([int(qtype), 20261120])
    blocks = random_blocks(name, qtype, count, rng)
    encoded = encoded_blocks(qtype, count // 4 if first else 32 - count % 8 if block_elems < 256 else 4, rng)
    blocks = np.concatenate([blocks, encoded])
    if len(blocks) % 8:
        blocks = np.concatenate([blocks, random_blocks(name, qtype, 8 - len(blocks) % 8, rng)])
    tensors = {"blocks": blocks, "values": decode(name, qtype, blocks)}
    assert np.isfinite(tensors["values"]).all()
    if not first:
        tensors["wild_blocks"] = wild_blocks(name, qtype, rng)
        tensors["wild_values"] = decode(name, qtype, tensors["wild_blocks"])
    return tensors


def byte_case(name):
    """All 256 codes; those that are NaN only among the wild ones."""
    kind = {"fp8_e4m3": ml_dtypes.float8_e4m3fn, "fp8_e5m2": ml_dtypes.float8_e5m2, "int8": np.int8}[name]
    codes = np.arange(256, dtype=np.uint8).reshape(256, 1)
    values = codes.view(kind).astype(np.float32)
    tame = np.where(np.isfinite(values), codes, 0).astype(np.uint8)
    return {
        "blocks": tame, "values": tame.view(kind).astype(np.float32),
        "wild_blocks": codes, "wild_values": values,
    }  # fmt: skip


def mlx_values(codes, scales, biases, bits, group):
    """One row; scale and bias as f32, so that nothing is rounded to 16 bits."""
    rows = [mx.array(a.reshape(1, -1)) for a in (codes.view(np.uint32), scales, biases)]
    return np.array(mx.dequantize(*rows, group_size=group, bits=bits)).reshape(-1)


def mlx_case(name):
    bits, group = (int(part[1:]) for part in name.split("_")[1:])
    rng = np.random.default_rng([bits, group, 20261120])
    groups, block_bytes = 8, group * bits // 8
    codes = rng.integers(0, 256, (groups, block_bytes), dtype=np.uint8)
    tensors = {
        "blocks": codes,
        "values": mlx_values(
            codes, np.ones(groups, np.float32), np.zeros(groups, np.float32), bits, group
        ).reshape(groups, group),
    }
    # Rows as MLX quantises them, some of the scales negative. The element of 16-bit scales is exact
    # up to one rounding; f32 scales are powers of two, which makes it so for them.
    for kind in (mx.float32, mx.float16, mx.bfloat16):
        weights = mx.array(rng.normal(0, 0.05, (1, groups * group)).astype(np.float32))
        packed, scales, biases = mx.quantize(weights, group_size=group, bits=bits)
        scales, biases = (np.array(a).reshape(-1) for a in (scales, biases))
        if kind == mx.float32:
            scales = np.exp2(np.round(np.log2(np.abs(scales)))) * np.sign(scales)
        scales, biases = (mx.array(a.astype(np.float32)).astype(kind) for a in (scales, biases))
        exact = [np.array(a.astype(mx.float32)) for a in (scales, biases)]
        text = str(kind).split(".")[-1].replace("bfloat", "bf").replace("float", "f")
        packed = np.array(packed).view(np.uint8).reshape(-1)
        tensors[f"{text}_codes"] = packed
        for what, array in (("scales", scales), ("biases", biases)):
            tensors[f"{text}_{what}"] = np.array(array.view(mx.uint8))
        tensors[f"{text}_values"] = mlx_values(packed, *exact, bits, group)
    return tensors


def names():
    ggml = FIRST + [name for name in HALVES if name not in FIRST]
    mlx = [f"mlx_q{bits}_g{group}" for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
    return ggml + ["fp8_e4m3", "fp8_e5m2", "int8"] + mlx


def main():
    for name in [a.lower() for a in sys.argv[1:]] or names():
        make = mlx_case if name.startswith("mlx") else byte_case if name[:3] in ("fp8", "int") else gguf_case
        file = GoldenFile()
        file.add(name, {"dtype": name}, **make(name))
        file.write(pathlib.Path(__file__).parent / f"{name}.safetensors")


if __name__ == "__main__":
    main()
