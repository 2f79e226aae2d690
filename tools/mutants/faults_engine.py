# SPDX-License-Identifier: MIT
"""Faults of the engine and the program (fault.py)."""
from fault import fault

# --- constrained output -------------------------------------------------------------------------------
C = ("constrain_grammar", "engine_constrained")
fault("constrain-exits-lost", "engine/constrain/mask.c",
      "        if (inside && reached->ends && (t->list_count", "        if (false && (t->list_count",
      "tokens that leave their rule are masked", *C)
fault("constrain-behind-is-free", "engine/constrain/mask.c",
      "        if (to == MACHINE_DEAD || (inside", "        if ((inside",
      "behind a rule any token is allowed", *C)
fault("constrain-tail-call-grows", "engine/constrain/machine.c",
      "if (stack.depth > MACHINE_MAX_STACK)", "if (stack.depth > 4)",
      "texts may not nest", *C)
fault("constrain-sweep-bottom-up", "engine/constrain/machine.c",
      "moved = push(to, moved, path[--depth]);", "moved = push(to, moved, path[depth - 1]), depth--, moved = MACHINE_BOTTOM;",
      "a sweep forgets the calls of a place", "constrain_grammar")
fault("constrain-special-as-text", "engine/constrain/token_trie.c",
      "    if (i == 0)\n        return GRAMMAR_SPECIAL;\n", "    if (i == 0)\n        return 'x';\n",
      "special tokens are text", "constrain_grammar")
fault("constrain-stretch-without-end", "engine/constrain/stretch.c",
      "        if (step.next == state)", "        if (step.next != MACHINE_DEAD)",
      "a place that takes a few characters takes any number", "constrain_grammar")
fault("constrain-stretch-of-any-kind", "engine/constrain/stretch.c",
      "        if (next == MACHINE_DEAD || (to != unknown && to != next))", "        if (next == MACHINE_DEAD)",
      "a kind of which a place takes only some leads as the last of it does", "constrain_grammar")
fault("constrain-taken-longer", "engine/constrain/mask.c",
      "char_run_make(char_run_kinds(run), length - 1)", "run",
      "what lies behind a character is in the mask though it is too long", "constrain_grammar")
fault("constrain-leak-stays-inside", "engine/constrain/mask.c",
      "return !leaky || walk(t, 0, state, false, bits);", "return true;",
      "a rule that can be left everywhere lets nothing through", "constrain_grammar")
fault("constrain-longer-is-smaller", "engine/constrain/schema_number.c",
      "return s->whole < b->value.whole_count ? -1 : 1;", "return s->whole < b->value.whole_count ? 1 : -1;",
      "longer numbers are smaller", "constrain_grammar", "constrain_differential")
fault("constrain-optional-comma", "engine/constrain/schema_members.c",
      "        part = one->required ? part : grammar_optional(b, part);", "", "members that may be missing may not",
      "constrain_grammar", "constrain_differential")
fault("constrain-pattern-anchored", "engine/constrain/pattern.c",
      "    if (outermost && !ends)", "    if (false)",
      "a pattern must end where its string does", "constrain_grammar", "constrain_differential")
fault("calls-id-is-name", "engine/chat/call_parts.c", "    has_id = has_id && id < end;", "    has_id = false;",
      "an id behind the name of a call is part of it", "server_calls")
fault("calls-text-not-escaped", "engine/chat/call_parts.c", """        if (byte == '"' || byte""", "        if (byte",
      "a quotation mark in a tagged argument ends its string", "server_calls")
fault("calls-any-object-is-call", "engine/chat/call_parts.c",
      "c->word.size_bytes == 0 || !call_function(c->tools, c->word.data, c->word.size_bytes)", "c->word.size_bytes == 0",
      "an answer with a member of the name is a call", "server_calls")
fault("calls-glm-as-hermes", "engine/constrain/call_style.c", "{{\"<tool_call>\", \"<arg_key>\", \"<arg_value>\"},", "{{\"<tool_call>\", \"<arg_key>\", \"<arg>\"},",
      "calls between tags of GLM are not known", "server_calls")
fault("calls-note-lost", "engine/constrain/call_grammar.c", "        *work->note = why;", "        (void)why;",
      "nobody is told that parameters are not served", "server_calls")
fault("thoughts-blanks-in-front", "engine/chat/answer_parts.c", "    case BEFORE_THOUGHTS: return go_on_to(p, THINKING);",
      "    case BEFORE_THOUGHTS: p->section = THINKING; return true;", "blanks in front of thoughts are theirs", "server_calls")
fault("schema-members-unbounded", "engine/constrain/schema_members.c", "    if (m.room > MAX_MEMBERS)", "    if (false)",
      "a schema may have any number of members", "constrain_grammar")
fault("arrays-room-lies", "engine/base/alloc.c", "    *room = larger;", "    *room = 2 * larger;",
      "an array has less room than it says", "engine_base")
fault("models-never-put-away", "server/models.c", "           open_bytes(models) + wanted->bytes > most) {", "           false) {",
      "loaded models take as much memory as they want", "server_models")
fault("models-counts-lost", "server/models.c", "    retire(models, served);\n", "", "what a model counted goes with it", "server_models")
fault("models-any-name", "server/models.c", "        if (models->count == 1 || (name && strcmp(models->list[n].name, name) == 0))", "        if (true)",
      "every name is the first model", "server_models")
fault("pages-behind-nothing", "engine/session/keep_pages.c", "page_pool_enter(pool, page, links[before], ids)", "page_pool_enter(pool, page, 0, ids)",
      "every page that is restored stands at the beginning", "engine_keep_pages")
fault("pages-of-any-model", "engine/session/keep_pages.c", "    if (head->fingerprint != session_fingerprint(worker) ||\n        head->page_tokens", "    if (head->page_tokens",
      "pages of another cache are taken", "engine_keep_pages")
fault("pages-push-out", "engine/session/keep_pages.c", "        if (page_pool_free_pages(pool) == page_pool_remembered(pool))", "        if (false)",
      "pages that are restored take the place of those that are there", "engine_keep_pages")
fault("summed-any-sum", "engine/base/summed_file.c", "    return XXH3_64bits(data, bytes) == sum ? bytes : 0;", "    return bytes;",
      "a damaged file is whole", "engine_keep_pages", "engine_keep")
fault("models-cache-not-kept", "server/models.c", "        save_pages(models, served);", "        (void)save_pages;",
      "pages are not kept when a model goes", "server_models")
fault("channels-end-answers", "engine/tokenizer/tokenizer.c", "        t->ends[end] = false;", "        t->ends[end] = true;",
      "the end of a channel ends an answer", "tokenizer_encode")
fault("channels-lead-is-text", "engine/chat/answer_parts.c", "    if (lead && begins_with(p, 0, lead, &open))", "    if (false)",
      "what stands in front of an answer is a part of it", "server_calls")
fault("channels-marks-lost", "engine/chat/answer_parts.c", "        answer_parts_add(p, name.data, name.size_bytes);", "        (void)name;",
      "marks that are special tokens tell nothing", "cli_thinking")
fault("constrain-not-behind-bias", "engine/schedule/request.c",
      "return !request->cursor || session_constrain(request->session, request->cursor, sampling, err);",
      "return true;", "requests are not constrained", "engine_constrained")

fault("likeliest-without-ties", "engine/constrain/constraint.c",
      "kept >= most && one.logit < list->at[kept - 1].logit", "kept >= most",
      "of tokens that are as likely as the last only the first is left", "constrain_grammar")
fault("likeliest-may-end", "engine/constrain/constraint.c",
      "end ? constraint_may_end(cursor) : follow", "end ? true : follow",
      "a text may end anywhere", "constrain_grammar", "engine_constrained")
fault("likeliest-before-penalties", "engine/session/constrained.c",
      "session_penalty_window(sampling) > 0", "false",
      "the likeliest are taken before penalties say which they are", "engine_constrained")

# --- tokenizer ----------------------------------------------------------------------------------------
T = ("tokenizer_encode", "tokenizer_golden", "tokenizer_words", "tokenizer_decode", "tokenizer_normalize")
fault("bpe-later-rank-wins", "engine/tokenizer/bpe.c",
      "rules[i]->rank < best_rank", "rules[i]->rank > best_rank",
      "short words join their last merge first", *T)
fault("bpe-equal-ranks-from-the-right", "engine/tokenizer/bpe.c",
      "rules[i]->rank < best_rank", "rules[i]->rank <= best_rank",
      "of equal merges the rightmost is joined first", *T)
fault("bpe-long-stale-candidate", "engine/tokenizer/bpe.c",
      "return symbol_end(work, &work->symbols[left->next]) == candidate->end;", "return true;",
      "long words join pairs that are gone", *T)
fault("bpe-long-no-left-pair", "engine/tokenizer/bpe.c",
      "    if (left->previous >= 0)\n        push_pair(table, work, left->previous);\n", "",
      "long words forget the pair to the left of a join", *T)
fault("bpe-heap-not-smallest-child", "engine/tokenizer/bpe.c",
      "child += child + 1 < count && heap[child + 1].order < heap[child].order;", "",
      "the heap of merges looks at one child only", *T)
fault("merges-equal-scores-by-id", "engine/tokenizer/merges.c",
      "rank += i > 0 && order[i].score != order[i - 1].score;", "rank += i > 0;",
      "equal scores are ranked by id", *T)
fault("sentencepiece-no-prefix", "engine/tokenizer/sentencepiece.c",
      'if (t->add_space_prefix && !tokenizer_text_append(out, " ", 1))', "if (false)",
      "no space in front of text", *T)
fault("sentencepiece-prefix-twice", "engine/tokenizer/sentencepiece.c",
      "work->flags & TOKENIZER_SPACE_IS_PREFIX && text[0] == ' '", "false",
      "a space that is the prefix is written twice", *T, "chat_chat")
fault("sentencepiece-keeps-spaces", "engine/tokenizer/sentencepiece.c",
      "bool squeeze = t->remove_extra_whitespaces;", "bool squeeze = false;",
      "extra spaces are kept", *T)
E = ("engine_encoders",)
fault("encoder-causal", "engine/worker/program_steps.c",
      "program->config->full_mask ? WEFT_MASK_FULL", "false ? WEFT_MASK_FULL",
      "tokens of encoders do not see those behind them", *E)
fault("encoder-window-right", "engine/worker/program_steps.c",
      "                                .window_right = rules.window_right,\n", "",
      "windows of encoders have no right end", *E)
fault("encoder-last-sees-all", "engine/model/config_rules.c",
      "MODEL_FIRST_SEES_ALL ? 0 : 1;", "MODEL_FIRST_SEES_ALL ? 1 : 1;",
      "another layer of ModernBERT sees all keys", *E)
fault("experts-of-first-layers", "engine/model/config_rules.c",
      "layer % config->expert_period == config->expert_place", "layer % config->expert_period == 0",
      "other layers of nomic-embed-text v2 have experts", *E)
fault("experts-normed-with-ones", "engine/worker/program_experts.c",
      ".norm = tensors[line->norm].data ? WEFT_LINEAR_NORM_RMS", ".norm = line->norm ? WEFT_LINEAR_NORM_RMS",
      "experts behind no norm get one without weights", *E)
fault("score-norm", "engine/session/embed.c",
      "    if (dense->data)\n        normalise(e, inner);\n", "",
      "the classifier of ModernBERT has no norm", *E)
fault("score-pooling", "engine/session/embed.c",
      "e.pooling == ENGINE_POOLING_RANK ? (engine_pooling)config->score_pooling : e.pooling", "e.pooling",
      "classifiers read the first state only", *E)
fault("alibi-of-odd-heads", "engine/worker/program_steps.c",
      "-bias / 2 * (2 * (h - whole) + 1)", "-bias / 2 * (2 * (h - whole) + 2)",
      "heads beyond a power of two have the wrong slopes", *E)
fault("bias-of-experts", "engine/worker/program_build.c",
      "    if (!bias)\n        return true;\n    if (!program->zeros)", "    if (bias || !program->zeros)\n        return true;\n    if (!program->zeros)",
      "the bias of nomic's experts is not added", "engine_checkpoint")
fault("columns-of-experts", "engine/safetensors/checkpoint_stacks.c",
      "return down ? put_matrix(s, &p, to) : put_rows(s, name, to);", "return put_rows(s, name, to);",
      "columns of nomic's down are taken for rows", "engine_checkpoint")
fault("embed-types", "engine/session/embed.c",
      "i >= texts[n].second;", "i > texts[n].second;", "the second part begins a token late", *E)
fault("embed-first-row", "engine/session/pass.c",
      "        f->outputs->first[n] = f->tokens;\n        add_tokens(f, &feeds[n], taken[n]);",
      "        f->outputs->first[n] = 0;\n        add_tokens(f, &feeds[n], taken[n]);",
      "texts get the states of the first", *E)
fault("embed-mean-sum", "engine/session/embed.c",
      "            sum[i] /= tokens;", "            sum[i] /= 1;",
      "a mean is a sum: seen only where its length is kept", *E, "cli_embed")
fault("embed-last", "engine/session/embed.c",
      "from + t == all - 1", "from + t == all - 2", "the last but one token is taken", *E)
fault("rank-no-tanh", "engine/session/embed.c",
      ": tanh(inner[i]);", ": inner[i];", "scores without the function between", *E)
fault("positions-shifted", "engine/worker/program_build.c",
      "weft_batch_positions(program->batch), err)", "program->types ? program->types : program->ids, err)",
      "positions are types", *E)
fault("unigram-later-wins", "engine/tokenizer/unigram.c",
      "!(score > place->score)", "!(score >= place->score)", "of equal sums the later way to cut wins", *T)
fault("unigram-no-penalty", "engine/tokenizer/unigram.c",
      "UNKNOWN_PENALTY = 10", "UNKNOWN_PENALTY = 0", "an unknown character costs what the worst piece costs", *T)
fault("charsmap-outside", "engine/tokenizer/charsmap.c",
      "if (at >= map->text_bytes)", "if (false)", "a value of the trie leads out of the texts",
      "tokenizer_encoders")
fault("charsmap-shortest", "engine/tokenizer/charsmap.c",
      "        found = i + 1;", "        if (found == 0)\n            found = i + 1;",
      "the shortest key is replaced by the longest one's text", *T, "tokenizer_encoders")
fault("wordpiece-any-length", "engine/tokenizer/wordpiece.c",
      "bool known = w->characters <= MAX_WORD_CHARACTERS;", "bool known = true;",
      "words of more than 100 characters are cut", *T, "tokenizer_encoders")
fault("wordpiece-keeps-part", "engine/tokenizer/wordpiece.c",
      "        work->list->count = before;\n", "", "the first pieces of an unknown word stay", *T)
fault("wordpiece-accents", "engine/tokenizer/wordpiece.c",
      "t->strip_accents = !loses_pieces(t);", "t->strip_accents = false;", "accents stay", *T)
fault("unknown-not-fused", "engine/tokenizer/encode_symbols.c",
      "list->ids[list->count - 1] == unknown)", "list->ids[list->count - 1] != unknown)",
      "unknown pieces are not joined into one", *T)
fault("special-shortest", "engine/tokenizer/special.c",
      "            *match_bytes = i;\n", "            *match_bytes = i;\n            return id;\n",
      "the shortest special piece wins", *T)
fault("special-control-from-text", "engine/tokenizer/special.c",
      "(with_control || !here->is_control)", "true",
      "text can become control tokens", *T, "chat_chat")
fault("decode-overlong", "engine/tokenizer/decode.c",
      "low = bytes[0] == 0xe0 ? 0xa0 : bytes[0] == 0xf0 ? 0x90 : low;", "",
      "overlong UTF-8 passes the decoder", *T)
fault("decode-surrogates", "engine/tokenizer/decode.c",
      "bytes[0] == 0xed ? 0x9f : ", "",
      "surrogates pass the decoder", *T)
fault("decode-no-strip", "engine/tokenizer/decode.c",
      "i = strip && piece.size_bytes > 0 && piece.data[0] == ' ';", "i = 0;",
      "the prefix space is not taken away", *T)
fault("byte-level-no-whole-pieces", "engine/tokenizer/byte_level.c",
      "if (t->pre.rules->whole_pieces) {", "if (false) {",
      "words that are pieces are merged from bytes", *T)
fault("byte-level-shifted", "engine/tokenizer/vocab.c",
      "return (int)(0x7f + index - 0x21);", "return (int)(0x80 + index - 0x21);",
      "the shifted bytes of the byte-level alphabet are off by one", *T)
fault("normalize-run-of-class-0", "engine/tokenizer/normalize.c",
      "run = utf8proc_get_property(parts[i])->combining_class == 0 ? 0 : run + 1;",
      "run = utf8proc_get_property(code)->combining_class == 0 ? 0 : run + 1;",
      "U+0F73 is not counted as two marks: quadratic time", "tokenizer_normalize")
fault("normalize-none", "engine/tokenizer/normalize.c",
      "UTF8PROC_STABLE | UTF8PROC_COMPOSE);", "UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);",
      "text is decomposed instead of composed", "tokenizer_normalize", *T)

# --- sessions -----------------------------------------------------------------------------------------
S = ("engine_session", "engine_passes", "engine_failed_pass", "engine_sampling", "engine_generate")
fault("failed-pass-keeps-logits", "engine/session/pass.c",
      "        for (int32_t n = 0; n < count; n++)\n            if (f.outputs->taken[n])\n"
      "                session_drop_logits(feeds[n].session);\n        trim_all(feeds, count);\n        return false;",
      "        return false;",
      "a failed pass keeps pages and logits", "engine_failed_pass", *S)
fault("failed-pass-keeps-tokens", "engine/session/pass.c",
      "    if (!free_rows(&f, feeds, count, err) ||", "    commit(&f, feeds, count);\n    if (!free_rows(&f, feeds, count, err) ||",
      "tokens are in the timeline before their pass", "engine_failed_pass", *S)
fault("kv-length-short", "engine/session/pass.c",
      "in->kv_lens[seq] = session->length + take;", "in->kv_lens[seq] = session->length + take - (take > 1);",
      "the last token of a prompt does not see itself", *S)
fault("last-page-missing", "engine/session/pass.c",
      "(size_t)session->pages * sizeof *session->page_table);", "(size_t)(session->pages - 1) * sizeof *session->page_table);",
      "a pass does not know a session's last page", *S)
fault("penalty-window-short", "engine/session/sample.c",
      "session->history + session->length - window : NULL;\n    params.history_len = window;",
      "session->history + session->length - window + 1 : NULL;\n    params.history_len = window > 0 ? window - 1 : 0;",
      "the penalties miss the farthest token of their window", "engine_sampling")
fault("penalty-window-default", "engine/session/session.c",
      "sampling->penalty_window : 64;", "sampling->penalty_window : 63;",
      "the usual window is one short", "engine_sampling")
fault("step-not-set", "engine/session/generate.c",
      "    sampling.params.step = (uint64_t)g->session->length;\n", "",
      "draws of a generation have no number", "engine_sampling")
fault("step-of-chain", "engine/session/chain.c",
      "room->params[i].step = (uint64_t)start + 1;", "room->params[i].step = (uint64_t)start;",
      "the draws of a chain are numbered one too low", "engine_sampling", *S)
fault("step-of-chain-stays", "src/kernels/sample/sample_steps.c",
      "    next->step++;\n", "",
      "all draws of a chain have one number", "engine_sampling", *S)
fault("end-ignored", "engine/session/generate.c",
      "if (t && (!g->wish->ignore_end || g->cursor) && tokenizer_is_end(t, token)) {", "if (false) {",
      "generation goes on behind the end", "engine_sampling")
fault("limit-one-more", "engine/session/generate.c",
      "g->result->generated_tokens >= g->wish->max_tokens)", "g->result->generated_tokens > g->wish->max_tokens)",
      "one token more than wanted", *S)
fault("reuse-one-too-many", "engine/session/session.c",
      "session->ids[common] == ids[common])\n        common++;\n    return common;",
      "session->ids[common] == ids[common])\n        common++;\n    return common + (common < session->length && common < count);",
      "a session keeps the first token that differs", *S)
fault("truncate-keeps-logits", "engine/session/session.c",
      "        session->length = length;\n        session_drop_logits(session);\n", "        session->length = length;\n",
      "logits stay when their token goes", *S)
fault("shared-page-written", "engine/session/session.c",
      "page_pool_shared(pool, session->page_table[last]);", "false;",
      "a fork writes into a page that both hold", *S)
fault("page-given-twice", "engine/cache/page_pool.c",
      "if (--pool->holders[page] > 0)", "if (--pool->holders[page] < 0)",
      "a shared page is free when one lets it go", *S)
fault("stop-order", "engine/session/stop_filter.c",
      "if (end < first.end || (end == first.end && start < first.start))", "if (end != first.end)",
      "the last stop string of the list wins", "engine_stop_filter")
fault("stop-partial-released", "engine/session/stop_filter.c",
      "keep = partial > keep ? partial : keep;", "keep = partial;",
      "the beginning of a stop string is released", "engine_stop_filter")

# --- program ------------------------------------------------------------------------------------------
fault("layers-said-otherwise", "cli/layers.c",
      'info.one_launches ? "one launch" : "launches"', 'info.one_launches ? "launches" : "one launch"',
      "which program decodes a token is said the wrong way round", "cuda_layers_said")
fault("transcript-drops-system", "cli/transcript.c",
      'strcmp(t->messages[0].role, "system") == 0 ? 1 : 0;', 'strcmp(t->messages[0].role, "sys") == 0 ? 1 : 0;',
      "the system message is dropped with the oldest turn", "cli_transcript", "cli_chat")
fault("transcript-never-drops", "cli/transcript.c",
      "bool last = wanted == CLI_TRANSCRIPT_KEEP || from + 2 >= t->count;", "bool last = true;",
      "nothing is dropped from a full context", "cli_transcript", "cli_chat")
fault("wrap-off", "cli/wrap.c",
      "return size.ws_col - 1;", "return 0;", "words break at the terminal's edge", "cli_chat")
fault("wrap-forgets-word", "cli/wrap.c",
      "    fwrite(wrap->word, 1, wrap->word_bytes, stdout);\n", "",
      "the beginning of a wrapped word is lost", "cli_chat")
fault("tokenize-c1-raw", "cli/tokenize.c",
      "return length <= bytes && text_is_printable(text, length) ? length : 0;", "return length <= bytes ? length : 0;",
      "control characters of pieces reach the terminal", "cli_commands")
fault("no-limit-refused", "cli/options.c",
      'cli_int32(self, "-n", text, -1, INT32_MAX, value)', 'cli_int32(self, "-n", text, 0, INT32_MAX, value)',
      "-n -1 is refused", "cli_commands")
fault("nearest-first", "cli/next_option.c",
      "    if (distance(word, name) < kept)", "    if (distance(word, name) <= kept + 20)",
      "any option is proposed for a mistyped one", "cli_refuse")
fault("perplexity-one-cache", "cli/perplexity.c",
      "        options.kv_dtype = wish->other_cache.kv_dtype;\n", "",
      "a model is held against itself with the same cache", "cli_perplexity")
fault("perplexity-first-half", "cli/perplexity.c",
      "for (int32_t i = from > first ? from : first;", "for (int32_t i = from;",
      "tokens without context count", "cli_perplexity")
fault("perplexity-other-divergence", "cli/perplexity.c",
      "sum += exp(log_p) * (log_p - log_q);", "sum += exp(log_q) * (log_q - log_p);",
      "the divergence is that of the other from the model", "cli_perplexity")
fault("perplexity-percentile", "cli/perplexity.c",
      "percentile(run->divergence, run->scored, 0.99)", "percentile(run->divergence, run->scored, 0.9)",
      "the 99th percentile is the 90th", "cli_perplexity")
fault("bench-depth-ignored", "cli/bench/bench_model.c",
      "        engine_session_truncate(r->sessions[s], wish->depth);\n    for (int32_t at",
      "        (void)s;\n    for (int32_t at",
      "generation is measured behind the prompt at any depth", "cli_bench_model")
fault("context-not-warned", "cli/sampling.c",
      "if (run.context_tokens <= info.trained_context)", "if (true)",
      "no warning of contexts beyond the trained one", "cli_chat")

# --- latent attention ---------------------------------------------------------------------------------
fault("latent-not-normed-scale", "engine/model/config.c",
      "config->attention_scale = times * times / sqrtf(", "config->attention_scale = times / sqrtf(",
      "YaRN's factor is in the scores once", "engine_logits")
fault("latent-values-at-key", "engine/cache/page_pool.c",
      "first + weft_dtype_row_bytes(layout->dtype, pool->values_at)", "first",
      "values begin with the rotated elements", "engine_logits", "engine_latent")
fault("latent-one-head-matrix", "engine/worker/program_latent.c",
      "matrix.data = data + h * matrix_bytes;", "matrix.data = data;",
      "all heads have the first head's matrix", "engine_logits", "engine_latent")
fault("latent-odd-formats", "engine/model/settings.c",
      "if (kv->v_dtype != kv->dtype)", "if (false)",
      "values that are a part of the keys may have another format", "engine_latent")
fault("cascade-own-page-short", "engine/worker/program_cascade.c",
      "all->own_starts[s] = s * stride + pages;", "all->own_starts[s] = s * stride;",
      "behind a shared prefix the prefix's own pages are read again", "engine_passes")
fault("cascade-chain-stands", "engine/worker/program_chain.c",
      "            (!program->cascades.now ||\n             weft_batch_advance(program->cascades.own, NULL) == WEFT_OK)",
      "            true", "in a chain, own keys behind a shared prefix do not grow", "engine_passes")
fault("cascade-never", "engine/worker/program_cascade.c",
      "    all->now = true;\n", "", "shared prefixes are read once for every session", "engine_passes")

# --- tools, documents, thinking -------------------------------------------------------------------------
fault("chat-documents-lost", "engine/chat/chat.c",
      'add_array(box, values, "documents", options->documents, err)', 'add_array(box, values, "documents", NULL, err)',
      "documents do not reach the template", "chat_tools")
fault("chat-tools-unread", "engine/chat/chat.c",
      'const char *unread = options->tools && !jinja_mentions(t->program, "tools") ? "tools"', 'const char *unread = false ? "tools"',
      "tools that the template does not read are lost without a word", "chat_tools")
fault("thinking-never-ends", "cli/thinking.c",
      "    thinking->inside = !thinking->inside;\n", "    thinking->inside = true;\n",
      "what follows thinking's end is taken for thinking", "cli_thinking")
fault("gptq-zeros-as-stored", "engine/safetensors/checkpoint_quantization.c",
      "? 0 : 1;", "? 0 : 0;", "zeros of GPTQ's first version are one too small", "engine_checkpoint")
fault("awq-rows-in-order", "engine/safetensors/checkpoint_integers.c",
      "{0, 2, 4, 6, 1, 3, 5, 7};", "{0, 1, 2, 3, 4, 5, 6, 7};", "rows of AWQ are taken in order", "engine_checkpoint")
fault("gptq-order-ignored", "engine/safetensors/checkpoint_integers.c",
      "        in->ordered = in->ordered && group == col / in->group;\n", "",
      "columns of GPTQ in no order are taken for ordered ones", "engine_checkpoint")

# --- many at once -------------------------------------------------------------------------------------
fault("schedule-pages-lost", "engine/schedule/choose.c",
      "    f->pages += last->own;\n", "",
      "who gives way gives nothing", "engine_schedule")
fault("schedule-turns-saved-up", "engine/schedule/users.c",
      "least < 0 ? 0 : least", "0",
      "who comes again has saved up turns", "engine_schedule")
fault("schedule-no-hold", "engine/schedule/scheduler.c",
      "if (same - shared_now >= ENGINE_PAGE_TOKENS)", "if (false)",
      "prompts that begin alike are computed side by side", "engine_scheduler")
fault("schedule-step-from-0", "engine/schedule/pass.c",
      "params.step = (uint64_t)request->count;\n        s->fed[draws] = request;",
      "params.step = (uint64_t)request->result.generated_tokens;\n        s->fed[draws] = request;",
      "draws are numbered otherwise than alone", "engine_scheduler")
fault("prefix-written-is-found", "engine/session/session.c",
      "        page_pool_forget(pool, session->page_table[last]);\n", "    {\n    }\n",
      "a page that is written anew is found by its old tokens", "engine_prefixes")
fault("prefix-newest-goes", "engine/cache/prefix_index.c",
      "    return index->oldest;\n", "    return index->newest;\n",
      "pages let go last are taken first", "engine_prefixes")
fault("server-any-key", "server/keys.c",
      "difference |= (unsigned char)", "difference = (unsigned char)",
      "keys are compared by their last byte", "server_endpoints")
fault("server-any-origin", "server/http/http.c",
      "return name && host && strcmp(name + 3, host) == 0;", "return true;",
      "pages of any origin are served", "server_endpoints")
fault("server-frame-shifted", "server/job.c",
      "+ strlen(nothing) - 2;", "+ strlen(nothing) - 3;",
      "text stands beside its place in events", "server_endpoints")
fault("server-no-bounds", "server/api_fields.c",
      "if (!json_is_number(field) || !(number >= low && number <= high))", "if (!json_is_number(field))",
      "numbers out of range are taken", "server_endpoints")

# --- speculation, samplers, timelines in files ----------------------------------------------------------
G, T = ("engine_guesses",), ("engine_trees",)
fault("lookup-nearest-not-longest", "engine/speculate/lookup.c",
      "places[at - 1].agreed < place.agreed", "false", "the latest place is gone on from, not the one that agrees the longest", *G)
fault("lookup-past-the-end", "engine/speculate/lookup.c",
      "way[from + i - count]", "0", "a text that repeats itself is not gone on with beyond its end", *G)
fault("tree-every-way-alone", "engine/speculate/guess_tree.c",
      "if (found >= 0 || tree->count", "if (tree->count", "ways that begin alike are guessed twice", *G)
fault("tree-unlikely-first", "engine/speculate/guess_tree.c",
      "tree->right[i] > tree->right[best]", "tree->right[i] < tree->right[best]", "of a tree the least likely guesses are taken", *G)
fault("payoff-whatever-the-company", "engine/speculate/payoff.c",
      "+ spent, rows, row", "+ spent, 1, row", "what a guess costs does not grow with the rows beside it", *G)
fault("payoff-as-if-alone", "engine/speculate/payoff.c",
      "    pass->seconds += costs;\n    pass->tokens += right;\n", "",
      "a guess is held against a pass without the guesses before it", *G)
fault("payoff-never-again", "engine/speculate/payoff.c",
      "record->right *= fades;\n    record->tried *= fades;", "record->right *= 1;\n    record->tried *= 1;",
      "what was given up is never tried again", *G)
fault("payoff-of-a-quiet-machine", "engine/speculate/payoff.c",
      "    costs->one *= 1 + follows * (speed - 1);\n", "", "a machine that others slow down is taken for dear rows", *G)
fault("accept-keeps-row", "engine/session/session.c",
      "guesses->row + 1 + next;", "guesses->row;", "behind a guess the logits are those before it", *T)
fault("guess-wrong-goes-on", "engine/session/session.c",
      "(guesses->parents[next] != guesses->at || guesses->tokens[next] != token)", "guesses->parents[next] != guesses->at",
      "texts go on behind guesses that were wrong", *T)
fault("branch-stays-where-it-was", "engine/session/session.c",
      "return from == to || page_pool_copy_slot(", "return from != -1 || page_pool_copy_slot(",
      "the cache keeps the first branch where another was taken", *T)
fault("branch-of-one-head", "engine/cache/page_pool.c",
      "head < heads; head++", "head < 1; head++", "of a branch that was taken one head is moved", *T)
fault("branch-turned-as-it-lies", "engine/worker/program_run.c",
      "positions[parents[i]] + 1", "positions[i - 1] + 1", "a guess is rotated by its place in the pass, not in its branch", *T)
fault("requests-guess-alone", "engine/schedule/pass.c",
      "bool guessed = speculator_learn(&request->speculator, token);", "bool guessed = false;",
      "requests accept no guess", "engine_speculation")
fault("constrained-logits-stay", "engine/session/generate.c",
      "        session_drop_logits(session); // they are masked\n", "        (void)session;\n",
      "who goes on behind a constrained text finds its logits masked", "engine_constrained")
fault("generated-without-last", "engine/schedule/pass.c",
      "request->result.generated_tokens - before;", "request->result.finish != ENGINE_FINISH_END;",
      "the token that completes a constrained text is not counted", "engine_constrained")
S = ("engine_shaping",)
fault("typical-likeliest", "engine/sample/shape.c",
      "(float)-fabs(all - s->list[i].logit - expected)", "(float)-(all - s->list[i].logit - expected)",
      "the likeliest tokens count as the most typical", *S)
fault("xtc-keeps-none", "engine/sample/shape.c",
      "s->count -= likely - 1;\n    memmove(s->list, s->list + likely - 1", "s->count -= likely;\n    memmove(s->list, s->list + likely",
      "the least likely of the likely is left out too", *S)
fault("dry-across-breakers", "engine/sample/shape.c",
      " && !breaks(shaping, ids[count - 1 - longest])", "", "repetitions go across breakers", *S)
fault("mirostat-forgets", "engine/session/sample.c",
      "*mu = shape_mu(", "(void)shape_mu(", "mirostat begins again with every token", *S)
fault("keep-any-model", "engine/session/keep.c",
      "head.fingerprint != session_fingerprint(worker)", "false", "pages of another model are taken", "engine_adapters")
fault("keep-any-adapter", "engine/session/keep.c",
      "        mix_tensor(hash, &pair->b, INT64_MAX);\n", "", "pages of another adapter are taken", "engine_adapters")
fault("keep-no-sum", "engine/session/keep.c",
      "summed_file_check(map->data, map->size_bytes)", "map->size_bytes - sizeof(uint64_t)", "damage is not seen", "engine_keep")
PC = ("engine_packed",)
fault("packed-own-each", "engine/model/packed.c",
      "return weights->shapes == wish->shapes && weights->places", "return weights->shapes != wish->shapes && weights->places",
      "every worker lays its own copy out", *PC)
fault("packed-no-sum", "engine/model/packed.c",
      "summed_file_check(data, size_bytes) ==", "size_bytes - 8 ==", "damaged matrices are taken", *PC)
fault("packed-any-model", "engine/model/packed.c",
      " && head->identity == weights->identity &&", " &&", "matrices of another model are taken", *PC)
fault("packed-leaves-early", "engine/model/packed.c",
      "    if (--weights->holders == 0)", "    if (--weights->holders <= 1)", "the last but one takes the matrices with it", *PC)
L4 = ("engine_logits", "engine_checkpoint")
fault("llama4-chunk-slides", "engine/model/config_rules.c",
      "        rules.chunk = rules.window;\n        rules.window = 0;\n", "", "a chunk is a window", *L4)
fault("llama4-units-everywhere", "engine/worker/program_build.c",
      "|| !model_config_layer(config, layer, program->ropes).rope ||", "||",
      "heads that do not rotate become units, too", *L4)
fault("llama4-rotated-queries-grow", "engine/worker/program_steps.c",
      "    return !rules->rope && program->config->q_growth_length;", "    (void)rules;\n    return program->config->q_growth_length;",
      "queries grow in layers that rotate, too", *L4)
fault("llama4-experts-first", "engine/model/config.c",
      "config->expert_place = step - 1;", "config->expert_place = 0;",
      "the first of every so many layers has experts", *L4)
fault("checkpoint-halves-by-turns", "engine/safetensors/checkpoint_stacks.c",
      "== CHECKPOINT_EXPERTS_BY_TURNS;", "!= CHECKPOINT_EXPERTS_APART;",
      "rows of gate and up that lie apart are taken by turns", "engine_checkpoint")
AD = ("engine_adapters",)
fault("adapters-of-the-output-read-old-rows", "engine/worker/program_run.c",
      "(step->args.linear.x == hidden || step->args.linear.x == gathered))", "i == 0)",
      "adapters of the output read rows of another pass", *AD)
fault("adapters-of-the-first-head", "engine/worker/program_latent.c",
      "part->rows > heights[i] ? head * heights[i] : 0", "0", "all heads have the adapter of the first", *AD)
fault("adapters-serve-all-experts", "engine/model/adapters.c",
      "const bool once = !want.experts;", "const bool once = true;", "one pair for all experts is taken for one of each", *AD)
fault("adapters-of-the-embedding-unscaled", "engine/worker/program_adapters.c",
      ".alpha = at->scale * (scale != 0 ? scale : 1),", ".alpha = scale != 0 ? scale : 1,",
      "adapters of the embedding are not scaled", *AD)
