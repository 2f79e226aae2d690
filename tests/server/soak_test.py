#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Many clients at once, good and bad: every request that was taken ends, no page is left behind, memory stays; and a text does
not depend on what else is asked.

usage: soak_test.py WEFT MODEL SCRATCH_DIR [--requests N] [--clients N] [SANITIZER]
The long run: --requests 10000 --clients 256 (ctest -C long -R server_soak_long)
"""
import concurrent.futures
import json
import random
import socket
import struct
import sys
import time

from serving import serving

WORDS = "the fox and dog went to old house behind hill they saw light moved from room".split()


def number(option, standard):
    return int(sys.argv[sys.argv.index(option) + 1]) if option in sys.argv else standard


SLOW = any(name in word for word in sys.argv[4:] for name in ("address", "thread", "undefined"))
REQUESTS, CLIENTS = number("--requests", 80 if SLOW else 400), number("--clients", 32)


def body_of(rng):
    words = WORDS[: rng.randrange(3, 12)] + rng.choices(WORDS, k=rng.randrange(1, 30))
    return {"prompt": " ".join(words), "max_tokens": rng.randrange(1, 12), "seed": rng.randrange(1 << 30), "stream": rng.random() < 0.5,
            "temperature": rng.choice((0, 0.8)), "n": rng.choice((1, 1, 1, 3))}


def raw(port, data):
    s = socket.create_connection(("127.0.0.1", port), timeout=60)
    s.sendall(data)
    return s


def head(bytes_to_come):
    return b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % bytes_to_come


def whole(server, rng):
    status, _, text = server.ask("POST", "/v1/completions", body_of(rng))
    assert status in (200, 503), (status, text)
    assert status == 503 or (b"choices" in text), text
    return "answered" if status == 200 else "busy"


def goes_away(server, rng):
    data = json.dumps({**body_of(rng), "stream": True, "max_tokens": 200, "ignore_eos": True}).encode()
    s = raw(server.port, head(len(data)) + data)
    if rng.random() < 0.7:
        s.recv(rng.randrange(1, 400))
    if rng.random() < 0.5:  # the connection is reset, not closed
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
    return "gone"


def bad_body(server, rng):
    body = rng.choice((b"{", b"[]", b"\xff\x00", b'{"prompt": 3}', b'{"prompt": "a", "n": 99}', b'{"prompt": "a", "top_k": -5}', rng.randbytes(200), b'{"a":' * 3000))
    status, _, text = server.ask("POST", rng.choice(("/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/embeddings", "/tokenize")), body)
    assert 400 <= status < 500, (status, body, text)
    return "refused"


def half_open(server, rng):
    data = json.dumps(body_of(rng)).encode()
    s = raw(server.port, (head(len(data)) + data)[: rng.randrange(1, 150)])
    time.sleep(rng.random() * 0.05)
    s.close()
    return "half"


def one(server, n):
    rng = random.Random(n)
    return rng.choices((whole, goes_away, bad_body, half_open), (60, 20, 12, 8))[0](server, rng)


def memory_of(server):
    with open(f"/proc/{server.process.pid}/statm") as file:
        return int(file.read().split()[1])


def storm(server, numbers):
    counts = {}
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        for kind in pool.map(lambda n: one(server, n), numbers):
            counts[kind] = counts.get(kind, 0) + 1
    return counts


def settle(server):
    for _ in range(600):
        m = server.metrics()
        if m["requests_running"] == m["requests_waiting"] == 0 and m["connections"] <= 1:
            return m
        time.sleep(0.1)
    raise AssertionError(m)


def check(server, counts):
    m = settle(server)
    ended = m["requests_finished_total"] + m["requests_cancelled_total"] + m["requests_failed_total"]
    assert m["requests_failed_total"] == 0 and m["pages_used"] == 0, m
    assert m["requests_accepted_total"] == ended, m
    assert m["requests_finished_total"] >= counts.get("answered", 0) > 0, (m, counts)


def storms(weft, model):
    with serving(weft, model, "--ctx", "512", "--threads", "2", "--slots", "16", "--pool", "4096", "--queue", "1024", "--connections", "1024", "--lookup") as server:
        storm(server, range(-REQUESTS // 2, 0))  # buffers and pools of memory reach their size
        settle(server)
        before = memory_of(server)
        counts = storm(server, range(REQUESTS))
        check(server, counts)
        after = memory_of(server)
        print(f"soak: {REQUESTS} requests, {CLIENTS} at a time: {counts}; resident pages {before} before, {after} after ({100 * after / before - 100:+.2f} %)")
        assert SLOW or REQUESTS < 5000 or after <= before * 1.02, (before, after)


def seeds_in_company(weft, model):
    def ask(server, n):
        return server.post("/v1/completions", {"prompt": " ".join(WORDS[: 3 + n % 9]), "max_tokens": 24, "seed": n, "temperature": 0.9, "ignore_eos": True})["choices"][0]["text"]

    many = 16 if SLOW else 64
    with serving(weft, model, "--ctx", "256", "--threads", "2", "--slots", "64", "--invariant") as server:
        alone = [ask(server, n) for n in range(many)]
        with concurrent.futures.ThreadPoolExecutor(many) as pool:
            together = list(pool.map(lambda n: ask(server, n), range(many)))
        assert alone == together
        assert len(set(alone)) > many // 2


def main():
    weft, model = sys.argv[1:3]
    seeds_in_company(weft, model)
    storms(weft, model)


main()
