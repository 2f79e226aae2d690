#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""schemathesis (PyPI) makes requests of docs/openapi.yaml, right and wrong ones: none of them is a fault of the server. Skipped
(status 77) where it is not installed.

usage: schema_test.py WEFT MODEL SCRATCH_DIR [SANITIZER]; WEFT_SCHEMA_EXAMPLES: how many requests an endpoint is sent in a phase
"""
import os
import pathlib
import shutil
import subprocess
import sys

from serving import serving

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml"


def main():
    weft, model = sys.argv[1:3]
    program = shutil.which("schemathesis", path=os.path.dirname(sys.executable)) or shutil.which("schemathesis")
    if not program:
        print("schema_test: skipped: schemathesis is not installed (pip install schemathesis)")
        sys.exit(77)
    with serving(weft, model, "--ctx", "64", "--threads", "2", "--slots", "16") as server:
        subprocess.run([program, "run", SCHEMA, "--url", f"http://127.0.0.1:{server.port}", "--checks", "not_a_server_error", "--max-examples", os.environ.get("WEFT_SCHEMA_EXAMPLES", "20"),
                        "--request-timeout", "60", "--phases", "examples,coverage,fuzzing", "--no-color"], check=True, timeout=1200, cwd=sys.argv[3] if os.path.isdir(sys.argv[3]) else None)


main()
