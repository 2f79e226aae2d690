#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Installs a build into a scratch prefix, moves it, and builds programs against it as strangers would.

usage: install_consumers.py BUILD_DIR SCRATCH_DIR
"""
import glob
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"install_consumers: '{' '.join(command)}' failed\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def one(pattern):
    found = glob.glob(pattern, recursive=True)
    if not found:
        sys.exit(f"install_consumers: nothing was installed as {pattern}")
    return found[0]


def main():
    build, scratch = (os.path.abspath(path) for path in sys.argv[1:3])
    shutil.rmtree(scratch, ignore_errors=True)
    first, prefix = os.path.join(scratch, "first"), os.path.join(scratch, "moved")
    run("cmake", "--install", build, "--prefix", first)
    os.rename(first, prefix)
    libdir = os.path.dirname(one(f"{prefix}/**/libweft.so"))
    environment = dict(os.environ, LD_LIBRARY_PATH=libdir,
                       PKG_CONFIG_PATH=os.path.dirname(one(f"{prefix}/**/weft.pc")))

    project = os.path.join(scratch, "cmake")
    run("cmake", "-S", os.path.join(HERE, "consumer"), "-B", project, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", project)
    for program in ("c_weft", "c_weft_static", "cpp_weft"):
        print(program, run(os.path.join(project, program), env=environment))

    source = os.path.join(HERE, "consumer", "consumer.c")
    flags = run("pkg-config", "--cflags", "--libs", "weft", env=environment).split()
    shared = os.path.join(scratch, "pc_shared")
    run("cc", "-std=c11", source, *flags, "-o", shared)
    printed = run(shared, env=environment)
    print("pc_shared", printed)
    version = run("pkg-config", "--modversion", "weft", env=environment)
    if not printed.startswith(f"weft {version}:"):
        sys.exit(f"install_consumers: pkg-config says version {version}, the library says '{printed}'")
    flags = run("pkg-config", "--static", "--cflags", "--libs", "weft", env=environment).split()
    static = os.path.join(scratch, "pc_static")
    run("cc", "-std=c11", source, *(f"-l:lib{flag[2:]}.a" if flag == "-lweft" else flag for flag in flags),
        "-o", static)
    print("pc_static", run(static))
    if os.path.exists(f"{prefix}/bin/weft"):
        one(f"{prefix}/**/man1/weft.1")
    for program in glob.glob(f"{prefix}/bin/*"):
        run(program, "--help", env=environment)


if __name__ == "__main__":
    main()
