# SPDX-License-Identifier: MIT
"""Writes golden vectors as safetensors files.

The layout is the published one (u64 header length, JSON header, tensor data), written here so that
running a generator twice gives the same bytes. Every case is a name; its tensors are called
"<case>.<tensor>", and its parameters stand as JSON text in "__metadata__" under the case's name. Tensors are
NumPy's or PyTorch's, which need not be there for the former.
"""

import json

import numpy as np

# the format's name and bytes of an element
_CODES = {
    "float64": ("F64", 8),
    "float32": ("F32", 4),
    "float16": ("F16", 2),
    "bfloat16": ("BF16", 2),
    "int64": ("I64", 8),
    "int32": ("I32", 4),
    "uint8": ("U8", 1),
}
_ALIGN = 8


def _raw(tensor):
    if isinstance(tensor, np.ndarray):
        return tensor.tobytes()
    import torch

    return tensor.detach().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


class GoldenFile:
    """Collects cases, then writes them in the order in which they were added."""

    def __init__(self):
        self.cases = {}
        self.tensors = {}

    def add(self, case, params, **tensors):
        if case in self.cases:
            raise ValueError(f"case {case} added twice")
        self.cases[case] = params
        for name, value in tensors.items():
            code, _ = _CODES[str(value.dtype).removeprefix("torch.")]
            self.tensors[f"{case}.{name}"] = (code, list(value.shape) or [1], _raw(value))

    def write(self, path):
        # Wide elements first: every tensor is aligned, and there are no holes, as the format demands.
        sizes = dict(_CODES.values())
        names = sorted(self.tensors, key=lambda n: -sizes[self.tensors[n][0]])
        header = {"__metadata__": {k: json.dumps(v, sort_keys=True) for k, v in self.cases.items()}}
        offset = 0
        for name in names:
            code, shape, raw = self.tensors[name]
            end = offset + len(raw)
            header[name] = {"dtype": code, "shape": shape, "data_offsets": [offset, end]}
            offset = end
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % _ALIGN)
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little"))
            file.write(text)
            for name in names:
                file.write(self.tensors[name][2])
        print(f"{path}: {len(self.cases)} cases, {8 + len(text) + offset} bytes")
