// SPDX-License-Identifier: MIT
/** Embedding: rows of a table in any weight format, as activations. */
#ifndef WEFT_EMBEDDING_H
#define WEFT_EMBEDDING_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_embedding_desc {
    uint32_t size;
    weft_dtype table_dtype;
    int64_t rows;       /**< vocabulary */
    int64_t dim;        /**< a whole number of blocks */
    int32_t max_tokens; /**< 0 = 1 */
    float scale;        /**< multiplies the result; 0 = 1 */
    weft_dtype y_dtype; /**< 0 = f32; f16, bf16 */
    /** Of scales and biases beside the table (int8, fp8_* and mlx_* need them, others may have them): f32,
     *  f16 or bf16; 0 = there are none. */
    weft_dtype scale_dtype;
    const char *variant;
    int64_t scale_cols; /**< columns per scale; 0: the format's block, or the row if plain */
    int64_t scale_rows; /**< rows per scale; 0 = 1 */
    uint64_t reserved[6];
} weft_embedding_desc;

typedef struct weft_embedding_args {
    uint32_t size;
    int32_t tokens;
    const void *table;          /**< [rows][dim] */
    int64_t table_stride_bytes; /**< 0 = packed */
    const int32_t *ids;         /**< [tokens], each in [0, rows) */
    void *y;                    /**< [tokens][dim] */
    int64_t y_stride;           /**< elements; 0 = dim */
    weft_stream *stream;        /**< NULL = the context's own */
    const void *scales;         /**< [rows / scale_rows][dim / scale_cols], both rounded up */
    const void *biases;         /**< likewise, or NULL = 0 */
    int64_t scale_stride;       /**< elements from row to row of scales and biases; 0 = packed */
    const void *residual;       /**< [tokens][dim] with y's format and stride, or NULL; may be y */
    uint64_t reserved[4];
} weft_embedding_args;

/** Plans y[i] = scale * table[ids[i]] [+ residual[i]].
 *
 *  With scales beside the table: y[i] = scale * (code * scales[r][g] + biases[r][g]) [+ residual[i]],
 *  r = ids[i] / scale_rows, g = column / scale_cols.
 *
 *  Numerics blocks are decoded bit-exactly to their specification (src/formats/); the residual is added
 *           in f32
 *  Errors   WEFT_EINVAL for a bad shape, an unknown format, a scale that is not finite, or another
 *           scale_dtype; WEFT_EOVERFLOW if the table's bytes do not fit; WEFT_EUNSUPPORTED,
 *           WEFT_EVARIANT, WEFT_ENOMEM
 *  Source   the format's specification, named in its header in src/formats/
 */
WEFT_API weft_status weft_embedding_plan(weft_context *context, const weft_embedding_desc *desc,
                                         weft_plan **out);

/** Runs the plan.
 *
 *  Alias    y must not overlap the table; residual is y itself or does not overlap it
 *  Errors   WEFT_EINVAL for NULL pointers (scales too, if the plan has them), tokens outside
 *           0..max_tokens, an id outside the table. Checked before anything is written
 */
WEFT_API weft_status weft_embedding_run(const weft_plan *plan, const weft_embedding_args *args);

#ifdef __cplusplus
}
#endif
#endif
