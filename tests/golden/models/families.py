# SPDX-License-Identifier: MIT
"""Families beside Llama and Qwen: what the converter of llama.cpp writes for each, and how what it does to
the weights is undone."""

import dataclasses
import math
import typing
import zlib

import numpy as np
from transformers import CohereConfig, CohereForCausalLM, Cohere2Config, Cohere2ForCausalLM
from transformers import Exaone4Config, Exaone4ForCausalLM, FalconConfig, FalconForCausalLM, Gemma2Config, Gemma2ForCausalLM
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, GemmaConfig, GemmaForCausalLM
from transformers import Glm4Config, Glm4ForCausalLM, GlmConfig, GlmForCausalLM, GPTNeoXConfig, GPTNeoXForCausalLM
from transformers import LlamaConfig, LlamaForCausalLM
from transformers import GPT2Config, GPT2LMHeadModel
from transformers import GraniteConfig, GraniteForCausalLM, Olmo2Config, Olmo2ForCausalLM
from transformers import Phi3Config, Phi3ForCausalLM, PhiConfig, PhiForCausalLM
from transformers import SmolLM3Config, SmolLM3ForCausalLM, StableLmConfig, StableLmForCausalLM
from transformers import Starcoder2Config, Starcoder2ForCausalLM

import fill
import vocab

CONTEXT = 512
SHAPE = dict(hidden_size=256, intermediate_size=512, num_hidden_layers=2, vocab_size=vocab.SIZE,
             num_attention_heads=8, max_position_embeddings=CONTEXT)  # fmt: skip
GQA = SHAPE | dict(num_key_value_heads=2)


def rope(theta=10000.0, **others):
    return {"rope_parameters": {"rope_type": "default"} | others | {"rope_theta": theta}}


@dataclasses.dataclass
class Family:
    arch: str
    model: type
    config: typing.Any
    keys: typing.Callable = lambda writer, config: None  # beside those of every family
    undo: typing.Callable = lambda name, values, config: values  # from the file to transformers
    shape: typing.Callable = lambda name, shape: shape  # in the file, of a tensor of transformers
    vectors: dict = dataclasses.field(default_factory=dict)  # more tensors: {name: elements}
    embedding_scale: int = -4  # power of two: small where the model makes it large, or tokens only repeat


def minus_one(name, values, config):
    """Norms whose stored weight is transformers' plus one."""
    return values - 1 if "norm" in name else values


def neox_qkv(name, values, config):
    """Rows of Q, K and V one below the other; transformers has the three of each head together."""
    if "query_key_value" not in name:
        return values
    dim = config.hidden_size // config.num_attention_heads
    split = values.reshape(3, config.num_attention_heads, dim, -1)
    return split.swapaxes(0, 1).reshape(values.shape)


def falcon_qkv(name, values, config):
    """The same; transformers has the queries of each KV head together with its key and value."""
    if "query_key_value" not in name:
        return values
    dim, kv = config.hidden_size // config.num_attention_heads, config.num_kv_heads
    q, k, v = np.split(values, [config.hidden_size, config.hidden_size + kv * dim])
    parts = [part.reshape(kv, -1, dim, values.shape[1]) for part in (q, k, v)]
    return np.concatenate(parts, 1).reshape(values.shape)


CONV1D = ("c_attn.weight", "c_proj.weight", "c_fc.weight")


def transposed(name, values, config):
    """GPT-2 multiplies from the other side."""
    return values.T if name.endswith(CONV1D) else values


def windows(writer, config):
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_sliding_window(config.sliding_window)


def gemma2_keys(writer, config):
    windows(writer, config)
    writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
    writer.add_final_logit_softcapping(config.final_logit_softcapping)


def rotary(writer, config):
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    share = config.rope_parameters.get("partial_rotary_factor", 1.0)
    writer.add_rope_dimension_count(int(share * dim))


def cohere_keys(writer, config):
    rotary(writer, config)
    writer.add_logit_scale(config.logit_scale)
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)


def neox_keys(writer, config):
    rotary(writer, config)
    writer.add_parallel_residual(config.use_parallel_residual)


def exaone4_keys(writer, config):
    rotary(writer, config)
    if config.sliding_window:
        writer.add_sliding_window(config.sliding_window)
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])


def minicpm_keys(writer, config):
    """What its own code calls scale_emb, scale_depth over the root of the layers, and dim_model_base."""
    writer.add_embedding_scale(config.embedding_multiplier)
    writer.add_residual_scale(config.residual_multiplier)
    writer.add_logit_scale(config.logits_scaling)


def granite_keys(writer, config):
    rotary(writer, config)
    writer.add_attention_scale(config.attention_multiplier)
    writer.add_embedding_scale(config.embedding_multiplier)
    writer.add_residual_scale(config.residual_multiplier)
    writer.add_logit_scale(config.logits_scaling)


ROTARY = 32
LONG, SHORT = "rope_factors_long.weight", "rope_factors_short.weight"


def factors(family, name):
    seed = zlib.crc32(f"{family} f32 {name}".encode())
    return fill.fill(fill.NORM, ROTARY // 2, seed, 0).view(np.float32).astype(float).tolist()


def phi3(family, original):
    """Phi-3 with a context of CONTEXT, of which `original` without scaling."""
    config = Phi3Config(**GQA, rms_norm_eps=1e-5, original_max_position_embeddings=original,
                        pad_token_id=0,
                        **rope(rope_type="longrope", long_factor=factors(family, LONG),
                               short_factor=factors(family, SHORT),
                               original_max_position_embeddings=original))  # fmt: skip
    times = CONTEXT / original
    factor = math.sqrt(1 + math.log(times) / math.log(original)) if times > 1 else 1.0

    def keys(writer, config):
        rotary(writer, config)
        writer.add_rope_scaling_orig_ctx_len(original)
        writer.add_rope_scaling_attn_factors(factor)
        writer.add_sliding_window(CONTEXT // 4)  # which files have and nobody keeps to

    more = {LONG: ROTARY // 2, SHORT: ROTARY // 2}
    return Family("phi3", Phi3ForCausalLM, config, keys, vectors=more)


FAMILIES = {
    "gemma": Family("gemma", GemmaForCausalLM, GemmaConfig(
        **GQA, head_dim=64, rms_norm_eps=1e-6, hidden_activation="gelu_pytorch_tanh", **rope()),
        lambda w, c: (w.add_key_length(64), w.add_value_length(64)), minus_one,
        embedding_scale=-8),
    "gemma2": Family("gemma2", Gemma2ForCausalLM, Gemma2Config(
        **GQA, head_dim=32, rms_norm_eps=1e-6, sliding_window=64, query_pre_attn_scalar=32,
        attn_logit_softcapping=0.5, final_logit_softcapping=0.25, **rope()),
        gemma2_keys, minus_one, embedding_scale=-8),
    "gemma3": Family("gemma3", Gemma3ForCausalLM, Gemma3TextConfig(
        **(GQA | dict(num_hidden_layers=7)), head_dim=32, rms_norm_eps=1e-6, sliding_window=64,
        query_pre_attn_scalar=32, rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}),
        windows, minus_one, embedding_scale=-8),
    "phi3": phi3("phi3", CONTEXT),
    "phi3long": phi3("phi3long", 64),
    "phi2": Family("phi2", PhiForCausalLM, PhiConfig(
        **GQA, layer_norm_eps=1e-5, **rope(partial_rotary_factor=0.5)), rotary),
    "cohere": Family("command-r", CohereForCausalLM, CohereConfig(
        **GQA, layer_norm_eps=1e-5, logit_scale=0.25, **rope()), cohere_keys),
    "cohere2": Family("cohere2", Cohere2ForCausalLM, Cohere2Config(
        **(GQA | dict(num_hidden_layers=5)), layer_norm_eps=1e-5, logit_scale=0.25,
        sliding_window=64, **rope()), cohere_keys),
    "starcoder2": Family("starcoder2", Starcoder2ForCausalLM, Starcoder2Config(
        **GQA, norm_epsilon=1e-5, sliding_window=None, use_bias=True, **rope())),
    "gptneox": Family("gptneox", GPTNeoXForCausalLM, GPTNeoXConfig(
        **SHAPE, layer_norm_eps=1e-5, **rope(partial_rotary_factor=0.25)), neox_keys, neox_qkv),
    "falcon": Family("falcon", FalconForCausalLM, FalconConfig(
        **{k: v for k, v in SHAPE.items() if k != "intermediate_size"}, multi_query=True,
        ffn_hidden_size=512, num_kv_heads=1, **rope())),
    "falcon40b": Family("falcon", FalconForCausalLM, FalconConfig(
        **{k: v for k, v in SHAPE.items() if k != "intermediate_size"}, new_decoder_architecture=True,
        ffn_hidden_size=512, num_kv_heads=2, **rope()), undo=falcon_qkv),
    "neoxrows": Family("gptneox", GPTNeoXForCausalLM, GPTNeoXConfig(
        **SHAPE, layer_norm_eps=1e-5, use_parallel_residual=False, **rope(partial_rotary_factor=0.25)),
        neox_keys, neox_qkv, embedding_scale=-3),
    # The code of MiniCPM and of Exaone before 4 is in their own folders: Granite with other scales, and Llama.
    "minicpm": Family("minicpm", GraniteForCausalLM, GraniteConfig(
        **GQA, rms_norm_eps=1e-5, attention_multiplier=32**-0.5, embedding_multiplier=12.0,
        residual_multiplier=1.4 / 2**0.5, logits_scaling=1.0, tie_word_embeddings=True, **rope()),
        embedding_scale=-8),
    "minicpmkeys": Family("minicpm", GraniteForCausalLM, GraniteConfig(
        **GQA, rms_norm_eps=1e-5, attention_multiplier=32**-0.5, embedding_multiplier=6.0,
        residual_multiplier=0.5, logits_scaling=2.0, **rope()), minicpm_keys, embedding_scale=-6),
    "exaone": Family("exaone", LlamaForCausalLM, LlamaConfig(
        **GQA, rms_norm_eps=1e-5, **rope(1e6)), rotary),
    "exaone4": Family("exaone4", Exaone4ForCausalLM, Exaone4Config(
        **(GQA | dict(num_hidden_layers=5)), rms_norm_eps=1e-5, sliding_window=64, sliding_window_pattern=4,
        pad_token_id=0, **rope(1e6)), exaone4_keys),
    "exaone4small": Family("exaone4", Exaone4ForCausalLM, Exaone4Config(
        **(GQA | dict(num_hidden_layers=4)), rms_norm_eps=1e-5, sliding_window=None, pad_token_id=0,
        layer_types=["full_attention"] * 4, **rope(1e6)), exaone4_keys),
    "gpt2": Family("gpt2", GPT2LMHeadModel, GPT2Config(
        n_embd=256, n_layer=2, n_head=8, n_positions=CONTEXT, vocab_size=vocab.SIZE, n_inner=512,
        ffn_hidden_size=512, layer_norm_epsilon=1e-5, bos_token_id=0, eos_token_id=0), undo=transposed,
        shape=lambda name, shape: shape[::-1] if name.endswith(CONV1D) else shape, embedding_scale=-6),
    "stablelm": Family("stablelm", StableLmForCausalLM, StableLmConfig(
        **GQA, layer_norm_eps=1e-5, use_qkv_bias=True, **rope(partial_rotary_factor=0.25)),
        rotary),
    "olmo2": Family("olmo2", Olmo2ForCausalLM, Olmo2Config(
        **GQA, rms_norm_eps=1e-6, pad_token_id=0, **rope(500000.0))),
    "smollm3": Family("smollm3", SmolLM3ForCausalLM, SmolLM3Config(
        **(GQA | dict(num_hidden_layers=5)), rms_norm_eps=1e-6, pad_token_id=0, **rope(2e6)),
        rotary),
    "granite": Family("granite", GraniteForCausalLM, GraniteConfig(
        **GQA, rms_norm_eps=1e-5, attention_multiplier=0.1, embedding_multiplier=12.0,
        residual_multiplier=0.22, logits_scaling=0.5, tie_word_embeddings=True, **rope()),
        granite_keys, embedding_scale=-8),
    "chatglm": Family("chatglm", GlmForCausalLM, GlmConfig(
        **GQA, head_dim=32, rms_norm_eps=1e-5, attention_bias=True, pad_token_id=0, **rope(partial_rotary_factor=0.5)),
        rotary),
    "glm4": Family("glm4", Glm4ForCausalLM, Glm4Config(
        **GQA, head_dim=32, rms_norm_eps=1e-5, pad_token_id=0, **rope(partial_rotary_factor=0.5)),
        rotary),
}  # fmt: skip

# Also with matrices in blocks: fused matrices, parallel blocks, norms behind blocks.
MIXED = ("phi3", "cohere", "glm4")
