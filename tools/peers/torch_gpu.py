#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds weft against PyTorch on an NVIDIA GPU, taking turns: cuDNN's and FlashAttention-2's attention, cuBLAS, tinygemm.

    torch_gpu.py OUT.jsonl [--only decode,prefill,linear] [--weft WEFT] [--rounds N]

Both sides read from memory, not from a cache: a graph of calls goes round copies of what they read. weft's cache lies in
pages of 64 tokens, PyTorch's in one piece. FlashAttention-2 and cuDNN are asked for by name and get grouped heads as they are, or, where
they refuse them, keys and values repeated for each head (which is the easier problem).
"""

import argparse
import statistics

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import turns

HEADS, KV_HEADS, HEAD_DIM, GROUP = 32, 8, 128, 64
COLD_BYTES = 1 << 30
BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttention-2": SDPBackend.FLASH_ATTENTION}
DECODE = [(1, 1024), (1, 8192), (1, 131072), (8, 8192), (64, 8192), (32, 512)]  # sequences, keys
PREFILL = [(16, 1024), (4, 4096), (1, 16384)]  # sequences, tokens
MATRICES = [(128256, 4096), (28672, 4096), (14336, 4096), (4096, 14336), (4096, 4096)]
BATCHES = [1, 8]


def copies_of(bytes_each, most=64):
    return max(1, min(most, -(-COLD_BYTES // bytes_each)))


def graph_us(calls, replays=9):
    """Microseconds of one of `calls`, which a graph runs one after the other; the median of its replays."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls[:2]:
            call()
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for call in calls:
                call()
        graph.replay()
        found = []
        for _ in range(replays):
            begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begun.record(stream)
            graph.replay()
            ended.record(stream)
            stream.synchronize()
            found.append(begun.elapsed_time(ended) * 1e3 / len(calls))
    return statistics.median(found)


def numbers(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def attention_us(backend, seqs, queries, keys):
    q = numbers(seqs, HEADS, queries, HEAD_DIM)
    copies = copies_of(4 * seqs * KV_HEADS * keys * HEAD_DIM)
    pairs = [[numbers(seqs, KV_HEADS, keys, HEAD_DIM) for _ in "kv"] for _ in range(copies)]
    causal = queries > 1

    def times(pairs, grouped):
        calls = [lambda k=k, v=v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped) for k, v in pairs]
        with sdpa_kernel(backend):
            return graph_us(calls)

    try:
        return times(pairs, True)
    except RuntimeError:
        return times([[t.repeat_interleave(HEADS // KV_HEADS, 1) for t in pair] for pair in pairs[:2]], False)


def linear_us(rows, cols, batch):
    weights = [numbers(rows, cols) for _ in range(copies_of(2 * rows * cols))]
    x = numbers(batch, cols)
    return graph_us([lambda w=w: F.linear(x, w) for w in weights])


def tinygemm_us(rows, cols, batch):
    codes = torch.randint(0, 255, (rows, cols // 2), device="cuda", dtype=torch.uint8)
    packed = torch.ops.aten._convert_weight_to_int4pack(codes, 8)
    weights = [packed.clone() for _ in range(copies_of(rows * cols // 2))]
    scales, x = numbers(cols // GROUP, rows, 2), numbers(batch, cols)
    return graph_us([lambda w=w: torch.ops.aten._weight_int4pack_mm(x, w, GROUP, scales) for w in weights])


def weft_us(args, what, *options):
    rows = turns.rows_of_weft([args.weft, "bench", what, "--device", "cuda", "--seconds", "0.2", "--json", *options])
    return next(row["us_median"] for row in rows if row.get("op") == what)


def reached(peers):
    """What each peer takes; one that refuses the problem has no figure."""
    figures = {}
    for name, measure in peers.items():
        torch.cuda.empty_cache()
        try:
            figures[name] = measure()
        except RuntimeError as error:
            print(f"{name}: {str(error).splitlines()[0]}", flush=True)
    torch.cuda.empty_cache()
    return figures


def attention_turn(args, seqs, queries, keys):
    options = ("--dtype", "bf16", "--kv-dtype", "bf16", "--batch", seqs, "--q-len", queries, "--kv-len", keys)
    figures = {"weft": weft_us(args, "attention", *options)}
    figures |= reached({name: lambda of=of: attention_us(of, seqs, queries, keys) for name, of in BACKENDS.items()})
    if queries == 1:
        turns.append(args.out, f"attention, one token of {seqs} x {keys}", "us", figures, 1)
        return
    flops = 4 * seqs * HEADS * queries * keys / 2 * HEAD_DIM  # causal: half of the scores
    teraflops = {name: flops / us / 1e6 for name, us in figures.items()}
    turns.append(args.out, f"attention, prompts of {seqs} x {keys}", "TFLOP/s", teraflops, 1)


def linear_turn(args, rows, cols, batch):
    def weft(weights):
        return weft_us(args, "linear", "--format", weights, "--rows", rows, "--cols", cols, "--batch", batch)

    where = f"{rows} x {cols}, {batch} row{'s' * (batch > 1)}"
    wanted = {"bf16": 1, "mlx_q4_g64": 2 if batch == 1 else None}
    peers = {"bf16": {"cuBLAS": lambda: linear_us(rows, cols, batch)},
             "mlx_q4_g64": {"tinygemm": lambda: tinygemm_us(rows, cols, batch)}}  # fmt: skip
    for weights, of in peers.items():
        turns.append(args.out, f"linear {weights}, {where}", "us", {"weft": weft(weights)} | reached(of), wanted[weights])


def turn(args, only):
    if "decode" in only:
        for seqs, keys in DECODE:
            attention_turn(args, seqs, 1, keys)
    if "prefill" in only:
        for seqs, keys in PREFILL:
            attention_turn(args, seqs, keys, keys)
    if "linear" in only:
        for rows, cols in MATRICES:
            for batch in BATCHES:
                linear_turn(args, rows, cols, batch)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--only", default="decode,prefill,linear")
    turns.options(parser)
    args = parser.parse_args()
    peers = f"PyTorch {torch.__version__} with cuDNN {torch.backends.cudnn.version()}"
    turns.begin(args.out, args.weft, peers, args.machine or f"one {torch.cuda.get_device_name(0)}", args.commit)
    for _ in range(args.rounds):
        turn(args, args.only.split(","))


if __name__ == "__main__":
    main()
