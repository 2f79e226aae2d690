#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Takes the C example out of README.md, compiles it as the README says, runs it, compares its output.

The example is the first ```c block; what it prints is the ```text block that follows.

usage: readme_example.py README.md INCLUDE_DIR LIBRARY_DIR SCRATCH_DIR
"""
import os
import re
import subprocess
import sys

STATEMENTS_MOST = 24


def main():
    readme, include, library, scratch = sys.argv[1:5]
    with open(readme, encoding="utf-8") as file:
        text = file.read()
    blocks = re.search(r"```c\n(.*?)```.*?```text\n(.*?)```", text, re.S)
    if not blocks:
        sys.exit("readme_example: no ```c block followed by a ```text block")
    code, expected = blocks.groups()
    statements = sum(line.split("//")[0].rstrip().endswith(";") for line in code.splitlines())
    if statements > STATEMENTS_MOST:
        sys.exit(f"readme_example: the example has {statements} statements; {STATEMENTS_MOST} at most")
    os.makedirs(scratch, exist_ok=True)
    source, program = os.path.join(scratch, "example.c"), os.path.join(scratch, "example")
    with open(source, "w", encoding="utf-8") as file:
        file.write(code)
    subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-O1", f"-I{include}", source,
                    f"-L{library}", "-lweft", f"-Wl,-rpath,{os.path.abspath(library)}", "-o", program], check=True)
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    if printed.split() != expected.split():
        sys.exit(f"readme_example: it printed\n{printed}but the README says\n{expected}")
    print(printed, end="")


if __name__ == "__main__":
    main()
