// SPDX-License-Identifier: MIT
#include <string.h>

#include "engine/worker/program_steps.h"

static weft_status run_step(program_step *step, int32_t tokens, int32_t seqs)
{
    switch (step->kind) {
    case STEP_EMBEDDING:
        step->args.embedding.tokens = tokens;
        return weft_embedding_run(step->plan, &step->args.embedding);
    case STEP_NORM:
        step->args.norm.rows = tokens * step->rows_per_token;
        return weft_norm_run(step->plan, &step->args.norm);
    case STEP_LINEAR:
        step->args.linear.batch = tokens;
        return weft_linear_run(step->plan, &step->args.linear);
    case STEP_APPEND:
        step->args.append.tokens = tokens;
        return weft_kv_append_run(step->plan, &step->args.append);
    case STEP_ATTENTION:
        step->args.attention.num_seqs = seqs;
        return weft_attention_run(step->plan, &step->args.attention);
    case STEP_ACTIVATION:
        step->args.activation.rows = tokens;
        return weft_activation_run(step->plan, &step->args.activation);
    }
    return WEFT_EINVAL;
}

static bool run_list(const model_program *program, step_list *list, int32_t tokens, int32_t seqs,
                     engine_error *err)
{
    for (int32_t i = 0; i < list->count; i++)
        if (run_step(&list->steps[i], tokens, seqs) != WEFT_OK)
            return engine_fail(err, "the forward pass failed: %s",
                               weft_error_text(program->context));
    return true;
}

bool model_program_forward(model_program *program, int32_t tokens, int32_t seqs, engine_error *err)
{
    return run_list(program, &program->layers, tokens, seqs, err);
}

bool model_program_head(model_program *program, const int32_t *rows, int32_t count,
                        engine_error *err)
{
    memcpy(program->rows, rows, (size_t)count * sizeof *rows);
    return run_list(program, &program->gather, count, 0, err) &&
           run_list(program, &program->head, count, 0, err);
}

const program_inputs *model_program_inputs(model_program *program)
{
    return &program->inputs;
}

int32_t model_program_head_rows(const model_program *program)
{
    return program->head_rows;
}

float *model_program_logits(const model_program *program)
{
    return program->logits;
}
