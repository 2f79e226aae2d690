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
    int32_t reserved0;
    const char *variant;
    uint64_t reserved[8];
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
    uint64_t reserved[8];
} weft_embedding_args;

/** Plans y[i] = scale * table[ids[i]].
 *
 *  Numerics the block's decoding is bit-exact to its specification (src/formats/)
 *  Errors   WEFT_EINVAL for a shape, a format that is none, a scale that is not finite; WEFT_EOVERFLOW
 *           if the table's bytes do not fit; WEFT_EUNSUPPORTED, WEFT_EVARIANT, WEFT_ENOMEM
 *  Source   the format's specification, named in its header in src/formats/
 */
WEFT_API weft_status weft_embedding_plan(weft_context *context, const weft_embedding_desc *desc,
                                         weft_plan **out);

/** Runs the plan.
 *
 *  Alias    y must not overlap the table
 *  Errors   WEFT_EINVAL for NULL pointers, tokens outside 0..max_tokens, an id outside the table
 *           (checked before anything is written)
 */
WEFT_API weft_status weft_embedding_run(const weft_plan *plan, const weft_embedding_args *args);

#ifdef __cplusplus
}
#endif
#endif
