// SPDX-License-Identifier: MIT
#include <weft/program.h>

#include "src/api/api.h"

// Its address tells threads apart.
static _Thread_local char this_thread;

weft_program *weft__api_recording(weft_context *context)
{
    const void *recorder = atomic_load_explicit(&context->recorder, memory_order_acquire);
    return recorder == &this_thread ? context->recording : NULL;
}

static void stop_recording(weft_program *program)
{
    program->recording = false;
    atomic_store_explicit(&program->context->recorder, NULL, memory_order_release);
}

weft_status weft__api_record(weft_program *program, const struct weft__step *step,
                             const weft_stream *stream)
{
    weft_context *context = program->context;
    if (stream)
        return weft__fail(context, WEFT_EINVAL,
                          "a program is being recorded: its runs are given no stream");
    WEFT__TRY(context->backend->program_record(program, step));
    if (step->plan)
        program->runs++;
    else
        program->copies++;
    return WEFT_OK;
}

weft_status weft_program_begin(weft_context *context, weft_program **out)
{
    weft_program *program;
    if (!context)
        return WEFT_EINVAL;
    if (!out)
        return weft__fail(context, WEFT_EINVAL, "no place for the program: out is NULL");
    if (!context->backend->program_begin)
        return weft__fail(context, WEFT_EUNSUPPORTED, "%s has no programs: run step by step",
                          context->backend->name);
    const void *nobody = NULL;
    if (!atomic_compare_exchange_strong(&context->recorder, &nobody, &this_thread))
        return weft__fail(context, WEFT_EINVAL,
                          "a program of this context is being recorded: end it first");
    context->recording = NULL; // what is opened belongs to no program
    weft_status status = context->backend->program_begin(context, &program);
    if (status != WEFT_OK) {
        atomic_store_explicit(&context->recorder, NULL, memory_order_release);
        return status;
    }
    program->context = context;
    program->recording = true;
    context->recording = program;
    *out = program;
    return WEFT_OK;
}

weft_status weft_program_end(weft_program *program)
{
    if (!program)
        return WEFT_EINVAL;
    weft_context *context = program->context;
    if (weft__api_recording(context) != program)
        return weft__fail(context, WEFT_EINVAL, "the program is not being recorded by this thread");
    stop_recording(program);
    weft_status status = context->backend->program_end(program);
    program->ended = status == WEFT_OK;
    return status;
}

weft_status weft_program_repeat(weft_program *program, int32_t times, weft_stream *stream)
{
    if (!program)
        return WEFT_EINVAL;
    weft_context *context = program->context;
    if (times < 0)
        return weft__fail(context, WEFT_EINVAL, "a program cannot be launched %d times", times);
    if (!program->ended)
        return weft__fail(context, WEFT_EINVAL,
                          "the program's recording has not ended: call weft_program_end first");
    if (weft__api_recording(context))
        return weft__fail(context, WEFT_EINVAL, "a program cannot be part of another");
    WEFT__TRY(weft__api_stream(context, stream));
    atomic_fetch_add_explicit(&program->launches, times, memory_order_relaxed);
    atomic_fetch_add_explicit(&context->runs, (int64_t)times * program->runs, memory_order_relaxed);
    return context->backend->program_launch(program, times, stream);
}

weft_status weft_program_launch(weft_program *program, weft_stream *stream)
{
    return weft_program_repeat(program, 1, stream);
}

void weft_program_destroy(weft_program *program)
{
    if (!program)
        return;
    if (program->recording)
        stop_recording(program);
    program->context->backend->program_destroy(program);
}

weft_status weft_program_describe(const weft_program *program, weft_program_info *info)
{
    if (!program)
        return WEFT_EINVAL;
    const weft_program_info known = {.runs = program->runs,
                                     .copies = program->copies,
                                     .launches = atomic_load(&program->launches),
                                     .one_launches = atomic_load(&program->one_launches)};
    if (!weft__api_answer(info, &known, sizeof known))
        return weft__fail(program->context, WEFT_EINVAL,
                          "info is NULL or lacks its size (.size = sizeof info)");
    return WEFT_OK;
}
