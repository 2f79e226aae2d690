// SPDX-License-Identifier: MIT
// Programs: graphs. What is recorded is captured on a stream of the program's own, so that work of other
// threads on the context's stream goes on meanwhile.
#include <string.h>

#include "src/backend/cuda/cuda_backend.h"
#include "src/backend/cuda/cuda_context.h"
#include "src/base/memory.h"
#include "src/plan/plan.h"

// Runs of a program that are one graph, where it is launched so often: from one graph to the next a device rests longer than from
// run to run.
enum { LINKS = 8 };

struct program {
    weft_program base;
    struct weft__cuda_stream stream; // captures
    CUgraphExec exec;                // of what was recorded; or NULL, and
    CUgraphExec one;                 // the same bits with one launch for the layers; or NULL
    CUgraphExec links;               // that, LINKS times; or NULL
    bool no_links;                   // there can be none
    struct weft__cuda_token *token;  // what was recorded, where layers may become one launch
};

static struct program *of(weft_program *base)
{
    return (struct program *)(void *)base;
}

weft_status weft__cuda_program_begin(weft_context *context, weft_program **out)
{
    const struct weft__cuda *cuda = weft__cuda_of(context);
    struct program *program = weft__base_allocate(NULL, sizeof *program);
    if (!program)
        return weft__fail(context, WEFT_ENOMEM, "no memory for a program");
    memset(program, 0, sizeof *program);
    program->base.context = context;
    program->stream.base.context = context;
    bool entered = weft__cuda_enter(cuda);
    CUresult result = cuda->driver->stream_create(&program->stream.handle, CU_STREAM_NON_BLOCKING);
    if (result == CUDA_SUCCESS)
        result =
            cuda->driver->capture_begin(program->stream.handle, CU_STREAM_CAPTURE_MODE_RELAXED);
    weft__cuda_leave(cuda, entered);
    if (result != CUDA_SUCCESS) {
        weft__cuda_program_destroy(&program->base);
        return weft__cuda_fail(context, result, "recording a program");
    }
    program->token = weft__cuda_token_begin(context);
    *out = &program->base;
    return WEFT_OK;
}

static void drop_token(struct program *program)
{
    weft__cuda_token_end(program->base.context, program->token);
    program->token = NULL;
}

static weft_status submit(weft_program *base, const struct weft__step *step)
{
    weft_stream *stream = &of(base)->stream.base;
    if (step->plan)
        return weft__cuda_submit(step->plan, step->args, stream);
    if (step->batch)
        return weft__cuda_batch_advance(step->batch, stream);
    if (step->from)
        return weft__cuda_copy(base->context, step->to, step->from, step->bytes, stream);
    return weft__cuda_fill(base->context, step->to, step->byte, step->bytes, stream);
}

weft_status weft__cuda_program_record(weft_program *base, const struct weft__step *step)
{
    struct program *program = of(base);
    weft_status status = submit(base, step);
    if (status == WEFT_OK && program->token && !weft__cuda_token_record(program->token, step))
        drop_token(program);
    return status;
}

// A graph of everything once more, `times` times, with one launch for the layers. NULL: it failed.
static CUgraph capture_again(struct program *program, int32_t times)
{
    weft_context *context = program->base.context;
    const struct weft__cuda *cuda = weft__cuda_of(context);
    CUgraph graph = NULL;
    weft_status status = WEFT_OK;
    if (cuda->driver->capture_begin(program->stream.handle, CU_STREAM_CAPTURE_MODE_RELAXED) !=
        CUDA_SUCCESS)
        return NULL;
    for (int32_t i = 0; i < times && status == WEFT_OK; i++)
        status = weft__cuda_token_submit(context, program->token, submit, &program->base,
                                         &program->stream.base);
    CUresult result = cuda->driver->capture_end(program->stream.handle, &graph);
    if (status == WEFT_OK && result == CUDA_SUCCESS)
        return graph;
    if (graph)
        cuda->driver->graph_destroy(graph);
    return NULL;
}

// With one launch for the layers, if they are such; NULL: they are not.
static CUgraph capture_token(struct program *program)
{
    CUgraph graph = NULL;
    if (!program->token)
        return NULL;
    if (weft__cuda_token_find(program->base.context, program->token))
        graph = capture_again(program, 1);
    if (!graph)
        drop_token(program);
    return graph;
}

weft_status weft__cuda_program_end(weft_program *base)
{
    struct program *program = of(base);
    const struct weft__cuda *cuda = weft__cuda_of(base->context);
    CUgraph graph = NULL, other = NULL;
    bool entered = weft__cuda_enter(cuda);
    CUresult result = cuda->driver->capture_end(program->stream.handle, &graph);
    if (result == CUDA_SUCCESS)
        other = capture_token(program);
    if (!other || cuda->driver->graph_instantiate(&program->one, other, 0) != CUDA_SUCCESS) {
        drop_token(program); // no such launch: what was recorded serves
        program->one = NULL;
    }
    if (other)
        cuda->driver->graph_destroy(other);
    if (result == CUDA_SUCCESS && !(program->one && weft__cuda_token_is_always(program->token)))
        result = cuda->driver->graph_instantiate(&program->exec, graph, 0);
    if (graph)
        cuda->driver->graph_destroy(graph);
    weft__cuda_leave(cuda, entered);
    return result == CUDA_SUCCESS ? WEFT_OK
                                  : weft__cuda_fail(base->context, result, "ending a program");
}

// The graph of LINKS launches, made when it is first wanted; NULL: there is none.
static CUgraphExec links_of(struct program *program)
{
    const struct weft__cuda *cuda = weft__cuda_of(program->base.context);
    if (program->links || program->no_links)
        return program->links;
    CUgraph graph = capture_again(program, LINKS);
    if (!graph || cuda->driver->graph_instantiate(&program->links, graph, 0) != CUDA_SUCCESS)
        program->no_links = true, program->links = NULL;
    if (graph)
        cuda->driver->graph_destroy(graph);
    return program->links;
}

weft_status weft__cuda_program_launch(weft_program *base, int32_t times, weft_stream *stream)
{
    struct weft__cuda *cuda = weft__cuda_of(base->context);
    struct program *program = of(base);
    const bool one = program->one && weft__cuda_token_is_faster(program->token);
    CUstream on = weft__cuda_stream_of(cuda, stream);
    CUresult result = CUDA_SUCCESS;
    bool entered = weft__cuda_enter(cuda);
    CUgraphExec once = one ? program->one : program->exec;
    CUgraphExec links = one && times >= LINKS ? links_of(program) : NULL;
    for (int32_t left = times; left > 0 && result == CUDA_SUCCESS;) {
        const bool several = links && left >= LINKS;
        result = cuda->driver->graph_launch(several ? links : once, on);
        left -= several ? LINKS : 1;
        atomic_fetch_add_explicit(&cuda->counters.graph_launches, 1, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&program->base.one_launches, one ? times : 0, memory_order_relaxed);
    weft__cuda_leave(cuda, entered);
    return result == CUDA_SUCCESS ? WEFT_OK
                                  : weft__cuda_fail(base->context, result, "launching a program");
}

void weft__cuda_program_destroy(weft_program *base)
{
    struct program *program = of(base);
    const struct weft__cuda *cuda = weft__cuda_of(base->context);
    CUgraph graph = NULL;
    int capturing = 0;
    bool entered = weft__cuda_enter(cuda);
    if (program->stream.handle &&
        cuda->driver->capturing(program->stream.handle, &capturing) == CUDA_SUCCESS && capturing &&
        cuda->driver->capture_end(program->stream.handle, &graph) == CUDA_SUCCESS && graph)
        cuda->driver->graph_destroy(graph);
    if (program->exec)
        cuda->driver->exec_destroy(program->exec);
    if (program->one)
        cuda->driver->exec_destroy(program->one);
    if (program->links)
        cuda->driver->exec_destroy(program->links);
    if (program->stream.handle)
        cuda->driver->stream_destroy(program->stream.handle);
    weft__cuda_leave(cuda, entered);
    drop_token(program);
    weft__base_release(NULL, program);
}
