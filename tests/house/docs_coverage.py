#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds docs/coverage.md to its promise: every row once, known statuses, names that exist.

usage: docs_coverage.py [ROOT]
"""
import glob
import os
import re
import sys

ROWS = {"S0": 71, "S1": 54, "S2": 62, "S3": 35, "S4": 50, "W": 42}
STATUS = re.compile(r"^(works|not yet|partly \(\S.*\)|does not apply \(\S.*\))$")


def read_all(root, *patterns):
    paths = [path for pattern in patterns for path in glob.glob(os.path.join(root, pattern), recursive=True)]
    texts = []
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as file:
            texts.append(file.read())
    return "\n".join(texts)


class Names:
    """What the page may name: functions and kernels, commands, files, tests."""

    def __init__(self, root):
        self.root = root
        self.words = set(re.findall(r"\w+", read_all(
            root, "include/**/*.h", "engine/**/*.h", "src/**/*.h", "src/**/*.def")))
        self.commands = set(re.findall(r"\w+", read_all(root, "cli/*.c", "cli/*.h")))
        self.tests = set(re.findall(r"cmocka_unit_test\w*\(\s*(\w+)", read_all(root, "tests/**/*.c")))
        self.tests |= set(re.findall(r"(?:add_test\(NAME|weft_add_\w*test\()\s*([\w-]+)", read_all(
            root, "tests/**/*.cmake", "tests/**/CMakeLists.txt", "tools/**/CMakeLists.txt")))
        for path in glob.glob(os.path.join(root, "tests/*/test_*.c")):
            room = os.path.basename(os.path.dirname(path))
            self.tests.add(re.sub(r"^test_(.*)\.c$", rf"{room}_\1", os.path.basename(path)))
        for path in glob.glob(os.path.join(root, "tests/fuzz/fuzz_*.c")):
            self.tests.add(os.path.basename(path)[:-len(".c")])
        self.checked = {os.path.basename(path)[:-len("_check.c")]
                        for path in glob.glob(os.path.join(root, "src/kernels/*/*_check.c"))}

    def has_place(self, name):
        if name.startswith(("weft ", "weft-check")):
            return all(word in self.commands for word in re.findall(r"[a-z]\w+", name.split("--")[0])[1:]) \
                or name.startswith("weft-check")
        if "/" in name:
            return os.path.exists(os.path.join(self.root, name))
        return name.rstrip("()") in self.words

    def has_test(self, name):
        if name.startswith("weft-check "):
            return name.split()[1] in self.checked
        return name in self.tests


def problems(root, text):
    names, seen = Names(root), set()
    for number, line in enumerate(text.splitlines(), 1):
        if not re.match(r"\| (S\d|W)-\d", line):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 6:
            yield f"line {number}: {len(cells)} cells, 6 wanted"
            continue
        row, what, where, shown, *states = cells
        if row in seen:
            yield f"{row}: stands twice"
        seen.add(row)
        if not what:
            yield f"{row}: no capability"
        for state in states:
            if not STATUS.match(state):
                yield f"{row}: status '{state}' is none of works, partly (...), not yet, does not apply (...)"
            if state == "works" and not (where and shown):
                yield f"{row}: works, but not said where and shown by what"
            if state.startswith("partly") and not where:
                yield f"{row}: partly, but not said where"
        for name in re.findall(r"`([^`]+)`", where):
            if not names.has_place(name):
                yield f"{row}: there is no {name}"
        for name in re.findall(r"`([^`]+)`", shown):
            if not names.has_test(name):
                yield f"{row}: there is no test {name}"
    wanted = {f"{key}-{n:02d}" for key, count in ROWS.items() for n in range(1, count + 1)}
    for row in sorted(wanted - seen):
        yield f"{row}: missing"
    for row in sorted(seen - wanted):
        yield f"{row}: no such row"


def selftest(root):
    """The checker itself must see what it is there to see."""
    good = "\n".join(f"| {key}-{n:02d} | a | | | not yet | not yet |"
                     for key, count in ROWS.items() for n in range(1, count + 1))
    first = "| S0-01 | a | | | not yet | not yet |"
    bad = ["", first + "\n" + first, first.replace("not yet", "soon"), first.replace("not yet", "works", 1),
           first.replace("| a | |", "| a | `weft_no_such_thing` |"),
           first.replace("| a | | |", "| a | | `no_such_test` |"), first.replace("S0-01", "S0-99")]
    if list(problems(root, good)):
        sys.exit(f"docs_coverage: complains about a good page: {list(problems(root, good))[0]}")
    for page in bad:
        if not list(problems(root, good.replace(first, page, 1))):
            sys.exit(f"docs_coverage: does not see what is wrong with '{page}'")


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    selftest(root)
    with open(os.path.join(root, "docs", "coverage.md"), encoding="utf-8") as file:
        text = file.read()
    found = list(problems(root, text))
    for problem in found:
        print(problem)
    states = re.findall(r"\| (works|partly|not yet|does not apply)[^|]*\| [^|]*\|$", text, re.M)
    print("cpu:", ", ".join(f"{states.count(state)} {state}" for state in ("works", "partly", "not yet", "does not apply")))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
