// SPDX-License-Identifier: MIT
// Which slices: those of the shortest estimate; NOTES.md has the measurements behind it.
#include "src/kernels/linear/linear_slice_cuda.h"

#include "src/base/checked.h"
#include "src/kernels/linear/linear_device.h"

#define CONSTANTS(X)                                                                               \
    X(WEFT_FORMAT)                                                                                 \
    X(WEFT_BRAIN)                                                                                  \
    X(WEFT_BYTES)                                                                                  \
    X(WEFT_ROWS)                                                                                   \
    X(WEFT_PAIR)                                                                                   \
    X(WEFT_STAGES) X(WEFT_WHOLE) X(WEFT_STAGED) X(WEFT_Y_DTYPE) X(WEFT_SCALE_DTYPE)
WEFT__CUDA_CONSTANTS(linear_slice, CONSTANTS)

#define TEAM_CONSTANTS(X)                                                                          \
    X(WEFT_FORMAT)                                                                                 \
    X(WEFT_WARPS)                                                                                  \
    X(WEFT_TEAM)                                                                                   \
    X(WEFT_STAGES)                                                                                 \
    X(WEFT_STAGED) X(WEFT_Y_DTYPE) X(WEFT_SCALE_DTYPE)
WEFT__CUDA_CONSTANTS(linear_team, TEAM_CONSTANTS)

enum {
    MOST_STAGES = 4,
    LEAST_STAGES = 2,
    // clocks: a tile of a unit in a warpgroup that is alone; what an SM needs of a tile of a unit, all four warps of it;
    // numbers of X that an SM makes in one; bytes that all SMs write and read again in one; a launch that nothing else wants
    ALONE_CLOCKS = 1500,
    TILE_CLOCKS = 750,
    X_NUMBERS = 8,
    SUM_BYTES = 1500,
    FINISH_CLOCKS = 4000,
    // smaller matrices of 9 to 16 rows were not measured
    LEAST_COLS = 4096,
    LEAST_UNITS = 64,
};

static int64_t clocks(const struct weft__linear_slice_wish *wish, int32_t rows, int32_t slices,
                      int32_t tiles, int32_t blocks)
{
    const int64_t units = wish->units;
    const int64_t each = weft__ceil_div(units, blocks); // units of a block
    const int64_t alone = weft__ceil_div(each, 4) * ALONE_CLOCKS, all = each * TILE_CLOCKS;
    const int64_t sums = slices > 1 ? 8 * slices * units * WEFT__LINEAR_SLICE_UNIT * rows : 0;
    return tiles * (alone > all ? alone : all) + tiles * 256 * rows / X_NUMBERS + sums / SUM_BYTES +
           (slices > 1 && !wish->follows ? FINISH_CLOCKS : 0);
}

// Does X stay in 8 bits? Few rows of X promise sums as exact as of integers.
static bool has_bytes(int32_t rows)
{
    return rows < WEFT__LINEAR_GEMM_MIN_BATCH;
}

// Up to 16 rows of X: the kernels for few have what follows in their own launch, so only where they lose more than that: X that
// no block of theirs has room for, products with a scale for 16 columns, and where nothing follows.
static bool serves_few(const weft_linear_desc *desc, const struct weft__linear_slice_wish *wish)
{
    const weft_dtype format = wish->matrix.format;
    switch (format) {
    case WEFT_IQ2_XS: // a lane's eight columns are of one sixteen, a product of 16 of both
    case WEFT_IQ2_S:
    case WEFT_IQ1_M: return false;
    case WEFT_Q3_K:
    case WEFT_Q6_K:
    case WEFT_NVFP4: return true;
    default:
        return wish->few_columns < 16 ||
               (!wish->follows && WEFT__LINEAR_UNIT_NUMBERS(format) == 1 &&
                wish->units >= LEAST_UNITS && desc->cols >= LEAST_COLS);
    }
}

// The slices for passes of `rows` rows of X; false if X fits no block.
static bool choose(const weft_linear_desc *desc, const struct weft__linear_slice_wish *wish,
                   int32_t rows, const struct weft__cuda_limits *limits,
                   struct weft__linear_slice_shape *best)
{
    const int32_t all = (int32_t)weft__ceil_div(desc->cols, WEFT__LINEAR_TILE_COLS);
    const int32_t tile = WEFT__LINEAR_TILE_COLS / weft_dtype_block_elems(wish->matrix.format) *
                         wish->matrix.block_bytes * WEFT__LINEAR_TILE_ROWS;
    const int32_t step = WEFT__LINEAR_SLICE_HALVES(wish->matrix.format) ? tile / 2 : tile;
    const int32_t ring = WEFT__LINEAR_SLICE_WARPS * (step + 8);
    const int32_t room = limits->shared_per_block - WEFT__LINEAR_GRID_BYTES(wish->matrix.format);
    const bool bytes = has_bytes(rows);
    int64_t least = INT64_MAX;
    for (int32_t s = 1; s <= WEFT__LINEAR_SLICE_MOST && s <= all && s <= limits->num_sms; s++) {
        const int32_t tiles = (int32_t)weft__ceil_div(all, s);
        const int32_t slices = (int32_t)weft__ceil_div(all, tiles);
        const int64_t numbers = (int64_t)tiles * WEFT__LINEAR_TILE_COLS * 2 * rows;
        const int64_t x =
            bytes ? WEFT__LINEAR_SOME_BYTES(wish->matrix.format, rows, (int64_t)tiles * 4)
                  : numbers;
        const bool pair = !bytes && limits->num_sms / slices >= 2;
        const int64_t around = x + rows * 4 + WEFT__LINEAR_SLICE_ROOM * 4 + (pair ? 8 : 0);
        const int64_t time = clocks(wish, rows, slices, tiles,
                                    weft__linear_slice_blocks(limits->num_sms, slices, pair));
        if (around + LEAST_STAGES * ring > room || time >= least ||
            (!bytes && numbers > WEFT__LINEAR_SLICE_X))
            continue;
        const int64_t fit = (room - around) / ring;
        *best = (struct weft__linear_slice_shape){.rows = rows,
                                                  .stages = fit < MOST_STAGES ? (int32_t)fit
                                                                              : MOST_STAGES,
                                                  .slices = slices,
                                                  .slice_tiles = tiles,
                                                  .unit = WEFT__LINEAR_SLICE_UNIT,
                                                  .warps = WEFT__LINEAR_SLICE_WARPS,
                                                  .pair = pair};
        best->shared_bytes = (int32_t)around + best->stages * ring;
        least = time;
    }
    return least < INT64_MAX;
}

// May teams of warps multiply the format (linear_gemm_team.cu)? Whole tiles.
static bool serves_teams(const weft_linear_desc *desc, weft_dtype format)
{
    return desc->cols % WEFT__LINEAR_TILE_COLS == 0 && (format == WEFT_Q4_0 || format == WEFT_Q4_K);
}

// Clocks that an SM needs of a shape of teams.
static int64_t team_clocks(const struct weft__linear_slice_wish *wish,
                           const struct weft__linear_slice_shape *shape, int32_t num_sms)
{
    // a tile; a warp's two tiles alone; the end of a unit; numbers of X that an SM makes in one
    enum { TILE = 135, STEP = 1500, UNIT_END = 1500, NUMBERS = 32 };
    const int64_t each = weft__ceil_div(wish->team_units, num_sms / shape->slices);
    const int64_t rounds = weft__ceil_div(each, shape->warps / shape->team);
    const int64_t all = each * shape->slice_tiles * 2 * TILE;
    const int64_t alone = rounds * weft__ceil_div(shape->slice_tiles, shape->team) * STEP;
    const int64_t sums =
        8 * shape->slices * wish->team_units * WEFT__LINEAR_TEAM_UNIT * WEFT__LINEAR_TEAM_ROWS;
    return (alone > all ? alone : all) + rounds * UNIT_END +
           shape->slice_tiles * 256 * WEFT__LINEAR_TEAM_ROWS / NUMBERS + sums / SUM_BYTES;
}

// Teams of four: of 16 warps where a slice is a row, and units are many; of 12 where rows are too long for it. Other shapes were measured
// to be slower, others' matrices not to gain. False if X fits no block.
static bool choose_team(const weft_linear_desc *desc, const struct weft__linear_slice_wish *wish,
                        const struct weft__cuda_limits *limits,
                        struct weft__linear_slice_shape *best)
{
    enum { TEAM = 4, UNITS_AN_SM = 3 };
    const weft_dtype format = wish->matrix.format;
    const int32_t all = (int32_t)(desc->cols / WEFT__LINEAR_TILE_COLS);
    int64_t least = INT64_MAX;
    for (int32_t s = 1; s <= WEFT__LINEAR_SLICE_MOST && s * TEAM <= all; s++) {
        const int32_t tiles = (int32_t)weft__ceil_div(all, s), warps = s > 1 ? 12 : 16;
        const int64_t bytes = WEFT__LINEAR_TEAM_X(format, (int64_t)tiles) +
                              (int64_t)warps * (MOST_STAGES * WEFT__LINEAR_TEAM_SLOT(format) +
                                                WEFT__LINEAR_TEAM_BESIDE(format));
        struct weft__linear_slice_shape shape = {.rows = WEFT__LINEAR_TEAM_ROWS,
                                                 .stages = MOST_STAGES,
                                                 .slices = (int32_t)weft__ceil_div(all, tiles),
                                                 .slice_tiles = tiles,
                                                 .unit = WEFT__LINEAR_TEAM_UNIT,
                                                 .warps = warps,
                                                 .team = TEAM,
                                                 .shared_bytes = (int32_t)bytes};
        if (bytes > limits->shared_per_block)
            continue;
        if (s == 1 && wish->team_units < UNITS_AN_SM * (int64_t)limits->num_sms)
            return false;
        const int64_t time = team_clocks(wish, &shape, limits->num_sms);
        if (time < least)
            *best = shape, least = time;
        if (s == 1)
            break;
    }
    return least < INT64_MAX;
}

static int32_t want_team(const struct weft__linear_slice_wish *wish,
                         const struct weft__linear_slice_shape *shape, bool leaves,
                         struct weft__cuda_choice *choice)
{
    const struct weft__linear_team_constants constants = {
        .WEFT_FORMAT = (int32_t)wish->matrix.format,
        .WEFT_WARPS = shape->warps,
        .WEFT_TEAM = shape->team,
        .WEFT_STAGES = shape->stages,
        .WEFT_STAGED = leaves,
        .WEFT_Y_DTYPE = leaves ? (int32_t)WEFT_F32 : wish->matrix.y_dtype,
        .WEFT_SCALE_DTYPE = wish->matrix.scale_dtype};
    return weft__cuda_want(choice, "src/kernels/linear/linear_gemm_team.cu",
                           "weft_linear_gemm_team", WEFT__CUDA_VALUES(linear_team, constants));
}

void weft__linear_slices_plan(const weft_linear_desc *desc,
                              const struct weft__linear_slice_wish *wish,
                              const struct weft__cuda_limits *limits,
                              struct weft__cuda_choice *choice, struct weft__linear_slices *slices)
{
    static const int32_t rows[WEFT__LINEAR_SLICE_SHAPES] = {16, 32, 64};
    const weft_dtype format = wish->matrix.format;
    *slices = (struct weft__linear_slices){0};
    if (limits->sm != 90 || desc->max_batch < WEFT__LINEAR_SLICE_MIN_BATCH ||
        !weft__linear_gemm_serves(desc, format) ||
        desc->flags & (WEFT_LINEAR_EXACT | WEFT_LINEAR_BATCH_INVARIANT))
        return;
    for (int32_t i = 0; i < WEFT__LINEAR_SLICE_SHAPES; i++) {
        struct weft__linear_slice_shape shape;
        if ((i > 0 && desc->max_batch <= rows[i - 1]) ||
            (has_bytes(rows[i]) && (wish->sent_columns == 16 || !serves_few(desc, wish))))
            continue;
        const bool teams = has_bytes(rows[i]) && serves_teams(desc, format) &&
                           choose_team(desc, wish, limits, &shape);
        if (!teams && !choose(desc, wish, rows[i], limits, &shape))
            continue;
        shape.least =
            has_bytes(rows[i]) ? WEFT__LINEAR_SLICE_MIN_BATCH : WEFT__LINEAR_GEMM_MIN_BATCH;
        const bool leaves = shape.slices > 1 || wish->follows;
        if (teams) {
            shape.kernel = want_team(wish, &shape, leaves, choice);
            slices->shapes[slices->count++] = shape;
            continue;
        }
        const struct weft__linear_slice_constants constants = {
            .WEFT_FORMAT = (int32_t)format,
            .WEFT_BRAIN = format == WEFT_MXFP4 && !has_bytes(shape.rows),
            .WEFT_BYTES = has_bytes(shape.rows),
            .WEFT_ROWS = shape.rows,
            .WEFT_PAIR = shape.pair,
            .WEFT_STAGES = shape.stages,
            .WEFT_WHOLE = desc->cols % WEFT__LINEAR_TILE_COLS == 0,
            .WEFT_STAGED = leaves,
            .WEFT_Y_DTYPE = leaves ? (int32_t)WEFT_F32 : wish->matrix.y_dtype,
            .WEFT_SCALE_DTYPE = wish->matrix.scale_dtype};
        shape.kernel =
            weft__cuda_want(choice, "src/kernels/linear/linear_gemm_slice.cu",
                            "weft_linear_gemm_slice", WEFT__CUDA_VALUES(linear_slice, constants));
        slices->shapes[slices->count++] = shape;
    }
}
