#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures two builds of weft in one sitting, alternating, and fails if the new one lost too much.

usage: benchmark_compare.py OLD NEW [--loss PERCENT] [--rounds N] [--json] [-- BENCH ARGUMENTS ...]

OLD and NEW are `weft` programs. What is behind -- is one `weft bench` command (several are separated by
further --); without it, the rows of the README. Each round runs every command with both programs, the
order swapped from round to round. Shown are the median of the rounds' medians, and the least of them,
which other work on the machine disturbs less. Exit status 1 if both are more than PERCENT (default 2)
longer with NEW than with OLD in any row, 2 if a program fails.
"""
import json
import statistics
import subprocess
import sys

COMMANDS = [
    "linear --format q4_0,q8_0,q4_k,q6_k,f16 --rows 4096 --cols 4096 --batch 1 --seconds 0.3",
    "attention --kv-dtype f16 --batch 1 --q-len 1 --kv-len 4096 --heads 32 --kv-heads 8 --head-dim 128"
    " --seconds 0.3",
    "model --shape llama-3.2-1b --format q4_0 --prompt 128 --generate 32 --seconds 1",
    "model --model models/demo.gguf --prompt 64 --generate 128 --seconds 1",
]
KEY = ("op", "phase", "shape", "model", "format", "dtype", "kv_dtype", "rows", "cols", "batch", "q_len", "kv_len",
       "heads", "kv_heads", "head_dim", "prompt", "generate")


def fail(text):
    sys.exit(f"benchmark_compare: {text}")


def measure(program, command):
    """{key: median microseconds} of one command."""
    ran = subprocess.run([program, "bench", *command, "--json"], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        print(f"benchmark_compare: {program} bench {' '.join(command)}: {ran.stderr.strip()}", file=sys.stderr)
        sys.exit(2)
    rows = {}
    for line in ran.stdout.splitlines():
        row = json.loads(line)
        if "us_median" in row:
            rows[tuple(str(row.get(name, "")) for name in KEY)] = row["us_median"]
    return rows


def parse(arguments):
    programs, options, commands = [], {"--loss": 2.0, "--rounds": 3}, []
    as_json = False
    while arguments:
        word = arguments.pop(0)
        if word == "--":
            commands, current = [[]], arguments
            for word in current:
                if word == "--":
                    commands.append([])
                else:
                    commands[-1].append(word)
            arguments = []
        elif word in options:
            options[word] = float(arguments.pop(0)) if arguments else fail(f"{word} needs a number")
        elif word == "--json":
            as_json = True
        else:
            programs.append(word)
    if len(programs) != 2:
        fail(__doc__.split("\n\n")[1])
    return programs, options["--loss"], int(options["--rounds"]), commands or [c.split() for c in COMMANDS], as_json


def label(key):
    return " ".join(value for value in key if value)


def main():
    programs, loss, rounds, commands, as_json = parse(sys.argv[1:])
    times = [{}, {}]
    for turn in range(rounds):
        for command in commands:
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                for key, us in measure(programs[side], command).items():
                    times[side].setdefault(key, []).append(us)
    worst = 0
    for key, old in times[0].items():
        if key not in times[1]:
            fail(f"{programs[1]} has no row '{label(key)}'")
        new = times[1][key]
        before, after = statistics.median(old), statistics.median(new)
        change, least = (after / before - 1) * 100, (min(new) / min(old) - 1) * 100
        worst = max(worst, min(change, least))
        if as_json:
            print(json.dumps({"row": label(key), "old_us": before, "new_us": after, "change_percent": change,
                              "old_us_least": min(old), "new_us_least": min(new), "least_percent": least}))
        else:
            mark = "  slower" if min(change, least) > loss else ""
            print(f"{before:12.1f} us {after:12.1f} us {change:+7.1f} % (least {least:+6.1f} %)  {label(key)}{mark}")
    return 1 if worst > loss else 0


if __name__ == "__main__":
    sys.exit(main())
