#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plants one violation of each rule in a small tree and sees it caught; a clean tree is silent."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import walls  # noqa: E402

SPDX = "// SPDX-License-Identifier: MIT\n"
HEADER = SPDX + """#ifndef A_H
#define A_H
#define WEFT_API
typedef int weft_status;
/** Plans y = x.
 *
 *  Errors   WEFT_EINVAL for NULL
 *  Source   ours
 */
WEFT_API weft_status weft_a_plan(int x);
/** Runs the plan.
 *
 *  Alias    none
 *  Numerics exact
 *  Errors   WEFT_EINVAL for NULL
 */
WEFT_API weft_status weft_a_run(int x);
/** The name of x. */
WEFT_API const char *weft_a_name(int x);
#endif
"""
CLEAN = {
    "include/weft/a.h": HEADER,
    "src/base/memory.c": SPDX + "#include <stdlib.h>\nvoid *weft__base_take(void) { return malloc(1); }\n",
    "src/base/half.h": SPDX,
    "src/formats/q4_0.h": SPDX + '#include "src/base/half.h"\n#include <weft/a.h>\n',
    "src/kernels/cpu/avx2.h": SPDX + "typedef __m256 vector;\n",
    "src/kernels/linear/linear.h": SPDX,
    "src/kernels/linear/linear_avx2.c": SPDX + '#include "src/kernels/linear/linear.h"\n'
    '#include "src/kernels/cpu/avx2.h"\n__m256 a;\n',
    "src/kernels/rope/rope.h": SPDX,
    "src/kernels/kv/kv.c": SPDX + '#include "src/kernels/rope/rope.h"\n',
    "src/plan/linear.c": SPDX + '#include "src/kernels/linear/linear.h"\n// __m512 in words is fine, malloc(1) too\n',
    "src/api/a.c": SPDX + '#include <weft/a.h>\n#include "src/plan/plan.h"\n',
    "src/plan/plan.h": SPDX,
    "engine/engine.h": SPDX,
    "engine/gguf/gguf.c": SPDX + '#include "engine/engine.h"\n#include <weft/a.h>\n',
    "cli/main.c": SPDX + '#include "engine/engine.h"\nint main(void) { puts("usage: /path/to"); }\n',
    "tools/check.c": SPDX + '#include "src/plan/plan.h"\n',
    "README.md": "# a\n",
}


def include(path):
    return SPDX + f'#include "{path}"\n'


# rule, file, text: each must give at least one finding of that rule in that file.
VIOLATIONS = [
    ("rooms", "src/base/up.c", include("src/formats/q4_0.h")),
    ("rooms", "src/formats/up.h", include("src/kernels/linear/linear.h")),
    ("rooms", "src/kernels/rope/up.c", include("src/plan/plan.h")),
    ("rooms", "src/kernels/rope/sibling.c", include("src/kernels/linear/linear.h")),
    ("rooms", "src/kernels/rope/relative.c", include("../linear/linear.h")),
    ("rooms", "src/plan/up.c", include("engine/engine.h")),
    ("rooms", "include/weft/in.h", include("src/base/half.h")),
    ("rooms", "engine/gguf/through.c", include("src/base/half.h")),
    ("rooms", "engine/base/up.c", include("engine/gguf/gguf.h")),
    ("rooms", "engine/tokenizer/up.c", include("engine/model/model.h")),
    ("rooms", "cli/through.c", include("engine/gguf/gguf.h")),
    ("rooms", "cli/library.c", include("src/plan/plan.h")),
    ("vocabulary", "src/plan/wide.c", SPDX + "__m512 a;\n"),
    ("vocabulary", "src/kernels/linear/linear_ref.c", SPDX + "__m256i a;\n"),
    ("vocabulary", "src/kernels/linear/linear_avx2.c", SPDX + "float32x4_t a;\n"),
    ("vocabulary", "src/backend/cpu/device.c", SPDX + "CUstream a;\n"),
    ("vocabulary", "src/kernels/linear/heap.c", SPDX + "void *p = malloc (4);\n"),
    ("vocabulary", "src/api/heap.c", SPDX + "int f(void *p) { free(p); }\n"),
    ("vocabulary", "src/api/leave.c", SPDX + "int f(void) { abort(); }\n"),
    ("vocabulary", "src/plan/print.c", SPDX + 'int f(void) { fprintf(0, "a"); }\n'),
    ("vocabulary", "engine/gguf/leave.c", SPDX + "int f(void) { exit(1); }\n"),
    ("text", "src/base/bare.c", "int a;\n"),
    ("text", "scripts/bare", "#!/bin/sh\ntrue\n"),
    ("text", "src/base/later.c", SPDX + "// TO" + "DO: finish\n"),
    ("text", "src/base/dead.c", SPDX + "#if" + " 0\n#endif\n"),
    ("text", "docs/here.md", "see /ho" + "me/me/file\n"),
    ("text", "docs/lost.md", "see [this](nowhere.md)\n"),
    ("length", "src/base/long.c", SPDX + "int a;\n" * 800),
    ("headers", "include/weft/alone.h", SPDX + "uint32_t a(void);\n"),
    ("headers", "include/weft/c_only.h", SPDX + "int a(int class);\n"),
    ("docs", "include/weft/bare.h", SPDX + "#define WEFT_API\nWEFT_API int weft_bare(void);\n"),
    ("docs", "include/weft/errors.h", HEADER.replace(" *  Errors   WEFT_EINVAL for NULL\n", "")),
    ("structs", "include/weft/bare.h", SPDX + "typedef struct weft_bare {\n    int a;\n} weft_bare;\n"),
    ("structs", "include/weft/sized.h", SPDX + "typedef struct weft_sized {\n    uint32_t size;\n    int a;\n} weft_sized;\n"),
    ("docs", "include/weft/alias.h", HEADER.replace(" *  Alias    none\n", "")),
]
LONG_FUNCTION = SPDX + "int f(int a)\n{\n" + "    a++;\n" * 130 + "    return a;\n}\n"


class Walls(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="walls-")
        self.addCleanup(shutil.rmtree, self.root)
        for path, text in CLEAN.items():
            self.write(path, text)

    def write(self, path, text):
        target = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(text)
        return target

    def found(self, **options):
        return walls.check(self.root, **options)[1]

    def test_clean_tree_is_silent(self):
        self.assertEqual(self.found(), [])

    def test_each_violation_is_caught(self):
        for rule, path, text in VIOLATIONS:
            with self.subTest(rule=rule, path=path):
                self.write(path, text)
                caught = [finding for finding in self.found(only=[rule]) if finding.path == path]
                self.assertTrue(caught, f"{rule} missed {path}")
                if path in CLEAN:
                    self.write(path, CLEAN[path])
                else:
                    os.remove(os.path.join(self.root, path))
        self.assertEqual(self.found(), [])

    @unittest.skipUnless(shutil.which("ctags"), "ctags is not installed")
    def test_long_function_is_caught(self):
        paths = ["src/kernels/linear/long.cu", "src/kernels/linear/long.cuh", "src/plan/long.c"]
        for path in paths:
            self.write(path, LONG_FUNCTION)
        self.assertEqual(sorted((finding.path, finding.rule) for finding in self.found(only=["length"])),
                         [(path, "length") for path in paths])

    @unittest.skipUnless(shutil.which("gcc") and shutil.which("nm"), "no compiler")
    def test_stray_symbols_are_caught(self):
        source = self.write("stray.c", "int weft_good(void) { return 0; } int weft__inner(void) { return 0; }\n"
                            "void abort(void); int stray(void) { abort(); return 0; }\n")
        shared, thing, static = (os.path.join(self.root, name) for name in ("a.so", "a.o", "a.a"))
        subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", shared], check=True)
        subprocess.run(["gcc", "-c", source, "-o", thing], check=True)
        subprocess.run(["ar", "rc", static, thing], check=True)
        texts = [finding.text for finding in self.found(only=["symbols"], shared=shared, static=static)]
        for part in ("exports stray", "exports weft__inner", "calls abort", "defines stray"):
            self.assertTrue(any(part in text for text in texts), f"{part} not in {texts}")
        self.assertFalse(any("weft_good" in text for text in texts))

    @unittest.skipUnless(shutil.which("gcc") and shutil.which("nm"), "no compiler")
    def test_links_are_read(self):
        sources = {"src/api/a.c": "int weft__plan_b(void); int weft_a(void) { return weft__plan_b(); }\n",
                   "src/plan/b.c": "int weft_a(void); int weft__plan_b(void) { return weft_a(); }\n",
                   "src/kernels/linear/k.c": "int weft__linear_k(void) { return 0; } int weft__odd(void) { return 0; }\n"}
        for path, text in sources.items():
            self.write(path, text)
            target = os.path.join(self.root, "objects", path + ".o")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            subprocess.run(["gcc", "-c", os.path.join(self.root, path), "-o", target], check=True)
        texts = [finding.text for finding in self.found(only=["links"], objects=[os.path.join(self.root, "objects")])]
        for part in ("calls weft_a of src/api/a.c", "a circle of files: src/api/a.c, src/plan/b.c", "defines weft__odd"):
            self.assertTrue(any(part in text for text in texts), f"{part} not in {texts}")
        self.assertEqual(len(texts), 3)

    def test_file_length_warns_before_it_refuses(self):
        warnings = []
        self.write("src/base/longish.c", SPDX + "int a;\n" * 600)
        findings = self.found(only=["length"], warn=lambda path, line, text: warnings.append(path))
        self.assertEqual((findings, warnings), ([], ["src/base/longish.c"]))


if __name__ == "__main__":
    unittest.main()
