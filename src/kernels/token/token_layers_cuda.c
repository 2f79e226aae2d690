// SPDX-License-Identifier: MIT
// Which launches are the layers of a dense model that token.cu has, by what they are: kernels, function constants, and who reads
// what whom.
#include "src/kernels/token/token_layers.h"

#include <stdio.h>
#include <string.h>

#include "src/kernels/linear/linear_device.h"
#include "src/kernels/sample/sample_device.h"

enum { LAYER = WEFT__TOKEN_LAUNCHES, MOST_QKV_TILES = 16 };
_Static_assert(WEFT__TOKEN_MOST_LAYERS <= 32 * WEFT__TOKEN_SECOND_WORDS, "a bit a layer");

int32_t weft__token_constant(const struct weft__cuda_kernel *kernel, const char *name)
{
    for (int32_t i = 0; i < kernel->num_constants; i++)
        if (strcmp(kernel->names[i], name) == 0)
            return kernel->values[i];
    return 0;
}

static bool is(const struct weft__token_seen *seen, const char *function)
{
    return seen->kernel && strcmp(seen->kernel->function, function) == 0;
}

bool weft__token_refuse(struct weft__token_plan *plan, const char *why)
{
    snprintf(plan->why, sizeof plan->why, "%s", why);
    return false;
}

static bool is_plain(const struct weft__token_seen *seen)
{
    return is(seen, "weft_linear_numbers");
}

// The same of plain weights: one row of numbers, in boxes of 16 rows by 64 columns, two of them side by side.
static bool numbers_matrix(const struct weft__token_seen *seen, int32_t num_parts,
                           struct weft__token_plan *plan)
{
    const struct weft__linear_device_args *args = seen->args;
    const struct weft__cuda_kernel *k = seen->kernel;
    if (!WEFT__TOKEN_PLAIN(weft__token_constant(k, "WEFT_FORMAT")) ||
        weft__token_constant(k, "WEFT_BATCH") != 1 || weft__token_constant(k, "WEFT_X_OUTSIDE") ||
        weft__token_constant(k, "WEFT_EXPERTS") || weft__token_constant(k, "WEFT_X_DTYPE") != 1 ||
        weft__token_constant(k, "WEFT_Y_DTYPE") != 1 || weft__token_constant(k, "WEFT_ROUND") ||
        !weft__token_constant(k, "WEFT_ALIGNED") || args->batch != 1)
        return weft__token_refuse(plan, "a matrix has another input than one row of numbers");
    if (weft__token_constant(k, "WEFT_SPLIT") != 1 ||
        weft__token_constant(k, "WEFT_TEAM") != WEFT__TOKEN_MULTIPLIERS ||
        weft__token_constant(k, "WEFT_WARPS") != WEFT__TOKEN_MULTIPLIERS ||
        weft__token_constant(k, "WEFT_TWIN"))
        return weft__token_refuse(plan, "a matrix adds its products in another order");
    if (seen->more_kernel || args->cols % (2 * WEFT__TOKEN_PLAIN_TILE_COLS) ||
        args->num_parts != num_parts)
        return weft__token_refuse(
            plan, "a matrix has other parts, or columns that are not pairs of tiles");
    if ((uintptr_t)args->norm_weight % 16)
        return weft__token_refuse(plan, "weights of a norm do not lie at a multiple of 16 bytes");
    for (int32_t p = 0; p < num_parts; p++)
        if (args->part[p].bias || args->part[p].alpha != 1 || args->part[p].rows % 32)
            return weft__token_refuse(plan, "a matrix has a bias or a factor");
    return true;
}

// Is the matrix in the second format?
static bool is_second(const struct weft__token_seen *seen, int32_t format)
{
    return weft__token_constant(seen->kernel, "WEFT_FORMAT") != format;
}

// Chains of eight columns' tiles: of down in the second format.
static bool adds_in_eights(const struct weft__token_seen *seen, int32_t format)
{
    const struct weft__linear_device_args *args = seen->args;
    return weft__token_constant(seen->kernel, "WEFT_TEAM") == 8 && is_second(seen, format) &&
           args->residual && !weft__token_constant(seen->kernel, "WEFT_GATE");
}

// What any matrix must be: one rounded row of X, whole tiles, nothing but products, and sums whose order this kernel has.
static bool plain_matrix(const struct weft__token_seen *seen, int32_t num_parts,
                         struct weft__token_plan *plan)
{
    if (is_plain(seen))
        return numbers_matrix(seen, num_parts, plan);
    if (!is(seen, "weft_linear_few") || seen->more_kernel)
        return weft__token_refuse(plan,
                                  "a matrix is not made by one launch of the kernel of few rows");
    const struct weft__linear_device_args *args = seen->args;
    const struct weft__cuda_kernel *k = seen->kernel;
    const int32_t tiles = args->cols / WEFT__LINEAR_TILE_COLS,
                  team = weft__token_constant(k, "WEFT_TEAM");
    if (weft__token_constant(k, "WEFT_BATCH") != 1 || weft__token_constant(k, "WEFT_EXACT") ||
        weft__token_constant(k, "WEFT_ROUND_X") || weft__token_constant(k, "WEFT_X_OUTSIDE") ||
        weft__token_constant(k, "WEFT_EXPERTS") || weft__token_constant(k, "WEFT_Y_DTYPE") != 1 ||
        args->batch != 1)
        return weft__token_refuse(plan, "a matrix has another input than one rounded row");
    if (weft__token_constant(k, "WEFT_SPLIT") != 1 ||
        (team != 16 && tiles > team && !weft__token_constant(k, "WEFT_APART") &&
         !adds_in_eights(seen, plan->format)))
        return weft__token_refuse(plan, "a matrix adds its products in another order");
    if (args->cols % WEFT__LINEAR_TILE_COLS || args->num_parts != num_parts)
        return weft__token_refuse(plan,
                                  "a matrix has other parts, or columns that are not whole tiles");
    for (int32_t p = 0; p < num_parts; p++)
        if (args->part[p].bias || args->part[p].alpha != 1 || args->part[p].rows % 32)
            return weft__token_refuse(plan, "a matrix has a bias or a factor");
    return true;
}

bool weft__token_adds_even(const struct weft__cuda_kernel *kernel)
{
    return (!weft__token_constant(kernel, "WEFT_ROUND") ||
            weft__token_constant(kernel, "WEFT_PAIR")) &&
           !weft__token_constant(kernel, "WEFT_TWIN");
}

// O or down: added to the stream, which is rounded for what comes next, unless it is the last.
static bool adds_to_stream(const struct weft__token_seen *seen, const void *x, const void *stream,
                           bool last, struct weft__token_plan *plan)
{
    if (!plain_matrix(seen, 1, plan))
        return false;
    const struct weft__linear_device_args *args = seen->args;
    if (weft__token_constant(seen->kernel, "WEFT_GATE") || args->norm || args->x != x ||
        args->residual != stream || args->part[0].y != stream ||
        (!last && !args->rounded && !is_plain(seen)))
        return weft__token_refuse(plan, "a layer does not add to the stream as a dense one does");
    return true;
}

static bool gate_and_up(const struct weft__token_seen *seen, const void *x,
                        struct weft__token_plan *plan)
{
    if (!plain_matrix(seen, 2, plan))
        return false;
    const struct weft__linear_device_args *args = seen->args;
    const int32_t gate = weft__token_constant(seen->kernel, "WEFT_GATE");
    const bool leaves =
        is_plain(seen) ? args->part[0].y != NULL : args->rounded && !args->part[0].y;
    if (gate < 1 || gate > 3 || !args->norm || args->x != x || args->residual || !leaves ||
        args->next_weight)
        return weft__token_refuse(plan,
                                  "a layer has no gate that leaves as the next matrix reads it");
    return true;
}

// Q, K and V by one launch, or V by another one in the second format.
static bool qkv(const struct weft__token_seen *seen, const void *x,
                const struct weft__attention_device_args *reader, struct weft__token_plan *plan)
{
    const struct weft__token_seen more = {.kernel = seen->more_kernel, .args = seen->more_args},
                                  first = {.kernel = seen->kernel, .args = seen->args};
    const struct weft__linear_device_args *args = seen->args, *v = more.kernel ? more.args : args;
    const int32_t v_part = more.kernel ? 0 : 2;
    if (!plain_matrix(&first, more.kernel ? 2 : 3, plan) ||
        (more.kernel && !plain_matrix(&more, 1, plan)))
        return false;
    if (weft__token_constant(seen->kernel, "WEFT_GATE") ||
        weft__token_constant(seen->kernel, "WEFT_ROUND") || !args->norm || args->x != x ||
        args->residual || args->part[0].y != reader->q || args->part[1].y != reader->new_k ||
        v->part[v_part].y != reader->new_v)
        return weft__token_refuse(
            plan, "queries, keys and values are not one product that attention reads");
    if (more.kernel &&
        (!is_second(&more, plan->format) || weft__token_constant(more.kernel, "WEFT_GATE") ||
         weft__token_constant(more.kernel, "WEFT_ROUND") || !v->norm || v->x != x || v->residual ||
         v->cols != args->cols || v->norm_eps != args->norm_eps))
        return weft__token_refuse(plan, "values are not a product beside queries and keys");
    if (!is_plain(seen) && args->cols / WEFT__LINEAR_TILE_COLS > MOST_QKV_TILES)
        return weft__token_refuse(plan, "rows are too long");
    return true;
}

static bool attention(const struct weft__token_seen *seen, struct weft__token_plan *plan)
{
    if (!is(seen, "weft_attention_token") || seen->more_kernel)
        return weft__token_refuse(plan, "attention is not that of one token");
    const struct weft__attention_device_args *a = seen->args, *first = &plan->args.attention;
    const bool rounded = weft__token_constant(seen->kernel, "WEFT_ROUNDED");
    if (a->num_seqs != 1 || a->sinks || a->lse || rounded == is_plain(&seen[1]) ||
        (!rounded && weft__token_constant(seen->kernel, "WEFT_Y_DTYPE") != 1) ||
        weft__token_constant(seen->kernel, "WEFT_HEAD_DIM") % 64 ||
        a->num_q_heads * a->q_head_stride <= 0)
        return weft__token_refuse(plan, "attention has more to do than for one token");
    if (!weft__token_constant(seen->kernel, "WEFT_BOXES") || !seen->matrices[0].base ||
        !seen->matrices[1].base)
        return weft__token_refuse(plan, "keys and values do not come in boxes");
    // one plan for all layers: the same kernel, and what differs between plans in the arguments
    if (plan->count &&
        (a->turns != first->turns || a->window != first->window ||
         a->local_chunk != first->local_chunk || a->scale != first->scale ||
         a->softcap != first->softcap || a->q != first->q || a->out != first->out ||
         a->page_table != first->page_table || a->kv_lens != first->kv_lens ||
         a->k.page_stride != first->k.page_stride || a->v.page_stride != first->v.page_stride))
        return weft__token_refuse(plan, "attention differs from layer to layer");
    return true;
}

// The first that is met, as which all others must be.
static bool is_as_met(const struct weft__cuda_kernel **met, const struct weft__cuda_kernel *kernel)
{
    if (!*met)
        *met = kernel;
    return *met == kernel || (strcmp((*met)->function, kernel->function) == 0 &&
                              memcmp((*met)->values, kernel->values, sizeof kernel->values) == 0);
}

// The same kernels in every layer: formats, shapes, orders of sums.
static bool same_kernels(struct weft__token_met *met, const struct weft__token_seen *layer,
                         bool last, int32_t format)
{
    const struct weft__token_seen *next = &layer[LAYER - 1];
    return is_as_met(&met->attention, layer[0].kernel) && is_as_met(&met->o, layer[1].kernel) &&
           is_as_met(&met->up, layer[2].kernel) &&
           is_as_met(last ? &met->last_down : &met->down[is_second(&layer[3], format)],
                     layer[3].kernel) &&
           (last || (is_as_met(&met->qkv[next->more_kernel != NULL], next->kernel) &&
                     (!next->more_kernel || is_as_met(&met->v, next->more_kernel))));
}

// Tiles of 64 columns are matrices of a pile, two side by side a box.
static void matrix_map(const struct weft__linear_device_args *args, int32_t part,
                       struct weft__cuda_matrix *map)
{
    const struct weft__linear_device_part *of = &args->part[part];
    *map = (struct weft__cuda_matrix){
        .base = of->weight,
        .rows = of->rows,
        .cols = WEFT__TOKEN_PLAIN_TILE_COLS,
        .stride_bytes = of->weight_stride_bytes,
        .piles = {args->cols / WEFT__TOKEN_PLAIN_TILE_COLS, 1},
        .pile_stride_bytes = {2 * WEFT__TOKEN_PLAIN_TILE_COLS, of->weight_stride_bytes},
        .box_rows = WEFT__LINEAR_TILE_ROWS,
        .box_matrices = 2,
        .swizzled = true};
}

// Plain weights of a layer at seen[1..LAYER), whose Q, K, V (next NULL: none) are the next one's; their norms are read with X.
static void plain_layer(const struct weft__linear_device_args *o,
                        const struct weft__linear_device_args *up,
                        const struct weft__linear_device_args *down,
                        const struct weft__linear_device_args *next, int32_t l,
                        struct weft__token_plan *plan)
{
    struct weft__cuda_matrix *maps = plan->weights[l];
    matrix_map(o, 0, &maps[WEFT__TOKEN_MAP_o]);
    matrix_map(up, 0, &maps[WEFT__TOKEN_MAP_gate]);
    matrix_map(up, 1, &maps[WEFT__TOKEN_MAP_up]);
    matrix_map(down, 0, &maps[WEFT__TOKEN_MAP_down]);
    plan->layers[l].up_norm = up->norm_weight;
    if (!next)
        return;
    plan->layers[l].next_norm = next->norm_weight;
    for (int32_t p = 0; p < 3; p++)
        matrix_map(next, p, &plan->weights[l + 1][WEFT__TOKEN_MAP_q + p]);
}

// Layer `l` at seen[0..LAYER): attention, O, gate and up, down, and the next layer's Q, K, V, which are looked at with it.
static bool take_layer(const struct weft__token_seen *seen, int32_t left, int32_t l,
                       const void *stream, struct weft__token_plan *plan)
{
    if (left < LAYER - 1 || !attention(&seen[0], plan))
        return false;
    const struct weft__attention_device_args *a = seen[0].args;
    const struct weft__linear_device_args *o = seen[1].args, *up = seen[2].args,
                                          *down = seen[3].args;
    struct weft__token_layer *layer = &plan->layers[l];
    const bool last = left < LAYER + 1 || !is(&seen[LAYER], "weft_attention_token");
    const bool plain = is_plain(&seen[1]);
    if (!adds_to_stream(&seen[1], a->out, stream, false, plan) ||
        !gate_and_up(&seen[2], plain ? stream : o->rounded, plan) ||
        !adds_to_stream(&seen[3], plain ? up->part[0].y : up->rounded, stream, last, plan))
        return false;
    layer->o = o->part[0].weight;
    layer->gate = up->part[0].weight, layer->up = up->part[1].weight;
    layer->down = down->part[0].weight;
    layer->up_norm = o->next_weight, layer->next_norm = down->next_weight;
    plan->maps[l][0] = seen[0].matrices[0], plan->maps[l][1] = seen[0].matrices[1];
    layer->keys = (void *)a->k.data, layer->values = (void *)a->v.data;
    layer->attention = *a;
    if (is_second(&seen[3], plan->format))
        plan->args.second_down[l / 32] |= 1u << l % 32;
    const struct weft__linear_device_args *next = last ? NULL : seen[4].args;
    if (!last && !qkv(&seen[4], plain ? stream : down->rounded, seen[LAYER].args, plan))
        return false;
    if (plain)
        plain_layer(o, up, down, next, l, plan);
    if (last)
        return true;
    layer[1].q = next->part[0].weight, layer[1].k = next->part[1].weight;
    layer[1].v = next->part[2].weight;
    if (seen[4].more_kernel) {
        layer[1].v = ((const struct weft__linear_device_args *)seen[4].more_args)->part[0].weight;
        plan->args.second_v[(l + 1) / 32] |= 1u << (l + 1) % 32;
    }
    plan->args.qkv_eps = next->norm_eps;
    return true;
}

// Is what rounds X of a matrix given the stream, and only that?
static bool rounds_stream(const struct weft__token_seen *seen, const void *stream)
{
    const struct weft__linear_round_args *round = seen->round;
    const struct weft__linear_device_args *args = seen->args;
    return round && is(seen, "weft_linear_few") && round->x == stream && round->batch == 1 &&
           round->cols == args->cols && args->x == round->rounded;
}

// The Q, K, V that stand before the layers, where they are those of the others.
static void take_first(const struct weft__token_seen *seen, const struct weft__token_met *met,
                       struct weft__token_plan *plan)
{
    const bool more = seen->more_kernel != NULL;
    struct weft__token_met own = *met;
    if (!rounds_stream(seen, plan->args.stream) ||
        !qkv(seen, seen->round->rounded, &plan->args.attention, plan) || !met->qkv[more] ||
        !is_as_met(&own.qkv[more], seen->kernel) ||
        (more && (!met->v || !is_as_met(&own.v, seen->more_kernel))))
        return;
    const struct weft__linear_device_args *args = seen->args, *v = more ? seen->more_args : args;
    if (args->norm_eps != plan->args.qkv_eps)
        return;
    struct weft__token_layer *layer = &plan->layers[0];
    layer->q = args->part[0].weight, layer->k = args->part[1].weight;
    layer->v = v->part[more ? 0 : 2].weight;
    plan->args.second_v[0] |= more;
    plan->args.first_x = seen->round->rounded;
    plan->begins = true;
}

bool weft__token_take_layers(const struct weft__token_seen *seen, int32_t count,
                             struct weft__token_met *met, struct weft__token_plan *plan)
{
    while (plan->first < count && !is(&seen[plan->first], "weft_attention_token"))
        plan->first++;
    const struct weft__token_seen *first = seen + plan->first;
    const int32_t left = count - plan->first;
    if (left < LAYER + 1 || (!is(&first[1], "weft_linear_few") && !is_plain(&first[1])))
        return weft__token_refuse(plan, "there are not two layers");
    const struct weft__linear_device_args *o = first[1].args;
    const void *stream = o->residual;
    plan->args.attention = *(const struct weft__attention_device_args *)first[0].args;
    plan->args.stream = plan->args.result = (float *)stream;
    plan->format = weft__token_constant(first[1].kernel, "WEFT_FORMAT");
    int32_t l = 0;
    for (bool more = true; more; l++, plan->count = l * LAYER - 1) {
        const struct weft__token_seen *layer = first + l * LAYER;
        if (l == WEFT__TOKEN_MOST_LAYERS || !take_layer(layer, left - l * LAYER, l, stream, plan))
            return false;
        more = left > (l + 1) * LAYER && is(&layer[LAYER], "weft_attention_token");
        if (!same_kernels(met, layer, !more, plan->format))
            return weft__token_refuse(plan, "layers are made by different kernels");
    }
    if (l < 2)
        return weft__token_refuse(plan, "there are not two layers");
    const struct weft__linear_device_args *up = first[2].args;
    plan->args.num_layers = l;
    plan->most_keys =
        plan->args.attention.page_table_stride * weft__token_constant(first[0].kernel, "WEFT_PAGE");
    plan->args.up_eps = up->norm_eps;
    // of all norms of a model
    plan->args.norm_plus = is_plain(&first[1]) ? up->norm_weight_plus : o->next_weight_plus;
    if (plan->first > 0)
        take_first(first - 1, met, plan);
    return true;
}

void weft__token_take_logits(const struct weft__token_seen *seen, int32_t cols, int32_t second,
                             struct weft__token_plan *plan)
{
    struct weft__token_args *own = &plan->args;
    if (!rounds_stream(seen, own->result) || !plain_matrix(seen, 1, plan))
        return;
    const struct weft__linear_device_args *args = seen->args;
    const struct weft__cuda_kernel *o = seen[1 - plan->count].kernel;
    const int32_t format = weft__token_constant(seen->kernel, "WEFT_FORMAT");
    if (weft__token_constant(seen->kernel, "WEFT_SCALE_DTYPE") !=
            weft__token_constant(o, "WEFT_SCALE_DTYPE") ||
        weft__token_constant(seen->kernel, "WEFT_GATE") ||
        weft__token_constant(seen->kernel, "WEFT_ROUND") || !weft__token_adds_even(seen->kernel) ||
        !args->norm || args->residual || args->cols != cols || args->norm_eps != own->qkv_eps ||
        seen->round->weight_plus != own->norm_plus ||
        args->cols / WEFT__LINEAR_TILE_COLS > MOST_QKV_TILES)
        return;
    if (format != plan->format && (format != second || second == 0))
        return;
    plan->layers[own->num_layers - 1].next_norm = seen->round->weight;
    own->output = args->part[0].weight;
    own->logits = args->part[0].y;
    plan->rows_second = format != plan->format;
    plan->ends = true;
    plan->count++;
    plan->rows = args->part[0].rows;
}

void weft__token_take_choice(const struct weft__token_seen *seen,
                             const struct weft__cuda_limits *limits, struct weft__token_plan *plan)
{
    if (!is(seen, "weft_sample_best") ||
        weft__token_constant(seen->kernel, "X_DTYPE") != WEFT_F32 || seen->grid_y != 1 ||
        limits->num_sms > WEFT__SAMPLE_PARTS)
        return;
    const struct weft__sample_device_args *args = seen->args;
    if (args->logits != plan->args.logits || args->vocab != plan->rows)
        return;
    plan->args.best = args->best;
    plan->finds = true;
}
