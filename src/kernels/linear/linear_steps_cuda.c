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
    return !is_gemm(run, set) && !weft__linear_some_of(&set->some, run->args->batch) &&
           set->shapes[shape_of(set, run->args->batch)].columns == 1 &&
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

// Fills in the parts of a set that are there for its kernels; returns the groups of rows they have. apart: the matrices of a
// gate do not meet in this launch.
static int32_t fill_parts(const struct run *run, const struct weft__linear_set *set,
                          int32_t rows_a_group, bool staging, bool apart,
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
            .first_group = set->matter.gate && !apart ? 0 : groups,
            .alpha = alpha_of(run, p)};
        if (!set->matter.gate || apart || i == 0)
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

// How a set's kernel is launched.
struct how {
    int32_t kernel, columns; // rows of X a pass
    int32_t rows_a_group, warps, cluster, shared_bytes, slices;
    const struct weft__linear_some_shape *some; // or NULL
    const struct weft__linear_shape *few;
};

static struct how how_of(const struct run *run, const struct weft__linear_set *set)
{
    const struct weft__linear_some_shape *some =
        weft__linear_some_of(&set->some, run->args->batch);
    const int32_t which = shape_of(set, run->args->batch);
    const struct weft__linear_shape *few = &set->shapes[which];
    if (some)
        return (struct how){.some = some,
                            .kernel = some->kernel,
                            .columns = some->rows,
                            .rows_a_group = set->matter.rounds && some->slices == 1 ? 32 : 16,
                            .warps = WEFT__LINEAR_SOME_WARPS + WEFT__LINEAR_SOME_DELIVER,
                            .slices = some->slices,
                            .shared_bytes = some->shared_bytes};
    return (struct how){.few = few,
                        .kernel = set->first_kernel + which,
                        .columns = few->columns,
                        .rows_a_group = set->matter.rounds && !few->pair ? 32 : 16,
                        .warps = few->warps,
                        .cluster = few->pair ? 2 : few->split > 1 ? few->split : 0,
                        .shared_bytes = few->shared_bytes};
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
    struct how how = how_of(run, set);
    device.num_groups = fill_parts(run, set, how.rows_a_group, staging, staging, &device);
    if (device.num_parts == 0)
        return;
    if (plain && !aligned(&device)) {
        how.few = &set->shapes[0];
        how = (struct how){.few = how.few,
                           .kernel = set->unaligned,
                           .columns = how.few->columns,
                           .warps = how.few->warps,
                           .cluster = how.few->split > 1 ? how.few->split : 0,
                           .shared_bytes = how.few->shared_bytes};
    }
    const uint32_t blocks =
        how.some ? weft__linear_some_blocks(how.some, &launch->limits, args->batch,
                                            device.num_groups)
                 : weft__linear_blocks(how.few, &launch->limits, device.num_groups);
    struct weft__cuda_step *step =
        weft__cuda_step(&run->steps[run->count++], how.kernel, blocks,
                        (uint32_t)((args->batch + how.columns - 1) / how.columns *
                                   (how.slices > 1 ? how.slices : 1)),
                        (uint32_t)how.warps * 32, &device, sizeof device);
    step->shared_bytes = (uint32_t)how.shared_bytes;
    step->cluster = (uint32_t)how.cluster;
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
        run->gemm_x = &set->gemm;
    }
}

// What follows products that lie in the workspace; of part p, of both parts of a gate.
static void add_finish(struct run *run, int32_t p, int32_t slices)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    const weft_linear_args *args = run->args;
    const bool next = launch->flags & WEFT_LINEAR_NEXT;
    const bool leaves = launch->flags & WEFT_LINEAR_Y_ROUNDED;
    const weft_linear_part_args *part = &args->parts[p];
    const struct weft__linear_finish_args finish = {
        .first = staged(run, p),
        .second = launch->gate ? staged(run, 1) : NULL,
        .residual = args->residual,
        .y = leaves ? NULL : part->y,
        .rounded = next     ? args->next
                   : leaves ? part->y
                            : NULL,
        .next_weight = args->next_weight,
        .residual_stride = args->residual_stride,
        .y_stride = part->y_stride,
        .batch = args->batch,
        .rows = (int32_t)launch->parts[p].rows,
        .slices = slices,
        .next_weight_plus = launch->flags & WEFT_LINEAR_NORM_PLUS_ONE ? 1.0f : 0.0f};
    weft__cuda_step(&run->steps[run->count++], launch->finish,
                    (uint32_t)((launch->parts[p].rows + 255) / 256), (uint32_t)args->batch, 256,
                    &finish, sizeof finish)
        ->overlap = 1;
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
    bool finish = together;
    for (int32_t s = 0; s < launch->num_sets; s++) {
        const struct weft__linear_set *set = &launch->sets[s];
        if (together && launch->whole)
            break;
        const struct weft__linear_some_shape *some =
            weft__linear_some_of(&set->some, args->batch);
        if (some && some->slices > 1) {
            add_product(&run, set, true);
            for (int32_t i = 0; i < set->num_parts && !together; i++)
                if (in_set(&run, set->parts[i]) && !(launch->gate && i > 0))
                    add_finish(&run, set->parts[i], some->slices);
        } else if (is_gemm(&run, set) && !some) {
            finish = follows && all_in_sets;
            add_gemm(&run, set, follows);
        } else {
            add_product(&run, set, together);
        }
    }
    if (all_in_sets && !together) {
        if (finish)
            add_finish(&run, 0, 1);
        return run.count;
    }
    // weights as a file has them: numbers become normed f32 rows first
    int32_t norm = run.norm;
    if (rows_of_numbers && launch->ready >= 0 && !launch->ready_first)
        take_ready(&run);
    run.norm = norm; // of rounded X
    for (int32_t p = 0; p < launch->num_parts; p++)
        if (!in_set(&run, p) || (together && launch->whole)) {
            add_rows(&run, p, launch->finish >= 0);
            if (launch->finish >= 0 && !together)
                add_finish(&run, p, 1);
        }
    if (together)
        add_finish(&run, 0, 1);
    return run.count;
}
