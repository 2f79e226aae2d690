#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The exported ABI is the recorded one: names of functions and the size and members of every public struct.

usage: abi.py LIB.so INCLUDE RECORD [--write]

RECORD names the SONAME that it belongs to. What breaks a program fails: a function or struct that is gone, a
member that moved, another size. Then move the SONAME (project VERSION in CMakeLists.txt and
include/weft/weft.h), say in CHANGELOG.md what users must change, and write the record anew. Additions are
told; write them into the record before a release. x86-64 and AArch64 agree on all of it.
"""
import os
import re
import subprocess
import sys
import tempfile


def run(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def exported(library):
    rows = run("nm", "-D", "--defined-only", library).splitlines()
    return sorted({row.split()[-1].split("@")[0] for row in rows})


def soname(library):
    return re.search(r"SONAME\s+(\S+)", run("objdump", "-p", library)).group(1)


def structs(include):
    """{name: members} of the structs of all public headers."""
    found = {}
    folder = os.path.join(include, "weft")
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".h"):
            continue
        with open(os.path.join(folder, file), encoding="utf-8") as header:
            text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read(), flags=re.S)
        for match in re.finditer(r"^typedef struct (\w+) \{\n(.*?)^\} \1;", text, re.S | re.M):
            members = []
            for statement in match.group(2).split(";"):
                pointer = re.search(r"\(\*(\w+)\)", statement)
                if pointer:
                    members.append(pointer.group(1))
                elif statement.strip():
                    # The first declarator follows the type; further ones follow commas.
                    members += [re.search(r"(\w+)\s*(\[[^\]]*\])*\s*$", part).group(1) for part in statement.split(",")]
            found[match.group(1)] = members
    return found


# What stays f32 whatever the format of activations: parameters, scales, statistics.
FLOATS = {"alibi_slopes", "bias", "chunk_out", "exp_sums", "freq_factors", "logprobs", "lse", "max_logits", "next_weight", "norm_bias",
          "norm_weight", "out_lse", "q_scales", "scales", "sinks", "weights"}


def activations_in_f32(include):
    """Members of public structs that are floats in memory and none of the above: they want `void *` and a dtype."""
    found = []
    folder = os.path.join(include, "weft")
    for file in sorted(name for name in os.listdir(folder) if name.endswith(".h")):
        with open(os.path.join(folder, file), encoding="utf-8") as header:
            text = re.sub(r"/\*.*?\*/|//[^\n]*", "", header.read(), flags=re.S)
        for match in re.finditer(r"^typedef struct (\w+) \{\n(.*?)^\} \1;", text, re.S | re.M):
            for names in re.findall(r"\bfloat\s*\*([^;]*);", match.group(2)):
                found += [f"{match.group(1)}.{name}" for name in re.findall(r"\w+", names) if name not in FLOATS]
    return found


def layout(include):
    lines = ["#include <stddef.h>", "#include <stdio.h>", "#include <weft/weft.h>", "int main(void)", "{"]
    for name, members in sorted(structs(include).items()):
        lines.append(f'    printf("{name} %zu:", sizeof({name}));')
        lines += [f'    printf(" {member}@%zu", offsetof({name}, {member}));' for member in members]
        lines.append('    printf("\\n");')
    lines += ["    return 0;", "}"]
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "layout")
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-I", include, "-x", "c", "-", "-o", program],
                       input="\n".join(lines), text=True, check=True)
        return run(program).splitlines()


def key(row):
    return row.split(" ")[0]


def lasts(then, now):
    """Does a row of the record still hold? Reserved members may become others."""
    if then == now or not now or " " not in then:
        return then == now
    promised = [word for word in then.split()[1:] if not word.startswith("reserved")]
    return set(promised) <= set(now.split())


def main():
    library, include, record = sys.argv[1:4]
    now = [soname(library)] + exported(library) + layout(include)
    if "--write" in sys.argv:
        with open(record, "w", encoding="utf-8") as file:
            file.write("\n".join(now) + "\n")
        return 0
    with open(record, encoding="utf-8") as file:
        then = file.read().splitlines()
    for row in now:
        if row not in then:
            print(f"abi: now {row}")
    floats = activations_in_f32(include)
    for member in floats:
        print(f"abi: {member} is `float *`: activations are `void *` with a format in the descriptor")
    known = {key(row): row for row in now}
    broken = [row for row in then if not lasts(row, known.get(key(row)))]
    for row in broken:
        print(f"abi: was {row}")
    if broken:
        print(f"abi: breaks what {record} promises: see the head of tests/house/abi.py")
    return 1 if broken or floats else 0


if __name__ == "__main__":
    sys.exit(main())
