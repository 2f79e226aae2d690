// SPDX-License-Identifier: MIT
// Which launches token.cu can take the place of, by what they are: kernels, function constants, and who reads what whom.
#include "src/kernels/token/token_kernel.h"

#include <stdio.h>
#include <string.h>

#include "src/kernels/linear/linear_device.h"
#include "src/kernels/linear/linear_pack_cuda.h"

#define TOKEN_CONSTANTS(X)                                                                         \
    X(WEFT_FORMAT)                                                                                 \
    X(WEFT_SCALE_DTYPE)                                                                            \
    X(WEFT_EMBED)                                                                                  \
    X(WEFT_WIDE)                                                                                   \
    X(WEFT_Q_HEADS)                                                                                \
    X(WEFT_KV_HEADS)                                                                               \
    X(WEFT_HEAD_DIM)                                                                               \
    X(WEFT_KV_DTYPE)                                                                               \
    X(WEFT_PAGE)                                                                                   \
    X(WEFT_SOFTCAP)                                                                                \
    X(WEFT_ROPE)                                                                                   \
    X(WEFT_ROTARY)                                                                                 \
    X(WEFT_SPLITS)                                                                                 \
    X(WEFT_TOKEN_GATE)                                                                             \
    X(WEFT_SLOTS)                                                                                  \
    X(WEFT_FIRST)                                                                                  \
    X(WEFT_SECOND)                                                                                 \
    X(WEFT_EIGHTS)                                                                                 \
    X(WEFT_EVEN)
WEFT__CUDA_CONSTANTS(token, TOKEN_CONSTANTS)

// In the order of a layer; bits of WEFT_EVEN are those of enum kind (token_shared.cuh).
enum { QKV, O, UP, DOWN, LAST_DOWN, SECOND_DOWN, SECOND_LAST_DOWN, SECOND_V };
enum { LAYER = 5, MOST_QKV_TILES = 16 };
_Static_assert(WEFT__TOKEN_MOST_LAYERS <= 32 * WEFT__TOKEN_SECOND_WORDS, "a bit a layer");

static int32_t constant(const struct weft__cuda_kernel *kernel, const char *name)
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

static bool refuse(struct weft__token_plan *plan, const char *why)
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
    if (!WEFT__TOKEN_PLAIN(constant(k, "WEFT_FORMAT")) || constant(k, "WEFT_BATCH") != 1 ||
        constant(k, "WEFT_X_OUTSIDE") || constant(k, "WEFT_EXPERTS") ||
        constant(k, "WEFT_X_DTYPE") != 1 || constant(k, "WEFT_Y_DTYPE") != 1 ||
        constant(k, "WEFT_ROUND") || !constant(k, "WEFT_ALIGNED") || args->batch != 1)
        return refuse(plan, "a matrix has another input than one row of numbers");
    if (constant(k, "WEFT_SPLIT") != 1 || constant(k, "WEFT_TEAM") != WEFT__TOKEN_MULTIPLIERS ||
        constant(k, "WEFT_WARPS") != WEFT__TOKEN_MULTIPLIERS || constant(k, "WEFT_TWIN"))
        return refuse(plan, "a matrix adds its products in another order");
    if (seen->more_kernel || args->cols % (2 * WEFT__TOKEN_PLAIN_TILE_COLS) ||
        args->num_parts != num_parts)
        return refuse(plan, "a matrix has other parts, or columns that are not pairs of tiles");
    if ((uintptr_t)args->norm_weight % 16)
        return refuse(plan, "weights of a norm do not lie at a multiple of 16 bytes");
    for (int32_t p = 0; p < num_parts; p++)
        if (args->part[p].bias || args->part[p].alpha != 1 || args->part[p].rows % 32)
            return refuse(plan, "a matrix has a bias or a factor");
    return true;
}

// Is the matrix in the second format?
static bool is_second(const struct weft__token_seen *seen, int32_t format)
{
    return constant(seen->kernel, "WEFT_FORMAT") != format;
}

// Chains of eight columns' tiles: of gate and up, of which a row has two at most each; of down in the second format.
static bool adds_in_eights(const struct weft__token_seen *seen, int32_t format)
{
    const struct weft__linear_device_args *args = seen->args;
    const int32_t tiles = args->cols / WEFT__LINEAR_TILE_COLS;
    const bool gate = constant(seen->kernel, "WEFT_GATE");
    return constant(seen->kernel, "WEFT_TEAM") == 8 &&
           (is_second(seen, format) ? args->residual && !gate : gate && tiles > 8 && tiles <= 16);
}

// What any matrix must be: one rounded row of X, whole tiles, nothing but products, and sums whose order this kernel has.
static bool plain_matrix(const struct weft__token_seen *seen, int32_t num_parts,
                         struct weft__token_plan *plan)
{
    if (is_plain(seen))
        return numbers_matrix(seen, num_parts, plan);
    if (!is(seen, "weft_linear_few") || seen->more_kernel)
        return refuse(plan, "a matrix is not made by one launch of the kernel of few rows");
    const struct weft__linear_device_args *args = seen->args;
    const struct weft__cuda_kernel *k = seen->kernel;
    const int32_t tiles = args->cols / WEFT__LINEAR_TILE_COLS, team = constant(k, "WEFT_TEAM");
    if (constant(k, "WEFT_BATCH") != 1 || constant(k, "WEFT_EXACT") ||
        constant(k, "WEFT_ROUND_X") || constant(k, "WEFT_X_OUTSIDE") ||
        constant(k, "WEFT_EXPERTS") || constant(k, "WEFT_Y_DTYPE") != 1 || args->batch != 1)
        return refuse(plan, "a matrix has another input than one rounded row");
    if (constant(k, "WEFT_SPLIT") != 1 ||
        (team != 16 && tiles > team && !adds_in_eights(seen, plan->format)))
        return refuse(plan, "a matrix adds its products in another order");
    if (args->cols % WEFT__LINEAR_TILE_COLS || args->num_parts != num_parts)
        return refuse(plan, "a matrix has other parts, or columns that are not whole tiles");
    for (int32_t p = 0; p < num_parts; p++)
        if (args->part[p].bias || args->part[p].alpha != 1 || args->part[p].rows % 32)
            return refuse(plan, "a matrix has a bias or a factor");
    return true;
}

// Are sums of even and odd tiles added up apart (stream_sum())?
static int32_t adds_even(const struct weft__cuda_kernel *kernel)
{
    return (!constant(kernel, "WEFT_ROUND") || constant(kernel, "WEFT_PAIR")) &&
           !constant(kernel, "WEFT_TWIN");
}

// O or down: added to the stream, which is rounded for what comes next, unless it is the last.
static bool adds_to_stream(const struct weft__token_seen *seen, const void *x, const void *stream,
                           bool last, struct weft__token_plan *plan)
{
    if (!plain_matrix(seen, 1, plan))
        return false;
    const struct weft__linear_device_args *args = seen->args;
    if (constant(seen->kernel, "WEFT_GATE") || args->norm || args->x != x ||
        args->residual != stream || args->part[0].y != stream ||
        (!last && !args->rounded && !is_plain(seen)))
        return refuse(plan, "a layer does not add to the stream as a dense one does");
    return true;
}

static bool gate_and_up(const struct weft__token_seen *seen, const void *x,
                        struct weft__token_plan *plan)
{
    if (!plain_matrix(seen, 2, plan))
        return false;
    const struct weft__linear_device_args *args = seen->args;
    const int32_t gate = constant(seen->kernel, "WEFT_GATE");
    const bool leaves =
        is_plain(seen) ? args->part[0].y != NULL : args->rounded && !args->part[0].y;
    if (gate < 1 || gate > 3 || !args->norm || args->x != x || args->residual || !leaves ||
        args->next_weight)
        return refuse(plan, "a layer has no gate that leaves as the next matrix reads it");
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
    if (constant(seen->kernel, "WEFT_GATE") || constant(seen->kernel, "WEFT_ROUND") ||
        !args->norm || args->x != x || args->residual || args->part[0].y != reader->q ||
        args->part[1].y != reader->new_k || v->part[v_part].y != reader->new_v)
        return refuse(plan, "queries, keys and values are not one product that attention reads");
    if (more.kernel && (!is_second(&more, plan->format) || constant(more.kernel, "WEFT_GATE") ||
                        constant(more.kernel, "WEFT_ROUND") || !v->norm || v->x != x ||
                        v->residual || v->cols != args->cols || v->norm_eps != args->norm_eps))
        return refuse(plan, "values are not a product beside queries and keys");
    if (!is_plain(seen) && args->cols / WEFT__LINEAR_TILE_COLS > MOST_QKV_TILES)
        return refuse(plan, "rows are too long");
    return true;
}

static bool attention(const struct weft__token_seen *seen, struct weft__token_plan *plan)
{
    if (!is(seen, "weft_attention_token") || seen->more_kernel)
        return refuse(plan, "attention is not that of one token");
    const struct weft__attention_device_args *a = seen->args, *first = &plan->args.attention;
    const bool rounded = constant(seen->kernel, "WEFT_ROUNDED");
    if (a->num_seqs != 1 || a->sinks || a->lse || rounded == is_plain(&seen[1]) ||
        (!rounded && constant(seen->kernel, "WEFT_Y_DTYPE") != 1) ||
        constant(seen->kernel, "WEFT_HEAD_DIM") % 64 || a->num_q_heads * a->q_head_stride <= 0)
        return refuse(plan, "attention has more to do than for one token");
    if (!constant(seen->kernel, "WEFT_BOXES") || !seen->matrices[0].base || !seen->matrices[1].base)
        return refuse(plan, "keys and values do not come in boxes");
    // one plan for all layers: the same kernel, and what differs between plans in the arguments
    if (plan->count &&
        (a->turns != first->turns || a->window != first->window ||
         a->local_chunk != first->local_chunk || a->scale != first->scale ||
         a->softcap != first->softcap || a->q != first->q || a->out != first->out ||
         a->page_table != first->page_table || a->kv_lens != first->kv_lens ||
         a->k.page_stride != first->k.page_stride || a->v.page_stride != first->v.page_stride))
        return refuse(plan, "attention differs from layer to layer");
    return true;
}

// The kernels of all layers: of down in the first format and in the second, of Q, K, V by one launch and, of Q and K, by two.
struct met {
    const struct weft__cuda_kernel *attention, *o, *up, *down[2], *last_down, *qkv[2], *v;
};

// The first that is met, as which all others must be.
static bool is_as_met(const struct weft__cuda_kernel **met, const struct weft__cuda_kernel *kernel)
{
    if (!*met)
        *met = kernel;
    return *met == kernel || (strcmp((*met)->function, kernel->function) == 0 &&
                              memcmp((*met)->values, kernel->values, sizeof kernel->values) == 0);
}

// The same kernels in every layer: formats, shapes, orders of sums.
static bool same_kernels(struct met *met, const struct weft__token_seen *layer, bool last,
                         int32_t format)
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

// Rows of words: what the kernel makes of them is in token_shared.cuh.
static int64_t words_bytes(const struct weft__token_constants *c, int64_t at[WEFT__TOKEN_ROWS + 3])
{
    const int64_t attended = (int64_t)c->WEFT_Q_HEADS * c->WEFT_HEAD_DIM;
    const int64_t heads = attended + 2 * (int64_t)c->WEFT_KV_HEADS * c->WEFT_HEAD_DIM;
    const int64_t unit =
        WEFT__TOKEN_PLAIN(c->WEFT_FORMAT) ? WEFT__TOKEN_NUMBERS_BYTES : WEFT__TOKEN_UNIT_BYTES;
    const int64_t bytes[WEFT__TOKEN_ROWS + 3] = {
        [WEFT__TOKEN_ROW_qkv] = c->WEFT_EMBED / 32 * unit,
        [WEFT__TOKEN_ROW_heads] = heads * 8,
        [WEFT__TOKEN_ROW_attended] = attended / 32 * unit,
        [WEFT__TOKEN_ROW_up] = c->WEFT_EMBED / 32 * unit,
        [WEFT__TOKEN_ROW_down] = c->WEFT_WIDE / 32 * unit,
        [WEFT__TOKEN_ROWS] = attended / 32 * c->WEFT_SPLITS * (32 + 2) * 8,
        [WEFT__TOKEN_ROWS + 1] = (int64_t)c->WEFT_WIDE * 8,
        [WEFT__TOKEN_ROWS + 2] = (WEFT__TOKEN_ROWS + 1) * WEFT__TOKEN_COUNTER_BYTES};
    int64_t sum = 0;
    for (int32_t i = 0; i < WEFT__TOKEN_ROWS + 3; i++) {
        at[i] = sum;
        sum += (bytes[i] + 255) / 256 * 256;
    }
    return sum;
}

static bool has_format(const struct weft__cuda_kernel *kernel, int32_t format, int32_t scales)
{
    return !kernel || (constant(kernel, "WEFT_FORMAT") == format &&
                       constant(kernel, "WEFT_SCALE_DTYPE") == scales);
}

// Two formats at most, the second of V and of down. Orders of sums.
static bool formats_of(const struct met *met, struct weft__token_constants *c,
                       struct weft__token_plan *plan)
{
    const int32_t format = plan->format, scales = constant(met->o, "WEFT_SCALE_DTYPE");
    const bool last_second = constant(met->last_down, "WEFT_FORMAT") != format;
    const struct weft__cuda_kernel *last[2] = {NULL, NULL};
    last[last_second] = met->last_down;
    const struct weft__cuda_kernel *of_second = met->v         ? met->v
                                                : met->down[1] ? met->down[1]
                                                               : last[1];
    const int32_t second = of_second ? constant(of_second, "WEFT_FORMAT") : 0;
    if (!has_format(met->o, format, scales) || !has_format(met->up, format, scales) ||
        !has_format(met->qkv[0], format, scales) || !has_format(met->qkv[1], format, scales) ||
        !has_format(met->v, second, scales) || !has_format(met->down[1], second, scales) ||
        !has_format(last[1], second, scales) || !has_format(met->down[0], format, scales) ||
        !has_format(last[0], format, scales))
        return refuse(plan, "matrices are of several formats");
    const struct weft__cuda_kernel *even[] = {
        [QKV] = met->qkv[0],          [O] = met->o,          [UP] = met->up,
        [DOWN] = met->down[0],        [LAST_DOWN] = last[0], [SECOND_DOWN] = met->down[1],
        [SECOND_LAST_DOWN] = last[1], [SECOND_V] = met->v};
    for (int32_t i = 0; i < (int32_t)(sizeof even / sizeof *even); i++)
        c->WEFT_EVEN |= (even[i] && adds_even(even[i])) << i;
    if ((met->qkv[0] && !adds_even(met->qkv[0])) || (met->qkv[1] && !adds_even(met->qkv[1])) ||
        (met->v && !adds_even(met->v)))
        return refuse(plan, "a matrix adds its sums in another order");
    c->WEFT_SECOND = second;
    c->WEFT_EIGHTS = (constant(met->up, "WEFT_TEAM") == 8 && c->WEFT_EMBED > 8 * 256) << UP;
    if (met->down[1] && constant(met->down[1], "WEFT_TEAM") == 8)
        c->WEFT_EIGHTS |= 1 << SECOND_DOWN;
    if (last[1] && constant(last[1], "WEFT_TEAM") == 8)
        c->WEFT_EIGHTS |= 1 << SECOND_LAST_DOWN;
    return true;
}

static struct weft__token_constants constants_of(const struct weft__token_seen *layer)
{
    const struct weft__cuda_kernel *attention = layer[0].kernel;
    const struct weft__attention_device_args *a = layer[0].args;
    const struct weft__linear_device_args *up = layer[2].args;
    return (struct weft__token_constants){
        .WEFT_FORMAT = constant(layer[1].kernel, "WEFT_FORMAT"),
        .WEFT_FIRST = constant(layer[1].kernel, "WEFT_FORMAT"),
        .WEFT_SCALE_DTYPE = constant(layer[1].kernel, "WEFT_SCALE_DTYPE"),
        .WEFT_EMBED = up->cols,
        .WEFT_WIDE = up->part[0].rows,
        .WEFT_Q_HEADS = a->num_q_heads,
        .WEFT_KV_HEADS = a->num_kv_heads,
        .WEFT_HEAD_DIM = constant(attention, "WEFT_HEAD_DIM"),
        .WEFT_KV_DTYPE = constant(attention, "WEFT_KV_DTYPE"),
        .WEFT_PAGE = constant(attention, "WEFT_PAGE"),
        .WEFT_SOFTCAP = constant(attention, "WEFT_SOFTCAP"),
        .WEFT_ROPE = constant(attention, "WEFT_ROPE"),
        .WEFT_ROTARY = constant(attention, "WEFT_ROTARY"),
        .WEFT_SPLITS = constant(attention, "WEFT_SPLITS"),
        .WEFT_TOKEN_GATE = constant(layer[2].kernel, "WEFT_GATE")};
}

struct ring {
    int64_t slot_bytes, beside; // beside: bytes of shared memory that are not the ring's
    int32_t slots, least, slot_tiles;
};

static int64_t most_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t tile_bytes(int32_t format)
{
    if (WEFT__TOKEN_PLAIN(format))
        return WEFT__TOKEN_PLAIN_TILE_BYTES;
    return weft__linear_packed_bytes(16, WEFT__LINEAR_TILE_COLS,
                                     weft__linear_tile_block_bytes((weft_dtype)format),
                                     weft_dtype_block_elems((weft_dtype)format));
}

static struct ring ring_of(const struct weft__token_constants *c, int64_t shared_per_block)
{
    const bool plain = WEFT__TOKEN_PLAIN(c->WEFT_FORMAT);
    const int64_t tile = tile_bytes(c->WEFT_FORMAT);
    const int32_t slot_tiles = WEFT__TOKEN_SLOT_TILES(tile);
    const int64_t attended = (int64_t)c->WEFT_Q_HEADS * c->WEFT_HEAD_DIM;
    const int64_t longest = most_of(attended, c->WEFT_WIDE);
    const int64_t long_x = plain ? WEFT__TOKEN_PLAIN_X_BYTES(most_of(longest, c->WEFT_EMBED))
                                 : WEFT__TOKEN_LONG_X_BYTES(longest);
    const int64_t states =
        (int64_t)8 * (c->WEFT_Q_HEADS / c->WEFT_KV_HEADS) * (c->WEFT_HEAD_DIM + 4) * 4;
    struct ring ring = {.slot_bytes = slot_tiles * tile, .slot_tiles = slot_tiles};
    ring.beside = (plain ? 0 : WEFT__TOKEN_X_BYTES(c->WEFT_EMBED)) + most_of(long_x, states) +
                  WEFT__TOKEN_SHARED_BYTES;
    const int64_t slots = (shared_per_block - ring.beside) / ring.slot_bytes;
    ring.slots = (int32_t)(slots < WEFT__TOKEN_MOST_SLOTS ? slots : WEFT__TOKEN_MOST_SLOTS);
    ring.least =
        (int32_t)WEFT__TOKEN_LEAST_SLOTS(WEFT__TOKEN_FLIGHT(ring.slot_bytes, plain), slot_tiles);
    return ring;
}

static bool is_known(int32_t format)
{
    return !WEFT__LINEAR_GRID_POINTS(format) && format < 128;
}

// Formats that the kernel has, sizes that agree, an SM for every part; and how many slots the ring has.
static bool fits(const struct weft__token_seen *layer, const struct weft__token_seen *next,
                 struct weft__token_constants *c, const struct weft__cuda_limits *limits,
                 struct weft__token_plan *plan)
{
    const struct weft__linear_device_args *o = layer[1].args, *down = layer[3].args,
                                          *qkv = next->args,
                                          *v = next->more_args ? next->more_args : qkv;
    const int32_t v_rows = v->part[next->more_args ? 0 : 2].rows;
    const int64_t attended = (int64_t)c->WEFT_Q_HEADS * c->WEFT_HEAD_DIM;
    if (c->WEFT_SECOND && (WEFT__TOKEN_PLAIN(c->WEFT_FORMAT) || WEFT__TOKEN_PLAIN(c->WEFT_SECOND)))
        return refuse(plan, "matrices are of several formats");
    if (!is_known(c->WEFT_FORMAT) || !is_known(c->WEFT_SECOND))
        return refuse(plan, "codes of the format are points of a lattice, or its scales of groups");
    const struct ring ring = ring_of(c, limits->shared_per_block);
    if ((c->WEFT_EIGHTS || c->WEFT_SECOND) && ring.slot_tiles != 4)
        return refuse(plan, "tiles are too large for teams of two warps");
    if (c->WEFT_SECOND && 2 * tile_bytes(c->WEFT_SECOND) > ring.slot_bytes)
        return refuse(plan, "tiles of the second format are too large");
    if (!WEFT__TOKEN_KEYS_FIT(ring.slot_bytes, c->WEFT_HEAD_DIM))
        return refuse(plan, "tiles are smaller than those of keys and values");
    if (o->cols != attended || o->part[0].rows != c->WEFT_EMBED || down->cols != c->WEFT_WIDE ||
        down->part[0].rows != c->WEFT_EMBED || qkv->cols != c->WEFT_EMBED ||
        qkv->part[0].rows != attended || qkv->part[1].rows != c->WEFT_KV_HEADS * c->WEFT_HEAD_DIM ||
        v_rows != qkv->part[1].rows)
        return refuse(plan, "sizes of the matrices are not those of a dense layer");
    plan->blocks = (uint32_t)limits->num_sms;
    plan->shared_bytes = (uint32_t)(ring.beside + (ring.slots * ring.slot_bytes + 127) / 128 * 128);
    c->WEFT_SLOTS = ring.slots;
    const int32_t units = c->WEFT_EMBED / (WEFT__TOKEN_PLAIN(c->WEFT_FORMAT) ? 16 : 32);
    plan->uneven = (units + limits->num_sms - 1) / limits->num_sms * limits->num_sms * 100 / units;
    if (limits->sm != 90 || ring.slots < ring.least ||
        c->WEFT_KV_HEADS * c->WEFT_SPLITS > limits->num_sms ||
        (c->WEFT_EMBED / 32 + limits->num_sms - 1) / limits->num_sms > WEFT__TOKEN_MOST_OWN)
        return refuse(plan, "the GPU is another, or too small");
    // a row is written again when every SM has delivered something that it made of it, of Q, K, V or of gate and up
    if ((attended + 2 * (int64_t)c->WEFT_KV_HEADS * c->WEFT_HEAD_DIM) / 16 < limits->num_sms ||
        c->WEFT_WIDE / 16 < limits->num_sms)
        return refuse(plan, "there are SMs without a part of Q, K, V or of gate and up");
    return true;
}

struct measured {
    const char *device;
    weft_dtype format;
    int64_t most_keys;
    int32_t most_uneven;
};

int64_t weft__token_most_keys(const char *device, int32_t format, int32_t uneven)
{
    static const struct measured list[] = {
#define X(device, format, most_keys, most_uneven) {device, format, most_keys, most_uneven},
#include "src/kernels/token/token_devices.def"
#undef X
    };
    int64_t most = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (strncmp(device, list[i].device, strlen(list[i].device)) == 0 &&
            (format == 0 || (int32_t)list[i].format == format) &&
            (list[i].most_uneven == 0 || uneven <= list[i].most_uneven) && list[i].most_keys > most)
            most = list[i].most_keys;
    return most;
}

static void kernel_of(const struct weft__token_constants *constants,
                      struct weft__cuda_kernel *kernel)
{
    *kernel = (struct weft__cuda_kernel){.file = "src/kernels/token/token.cu",
                                         .function = "weft_token",
                                         .names = weft__token_constant_names,
                                         .num_constants = sizeof *constants / sizeof(int32_t)};
    memcpy(kernel->values, constants, sizeof *constants);
}

void weft__token_sample(weft_dtype format, weft_dtype second, int32_t even,
                        struct weft__cuda_kernel *kernel)
{
    enum { H200_BYTES = 232448 };
    struct weft__token_constants constants = {.WEFT_FORMAT = (int32_t)format,
                                              .WEFT_FIRST = (int32_t)format,
                                              .WEFT_SCALE_DTYPE = (int32_t)WEFT_F16,
                                              .WEFT_EMBED = 4096,
                                              .WEFT_WIDE = 14336,
                                              .WEFT_Q_HEADS = 32,
                                              .WEFT_KV_HEADS = 8,
                                              .WEFT_HEAD_DIM = 128,
                                              .WEFT_KV_DTYPE = (int32_t)WEFT_F16,
                                              .WEFT_PAGE = 32,
                                              .WEFT_ROPE = 1,
                                              .WEFT_ROTARY = 128,
                                              .WEFT_SPLITS = 8,
                                              .WEFT_TOKEN_GATE = 1,
                                              .WEFT_SECOND = (int32_t)second,
                                              .WEFT_EIGHTS = (format == WEFT_Q4_K) << UP |
                                                             (second != 0) << SECOND_DOWN,
                                              .WEFT_EVEN = even};
    constants.WEFT_SLOTS = ring_of(&constants, H200_BYTES).slots;
    kernel_of(&constants, kernel);
}

static bool take_all(const struct weft__token_seen *seen, int32_t count,
                     const struct weft__cuda_limits *limits, struct weft__token_plan *plan)
{
    const struct weft__token_seen *first = seen + plan->first;
    const int32_t left = count - plan->first;
    if (left < LAYER + 1 || (!is(&first[1], "weft_linear_few") && !is_plain(&first[1])))
        return refuse(plan, "there are not two layers");
    const struct weft__linear_device_args *o = first[1].args;
    const void *stream = o->residual;
    plan->args.attention = *(const struct weft__attention_device_args *)first[0].args;
    plan->args.stream = plan->args.result = (float *)stream;
    plan->format = constant(first[1].kernel, "WEFT_FORMAT");
    struct met met = {0};
    int32_t l = 0;
    for (bool more = true; more; l++, plan->count = l * LAYER - 1) {
        const struct weft__token_seen *layer = first + l * LAYER;
        if (l == WEFT__TOKEN_MOST_LAYERS || !take_layer(layer, left - l * LAYER, l, stream, plan))
            return false;
        more = left > (l + 1) * LAYER && is(&layer[LAYER], "weft_attention_token");
        if (!same_kernels(&met, layer, !more, plan->format))
            return refuse(plan, "layers are made by different kernels");
    }
    if (l < 2)
        return refuse(plan, "there are not two layers");
    const struct weft__linear_device_args *up = first[2].args;
    plan->args.num_layers = l;
    plan->most_keys =
        plan->args.attention.page_table_stride * constant(first[0].kernel, "WEFT_PAGE");
    plan->args.up_eps = up->norm_eps;
    // of all norms of a model
    plan->args.norm_plus = is_plain(&first[1]) ? up->norm_weight_plus : o->next_weight_plus;
    struct weft__token_constants constants = constants_of(first);
    if (!formats_of(&met, &constants, plan) ||
        !fits(first, &first[LAYER - 1], &constants, limits, plan))
        return false;
    int64_t at[WEFT__TOKEN_ROWS + 3];
    plan->words_bytes = words_bytes(&constants, at);
    kernel_of(&constants, &plan->kernel);
    return true;
}

bool weft__token_find(const struct weft__token_seen *seen, int32_t count,
                      const struct weft__cuda_limits *limits, struct weft__token_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    while (plan->first < count && !is(&seen[plan->first], "weft_attention_token"))
        plan->first++;
    return take_all(seen, count, limits, plan);
}

void weft__token_step(const struct weft__token_plan *plan, const void *layers, void *words,
                      struct weft__cuda_step *step)
{
    struct weft__token_args args = plan->args;
    struct weft__token_constants constants;
    int64_t at[WEFT__TOKEN_ROWS + 3];
    char *base = words;
    memcpy(&constants, plan->kernel.values, sizeof constants);
    words_bytes(&constants, at);
    args.layers = layers;
    for (int32_t i = 0; i < WEFT__TOKEN_ROWS; i++)
        args.rows[i] = base + at[i];
    args.heads = args.rows[WEFT__TOKEN_ROW_heads];
    args.pieces = (uint64_t *)(void *)(base + at[WEFT__TOKEN_ROWS]);
    args.halves = (uint64_t *)(void *)(base + at[WEFT__TOKEN_ROWS + 1]);
    args.launches = (uint32_t *)(void *)(base + at[WEFT__TOKEN_ROWS + 2]);
    weft__cuda_step(step, 0, plan->blocks, 1, WEFT__TOKEN_THREADS, &args, sizeof args);
    step->shared_bytes = plan->shared_bytes;
    step->cooperative = step->overlap = 1;
}
