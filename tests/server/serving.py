# SPDX-License-Identifier: MIT
"""Starts weft serve for a test and talks to it with what Python brings."""
import contextlib
import http.client
import json
import os
import re
import signal
import struct
import subprocess
import sys


def not_under_sanitizers():
    """Skips a test to which a sanitizer (its fourth argument) adds time alone: of the server's code others see the same."""
    if len(sys.argv) > 4:
        print("skipped under a sanitizer")
        sys.exit(77)


class Server:
    def __init__(self, weft, model, *options):
        device = ["--device", os.environ["WEFT_TEST_DEVICE"]] if "WEFT_TEST_DEVICE" in os.environ else []
        self.process = subprocess.Popen([weft, "serve", model, "--port", "0", *device, *options], stderr=subprocess.PIPE, text=True)
        line = ""
        while "http://" not in line:
            line = self.process.stderr.readline()
            if not line:
                raise SystemExit("weft serve did not start")
        self.port = int(re.search(r":(\d+)$", line.strip()).group(1))

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)

    def ask(self, method, path, body=None, headers=None):
        """(status, headers, body) of a request; a body that is no bytes is sent as JSON."""
        with contextlib.closing(self.connect()) as connection:
            data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()

    def post(self, path, body, status=200, **headers):
        got, _, text = self.ask("POST", path, body, headers)
        assert got == status, (got, text)
        return json.loads(text)

    def events(self, path, body):
        status, headers, text = self.ask("POST", path, {**body, "stream": True})
        assert status == 200 and headers["Content-Type"] == "text/event-stream", (status, text)
        parts = text.decode().split("\n\n")
        assert parts[-1] == "" and parts[-2] == "data: [DONE]", text[-200:]
        return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]

    def metrics(self):
        status, _, text = self.ask("GET", "/metrics")
        assert status == 200
        rows = (line.split(" ") for line in text.decode().splitlines() if not line.startswith("#"))
        return {name.removeprefix("weft_"): float(value) for name, value in rows}

    def stop(self):
        """Ends it as a service manager would; it must end well."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=60)
        rest = self.process.stderr.read()
        assert status == 0, (status, rest)
        return rest


@contextlib.contextmanager
def serving(weft, model, *options):
    server = Server(weft, model, *options)
    try:
        yield server
        server.stop()
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def with_template(model, path, template):
    """The model with another chat template: of the same length, so that nothing else moves."""
    with open(model, "rb") as file:
        data = file.read()
    key = b"tokenizer.chat_template"
    at = data.index(key) + len(key) + 4
    size = struct.unpack_from("<Q", data, at)[0]
    text = template.encode()
    assert len(text) + 4 <= size, (len(text), size)
    with open(path, "wb") as file:
        file.write(data[:at + 8] + b"{#" + b" " * (size - len(text) - 4) + b"#}" + text + data[at + 8 + size:])
    return path
