// SPDX-License-Identifier: MIT
/** The feed-forward block of a mixture of experts, all experts of a layer in one run:
 *
 *      y_t = residual_t + alpha * sum over the experts e that token t goes to of
 *            weight_te * (W_down,e h_te + bias_down,e),
 *      h_te = function(W_gate,e x_t + bias_gate,e) * (W_up,e x_t + bias_up,e),   x_t = norm(x_t)
 *
 *  With WEFT_EXPERTS_PLAIN instead  h_te = function(W_gate,e x_t + bias_gate,e). With
 *  WEFT_EXPERTS_WEIGH_INPUT, weight_te multiplies x_t in both products, and results are added unweighted.
 *
 *  The tokens come sorted by expert, as weft_route_run() leaves them. A run reads the weights of a chosen
 *  expert once, however many tokens go to it, and those of other experts not at all. Kernels, formats and
 *  the rounding of activations are those of linear.h.
 *
 *      weft_experts_desc desc = {.size = sizeof desc, .experts = 128, .top_k = 8, .cols = 2048, .inner = 768,
 *          .gate = WEFT_LINEAR_GATE_SILU, .parts = {{.weight_dtype = WEFT_Q4_K}, {.weight_dtype = WEFT_Q4_K},
 *          {.weight_dtype = WEFT_Q6_K}}};
 *
 *  A shared expert with its own gate is a run of one expert whose route is the sigmoid of one logit.
 */
#ifndef WEFT_EXPERTS_H
#define WEFT_EXPERTS_H

#include "linear.h"
#include "route.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The three matrices of an expert. */
typedef enum weft_experts_place {
    WEFT_EXPERTS_GATE = 0, /**< [experts][inner][cols] */
    WEFT_EXPERTS_UP = 1,   /**< [experts][inner][cols] */
    WEFT_EXPERTS_DOWN = 2, /**< [experts][cols][inner] */
    WEFT_EXPERTS_PARTS = 3,
} weft_experts_place;

/** Flags beside those of linear.h. */
typedef enum weft_experts_flags {
    /** Experts without a gate (nomic-embed-text v2): the function of one product alone, whose matrix takes
     *  the place of the gate. The part of up is all zero, in the arguments too. */
    WEFT_EXPERTS_PLAIN = 1u << 16,
    /** The token's weight multiplies what an expert reads, not its result (Llama 4). */
    WEFT_EXPERTS_WEIGH_INPUT = 1u << 17,
} weft_experts_flags;

typedef struct weft_experts_desc {
    uint32_t size;
    /** WEFT_EXPERTS_PLAIN, WEFT_EXPERTS_WEIGH_INPUT; and of linear.h, which explains them:
     *  WEFT_LINEAR_EXACT, WEFT_LINEAR_BATCH_INVARIANT, WEFT_LINEAR_NORM_PLUS_ONE; on a GPU also, to save
     *  launches, WEFT_LINEAR_X_ROUNDED (x is a rounded buffer, made by WEFT_LINEAR_NEXT if there is a norm;
     *  packed weights only) and WEFT_LINEAR_NEXT (`next` receives y * next_weight, rounded; cols a multiple
     *  of 32). */
    uint32_t flags;
    int32_t experts;       /**< 1..WEFT_ROUTE_MAX_EXPERTS */
    int32_t top_k;         /**< experts of a token, 1..experts */
    int32_t max_batch;     /**< most tokens in a run; 0 = 1 */
    weft_linear_gate gate; /**< the function */
    int64_t cols;          /**< elements of x and y */
    int64_t inner;         /**< elements of h */
    weft_linear_norm norm; /**< of x; RMS or none */
    float norm_eps;
    /** If not 0, instead of SiLU: h = g / (1 + exp(-slope g)) * (u + 1), with g = min(gate, limit) and
     *  u = min(max(up, -limit), limit) (gpt-oss: 7 and 1.702). */
    float clamp_limit, clamp_slope;
    const char *variant; /**< name of a kernel of the sum, NULL = the best one */
    weft_linear_part parts[WEFT_EXPERTS_PARTS]; /**< rows: 0, or as weft_experts_place says */
    weft_dtype x_dtype;                         /**< f32 (0), f16 or bf16 */
    weft_dtype y_dtype;                         /**< of y and residual: f32 (0), f16 or bf16 */
    int32_t adapter_rank; /**< the largest rank of a run's adapters, 0..4096; 0 = runs have none */
    uint32_t reserved0;
    uint64_t reserved[6];
} weft_experts_desc;

/** A low-rank adapter (LoRA) of one matrix of every expert: W_e becomes W_e + scale * B_e A_e, without
 *  B_e A_e ever being formed. Its products are exact in f32, whatever those of W_e are. */
typedef struct weft_experts_adapter {
    weft_experts_place place;
    int32_t rank;                /**< 1..desc.adapter_rank */
    weft_dtype a_dtype, b_dtype; /**< f32 (0), f16 or bf16 */
    const void *a;               /**< [experts][rank][columns of the part], packed */
    const void *b;               /**< [experts][rows of the part][rank], packed */
    float scale;
    uint32_t reserved0;
    uint64_t reserved[2];
} weft_experts_adapter;

typedef struct weft_experts_part_args {
    const void *weight;          /**< of expert 0 */
    int64_t weight_stride_bytes; /**< from row to row; 0 = packed */
    int64_t expert_stride_bytes; /**< from expert to expert; 0 = packed */
    const void *scales, *biases; /**< beside the codes of expert 0 (linear.h), or NULL */
    int64_t scale_stride;        /**< elements from row to row; 0 = packed */
    int64_t expert_scale_stride; /**< elements from expert to expert; 0 = packed */
    const float *bias;           /**< [experts][rows] or NULL */
    /** What weft_experts_pack() made, instead of weight, scales and biases; for all parts or none. */
    const void *packed;
    uint64_t reserved[3];
} weft_experts_part_args;

typedef struct weft_experts_args {
    uint32_t size;
    int32_t batch;           /**< tokens in this run, 0..max_batch; 0 does nothing */
    const void *x;           /**< [batch][cols] of desc.x_dtype */
    int64_t x_stride;        /**< elements; 0 = cols */
    void *y;                 /**< [batch][cols] of desc.y_dtype */
    int64_t y_stride;        /**< elements; 0 = cols */
    const void *residual;    /**< [batch][cols] of desc.y_dtype or NULL; may be y */
    int64_t residual_stride; /**< elements; 0 = cols */
    /** What weft_route_run() made for the same tokens, experts and top_k. */
    const int32_t *starts, *order;
    const float *weights;
    float alpha; /**< 0 = 1 */
    int32_t reserved0;
    const float *norm_weight; /**< [cols], NULL = ones (X_ROUNDED: NULL) */
    void *workspace;
    size_t workspace_bytes;
    weft_stream *stream; /**< NULL = the context's own */
    /** NULL, or a number that the device can write, to which the run adds the bytes of weights that it
     *  reads (adapters not counted). */
    uint64_t *bytes_read;
    weft_experts_part_args parts[WEFT_EXPERTS_PARTS];
    const float *next_weight; /**< [cols] of the next norm, NULL = ones (WEFT_LINEAR_NEXT) */
    void *next;               /**< a rounded buffer of cols columns (WEFT_LINEAR_NEXT) */
    const weft_experts_adapter *adapters; /**< [num_adapters]; several for one part add up */
    int32_t num_adapters;                 /**< at most 64 */
    uint32_t reserved1;
    uint64_t reserved[4];
} weft_experts_args;

/** Plans the block.
 *
 *  Shapes   of every part as linear.h says; rows of its matrices are inner, inner and cols
 *  Errors   WEFT_EINVAL for bad shapes or flags, no gate, a clamp without SiLU or without up, a part of up
 *           with WEFT_EXPERTS_PLAIN, an adapter_rank outside 0..4096, and what weft_linear_plan() refuses;
 *           WEFT_EUNSUPPORTED for more rows than a launch of the device has blocks, WEFT_LINEAR_X_ROUNDED
 *           with adapters or where weights cannot be packed, WEFT_LINEAR_NEXT where the device gains
 *           nothing by it (the CPU); WEFT_EVARIANT, WEFT_ENOMEM, WEFT_EOVERFLOW
 *  Source   src/kernels/experts/NOTES.md
 */
WEFT_API weft_status weft_experts_plan(weft_context *context, const weft_experts_desc *desc,
                                       weft_plan **out);

/** Bytes of the packed weights of a part, of all experts. 0 where the plan reads weights as a file has them
 *  (on the CPU: where no kernel has panels of the format, or inner or cols is not a multiple of 16); for a
 *  plan of another operation, NULL, or a part that does not exist. */
WEFT_API size_t weft_experts_packed_bytes(const weft_plan *plan, int32_t part);

/** Lays out the weights of a part, of all experts, as the plan reads them, on its device: this is the upload,
 *  as weft_linear_pack() does it for a matrix of experts * rows rows. A run takes the result as `packed`. On
 *  a GPU, experts that lie as in a file run many times slower than packed ones; the CPU runs either.
 *
 *  Errors   WEFT_EINVAL for a plan of another operation, a part that is not packed, NULL, a short stride,
 *           scales, misaligned `packed`; WEFT_EDEVICE. Text in weft_error_text(context)
 */
WEFT_API weft_status weft_experts_pack(const weft_plan *plan, const weft_linear_pack_args *args);

/** Runs the plan.
 *
 *  Align    as linear.h says, strides of experts included
 *  Alias    y must not overlap anything but residual and x, either of which may be y itself
 *  Numerics products are those of linear.h. The sum over a token's experts is formed in f32, in the order
 *           of its choices, then rounded to y_dtype, to nearest even. Two runs agree to the bit, whatever
 *           the number of threads
 *  Errors   WEFT_EINVAL for NULL pointers, batch outside 0..max_batch, short strides, an alpha that is not
 *           finite, more than 64 adapters, an adapter with a part or rank that the plan lacks, and (where
 *           the host can read them) starts and order that are not sorted choices of the batch;
 *           WEFT_EWORKSPACE. Nothing is written then
 */
WEFT_API weft_status weft_experts_run(const weft_plan *plan, const weft_experts_args *args);

#ifdef __cplusplus
}
#endif
#endif
