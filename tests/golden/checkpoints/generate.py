#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tiny random models as folders: config.json, safetensors, tokenizer.json, and what transformers makes of them.

    llama       bf16, two shards, llama3's rope scaling, tied head
    qwen3_mlx   MLX's affine codes, 4 bits in groups of 32, 6 and 8 bits for single modules, scales in bf16
    qwen2_fp8   e4m3 with scales for blocks of 32 x 32 and for single matrices, f16 vectors
    qwen2_moe   bf16, every expert's matrices by themselves, a shared expert
    mixtral     the same with Mixtral's names
    qwen3_moe_fp8, deepseek_v3_moe_fp8  e4m3 with scales for blocks of 32 x 32, experts and latent attention too
    gpt_oss     experts in mxfp4, codes and exponents apart, gate and up by turns; gpt_oss_bf16: as numbers

and the families of families.py.

`golden.safetensors` in each folder holds tokens, the logits of transformers in f32 on the weights that the folder
stands for, a text, and its ids by the `tokenizers` package.
"""

import json
import pathlib
import shutil
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM
from transformers import Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig
from transformers import GemmaConfig, GemmaForCausalLM, Glm4Config, Glm4ForCausalLM, GlmConfig, GlmForCausalLM
from transformers import GraniteConfig, GraniteForCausalLM, Olmo2Config, Olmo2ForCausalLM
from transformers import Phi3Config, Phi3ForCausalLM
from transformers import LlamaConfig, LlamaForCausalLM, MixtralConfig, MixtralForCausalLM
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2MoeConfig, Qwen2MoeForCausalLM
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

import families
import greedy

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from container import GoldenFile  # noqa: E402

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEXT = "The fox can't see 12345 crows.\n\n  It's late, déjà vu!"
SHAPE = dict(vocab_size=320, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256)  # fmt: skip
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64, rope_theta=500000.0)  # fmt: skip
PLAIN = dict(rope_type="default", rope_theta=1000000.0)
SMALL = SHAPE | dict(hidden_size=32, intermediate_size=48)
FAMILIES = {
    "llama": (LlamaForCausalLM, LlamaConfig(**SHAPE, tie_word_embeddings=True, rope_parameters=LLAMA3)),
    "qwen3_mlx": (Qwen3ForCausalLM, Qwen3Config(**SHAPE, head_dim=32, rope_parameters=PLAIN)),
    "qwen2_fp8": (Qwen2ForCausalLM, Qwen2Config(**SHAPE, rope_parameters=PLAIN)),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**families.SMALL, rope_parameters=PLAIN)),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**families.SMALL, head_dim=16, rope_parameters=PLAIN)),
    "qwen2_moe": (Qwen2MoeForCausalLM, Qwen2MoeConfig(
        **SHAPE, rope_parameters=PLAIN, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
        shared_expert_intermediate_size=48, norm_topk_prob=True)),
    "mixtral": (MixtralForCausalLM, MixtralConfig(
        **(SHAPE | dict(intermediate_size=32)), rope_parameters=PLAIN, num_local_experts=3,
        num_experts_per_tok=2)),
    "qwen3_moe_fp8": (Qwen3MoeForCausalLM, Qwen3MoeConfig(
        **SHAPE, head_dim=16, num_experts=3, num_experts_per_tok=2, moe_intermediate_size=64, norm_topk_prob=True,
        rope_parameters=PLAIN)),
    "deepseek_v3_moe_fp8": (DeepseekV3ForCausalLM, DeepseekV3Config(
        **families.LATENT, q_lora_rank=24, n_group=2, topk_group=1, routed_scaling_factor=2.5, norm_topk_prob=True,
        num_mtp_layers=0, rope_parameters=families.YARN | dict(mscale=1.0, mscale_all_dim=1.0))),
    "gemma": (GemmaForCausalLM, GemmaConfig(**SMALL, head_dim=16, rope_parameters=PLAIN)),
    "gemma2": (Gemma2ForCausalLM, Gemma2Config(
        **SMALL, head_dim=16, rope_parameters=PLAIN, sliding_window=8, query_pre_attn_scalar=24,
        attn_logit_softcapping=2.0, final_logit_softcapping=3.0)),
    "gemma3_text": (Gemma3ForCausalLM, Gemma3TextConfig(
        **(SMALL | dict(num_hidden_layers=7)), head_dim=16,
        sliding_window=8, query_pre_attn_scalar=24, rope_parameters={
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}})),
    "phi3": (Phi3ForCausalLM, Phi3Config(
        **SMALL, pad_token_id=0, rope_parameters=PLAIN | {"partial_rotary_factor": 0.5})),
    "olmo2": (Olmo2ForCausalLM, Olmo2Config(**SMALL, pad_token_id=0, rope_parameters=PLAIN)),
    "granite": (GraniteForCausalLM, GraniteConfig(
        **SMALL, rope_parameters=PLAIN, attention_multiplier=0.1, embedding_multiplier=3.0,
        residual_multiplier=0.5, logits_scaling=2.0, tie_word_embeddings=True)),
    "glm": (GlmForCausalLM, GlmConfig(
        **SMALL, head_dim=16, pad_token_id=0, attention_bias=True,
        rope_parameters=PLAIN | {"partial_rotary_factor": 0.5})),
    "glm4": (Glm4ForCausalLM, Glm4Config(
        **SMALL, head_dim=16, pad_token_id=0, attention_bias=True,
        rope_parameters=PLAIN | {"partial_rotary_factor": 0.5})),
} | families.FAMILIES  # fmt: skip
# Of Mixtral's checkpoints, whose experts' matrices have numbers.
NUMBERS = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}


def make_tokenizer(family):
    llama = family == "llama"
    tok = Tokenizer(models.BPE(ignore_merges=llama))
    split = pre_tokenizers.Split(Regex(WORDS + (r"\p{N}{1,3}|" if llama else r"\p{N}|") + TAIL), "isolated")
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tok.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_])
    tok.decoder = decoders.ByteLevel()
    if not llama:
        tok.normalizer = normalizers.NFC()
    special = ["<|begin|>", "<|end|>"]
    tok.train_from_iterator(
        [TEXT, "the fox and the crows see late", "it is not that late, is it"] * 3,
        trainers.BpeTrainer(vocab_size=SHAPE["vocab_size"], special_tokens=special, show_progress=False,
                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
    )  # fmt: skip
    if llama:
        begin = ("<|begin|>", tok.token_to_id("<|begin|>"))
        tok.post_processor = processors.TemplateProcessing(
            single="<|begin|> $A", pair="<|begin|> $A $B", special_tokens=[begin]
        )
    return tok


def quantize_mlx(name, weight, config):
    """As mlx_lm converts: every matrix, some modules with more bits. Returns tensors and what they stand for."""
    import mlx.core as mx

    module = name.removesuffix(".weight")
    own = {"bits": 8, "group_size": 64} if "lm_head" in name else {"bits": 6, "group_size": 32}
    special = "v_proj" in name or "lm_head" in name
    choice = own if special else {"bits": 4, "group_size": 32}
    if special:
        config["quantization"][module] = own
    packed, scales, biases = mx.quantize(mx.array(weight).astype(mx.bfloat16), **choice)
    exact = [a.astype(mx.float32) for a in (scales, biases)]
    values = np.array(mx.dequantize(packed, *exact, **choice))
    half = [torch.from_numpy(np.array(a)).to(torch.bfloat16) for a in exact]
    codes = torch.from_numpy(np.array(packed).view(np.int32)).view(torch.uint32)
    return {name: codes, f"{module}.scales": half[0], f"{module}.biases": half[1]}, values


def quantize_fp8(name, weight, block):
    """One scale for every block of rows and columns, or one for all."""
    import ml_dtypes

    rows, cols = weight.shape
    down, across = ((rows + 31) // 32, (cols + 31) // 32) if block else (1, 1)
    step = 32 if block else max(rows, cols)
    scales = np.zeros((down, across), np.float32)
    codes, values = np.zeros((rows, cols), ml_dtypes.float8_e4m3fn), np.zeros((rows, cols), np.float32)
    for i in range(down):
        for j in range(across):
            part = (slice(i * step, (i + 1) * step), slice(j * step, (j + 1) * step))
            scales[i, j] = np.abs(weight[part]).max() / 448
            codes[part] = (weight[part] / scales[i, j]).astype(ml_dtypes.float8_e4m3fn)
            values[part] = codes[part].astype(np.float32) * scales[i, j]
    stored = torch.from_numpy(codes.view(np.uint8)).view(torch.float8_e4m3fn)
    plane = torch.from_numpy(scales if block else scales.reshape(()))
    key = "weight_scale_inv" if block else "weight_scale"
    return {name: stored, f"{name.removesuffix('.weight')}.{key}": plane}, values


def apart(family, name, tensor):
    """[(name in a folder, part)]: transformers keeps all experts of a layer in one tensor."""
    if ".experts." not in name or family.startswith(("gpt_oss", "llama4")):
        named = name.replace("mlp.gate.", "block_sparse_moe.gate.") if family == "mixtral" else name
        return [(named, tensor)]
    layer, what = name.split(".experts.")
    names = ("gate_proj", "up_proj") if what == "gate_up_proj" else (what,)
    made = []
    for e, expert in enumerate(tensor):
        for part, matrix in zip(names, expert.chunk(len(names)), strict=True):
            if family == "mixtral":
                part, layer = NUMBERS[part], layer.replace("mlp", "block_sparse_moe")
            made.append((f"{layer}.experts.{e}.{part}.weight", matrix.contiguous()))
    return made


def rejoined(parts, name, shape):
    """What apart() took apart."""
    pairs = "gate_up_proj" in name
    rows = [np.concatenate(parts[2 * e : 2 * e + 2]) if pairs else parts[e] for e in range(len(parts) // (1 + pairs))]
    return np.stack(rows).reshape(shape)


def convert(family, model, config):
    """The tensors to store; the model gets the values that they stand for."""
    stored = {}
    for name, tensor in model.state_dict().items():
        weight = tensor.numpy()
        if model.config.tie_word_embeddings and name == "lm_head.weight":
            continue
        if family == "qwen3_mlx" and weight.ndim == 2:
            new, values = quantize_mlx(name, weight, config)
        elif family == "gpt_oss" and name.endswith(("gate_up_proj", "down_proj")):
            new, values = families.pack_mxfp4(name, weight)
        elif family.endswith("moe_fp8") and ".layers." in name and weight.ndim >= 2 and "mlp.gate." not in name:
            new, parts = {}, []
            for of, part in apart(family, name, tensor):
                made, numbers = quantize_fp8(of, part.numpy(), True)
                new |= made
                parts.append(numbers)
            values = rejoined(parts, name, tensor.shape)
        elif family == "qwen2_fp8" and ".layers." in name and weight.ndim == 2:
            new, values = quantize_fp8(name, weight, "mlp" in name)
        else:
            kind = torch.float16 if family == "qwen2_fp8" else torch.bfloat16
            tensor.copy_(tensor.to(kind))
            named = families.their_name(family, name)
            new = {n: part.to(kind).contiguous() for n, part in apart(family, named, tensor)}
            values = tensor.numpy()
        stored |= new
        tensor.copy_(torch.from_numpy(values))
    return stored


def write_shards(folder, stored):
    names = sorted(stored)
    if folder.name != "llama":
        save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
        return
    weight_map = {}
    for n, part in enumerate((names[: len(names) // 2], names[len(names) // 2 :])):
        shard = f"model-{n + 1:05d}-of-00002.safetensors"
        save_file({name: stored[name] for name in part}, folder / shard, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, shard)
    text = json.dumps({"metadata": {}, "weight_map": weight_map}, indent=1, sort_keys=True)
    (folder / "model.safetensors.index.json").write_text(text)


def main():
    made = {}
    for family, (model_class, config) in FAMILIES.items():
        if sys.argv[1:] and family not in sys.argv[1:]:
            continue
        folder = HERE / family
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        torch.manual_seed(20261122)
        model = model_class(config).eval()
        with torch.no_grad():
            for name, tensor in model.named_parameters():
                tensor.normal_(0, 0.1) if tensor.ndim >= 2 else tensor.uniform_(0.5, 1.5)
            for name, tensor in model.named_buffers():
                if name.endswith("e_score_correction_bias"):
                    tensor.normal_(0, 0.1)
            values = json.loads(config.to_json_string())
            values["model_type"] = config.model_type
            values |= families.CHANGES.get(family, {})
            if family.startswith("gemma"):
                del values["tie_word_embeddings"]  # as real ones leave it out
            if family == "qwen3_mlx":
                values["quantization"] = {"group_size": 32, "bits": 4, "mode": "affine"}
            if family.endswith("_fp8"):
                values["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [32, 32]}
            stored = convert(family, model, values)
            tok = make_tokenizer(family)
            ids = tok.encode(TEXT).ids
            tokens = torch.tensor([ids])
            logits = model(tokens).logits[0]
            made[family] = greedy.tokens_behind(model, ids)
        if family == "llama4":
            stored["vision_model.class_embedding"] = torch.ones(8)
            values = {"model_type": "llama4", "text_config": values | {"model_type": "llama4_text"}}
        if family == "gemma3":  # as a part of a model with eyes, which are left out
            stored["vision_tower.vision_model.embeddings.patch_embedding.bias"] = torch.ones(8)
            stored["multi_modal_projector.mm_input_projection_weight"] = torch.ones(8, 8)
            values = {"model_type": "gemma3", "text_config": values}
        write_shards(folder, stored)
        (folder / "config.json").write_text(json.dumps(values, indent=1, sort_keys=True))
        tok.save(str(folder / "tokenizer.json"), pretty=False)
        companion = {"bos_token": "<|begin|>", "eos_token": {"content": "<|end|>"}, "chat_template": "{{ 1 }}"}
        (folder / "tokenizer_config.json").write_text(json.dumps(companion, indent=1))
        file = GoldenFile()
        file.add("model", {"text": TEXT}, tokens=np.array(ids, np.int32), logits=logits)
        file.write(folder / "golden.safetensors")
    greedy.keep(made)


if __name__ == "__main__":
    main()
