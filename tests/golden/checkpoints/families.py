# SPDX-License-Identifier: MIT
"""Families beside Llama and Qwen as folders, and what their folders call otherwise than transformers does today."""

import numpy as np
import torch
from transformers import Cohere2Config, Cohere2ForCausalLM, CohereConfig, CohereForCausalLM
from transformers import DeepseekV2Config, DeepseekV2ForCausalLM, DeepseekV3Config, DeepseekV3ForCausalLM
from transformers import Dots1Config, Dots1ForCausalLM, Exaone4Config, Exaone4ForCausalLM
from transformers import FalconConfig, FalconForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig
from transformers import GPT2Config, GPT2LMHeadModel, GPTNeoXConfig, GPTNeoXForCausalLM
from transformers import GptOssConfig, GptOssForCausalLM, GraniteConfig, GraniteForCausalLM
from transformers import Llama4ForCausalLM, Llama4TextConfig
from transformers import LlamaConfig, LlamaForCausalLM, Phi3Config, Phi3ForCausalLM, PhiConfig, PhiForCausalLM
from transformers import MistralConfig, MistralForCausalLM, OlmoeConfig, OlmoeForCausalLM
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers import SmolLM3Config, SmolLM3ForCausalLM, StableLmConfig, StableLmForCausalLM
from transformers import Starcoder2Config, Starcoder2ForCausalLM

SMALL = dict(vocab_size=320, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True,
             pad_token_id=0, bos_token_id=0, eos_token_id=1)  # fmt: skip
UNTIED = SMALL | dict(tie_word_embeddings=False)
ROPE = dict(rope_type="default", rope_theta=10000.0)
HALF = ROPE | {"partial_rotary_factor": 0.5}
LATENT = SMALL | dict(
    num_hidden_layers=3, num_key_value_heads=4, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=8,
    v_head_dim=8, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=1,
    first_k_dense_replace=1)  # fmt: skip
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, mscale=0.707,
            mscale_all_dim=0.707, rope_theta=10000.0)  # fmt: skip
GPT_OSS = SMALL | dict(
    head_dim=16, num_local_experts=3, num_experts_per_tok=2, sliding_window=8, intermediate_size=32,
    rope_parameters=YARN | dict(mscale=None, mscale_all_dim=None, truncate=True))  # fmt: skip
LLAMA4 = UNTIED | dict(
    num_hidden_layers=5, head_dim=8, intermediate_size=16, intermediate_size_mlp=48, num_local_experts=3,
    attention_chunk_size=8, floor_scale=6, attn_scale=0.5, rope_parameters=ROPE | dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=16))  # fmt: skip
WHOLE = {k: v for k, v in UNTIED.items() if k != "num_key_value_heads"}
FALCON = {k: v for k, v in SMALL.items() if k not in ("intermediate_size", "num_key_value_heads")}
FACTORS = [[1.0 + 0.25 * i for i in range(4)], [1.0 + 0.5 * i for i in range(4)]]

FAMILIES = {
    "smollm3": (SmolLM3ForCausalLM, SmolLM3Config(**(SMALL | dict(num_hidden_layers=5)), rope_parameters=ROPE)),
    "cohere": (CohereForCausalLM, CohereConfig(**SMALL, logit_scale=0.25, rope_parameters=ROPE)),
    "cohere2": (Cohere2ForCausalLM, Cohere2Config(
        **(SMALL | dict(num_hidden_layers=5)), logit_scale=0.25, sliding_window=8, rope_parameters=ROPE)),
    "phi": (PhiForCausalLM, PhiConfig(**UNTIED, rope_parameters=HALF)),
    "phi3_long": (Phi3ForCausalLM, Phi3Config(
        **SMALL, original_max_position_embeddings=16, rope_parameters=ROPE | dict(
            rope_type="longrope", long_factor=FACTORS[1], short_factor=FACTORS[0],
            original_max_position_embeddings=16))),
    "stablelm": (StableLmForCausalLM, StableLmConfig(**SMALL, use_qkv_bias=True, rope_parameters=HALF)),
    "starcoder2": (Starcoder2ForCausalLM, Starcoder2Config(
        **SMALL, sliding_window=16, use_bias=True, rope_parameters=ROPE)),
    "gpt2": (GPT2LMHeadModel, GPT2Config(
        n_embd=32, n_layer=2, n_head=4, n_positions=256, vocab_size=320, bos_token_id=0, eos_token_id=1)),
    "gpt_neox": (GPTNeoXForCausalLM, GPTNeoXConfig(**WHOLE, rope_parameters=HALF)),
    "falcon": (FalconForCausalLM, FalconConfig(**FALCON, multi_query=True, rope_parameters=ROPE)),
    "falcon_new": (FalconForCausalLM, FalconConfig(
        **FALCON, new_decoder_architecture=True, num_kv_heads=2, rope_parameters=ROPE)),
    "exaone": (LlamaForCausalLM, LlamaConfig(**SMALL, rms_norm_eps=1e-5, rope_parameters=ROPE)),
    "exaone4": (Exaone4ForCausalLM, Exaone4Config(
        **(SMALL | dict(num_hidden_layers=5)), sliding_window=8, sliding_window_pattern=4, rope_parameters=ROPE)),
    "minicpm": (GraniteForCausalLM, GraniteConfig(
        **SMALL, rms_norm_eps=1e-5, attention_multiplier=8**-0.5, embedding_multiplier=3.0,
        residual_multiplier=1.4 / 2**0.5, logits_scaling=0.5, rope_parameters=ROPE)),
    "mistral": (MistralForCausalLM, MistralConfig(  # heads as Mistral Nemo has them: not hidden_size among them
        **UNTIED, head_dim=16, rms_norm_eps=1e-5, sliding_window=None, rope_parameters=ROPE)),
    "qwen3_moe": (Qwen3MoeForCausalLM, Qwen3MoeConfig(
        **UNTIED, head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True,
        rope_parameters=ROPE)),
    "olmoe": (OlmoeForCausalLM, OlmoeConfig(
        **(UNTIED | dict(intermediate_size=16)), num_experts=4, num_experts_per_tok=2, norm_topk_prob=False,
        rope_parameters=ROPE)),
    "dots1": (Dots1ForCausalLM, Dots1Config(
        **SMALL, head_dim=16, n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=1,
        n_group=4, topk_group=2, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5,
        sliding_window=None, rope_parameters=ROPE)),
    "deepseek_v2": (DeepseekV2ForCausalLM, DeepseekV2Config(
        **LATENT, q_lora_rank=None, topk_method="greedy", rope_parameters=YARN)),
    "deepseek_v3": (DeepseekV3ForCausalLM, DeepseekV3Config(
        **LATENT, q_lora_rank=24, n_group=2, topk_group=1, routed_scaling_factor=2.5, norm_topk_prob=True,
        num_mtp_layers=0, rope_parameters=YARN | dict(mscale=1.0, mscale_all_dim=1.0))),
    "gpt_oss": (GptOssForCausalLM, GptOssConfig(**GPT_OSS)),
    "llama4": (Llama4ForCausalLM, Llama4TextConfig(**LLAMA4, interleave_moe_layer_step=2)),
    "llama4_text": (Llama4ForCausalLM, Llama4TextConfig(
        **LLAMA4, num_experts_per_tok=2, use_qk_norm=False, attn_temperature_tuning=False)),
    "gpt_oss_bf16": (GptOssForCausalLM, GptOssConfig(**GPT_OSS)),
    "gemma3": (Gemma3ForCausalLM, Gemma3TextConfig(
        **(SMALL | dict(num_hidden_layers=7)), head_dim=16, sliding_window=8, query_pre_attn_scalar=24,
        rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}})),
}  # fmt: skip

# What config.json of the models themselves says in other words.
CHANGES = {
    "exaone": {"model_type": "exaone", "num_layers": 2, "num_hidden_layers": None, "layer_norm_epsilon": 1e-5,
               "rms_norm_eps": None, "layer_norm_eps": None},
    "minicpm": {"model_type": "minicpm", "scale_emb": 3.0, "scale_depth": 1.4, "dim_model_base": 64,
                "embedding_multiplier": None, "residual_multiplier": None, "logits_scaling": None,
                "attention_multiplier": None},
    "gpt_oss": {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": []}},
}  # fmt: skip
EXAONE = {"model.embed_tokens": "transformer.wte", "model.norm": "transformer.ln_f", "model.layers": "transformer.h",
          "input_layernorm": "ln_1", "post_attention_layernorm": "ln_2", "self_attn.o_proj": "attn.attention.out_proj",
          "self_attn": "attn.attention", "mlp.gate_proj": "mlp.c_fc_0", "mlp.up_proj": "mlp.c_fc_1",
          "mlp.down_proj": "mlp.c_proj"}  # fmt: skip


def their_name(family, name):
    if family in ("gemma3", "llama4"):
        return f"language_model.{name}"
    if family == "gpt2":
        return name.removeprefix("transformer.")
    for ours, theirs in EXAONE.items() if family == "exaone" else ():
        name = name.replace(ours, theirs)
    return name


def pack_mxfp4(name, weight):
    """transformers has [experts][columns][rows] of numbers; folders have codes of 4 bits by rows in blocks of 32."""
    values = weight.swapaxes(1, 2)
    grid = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    blocks = np.ascontiguousarray(values).reshape(*values.shape[:2], -1, 32)
    exponent = np.floor(np.log2(np.abs(blocks).max(-1, keepdims=True))) - 2
    scaled = blocks / 2.0**exponent
    codes = np.abs(np.abs(scaled)[..., None] - grid).argmin(-1)
    stands_for = np.where(scaled < 0, -1, 1) * grid[codes] * 2.0**exponent
    codes = (codes | np.where(scaled < 0, 8, 0)).astype(np.uint8)
    packed = codes[..., 0::2] | codes[..., 1::2] << 4
    stored = {f"{name}_blocks": torch.from_numpy(packed),
              f"{name}_scales": torch.from_numpy((exponent[..., 0] + 127).astype(np.uint8))}  # fmt: skip
    return stored, np.ascontiguousarray(stands_for.reshape(values.shape).swapaxes(1, 2)).astype(np.float32)
