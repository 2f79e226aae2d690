#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds weft against llama.cpp and ik_llama.cpp on the same file, taking turns.

    bench_peers.py run OUT.jsonl FILE.gguf --weft WEFT --llama LLAMA_BENCH --ik LLAMA_BENCH [--depth D] [--prompt P]
    bench_peers.py table OUT.jsonl

`run` appends a line: tokens per second of every program, for a prompt and for generation behind `--depth` tokens. `table`
takes the best of all lines of a file, on machines that others disturb. ik_llama.cpp runs with and without repacking of weights.
Files: `weft quantize --shape llama-3.2-1b OUT --format F`.
"""

import argparse
import json
import pathlib
import subprocess

GENERATE = 24


def weft(args):
    command = [args.weft, "bench", "model", "--model", args.file, "--prompt", args.prompt, "--depth", args.depth,
               "--generate", GENERATE, "--seconds", "0.1", "--working-set", "64", "--threads", args.threads, "--json"]  # fmt: skip
    rows = [json.loads(line) for line in output(command).splitlines() if line.startswith("{")]
    return {row["phase"]: row["tokens_per_second"] for row in rows}


def llama_bench(binary, extra):
    def measure(args):
        command = [binary, "-m", args.file, "-p", args.prompt, "-n", GENERATE, "-t", args.threads, "-r", 1, "-o", "json"]
        found = rows_of(command + extra + ([] if args.depth == 0 else ["-n", 0]))
        if args.depth:
            found += rows_of([binary, "-m", args.file, "-t", args.threads, "-r", 1, "-o", "json", *deep(binary, args), *extra])
        return {("prefill" if row["n_prompt"] and not row["n_gen"] else "decode"): row["avg_ts"] for row in found}

    return measure


def deep(binary, args):
    """Generation behind a context: ik_llama.cpp calls it -gp."""
    is_ik = "-gp" in subprocess.run([binary, "--help"], capture_output=True, text=True).stdout
    if is_ik:
        return ["-p", 0, "-n", 0, "-gp", f"{args.depth},{GENERATE}"]
    return ["-p", 0, "-n", GENERATE, "-d", args.depth, "-fa", 1]


def output(command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout


def rows_of(command):
    text = output(command)
    return json.loads(text[text.index("[") :])


def run(args):
    programs = {"weft": weft, "llama.cpp": llama_bench(args.llama, [])}
    if args.ik:
        programs["ik"] = llama_bench(args.ik, ["-rtr", 0])
        programs["ik repacked"] = llama_bench(args.ik, ["-rtr", 1])
    row = {"file": pathlib.Path(args.file).stem, "prompt": args.prompt, "depth": args.depth, "threads": args.threads}
    for name, measure in programs.items():
        for phase, value in measure(args).items():
            row.setdefault(phase, {})[name] = round(value, 2)
    with open(args.out, "a") as out:
        out.write(json.dumps(row) + "\n")
    print(json.dumps(row))


def best_of(path):
    rows = {}
    for line in open(path):
        row = json.loads(line)
        kept = rows.setdefault((row["file"], row["prompt"], row["depth"]), row)
        for phase in ("prefill", "decode"):
            for name, value in row.get(phase, {}).items():
                of = kept.setdefault(phase, {})
                of[name] = max(of.get(name, 0), value)
    return rows.values()


def table(args):
    print("| file | prompt | weft | llama.cpp | ik | ik repacked | weft / better | generation behind | weft | llama.cpp | ik | ik repacked | weft / better |")
    print("|---|" + "---|" * 12)
    for row in best_of(args.out):
        cells = [row["file"]]
        for phase, what in (("prefill", row["prompt"]), ("decode", row["depth"])):
            of = row.get(phase, {})
            best = max((v for name, v in of.items() if name != "weft"), default=0)
            cells += [what] + [of.get(name, "-") for name in ("weft", "llama.cpp", "ik", "ik repacked")]
            cells.append(f"{of['weft'] / best:.2f}" if best and "weft" in of else "-")
        print("| " + " | ".join(str(cell) for cell in cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("out")
    parser.add_argument("file", nargs="?")
    parser.add_argument("--weft", default="build/release/weft")
    parser.add_argument("--llama")
    parser.add_argument("--ik")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    run(args) if args.what == "run" else table(args)


if __name__ == "__main__":
    main()
