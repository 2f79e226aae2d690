#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Several models in one server: chosen by name, loaded when they are asked for, put away where memory is short.

usage: models_test.py WEFT MODEL SCRATCH_DIR [SANITIZER]
"""
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import time

from serving import serving, with_template

OPTIONS = ("--ctx", "256", "--threads", "2", "--invariant", "--slots", "4")
TURNS = "{% for m in messages %}{{ m.content }} {% endfor %}"
FOX = [{"role": "user", "content": "Tell me a story about a fox."}]


def ask(server, name, status=200, **settings):
    return server.post("/v1/chat/completions", {"model": name, "messages": FOX, "temperature": 0, "max_tokens": 8, **settings}, status)


def text(server, name):
    reply = ask(server, name)
    assert reply["model"] == name, reply
    return reply["choices"][0]["message"]["content"]


def streamed(server, name):
    events = server.events("/v1/chat/completions", {"model": name, "messages": FOX, "temperature": 0, "max_tokens": 8})
    return "".join(event["choices"][0]["delta"].get("content") or "" for event in events)


def loaded(server):
    _, _, body = server.ask("GET", "/v1/models")
    return {one["id"]: one["loaded"] for one in json.loads(body)["data"]}


def kept(weft, model, names, scratch):
    """Prompts are found again by the next server, and by a model that was put away; a damaged file is passed over."""
    folder = os.path.join(scratch, "models_cache")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    long = {"prompt": "Once upon a time there was a fox and an owl. " * 14, "max_tokens": 8, "temperature": 0}
    options = (*OPTIONS, "--cache-dir", folder)
    with serving(weft, model, *options, "--name", "a/b") as server:
        first = server.post("/v1/completions", long)
        assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0, first
    assert os.listdir(folder) == ["a%2fb.pages"], os.listdir(folder)
    with serving(weft, model, *options, "--name", "a/b") as server:
        again = server.post("/v1/completions", long)
        assert again["choices"] == first["choices"] and again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 128, again
    with open(os.path.join(folder, "a%2fb.pages"), "r+b") as file:
        file.seek(1000)
        file.write(b"weft")
    with serving(weft, model, *options, "--name", "a/b") as server:
        fresh = server.post("/v1/completions", long)
        assert fresh["choices"] == first["choices"] and fresh["usage"]["prompt_tokens_details"]["cached_tokens"] == 0, fresh
    with serving(weft, *names, *options, "--memory", "1") as server:
        for name in ("a", "b", "a"):
            reply = server.post("/v1/completions", {**long, "model": name})
            assert reply["choices"] == first["choices"], reply
        assert reply["usage"]["prompt_tokens_details"]["cached_tokens"] >= 128, reply
    shutil.rmtree(folder)


def main():
    weft, model, scratch = sys.argv[1:4]
    os.makedirs(scratch, exist_ok=True)
    other = with_template(model, os.path.join(scratch, "models_other.gguf"), TURNS)
    broken = os.path.join(scratch, "models_broken.gguf")
    with open(broken, "wb") as file:
        file.write(b"GGUF, but not really")
    with serving(weft, model, *OPTIONS, "--name", "one") as server:
        one = ask(server, "whatever")["choices"][0]["message"]["content"]
    names = (f"--model=a={model}", f"--model=b={other}")
    with serving(weft, *names, *OPTIONS) as server:
        assert loaded(server) == {"a": True, "b": False}
        expected = {"a": text(server, "a"), "b": text(server, "b")}
        assert expected["a"] == one != expected["b"], expected
        assert loaded(server) == {"a": True, "b": True}
        assert ask(server, "c", 404)["error"]["code"] == "model_not_found"
        error = server.post("/v1/chat/completions", {"messages": FOX}, 400)["error"]
        assert error["param"] == "model", error
        assert server.post("/tokenize", {"model": "b", "content": "fox"})["tokens"]
    with serving(weft, *names, f"--model=broken={broken}", "--memory", "1", *OPTIONS) as server:
        for name in ("a", "b", "b", "a"):
            assert text(server, name) == expected[name]
            assert loaded(server)[name] and sum(loaded(server).values()) == 1
        assert ask(server, "broken", 503)["error"]["param"] == "model"
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            jobs = [(("a", "b")[n % 2], pool.submit(streamed if n % 3 else text, server, ("a", "b")[n % 2])) for n in range(24)]
            for name, job in jobs:
                assert job.result() == expected[name], (name, job.result())
        for _ in range(100):  # gauges are those of the last look round
            metrics = server.metrics()
            if metrics["requests_running"] == metrics["pages_used"] == 0:
                break
            time.sleep(0.05)
        assert metrics["requests_finished_total"] == 28 and metrics["requests_refused_total"] == 1, metrics
        assert metrics["requests_running"] == metrics["pages_used"] == 0, metrics
    kept(weft, model, names, scratch)
    for bad in (["--model", f"a={model}", "--model", f"a={other}"], ["--model", f"a={model}", "--model", "b=/nowhere.gguf"], ["--model", "=x"], [model, "--model", f"a={model}"], [model, "--cache-dir", broken]):
        assert subprocess.run([weft, "serve", *bad, "--port", "0"], capture_output=True, timeout=60).returncode in (1, 2), bad
    os.remove(other)
    os.remove(broken)


if __name__ == "__main__":
    main()
