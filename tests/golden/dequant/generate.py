#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Blocks of GGUF weight formats and the f32 values that the `gguf` package decodes them to.

    generate.py [FORMAT ...]      default: the formats that weft has

Each format gets blocks of random bits (scales kept finite, subnormal and negative ones included)
and, where the package can encode, blocks made from normally distributed numbers.
"""

import pathlib
import sys

import gguf
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from container import GoldenFile  # noqa: E402

SHIPPED = ["f16", "bf16", "q8_0", "q4_0", "q4_k", "q6_k"]
# Byte offsets of the half-precision fields of a block.
HALVES = {
    "q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0],
    "q2_k": [80, 82], "q3_k": [108], "q4_k": [0, 2], "q5_k": [0, 2], "q6_k": [208],
    "iq4_nl": [0], "iq4_xs": [0], "tq1_0": [52], "tq2_0": [64],
    "iq2_xxs": [0], "iq2_xs": [0], "iq2_s": [0], "iq3_xxs": [0], "iq3_s": [0], "iq1_s": [0],
    "mxfp4": [], "nvfp4": [],
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


def main():
    for name in [a.lower() for a in sys.argv[1:]] or SHIPPED:
        qtype = gguf.GGMLQuantizationType[name.upper()]
        block_elems, _ = gguf.GGML_QUANT_SIZES[qtype]
        count = {1: 2048, 32: 128}.get(block_elems, 64)
        rng = np.random.default_rng([int(qtype), 20261120])
        blocks = random_blocks(name, qtype, count, rng)
        blocks = np.concatenate([blocks, encoded_blocks(qtype, count // 4, rng)])
        view = blocks.view(np.float16) if name == "f16" else blocks
        values = gguf.quants.dequantize(view, qtype).astype(np.float32)
        values = values.reshape(len(blocks), block_elems)
        assert np.isfinite(values).all()
        file = GoldenFile()
        file.add(name, {"dtype": name}, blocks=blocks, values=values)
        file.write(pathlib.Path(__file__).parent / f"{name}.safetensors")


if __name__ == "__main__":
    main()
