#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tiny random encoders as folders, and the states that transformers gives for a text; of the reranker its score too. Run generate.py first: the
tokenizer is that of `llama/`.

nomic_bert has the names of its own folder, which transformers gives others.
"""

import json
import pathlib
import shutil
import sys

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import BertConfig, BertModel, EuroBertConfig, EuroBertModel, ModernBertConfig
from transformers import ModernBertForSequenceClassification, ModernBertModel
from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "models")]
import encoders as golden_models  # noqa: E402  models/encoders.py, where nomic-bert is written down
from container import GoldenFile  # noqa: E402

TOKENS = [5, 70, 300, 12, 8, 9, 44, 199, 260, 31, 7]
SHAPE = dict(vocab_size=320, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=64, pad_token_id=0, bos_token_id=0, eos_token_id=1)  # fmt: skip
NOMIC = BertConfig(**SHAPE, layer_norm_eps=1e-12)
NOMIC.rope_theta = 1000.0
MODELS = {
    "bert": (BertModel, BertConfig(**SHAPE, layer_norm_eps=1e-12)),
    "xlm_roberta": (XLMRobertaForSequenceClassification, XLMRobertaConfig(
        **(SHAPE | dict(pad_token_id=1, max_position_embeddings=66)), layer_norm_eps=1e-5, type_vocab_size=1,
        num_labels=1)),
    "nomic_bert": (golden_models.NomicBert, NOMIC),
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


def main():
    for name, (model_class, config) in MODELS.items():
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        torch.manual_seed(20261122)
        own = model_class is golden_models.NomicBert
        model = (model_class(config) if own else model_class._from_config(config, attn_implementation="eager")).eval()
        with torch.no_grad():
            for tensor in model.parameters():
                tensor.normal_(0, 0.1) if tensor.ndim >= 2 else tensor.uniform_(0.5, 1.5)
                tensor.copy_(tensor.to(torch.bfloat16))
            ids = torch.tensor([TOKENS])
            body = getattr(model, "roberta", getattr(model, "model", model))
            more = {"scores": model(input_ids=ids).logits[0]} if body is not model else {}
            states = body(input_ids=ids).last_hidden_state[0]
        stored = {n: t.to(torch.bfloat16).contiguous() for n, t in model.state_dict().items() if t.is_floating_point()}
        save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
        values = NOMIC_VALUES if own else json.loads(config.to_json_string()) | {"model_type": config.model_type}
        (folder / "config.json").write_text(json.dumps(values, indent=1, sort_keys=True))
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(HERE / "llama" / file, folder / file)
        file = GoldenFile()
        file.add("model", {}, tokens=np.array(TOKENS, np.int32), states=states, **more)
        file.write(folder / "golden.safetensors")


if __name__ == "__main__":
    main()
