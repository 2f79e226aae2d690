#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes sample.gguf with the `gguf` package of PyPI (made with 0.19), an independent writer.

usage: tests/golden/gguf/generate.py        (pip install gguf numpy)
"""
from pathlib import Path

import gguf
import numpy as np

writer = gguf.GGUFWriter(str(Path(__file__).with_name("sample.gguf")), "llama")
writer.add_uint8("t.u8", 200)
writer.add_int8("t.i8", -100)
writer.add_uint16("t.u16", 60000)
writer.add_int16("t.i16", -30000)
writer.add_uint32("t.u32", 4000000000)
writer.add_int32("t.i32", -2000000000)
writer.add_uint64("t.u64", 2**64 - 1)
writer.add_int64("t.i64", -(2**63))
writer.add_float32("t.f32", 0.1)
writer.add_float64("t.f64", 0.1)
writer.add_bool("t.bool", True)
writer.add_string("t.string", "Käse 🧀")
writer.add_array("t.strings", ["<s>", "▁the", "naïve"])
writer.add_array("t.ints", [1, -2, 3])
writer.add_array("t.floats", [0.5, -0.25])
writer.add_array("t.bools", [True, False, True])

counting = np.arange(2 * 256, dtype=np.float32).reshape(2, 256)
writer.add_tensor("f32", counting[:, :5].copy())
writer.add_tensor("f16", counting.astype(np.float16).reshape(2, 4, 64))
for name in ("BF16", "Q4_0", "Q8_0"):
    kind = gguf.GGMLQuantizationType[name]
    writer.add_tensor(name.lower(), gguf.quants.quantize(counting, kind), raw_dtype=kind)
for name in ("Q4_K", "Q6_K", "IQ2_XXS", "MXFP4"):
    kind = getattr(gguf.GGMLQuantizationType, name, None)
    if kind is None:
        continue
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    rows = np.arange(2 * 256 // elements * size, dtype=np.uint32).astype(np.uint8).reshape(2, -1)
    writer.add_tensor(name.lower(), rows, raw_dtype=kind)

writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
