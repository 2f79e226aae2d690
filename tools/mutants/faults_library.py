# SPDX-License-Identifier: MIT
"""Faults of the library (fault.py)."""
from fault import fault

# --- attention ----------------------------------------------------------------------------------------
A = ("kernels_golden_attention", "kernels_attention_threads", "weft-check --op attention --cases 20")
C = ("cuda_standin_attention", "cuda_standin_attention_choice")
fault("cuda-single-threads", "src/kernels/attention/attention_single_cuda.c",
      "(uint32_t)(desc->kv.head_dim + 31) / 32 * 32;", "(uint32_t)desc->kv.head_dim;",
      "a block has no whole warps", *C)
fault("cuda-mask-value-as-mask", "src/kernels/attention/attention_cuda.c",
      " || desc->flags & WEFT_ATTENTION_MASK_VALUE)", ")",
      "kernels of tensor cores take mask values for masks", *C)
fault("cuda-any-tile-too-large", "src/kernels/attention/attention_any_cuda.c",
      "limits->shared_per_block && c.WEFT_ROWS > 1)", "limits->shared_per_sm && c.WEFT_ROWS > 1 && false)",
      "tiles do not follow the shared memory of the GPU", *C)
L = ("cuda_linear_shape", "cuda_standin_linear")
fault("cuda-tier-step", "src/kernels/linear/linear_cuda_shape.h",
      "m->groups * 16 > tier->wide_rows;", "m->groups * 16 >= tier->wide_rows;",
      "a matrix of just the threshold's rows has the wide form", *L)
fault("cuda-tuned-always", "src/backend/cuda/cuda_run.c",
      "        desc->flags & (WEFT_LINEAR_EXACT | WEFT_LINEAR_BATCH_INVARIANT))\n        return;", "        false)\n        return;",
      "plans that promise bits follow the machine's table", *L)
fault("cuda-groups-of-any-width", "src/kernels/linear/linear_cuda.c",
      "part->scale_cols == weft_dtype_block_elems(dtype) && part->scale_rows == 1 &&", "part->scale_rows == 1 &&",
      "scales of other groups than the format's go into tiles", *L)
fault("cuda-slab-biases", "src/backend/cuda/cuda_pack.c",
      "*planes[i] = at;", "*planes[0] = at;",
      "biases go where scales belong", *L)
fault("cuda-chunks-past-tiles", "src/kernels/attention/attention_division_cuda.c",
      "launch->splits = at_most(desc->num_splits, most);", "launch->splits = desc->num_splits;",
      "an item may have more chunks than tiles", *C)
fault("cuda-one-sequence-of-many-rows", "src/kernels/attention/attention_division_cuda.c",
      "num_seqs == 1 && launch->most_rows <= launch->few_rows;", "num_seqs == 1;",
      "a run of several row tiles gets blocks for one", *C)
fault("cuda-early-over-another-batch", "src/backend/cuda/cuda_batch.c",
      ": atomic_load(&cuda->appended);", ": NULL;",
      "attention starts before what another batch appends is there", "cuda_standin_plans")
fault("window-one-wider", "src/kernels/attention/attention_kernel.h",
      "own - mask->window + 1 : 0", "own - mask->window : 0",
      "windows are one key wider", *A)
fault("causal-one-short", "src/kernels/attention/attention_kernel.h",
      "    if (mask->kind == WEFT_MASK_CAUSAL)\n        end = own + 1;", "    if (mask->kind == WEFT_MASK_CAUSAL)\n        end = own;",
      "a query does not see its own key", *A)
fault("invariant-chunks-of-batch", "src/kernels/attention/attention_work.c",
      "        return launch->chunk_keys;\n    int64_t keys = 0,",
      "        return launch->chunk_keys + (launch->chunk_keys ? 64 * (lengths->num_seqs - 1) : 0);\n    int64_t keys = 0,",
      "chunks of the batch-invariant mode depend on the batch", "plan_plan_attention", *A, "kernels_attention_lengths")
fault("many-tiles-split", "src/kernels/attention/attention_work.c",
      "keys >= WEFT__ATTENTION_MANY_TILES * longest &&", "keys < 0 &&",
      "keys are split however many tiles there are", "plan_plan_attention")
fault("many-tiles-by-number", "src/kernels/attention/attention_work.c",
      "longest = span > longest ? span : longest;", "longest = span;",
      "a long sequence among short ones is not split", "plan_plan_attention")
fault("longest-span-first-tile", "src/kernels/attention/attention_work.c",
      "const int32_t tiles[] = {0, last > 0 ? last - 1 : 0, last};",
      "const int32_t tiles[] = {last, last > 0 ? last - 1 : 0, last};",
      "the first tile, which sees most of a full mask with a window, is not looked at",
      "plan_plan_attention", *A, "kernels_attention_lengths")
T = ("kernels_attention_tiles",)
fault("masks-not-counted", "src/kernels/attention/attention_simd.h",
      "        masked += some && mask;\n", "        masked += some;\n",
      "blocks that are seen whole count as masked", *T)
fault("generic-not-taken", "src/kernels/attention/attention_simd.h",
      "bool mask = begin > 0 || end < BLOCK || generic, some", "bool mask = begin > 0 || end < BLOCK, some",
      "the generic path does not mask every block", *T)
fault("block-keys-unbounded", "src/api/api_attention.c",
      "desc->block_keys > WEFT__ATTENTION_BLOCK)", "desc->block_keys > 2 * WEFT__ATTENTION_BLOCK)",
      "blocks may be longer than their room", *T)
fault("tile-heads-first", "src/kernels/attention/attention_work.c",
      "    at.kv_head = at.first_head / launch->group_size;\n", "    at.kv_head = at.first_head / launch->tile_heads;\n",
      "heads of a part of a group read another KV head", *T, "weft-check --op attention --cases 20")
fault("budget-not-kept", "src/plan/plan_attention.c",
      "           (int64_t)plan->workspace_bytes > desc->max_workspace_bytes && shrink(launch))",
      "           (int64_t)plan->workspace_bytes > 2 * desc->max_workspace_bytes && shrink(launch))",
      "a budget is refused that smaller tiles would keep", *T)
fault("budget-without-results", "src/api/api_attention_parts.c",
      "desc->max_workspace_bytes - results : 1;", "desc->max_workspace_bytes : 1;",
      "results that wait to be rounded are not of the budget", *T)
fault("nibbles-always-low", "src/kernels/attention/attention_load.h",
      "block->q + (part & 15), part >= 16, levels_q5_0)", "block->q + (part & 15), false, levels_q5_0)",
      "the upper half of a q5_0 block of the cache is read as the lower", *T, "weft-check --op attention --cases 20")
fault("told-sums-of-first-chunk", "src/kernels/attention/attention_state.c",
      "                report->exp_sums[at + c] = state[dim + 1];\n", "                report->exp_sums[at + c] = slots[dim + 1];\n",
      "every chunk is told the sum of the first row's first", *T)
fault("scores-off", "src/kernels/attention/attention_simd.h",
      "s.unit = fabsf(call->scale) *", "s.unit = 1.000003f * fabsf(call->scale) *",
      "scores are off by 3e-6 of themselves", *A)
fault("exp2-degree-short", "src/kernels/cpu/vf32_math.h",
      "{0x1.41fbbcp-13f,", "{0.0f,",
      "the polynomial of exp2 lacks its last degree", "kernels_attention_threads", *A, "kernels_golden_ops")
fault("softcap-after-mask", "src/kernels/attention/attention_simd.h",
      "vf32_set1(s->call->softcap * LOG2E)", "vf32_set1(s->call->softcap)",
      "the soft-cap is in other units than the scores", *A)
fault("sum-not-shrunk", "src/kernels/attention/attention_simd.h",
      "s->sum[row + r] = s->sum[row + r] * shrink + vf32_sum(total[r]);",
      "s->sum[row + r] = s->sum[row + r] + vf32_sum(total[r]);",
      "the running sum is not rescaled", *A)
fault("lanes-of-the-other-batch", "src/kernels/attention/attention_few.h",
      "store_scores(shape, sums[(batches - 1) % 2],", "store_scores(shape, sums[batches % 2],",
      "the scores of a batch are those of the one beside it", *A)
fault("edges-weighed-whole", "src/kernels/attention/attention_simd.h",
      "seen.end < first_key + BLOCK || n < BLOCK)", "n < BLOCK)",
      "rows that see a part of a block are weighed as if they saw all", *A)
fault("page-walk-head-offset", "src/kernels/attention/attention_walk.h",
      "c->slot * stride + c->head_offset;", "c->slot * stride;",
      "all heads read the keys of the first", *A)

P = ("kernels_attention_threads", "weft-check --op attention --cases 40")
fault("pairs-wild-values-multiplied", "src/kernels/attention/attention_pairs_avx512bf16.c",
      "    const bool wild = has_wild_values(s, kv);", "    const bool wild = false && has_wild_values(s, kv);",
      "an infinity that a row does not see is multiplied by its weight of 0", "weft-check --op attention --cases 40")
fault("pairs-scattered-too-late", "src/kernels/attention/attention_walk.h",
      "    return lengths->kv_lens[seq] - columns;\n", "    return lengths->kv_lens[seq] - columns / 2;\n",
      "trees and bits are not looked at where they begin", *P)
fault("parts-of-the-first-rows", "src/kernels/attention/attention_parts.h",
      "q + (i * FOURS + four) * width", "q + i * FOURS * width",
      "of eight rows of f16 the first four have the queries of the others", "weft-check --variant attention_f16_avx512 --cases 40")
fault("few-see-whole-trees", "src/kernels/attention/attention_simd.h",
      "    s->scattered = *masked;\n", "    s->scattered = false;\n",
      "keys of a tree count for rows that do not see them", "kernels_attention_trees")
fault("infinite-scale-for-all", "src/kernels/attention/attention_widen_avx512.h",
      "_mm512_mask_mul_ps(p, seen, p, scales)", "_mm512_mul_ps(p, scales)",
      "an infinite scale is NaN for rows that do not see its key", "kernels_attention_scales")
fault("pairs-sum-not-shrunk", "src/kernels/attention/attention_codes_avx512bf16.h",
      "vf32_fma(_mm512_loadu_ps(s->sum + b * LANES), shrink, sum));",
      "vf32_add(_mm512_loadu_ps(s->sum + b * LANES), sum));",
      "the running sum of pairs is not rescaled", *P)

fault("pairs-second-four-weighs-as-the-first", "src/kernels/attention/attention_bf16_values_avx512bf16.h",
      "weight + (lanes == LANES ? r : r / 4 * PAIRS * 4 + r % 4)", "weight + (lanes == LANES ? r : r % 4)",
      "of eight rows of bf16 the last four have the weights of the first", "weft-check --variant attention_bf16_avx512bf16 --cases 60")
fault("pairs-heads-read-the-next", "src/kernels/attention/attention_pairs_heads.h",
      "        at[i] = lead_at[i] + h * stride;\n", "        at[i] = next[i] + of_next;\n",
      "heads that are read together have the keys of their neighbours", "kernels_attention_threads")
fault("few-heads-read-the-first", "src/kernels/attention/attention_few_heads.h",
      "const int64_t k = h * s->call->k.head_stride,", "const int64_t k = 0 * h * s->call->k.head_stride,",
      "heads whose few rows go together have the keys of the first", "kernels_attention_threads")
fault("codes-first-key-twice", "src/kernels/attention/attention_codes_avx512bf16.h",
      "const char *from = pool + at[j] + column;", "const char *from = pool + at[0] + column;",
      "of two keys of codes the first is scored twice", "weft-check --variant attention_fp8_e4m3_avx512bf16 --cases 40")
FA = ("weft-check-amx --variant attention_fp8_e4m3_amx --cases 40",)
fault("few-on-tiles-not-shrunk", "src/kernels/attention/attention_few_rows_amx.h",
      "vf32_mul(vf32_set1(s->shrink[lane_of(lanes, r)]), vf32_load(acc))", "vf32_load(acc)",
      "results of few rows on AMX are not rescaled", *FA)
fault("few-on-tiles-rows-swapped", "src/kernels/attention/attention_few_rows_amx.h",
      "lanes / 4 * i + odd) * 32, rows[i]", "lanes / 4 * i) * 32, rows[i]",
      "of eight rows on AMX each second has the weights of the one before", *FA)
fault("few-on-tiles-keys-of-skipped", "src/kernels/attention/attention_few_amx.c",
      "        f->ready = false;", "        f->ready = true;",
      "behind a block that no row sees, few rows on AMX have other keys", "weft-check-amx --variant attention_fp8_e5m2_amx --seed 4200 --cases 60")
fault("few-on-tiles-seen-of-next", "src/kernels/attention/attention_few_amx.c",
      "s->seen += f->odd ? LANES : 0;", "s->seen += f->odd ? 0 : 0;",
      "few rows on AMX see of a block what they see of the next", "weft-check-amx --variant attention_fp8_e5m2_amx --seed 4200 --cases 60")
FH = ("weft-check-amx --variant attention_f16_amx --seed 4200 --cases 60",)
fault("few-f16-second-parts", "src/kernels/attention/attention_few_amx.c",
      "tile_load(5, values + rest, TILE_ROW_BYTES);", "tile_zero(5);",
      "few rows of f16 on AMX leave out the second parts of values", *FH)
fault("few-f16-wild-values", "src/kernels/attention/attention_few_turns_amx.h",
      "if (is_wild_f16(largest))", "if (false)",
      "few rows of f16 on AMX take infinite values for two parts", "weft-check-amx --variant attention_f16_amx --seed 9318 --cases 1")
fault("few-f16-wild-keys", "src/kernels/attention/attention_few_rows_amx.h",
      "if (late->wild_queries || is_wild_key(s, late->at[key]))", "if (late->wild_queries)",
      "few rows of f16 on AMX make scores of infinite keys from two parts", *FH)

# --- linear -------------------------------------------------------------------------------------------
L = ("kernels_golden_linear", "weft-check --op linear --cases 20", "engine_logits")
VT = ("weft-check --variant linear_q6_k_q8_avx512vnni --cases 20", *L)
I8 = ("weft-check --variant attention_int8_avx512vnni --cases 120",)
fault("integers-of-12-bits", "src/kernels/attention/attention_int8_avx512vnni.c", "WEIGHT_MOST = INT16_MAX", "WEIGHT_MOST = 4095",
      "weights of int8 caches have 12 bits", *I8)
fault("integers-value-twice", "src/kernels/attention/attention_int8_avx512vnni.c", "load_half(pool + at[1] + i * GROUP", "load_half(pool + at[0] + i * GROUP",
      "of two values of an int8 cache the first is taken twice", *I8)
fault("integers-wild-to-all", "src/kernels/attention/attention_int8_avx512vnni.c", "if (s->seen[r] >> j & 1)", "if (s->block)",
      "an infinite scale reaches rows that do not see its key", "kernels_attention_scales")
BF = ("weft-check --variant linear_bf16_bf16_panel_avx512bf16 --cases 40",)
BL = ("weft-check --variant linear_bf16_bf16_lines_avx512bf16 --cases 40",)
VP = ("weft-check --variant linear_q4_k_q8_panel_avx512vnni --cases 20", *L)
FT = ("weft-check --variant linear_f32_f32_avx2 --cases 20", *L)
FP = ("weft-check --variant linear_f32_f32_panel_avx2 --cases 20", *L)
PK = ("weft-check --variant linear_q4_k_q8_packed_avx512vnni --cases 20", "weft-check --variant linear_q6_k_q8_packed_avx512vnni --cases 20",
      "engine_demo")
fault("packed-minimum-of-next", "src/kernels/linear/linear_packed_groups_avx512.h", "entry(head->entry[8 + g])", "entry(head->entry[8 + (g ^ 1)])",
      "packed q4_k takes its neighbour's minimum", *PK)
fault("packed-chunk-goes-on", "src/kernels/linear/linear_packed_avx512vnni.c", "sum[j] = place == FIRST ? _mm512_setzero_ps() : acc[j];", "sum[j] = acc[j];",
      "among many rows of X a chunk's sum begins with the last one's", *PK)
fault("packed-minimum-of-first-half", "src/kernels/linear/linear_packed_groups_avx512.h", "entry(head->minimum[2 * g + i])", "entry(head->minimum[2 * g])",
      "packed q2_k takes the minimum of a group's first half for both", "weft-check --variant linear_q2_k_q8_packed_avx512vnni --cases 20")
fault("packed-pairs-place", "src/kernels/linear/linear_packed_groups_avx512.h", "moved(pairs[i / 4], 4 - 2 * (i % 4))", "moved(pairs[i / 4], 4 - 2 * (i % 3))",
      "packed q6_k finds the top bits of a quad in another's place", *PK)
Q5 = ("weft-check --variant linear_q5_1_q8_packed_avx512vnni --cases 20", "kernels_linear_corners")
fault("packed-minimum-added", "src/kernels/linear/linear_pack_avx512vnni.c", "_mm512_xor_si512(halves, _mm512_set1_epi32(0x8000))", "halves",
      "minima of packed q4_1 and q5_1 are taken off where they are to be added", *Q5)
fault("packed-fifths-place", "src/kernels/linear/linear_pack_avx512vnni.c", "_mm512_slli_epi32(v, 8u * (unsigned)b)", "_mm512_slli_epi32(v, 8u * (3u - (unsigned)b))",
      "packed q5_0 and q5_1 have the fifth bit of another column of the quad", *Q5)
fault("packed-second-scale", "src/kernels/linear/linear_packed_groups_avx512.h", "load_halves(chunk + 64 + 32 * g)", "load_halves(chunk + 64)",
      "packed q4_1 takes a minimum for two blocks", "weft-check --variant linear_q4_1_q8_packed_avx512vnni --cases 20", "kernels_linear_corners")
fault("packed-scaled-codes", "src/kernels/linear/linear_packed_groups_avx512.h", "scaled_codes_q3_k(head->entry[2 * g + p], table)", "scaled_codes_q3_k(head->entry[2 * g], table)",
      "packed q3_k by many rows of X has one scale for two sixteens", "weft-check --variant linear_q3_k_q8_packed_avx512vnni --cases 60")
fault("packed-many-in-any-mode", "src/kernels/linear/linear_kernel.h", "return call->run_batch > WEFT__FEW_ROWS && !call->invariant;", "return call->run_batch > WEFT__FEW_ROWS;",
      "packed q3_k has other bits among many rows of X in the batch-invariant mode", "weft-check --variant linear_q3_k_q8_packed_avx512vnni --cases 200")
fault("packed-chains", "src/kernels/linear/linear_packed_few_avx512.h", "i = two ? 4 * p + n / 2 : n;", "i = two ? 4 * p + n % 4 : n;",
      "a group's chains take columns twice", *PK)
fault("packed-once-first-scale", "src/kernels/linear/linear_packed_few_avx512.h", "w[j].scale[1], first)", "w[j].scale[0], first)",
      "packed q6_k by many rows of X has the first sixteen's scale for both", "weft-check --variant linear_q6_k_q8_packed_avx512vnni --cases 20")
fault("packed-forgets-sums", "src/kernels/linear/linear_packed_few_avx512.h", "return columns < 256 ? 256 : columns;", "return columns < 256 ? 256 : cols;",
      "long rows of packed weights are one sum", "weft-check --variant linear_q8_0_q8_packed_avx512vnni --cases 200")
fault("next-norm-one-short", "src/backend/cpu/cpu_linear_finish.c",
      "row.squares[r / WEFT__ROUNDED_STEP] = sum_of_squares(value, n);",
      "row.squares[r / WEFT__ROUNDED_STEP] = sum_of_squares(value, n - 1);",
      "the norm of what follows a product leaves out a number of 128", "weft-check --variant linear_q8_0_q8_avx2 --cases 200")
fault("packed-parts-overlap", "src/kernels/linear/linear_packed_avx512vnni.c", "row1 - row < rows ? row1 : row + rows, col,", "row1 - row < rows ? row1 : row + rows - 16, col,",
      "of panels that go in parts the last of a part is left out", "kernels_linear_corners")
fault("packed-layout-of-all", "src/api/api_linear_pack.c", "(experts || weft_linear_packed_bytes(plan, part)) &&\n                   weft__api_packed_by_device(plan, part)",
      "(experts || weft_linear_packed_bytes(plan, part))", "every format has a layout of its own, by its name", "api_linear_packed")
fault("stream-skips-a-row", "src/kernels/linear/linear_f32_gemm.h", "weft__f32_is_stream(call, alone) && row0 < row1; row0++)", "weft__f32_is_stream(call, alone) && row0 + 1 < row1; row0 += 2)",
      "a row in two of plain weights is not multiplied", "weft-check --variant linear_f32_f32_avx512 --cases 40")
fault("pairs-for-three", "src/kernels/linear/linear_f32_gemm.h", "weft__f32_multiply_tile(call, row0, 2, 0, 4, two)", "weft__f32_multiply_tile(call, row0, 2, 0, 2, two)",
      "of three rows of X and more by plain weights two are multiplied, where the CPU asks far ahead", "weft-check --variant linear_bf16_f32_avx512 --cases 40")
fault("vnni-rows-from-48", "src/kernels/linear/linear_gemm_avx512.h",
      "    for (int32_t c = 0; c < cols; c++)\n        for (int half = 0; 16 * half < rows; half++) {",
      "    for (int32_t c = 0; c < cols && c < 48; c++)\n        for (int half = 0; 16 * half < rows; half++) {",
      "panels ignore rows of the batch from 48 on", *VP)
fault("vnni-second-tile", "src/kernels/linear/linear_gemm_avx512.h",
      "for (int32_t col = 0; col < call->batch; col += tile)", "for (int32_t col = 0; col < 1; col += tile)",
      "a second tile of the batch is left out", *VP)
fault("bf16-place-in-six", "src/kernels/linear/linear_bf16_avx512bf16.c",
      "stride + in_six * 32,", "stride + (in_six + 1) % STEP_COLS * 32,",
      "a row of X takes the place of its neighbour in the six", *BF)
fault("bf16-second-tile", "src/kernels/linear/linear_bf16_avx512bf16.c",
      "for (int32_t col = 0; col < call->batch; col += tile)", "for (int32_t col = 0; col < 1; col += tile)",
      "a second tile of the batch is left out", *BF)
fault("bf16-third-of-tail", "src/kernels/linear/linear_bf16_avx512bf16.c",
      "if (c + 2 < cols)", "if (c + 3 < cols)",
      "a third row of X after the sixes is left out", *BF)
fault("bf16-rows-repeat-none", "src/kernels/linear/linear_bf16_avx512bf16.c",
      "(col + (c < there ? c : there - 1)) * stride + k", "(col + (c < there ? 0 : there - 1)) * stride + k",
      "rows of X that lie one after another are the first of their step",
      "weft-check --variant linear_f16_bf16_rows_avx512bf16 --cases 20")
fault("bf16-lines-last-chunk", "src/kernels/linear/linear_bf16_lines_avx512.h",
      "chunk->k ? _mm512_add_ps(*to, acc[c][r]) : acc[c][r];", "acc[c][r];",
      "some rows of X have the last columns' sum alone", *BL)
fault("bf16-lines-second-tile", "src/kernels/linear/linear_bf16_lines_avx512.h",
      "for (int32_t col = 0; col < call->batch; col += LINES_BATCH)", "for (int32_t col = 0; col < 1; col += LINES_BATCH)",
      "lines by name leave out what is more than 36 rows of X", *BL)
fault("bf16-lines-read-behind-a-row", "src/kernels/linear/linear_bf16_lines_avx512.h",
      "!way.in_place || chunk->columns % LINES_BLOCK", "!way.in_place",
      "the last columns of a row are multiplied with the next row's", *BL)
fault("linear-first-range-serves-all", "src/backend/cpu/cpu_linear_choose.c",
      "while (++wanted.batch <= most)", "for (wanted.batch = most + 1; false;)",
      "a better kernel of some rows of X is not asked", "backend_dispatch")
fault("bf16-lines-first-half", "src/kernels/linear/linear_bf16_lines_avx512.h",
      "lines_rows(p, call, at + first, first,", "lines_rows(p, call, at, first,",
      "of sixteen long rows of W the first eight are taken twice", "kernels_linear_corners")
fault("bf16-lines-repeat-none", "src/kernels/linear/linear_bf16_lines_avx512.h",
      "col + c < call->batch ? col + c : call->batch - 1", "col + c < call->batch ? col : call->batch - 1",
      "rows of X that lie one after another are the first of their step",
      "weft-check --variant linear_f16_bf16_rows_avx512bf16 --cases 20")
fault("bf16-taken-for-the-first", "src/backend/cpu/cpu_linear_run.c",
      "{taker->m0 + m, taker->m0 + m + count, row,", "{taker->m0, taker->m0 + count, row,",
      "what follows a panel's product is done for its first rows of X alone", "api_linear_function", *BF)
fault("f32-second-tile", "src/kernels/linear/linear_f32_gemm.h",
      "for (int32_t col = 0; col < call->batch; col += tile)", "for (int32_t col = 0; col < 1; col += tile)",
      "a second tile of the batch is left out", *FP)
fault("f32-no-fold", "src/kernels/linear/linear_f32_gemm.h",
      "        if (k > 0 && k % WEFT__F32_FOLD == 0)", "        if (k > 0 && k == WEFT__F32_FOLD * 1000)",
      "long rows keep one sum", *FP)
fault("f32-tiles-one-sum", "src/kernels/linear/linear_f32.h",
      "const int64_t chunk = weft__linear_chunk(call->cols, VF32_LANES);", "const int64_t chunk = call->cols;",
      "f32 tiles keep one sum over a whole row", *FT)
fault("vnni-tiles-one-sum", "src/kernels/linear/linear_q8_avx512vnni.c",
      "const int64_t chunk = weft__linear_chunk(call->cols, step);", "const int64_t chunk = call->cols;",
      "VNNI tiles keep one sum over a whole row", *VT)
fault("avx2-tiles-one-sum", "src/kernels/linear/linear_q8_avx2.c",
      "const int64_t chunk = weft__linear_chunk(call->cols, 32);", "const int64_t chunk = call->cols;",
      "AVX2 tiles of rounded activations keep one sum over a whole row",
      "weft-check --variant linear_q6_k_q8_avx2 --cases 20", *L)
fault("any-tiles-one-sum", "src/kernels/linear/linear_any_rows.h",
      "const int64_t chunk = weft__linear_chunk(call->cols, VF32_LANES);", "const int64_t chunk = call->cols;",
      "tiles of any format keep one sum over a whole row",
      "weft-check --variant linear_q3_k_f32_any_avx2 --cases 20", *L)
fault("vnni-no-fold", "src/kernels/linear/linear_gemm_avx512.h",
      "        if (k > 0 && k % FOLD == 0)", "        if (k > 0 && k == FOLD * 1000)",
      "VNNI panels keep one sum of chunks over a whole row", *VP)
fault("tiny-groups-are-zero", "src/kernels/linear/linear_round.h",
      "largest >= 0x1p-120f", "largest >= 0x1p-100f",
      "groups below 2^-100 are rounded to 0", "weft-check --op round --cases 20",
      "weft-check --variant linear_q8_0_q8_avx2 --cases 20", *L)
fault("rounded-scale-of-126", "src/kernels/linear/linear_round.h",
      "? 127.0f / largest", "? 126.0f / largest",
      "activations are rounded to 126 steps", "weft-check --op round --cases 20",
      "weft-check --variant linear_q8_0_q8_avx2 --cases 20", *L)
fault("q4-k-minimum-added", "src/kernels/linear/linear_gemm_avx512.h",
      "_mm512_fnmadd_ps(p->minimum[group][half]", "_mm512_fmadd_ps(p->minimum[group][half]",
      "the minimum of Q4_K is added", *VP)
fault("q4-k-high-scales", "src/formats/q4_k.h",
      "*m = (uint8_t)((scales[j + 4] >> 4) | (scales[j] >> 6) << 4);", "*m = (uint8_t)((scales[j + 4] >> 4) | (scales[j - 4] >> 6) << 4);",
      "the upper minima of Q4_K take bits of the scales", "kernels_golden_dequant", *L)

# --- the other operations -----------------------------------------------------------------------------
O = ("kernels_golden_ops",)
fault("norm-squares-in-f32", "src/kernels/norm/norm_simd.h",
      "            total[j] = vf64_fma(wide, wide, total[j]);",
      "            total[j] = vf64_widen(vf64_narrow(vf64_fma(wide, wide, total[j])));",
      "the norm's squares are summed in f32", *O, "weft-check --op norm --cases 20")
fault("norm-no-eps", "src/kernels/norm/norm_simd.h",
      "double exact = 1 / sqrt(mean_square + launch->eps);", "double exact = 1 / sqrt(mean_square);",
      "RMSNorm forgets epsilon", *O, "weft-check --op norm --cases 20")
fault("norm-wide-rows", "src/kernels/norm/norm_simd.h",
      "    if (!(exact >= FLT_MIN && exact <= FLT_MAX)) {", "    if (false) {",
      "rows near the ends of f32 overflow", "api_norm", "weft-check --op norm --cases 20")
fault("softmax-not-shifted", "src/kernels/softmax/softmax_kernel.h",
      "{half, -most * half, scale / half}", "{half, -most * half * 0.999f, scale / half}",
      "softmax subtracts less than the largest", *O, "api_softmax", "weft-check --op softmax --cases 20")
fault("softmax-without-half", "src/kernels/softmax/softmax_kernel.h",
      "half = fabsf(scale) < 1 ? 0.5f : 1, most", "half = 1, most",
      "a row from end to end of f32 overflows", "api_softmax", "weft-check --op softmax --cases 20")
fault("gelu-tail", "src/kernels/activation/activation_simd.h",
      "-0.4592238913f,", "-0.4591f,",
      "the tail of GELU is off by 1e-4", *O, "weft-check --op activation --cases 20")
fault("gated-without-up", "src/kernels/activation/activation_simd.h",
      "vf32_load_element(args->up, x_dtype, at->up + i, n)", "vf32_load_element(args->x, x_dtype, at->x + i, n)",
      "the gate multiplies itself", *O, "weft-check --op activation --cases 20")
fault("rope-wrong-turn", "src/kernels/rope/rope_simd.h",
      "y[i + 1] = b * cosine + a * sine;", "y[i + 1] = b * cosine - a * sine;",
      "pairs at the end of a head turn the wrong way", "weft-check --op rope --cases 20", *O)
fault("rope-yarn-ramp", "src/kernels/rope/rope_frequencies.c",
      "double low = floor(", "double low = ceil(",
      "YaRN's ramp begins a pair late", "weft-check --op rope --cases 20", "api_rope", *O)
fault("rope-llama3-default", "src/kernels/rope/rope_frequencies.c",
      "or_default(params->high_freq_factor, 4)", "or_default(params->high_freq_factor, 8)",
      "llama3's usual upper factor is 8", "weft-check --op rope --cases 20", "api_rope")
fault("rope-yarn-magnitude", "src/kernels/rope/rope_frequencies.c",
      "return (float)(0.1 * log(params->factor) + 1);", "return 1;",
      "YaRN's own factor is 1", "weft-check --op rope --cases 20", "api_rope", "engine_logits")
fault("kv-page-stride", "src/backend/cpu/cpu_kv.c",
      "        .page_stride = plane->page_stride,", "        .page_stride = plane->token_stride * 0 + plane->head_stride * 0 + dim,",
      "append ignores the page stride", "weft-check --op kv --cases 20")
fault("kv-narrow-head-zero", "src/kernels/kv/kv_append.c",
      "        k += targets[0].dim, v += targets[1].dim;\n", "        k += targets[0].dim;\n",
      "the values of every head are those of the first", "api_dtypes", "weft-check --op kv --cases 20")
fault("kv-queries-in-place-lost", "src/kernels/kv/kv_append.c",
      "        if (q == room)\n", "        if (!call->q)\n",
      "queries of 16 bits are not rotated in place", "api_dtypes", "weft-check --op kv --cases 20")
fault("kv-narrow-beyond-rotary", "src/kernels/kv/kv_append.c",
      "const float *q = widened(call->q, launch->x_dtype, at, dim, room);",
      "const float *q = widened(call->q, launch->x_dtype, at, rotary_dim, room);",
      "queries of 16 bits are handed on without what is not rotated",
      "api_dtypes", "weft-check --op kv --cases 40")
fault("append-inputs-f32", "src/api/api_attention_parts.c",
      "                                        .x_dtype = desc->q_dtype,\n", "",
      "attention that appends reads 16-bit inputs as f32", "weft-check --op attention --cases 20")
fault("experts-residual-lost", "src/backend/cpu/cpu_experts_run.c",
      "        residual = residual ? row : NULL;\n", "        residual = NULL;\n",
      "a residual of 16 bits is not added", "weft-check --op experts --cases 20")
fault("experts-x-not-widened", "src/backend/cpu/cpu_experts_run.c",
      "    if (launch->tokens.f32 >= 0 || launch->tokens.rounded >= 0 ||",
      "    if (launch->inner.norm.kernel || launch->tokens.rounded >= 0 ||",
      "tokens of 16 bits without a norm are never widened", "weft-check --op experts --cases 40")
fault("experts-first-choice-only", "src/backend/cpu/cpu_experts_run.c",
      "ones : args->weights + token * k,", "ones : args->weights + token,",
      "a token's experts are weighed by its neighbours' weights", "weft-check --op experts --cases 20")
fault("experts-duplicate-choices", "src/backend/cpu/cpu_experts_run.c",
      "|| work->places[order[i]] >= 0)", ")",
      "a choice may stand twice in the order", "api_experts", "api_hostile")
fault("experts-summed-early", "src/backend/cpu/cpu_experts_run.c",
      "atomic_init(&work->down_left[i], work->active);", "atomic_init(&work->down_left[i], work->active - 1);",
      "columns are summed before the last expert's are there", "weft-check --op experts --cases 40")
fault("experts-rounded-early", "src/backend/cpu/cpu_experts_run.c",
      "atomic_init(&work->inner_left[i], inner);", "atomic_init(&work->inner_left[i], 1);",
      "an expert's row is rounded when its first piece is there", "weft-check --op experts --cases 80")
fault("experts-plain-times-up", "src/backend/cpu/cpu_experts_pieces.c",
      ".up = plain ? NULL : work->up + first,", ".up = work->up + first,",
      "experts without a gate are multiplied by what nobody made", "api_experts", "weft-check --op experts --cases 20")
fault("experts-plain-reads-three", "src/backend/cpu/cpu_experts.c",
      "(desc->flags & WEFT_EXPERTS_PLAIN ? 2 : 1)", "1",
      "experts without a gate count a product that they have not", "api_experts")
fault("experts-alone-joins-two", "src/kernels/experts/experts_steps_cuda.c",
      ".num_parts = weft__experts_is_alone(desc) ? 1 : 2,", ".num_parts = 2,",
      "experts without a gate ask a GPU for a matrix that is not there", "cuda_standin_experts")
fault("experts-alone-launches-three", "src/kernels/experts/experts_steps_cuda.c",
      "        if (weft__experts_lacks(desc, p))\n            continue;\n", "",
      "experts without a gate launch a product that they have not", "cuda_standin_experts")
fault("experts-adapters-of-the-first", "src/backend/cpu/cpu_experts_pieces.c",
      "(const unsigned char *)weight + e * rows * call.weight_stride_bytes", "(const unsigned char *)weight",
      "all experts have the adapter of the first", "weft-check --op experts --cases 40", "engine_adapters")
fault("experts-adapters-read-others", "src/backend/cpu/cpu_experts_pieces.c",
      "return work->x + work->args->order[index] / work->desc->top_k * work->x_stride;", "return work->x + index / work->desc->top_k * work->x_stride;",
      "adapters read the rows of other tokens", "weft-check --op experts --cases 40", "engine_adapters")
fault("experts-input-weighed-twice", "src/backend/cpu/cpu_experts_run.c",
      ".weights = work->factors ? ones : args->weights", ".weights = args->weights",
      "what weighed experts' input weighs their results, too", "api_experts", "weft-check --op experts --cases 20")
fault("experts-input-weighed-by-choice", "src/backend/cpu/cpu_experts_run.c",
      "work->factors[i] = work->args->weights[order[i]];", "work->factors[i] = work->args->weights[i];",
      "rows that are sorted by expert are weighed in the order they came", "weft-check --op experts --cases 20")
fault("kv-queries-grow-late", "src/kernels/kv/kv_append.c",
      "((int64_t)call->positions[token] + 1) / launch->q_growth_length", "(int64_t)call->positions[token] / launch->q_growth_length",
      "queries grow a token late", "weft-check --op kv --cases 40", "engine_logits")
fault("kv-keys-apart-grow", "src/kernels/kv/kv_append.c",
      "const int32_t touched = by != 1 ? dim :", "const int32_t touched = by != 1 ? dim / 2 :",
      "half a head grows", "weft-check --op kv --cases 40")
fault("pages-lose-their-scales", "src/kernels/pages/pages_move.c",
      "return scaling && from->scale_page_stride", "return scaling && !from->scale_page_stride",
      "scales stay where they were", "weft-check --op pages --cases 60")
fault("pages-values-in-keys-twice", "src/kernels/pages/pages_move.c",
      "    if (!weft__pages_in_keys(layout, &args->from) || !weft__pages_in_keys(layout, &args->to))\n", "",
      "values that lie in the keys are exchanged twice", "weft-check --op pages --cases 200")
fault("pages-owned-again", "src/kernels/pages/pages_ref.c",
      "        move->references[page]--;\n", "",
      "who lets go of a page still counts as an owner", "api_pages", "weft-check --op pages --cases 60")
fault("pages-count-unread", "src/kernels/pages/pages_ref.c",
      "move->count_at ? *move->count_at : move->count", "move->count",
      "the number of pairs is not read", "api_pages", "weft-check --op pages --cases 60")
fault("experts-alone-gathered-by-index", "src/backend/cpu/cpu_experts_pieces.c",
      "                     work->args->order[first] / work->desc->top_k);",
      "                     first / work->desc->top_k);",
      "an expert with one token reads another's", "weft-check --op experts --cases 20")
fault("route-ties-to-the-higher", "src/kernels/route/route_ref.c",
      "(best < 0 || is_less(value[best], value[i]))", "(best < 0 || !is_less(value[i], value[best]))",
      "of equal experts the higher number is chosen", "api_route", "weft-check --op route --cases 20")
fault("route-group-of-one", "src/kernels/route/route_ref.c",
      "    for (int32_t i = 0; i < desc->group_best; i++)\n            worth", "    for (int32_t i = 0; i < 1; i++)\n            worth",
      "a group is worth its best expert alone", "weft-check --op route --cases 20")
fault("route-not-normalised", "src/kernels/route/route_ref.c",
      "!(desc->flags & WEFT_ROUTE_NORMALISE) || sum == 0", "true",
      "weights are never normalised", "api_route", "weft-check --op route --cases 20")
fault("route-bias-in-weights", "src/kernels/route/route_ref.c",
      "        sum += score[ids[k]];", "        sum += value[ids[k]];",
      "the bias counts in the sum of weights", "weft-check --op route --cases 20")
fault("kv-turned-past-rotary", "src/kernels/kv/kv_append.c",
      "memcpy(turned + rotary_dim, key + rotary_dim,", "memcpy(turned + rotary_dim, key,",
      "what is behind the rotary part is its beginning", "weft-check --op kv --cases 20")
fault("embedding-residual", "src/kernels/embedding/embedding_ref.c",
      "for (int64_t i = 0; residual && i < p.count; i++)", "for (int64_t i = 1; residual && i < p.count; i++)",
      "the residual's first element of each piece is left out", "weft-check --op embedding --cases 20", "engine_encoders")
fault("embedding-next-row", "src/kernels/embedding/embedding_ref.c",
      "struct piece p = {launch, args, args->ids[token], 0, launch->dim};",
      "struct piece p = {launch, args, args->ids[token] ? args->ids[token] - 1 : 0, 0, launch->dim};",
      "a token is looked up as the one before it", "api_embedding", "weft-check --op embedding --cases 20")

# --- merged states ------------------------------------------------------------------------------------
M = ("api_merge", "weft-check --op merge --cases 20")
fault("merge-lse-of-weights", "src/kernels/merge/merge_simd.h",
      "sum == 0 ? -INFINITY : largest + logf(sum);", "sum == 0 ? -INFINITY : logf(sum);",
      "the merged LSE forgets the largest", *M)
fault("merge-empty-state", "src/kernels/merge/merge_simd.h",
      "            if (own == -INFINITY)\n                continue;\n", "",
      "what lies in a state that saw nothing counts", *M)
fault("merge-not-divided", "src/kernels/merge/merge_ref.c",
      "sum == 0 ? 0 : (float)(y[i] / sum));", "(float)(y[i] / (sum == 0 ? 1 : args->num_states)));",
      "merged states are averaged", *M)
fault("merge-largest-of-first", "src/kernels/merge/merge_simd.h",
      "        largest = fmaxf(largest, lse[s * args->lse_state_stride]);",
      "        largest = lse[0];",
      "weights are those against the first state, which may see nothing", *M)

# --- batches and programs -----------------------------------------------------------------------------
fault("batch-ring-of-another", "src/api/api_batch.c",
      "if (*ring_known && attention->ring_len != *ring_len)", "if (false)",
      "plans with rings of different lengths share a batch", "api_batch")
fault("batch-of-another-plan", "src/api/api_batch.c",
      "if (batch->context != plan->context || weft__plan_batch_find(batch, plan) < 0)",
      "if (batch->context != plan->context)",
      "a run takes a batch that was made for other plans", "api_batch")
fault("batch-pool-too-small", "src/api/api_batch.c",
      "    if (num_pages < batch->num_pages)\n", "    if (false)\n",
      "a batch is taken by a pool with fewer pages", "api_batch")
fault("batch-grows-beyond", "src/plan/plan_batch.c",
      "batch->kv_lens[s] < batch->kv_capacities[s])", "true)",
      "advance goes beyond a sequence's capacity", "api_batch")
fault("batch-positions-from-first", "src/plan/plan_batch.c",
      "int32_t t = batch->kv_lens[s] - q_len + i;", "int32_t t = batch->kv_lens[s] - 1 - i;",
      "the positions of a prompt run backwards", "api_batch", "engine_session")
fault("program-arguments-borrowed", "src/backend/cpu/cpu_program.c",
      "        kept->args = (unsigned char *)kept + head;\n", "",
      "a program keeps the address of arguments that are gone", "api_program", "engine_session")
fault("program-stops-after-block", "src/backend/cpu/cpu_program.c",
      "block; block = block->next)\n        for", "block; block = NULL)\n        for",
      "a program runs the first block of its steps only", "api_program", "engine_session", "engine_logits")
fault("program-not-counted", "src/api/api_program.c",
      "    atomic_fetch_add_explicit(&context->runs, (int64_t)times * program->runs, memory_order_relaxed);\n", "",
      "runs of programs are not counted", "api_program")
fault("program-of-another-thread", "src/api/api_program.c",
      "return recorder == &this_thread ? context->recording : NULL;",
      "return recorder ? context->recording : NULL;",
      "other threads' runs are recorded", "api_program")
fault("program-launched-open", "src/api/api_program.c",
      "    if (!program->ended)\n", "    if (false)\n",
      "a program is launched while it is recorded", "api_program")
fault("chain-capacity-of-one", "engine/session/chain.c",
      "in->kv_capacities[i] = start + chain->steps;", "in->kv_capacities[i] = start + 1;",
      "chains do not grow after their first token", "engine_generate")
fault("chain-loses-logits", "engine/session/chain.c",
      "if (worker->logits_owner[row] && !session_save_logits(worker->logits_owner[row], err))",
      "if (false)",
      "a chain writes over the logits of another session", "engine_generate", "engine_passes")
fault("chain-first-token-hidden", "engine/session/chain.c",
      "    session->ids[session->length++] = token;\n", "    session->length++;\n",
      "penalties do not see the token that a chain begins with", "engine_generate", "engine_sampling")
fault("chain-window-of-all", "engine/session/chain.c",
      "room->windows[i] = session_penalty_window(draw->sampling);", "room->windows[i] = start;",
      "penalties of a chain look at the whole timeline", "engine_generate")

# --- tiles of AMX, on their stand-in ------------------------------------------------------------------
X = ("weft-check-amx --isa amx --cases 20",)
fault("amx-residual-of-first-row", "src/kernels/linear/linear_store.h",
      "vf32_load_n(call->residual + m * call->residual_stride + row, n)",
      "vf32_load_n(call->residual + row, n)", "every row has the first one's residual", *X)
fault("amx-panel-not-clipped", "src/kernels/linear/linear_bf16_amx.c",
      "rows < 16 ? (int)rows : 16, v[i]);", "16, v[i]);",
      "rows past the last are stored", *X)
fault("amx-columns-not-clipped", "src/kernels/linear/linear_bf16_amx.c",
      "left < STEP ? (1u << left) - 1 : 0xffffffffu", "0xffffffffu",
      "columns past the last are multiplied", *X)
fault("amx-last-chunk-alone", "src/kernels/linear/linear_bf16_amx.c",
      ".begins = k == 0,", ".begins = k == 0 || ends,",
      "the sums of the last chunk are taken for the totals", *X)
fault("amx-first-chunk-lost", "src/kernels/linear/linear_bf16_amx.c",
      "return b->begins && !b->ends ? b->total : p->acc;", "return p->acc;",
      "the first chunk's sums are stored over by the next", *X)
fault("amx-shorts-last-column", "src/kernels/linear/linear_bf16_amx.c",
      "left > 0 ? (1u << left) - 1 : 0;", "left > 0 ? (1u << (left - 1)) - 1 : 0;",
      "short chunks lose the last column", *X)
fault("amx-shorts-one-panel", "src/kernels/linear/linear_bf16_amx.c",
      "row1 - 1, !buffer, blocks,", "row1 - 1, buffer, blocks,",
      "rows of W become tiles over those that are being multiplied", *X)
fault("codes-list-of-infinities", "src/kernels/linear/linear_packed_bf16_avx512vnni.c",
      "return isnan(sum) ? multiply_row(call, row, x) : (float)sum;", "return (float)sum;",
      "a weight of the list is 0 to an infinite activation", "api_linear_codes")
fault("codes-list-behind-first", "src/kernels/linear/linear_packed_bf16_avx512.h",
      "if (from[half].col < k) {", "if (from[half].col <= k) {",
      "tiles have 0 where a group begins with a weight of the list", "api_linear_codes")
fault("codes-refuse-nothing", "src/backend/cpu/cpu_pack_codes.c",
      "if (head->listed > p.at.most) {", "if (head->listed > 64 * p.at.most) {",
      "random bits are laid out in 12", "api_linear_codes")
fault("packed-streams-first-head", "src/kernels/linear/linear_packed_few_avx512.h",
      "f.unpack(chunk + j * bytes, at, g, &head[j], &w);", "f.unpack(chunk + j * bytes, at, g, &head[0], &w);",
      "panels that are read by turns take the scales of the first", *X)
fault("amx-packed-rows-twice", "src/kernels/linear/linear_packed_amx.c",
      "c - from,", "0,",
      "rows of X that the last tile shares with the one before are added twice", *X)
fault("amx-packed-columns-left", "src/kernels/linear/linear_packed_units_amx.h",
      "if (slot < SLOTS)", "if (slot > SLOTS)",
      "columns that packed weights have not are what a unit had before", *X)
fault("amx-packed-minima-of-first-half", "src/kernels/linear/linear_packed_units_amx.h",
      "u->minima[n] = pair(m[at], m[at + 1]);", "u->minima[n] = pair(m[at], m[at]);",
      "k-quants on tiles take every second minimum for the next as well", *X)
fault("amx-packed-minima-short", "src/kernels/linear/linear_packed_units_amx.h",
      "put_by_eights(to->part[1][c], after_bf16(left), _mm512_setzero_ps());", "put_by_eights(to->part[1][c], _mm512_setzero_ps(), _mm512_setzero_ps());",
      "sums of X that minima meet on tiles have 16 bits", *X)
fault("amx-packed-planes", "src/kernels/linear/linear_packed_units_amx.h",
      "_mm512_andnot_si512(even, code), scale);", "code, scale);",
      "q6_k on tiles multiplies odd columns with the even ones behind them", *X)
fault("amx-wide-first-scale", "src/kernels/linear/linear_packed_wide_amx.c",
      "const int half = how.halves ? u->eighth / 4 : 0;", "const int half = 0;",
      "packed weights of many rows of X have one scale for both halves of a group", *X)
fault("amx-wide-pairs-swapped", "src/kernels/linear/linear_packed_wide_amx.c",
      "narrow32(w[2], w[3])", "narrow32(w[3], w[2])",
      "packed weights as bf16 have every second pair of columns the wrong way round", *X)
fault("amx-wide-first-chunk", "src/kernels/linear/linear_packed_wide_amx.c",
      "call->x_tiles + k * call->x_tiles_rows;", "call->x_tiles;",
      "all chunks of packed weights meet the first columns of many rows of X", *X)
fault("amx-wide-sums-anew", "src/kernels/linear/linear_packed_wide_amx.c",
      "total, next, k == 0, false, beside);", "total, next, true, false, beside);",
      "the last sixteen of many rows of X have the sums of the last chunk alone", *X)
fault("amx-wide-rows-of-first-tile", "src/kernels/linear/linear_packed_wide_amx.c",
      "(part->col + c) * columns", "c * columns",
      "rows of X past 512 are the first ones again", *X)
fault("amx-wide-numbers-of-first-row", "src/kernels/linear/linear_packed_wide_amx.c",
      "narrow_row(x + r * x_stride + k, STEP)", "narrow_row(x + k, STEP)",
      "rows of X become tiles of their sixteen's first row", *X)
fault("amx-results-past-caches", "src/kernels/linear/linear_bf16_avx512.h",
      "_mm512_stream_ps(call->y + m * call->y_stride + row, value);", "_mm512_stream_ps(call->y + row, value);",
      "results that pass by the caches are all in the first row", *X)
fault("amx-wide-scale-of-first-group", "src/kernels/linear/linear_packed_wide_amx.c",
      "row.scale[k / STEP]", "row.scale[0]",
      "rows of X laid as tiles have the first group's scale", *X)
