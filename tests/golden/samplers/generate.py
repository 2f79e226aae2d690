#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes samplers.json beside itself: rows of logits, settings, and what a model of the samplers in numpy leaves of them.

Written from the papers and from how other engines describe the settings, over probabilities of the whole vocabulary
with a mask of those that are left; the engine works on a sorted list."""
import json
import pathlib

import numpy as np

VOCAB = 48
MASK = (1 << 64) - 1
ORDER = ["penalties", "dry", "top_n_sigma", "top_k", "temperature", "typical_p", "top_p", "min_p", "xtc", "mirostat"]


def chance(seed, step):
    """splitmix64 of seed and position, as a number in [0, 1)."""
    x = seed ^ ((step + 1) * 0x9E3779B97F4A7C15 & MASK)
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return ((x ^ x >> 31) >> 11) / 2.0**53


class Row:
    def __init__(self, case):
        self.c = case
        self.x = np.array(case["logits"], dtype=np.float64)
        self.left = np.isfinite(self.x)

    def get(self, name, default):
        return self.c.get(name, default)

    def p(self):
        e = np.where(self.left, np.exp(self.x - self.x[self.left].max()), 0)
        return e / e.sum()

    def ranked(self):
        ids = np.flatnonzero(self.left)
        return ids[np.lexsort((ids, -self.x[ids]))]

    def keep(self, ids):
        self.left = np.zeros(VOCAB, dtype=bool)
        self.left[ids] = True

    def reach(self, ids, goal):
        sums = np.cumsum(self.p()[ids])
        self.keep(ids[: min(len(ids), int(np.searchsorted(sums, goal)) + 1)])

    def penalties(self):
        window = self.get("penalty_window", 0)
        recent = self.c["history"][-window:] if window else []
        for token in set(recent):
            times = recent.count(token)
            factor = self.get("repetition_penalty", 1.0)
            self.x[token] = self.x[token] / factor if self.x[token] > 0 else self.x[token] * factor
            self.x[token] -= self.get("frequency_penalty", 0.0) * times + self.get("presence_penalty", 0.0)

    def dry(self):
        text = self.c["history"]
        window = int(self.get("dry_window", 0))
        text = text[-window:] if window else text
        breakers = self.get("dry_breakers", [])
        allowed = int(self.get("dry_allowed_length", 2))
        if not self.get("dry_multiplier", 0.0):
            return
        for token in range(VOCAB):
            longest = 0
            for i, here in enumerate(text):
                if here != token:
                    continue
                same = 0
                while same < i and text[i - 1 - same] == text[-1 - same] and text[-1 - same] not in breakers:
                    same += 1
                longest = max(longest, same)
            if longest >= allowed:
                self.x[token] -= self.c["dry_multiplier"] * self.get("dry_base", 1.75) ** (longest - allowed)

    def top_n_sigma(self):
        if self.get("top_n_sigma", 0.0) and not self.get("mirostat_tau", 0.0):
            some = self.x[self.left]
            self.left &= self.x >= some.max() - self.c["top_n_sigma"] * some.std()

    def top_k(self):
        if self.get("top_k", 0) and not self.get("mirostat_tau", 0.0):
            self.keep(self.ranked()[: self.c["top_k"]])

    def temperature(self):
        heat, span = self.get("temperature", 1.0), self.get("dynatemp_range", 0.0)
        if span:
            p = self.p()[self.left]
            share = float(-(p * np.log(p)).sum() / np.log(len(p))) if len(p) > 1 else 0.0
            low, high = max(0.0, heat - span), heat + span
            heat = low + (high - low) * share ** self.get("dynatemp_exponent", 1.0)
        self.x = (self.x - self.x[self.left].max()) / heat

    def typical_p(self):
        goal = self.get("typical_p", 1.0)
        if 0 < goal < 1 and not self.get("mirostat_tau", 0.0):
            p = self.p()
            ids = self.ranked()
            surprise = -np.log(p[ids])
            far = np.abs(surprise - (p[ids] * surprise).sum())
            self.reach(ids[np.argsort(far, kind="stable")], goal)

    def top_p(self):
        goal = self.get("top_p", 1.0)
        if 0 < goal < 1 and not self.get("mirostat_tau", 0.0):
            self.reach(self.ranked(), goal)

    def min_p(self):
        if not self.get("mirostat_tau", 0.0):
            p = self.p()
            self.left &= p >= self.get("min_p", 0.0) * p.max()

    def xtc(self):
        if self.get("mirostat_tau", 0.0) or chance(self.c["seed"], self.c["step"]) >= self.get("xtc_probability", 0.0):
            return
        p = self.p()
        likely = [i for i in self.ranked() if p[i] >= self.get("xtc_threshold", 0.1)]
        self.left[likely[:-1]] = False

    def mirostat(self):
        if self.get("mirostat_tau", 0.0):
            mu = self.get("mu", 0.0) or 2 * self.c["mirostat_tau"]
            bits = np.full(VOCAB, np.inf)
            bits[self.left] = -np.log2(self.p()[self.left])
            first = self.ranked()[0]
            self.left &= bits <= mu
            self.left[first] = True

    def run(self):
        for name in self.get("order", ORDER):
            getattr(self, name)()
        ids = np.flatnonzero(self.left)
        self.c["left"] = ids.tolist()
        shares = self.p()[ids]
        self.c["p"] = [float(f"{share:.9g}") for share in shares]
        if self.get("mirostat_tau", 0.0):
            mu = self.get("mu", 0.0) or 2 * self.c["mirostat_tau"]
            eta = self.get("mirostat_eta", 0.1)
            token = int(ids[len(ids) // 2])
            self.c["token"] = token
            self.c["next_mu"] = float(mu - eta * (-np.log2(self.p()[token]) - self.c["mirostat_tau"]))
        return self.c


def cases(rng):
    alone = [{}, {"top_k": 7}, {"top_p": 0.7}, {"min_p": 0.08}, {"temperature": 0.6}, {"temperature": 1.7},
             {"repetition_penalty": 1.3, "penalty_window": 20}, {"frequency_penalty": 0.4, "presence_penalty": -0.3, "penalty_window": 64},
             {"dynatemp_range": 0.5, "temperature": 0.8}, {"dynatemp_range": 0.9, "temperature": 0.7, "dynatemp_exponent": 2.5},
             {"typical_p": 0.5}, {"typical_p": 0.92}, {"top_n_sigma": 0.7}, {"top_n_sigma": 2.0},
             {"xtc_probability": 1.0, "xtc_threshold": 0.05}, {"xtc_probability": 0.5, "xtc_threshold": 0.04},
             {"xtc_probability": 1.0, "xtc_threshold": 0.6},
             {"dry_multiplier": 0.8}, {"dry_multiplier": 1.5, "dry_base": 1.2, "dry_allowed_length": 3},
             {"dry_multiplier": 0.8, "dry_window": 12}, {"dry_multiplier": 0.8, "dry_breakers": [1, 3]},
             {"mirostat_tau": 3.0}, {"mirostat_tau": 1.0, "mirostat_eta": 0.3, "mu": 1.7, "top_k": 2},
             {"mirostat_tau": 2.0, "temperature": 1.4, "mu": 0.01}]
    together = [{"top_k": 20, "top_p": 0.9, "min_p": 0.02, "temperature": 0.8, "typical_p": 0.95},
                {"top_n_sigma": 1.5, "xtc_probability": 1.0, "xtc_threshold": 0.08, "temperature": 1.2, "dry_multiplier": 1.0},
                {"order": ["temperature", "top_k", "min_p"], "temperature": 2.0, "top_k": 12, "min_p": 0.2, "top_p": 0.1},
                {"order": ["min_p", "temperature"], "temperature": 2.0, "min_p": 0.2},
                {"order": ["xtc", "top_p", "typical_p", "temperature"], "xtc_probability": 1.0, "xtc_threshold": 0.05,
                 "top_p": 0.9, "typical_p": 0.8, "temperature": 0.9},
                {"order": ["top_p"], "top_p": 0.6, "temperature": 5.0},
                {"order": ["typical_p", "temperature", "typical_p"][:2], "typical_p": 0.6, "dynatemp_range": 0.4, "temperature": 0.9}]
    for settings in alone + together:
        for n in range(3):
            history = rng.integers(0, 6, 30).tolist() if n < 2 else rng.integers(0, VOCAB, 30).tolist()
            history[-5:] = history[3:8]
            logits = np.round(rng.normal(0, 2.5 if n else 0.8, VOCAB), 3)
            if n == 2:
                logits[rng.integers(0, VOCAB, 3)] = -np.inf
            case = {"logits": [None if np.isinf(v) else float(v) for v in logits], "history": history,
                    "seed": int(rng.integers(0, 1 << 40)), "step": len(history), **settings}
            whole = dict(case, logits=logits)
            case.update({k: v for k, v in Row(whole).run().items() if k in ("left", "p", "token", "next_mu")})
            yield case


def main():
    rows = [json.dumps(case) for case in cases(np.random.default_rng(7))]
    pathlib.Path(__file__).with_name("samplers.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")


main()
