#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What scripts rely on: sub-commands, keys of JSON rows, exit statuses, one-line errors; pages of help and the manual.

usage: cli_contracts.py WEFT WEFT_CHECK SCRATCH_DIR
"""
import json
import os
import re
import subprocess
import sys

MANUAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "weft.1")

ROW = {"op", "device", "isa", "variant", "cold", "us_median", "us_min", "bytes", "flops", "gbps", "gflops",
       "roof_gbps", "roof_gflops", "roof_fraction"}
BENCHES = [
    (["linear", "--format", "q4_0", "--rows", "64", "--cols", "256", "--batch", "1", "--hot"],
     ROW | {"format", "rows", "cols", "batch"}),
    (["attention", "--kv-dtype", "f16", "--batch", "1", "--q-len", "1", "--kv-len", "256", "--heads", "4", "--kv-heads",
      "2", "--head-dim", "64", "--page-size", "16", "--mask", "causal", "--splits", "auto"],
     ROW | {"kv_dtype", "batch", "q_len", "kv_len", "heads", "kv_heads", "head_dim", "page_size", "mask"}),
]
# Arguments that are refused: what is wrong, the exit status. {empty}, {folder}, {text} are files made here.
REFUSED = [
    ("no such command", ["no-such-command"], 2),
    ("no model", ["run"], 2),
    ("unknown option", ["run", "--no-such-option", "{empty}"], 2),
    ("negative count", ["run", "{empty}", "-p", "a", "-n", "-2"], 2),
    ("threads 0", ["run", "{empty}", "-p", "a", "--threads", "0"], 2),
    ("threads 10000", ["run", "{empty}", "-p", "a", "--threads", "10000"], 2),
    ("unknown device", ["run", "{empty}", "-p", "a", "--device", "abacus"], 2),
    ("unknown format", ["bench", "linear", "--format", "q9_9"], 2),
    ("port 70000", ["serve", "{empty}", "--port", "70000"], 2),
    ("empty file served", ["serve", "{empty}"], 1),
    ("missing file", ["run", "{missing}", "-p", "a"], 1),
    ("empty file", ["run", "{empty}", "-p", "a"], 1),
    ("folder", ["run", "{folder}", "-p", "a"], 1),
    ("wrong magic", ["inspect", "{text}"], 1),
]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL)


def wrong(what, done, reason):
    sys.exit(f"cli_contracts: {what}: {reason}\nstatus {done.returncode}\n{done.stdout}{done.stderr}")


def check_help(weft):
    overview = run(weft, "--help")
    commands = re.findall(r"^  ([a-z]+)  +\S", overview.stdout, re.MULTILINE)
    if len(commands) < 16:
        wrong("weft --help", overview, "fewer commands than there were")
    benches = [f"bench {name}" for name in ("device", "linear", "attention", "softmax", "softcap", "model", "speculation")]
    for command in [*commands, *benches, "tune linear", "tune attention"]:
        done = run(weft, *command.split(), "--help")
        if done.returncode != 0 or "usage:" not in done.stdout or done.stderr:
            wrong(f"weft {command} --help", done, "no help on standard output")
        for line in done.stdout.splitlines():
            if len(line) > 100 or line != line.rstrip():
                wrong(f"weft {command} --help", done, f"a line of more than 100 columns, or with blanks at its end: '{line}'")
    with open(MANUAL, encoding="utf-8") as file:
        told = re.findall(r"^\.It Cm (\w+)$", file.read(), re.MULTILINE)
    if told != commands:
        wrong("docs/weft.1", overview, f"its commands are {told}")


def check_rows(weft):
    for arguments, keys in BENCHES:
        done = run(weft, "bench", *arguments, "--json")
        if done.returncode != 0:
            wrong(f"weft bench {arguments[0]}", done, "failed")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        missing = keys - set(rows[-1])
        if missing:
            wrong(f"weft bench {arguments[0]}", done, f"rows without {', '.join(sorted(missing))}")
    done = run(weft, "info", "--kernels", "--json")
    if done.returncode != 0 or not all(json.loads(line) for line in done.stdout.splitlines()):
        wrong("weft info --kernels --json", done, "no rows")


def check_refusals(weft, scratch):
    places = {name: os.path.join(scratch, name) for name in ("empty", "folder", "text", "missing")}
    os.makedirs(places["folder"], exist_ok=True)
    for name, text in (("empty", ""), ("text", "this is no model\n" * 10)):
        with open(places[name], "w", encoding="utf-8") as file:
            file.write(text)
    for what, arguments, status in REFUSED:
        done = run(weft, *(argument.format(**places) for argument in arguments))
        lines = done.stderr.splitlines()
        if done.returncode != status:
            wrong(what, done, f"exit status {status} wanted")
        if len(lines) != 1 or done.stdout:
            wrong(what, done, "one line on standard error wanted, and nothing on standard output")


def main():
    weft, weft_check, scratch = sys.argv[1:4]
    os.makedirs(scratch, exist_ok=True)
    check_help(weft)
    check_rows(weft)
    check_refusals(weft, scratch)
    for level, status in (("ref", 0), ("sse9", 2)):  # the level that the environment asks for, or none of that name
        done = run("env", f"WEFT_CPU={level}", weft_check, "--op", "norm", "--cases", "1")
        if done.returncode != status:
            wrong(f"weft-check with WEFT_CPU={level}", done, f"exit status {status} wanted")
    done = run(weft_check, "--op", "norm", "--cases", "1")
    if not done.stdout.rstrip().splitlines()[-1].endswith("passed, 0 failed"):
        wrong("weft-check", done, "does not end with 'N passed, 0 failed'")


if __name__ == "__main__":
    main()
