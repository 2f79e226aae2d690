#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What ggml's quantisers lose: root-mean-square errors per format on numbers that are stored beside them.

    generate.py LIBGGML      libggml-base.so, as built from the source that llama-cpp-python carries

Errors are those of blocks decoded by the `gguf` package; "<format>_weighted" is with importance weights, and
weighted by them.
"""

import ctypes
import os
import pathlib
import sys

import gguf
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from container import GoldenFile  # noqa: E402

FORMATS = """q4_0 q4_1 q5_0 q5_1 q8_0 q2_k q3_k q4_k q5_k q6_k iq4_nl iq4_xs iq3_xxs iq3_s iq2_xxs iq2_xs iq2_s
iq1_s iq1_m tq1_0 tq2_0 mxfp4 nvfp4""".split()
# ggml refuses to make these without importance: they get ones.
NEED_IMPORTANCE = ("iq2_xxs", "iq2_xs", "iq2_s", "iq1_s", "iq1_m")
ROWS, COLS = 16, 256


def quantize(ggml, qtype, x, importance):
    block_elems, block_bytes = gguf.GGML_QUANT_SIZES[qtype]
    out = np.zeros((len(x), x.shape[1] // block_elems * block_bytes), np.uint8)
    pointer = importance.ctypes.data if importance is not None else None
    ggml.ggml_quantize_chunk(int(qtype), x.ctypes.data, out.ctypes.data, 0, *x.shape, pointer)
    return gguf.quants.dequantize(out, qtype)


def error(x, y, importance):
    return float(np.sqrt((((x - y).astype(np.float64) ** 2) * importance).mean()))


def main():
    ggml = ctypes.CDLL(sys.argv[1], os.RTLD_LAZY)
    ggml.ggml_quantize_chunk.restype = ctypes.c_size_t
    ggml.ggml_quantize_chunk.argtypes = [
        ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64,
        ctypes.c_void_p,
    ]  # fmt: skip
    rng = np.random.default_rng(20261122)
    draws = {"normal": rng.normal(0, 0.05, (ROWS, COLS)), "laplace": rng.laplace(0, 0.03, (ROWS, COLS))}
    file = GoldenFile()
    for case, x in draws.items():
        # f16 halves the file; the numbers are what the f16 are
        half = x.astype(np.float16)
        x = half.astype(np.float32)
        importance = (rng.normal(1, 0.5, COLS) ** 2 + 0.05).astype(np.float32)
        params = {}
        for name in FORMATS:
            qtype = gguf.GGMLQuantizationType[name.upper()]
            ones = np.ones(COLS, np.float32)
            plain = quantize(ggml, qtype, x, ones if name in NEED_IMPORTANCE else None)
            params[name] = error(x, plain, 1)
            params[f"{name}_weighted"] = error(x, quantize(ggml, qtype, x, importance), importance)
        file.add(case, params, x=half, importance=importance)
    file.write(pathlib.Path(__file__).parent / "quantize.safetensors")


if __name__ == "__main__":
    main()
