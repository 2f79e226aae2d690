// SPDX-License-Identifier: MIT
// Plans of linear layers: kernels of the parts, how their rows are cut, what the workspace holds.
#include "src/backend/cpu/cpu_linear.h"

#include <stdio.h>

#include "src/base/checked.h"
#include "src/base/memory.h"
#include "src/kernels/linear/linear_packed.h"
#include "src/kernels/linear/linear_packed_bf16.h"
#include "src/plan/tuning.h"

// What a row of the kernel table must serve.
struct wanted {
    weft_dtype weight;
    enum weft__linear_acts acts;
    bool narrow;  // bf16 activations serve in place of f32
    bool in_rows; // those of one row after another
    bool planes;
    int32_t batch;         // 0: any
    bool plain_acts;       // not the planes for a few rows of X
    bool packed;           // reads panels
    weft__narrow_fn *same; // how X becomes bf16 for an earlier part, or NULL
    weft_tuning tuned;
};

// The rows of X that a kernel is best for, as its table says or the machine's.
static int32_t min_batch(const struct weft__linear_kernel *kernel, const weft_tuning *tuned)
{
    return kernel->min_batch > 1 && tuned->few_batch ? tuned->few_batch + 1 : kernel->min_batch;
}

static int32_t max_batch(const struct weft__linear_kernel *kernel, const weft_tuning *tuned)
{
    bool own = kernel->max_batch == 0 || kernel->max_batch > WEFT__FEW_ROWS || !tuned->few_batch;
    return own ? kernel->max_batch : tuned->few_batch;
}

static bool serves(const struct weft__kernel *row, const void *opaque)
{
    const struct weft__linear_kernel *kernel = (const void *)row;
    const struct wanted *wanted = opaque;
    bool acts = kernel->acts == wanted->acts || (wanted->narrow && kernel->acts == WEFT__ACTS_bf16);
    return kernel->weight == wanted->weight && acts &&
           weft__linear_reads_packed(kernel) == wanted->packed &&
           !(wanted->in_rows && kernel->turned) &&
           !(wanted->same && kernel->narrow && kernel->narrow != wanted->same) &&
           (!wanted->planes || kernel->planes) && !(wanted->plain_acts && kernel->few_planes) &&
           (!wanted->batch || (wanted->batch >= min_batch(kernel, &wanted->tuned) &&
                               wanted->batch <= max_batch(kernel, &wanted->tuned)));
}

static bool is_quantised(weft_dtype dtype)
{
    return weft_dtype_block_elems(dtype) > 1;
}

// The name of the kernel to take: the caller's wish, or the machine's where it serves.
static const char *name_of(const weft_plan *probe, const weft_linear_desc *desc)
{
    const struct wanted *wanted = probe->desc;
    const char *tuned = wanted->tuned.kernel;
    if (desc->variant || !*tuned || wanted->batch <= wanted->tuned.few_batch)
        return desc->variant;
    return weft__plan_find(probe, tuned, serves) ? tuned : NULL;
}

// The most rows of X, from those of `wanted` on, for which this is the best kernel.
static int32_t last_batch(const weft_plan *probe, const struct weft__linear_kernel *kernel)
{
    struct wanted wanted = *(const struct wanted *)probe->desc;
    const int32_t most = max_batch(kernel, &wanted.tuned);
    weft_plan next = *probe;
    next.desc = &wanted;
    if (wanted.batch == 0 || most == INT32_MAX)
        return most;
    while (++wanted.batch <= most)
        if (weft__plan_find(&next, NULL, serves) != kernel)
            break;
    return wanted.batch - 1;
}

// Adds the kernel that is best for `wanted` to those of part p.
static weft_status add_kernel(weft_plan *plan, int32_t p, const struct wanted *wanted)
{
    weft_plan probe = *plan;
    weft_status status = WEFT_OK;
    probe.desc = wanted;
    struct weft__linear_launch *launch = plan->launch;
    const struct weft__linear_kernel *kernel;
    const char *name = name_of(&probe, plan->desc);
    if (!launch) {
        status = weft__plan_launch(&probe, sizeof *launch, name, serves);
        plan->launch = launch = probe.launch;
        kernel = launch ? launch->kernel : NULL;
    } else {
        kernel = weft__plan_choose(&probe, name, serves, &status);
    }
    if (status != WEFT_OK)
        return status;
    struct weft__linear_part_launch *part = &launch->parts[p];
    part->max_batch[part->num_kernels] =
        name ? max_batch(kernel, &wanted->tuned) : last_batch(&probe, kernel);
    part->kernels[part->num_kernels++] = kernel;
    if (kernel->narrow) {
        launch->narrow = kernel->narrow;
        launch->turned = kernel->turned;
    }
    return WEFT_OK;
}

// What the machine likes best for part p. Plans whose bits others rely on take the library's values.
static weft_tuning tuned_for(const weft_plan *plan, int32_t p)
{
    const weft_linear_desc *desc = plan->desc;
    const weft_tuning problem = {.op = WEFT_TUNING_LINEAR,
                                 .dtype = desc->parts[p].weight_dtype,
                                 .min_threads = weft__cpu_of(plan->context)->threads,
                                 .rows = desc->parts[p].rows,
                                 .cols = desc->cols};
    bool fixed = desc->flags & (WEFT_LINEAR_EXACT | WEFT_LINEAR_BATCH_INVARIANT);
    return weft__plan_tuning_choose(fixed ? NULL : plan->context->tunings, &problem);
}

// The kernel that reads panels of part p, NULL if none does or the columns are no whole chunks.
static const struct weft__linear_kernel *packed_kernel(const weft_plan *plan,
                                                       const struct wanted *wanted)
{
    const weft_linear_desc *desc = plan->desc;
    const struct weft__packed_shape shape = weft__packed_shape(wanted->weight);
    struct wanted packed = *wanted;
    packed.packed = true;
    packed.batch = 0;
    weft_plan probe = *plan;
    probe.desc = &packed;
    if (!shape.cols || desc->cols % shape.cols)
        return NULL;
    return weft__plan_find(&probe, desc->variant, serves);
}

// Kernels of bf16 in 12 bits, `few` of a few rows of X and `many` of more.
struct codes_kernels {
    const struct weft__linear_kernel *few, *many;
};

// Those that may serve a part: that which is asked for by name, or both or neither, by what all plans of its weights have in
// common.
static struct codes_kernels codes_kernels(const weft_plan *plan, const weft_linear_part *part)
{
    const weft_linear_desc *desc = plan->desc;
    struct weft__codes_layout layout;
    struct wanted wanted = {.weight = WEFT_BF16, .acts = WEFT__ACTS_f32, .packed = true};
    weft_plan probe = *plan;
    probe.desc = &wanted;
    if (part->weight_dtype != WEFT_BF16 || (desc->flags & WEFT_LINEAR_EXACT && !desc->variant) ||
        desc->flags & WEFT__LINEAR_X_IN_ROWS || weft__plan_linear_planes(part) ||
        !weft__codes_lay_out(part->rows, desc->cols, &layout))
        return (struct codes_kernels){NULL, NULL};
    struct codes_kernels found = {.few = weft__plan_find(&probe, desc->variant, serves)};
    wanted.acts = WEFT__ACTS_bf16;
    found.many = weft__plan_find(&probe, desc->variant, serves);
    return desc->variant || (found.few && found.many) ? found : (struct codes_kernels){NULL, NULL};
}

// How X becomes bf16 for the parts in 12 bits, which other parts then take likewise; NULL if there are none.
static weft__narrow_fn *narrow_of_codes(const weft_plan *plan)
{
    const weft_linear_desc *desc = plan->desc;
    for (int32_t p = 0; p < desc->num_parts && !desc->variant; p++) {
        const struct codes_kernels kernels = codes_kernels(plan, &desc->parts[p]);
        if (kernels.many)
            return kernels.many->narrow;
    }
    return NULL;
}

// The kernels of a part's packed weights, if there are any; a name asks for one of them.
static void find_packed(const weft_plan *plan, int32_t p, const struct wanted *wanted,
                        struct weft__linear_part_launch *part)
{
    const weft_linear_desc *desc = plan->desc;
    const bool invariant = desc->flags & WEFT_LINEAR_BATCH_INVARIANT;
    const struct codes_kernels codes = codes_kernels(plan, &desc->parts[p]);
    part->packed = !codes.few || (codes.many && !invariant) ? codes.many : codes.few;
    part->packed_few = part->packed == codes.many ? codes.few : NULL;
    if (!part->packed)
        part->packed = packed_kernel(plan, wanted);
}

// May X, and the weights of a part, be rounded to bf16? A kernel's name asks for what it does.
static bool may_narrow(const weft_linear_desc *desc, const weft_linear_part *part)
{
    const bool asked = part->weight_dtype != WEFT_F32 || desc->variant;
    return !(desc->flags & WEFT_LINEAR_EXACT) && (asked || desc->flags & WEFT_LINEAR_F32_AS_BF16);
}

// The kernels of a part for 1 to max_batch rows of X. A kernel asked for by name serves all; so does the
// one for a single row where no result may depend on the batch.
static weft_status choose_part(weft_plan *plan, int32_t p, weft__narrow_fn *same)
{
    const weft_linear_desc *desc = plan->desc;
    const weft_linear_part *part = &desc->parts[p];
    bool exact = desc->flags & WEFT_LINEAR_EXACT || !is_quantised(part->weight_dtype);
    bool one = desc->variant || desc->flags & WEFT_LINEAR_BATCH_INVARIANT;
    struct wanted wanted = {.weight = part->weight_dtype,
                            .acts = exact ? WEFT__ACTS_f32 : WEFT__ACTS_q8,
                            .narrow = may_narrow(desc, part),
                            .in_rows = desc->flags & WEFT__LINEAR_X_IN_ROWS,
                            .planes = weft__plan_linear_planes(part),
                            .batch = desc->variant ? 0 : 1,
                            .same = same    ? same
                                    : p > 0 ? ((struct weft__linear_launch *)plan->launch)->narrow
                                            : NULL,
                            .tuned = tuned_for(plan, p)};
    struct weft__linear_part_launch packed = {0};
    find_packed(plan, p, &wanted, &packed);
    wanted.packed = packed.packed && desc->variant;
    for (bool more = true; more;) {
        weft_status status = add_kernel(plan, p, &wanted);
        if (status != WEFT_OK)
            return status;
        const struct weft__linear_part_launch *at =
            &((struct weft__linear_launch *)plan->launch)->parts[p];
        const struct weft__linear_kernel *last = at->kernels[at->num_kernels - 1];
        int32_t most = at->max_batch[at->num_kernels - 1];
        // Rows of X that others rounded may lack the planes for a few.
        wanted.plain_acts = most >= desc->max_batch;
        more = !one && at->num_kernels < WEFT__LINEAR_RANGES &&
               (!wanted.plain_acts || (last->few_planes && desc->flags & WEFT_LINEAR_X_ROUNDED));
        wanted.batch = wanted.plain_acts ? 0 : most + 1;
    }
    struct weft__linear_launch *launch = plan->launch;
    launch->parts[p].packed = packed.packed;
    launch->parts[p].packed_few = packed.packed_few;
    if (packed.packed && packed.packed->narrow &&
        weft__linear_packed_for(&packed, desc->max_batch)->narrow) {
        launch->narrow = packed.packed->narrow;
        launch->turned = packed.packed->turned;
    }
    if (!exact && !(desc->flags & WEFT_LINEAR_X_ROUNDED))
        launch->rounds = true;
    return WEFT_OK;
}

// Rows of both parts of a gate are done by the same task; results that are rounded come in whole steps.
static void split_parts(weft_plan *plan)
{
    enum { TILE_TASKS = 8 };
    const weft_linear_desc *desc = plan->desc;
    struct weft__linear_launch *launch = plan->launch;
    int32_t threads = weft__cpu_of(plan->context)->threads;
    bool in_steps = desc->flags & (WEFT_LINEAR_Y_ROUNDED | WEFT_LINEAR_NEXT);
    int64_t bytes[WEFT_LINEAR_MAX_PARTS], few = in_steps ? WEFT__ROUNDED_STEP : 1, many = few;
    for (int32_t p = 0; p < desc->num_parts; p++) {
        bytes[p] = weft_dtype_row_bytes(desc->parts[p].weight_dtype, desc->cols);
        const struct weft__linear_part_launch *part = &launch->parts[p];
        for (int32_t i = 0; i < part->num_kernels; i++) {
            const int64_t step = part->kernels[i]->row_step; // powers of two
            many = step > many ? step : many;
            if ((i == 0 || part->max_batch[i - 1] < WEFT__FEW_ROWS) && step > few)
                few = step;
        }
        if (part->packed && part->packed->row_step > few)
            few = part->packed->row_step;
        many = few > many ? few : many;
        launch->bytes += bytes[p] * desc->parts[p].rows;
    }
    launch->stage_step = many;
    launch->stage_wanted = WEFT__STAGE_FLOATS;
    for (int32_t p = 0; p < desc->num_parts; p++) {
        const struct weft__linear_kernel *packed = launch->parts[p].packed;
        const struct weft__linear_kernel *tiled =
            packed ? packed : launch->parts[p].kernels[launch->parts[p].num_kernels - 1];
        weft_tuning tuned = tuned_for(plan, p);
        // Tiles take X from the third cache for each task anew: fewer tasks.
        if (tiled->base.level == WEFT__ISA_amx) {
            launch->stage_wanted = WEFT__STAGE_TILED;
            if (tuned.tasks_per_thread > TILE_TASKS)
                tuned.tasks_per_thread = TILE_TASKS;
        }
        launch->parts[p].split = weft__plan_linear_split(
            desc->parts[p].rows, weft__linear_together(desc) > 1 ? bytes[0] + bytes[1] : bytes[p],
            few, many, threads, &tuned);
    }
}

// The first row of the table of an operation that this context may use and that `fits` the kind.
static const void *first_row(const weft_context *context, enum weft__op op,
                             bool (*fits)(const void *row, int kind), int kind)
{
    const struct weft__kernel_table *table = context->backend->tables[op];
    const char *row = table->rows;
    while (!weft__cpu_fits((const void *)row, weft__cpu_of(context)->isa_mask) || !fits(row, kind))
        row += table->row_bytes;
    return row;
}

static bool norm_fits(const void *row, int kind)
{
    return ((const struct weft__norm_kernel *)row)->kind == (weft_norm_kind)kind;
}

static bool activation_fits(const void *row, int kind)
{
    return ((const struct weft__activation_kernel *)row)->kind == (weft_activation_kind)kind;
}

// Without a gate it converts.
static struct weft__activation_launch function_of(const weft_plan *plan, weft_linear_gate gate,
                                                  weft_dtype x_dtype)
{
    const weft_activation_kind kind =
        gate ? (weft_activation_kind)((int)gate - WEFT_LINEAR_GATE_SILU + WEFT_ACTIVATION_SILU)
             : WEFT_ACTIVATION_NONE;
    return (struct weft__activation_launch){
        .kernel = first_row(plan->context, WEFT__OP_activation, activation_fits, (int)kind),
        .dim = ((const weft_linear_desc *)plan->desc)->cols,
        .x_dtype = x_dtype,
        .y_dtype = WEFT_F32};
}

static void choose_norm_and_functions(weft_plan *plan)
{
    const weft_linear_desc *desc = plan->desc;
    struct weft__linear_launch *launch = plan->launch;
    const bool x_rounded = desc->flags & WEFT_LINEAR_X_ROUNDED;
    if (desc->norm && !x_rounded)
        launch->norm = (struct weft__norm_launch){
            .kernel =
                first_row(plan->context, WEFT__OP_norm, norm_fits,
                          desc->norm == WEFT_LINEAR_NORM_RMS ? WEFT_NORM_RMS : WEFT_NORM_LAYER),
            .dim = desc->cols,
            .eps = desc->norm_eps,
            .x_dtype = WEFT_F32,
            .y_dtype = WEFT_F32,
            .weight_dtype = WEFT_F32,
            .weight_offset = desc->flags & WEFT_LINEAR_NORM_PLUS_ONE ? 1.0f : 0.0f};
    launch->activation = function_of(plan, desc->gate, WEFT_F32);
    if (desc->x_gate || (!x_rounded && desc->x_dtype != WEFT_F32))
        launch->widen = function_of(plan, desc->x_gate, desc->x_dtype);
}

// Room for `count` items of `bytes` bytes; -1 if it does not fit.
static int64_t take(int64_t *at, int64_t count, int64_t bytes)
{
    int64_t offset = *at, size;
    if (offset < 0 || !weft__mul_i64(count, bytes, &size) || size > INT64_MAX / 4 - offset)
        return *at = -1;
    *at = weft__align_up(offset + size, WEFT__ALIGN);
    return offset;
}

// Results of a block: a step of rows of W by all rows of X, or enough for a task of a few rows of X, if there
// are so many.
static int64_t stage_floats(const weft_linear_desc *desc, const struct weft__linear_launch *launch)
{
    const int64_t step = launch->stage_step;
    int64_t rows = weft__ceil_div(launch->stage_wanted, desc->max_batch), most = 0;
    for (int32_t p = 0; p < desc->num_parts; p++)
        most = desc->parts[p].rows > most ? desc->parts[p].rows : most;
    rows = weft__align_up(rows < most ? rows : most, step);
    return rows * desc->max_batch;
}

// Does a kernel of any part multiply so many rows of X as tiles of bf16?
static bool lays(const weft_linear_desc *desc, const struct weft__linear_launch *launch)
{
    if (desc->flags & WEFT_LINEAR_BATCH_INVARIANT || desc->cols > WEFT__LAY_LONGEST)
        return false;
    for (int32_t p = 0; p < desc->num_parts; p++) {
        const struct weft__linear_kernel *packed = launch->parts[p].packed;
        if (packed && packed->lay && desc->max_batch >= packed->lay_batch)
            return true;
    }
    return false;
}

static weft_status lay_out_workspace(weft_plan *plan)
{
    const weft_linear_desc *desc = plan->desc;
    struct weft__linear_launch *launch = plan->launch;
    bool few = weft__rounded_has_few(weft__cpu_of(plan->context)->isa_mask);
    const int64_t threads = weft__cpu_of(plan->context)->threads;
    const bool readies = launch->norm.kernel || launch->widen.kernel;
    int64_t at = 0, batch = desc->max_batch;
    launch->together = launch->narrow && launch->turned ? launch->turned : 1;
    launch->x_offset = readies && weft__cpu_linear_reads_f32(launch, desc->num_parts)
                           ? take(&at, desc->cols, 4 * batch)
                           : -1;
    launch->ready_offset = readies ? take(&at, desc->cols, 4 * threads * launch->together) : -1;
    bool fit = weft__rounded_lay_out(desc->cols, few, &launch->x_layout) &&
               weft__rounded_lay_out(desc->parts[0].rows, few, &launch->y_layout);
    if (fit && launch->rounds)
        launch->rounded_offset = take(&at, launch->x_layout.row_bytes, batch);
    if (launch->narrow)
        launch->bf16_offset =
            take(&at, weft__linear_bf16_stride(desc->cols), 2 * (batch + WEFT__BF16_ROWS - 1));
    launch->tiles_offset = lays(desc, launch) ? take(&at, weft__linear_bf16_stride(desc->cols),
                                                     2 * weft__align_up(batch, WEFT__BF16_ROWS))
                                              : -1;
    launch->scale_offset =
        desc->flags & WEFT_LINEAR_X_ROUNDED && desc->norm ? take(&at, batch, sizeof(float)) : -1;
    if (desc->gate || desc->y_dtype != WEFT_F32 || desc->flags & WEFT_LINEAR_Y_ROUNDED) {
        launch->stage_floats = stage_floats(desc, launch);
        launch->stage_offset =
            take(&at, launch->stage_floats, 4 * threads * weft__linear_together(desc));
    }
    if (!fit || at < 0)
        return weft__fail(plan->context, WEFT_EOVERFLOW, "cols * max_batch does not fit");
    plan->workspace_bytes = (size_t)at;
    return WEFT_OK;
}

static void describe(weft_plan *plan)
{
    const weft_linear_desc *desc = plan->desc;
    const struct weft__linear_launch *launch = plan->launch;
    const struct weft__linear_kernel *const *kernels = launch->parts[0].kernels;
    char *text = plan->description;
    size_t room = sizeof plan->description, at = 0;
    at += (size_t)snprintf(text, room, "linear");
    for (int32_t p = 0; p < desc->num_parts && at < room; p++)
        at += (size_t)snprintf(text + at, room - at, "%s %s %lldx%lld", p ? "," : "",
                               weft_dtype_name(desc->parts[p].weight_dtype),
                               (long long)desc->parts[p].rows, (long long)desc->cols);
    if (at < room)
        at += (size_t)snprintf(text + at, room - at, " batch<=%d: %s", desc->max_batch,
                               kernels[0]->base.name);
    for (int32_t i = 1; i < launch->parts[0].num_kernels && at < room; i++)
        if (launch->parts[0].max_batch[i - 1] < desc->max_batch)
            at += (size_t)snprintf(text + at, room - at, ", from %d %s",
                                   launch->parts[0].max_batch[i - 1] + 1, kernels[i]->base.name);
    if (at < room && launch->parts[0].packed_few)
        at += (size_t)snprintf(text + at, room - at, ", packed %s",
                               launch->parts[0].packed_few->base.name);
    if (at < room && launch->parts[0].packed &&
        weft__linear_packed_for(&launch->parts[0], desc->max_batch) == launch->parts[0].packed)
        at += (size_t)snprintf(text + at, room - at, ", %s %s",
                               launch->parts[0].packed_few ? "then" : "packed",
                               launch->parts[0].packed->base.name);
    if (at < room)
        snprintf(text + at, room - at, ", %lld rows per task",
                 (long long)launch->parts[0].split.rows_per_task);
}

// What all parts round X to, of max_batch rows.
static weft_dtype rounds_x_to(const weft_linear_desc *desc,
                              const struct weft__linear_launch *launch)
{
    enum weft__linear_acts acts = launch->kernel->acts;
    for (int32_t p = 1; p < desc->num_parts; p++)
        if (weft__linear_kernel_for(&launch->parts[p], desc->max_batch, true)->acts != acts)
            acts = WEFT__ACTS_f32;
    return acts == WEFT__ACTS_q8 ? WEFT_INT8 : acts == WEFT__ACTS_bf16 ? WEFT_BF16 : WEFT_F32;
}

static void inform(weft_plan *plan)
{
    const weft_linear_desc *desc = plan->desc;
    const struct weft__linear_launch *launch = plan->launch;
    int64_t batch = desc->max_batch, rows = 0;
    bool alone = weft__plan_linear_alone(launch->bytes, desc->max_batch,
                                         weft__cpu_of(plan->context)->threads);
    plan->info = (weft_plan_info){.splits = 1, .kernel = launch->kernel->base.name};
    for (int32_t p = 0; p < desc->num_parts; p++) {
        const struct weft__linear_split *split = &launch->parts[p].split;
        int64_t part = desc->parts[p].rows;
        int64_t tile = batch > WEFT__FEW_ROWS ? split->rows_per_batch_task : split->rows_per_task;
        rows += part;
        if (desc->gate && p == 1)
            continue; // its tasks are the first part's
        plan->info.tasks += alone ? 1 : weft__ceil_div(part, tile);
        if (p == 0)
            plan->info.tile_rows = alone || tile > part ? part : tile;
    }
    plan->info.rounds_x_to = rounds_x_to(desc, launch);
    plan->info.bytes_read =
        launch->bytes + weft__plan_bytes(desc->x_dtype, batch, weft__plan_linear_x_row(desc));
    plan->info.bytes_written =
        weft__plan_bytes(desc->y_dtype, batch, rows / weft__linear_together(desc));
}

weft__prepare_fn weft__cpu_prepare_linear;
weft_status weft__cpu_prepare_linear(weft_plan *plan)
{
    const weft_linear_desc *desc = plan->desc;
    weft__narrow_fn *const same = narrow_of_codes(plan);
    for (int32_t p = 0; p < desc->num_parts; p++) {
        weft_status status = choose_part(plan, p, same);
        if (status != WEFT_OK)
            return status;
    }
    struct weft__linear_launch *launch = plan->launch;
    launch->kernel = weft__linear_kernel_for(&launch->parts[0], desc->max_batch, true);
    launch->round = weft__rounder_of(weft__cpu_of(plan->context)->isa_mask);
    split_parts(plan);
    choose_norm_and_functions(plan);
    weft_status status = lay_out_workspace(plan);
    if (status == WEFT_OK)
        describe(plan);
    if (status == WEFT_OK)
        inform(plan);
    return status;
}
