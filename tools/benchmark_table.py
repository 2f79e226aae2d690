#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the tables of measured figures into documents.

A document says where a table stands and which rows make it:

    <!-- table: rows docs/benchmarks/cpu.jsonl -->
    ...
    <!-- end of table -->

`rows`: what `weft bench --json` printed, each line with the command that gave it (scripts/bench makes such files); of rows
measured several times the middle one is shown. `peers`: weft beside others, taking turns (tools/peers/); `medians`: the same in
short, beside the best of them. A file begins with an object that names the machine, the date and the commit. Everything outside
these lines is left alone.

usage: benchmark_table.py [--check] DOCUMENT.md...
"""
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))
import turns  # noqa: E402

BEGIN, END = re.compile(r"<!-- table: (rows|peers|medians) (\S+) -->"), "<!-- end of table -->"
# Share of the nearer roof that a row is to reach; docs/benchmarks.md says so where one misses it.
TARGETS = [
    ({"op": "linear", "format": {"q4_0", "q8_0", "f16", "bf16"}, "batch": {1}}, 0.85),
    ({"op": "linear", "format": {"q4_k", "q6_k"}, "batch": {1}}, 0.75),
    ({"op": "attention", "q_len": {1}}, 0.80),
    ({"op": "model", "phase": "decode"}, 0.75),
]


def keys_of(row):
    """How many keys; of a batch of unlike sequences the row has the longest alone."""
    longest = pick(row, "kv_len", "kv-len")
    return f"(up to {longest})" if "--kv-lens" in row.get("command", "") else longest


def pick(row, *keys, default="-"):
    for key in keys:
        if row.get(key) not in (None, ""):
            return row[key]
    return default


def target_of(row):
    for wanted, share in TARGETS:
        if all(pick(row, key, key.replace("_", "-")) in value if isinstance(value, set)
               else row.get(key) == value for key, value in wanted.items()):
            return share
    return None


def number(value, digits=1):
    return f"{value:.{digits}f}" if isinstance(value, (int, float)) else "-"


def share_of(row):
    """Median share of the roof, and the best one where the row has it: the machine may be shared."""
    shares = [row.get(key) for key in ("roof_fraction", "roof_fraction_best")]
    return " / ".join(f"{share:.1%}" for share in shares if isinstance(share, (int, float))) or "-"


def shape_of(row):
    op = row.get("op")
    if op == "linear":
        return f"{pick(row, 'rows')} x {pick(row, 'cols')}, batch {pick(row, 'batch', default=1)}"
    if op == "attention":
        return (f"{pick(row, 'heads')}/{pick(row, 'kv_heads', 'kv-heads')} heads, head_dim "
                f"{pick(row, 'head_dim', 'head-dim')}, {pick(row, 'q_len', 'q-len')} x {keys_of(row)}, "
                f"batch {pick(row, 'batch', default=1)}" + pages_and_mask_of(row))
    if op == "model":
        return (f"{pick(row, 'shape', 'model')}, {pick(row, 'phase')}: "
                f"{number(row.get('tokens_per_second'))} tokens/s")
    return str(pick(row, "what", "shape", default=""))


def pages_and_mask_of(row):
    """Where a row's command asks for other pages, another mask or more for its scores than the program's own choice."""
    command = row.get("command", "")
    pages = f", pages of {row['page_size']}" if "--page-size" in command and "page_size" in row else ""
    scores = "".join(f", {'soft-cap' if name == 'softcap' else name}" for name in ("sinks", "alibi", "softcap") if name in row)
    pages += f", {row['shared']} keys shared" if row.get("shared") else ""
    return pages + (f", {row['mask']}" if "--mask" in command and "mask" in row else "") + scores


def typical(rows):
    """One row of each kind: the middle one by share of the roof, else by time; of two, the worse."""
    kinds = {}
    for row in rows:
        kind = (row.get("command"), shape_kind(row), row.get("phase"), row.get("variant"))
        kinds.setdefault(kind, []).append(row)
    return [sorted(same, key=rank)[(len(same) - 1) // 2] for same in kinds.values()]


def shape_kind(row):
    return tuple(row.get(key) for key in ("op", "what", "format", "kv_dtype", "rows", "cols", "batch", "kv_len"))


def rank(row):
    share = row.get("roof_fraction")
    return share if isinstance(share, (int, float)) else -row.get("us_median", 0)


def table(meta, rows):
    rows = typical(rows)
    lines = [f"Measured {meta.get('date', '?')} on {meta.get('machine', '?')}, commit `{meta.get('commit', '?')}`.", "",
             "| operation | format | shape | kernel | time, us | GB/s | GFLOP/s | of the roof: median / best | wanted |",
             "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        share, target = row.get("roof_fraction"), target_of(row)
        wanted = "-"
        if target is not None and isinstance(share, (int, float)):
            wanted = f"{target:.0%} {'met' if share >= target else '**missed**'}"
        lines.append(
            f"| {pick(row, 'op')} | {pick(row, 'format', 'kv_dtype', 'kv-dtype', 'dtype')} | {shape_of(row)} "
            f"| {pick(row, 'variant', 'isa')} | {number(row.get('us_median'))} "
            f"| {number(pick(row, 'gbps_best', 'gbps'))} | {number(pick(row, 'gflops_best', 'gflops'))} "
            f"| {share_of(row)} | {wanted} |")
    commands = [row["command"] for row in rows if row.get("command")]
    if commands:
        lines += ["", "```sh", *dict.fromkeys(commands), "```"]
    return lines


def read_rows(path):
    with open(path, encoding="utf-8") as file:
        objects = [json.loads(line) for line in file if line.strip()]
    if not objects or "machine" not in objects[0]:
        sys.exit(f"benchmark_table: {path} does not start with an object that names the machine")
    return objects[0], objects[1:]


def with_tables(document, lines):
    """The document's lines with each table made anew."""
    made, marks = [], iter(enumerate(lines))
    for number, line in marks:
        made.append(line)
        mark = BEGIN.fullmatch(line)
        if not mark:
            continue
        ended = next((other for _, other in marks if other == END or BEGIN.fullmatch(other)), None)
        if ended != END:
            sys.exit(f"benchmark_table: {document}:{number + 1} begins a table that no line '{END}' ends")
        kind, path = mark.groups()
        made += ["", *{"rows": table, "peers": turns.table, "medians": turns.short_table}[kind](*read_rows(path)), "", END]
    return made


def main():
    arguments = sys.argv[1:]
    check = arguments[:1] == ["--check"]
    for document in arguments[check:]:
        path = pathlib.Path(document)
        lines = path.read_text(encoding="utf-8").splitlines()
        wanted = with_tables(document, lines)
        if not check:
            path.write_text("\n".join(wanted) + "\n", encoding="utf-8")
        elif wanted != lines:
            sys.exit(f"benchmark_table: the tables of {document} are not those of its rows; run it without --check")


if __name__ == "__main__":
    main()
