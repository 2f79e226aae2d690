#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How far rounding takes the encoders of this folder: what bounds weft's states by default.

    encoders_rounded.py        after encoders.py and nomic_moe.py

A plain evaluation in low precision rounds both operands of products, and nothing else: the model code that made the stored states,
with a hook on its products. `encoders/rounded.safetensors` has for each encoder the largest difference to the stored states, at
which of the stored positions that is (`..._at`), the largest of all others (`..._others`) and the root of the mean square (`..._rms`):
a token that rounding moves more than any other excuses itself alone.

    bf16    operands of all products are rounded to bf16, which is what WEFT_LINEAR_F32_AS_BF16, a cache of bf16 and
            WEFT_ATTENTION_NARROW_QUERIES allow; a router's and experts' are not
    f16     operands of attention's products are rounded to f16, as a cache of f16 allows

Experts are chosen by comparing, and rounding may turn a comparison. A tie is a token for which, in some layer, the least chosen
and the largest other score lie closer than twice what rounding to bf16 moves such a difference by, the worst of all tokens that came
there by the same experts. `tied` has the states of a tie with the other choice, as `ties` numbers them among the stored positions.
"""

import itertools
import pathlib
import sys
import tempfile

import numpy as np
import torch
from safetensors.numpy import load_file
from torch.overrides import TorchFunctionMode

import encoders
import nomic_moe

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from container import GoldenFile  # noqa: E402

FOLDER = pathlib.Path(__file__).parent / "encoders"
ATTENTION = {torch.matmul, torch.bmm, torch.Tensor.matmul, torch.Tensor.bmm, torch.Tensor.__matmul__}
LINEAR = {torch.nn.functional.linear}


class Rounded(TorchFunctionMode):
    def __init__(self, dtype, functions):
        super().__init__()
        self.dtype, self.functions, self.count = dtype, functions, 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in self.functions:
            self.count += 1
            args = (*(x.to(self.dtype).to(x.dtype) for x in args[:2]), *args[2:])
        return function(*args, **(kwargs or {}))


def stored(name):
    file = load_file(FOLDER / f"{name}.safetensors")
    return {key.removeprefix("model."): value for key, value in file.items()}


def states_by_torch(name, model, golden):
    states, body = [], getattr(model, "roberta", getattr(model, "model", model))
    tokens = torch.from_numpy(golden["tokens"]).long().split(golden["lengths"].tolist())
    for text, second in zip(tokens, golden["seconds"].tolist(), strict=True):
        types = dict(token_type_ids=(torch.arange(len(text)) >= second).long()[None]) if second else {}
        states.append(body(input_ids=text[None], **types).last_hidden_state[0])
    return torch.cat(states)[golden["positions"]].numpy()


def differences(key, states, candidates):
    """Of states to the nearest of what each may be."""
    nearest = []
    for state, of_state in zip(states, candidates, strict=True):
        nearest.append(min((np.abs(state - one) for one in of_state), key=np.max))
    largest = np.max(nearest, axis=-1)
    others, at = np.sort(largest)[-2], np.argmax(largest)
    rms = np.sqrt(np.mean(np.square(nearest, dtype=np.float64)))
    return {key: float(largest[at]), f"{key}_at": int(at), f"{key}_others": float(others), f"{key}_rms": float(rms)}


def of_torch(name, folder):
    encoder, golden = encoders.ENCODERS[name], stored(name)
    written = encoder.model in encoders.WRITTEN_DOWN
    model = encoder.model(encoder.config) if written else encoder.model._from_config(encoder.config, attn_implementation="eager")
    encoders.make_file(name, encoder, model.eval(), f"{folder}/model.gguf")
    off = {}
    for key, dtype, functions in (("f32", torch.float32, set()), ("bf16", torch.bfloat16, ATTENTION | LINEAR),
                                  ("f16", torch.float16, ATTENTION)):  # fmt: skip
        with Rounded(dtype, functions) as mode:
            off |= differences(key, states_by_torch(name, model, golden), golden["states"][:, None])
        attention = 2 * encoder.config.num_hidden_layers * len(encoders.LENGTHS)
        assert mode.count == attention if key == "f16" else mode.count > attention or key == "f32", (name, key, mode.count)
    assert off["f32"] < 1e-5 * np.abs(golden["states"]).max()
    return off, {}


class Choices:
    """Stands in for nomic_moe.choose(): keeps the scores of every choice, and makes those of `turned` ({(layer, token)}) the other."""

    def __init__(self, turned=()):
        self.turned, self.scores, self.chosen = set(turned), [], []

    def __call__(self, share, used):
        order = np.argsort(-share, -1)
        for token in range(len(share)):
            if (len(self.scores), token) in self.turned:
                order[token, used - 1 : used + 1] = order[token, used - 1 : used + 1][::-1]
        self.scores.append(np.log(share))
        self.chosen.append(order[:, :used])
        return self.chosen[-1]


def rounded_product(dtype, linear):
    narrow = lambda x: torch.from_numpy(np.ascontiguousarray(x)).float().to(dtype).double().numpy()  # noqa: E731
    return lambda a, b: narrow(a) @ narrow(b) if linear or a.ndim == 3 else a @ b


def states_of_text(weights, text, choices, product=np.matmul):
    nomic_moe.choose, nomic_moe.product = choices, product
    return nomic_moe.states_of(weights, text)


def ties_of_text(exact, rounded):
    """[(layer, token)]"""
    ties, same = [], np.ones(len(exact.scores[0]), bool)
    for layer, (scores, moved) in enumerate(zip(exact.scores, rounded.scores, strict=True)):
        rows, order = np.arange(len(scores)), np.argsort(-scores, -1)
        last, other = order[:, nomic_moe.USED - 1], order[:, nomic_moe.USED]
        gap = scores[rows, last] - scores[rows, other]
        rounding = np.abs(moved[rows, last] - moved[rows, other] - gap)[same].max()
        ties += [(layer, int(token)) for token in np.flatnonzero(gap <= 2 * rounding)]
        print(f"  layer {layer}: rounding {rounding:.3g}, ties {[(t, round(g, 4)) for t, g in enumerate(gap) if g <= 2 * rounding]}")
        same &= (np.sort(exact.chosen[layer], -1) == np.sort(rounded.chosen[layer], -1)).all(-1)
    return ties


def of_mixture(folder):
    golden, weights = stored(nomic_moe.NAME), nomic_moe.make_file(f"{folder}/model.gguf")[3]
    positions, begin, ties, tied = golden["positions"].tolist(), 0, [], []
    bf16, f16 = rounded_product(torch.bfloat16, True), rounded_product(torch.float16, False)
    states = {key: [] for key in ("f32", "bf16", "f16")}
    for text in np.split(golden["tokens"], np.cumsum(golden["lengths"])[:-1]):
        exact, rounded = Choices(), Choices()
        states["f32"].append(states_of_text(weights, text, exact))
        states["bf16"].append(states_of_text(weights, text, rounded, bf16))
        states["f16"].append(states_of_text(weights, text, Choices(), f16))
        found = ties_of_text(exact, rounded)
        for token in sorted({token for _, token in found if token + begin in positions}):
            own = [tie for tie in found if tie[1] == token]
            for count in range(1, len(own) + 1):
                for turned in itertools.combinations(own, count):
                    ties.append(positions.index(token + begin))
                    tied.append(states_of_text(weights, text, Choices(turned))[token])
        others = [tie for tie in found if tie[1] + begin not in positions]
        turned = states_of_text(weights, text, Choices(others))
        kept = [p - begin for p in positions if 0 <= p - begin < len(text)]
        print("  other tokens' ties move what is stored by", np.abs(turned - states["f32"][-1])[kept].max(initial=0))
        begin += len(text)
    candidates = [[state] + [tied[n] for n, at in enumerate(ties) if at == i] for i, state in enumerate(golden["states"])]
    off = {}
    for key, value in states.items():
        off |= differences(key, np.concatenate(value)[positions], candidates)
    assert off["f32"] < 1e-6 * np.abs(golden["states"]).max()
    return off, dict(ties=np.array(ties, np.int32), tied=np.array(tied, np.float32).reshape(len(ties), -1)) if ties else {}


def main():
    file = GoldenFile()
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for name in (*encoders.ENCODERS, nomic_moe.NAME):
            off, more = of_mixture(folder) if name == nomic_moe.NAME else of_torch(name, folder)
            print(name, {key: f"{value:.3g}" for key, value in off.items()}, {key: value.shape for key, value in more.items()})
            file.add(name, {key: value for key, value in off.items() if not key.startswith("f32")}, **more)
    file.write(FOLDER / "rounded.safetensors")


if __name__ == "__main__":
    main()
