// SPDX-License-Identifier: MIT
// Small problems of attention for tests on the stand-in driver.
#pragma once

#include "tests/support/standin/standin_case.h"

// Eight query heads of two KV heads, up to two sequences.
static inline weft_attention_desc standin_attention_desc(weft_dtype kv, int32_t max_q_tokens)
{
    return (weft_attention_desc){
        .size = sizeof(weft_attention_desc),
        .kv = {.dtype = kv, .num_kv_heads = 2, .head_dim = 128, .page_size = 4},
        .q_dtype = kv == WEFT_F16 || kv == WEFT_BF16 ? kv : WEFT_F32,
        .num_q_heads = 8,
        .max_seqs = 2,
        .max_q_tokens = max_q_tokens,
        .max_kv_len = 16};
}

static const int32_t standin_cu_q_lens[] = {0, 1, 2}, standin_kv_lens[] = {5, 2},
                     standin_page_table[] = {7, 3, 1, 0};

// Plans, runs two sequences of one query, and holds the names of the launches against `names`. Returns the last.
static inline const struct standin_launch *standin_attention_run(weft_context *context,
                                                                 const weft_attention_desc *desc,
                                                                 const char *names,
                                                                 size_t workspace)
{
    char *memory, seen[256] = "";
    weft_plan *plan = NULL;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 16 << 20, (void **)&memory) == WEFT_OK);
    int32_t *lists = (int32_t *)(void *)memory;
    memcpy(lists, standin_cu_q_lens, sizeof standin_cu_q_lens);
    memcpy(lists + 16, standin_kv_lens, sizeof standin_kv_lens);
    memcpy(lists + 32, standin_page_table, sizeof standin_page_table);
    const weft_attention_args args = {
        .size = sizeof args,
        .num_seqs = 2,
        .q = memory + 65536,
        .out = memory + 131072,
        .pool = {.k.data = memory + (1 << 20), .v.data = memory + (2 << 20), .num_pages = 8},
        .cu_q_lens = lists,
        .kv_lens = lists + 16,
        .page_table = lists + 32,
        .page_table_stride = 2,
        .workspace = memory + (4 << 20),
        .workspace_bytes = 12 << 20};
    CHECK(weft_attention_plan(context, desc, &plan) == WEFT_OK);
    CHECK(weft_plan_workspace_bytes(plan) == workspace);
    const int before = standin->num_launches;
    CHECK(weft_attention_run(plan, &args) == WEFT_OK);
    for (int i = before; i < standin->num_launches; i++)
        snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s%s", i > before ? " " : "",
                 standin->launches[i].function + strlen("weft_attention_"));
    CHECK_TEXT(seen, names);
    CHECK(strlen(seen) == strlen(names));
    weft_plan_destroy(plan);
    weft_memory_free(context, memory);
    return &standin->launches[standin->num_launches - 1];
}

static inline bool standin_shaped(const struct standin_launch *launch, uint32_t x, uint32_t y,
                                  uint32_t threads)
{
    return launch->grid[0] == x && launch->grid[1] == y && launch->grid[2] == 1 &&
           launch->block[0] == threads && launch->block[1] == 1;
}
