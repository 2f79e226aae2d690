// SPDX-License-Identifier: MIT
/** Programs: a sequence of runs, recorded once, launched many times.
 *
 *  A step of a model is the same list of runs again and again, with new contents in the same places: new
 *  ids, positions and lengths, other pages. Recorded as a program it is launched by one call, which
 *  checks nothing again and keeps the threads at work from the first run to the last. On a GPU it is a
 *  graph. The layers of a dense model that makes one token of one sequence are one launch in it, where the
 *  GPU and the layers are such that results are the same bits and it was measured to be faster; where
 *  only for texts up to some length, each launch chooses by what the batch was set to last. With
 *  WEFT_PROGRAM=persistent in the environment they are so wherever they can be, with graph never. Where
 *  they stay launches of their own the log of the context says why.
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

/** Begins to record: until weft_program_end(), runs, copies and fills that this thread asks of the
 *  context are checked as always, recorded, and not done. They are given no stream: the launch has one.
 *  Work of other threads is not recorded; on a GPU they use streams of their own meanwhile.
 *
 *  Owner    the caller: weft_program_destroy(), before its plans and the context go
 *  Errors   WEFT_EINVAL for NULL, or while a program of the context is being recorded; WEFT_ENOMEM;
 *           WEFT_EUNSUPPORTED by a device without programs
 */
WEFT_API weft_status weft_program_begin(weft_context *context, weft_program **out);

/** Ends the recording. A run that was refused while recording left no trace.
 *
 *  Errors   WEFT_EINVAL for NULL or a program that is not being recorded by this thread; WEFT_EDEVICE
 */
WEFT_API weft_status weft_program_end(weft_program *program);

/** Does what was recorded, in its order. The numbers of the arguments (rows, strides, pointers) are those
 *  of the recording; what arrays hold is read now and must keep to what the run's header asks for: it is
 *  not checked again.
 *
 *  Owner    plans, workspaces and buffers of the recording must still be there
 *  Threads  as a run: not two launches at a time that share a workspace or a result
 *  Errors   WEFT_EINVAL for NULL, a program whose recording has not ended, a stream of another context;
 *           WEFT_EDEVICE
 */
WEFT_API weft_status weft_program_launch(weft_program *program, weft_stream *stream);

/** Frees a program; one that is being recorded is given up. NULL is allowed. */
WEFT_API void weft_program_destroy(weft_program *program);

/** What a program is. `size` is set by the caller before the call. */
typedef struct weft_program_info {
    uint32_t size;
    int32_t runs;   /**< recorded */
    int32_t copies; /**< recorded copies and fills */
    int32_t reserved0;
    int64_t launches;     /**< so far */
    int64_t one_launches; /**< of these, with one launch for the layers of a model */
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
