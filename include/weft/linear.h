// SPDX-License-Identifier: MIT
/** Linear layers: y = W x for one row of activations (GEMV), Y = X W^T for many (GEMM).
 *
 *  A run can also do what surrounds a matrix in a transformer, in one pass and with activations rounded
 *  once:
 *
 *      parts     several matrices that read the same input: Q, K and V; gate and up
 *      norm      of the input, before it is multiplied
 *      x_gate    function(first half of the input) * second half, before it is multiplied: a
 *                down-projection that reads what gate and up made
 *      gate      function(first part) * second part, for two parts of equal rows;
 *                function(part) for a single one
 *      residual  added to the result
 *      next      a second output, for the layers behind the next norm: y times that norm's weights,
 *                rounded
 *
 *      weft_linear_desc qkv = {.size = sizeof qkv, .cols = 2048, .norm = WEFT_LINEAR_NORM_RMS,
 *          .norm_eps = 1e-5f, .num_parts = 3, .parts = {{.weight_dtype = WEFT_Q4_K, .rows = 2048},
 *          {.weight_dtype = WEFT_Q4_K, .rows = 512}, {.weight_dtype = WEFT_Q6_K, .rows = 512}}};
 *
 *  **Rounded activations.** Kernels for block-quantised weights round activations to 8 bits, in groups of
 *  32 columns with an f32 scale each. Where several matrices read the same input, or one layer's result
 *  is the next one's input, the rounding can be done once, into a *rounded buffer*: opaque, of
 *  weft_rounded_bytes(), 64-byte aligned, with one layout for all formats of a device. It is written by
 *  weft_round_run() or by a layer with WEFT_LINEAR_Y_ROUNDED or WEFT_LINEAR_NEXT, and read by layers with
 *  WEFT_LINEAR_X_ROUNDED.
 */
#ifndef WEFT_LINEAR_H
#define WEFT_LINEAR_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /** Activations stay f32 and every product is formed in f32. Without this flag
     *  - block-quantised formats round activations to 8 bits per group of 32 (f32 scale), which is
     *    several times faster;
     *  - on a GPU, many rows of X by f16 or bf16 weights (fp8 and int8 too where cuBLASLt is there) are
     *    multiplied as 16-bit numbers (weft_linear_run(), Numerics);
     *  - on a CPU that multiplies bf16, more than 4 rows of X by f16 or bf16 weights have activations and
     *    weights rounded to bf16 (to nearest even, numbers below 2^-126 to zero).
     *  - on a CPU with tiles for bf16 (AMX), 64 rows of X and more (q6_k: 32) by packed blocks have
     *    activations and weights, times their scales and less their minima, rounded to bf16 (likewise):
     *    activations at once, or those of a rounded buffer times their scales.
     *  The last three do not apply with WEFT_LINEAR_BATCH_INVARIANT. f32 weights (but see
     *  WEFT_LINEAR_F32_AS_BF16), and fp8 and int8 weights elsewhere, are exact either way. */
    WEFT_LINEAR_EXACT = 1u << 0,
    /** To the bit, a row of Y does not depend on how many other rows are in the batch. */
    WEFT_LINEAR_BATCH_INVARIANT = 1u << 1,
    /** `x` is a rounded buffer of `cols` columns; every part is block-quantised and not exact. With
     *  norm = RMS the buffer comes from WEFT_LINEAR_NEXT: it holds the norm's weights already, and the
     *  result is multiplied by 1 / sqrt(mean square + norm_eps). */
    WEFT_LINEAR_X_ROUNDED = 1u << 2,
    /** `y` (of the only part, or of the gate) is a rounded buffer of `rows` columns, a multiple of 32. */
    WEFT_LINEAR_Y_ROUNDED = 1u << 3,
    /** `next` receives y * next_weight, rounded, and the mean squares of y's rows. One part only, rows a
     *  multiple of 32. A layer with WEFT_LINEAR_X_ROUNDED and norm = RMS reads it. */
    WEFT_LINEAR_NEXT = 1u << 4,
    /** The norm's weights and next_weight are stored minus 1 (Gemma). */
    WEFT_LINEAR_NORM_PLUS_ONE = 1u << 5,
    /** f32 weights may be rounded to bf16 as f16 ones are: with more than 8 rows of X, on a CPU that
     *  multiplies bf16, unless WEFT_LINEAR_EXACT or WEFT_LINEAR_BATCH_INVARIANT. No effect elsewhere. */
    WEFT_LINEAR_F32_AS_BF16 = 1u << 6,
    WEFT_LINEAR_MAX_PARTS = 4,
};

/** A norm of the rows of X before they are multiplied (norm.h says what each does). */
typedef enum weft_linear_norm {
    WEFT_LINEAR_NORM_NONE = 0,
    WEFT_LINEAR_NORM_RMS = 1,
    WEFT_LINEAR_NORM_LAYER = 2,
} weft_linear_norm;

/** function(first part) * second part, for two parts of equal rows (activation.h); for a single part the
 *  function of its result (on the CPU). */
typedef enum weft_linear_gate {
    WEFT_LINEAR_GATE_NONE = 0,
    WEFT_LINEAR_GATE_SILU = 1,
    WEFT_LINEAR_GATE_GELU = 2,
    WEFT_LINEAR_GATE_GELU_TANH = 3,
} weft_linear_gate;

/** One matrix. Formats with scales beside them (int8, fp8_*, mlx_*; others may have them too):
 *  w[r][i] = (code * scales[r / scale_rows][g] + biases[r / scale_rows][g]) * global_scale,
 *  g = i / scale_cols. */
typedef struct weft_linear_part {
    weft_dtype weight_dtype;
    weft_dtype scale_dtype; /**< of scales and biases: f32 (0), f16 or bf16 */
    int64_t rows;           /**< outputs */
    int64_t scale_cols;     /**< columns per scale; 0: the format's block, or the row if plain */
    int64_t scale_rows;     /**< rows per scale; 0 = 1 */
    uint64_t reserved[4];
} weft_linear_part;

typedef struct weft_linear_desc {
    uint32_t size;
    uint32_t flags;
    weft_dtype weight_dtype; /**< of the only matrix, with `rows`, when num_parts is 0 */
    weft_dtype x_dtype;      /**< f32 (0), f16 or bf16 */
    weft_dtype y_dtype;      /**< of y and residual: f32 (0), f16 or bf16 */
    int32_t max_batch;       /**< most rows of X in a run; 0 = 1 */
    int64_t rows;            /**< outputs, rows of W */
    int64_t cols;            /**< inputs, columns of W; a whole number of blocks */
    const char *variant;     /**< name of a kernel for every part; NULL = the best ones */
    int32_t num_parts;       /**< 0..WEFT_LINEAR_MAX_PARTS; 0: one, of weight_dtype and rows */
    weft_linear_norm norm;
    float norm_eps;
    weft_linear_gate gate;
    weft_linear_part parts[WEFT_LINEAR_MAX_PARTS];
    /** x is X[batch][2 cols], rows of a gate and behind it of what it lets through; multiplied is
     *  function(gate) * up, made as rows are loaded: once a run, where the rows of W share it. On the CPU;
     *  neither with a norm nor WEFT_LINEAR_X_ROUNDED. `gate` in the layer before makes and rounds the same
     *  product without storing its factors, which is less to move. */
    weft_linear_gate x_gate;
    int32_t reserved0;
    uint64_t reserved[7];
} weft_linear_desc;

/** A matrix and its result in a run. */
typedef struct weft_linear_part_args {
    const void *weight;          /**< W[rows][cols] */
    int64_t weight_stride_bytes; /**< from row to row; 0 = packed */
    const void *scales;          /**< [rows / scale_rows][cols / scale_cols], NULL = 1 */
    const void *biases;          /**< likewise, NULL = 0 */
    int64_t scale_stride;        /**< elements of scales and biases from row to row; 0 = packed */
    float global_scale;          /**< 0 = 1 */
    int32_t reserved0;
    void *y;           /**< Y[batch][rows]; unused in the second part of a gate */
    int64_t y_stride;  /**< elements from row to row; 0 = rows */
    const float *bias; /**< [rows] or NULL */
    /** What weft_linear_pack() made, instead of weight, scales and biases; for both parts of a gate or
     *  for neither. bf16 weights of a part with a layout may lie beside it: they are read where
     *  weft_linear_pack() refused them. */
    const void *packed;
    uint64_t reserved[4];
} weft_linear_part_args;

typedef struct weft_linear_args {
    uint32_t size;
    int32_t batch;               /**< rows of X in this run, 0..max_batch; 0 does nothing */
    const void *weight;          /**< the only matrix, when num_parts is 0; otherwise NULL */
    int64_t weight_stride_bytes; /**< from row to row; 0 = packed */
    const void *x;               /**< X[batch][cols] (x_gate: 2 cols), or a rounded buffer */
    int64_t
        x_stride; /**< elements from row to row; 0 = those of a row; a rounded buffer has none */
    void *y;      /**< Y[batch][rows], when num_parts is 0; or a rounded buffer */
    int64_t y_stride;        /**< elements from row to row; 0 = rows */
    const float *bias;       /**< [rows] or NULL, when num_parts is 0 */
    const void *residual;    /**< [batch][rows], added to the result of the only part or of the
                                      gate; NULL = none; may be y */
    int64_t residual_stride; /**< 0 = rows */
    float alpha;             /**< multiplies every product, before bias and gate; 0 = 1 */
    int32_t reserved0;
    void *workspace;
    size_t workspace_bytes;
    weft_stream *stream;      /**< NULL = the context's own */
    const float *norm_weight; /**< [cols], NULL = ones (X_ROUNDED: NULL) */
    const float *norm_bias;   /**< [cols], LayerNorm only, NULL = zeros */
    const float *next_weight; /**< [rows] of the next norm, NULL = ones (WEFT_LINEAR_NEXT) */
    void *next;               /**< a rounded buffer of `rows` columns (WEFT_LINEAR_NEXT) */
    const void *packed;       /**< instead of weight (but see parts), when num_parts is 0 */
    weft_linear_part_args parts[WEFT_LINEAR_MAX_PARTS]; /**< when num_parts is not 0 */
    uint64_t reserved[8];
} weft_linear_args;

/** Plans, for every part p, Y_p = alpha * norm(X) W_p^T + bias_p; with x_gate function(X_0) * X_1 is in the
 *  place of norm(X), X_0 and X_1 being the halves of X's rows. A gate makes of these
 *  Y = function(Y_0) * Y_1, or Y = function(Y_0) if there is one part. Then Y += residual.
 *
 *  Shapes   W[rows][cols] in blocks of weight_dtype, X[batch][cols], Y[batch][rows];
 *           cols % weft_dtype_block_elems(weight_dtype) == 0; rows and cols >= 1
 *  Owner    the caller frees the plan with weft_plan_destroy()
 *  Errors   WEFT_EINVAL for a bad shape or flags, or a combination that this header rules out;
 *           WEFT_EUNSUPPORTED for the format (weft_linear_supported() gives the reason); WEFT_EVARIANT;
 *           WEFT_EOVERFLOW if the bytes of W do not fit; WEFT_ENOMEM. Text in weft_error_text(context)
 *  Source   src/kernels/linear/NOTES.md
 */
WEFT_API weft_status weft_linear_plan(weft_context *context, const weft_linear_desc *desc,
                                      weft_plan **out);

/** Runs the plan.
 *
 *  Align    W as its element type (weft/format.h), x, y and residual as theirs, bias and the norms'
 *           weights 4 bytes, workspace and rounded buffers 64 bytes
 *  Alias    no y may overlap W, x, bias, another y or the workspace; residual may be y itself. `next`
 *           must not overlap anything
 *  Numerics f32 accumulation in a fixed order: two runs agree to the bit, whatever the number of
 *           threads. |error| <= 2^-23 * max(8, sqrt(cols)) * sum |w||x| against exact arithmetic on
 *           the activations that the kernel uses (see WEFT_LINEAR_EXACT), for rows of any length. For
 *           formats whose weights are differences or sums, |w| is the sum of the magnitudes of both
 *           terms. Where activations are rounded to 8 bits, a NaN or infinity in a group of 32 of them makes
 *           its row of Y NaN.
 *           On a GPU, runs without EXACT and BATCH_INVARIANT and with more than 16 rows of X (any
 *           number, if the variant names a kernel of cuBLASLt) multiply 16-bit numbers where weights are
 *           packed blocks, f16 or bf16, and fp8 or int8 where cuBLASLt is there. Weights (times their
 *           scales) and activations become f16, or bf16 for mxfp4 and bf16, which adds at most
 *           2^-9 (bf16: 2^-8) * sum |w||x| + 2^-17 * sum |x| to the error; |w| < 65504 there. The bits
 *           are then those of one version of cuBLASLt and one kind of GPU.
 *           On a CPU with AMX, packed blocks by many rows of X (WEFT_LINEAR_EXACT says how many) likewise become
 *           bf16 and add at most 2^-7 (mxfp4: 2^-8) * sum |w||x|, for rows of more than 15360 columns
 *           2^-29 * cols * sum |w||x| besides; numbers below 2^-126 are zero.
 *           On a GPU, where activations are rounded and weights have a minimum, sums of 16 activations below
 *           2^-96 are kept to 2^-119, which is multiplied by the minimum.
 *           Norm and gate are as exact as those of norm.h and activation.h. A 16-bit y is rounded once,
 *           to nearest even
 *  Threads  as context.h says: a plan may be shared by threads that use different workspaces
 *  Errors   WEFT_EINVAL for NULL pointers, batch outside 0..max_batch, strides below the row length
 *           (even that of a NULL residual), an alpha that is not finite, a rounded x with other columns,
 *           with fewer rows or without what the norm needs; WEFT_EWORKSPACE. Nothing is written then
 */
WEFT_API weft_status weft_linear_run(const weft_plan *plan, const weft_linear_args *args);

/** Can this context run the descriptor? If not, `reason` (may be NULL) receives a sentence, valid as long
 *  as that of weft_error_text(); if so, "". */
WEFT_API bool weft_linear_supported(weft_context *context, const weft_linear_desc *desc,
                                    const char **reason);

/** Bytes of the packed weights of a part (0: the first or only one), scales and biases included. 0 for a
 *  plan of another operation, NULL, or a part that the plan does not have. */
WEFT_API size_t weft_linear_packed_bytes(const weft_plan *plan, int32_t part);

/** Name of the layout that weft_linear_pack() gives the weights of a part. Within one version of the
 *  library, equal names mean equal bytes for parts of equal format, rows and cols. NULL where weights stay
 *  as a file has them (the CPU reads those as fast where they are), and where weft_linear_packed_bytes()
 *  is 0. For a plan over experts: the layout of weft_experts_pack(), with the rows of all experts. */
WEFT_API const char *weft_linear_packed_layout(const weft_plan *plan, int32_t part);

typedef struct weft_linear_pack_args {
    uint32_t size;
    int32_t part;                /**< of the plan; 0: the first or only one */
    const void *weight;          /**< W[rows][cols], the host's */
    int64_t weight_stride_bytes; /**< from row to row; 0 = packed */
    const void *scales;          /**< as in weft_linear_part_args, the host's */
    const void *biases;
    int64_t scale_stride;
    void *packed; /**< weft_linear_packed_bytes() of the device's memory, 64-byte aligned */
    void (*progress)(void *user, size_t done,
                     size_t total); /**< called from time to time; or NULL */
    void *user;
    weft_stream *stream; /**< NULL = the context's own */
    uint64_t reserved[8];
} weft_linear_pack_args;

/** Lays out the weights of a part as the plan reads them, on its device: this is the upload. A run takes
 *  the result as `packed`. It serves every plan of the same context whose part has the same format, rows,
 *  cols and scales, whose flags agree about WEFT_LINEAR_EXACT, and whose variant, if it names one, reads
 *  packed weights.
 *
 *  The CPU has kernels for packed weights of some formats (weft_plan_describe() names them): they read
 *  memory as one stream and need half the arithmetic. Rows of the other formats are only brought close
 *  together. On a GPU, blocks that lie as in a file run several times slower than packed ones. All threads
 *  of the context take part.
 *  bf16 weights become 12 bits on a CPU with AMX, where columns are a multiple of 128 and the plan has no
 *  WEFT_LINEAR_EXACT; without loss: their exponents become codes of 4 bits, and weights of other than the most
 *  frequent exponents stand in a list. A matrix of which more than one weight in 256 would stand there is
 *  refused (WEFT_EUNSUPPORTED): `packed` says so to runs, which then want `weight` beside it.
 *
 *  Owner    the caller; `weight`, `scales` and `biases` may go when the stream has been waited for
 *  Alias    none
 *  Errors   WEFT_EINVAL for a plan of another operation, no such part, NULL, short strides, scales for a
 *           part that has none, misaligned `packed`, or rows more than 2^27 bytes apart where the layout
 *           moves them; WEFT_EUNSUPPORTED for bf16 weights that 12 bits do not hold; WEFT_EDEVICE. Text in
 *           weft_error_text(context)
 */
WEFT_API weft_status weft_linear_pack(const weft_plan *plan, const weft_linear_pack_args *args);

/** Bytes of a rounded buffer for `rows` rows of `cols` activations; 0 if rows < 0, cols < 1 or the bytes
 *  do not fit. A buffer may be used for fewer rows. */
WEFT_API size_t weft_rounded_bytes(const weft_context *context, int64_t rows, int64_t cols);

typedef struct weft_round_desc {
    uint32_t size;
    uint32_t flags;      /**< WEFT_LINEAR_BATCH_INVARIANT if its readers have that flag, else 0 */
    weft_dtype x_dtype;  /**< f32 (0), f16 or bf16 */
    int32_t max_rows;    /**< 0 = 1 */
    int64_t cols;        /**< a multiple of 32 */
    const char *variant; /**< name of a kernel, NULL = the best one */
    uint64_t reserved[8];
} weft_round_desc;

typedef struct weft_round_args {
    uint32_t size;
    int32_t rows;     /**< 0..max_rows */
    const void *x;    /**< [rows][cols] */
    int64_t x_stride; /**< elements from row to row; 0 = cols */
    void *rounded;    /**< of weft_rounded_bytes(context, rows, cols) */
    weft_stream *stream;
    uint64_t reserved[8];
} weft_round_args;

/** Plans the rounding of activations for WEFT_LINEAR_X_ROUNDED.
 *
 *  Source   src/kernels/linear/NOTES.md
 *  Errors   WEFT_EINVAL for cols that are not a positive multiple of 32, unknown flags or dtype;
 *           WEFT_EVARIANT, WEFT_ENOMEM; text in weft_error_text(context)
 */
WEFT_API weft_status weft_round_plan(weft_context *context, const weft_round_desc *desc,
                                     weft_plan **out);

/** Runs the plan.
 *
 *  Numerics per group of 32: scale = a / 127, a = max |x|; x * (127 / a) rounded to nearest even; 0 where
 *           a < 2^-120. The same bits as a linear layer's own rounding
 *  Align    rounded: 64 bytes
 *  Alias    none
 *  Errors   WEFT_EINVAL for NULL pointers, rows outside 0..max_rows, a stride below cols
 */
WEFT_API weft_status weft_round_run(const weft_plan *plan, const weft_round_args *args);

#ifdef __cplusplus
}
#endif
#endif
