# SPDX-License-Identifier: MIT
"""Writes golden vectors as safetensors files.

The layout is the published one (u64 header length, JSON header, tensor data), written here so that
running a generator twice gives the same bytes. Every case is a name; its tensors are called
"<case>.<tensor>", and its parameters stand as JSON text in "__metadata__" under the case's name.
"""

import json

import numpy as np
import torch

_CODES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.uint8: "U8",
}
_ALIGN = 8


def _raw(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


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
            if isinstance(value, np.ndarray):
                value = torch.from_numpy(np.array(value))
            self.tensors[f"{case}.{name}"] = value.detach().reshape(value.shape or (1,))

    def write(self, path):
        # Wide elements first: every tensor is aligned, and there are no holes, as the format demands.
        names = sorted(self.tensors, key=lambda n: -self.tensors[n].element_size())
        header = {"__metadata__": {k: json.dumps(v, sort_keys=True) for k, v in self.cases.items()}}
        offset = 0
        for name in names:
            tensor = self.tensors[name]
            end = offset + tensor.numel() * tensor.element_size()
            header[name] = {
                "dtype": _CODES[tensor.dtype],
                "shape": list(tensor.shape),
                "data_offsets": [offset, end],
            }
            offset = end
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % _ALIGN)
        with open(path, "wb") as file:
            file.write(len(text).to_bytes(8, "little"))
            file.write(text)
            for name in names:
                file.write(_raw(self.tensors[name]))
        print(f"{path}: {len(self.cases)} cases, {8 + len(text) + offset} bytes")
