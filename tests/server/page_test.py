#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page of weft serve in a real browser: a wrong key, a conversation, a stop, markup in a text, a reload, a narrow
screen. Skipped (status 77) where Chromium or Node.js (20.10 or newer) is not installed.

usage: page_test.py WEFT MODEL SCRATCH_DIR [SANITIZER]
"""
import os
import shutil
import socket
import subprocess
import sys
import tempfile

from serving import serving

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NODE = shutil.which("node")
SOCKETS = "--experimental-websocket"


def can_run():
    if not CHROMIUM or not NODE:
        return False
    return subprocess.run([NODE, SOCKETS, "-e", "new WebSocket"], capture_output=True, check=False).stderr.find(b"not defined") < 0


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def main():
    weft, model, scratch = sys.argv[1:4]
    if len(sys.argv) > 4:
        print("page_test: skipped: the page is the same under a sanitizer")
        sys.exit(77)
    if not can_run():
        print("page_test: skipped: it needs Chromium and Node.js 20.10 or newer")
        sys.exit(77)
    os.makedirs(scratch, exist_ok=True)
    keys = os.path.join(scratch, "keys_page")
    with open(keys, "w", encoding="utf-8") as file:
        file.write("a-key\n")
    with serving(weft, model, "--api-key-file", keys, "--grace", "5") as server, tempfile.TemporaryDirectory() as profile:
        port = free_port()
        with subprocess.Popen([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                               f"--remote-debugging-port={port}", f"http://127.0.0.1:{server.port}/"],
                              stderr=subprocess.DEVNULL) as browser:
            try:
                script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "page.mjs")
                done = subprocess.run([NODE, SOCKETS, "--no-warnings", script, str(port)], check=False, timeout=120)
            finally:
                browser.terminate()
                browser.wait(timeout=30)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
