#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tokens per second and the time to the first token of servers that speak OpenAI's interface, with many clients at once.

usage: server.py [--clients 16] [--prompt 512] [--shared 400] [--tokens 64] [--rounds 1] NAME=PORT ...

Every client of a round asks at the same moment; prompts are lists of token ids that begin alike, other ones in each
round. Servers take turns. One JSON object per round and server.
"""
import argparse
import http.client
import json
import random
import statistics
import threading
import time


def ask(port, prompt, tokens, gate, result):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    data = json.dumps(body)
    gate.wait()
    start = time.monotonic()
    connection.request("POST", "/v1/completions", data, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    assert reply.status == 200, reply.read()
    first, events = None, 0
    for line in reply:
        if line.startswith(b"data: {"):
            first = first or time.monotonic()
            events += 1
    result.append((first - start, time.monotonic(), start, events))
    connection.close()


def run(name, port, args, seed):
    rng = random.Random(seed)
    shared = [rng.randrange(300, 30000) for _ in range(args.shared)]
    prompts = [shared + [rng.randrange(300, 30000) for _ in range(args.prompt - args.shared)] for _ in range(args.clients)]
    gate, result = threading.Barrier(args.clients), []
    threads = [threading.Thread(target=ask, args=(port, prompt, args.tokens, gate, result)) for prompt in prompts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(result) == args.clients
    seconds = max(r[1] for r in result) - min(r[2] for r in result)
    print(json.dumps({"server": name, "clients": args.clients, "prompt": args.prompt, "shared": args.shared, "tokens": args.tokens, "seconds": round(seconds, 3),
                      "tokens_per_second": round(args.clients * args.tokens / seconds, 2), "first_token_median_s": round(statistics.median(r[0] for r in result), 3),
                      "first_token_max_s": round(max(r[0] for r in result), 3), "events": sum(r[3] for r in result)}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    for option, standard in (("clients", 16), ("prompt", 512), ("shared", 400), ("tokens", 64), ("rounds", 1), ("seed", 1)):
        parser.add_argument(f"--{option}", type=int, default=standard)
    parser.add_argument("servers", nargs="+")
    args = parser.parse_args()
    for n in range(args.rounds):
        for server in args.servers:
            name, port = server.split("=")
            run(name, int(port), args, args.seed * 1000 + n)


main()
