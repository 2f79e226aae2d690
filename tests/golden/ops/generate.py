#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Norms, activations, softmax (torch, in f64) and rotary embeddings (transformers' frequencies)."""

import pathlib
import sys

import torch
import torch.nn.functional as F
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as rotate_pairs
from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as rotate_halves

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from container import GoldenFile  # noqa: E402

GEN = torch.Generator().manual_seed(20261120)


def normal(*shape):
    return torch.randn(*shape, generator=GEN)


def norms(file):
    for dim, eps in ((1, 1e-6), (40, 1e-5), (257, 1e-6), (1024, 1e-5)):
        x = normal(3, dim) * torch.tensor([[1.0], [1e-3], [300.0]])
        weight, bias = 1 + 0.3 * normal(dim), normal(dim)
        exact = x.double(), (dim,)
        rms = F.rms_norm(*exact, weight.double(), eps)
        plus_one = F.rms_norm(*exact, weight.double() + 1, eps)
        layer = F.layer_norm(*exact, weight.double(), bias.double(), eps)
        no_bias = F.layer_norm(*exact, weight.double(), None, eps)
        for module, expected in ((LlamaRMSNorm(dim, eps), rms), (GemmaRMSNorm(dim, eps), plus_one)):
            module.weight.data = weight
            torch.testing.assert_close(module(x), expected.float(), rtol=1e-5, atol=1e-6)
        common = dict(x=x, weight=weight)
        params = {"eps": eps}
        file.add(f"rms_norm_{dim}", params | {"kind": "rms"}, y=rms.float(), **common)
        file.add(f"rms_norm_plus_one_{dim}", params | {"kind": "rms", "plus_one": 1},
                 y=plus_one.float(), **common)  # fmt: skip
        file.add(f"layer_norm_{dim}", params | {"kind": "layer"},
                 y=layer.float(), bias=bias, **common)  # fmt: skip
        file.add(f"layer_norm_no_bias_{dim}", params | {"kind": "layer"},
                 y=no_bias.float(), **common)  # fmt: skip


def activations(file):
    edges = torch.tensor(
        [0.0, -0.0, 1e-30, -1e-30, 1e-6, -1e-6, 50, -50, 87, -87, 89, -89, 1e4, -1e4]
    )
    x = torch.cat([torch.linspace(-20, 20, 321), normal(64), edges])[None]
    up = normal(*x.shape)
    functions = {
        "silu": F.silu,
        "gelu": F.gelu,
        "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"),
    }
    for name, function in functions.items():
        y = function(x.double())
        file.add(name, {"kind": name}, x=x, y=y.float())
        file.add(f"{name}_gated", {"kind": name}, x=x, up=up, y=(y * up.double()).float())


def softmaxes(file):
    for dim, scale in ((1, 1.0), (7, 1.0), (64, 0.125), (1000, 1.0)):
        x = normal(3, dim) * torch.tensor([[1.0], [30.0], [0.01]])
        if dim > 1:
            x[0, dim // 2] = -torch.inf
        y = torch.softmax(x.double() * scale, -1).float()
        file.add(f"softmax_{dim}", {"scale": scale}, x=x, y=y)


LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=8192)  # fmt: skip
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=4096)
# name: (head_dim, rotary_dim, base, interleaved, scaling)
ROPES = {
    "rope": (64, 64, 10000.0, False, dict(rope_type="default")),
    "rope_interleaved": (64, 64, 10000.0, True, dict(rope_type="default")),
    "rope_base_1e6": (128, 128, 1e6, False, dict(rope_type="default")),
    "rope_partial": (80, 32, 10000.0, False, dict(rope_type="default")),
    "rope_partial_interleaved": (80, 20, 10000.0, True, dict(rope_type="default")),
    "rope_linear": (64, 64, 10000.0, False, dict(rope_type="linear", factor=4.0)),
    "rope_llama3": (64, 64, 500000.0, False, LLAMA3),
    "rope_llama3_interleaved": (128, 128, 500000.0, True, LLAMA3 | dict(factor=32.0)),
    "rope_yarn": (128, 128, 1e6, False, YARN),
    "rope_yarn_betas": (
        64,
        64,
        10000.0,
        False,
        YARN | dict(factor=16.0, beta_fast=24.0, beta_slow=2.0),
    ),
    "rope_yarn_attention_factor": (64, 64, 10000.0, True, YARN | dict(attention_factor=0.75)),
}


def rope_frequencies(head_dim, rotary_dim, base, scaling):
    context = scaling.get("original_max_position_embeddings", 4096)
    config = LlamaConfig(
        hidden_size=4 * head_dim,
        num_attention_heads=4,
        head_dim=rotary_dim,
        max_position_embeddings=int(scaling.get("factor", 1) * context),
        rope_parameters=scaling | {"rope_theta": base},
    )
    if scaling["rope_type"] == "default":
        return LlamaRotaryEmbedding.compute_default_rope_parameters(config)
    return ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config)


def rotate(x, angles, attention_factor, interleaved):
    """x [tokens][heads][dim]; angles [tokens][dim / 2] in f64."""
    cos, sin = angles.cos() * attention_factor, angles.sin() * attention_factor
    if interleaved:
        return rotate_pairs(x[None], sin[None], cos[None])[0]
    cos, sin = torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)
    return rotate_halves(x, x, cos, sin, unsqueeze_dim=1)[0]


def ropes(file):
    positions = torch.tensor([0, 1, 2, 17, 255, 4095, 32767])
    for name, (head_dim, rotary_dim, base, interleaved, scaling) in ROPES.items():
        frequencies, attention_factor = rope_frequencies(head_dim, rotary_dim, base, scaling)
        x = normal(len(positions), 2, head_dim)
        angles = positions[:, None].double() * frequencies.double()
        turned = rotate(x[..., :rotary_dim].double(), angles, attention_factor, interleaved)
        y = torch.cat([turned, x[..., rotary_dim:].double()], -1)
        params = {k: v for k, v in scaling.items() if k != "rope_type"}
        params |= dict(
            head_dim=head_dim, rotary_dim=rotary_dim, base=base, scaling=scaling["rope_type"]
        )
        params["interleaved"] = int(interleaved)
        params["expected_attention_factor"] = attention_factor
        file.add(name, params, x=x, y=y.float(), positions=positions.int(), frequencies=frequencies)


def main():
    file = GoldenFile()
    for add in (norms, activations, softmaxes, ropes):
        add(file)
    file.write(pathlib.Path(__file__).parent / "ops.safetensors")


if __name__ == "__main__":
    main()
