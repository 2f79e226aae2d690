#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plants faults, one at a time, in a scratch copy of the tree, and shows which test kills each.

    mutants.py                    plant all of them
    mutants.py --only REGEX       those whose name or file matches
    mutants.py --stale            only say which faults no longer fit the sources
    mutants.py --table docs/mutants.md    write the table of what killed what into the document

A fault is a file, a text that must stand in it exactly once, and what it is exchanged for (fault.py). The
copy is configured once with the preset `dev`, to the letter, so that a compiler cache knows what is sound;
each test's programs are built when its turn comes. The tests run in their order until one fails: that one
has killed the fault. A fault that all of them survive, does not build or does not fit any more makes the
exit status 1.

A test that kills runs once on the sound copy, too; one that fails there shows nothing and is left out, and
the exit status is 1.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import faults  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BEGIN, END = "<!-- table of mutants -->", "<!-- end of table -->"
TEST_SECONDS = 900  # a test that takes longer hangs, which is a failure
# What a fault may leave unused is no error.
LENIENT = "".join(f'#pragma GCC diagnostic ignored "-W{what}"\n'
                  for what in ("unused-variable", "unused-but-set-variable", "unused-parameter",
                               "unused-function", "unused-const-variable", "maybe-uninitialized"))


def copy_tree(tree):
    """The tracked and new files as they are now; what is equal keeps its time, so that builds stay small."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "-co", "--exclude-standard"],
                            capture_output=True, check=True).stdout.decode().split("\0")
    wanted = {path for path in listed if path and os.path.exists(os.path.join(ROOT, path))}
    for path in wanted:
        source, copy = os.path.join(ROOT, path), os.path.join(tree, path)
        if os.path.exists(copy) and open(source, "rb").read() == open(copy, "rb").read():
            continue
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copy(source, copy)
    for folder, _, names in os.walk(tree):
        if os.path.relpath(folder, tree).split(os.sep)[0] in ("build", ".git"):
            continue
        for name in names:
            if os.path.relpath(os.path.join(folder, name), tree) not in wanted:
                os.remove(os.path.join(folder, name))


def target_of(test):
    if test.startswith("server_") and os.path.exists(os.path.join(ROOT, "tests", "server", test[7:] + "_test.py")):
        return ["weft_cli"]
    return [test.split()[0]] if test.startswith("weft-check") else \
        [f"test_{test}"] + (["weft_cli"] if test.startswith("cli_") else [])


class Tree:
    def __init__(self, path):
        self.path = path
        self.build_dir = os.path.join(path, "build", "dev")

    def run(self, command, seconds=None):
        """Exit status, and the output; a command that takes too long has failed."""
        try:
            done = subprocess.run(command, cwd=self.path, timeout=seconds, check=False,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            return 124, "took too long"
        return done.returncode, done.stdout.decode(errors="replace")

    def configure(self):
        status, text = self.run(["cmake", "--preset", "dev"])
        if status:
            sys.exit(f"mutants: the copy cannot be configured:\n{text}")

    def build(self, tests):
        targets = sorted({target for test in tests for target in target_of(test)})
        return self.run(["cmake", "--build", self.build_dir, "--parallel", "2", "--target", *targets])

    def passes(self, test):
        if test.startswith("weft-check"):
            program, *words = test.split()
            command = [os.path.join(self.build_dir, program), "--seed", "1", *words]
        else:
            command = ["ctest", "--test-dir", self.build_dir, "-R", f"^{test}$", "--no-tests=error"]
        return self.run(command, TEST_SECONDS)[0] == 0


def fits(fault, root):
    path = os.path.join(root, fault.file)
    return os.path.exists(path) and open(path, encoding="utf-8").read().count(fault.old) == 1


def is_sound(tree, test, known):
    """Whether the test passes where nothing is planted."""
    if test not in known:
        known[test] = tree.build([test])[0] == 0 and tree.passes(test)
        if not known[test]:
            print(f"{test} fails without a fault and is left out", flush=True)
    return known[test]


def plant(tree, fault, known):
    """Returns the test that killed the fault, or None and why there is none."""
    path = os.path.join(tree.path, fault.file)
    sound = open(path, encoding="utf-8").read()
    planted = LENIENT + sound.replace(fault.old, fault.new)

    def write(text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    try:
        for test in (test for test in fault.tests if known.get(test, True)):
            write(planted)
            status, text = tree.build([test])
            if status:
                return None, "does not build:\n" + "\n".join(
                    line for line in text.splitlines() if "error" in line)
            if tree.passes(test):
                continue
            write(sound)
            if is_sound(tree, test, known):
                return test, ""
        return None, "survived"
    finally:
        write(sound)


def write_table(path, fault, killer):
    """A row takes the place of the fault's old one; the others stay, in the order of faults.py."""
    text = open(path, encoding="utf-8").read()
    head, rest = text.split(BEGIN)
    old, tail = rest.split(END)
    known = {line.split("|")[1].strip(): line for line in old.splitlines() if line.startswith("| ")}
    known[fault.name] = f"| {fault.name} | `{fault.file}` | {fault.what} | `{killer}` |"
    lines = ["| fault | file | what is wrong then | killed by |", "|---|---|---|---|"]
    lines += [known[f.name] for f in faults.FAULTS if f.name in known]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{head}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{tail}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="a regular expression for names or files of faults")
    parser.add_argument("--stale", action="store_true", help="only say which faults no longer fit")
    parser.add_argument("--tree", default=os.path.join(ROOT, "build", "mutants"), help="the scratch copy")
    parser.add_argument("--table", help="a document whose table is written anew")
    options = parser.parse_args()

    wanted = [f for f in faults.FAULTS if re.search(options.only, f"{f.name} {f.file}")]
    stale = [f for f in wanted if not fits(f, ROOT)]
    for fault in stale:
        print(f"{fault.name}: its text does not stand once in {fault.file}")
    names = [f.name for f in faults.FAULTS]
    if len(set(names)) != len(names):
        sys.exit("mutants: two faults have one name")
    if options.stale:
        return bool(stale)

    wanted = [f for f in wanted if f not in stale]
    copy_tree(options.tree)
    tree = Tree(options.tree)
    tree.configure()
    known = {}
    killed = alive = 0
    for fault in wanted:
        begun = time.monotonic()
        killer, why = plant(tree, fault, known)
        print(f"{fault.name:44} {killer or why}  ({time.monotonic() - begun:.0f} s)", flush=True)
        killed += bool(killer)
        alive += not killer
        if killer and options.table:
            write_table(options.table, fault, killer)
    print(f"{killed} killed, {alive} not, {len(stale)} do not fit")
    return bool(alive or stale or not all(known.values()))


if __name__ == "__main__":
    sys.exit(main())
