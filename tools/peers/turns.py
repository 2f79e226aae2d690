# SPDX-License-Identifier: MIT
"""What weft and its peers reached in one turn: a line of JSON in docs/benchmarks/peers_*.jsonl.

A file begins with {"machine", "date", "commit", "peers"}; then a line for each thing and turn:
{"what": "q4_0, prompt of 512", "unit": "tokens/s", "wanted": 1.2, "figures": {"weft": 596, "llama.cpp": 257}}
"""

import json
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import measured_document  # noqa: E402

LESS_IS_BETTER = {"us", "ms", "s"}


def begin(path, program, peers, machine=None, commit=None):
    """A file of no turns yet; one that has some is gone on with. `commit` where the program lies in no checkout."""
    path = pathlib.Path(path)
    if path.exists() and path.stat().st_size:
        return
    head = {"machine": machine or measured_document.machine(), "date": measured_document.today(),
            "commit": commit or measured_document.commit(pathlib.Path(program).resolve().parent), "peers": peers}  # fmt: skip
    path.write_text(json.dumps(head) + "\n", encoding="utf-8")


def options(parser):
    parser.add_argument("--weft", default="build/release/weft")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--machine", help="what to call it; default: its processor")
    parser.add_argument("--commit", help="of which text weft is; default: of the checkout that it lies in")


def output(command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout


def rows_of_weft(command):
    """What a `weft bench ... --json` prints."""
    return [json.loads(line) for line in output(command).splitlines() if line.startswith("{")]


def append(path, what, unit, figures, wanted=None):
    row = {"what": what, "unit": unit, "figures": {name: round(value, 3) for name, value in figures.items()}}
    if wanted:
        row["wanted"] = wanted
    with open(path, "a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")
    print(json.dumps(row), flush=True)


def times(row):
    """How many times as good as the best peer weft was in that turn."""
    ours = row["figures"].get("weft")
    peers = [value for name, value in row["figures"].items() if name != "weft"]
    if not ours or not peers:
        return None
    return min(peers) / ours if row["unit"] in LESS_IS_BETTER else ours / max(peers)


def ratio_of(rows):
    """Median of the turns' ratios, and their range where they differ; then whether that is what was wanted."""
    ratios = [ratio for ratio in map(times, rows) if ratio]
    if not ratios:
        return "-", "-"
    middle, wanted = statistics.median(ratios), rows[0].get("wanted")
    spread = f" ({min(ratios):.2f} to {max(ratios):.2f})" if max(ratios) - min(ratios) >= 0.005 else ""
    return f"{middle:.2f}{spread}", f"{wanted:g} {'met' if middle >= wanted else '**missed**'}" if wanted else "-"


def figures_of(rows, name):
    values = [row["figures"][name] for row in rows if name in row["figures"]]
    return ", ".join(map(cell, values)) or "-"


def cell(value):
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def median_of(rows, name):
    return statistics.median(row["figures"][name] for row in rows if name in row["figures"])


def things_of(rows):
    """The turns of each thing."""
    things = {}
    for row in rows:
        things.setdefault((row["what"], row["unit"]), []).append(row)
    return things


def said_of(head):
    return f"Measured {head['date']} on {head['machine']}, commit `{head['commit']}`; {head['peers']}."


def short_table(head, rows):
    """Markdown: a row for each thing, medians of its turns, weft beside the best of its peers."""
    lines = [said_of(head), "", "| | weft | best of the others | times as fast |", "|---|---|---|---|"]
    for (what, unit), same in things_of(rows).items():
        best = min if unit in LESS_IS_BETTER else max
        theirs = {name: median_of(same, name) for row in same for name in row["figures"] if name != "weft"}
        peer = best(theirs, key=theirs.get)
        ratio = statistics.median(ratio for ratio in map(times, same) if ratio)
        lines.append(f"| {what}, {unit} | {cell(median_of(same, 'weft'))} | {cell(theirs[peer])} {peer} | {ratio:.2f} |")
    return lines


def table(head, rows):
    """Markdown: a row for each thing, all turns of each program in its cell; where things have different peers, one column of them."""
    things = things_of(rows)
    peers = list(dict.fromkeys(name for row in rows for name in row["figures"] if name != "weft"))
    alike = all(set(row["figures"]) == {"weft", *peers} for row in rows)
    columns = ["weft", *(peers if alike else ["others"]), "times as fast", "wanted"]
    lines = [said_of(head), "",
             "| | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]  # fmt: skip
    for (what, unit), same in things.items():
        theirs = [figures_of(same, name) for name in peers]
        if not alike:
            theirs = ["; ".join(f"{name} {turns}" for name, turns in zip(peers, theirs) if turns != "-")]
        lines.append("| " + " | ".join([f"{what}, {unit}", figures_of(same, "weft"), *theirs, *ratio_of(same)]) + " |")
    return lines
