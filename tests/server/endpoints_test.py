#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every endpoint of weft serve, its errors, its limits, and what becomes of clients that go away.

usage: endpoints_test.py WEFT MODEL SCRATCH_DIR [SANITIZER]
"""
import concurrent.futures
import json
import os
import signal
import socket
import subprocess
import sys
import time

from serving import serving

SLOW = len(sys.argv) > 4  # under a sanitizer
MOST = 200 if SLOW else 900
FOX = [{"role": "user", "content": "Tell me a story about a fox."}]
# Bodies that are refused: the path, the body, the field that is named.
BAD = [
    ("/v1/chat/completions", b"{", None),
    ("/v1/chat/completions", b"[]", None),
    ("/v1/chat/completions", {}, "messages"),
    ("/v1/chat/completions", {"messages": []}, "messages"),
    ("/v1/chat/completions", {"messages": [{"content": "a"}]}, "messages[0].role"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content"),
    ("/v1/chat/completions", {"messages": FOX, "tools": [{"type": "function"}]}, "tools[0].function.name"),
    ("/v1/chat/completions", {"messages": FOX, "response_format": {"type": "other"}}, "response_format"),
    ("/v1/chat/completions", {"messages": FOX, "top_logprobs": 3}, "top_logprobs"),
    ("/v1/chat/completions", {"messages": FOX, "stream_options": 1}, "stream_options"),
    ("/v1/completions", {"prompt": {}}, "prompt"),
    ("/v1/completions", {"prompt": [1 << 40]}, "prompt"),
    ("/v1/completions", {"prompt": "a", "max_tokens": 0}, "max_tokens"),
    ("/v1/completions", {"prompt": "a", "max_tokens": "7"}, "max_tokens"),
    ("/v1/completions", {"prompt": "a", "temperature": -1}, "temperature"),
    ("/v1/completions", {"prompt": "a", "top_p": 2}, "top_p"),
    ("/v1/completions", {"prompt": "a", "n": 1000}, "n"),
    ("/v1/completions", {"prompt": "a", "seed": "x"}, "seed"),
    ("/v1/completions", {"prompt": "a", "stop": [""]}, "stop"),
    ("/v1/completions", {"prompt": "a", "stop": ["a"] * 17}, "stop"),
    ("/v1/completions", {"prompt": "a", "logit_bias": {"x": 1}}, "logit_bias"),
    ("/v1/completions", {"prompt": "a", "logit_bias": {"5": 1000}}, "logit_bias"),
    ("/v1/completions", {"prompt": "a", "stream": 1}, "stream"),
    ("/v1/completions", {"prompt": "a", "echo": True}, "echo"),
    ("/v1/completions", {"prompt": "word " * 2000}, "prompt"),
    ("/tokenize", {"content": 1}, "content"),
    ("/detokenize", {"tokens": [-1]}, "tokens"),
]


def text_of(reply):
    return reply["choices"][0]["message"]["content"]


def answers(server):
    wish = {"messages": FOX, "max_tokens": 24, "temperature": 0, "nothing": "is known of this"}
    reply = server.post("/v1/chat/completions", wish)
    assert reply["object"] == "chat.completion" and reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["completion_tokens"] == 24
    assert reply["usage"]["total_tokens"] == reply["usage"]["prompt_tokens"] + 24
    events = server.events("/v1/chat/completions", {**wish, "stream_options": {"include_usage": True}})
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    streamed = "".join(event["choices"][0]["delta"].get("content", "") for event in events if event["choices"])
    assert streamed == text_of(reply), (streamed, reply)
    assert events[-1]["usage"]["completion_tokens"] == 24 and events[-1]["choices"] == []
    assert events[-2]["choices"][0]["finish_reason"] == "length"
    parts = [{"role": "user", "content": [{"type": "text", "text": "Tell me a story "}, {"type": "text", "text": "about a fox."}]}]
    assert text_of(server.post("/v1/chat/completions", {**wish, "messages": parts})) == text_of(reply)
    word = text_of(reply).split()[5]
    stopped = server.post("/v1/chat/completions", {**wish, "stop": word})
    assert stopped["choices"][0]["finish_reason"] == "stop" and word not in text_of(stopped)
    assert text_of(reply).startswith(text_of(stopped))


def samples(server):
    wish = {"prompt": "Once upon a time", "max_tokens": 12, "seed": 7, "n": 3}
    before = server.metrics()
    first, second = (server.post("/v1/completions", wish) for _ in range(2))
    after = server.metrics()
    assert after["token_seconds_count"] - before["token_seconds_count"] == 2 * 3 * 11  # between a choice's own tokens
    assert after["first_token_seconds_count"] - before["first_token_seconds_count"] == 2
    texts = [choice["text"] for choice in first["choices"]]
    assert texts == [choice["text"] for choice in second["choices"]] and len(set(texts)) == 3, texts
    assert first["usage"]["completion_tokens"] == 36
    others = {server.post("/v1/completions", {**wish, "seed": None, "n": 1})["choices"][0]["text"] for _ in range(3)}
    assert len(others) > 1, others
    ids = server.post("/tokenize", {"content": "Once upon a time", "add_special": True})["tokens"]
    again = server.post("/v1/completions", {**wish, "prompt": ids})
    assert [choice["text"] for choice in again["choices"]] == texts
    assert server.post("/detokenize", {"tokens": ids})["content"].endswith("Once upon a time")


def logprobs(server):
    wish = {"prompt": "Once upon a time", "max_tokens": 5, "temperature": 0, "logprobs": 4}
    choice = server.post("/v1/completions", wish)["choices"][0]
    said = choice["logprobs"]
    assert "".join(said["tokens"]) == choice["text"] and len(said["top_logprobs"]) == 5
    assert all(len(top) == 4 and max(top.values()) == value for top, value in zip(said["top_logprobs"], said["token_logprobs"]))
    assert said["text_offset"] == [sum(map(len, said["tokens"][:i])) for i in range(5)]
    reply = server.post("/v1/chat/completions", {"messages": FOX, "max_tokens": 3, "logprobs": True, "top_logprobs": 2})
    tokens = reply["choices"][0]["logprobs"]["content"]
    assert len(tokens) == 3 and all(len(token["top_logprobs"]) == 2 for token in tokens)
    assert b"".join(bytes(token["bytes"]) for token in tokens).decode() == text_of(reply)
    first = server.post("/tokenize", {"content": said["tokens"][0]})["tokens"][0]
    biased = server.post("/v1/completions", {**wish, "logit_bias": {str(first): -100}})["choices"][0]
    assert biased["logprobs"]["tokens"][0] != said["tokens"][0]


def refusals(server):
    for path, body, field in BAD:
        error = server.post(path, body, 400)["error"]
        assert error["param"] == field and error["type"] == "invalid_request_error" and error["message"], (body, error)
    for method, path, status in (("GET", "/nothing", 404), ("GET", "/v1/completions", 405), ("DELETE", "/", 405)):
        assert server.ask(method, path)[0] == status
    assert server.ask("POST", "/tokenize", b"x" * (2 << 20))[0] == 413
    assert server.ask("GET", "/health", headers={"Origin": "http://elsewhere"})[0] == 403
    assert server.ask("GET", "/health", headers={"Origin": f"http://127.0.0.1:{server.port}"})[0] == 200
    status, headers, text = server.ask("GET", "/")
    assert status == 200 and b"<title>" in text and "default-src 'none'" in headers["Content-Security-Policy"]
    models = json.loads(server.ask("GET", "/v1/models")[2])
    assert models["data"][0]["id"] == "demo.gguf"


def wait_for(server, what, *expected):
    end = time.monotonic() + 90
    while time.monotonic() < end:
        value = server.metrics()[what]
        if value in expected:
            return
        time.sleep(0.02)
    raise AssertionError((what, value, expected))


def gone_clients(server):
    cancelled = server.metrics()["requests_cancelled_total"]
    for stream in (True, False):
        body = json.dumps({"prompt": "Once", "stream": stream, "ignore_eos": True, "max_tokens": 1000}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        sockets = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2)]
        for one in sockets:
            one.sendall(head + body)
        wait_for(server, "requests_running", 1, 2)  # not before: there would be nothing to cancel yet
        for one in sockets:
            one.close()
        wait_for(server, "requests_running", 0)
    assert server.metrics()["requests_cancelled_total"] > cancelled
    half = socket.create_connection(("127.0.0.1", server.port))  # says the half and falls silent
    half.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{")
    assert server.ask("GET", "/health")[0] == 200
    half.close()


def slow_readers(server):
    """One who asks for much and reads nothing does not hold up the others."""
    body = json.dumps({"prompt": "Once", "stream": True, "ignore_eos": True, "max_tokens": MOST, "logprobs": 20}).encode()
    slow = socket.create_connection(("127.0.0.1", server.port))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    time.sleep(0.1)
    for _ in range(3):
        server.post("/v1/completions", {"prompt": "The sun", "max_tokens": 4})
    wait_for(server, "requests_running", 0)
    got = b""
    while b"[DONE]" not in got[-200:]:
        got += slow.recv(1 << 16)
    slow.close()


def many(server, clients, requests):
    """Many at a time, some of whom go away or send nonsense: all are answered, and nothing stays behind."""
    expected = {}

    def ask(n):
        if n % 9 == 4:
            return server.ask("POST", "/v1/completions", b"\x00{" * n)[0] == 400
        if n % 9 == 7:
            connection = server.connect()
            connection.request("POST", "/v1/completions", json.dumps({"prompt": "A", "max_tokens": 500, "ignore_eos": True}))
            connection.close()
            return True
        wish = {"prompt": "Once upon a time", "max_tokens": 8, "seed": n % 5, "temperature": 0.9}
        status, _, text = server.ask("POST", "/v1/completions", wish)
        if status == 503:
            return json.loads(text)["error"]["code"] == "busy"
        text = json.loads(text)["choices"][0]["text"]
        return status == 200 and text == expected.setdefault(n % 5, text)

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        done = list(pool.map(ask, range(requests)))
    assert all(done), done
    wait_for(server, "requests_running", 0)
    metrics = server.metrics()
    assert metrics["pages_used"] == 0 and metrics["requests_waiting"] == 0, metrics
    assert metrics["requests_failed_total"] == 0
    assert metrics["cached_tokens_total"] >= 0 and metrics["first_token_seconds_count"] > 0


def limits(weft, model):
    """Of a head, of connections, of the time that one may be idle, of the time of an answer."""
    with serving(weft, model, "--ctx", "4096", "--connections", "8", "--idle", "3", "--request-time", "1") as server:
        for path, headers, status in (("/health", {"X-Much": "y" * 40000}, 431), ("/" + "y" * 40000, {}, 414), ("/../../etc/passwd", {}, 404)):
            got = server.ask("GET", path, headers=headers)[0]
            assert got == status, (path[:20], got)
        start = time.monotonic()
        reply = server.post("/v1/completions", {"prompt": "Once", "max_tokens": 4000, "ignore_eos": True})
        assert reply["choices"][0]["finish_reason"] == "length" and reply["usage"]["completion_tokens"] < 4000, reply["usage"]
        assert SLOW or time.monotonic() - start < 10
        wait_for(server, "connections", 1)
        idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(8)]
        one_more = socket.create_connection(("127.0.0.1", server.port))
        one_more.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        one_more.settimeout(0.5)
        try:
            raise AssertionError(one_more.recv(100))  # it would be the ninth
        except TimeoutError:
            pass
        for one in [*idle, one_more]:
            one.settimeout(30)
        assert all(one.recv(1) == b"" for one in idle)  # closed, as nothing came
        assert one_more.recv(100).startswith(b"HTTP/1.1 200")
        for one in [*idle, one_more]:
            one.close()


def taken_port(weft, model):
    """A port that another server has is refused; the port of one that has ended is free at once."""
    with serving(weft, model) as server:
        refused = subprocess.run([weft, "serve", model, "--port", str(server.port)], capture_output=True, text=True,
                                 timeout=60, check=False)
        assert refused.returncode == 1 and refused.stderr.count("\n") == 1, refused
        assert "Address already in use" in refused.stderr and "--port" in refused.stderr, refused.stderr
        assert server.ask("GET", "/health")[0] == 200
    with serving(weft, model, "--port", str(server.port)) as again:
        assert again.port == server.port and again.ask("GET", "/health")[0] == 200


def keys(weft, model, scratch):
    path = os.path.join(scratch, "keys")
    with open(path, "w", encoding="utf-8") as file:
        file.write("# those who may ask\nfirst-key\n\nsecond-key\n")
    with serving(weft, model, "--api-key-file", path, "--cors", "https://app.example") as server:
        wish = {"prompt": "a", "max_tokens": 1}
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer first-ke"},
                       {"Authorization": "Bearer first-key2"}, {"Authorization": "first-key"}, {"Authorization": "Bearer "}):
            error = server.post("/v1/completions", wish, 401, **header)["error"]
            assert error["code"] == "invalid_api_key" and "key" not in error["message"].replace("a valid key", "").replace("KEY", "")
        for key in ("first-key", "second-key"):
            server.post("/v1/completions", wish, **{"Authorization": f"Bearer {key}"})
        assert server.ask("GET", "/health")[0] == 200 and server.ask("GET", "/metrics")[0] == 401
        status, headers, _ = server.ask("OPTIONS", "/v1/completions", headers={"Origin": "https://app.example"})
        assert status == 204 and headers["Access-Control-Allow-Origin"] == "https://app.example"
        assert server.ask("GET", "/health", headers={"Origin": "https://other.example"})[0] == 403
        assert "first-key" not in server.stop()


def ends_well(weft, model):
    """SIGTERM: what runs is finished, what comes is refused."""
    with serving(weft, model, "--slots", "2", "--grace", "120") as server:
        connection = server.connect()
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "Once", "max_tokens": 700, "ignore_eos": True}))
        wait_for(server, "requests_running", 1)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        try:
            assert server.ask("POST", "/v1/completions", {"prompt": "a"})[0] == 503
        except ConnectionError:
            pass  # it had ended already
        reply = connection.getresponse()
        assert reply.status == 200 and json.loads(reply.read())["usage"]["completion_tokens"] == 700
    with serving(weft, model, "--grace", "0") as server:  # no grace: what runs is cut off
        connection = server.connect()
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "Once", "max_tokens": 900, "ignore_eos": True}))
        wait_for(server, "requests_running", 1, 0)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(timeout=60)


def main():
    weft, model, scratch = sys.argv[1:4]
    os.makedirs(scratch, exist_ok=True)
    with serving(weft, model, "--ctx", "1024", "--slots", "8", "--queue", "60", "--max-body", "1", "--invariant") as server:
        for part in (answers, samples, logprobs, refusals, gone_clients, slow_readers):
            part(server)
            print("fine:", part.__name__, flush=True)
        many(server, 32 if SLOW else 256, 64 if SLOW else 400)
    print("fine: many", flush=True)
    limits(weft, model)
    print("fine: limits", flush=True)
    taken_port(weft, model)
    print("fine: taken_port", flush=True)
    keys(weft, model, scratch)
    print("fine: keys", flush=True)
    ends_well(weft, model)
    print("fine: ends_well", flush=True)


if __name__ == "__main__":
    main()
