#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Problems of a case of weft-check that are many: --lengths and --each say how many, each can be had alone by --problem, and
what the case says of all is what they say one by one, so that the command that a failure prints repeats it.

usage: check_problems.py WEFT_CHECK
"""
import json
import subprocess
import sys

KERNEL = "attention_any_ref"


def run(check, seed, *options):
    done = subprocess.run([check, "--variant", KERNEL, "--seed", str(seed), "--cases", "1", "--json", *options], capture_output=True, text=True,
                          check=False)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or len(rows) != 1:
        sys.exit(f"weft-check {options}: exit {done.returncode}: {done.stdout}{done.stderr}")
    return rows[0]


def main():
    check, wrong = sys.argv[1], []
    for seed in (2, 3, 7):
        shape = ("--lengths", "2", "--each", "3")
        all_of = run(check, seed, *shape)
        if all_of["passed"] != 6:
            wrong.append(f"seed {seed}: {all_of['passed']} problems, 6 are due")
        alone = [run(check, seed, *shape, "--problem", str(i)) for i in range(6)]
        if any(one["passed"] != 1 for one in alone):
            wrong.append(f"seed {seed}: not one problem each: {[one['passed'] for one in alone]}")
        worst = [one["worst"] for one in alone]
        if max(worst) != all_of["worst"]:
            wrong.append(f"seed {seed}: worst {all_of['worst']} of all, {max(worst)} of each alone")
        if len(set(worst)) < 4:
            wrong.append(f"seed {seed}: problems are alike: {worst}")
        if run(check, seed)["worst"] != run(check, seed, *shape[:2], "--each", "1", "--problem", "0")["worst"]:
            wrong.append(f"seed {seed}: the first problem is not that of a case of one")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
