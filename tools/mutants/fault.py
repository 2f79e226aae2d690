# SPDX-License-Identifier: MIT
"""The faults that mutants.py plants: name, file, text that stands there once, what takes its place, what is
wrong then, and the tests that may kill it, the quickest first. A test is a name of CTest or a command line
of weft-check."""
from typing import NamedTuple


class Fault(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    what: str
    tests: list


def fault(name, file, old, new, what, *tests):
    FAULTS.append(Fault(name, file, old, new, what, list(tests)))


FAULTS = []
