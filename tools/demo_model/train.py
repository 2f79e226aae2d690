#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the demo model: worker processes write and tokenise documents while the GPU learns.

Rows of context + 1 tokens are filled with whole documents (best fit). A row is used once, unless
the workers fall behind. The schedule follows the clock: warm-up, constant, linear decay to zero.
Writes weights-0.pt and weights-1.pt (float16 halves of the state) and train.json into --out.
"""

import argparse
import bisect
import json
import multiprocessing
import os
import queue
import random
import time

import numpy as np
import torch
import torch.nn.functional as F

import generate
from model import Config, Llama

SHARD = 1000  # documents
BOS = 0


def pack(documents, length, rng):
    """Fills rows of `length` tokens with whole documents, best fit; the rest of a row is BOS."""
    rows, free = [], []  # free: sorted (room, row)
    for tokens in sorted(documents, key=len, reverse=True):
        if len(tokens) > length:
            continue
        i = bisect.bisect_left(free, (len(tokens), -1))
        if i < len(free):
            room, row = free.pop(i)
        else:
            room, row = length, len(rows)
            rows.append([])
        rows[row].append(tokens)
        bisect.insort(free, (room - len(tokens), row))
    out = np.full((len(rows), length), BOS, np.uint16)
    for i, row in enumerate(rows):
        rng.shuffle(row)
        flat = [t for tokens in row for t in tokens]
        # Sometimes without BOS at the start of the row: a caller may forget it.
        flat = flat[1:] if rng.random() < 0.15 else flat
        out[i, : len(flat)] = flat
    rng.shuffle(out)
    return out


def worker(counter, results, tokenizer_path, length, avoid):
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(tokenizer_path)
    while True:
        with counter.get_lock():
            index = counter.value
            counter.value += 1
        # The first two shards are the held-out ones.
        split, index = ("held-out", index) if index < 2 else ("train", index - 2)
        texts = [
            text
            for text, _ in generate.documents(
                split, index * SHARD, SHARD, avoid if split == "train" else ()
            )
        ]
        encoded = [e.ids for e in tokenizer.encode_batch(texts)]
        results.put((split, pack(encoded, length, np.random.default_rng(index))))


class Data:
    def __init__(self, args, config, device):
        self.device, self.length = device, config.context + 1
        context = multiprocessing.get_context("fork")
        counter, self.results = context.Value("q", 0), context.Queue(maxsize=256)
        avoid = frozenset(generate.held_out_digests())
        for _ in range(args.workers):
            context.Process(
                target=worker,
                args=(counter, self.results, args.tokenizer, self.length, avoid),
                daemon=True,
            ).start()
        self.pool = torch.empty((args.pool_rows, self.length), dtype=torch.int16, device=device)
        self.rows = self.used = self.repeated = 0
        held_out = []
        while len(held_out) < 2 or self.rows < args.batch:
            split, rows = self.results.get()
            if split == "train":
                self._add(rows)
            else:
                held_out.append(torch.from_numpy(rows.astype(np.int16)))
        self.held_out = torch.cat(held_out)[: args.eval_rows].to(device)

    def _add(self, rows):
        n = min(len(rows), len(self.pool) - self.rows)
        self.pool[self.rows : self.rows + n] = torch.from_numpy(rows[:n].astype(np.int16)).to(
            self.device
        )
        self.rows += n

    def batch(self, size):
        while True:
            try:
                self._add(self.results.get_nowait()[1])
            except queue.Empty:
                break
        if self.rows - self.used >= size:
            rows = self.pool[self.used : self.used + size]
            self.used += size
        else:
            rows = self.pool[torch.randint(self.rows, (size,), device=self.device)]
            self.repeated += size
        return rows.long()


class Muon:
    """Momentum, orthogonalised by Newton-Schulz steps (Jordan et al., 2024), batched by shape."""

    def __init__(self, parameters, momentum=0.95):
        self.momentum = momentum
        self.groups = {}
        for p in parameters:
            self.groups.setdefault(tuple(p.shape), []).append(p)
        self.buffers = {
            shape: torch.zeros((len(ps), *shape), device=ps[0].device)
            for shape, ps in self.groups.items()
        }

    @torch.no_grad()
    def step(self, lr, decay):
        for shape, ps in self.groups.items():
            grads, buffer = torch.stack([p.grad for p in ps]), self.buffers[shape]
            buffer.lerp_(grads, 1 - self.momentum)
            x = grads.lerp(buffer, self.momentum).bfloat16()
            tall = shape[0] > shape[1]
            x = x.mT if tall else x
            x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
            for _ in range(5):
                a = x @ x.mT
                x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
            x = (x.mT if tall else x).float()
            torch._foreach_mul_(ps, 1 - lr * decay)
            torch._foreach_add_(
                ps, list(x.unbind(0)), alpha=-lr * max(1, shape[0] / shape[1]) ** 0.5
            )


def loss_of(model, rows):
    targets = rows[:, 1:]
    # Nothing foretells which document comes next, nor what fills a row.
    targets = torch.where(targets == BOS, -100, targets)
    return F.cross_entropy(
        model(rows[:, :-1]).float().flatten(0, 1), targets.flatten(), ignore_index=-100
    )


def save(model, out, record):
    os.makedirs(out, exist_ok=True)
    state = {name: p.detach().half().cpu() for name, p in model.state_dict().items()}
    names = sorted(state)
    for part in range(2):
        torch.save({n: state[n] for n in names[part::2]}, os.path.join(out, f"weights-{part}.pt"))
    with open(os.path.join(out, "train.json"), "w") as file:
        json.dump(record, file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", default="tokenizer.json")
    parser.add_argument("--out", default="out")
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--batch", type=int, default=192, help="rows of 1024 tokens")
    parser.add_argument("--muon-lr", type=float, default=0.02)
    parser.add_argument("--adam-lr", type=float, default=0.003)
    parser.add_argument("--decay", type=float, default=0.01)
    parser.add_argument("--workers", type=int, default=max(1, os.cpu_count() - 1))
    parser.add_argument("--eval-rows", type=int, default=512)
    parser.add_argument("--pool-rows", type=int, default=2_000_000)
    for name in ("dim", "layers", "heads", "kv_heads", "ffn", "context"):
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=getattr(Config, name))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    random.seed(args.seed)
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = Config(
        **{k: getattr(args, k) for k in ("dim", "layers", "heads", "kv_heads", "ffn", "context")}
    )
    data = Data(args, config, device)
    model = Llama(config).to(device)
    count = sum(p.numel() for p in model.parameters())
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and n.startswith("blk")]
    others = [p for n, p in model.named_parameters() if not (p.dim() == 2 and n.startswith("blk"))]
    muon = Muon(matrices)
    adam = torch.optim.AdamW(
        others, lr=args.adam_lr, betas=(0.9, 0.95), weight_decay=0.0, fused=device == "cuda"
    )
    step_loss = loss_of if args.no_compile else torch.compile(loss_of)
    cast = torch.autocast(device, dtype=torch.bfloat16)

    def held_out_loss():
        with torch.no_grad(), cast:
            parts = [
                loss_of(model, rows.long()) for rows in data.held_out.split(min(64, args.eval_rows))
            ]
        return float(torch.stack(parts).mean())

    print(f"{count} parameters, {device}, {data.rows} rows ready", flush=True)
    start, step, tokens, total, record = (
        None,
        0,
        0,
        0.0,
        {"config": vars(config), "parameters": count, "args": vars(args), "log": []},
    )
    while True:
        # The clock starts after compilation, with the third step.
        done = 0.0 if start is None else (time.time() - start) / (60 * args.minutes)
        if done >= 1:
            break
        rate = min(1.0, (step + 1) / 200) * min(1.0, max(0.0, 1 - done) / 0.6)
        with cast:
            loss = step_loss(model, data.batch(args.batch))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        for group in adam.param_groups:
            group["lr"] = args.adam_lr * rate
        adam.step()
        muon.step(args.muon_lr * rate, args.decay)
        model.zero_grad(set_to_none=True)
        total += loss.detach()
        step += 1
        tokens += args.batch * config.context
        if step == 2:
            if device == "cuda":
                torch.cuda.synchronize()
            start = time.time()
        if step % 200 == 0:
            line = {
                "step": step,
                "tokens": tokens,
                "seconds": round(time.time() - start, 1),
                "loss": round(float(total) / 200, 4),
                "rows": data.rows,
                "repeated": data.repeated,
            }
            if step % 1000 == 0:
                line["held_out"] = round(held_out_loss(), 4)
            record["log"].append(line)
            print(json.dumps(line), flush=True)
            total = 0.0
    record.update(
        steps=step,
        tokens=tokens,
        seconds=round(time.time() - start, 1),
        held_out_loss=round(held_out_loss(), 4),
        rows=data.rows,
        repeated=data.repeated,
        device=torch.cuda.get_device_name() if device == "cuda" else "cpu",
    )
    save(model, args.out, record)
    print(
        f"held-out loss {record['held_out_loss']} after {tokens} tokens in {record['seconds']} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
