# SPDX-License-Identifier: MIT
"""DeepSeek V2 and V3: latent attention. Files have transformers' kv_b_proj as two tensors of three
dimensions, that of the keys turned round, and keys and values as the cache has them: one head. Files of before May 2025 (deepseek2old)
have it as it is, and count heads as they are before latents take their place."""

import re

import gguf
import numpy as np
from transformers import DeepseekV2Config, DeepseekV2ForCausalLM
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

import families

HEADS, PLAIN, ROTARY, VALUE, RANK = 8, 32, 16, 24, 64
NAME = r"model\.layers\.(\d+)\.self_attn\.kv_b_proj\.weight"
SHAPE = families.SHAPE | dict(
    num_hidden_layers=3, num_attention_heads=HEADS, num_key_value_heads=HEADS, kv_lora_rank=RANK,
    qk_nope_head_dim=PLAIN, qk_rope_head_dim=ROTARY, v_head_dim=VALUE, rms_norm_eps=1e-6,
    n_routed_experts=16, num_experts_per_tok=4, moe_intermediate_size=64, n_shared_experts=2,
    first_k_dense_replace=1)  # fmt: skip
YARN = dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=64, mscale=0.707,
            mscale_all_dim=0.707)  # fmt: skip


class Kind:
    old = False  # of the file whose keys were written last


def pieces(hf_name):
    """[(name in the file, shape)], or None for other tensors."""
    found = re.fullmatch(NAME, hf_name)
    if not found:
        return None
    layer = found.group(1)
    if Kind.old:
        return [(f"blk.{layer}.attn_kv_b.weight", (HEADS * (PLAIN + VALUE), RANK))]
    return [(f"blk.{layer}.attn_k_b.weight", (HEADS, RANK, PLAIN)),
            (f"blk.{layer}.attn_v_b.weight", (HEADS, VALUE, RANK))]  # fmt: skip


def join(values):
    """What pieces() took apart."""
    if len(values) == 1:
        return values[0]
    return np.concatenate([values[0].swapaxes(1, 2), values[1]], 1).reshape(-1, RANK)


def is_old(config):
    return getattr(config, "name_or_path", "") == "old"


def keys(writer, config):
    if config.q_lora_rank:
        writer.add_q_lora_rank(config.q_lora_rank)
    writer.add_kv_lora_rank(RANK)
    Kind.old = is_old(config)
    writer.add_key_length(PLAIN + ROTARY if Kind.old else RANK + ROTARY)
    writer.add_value_length(VALUE if Kind.old else RANK)
    if not Kind.old:
        writer.add_key_length_mla(PLAIN + ROTARY)
        writer.add_value_length_mla(VALUE)
    writer.add_rope_dimension_count(ROTARY)
    writer.add_leading_dense_block_count(config.first_k_dense_replace)
    writer.add_vocab_size(config.vocab_size)
    writer.add_expert_count(config.n_routed_experts)
    writer.add_expert_used_count(config.num_experts_per_tok)
    writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    if config.n_group:
        writer.add_expert_group_count(config.n_group)
        writer.add_expert_group_used_count(config.topk_group)
    if isinstance(config, DeepseekV3Config):
        writer.add_expert_weights_norm(config.norm_topk_prob)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if config.rope_parameters["rope_type"] == "yarn":
        writer.add_rope_scaling_yarn_log_mul(0.1 * config.rope_parameters["mscale_all_dim"])


FAMILIES = {
    # V2-Lite: queries from the stream, no groups.
    "deepseek2lite": families.Family("deepseek2", DeepseekV2ForCausalLM, DeepseekV2Config(
        **SHAPE, q_lora_rank=None, topk_method="greedy", **families.rope()), keys),
    "deepseek2": families.Family("deepseek2", DeepseekV2ForCausalLM, DeepseekV2Config(
        **SHAPE, q_lora_rank=96, topk_method="group_limited_greedy", n_group=4, topk_group=2,
        routed_scaling_factor=16.0, **families.rope(**YARN)), keys),
    "deepseek3": families.Family("deepseek2", DeepseekV3ForCausalLM, DeepseekV3Config(
        **SHAPE, q_lora_rank=96, n_group=4, topk_group=2, routed_scaling_factor=2.5,
        norm_topk_prob=True, num_mtp_layers=0,
        **families.rope(**(YARN | dict(mscale=1.0, mscale_all_dim=1.0)))), keys),
    "deepseek2old": families.Family("deepseek2", DeepseekV2ForCausalLM, DeepseekV2Config(
        **SHAPE, q_lora_rank=96, topk_method="group_limited_greedy", n_group=4, topk_group=2,
        routed_scaling_factor=16.0, name_or_path="old", **families.rope(**YARN)), keys),
}  # fmt: skip
VARIANTS = {"deepseek2old": ["f32"], "deepseek2lite": ["f32", "q8_0"], "deepseek2": ["f32"], "deepseek3": ["f32", "q4_0"]}
