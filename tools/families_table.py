#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The table of families in docs/models.md, from docs/families.json and the tables of the engine.

What a family's models are called and what is special about them stands in docs/families.json, beside the figures that --measure
writes there. Names of families and of the folders that hold them are those of engine/model/architecture.c and
engine/safetensors/checkpoint_families.c; a family without a row, a row without a family, and a golden model that no test compares
are refused.

usage: families_table.py                  write the table into docs/models.md
       families_table.py --check          only say what differs
       families_table.py --differences BUILD   measure the differences first (build/dev: engine_logits, engine_encoders)
       families_table.py --speed PROGRAM SHAPE...  measure tokens per second of a few shapes first (build/release/weft)
"""
import json
import re
import subprocess
import sys

from measured_document import ROOT, read, settle, where

BEGIN, END = "<!-- table of families -->", "<!-- end of table -->"
# The bounds of the tests, as shares of the largest logit or state.
BOUNDS = {"test_engine_logits": 1e-3, "test_engine_encoders": 2e-5}


def families_of_engine():
    text = read("engine/model/architecture.c")
    return re.findall(r'^    \{"([\w-]+)",', text[text.index("architectures[] = {"):], re.M)


def folders_of_engine():
    """{family: [model_type, ...]}"""
    found = {}
    for folder, family in re.findall(r'^    \{"([\w-]+)", "([\w-]+)",', read("engine/safetensors/checkpoint_families.c"), re.M):
        found.setdefault(family, []).append(folder)
    return found


def compared_models():
    """Golden models that the tests name."""
    text = read("tests/engine/test_logits.c") + read("tests/engine/test_encoders.c")
    lists = re.findall(r"names\[\] = \{(.*?)\};", text, re.S)
    return {name for part in lists for name in re.findall(r'"(\w+)"', part)}


def problems(data):
    families, compared, seen = families_of_engine(), compared_models(), set()
    for row in data["families"]:
        key = (row["family"], row.get("experts", False))
        if key in seen:
            yield f"{row['family']}: stands twice in docs/families.json"
        seen.add(key)
        if row["family"] not in families:
            yield f"{row['family']}: is no family of engine/model/architecture.c"
        if not row["held"] and not row.get("as"):
            yield f"{row['family']}: is compared with nothing"
        for name in row["held"]:
            if name not in compared:
                yield f"{row['family']}: no test compares {name}"
            if name not in data["differences"]:
                yield f"{row['family']}: the difference of {name} was not measured: --differences BUILD"
    for family in families:
        if (family, False) not in seen and (family, True) not in seen:
            yield f"{family}: has no row in docs/families.json"


def folders_of(row, folders):
    mixture = {"mixtral"} if row["family"] == "llama" else set()
    names = [name for name in folders.get(row["family"], []) if (name in mixture) == row.get("experts", False)]
    return ", ".join(f"`{name}`" for name in names) or "-"


def speed_of(row, speeds):
    if row.get("shape") not in speeds:
        return ""
    speed = [f"{speeds[row['shape']][phase]:.{0 if speeds[row['shape']][phase] >= 100 else 1}f}"
             for phase in ("prefill", "decode") if phase in speeds[row["shape"]]]
    return f"{'; '.join(speed)} ({row['shape']})"


def table(data):
    folders = folders_of_engine()
    yield "| in the file | folders | models | what is special | compared with | difference | tokens/s: prompt; decode |"
    yield "|---|---|---|---|---|---|---|"
    for row in data["families"]:
        name = f"`{row['family']}`" + (" with experts" if row.get("experts") else "")
        if row["held"]:
            held = ", ".join(name.removesuffix("_f32") for name in row["held"])
            difference = f"{max(data['differences'][name] for name in row['held']):.0e}".replace("e-0", "e-")
        else:
            held, difference = f"as `{row['as']}`", ""
        cells = [name, folders_of(row, folders), row["models"], row["special"], held, difference, speed_of(row, data["speeds"])]
        yield ("| " + " | ".join(cells) + " |").replace("|  |", "| |").replace("|  |", "| |")


def measured_line(data):
    how = data["measured"]
    yield (f"Differences: {how['differences']}. Tokens per second: `weft bench model --shape SHAPE --format q4_0 --prompt 128 --generate 32` "
           f"(bert: texts, no decode), {how['speeds']}; weights made up, `/N`: the first N layers only. The machine is a shared one:\n"
           f"what it gives differs by a factor of two within the hour, so these say what to expect, not what is possible (`docs/benchmarks.md`).")


def write(text, data):
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    made = "\n".join(["", "", *table(data), "", *measured_line(data), "", ""])
    return text[:begin] + made + text[end:]


def measure_differences(data, build):
    """The tests print: "NAME[, how]: largest difference D, allowed A"."""
    found = {}
    for test, bound in BOUNDS.items():
        run = subprocess.run([f"{build}/{test}"], capture_output=True, text=True, check=False, cwd=ROOT)
        if run.returncode:
            sys.exit(f"{test} fails")
        for name, how, difference, allowed in re.findall(
                r"^(\w+)(, [\w ]+)?: largest difference (\S+), allowed (\S+)$", run.stdout + run.stderr, re.M):
            if how not in (", by default", ", separate"):
                found[name] = max(found.get(name, 0), float(difference) / float(allowed) * bound)
    for name in compared_models() & found.keys():
        data["differences"][name] = float(f"{found[name]:.1e}")
    data["measured"]["differences"] = where(f"{build}/{test}")


def measure_speeds(data, program, shapes):
    for shape in shapes:
        encoder = shape.startswith("bert")
        command = [program, "bench", "model", "--shape", shape, "--format", "q4_0", "--prompt", "128", "--json"]
        run = subprocess.run(command + ([] if encoder else ["--generate", "32"]), capture_output=True, text=True, check=False)
        if run.returncode:
            sys.exit(f"{shape}: {run.stderr.strip()}")
        rows = [json.loads(line) for line in run.stdout.splitlines()]
        data["speeds"][shape] = {row["phase"]: float(f"{row['tokens_per_second']:.3g}") for row in rows if row.get("op") == "model"}
        print(shape, data["speeds"][shape], flush=True)
    data["measured"]["speeds"] = where(program)


def save(data, path):
    lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in data["families"])
    rest = {key: data[key] for key in ("measured", "differences", "speeds")}
    path.write_text('{"families": [\n' + lines + "\n ],\n" + json.dumps(rest, ensure_ascii=False, indent=1, sort_keys=True)[2:] + "\n",
                    encoding="utf-8")


def main():
    source = ROOT / "docs/families.json"
    data = json.loads(source.read_text(encoding="utf-8"))
    option = sys.argv[1] if len(sys.argv) > 1 else ""
    if option == "--differences":
        measure_differences(data, sys.argv[2])
    elif option == "--speed":
        measure_speeds(data, sys.argv[2], sys.argv[3:])
    elif option not in ("", "--check"):
        sys.exit(__doc__)
    if option != "--check":
        save(data, source)
    return settle("docs/models.md", lambda text: write(text, data), list(problems(data)), option == "--check", "tools/families_table.py")


if __name__ == "__main__":
    sys.exit(main())
