# SPDX-License-Identifier: MIT
"""A document of docs/ whose tables are written from figures that a tool has measured."""
import datetime
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def commit(folder):
    run = subprocess.run(["git", "-C", str(folder), "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def cpu():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


def machine():
    return f"{cpu()}, {os.cpu_count()} cores"


def today():
    return str(datetime.date.today())


def where(program):
    return f"{machine()}, {today()}, commit `{commit(pathlib.Path(program).resolve().parent)}`"


def settle(path, made, found, check, tool):
    """Writes `made(text)` of the document, or with `check` only says whether it is that; the exit status. Nothing is written
    where problems were found."""
    for problem in found:
        print(problem)
    if found:
        return 1
    text = read(path)
    if not check:
        (ROOT / path).write_text(made(text), encoding="utf-8")
    elif made(text) != text:
        print(f"{path} is not what {tool} writes: run it")
        return 1
    return 0
