#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Samplers, choices and speculation of weft serve.

usage: features_test.py WEFT MODEL SCRATCH_DIR [SANITIZER]
"""
import sys

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
    everything = ["penalties", "dry", "top_n_sigma", "top_k", "temperature", "typical_p", "top_p", "min_p", "xtc", "mirostat"]
    assert text(server, samplers=everything, top_p=0.8) == text(server, top_p=0.8)
    for settings, field in BAD:
        error = server.post("/v1/completions", {"prompt": FOX, **settings}, status=400)["error"]
        assert error["param"] == field, (settings, error)


def best_are_told(server):
    several = complete(server, n=6, logprobs=0)
    means = [sum(c["logprobs"]["token_logprobs"]) / len(c["logprobs"]["token_logprobs"]) for c in several["choices"]]
    best = complete(server, n=2, best_of=6)
    order = sorted(range(6), key=lambda i: -means[i])
    assert [c["text"] for c in best["choices"]] == [several["choices"][i]["text"] for i in order[:2]]
    assert [c["index"] for c in best["choices"]] == [0, 1]
    assert best["usage"]["completion_tokens"] == 6 * 30 and best["choices"][0]["logprobs"] is None


def main():
    weft, model = sys.argv[1:3]
    options = ("--ctx", "512", "--threads", "2", "--invariant")
    with serving(weft, model, *options) as server:
        samplers_change_texts(server)
        best_are_told(server)
        plain = [text(server, seed=n, temperature=0 if n % 2 else 0.7) for n in range(6)]
        assert "guessed_tokens_total" in server.metrics()
    with serving(weft, model, *options, "--lookup", "--draft", model) as server:
        assert plain == [text(server, seed=n, temperature=0 if n % 2 else 0.7) for n in range(6)]
        metrics = server.metrics()
        assert 0 < metrics["accepted_tokens_total"] <= metrics["guessed_tokens_total"], metrics


main()
