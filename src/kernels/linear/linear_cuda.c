// SPDX-License-Identifier: MIT
// Linear layers on CUDA: which kernels serve a descriptor (linear_cuda.h).
#include "src/kernels/linear/linear_cuda.h"

#include <stdio.h>

#include "src/base/checked.h"

WEFT__CUDA_CONSTANTS(linear, WEFT__LINEAR_CONSTANTS)

#define ROWS_CONSTANTS(X) X(FORMAT) X(ELEMS) X(BYTES) X(ROUNDED) X(SCALE_DTYPE)
WEFT__CUDA_CONSTANTS(linear_rows, ROWS_CONSTANTS)

// What a row of the table must serve.
struct wanted {
    weft_dtype weight;
    enum weft__linear_acts acts;
    bool planes, groups; // beside the codes: any; such as tiles have with them
};

static bool serves(const struct weft__kernel *row, const void *opaque)
{
    const struct weft__linear_kernel *kernel = (const void *)row;
    const struct wanted *wanted = opaque;
    return kernel->weight == wanted->weight && kernel->acts == wanted->acts &&
           (!wanted->planes || kernel->planes || (kernel->groups && wanted->groups));
}

static bool has_planes(const weft_linear_part *part)
{
    weft_dtype dtype = part->weight_dtype;
    return dtype == WEFT_INT8 || dtype == WEFT_FP8_E4M3 || dtype == WEFT_FP8_E5M2 ||
           (dtype >= WEFT_MLX_Q2_G32 && dtype <= WEFT_MLX_Q8_G128) || part->scale_cols;
}

// Scales and biases that a tile has among its bytes: one of 16 bits for each block.
static bool has_groups(const weft_linear_part *part)
{
    weft_dtype dtype = part->weight_dtype;
    return dtype >= WEFT_MLX_Q2_G32 && dtype <= WEFT_MLX_Q8_G128 &&
           part->scale_cols == weft_dtype_block_elems(dtype) && part->scale_rows == 1 &&
           (part->scale_dtype == WEFT_F16 || part->scale_dtype == WEFT_BF16);
}

// linear_<name>.cu: weft_linear_<name>, of weights as a file has them
#define WANT_ROWS(choice, name, part, rounded, lazy)                                               \
    want_rows(choice, "src/kernels/linear/linear_" name ".cu", "weft_linear_" name, part, rounded, \
              lazy)
static int32_t want_rows(struct weft__cuda_choice *choice, const char *file, const char *function,
                         const weft_linear_part *part, bool rounded, bool lazy)
{
    struct weft__linear_rows_constants constants = {
        .FORMAT = (int32_t)part->weight_dtype,
        .ELEMS = weft_dtype_block_elems(part->weight_dtype),
        .BYTES = weft_dtype_block_bytes(part->weight_dtype),
        .ROUNDED = rounded,
        .SCALE_DTYPE = has_planes(part) ? (int32_t)part->scale_dtype : 0};
    int32_t kernel =
        weft__cuda_want(choice, file, function, WEFT__CUDA_VALUES(linear_rows, constants));
    choice->kernels[kernel].lazy = lazy;
    return kernel;
}

// linear_<name>.cu: weft_linear_<name>
#define WANT_HELPER(choice, name, constants, is_lazy)                                              \
    want_helper(choice, "src/kernels/linear/linear_" name ".cu", "weft_linear_" name, constants,   \
                is_lazy)
static int32_t want_helper(struct weft__cuda_choice *choice, const char *file, const char *function,
                           const struct weft__linear_constants *constants, bool lazy)
{
    int32_t kernel = weft__cuda_want(choice, file, function, WEFT__CUDA_VALUES(linear, *constants));
    choice->kernels[kernel].lazy = lazy;
    return kernel;
}

// WEFT_LONG_X: pieces that 512 threads need three steps for, squares that a warp needs four for.
static int32_t long_x(int64_t cols)
{
    return cols > 12288 ? 2 : cols >= 4096;
}

// WEFT_COLS, of the kernels for rounded rows: whole tiles, and so many that the few layers of a model with as many share it.
static int32_t constant_cols(const struct weft__linear_set *set, int64_t cols)
{
    const bool rounded = set->matter.block_elems > 1 && !set->matter.exact;
    return rounded && cols >= 1024 && cols % 256 == 0 ? (int32_t)cols : 0;
}

static int32_t want_product(struct weft__cuda_choice *choice, const weft_linear_desc *desc,
                            const struct weft__linear_set *set,
                            const struct weft__linear_shape *shape, bool whole, bool aligned)
{
    const struct weft__linear_cuda_launch *launch = choice->launch;
    const bool plain = set->matter.block_elems == 1;
    weft_dtype format = desc->parts[set->parts[0]].weight_dtype;
    struct weft__linear_constants constants = {
        .WEFT_FORMAT = (int32_t)format,
        .WEFT_BATCH = shape->columns,
        .WEFT_EXACT = set->matter.exact,
        .WEFT_X_OUTSIDE = shape->x_outside,
        .WEFT_ROUND_X = shape->columns > 1 || !weft__linear_rounds_itself(set, desc->flags) ? 0
                        : shape->launches > 1 || shape->sent                                ? 2
                                                                                            : 1,
        .WEFT_ALIGNED = aligned,
        .WEFT_WARPS = shape->warps,
        .WEFT_TEAM = shape->team,
        .WEFT_STAGES = shape->stages,
        .WEFT_SPLIT = shape->split,
        .WEFT_GATE = set->matter.gate ? (int32_t)desc->gate : 0,
        .WEFT_ROUND = set->matter.rounds,
        .WEFT_PAIR = shape->pair,
        .WEFT_TWIN = shape->twin,
        .WEFT_APART = shape->apart,
        .WEFT_AS_NUMBERS = shape->as_numbers,
        .WEFT_SPREAD = shape->spread,
        .WEFT_LONG_X = long_x(desc->cols),
        .WEFT_COLS = constant_cols(set, desc->cols),
        .WEFT_X_DTYPE = (int32_t)weft__linear_numbers_dtype(launch),
        .WEFT_Y_DTYPE = (int32_t)(whole ? desc->y_dtype : WEFT_F32),
        .WEFT_SCALE_DTYPE = set->scale_dtype,
        .WEFT_BLOCKS = shape->blocks};
    static const char *const texts[][2] = {
        {"src/kernels/linear/linear_few.cu", "weft_linear_few"},
        {"src/kernels/linear/linear_numbers.cu", "weft_linear_numbers"},
        {"src/kernels/linear/linear_numbers_some.cu", "weft_linear_numbers_some"},
        {"src/kernels/linear/linear_few_sent.cu", "weft_linear_few_sent"}};
    const int which = !shape->sent ? plain : plain ? 2 : 3;
    return weft__cuda_want(choice, texts[which][0], texts[which][1],
                           WEFT__CUDA_VALUES(linear, constants));
}

// The passes that runs of up to max_batch rows of X are made of. When a row must not depend on the batch
// there is one for all, so that sums have one order.
static bool choose_shapes(const weft_linear_desc *desc, const struct weft__cuda_limits *limits,
                          struct weft__linear_set *set)
{
    static const int32_t rounded[] = {1, 8, 16}, exact[] = {1, 4}, narrow[] = {1, 4, 8, 16},
                         f32[] = {1, 4};
    const struct weft__linear_matter *m = &set->matter;
    const int32_t *columns = m->exact ? exact : rounded;
    int32_t count = m->exact ? 2 : 3;
    if (m->block_elems == 1)
        columns = m->block_bytes == 4 ? f32 : narrow, count = m->block_bytes == 4 ? 2 : 4;
    for (int32_t i = m->form == WEFT__LINEAR_FORM_batched && count > 1; i < count; i++) {
        struct weft__linear_shape *shape = &set->shapes[set->num_shapes];
        if (set->num_shapes > 0 && desc->max_batch <= shape[-1].columns)
            break;
        // eight rows by a cluster are sooner done than four by a block
        if (columns[i] == 4 && !(desc->flags & WEFT_LINEAR_BATCH_INVARIANT) &&
            weft__linear_choose_sent(m, 8, limits, shape))
            continue;
        if (!weft__linear_choose_shape(m, columns[i], limits, shape))
            break;
        // wider passes pay as long as X stays in the shared memory of one block or two
        if (columns[i] == 16 && shape->split > 2 && !shape->sent)
            break;
        if (desc->flags & WEFT_LINEAR_BATCH_INVARIANT)
            set->shapes[0] = *shape, set->num_shapes = 1;
        else
            set->num_shapes++;
        if ((desc->flags & WEFT_LINEAR_BATCH_INVARIANT) &&
            (columns[i] >= 4 || desc->max_batch == 1))
            break;
    }
    if (set->num_shapes == 0 && m->form == WEFT__LINEAR_FORM_batched) {
        set->matter.form = WEFT__LINEAR_FORM_best; // rows too long for several of them at once
        return choose_shapes(desc, limits, set);
    }
    // clusters take no weights that begin anywhere
    set->unaligned_shape = set->shapes[0];
    return set->num_shapes > 0 &&
           (!set->shapes[0].sent ||
            weft__linear_choose_blocks(m, 4, limits, &set->unaligned_shape) ||
            weft__linear_choose_blocks(m, 1, limits, &set->unaligned_shape));
}

// The part joins the set of its format, or none: its weights are read as a file has them.
static weft_status add_part(const weft_linear_desc *desc, int32_t p,
                            struct weft__cuda_choice *choice)
{
    struct weft__linear_cuda_launch *launch = choice->launch;
    struct weft__linear_cuda_part *own = &launch->parts[p];
    const weft_linear_part *part = &desc->parts[p];
    const int32_t elems = weft_dtype_block_elems(part->weight_dtype);
    bool exact = elems == 1 || desc->flags & WEFT_LINEAR_EXACT;
    const struct wanted wanted = {part->weight_dtype, exact ? WEFT__ACTS_f32 : WEFT__ACTS_q8,
                                  has_planes(part), has_groups(part)};
    weft_status status;
    const struct weft__linear_kernel *row = NULL;
    if (choice->tuned[p] && *choice->tuned[p]) // where it does not serve, the best does
        row = (const void *)weft__cuda_choose(&weft__linear_cuda_table, &launch->limits,
                                              choice->tuned[p], serves, &wanted, choice, &status);
    if (!row)
        row = (const void *)weft__cuda_choose(&weft__linear_cuda_table, &launch->limits,
                                              desc->variant, serves, &wanted, choice, &status);
    if (!row)
        return status;
    *own = (struct weft__linear_cuda_part){.exact = exact,
                                           .rows_kernel = -1,
                                           .pack_kernel = -1,
                                           .block_elems = elems,
                                           .block_bytes =
                                               weft__linear_tile_block_bytes(part->weight_dtype) +
                                               (row->groups ? WEFT__LINEAR_GROUP_BYTES : 0),
                                           .rows = part->rows,
                                           .scale_cols = part->scale_cols,
                                           .scale_rows = part->scale_rows,
                                           .staged = -1};
    own->as_file = row->planes;
    own->named_blas = row->base.level == WEFT__CUDA_cublaslt;
    if (own->as_file)
        return WEFT_OK;
    own->tiles = elems > 1;
    own->scale_dtype = row->groups ? (int32_t)part->scale_dtype : WEFT_F16;
    int32_t s = 0;
    while (s < launch->num_sets &&
           (desc->parts[launch->sets[s].parts[0]].weight_dtype != part->weight_dtype ||
            launch->sets[s].scale_dtype != own->scale_dtype))
        s++;
    struct weft__linear_set *set = &launch->sets[s];
    launch->num_sets = s < launch->num_sets ? launch->num_sets : s + 1;
    set->matter =
        (struct weft__linear_matter){.cols = desc->cols,
                                     .block_elems = elems,
                                     .block_bytes = own->block_bytes,
                                     .halves = elems == 1 && own->block_bytes == 2,
                                     .brain = part->weight_dtype == WEFT_BF16,
                                     .table = WEFT__LINEAR_TABLE(part->weight_dtype),
                                     .grid_bytes = WEFT__LINEAR_GRID_BYTES(part->weight_dtype),
                                     .numbers = WEFT__LINEAR_SOME_NUMBERS(part->weight_dtype),
                                     .exact = elems > 1 && exact,
                                     .form = (enum weft__linear_form)row->form};
    set->scale_dtype = own->scale_dtype;
    set->named_blas = own->named_blas;
    set->parts[set->num_parts++] = p;
    return WEFT_OK;
}

// Products by the library of a part of fp8 or int8, whose weights lie as in a file, so many slabs of it as a run has steps for.
static void add_widened(const weft_linear_desc *desc, int32_t p, struct weft__cuda_choice *choice)
{
    struct weft__linear_cuda_launch *launch = choice->launch;
    struct weft__linear_cuda_part *part = &launch->parts[p];
    const weft_dtype format = desc->parts[p].weight_dtype;
    const int32_t around =
        3 +
        2 * desc->num_parts; // X made ready, rounded, narrow; and finished, or kernels of our own
    const struct weft__linear_blas_wish wish = {
        .format = format,
        .x_dtype = (int32_t)weft__linear_numbers_dtype(launch),
        .slabs = (WEFT__CUDA_MAX_STEPS - around) / WEFT__LINEAR_SLAB_STEPS / desc->num_parts,
        .named = part->named_blas,
        .follows = desc->gate || weft__linear_rounds_y(desc),
        .parts = &p,
        .num_parts = 1};
    if (!part->as_file || (desc->variant && !part->named_blas) ||
        (format != WEFT_FP8_E4M3 && format != WEFT_FP8_E5M2 && format != WEFT_INT8) ||
        !weft__linear_blas_plan(desc, &wish, choice, &part->blas))
        return;
    part->blas.widen_kernel = WANT_ROWS(choice, "widen", &desc->parts[p], false, false);
}

static void want_around(const weft_linear_desc *desc, struct weft__cuda_choice *choice)
{
    struct weft__linear_cuda_launch *launch = choice->launch;
    struct weft__linear_constants ready = {.WEFT_X_DTYPE = (int32_t)desc->x_dtype};
    struct weft__linear_constants round = {.WEFT_X_DTYPE =
                                               (int32_t)weft__linear_numbers_dtype(launch)};
    const struct weft__linear_constants finish = {.WEFT_GATE = (int32_t)desc->gate,
                                                  .WEFT_ROUND = weft__linear_rounds_y(desc),
                                                  .WEFT_Y_DTYPE = (int32_t)desc->y_dtype};
    bool any_q8 = false, numbers = false;
    for (int32_t p = 0; p < desc->num_parts; p++) {
        struct weft__linear_cuda_part *part = &launch->parts[p];
        const struct weft__linear_constants pack = {.WEFT_FORMAT =
                                                        (int32_t)desc->parts[p].weight_dtype,
                                                    .WEFT_SCALE_DTYPE = part->scale_dtype};
        any_q8 = any_q8 || !part->exact;
        if (part->tiles)
            part->pack_kernel = WANT_HELPER(choice, "pack", &pack, true);
        if (part->tiles || part->as_file) {
            part->rows_kernel =
                WANT_ROWS(choice, "rows", &desc->parts[p], !part->exact, part->tiles);
            add_widened(desc, p, choice);
            numbers = numbers || part->exact;
        }
    }
    launch->ready = launch->round = launch->finish = -1;
    bool gemm = false, blas = false, sliced = false;
    for (int32_t s = 0; s < launch->num_sets; s++) {
        sliced = sliced || weft__linear_slice_sums(&launch->sets[s].slices, desc->max_batch);
        gemm = gemm || launch->sets[s].gemm.min_batch || launch->sets[s].blas.least_batch;
        blas = blas || launch->sets[s].blas.least_batch;
    }
    for (int32_t p = 0; p < desc->num_parts; p++)
        blas = blas || launch->parts[p].blas.least_batch;
    if (launch->ready_first || (numbers && (desc->norm || desc->x_dtype != WEFT_F32)))
        launch->ready = want_helper(choice, "src/kernels/linear/linear_round.cu",
                                    "weft_linear_ready", &ready, !launch->ready_first);
    if (any_q8 && !(desc->flags & WEFT_LINEAR_X_ROUNDED))
        launch->round = WANT_HELPER(choice, "round", &round, false);
    launch->finishes = desc->gate || weft__linear_rounds_y(desc) || desc->y_dtype != WEFT_F32;
    if (launch->finishes || blas || sliced)
        launch->finish = WANT_HELPER(choice, "finish", &finish, launch->whole && !gemm);
}

// Kernels for many rows of X, and where these serve those for some; how many.
static int32_t add_gemm(const weft_linear_desc *desc, struct weft__cuda_choice *choice,
                        struct weft__linear_set *set)
{
    const struct weft__linear_cuda_launch *launch = choice->launch;
    const int32_t before = choice->num_kernels;
    const bool plain = set->matter.block_elems == 1,
               follows = desc->gate || weft__linear_rounds_y(desc);
    struct weft__linear_slice_wish wish = {
        .matrix = {.format = desc->parts[set->parts[0]].weight_dtype,
                   .x_dtype = plain ? (int32_t)weft__linear_numbers_dtype(launch)
                                    : WEFT__LINEAR_GEMM_ROUNDED,
                   .y_dtype = (int32_t)(follows ? WEFT_F32 : desc->y_dtype),
                   .scale_dtype = set->scale_dtype,
                   .block_bytes = set->matter.block_bytes},
        .follows = follows};
    for (int32_t i = 0; i < set->num_parts; i++) {
        const int64_t rows = desc->parts[set->parts[i]].rows;
        wish.units += weft__linear_slice_units(rows, WEFT__LINEAR_SLICE_UNIT);
        wish.team_units += weft__linear_slice_units(rows, WEFT__LINEAR_TEAM_UNIT);
    }
    for (int32_t i = 0; i < set->num_shapes; i++) {
        const struct weft__linear_shape *few = &set->shapes[i];
        if (few->sent && plain)
            wish.matrix.few = few->columns;
        else if (few->sent && few->columns > 1)
            wish.sent_columns = few->columns;
        else if (few->sent || few->split == 1)
            wish.few_columns = few->columns;
    }
    weft__linear_gemm_plan(desc, &wish.matrix, &launch->limits, choice, &set->gemm);
    if (!plain)
        weft__linear_slices_plan(desc, &wish, &launch->limits, choice, &set->slices);
    return choice->num_kernels - before;
}

static weft_status shape_sets(const weft_linear_desc *desc, struct weft__cuda_choice *choice)
{
    struct weft__linear_cuda_launch *launch = choice->launch;
    launch->whole = !desc->gate || (launch->num_sets == 1 && launch->sets[0].num_parts == 2);
    launch->ready_first = desc->norm == WEFT_LINEAR_NORM_LAYER;
    for (int32_t s = 0; s < launch->num_sets; s++) {
        struct weft__linear_set *set = &launch->sets[s];
        set->matter.gate = desc->gate && launch->whole;
        set->matter.rounds = weft__linear_rounds_y(desc) && launch->whole;
        set->matter.invariant = desc->flags & WEFT_LINEAR_BATCH_INVARIANT;
        set->matter.numbers_x = !(desc->flags & WEFT_LINEAR_X_ROUNDED) && !desc->norm;
        set->matter.twos = constant_cols(set, desc->cols) > 0;
        for (int32_t i = 0; i < (set->matter.gate ? 1 : set->num_parts); i++) {
            set->matter.groups += (desc->parts[set->parts[i]].rows + 15) / 16;
            set->matter.twos = set->matter.twos && desc->parts[set->parts[i]].rows % 32 == 0;
        }
        if (!choose_shapes(desc, &launch->limits, set)) {
            snprintf(choice->text, sizeof choice->text,
                     "linear: this GPU has too little shared memory for %s",
                     weft_dtype_name(desc->parts[set->parts[0]].weight_dtype));
            return WEFT_EUNSUPPORTED;
        }
        if (set->shapes[0].x_outside && (set->matter.block_elems == 1 || set->matter.exact))
            launch->ready_first = true;
    }
    return WEFT_OK;
}

static void want_products(const weft_linear_desc *desc, struct weft__cuda_choice *choice)
{
    struct weft__linear_cuda_launch *launch = choice->launch;
    // what the other kernels of a plan leave: those of parts that are packed or not, 3 around them, the products' own
    int32_t spare = WEFT__CUDA_MAX_KERNELS - 3;
    for (int32_t p = 0; p < launch->num_parts; p++)
        spare -= launch->parts[p].as_file ? 3 : launch->parts[p].tiles ? 2 : 0;
    for (int32_t s = 0; s < launch->num_sets; s++)
        spare -= launch->sets[s].matter.block_elems == 1 ? WEFT__LINEAR_MOST_SHAPES + 1 : 3;
    for (int32_t s = 0; s < launch->num_sets; s++) {
        struct weft__linear_set *set = &launch->sets[s];
        const int32_t most = set->matter.block_elems == 1
                                 ? WEFT__LINEAR_GEMM_PLAIN_KERNELS
                                 : WEFT__LINEAR_GEMM_KERNELS + WEFT__LINEAR_SLICE_SHAPES;
        if (spare >= most)
            spare -= add_gemm(desc, choice, set);
        if (spare > 0 && weft__linear_blas_plan_set(desc, choice, set))
            spare--;
        set->first_kernel = choice->num_kernels;
        for (int32_t i = 0; i < set->num_shapes; i++)
            want_product(choice, desc, set, &set->shapes[i], launch->whole, true);
        if (set->matter.block_elems == 1) {
            set->unaligned =
                want_product(choice, desc, set, &set->unaligned_shape, launch->whole, false);
            choice->kernels[set->unaligned].lazy = true;
        }
    }
}

static void describe(const weft_linear_desc *desc, struct weft__cuda_choice *choice)
{
    size_t at = 0, room = sizeof choice->text;
    for (int32_t p = 0; p < desc->num_parts && at < room; p++)
        at += (size_t)snprintf(choice->text + at, room - at, "%s %s %lldx%lld", p ? "," : "",
                               weft_dtype_name(desc->parts[p].weight_dtype),
                               (long long)desc->parts[p].rows, (long long)desc->cols);
    if (at < room)
        snprintf(choice->text + at, room - at, " batch<=%d%s%s%s", desc->max_batch,
                 desc->norm ? ", norm before" : "", desc->gate ? ", gate after" : "",
                 weft__linear_rounds_y(desc) ? ", rounded" : "");
}

// What of a descriptor is not here, or NULL.
static const char *missing(const weft_linear_desc *desc)
{
    if (desc->gate && desc->num_parts == 1)
        return "linear: the function of a single part is a step of its own on cuda";
    if (desc->x_gate)
        return "linear: x_gate is not on cuda: the layer before applies it (gate)";
    for (int32_t p = 0; p < desc->num_parts; p++)
        if (desc->parts[p].rows > INT32_MAX - 64 || desc->cols > INT32_MAX / 2)
            return "linear: rows and cols must fit 31 bits on cuda";
    return NULL;
}

static weft_status plan(const void *opaque_desc, const struct weft__cuda_limits *limits,
                        struct weft__cuda_choice *choice)
{
    const weft_linear_desc *desc = opaque_desc;
    struct weft__linear_cuda_launch *launch = choice->launch;
    *launch = (struct weft__linear_cuda_launch){.limits = *limits,
                                                .num_parts = desc->num_parts,
                                                .cols = desc->cols,
                                                .ready_stride = weft__align_up(desc->cols, 256),
                                                .flags = desc->flags,
                                                .norm = desc->norm,
                                                .gate = desc->gate,
                                                .norm_eps = desc->norm_eps,
                                                .x_dtype = desc->x_dtype,
                                                .y_dtype = desc->y_dtype};
    const struct weft__kernel *first = NULL;
    const char *why = missing(desc);
    if (why) {
        snprintf(choice->text, sizeof choice->text, "%s", why);
        return WEFT_EUNSUPPORTED;
    }
    for (int32_t p = 0; p < desc->num_parts; p++) {
        weft_status status = add_part(desc, p, choice);
        if (status != WEFT_OK)
            return status;
        first = p == 0 ? choice->row : first;
    }
    choice->row = first;
    weft_status status = shape_sets(desc, choice);
    if (status != WEFT_OK)
        return status;
    want_products(desc, choice);
    want_around(desc, choice);
    if (!weft__linear_cuda_lay_out(desc, launch, &choice->workspace_bytes)) {
        snprintf(choice->text, sizeof choice->text, "linear: the workspace does not fit");
        return WEFT_EOVERFLOW;
    }
    describe(desc, choice);
    return WEFT_OK;
}

int64_t weft__linear_cuda_packed_bytes(const void *opaque_launch, int32_t p)
{
    const struct weft__linear_cuda_launch *launch = opaque_launch;
    const struct weft__linear_cuda_part *part = &launch->parts[p];
    return part->tiles ? weft__linear_packed_bytes(part->rows, launch->cols, part->block_bytes,
                                                   part->block_elems)
                       : 0;
}

void weft__linear_cuda_pack(const void *opaque_launch, int32_t p,
                            const struct weft__linear_slab *slab, struct weft__cuda_step *step)
{
    const struct weft__linear_cuda_launch *launch = opaque_launch;
    weft__linear_pack_step(launch->parts[p].pack_kernel, launch->cols, slab, step);
}

const struct weft__cuda_op weft__linear_cuda = {&weft__linear_cuda_table,
                                                sizeof(struct weft__linear_cuda_launch), plan,
                                                weft__linear_cuda_steps};
