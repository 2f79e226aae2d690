# SPDX-License-Identifier: MIT
"""Faults of what reads files, folders and their numbers (fault.py)."""
from fault import fault

# --- files --------------------------------------------------------------------------------------------
G = ("gguf_refuse", "gguf_advisories", "gguf_read", "gguf_golden")
fault("gguf-depth", "engine/gguf/gguf_parse.c",
      "if (depth > GGUF_MAX_ARRAY_DEPTH)", "if (depth > 100 * GGUF_MAX_ARRAY_DEPTH)",
      "arrays may nest a hundred times deeper", *G)
fault("gguf-count-unchecked", "engine/gguf/gguf_parse.c",
      "if (count > limit)", "if (count > 1000 * limit)",
      "a thousand times as many tensors and keys are accepted", *G)
fault("gguf-string-beyond", "engine/gguf/gguf_parse.c",
      "if (p->in.failed || length > cursor_remaining(&p->in))", "if (p->in.failed)",
      "strings may run beyond the file", *G)
fault("gguf-array-unchecked", "engine/gguf/gguf_parse.c",
      "if (count > cursor_remaining(&p->in) / element_bytes)", "if (count > UINT32_MAX)",
      "arrays may claim more than the file holds", *G)
fault("unknown-format-of-any-size", "engine/gguf/gguf_parse.c",
      " / MOST_IN_A_BYTE > tensor->size_bytes)", " / MOST_IN_A_BYTE > tensor->size_bytes && false)",
      "tensors of unknown formats may have more elements than can be added up", *G)
fault("unknown-format-refused", "engine/gguf/gguf_parse.c",
      "        tensor->type = unknown_type(p->file, id);\n", "        tensor->type = NULL;\n",
      "a format that nobody knows refuses the whole file", "gguf_read", "engine_refuse")
fault("unknown-format-per-tensor", "engine/gguf/gguf_parse.c",
      "if (file->unknown[i].info.id == id)", "if (false)",
      "every tensor of an unknown format has one of its own", "gguf_read", "gguf_refuse")
fault("unknown-format-of-no-size", "engine/gguf/gguf_parse.c",
      "        if (tensor->type->block_bytes != 0)\n            continue;", "        if (true)\n            continue;",
      "tensors of unknown formats have no size", "gguf_read")
fault("unknown-formats-left-out", "engine/model/weights.c",
      "    if (left > 0)\n", "    if (false)\n",
      "formats that have no room in the refusal are not counted", "engine_refuse")
fault("cursor-one-more", "engine/base/cursor.c",
      "if (c->failed || count > cursor_remaining(c)) {", "if (c->failed || count > cursor_remaining(c) + 1) {",
      "one byte behind the file may be read", "engine_base", *G)

# --- model numbers ------------------------------------------------------------------------------------
R = ("engine_rope_keys", "engine_logits")
fault("rope-no-type-is-none", "engine/model/config.c",
      'if (lookup == GGUF_MISSING || gguf_string_equals(type, "linear"))\n        rope->scaling = WEFT_ROPE_SCALING_LINEAR;',
      'if (lookup == GGUF_MISSING)\n        rope->scaling = WEFT_ROPE_SCALING_NONE;\n'
      '    else if (gguf_string_equals(type, "linear"))\n        rope->scaling = WEFT_ROPE_SCALING_LINEAR;',
      "a factor without a type is ignored", *R)
fault("rope-scale-linear-ignored", "engine/model/config.c",
      'read_float(reader, "rope.scaling.factor", old_name);', 'read_float(reader, "rope.scaling.factor", 0);',
      "the old key scale_linear is ignored", *R)
fault("rope-attn-factor-replaces", "engine/model/config.c",
      "return replaced * multiplied;", "return multiplied;",
      "attn_factor replaces YaRN's own factor", *R)
fault("rope-original-context-ignored", "engine/model/config.c",
      'read_int(reader, "rope.scaling.original_context_length", config->trained_context);', "config->trained_context;",
      "the original context of files is ignored", *R)
fault("rope-betas-ignored", "engine/model/config.c",
      'rope->beta_fast = read_float(reader, "rope.scaling.yarn_beta_fast", 0);', "",
      "beta_fast of files is ignored", *R)
fault("rope-low-factor-ignored", "engine/model/config.c",
      'rope->low_freq_factor = read_float(reader, "rope.scaling.low_freq_factor", 0);', "",
      "low_freq_factor of files is ignored", *R)
fault("window-ignored", "engine/model/config.c",
      'config->window = read_int(reader, "attention.sliding_window", family->window);', "config->window = family->window;",
      "the sliding window of files is ignored", "engine_logits")
fault("eps-default", "engine/model/config.c",
      ': "attention.layer_norm_rms_epsilon",\n                                  1e-5f);',
      ': "attention.layer_norm_rms_eps",\n                                  1e-3f);',
      "the norms' epsilon of files is ignored", "engine_logits")
fault("formats-unchecked", "engine/model/weights.c",
      "    if (!check_formats(file, err))\n        return false;\n", "",
      "formats without kernels are not refused by name", "engine_refuse")

# --- folders of more families -------------------------------------------------------------------------
fault("folder-queries-of-neighbours", "engine/safetensors/checkpoint_rows.c",
      "        group = head / share;\n", "        group = head % o->kv_heads;\n",
      "queries of Falcon go to other keys", "engine_checkpoint")
fault("folder-nibbles-by-turns", "engine/safetensors/checkpoint_stacks.c",
      "codes[8 + i / 2] >> (i % 2 * 4) & 15;", "codes[8 + i / 2] >> (4 - i % 2 * 4) & 15;",
      "codes of gpt-oss swap places", "engine_checkpoint")
fault("folder-first-positions", "engine/safetensors/checkpoint_rows.c",
      "    to->data = (const char *)to->data + (size_t)skipped * row_bytes;\n", "",
      "XLM-R's positions begin two rows early", "engine_checkpoint")
fault("folder-latent-forgotten", "engine/safetensors/checkpoint_families.c",
      '{"deepseek_v3", "deepseek2", .latent = true,', '{"deepseek_v3", "deepseek2", .latent = false,',
      "DeepSeek V3 is read without its latent attention", "engine_checkpoint")
fault("own-patterns-without-flags", "engine/tokenizer/pretokenizer.c",
      "p->own.compose = memchr(flags, 'c', strcspn(flags, \"\\n\")) != NULL;", "p->own.compose = false;",
      "patterns of a file forget that text is composed", "tokenizer_pretokenizer")
fault("falcon-one-norm", "engine/model/architecture.c",
      "falcon_block[] = {ATTEND(ATTN_NORM_2),", "falcon_block[] = {ATTEND(ATTN_NORM),",
      "attention of Falcon 40B reads the other block's norm", "engine_logits")
fault("exaone-rotates-all", "engine/model/config.c",
      "config->unrotated_period = family->unrotated_period;", "config->unrotated_period = 0;",
      "layers that do not rotate do", "engine_logits")
fault("folder-norms-as-stored", "engine/safetensors/checkpoint_tensors.c",
      "checkpoint_widen(c, to, 1, r->err);", "checkpoint_widen(c, to, 0, r->err);",
      "norms of Gemma are taken as they are stored", "engine_checkpoint")
fault("folder-post-norm-in-front", "engine/safetensors/checkpoint_names.c",
      "if (found && c->family->post_norms && strcmp", "if (found && !c->family->model_type && strcmp",
      "a norm behind a block is taken for the one in front of the next", "engine_checkpoint")
fault("folder-whole-heads-rotate", "engine/safetensors/checkpoint_config.c",
      "(uint32_t)(part * (double)head_dim));", "(uint32_t)head_dim);",
      "the part of a head that rotates is all of it", "engine_checkpoint")
fault("folder-local-base", "engine/safetensors/checkpoint_config.c",
      'local ? local : config,', 'base,',
      "layers with a window rotate by the base of the others", "engine_checkpoint")
fault("folder-layer-pattern", "engine/safetensors/checkpoint_config.c",
      "fits = fits && (!said || all == ((n + first) % period == 0));", "(void)all;",
      "other layers with windows than the family's are taken", "engine_checkpoint_refuse")
fault("jinja-safe-is-plain", "engine/chat/jinja/jinja_evaluate.c",
      "bool safe = a.safe || b.safe;", "bool safe = false;",
      "what is added to safe text is not escaped", "chat_jinja")
fault("jinja-generator-again", "engine/chat/jinja/jinja_value.c",
      "        *value.list = (jinja_list){0};\n", "",
      "a generator can be visited twice", "chat_jinja")
fault("jinja-generator-searched-anew", "engine/chat/jinja/jinja_operations.c",
      "    left->count--;\n    return *left->items++;", "    return *left->items;",
      "searching a generator takes nothing from it", "chat_jinja")
fault("folder-zeros-ignored", "engine/safetensors/checkpoint_tensors.c",
      "if (zeros->data[i] != 0)", "if (false)",
      "int8 codes around a zero of their own are taken for others", "engine_checkpoint_refuse")
fault("folder-stacks-of-all", "engine/safetensors/checkpoint_tensors.c",
      "if (!r->c->family->stacking)", "if (false)",
      "stacked experts of other families are read as those of gpt-oss", "engine_checkpoint_refuse")
fault("folder-line-ends", "engine/safetensors/checkpoint_words.c",
      'put_text(&t, "(?=\\\\n|\\\\z)")', 'put_text(&t, "$")',
      "the end of a line in a pattern is the end of the text", "engine_checkpoint_tokenizer")
fault("folder-scripts-and-company", "engine/safetensors/checkpoint_words.c",
      'if (is_script(t->from + 3, length - 4)) {', "if (false) {",
      "a script in a pattern takes what is written with it", "engine_checkpoint_tokenizer")
fault("folder-repeated-repeats", "engine/safetensors/checkpoint_words.c",
      '"[^]", "}+", "{,"};', '"[^]", "{,"};',
      "repeats of a repeated count take hold instead", "engine_checkpoint_tokenizer")
fault("folder-function-of-family", "engine/safetensors/checkpoint_config.c",
      "        put_function(&w) && check_layers(&w) &&", "        check_layers(&w) &&",
      "the feed-forward's function is the family's, whatever the config says", "engine_checkpoint")
fault("gemma-gelu-by-word", "engine/safetensors/checkpoint_config.c",
      'name = "gelu_pytorch_tanh";', 'name = "gelu";',
      "Gemma's first configs get the function that they name", "engine_checkpoint")
fault("function-unknown-taken", "engine/model/config.c",
      "return lookup == GGUF_MISSING ||\n           engine_fail(reader->err,\n                       \"activation", "return true ||\n           engine_fail(reader->err,\n                       \"activation",
      "a function that weft does not know becomes the family's", "engine_refuse")
fault("window-period-unread", "engine/model/config.c",
      "gguf_get_i32(reader->file, key, &period) == GGUF_FOUND &&\n                                           period == config->window_period;", "true;",
      "another period of windows than the family's is taken", "engine_refuse")
fault("window-list-short", "engine/model/config.c",
      "array.count >= (size_t)config->layers", "true",
      "a list of windows for fewer layers is taken", "engine_refuse")

# --- memory in the place of a file --------------------------------------------------------------------
fault("file-not-copied", "engine/base/file_map.c", "    memcpy(memory, map->data, map->size_bytes);\n", "",
      "memory in the place of a file is empty", "engine_base")
fault("file-part-not-copied", "engine/gguf/gguf.c", "    return file_map_own(&file->map, err);", "    return true;",
      "--no-mmap copies nothing", "engine_demo")

# --- adapters -----------------------------------------------------------------------------------------
fault("adapter-no-rank", "engine/model/adapters.c",
      "r->times * r->alpha / (float)rank : r->times", "r->times * r->alpha : r->times",
      "alpha is not divided by the rank", "engine_adapters")
fault("adapter-fused-same-rows", "engine/model/adapters.c",
      "        row += part->rows;\n", "",
      "parts of a fused matrix all get the first rows of B", "engine_adapters")
fault("adapter-gate-first", "engine/worker/program_build.c",
      "        plain.gate = WEFT_LINEAR_GATE_NONE;\n", "",
      "the gate comes before what adapters add", "engine_adapters")
fault("adapter-residual-scale", "engine/worker/program_adapters.c",
      ".residual = linear->parts[part].y,", ".residual = NULL,",
      "what an adapter gives replaces what the matrix gave", "engine_adapters")
fault("adapter-any-family", "engine/model/adapters.c",
      "if (!gguf_string_equals(name, family))", "if (false)",
      "an adapter of another family is taken", "engine_adapters")
fault("adapter-reads-rounded", "engine/worker/program_build.c",
      "matrix->adapters || ", "",
      "matrices with adapters leave their readers a rounded input only", "engine_adapters")

# --- folders of mlx_lm, and codes ---------------------------------------------------------------------
fault("mlx-mode-of-all", "engine/safetensors/checkpoint_mlx.c",
      "    return json_is_object(own) ? own : c->quantization;", "    (void)own;\n    return c->quantization;",
      "modules with an entry of their own in config.json are read as the others", "engine_checkpoint")
fault("mlx-mxfp8-subnormal", "engine/safetensors/checkpoint_mlx.c",
      "scales[i] = (uint16_t)(exponent ? exponent << 7 : 0x40);", "scales[i] = (uint16_t)((exponent + 1) << 7);",
      "scales of mxfp8 are twice as large", "engine_checkpoint")
fault("mlx-nvfp4-order", "engine/safetensors/checkpoint_mlx.c",
      "                *at++ = (uint8_t)((codes[i / 2] >> (i % 2 * 4) & 15) |\n"
      "                                  (codes[4 + i / 2] >> (i % 2 * 4) & 15) << 4);\n",
      "                *at++ = codes[i];\n",
      "codes of nvfp4 stay in the order of folders", "engine_checkpoint")
fault("mlx-planes-of-any-shape", "engine/safetensors/checkpoint_mlx.c",
      "plane->shape[codes->rank - 1] == m->cols / m->group", "true",
      "scales may be fewer than groups", "engine_checkpoint_refuse")
fault("experts-scales-of-the-first", "engine/safetensors/checkpoint_experts.c",
      "put(to->planes.scales, expert, matrix", "put(to->planes.scales, 0, matrix",
      "all experts have the scales of one", "engine_checkpoint")
fault("experts-half-a-scale", "engine/safetensors/checkpoint_experts.c",
      "if (planes->scales && matrix->shape[1] % planes->scale_rows != 0)", "if (false)",
      "scales for rows of two experts are read as one's", "engine_checkpoint_refuse")
fault("fused-scales-of-the-first", "engine/model/weights.c",
      "    part->planes.scales = (const char *)from->scales + at;", "    part->planes.scales = from->scales;",
      "parts of a fused matrix have the scales of the first", "engine_checkpoint")
fault("latent-codes-as-they-are", "engine/safetensors/checkpoint_tensors.c",
      "    if (!checkpoint_decode(r->c, whole, r->err))\n        return false;\n", "",
      "latent attention's matrix in codes is taken apart as bytes", "engine_checkpoint")
fault("quantize-keeps-codes", "engine/gguf/mix.c",
      "type->id == GGML_TYPE_NO_ID ? ggml_type_of(WEFT_F32) : type", "type",
      "files hold formats that have no number", "engine_checkpoint")

# --- encoders of code ---------------------------------------------------------------------------------
fault("jina-code-halves", "engine/model/weights.c",
      "{MODEL_FFN_UP_GATE, {MODEL_FFN_UP, MODEL_FFN_GATE}}", "{MODEL_FFN_UP_GATE, {MODEL_FFN_GATE, MODEL_FFN_UP}}",
      "the gate of jina's encoder of code is the other half", "engine_encoders", "engine_checkpoint")
fault("jina-code-stream-once", "engine/worker/program_build.c",
      "line->residual ? program->buffers[line->base] : NULL", "line->residual ? program->buffers[line->parts[0].out] : NULL",
      "the stream is not added before the first norm", "engine_encoders")
fault("norm-of-heads-without-mean", "engine/worker/program_build.c",
      "bias ? config->architecture->norm : WEFT_NORM_RMS,", "WEFT_NORM_RMS,",
      "norms of heads with a bias are no LayerNorms", "engine_encoders")
