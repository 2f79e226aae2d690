#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The innermost loops of the linear kernels keep their sums in registers.

usage: spills.py FOLDER_OF_OBJECTS

Reads the machine code of the AVX-512 and AVX2 kernels. A loop that multiplies may store a few vectors on the stack
(16 registers of AVX2 are short for four rows of X), but never so many that they count: at most a sixteenth of its
instructions with 32 registers, a sixth with 16.
"""
import os
import re
import subprocess
import sys

MULTIPLIES = re.compile(r"vpdp|vfmadd|vpmadd|vdpbf")
SPILL = re.compile(r"%[xyz]mm\d+(\{.*\})?,.*\(%r[sb]p")
FILES = re.compile(r"linear_(q8|gemm|gemm_more|f32|any|bf16)_(avx2|avx512|avx512vnni|avx512bf16)\.c\.o$")


def functions(listing):
    """[(name, [(address, operation, arguments)])] of what objdump prints."""
    found = []
    for line in listing.splitlines():
        head = re.match(r"^[0-9a-f]+ <(.+)>:$", line)
        body = re.match(r"^\s+([0-9a-f]+):\s+(\S+)\s*(.*)$", line)
        if head:
            found.append((head.group(1), []))
        elif body and found:
            found[-1][1].append((int(body.group(1), 16), body.group(2), body.group(3)))
    return found


def innermost_loops(code):
    """Instructions from the target of a jump backwards to the jump, without other such jumps in between."""
    places = {address: place for place, (address, _, _) in enumerate(code)}
    loops = []
    for place, (_, operation, arguments) in enumerate(code):
        target = re.match(r"[0-9a-f]+", arguments)
        begin = places.get(int(target.group(), 16)) if operation.startswith("j") and target else None
        if begin is not None and begin <= place:
            loops.append((begin, place))
    return [code[a:b + 1] for a, b in loops
            if not any((c, d) != (a, b) and a <= c and d <= b for c, d in loops)]


def judge(listing, most):
    """[(name, instructions, spills, too many?)] of the loops that multiply."""
    judged = []
    for name, code in functions(listing):
        for loop in innermost_loops(code):
            if sum(bool(MULTIPLIES.match(operation)) for _, operation, _ in loop) < 4:
                continue
            spills = sum(operation.startswith("vmov") and bool(SPILL.search(arguments))
                         for _, operation, arguments in loop)
            judged.append((name, len(loop), spills, spills > len(loop) * most))
    return judged


def selftest():
    loop = ["0000 <f>:"] + [f"  {i:x}:\tvfmadd231ps %zmm1,%zmm2,%zmm3" for i in range(4)]
    spill = [f"  {i:x}:\tvmovaps %zmm3,0x40(%rsp)" for i in range(4, 8)]
    load = [f"  {i:x}:\tvmovaps 0x40(%rsp),%zmm3" for i in range(4, 8)]
    if not judge("\n".join(loop + spill + ["  8:\tjne    0 <f>"]), 1 / 16)[0][3]:
        sys.exit("spills: does not see four stores in a loop of nine")
    if judge("\n".join(loop + load + ["  8:\tjne    0 <f>"]), 1 / 16)[0][2] or judge("\n".join(loop), 1 / 16):
        sys.exit("spills: takes loads for stores, or a line for a loop")


def main():
    selftest()
    loops, bad = [], []
    for folder, _, names in os.walk(sys.argv[1]):
        for name in filter(FILES.search, names):
            listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", os.path.join(folder, name)],
                                     capture_output=True, text=True, check=True).stdout
            found = judge(listing, 1 / 6 if "_avx2" in name else 1 / 16)
            loops += found
            bad += [f"{name}: {function}: {spills} stores on the stack in a loop of {length}"
                    for function, length, spills, too_many in found if too_many]
    print("\n".join(bad))
    print(f"spills: {len(loops)} loops, {sum(spills == 0 for _, _, spills, _ in loops)} without any, {len(bad)} with too many")
    return 1 if bad or len(loops) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
