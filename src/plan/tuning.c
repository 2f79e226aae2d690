// SPDX-License-Identifier: MIT
#include "src/plan/tuning.h"

#include <string.h>

#include <weft/format.h>

// What serves a machine that nothing was measured on. A task of a matrix is worth its dispatch (a fraction of a
// microsecond) and so short that a slow thread does not hold up the others for long. A chunk of keys costs as much as
// 15 of its keys where a few queries wait for memory, as 25 where many multiply. Tasks of attention are two and
// more for each thread of a large machine; tiles are the kernel's own.
static const weft_tuning built_in[] = {
    {.size = sizeof(weft_tuning),
     .op = WEFT_TUNING_LINEAR,
     .task_bytes = 192 * 1024,
     .tasks_per_thread = 32},
    {.size = sizeof(weft_tuning),
     .op = WEFT_TUNING_ATTENTION,
     .least_chunk = 1024,
     .target_tasks = 96},
};

const weft_tuning *weft__plan_tuning_built_in(int32_t n)
{
    return n >= 0 && n < (int32_t)(sizeof built_in / sizeof *built_in) ? &built_in[n] : NULL;
}

static int64_t power_of_two(int64_t value)
{
    int64_t power = 1;
    while (power < value && power < INT64_MAX / 4)
        power *= 2;
    return value > 0 ? power : value;
}

void weft__plan_tuning_round_key(weft_tuning *entry)
{
    entry->rows = power_of_two(entry->rows);
    entry->cols = power_of_two(entry->cols);
    entry->kv_heads = (int32_t)power_of_two(entry->kv_heads);
    entry->page_size = (int32_t)power_of_two(entry->page_size);
    entry->head_dim = (entry->head_dim + 63) / 64 * 64;
}

static bool within(int64_t value, int64_t low, int64_t high)
{
    return value == 0 || (value >= low && value <= high);
}

static const char *fault_of_key(const weft_tuning *entry)
{
    if (entry->op != WEFT_TUNING_LINEAR && entry->op != WEFT_TUNING_ATTENTION)
        return "op is neither linear nor attention";
    if (entry->dtype && weft_dtype_block_elems(entry->dtype) == 0)
        return "dtype is no format";
    if (!within(entry->min_threads, 1, 1024))
        return "min_threads is outside 1..1024";
    if (!within(entry->rows, 1, (int64_t)1 << 40) || !within(entry->cols, 1, (int64_t)1 << 40))
        return "rows or cols are outside 1..2^40";
    if (!within(entry->kv_heads, 1, 1 << 20) || !within(entry->page_size, 1, 1 << 20) ||
        !within(entry->head_dim, 1, 1024))
        return "kv_heads or page_size are outside 1..2^20, or head_dim outside 1..1024";
    return NULL;
}

const char *weft__plan_tuning_fault(const weft_tuning *entry)
{
    const char *fault = fault_of_key(entry);
    if (fault)
        return fault;
    if (!within(entry->few_batch, 1, 8))
        return "few_batch is outside 1..8";
    if (!within(entry->task_bytes, 4096, 1 << 30))
        return "task_bytes is outside 4096..2^30";
    if (!within(entry->tasks_per_thread, 1, 1024) || !within(entry->target_tasks, 1, 1024))
        return "tasks_per_thread or target_tasks are outside 1..1024";
    if (!within(entry->tile_rows, 1, 4096))
        return "tile_rows is outside 1..4096";
    if (!within(entry->block_keys, 1, 64) || entry->reserved0)
        return "block_keys is outside 1..64, or reserved0 is not 0";
    if (!within(entry->few_keys, 1, 1 << 30) || !within(entry->cluster_keys, 1, 1 << 30))
        return "few_keys or cluster_keys are outside 1..2^30";
    if (!within(entry->least_chunk, 64, 1 << 20) || entry->least_chunk % 64)
        return "least_chunk is no multiple of 64 up to 2^20";
    bool of_linear = entry->few_batch || entry->task_bytes || entry->tasks_per_thread ||
                     entry->rows || entry->cols;
    bool of_attention = entry->tile_rows || entry->block_keys || entry->least_chunk ||
                        entry->target_tasks || entry->few_keys || entry->cluster_keys ||
                        entry->kv_heads || entry->head_dim || entry->page_size;
    if (entry->op == WEFT_TUNING_LINEAR ? of_attention : of_linear)
        return "an entry has members of another operation";
    if (!memchr(entry->kernel, 0, sizeof entry->kernel))
        return "the name of the kernel does not end";
    return NULL;
}

static bool serves(const weft_tuning *entry, const weft_tuning *problem)
{
    return entry->op == problem->op && (!entry->dtype || entry->dtype == problem->dtype) &&
           entry->min_threads <= problem->min_threads &&
           (!entry->rows || entry->rows == problem->rows) &&
           (!entry->cols || entry->cols == problem->cols) &&
           (!entry->kv_heads || entry->kv_heads == problem->kv_heads) &&
           (!entry->head_dim || entry->head_dim == problem->head_dim) &&
           (!entry->page_size || entry->page_size == problem->page_size);
}

static void fill(int32_t *value, int32_t from)
{
    *value = *value ? *value : from;
}

static void take(weft_tuning *chosen, const weft_tuning *entry)
{
    fill(&chosen->few_batch, entry->few_batch);
    fill(&chosen->task_bytes, entry->task_bytes);
    fill(&chosen->tasks_per_thread, entry->tasks_per_thread);
    fill(&chosen->tile_rows, entry->tile_rows);
    fill(&chosen->block_keys, entry->block_keys);
    fill(&chosen->least_chunk, entry->least_chunk);
    fill(&chosen->target_tasks, entry->target_tasks);
    fill(&chosen->few_keys, entry->few_keys);
    fill(&chosen->cluster_keys, entry->cluster_keys);
    if (!*chosen->kernel)
        memcpy(chosen->kernel, entry->kernel, sizeof chosen->kernel);
    if (entry->source > chosen->source)
        chosen->source = entry->source;
}

weft_tuning weft__plan_tuning_choose(const struct weft__tunings *tables, const weft_tuning *problem)
{
    weft_tuning key = *problem;
    weft__plan_tuning_round_key(&key);
    weft_tuning chosen = {.size = sizeof chosen,
                          .op = key.op,
                          .dtype = key.dtype,
                          .min_threads = key.min_threads,
                          .kv_heads = key.kv_heads,
                          .head_dim = key.head_dim,
                          .page_size = key.page_size,
                          .rows = key.rows,
                          .cols = key.cols};
    for (int32_t i = tables ? tables->count : 0; i-- > 0;)
        if (serves(&tables->entries[i], &key))
            take(&chosen, &tables->entries[i]);
    for (int32_t i = 0; i < (int32_t)(sizeof built_in / sizeof *built_in); i++)
        if (serves(&built_in[i], &key))
            take(&chosen, &built_in[i]);
    return chosen;
}
