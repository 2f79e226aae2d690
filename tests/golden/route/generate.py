#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which experts transformers' routers choose, and their weights. A router whose matrix is the identity takes
its input for the logits. Rows are sorted by expert: transformers leaves the order open."""

import pathlib
import sys

import torch
from transformers import DeepseekV2Config, DeepseekV3Config, GptOssConfig, MixtralConfig, Qwen2MoeConfig
from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2TopkRouter
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3TopkRouter
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssTopKRouter
from transformers.models.mixtral.modeling_mixtral import MixtralTopKRouter
from transformers.models.qwen2_moe.modeling_qwen2_moe import Qwen2MoeTopKRouter

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from container import GoldenFile  # noqa: E402

ROWS = 40
GEN = torch.Generator().manual_seed(20261122)


def deepseek(config, experts, k, groups, kept, scale, **others):
    return config(hidden_size=experts, n_routed_experts=experts, num_experts=experts,
                  num_experts_per_tok=k, n_group=groups, topk_group=kept,
                  routed_scaling_factor=scale, **others)  # fmt: skip


def add(file, name, router, experts, **params):
    router.weight.data = torch.eye(experts)
    logits = torch.randn(ROWS, experts, generator=GEN) * torch.logspace(-2, 1, ROWS)[:, None]
    more = {}
    if hasattr(router, "e_score_correction_bias"):
        bias = torch.randn(experts, generator=GEN) * 0.1
        router.e_score_correction_bias.data.copy_(bias)
        more["bias"] = bias
    _, weights, ids = router(logits)
    ids, order = ids.sort(-1)
    file.add(name, params | {"experts": experts, "top_k": ids.shape[1]}, logits=logits, ids=ids.int(),
             weights=weights.gather(1, order).float(), **more)  # fmt: skip


def main():
    file = GoldenFile()
    add(file, "mixtral", MixtralTopKRouter(
        MixtralConfig(hidden_size=8, num_local_experts=8, num_experts_per_tok=2)), 8, normalise=1)
    for normalise in (0, 1):
        add(file, f"qwen_{normalise}", Qwen2MoeTopKRouter(Qwen2MoeConfig(
            hidden_size=60, num_experts=60, num_experts_per_tok=4, norm_topk_prob=bool(normalise))),
            60, normalise=normalise)
    gpt_oss = GptOssTopKRouter(GptOssConfig(hidden_size=32, num_local_experts=32, num_experts_per_tok=4))
    gpt_oss.bias.data.zero_()
    add(file, "gpt_oss", gpt_oss, 32, normalise=1)
    add(file, "deepseek_v2", DeepseekV2TopkRouter(deepseek(
        DeepseekV2Config, 160, 6, 8, 3, 16.0, topk_method="group_limited_greedy")), 160,
        groups=8, top_groups=3, group_best=1, scale=16.0)
    add(file, "deepseek_v2_lite", DeepseekV2TopkRouter(deepseek(
        DeepseekV2Config, 64, 6, 1, 1, 1.0, topk_method="greedy")), 64)
    add(file, "deepseek_v3", DeepseekV3TopkRouter(deepseek(
        DeepseekV3Config, 256, 8, 8, 4, 2.5, norm_topk_prob=True)), 256,
        sigmoid=1, normalise=1, groups=8, top_groups=4, group_best=2, scale=2.5)
    add(file, "sigmoid", DeepseekV3TopkRouter(deepseek(
        DeepseekV3Config, 24, 3, 1, 1, 1.5, norm_topk_prob=False)), 24, sigmoid=1, scale=1.5)
    file.write(pathlib.Path(__file__).parent / "route.safetensors")


if __name__ == "__main__":
    with torch.no_grad():
        main()
