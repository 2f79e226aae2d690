// SPDX-License-Identifier: MIT
// Steps of adapters: what is beside a matrix is added to what the matrix gave, y += scale B (A x).
#include "engine/worker/program_steps.h"

bool program_is_adapted(const program_linear *linear)
{
    for (int i = 0; i < MODEL_MAX_PARTS && linear->parts[i].matrix; i++)
        if (linear->parts[i].matrix->adapters)
            return true;
    return false;
}

static bool add_one(model_program *program, step_list *list, const program_linear *linear, int part,
                    const model_adapter *adapter, engine_error *err)
{
    const program_linear down = {.x = linear->x,
                                 .x_stride = linear->x_stride,
                                 .norm = linear->norm,
                                 .norm_bias = linear->norm_bias,
                                 .parts = {{.matrix = &adapter->a, .y = program->adapted}},
                                 .max_batch = linear->max_batch};
    const program_linear up = {.x = program->adapted,
                               .parts = {{.matrix = &adapter->b, .y = linear->parts[part].y}},
                               .y_stride = linear->y_stride,
                               .residual = linear->parts[part].y,
                               .alpha = adapter->scale * (linear->alpha != 0 ? linear->alpha : 1),
                               .max_batch = linear->max_batch};
    return program_add_linear(program, list, &down, err) &&
           program_add_linear(program, list, &up, err);
}

bool program_add_embedding_adapters(model_program *program, float *stream, engine_error *err)
{
    const float scale = program->config->embedding_scale;
    const model_adapter *at = program->weights->embedding_adapters;
    for (; at; at = at->next) {
        program_embedding rows = {.table = &at->a,
                                  .ids = program->ids,
                                  .max_tokens = program->bounds.max_tokens,
                                  .y = program->adapted};
        const program_linear up = {.x = program->adapted,
                                   .parts = {{.matrix = &at->b, .y = stream}},
                                   .residual = stream,
                                   .alpha = at->scale * (scale != 0 ? scale : 1),
                                   .max_batch = program->bounds.max_tokens};
        if (!program_place_vector(program, &at->a, &rows.rows, err) ||
            !program_add_embedding(program, &program->layers, &rows, err) ||
            !program_add_linear(program, &program->layers, &up, err))
            return false;
    }
    return true;
}

bool program_add_adapters(model_program *program, step_list *list, const program_linear *linear,
                          engine_error *err)
{
    for (int i = 0; i < MODEL_MAX_PARTS && linear->parts[i].matrix; i++)
        for (const model_adapter *at = linear->parts[i].matrix->adapters; at; at = at->next)
            if (!add_one(program, list, linear, i, at, err))
                return false;
    return true;
}
