#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What it takes to add a format and a kernel: done in a scratch copy of the tree, files counted, both checked.

usage: toy.py TREE SCRATCH

A format is its header (the block, its decoder and encoder, its codes for kernels), a line in the list, an include
beside the others and its number in files; every instruction set then multiplies by it, embeds, decodes and encodes
it. A kernel is its file and a line of its table.
"""
import os
import shutil
import subprocess
import sys

SPDX = "// SPDX-License-Identifier: MIT\n"
NEW = {
    "src/formats/toy8.h": SPDX + """// toy8: 32 bytes and a scale behind them.
#ifndef WEFT_FORMATS_TOY8_H
#define WEFT_FORMATS_TOY8_H
#include "src/formats/block.h"
struct weft__toy8 {
    int8_t q[32];
    uint16_t d; // f16
};
static inline void weft__toy8_decode(const struct weft__toy8 *block, float y[32])
{
    for (int i = 0; i < 32; i++)
        y[i] = (float)block->q[i] * weft__f16_to_f32(block->d);
}
WEFT__BLOCK_FORMAT(TOY8, toy8)
#define WEFT__CODES_TOY8 SIGNED
static inline void weft__codes_TOY8(const struct weft__toy8 *block, int j, struct weft__codes *codes)
{
    (void)j;
    for (int i = 0; i < 32; i++)
        codes->q[i] = (uint8_t)block->q[i];
    codes->scale[0] = codes->scale[1] = weft__f16_to_f32(block->d);
}
#ifdef WEFT__ENCODERS
void weft__encode_TOY8(const float *x, const float *weights, void *out);
void weft__encode_TOY8(const float *x, const float *weights, void *out)
{
    struct weft__toy8 *block = out;
    float d = weft__largest_magnitude(x, 32) / 127, inverse = weft__inverse(d);
    (void)weights;
    block->d = weft__f16_from_f32(d);
    for (int i = 0; i < 32; i++)
        block->q[i] = (int8_t)weft__nearest(x[i] * inverse, -127, 127);
}
#endif
#endif
""",
    "src/kernels/sample/sample_toy.c": SPDX + """#include "src/kernels/sample/sample_kernel.h"
weft__sample_fn weft__sample_sort_ref, weft__sample_toy_ref;
void weft__sample_toy_ref(int32_t vocab, const weft_sample_params *params, const float *logits,
                          const struct weft__sample_scratch *scratch, int32_t *token, float *logprob)
{
    weft__sample_sort_ref(vocab, params, logits, scratch, token, logprob);
}
""",
}
# file, what stands there, what is put before it
LINES = [
    ("include/weft/formats.def", "\n// MLX affine codes", 'WEFT_FORMAT(TOY8, 120, "toy8", 32, 34)\n'),
    ("src/formats/formats.h", '#include "src/formats/tq1_0.h"', '#include "src/formats/toy8.h"\n'),
    ("engine/gguf/ggml_type.c", 'OTHER(41, "q1_0"', 'LIBRARY(60, TOY8, "toy8", 2), '),
    ("src/kernels/sample/sample.def", "X(sort, ref)", "X(toy, ref)\n"),
]
ISAS = ("avx2", "avx512", "avx512vnni", "avx512bf16", "amx", "neon", "neondot")


def copy_tree(tree, scratch):
    """Copies what belongs to the library and weft-check; files that are the same keep their time."""
    for folder in ("cmake", "include", "src", "tools/weft-check", "engine"):
        shutil.copytree(os.path.join(tree, folder), os.path.join(scratch, folder), dirs_exist_ok=True)
    for file in ("CMakeLists.txt", "LICENSE", "tools/CMakeLists.txt", "tests/CMakeLists.txt", "tests/house/house.cmake",
                 "tests/fuzz/CMakeLists.txt", "tests/support/cpu/standin_amx.c"):
        os.makedirs(os.path.dirname(os.path.join(scratch, file)), exist_ok=True)
        shutil.copy2(os.path.join(tree, file), os.path.join(scratch, file))


def add_toys(scratch):
    touched = set(NEW)
    for path, text in NEW.items():
        with open(os.path.join(scratch, path), "w", encoding="utf-8") as file:
            file.write(text)
    for path, before, line in LINES:
        full = os.path.join(scratch, path)
        with open(full, encoding="utf-8") as file:
            text = file.read()
        assert text.count(before) >= 1, f"{path} has no '{before}'"
        with open(full, "w", encoding="utf-8") as file:
            file.write(text.replace(before, line + before, 1))
        touched.add(path)
    return touched


def leave_attention_out(scratch):
    """Its kernels meet neither the format nor the kernel and take a third of the time to compile: the reference stays."""
    folder = os.path.join(scratch, "src/kernels/attention")
    table = os.path.join(folder, "attention.def")
    with open(table, encoding="utf-8") as file:
        lines = file.readlines()
    kept = [line for line in lines if not line.startswith("X(") or ", ref, " in line]
    assert len(lines) > len(kept) > 0 and any(line.startswith("X(") for line in kept), "no table of attention as it was"
    with open(table, "w", encoding="utf-8") as file:
        file.writelines(kept)
    for name in os.listdir(folder):
        if name.endswith(".c") and name[:-2].rsplit("_", 1)[1] in ISAS:
            os.remove(os.path.join(folder, name))


def main():
    tree, scratch = sys.argv[1:3]
    shutil.rmtree(os.path.join(scratch, "src"), ignore_errors=True)
    shutil.rmtree(os.path.join(scratch, "include"), ignore_errors=True)
    shutil.rmtree(os.path.join(scratch, "engine"), ignore_errors=True)
    copy_tree(tree, scratch)
    touched = add_toys(scratch)
    leave_attention_out(scratch)
    of_kernel = {path for path in touched if "/sample/" in path}
    print(f"format: {len(touched - of_kernel)} files, kernel: {len(of_kernel)} files")
    if len(of_kernel) != 2 or len(touched - of_kernel) != 4:
        return 1
    environment = dict(os.environ, CCACHE_BASEDIR=os.path.realpath(scratch), CCACHE_NOHASHDIR="1")
    build = os.path.join(scratch, "build")
    for command in (["cmake", "-S", scratch, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DWEFT_ENGINE=OFF",
                     "-DWEFT_CUDA=OFF", "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG"],
                    ["cc", "-std=c11", "-I", scratch, "-I", os.path.join(scratch, "include"), "-fsyntax-only", "-Wall",
                     "-Werror", os.path.join(scratch, "engine/gguf/ggml_type.c")],
                    ["cmake", "--build", build, "--target", "weft-check", "--parallel", str(os.cpu_count())]):
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            print(done.stdout[-3000:] + done.stderr[-3000:])
            return 1
    check = os.path.join(build, "weft-check")
    failed = False
    for what in (["--format", "toy8"], ["--variant", "sample_toy_ref"]):
        done = subprocess.run([check, "--cases", "5", "--seed", "1", *what], capture_output=True, text=True, check=False)
        print(done.stdout)
        failed = failed or done.returncode != 0
        failed = failed or ("toy8" in what and "linear_toy8" not in done.stdout)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
