// SPDX-License-Identifier: MIT
// Steps of latent attention. A head's key is W latent and its score (W^T q) latent: so W stands before the
// queries, all heads share one key per token, the latent itself, and what they gather of it becomes values
// behind attention.
//
//      compressed [latent | rotated]      -> norm, moved  -> K [rotated | latent]
//      queries    heads of [plain | rotated] -> W, moved  -> Q heads of [rotated | latent]
#include "engine/engine.h"
#include "engine/worker/program_steps.h"

// Rows of `dim` elements, moved from one place to another.
static bool add_move(model_program *program, const float *x, int64_t x_stride, float *y,
                     int64_t y_stride, int64_t dim, int32_t rows_per_token, engine_error *err)
{
    return program_add_activation(
        program, &program->layers,
        &(program_activation){.function = WEFT_ACTIVATION_NONE,
                              .dim = dim,
                              .max_rows = program->bounds.max_tokens * rows_per_token,
                              .rows_per_token = rows_per_token,
                              .x = x,
                              .x_stride = x_stride,
                              .y = y,
                              .y_stride = y_stride},
        err);
}

// Where the elements of a buffer from `at` on are; nowhere while the program is only counted.
static float *part_of(const model_program *program, enum model_buffer buffer, int64_t at)
{
    float *base = program->buffers[buffer];
    return base ? base + at : NULL;
}

// Heads of a buffer, or those elements of them from `first` on.
typedef struct heads {
    enum model_buffer buffer;
    int64_t dim, first;
} heads;

// The adapters of a head's matrix: its rows of those of all heads, in `own`.
static const model_adapter *adapters_of(const model_adapter *all, int32_t head,
                                        model_adapter own[ENGINE_MAX_ADAPTERS], int64_t rows)
{
    int32_t count = 0;
    for (; all && count < ENGINE_MAX_ADAPTERS; all = all->next, count++) {
        const int64_t heights[2] = {all->rank, rows};
        own[count] = *all;
        own[count].next = all->next ? &own[count + 1] : NULL;
        for (int i = 0; i < 2; i++) {
            model_tensor *part = i ? &own[count].b : &own[count].a;
            const int64_t place = part->rows > heights[i] ? head * heights[i] : 0;
            part->data =
                (const char *)part->data + place * weft_dtype_row_bytes(part->dtype, part->cols);
            part->rows = heights[i];
        }
    }
    return count ? own : NULL;
}

// Every head of x times its own matrix; `matrices` has the rows of all heads one below the other.
static bool add_heads(model_program *program, const model_tensor *matrices, heads x, heads y,
                      engine_error *err)
{
    int32_t count = program->config->q_heads;
    model_tensor matrix = *matrices;
    int64_t matrix_bytes = weft_dtype_row_bytes(matrix.dtype, matrix.cols);
    const char *data = matrix.data;
    matrix.rows /= count;
    matrix_bytes *= matrix.rows;
    for (int32_t h = 0; h < count; h++) {
        model_adapter own[ENGINE_MAX_ADAPTERS];
        matrix.data = data + h * matrix_bytes;
        matrix.adapters = adapters_of(matrices->adapters, h, own, matrix.rows);
        const program_linear linear = {
            .x = part_of(program, x.buffer, h * x.dim + x.first),
            .x_stride = count * x.dim,
            .parts = {{.matrix = &matrix, .y = part_of(program, y.buffer, h * y.dim + y.first)}},
            .y_stride = count * y.dim,
            .max_batch = program->bounds.max_tokens};
        if (!program_add_linear(program, &program->layers, &linear, err) ||
            !program_add_adapters(program, &program->layers, &linear, err))
            return false;
    }
    return true;
}

bool program_add_absorb(model_program *program, const model_tensor *tensors, const model_line *line,
                        engine_error *err)
{
    const model_config *config = program->config;
    const int64_t key = config->head_dim, rotated = config->rope.rotary_dim;
    const int64_t latent = config->latent.dim, query = config->latent.q_dim;
    const program_norm norm = {.weight = &tensors[line->norm],
                               .rows_per_token = 1,
                               .x = program->buffers[MODEL_BUFFER_COMPRESSED],
                               .x_stride = key,
                               .y = part_of(program, MODEL_BUFFER_K, rotated),
                               .y_stride = key};
    return program_add_norm(program, &program->layers, &norm, err) &&
           add_move(program, part_of(program, MODEL_BUFFER_COMPRESSED, latent), key,
                    program->buffers[MODEL_BUFFER_K], key, rotated, 1, err) &&
           add_move(program, part_of(program, MODEL_BUFFER_QUERIES, query - rotated), query,
                    program->buffers[MODEL_BUFFER_Q], key, rotated, config->q_heads, err) &&
           add_heads(program, &tensors[line->parts[0].matrix],
                     (heads){MODEL_BUFFER_QUERIES, query, 0}, (heads){MODEL_BUFFER_Q, key, rotated},
                     err);
}

bool program_add_expand(model_program *program, const model_tensor *tensors, const model_line *line,
                        engine_error *err)
{
    const model_latent *latent = &program->config->latent;
    return add_heads(program, &tensors[line->parts[0].matrix],
                     (heads){MODEL_BUFFER_LATENTS, latent->dim, 0},
                     (heads){MODEL_BUFFER_ATTENDED, latent->value_dim, 0}, err);
}
