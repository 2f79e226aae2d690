# SPDX-License-Identifier: MIT
"""A headless Chromium and its one page, told what to do through a pipe (Chrome DevTools Protocol)."""
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SECONDS = 60  # that something may take to come true


class Page:
    def __init__(self, to_browser, from_browser):
        self.to_browser, self.from_browser = to_browser, from_browser
        self.held, self.session, self.numbers = b"", None, itertools.count(1)

    def message(self):
        while b"\0" not in self.held:
            data = os.read(self.from_browser, 1 << 16)
            if not data:
                raise SystemExit("the browser has ended")
            self.held += data
        text, self.held = self.held.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **params):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params} | ({"sessionId": self.session} if self.session else {})
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to_browser, data):]
        while True:
            got = self.message()
            assert got.get("method") != "Runtime.exceptionThrown", got
            if got.get("id") == number:
                assert "error" not in got, (method, got)
                return got["result"]

    def attach(self):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for target in self.call("Target.getTargets")["targetInfos"]:
                if target["type"] == "page":
                    self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
                    self.call("Runtime.enable")
                    return
            time.sleep(0.1)
        raise SystemExit("the browser shows no page")

    def run(self, text):
        got = self.call("Runtime.evaluate", expression=text, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in got, (text, got)
        return got["result"].get("value")

    def until(self, text):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            if self.run(text):
                return
            time.sleep(0.1)
        raise AssertionError(f"never came true: {text}; the page says: {self.run('document.body.innerText')}")

    def key(self, key, text="", **more):
        """A key that is pressed, as the keyboard does it."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=text, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    def type(self, text):
        self.call("Input.insertText", text=text)


@contextlib.contextmanager
def browsing(url):
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        # It reads descriptor 3 and writes 4.
        command = ["sh", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "sh", CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu",
                   "--disable-dev-shm-usage", f"--user-data-dir={profile}", "--remote-debugging-pipe", url]
        browser = subprocess.Popen(command, pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        try:
            page = Page(ours_out, ours_in)
            page.attach()
            yield page
        finally:
            browser.terminate()
            browser.wait(timeout=30)
            os.close(ours_in)
            os.close(ours_out)
