#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tables of docs/accuracy.md: what formats of the KV cache and of weights cost in accuracy, on the demo model.

The text is of the demo model's own world, from documents that it was not trained with (tools/demo_model/generate.py); the
weights are those of models/demo.gguf in f32. Figures are of `weft perplexity` and stand in docs/accuracy.json; a format of the
cache (cli/options.c) or of weights (engine/gguf/mix.c) without a row, and a row without a format, are refused.

usage: accuracy_table.py                    write the tables into docs/accuracy.md
       accuracy_table.py --check            only say what differs
       accuracy_table.py --measure PROGRAM  measure all first (build/release/weft; minutes)
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from measured_document import ROOT, read, settle, where

sys.path.insert(0, str(ROOT / "tools/demo_model"))

TEXT_CHARACTERS = 18000
SEGMENTS = (1024, 4096)  # what the model was trained with, and four times that
BLOCKS = {"caches": "table of caches", "weights": "table of weights"}


def caches_of_program():
    text = read("cli/options.c").split('"--kv-dtype must be ')[1].split("or two of them")[0]
    return re.findall(r"[a-z]+\d\w*", text)


def weights_of_engine():
    """{format: a name by which weft quantize knows it}; the first that is the format's own, else the first."""
    found = {}
    for name, dtype in re.findall(r'\{"(\w+)", \d+, WEFT_(\w+),', read("engine/gguf/mix.c")):
        dtype = dtype.lower()
        if dtype not in found or name == dtype:
            found[dtype] = name
    return found


def story():
    import generate
    text = "\n".join(document for document, _ in generate.documents("held-out", 0, 200))
    text = re.sub(r"<\|im_start\|>user\n.*?<\|im_end\|>\n", "", text, flags=re.S)
    text = re.sub(r"<\|im_start\|>assistant\n|<\|im_end\|>|<\|endoftext\|>", "", text)
    return re.sub(r"\n\n+", "\n", text)[:TEXT_CHARACTERS]


class Program:
    def __init__(self, path, folder):
        self.path, self.text = path, pathlib.Path(folder, "story.txt")
        self.text.write_text(story(), encoding="utf-8")

    def run(self, *arguments):
        return subprocess.run([self.path, *map(str, arguments)], capture_output=True, text=True, check=False)

    def compare(self, model, *arguments):
        run = self.run("perplexity", model, "-f", self.text, "--json", "--threads", 1, *arguments)
        if run.returncode:
            sys.exit(f"{model}: {run.stderr.strip()}")
        got = json.loads(run.stdout)
        figures = {"perplexity": got["against_perplexity"], "change": got["perplexity"] - got["against_perplexity"],
                   "kl": got["kl_mean"], "same": got["same_top_1"]}
        return {key: float(f"{value:.4g}") for key, value in figures.items()}


def measure_cache(weft, exact, cache):
    return {str(n): weft.compare(exact, "--segment", n, "--kv-dtype", cache, "--against-kv-dtype", "f32") for n in SEGMENTS}


def measure_weights(weft, exact, weights, name):
    model = f"{exact}.{weights}"
    made = weft.run("quantize", exact, model, "--format", name, "--pure")
    if made.returncode:
        return {"refused": made.stderr.strip().split(": ")[-1]}
    alike = ("--segment", SEGMENTS[0], "--kv-dtype", "f32")
    got = {"weights": weft.compare(model, *alike, "--exact", "--against", exact), "speed": weft.compare(model, *alike, "--against-exact")}
    pathlib.Path(model).unlink()
    return got


def measure(program):
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        weft, exact = Program(program, folder), f"{folder}/f32.gguf"
        weft.run("quantize", ROOT / "models/demo.gguf", exact, "--format", "f32", "--requantize")
        caches = {cache: pool.submit(measure_cache, weft, exact, cache) for cache in caches_of_program()}
        weights = {key: pool.submit(measure_weights, weft, exact, key, name) for key, name in weights_of_engine().items()}
        data = {"measured": where(program)}
        for kind, jobs in (("caches", caches), ("weights", weights)):
            data[kind] = {}
            for name, job in jobs.items():
                data[kind][name] = job.result()
                print(name, data[kind][name], flush=True)
        return data


def figure(value):
    return f"{value:.1e}".replace("e-0", "e-").replace("e+00", "") if abs(value) < 0.001 else f"{value:.3g}"


def cells(got):
    return [figure(got["kl"]), f"{got['change']:+.4f}" if abs(got["change"]) < 10 else f"{got['change']:+.0f}", f"{100 * got['same']:.1f} %"]


def row(values):
    return "| " + " | ".join(values) + " |"


def tables(data):
    first = {str(n): data["caches"]["f32"][str(n)]["perplexity"] for n in SEGMENTS}
    short, long = (str(n) for n in SEGMENTS)
    yield "caches", [f"Perplexity with an f32 cache: {first[short]:.3f} over segments of {short} tokens, {first[long]:.1f} over {long}.", "",
                     f"| cache | KL, {short} | change of perplexity | same likeliest | KL, {long} | change of perplexity | same likeliest |",
                     "|---|---|---|---|---|---|---|",
                     *(row([cache, *cells(got[short]), *cells(got[long])]) for cache, got in data["caches"].items())]
    lines = []
    for weights, got in data["weights"].items():
        if "refused" in got:
            lines.append(row([weights, got['refused'], *[""] * 5]).replace("|  ", "| "))
        else:
            lines.append(row([weights, *cells(got["weights"]), *cells(got["speed"])]))
    yield "weights", ["| weights | KL, weights alone | change of perplexity | same likeliest | KL, speed path against exact | change of perplexity | same likeliest |",
                      "|---|---|---|---|---|---|---|", *lines, "", f"Measured: {data['measured']}."]


def problems(data):
    for kind, known in (("caches", caches_of_program()), ("weights", weights_of_engine())):
        for name in known:
            if name not in data[kind]:
                yield f"{name}: was not measured (docs/accuracy.json, {kind}): --measure PROGRAM"
        for name in data[kind]:
            if name not in known:
                yield f"{name}: is none of the program's {kind}"
    change = data["weights"].get("q8_0", {}).get("speed", {}).get("change", 1)
    if abs(change) >= 0.01:
        yield f"q8_0: its speed path changes perplexity by {change}, 0.01 allowed"


def write(text, data):
    for kind, lines in tables(data):
        begin, end = f"<!-- {BLOCKS[kind]} -->", "<!-- end of table -->"
        at = text.index(begin) + len(begin)
        text = text[:at] + "\n\n" + "\n".join(lines) + "\n\n" + text[text.index(end, at):]
    return text


def main():
    source = ROOT / "docs/accuracy.json"
    option = sys.argv[1] if len(sys.argv) > 1 else ""
    if option == "--measure":
        source.write_text(json.dumps(measure(sys.argv[2]), indent=1) + "\n", encoding="utf-8")
    elif option not in ("", "--check"):
        sys.exit(__doc__)
    data = json.loads(source.read_text(encoding="utf-8"))
    return settle("docs/accuracy.md", lambda text: write(text, data), list(problems(data)), option == "--check", "tools/accuracy_table.py")


if __name__ == "__main__":
    sys.exit(main())
