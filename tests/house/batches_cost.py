#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds what a batch of unlike sequences costs to MOST times the sum of its parts, each alone.

One that is much longer than the others, and a prompt beside single tokens, as steps of a server have them. Batch and
parts take turns, each with all threads, so that a machine that others use drifts for all of them alike.

usage: batches_cost.py WEFT
"""
import json
import statistics
import subprocess
import sys

MOST, ROUNDS, SECONDS = 1.1, 3, "0.2"
# A part: queries and keys of a sequence, and how many there are.
BATCHES = {
    "16384 keys beside 31 times 512": [(1, 16384, 1), (1, 512, 31)],
    "512 queries beside tokens behind 4096, 300 and 100 keys": [(512, 512, 1), (1, 4096, 1), (1, 300, 1), (1, 100, 1)],
    "512 queries beside 31 tokens behind 1024 keys": [(512, 512, 1), (1, 1024, 31)],
}


def median_us(program, parts):
    """Microseconds of a run over all sequences of these parts."""
    lengths = [",".join(str(part[which]) for part in parts for _ in range(part[2])) for which in (0, 1)]
    command = [program, "bench", "attention", "--q-lens", lengths[0], "--kv-lens", lengths[1],
               "--seconds", SECONDS, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return next(row["us_median"] for row in rows if row["op"] == "attention")


def main():
    program, failed = sys.argv[1], 0
    for name, parts in BATCHES.items():
        whole, alone = [], []
        for _ in range(ROUNDS):
            whole.append(median_us(program, parts))
            alone.append(sum(median_us(program, [part]) for part in parts))
        share = statistics.median(whole) / statistics.median(alone)
        failed += share > MOST
        print(f"{name}: {statistics.median(whole):.0f} us, its parts {statistics.median(alone):.0f}: "
              f"{share:.2f}, {MOST} at most{': MISSED' if share > MOST else ''}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
