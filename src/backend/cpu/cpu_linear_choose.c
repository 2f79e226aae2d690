// SPDX-License-Identifier: MIT
// Which kernels serve the parts of a linear layer, for however many rows of X: in place, packed, by name, or as the machine was
// tuned.
#include "src/backend/cpu/cpu_linear.h"
#include "src/kernels/linear/linear_packed.h"
#include "src/kernels/linear/linear_packed_bf16.h"

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
weft_tuning weft__cpu_linear_tuned(const weft_plan *plan, int32_t p)
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
                            .tuned = weft__cpu_linear_tuned(plan, p)};
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

weft_status weft__cpu_linear_choose(weft_plan *plan)
{
    weft__narrow_fn *const same = narrow_of_codes(plan);
    weft_status status = WEFT_OK;
    for (int32_t p = 0; p < ((const weft_linear_desc *)plan->desc)->num_parts && status == WEFT_OK;
         p++)
        status = choose_part(plan, p, same);
    return status;
}
