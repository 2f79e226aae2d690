// SPDX-License-Identifier: MIT
// Runs of linear layers on CUDA: which launches, in which order (linear_cuda.h).
#include "src/kernels/linear/linear_cuda.h"

// A run on its way.
struct run {
    const struct weft__linear_cuda_launch *launch;
    const weft_linear_args *args;
    struct weft__cuda_step *steps;
    int32_t count;
    char *workspace;
    const void *numbers, *rounded; // X
    int64_t numbers_stride;
    int32_t norm;                           // that is left to the products
    const struct weft__linear_gemm *gemm_x; // whose X lies in the workspace, or NULL
    const struct weft__linear_blas *blas_x; // likewise
    const float *scales;                    // of rows of X, that the library's products still want
    float norm_plus;
};

// Does a kernel of a set read the part's weights?
static bool in_set(const struct run *run, int32_t p)
{
    const struct weft__linear_cuda_part *part = &run->launch->parts[p];
    return part->rows_kernel < 0 || (part->tiles && run->args->parts[p].packed);
}

static void add_ready(struct run *run)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    const weft_linear_args *args = run->args;
    const struct weft__linear_ready_args ready = {
        .x = args->x,
        .weight = args->norm_weight,
        .bias = args->norm_bias,
        .y = (float *)(void *)(run->workspace + launch->ready_offset),
        .x_stride = args->x_stride,
        .y_stride = launch->ready_stride,
        .cols = (int32_t)launch->cols,
        .norm = (int32_t)launch->norm,
        .eps = launch->norm_eps,
        .weight_plus = run->norm_plus};
    weft__cuda_step(&run->steps[run->count++], launch->ready, (uint32_t)args->batch, 1, 256, &ready,
                    sizeof ready)
        ->overlap = 1;
}

// From here on X is ready: nobody need norm it.
static void take_ready(struct run *run)
{
    add_ready(run);
    run->numbers = run->workspace + run->launch->ready_offset;
    run->numbers_stride = run->launch->ready_stride;
    run->norm = 0;
}

// The shape that serves the run.
static int32_t shape_of(const struct weft__linear_set *set, int32_t batch)
{
    int32_t which = 0;
    while (which + 1 < set->num_shapes && batch > set->shapes[which].columns)
        which++;
    return which;
}

// Do kernels for many rows of X serve the set?
static bool is_gemm(const struct run *run, const struct weft__linear_set *set)
{
    uintptr_t bits = 0;
    for (int32_t i = 0; i < set->num_parts && set->gemm.plain; i++) {
        const weft_linear_part_args *part = &run->args->parts[set->parts[i]];
        bits |= (uintptr_t)part->weight | (uintptr_t)part->weight_stride_bytes;
    }
    return set->gemm.min_batch && run->args->batch >= set->gemm.min_batch && bits % 16 == 0;
}

// Does the set's launch round X itself?
static bool rounds_itself(const struct run *run, const struct weft__linear_set *set)
{
    return !is_gemm(run, set) && set->shapes[shape_of(set, run->args->batch)].columns == 1 &&
           weft__linear_rounds_itself(set, run->launch->flags);
}

// Does any launch of this run read rounded X?
static bool wants_rounded(const struct run *run)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    for (int32_t p = 0; p < launch->num_parts; p++)
        if (!launch->parts[p].exact && !in_set(run, p))
            return true;
    for (int32_t s = 0; s < launch->num_sets; s++) {
        const struct weft__linear_set *set = &launch->sets[s];
        if (set->matter.block_elems > 1 && !set->matter.exact && !rounds_itself(run, set))
            return true;
    }
    return false;
}

// X as the products read it: normed by LayerNorm, rounded.
static void add_inputs(struct run *run)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    const weft_linear_args *args = run->args;
    run->numbers = run->rounded = args->x;
    run->numbers_stride = args->x_stride;
    run->norm = launch->norm == WEFT_LINEAR_NORM_RMS;
    run->norm_plus = launch->flags & WEFT_LINEAR_NORM_PLUS_ONE ? 1.0f : 0.0f;
    if (launch->ready_first)
        take_ready(run);
    if (launch->round < 0 || !wants_rounded(run))
        return;
    const struct weft__linear_round_args round = {.x = run->numbers,
                                                  .x_stride = run->numbers_stride,
                                                  .weight = run->norm ? args->norm_weight : NULL,
                                                  .rounded =
                                                      run->workspace + launch->rounded_offset,
                                                  .batch = args->batch,
                                                  .cols = (int32_t)launch->cols,
                                                  .weight_plus = run->norm_plus};
    weft__cuda_step(&run->steps[run->count++], launch->round,
                    (uint32_t)(((launch->cols + 63) / 64 * 2 + 7) / 8), (uint32_t)args->batch, 256,
                    &round, sizeof round)
        ->overlap = 1;
    run->rounded = round.rounded;
}

static float alpha_of(const struct run *run, int32_t p)
{
    float global = run->args->parts[p].global_scale;
    return run->args->alpha * (global != 0 ? global : 1.0f);
}

// Where a part's f32 products go when something is to follow in another launch.
static float *staged(const struct run *run, int32_t p)
{
    return (float *)(void *)(run->workspace + run->launch->parts[p].staged);
}

static void add_rows(struct run *run, int32_t p, bool staging)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    const struct weft__linear_cuda_part *part = &launch->parts[p];
    const weft_linear_args *args = run->args;
    const weft_linear_part_args *from = &args->parts[p];
    const struct weft__linear_rows_args rows = {.weight = from->weight,
                                                .scales = from->scales,
                                                .biases = from->biases,
                                                .weight_stride_bytes = from->weight_stride_bytes,
                                                .scale_stride = from->scale_stride,
                                                .scale_cols = (int32_t)part->scale_cols,
                                                .scale_rows = (int32_t)part->scale_rows,
                                                .x = part->exact ? run->numbers : run->rounded,
                                                .x_stride = run->numbers_stride,
                                                .bias = from->bias,
                                                .residual = staging ? NULL : args->residual,
                                                .y = staging ? staged(run, p) : from->y,
                                                .residual_stride = args->residual_stride,
                                                .y_stride = staging ? part->rows : from->y_stride,
                                                .batch = args->batch,
                                                .rows = (int32_t)part->rows,
                                                .cols = (int32_t)launch->cols,
                                                .norm = run->norm,
                                                .alpha = alpha_of(run, p),
                                                .norm_eps = launch->norm_eps};
    weft__cuda_step(&run->steps[run->count++], part->rows_kernel, (uint32_t)part->rows,
                    (uint32_t)((args->batch + 3) / 4), 32, &rows, sizeof rows)
        ->overlap = 1;
}

// Fills in the parts of a set that are there for its kernels; returns the groups of rows they have.
static int32_t fill_parts(const struct run *run, const struct weft__linear_set *set,
                          int32_t rows_a_group, bool staging,
                          struct weft__linear_device_args *device)
{
    const weft_linear_args *args = run->args;
    int32_t groups = 0;
    for (int32_t i = 0; i < set->num_parts; i++) {
        int32_t p = set->parts[i];
        const weft_linear_part_args *from = &args->parts[p];
        const int64_t rows = run->launch->parts[p].rows;
        if (!in_set(run, p))
            continue;
        bool leaves = set->matter.rounds && run->launch->flags & WEFT_LINEAR_Y_ROUNDED;
        device->part[device->num_parts++] = (struct weft__linear_device_part){
            .weight = set->matter.block_elems > 1 ? from->packed : from->weight,
            .bias = from->bias,
            .y = staging  ? staged(run, p)
                 : leaves ? NULL
                          : from->y,
            .y_stride = staging ? rows : from->y_stride,
            .weight_stride_bytes = from->weight_stride_bytes,
            .rows = (int32_t)rows,
            .first_group = set->matter.gate ? 0 : groups,
            .alpha = alpha_of(run, p)};
        if (!set->matter.gate || i == 0)
            groups += (int32_t)((rows + rows_a_group - 1) / rows_a_group);
    }
    return groups;
}

static bool aligned(const struct weft__linear_device_args *device)
{
    uintptr_t bits = 0;
    for (int32_t i = 0; i < device->num_parts; i++)
        bits |= (uintptr_t)device->part[i].weight | (uintptr_t)device->part[i].weight_stride_bytes;
    return bits % 16 == 0;
}

static void add_product(struct run *run, const struct weft__linear_set *set, bool staging)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    const weft_linear_args *args = run->args;
    const bool plain = set->matter.block_elems == 1;
    const bool numbers = plain || set->matter.exact || rounds_itself(run, set);
    struct weft__linear_device_args device = {
        .x = numbers ? run->numbers : run->rounded,
        .x_stride = run->numbers_stride,
        .norm_weight = run->norm ? args->norm_weight : NULL,
        .residual = staging ? NULL : args->residual,
        .residual_stride = args->residual_stride,
        .next_weight = args->next_weight,
        .batch = args->batch,
        .cols = (int32_t)launch->cols,
        .norm = run->norm,
        .norm_eps = launch->norm_eps,
        .norm_weight_plus = run->norm_plus,
        .next_weight_plus = launch->flags & WEFT_LINEAR_NORM_PLUS_ONE ? 1.0f : 0.0f};
    if (set->matter.rounds)
        device.rounded = launch->flags & WEFT_LINEAR_NEXT ? args->next : args->parts[0].y;
    int32_t which = shape_of(set, args->batch), kernel = set->first_kernel + which;
    device.num_groups = fill_parts(
        run, set, set->matter.rounds && !set->shapes[which].pair ? 32 : 16, staging, &device);
    if (device.num_parts == 0)
        return;
    if (plain && !aligned(&device))
        which = 0, kernel = set->unaligned;
    const struct weft__linear_shape *shape = &set->shapes[which];
    struct weft__cuda_step *step =
        weft__cuda_step(&run->steps[run->count++], kernel,
                        weft__linear_blocks(shape, &launch->limits, device.num_groups),
                        (uint32_t)((args->batch + shape->columns - 1) / shape->columns),
                        (uint32_t)shape->warps * 32, &device, sizeof device);
    step->shared_bytes = (uint32_t)shape->shared_bytes;
    step->cluster = shape->pair ? 2 : shape->split > 1 ? (uint32_t)shape->split : 0;
    step->overlap = 1;
}

static void add_gemm(struct run *run, const struct weft__linear_set *set, bool staging)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    const weft_linear_args *args = run->args;
    for (int32_t i = 0; i < set->num_parts; i++) {
        const int32_t p = set->parts[i];
        const weft_linear_part_args *part = &args->parts[p];
        if (!in_set(run, p))
            continue;
        const bool plain = set->gemm.plain;
        const struct weft__linear_gemm_call call = {
            .weight = plain ? part->weight : part->packed,
            .weight_stride_bytes = part->weight_stride_bytes,
            .x = plain ? run->numbers : run->rounded,
            .x_stride = run->numbers_stride,
            .x_ready =
                run->gemm_x && run->gemm_x->brain == set->gemm.brain && run->gemm_x->plain == plain,
            .norm_weight = plain && run->norm ? args->norm_weight : NULL,
            .norm_weight_plus = run->norm_plus,
            .norm_eps = launch->norm_eps,
            .norm = run->norm,
            .alpha = alpha_of(run, p),
            .bias = part->bias,
            .residual = staging ? NULL : args->residual,
            .residual_stride = args->residual_stride,
            .y = staging ? staged(run, p) : part->y,
            .y_stride = staging ? launch->parts[p].rows : part->y_stride,
            .batch = args->batch,
            .rows = (int32_t)launch->parts[p].rows,
            .cols = (int32_t)launch->cols,
            .workspace = run->workspace + launch->gemm_offset};
        run->count += weft__linear_gemm_steps(&set->gemm, &call, &run->steps[run->count]);
        run->gemm_x = &set->gemm, run->blas_x = NULL;
    }
}

// How the library's product of a part leaves.
enum blas_way {
    BLAS_NOT,    // not at all: kernels of our own
    BLAS_DIRECT, // as Y, the residual added; a bias follows
    BLAS_IN_Y,   // in Y, and is finished there
    BLAS_STAGED, // in the workspace
};

static bool by_sixteen(const void *address, int64_t stride, weft_dtype dtype)
{
    const int64_t bytes = stride * (dtype == WEFT_F32 ? 4 : 2);
    return ((uint64_t)(uintptr_t)address | (uint64_t)bytes) % 16 == 0;
}

// May X be read as the caller has it?
static bool x_as_is(const struct run *run, const struct weft__linear_blas *blas)
{
    return blas->x_as_is && by_sixteen(run->numbers, run->numbers_stride, WEFT_BF16);
}

static enum blas_way blas_way(const struct run *run, const struct weft__linear_set *set, int32_t i,
                              bool follows)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    const struct weft__linear_blas *blas = &set->blas;
    const weft_linear_args *args = run->args;
    const weft_linear_part_args *part = &args->parts[set->parts[i]];
    const weft_dtype y = launch->y_dtype;
    const int64_t room = launch->parts[set->parts[i]].staged;
    const bool fits_y = by_sixteen(part->y, part->y_stride, y) && blas->result[i] == y;
    const bool factors = !blas->brain && !x_as_is(run, blas);
    const bool own =
        room >= 0 && launch->parts[set->parts[i]].rows % 4 == 0 && blas->result[i] == WEFT_F32;
    if (!blas->offers[i].serves ||
        !by_sixteen(part->weight, part->weight_stride_bytes / 2, WEFT_BF16))
        return BLAS_NOT;
    if (follows)
        return own ? BLAS_STAGED : BLAS_NOT;
    if (fits_y && !factors && (!part->bias || y == WEFT_F32) &&
        (!args->residual || by_sixteen(args->residual, args->residual_stride, y)))
        return BLAS_DIRECT;
    if (fits_y && y == WEFT_F32 && args->residual != part->y)
        return BLAS_IN_Y;
    return own ? BLAS_STAGED : BLAS_NOT;
}

// Does the library serve all parts of the set?
static bool is_blas(const struct run *run, const struct weft__linear_set *set, bool follows)
{
    if (!set->blas.least_batch || run->args->batch < set->blas.least_batch)
        return false;
    for (int32_t i = 0; i < set->num_parts; i++)
        if (blas_way(run, set, i, follows) == BLAS_NOT)
            return false;
    return true;
}

// The pass over X, which leaves factors of its rows where there are any.
static void add_blas_x(struct run *run, const struct weft__linear_blas *blas)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    const weft_linear_args *args = run->args;
    char *at = run->workspace + launch->gemm_offset;
    const struct weft__linear_gemm_x_args x = {.x = run->numbers,
                                               .x_stride = run->numbers_stride,
                                               .norm_weight = run->norm ? args->norm_weight : NULL,
                                               .pieces = at + (args->batch + 63) / 64 * 256,
                                               .scales = (float *)(void *)at,
                                               .batch = args->batch,
                                               .cols = (int32_t)launch->cols,
                                               .norm = run->norm,
                                               .norm_eps = launch->norm_eps,
                                               .norm_weight_plus = run->norm_plus};
    weft__cuda_step(&run->steps[run->count++], blas->x_kernel, (uint32_t)args->batch, 1, 256, &x,
                    sizeof x)
        ->overlap = 1;
    run->scales = blas->brain ? NULL : x.scales;
    run->blas_x = blas, run->gemm_x = NULL;
}

static void add_finish_of(struct run *run, int32_t p, const void *first, int64_t stride,
                          const void *residual, bool products);

static void add_blas(struct run *run, const struct weft__linear_set *set, bool follows)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    const struct weft__linear_blas *blas = &set->blas;
    const weft_linear_args *args = run->args;
    const bool as_is = x_as_is(run, blas);
    if (!as_is && (!run->blas_x || run->blas_x->brain != blas->brain))
        add_blas_x(run, blas);
    if (as_is)
        run->scales = NULL;
    const char *x = run->workspace + launch->gemm_offset + (args->batch + 63) / 64 * 256;
    for (int32_t i = 0; i < set->num_parts; i++) {
        const int32_t p = set->parts[i];
        const weft_linear_part_args *part = &args->parts[p];
        const enum blas_way way = blas_way(run, set, i, follows);
        const bool direct = way == BLAS_DIRECT && args->residual;
        struct weft__cuda_product_call call = {
            .w = part->weight,
            .w_stride = part->weight_stride_bytes / 2,
            .x = as_is ? run->numbers : x,
            .x_stride = as_is ? run->numbers_stride : weft__linear_blas_x_stride(launch->cols),
            .y = way == BLAS_STAGED ? staged(run, p) : part->y,
            .y_stride = way == BLAS_STAGED ? launch->parts[p].rows : part->y_stride,
            .alpha = alpha_of(run, p),
            .beta = direct ? 1.0f : 0.0f,
            .batch = args->batch,
            .workspace = run->workspace + blas->offers[i].workspace_at};
        call.c = direct ? args->residual : call.y;
        call.c_stride = direct ? args->residual_stride : call.y_stride;
        weft__cuda_product_step(&run->steps[run->count++], blas->first_product + i, &call);
        if (!follows && (way != BLAS_DIRECT || part->bias))
            add_finish_of(run, p, call.y, call.y_stride, way == BLAS_DIRECT ? NULL : args->residual,
                          true);
    }
}

// What follows products of part p, of both parts of a gate, that lie in f32 at `first`. The library's want their factors and
// bias still.
static void add_finish_of(struct run *run, int32_t p, const void *first, int64_t stride,
                          const void *residual, bool products)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    const weft_linear_args *args = run->args;
    const bool next = launch->flags & WEFT_LINEAR_NEXT;
    const bool leaves = launch->flags & WEFT_LINEAR_Y_ROUNDED;
    const weft_linear_part_args *part = &args->parts[p];
    const struct weft__linear_finish_args finish = {
        .first = first,
        .second = launch->gate ? staged(run, 1) : NULL,
        .stride = stride,
        .scales = products ? run->scales : NULL,
        .first_bias = products ? part->bias : NULL,
        .second_bias = products && launch->gate ? args->parts[1].bias : NULL,
        .residual = residual,
        .y = leaves ? NULL : part->y,
        .rounded = next     ? args->next
                   : leaves ? part->y
                            : NULL,
        .next_weight = args->next_weight,
        .residual_stride = args->residual_stride,
        .y_stride = part->y_stride,
        .batch = args->batch,
        .rows = (int32_t)launch->parts[p].rows,
        .next_weight_plus = launch->flags & WEFT_LINEAR_NORM_PLUS_ONE ? 1.0f : 0.0f};
    weft__cuda_step(&run->steps[run->count++], launch->finish,
                    (uint32_t)((launch->parts[p].rows + 255) / 256), (uint32_t)args->batch, 256,
                    &finish, sizeof finish)
        ->overlap = 1;
}

static void add_finish(struct run *run, int32_t p, bool products)
{
    add_finish_of(run, p, staged(run, p), run->launch->parts[p].rows, run->args->residual,
                  products);
}

int32_t weft__linear_cuda_steps(const void *opaque_launch, const void *opaque_args,
                                struct weft__cuda_step *steps)
{
    const struct weft__linear_cuda_launch *launch = opaque_launch;
    const weft_linear_args *args = opaque_args;
    struct run run = {.launch = launch, .args = args, .steps = steps, .workspace = args->workspace};
    const bool follows = launch->gate || launch->flags & (WEFT_LINEAR_Y_ROUNDED | WEFT_LINEAR_NEXT);
    bool all_in_sets = true, rows_of_numbers = false;
    for (int32_t p = 0; p < launch->num_parts; p++)
        if (!in_set(&run, p)) {
            all_in_sets = false;
            rows_of_numbers = rows_of_numbers || launch->parts[p].exact;
        }
    add_inputs(&run);
    // a gate's products meet in one launch
    const bool together = launch->gate && !(launch->whole && all_in_sets);
    bool finish = together, blas = false;
    for (int32_t s = 0; s < launch->num_sets; s++) {
        const struct weft__linear_set *set = &launch->sets[s];
        if (together && launch->whole)
            break;
        if (is_blas(&run, set, follows)) {
            finish = follows, blas = true;
            add_blas(&run, set, follows);
        } else if (is_gemm(&run, set)) {
            finish = follows && all_in_sets;
            add_gemm(&run, set, follows);
        } else {
            add_product(&run, set, together);
        }
    }
    if (all_in_sets && !together) {
        if (finish)
            add_finish(&run, 0, blas);
        return run.count;
    }
    // weights as a file has them: numbers become normed f32 rows first
    int32_t norm = run.norm;
    if (rows_of_numbers && launch->ready >= 0 && !launch->ready_first)
        take_ready(&run);
    run.norm = norm; // of rounded X
    for (int32_t p = 0; p < launch->num_parts; p++)
        if (!in_set(&run, p) || (together && launch->whole)) {
            add_rows(&run, p, launch->finishes);
            if (launch->finishes && !together)
                add_finish(&run, p, false);
        }
    if (together)
        add_finish(&run, 0, false);
    return run.count;
}
