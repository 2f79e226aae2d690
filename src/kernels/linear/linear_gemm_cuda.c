// SPDX-License-Identifier: MIT
// The choice of a tile and of a split of the columns is that of the shortest estimate; NOTES.md has the measurements
// behind it.
#include "src/kernels/linear/linear_gemm_cuda.h"

#include "src/kernels/linear/linear_device.h"

#define CONSTANTS(X)                                                                               \
    X(WEFT_FORMAT)                                                                                 \
    X(WEFT_BRAIN)                                                                                  \
    X(WEFT_EIGHTS)                                                                                 \
    X(WEFT_ROWS)                                                                                   \
    X(WEFT_STAGES)                                                                                 \
    X(WEFT_TILES)                                                                                  \
    X(WEFT_SPLIT)                                                                                  \
    X(WEFT_TERMS)                                                                                  \
    X(WEFT_PIECES)                                                                                 \
    X(WEFT_CLUSTER)                                                                                \
    X(WEFT_RESIDENT) X(WEFT_PLAIN) X(WEFT_X_DTYPE) X(WEFT_Y_DTYPE) X(WEFT_SCALE_DTYPE)
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
    // plain weights: 64 columns take the tensor cores 4 clocks a row of X; an SM gets so many bytes a clock from the
    // cache, and its share of memory
    STAGE_ROW_CLOCKS = 4,
    CACHE_BYTES = 30,
    MEMORY_BYTES = 19,
    ENOUGH_BLOCKS = 400, // to keep memory busy: three an SM
    // of rows that two blocks with 256 rows of X each divide: adding up costs some 20,000 clocks
    LONG_COLS = 8192,
};

static bool is_plain(weft_dtype format)
{
    return weft_dtype_block_elems(format) == 1;
}

// linear_gemm_mma.cu has no plain weights; rows of a tensor map begin at multiples of 16 bytes.
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
    case WEFT_IQ3_XXS:
    case WEFT_IQ3_S:
    case WEFT_IQ2_XXS:
    case WEFT_IQ2_XS:
    case WEFT_IQ2_S:
    case WEFT_IQ1_S:
    case WEFT_IQ1_M:
    case WEFT_TQ1_0:
    case WEFT_TQ2_0:
    case WEFT_MXFP4:
    case WEFT_NVFP4: return true;
    default: return format >= WEFT_MLX_Q2_G32 && format <= WEFT_MLX_Q8_G128;
    }
}

bool weft__linear_gemm_serves(const weft_linear_desc *desc, weft_dtype format)
{
    return serves(desc, format, true);
}

static void add_shape(struct weft__linear_gemm *gemm, const struct weft__cuda_limits *limits,
                      const struct weft__linear_gemm_shape *shape)
{
    if (shape->shared_bytes <= limits->shared_per_block &&
        gemm->num_shapes < WEFT__LINEAR_GEMM_SHAPES)
        gemm->shapes[gemm->num_shapes++] = *shape;
}

// Plain weights. Rows of X, terms, stages, split, pieces, blocks a SM.
static void choose_plain(const weft_linear_desc *desc, const struct weft__cuda_limits *limits,
                         struct weft__linear_gemm *gemm)
{
    static const int16_t shapes[][7] = {
        {8, 3, 4, 2, 1, 2, 1},  {8, 3, 4, 4, 1, 2, 1},   {8, 3, 4, 8, 1, 2, 1},
        {16, 3, 4, 2, 1, 2, 1}, {16, 3, 4, 4, 1, 2, 1},  {16, 3, 4, 8, 1, 2, 1},
        {32, 1, 5, 1, 1, 2, 1}, {32, 1, 5, 4, 1, 2, 1},  {64, 1, 8, 1, 1, 1, 1},
        {64, 1, 4, 4, 1, 2, 1}, {128, 1, 6, 1, 1, 1, 1}, {128, 1, 6, 4, 1, 1, 1},
        {256, 1, 4, 1, 1, 1, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int16_t *s = shapes[i];
        const bool few = s[1] > 1;
        if (few ? !gemm->brain || s[0] < gemm->min_batch || (s[0] == 16 && desc->max_batch <= 8)
                : desc->max_batch < WEFT__LINEAR_GEMM_MIN_BATCH ||
                      (s[0] > 32 && s[0] >= 2 * desc->max_batch))
            continue;
        const int32_t stage = s[4] * (128 * 128 + s[0] * s[1] * 128);
        const int32_t sums = s[3] > 1 ? s[0] * 132 * 4 : 0;
        const int32_t ring = s[2] * stage > sums ? s[2] * stage : sums;
        add_shape(gemm, limits,
                  &(struct weft__linear_gemm_shape){.rows = s[0],
                                                    .terms = s[1],
                                                    .stages = s[2],
                                                    .split = s[3],
                                                    .pieces = s[4],
                                                    .resident = s[5],
                                                    .cluster = s[6],
                                                    .shared_bytes = ring + 16 * s[2]});
    }
}

// Tiles of packed weights for batches of up to max_batch, each with as many stages as fit.
static void choose_shapes(const weft_linear_desc *desc, const struct weft__linear_gemm_wish *wish,
                          const struct weft__cuda_limits *limits, struct weft__linear_gemm *gemm)
{
    static const int16_t of_wgmma[][4] = {{32, 4, 2, 2},  {64, 8, 4, 2},  {64, 8, 3, 1},
                                          {128, 6, 2, 2}, {128, 6, 2, 1}, {256, 4, 2, 2},
                                          {256, 4, 2, 1}};
    static const int16_t others[][2] = {{128, 4}, {64, 4}, {64, 3}};
    const int32_t row = 256 / weft_dtype_block_elems(wish->format) * wish->block_bytes;
    const int32_t tile = WEFT__LINEAR_GEMM_TILE_ROWS * row;
    struct weft__cuda_limits left = *limits;
    left.shared_per_block -= WEFT__LINEAR_GRID_BYTES(wish->format);
    limits = &left;
    for (size_t i = 0; gemm->wgmma && i < sizeof of_wgmma / sizeof *of_wgmma; i++) {
        const int16_t *h = of_wgmma[i];
        if (i > 0 && of_wgmma[i - 1][0] >= desc->max_batch && h[0] > of_wgmma[i - 1][0])
            break;
        if (h[0] == 256 && h[3] > 1 && desc->cols < LONG_COLS)
            continue;
        add_shape(gemm, limits,
                  &(struct weft__linear_gemm_shape){
                      .rows = h[0],
                      .stages = h[1],
                      .tiles = h[2],
                      .split = h[3],
                      .shared_bytes = h[1] * h[0] * 128 + h[2] * tile + 16 * (h[1] + h[2])});
    }
    for (int i = 0; !gemm->wgmma && i < 3 && gemm->num_shapes == 0; i++) {
        const int16_t *o = others[i];
        add_shape(gemm, limits,
                  &(struct weft__linear_gemm_shape){.rows = o[0],
                                                    .stages = o[1],
                                                    .tiles = 2,
                                                    .split = 1,
                                                    .shared_bytes = o[1] * o[0] * 128 + 2 * tile});
    }
}

static int32_t want(struct weft__cuda_choice *choice, const char *file, const char *function,
                    const struct weft__linear_gemm_constants *constants)
{
    return weft__cuda_want(choice, file, function, WEFT__CUDA_VALUES(linear_gemm, *constants));
}

static void want_kernels(struct weft__cuda_choice *choice, struct weft__linear_gemm *gemm,
                         struct weft__linear_gemm_constants *constants)
{
    static const char *const files[][2] = {
        {"src/kernels/linear/linear_gemm_mma.cu", "weft_linear_gemm_mma"},
        {"src/kernels/linear/linear_gemm_wgmma.cu", "weft_linear_gemm"},
        {"src/kernels/linear/linear_gemm_plain.cu", "weft_linear_gemm_plain"}};
    const int which = gemm->plain ? 2 : gemm->wgmma;
    constants->WEFT_PLAIN = gemm->plain;
    gemm->x_kernel = gemm->x_terms_kernel = -1;
    for (int32_t i = 0; i < gemm->num_shapes; i++) {
        struct weft__linear_gemm_shape *shape = &gemm->shapes[i];
        int32_t *x = shape->terms > 1 ? &gemm->x_terms_kernel : &gemm->x_kernel;
        struct weft__linear_gemm_constants of_x = *constants;
        constants->WEFT_ROWS = shape->rows;
        constants->WEFT_STAGES = shape->stages;
        constants->WEFT_TILES = shape->tiles;
        constants->WEFT_SPLIT = shape->split;
        constants->WEFT_TERMS = shape->terms;
        constants->WEFT_PIECES = shape->pieces;
        constants->WEFT_CLUSTER = shape->cluster;
        constants->WEFT_RESIDENT = shape->resident;
        shape->kernel = want(choice, files[which][0], files[which][1], constants);
        of_x.WEFT_TERMS = shape->terms > 1 ? shape->terms : 1;
        if (*x < 0)
            *x = want(choice, "src/kernels/linear/linear_gemm_x.cu", "weft_linear_gemm_x", &of_x);
    }
}

bool weft__linear_gemm_plan(const weft_linear_desc *desc, const struct weft__linear_gemm_wish *wish,
                            const struct weft__cuda_limits *limits,
                            struct weft__cuda_choice *choice, struct weft__linear_gemm *gemm)
{
    const weft_dtype format = wish->format;
    *gemm = (struct weft__linear_gemm){.num_sms = limits->num_sms,
                                       // mxfp4: scales of 8 bits of exponent
                                       .brain = format == WEFT_MXFP4 || format == WEFT_BF16,
                                       .eights = WEFT__LINEAR_EIGHTS(format),
                                       .plain = is_plain(format),
                                       .wgmma = limits->sm == 90};
    const int32_t least = format != WEFT_BF16 ? WEFT__LINEAR_GEMM_MIN_BATCH
                          : wish->few         ? wish->few + 1
                                              : WEFT__LINEAR_GEMM_MIN_EXACT;
    if ((desc->flags & (WEFT_LINEAR_EXACT | WEFT_LINEAR_BATCH_INVARIANT)) ||
        !serves(desc, format, gemm->wgmma) || desc->max_batch < least)
        return false;
    gemm->min_batch = least;
    if (gemm->plain)
        choose_plain(desc, limits, gemm);
    else
        choose_shapes(desc, wish, limits, gemm);
    if (gemm->num_shapes == 0) {
        gemm->min_batch = 0;
        return false;
    }
    struct weft__linear_gemm_constants constants = {.WEFT_FORMAT = (int32_t)format,
                                                    .WEFT_BRAIN = gemm->brain,
                                                    .WEFT_EIGHTS = gemm->eights,
                                                    .WEFT_X_DTYPE = wish->x_dtype,
                                                    .WEFT_Y_DTYPE = wish->y_dtype,
                                                    .WEFT_SCALE_DTYPE = wish->scale_dtype};
    want_kernels(choice, gemm, &constants);
    return true;
}

// Results that a block, or those of a cluster together, make.
static int64_t row_tiles_of(const struct weft__linear_gemm_shape *shape, int64_t rows)
{
    const int64_t high = WEFT__LINEAR_GEMM_TILE_ROWS * (shape->cluster > 1 ? shape->cluster : 1);
    return (rows + high - 1) / high;
}

static int64_t tiles_of(const struct weft__linear_gemm_shape *shape, int64_t batch, int64_t rows)
{
    return row_tiles_of(shape, rows) * ((batch + shape->rows - 1) / shape->rows);
}

// Estimated clocks of a run.
static int64_t clocks_of_plain(const struct weft__linear_gemm *gemm,
                               const struct weft__linear_gemm_shape *shape, int64_t batch,
                               int64_t rows, int64_t cols)
{
    const int64_t blocks = tiles_of(shape, batch, rows) * shape->split * shape->cluster;
    const int64_t turns = (blocks + gemm->num_sms - 1) / gemm->num_sms;
    const int64_t wide = shape->rows * shape->terms;
    const int64_t bytes = (WEFT__LINEAR_GEMM_TILE_ROWS + wide) * 128 / CACHE_BYTES;
    const int64_t stage = bytes > STAGE_ROW_CLOCKS * wide ? bytes : STAGE_ROW_CLOCKS * wide;
    const int64_t multiply = turns * ((cols + 63) / 64) * stage / shape->split;
    int64_t memory = rows * cols * 2 / gemm->num_sms / MEMORY_BYTES;
    if (blocks < ENOUGH_BLOCKS)
        memory = memory * ENOUGH_BLOCKS / blocks;
    return (multiply > memory ? multiply : memory) +
           turns * (START_CLOCKS + DELIVER_CLOCKS * shape->rows) +
           (shape->split > 1 ? CLUSTER_CLOCKS * shape->split : 0);
}

static int64_t clocks(const struct weft__linear_gemm *gemm,
                      const struct weft__linear_gemm_shape *shape, int64_t batch, int64_t rows,
                      int64_t cols)
{
    if (gemm->plain)
        return clocks_of_plain(gemm, shape, batch, rows, cols);
    int64_t blocks = tiles_of(shape, batch, rows) * shape->split;
    int64_t turns = (blocks + gemm->num_sms - 1) / gemm->num_sms;
    int64_t pair =
        PAIR_CLOCKS + shape->rows * (gemm->wgmma ? PAIR_ROW_CLOCKS : PAIR_ROW_CLOCKS_MMA);
    return turns *
           (pair * ((cols + 63) / 64) / shape->split + START_CLOCKS + DELIVER_CLOCKS * shape->rows +
            (shape->split > 1 ? CLUSTER_CLOCKS * shape->split : 0));
}

// May the shape serve so many rows of X? Three terms and one differ in what they promise.
static bool fits(const struct weft__linear_gemm *gemm, const struct weft__linear_gemm_shape *shape,
                 int64_t batch)
{
    if (!gemm->plain)
        return true;
    return shape->terms > 1 ? batch < WEFT__LINEAR_GEMM_MIN_BATCH && batch <= shape->rows &&
                                  batch > shape->rows - 8
                            : batch >= WEFT__LINEAR_GEMM_MIN_BATCH;
}

static const struct weft__linear_gemm_shape *best_shape(const struct weft__linear_gemm *gemm,
                                                        const struct weft__linear_gemm_call *call)
{
    const struct weft__linear_gemm_shape *best = NULL;
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < gemm->num_shapes; i++) {
        const struct weft__linear_gemm_shape *shape = &gemm->shapes[i];
        if (!fits(gemm, shape, call->batch))
            continue;
        int64_t time = clocks(gemm, shape, call->batch, call->rows, call->cols);
        if (time < least)
            best = shape, least = time;
    }
    return best;
}

static void add_x(const struct weft__linear_gemm *gemm, const struct weft__linear_gemm_call *call,
                  int32_t kernel, float *scales, void *pieces, struct weft__cuda_step *step)
{
    const struct weft__linear_gemm_x_args x = {.x = call->x,
                                               .x_stride = call->x_stride,
                                               .norm_weight = call->norm_weight,
                                               .pieces = pieces,
                                               .scales = scales,
                                               .batch = call->batch,
                                               .cols = call->cols,
                                               .norm = call->norm,
                                               .norm_eps = call->norm_eps,
                                               .norm_weight_plus = call->norm_weight_plus};
    (void)gemm;
    weft__cuda_step(step, kernel, (uint32_t)call->batch, 1, 256, &x, sizeof x)->overlap = 1;
}

// Blocks of the launch: those of a cluster that divides the columns make one result, others stay for the next.
static uint32_t blocks_of(const struct weft__linear_gemm *gemm,
                          const struct weft__linear_gemm_shape *shape, int32_t tiles)
{
    const int32_t cluster = shape->cluster > 1 ? shape->cluster : 1;
    const int32_t resident = shape->resident > 1 ? shape->resident : 1;
    const int32_t blocks = tiles * shape->split * cluster,
                  most = gemm->num_sms / cluster * cluster * resident;
    return (uint32_t)(gemm->wgmma && shape->split == 1 && blocks > most ? most : blocks);
}

// Weights, and X where a cluster shares it.
static void add_matrices(const struct weft__linear_gemm_shape *shape,
                         const struct weft__linear_gemm_call *call, const void *pieces,
                         struct weft__cuda_step *step)
{
    step->matrices[0] =
        (struct weft__cuda_matrix){.base = call->weight,
                                   .rows = call->rows,
                                   .cols = call->cols,
                                   .stride_bytes = call->weight_stride_bytes,
                                   .box_rows = WEFT__LINEAR_GEMM_TILE_ROWS,
                                   .swizzled = true,
                                   .at = offsetof(struct weft__linear_gemm_args, map)};
    if (shape->cluster > 1) // its rows are swizzled already
        step->matrices[1] = (struct weft__cuda_matrix){
            .base = pieces,
            .rows = (call->cols + 127) / 128 * 2 * (int64_t)((call->batch + 7) / 8 * 8),
            .cols = 64,
            .stride_bytes = 128,
            .box_rows = (uint32_t)shape->rows / 2,
            .at = offsetof(struct weft__linear_gemm_args, x_map)};
}

int32_t weft__linear_gemm_steps(const struct weft__linear_gemm *gemm,
                                const struct weft__linear_gemm_call *call,
                                struct weft__cuda_step *steps)
{
    const struct weft__linear_gemm_shape *best = best_shape(gemm, call);
    float *scales = call->workspace;
    char *pieces = (char *)call->workspace + (call->batch + 63) / 64 * 256;
    int32_t count = 0;
    if (!call->x_ready)
        add_x(gemm, call, best->terms > 1 ? gemm->x_terms_kernel : gemm->x_kernel, scales, pieces,
              &steps[count++]);
    const struct weft__linear_gemm_args args = {
        .weight = call->weight,
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
        .row_tiles = (int32_t)row_tiles_of(best, call->rows),
        .tiles = (int32_t)tiles_of(best, call->batch, call->rows),
        .alpha = call->alpha};
    struct weft__cuda_step *step =
        weft__cuda_step(&steps[count++], best->kernel, blocks_of(gemm, best, args.tiles), 1,
                        gemm->wgmma ? 384 : 256, &args, sizeof args);
    step->shared_bytes = (uint32_t)best->shared_bytes;
    step->cluster = best->split > 1     ? (uint32_t)best->split
                    : best->cluster > 1 ? (uint32_t)best->cluster
                                        : 0;
    step->overlap = 1;
    if (gemm->plain)
        add_matrices(best, call, pieces, step);
    return count;
}
