#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""schemathesis (packages.py) makes requests of docs/openapi.yaml, right and wrong ones: none of them is a fault of the server.

usage: schema_test.py WEFT MODEL SCRATCH_DIR [SANITIZER]; WEFT_SCHEMA_EXAMPLES: how many random requests an endpoint is sent (10)
"""
import os
import pathlib
import subprocess
import sys

from serving import not_under_sanitizers, serving

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import packages

not_under_sanitizers()
packages.need("schemathesis")

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml"


def main():
    weft, model = sys.argv[1:3]
    program = os.path.join(os.path.dirname(sys.executable), "schemathesis")
    with serving(weft, model, "--ctx", "64", "--threads", "2", "--slots", "16") as server:
        subprocess.run([program, "run", SCHEMA, "--url", f"http://127.0.0.1:{server.port}", "--checks", "not_a_server_error",
                        "--max-examples", os.environ.get("WEFT_SCHEMA_EXAMPLES", "10"), "--request-timeout", "60",
                        "--phases", "examples,coverage,fuzzing", "--no-color"],
                       check=True, timeout=1200, cwd=sys.argv[3] if os.path.isdir(sys.argv[3]) else None)


main()
