# SPDX-License-Identifier: MIT
"""Mixtures of experts. transformers keeps gate and up of all experts in one tensor; files have a tensor of
three dimensions for each of gate, up and down."""

import re

import gguf
import numpy as np
from transformers import Dots1Config, Dots1ForCausalLM, GptOssConfig, GptOssForCausalLM
from transformers import Llama4ForCausalLM, Llama4TextConfig
from transformers import MixtralConfig, MixtralForCausalLM, OlmoeConfig, OlmoeForCausalLM
from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

import fill
import latent
from families import GQA, Family, rope

SIGMOID = 2  # of expert_gating_func
# Tensors that stay f32 in files, whatever the others are: (kind, power of two of their size).
SMALL = {
    "ffn_gate_inp.weight": (fill.F32, -3),
    "ffn_gate_inp_shexp.weight": (fill.F32, -3),
    "exp_probs_b.bias": (fill.F32, -4),
    "attn_sinks.weight": (fill.F32, 0),
    "_exps.bias": (fill.F32, -2),
}


COLUMNS_FIRST = ("gpt-oss", "llama4")  # of experts in transformers


def small(name):
    return next((what for end, what in SMALL.items() if name.endswith(end)), None)


def is_small(name):
    return small(name) is not None


def pieces(names, hf_name, shape, arch):
    """[(name in the file, shape)] of one of transformers' tensors."""
    if latent.pieces(hf_name):
        return latent.pieces(hf_name)
    fused = re.fullmatch(
        r"model\.layers\.(\d+)\.(?:mlp|feed_forward)\.experts\.(gate_up_proj|down_proj)(_bias)?", hf_name
    )
    if fused:
        layer, what, bias = fused.groups()
        end = "bias" if bias else "weight"
        if arch in COLUMNS_FIRST and not bias:
            shape = (shape[0], shape[2], shape[1])
        if what == "down_proj":
            return [(f"blk.{layer}.ffn_down_exps.{end}", shape)]
        half = (shape[0], shape[1] // 2, *shape[2:])
        return [(f"blk.{layer}.ffn_{part}_exps.{end}", half) for part in ("gate", "up")]
    if hf_name.endswith(".sinks"):
        return [(names.get_name(hf_name) + ".weight", shape)]
    if hf_name.endswith(".e_score_correction_bias"):
        return [(names.get_name(hf_name.removesuffix("_bias")) + ".bias", shape)]
    name = names.get_name(hf_name, try_suffixes=(".weight", ".bias"))
    return [(name, shape[1:] if "ffn_gate_inp_shexp" in (name or "") else shape)]


def join(hf_name, arch, values):
    """What pieces() took apart."""
    if latent.pieces(hf_name):
        return latent.join(values)
    if ".experts." not in hf_name:
        return values[0]
    if arch == "llama4":
        return np.concatenate(values, 1).swapaxes(1, 2)
    if arch != "gpt-oss":
        return np.concatenate(values, 1)
    if len(values) == 2:  # gate and up by turns
        values = [np.stack(values, 2).reshape(values[0].shape[0], -1, *values[0].shape[2:])]
    return values[0] if hf_name.endswith("_bias") else values[0].swapaxes(1, 2)


def experts(writer, count, used, feed_forward=None):
    writer.add_expert_count(count)
    writer.add_expert_used_count(used)
    if feed_forward:
        writer.add_expert_feed_forward_length(feed_forward)


def mixtral_keys(writer, config):
    experts(writer, config.num_local_experts, config.num_experts_per_tok)


def qwen_keys(writer, config):
    experts(writer, config.num_experts, config.num_experts_per_tok, config.moe_intermediate_size)
    if isinstance(config, Qwen2MoeConfig):
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    else:
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)


def dots_keys(writer, config):
    experts(writer, config.n_routed_experts, config.num_experts_per_tok, config.moe_intermediate_size)
    writer.add_leading_dense_block_count(config.first_k_dense_replace)
    writer.add_expert_shared_count(config.n_shared_experts)
    writer.add_expert_weights_scale(config.routed_scaling_factor)
    writer.add_expert_weights_norm(config.norm_topk_prob)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType(SIGMOID))
    writer.add_expert_group_count(config.n_group)
    writer.add_expert_group_used_count(config.topk_group)


def gpt_oss_keys(writer, config):
    experts(writer, config.num_local_experts, config.num_experts_per_tok, config.intermediate_size)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_sliding_window(config.sliding_window)


def llama4_keys(writer, config):
    """Beside those of the converter, which leaves the numbers of attention to the program, weft's own."""
    experts(writer, config.num_local_experts, config.num_experts_per_tok, config.intermediate_size)
    writer.add_interleave_moe_layer_step(config.interleave_moe_layer_step)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_sliding_window(config.attention_chunk_size)
    writer.add_uint32("llama4.attention.temperature_length", config.floor_scale)
    writer.add_float32("llama4.attention.temperature_scale", config.attn_scale)
    if not config.use_qk_norm:
        writer.add_bool("llama4.attention.unit_heads", False)


def llama4(**others):
    return Llama4TextConfig(
        **(GQA | dict(num_hidden_layers=5, intermediate_size=64) | others), intermediate_size_mlp=192, head_dim=32,
        rms_norm_eps=1e-5, num_local_experts=8, attention_chunk_size=64, floor_scale=48, attn_scale=0.5,
        pad_token_id=0, bos_token_id=0, eos_token_id=1, **rope(500000.0))  # fmt: skip


FAMILIES = {
    "llama4": Family("llama4", Llama4ForCausalLM, llama4(interleave_moe_layer_step=2), llama4_keys),
    # The larger one: experts in all layers here, two of them, heads as long as they come out.
    "llama4large": Family("llama4", Llama4ForCausalLM, llama4(
        num_hidden_layers=4, use_qk_norm=False, num_experts_per_tok=2), llama4_keys),
    "mixtral": Family("llama", MixtralForCausalLM, MixtralConfig(
        **(GQA | dict(intermediate_size=256)), num_local_experts=8, num_experts_per_tok=2,
        rms_norm_eps=1e-5, sliding_window=None, **rope()), mixtral_keys),
    "qwen2moe": Family("qwen2moe", Qwen2MoeForCausalLM, Qwen2MoeConfig(
        **(GQA | dict(num_attention_heads=4)), rms_norm_eps=1e-6, num_experts=12, num_experts_per_tok=4,
        moe_intermediate_size=96, shared_expert_intermediate_size=160, norm_topk_prob=False,
        use_sliding_window=False, **rope(1e6)), qwen_keys),
    "qwen3moe": Family("qwen3moe", Qwen3MoeForCausalLM, Qwen3MoeConfig(
        **GQA, head_dim=64, rms_norm_eps=1e-6, num_experts=16, num_experts_per_tok=4,
        moe_intermediate_size=256, norm_topk_prob=True, use_sliding_window=False, **rope(1e6)),
        qwen_keys),
    "olmoe": Family("olmoe", OlmoeForCausalLM, OlmoeConfig(
        **(GQA | dict(intermediate_size=64)), rms_norm_eps=1e-5, num_experts=8, num_experts_per_tok=3,
        norm_topk_prob=False, pad_token_id=0, **rope()), mixtral_keys),
    "dots1": Family("dots1", Dots1ForCausalLM, Dots1Config(
        **(GQA | dict(num_hidden_layers=3)), head_dim=32, rms_norm_eps=1e-6, n_routed_experts=16,
        num_experts_per_tok=4, moe_intermediate_size=64, n_shared_experts=2, n_group=4, topk_group=2,
        first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5, sliding_window=None,
        **rope(1e6)), dots_keys),
    "gptoss": Family("gpt-oss", GptOssForCausalLM, GptOssConfig(
        **(GQA | dict(intermediate_size=256)), head_dim=32, rms_norm_eps=1e-5, num_local_experts=8,
        num_experts_per_tok=3, sliding_window=64, tie_word_embeddings=False,
        **rope(150000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=128)),
        gpt_oss_keys),
}  # fmt: skip

VARIANTS = {name: ["f32"] for name in FAMILIES}
VARIANTS["mixtral"] += ["mixed"]
VARIANTS["qwen3moe"] += ["mixed"]
VARIANTS["gptoss"] += ["mxfp4"]
