// SPDX-License-Identifier: MIT
#ifndef ENGINE_SAFETENSORS_CHECKPOINT_H
#define ENGINE_SAFETENSORS_CHECKPOINT_H

// Model folders as Hugging Face and MLX have them, read as if they were GGUF files:
//
//   config.json                       numbers of the model, quantisation of MLX and fp8
//   model.safetensors, or model.safetensors.index.json and its shards
//   tokenizer.json, tokenizer_config.json, generation_config.json, chat_template.jinja
//
// Metadata gets GGUF's keys and tensors GGUF's names. Data stays mapped where it is; only the rows of Q and
// K of the llama family are copied, because GGUF pairs neighbouring elements in RoPE and these folders
// halves of a head. Codes of MLX, fp8 and int8 keep their format, with scales and biases in gguf_tensor.planes;
// GPTQ and AWQ become codes of MLX without loss (checkpoint_integers.c).

#include "engine/gguf/gguf.h"

// Opens a folder. NULL on failure; the text of err names the file at fault.
gguf_file *checkpoint_open(const char *folder, engine_error *err);

// Any model: a GGUF file, a folder, or a file inside such a folder (config.json, *.safetensors).
gguf_file *model_file_open(const char *path, engine_error *err);

#endif
