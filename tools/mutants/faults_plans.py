# SPDX-License-Identifier: MIT
"""Faults of sampling, plans and threads (fault.py)."""
from fault import fault

# --- sampling -----------------------------------------------------------------------------------------
P = ("weft-check --op sample --cases 20", "api_sample", "kernels_sample_uniform")
fault("penalty-presence-per-count", "src/kernels/sample/sample_steps.c",
      "own - (float)count * params->frequency_penalty - params->presence_penalty;",
      "own - (float)count * (params->frequency_penalty + params->presence_penalty);",
      "the presence penalty counts occurrences", *P)
fault("penalty-repetition-negative", "src/kernels/sample/sample_steps.c",
      "float own = logit > 0 ? logit / repetition : logit * repetition;", "float own = logit / repetition;",
      "the repetition penalty favours negative logits", *P)
fault("penalty-at-most-once", "src/kernels/sample/sample_steps.c",
      "        scratch->counts[history[i]]++;", "        scratch->counts[history[i]] = 1;",
      "occurrences are not counted", *P)
fault("seed-low-half", "src/kernels/sample/sample_steps.c",
      "key1 = (uint32_t)(seed >> 32);", "key1 = (uint32_t)(seed >> 63);",
      "half of the seed is lost", *P)
fault("philox-nine-rounds", "src/kernels/sample/sample_steps.c",
      "round < 10", "round < 9", "the random numbers are those of nine rounds", *P)
fault("top-p-of-all", "src/kernels/sample/sample_select.c",
      "double sum = has_top_k(row) ? 0 : row->sum;", "double sum = row->sum;",
      "top-p counts what top-k cut", *P)
fault("argmax-last-of-equals", "src/kernels/sample/sample_select.c",
      "return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);",
      "return logits[a] > logits[b] || (logits[a] == logits[b] && a > b);",
      "of equal logits the higher id is the likelier", *P)
fault("min-p-cut", "src/kernels/sample/sample_select.c",
      "weights[ids[i]] >= row->params->min_p) {", "weights[ids[i]] >= row->params->min_p * 0.98f) {",
      "min-p is 2 % too low", *P)

# --- plans and threads --------------------------------------------------------------------------------
fault("workspace-short", "src/plan/plan_attention.c",
      "!weft__mul_i64(launch->max_slots, states, &partial) ||", "!weft__mul_i64(launch->max_slots - (launch->max_slots > 0), states, &partial) ||",
      "the workspace lacks a partial tile", "plan_plan_attention", "kernels_golden_attention", "kernels_attention_threads", "weft-check --op attention --cases 20")
fault("pool-wakes-nobody", "src/backend/cpu/cpu_pool.c",
      "    pthread_cond_broadcast(&pool->wake);\n    pthread_mutex_unlock(&pool->lock);\n}\n\n// Workers take",
      "    pthread_mutex_unlock(&pool->lock);\n}\n\n// Workers take",
      "sleeping workers are not woken: the caller does everything", "backend_pool", "engine_threads")
fault("pool-workers-leave", "src/backend/cpu/cpu_pool.c",
      "    struct worker *worker = opaque;\n", "    struct worker *worker = opaque;\n    if (worker->number > 1)\n        return NULL;\n",
      "workers beyond the first leave at once", "backend_pool", "engine_threads")
fault("softmax-pieces-forget-one", "src/backend/cpu/cpu_rowwise.c",
      "    for (int32_t i = 0; i < count; i++)\n        sum += row->sums[i];",
      "    for (int32_t i = 1; i < count; i++)\n        sum += row->sums[i];",
      "the first piece of a long row does not count", "api_softmax")
fault("softmax-pieces-own-largest", "src/backend/cpu/cpu_rowwise.c",
      "row->largest[i] > largest ? row->largest[i] : largest;", "row->largest[i];",
      "the last piece's largest element is taken for the row's", "api_softmax")
fault("activation-pieces-gate", "src/backend/cpu/cpu_rowwise.c",
      "int64_t up_at = row * args->up_stride + i;", "int64_t up_at = row * args->up_stride;",
      "pieces of a long row are multiplied by its beginning", "weft-check --op activation --cases 60")
