#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds weft against PyTorch in texts a second: the shape of BERT-base, texts of 512 tokens, made-up weights, taking turns.

    encoder.py OUT.jsonl [--formats bf16,f16,q8_0,f32] [--batch 1,4] [--threads T] [--weft WEFT] [--rounds N]

PyTorch runs transformers' BertModel with its scaled dot product attention, in f32 where weft does and in bf16 otherwise, and
takes the mean of the states; its process is a new one each time, as weft's is.
"""

import argparse
import importlib.metadata
import json
import sys

import turns

TOKENS = 512
SECONDS = 3
OF_TORCH = {"f32", "bf16"}
TORCH = """
import json, sys, time
import torch
from transformers import BertConfig, BertModel
dtype, batch, threads, tokens, seconds = sys.argv[1], *map(int, sys.argv[2:])
torch.set_num_threads(threads)
torch.manual_seed(0)
model = BertModel(BertConfig(attn_implementation="sdpa"), add_pooling_layer=False).eval()
model = model.to({"f32": torch.float32, "bf16": torch.bfloat16}[dtype])
ids = torch.randint(1000, 30000, (batch, tokens))
times = []
with torch.inference_mode():
    while len(times) < 5 or sum(times) < seconds:
        begun = time.perf_counter()
        torch.nn.functional.normalize(model(input_ids=ids).last_hidden_state.float().mean(1), dim=1)
        times.append(time.perf_counter() - begun)
times = sorted(times[2:])
print(json.dumps(batch / times[len(times) // 2]))
"""


def weft(args, dtype, batch):
    rows = turns.rows_of_weft([args.weft, "bench", "model", "--shape", "bert-base", "--format", dtype, "--prompt", TOKENS, "--batch", batch,
                   "--seconds", SECONDS, "--working-set", 64, "--threads", args.threads, "--json"])  # fmt: skip
    row = next(row for row in rows if row.get("phase") == "prefill")
    return row["tokens_per_second"] / TOKENS


def torch(args, dtype, batch):
    return json.loads(turns.output([sys.executable, "-c", TORCH, dtype, batch, args.threads, TOKENS, SECONDS]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--formats", default="bf16,f32")
    parser.add_argument("--batch", default="1,4")
    parser.add_argument("--threads", type=int, default=2)
    turns.options(parser)
    args = parser.parse_args()
    turns.begin(args.out, args.weft, f"PyTorch {importlib.metadata.version('torch')}", args.machine, args.commit)
    for _ in range(args.rounds):
        for dtype in args.formats.split(","):
            for batch in map(int, args.batch.split(",")):
                what = f"BERT-base in {dtype}, {batch} text{'s' * (batch > 1)} of {TOKENS} tokens"
                figures = {"weft": weft(args, dtype, batch), "PyTorch": torch(args, dtype if dtype in OF_TORCH else "bf16", batch)}
                turns.append(args.out, what, "texts/s", figures, 1.5)


if __name__ == "__main__":
    main()
