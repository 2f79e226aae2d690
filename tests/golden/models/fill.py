# SPDX-License-Identifier: MIT
"""Weights that need no storing: tensor data made from a seed, the same here and in
tests/support/golden_model.c.

Random words are the outputs of splitmix64 (Steele, Lea, Flood 2014): word i of a seed is
mix(seed + (i + 1) * 0x9e3779b97f4a7c15).

    plain formats   one word per element:  sign = bit 63
                                           drop = number of trailing zeros of the low 7 bits, 0..7
                                           mantissa = bits 8 and up
                    value = +-1.mantissa * 2^(scale - drop): close to uniform in +-2^(scale + 1)
    norm            as f32, but always positive and with exponent -(word & 1): in [0.5, 2)
    block formats   ceil(block_bytes / 8) words give the bytes of a block, one more word gives its
                    half-precision scales: sign bit 15 and mantissa bits 0..9, exponent fixed.
                    q4_k's minimum has mantissa bits 16..25, the sign of the scale, and is about
                    eight times as large, so that values have no mean
    mxfp4           the last word's lowest bit lowers the exponent byte by one

`scale` is chosen so that a tensor's standard deviation is about 2^scale.
"""

import numpy as np

LITERAL, NORM, F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q6_K, MXFP4 = range(10)
_PLAIN = {F32: (23, 127, np.uint32), F16: (10, 15, np.uint16), BF16: (7, 127, np.uint16)}
# elements, bytes, offset of the scale, binary exponent of the scale relative to the values
_BLOCK = {
    Q8_0: (32, 34, 0, -7),
    Q4_0: (32, 18, 0, -3),
    Q4_K: (256, 144, 0, -9),
    Q6_K: (256, 210, 208, -11),
    MXFP4: (32, 17, 0, -1),
}
_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def words(seed, count):
    z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * _GAMMA
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _plain(kind, count, seed, scale):
    mantissa_bits, bias, word_type = _PLAIN[kind]
    r = words(seed, count)
    low = ((r & np.uint64(0x7F)) | np.uint64(0x80)).astype(np.int64)
    drop = np.log2(low & -low).astype(np.int64)
    bits = (r >> np.uint64(63)) << np.uint64(mantissa_bits + (8 if bias == 127 else 5))
    bits |= (bias + scale - drop).astype(np.uint64) << np.uint64(mantissa_bits)
    bits |= (r >> np.uint64(8)) & np.uint64((1 << mantissa_bits) - 1)
    return bits.astype(word_type).view(np.uint8)


def _norm(count, seed):
    r = words(seed, count)
    bits = (np.uint64(127) - (r & np.uint64(1))) << np.uint64(23)
    return (bits | (r >> np.uint64(8)) & np.uint64(0x7FFFFF)).astype(np.uint32).view(np.uint8)


def _blocks(kind, count, seed, scale):
    block_elems, block_bytes, offset, shift = _BLOCK[kind]
    per_block = (block_bytes + 7) // 8
    r = words(seed, count // block_elems * (per_block + 1)).reshape(-1, per_block + 1)
    blocks = np.ascontiguousarray(r[:, :per_block]).view(np.uint8)[:, :block_bytes].copy()
    last = r[:, per_block]
    if kind == MXFP4:
        blocks[:, 0] = np.uint64(127 + scale + shift) - (last & np.uint64(1))
        return blocks.reshape(-1)
    exponent = max(15 + scale + shift, 0)
    half = (last & np.uint64(0x83FF)) | np.uint64(exponent << 10)
    blocks[:, offset : offset + 2] = half.astype(np.uint16).view(np.uint8).reshape(-1, 2)
    if kind == Q4_K:
        minimum = (last & np.uint64(0x8000)) | np.uint64((exponent + 3) << 10)
        minimum |= (last >> np.uint64(16)) & np.uint64(0x3FF)
        blocks[:, 2:4] = minimum.astype(np.uint16).view(np.uint8).reshape(-1, 2)
    return blocks.reshape(-1)


def fill(kind, count, seed, scale):
    """The bytes of a tensor of `count` elements."""
    with np.errstate(over="ignore"):
        if kind == NORM:
            return _norm(count, seed)
        if kind in _PLAIN:
            return _plain(kind, count, seed, scale)
        return _blocks(kind, count, seed, scale)
