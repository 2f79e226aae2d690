// SPDX-License-Identifier: MIT
/** Tuning: the thresholds and sizes that were measured to be best on a machine.
 *
 *  A table of entries. CPU plans choose a kernel and divide their work by it. On a GPU an entry names a
 *  kernel (`kernel`) and, for attention, gives `tile_rows`, `few_keys` and `cluster_keys`; a value that no
 *  entry gives is the one measured on a device of that name, else the one measured on an H200.
 *
 *  An entry has a key (the problem that it is for; a member that is 0 stands for all) and values (0: not
 *  given). A plan takes each value from the first entry that matches its problem and gives it: the caller's
 *  entries come first, the last added before the others, then those of the machine's file, then those of
 *  the library. What the descriptor itself says goes before all of them.
 *
 *  `weft tune linear` and `weft tune attention` measure and write the file: $WEFT_TUNING, or
 *  tuning-<machine>.txt in $WEFT_CACHE_DIR, else $XDG_CACHE_HOME/weft, else ~/.cache/weft. It belongs to one
 *  CPU or GPU, one instruction set and one version of the library. A context reads it when it is created. A
 *  file that is damaged, too long or of another machine is ignored as a whole, and weft_tuning_note() says
 *  why. WEFT_TUNING=off reads none.
 *
 *  Values change speed and the order of sums: results stay within the bounds of linear.h and attention.h.
 *  Plans that are exact or batch-invariant (WEFT_LINEAR_EXACT, WEFT_LINEAR_BATCH_INVARIANT,
 *  WEFT_ATTENTION_BATCH_INVARIANT) use only the library's values, so their bits do not depend on a file.
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
    /** Linear: most rows of X for the kernels of a few rows, 1..8; more go to panels. */
    int32_t few_batch;
    int32_t task_bytes;       /**< linear: weights of a task, for a few rows of X; 4096 .. 2^30 */
    int32_t tasks_per_thread; /**< linear: for more rows of X; 1..1024 */
    /** Attention: queries times heads of a tile; 1..4096. On a GPU: of prompts, more than 16. */
    int32_t tile_rows;
    /** Attention: fewest keys that are worth a task of their own, a multiple of 64 up to 2^20. Sequences of
     *  no more keys are done in one pass, longer ones in chunks. */
    int32_t least_chunk;
    int32_t target_tasks; /**< attention: chunks are sized to make about this many tasks; 1..1024 */
    /** Name of a kernel: of panels (linear on the CPU), or of all problems (attention; linear on a GPU). The
     *  best one takes its place where it does not serve a problem. "" = the best one. */
    char kernel[64];
    int32_t block_keys; /**< attention: keys between two updates of the largest score; 1..64 */
    /** Attention on a GPU, plans of one sequence: up to `cluster_keys` keys are read by clusters of blocks
     *  made for one sequence, up to `few_keys` in a shape in which two launches share the device;
     *  1..2^30. */
    int32_t few_keys;
    int32_t cluster_keys;
    int32_t reserved0;
    uint64_t reserved[2];
} weft_tuning;

/** Adds an entry that goes before all others. Its key is rounded as the members say. Existing plans do not
 *  change.
 *
 *  Threads  not while other threads make plans of the context
 *  Errors   WEFT_EINVAL for NULL, a missing size, a value outside its bounds, a value of the other
 *           operation, a kernel that does not exist or cannot run here, and on a GPU any value that it does
 *           not use; WEFT_ENOMEM, also beyond 512 entries. Text in weft_error_text(context)
 */
WEFT_API weft_status weft_tuning_add(weft_context *context, const weft_tuning *entry);

/** Forgets the caller's entries and those of the file. Existing plans do not change. */
WEFT_API void weft_tuning_clear(weft_context *context);

/** The n-th entry, n = 0, 1, ..., in the order in which plans look; false past the last. */
WEFT_API bool weft_tuning_at(const weft_context *context, int32_t n, weft_tuning *out);

/** Writes an entry as a line of the file, without the line end: "linear q4_0 rows=4096 few_batch=6".
 *
 *  Errors   WEFT_EINVAL for NULL, a missing size or too few bytes
 */
WEFT_API weft_status weft_tuning_text(const weft_tuning *entry, char *text, size_t bytes);

/** The values that a plan would take: reads the key of `problem`, sets all of *out.
 *
 *  Errors   WEFT_EINVAL for NULL or an unknown op
 */
WEFT_API weft_status weft_tuning_choose(const weft_context *context, const weft_tuning *problem,
                                        weft_tuning *out);

/** One line about the machine's file: where its entries are from, or why it was ignored; "" if there is no
 *  file. Valid as long as the context. */
WEFT_API const char *weft_tuning_note(const weft_context *context);

/** Writes the entries of the file and of the caller to a file, under another name first and then renamed.
 *  Of entries with the same key the last is written. path NULL: the file that contexts read.
 *
 *  Errors   WEFT_EINVAL for NULL, WEFT_EUNSUPPORTED where there is no such place (WEFT_TUNING=off, no HOME),
 *           WEFT_EDEVICE if it cannot be written. Text in weft_error_text(context)
 */
WEFT_API weft_status weft_tuning_write(weft_context *context, const char *path);

#ifdef __cplusplus
}
#endif
#endif
