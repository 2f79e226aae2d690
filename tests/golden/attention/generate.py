#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Attention of ragged batches: inputs, outputs and log-sum-exps computed with torch in f64.

k and v are stored without pages, the sequences one after the other; the test deals them out to
pages of `page_size` tokens. Cases without a soft-cap are also held against torch's own
scaled_dot_product_attention.
"""

import math
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from container import GoldenFile  # noqa: E402

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def case(q_heads, kv_heads, head_dim, dtype, page_size, q_lens, kv_lens, **more):
    params = dict(num_q_heads=q_heads, num_kv_heads=kv_heads, head_dim=head_dim, kv_dtype=dtype)
    params.update(page_size=page_size, causal=1, window=0, scale=0.0, softcap=0.0, spread=1.0)
    params.update(more)
    return params, q_lens, kv_lens


CASES = {
    "decode": case(8, 2, 64, "f16", 16, [1, 1, 1], [17, 1, 40]),
    "decode_long_mqa": case(8, 1, 40, "bf16", 8, [1], [129]),
    "prefill": case(4, 1, 128, "f16", 4, [5, 3], [5, 24]),
    "mixed": case(4, 2, 64, "f32", 5, [1, 6, 1, 3], [9, 6, 16, 13]),
    "full": case(4, 4, 40, "f32", 3, [4, 2], [7, 11], causal=0),
    "nothing_to_see": case(2, 1, 40, "f16", 4, [0, 2, 1], [5, 0, 3], causal=0),
    "no_queries": case(2, 2, 64, "bf16", 2, [0, 3, 0], [4, 3, 0]),
    "window": case(6, 2, 64, "bf16", 8, [9, 1, 4], [20, 30, 4], window=7),
    "window_of_one": case(2, 1, 40, "f32", 1, [3, 1], [6, 5], window=1),
    "window_full": case(4, 2, 40, "f16", 4, [5, 1], [9, 12], causal=0, window=4),
    "softcap": case(2, 1, 256, "f16", 16, [3, 1], [10, 18], softcap=5.0, spread=3.0),
    "scale": case(4, 2, 128, "bf16", 1, [2, 1], [7, 12], scale=0.25),
    "everything": case(7, 1, 64, "f16", 3, [4, 1], [12, 21], window=9, scale=0.2, softcap=8.0),
    "large_scores": case(4, 2, 40, "f32", 16, [2, 1], [30, 20], scale=1.0, spread=6.0),
    "wide_head": case(2, 1, 256, "bf16", 32, [2, 2], [11, 2]),
}


def visible(q_len, kv_len, params):
    """Key j is seen by query i; the diagonal ends in the bottom right corner."""
    diagonal = torch.arange(q_len)[:, None] + kv_len - q_len
    key = torch.arange(kv_len)[None, :]
    seen = torch.ones(q_len, kv_len, dtype=torch.bool)
    if params["causal"]:
        seen &= key <= diagonal
    if params["window"]:
        seen &= key > diagonal - params["window"]
    return seen


def attend(q, k, v, params):
    """q [q_len][heads][dim], k and v [kv_len][kv_heads][dim], all f64."""
    group = params["num_q_heads"] // params["num_kv_heads"]
    scale = params["scale"] or 1 / math.sqrt(params["head_dim"])
    k = k.repeat_interleave(group, 1).transpose(0, 1)
    v = v.repeat_interleave(group, 1).transpose(0, 1)
    q = q.transpose(0, 1)
    seen = visible(q.shape[1], k.shape[1], params)
    scores = q @ k.transpose(1, 2) * scale
    if params["softcap"]:
        scores = params["softcap"] * torch.tanh(scores / params["softcap"])
    scores = scores.masked_fill(~seen, -math.inf)
    lse = torch.logsumexp(scores, -1)
    weights = torch.exp(scores - lse[..., None]).nan_to_num(0.0)
    out = weights @ v
    if not params["softcap"] and seen.any(1).all():
        peer = torch.nn.functional.scaled_dot_product_attention
        torch.testing.assert_close(out, peer(q, k, v, attn_mask=seen, scale=scale))
    return out.transpose(0, 1), lse.transpose(0, 1)


def main():
    file = GoldenFile()
    for number, (name, (params, q_lens, kv_lens)) in enumerate(CASES.items()):
        gen = torch.Generator().manual_seed(1000 + number)
        heads, kv_heads, dim = (params[n] for n in ("num_q_heads", "num_kv_heads", "head_dim"))
        dtype = DTYPES[params["kv_dtype"]]
        spread = params.pop("spread")

        def normal(*shape):
            return torch.randn(*shape, generator=gen)

        # Queries are f32 in the interface; half-precision values keep the file small.
        q = (normal(sum(q_lens), heads, dim) * spread).to(torch.float16)
        k = normal(sum(kv_lens), kv_heads, dim).to(dtype)
        v = normal(sum(kv_lens), kv_heads, dim).to(dtype)
        parts = [
            attend(*(t.double() for t in part), params)
            for part in zip(q.split(q_lens), k.split(kv_lens), v.split(kv_lens))
        ]
        file.add(
            name,
            params,
            q=q,
            k=k,
            v=v,
            out=torch.cat([p[0] for p in parts]).float(),
            lse=torch.cat([p[1] for p in parts]).float(),
            cu_q_lens=torch.tensor([0] + q_lens).cumsum(0).int(),
            kv_lens=torch.tensor(kv_lens).int(),
        )
    file.write(pathlib.Path(__file__).parent / "attention.safetensors")


if __name__ == "__main__":
    main()
