#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Folders as mlx_lm writes them: its own conversion of tiny random models, and what transformers makes of the weights that they stand for.

    qwen3_moe_mlx    4 bits in groups of 32, routers 8 bits in groups of 64, experts of a layer in one tensor
    mixtral_mlx      6 bits in groups of 32, with Mixtral's names
    olmoe_mlx        4 bits in groups of 64
    gpt_oss_mlx      experts stay in mxfp4, which config.json names for the whole; all else has 8 bits and an entry of its own
    deepseek_v3_mlx  latent attention's matrices by heads
    phi3_mlx         fused matrices in codes
    qwen3_moe_mxfp4, qwen3_mxfp8, qwen3_nvfp4  the other modes

Run with mlx_lm beside what generate.py needs.
"""

import json
import pathlib
import shutil
import sys
import tempfile

import mlx.core as mx
import numpy as np
import torch
from mlx_lm import utils
from safetensors.torch import save_file
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM, GptOssConfig, GptOssForCausalLM
from transformers import MixtralConfig, MixtralForCausalLM, OlmoeConfig, OlmoeForCausalLM
from transformers import Phi3Config, Phi3ForCausalLM, Qwen3Config, Qwen3ForCausalLM
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

import families
import generate
import greedy

HERE = pathlib.Path(__file__).parent
SHAPE = families.UNTIED | dict(hidden_size=64, intermediate_size=64)
QWEN3_MOE = Qwen3MoeConfig(
    **SHAPE, head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64, norm_topk_prob=True,
    rope_parameters=families.ROPE)  # fmt: skip
QWEN3 = Qwen3Config(**SHAPE, head_dim=16, rope_parameters=families.ROPE)
# {folder: (names of, class, config, bits, columns of a group, mode)}
MODELS = {
    "qwen3_moe_mlx": ("qwen3_moe", Qwen3MoeForCausalLM, QWEN3_MOE, 4, 32, "affine"),
    "mixtral_mlx": ("mixtral", MixtralForCausalLM, MixtralConfig(
        **SHAPE, num_local_experts=3, num_experts_per_tok=2, rope_parameters=families.ROPE), 6, 32, "affine"),
    "olmoe_mlx": ("olmoe", OlmoeForCausalLM, OlmoeConfig(
        **SHAPE, num_experts=4, num_experts_per_tok=2, norm_topk_prob=False, rope_parameters=families.ROPE),
        4, 64, "affine"),
    "gpt_oss_mlx": ("gpt_oss", GptOssForCausalLM, GptOssConfig(
        **(families.GPT_OSS | dict(hidden_size=64, intermediate_size=64, tie_word_embeddings=False))), 8, 64, "affine"),
    "deepseek_v3_mlx": ("deepseek_v3", DeepseekV3ForCausalLM, DeepseekV3Config(
        **(families.LATENT | dict(
            hidden_size=64, kv_lora_rank=32, qk_nope_head_dim=32, v_head_dim=32, moe_intermediate_size=32,
            tie_word_embeddings=False)),
        q_lora_rank=32, n_group=2, topk_group=1, routed_scaling_factor=2.5, norm_topk_prob=True, num_mtp_layers=0,
        rope_parameters=families.YARN | dict(mscale=1.0, mscale_all_dim=1.0)), 4, 32, "affine"),
    "phi3_mlx": ("phi3", Phi3ForCausalLM, Phi3Config(**SHAPE, rope_parameters=families.ROPE), 4, 32, "affine"),
    "qwen3_moe_mxfp4": ("qwen3_moe", Qwen3MoeForCausalLM, QWEN3_MOE, 4, 32, "mxfp4"),
    "qwen3_mxfp8": ("qwen3", Qwen3ForCausalLM, QWEN3, 8, 32, "mxfp8"),
    "qwen3_nvfp4": ("qwen3", Qwen3ForCausalLM, QWEN3, 4, 16, "nvfp4"),
}  # fmt: skip


def decoded(folder):
    """{name: values in f32} of a folder."""
    config = json.loads((folder / "config.json").read_text())["quantization"]
    stored, values = mx.load(str(folder / "model.safetensors")), {}
    for name, tensor in stored.items():
        module, tail = name.rsplit(".", 1)
        if tail in ("scales", "biases"):
            continue
        if tail == "weight" and f"{module}.scales" in stored:
            how = config.get(module, {k: config[k] for k in ("bits", "group_size", "mode")})
            how = {"mode": "affine"} | how
            planes = [stored[f"{module}.{p}"] for p in ("scales", "biases") if f"{module}.{p}" in stored]
            if how["mode"] == "affine":
                planes = [p.astype(mx.float32) for p in planes]
            tensor = mx.dequantize(tensor, *planes, **how)
        values[name] = torch.from_numpy(np.array(tensor.astype(mx.float32)))
    return values


def joined(gate, up, family):
    """Gate and up as transformers has them."""
    if family == "gpt_oss":  # by turns, columns first; biases too
        turns = torch.stack([gate, up], dim=-1 if gate.ndim == 2 else 2)
        return turns.flatten(1) if gate.ndim == 2 else turns.flatten(1, 2).swapaxes(1, 2)
    return torch.cat([gate, up], dim=1)


def their_values(values, family, heads):
    """From mlx_lm's names and orders to transformers'."""
    made = {}
    for name, tensor in values.items():
        name = name.replace("block_sparse_moe.", "mlp.").replace(".switch_mlp.", ".experts.")
        stem, tail = name.rsplit(".", 1)
        flat = tail == "weight" and family != "gpt_oss"
        if ".experts.up_proj" in name:
            continue
        if ".experts.gate_proj" in name:
            up = values[next(n for n in values if n.replace("block_sparse_moe.", "mlp.").replace(
                ".switch_mlp.", ".experts.") == name.replace("gate_proj", "up_proj"))]  # fmt: skip
            name = stem.replace("gate_proj", "gate_up_proj") + ("_bias" if tail == "bias" else "")
            made[name] = joined(tensor, up, family)
        elif ".experts.down_proj" in name:
            made[stem + ("_bias" if tail == "bias" else "")] = (
                tensor if flat or tail == "bias" else tensor.swapaxes(1, 2)
            )
        elif ".embed_q" in name:
            values_of = values[name.replace("embed_q", "unembed_out")]
            rows = torch.cat([tensor.swapaxes(1, 2), values_of], dim=1)
            assert rows.shape[0] == heads
            made[stem.replace("embed_q", "kv_b_proj") + ".weight"] = rows.flatten(0, 1)
        elif ".unembed_out" not in name:
            made[name] = tensor
    return made


def older(values, family):
    """As the models' own config.json has it, which mlx_lm reads: numbers of RoPE beside the others."""
    rope = {k: v for k, v in values.pop("rope_parameters").items() if v is not None}
    values["rope_theta"] = rope.pop("rope_theta")
    values["rope_scaling"] = None if rope["rope_type"] == "default" else rope | {"type": rope["rope_type"]}
    if family in ("qwen3_moe", "olmoe") and "num_local_experts" in values:
        values["num_experts"] = values.pop("num_local_experts")
    return values


def convert(name, source, to):
    """As mlx_lm.convert does, without its tokenizer."""
    _, _, _, bits, group, mode = MODELS[name]
    model, config = utils.load_model(source)
    model, config = utils.quantize_model(model, config, group, bits, mode=mode, quant_predicate=getattr(
        model, "quant_predicate", None) if mode == "affine" else None)  # fmt: skip
    utils.save_model(to, model)
    utils.save_config(config, to / "config.json")
    (to / "model.safetensors.index.json").unlink()


def main():
    made = {}
    for name, (family, model_class, config, *_) in MODELS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        torch.manual_seed(20261126)
        model = model_class(config).eval()
        with torch.no_grad(), tempfile.TemporaryDirectory() as scratch:
            for of, tensor in model.named_parameters():
                tensor.normal_(0, 0.1) if tensor.ndim >= 2 else tensor.uniform_(0.5, 1.5)
            for of, tensor in model.named_buffers():
                if of.endswith("e_score_correction_bias"):
                    tensor.normal_(0, 0.1)
            values = json.loads(config.to_json_string()) | {"model_type": config.model_type}
            values |= families.CHANGES.get(family, {})
            source = pathlib.Path(scratch)
            save_file(generate.convert(family, model, values), source / "model.safetensors", metadata={"format": "pt"})
            (source / "config.json").write_text(json.dumps(older(values, family)))
            convert(name, source, folder)
            want = their_values(decoded(folder), family, config.num_attention_heads)
            state = model.state_dict()
            assert set(want) == set(state), set(want) ^ set(state)
            for of, tensor in state.items():
                assert tensor.shape == want[of].shape, of
                tensor.copy_(want[of])
            tok = generate.make_tokenizer(family)
            ids = tok.encode(generate.TEXT).ids
            logits = model(torch.tensor([ids])).logits[0]
            made[name] = greedy.tokens_behind(model, ids)
        tok.save(str(folder / "tokenizer.json"), pretty=False)
        companion = {"bos_token": "<|begin|>", "eos_token": {"content": "<|end|>"}, "chat_template": "{{ 1 }}"}
        (folder / "tokenizer_config.json").write_text(json.dumps(companion, indent=1))
        file = generate.GoldenFile()
        file.add("model", {"text": generate.TEXT}, tokens=np.array(ids, np.int32), logits=logits)
        file.write(folder / "golden.safetensors")
    greedy.keep(made)


if __name__ == "__main__":
    main()
