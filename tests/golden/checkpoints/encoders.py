#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tiny random encoders as folders, and the states that transformers gives for a text; of the reranker its score too. Run generate.py first: the
tokenizer is that of `llama/`.

nomic_bert has the names of its own folder, nomic_bert_hf those that transformers gives it; nomic_bert_moe has experts and is in no package:
models/nomic_moe.py has it. Of its two layers with experts the second has a bias that is all zero.
"""

import json
import pathlib
import shutil
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel, EuroBertConfig, EuroBertModel, ModernBertConfig
from transformers import ModernBertForSequenceClassification, ModernBertModel, NomicBertConfig, NomicBertModel
from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "models")]
import encoders as golden_models  # noqa: E402  models/encoders.py, where nomic-bert is written down
import nomic_moe  # noqa: E402
from container import GoldenFile  # noqa: E402

TOKENS = [5, 70, 300, 12, 8, 9, 44, 199, 260, 31, 7]
SHAPE = dict(vocab_size=320, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64, pad_token_id=0, bos_token_id=0, eos_token_id=1)  # fmt: skip
NOMIC = BertConfig(**SHAPE, layer_norm_eps=1e-12)
NOMIC.rope_theta = 1000.0
JINA = BertConfig(**(SHAPE | dict(hidden_size=48, num_attention_heads=6)), layer_norm_eps=1e-12)


class JinaRank(torch.nn.Module):
    """A reranker as BertForSequenceClassification is one: the first token's state, dense, tanh, a score."""

    def __init__(self, config):
        super().__init__()
        self.config, self.bert = config, golden_models.JinaBert(config)
        self.bert.pooler = torch.nn.ModuleDict(dict(dense=torch.nn.Linear(config.hidden_size, config.hidden_size)))
        self.classifier = torch.nn.Linear(config.hidden_size, 1)

    def forward(self, input_ids):
        first = self.bert(input_ids).last_hidden_state[:, 0]
        scores = self.classifier(torch.tanh(self.bert.pooler["dense"](first)))
        return type("Output", (), {"logits": scores})


# What jina-reranker-v2's own code calls the parts of XLM-R, whose queries, keys and values it has as one matrix.
FLASH = {"encoder.layer.": "encoder.layers.", "attention.output.dense": "mixer.out_proj", "attention.output.LayerNorm": "norm1",
         "intermediate.dense": "mlp.fc1", "output.dense": "mlp.fc2", "output.LayerNorm": "norm2",
         "embeddings.LayerNorm": "emb_ln"}  # fmt: skip


def flash_names(stored):
    made = {}
    for name, tensor in stored.items():
        if ".attention.self." in name:
            layer, what = name.split("attention.self.")
            if not what.startswith("query."):
                continue
            parts = [stored[name.replace("query", of)] for of in ("query", "key", "value")]
            name, tensor = f"{layer}mixer.Wqkv.{what.split('.')[1]}", torch.cat(parts)
        for theirs, ours in FLASH.items():
            name = name.replace(theirs, ours)
        made[name] = tensor
    return made


MODELS = {
    "bert": (BertModel, BertConfig(**SHAPE, layer_norm_eps=1e-12)),
    "xlm_roberta": (XLMRobertaForSequenceClassification, XLMRobertaConfig(
        **(SHAPE | dict(pad_token_id=1, max_position_embeddings=66)), layer_norm_eps=1e-5, type_vocab_size=1,
        num_labels=1)),
    "nomic_bert": (golden_models.NomicBert, NOMIC),
    "nomic_bert_hf": (NomicBertModel, NomicBertConfig(**SHAPE, layer_norm_eps=1e-12)),
    "jina_bert_v2": (golden_models.JinaBert, JINA),
    "jina_code": (golden_models.JinaCode, JINA),
    "jina_rank": (JinaRank, JINA),
    "xlm_roberta_flash": (XLMRobertaForSequenceClassification, XLMRobertaConfig(
        **(SHAPE | dict(pad_token_id=1, max_position_embeddings=66)), layer_norm_eps=1e-5, type_vocab_size=1,
        num_labels=1)),
    "modernbert": (ModernBertModel, ModernBertConfig(
        **(SHAPE | dict(num_hidden_layers=4)), local_attention=4, cls_token_id=0, sep_token_id=1)),
    "modernbert_rank": (ModernBertForSequenceClassification, ModernBertConfig(
        **SHAPE, local_attention=4, cls_token_id=0, sep_token_id=1, num_labels=1)),
    "modernbert_rank_mean": (ModernBertForSequenceClassification, ModernBertConfig(
        **SHAPE, local_attention=4, cls_token_id=0, sep_token_id=1, num_labels=2, classifier_pooling="mean", norm_bias=False,
        classifier_bias=True)),
    "eurobert": (EuroBertModel, EuroBertConfig(
        **SHAPE, num_key_value_heads=2, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 250000.0})),
}  # fmt: skip
# What the models' own config.json says.
NOMIC_VALUES = {"model_type": "nomic_bert", "vocab_size": 320, "n_embd": 32, "n_inner": 48, "n_layer": 2, "n_head": 4,
                "n_positions": 64, "layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
                "type_vocab_size": 2, "activation_function": "swiglu"}  # fmt: skip
MOE_VALUES = NOMIC_VALUES | {
    "n_layer": 4, "layer_norm_epsilon": nomic_moe.EPS, "rotary_emb_base": int(nomic_moe.BASE), "type_vocab_size": 1,
    "activation_function": "gelu", "causal": False, "expert_choice_router": False, "ffn_div": 1, "mlp_fc1_bias": True,
    "mlp_fc2_bias": True, "moe_every_n_layers": nomic_moe.PERIOD, "moe_impl": "megablocks",
    "moe_normalize_expert_weights": False, "moe_top_k": 2, "num_experts": 5, "num_shared_experts": 0, "pad_vocab_size_multiple": 64,
    "parallel_block": False, "prenorm": False, "qkv_proj_bias": True, "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None, "use_rms_norm": None}  # fmt: skip


def moe_tensors():
    """{name in the folder: (name of nomic_moe.py, values as the folder has them)}"""
    dim, wide, experts = (MOE_VALUES[name] for name in ("n_embd", "n_inner", "num_experts"))
    shapes = {"embeddings.word_embeddings.weight": ("token_embd.weight", (MOE_VALUES["vocab_size"], dim)),
              "embeddings.token_type_embeddings.weight": ("token_types.weight", (1, dim)),
              "emb_ln.weight": ("token_embd_norm.weight", (dim,)), "emb_ln.bias": ("token_embd_norm.bias", (dim,))}  # fmt: skip
    for n in range(MOE_VALUES["n_layer"]):
        layer = {"attn.Wqkv": ("attn_qkv", 3 * dim, dim), "attn.out_proj": ("attn_output", dim, dim),
                 "norm1": ("attn_output_norm", dim), "norm2": ("layer_output_norm", dim)}  # fmt: skip
        if n % nomic_moe.PERIOD != 1:
            layer |= {"mlp.fc1": ("ffn_up", wide, dim), "mlp.fc2": ("ffn_down", dim, wide)}
        for theirs, (ours, rows, *cols) in layer.items():
            shapes[f"encoder.layers.{n}.{theirs}.weight"] = (f"blk.{n}.{ours}.weight", (rows, *cols))
            shapes[f"encoder.layers.{n}.{theirs}.bias"] = (f"blk.{n}.{ours}.bias", (rows,))
        if n % nomic_moe.PERIOD == 1:
            shapes |= {f"encoder.layers.{n}.mlp.router.layer.weight": (f"blk.{n}.ffn_gate_inp.weight", (experts, dim)),
                       f"encoder.layers.{n}.mlp.experts.mlp.w1": (f"blk.{n}.ffn_up_exps.weight", (experts * wide, dim)),
                       f"encoder.layers.{n}.mlp.experts.mlp.w2": (f"blk.{n}.ffn_down_exps.weight", (experts * wide, dim)),
                       f"encoder.layers.{n}.mlp.experts.bias": (f"blk.{n}.ffn_down.bias", (dim,))}  # fmt: skip
    tensors = {}
    for theirs, (ours, shape) in shapes.items():
        made = torch.empty(shape)
        made.normal_(0, 1.0 if "router" in theirs else 0.2) if len(shape) > 1 else made.uniform_(0.5, 1.5)
        tensors[theirs] = (ours, (made * ("layers.3.mlp.experts.bias" not in theirs)).to(torch.bfloat16))
    return tensors


def moe_weights(tensors):
    """As nomic_moe.py has them: experts apart, columns of w2 as rows."""
    dim, wide, experts = (MOE_VALUES[name] for name in ("n_embd", "n_inner", "num_experts"))
    weights = {}
    for theirs, (ours, values) in tensors.items():
        numbers = values.double().numpy()
        if theirs.endswith((".w1", ".w2")):
            numbers = numbers.reshape(experts, wide, dim)
        weights[ours] = numbers.transpose(0, 2, 1) if theirs.endswith(".w2") else numbers
    return weights


def write_folder(folder, stored, values, **golden):
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(values, indent=1, sort_keys=True))
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(HERE / "llama" / file, folder / file)
    file = GoldenFile()
    file.add("model", {}, tokens=np.array(TOKENS, np.int32), **golden)
    file.write(folder / "golden.safetensors")


def empty_folder(name):
    shutil.rmtree(HERE / name, ignore_errors=True)
    (HERE / name).mkdir()
    torch.manual_seed(20261122)
    return HERE / name


def make_moe():
    folder = empty_folder("nomic_bert_moe")
    tensors = moe_tensors()
    shape = nomic_moe.Shape(layers=MOE_VALUES["n_layer"], heads=MOE_VALUES["n_head"], used=MOE_VALUES["moe_top_k"])
    states = nomic_moe.states_of(moe_weights(tensors), np.array(TOKENS), shape).astype(np.float32)
    write_folder(folder, {theirs: values for theirs, (_, values) in tensors.items()}, MOE_VALUES, states=states)


def main():
    for name, (model_class, config) in MODELS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        folder = empty_folder(name)
        own = model_class in (*golden_models.WRITTEN_DOWN, JinaRank)
        model = (model_class(config) if own else model_class._from_config(config, attn_implementation="eager")).eval()
        with torch.no_grad():
            for tensor in model.parameters():
                tensor.normal_(0, 0.1) if tensor.ndim >= 2 else tensor.uniform_(0.5, 1.5)
                tensor.copy_(tensor.to(torch.bfloat16))
            ids = torch.tensor([TOKENS])
            body = getattr(model, "roberta", getattr(model, "bert", getattr(model, "model", model)))
            more = {"scores": model(input_ids=ids).logits[0]} if body is not model else {}
            states = body(input_ids=ids).last_hidden_state[0]
        stored = {n: t.to(torch.bfloat16).contiguous() for n, t in model.state_dict().items() if t.is_floating_point()}
        values = NOMIC_VALUES if name == "nomic_bert" else json.loads(config.to_json_string()) | {"model_type": config.model_type}
        if body is not model:
            values |= {"architectures": [model_class.__name__]}
        if model_class is JinaRank:
            values |= {"architectures": ["JinaBertForSequenceClassification"]}
        if name == "xlm_roberta_flash":
            stored = flash_names(stored)
            values |= {"use_flash_attn": True, "position_embedding_type": "absolute"}
        if model_class in (golden_models.JinaBert, golden_models.JinaCode, JinaRank):
            values |= {"position_embedding_type": "alibi", "feed_forward_type": "geglu", "emb_pooler": "mean"}
        write_folder(folder, stored, values, states=states, **more)
    if not sys.argv[1:] or "nomic_bert_moe" in sys.argv[1:]:
        make_moe()


if __name__ == "__main__":
    main()
