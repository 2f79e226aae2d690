// SPDX-License-Identifier: MIT
// The choice of a tile and of a split of the columns is that of the shortest estimate; NOTES.md has the measurements
// behind it.
#include "src/kernels/linear/linear_gemm_cuda.h"

#define CONSTANTS(X)                                                                               \
    X(WEFT_FORMAT)                                                                                 \
    X(WEFT_BRAIN)                                                                                  \
    X(WEFT_ROWS)                                                                                   \
    X(WEFT_STAGES)                                                                                 \
    X(WEFT_TILES)                                                                                  \
    X(WEFT_SPLIT) X(WEFT_PLAIN) X(WEFT_X_DTYPE) X(WEFT_Y_DTYPE) X(WEFT_SCALE_DTYPE)
WEFT__CUDA_CONSTANTS(linear_gemm, CONSTANTS)

enum {
    // to begin a result; to deliver it, per row of X; to add up over a cluster, per block
    START_CLOCKS = 4000,
    DELIVER_CLOCKS = 16,
    CLUSTER_CLOCKS = 2000,
    // 64 columns: to make fragments; per row of X
    PAIR_CLOCKS = 580,
    PAIR_ROW_CLOCKS = 2,
    PAIR_ROW_CLOCKS_MMA = 7,
};

static bool is_plain(weft_dtype format)
{
    return weft_dtype_block_elems(format) == 1;
}

// linear_gemm_mma.cu has no plain weights; their rows are copied in pieces of 16 bytes.
static bool serves(const weft_linear_desc *desc, weft_dtype format, bool wgmma)
{
    switch (format) {
    case WEFT_F16:
    case WEFT_BF16: return wgmma && desc->cols % 8 == 0;
    case WEFT_Q8_0:
    case WEFT_Q4_0:
    case WEFT_Q4_1:
    case WEFT_Q5_0:
    case WEFT_Q5_1:
    case WEFT_Q2_K:
    case WEFT_Q3_K:
    case WEFT_Q4_K:
    case WEFT_Q5_K:
    case WEFT_Q6_K:
    case WEFT_IQ4_NL:
    case WEFT_IQ4_XS:
    case WEFT_MXFP4:
    case WEFT_NVFP4: return true;
    default: return false;
    }
}

static void add_shape(struct weft__linear_gemm *gemm, const struct weft__cuda_limits *limits,
                      const struct weft__linear_gemm_shape *shape)
{
    if (shape->shared_bytes <= limits->shared_per_block &&
        gemm->num_shapes < WEFT__LINEAR_GEMM_SHAPES)
        gemm->shapes[gemm->num_shapes++] = *shape;
}

// Tiles for batches of up to max_batch, each with as many stages as fit.
static void choose_shapes(const weft_linear_desc *desc, weft_dtype format,
                          const struct weft__cuda_limits *limits, struct weft__linear_gemm *gemm)
{
    static const int16_t blocks[][4] = {{32, 4, 2, 2},  {64, 8, 4, 2},  {64, 8, 3, 1},
                                        {128, 6, 2, 2}, {128, 6, 2, 1}, {256, 4, 2, 1}};
    static const int16_t plain[][4] = {{32, 8, 3, 2},  {64, 8, 3, 2},  {64, 6, 3, 1},
                                       {128, 6, 2, 2}, {128, 6, 2, 1}, {256, 4, 2, 1}};
    static const int16_t others[][2] = {{128, 4}, {64, 4}, {64, 3}};
    const int16_t(*of_wgmma)[4] = is_plain(format) ? plain : blocks;
    const int32_t row = is_plain(format)
                            ? 320 // of 128 columns, see linear_gemm_weights.cuh
                            : 256 / weft_dtype_block_elems(format) * weft_dtype_block_bytes(format);
    const int32_t tile = WEFT__LINEAR_GEMM_TILE_ROWS * row;
    for (int i = 0; gemm->wgmma && i < WEFT__LINEAR_GEMM_SHAPES; i++) {
        const int16_t *h = of_wgmma[i];
        if (i > 0 && of_wgmma[i - 1][0] >= desc->max_batch && h[0] > of_wgmma[i - 1][0])
            break;
        add_shape(
            gemm, limits,
            &(struct weft__linear_gemm_shape){
                h[0], h[1], h[2], h[3], h[1] * h[0] * 128 + h[2] * tile + 16 * (h[1] + h[2]), 0});
    }
    for (int i = 0; !gemm->wgmma && i < 3 && gemm->num_shapes == 0; i++) {
        const int16_t *o = others[i];
        add_shape(
            gemm, limits,
            &(struct weft__linear_gemm_shape){o[0], o[1], 2, 1, o[1] * o[0] * 128 + 2 * tile, 0});
    }
}

static int32_t want(struct weft__cuda_choice *choice, const char *file, const char *function,
                    const struct weft__linear_gemm_constants *constants)
{
    return weft__cuda_want(choice, file, function, WEFT__CUDA_VALUES(linear_gemm, *constants));
}

bool weft__linear_gemm_plan(const weft_linear_desc *desc, weft_dtype format, int32_t x_dtype,
                            weft_dtype y_dtype, const struct weft__cuda_limits *limits,
                            struct weft__cuda_choice *choice, struct weft__linear_gemm *gemm)
{
    *gemm = (struct weft__linear_gemm){.num_sms = limits->num_sms,
                                       // mxfp4: scales of 8 bits of exponent
                                       .brain = format == WEFT_MXFP4 || format == WEFT_BF16,
                                       .plain = is_plain(format),
                                       .wgmma = limits->sm == 90};
    if ((desc->flags & (WEFT_LINEAR_EXACT | WEFT_LINEAR_BATCH_INVARIANT)) ||
        !serves(desc, format, gemm->wgmma) || desc->max_batch < WEFT__LINEAR_GEMM_MIN_BATCH)
        return false;
    choose_shapes(desc, format, limits, gemm);
    if (gemm->num_shapes == 0)
        return false;
    gemm->min_batch = WEFT__LINEAR_GEMM_MIN_BATCH;
    struct weft__linear_gemm_constants constants = {.WEFT_FORMAT = (int32_t)format,
                                                    .WEFT_BRAIN = gemm->brain,
                                                    .WEFT_PLAIN = gemm->plain,
                                                    .WEFT_X_DTYPE = x_dtype,
                                                    .WEFT_Y_DTYPE = (int32_t)y_dtype,
                                                    .WEFT_SCALE_DTYPE = WEFT_F16};
    gemm->x_kernel =
        want(choice, "src/kernels/linear/linear_gemm_x.cu", "weft_linear_gemm_x", &constants);
    for (int32_t i = 0; i < gemm->num_shapes; i++) {
        struct weft__linear_gemm_shape *shape = &gemm->shapes[i];
        constants.WEFT_ROWS = shape->rows;
        constants.WEFT_STAGES = shape->stages;
        constants.WEFT_TILES = shape->tiles;
        constants.WEFT_SPLIT = shape->split;
        shape->kernel = gemm->wgmma ? want(choice, "src/kernels/linear/linear_gemm_wgmma.cu",
                                           "weft_linear_gemm", &constants)
                                    : want(choice, "src/kernels/linear/linear_gemm_mma.cu",
                                           "weft_linear_gemm_mma", &constants);
    }
    return true;
}

static int64_t tiles_of(const struct weft__linear_gemm_shape *shape, int64_t batch, int64_t rows)
{
    return (rows + WEFT__LINEAR_GEMM_TILE_ROWS - 1) / WEFT__LINEAR_GEMM_TILE_ROWS *
           ((batch + shape->rows - 1) / shape->rows);
}

// Estimated clocks of a run.
static int64_t clocks(const struct weft__linear_gemm *gemm,
                      const struct weft__linear_gemm_shape *shape, int64_t batch, int64_t rows,
                      int64_t cols)
{
    int64_t blocks = tiles_of(shape, batch, rows) * shape->split;
    int64_t turns = (blocks + gemm->num_sms - 1) / gemm->num_sms;
    int64_t pair =
        PAIR_CLOCKS + shape->rows * (gemm->wgmma ? PAIR_ROW_CLOCKS : PAIR_ROW_CLOCKS_MMA);
    return turns *
           (pair * ((cols + 63) / 64) / shape->split + START_CLOCKS + DELIVER_CLOCKS * shape->rows +
            (shape->split > 1 ? CLUSTER_CLOCKS * shape->split : 0));
}

int32_t weft__linear_gemm_steps(const struct weft__linear_gemm *gemm,
                                const struct weft__linear_gemm_call *call,
                                struct weft__cuda_step *steps)
{
    const struct weft__linear_gemm_shape *best = &gemm->shapes[0];
    for (int32_t i = 1; i < gemm->num_shapes; i++)
        if (clocks(gemm, &gemm->shapes[i], call->batch, call->rows, call->cols) <
            clocks(gemm, best, call->batch, call->rows, call->cols))
            best = &gemm->shapes[i];
    float *scales = call->workspace;
    char *pieces = (char *)call->workspace + (call->batch + 63) / 64 * 256;
    int32_t count = 0;
    if (!call->x_ready) {
        struct weft__linear_gemm_x_args x = {.x = call->x,
                                             .x_stride = call->x_stride,
                                             .norm_weight = call->norm_weight,
                                             .pieces = pieces,
                                             .scales = scales,
                                             .batch = call->batch,
                                             .cols = call->cols,
                                             .norm = call->norm,
                                             .norm_eps = call->norm_eps,
                                             .norm_weight_plus = call->norm_weight_plus};
        weft__cuda_step(&steps[count++], gemm->x_kernel, (uint32_t)call->batch, 1, 256, &x,
                        sizeof x)
            ->overlap = 1;
    }
    struct weft__linear_gemm_args args = {.weight = call->weight,
                                          .weight_stride_bytes = call->weight_stride_bytes,
                                          .pieces = pieces,
                                          .scales = scales,
                                          .bias = call->bias,
                                          .residual = call->residual,
                                          .y = call->y,
                                          .residual_stride = call->residual_stride,
                                          .y_stride = call->y_stride,
                                          .batch = call->batch,
                                          .rows = call->rows,
                                          .cols = call->cols,
                                          .row_tiles = (call->rows + 127) / 128,
                                          .tiles = (int32_t)tiles_of(best, call->batch, call->rows),
                                          .alpha = call->alpha};
    // blocks of a cluster make one result; others stay for the next
    int32_t blocks = args.tiles * best->split;
    if (gemm->wgmma && best->split == 1 && blocks > gemm->num_sms)
        blocks = gemm->num_sms;
    struct weft__cuda_step *step = weft__cuda_step(&steps[count++], best->kernel, (uint32_t)blocks,
                                                   1, gemm->wgmma ? 384 : 256, &args, sizeof args);
    step->shared_bytes = (uint32_t)best->shared_bytes;
    step->cluster = best->split > 1 ? (uint32_t)best->split : 0;
    step->overlap = 1;
    return count;
}
