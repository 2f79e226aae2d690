// SPDX-License-Identifier: MIT
// Runs of linear layers on CUDA: which launches, in which order (linear_cuda.h).
#include "src/kernels/linear/linear_steps_cuda.h"

// Does a kernel of a set read the part's weights?
static bool in_set(const struct weft__linear_run *run, int32_t p)
{
    const struct weft__linear_cuda_part *part = &run->launch->parts[p];
    return part->rows_kernel < 0 || (part->tiles && run->args->parts[p].packed);
}

static void add_ready(struct weft__linear_run *run)
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
static void take_ready(struct weft__linear_run *run)
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
static bool is_gemm(const struct weft__linear_run *run, const struct weft__linear_set *set)
{
    uintptr_t bits = 0;
    for (int32_t i = 0; i < set->num_parts && set->gemm.plain; i++) {
        const weft_linear_part_args *part = &run->args->parts[set->parts[i]];
        bits |= (uintptr_t)part->weight | (uintptr_t)part->weight_stride_bytes;
    }
    return set->gemm.min_batch && run->args->batch >= set->gemm.min_batch && bits % 16 == 0;
}

// Does the set's launch round X itself?
static bool rounds_itself(const struct weft__linear_run *run, const struct weft__linear_set *set)
{
    const struct weft__linear_shape *shape = &set->shapes[shape_of(set, run->args->batch)];
    return !is_gemm(run, set) &&
           (shape->sent ||
            (shape->columns == 1 && weft__linear_rounds_itself(set, run->launch->flags)));
}

// Does any launch of this run read rounded X?
static bool wants_rounded(const struct weft__linear_run *run)
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
static void add_inputs(struct weft__linear_run *run)
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
    // of one row in small blocks: they find room beside those of a launch that starts early (token_cuda.c)
    const uint32_t groups = (uint32_t)((launch->cols + 63) / 64 * 2),
                   warps = args->batch == 1 ? 4 : 8;
    weft__cuda_step(&run->steps[run->count++], launch->round, (groups + warps - 1) / warps,
                    (uint32_t)args->batch, warps * 32, &round, sizeof round)
        ->overlap = 1;
    run->rounded = round.rounded;
}

static void add_rows(struct weft__linear_run *run, int32_t p, bool staging)
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
                                                .y =
                                                    staging ? weft__linear_staged(run, p) : from->y,
                                                .residual_stride = args->residual_stride,
                                                .y_stride = staging ? part->rows : from->y_stride,
                                                .batch = args->batch,
                                                .rows = (int32_t)part->rows,
                                                .cols = (int32_t)launch->cols,
                                                .norm = run->norm,
                                                .alpha = weft__linear_alpha(run, p),
                                                .norm_eps = launch->norm_eps};
    weft__cuda_step(&run->steps[run->count++], part->rows_kernel, (uint32_t)part->rows,
                    (uint32_t)((args->batch + 3) / 4), 32, &rows, sizeof rows)
        ->overlap = 1;
}

// Fills in the parts of a set that are there for its kernels; returns the groups of rows they have.
static int32_t fill_parts(const struct weft__linear_run *run, const struct weft__linear_set *set,
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
            .y = staging  ? weft__linear_staged(run, p)
                 : leaves ? NULL
                          : from->y,
            .y_stride = staging ? rows : from->y_stride,
            .weight_stride_bytes = from->weight_stride_bytes,
            .rows = (int32_t)rows,
            .first_group = set->matter.gate ? 0 : groups,
            .alpha = weft__linear_alpha(run, p)};
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

static void add_product(struct weft__linear_run *run, const struct weft__linear_set *set,
                        bool staging)
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
    const struct weft__linear_shape *shape = &set->shapes[which];
    device.num_groups =
        fill_parts(run, set, weft__linear_group_rows(&set->matter, shape), staging, &device);
    if (device.num_parts == 0)
        return;
    if (plain && !aligned(&device))
        shape = &set->unaligned_shape, kernel = set->unaligned;
    struct weft__cuda_step *step =
        weft__cuda_step(&run->steps[run->count++], kernel,
                        weft__linear_blocks(shape, &launch->limits, device.num_groups),
                        (uint32_t)((args->batch + shape->columns - 1) / shape->columns),
                        (uint32_t)shape->warps * 32, &device, sizeof device);
    step->shared_bytes = (uint32_t)shape->shared_bytes;
    step->cluster = shape->pair ? 2 : shape->split > 1 ? (uint32_t)shape->split : 0;
    step->overlap = 1;
}

static void add_finish(struct weft__linear_run *run, int32_t p)
{
    weft__linear_add_finish(run, p, weft__linear_staged(run, p), run->launch->parts[p].rows,
                            run->args->residual);
}

// Some rows of X: all parts in one launch. `follows`: what follows comes later.
static void add_slices(struct weft__linear_run *run, const struct weft__linear_set *set,
                       const struct weft__linear_slice_shape *shape, bool follows)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    const weft_linear_args *args = run->args;
    const bool staging = follows || shape->slices > 1;
    struct weft__linear_slice_args device = {.x = run->rounded,
                                             .residual = staging ? NULL : args->residual,
                                             .residual_stride = args->residual_stride,
                                             .batch = args->batch,
                                             .cols = (int32_t)launch->cols,
                                             .slice_tiles = shape->slice_tiles,
                                             .norm = run->norm,
                                             .norm_eps = launch->norm_eps,
                                             .early = 1};
    int32_t parts[WEFT_LINEAR_MAX_PARTS];
    for (int32_t i = 0; i < set->num_parts; i++) {
        const int32_t p = set->parts[i];
        const weft_linear_part_args *from = &args->parts[p];
        const int64_t rows = launch->parts[p].rows;
        if (!in_set(run, p))
            continue;
        parts[device.num_parts] = p;
        device.part[device.num_parts++] = (struct weft__linear_slice_part){
            .weight = from->packed,
            .bias = from->bias, // of sums, what finishes them adds it
            .y = staging ? weft__linear_staged(run, p) : from->y,
            .y_stride = staging ? rows : from->y_stride,
            .slice_stride = args->batch * rows,
            .rows = (int32_t)rows,
            .first_unit = device.num_units,
            .alpha = weft__linear_alpha(run, p)};
        device.num_units += (int32_t)weft__linear_slice_units(rows, shape->unit);
        run->slices[p] = shape->slices;
        run->bias[p] = staging ? from->bias : NULL;
    }
    if (device.num_parts == 0)
        return;
    const int32_t most =
        weft__linear_slice_blocks(launch->limits.num_sms, shape->slices, shape->pair);
    const int32_t blocks = shape->pair ? (device.num_units + 1) / 2 * 2 : device.num_units;
    struct weft__cuda_step *step = weft__cuda_step(
        &run->steps[run->count++], shape->kernel, (uint32_t)(blocks < most ? blocks : most),
        (uint32_t)shape->slices, (uint32_t)shape->warps * 32, &device, sizeof device);
    step->shared_bytes = (uint32_t)shape->shared_bytes;
    step->cluster = shape->pair ? 2 : 0;
    step->overlap = 1;
    if (staging && !follows)
        weft__linear_add_finish_of(run, parts, device.num_parts);
}

static void add_gemm(struct weft__linear_run *run, const struct weft__linear_set *set, bool staging)
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
            .x_ready = run->gemm_x && run->gemm_x->brain == set->gemm.brain &&
                       run->gemm_x->eights == set->gemm.eights && run->gemm_x->plain == plain,
            .norm_weight = plain && run->norm ? args->norm_weight : NULL,
            .norm_weight_plus = run->norm_plus,
            .norm_eps = launch->norm_eps,
            .norm = run->norm,
            .alpha = weft__linear_alpha(run, p),
            .bias = part->bias,
            .residual = staging ? NULL : args->residual,
            .residual_stride = args->residual_stride,
            .y = staging ? weft__linear_staged(run, p) : part->y,
            .y_stride = staging ? launch->parts[p].rows : part->y_stride,
            .batch = args->batch,
            .rows = (int32_t)launch->parts[p].rows,
            .cols = (int32_t)launch->cols,
            .workspace = run->workspace + launch->gemm_offset};
        run->count += weft__linear_gemm_steps(&set->gemm, &call, &run->steps[run->count]);
        run->gemm_x = &set->gemm, run->blas_x = NULL;
    }
}

// Parts whose weights lie as in a file.
static void add_as_file(struct weft__linear_run *run, bool together, bool follows)
{
    const struct weft__linear_cuda_launch *launch = run->launch;
    bool by_library[WEFT_LINEAR_MAX_PARTS], of_numbers = false;
    for (int32_t p = 0; p < launch->num_parts; p++) {
        by_library[p] = !in_set(run, p) && weft__linear_is_widened(run, p, follows);
        of_numbers = of_numbers || (!in_set(run, p) && !by_library[p] && launch->parts[p].exact);
        if (by_library[p]) {
            weft__linear_add_widened(run, p, follows);
            if (follows && !together)
                add_finish(run, p);
        }
    }
    // numbers become normed f32 rows first
    const int32_t norm = run->norm;
    if (of_numbers && launch->ready >= 0 && !launch->ready_first)
        take_ready(run);
    run->norm = norm; // of rounded X
    for (int32_t p = 0; p < launch->num_parts; p++)
        if (!by_library[p] && (!in_set(run, p) || (together && launch->whole))) {
            add_rows(run, p, launch->finishes);
            if (launch->finishes && !together)
                add_finish(run, p);
        }
}

int32_t weft__linear_cuda_steps(const void *opaque_launch, const void *opaque_args,
                                struct weft__cuda_step *steps)
{
    const struct weft__linear_cuda_launch *launch = opaque_launch;
    const weft_linear_args *args = opaque_args;
    struct weft__linear_run run = {
        .launch = launch, .args = args, .steps = steps, .workspace = args->workspace};
    const bool follows = launch->gate || launch->flags & (WEFT_LINEAR_Y_ROUNDED | WEFT_LINEAR_NEXT);
    bool all_in_sets = true;
    for (int32_t p = 0; p < launch->num_parts; p++)
        all_in_sets = all_in_sets && in_set(&run, p);
    add_inputs(&run);
    // a gate's products meet in one launch
    const bool together = launch->gate && !(launch->whole && all_in_sets);
    bool finish = together;
    for (int32_t s = 0; s < launch->num_sets; s++) {
        const struct weft__linear_set *set = &launch->sets[s];
        if (together && launch->whole)
            break;
        const struct weft__linear_slice_shape *slice =
            weft__linear_slice_of(&set->slices, args->batch);
        if (weft__linear_is_blas(&run, set, follows)) {
            finish = finish || (follows && all_in_sets);
            weft__linear_add_blas(&run, set, follows);
        } else if (slice) {
            finish = finish || (follows && all_in_sets);
            add_slices(&run, set, slice, follows);
        } else if (is_gemm(&run, set)) {
            finish = finish || (follows && all_in_sets);
            add_gemm(&run, set, follows);
        } else {
            add_product(&run, set, together);
        }
    }
    if (!all_in_sets || together)
        add_as_file(&run, together, follows);
    if (finish)
        add_finish(&run, 0);
    return run.count;
}
