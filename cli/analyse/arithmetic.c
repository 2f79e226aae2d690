// SPDX-License-Identifier: MIT
#include <string.h>

#include "cli/analyse/analyse.h"

int64_t analyse_kv_bytes(const engine_model_info *info, weft_dtype kv_dtype)
{
    int64_t key = weft_dtype_row_bytes(kv_dtype, info->head_dim);
    int64_t value = info->values_in_keys ? 0 : weft_dtype_row_bytes(kv_dtype, info->value_dim);
    return key < 0 || value < 0 ? -1 : (key + value) * info->kv_heads * info->layers;
}

// --- a decode step ----------------------------------------------------------------------------------------

static analyse_operator *operator_named(analyse_step *step, const char *name)
{
    for (int32_t i = 0; i < step->count; i++)
        if (strcmp(step->operators[i].name, name) == 0)
            return &step->operators[i];
    if (step->count == ANALYSE_MAX_OPERATORS - 1) // the last one is attention
        return NULL;
    analyse_operator *made = &step->operators[step->count++];
    snprintf(made->name, sizeof made->name, "%s", name);
    return made;
}

static void add_format(analyse_operator *to, weft_dtype dtype)
{
    const char *name = weft_dtype_name(dtype);
    size_t used = strlen(to->formats);
    if (!strstr(to->formats, name))
        snprintf(to->formats + used, sizeof to->formats - used, "%s%s", used ? " " : "", name);
}

static void add_matrix(analyse_step *step, const engine_matrix_info *matrix, int32_t batch)
{
    char name[40];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(matrix->name, "."), matrix->name);
    analyse_operator *to = operator_named(step, name);
    if (!to)
        return;
    double elements = (double)matrix->rows * (double)matrix->cols;
    to->count++;
    to->rows = matrix->rows;
    to->cols = matrix->cols;
    to->weight_bytes +=
        (double)weft_dtype_row_bytes(matrix->dtype, matrix->cols) * (double)matrix->rows;
    to->activation_bytes += 4.0 * batch * (double)(matrix->rows + matrix->cols);
    to->flops += 2 * elements * batch;
    add_format(to, matrix->dtype);
}

// Every query head multiplies every key and every value that it sees once.
static void add_attention(analyse_step *step, const engine_model_info *info,
                          const analyse_question *question)
{
    analyse_operator *to = &step->operators[step->count++];
    int64_t seen = question->context;
    if (info->window > 0 && seen > info->window)
        seen = info->window;
    snprintf(to->name, sizeof to->name, "attention");
    snprintf(to->formats, sizeof to->formats, "%s", weft_dtype_name(question->kv_dtype));
    double keys = (double)seen * question->batch;
    to->count = info->layers;
    to->kv_bytes = keys * (double)analyse_kv_bytes(info, question->kv_dtype);
    to->activation_bytes =
        4.0 * info->q_heads * (info->head_dim + info->value_dim) * info->layers * question->batch;
    to->flops = keys * 2 * info->q_heads * (info->head_dim + info->value_dim) * info->layers;
}

analyse_step analyse_decode(const engine_model *model, const analyse_question *question)
{
    analyse_step step = {.total = {.name = "total"}};
    engine_matrix_info matrix;
    engine_model_info info;
    engine_model_describe(model, &info);
    for (int32_t n = 0; engine_model_matrix_at(model, n, &matrix); n++)
        add_matrix(&step, &matrix, question->batch);
    add_attention(&step, &info, question);
    for (int32_t i = 0; i < step.count; i++) {
        const analyse_operator *one = &step.operators[i];
        step.total.count += one->count;
        step.total.weight_bytes += one->weight_bytes;
        step.total.activation_bytes += one->activation_bytes;
        step.total.kv_bytes += one->kv_bytes;
        step.total.flops += one->flops;
    }
    return step;
}

// Activations stay in caches: memory sees weights, keys and values.
double analyse_bytes(const analyse_operator *work)
{
    return work->weight_bytes + work->kv_bytes;
}

double analyse_seconds(const analyse_operator *work, const analyse_question *question)
{
    double moving = analyse_bytes(work) / (question->gbps * 1e9);
    double computing = question->gflops > 0 ? work->flops / (question->gflops * 1e9) : 0;
    return moving > computing ? moving : computing;
}

double analyse_intensity(const analyse_operator *work)
{
    return work->flops / analyse_bytes(work);
}

// --- attention's memory -----------------------------------------------------------------------------------

analyse_attention analyse_attention_memory(const engine_model_info *info, int32_t tokens,
                                           int32_t tile_queries, int32_t tile_keys,
                                           int32_t element_bytes)
{
    int64_t heads = info->q_heads, dim = info->head_dim, n = tokens;
    return (analyse_attention){
        .naive_scores = heads * n * n * 4,
        .naive_probabilities = heads * n * n * 4,
        .naive_output = heads * n * dim * 4,
        .tile_q = tile_queries * dim * element_bytes,
        .tile_k = tile_keys * dim * element_bytes,
        .tile_v = tile_keys * dim * element_bytes,
        .tile_scores = (int64_t)tile_queries * tile_keys * 4,
        .tile_output = tile_queries * dim * 4,
        .tile_statistics = tile_queries * 2 * 4,
        .flash_statistics = heads * n * 4,
    };
}

int64_t analyse_naive_bytes(const analyse_attention *a)
{
    return a->naive_scores + a->naive_probabilities + a->naive_output;
}

int64_t analyse_tile_bytes(const analyse_attention *a)
{
    return a->tile_q + a->tile_k + a->tile_v + a->tile_scores + a->tile_output + a->tile_statistics;
}

// --- pages ------------------------------------------------------------------------------------------------

static int64_t pages_of(int64_t tokens, int32_t page_size)
{
    return (tokens + page_size - 1) / page_size;
}

analyse_pages analyse_requests(int32_t page_size, int32_t prefix, const int32_t *own, int32_t count)
{
    analyse_pages pages = {.page_size = page_size};
    int64_t tokens = 0;
    pages.shared = count > 1 ? prefix / page_size : 0;
    pages.used = pages.shared;
    for (int32_t i = 0; i < count; i++) {
        int64_t length = (int64_t)prefix + own[i], all = pages_of(length, page_size);
        pages.alone += all;
        pages.used += all - pages.shared;
        tokens += length - pages.shared * page_size;
    }
    int64_t slots = pages.used * page_size;
    pages.wasted_slots = slots - tokens - pages.shared * page_size;
    pages.wasted_percent = slots ? 100.0 * (double)pages.wasted_slots / (double)slots : 0;
    return pages;
}
