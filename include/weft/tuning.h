// SPDX-License-Identifier: MIT
/** What a machine likes best: the thresholds and sizes by which plans of the CPU choose a kernel and divide
 *  their work, as a table of entries. On a GPU an entry names a kernel (`kernel`), and for attention says `tile_rows`, `few_keys`
 *  and `cluster_keys`; where it says nothing, plans have what was measured on a device of that name, else on an H200.
 *
 *  An entry has a key (a problem that it is for; a member that is 0 stands for all) and values (0: it does not
 *  say). A plan takes every value from the first entry that serves its problem and has one: the caller's, the
 *  last added first, then those of the machine's file, then those of the library. What stands in the
 *  descriptor itself goes before all of them.
 *
 *  The file is what `weft tune linear` and `weft tune attention` write after measuring: $WEFT_TUNING, or
 *  tuning-<machine>.txt in $WEFT_CACHE_DIR, else $XDG_CACHE_HOME/weft, else ~/.cache/weft. It belongs to one
 *  CPU or GPU, one instruction set and one version of the library. A context reads it when it is
 *  created; a file that is damaged, too long or of another machine is left alone as a whole and
 *  weft_tuning_note() says why. WEFT_TUNING=off reads none.
 *
 *  Values change speed, and the order of sums: results stay within the bounds of linear.h and attention.h.
 *  Plans that are exact or batch-invariant (WEFT_LINEAR_EXACT, WEFT_LINEAR_BATCH_INVARIANT,
 *  WEFT_ATTENTION_BATCH_INVARIANT) take the library's values alone, so their bits do not depend on a file.
 */
#ifndef WEFT_TUNING_H
#define WEFT_TUNING_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_tuning_op {
    WEFT_TUNING_LINEAR = 1,
    WEFT_TUNING_ATTENTION = 2,
} weft_tuning_op;

typedef enum weft_tuning_source {
    WEFT_TUNING_BUILT_IN = 0,
    WEFT_TUNING_FILE = 1,
    WEFT_TUNING_CALLER = 2,
} weft_tuning_source;

typedef struct weft_tuning {
    uint32_t size;
    weft_tuning_source source; /**< set by the library */
    weft_tuning_op op;
    weft_dtype dtype;    /**< key: of W; of the cache */
    int32_t min_threads; /**< key: of the context, at least */
    int32_t kv_heads;    /**< key, attention: as a power of two, rounded up */
    int32_t head_dim;    /**< key, attention: as a multiple of 64, rounded up */
    int32_t page_size;   /**< key, attention: as a power of two, rounded up */
    int64_t rows;        /**< key, linear: as a power of two, rounded up */
    int64_t cols;        /**< key, linear: as a power of two, rounded up */
    /** Linear: most rows of X that kernels for a few rows serve, 1..8; more go to panels. */
    int32_t few_batch;
    int32_t task_bytes;       /**< linear: weights of a task, for a few rows of X; 4096 .. 2^30 */
    int32_t tasks_per_thread; /**< linear: for more rows of X; 1..1024 */
    /** Attention: queries times heads of a tile; 1..4096. On a GPU those of prompts, more than 16. */
    int32_t tile_rows;
    /** Attention: keys that are worth a task of their own, a multiple of 64 up to 2^20: sequences of no more
     *  keys are done in one pass, of more in chunks. */
    int32_t least_chunk;
    int32_t
        target_tasks; /**< attention: chunks are as long as makes about so many tasks; 1..1024 */
    /** Name of a kernel: of the panels (linear on the CPU), of all (attention, linear on a GPU). Where it does not serve a problem the
     *  best one does. "" = the best one. */
    char kernel[64];
    int32_t block_keys; /**< attention: keys between two looks at the largest score; 1..64 */
    /** Attention on a GPU: plans of one sequence of up to `cluster_keys` keys are read by clusters of blocks that are made for
     *  one, those of up to `few_keys` in a shape in which two launches share the device; 1..2^30. */
    int32_t few_keys;
    int32_t cluster_keys;
    int32_t reserved0;
    uint64_t reserved[2];
} weft_tuning;

/** Adds an entry that goes before all others. The key is rounded as its members say. Plans that are there
 *  stay as they are.
 *
 *  Threads  not while other threads make plans of the context
 *  Errors   WEFT_EINVAL for NULL, no size, a value outside its bounds, a value of the other operation, a
 *           kernel that is not there or cannot run here, on a GPU any other value;
 *           WEFT_ENOMEM, also beyond 512 entries. Text in weft_error_text(context)
 */
WEFT_API weft_status weft_tuning_add(weft_context *context, const weft_tuning *entry);

/** Forgets the caller's entries and those of the file. Plans that are there stay as they are. */
WEFT_API void weft_tuning_clear(weft_context *context);

/** The n-th entry, n = 0, 1, ..., in the order in which plans ask; false past the last. */
WEFT_API bool weft_tuning_at(const weft_context *context, int32_t n, weft_tuning *out);

/** An entry as a line of the file, without its end: "linear q4_0 rows=4096 few_batch=6".
 *
 *  Errors   WEFT_EINVAL for NULL, no size or too little room
 */
WEFT_API weft_status weft_tuning_text(const weft_tuning *entry, char *text, size_t bytes);

/** The values that a plan of this key takes: of `problem` the key is read, in *out everything is set.
 *
 *  Errors   WEFT_EINVAL for NULL or an op that is none
 */
WEFT_API weft_status weft_tuning_choose(const weft_context *context, const weft_tuning *problem,
                                        weft_tuning *out);

/** One line about the machine's file: where its entries are from, or why it was left alone; "" where there
 *  is none. Valid as long as the context. */
WEFT_API const char *weft_tuning_note(const weft_context *context);

/** Writes the entries of the file and of the caller to a file of the machine, beside its place first, then
 *  renamed; of entries with one key the last. path NULL: the file that contexts read.
 *
 *  Errors   WEFT_EINVAL for NULL, WEFT_EUNSUPPORTED where there is no such place (WEFT_TUNING=off, no HOME),
 *           WEFT_EDEVICE if it cannot be written. Text in weft_error_text(context)
 */
WEFT_API weft_status weft_tuning_write(weft_context *context, const char *path);

#ifdef __cplusplus
}
#endif
#endif
