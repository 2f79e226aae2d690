#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the trained weights and the tokenizer as GGUF: matrices Q8_0, norms F32."""

import argparse
import glob
import json
import os

import gguf
import numpy as np
import torch

import chat
from model import Config, Llama

CHAT_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] +"
    " '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n'"
    " }}{% endif %}"
)


def add_tokenizer(writer, path):
    with open(path) as file:
        data = json.load(file)
    tokens = [
        token for token, _ in sorted(data["model"]["vocab"].items(), key=lambda item: item[1])
    ]
    special = {t["content"] for t in data["added_tokens"] if t["special"]}
    merges = [m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(
        [gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in tokens]
    )
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tokens.index(chat.BOS))
    writer.add_eos_token_id(tokens.index(chat.END))
    writer.add_pad_token_id(tokens.index(chat.BOS))
    writer.add_eot_token_id(tokens.index(chat.END))
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    return len(tokens)


def export(state, config, tokenizer, out):
    writer = gguf.GGUFWriter(out, "llama")
    writer.add_name("weft demo")
    writer.add_description(
        "A small storyteller trained for the weft project on text from its own generator"
    )
    writer.add_license("mit")
    writer.add_size_label(f"{sum(v.numel() for v in state.values()) / 1e6:.0f}M")
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.dim)
    writer.add_block_count(config.layers)
    writer.add_feed_forward_length(config.ffn)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.kv_heads)
    writer.add_layer_norm_rms_eps(config.eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_base)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    vocab = add_tokenizer(writer, tokenizer)
    assert vocab == config.vocab
    writer.add_vocab_size(vocab)
    for name, value in state.items():
        array = np.ascontiguousarray(value.float().numpy())
        if array.ndim == 1:
            writer.add_tensor(name, array)
        else:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", default="out", help="folder that train.py wrote")
    parser.add_argument("--tokenizer", default="tokenizer.json")
    parser.add_argument("--random", action="store_true", help="untrained weights")
    parser.add_argument("--out", default="demo.gguf")
    args = parser.parse_args()
    if args.random:
        config, state = Config(), Llama(Config()).state_dict()
    else:
        with open(os.path.join(args.weights, "train.json")) as file:
            config = Config(**json.load(file)["config"])
        state = {}
        for part in sorted(glob.glob(os.path.join(args.weights, "weights-*.pt"))):
            state.update(torch.load(part))
        order = list(Llama(config).state_dict())
        state = {name: state[name] for name in order}
    export(state, config, args.tokenizer, args.out)
    print(f"{args.out}: {os.path.getsize(args.out)} bytes")


if __name__ == "__main__":
    main()
