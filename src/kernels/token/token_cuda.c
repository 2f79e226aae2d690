// SPDX-License-Identifier: MIT
// The one launch in place of a dense model's layers (token_layers_cuda.c): its formats, sizes, memory and geometry.
#include "src/kernels/token/token_layers.h"

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
    X(WEFT_BEGINS)                                                                                 \
    X(WEFT_LOGITS)                                                                                 \
    X(WEFT_LOGITS_SECOND)                                                                          \
    X(WEFT_SLOTS)                                                                                  \
    X(WEFT_FIRST)                                                                                  \
    X(WEFT_SECOND)                                                                                 \
    X(WEFT_EIGHTS)                                                                                 \
    X(WEFT_EVEN)
WEFT__CUDA_CONSTANTS(token, TOKEN_CONSTANTS)

// In the order of a layer; bits of WEFT_EVEN are those of enum kind (token_shared.cuh).
enum { QKV, O, UP, DOWN, LAST_DOWN, SECOND_DOWN, SECOND_LAST_DOWN, SECOND_V };

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
        [WEFT__TOKEN_ROWS + 2] = (WEFT__TOKEN_ROWS + 2) * WEFT__TOKEN_COUNTER_BYTES};
    int64_t sum = 0;
    for (int32_t i = 0; i < WEFT__TOKEN_ROWS + 3; i++) {
        at[i] = sum;
        sum += (bytes[i] + 255) / 256 * 256;
    }
    return sum;
}

static bool has_format(const struct weft__cuda_kernel *kernel, int32_t format, int32_t scales)
{
    return !kernel || (weft__token_constant(kernel, "WEFT_FORMAT") == format &&
                       weft__token_constant(kernel, "WEFT_SCALE_DTYPE") == scales);
}

// Two formats at most, the second of V and of down. Orders of sums.
static bool formats_of(const struct weft__token_met *met, struct weft__token_constants *c,
                       struct weft__token_plan *plan)
{
    const int32_t format = plan->format, scales = weft__token_constant(met->o, "WEFT_SCALE_DTYPE");
    const bool last_second = weft__token_constant(met->last_down, "WEFT_FORMAT") != format;
    const struct weft__cuda_kernel *last[2] = {NULL, NULL};
    last[last_second] = met->last_down;
    const struct weft__cuda_kernel *of_second = met->v         ? met->v
                                                : met->down[1] ? met->down[1]
                                                               : last[1];
    const int32_t second = of_second ? weft__token_constant(of_second, "WEFT_FORMAT") : 0;
    if (!has_format(met->o, format, scales) || !has_format(met->up, format, scales) ||
        !has_format(met->qkv[0], format, scales) || !has_format(met->qkv[1], format, scales) ||
        !has_format(met->v, second, scales) || !has_format(met->down[1], second, scales) ||
        !has_format(last[1], second, scales) || !has_format(met->down[0], format, scales) ||
        !has_format(last[0], format, scales))
        return weft__token_refuse(plan, "matrices are of several formats");
    const struct weft__cuda_kernel *even[] = {
        [QKV] = met->qkv[0],          [O] = met->o,          [UP] = met->up,
        [DOWN] = met->down[0],        [LAST_DOWN] = last[0], [SECOND_DOWN] = met->down[1],
        [SECOND_LAST_DOWN] = last[1], [SECOND_V] = met->v};
    for (int32_t i = 0; i < (int32_t)(sizeof even / sizeof *even); i++)
        c->WEFT_EVEN |= (even[i] && weft__token_adds_even(even[i])) << i;
    if ((met->qkv[0] && !weft__token_adds_even(met->qkv[0])) ||
        (met->qkv[1] && !weft__token_adds_even(met->qkv[1])) ||
        (met->v && !weft__token_adds_even(met->v)))
        return weft__token_refuse(plan, "a matrix adds its sums in another order");
    c->WEFT_SECOND = second;
    if (met->down[1] && weft__token_constant(met->down[1], "WEFT_TEAM") == 8)
        c->WEFT_EIGHTS |= 1 << SECOND_DOWN;
    if (last[1] && weft__token_constant(last[1], "WEFT_TEAM") == 8)
        c->WEFT_EIGHTS |= 1 << SECOND_LAST_DOWN;
    return true;
}

static struct weft__token_constants constants_of(const struct weft__token_seen *layer)
{
    const struct weft__cuda_kernel *attention = layer[0].kernel;
    const struct weft__attention_device_args *a = layer[0].args;
    const struct weft__linear_device_args *up = layer[2].args;
    return (struct weft__token_constants){
        .WEFT_FORMAT = weft__token_constant(layer[1].kernel, "WEFT_FORMAT"),
        .WEFT_FIRST = weft__token_constant(layer[1].kernel, "WEFT_FORMAT"),
        .WEFT_SCALE_DTYPE = weft__token_constant(layer[1].kernel, "WEFT_SCALE_DTYPE"),
        .WEFT_EMBED = up->cols,
        .WEFT_WIDE = up->part[0].rows,
        .WEFT_Q_HEADS = a->num_q_heads,
        .WEFT_KV_HEADS = a->num_kv_heads,
        .WEFT_HEAD_DIM = weft__token_constant(attention, "WEFT_HEAD_DIM"),
        .WEFT_KV_DTYPE = weft__token_constant(attention, "WEFT_KV_DTYPE"),
        .WEFT_PAGE = weft__token_constant(attention, "WEFT_PAGE"),
        .WEFT_SOFTCAP = weft__token_constant(attention, "WEFT_SOFTCAP"),
        .WEFT_ROPE = weft__token_constant(attention, "WEFT_ROPE"),
        .WEFT_ROTARY = weft__token_constant(attention, "WEFT_ROTARY"),
        .WEFT_SPLITS = weft__token_constant(attention, "WEFT_SPLITS"),
        .WEFT_TOKEN_GATE = weft__token_constant(layer[2].kernel, "WEFT_GATE")};
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

// Shared memory of an embedding's block, with what the device keeps of it.
enum { BESIDE_BYTES = 6 * 1024 };

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
    ring.least =
        (int32_t)WEFT__TOKEN_LEAST_SLOTS(WEFT__TOKEN_FLIGHT(ring.slot_bytes, plain), slot_tiles);
    // small launches before run on the same SMs while weights come already, if that costs no slot that must be
    const int64_t all = shared_per_block - ring.beside, rest = all - (plain ? 0 : BESIDE_BYTES);
    int64_t slots = rest / ring.slot_bytes;
    slots = most_of(slots, all / ring.slot_bytes < ring.least ? all / ring.slot_bytes : ring.least);
    ring.slots = (int32_t)(slots < WEFT__TOKEN_MOST_SLOTS ? slots : WEFT__TOKEN_MOST_SLOTS);
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
        return weft__token_refuse(plan, "matrices are of several formats");
    if (!is_known(c->WEFT_FORMAT) || !is_known(c->WEFT_SECOND))
        return weft__token_refuse(
            plan, "codes of the format are points of a lattice, or its scales of groups");
    const struct ring ring = ring_of(c, limits->shared_per_block);
    if (c->WEFT_SECOND && ring.slot_tiles != 4)
        return weft__token_refuse(plan, "tiles are too large for teams of two warps");
    if (c->WEFT_SECOND && 2 * tile_bytes(c->WEFT_SECOND) > ring.slot_bytes)
        return weft__token_refuse(plan, "tiles of the second format are too large");
    if (!WEFT__TOKEN_KEYS_FIT(ring.slot_bytes, c->WEFT_HEAD_DIM))
        return weft__token_refuse(plan, "tiles are smaller than those of keys and values");
    if (o->cols != attended || o->part[0].rows != c->WEFT_EMBED || down->cols != c->WEFT_WIDE ||
        down->part[0].rows != c->WEFT_EMBED || qkv->cols != c->WEFT_EMBED ||
        qkv->part[0].rows != attended || qkv->part[1].rows != c->WEFT_KV_HEADS * c->WEFT_HEAD_DIM ||
        v_rows != qkv->part[1].rows)
        return weft__token_refuse(plan, "sizes of the matrices are not those of a dense layer");
    plan->blocks = (uint32_t)limits->num_sms;
    plan->shared_bytes = (uint32_t)(ring.beside + (ring.slots * ring.slot_bytes + 127) / 128 * 128);
    c->WEFT_SLOTS = ring.slots;
    const int32_t units = c->WEFT_EMBED / (WEFT__TOKEN_PLAIN(c->WEFT_FORMAT) ? 16 : 32);
    plan->uneven = (units + limits->num_sms - 1) / limits->num_sms * limits->num_sms * 100 / units;
    if (limits->sm != 90 || ring.slots < ring.least ||
        c->WEFT_KV_HEADS * c->WEFT_SPLITS > limits->num_sms ||
        (c->WEFT_EMBED / 32 + limits->num_sms - 1) / limits->num_sms > WEFT__TOKEN_MOST_OWN)
        return weft__token_refuse(plan, "the GPU is another, or too small");
    // a row is written again when every SM has delivered something that it made of it, of Q, K, V or of gate and up
    if ((attended + 2 * (int64_t)c->WEFT_KV_HEADS * c->WEFT_HEAD_DIM) / 16 < limits->num_sms ||
        c->WEFT_WIDE / 16 < limits->num_sms)
        return weft__token_refuse(plan,
                                  "there are SMs without a part of Q, K, V or of gate and up");
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
    if (strstr(device, " MIG ")) // fewer SMs, less of the bandwidth: not measured
        return 0;
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
                                              .WEFT_EIGHTS = (second != 0) << SECOND_DOWN,
                                              .WEFT_BEGINS = !WEFT__TOKEN_PLAIN(format),
                                              .WEFT_LOGITS = WEFT__TOKEN_PLAIN(format) ? 0 : 128256,
                                              .WEFT_LOGITS_SECOND = second != 0,
                                              .WEFT_EVEN = even};
    constants.WEFT_SLOTS = ring_of(&constants, H200_BYTES).slots;
    kernel_of(&constants, kernel);
}

bool weft__token_find(const struct weft__token_seen *seen, int32_t count,
                      const struct weft__cuda_limits *limits, struct weft__token_plan *plan)
{
    struct weft__token_met met = {0};
    memset(plan, 0, sizeof *plan);
    if (!weft__token_take_layers(seen, count, &met, plan))
        return false;
    const struct weft__token_seen *first = seen + plan->first;
    struct weft__token_constants constants = constants_of(first);
    if (!formats_of(&met, &constants, plan) ||
        !fits(first, &first[WEFT__TOKEN_LAUNCHES - 1], &constants, limits, plan))
        return false;
    int64_t at[WEFT__TOKEN_ROWS + 3];
    constants.WEFT_BEGINS = plan->begins;
    if (plan->first + plan->count < count)
        weft__token_take_logits(first + plan->count, constants.WEFT_EMBED, constants.WEFT_SECOND,
                                plan);
    if (plan->ends && plan->first + plan->count < count)
        weft__token_take_choice(first + plan->count, limits, plan);
    constants.WEFT_LOGITS = plan->rows;
    constants.WEFT_LOGITS_SECOND = plan->rows_second;
    if (plan->rows_second)
        constants.WEFT_EVEN |= 1 << SECOND_V;
    plan->words_bytes = words_bytes(&constants, at);
    kernel_of(&constants, &plan->kernel);
    return true;
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
