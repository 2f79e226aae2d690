// SPDX-License-Identifier: MIT
/** Contexts and plans: where work runs, and work that is ready to run.
 *
 *  Every operation follows the same two steps. A *plan* is made once from a descriptor: this checks
 *  the problem, chooses a kernel and says how many bytes of workspace a run needs. A *run* is given
 *  pointers and does the work: it allocates nothing, looks nothing up and formats no text.
 *
 *      weft_context *ctx;
 *      weft_context_create(NULL, &ctx);
 *      weft_plan *plan;
 *      weft_linear_plan(ctx, &(weft_linear_desc){.size = sizeof(weft_linear_desc), ...}, &plan);
 *      void *workspace = malloc(weft_plan_workspace_bytes(plan));
 *      weft_linear_run(plan, &(weft_linear_args){.size = sizeof(weft_linear_args), ...});
 *      weft_plan_destroy(plan);
 *      weft_context_destroy(ctx);
 *
 *  Descriptors are plain structs: the first member is the struct's size, all-zero members mean the
 *  default, and new members are only ever taken from the reserved tail, which must be zero. Members
 *  named reserved0 are padding.
 *
 *  What holds for every operation, unless its header says otherwise:
 *
 *  Owner    the caller owns every buffer and keeps it until the run returns; descriptors are copied.
 *           Plans are freed with weft_plan_destroy()
 *  Align    buffers as their elements need (f32 and int32_t: 4 bytes; f16, bf16 and blocks: 2),
 *           workspaces 64 bytes; a run refuses anything else
 *  Alias    a result must not overlap anything else that the run is given. This is not checked
 *  Threads  several threads may make and run plans of one context at the same time. They may even run
 *           the same plan, each with its own workspace and results. A host's executor, allocator and
 *           log must then allow concurrent calls; the default ones do. Of concurrent runs one gets the
 *           context's threads, the others work on the thread that called
 *  Fork     a forked child may keep using CPU contexts and plans that no other thread was using at the
 *           time: their threads start anew. A host's executor must be able to do the same. GPU
 *           contexts stay with the parent
 *  Errors   WEFT_EINVAL for NULL (the context or plan too), a struct without its size, members that
 *           this version does not know, a stride shorter than its row or longer than memory, a
 *           misaligned buffer. Everything is checked before anything is written, and
 *           weft_error_text() explains the failure
 */
#ifndef WEFT_CONTEXT_H
#define WEFT_CONTEXT_H

#include <stdbool.h>

#include "device.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_plan weft_plan;

/** One unit of parallel work: task `index` of the loop that parallel_for was given. `thread` is in
 *  [0, executor threads); tasks that run at the same time have different ones. */
typedef void weft_task_fn(void *work, int32_t index, int32_t thread);

/** Runs CPU work on the host's own threads (OpenMP's, a scheduler's) instead of the library's.
 *  `threads` is 1 to 1024. docs/examples/openmp_executor.h shows one.
 *
 *  parallel_for must call task(work, i, thread) exactly once for every i in [0, count), on any
 *  threads in any order, and return when all calls have returned. count may be 1. A task uses less than
 *  1 MiB of its thread's stack.
 */
typedef struct weft_executor {
    void *user;
    int32_t threads;
    void (*parallel_for)(void *user, int32_t count, weft_task_fn *task, void *work);
    uint64_t reserved[2];
} weft_executor;

/** The host's memory for contexts, plans and weft_memory_allocate() (workspaces and tensors are the
 *  caller's). allocate returns memory aligned to 64 bytes or NULL. Both must be callable from any thread. */
typedef struct weft_allocator {
    void *user;
    void *(*allocate)(void *user, size_t bytes);
    void (*release)(void *user, void *memory);
    uint64_t reserved[2];
} weft_allocator;

typedef struct weft_context_desc {
    uint32_t size;
    weft_device device;
    int32_t threads;               /**< CPU threads, at most 1024; 0 = see weft_context_create() */
    int32_t device_index;          /**< which of weft_device_count() */
    const weft_executor *executor; /**< NULL = threads of the library's own; copied */
    const weft_allocator *allocator; /**< NULL = the C library; copied */
    /** Receives one line of text per noteworthy choice; NULL = silence. */
    void (*log)(void *user, const char *line);
    void *log_user;
    /** GPU only: the driver's context (CUcontext) to work in, and the stream (CUstream, cudaStream_t) to
     *  use as the context's own. Both stay the caller's. The device is then that of native_context. NULL =
     *  the primary context of device_index, and a stream that the library creates. */
    void *native_context;
    void *native_stream;
    /** The file of measured thresholds (tuning.h); NULL = the machine's own, "" = none. */
    const char *tuning;
    uint64_t reserved[7];
} weft_context_desc;

/** Makes a context.
 *
 *  desc     NULL or all-zero: the CPU, with one thread for each core that the process may use
 *           (affinity) on one NUMA node, not counting the slow cores of a hybrid CPU, and no more than
 *           a cgroup's quota allows
 *  Owner    the caller: weft_context_destroy(), after all plans of the context are gone and no call
 *           that uses them is under way
 *  Threads  any
 *  Errors   WEFT_EINVAL for a bad descriptor, WEFT_EUNSUPPORTED for a device that this build or machine
 *           lacks, WEFT_ENOMEM. The environment variable WEFT_CPU=ref|avx2|avx512|avx512vnni|
 *           avx512bf16|amx|neon|neondot lowers the instruction set; an unknown name, or one of another
 *           architecture, is WEFT_EINVAL
 */
WEFT_API weft_status weft_context_create(const weft_context_desc *desc, weft_context **out);

/** Frees a context. NULL is allowed. */
WEFT_API void weft_context_destroy(weft_context *context);

/** The sentence that explains the last failed call with this context or one of its plans; "" if none
 *  failed. NULL: the last failed weft_context_create() on this thread. Valid until the next failure on
 *  any thread. */
WEFT_API const char *weft_error_text(const weft_context *context);

/** Name of the instruction set that kernels of this context may use, e.g. "avx512vnni"; "" for NULL. */
WEFT_API const char *weft_context_isa(const weft_context *context);

/** Number of threads that run the context's work; 0 for NULL. */
WEFT_API int32_t weft_context_threads(const weft_context *context);

/** What a context has done since it was made. `size` is set by the caller before the call. */
typedef struct weft_counters {
    uint32_t size;
    int32_t reserved0;
    int64_t runs;        /**< runs started, those of launched programs included */
    int64_t allocations; /**< calls of the allocator; runs and launches make none */
    uint64_t reserved[8];
} weft_counters;

/** Reads the counters.
 *
 *  Errors   WEFT_EINVAL for NULL or `counters` without their size
 */
WEFT_API weft_status weft_context_count(const weft_context *context, weft_counters *counters);

/** Bytes of workspace that every run of the plan must be given; 0 if none, or for NULL. */
WEFT_API size_t weft_plan_workspace_bytes(const weft_plan *plan);

/** One line that names the kernel chosen and how its work is split, e.g.
 *  "linear q4_0 4096x14336 batch<=1: linear_q4_0_q8_avx512vnni, 32 rows per task".
 *  Valid as long as the plan; "" for NULL. */
WEFT_API const char *weft_plan_describe(const weft_plan *plan);

/** What a plan decided. The caller sets `size` before the call. A member that does not apply, or that
 *  the device decides later, is 0. */
typedef struct weft_plan_info {
    uint32_t size;
    int32_t splits;    /**< most parts that one sum is split into and added up from; 1 = no split */
    int64_t tasks;     /**< units of parallel work of a run at the descriptor's maxima */
    int64_t tile_rows; /**< rows (tokens, queries, rows of W) of a task */
    int64_t bytes_read;      /**< what a run at the maxima must read, counting every byte once */
    int64_t bytes_written;   /**< likewise */
    int64_t workspace_bytes; /**< as weft_plan_workspace_bytes() */
    const char *kernel;      /**< name of the kernel; valid as long as the library */
    /** Linear layers on the CPU, at the descriptor's maxima: int8 or bf16 if every part rounds X to that
     *  before it multiplies; else f32 (0). */
    weft_dtype rounds_x_to;
    /** Linear layers on the CPU: the fewest rows of X that a part's packed blocks meet as bf16, with the error
     *  that linear.h states for it; 0: they never do. */
    int32_t packed_bf16_batch;
    /** Linear layers on the CPU: name of the kernel that reads the first part's packed weights at the
     *  descriptor's maxima, NULL if there is none; valid as long as the library. */
    const char *packed_kernel;
    uint64_t reserved[6];
} weft_plan_info;

/** The same as numbers, for programs and tests.
 *
 *  Errors   WEFT_EINVAL for NULL or an `info` without its size
 */
WEFT_API weft_status weft_plan_query(const weft_plan *plan, weft_plan_info *info);

/** Frees a plan. NULL is allowed. */
WEFT_API void weft_plan_destroy(weft_plan *plan);

/** One kernel of the library. */
typedef struct weft_kernel_info {
    const char *op;      /**< "linear", "attention", ... */
    const char *name;    /**< the name a plan's `variant` accepts */
    const char *isa;     /**< "ref", "avx2", ...; "sm_90a" for CUDA */
    const char *backend; /**< "cpu" or "cuda" */
    bool usable;         /**< this context's device has what it needs */
    uint64_t reserved[4];
} weft_kernel_info;

/** The n-th kernel, n = 0, 1, ...; false past the last, and for NULL. */
WEFT_API bool weft_kernel_at(const weft_context *context, int32_t n, weft_kernel_info *out);

/** A kernel that was compiled for the context's device, with the constants that a plan asked for. */
typedef struct weft_instance_info {
    uint32_t size;
    int32_t registers;    /**< of a thread */
    int32_t shared_bytes; /**< static, of a block */
    int32_t spill_bytes;  /**< of a thread's local memory; 0 in what is shipped */
    int32_t max_threads;  /**< of a block */
    int32_t from_disk;    /**< 1: it was in the cache, 0: compiled by this process */
    const char *name;     /**< "function[CONSTANT=value,...]"; lives as long as the context */
    const char *failure;  /**< why it could not be compiled, NULL if it was */
    uint64_t reserved[8];
} weft_instance_info;

/** The n-th instance, n = 0, 1, ...; waits until it has been compiled. False past the last, for NULL, and on
 *  a device whose kernels come with the library. WEFT_CUDA_DUMP=FOLDER in the environment writes the machine
 *  code of each into a file there. */
WEFT_API bool weft_instance_at(weft_context *context, int32_t n, weft_instance_info *out);

/** Told what is done and what has been asked for. */
typedef void weft_progress_fn(void *user, int32_t done, int32_t count);

/** Waits until everything that the context's plans need has been compiled, so that no run does: plans return
 *  while threads of the library compile for them. progress (may be NULL) is called with what is done and
 *  what has been asked for, on this thread.
 *
 *  Errors   WEFT_EINVAL for NULL; WEFT_EDEVICE with the compiler's words for the first kernel that failed
 */
WEFT_API weft_status weft_prewarm(weft_context *context, weft_progress_fn *progress, void *user);

#ifdef __cplusplus
}
#endif
#endif
