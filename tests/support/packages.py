# SPDX-License-Identifier: MIT
"""Packages of PyPI that a test needs: from build/python, where scripts/python-packages puts them, or wherever Python has them."""
import importlib.util
import os
import pathlib
import sys

PYTHON = pathlib.Path(__file__).resolve().parents[2] / "build" / "python" / "bin" / "python"


def find(name):
    """Is there such a package? The program begins anew with a Python that has it, if that is another."""
    if importlib.util.find_spec(name):
        return True
    if PYTHON.exists() and pathlib.Path(sys.prefix).resolve() != PYTHON.parents[1]:
        sys.stdout.flush()
        os.execv(PYTHON, [str(PYTHON), *sys.argv])
    return False


def need(name):
    """Skips the test (status 77) where there is none."""
    if not find(name):
        print(f"{pathlib.Path(sys.argv[0]).stem}: skipped: the Python package '{name}' is not installed (scripts/python-packages)")
        sys.exit(77)
