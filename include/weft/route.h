// SPDX-License-Identifier: MIT
/** Routing: which experts of a mixture each token goes to, and with what weight. */
#ifndef WEFT_ROUTE_H
#define WEFT_ROUTE_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /** The weights of a row's chosen experts are divided by their sum (before scale). */
    WEFT_ROUTE_NORMALISE = 1u << 0,
    WEFT_ROUTE_MAX_EXPERTS = 1024,
};

/** How logits become scores. */
typedef enum weft_route_score {
    WEFT_ROUTE_SOFTMAX = 0, /**< over all experts of the row */
    WEFT_ROUTE_SIGMOID = 1,
} weft_route_score;

typedef struct weft_route_desc {
    uint32_t size;
    uint32_t flags;
    int32_t experts;  /**< 1..WEFT_ROUTE_MAX_EXPERTS */
    int32_t top_k;    /**< experts that a row chooses, 1..experts */
    int32_t max_rows; /**< 0 = 1 */
    weft_route_score score;
    int32_t groups;     /**< number of groups of equal size that the experts form; 0 = 1 */
    int32_t top_groups; /**< groups that a row chooses from; 0 = all */
    int32_t group_best; /**< a group counts as the sum of its group_best best experts; 0 = 1 */
    float scale;        /**< multiplies the weights; 0 = 1 */
    const char *variant;
    weft_dtype logits_dtype; /**< 0 = f32; f16, bf16 */
    int32_t reserved0;
    uint64_t reserved[7];
} weft_route_desc;

typedef struct weft_route_args {
    uint32_t size;
    int32_t rows;
    const void *logits;    /**< [rows][experts] of desc.logits_dtype */
    int64_t logits_stride; /**< elements; 0 = experts */
    const float *bias;     /**< [experts], added to scores for the choice only; NULL = none */
    int32_t *ids;          /**< [rows][top_k], the best first */
    float *weights;        /**< [rows][top_k] */
    /** The same choices sorted by expert; both or neither. order[starts[e] .. starts[e + 1]) are those of
     *  expert e, ascending, each as row * top_k + its place among the row's choices. */
    int32_t *starts;     /**< [experts + 1] */
    int32_t *order;      /**< [rows * top_k] */
    weft_stream *stream; /**< NULL = the context's own */
    uint64_t reserved[8];
} weft_route_args;

/** Plans, for every row, with s_e = softmax(logits)_e or 1 / (1 + exp(-logit_e)) and v_e = s_e + bias_e:
 *  the top_groups groups whose group_best largest v have the largest sums; in these the top_k experts of
 *  the largest v; and their weights scale * s_e [/ sum of the chosen s].
 *
 *  Of equal values the lower number comes first, among groups as among experts. Without bias and with a
 *  group_best of 1, v is the logit itself, so no rounding of a score decides.
 *
 *  Errors   WEFT_EINVAL for experts, top_k, groups or top_groups out of range, groups that do not divide
 *           experts, group_best larger than a group, fewer than top_k experts in top_groups groups, unknown
 *           flags or score, a scale that is not finite; WEFT_EVARIANT, WEFT_ENOMEM, WEFT_EUNSUPPORTED
 *  Source   Fedus et al. 2021, Jiang et al. 2024 (Mixtral), DeepSeek-AI 2024 (V2: groups; V3: sigmoid, bias)
 */
WEFT_API weft_status weft_route_plan(weft_context *context, const weft_route_desc *desc,
                                     weft_plan **out);

/** Runs the plan.
 *
 *  Alias    results must not overlap anything
 *  Numerics weights within a relative 2^-20 of exact; a sum of 0 divides nothing. NaN counts as the smallest
 *           value, so the ids of a row are different experts whatever the logits are. Weights of a row with
 *           NaN or +infinity, or without a finite logit, are NaN (sigmoid: those of such experts)
 *  Errors   WEFT_EINVAL for NULL pointers, one of starts and order alone, rows outside 0..max_rows (0 rows
 *           still write starts), a stride below experts
 */
WEFT_API weft_status weft_route_run(const weft_plan *plan, const weft_route_args *args);

#ifdef __cplusplus
}
#endif
#endif
