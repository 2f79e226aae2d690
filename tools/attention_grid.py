#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every kernel of attention of a GPU over lengths and head_dims, and every switch forced both ways: which wins, and where.

  attention_grid.py measure PART... [--weft PROGRAM] [--seconds S] > rows.jsonl    on the machine with the GPU
  attention_grid.py table rows.jsonl                                               Markdown, for NOTES.md

PARTs: decode (one query of one sequence), prefill (a prompt), switches. Kernels are compiled first, several programs at a time;
then one program after the other measures. A kernel that does not serve a shape has no cell; those that read one key after the
other are not waited for at the longest length.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HEAD_DIMS = [64, 96, 128, 256, 512]
DECODE_KEYS = [16, 128, 512, 1024, 4096, 8192, 32768, 131072]
PREFILL_QUERIES = [128, 512, 2048, 8192]
SLOW_MOST = 8192  # keys, of kernels that read one key after the other
COMPILERS = 14
BF16 = ["--dtype", "bf16", "--kv-dtype", "bf16", "--page-size", "16"]

DECODE = {  # name in the table: variant
    "decode": "attention_bf16_sm80",
    "any": "attention_any_sm80",
    "fast": "attention_fast_bf16_sm80",
    "parallel": "attention_parallel_bf16_sm80",
    "standard": "attention_standard_bf16_sm80",
}
PREFILL = {  # name: options
    "by warpgroups": ["--variant", "attention_bf16_sm90a"],
    "by warps, 128 rows": ["--variant", "attention_bf16_sm80", "--tile-rows", "128"],
    "by warps, 64 rows": ["--variant", "attention_bf16_sm80", "--tile-rows", "64"],
    "decode's, 16 rows": ["--variant", "attention_bf16_sm80", "--tile-rows", "16"],
    "any": ["--variant", "attention_any_sm80"],
}
# A switch: (what it is, options of the problem, {way: options}); the first way is the choice of the library.
SWITCHES = [
    ("rows of a tile: a prompt of 4096", ["--q-len", "4096", "--kv-len", "4096"],
     {"128, by warpgroups": [], "128, by warps": ["--tile-rows", "128", "--variant", "attention_bf16_sm80"],
      "64": ["--tile-rows", "64", "--variant", "attention_bf16_sm80"], "16": ["--tile-rows", "16"]}),
    ("rows of a tile: 8 tokens of a tree, 64 x 8192", ["--batch", "64", "--kv-len", "8192", "--q-len", "8", "--mask", "tree"],
     {"32 (two sixteens)": [], "16": ["--tile-rows", "16"]}),
    ("splits: 1 x 8192", ["--kv-len", "8192"], {"chosen": [], "whole": ["--splits", "1"], "8": ["--splits", "8"], "32": ["--splits", "32"]}),
    ("splits: 8 x 8192", ["--batch", "8", "--kv-len", "8192"], {"equal shares": [], "whole": ["--splits", "1"], "4": ["--splits", "4"]}),
    ("splits: 64 x 8192", ["--batch", "64", "--kv-len", "8192"], {"equal shares": [], "whole": ["--splits", "1"], "2": ["--splits", "2"]}),
    ("packing of the heads of a KV head: 1 x 1024", ["--kv-len", "1024"],
     {"packed (decode)": [], "a head a block (parallel)": ["--variant", "attention_parallel_bf16_sm80"],
      "a head a warp (fast)": ["--variant", "attention_fast_bf16_sm80"]}),
    ("keys as they lie or gathered: 8 x 8192", ["--batch", "8", "--kv-len", "8192"],
     {"in place, boxes": [], "in place, tokens outside KV heads": ["--tokens-first"],
      "through scratch in f32 (any)": ["--variant", "attention_any_sm80"]}),
    ("pages: 64 x 8192", ["--batch", "64", "--kv-len", "8192"],
     {"16": [], "1": ["--page-size", "1"], "8": ["--page-size", "8"], "128": ["--page-size", "128"]}),
    ("exponentials: 8 x 8192", ["--batch", "8", "--kv-len", "8192"], {"fast (queries of bf16)": [], "precise (queries of f32)": ["--dtype", "f32"]}),
    ("exponentials: a prompt of 4096", ["--q-len", "4096", "--kv-len", "4096"],
     {"fast (queries of bf16)": [], "precise (queries of f32)": ["--dtype", "f32"]}),
]


def rows_of(args, options, label, seconds):
    """The rows of one run of the program, marked with where they belong; none where the kernel does not serve."""
    command = [args.weft, "bench", "attention", "--device", args.device, "--json", "--seconds", str(seconds), *BF16, *options]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout)
    except subprocess.TimeoutExpired as late:
        text = late.stdout or b""
        return [dict(json.loads(line), **label) for line in text.decode().splitlines() if line.endswith("}")]
    return [dict(json.loads(line), **label) for line in run.stdout.splitlines() if line.startswith("{") and line.endswith("}")]


def runs_of(args):
    """(label, options, name and values of the lengths or None) of every run."""
    parts = args.parts
    for dim in HEAD_DIMS:
        for name, variant in DECODE.items() if "decode" in parts else ():
            slow = name in ("fast", "standard")
            keys = [k for k in args.keys if not slow or k <= SLOW_MOST]
            yield {"part": "decode", "way": name}, ["--head-dim", str(dim), "--variant", variant], "--kv-len", keys
        for name, options in PREFILL.items() if "prefill" in parts else ():
            for queries in args.queries:
                if name in ("any", "decode's, 16 rows") and queries > 2048:
                    continue
                yield ({"part": "prefill", "way": name}, ["--head-dim", str(dim), "--q-len", str(queries), *options],
                       "--kv-len", [queries])
    for what, problem, ways in SWITCHES if "switches" in parts else ():
        for way, options in ways.items():
            yield {"part": "switches", "switch": what, "way": way}, [*problem, *options], None, None


def measure(args):
    runs = list(runs_of(args))
    compiled = set()
    first = []
    for label, options, name, values in runs:
        shape = [name, str(values[0])] if name else []
        if (key := tuple(options)) not in compiled:
            compiled.add(key)
            first.append((options + shape, label))
    with ThreadPoolExecutor(COMPILERS) as pool:
        list(pool.map(lambda run: rows_of(args, run[0], run[1], 0.001), first))
    for label, options, name, values in runs:
        lengths = [name, ",".join(map(str, values))] if name else []
        for row in rows_of(args, options + lengths, label, args.seconds):
            print(json.dumps(row), flush=True)


def cell(value, best):
    text = "-" if value is None else f"{value:.1f}" if value < 1000 else f"{value:.0f}"
    return f"**{text}**" if value is not None and value == best else text


def crossovers(lengths, table):
    """Where the fastest way changes, from short to long."""
    said, before = [], None
    for length in lengths:
        cells = {way: us[length] for way, us in table.items() if length in us}
        if not cells:
            continue
        best = min(cells, key=cells.get)
        if best != before:
            said.append(f"{best} from {length}")
        before = best
    return ", ".join(said)


def grid(rows, part, key, what):
    tables = collections.OrderedDict()
    for row in rows:
        if row["part"] == part:
            tables.setdefault(row["head_dim"], collections.OrderedDict()).setdefault(row["way"], {})[row[key]] = row["us_median"]
    lengths = sorted({length for table in tables.values() for us in table.values() for length in us})
    if not lengths:
        return
    print(f"| kernel, head_dim | {' | '.join(map(str, lengths[:-1]))} | {lengths[-1]} {what} |")
    print("|---" * (len(lengths) + 1) + "|")
    for dim, table in tables.items():
        best = {length: min((us[length] for us in table.values() if length in us), default=None) for length in lengths}
        for way, us in table.items():
            print(f"| {way}, {dim} | " + " | ".join(cell(us.get(length), best[length]) for length in lengths) + " |")
    print()
    for dim, table in tables.items():
        print(f"- {dim}: {crossovers(lengths, table)}")
    print()


def switches(rows):
    tables = collections.OrderedDict()
    for row in rows:
        if row["part"] == "switches":
            tables.setdefault(row["switch"], []).append((row["way"], row["us_median"]))
    if not tables:
        return
    print("| switch | us, and times the library's choice |\n|---|---|")
    for what, ways in tables.items():
        own = ways[0][1]
        print(f"| {what} | " + "; ".join(f"{way} {us:.1f}" + (f" ({us / own:.2f})" if i else "") for i, (way, us) in enumerate(ways)) + " |")
    print()


def table(args):
    with open(args.rows, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file if line.startswith("{")]
    grid(rows, "decode", "kv_len", "keys")
    grid(rows, "prefill", "q_len", "queries")
    switches(rows)


def lengths(text):
    return [int(number) for number in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure")
    one.add_argument("parts", nargs="+", choices=["decode", "prefill", "switches"])
    one.add_argument("--keys", type=lengths, default=DECODE_KEYS, help="of decode, 16,128,...")
    one.add_argument("--queries", type=lengths, default=PREFILL_QUERIES, help="of prefill")
    one.add_argument("--weft", default=os.path.join("build", "release", "weft"))
    one.add_argument("--device", default="cuda")
    one.add_argument("--seconds", type=float, default=0.05)
    one.add_argument("--timeout", type=float, default=30)
    one.set_defaults(run=measure)
    two = commands.add_parser("table")
    two.add_argument("rows")
    two.set_defaults(run=table)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    sys.exit(main())
