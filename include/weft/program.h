// SPDX-License-Identifier: MIT
/** Programs: a sequence of runs, recorded once, launched many times.
 *
 *  A step of a model is the same list of runs again and again, with new contents in the same places: new
 *  ids, positions and lengths, other pages. Recorded as a program, it is launched by one call, which
 *  checks nothing again and keeps the threads at work from the first run to the last.
 *
 *  On a GPU a program is a graph. If it decodes one token of one sequence of a dense model, all layers
 *  become one launch in it, provided that the results are the same bits and this was measured to be faster
 *  on that GPU. Where it is faster only up to some length of text, each launch chooses by what the batch was
 *  set to last. In the environment, WEFT_PROGRAM=persistent asks for the one launch wherever it is
 *  possible, WEFT_PROGRAM=graph forbids it. Where layers stay launches of their own, the context's log says
 *  why.
 *
 *      weft_program_begin(ctx, &program);
 *      weft_embedding_run(embedding, &(weft_embedding_args){.ids = ids, ...});   // recorded, not run
 *      weft_linear_run(head, &(weft_linear_args){...});
 *      weft_program_end(program);
 *      for (;;) {
 *          ids[0] = ...;
 *          weft_program_launch(program, NULL);
 *      }
 *      weft_program_destroy(program);
 */
#ifndef WEFT_PROGRAM_H
#define WEFT_PROGRAM_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_program weft_program;

/** Begins to record. Until weft_program_end(), runs, copies and fills of this context on this thread are
 *  checked as always and recorded, but not executed. They are given no stream: the launch has one. Work of
 *  other threads is not recorded; on a GPU, give it streams of its own meanwhile.
 *
 *  Owner    the caller: weft_program_destroy(), before its plans and the context go
 *  Errors   WEFT_EINVAL for NULL, or while another program of the context is being recorded; WEFT_ENOMEM;
 *           WEFT_EUNSUPPORTED on a device without programs
 */
WEFT_API weft_status weft_program_begin(weft_context *context, weft_program **out);

/** Ends the recording. Runs that were refused while recording are not part of the program.
 *
 *  Errors   WEFT_EINVAL for NULL or a program that is not being recorded by this thread; WEFT_EDEVICE
 */
WEFT_API weft_status weft_program_end(weft_program *program);

/** Executes what was recorded, in order. The arguments (rows, strides, pointers) are those of the
 *  recording. The contents of arrays are read now; they must be what the run's header asks for, and are not
 *  checked again.
 *
 *  Owner    plans, workspaces and buffers of the recording must still exist
 *  Threads  as for a run: launches that share a workspace or a result must not overlap in time
 *  Errors   WEFT_EINVAL for NULL, a program whose recording has not ended, or a stream of another context;
 *           WEFT_EDEVICE
 */
WEFT_API weft_status weft_program_launch(weft_program *program, weft_stream *stream);

/** The same `times` times, one after the other: for what moves itself on, as a step that chooses a token and
 *  advances its batch. On a GPU several of them are one graph where the layers are one launch, so that the
 *  device goes from one to the next as from run to run; the first call that has so many makes that graph.
 *
 *  Errors   as weft_program_launch(); WEFT_EINVAL for fewer than 0 times
 */
WEFT_API weft_status weft_program_repeat(weft_program *program, int32_t times, weft_stream *stream);

/** Frees a program, ending a recording that is under way. NULL is allowed. */
WEFT_API void weft_program_destroy(weft_program *program);

/** Facts about a program. The caller sets `size` before the call. */
typedef struct weft_program_info {
    uint32_t size;
    int32_t runs;   /**< recorded runs */
    int32_t copies; /**< recorded copies and fills */
    int32_t reserved0;
    int64_t launches;     /**< so far */
    int64_t one_launches; /**< of these, the ones that ran all layers as one launch */
    uint64_t reserved[7];
} weft_program_info;

/** Describes a program.
 *
 *  Errors   WEFT_EINVAL for NULL or an `info` without its size
 */
WEFT_API weft_status weft_program_describe(const weft_program *program, weft_program_info *info);

#ifdef __cplusplus
}
#endif
#endif
