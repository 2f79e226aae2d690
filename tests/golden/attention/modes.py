#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Modes of attention beyond causal and window: inputs, outputs and log-sum-exps by torch in f64.

One sequence a case, keys and values without pages. Every case is one mask of booleans and one matrix of
biases; without a sink the result is also held against torch's scaled_dot_product_attention, with one
against the way of gpt-oss in transformers: the sink joins the scores as a column that softmax sees and
the values do not.
"""

import math
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from container import GoldenFile  # noqa: E402


def case(q_len, kv_len, heads=4, kv_heads=2, dim=32, v_dim=32, **more):
    params = dict(num_q_heads=heads, num_kv_heads=kv_heads, head_dim=dim, v_dim=v_dim)
    params.update(mask=0, window=0, window_right=0, local_chunk=0, kv_start=0, columns=0)
    params.update(sinks=0, alibi=0)
    params.update(more)
    return params, q_len, kv_len


CAUSAL, FULL, TREE, BITS = range(4)
CASES = {
    "sinks": case(3, 20, sinks=1),
    "sinks_window": case(5, 40, sinks=1, window=8),
    "sinks_nothing_seen": case(2, 6, sinks=1, kv_start=6),
    "alibi": case(4, 30, heads=8, alibi=1),
    "alibi_full": case(3, 17, alibi=1, mask=FULL),
    "local_chunk": case(9, 45, local_chunk=16),
    "window_both_sides": case(12, 30, mask=FULL, window=4, window_right=3),
    "padded": case(4, 25, kv_start=7),
    "tree": case(9, 41, mask=TREE),
    "tree_alone": case(6, 6, mask=TREE),
    "tree_window": case(8, 50, mask=TREE, window=6),
    "bits_of_drafts": case(16, 70, mask=BITS, columns=16),
    "bits_of_everything": case(5, 67, mask=BITS, columns=67),
    "mla_prefill": case(3, 12, heads=2, kv_heads=2, dim=192, v_dim=128),
    "mla_absorbed": case(1, 9, heads=4, kv_heads=1, dim=576, v_dim=512),
    "wide": case(1, 7, heads=2, kv_heads=1, dim=512, v_dim=512),
    "all_at_once": case(7, 60, heads=6, sinks=1, alibi=1, window=20, local_chunk=32, kv_start=35),
}


def tree_of(q_len, gen):
    return [int(torch.randint(-1, i, (1,), generator=gen)) if i else -1 for i in range(q_len)]


def positions(parents):
    depth = []
    for parent in parents:
        depth.append(0 if parent < 0 else depth[parent] + 1)
    return torch.tensor(depth)


def closure(parents):
    """Which drafts are above which, themselves included: powers of the parent matrix."""
    n = len(parents)
    step = torch.zeros(n, n)
    for child, parent in enumerate(parents):
        if parent >= 0:
            step[child, parent] = 1
    reach, power = torch.eye(n), torch.eye(n)
    for _ in range(n):
        power = power @ step
        reach = reach + power
    return reach > 0


def visible(q_len, kv_len, params, parents, bits):
    query = torch.arange(q_len)[:, None] + kv_len - q_len
    key = torch.arange(kv_len)[None, :].clone()
    seen = torch.ones(q_len, kv_len, dtype=torch.bool)
    if params["mask"] == CAUSAL:
        seen &= key <= query
    if params["mask"] == TREE:
        seen[:, kv_len - q_len :] = closure(parents)
        query = (positions(parents) + kv_len - q_len)[:, None]
        key[:, kv_len - q_len :] = query.T
    if params["mask"] == BITS:
        seen[:, kv_len - params["columns"] :] = bits
    if params["window"]:
        seen &= query - key < params["window"]
    if params["window_right"]:
        seen &= key - query <= params["window_right"]
    if params["local_chunk"]:
        seen &= key // params["local_chunk"] >= query // params["local_chunk"]
    return seen & (torch.arange(kv_len)[None, :] >= params["kv_start"])


def attend(q, k, v, seen, slopes, sinks):
    """q [q_len][heads][dim], k and v [kv_len][kv_heads][...], f64."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (t.transpose(0, 1) for t in (q, k, v))
    k, v = k.repeat_interleave(group, 0), v.repeat_interleave(group, 0)
    q_len, kv_len = seen.shape
    far = (torch.arange(q_len)[:, None] + kv_len - q_len - torch.arange(kv_len)[None, :]).abs()
    bias = (-slopes[:, None, None] * far).masked_fill(~seen, -math.inf)
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[2]) + bias
    joined = torch.cat([scores, sinks[:, None, None].expand(-1, q_len, 1)], -1)
    lse = torch.logsumexp(joined, -1)
    out = torch.softmax(joined, -1)[..., :-1].nan_to_num(0.0) @ v
    if sinks.isinf().all() and seen.any(1).all():
        peer = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        torch.testing.assert_close(out, peer)
    return out.transpose(0, 1), lse.transpose(0, 1)


def pack(bits):
    """[q_len][columns] to 32-bit words, column 32 w + b in bit b of word w."""
    q_len, columns = bits.shape
    wide = torch.zeros(q_len, (columns + 31) // 32 * 32, dtype=torch.int64)
    wide[:, :columns] = bits
    words = (wide.view(q_len, -1, 32) << torch.arange(32)).sum(-1)
    return torch.where(words >= 2**31, words - 2**32, words).int()


def main():
    file = GoldenFile()
    for number, (name, (params, q_len, kv_len)) in enumerate(CASES.items()):
        gen = torch.Generator().manual_seed(7000 + number)
        heads, kv_heads = params["num_q_heads"], params["num_kv_heads"]

        def normal(*shape):
            return torch.randn(*shape, generator=gen).half()

        q = normal(q_len, heads, params["head_dim"])
        k = normal(kv_len, kv_heads, params["head_dim"])
        v = normal(kv_len, kv_heads, params["v_dim"])
        slopes = torch.full((heads,), 0.0, dtype=torch.float64)
        if params["alibi"]:
            slopes = 2.0 ** (-8.0 * torch.arange(1, heads + 1).double() / heads)
        sinks = torch.full((heads,), -math.inf, dtype=torch.float64)
        if params["sinks"]:
            sinks = torch.randn(heads, generator=gen).half().double() * 2
        parents = tree_of(q_len, gen)
        bits = torch.rand(q_len, max(params["columns"], 1), generator=gen) < 0.6
        seen = visible(q_len, kv_len, params, parents, bits)
        out, lse = attend(q.double(), k.double(), v.double(), seen, slopes, sinks)
        params.update(q_len=q_len, kv_len=kv_len)
        file.add(name, params, q=q, k=k, v=v, out=out.float(), lse=lse.float(),
                 slopes=slopes.float(), sinks=sinks.float(),
                 parents=torch.tensor(parents).int(), bits=pack(bits))
    file.write(pathlib.Path(__file__).parent / "modes.safetensors")


if __name__ == "__main__":
    main()
