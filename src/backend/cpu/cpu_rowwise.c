// SPDX-License-Identifier: MIT
// Operations whose rows are independent of each other: norm, softmax, activation, embedding, rope. They
// differ in what a row of the kernel table must serve, in what their launch holds and in how rows are
// done; all else is one text.
#include <stddef.h>
#include <stdio.h>

#include "src/backend/cpu/cpu_rows.h"
#include "src/base/checked.h"
#include "src/kernels/activation/activation_kernel.h"
#include "src/kernels/element.h"
#include "src/kernels/embedding/embedding_kernel.h"
#include "src/kernels/linear/linear_kernel.h"
#include "src/kernels/norm/norm_kernel.h"
#include "src/kernels/rope/rope_kernel.h"
#include "src/kernels/softmax/softmax_kernel.h"

// What an operation says of a plan beside filling its launch.
struct facts {
    int64_t rows, row_elems; // at most; what a row is worth as work
    int64_t bytes_read, bytes_written;
    char text[160]; // before the kernel's name
};

struct rowwise {
    size_t launch_bytes;
    size_t rows_per_task_at, rows_at; // members: int64_t of the launch, int32_t of the args
    weft__plan_serves_fn *serves;
    void (*settle)(weft_plan *plan, struct facts *facts); // fills plan->launch
    weft__cpu_rows_fn *run;
};

static weft_status prepare(weft_plan *plan, const struct rowwise *op, const char *variant)
{
    struct facts facts = {0};
    weft_status status = weft__plan_launch(plan, op->launch_bytes, variant, op->serves);
    if (status != WEFT_OK)
        return status;
    const struct weft__kernel *kernel;
    memcpy(&kernel, plan->launch, sizeof kernel); // every launch begins with its row
    op->settle(plan, &facts);
    int64_t rows_per_task = weft__plan_rows_per_task(facts.row_elems);
    memcpy((char *)plan->launch + op->rows_per_task_at, &rows_per_task, sizeof rows_per_task);
    snprintf(plan->description, sizeof plan->description, "%s: %s", facts.text, kernel->name);
    weft__cpu_rows_info(plan, kernel, facts.rows, rows_per_task, facts.bytes_read,
                        facts.bytes_written);
    return WEFT_OK;
}

static weft_status submit(const weft_plan *plan, const struct rowwise *op, const void *args)
{
    int64_t rows_per_task;
    int32_t rows;
    memcpy(&rows_per_task, (const char *)plan->launch + op->rows_per_task_at, sizeof rows_per_task);
    memcpy(&rows, (const char *)args + op->rows_at, sizeof rows);
    weft__cpu_spread_rows(plan->context, rows, rows_per_task, op->run,
                          &(struct weft__cpu_run){plan->launch, args});
    return WEFT_OK;
}

// An operation from its serves_<op>(), settle_<op>() and run_<op>().
#define ROWWISE_PREPARE(op, launch_type, task_member, rows_member)                                 \
    _Static_assert(sizeof(((weft_##op##_args *)NULL)->rows_member) == 4, "rows are int32_t");      \
    static const struct rowwise op##_rows = {sizeof(launch_type),                                  \
                                             offsetof(launch_type, task_member),                   \
                                             offsetof(weft_##op##_args, rows_member),              \
                                             serves_##op,                                          \
                                             settle_##op,                                          \
                                             run_##op};                                            \
    weft__prepare_fn weft__cpu_prepare_##op;                                                       \
    weft_status weft__cpu_prepare_##op(weft_plan *plan)                                            \
    {                                                                                              \
        return prepare(plan, &op##_rows, ((const weft_##op##_desc *)plan->desc)->variant);         \
    }

#define ROWWISE(op, launch_type, task_member, rows_member)                                         \
    ROWWISE_PREPARE(op, launch_type, task_member, rows_member)                                     \
    weft__submit_fn weft__cpu_submit_##op;                                                         \
    weft_status weft__cpu_submit_##op(const weft_plan *plan, const void *args,                     \
                                      weft_stream *stream)                                         \
    {                                                                                              \
        (void)stream;                                                                              \
        return submit(plan, &op##_rows, args);                                                     \
    }

// Where a kernel of the table does whole rows itself.
#define RUN_ROWS(op)                                                                               \
    static void run_##op(const void *opaque, int64_t row0, int64_t row1, int32_t thread)           \
    {                                                                                              \
        const struct weft__cpu_run *work = opaque;                                                 \
        const struct weft__##op##_launch *launch = work->launch;                                   \
        (void)thread;                                                                              \
        launch->kernel->run(launch, work->args, row0, row1);                                       \
    }

static bool serves_norm(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__norm_kernel *kernel = (const void *)row;
    const weft_norm_desc *desc = opaque_desc;
    bool f32 =
        desc->x_dtype == WEFT_F32 && desc->y_dtype == WEFT_F32 && desc->weight_dtype == WEFT_F32;
    return kernel->kind == desc->kind && (f32 || row->level == WEFT__ISA_ref);
}

// A norm that may round its rows, by way of a row of f32 per thread in the workspace.
struct norm_launch {
    struct weft__norm_launch norm;
    weft__round_fn *round; // NULL: y is numbers
    struct weft__rounded_layout layout;
    bool fixed; // rows are rounded alike whatever their number
};

static void settle_rounding(weft_plan *plan, struct norm_launch *launch)
{
    const weft_norm_desc *desc = plan->desc;
    const struct weft__cpu *cpu = weft__cpu_of(plan->context);
    launch->round = weft__rounder_of(cpu->isa_mask);
    launch->fixed = desc->flags & WEFT_NORM_BATCH_INVARIANT;
    launch->norm.y_dtype = WEFT_F32;
    weft__rounded_lay_out(desc->dim, weft__rounded_has_few(cpu->isa_mask), &launch->layout);
    plan->workspace_bytes = (size_t)cpu->threads * (size_t)desc->dim * sizeof(float);
}

static void settle_norm(weft_plan *plan, struct facts *facts)
{
    const weft_norm_desc *desc = plan->desc;
    struct weft__norm_launch *launch = &((struct norm_launch *)plan->launch)->norm;
    launch->dim = desc->dim;
    launch->eps = desc->eps;
    launch->x_dtype = desc->x_dtype;
    launch->y_dtype = desc->y_dtype;
    launch->weight_dtype = desc->weight_dtype;
    launch->weight_offset = desc->flags & WEFT_NORM_WEIGHT_PLUS_ONE ? 1.0f : 0.0f;
    if (desc->flags & WEFT_NORM_Y_ROUNDED)
        settle_rounding(plan, plan->launch);
    facts->rows = desc->max_rows;
    facts->row_elems = desc->dim;
    facts->bytes_read = weft__plan_bytes(desc->x_dtype, desc->max_rows, desc->dim) +
                        weft__plan_bytes(desc->weight_dtype, 1, desc->dim);
    facts->bytes_written = weft__plan_bytes(desc->y_dtype, desc->max_rows, desc->dim);
    snprintf(facts->text, sizeof facts->text, "norm %s dim %lld rows<=%d",
             desc->kind == WEFT_NORM_RMS ? "rms" : "layer", (long long)desc->dim, desc->max_rows);
}

static void round_norm(const struct norm_launch *launch, const weft_norm_args *args, int64_t row,
                       float *scratch)
{
    const struct weft__rounded to = {launch->layout, args->y};
    struct weft__rounded_row at = weft__rounded_row(&to, row);
    const int64_t dim = launch->norm.dim;
    const weft_norm_args alone = {
        .x = weft__element_at(args->x, launch->norm.x_dtype, row * args->x_stride),
        .y = scratch,
        .weight = args->weight,
        .bias = args->bias};
    launch->norm.kernel->run(&launch->norm, &alone, 0, 1);
    weft__rounded_begin(&to, row, dim, args->rows <= WEFT__FEW_ROWS || launch->fixed, false);
    launch->round(&at, 0, launch->layout.stride, scratch, dim, at.head->few);
}

static void run_norm(const void *opaque, int64_t row0, int64_t row1, int32_t thread)
{
    const struct weft__cpu_run *work = opaque;
    const struct norm_launch *launch = work->launch;
    const weft_norm_args *args = work->args;
    if (!launch->round) {
        launch->norm.kernel->run(&launch->norm, args, row0, row1);
        return;
    }
    for (int64_t row = row0; row < row1; row++)
        round_norm(launch, args, row, (float *)args->workspace + thread * launch->norm.dim);
}

ROWWISE(norm, struct norm_launch, norm.rows_per_task, rows)

static bool serves_softmax(const struct weft__kernel *row, const void *opaque_desc)
{
    (void)row;
    (void)opaque_desc;
    return true;
}

static void settle_softmax(weft_plan *plan, struct facts *facts)
{
    const weft_softmax_desc *desc = plan->desc;
    struct weft__softmax_launch *launch = plan->launch;
    launch->dim = desc->dim;
    launch->scale = desc->scale;
    launch->dtype = desc->dtype;
    facts->rows = desc->max_rows;
    facts->row_elems = desc->dim;
    facts->bytes_read = facts->bytes_written =
        weft__plan_bytes(desc->dtype, desc->max_rows, desc->dim);
    snprintf(facts->text, sizeof facts->text, "softmax dim %lld rows<=%d", (long long)desc->dim,
             desc->max_rows);
}

RUN_ROWS(softmax)
ROWWISE_PREPARE(softmax, struct weft__softmax_launch, rows_per_task, rows)

// A long row on all threads, pass by pass.
struct softmax_row {
    const struct weft__softmax_launch *launch;
    char *x;
    int64_t piece;
    enum { LARGEST, SUM, FINISH } pass;
    float largest[WEFT__SOFTMAX_MAX_PIECES];
    double sums[WEFT__SOFTMAX_MAX_PIECES];
    struct weft__softmax_exponent exponent;
    float inverse;
};

static void softmax_piece(void *opaque, int32_t index, int32_t thread)
{
    struct softmax_row *row = opaque;
    const struct weft__softmax_launch *launch = row->launch;
    const struct weft__softmax_passes *passes = launch->kernel->passes;
    int64_t from = index * row->piece, left = launch->dim - from;
    int64_t dim = left < row->piece ? left : row->piece;
    char *x = row->x + from * (launch->dtype == WEFT_F32 ? 4 : 2);
    (void)thread;
    if (row->pass == LARGEST)
        row->largest[index] =
            passes->largest(x, launch->dtype, dim, launch->scale < 0 ? -1.0f : 1.0f);
    else if (row->pass == SUM)
        row->sums[index] = passes->sum(x, launch->dtype, dim, row->exponent);
    else
        passes->finish(x, launch->dtype, dim, row->exponent, row->inverse);
}

static void softmax_in_pieces(const weft_context *context, struct softmax_row *row)
{
    int32_t count = (int32_t)weft__ceil_div(row->launch->dim, row->piece);
    float largest = -INFINITY;
    double sum = 0;
    row->pass = LARGEST;
    weft__cpu_parallel_for(context, count, softmax_piece, row);
    for (int32_t i = 0; i < count; i++)
        largest = row->largest[i] > largest ? row->largest[i] : largest;
    row->exponent = weft__softmax_exponent(largest, row->launch->scale);
    row->pass = SUM;
    weft__cpu_parallel_for(context, count, softmax_piece, row);
    for (int32_t i = 0; i < count; i++)
        sum += row->sums[i];
    row->inverse = sum == 0 ? 0 : (float)(1 / sum);
    row->pass = FINISH;
    weft__cpu_parallel_for(context, count, softmax_piece, row);
}

weft__submit_fn weft__cpu_submit_softmax;
weft_status weft__cpu_submit_softmax(const weft_plan *plan, const void *opaque, weft_stream *stream)
{
    enum { LONG = 16384 }; // three parallel regions cost as much as a few thousand exponentials
    const weft_softmax_args *args = opaque;
    const struct weft__softmax_launch *launch = plan->launch;
    int32_t threads = weft__cpu_of(plan->context)->threads;
    if (args->rows >= threads || launch->dim < LONG || !launch->kernel->passes->largest)
        return submit(plan, &softmax_rows, args);
    for (int64_t i = 0; i < args->rows; i++) {
        struct softmax_row row = {.launch = launch,
                                  .x = weft__element_to(args->x, launch->dtype, i * args->x_stride),
                                  .piece = weft__softmax_piece(launch->dim)};
        softmax_in_pieces(plan->context, &row);
    }
    (void)stream;
    return WEFT_OK;
}

static bool serves_activation(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__activation_kernel *kernel = (const void *)row;
    const weft_activation_desc *desc = opaque_desc;
    return kernel->kind == desc->kind;
}

static void settle_activation(weft_plan *plan, struct facts *facts)
{
    const weft_activation_desc *desc = plan->desc;
    struct weft__activation_launch *launch = plan->launch;
    launch->dim = desc->dim;
    launch->cap = desc->cap;
    launch->x_dtype = desc->x_dtype;
    launch->y_dtype = desc->y_dtype;
    facts->rows = desc->max_rows;
    facts->row_elems = desc->dim;
    facts->bytes_read = 2 * weft__plan_bytes(desc->x_dtype, desc->max_rows, desc->dim); // x and up
    facts->bytes_written = weft__plan_bytes(desc->y_dtype, desc->max_rows, desc->dim);
    snprintf(facts->text, sizeof facts->text, "activation dim %lld rows<=%d", (long long)desc->dim,
             desc->max_rows);
}

// Elements of other formats become f32 and back a piece at a time.
static void activate_row(const struct weft__activation_launch *launch,
                         const weft_activation_args *args, int64_t row)
{
    enum { PIECE = 256 };
    float x[PIECE], up[PIECE];
    struct weft__activation_launch piece = *launch;
    weft_activation_args own = {.x = x, .up = args->up ? up : NULL, .y = x};
    weft_dtype dtype = launch->x_dtype;
    for (int64_t i = 0; i < launch->dim; i += PIECE) {
        piece.dim = launch->dim - i < PIECE ? launch->dim - i : PIECE;
        int64_t x_at = row * args->x_stride + i, up_at = row * args->up_stride + i;
        weft__elements_widen(weft__element_at(args->x, dtype, x_at), dtype, piece.dim, x);
        if (args->up)
            weft__elements_widen(weft__element_at(args->up, dtype, up_at), dtype, piece.dim, up);
        launch->kernel->run(&piece, &own, 0, 1);
        void *y = weft__element_to(args->y, launch->y_dtype, row * args->y_stride + i);
        weft__elements_narrow(x, piece.dim, y, launch->y_dtype);
    }
}

static void activate_rows(const struct weft__activation_launch *launch,
                          const weft_activation_args *args, int64_t row0, int64_t row1)
{
    bool f32 = launch->x_dtype == WEFT_F32 && launch->y_dtype == WEFT_F32;
    if (f32 || launch->kernel->base.level != WEFT__ISA_ref) {
        launch->kernel->run(launch, args, row0, row1);
        return;
    }
    for (int64_t row = row0; row < row1; row++)
        activate_row(launch, args, row);
}

// Long rows are cut: elements do not know of each other.
enum { LONG_PIECE = 4096 };

static int64_t pieces_of(const struct weft__activation_launch *launch)
{
    return weft__ceil_div(launch->dim, LONG_PIECE);
}

// Units are pieces of rows; of short rows, rows.
static void run_activation(const void *opaque, int64_t unit0, int64_t unit1, int32_t thread)
{
    const struct weft__cpu_run *work = opaque;
    const struct weft__activation_launch *launch = work->launch;
    const weft_activation_args *args = work->args;
    int64_t pieces = pieces_of(launch);
    (void)thread;
    if (pieces == 1) {
        activate_rows(launch, args, unit0, unit1);
        return;
    }
    struct weft__activation_launch piece = *launch;
    weft_activation_args own = *args;
    for (int64_t unit = unit0; unit < unit1; unit++) {
        int64_t row = unit / pieces, i = unit % pieces * LONG_PIECE, left = launch->dim - i;
        int64_t up_at = row * args->up_stride + i;
        piece.dim = left < LONG_PIECE ? left : LONG_PIECE;
        own.x = weft__element_at(args->x, launch->x_dtype, row * args->x_stride + i);
        own.up = args->up ? weft__element_at(args->up, launch->x_dtype, up_at) : NULL;
        own.y = weft__element_to(args->y, launch->y_dtype, row * args->y_stride + i);
        activate_rows(&piece, &own, 0, 1);
    }
}

ROWWISE_PREPARE(activation, struct weft__activation_launch, rows_per_task, rows)

weft__submit_fn weft__cpu_submit_activation;
weft_status weft__cpu_submit_activation(const weft_plan *plan, const void *args,
                                        weft_stream *stream)
{
    const struct weft__activation_launch *launch = plan->launch;
    const weft_activation_args *run = args;
    int64_t pieces = pieces_of(launch);
    int64_t least = pieces == 1 ? launch->rows_per_task : weft__plan_rows_per_task(LONG_PIECE);
    (void)stream;
    weft__cpu_spread_rows(plan->context, run->rows * pieces, least, run_activation,
                          &(struct weft__cpu_run){launch, args});
    return WEFT_OK;
}

static bool serves_embedding(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__embedding_kernel *kernel = (const void *)row;
    const weft_embedding_desc *desc = opaque_desc;
    return kernel->format == desc->table_dtype;
}

static void settle_embedding(weft_plan *plan, struct facts *facts)
{
    const weft_embedding_desc *desc = plan->desc;
    struct weft__embedding_launch *launch = plan->launch;
    launch->rows = desc->rows;
    launch->dim = desc->dim;
    launch->scale = desc->scale;
    launch->scale_dtype = desc->scale_dtype;
    launch->scale_rows = desc->scale_rows;
    launch->scale_cols = desc->scale_cols;
    launch->y_dtype = desc->y_dtype;
    launch->piece_bytes = weft_dtype_row_bytes(desc->table_dtype, 256);
    facts->rows = desc->max_tokens;
    facts->row_elems = desc->dim;
    facts->bytes_read = weft__plan_bytes(desc->table_dtype, desc->max_tokens, desc->dim) +
                        (int64_t)4 * desc->max_tokens;
    facts->bytes_written = weft__plan_bytes(desc->y_dtype, desc->max_tokens, desc->dim);
    snprintf(facts->text, sizeof facts->text, "embedding %s %lldx%lld tokens<=%d",
             weft_dtype_name(desc->table_dtype), (long long)desc->rows, (long long)desc->dim,
             desc->max_tokens);
}

RUN_ROWS(embedding)
ROWWISE(embedding, struct weft__embedding_launch, rows_per_task, tokens)

static bool serves_rope(const struct weft__kernel *row, const void *opaque_desc)
{
    const struct weft__rope_kernel *kernel = (const void *)row;
    const weft_rope_desc *desc = opaque_desc;
    return kernel->style == desc->rope.style;
}

static void settle_rope(weft_plan *plan, struct facts *facts)
{
    const weft_rope_desc *desc = plan->desc;
    struct weft__rope_launch *launch = plan->launch;
    weft__rope_frequencies_make(&desc->rope, desc->head_dim, &launch->frequencies);
    launch->num_heads = desc->num_heads;
    launch->head_dim = desc->head_dim;
    launch->dtype = desc->dtype;
    facts->rows = desc->max_tokens;
    facts->row_elems = (int64_t)desc->num_heads * launch->frequencies.rotary_dim;
    facts->bytes_written = weft__plan_bytes(desc->dtype, desc->max_tokens, facts->row_elems);
    facts->bytes_read = facts->bytes_written + (int64_t)4 * desc->max_tokens;
    snprintf(facts->text, sizeof facts->text, "rope %d heads of %d, %d rotary, tokens<=%d",
             desc->num_heads, desc->head_dim, launch->frequencies.rotary_dim, desc->max_tokens);
}

// A head of another format becomes f32 and back, as far as it is rotated.
static void rotate(const struct weft__rope_launch *launch, void *head, const float *cosines,
                   const float *sines)
{
    float wide[WEFT__ROPE_MAX_DIM];
    int32_t dim = launch->frequencies.rotary_dim;
    if (launch->dtype == WEFT_F32) {
        launch->kernel->rotate(head, head, cosines, sines, dim);
        return;
    }
    weft__elements_widen(head, launch->dtype, dim, wide);
    launch->kernel->rotate(wide, wide, cosines, sines, dim);
    weft__elements_narrow(wide, dim, head, launch->dtype);
}

// cos and sin of a token's position serve all its heads.
static void run_rope(const void *opaque, int64_t token0, int64_t token1, int32_t thread)
{
    const struct weft__cpu_run *work = opaque;
    const struct weft__rope_launch *launch = work->launch;
    const weft_rope_args *args = work->args;
    float cosines[WEFT__ROPE_MAX_PAIRS], sines[WEFT__ROPE_MAX_PAIRS];
    (void)thread;
    for (int64_t token = token0; token < token1; token++) {
        weft__rope_angles(&launch->frequencies, args->positions[token], cosines, sines);
        for (int64_t i = 0; i < launch->num_heads; i++) {
            int64_t at = token * args->token_stride + i * launch->head_dim;
            rotate(launch, weft__element_to(args->x, launch->dtype, at), cosines, sines);
        }
    }
}

ROWWISE(rope, struct weft__rope_launch, rows_per_task, tokens)
