#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Folders whose matrices are integers as GPTQ, AWQ and compressed-tensors pack them, and what they stand for.

    gptq4          4 bits in groups of 32 columns, zeros stored less one
    gptq8_order    8 bits, columns of a group anywhere (act-order)
    gptq4_whole    4 bits, one group for a whole row, zeros stored as they are (gptq_v2)
    awq            4 bits in groups of 64
    int8           one scale in bf16 for each row
    gptq4_moe      experts of 4 bits in groups of 32, each with tensors of its own

numpy alone: codes, zeros and scales are drawn, packed here, and multiplied out in float64 without being unpacked again.
`golden.safetensors` holds two matrices of each folder; rows of Q are in the order that GGUF pairs them in. The tokenizer is that of
`llama/`, which generate.py makes.
"""

import json
import pathlib
import shutil

import numpy as np

HERE = pathlib.Path(__file__).parent
HIDDEN, WIDE, VOCAB, HEADS, KV_HEADS = 64, 128, 320, 4, 2
MATRICES = {
    "self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (HIDDEN // HEADS * KV_HEADS, HIDDEN),
    "self_attn.v_proj": (HIDDEN // HEADS * KV_HEADS, HIDDEN), "self_attn.o_proj": (HIDDEN, HIDDEN),
    "mlp.gate_proj": (WIDE, HIDDEN), "mlp.up_proj": (WIDE, HIDDEN), "mlp.down_proj": (HIDDEN, WIDE),
}  # fmt: skip
KINDS = {
    "gptq4": {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False},
    "gptq8_order": {"quant_method": "gptq", "bits": 8, "group_size": 32, "desc_act": True},
    "gptq4_whole": {"quant_method": "gptq", "bits": 4, "group_size": -1, "checkpoint_format": "gptq_v2"},
    "awq": {"quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemm", "zero_point": True},
    "int8": {"quant_method": "compressed-tensors", "format": "int-quantized"},
    "gptq4_moe": {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False},
}
EXPERTS = 3
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def write(path, tensors):
    """tensors: {name: (dtype name, array of raw bytes or numbers)}"""
    header, data = {}, b""
    for name, (kind, array) in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def join(codes, bits, order):
    """Words of 32 bits of the last axis."""
    per = 32 // bits
    parts = codes.astype(np.uint64).reshape(*codes.shape[:-1], -1, per)
    words = sum(parts[..., order[place]] << np.uint64(bits * place) for place in range(per))
    return words.astype(np.uint32).view(np.int32)


def integers(rng, kind, module, rows, cols):
    """Tensors of a module, and the matrix that they stand for, in float64."""
    of = KINDS[kind]
    if kind == "int8":
        codes = rng.integers(-128, 128, (rows, cols))
        scales = (rng.uniform(0.5, 1, (rows, 1)).astype(np.float32).view(np.uint32) >> 22 << 22).view(np.float32)
        half = (scales.view(np.uint32) >> 16).astype(np.uint16)
        return {f"{module}.weight": ("I8", codes.astype(np.int8)), f"{module}.weight_scale": ("BF16", half)}, codes * scales
    bits, group = of["bits"], of["group_size"] if of["group_size"] > 0 else cols
    first = 1 if kind in ("gptq4", "gptq8_order", "gptq4_moe") else 0  # what is stored is less by that much
    groups = cols // group
    codes = rng.integers(0, 2**bits, (rows, cols))
    zeros = rng.integers(first, 2**bits + first, (groups, rows))
    scales = rng.uniform(0.001, 0.01, (groups, rows)).astype(np.float16)
    group_of = np.arange(cols) // group
    if kind == "gptq8_order":
        rng.shuffle(group_of)
    values = (codes - zeros[group_of].T) * scales.astype(np.float64)[group_of].T
    straight = list(range(32 // bits))
    if kind == "awq":
        made = {"qweight": ("I32", join(codes.T, bits, AWQ_ORDER)), "qzeros": ("I32", join(zeros, bits, AWQ_ORDER))}
    else:
        made = {"qweight": ("I32", join(codes, bits, straight).T), "qzeros": ("I32", join(zeros - first, bits, straight)),
                "g_idx": ("I32", group_of.astype(np.int32))}  # fmt: skip
    made["scales"] = ("F16", scales)
    return {f"{module}.{name}": tensor for name, tensor in made.items()}, values


def paired(values):
    """Rows of heads, from halves to neighbours."""
    dim = HIDDEN // HEADS
    return values.reshape(-1, 2, dim // 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)


def matrices_of(kind):
    """[(name, rows, columns)]"""
    made = []
    for name, shape in MATRICES.items():
        mixture = kind == "gptq4_moe" and name.startswith("mlp.")
        names = [name.replace("mlp.", f"mlp.experts.{e}.") for e in range(EXPERTS)] if mixture else [name]
        made += [(of, *shape) for of in names]
    return made


def main():
    rng = np.random.default_rng(20261122)
    for kind in KINDS:
        folder = HERE / kind
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        stored = {"model.embed_tokens.weight": ("F16", rng.normal(0, 0.1, (VOCAB, HIDDEN)).astype(np.float16))}
        for name in ("model.norm", "model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm"):
            stored[f"{name}.weight"] = ("F32", rng.uniform(0.5, 1.5, HIDDEN).astype(np.float32))
        golden = {}
        if kind == "gptq4_moe":
            dim = HIDDEN // HEADS
            router = rng.normal(0, 1, (EXPERTS, HIDDEN)).astype(np.float16)
            stored["model.layers.0.mlp.gate.weight"] = ("F16", router)
            for name in ("q_norm", "k_norm"):
                stored[f"model.layers.0.self_attn.{name}.weight"] = ("F32", np.ones(dim, np.float32))
        for name, rows, cols in matrices_of(kind):
            tensors, values = integers(rng, kind, f"model.layers.0.{name}", rows, cols)
            stored |= tensors
            if "q_proj" in name or "down" in name:
                values = paired(values) if "q_proj" in name and kind != "gptq4_moe" else values
                assert (values.astype(np.float32) == values).all()
                of = "model.q" if "q_proj" in name else "model.down"
                before = golden[of][1] if of in golden else np.zeros((0, cols), np.float32)
                golden[of] = ("F32", np.concatenate([before, values.astype(np.float32)]))  # of all experts
        write(folder / "model.safetensors", stored)
        config = {"model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": WIDE, "num_hidden_layers": 1,
                  "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "vocab_size": VOCAB, "rms_norm_eps": 1e-6,
                  "max_position_embeddings": 256, "rope_theta": 10000.0, "tie_word_embeddings": True,
                  "quantization_config": KINDS[kind]}  # fmt: skip
        if kind == "gptq4_moe":
            config |= {"model_type": "qwen3_moe", "num_experts": EXPERTS, "num_experts_per_tok": 2, "head_dim": HIDDEN // HEADS,
                       "moe_intermediate_size": WIDE, "norm_topk_prob": True}  # fmt: skip
        (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True))
        write(folder / "golden.safetensors", golden)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(HERE / "llama" / name, folder / name)


if __name__ == "__main__":
    main()
