# SPDX-License-Identifier: MIT
"""Faults of what the library refuses at its door, and of what one call leaves behind for another (fault.py)."""
from fault import fault

# --- caches and pages -----------------------------------------------------------------------------------
ATTENTION = ("api_attention_errors", "api_hostile")
fault("door-any-head-dim", "src/api/api_pool.c", "    if (plane->dim > WEFT__KV_MOST_DIM)", "    if (false)",
      "heads of any length are planned", *ATTENTION)
fault("door-half-blocks", "src/api/api_pool.c", "        plane->token_stride % block || plane->inner_stride", "        plane->inner_stride",
      "keys of a cache in blocks begin in the middle of one", "api_door")
fault("door-no-scales", "src/api/api_pool.c", "    if (!plane->scales)", "    if (false)",
      "a pool without the scales of its layout is taken", "api_door")
fault("door-pool-beyond-memory", "src/api/api_pool.c", "    return span <= INT64_MAX / 16;", "    return true;",
      "a pool may reach further than addresses", *ATTENTION)
fault("door-queries-unplanned", "src/api/api_seqs.c", "    if (cu[seqs->num_seqs] > seqs->max_q_tokens)", "    if (false)",
      "more queries run than were planned", "api_attention_errors", "api_batch")
fault("door-negative-page", "src/api/api_seqs.c", "    if (largest > INT32_MAX || largest >= seqs->num_pages)",
      "    if ((int64_t)largest >= seqs->num_pages)", "negative pages of a large pool are read", "api_attention_errors")
fault("door-negative-row", "src/api/api_seqs.c", "    if (row < 0)", "    if (false)",
      "pages in front of a table are read", "api_attention_errors", "api_batch")
fault("door-negative-start", "src/api/api_seqs.c", "    if (seqs->page_indices && seqs->page_starts[row] < 0)", "    if (false)",
      "pages in front of a list are read", "api_attention_errors", "api_batch")
fault("door-negative-slot", "src/api/api_kv.c", "        if (slot < -1 || slot >= slots)", "        if (slot >= slots)",
      "keys are appended in front of a pool", "api_attention_errors")
fault("door-queries-out-of-nothing", "src/api/api_kv.c", "    if ((args.q_out != NULL) != (desc->q_out_dtype && args.q))", "    if (false)",
      "an append leaves out q_out that is given, or wants it", "api_door")
fault("door-exchange-entry", "src/api/api_pages.c", "page >= args->from.num_pages", "page > args->from.num_pages",
      "a page behind the pool is owned", "api_door")

# --- attention ------------------------------------------------------------------------------------------
fault("door-columns-beyond-keys", "src/api/api_attention_run.c", "columns > kv_lens[s])", "columns > kv_lens[s] + 1)",
      "a mask may have a column more than there are keys", "api_door")
fault("door-negative-count", "src/api/api_attention_run.c", "    if (*count < 0 || *count > args->num_seqs)", "    if (*count > args->num_seqs)",
      "a negative number of sequences in memory is taken", "api_door")
fault("door-list-twice", "src/api/api_attention_run.c", "args->sparse_blocks[i - 1] : -1", "args->sparse_blocks[i - 1] - 1 : -1",
      "a block may stand in a list twice", "api_door")
fault("door-cascade-count", "src/api/api_cascade.c", "    if (own->num_seqs < 0 || own->num_seqs > desc->max_seqs) {", "    if (false) {",
      "lengths behind those of a cascade are read", "api_merge")
fault("door-cascade-appends", "src/api/api_cascade.c", "    if (desc->flags & (WEFT_ATTENTION_APPEND | WEFT_ATTENTION_OUT_ROUNDED))", "    if (false)",
      "a cascade appends to prefixes", "api_merge")

# --- other operations -----------------------------------------------------------------------------------
fault("door-negative-top-k", "src/api/api_sample.c", "    if (params->top_k < 0)", "    if (false)", "top_k may be negative", "api_sample")
fault("door-history-one-more", "src/api/api_sample.c", "params->history[i] >= vocab)", "params->history[i] > vocab)",
      "a token of the history may be one behind the vocabulary", "api_sample")
fault("door-id-one-more", "src/api/api_embedding.c", "args.ids[i] >= desc->rows)", "args.ids[i] > desc->rows)",
      "an id may be one behind the table", "api_embedding")
fault("door-half-packed-gate", "src/api/api_linear.c", "!args->parts[0].packed != !args->parts[1].packed)", "false)",
      "a gate's parts may be packed by halves", "api_door")
fault("door-next-of-gate", "src/api/api_linear.c", "(desc->flags & WEFT_LINEAR_NEXT && desc->gate))", "false)",
      "what follows may be made of a gate's result", "api_door")
fault("door-adapter-rank", "src/api/api_experts.c", "at->rank > desc->adapter_rank)", "at->rank > desc->adapter_rank + 1)",
      "an adapter has a column more than its plan", "api_experts")
fault("door-tensor-half-block", "src/api/api_tensor.c", "        shape[rank - 1] % block != 0)", "        false)",
      "rows of a tensor end in the middle of a block", "api_tensor")
fault("door-executor-threads", "src/api/api_context.c", " || executor->threads > MAX_THREADS))", "))",
      "an executor may have any number of threads", "api_door")
fault("door-recorded-stream", "src/api/api_program.c", "    if (stream)\n", "    if (false)\n",
      "a run that is recorded may name a stream", "api_program")
fault("door-beyond-capacity", "src/api/api_batch.c", "batch->kv_lens[s] == batch->kv_capacities[s])", "false)",
      "sequences grow beyond their capacity", "api_batch")
fault("door-pages-unplanned", "src/api/api_batch.c", "    if (pages > batch->desc.max_pages)", "    if (false)",
      "a batch takes more pages than it has room for", "api_door")
fault("door-replaced-device", "engine/base/path.c", "    if (stat(path, &about) != 0 || S_ISREG(about.st_mode))", "    if (true)",
      "a new file takes the place of a device or a pipe", "cli_refuse")
fault("door-page-tables-wrap", "engine/model/settings.c", "options->max_sessions > INT32_MAX)", "options->max_sessions > INT64_MAX)",
      "page tables have more entries than can be numbered", "engine_refuse")
fault("door-cache-folder", "server/models.c", "    return !error || engine_fail(err,", "    return true || engine_fail(err,",
      "a folder that is none is found out when the server ends", "server_models")

# --- from call to call ----------------------------------------------------------------------------------
fault("left-decoded-twice", "engine/session/decode.c", "            if (draws[n].session == session)", "            if (false)",
      "a session is decoded twice at once", "engine_passes")
fault("left-decoded-too-far", "engine/session/decode.c", "steps > options->context_tokens - session->length)",
      "steps > options->context_tokens - session->length + 1)", "a chain goes a token beyond the context", "engine_passes")
fault("left-profiled-twice", "engine/session/profile.c", "            if (sessions[n] == sessions[i])", "            if (false)",
      "a session is profiled twice at once", "engine_passes")
fault("left-profile-takes-logits", "engine/session/profile.c",
      "fine = !worker->logits_owner[i] || session_save_logits(worker->logits_owner[i], err);", "fine = true;",
      "a profile writes over the logits of others", "engine_passes")
fault("left-link-of-longer-text", "engine/session/session.c", "        session->entered = 0;\n        session->link = 0;\n", "        session->entered = 0;\n",
      "pages of a text that was cut stand behind those that it had", "engine_prefixes")
fault("left-copy-uncounted", "engine/session/session.c", " + copy > page_pool_free_pages(pool))", " > page_pool_free_pages(pool))",
      "the copy of a shared page is not counted among those that are wanted", "engine_session", "engine_prefixes", "engine_passes")
fault("left-removed-page-rests", "engine/cache/prefix_index.c", "    prefix_index_wake(index, page);\n", "",
      "a page that is forgotten may be taken twice", "engine_prefixes", "engine_keep_pages")
fault("left-shared-page-rests", "engine/cache/page_pool.c", "    if (pool->holders[page]++ == 0)\n        prefix_index_wake(pool->index, page);",
      "    pool->holders[page]++;", "a remembered page that is taken up may be given away", "engine_prefixes")
fault("left-context-one-short", "engine/schedule/request.c", "    if (request->count > worker->settings.options.context_tokens)",
      "    if (request->count >= worker->settings.options.context_tokens)", "a request ends a token before its context is full", "engine_scheduler", "engine_scheduler_wishes")
