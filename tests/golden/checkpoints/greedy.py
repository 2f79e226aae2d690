# SPDX-License-Identifier: MIT
"""greedy.safetensors: the 64 tokens that transformers chooses behind the text of each folder, a case a folder."""

import pathlib
import sys

import numpy as np
import torch
from safetensors.numpy import load_file

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from container import GoldenFile  # noqa: E402

COUNT = 64
FILE = HERE / "greedy.safetensors"
MARGIN = 1e-4  # of the largest logit, of which a logit may be off by 2e-5


def tokens_behind(model, ids):
    """Without a cache: every step sees all tokens anew."""
    ids, made = list(ids), []
    for _ in range(COUNT):
        logits = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
        best, second = logits.topk(2).values
        assert best - second > MARGIN * logits.abs().max(), "too close to call"
        made.append(int(logits.argmax()))
        ids.append(made[-1])
    return np.array(made, np.int32)


def keep(made):
    """Folders that were not made again keep theirs."""
    all_of = {name.removesuffix(".tokens"): ids for name, ids in load_file(FILE).items()} if FILE.exists() else {}
    file = GoldenFile()
    for name, ids in sorted((all_of | made).items()):
        file.add(name, {}, tokens=ids)
    file.write(FILE)
