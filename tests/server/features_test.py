#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Samplers, choices, speculation, responses and embeddings of weft serve.

usage: features_test.py WEFT MODEL SCRATCH_DIR [SANITIZER]
"""
import base64
import concurrent.futures
import json
import struct
import subprocess
import sys
import time

from serving import serving

FOX = "Once upon a time there was a fox. Once upon a time there was"
BAD = [
    ({"xtc_probability": 2}, "xtc_probability"),
    ({"dry_base": 0.5}, "dry_base"),
    ({"mirostat_tau": "3"}, "mirostat_tau"),
    ({"samplers": "top_k"}, "samplers"),
    ({"samplers": ["top_k", "top_k"]}, "samplers"),
    ({"samplers": ["nothing"]}, "samplers"),
    ({"dry_sequence_breakers": [""]}, "dry_sequence_breakers"),
    ({"dry_sequence_breakers": ["a"] * 17}, "dry_sequence_breakers"),
    ({"n": 3, "best_of": 2}, "best_of"),
    ({"best_of": 2, "stream": True}, "best_of"),
    ({"best_of": 1000}, "best_of"),
]


def complete(server, **settings):
    return server.post("/v1/completions", {"prompt": FOX, "max_tokens": 30, "seed": 5, "ignore_eos": True, **settings})


def text(server, **settings):
    return complete(server, **settings)["choices"][0]["text"]


def samplers_change_texts(server):
    plain = text(server)
    assert text(server) == plain
    some = [{"typical_p": 0.3}, {"top_n_sigma": 0.3}, {"xtc_probability": 1, "xtc_threshold": 0.05}, {"dry_multiplier": 5}, {"dry_multiplier": 5, "dry_sequence_breakers": ["fox"]},
            {"dynatemp_range": 0.9}, {"mirostat_tau": 1}, {"samplers": ["top_k"], "top_k": 1}]
    texts = [text(server, **settings) for settings in some]
    assert texts == [text(server, **settings) for settings in some]
    assert sum(one != plain for one in texts) >= 6, texts
    assert texts[-1] == text(server, temperature=0)
    assert text(server, top_k=-1) == plain
    everything = ["penalties", "dry", "top_n_sigma", "top_k", "temperature", "typical_p", "top_p", "min_p", "xtc", "mirostat"]
    assert text(server, samplers=everything, top_p=0.8) == text(server, top_p=0.8)
    for settings, field in BAD:
        error = server.post("/v1/completions", {"prompt": FOX, **settings}, status=400)["error"]
        assert error["param"] == field, (settings, error)


def best_are_told(server):
    before = server.metrics()["prompt_tokens_total"]
    several = complete(server, n=6, logprobs=0)
    while server.metrics()["requests_running"] > 0:  # counters are those of the last look round
        time.sleep(0.01)
    assert server.metrics()["prompt_tokens_total"] - before == several["usage"]["prompt_tokens"], several["usage"]  # once for all six
    means = [sum(c["logprobs"]["token_logprobs"]) / len(c["logprobs"]["token_logprobs"]) for c in several["choices"]]
    best = complete(server, n=2, best_of=6)
    order = sorted(range(6), key=lambda i: -means[i])
    assert [c["text"] for c in best["choices"]] == [several["choices"][i]["text"] for i in order[:2]]
    assert [c["index"] for c in best["choices"]] == [0, 1]
    assert best["usage"]["completion_tokens"] == 6 * 30 and best["choices"][0]["logprobs"] is None


def responses_are_told(server):
    wish = {"input": "Tell me a story about a fox.", "instructions": "You tell stories.", "max_output_tokens": 20, "temperature": 0}
    chat = {"messages": [{"role": "system", "content": wish["instructions"]}, {"role": "user", "content": wish["input"]}], "max_tokens": 20, "temperature": 0}
    expected = server.post("/v1/chat/completions", chat)["choices"][0]["message"]["content"]
    reply = server.post("/v1/responses", wish)
    part = reply["output"][0]["content"][0]
    assert (part["type"], part["text"], reply["status"]) == ("output_text", expected, "incomplete"), reply
    assert reply["incomplete_details"]["reason"] == "max_output_tokens" and reply["usage"]["output_tokens"] == 20
    items = [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": wish["instructions"]}]}, {"role": "user", "content": wish["input"]}]
    again = server.post("/v1/responses", {**wish, "input": items, "instructions": None})
    assert again["output"][0]["content"][0]["text"] == expected and again["id"] != reply["id"]
    status, _, text = server.ask("POST", "/v1/responses", {**wish, "stream": True})
    events = [dict(line.split(": ", 1) for line in part.splitlines()) for part in text.decode().split("\n\n") if part]
    data = [json.loads(event["data"]) for event in events]
    assert status == 200 and [event["event"] for event in events] == [one["type"] for one in data]
    assert [one["sequence_number"] for one in data] == list(range(len(data)))
    assert "".join(one["delta"] for one in data if one["type"] == "response.output_text.delta") == expected
    assert data[0]["type"] == "response.created" and data[-1]["response"]["output"][0]["content"][0]["text"] == expected
    shape = {"type": "json_schema", "name": "a", "schema": {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}}
    formed = server.post("/v1/responses", {**wish, "max_output_tokens": 100, "text": {"format": shape}})
    assert formed["text"]["format"] == shape and json.loads(formed["output"][0]["content"][0]["text"])["a"] in (1, 2), formed
    assert reply["text"]["format"] == {"type": "text"}, reply
    bad = [({"input": 3}, "input"), ({"input": []}, "input"), ({"input": [{"content": "a"}]}, "input[0]"), ({"input": [{"role": "user", "content": 3}]}, "input[0].content"),
           ({"input": "a", "instructions": 3}, "instructions"), ({"input": "a", "previous_response_id": "r"}, "previous_response_id"),
           ({"input": "a", "max_output_tokens": 0}, "max_output_tokens"), ({"input": "a", "temperature": 1000}, "temperature")]
    for body, field in bad:
        error = server.post("/v1/responses", body, status=400)["error"]
        assert error["param"] == field, (body, error)
    assert server.post("/v1/embeddings", {"input": "a"}, status=400)["error"]["message"]


def texts_become_vectors(server, weft, model):
    texts = ["a fox and a dog", "the old house on the hill", "a"]
    reply = server.post("/v1/embeddings", {"input": texts})
    vectors = [one["embedding"] for one in reply["data"]]
    assert [one["index"] for one in reply["data"]] == [0, 1, 2] and reply["usage"]["prompt_tokens"] > 6
    for text, vector in zip(texts, vectors):
        told = json.loads(subprocess.run([weft, "embed", model, text, "--json", "--threads", "2"], check=True, capture_output=True, text=True).stdout)
        assert max(abs(a - b) for a, b in zip(told["embedding"], vector)) < 0.02, text
        assert abs(sum(x * x for x in vector) - 1) < 1e-4
    packed = server.post("/v1/embeddings", {"input": texts[1], "encoding_format": "base64"})["data"][0]["embedding"]
    floats = struct.unpack(f"<{len(vectors[1])}f", base64.b64decode(packed))
    assert max(abs(a - b) for a, b in zip(floats, vectors[1])) < 0.02
    ids = server.post("/tokenize", {"content": texts[0], "add_special": True})["tokens"]
    by_ids = server.post("/v1/embeddings", {"input": [ids]})["data"][0]["embedding"]
    assert max(abs(a - b) for a, b in zip(by_ids, vectors[0])) < 0.02
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        many = list(pool.map(lambda n: server.post("/v1/embeddings", {"input": texts[: n % 3 + 1]}), range(48)))
    assert all(max(abs(a - b) for a, b in zip(one["embedding"], vectors[one["index"]])) < 0.02 for reply in many for one in reply["data"])
    bad = [{}, {"input": ""}, {"input": []}, {"input": ["a", 3]}, {"input": [1 << 40]}, {"input": "a", "encoding_format": "hex"}, {"input": "a", "dimensions": 7}, {"input": "word " * 3000}]
    for body in bad:
        assert server.post("/v1/embeddings", body, status=400)["error"]["message"], body
    assert server.post("/v1/completions", {"prompt": "a"}, status=400)["error"]["message"]


def main():
    weft, model = sys.argv[1:3]
    options = ("--ctx", "512", "--threads", "2", "--invariant")
    with serving(weft, model, *options) as server:
        samplers_change_texts(server)
        best_are_told(server)
        responses_are_told(server)
        plain = [text(server, seed=n, temperature=0 if n % 2 else 0.7) for n in range(6)]
        assert "guessed_tokens_total" in server.metrics()
    with serving(weft, model, *options, "--lookup", "--draft", model) as server:
        assert plain == [text(server, seed=n, temperature=0 if n % 2 else 0.7) for n in range(6)]
        metrics = server.metrics()
        assert 0 < metrics["accepted_tokens_total"] <= metrics["guessed_tokens_total"], metrics
    with serving(weft, model, "--embedding", "--threads", "2", "--ctx", "512") as server:
        texts_become_vectors(server, weft, model)


main()
