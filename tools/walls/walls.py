#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The wall checker: every line of code in its room, every name behind its door.

usage: walls.py [--root DIR] [--shared LIB.so] [--static LIB.a] [--only RULE[,RULE]]

Rules that read the tree: rooms, vocabulary, text, length, headers, docs, structs. Rule `symbols` reads the
libraries given with --shared and --static, rule `links` the objects below folders given with --objects. Exit status 0 only if nothing was found.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
from collections import namedtuple

Finding = namedtuple("Finding", "path line rule text")

# Rooms from the top of the house down. A file belongs to the first room whose prefix it has; a room
# includes only what its line names. include/weft/ is the door: it includes nothing but itself, and
# everybody may use its types.
DOOR = "include/weft/"
INTERFACE = "src/backend/*"  # files of the folder, not of folders in it
DEVICE = ("src/plan/", INTERFACE, "src/kernels/", "src/formats/", "src/base/")
# The engine's headers for programs and its rooms from the ground up; one that is not named sees them all.
ENGINE = ("engine/*", "engine/base/", "engine/gguf/", "engine/safetensors/", "engine/tokenizer/", "engine/constrain/",
          "engine/cache/", "engine/model/", "engine/worker/", "engine/session/")
ROOMS = [
    # room, prefix, prefixes it may include besides its own and the door
    ("cli", "cli/", ("engine/engine.h", "server/server.h")),
    ("server/http", "server/http/", ("server/", "engine/engine.h", "engine/base/error.h")),
    ("server", "server/", ("engine/engine.h", "engine/base/error.h")),
    ("engine/base", "engine/base/", ("engine/engine.h",)),
    ("engine/gguf", "engine/gguf/", ENGINE[:2]),
    ("engine/cache", "engine/cache/", ENGINE[:2]),
    ("engine/safetensors", "engine/safetensors/", ENGINE[:3]),
    ("engine/tokenizer", "engine/tokenizer/", ENGINE[:3]),
    ("engine/constrain", "engine/constrain/", ENGINE[:5]),
    ("engine/chat", "engine/chat/", ENGINE[:6]),
    ("engine/model", "engine/model/", ENGINE[:7]),
    ("engine/quantize", "engine/quantize/", ENGINE[:8]),
    ("engine/worker", "engine/worker/", ENGINE[:8] + ("engine/sample/",)),
    ("engine/speculate", "engine/speculate/", ENGINE[:2]),
    ("engine/sample", "engine/sample/", ENGINE[:2]),
    ("engine/session", "engine/session/", ENGINE[:9] + ("engine/speculate/", "engine/sample/")),
    ("engine/schedule", "engine/schedule/", ENGINE[:10] + ("engine/speculate/",)),
    ("engine", "engine/", ()),
    ("include", DOOR, ()),
    ("api", "src/api/", ("src/plan/", INTERFACE, "src/kernels/", "src/formats/", "src/base/")),
    # A device's own room plans and runs; only the interface, src/backend/*.h, lies below the planner.
    ("backend/cpu", "src/backend/cpu/", DEVICE),
    ("backend/cuda", "src/backend/cuda/", DEVICE),
    ("backend/none", "src/backend/none/", DEVICE),
    ("plan", "src/plan/", (INTERFACE, "src/kernels/", "src/formats/", "src/base/")),
    ("backend", "src/backend/", ("src/kernels/", "src/formats/", "src/base/")),
    ("kernels/cpu", "src/kernels/cpu/", ("src/formats/", "src/base/")),
    ("kernels/cuda", "src/kernels/cuda/", ("src/formats/", "src/base/", "src/kernels/kernel.h")),
    ("kernels", "src/kernels/", ("src/kernels/cpu/", "src/kernels/cuda/", "src/formats/", "src/base/")),
    ("formats", "src/formats/", ("src/base/",)),
    ("base", "src/base/", ()),
    ("tools", "tools/", ("src/", "engine/", "cli/")),
]
# Operations that are made of another one, so that its folder is below theirs.
COMPOSED = {"src/kernels/kv/": ("src/kernels/rope/",),
            # products of rows of W, and what follows them
            "src/kernels/experts/": ("src/kernels/linear/linear_device.h", "src/kernels/linear/linear_share.cuh",
                                     "src/kernels/linear/linear_experts_cuda", "src/kernels/linear/linear_pack_cuda.h",
                                     "src/kernels/linear/linear_rounding.cuh",
                                     "src/kernels/linear/linear_rows.cuh"),
            # all that a token is made of, its choice included
            "src/kernels/token/": ("src/kernels/attention/", "src/kernels/linear/", "src/kernels/sample/"),
            # rotates new keys and queries, rounds its results
            "src/kernels/attention/": ("src/kernels/rope/", "src/kernels/linear/linear_device.h",
                                       "src/kernels/linear/linear_rounding.cuh")}

# Words that stay in a room: name, pattern, where it is allowed (by path), what to do instead.
VOCABULARY = [
    ("AVX registers", r"\b__m(256|512)[a-z]*\b", r"(^src/kernels/cpu/|_(avx[a-z0-9_]*|amx)\.[ch]$)",
     "belongs in a *_avx*.c file or src/kernels/cpu/"),
    ("NEON registers", r"\b(float(16|32|64)|bfloat16|u?int(8|16|32|64))x\d+(x\d)?_t\b",
     r"(^src/kernels/cpu/|_neon[a-z0-9_]*\.[ch]$)",
     "belongs in a *_neon*.c file or src/kernels/cpu/"),
    ("CUDA types", r"\b(CU(device|context|module|function|stream|event|deviceptr|result|graph\w*)"
     r"|cuda[A-Z]\w*|nvrtc\w+|cublasLt\w+|ncclComm\w*)\b", r"^src/backend/cuda/",
     "belongs in src/backend/cuda/"),
    ("allocation", r"\b(malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup|strndup)\s*\(",
     r"^(src/base/|engine/|server/|cli/|tools/|include/)",
     "belongs in src/base/; take memory from the context's allocator"),
    ("leaving or printing", r"\b(abort|exit|_exit|_Exit|quick_exit|printf|fprintf|vprintf|vfprintf|puts"
     r"|fputs|putchar|perror|assert)\s*\(", r"^(engine/|cli/|tools/|include/)",
     "the library never aborts, exits or prints; return a weft_status"),
    ("leaving or printing", r"\b(abort|exit|_exit|_Exit|quick_exit|printf|vprintf|puts|putchar|perror)"
     r"\s*\(", r"^(src/|cli/|tools/|include/)",
     "the engine never aborts, exits or prints; fill in an engine_error"),
]

LEFT_OVERS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|\bnot imple" r"mented\b|^\s*#\s*if 0\b")
MACHINE_PATH = re.compile(r"(?<![\w.$})-])/(home|root|work|tmp|Users|mnt)/[A-Za-z]")
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)")
CODE = (".c", ".h", ".cu", ".cuh", ".py", ".sh", ".cmake", ".def", ".inc")
C_CODE = (".c", ".h", ".cu", ".cuh", ".def", ".inc")
FILE_WANTED, FILE_LIMIT = 500, 800
FUNCTION_WANTED, FUNCTION_LIMIT = 60, 120
GENERATED = re.compile(r"^tests/golden/")

HEADINGS = {"Formula", "Shapes", "Units", "Align", "Alias", "Owner", "Numerics", "Threads", "Errors",
            "Source"}
# What the comments of X_plan and X_run must say between them. Ownership, alignment and threads are
# the same for all operations and stand in context.h.
PAIR_HEADINGS = ("Alias", "Numerics", "Errors", "Source")


def tree_files(root):
    """Paths below root that belong to the project, from git where there is a repository."""
    if os.path.exists(os.path.join(root, ".git")) and shutil.which("git"):
        listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"],
                                capture_output=True, text=True, check=True).stdout.splitlines()
        return sorted(path for path in listed if os.path.isfile(os.path.join(root, path)))
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in ("build", ".git")]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in files]
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def without_comments(text):
    """C text with comments, strings and character constants blanked out, line numbers kept."""
    token = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
    return token.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def room_of(path):
    for name, prefix, below in ROOMS:
        if path.startswith(prefix):
            return name, prefix, below
    return None


def resolve(root, path, included):
    """The path from the root of the tree that an #include means, or None for a system header."""
    folder = os.path.dirname(path)
    for candidate in (os.path.normpath(os.path.join(folder, included)), included,
                      os.path.join("include", included)):
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    return included if included.startswith(("src/", "engine/", "cli/", "weft/")) else None


def lies_in(target, places):
    return any(os.path.dirname(target) == place[:-2] if place.endswith("/*") else target.startswith(place)
               for place in places)


def may_include(path, target):
    name, prefix, below = room_of(path) or ("", "", ())
    if target.startswith(DOOR):
        return True
    if name == "kernels":
        own = "/".join(path.split("/")[:3]) + "/"
        shared = os.path.dirname(target) == "src/kernels"
        return shared or target.startswith((own,) + below + COMPOSED.get(own, ()))
    if name == "tools":
        return target.startswith(("tools/",) + below)
    return lies_in(target, (prefix,) + below)


def rule_rooms(root, files):
    for path in files:
        if not path.endswith(C_CODE) or room_of(path) is None:
            continue
        for number, line in enumerate(read(root, path).splitlines(), 1):
            match = re.match(r"\s*#\s*include\s*[\"<]([^\">]+)[\">]", line)
            target = match and resolve(root, path, match.group(1))
            if target and not may_include(path, target):
                yield Finding(path, number, "rooms",
                              f"{room_of(path)[0]} must not include {target}: arrows point down")


def rule_vocabulary(root, files):
    for path in files:
        if not path.endswith((".c", ".h")) or not path.startswith(("src/", "engine/", "server/", "include/", "cli/")):
            continue
        lines = without_comments(read(root, path)).splitlines()
        for what, pattern, allowed, cure in VOCABULARY:
            if re.search(allowed, path):
                continue
            for number, line in enumerate(lines, 1):
                match = re.search(pattern, line)
                if match:
                    yield Finding(path, number, "vocabulary", f"{what}: '{match.group().strip()}' {cure}")


def is_script(root, path):
    with open(os.path.join(root, path), "rb") as file:
        return file.read(2) == b"#!"


def rule_text(root, files):
    for path in files:
        is_code = path.endswith(CODE) or path.endswith("CMakeLists.txt") or is_script(root, path)
        if not (is_code or path.endswith((".md", ".json"))) or GENERATED.match(path) and not is_code:
            continue
        lines = read(root, path).splitlines()
        if is_code and not any("SPDX-License-Identifier: MIT" in line for line in lines[:3]):
            yield Finding(path, 1, "text", "no line 'SPDX-License-Identifier: MIT' at the top")
        for number, line in enumerate(lines, 1):
            if is_code and LEFT_OVERS.search(line):
                yield Finding(path, number, "text", f"left-over: {line.strip()[:60]}")
            if MACHINE_PATH.search(line):
                yield Finding(path, number, "text", f"absolute path of a machine: {line.strip()[:60]}")
            for link in LINK.findall(line) if path.endswith(".md") else ():
                if not os.path.exists(os.path.join(root, os.path.dirname(path), link)):
                    yield Finding(path, number, "text", f"link to nothing: {link}")


def function_spans(root, files):
    """(path, line, name, lines) of every C function, as far as ctags is installed."""
    ctags = shutil.which("ctags")
    sources = [path for path in files if path.endswith((".c", ".h", ".cu", ".cuh"))]
    if not ctags or not sources:
        return
    listing = subprocess.run([ctags, "--fields=+ne", "--kinds-C=f", "--kinds-C++=f", "--langmap=C++:+.cu.cuh",
                              "-f", "-", "-L", "-"], cwd=root, input="\n".join(sources),
                             capture_output=True, text=True, check=False).stdout
    for row in listing.splitlines():
        first, last = re.search(r"\tline:(\d+)", row), re.search(r"\tend:(\d+)", row)
        if first and last:
            name, path = row.split("\t")[:2]
            yield path, int(first.group(1)), name, int(last.group(1)) - int(first.group(1)) + 1


def rule_length(root, files, warn):
    rooms = ("src/", "engine/", "server/", "cli/", "tools/", "include/", "tests/")
    files = [path for path in files if path.startswith(rooms) and not GENERATED.match(path)]
    for path in files:
        if not path.endswith((".c", ".h", ".cu", ".cuh", ".py")):
            continue
        length = len(read(root, path).splitlines())
        if length > FILE_LIMIT:
            yield Finding(path, length, "length", f"{length} lines; {FILE_LIMIT} is the limit")
        elif length > FILE_WANTED:
            warn(path, length, f"{length} lines; {FILE_WANTED} wanted")
    for path, line, name, length in function_spans(root, files):
        if length > FUNCTION_LIMIT:
            yield Finding(path, line, "length", f"{name} has {length} lines; {FUNCTION_LIMIT} is the limit")
        elif length > FUNCTION_WANTED:
            warn(path, line, f"{name} has {length} lines; {FUNCTION_WANTED} wanted")


def rule_headers(root, files):
    flags = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-I", "include"]
    compilers = [("gcc", "c", "c11"), ("g++", "c++", "c++17"), ("clang", "c", "c11"), ("clang++", "c++", "c++17")]
    for path in files:
        if not path.startswith(DOOR) or not path.endswith(".h"):
            continue
        for compiler, language, standard in compilers:
            if not shutil.which(compiler):
                continue
            text = f'#include "{path}"\n'
            done = subprocess.run([compiler, "-x", language, f"-std={standard}", *flags, "-I", ".", "-"],
                                  cwd=root, input=text, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                first = next((line for line in done.stderr.splitlines() if "error" in line), "does not compile")
                yield Finding(path, 1, "headers", f"{compiler} -std={standard}: {first.strip()}")


def public_functions(text):
    """(line, name, return type, comment before it) of every WEFT_API declaration."""
    pattern = re.compile(r"(?:/\*\*((?:(?!\*/).)*)\*/\s*)?^WEFT_API\s+([\w\s\*]+?)(\w+)\s*\(", re.S | re.M)
    for match in pattern.finditer(text):
        line = text[:match.start(2)].count("\n") + 1
        yield line, match.group(3), match.group(2).strip(), match.group(1)


def headings_of(comment):
    return set(re.findall(r"^\s*\*\s{1,3}([A-Z][a-z]+)(?=\s+\S)", comment or "", re.M))


def rule_docs(root, files):
    for path in files:
        if not path.startswith(DOOR) or not path.endswith(".h"):
            continue
        said = {}
        for line, name, kind, comment in public_functions(read(root, path)):
            if comment is None:
                yield Finding(path, line, "docs", f"{name} has no /** comment before it")
                continue
            found = headings_of(comment) & HEADINGS
            said[name] = (line, found)
            if kind == "weft_status" and "Errors" not in found:
                yield Finding(path, line, "docs", f"{name} returns weft_status but says no Errors")
        for name, (line, found) in said.items():
            run = name[:-len("_plan")] + "_run" if name.endswith("_plan") else None
            if run in said:
                for heading in PAIR_HEADINGS:
                    if heading not in found | said[run][1]:
                        yield Finding(path, line, "docs", f"neither {name} nor {run} says {heading}")


def rule_structs(root, files):
    """A public struct can grow: it starts with its size, ends in a reserved tail, or says that it never will."""
    pattern = re.compile(r"(/\*\*(?:(?!\*/).)*\*/\s*)?^typedef struct (\w+) \{\n(.*?)^\} \w+;", re.S | re.M)
    for path in files:
        if not path.startswith(DOOR) or not path.endswith(".h"):
            continue
        text = read(root, path)
        for match in pattern.finditer(text):
            comment, name, body = match.group(1) or "", match.group(2), match.group(3)
            sized = re.match(r"\s*uint32_t size;", body)
            tailed = re.search(r"\n\s*uint(?:32|64)_t reserved\[\d+\];\s*$", "\n" + body)
            if sized and not tailed:
                yield Finding(path, text[:match.start(3)].count("\n"), "structs", f"{name} has a size but no reserved tail")
            elif not tailed and "never grows" not in comment:
                yield Finding(path, text[:match.start(3)].count("\n"), "structs",
                              f"{name} can not grow: add a reserved tail, or 'never grows' to its comment")


def nm(*arguments):
    return subprocess.run(["nm", *arguments], capture_output=True, text=True, check=True).stdout


def rule_symbols(shared, static):
    if shared:
        for row in nm("-D", "--defined-only", shared).splitlines():
            name = row.split()[-1].split("@")[0]
            if not name.startswith("weft_") or name.startswith("weft__"):
                yield Finding(os.path.basename(shared), 0, "symbols", f"exports {name}; only weft_* may be")
        for row in nm("-D", "--undefined-only", shared).splitlines():
            name = row.split()[-1].split("@")[0]
            if name in ("abort", "exit", "_exit", "printf", "puts", "fprintf", "__assert_fail"):
                yield Finding(os.path.basename(shared), 0, "symbols", f"calls {name}")
    if static:
        for row in nm("-g", "--defined-only", static).splitlines():
            if len(row.split()) == 3 and not row.split()[2].startswith("weft_"):
                yield Finding(os.path.basename(static), 0, "symbols",
                              f"defines {row.split()[2]}; only weft_* and weft__* may be global")


class Objects:
    """What the objects below a folder define and ask for; CMake keeps them by the paths of their sources, also
    those whose source is gone."""

    def __init__(self, root, folder, prefix):
        self.defined, self.wanted = {}, {}
        for place, _, files in os.walk(folder):
            for name in sorted(files):
                if name.endswith(".o"):
                    path = os.path.join(place, name)
                    source = prefix + os.path.relpath(path, folder)[:-len(".o")]
                    if os.path.exists(os.path.join(root, source)):
                        self.read(path, source)

    def read(self, path, source):
        self.wanted[source] = set()
        for row in nm("-g", path).splitlines():
            kind, name = row.split()[-2:]
            if kind in "Uvw":
                self.wanted[source].add(name)
            else:
                self.defined[name] = source

    def calls(self):
        """{source: {source that defines something it wants: name}}"""
        graph = {}
        for source, names in self.wanted.items():
            graph[source] = {self.defined[name]: name for name in sorted(names)
                             if self.defined.get(name, source) != source}
        return graph


def circles(graph):
    """Groups of files that need each other (Tarjan 1972)."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            group = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found


# How names of functions and tables begin in a room.
NAMES = [
    ("src/api/", ("weft_", "weft__api_")),
    ("src/plan/", ("weft__plan_",)),
    ("src/backend/cpu/", ("weft__cpu_", "weft__backend_cpu")),
    ("src/backend/none/", ("weft__backend_",)),
    ("src/backend/cuda/", ("weft__cuda_", "weft__backend_cuda", "weft__pipeline", "weft__nvrtc", "weft__device_")),
]


def names_of(path):
    if re.match(r"src/kernels/\w+/", path):
        op = path.split("/")[2]
        return (f"weft__{op}_",) + (("weft__round", "weft__any_format") if op == "linear" else ())
    return next((names for prefix, names in NAMES if path.startswith(prefix)), ("weft_",))


def rule_links(root, objects):
    """Arrows, circles and names of what the linker sees. objects: "DIR" or "DIR=prefix of its sources"."""
    for folder, _, prefix in (entry.partition("=") for entry in objects or ()):
        tree = Objects(root, folder, prefix)
        graph = tree.calls()
        for source, needed in sorted(graph.items()):
            for other, name in sorted(needed.items()):
                if room_of(source) and room_of(other) and not name.startswith("weft__backend_") and \
                        not may_include(source, other):
                    yield Finding(source, 0, "links", f"calls {name} of {other}: arrows point down")
        for group in circles(graph):
            yield Finding(group[0], 0, "links", f"a circle of files: {', '.join(group)}")
        for name, source in sorted(tree.defined.items()):
            if source.startswith("src/") and not name.startswith(names_of(source)):
                yield Finding(source, 0, "links", f"defines {name}; names here begin with {' or '.join(names_of(source))}")


def check(root, shared=None, static=None, objects=None, only=None, warn=lambda path, line, text: None):
    """All findings, in order of rule."""
    files = tree_files(root)
    rules = {
        "rooms": lambda: rule_rooms(root, files),
        "vocabulary": lambda: rule_vocabulary(root, files),
        "text": lambda: rule_text(root, files),
        "length": lambda: rule_length(root, files, warn),
        "headers": lambda: rule_headers(root, files),
        "docs": lambda: rule_docs(root, files),
        "structs": lambda: rule_structs(root, files),
        "symbols": lambda: rule_symbols(shared, static),
        "links": lambda: rule_links(root, objects),
    }
    unknown = set(only or ()) - set(rules)
    if unknown:
        raise SystemExit(f"walls: unknown rule {sorted(unknown)[0]}; known: {' '.join(rules)}")
    return len(files), [finding for name, rule in rules.items() if not only or name in only for finding in rule()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.path.join(os.path.dirname(__file__), "..", ".."))
    parser.add_argument("--shared", help="libweft.so to read the exported symbols of")
    parser.add_argument("--static", help="libweft.a to read the global symbols of")
    parser.add_argument("--objects", action="append", help="DIR[=PREFIX]: objects, by the paths of their sources")
    parser.add_argument("--only", help="rules to run, separated by commas")
    options = parser.parse_args()
    only = options.only.split(",") if options.only else None
    count, findings = check(os.path.abspath(options.root), options.shared, options.static,
                            options.objects, only,
                            lambda path, line, text: print(f"{path}:{line}: warning: {text}"))
    for finding in findings:
        print(f"{finding.path}:{finding.line}: {finding.rule}: {finding.text}")
    print(f"walls: {count} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
