#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds weft against llama.cpp and ik_llama.cpp on the same files, taking turns.

    llama.py OUT.jsonl FILE.gguf... --llama LLAMA_BENCH [--ik LLAMA_BENCH] [--device cuda] [--prompt P] [--depth D] [--rounds N]

Appends to OUT.jsonl (turns.py) tokens per second of a prompt, and of generation behind --depth tokens. ik_llama.cpp runs with
and without repacking of weights; on a GPU, and behind a context, llama.cpp with and without flash attention, and the better counts.
Files: `weft quantize --shape llama-3.2-1b 1b-q4_0.gguf --format q4_0`; a thing is called by the name of its file.
"""

import argparse
import json
import pathlib

import turns

GENERATE = {"cpu": 24, "cuda": 64}
WANTED = {"cpu": (1.2, 1.05), "cuda": (2, 2)}  # prompt, generation
TESTS = {"prefill": lambda row: row["n_prompt"] and not row["n_gen"], "decode": lambda row: row["n_gen"]}


def weft(args, file):
    command = [args.weft, "bench", "model", "--model", file, "--device", args.device, "--prompt", args.prompt, "--depth", args.depth,
               "--generate", GENERATE[args.device], "--seconds", "0.1", "--working-set", "64", "--json"]  # fmt: skip
    rows = turns.rows_of_weft(command + threads(args, "--threads"))
    return {row["phase"]: row["tokens_per_second"] for row in rows}


def threads(args, option):
    return [] if args.device == "cuda" else [option, args.threads]


def llama_bench(binary, *ways):
    """Measures by a llama-bench; of several ways to call it the better figure of each phase."""

    def measure(args, file):
        best = {}
        for way in ways:
            command = [binary, "-m", file, "-r", 1, "-o", "json", *threads(args, "-t"), *way]
            if args.device == "cuda":
                command += ["-ngl", 99]
            found = rows_of(command + ["-p", args.prompt, "-n", 0 if args.depth else GENERATE[args.device]])
            if args.depth:
                found += rows_of(command + deep(binary, args))
            for phase, is_of in TESTS.items():
                best[phase] = max([best.get(phase, 0)] + [row["avg_ts"] for row in found if is_of(row)])
        return best

    return measure


def deep(binary, args):
    """Generation behind a context: ik_llama.cpp calls it -gp."""
    generate = GENERATE[args.device]
    is_ik = "-gp" in turns.output([binary, "--help"])
    if is_ik:
        return ["-p", 0, "-n", 0, "-gp", f"{args.depth},{generate}"]
    return ["-p", 0, "-n", generate, "-d", args.depth]


def rows_of(command):
    text = turns.output(command)
    return json.loads(text[text.index("[") :])


def programs(args):
    either = [["-fa", 0], ["-fa", 1]] if args.device == "cuda" or args.depth else [[]]
    found = {"weft": weft, "llama.cpp": llama_bench(args.llama, *either)}
    if args.ik:
        found["ik"] = llama_bench(args.ik, ["-rtr", 0])
        found["ik repacked"] = llama_bench(args.ik, ["-rtr", 1])
    return found


def measure(args, file):
    reached = {name: of(args, file) for name, of in programs(args).items()}
    name = pathlib.Path(file).stem
    behind = f" behind {args.depth} tokens" if args.depth else ""
    labels = {"prefill": f"{name}, prompt of {args.prompt}", "decode": f"{name}, generation{behind}"}
    for (phase, label), wanted in zip(labels.items(), WANTED[args.device]):
        turns.append(args.out, label, "tokens/s", {who: of[phase] for who, of in reached.items()}, wanted)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--llama", required=True)
    parser.add_argument("--ik")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peers", default="llama.cpp, ik_llama.cpp", help="which versions these are")
    turns.options(parser)
    args = parser.parse_args()
    turns.begin(args.out, args.weft, args.peers, args.machine, args.commit)
    for _ in range(args.rounds):
        for file in args.files:
            measure(args, file)


if __name__ == "__main__":
    main()
