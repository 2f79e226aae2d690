// SPDX-License-Identifier: MIT
// Which launches of a program token.cu takes the place of (src/kernels/token/token_layers_cuda.c): a dense
// model's layers are found among what stands around them, and each thing that the kernel does not do is a
// reason to leave them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "src/kernels/linear/linear_device.h"
#include "src/kernels/sample/sample_device.h"
#include "src/kernels/token/token_kernel.h"

enum { LAYERS = 3, BEFORE = 2, PER_LAYER = 5, COUNT = BEFORE + PER_LAYER * LAYERS, BEHIND = 1 };
enum { EMBED = 2048, WIDE = 2304, Q_HEADS = 32, KV_HEADS = 4, HEAD_DIM = 64 };

static const char *const names[] = {"WEFT_FORMAT",  "WEFT_TEAM",     "WEFT_BATCH",   "WEFT_SPLIT",
                                    "WEFT_GATE",    "WEFT_ROUND",    "WEFT_PAIR",    "WEFT_Y_DTYPE",
                                    "WEFT_ROUNDED", "WEFT_HEAD_DIM", "WEFT_BOXES",   "WEFT_PAGE",
                                    "WEFT_SPLITS",  "WEFT_X_DTYPE",  "WEFT_ALIGNED", "WEFT_WARPS",
                                    "WEFT_APART",   "WEFT_TWIN",     "X_DTYPE"};
enum {
    FORMAT,
    TEAM,
    BATCH,
    SPLIT,
    GATE,
    ROUND,
    PAIR,
    Y_DTYPE,
    ROUNDED,
    DIM,
    BOXES,
    PAGE,
    SPLITS,
    X_DTYPE,
    ALIGNED,
    WARPS,
    APART,
    TWIN,
    LOGITS_DTYPE,
    NAMES
};

enum { ATTENTION, O, UP, DOWN, QKV, LAST_DOWN, MORE_V, KERNELS };
static struct weft__cuda_kernel kernels[KERNELS];
static struct weft__attention_device_args attention[LAYERS];
static struct weft__linear_device_args linear[LAYERS][PER_LAYER]; // by kernel
static struct weft__linear_device_args values[LAYERS]; // V where it is a launch of its own
static struct weft__token_seen seen[COUNT + BEHIND];
static struct weft__cuda_matrix maps[LAYERS][2];
static struct weft__token_plan plan;
static const struct weft__cuda_limits h200 = {90, 132, 232448, 233472, 65536, 2048, 60 << 20};

// Addresses that nobody reads.
static _Alignas(16) char memory[4096];
#define AT(n) ((void *)(memory + (n)))

static void make_kernels(void)
{
    memset(kernels, 0, sizeof kernels);
    for (int i = 0; i < KERNELS; i++) {
        struct weft__cuda_kernel *k = &kernels[i];
        k->function = i == ATTENTION ? "weft_attention_token" : "weft_linear_few";
        k->names = names, k->num_constants = NAMES;
        k->values[FORMAT] = 33, k->values[TEAM] = 16, k->values[Y_DTYPE] = 1;
        k->values[BATCH] = k->values[SPLIT] = 1;
        k->values[ROUNDED] = 1, k->values[DIM] = HEAD_DIM, k->values[BOXES] = 1,
        k->values[PAGE] = 16;
        k->values[SPLITS] = 8;
        k->values[GATE] = i == UP, k->values[ROUND] = i == O || i == UP || i == DOWN;
        k->values[PAIR] = i == O || i == DOWN;
    }
}

static void set_all(int constant, int32_t value)
{
    for (int i = 0; i < KERNELS; i++)
        kernels[i].values[constant] = value;
}

static struct weft__linear_device_args matrix(int parts, int32_t rows, int32_t cols)
{
    struct weft__linear_device_args args = {.batch = 1, .cols = cols, .num_parts = parts};
    for (int p = 0; p < parts; p++)
        args.part[p] =
            (struct weft__linear_device_part){.rows = rows, .alpha = 1, .weight = AT(1000 + p)};
    return args;
}

static void make_layer(int l)
{
    struct weft__linear_device_args *of = linear[l];
    attention[l] = (struct weft__attention_device_args){.num_seqs = 1,
                                                        .num_q_heads = Q_HEADS,
                                                        .num_kv_heads = KV_HEADS,
                                                        .q_head_stride = HEAD_DIM,
                                                        .page_table_stride = 40,
                                                        .q = AT(0),
                                                        .new_k = AT(4),
                                                        .new_v = AT(8),
                                                        .out = AT(12),
                                                        .k = {AT(100 + l), 0, 0, HEAD_DIM},
                                                        .v = {AT(200 + l), 0, 0, HEAD_DIM}};
    maps[l][0].base = AT(100 + l), maps[l][1].base = AT(200 + l);
    of[O] = matrix(1, EMBED, Q_HEADS * HEAD_DIM);
    of[O].x = AT(12), of[O].residual = of[O].part[0].y = AT(16), of[O].rounded = AT(20);
    of[UP] = matrix(2, WIDE, EMBED);
    of[UP].x = AT(20), of[UP].norm = 1, of[UP].norm_eps = 1e-5f, of[UP].rounded = AT(24);
    of[DOWN] = matrix(1, EMBED, WIDE);
    of[DOWN].x = AT(24), of[DOWN].residual = of[DOWN].part[0].y = AT(16);
    of[DOWN].rounded = l + 1 < LAYERS ? AT(20) : NULL;
    of[QKV] = matrix(3, KV_HEADS * HEAD_DIM, EMBED);
    of[QKV].part[0].rows = Q_HEADS * HEAD_DIM;
    of[QKV].x = AT(20), of[QKV].norm = 1, of[QKV].norm_eps = 1e-6f;
    of[QKV].part[0].y = AT(0), of[QKV].part[1].y = AT(4), of[QKV].part[2].y = AT(8);
}

// An embedding, the first Q, K, V; the layers; something that reads the last.
static int make(void **state)
{
    (void)state;
    make_kernels();
    memset(seen, 0, sizeof seen);
    for (int l = 0; l < LAYERS; l++) {
        make_layer(l);
        for (int i = 0; i < PER_LAYER; i++) {
            struct weft__token_seen *at = &seen[BEFORE + l * PER_LAYER + i];
            const bool last = l + 1 == LAYERS;
            if (last && i == QKV)
                continue;
            at->kernel = &kernels[last && i == DOWN ? LAST_DOWN : i];
            at->matrices = i == ATTENTION ? maps[l] : NULL;
            at->args = i == ATTENTION ? (void *)&attention[l] : (void *)&linear[l][i];
        }
    }
    seen[1] = (struct weft__token_seen){.kernel = &kernels[QKV], .args = &linear[0][QKV]};
    return 0;
}

// The same of plain weights: numbers go from launch to launch, norms are read with them.
static void make_plain(void)
{
    make(NULL);
    for (int i = 0; i < KERNELS; i++) {
        struct weft__cuda_kernel *k = &kernels[i];
        k->values[ROUND] = k->values[PAIR] = k->values[ROUNDED] = 0;
        if (i == ATTENTION)
            continue;
        k->function = "weft_linear_numbers", k->values[FORMAT] = 3;
        k->values[X_DTYPE] = k->values[ALIGNED] = 1, k->values[WARPS] = 16;
    }
    for (int l = 0; l < LAYERS; l++) {
        struct weft__linear_device_args *of = linear[l];
        of[O].rounded = of[UP].rounded = of[DOWN].rounded = NULL;
        of[UP].x = of[QKV].x = AT(16), of[UP].part[0].y = AT(24);
        of[UP].norm_weight = (void *)AT(64 * l), of[QKV].norm_weight = (void *)AT(64 * l + 16);
        of[UP].norm_weight_plus = of[QKV].norm_weight_plus = 1;
        for (int i = O; i < PER_LAYER; i++)
            for (int p = 0; p < of[i].num_parts; p++)
                of[i].part[p].weight = AT(1024 + 256 * l + 64 * i + 16 * p),
                of[i].part[p].weight_stride_bytes = 2 * of[i].cols;
    }
}

// V of layers 1 and 2 is of another format than Q and K.
static void with_values_alone(void)
{
    kernels[MORE_V].values[FORMAT] = 50;
    for (int l = 0; l + 1 < LAYERS; l++) {
        struct weft__token_seen *at = &seen[BEFORE + l * PER_LAYER + QKV];
        values[l] = linear[l][QKV];
        values[l].num_parts = 1, values[l].part[0] = linear[l][QKV].part[2];
        values[l].part[0].weight = AT(1500 + l);
        linear[l][QKV].num_parts = 2;
        at->more_kernel = &kernels[MORE_V], at->more_args = &values[l];
    }
}

static bool found(void)
{
    return weft__token_find(seen, COUNT + BEHIND, &h200, &plan);
}

static void layers_are_found(void **state)
{
    (void)state;
    assert_true(found());
    assert_int_equal(plan.first, BEFORE);
    assert_int_equal(plan.count, PER_LAYER * LAYERS - 1);
    assert_int_equal(plan.args.num_layers, LAYERS);
    assert_ptr_equal(plan.args.stream, AT(16));
    assert_ptr_equal(plan.layers[2].keys, AT(102));
    assert_ptr_equal(plan.maps[2][0].base, AT(102));
    assert_ptr_equal(plan.maps[1][1].base, AT(201));
    assert_ptr_equal(plan.layers[1].v, AT(1002));
    assert_null(plan.layers[0].q);
    assert_true(plan.args.up_eps == 1e-5f && plan.args.qkv_eps == 1e-6f);
    assert_int_equal(plan.blocks, 132);
    assert_int_equal(plan.uneven, 206); // 64 units
    assert_int_equal(plan.format, 33);
    assert_int_equal(plan.most_keys, 40 * 16);
    struct weft__cuda_step step;
    weft__token_step(&plan, AT(0), AT(256), &step);
    assert_int_equal(step.cooperative, 1);
    assert_true(step.shared_bytes <= (uint32_t)h200.shared_per_block);
    const struct weft__token_args *args = (const void *)step.args;
    assert_true((char *)args->launches < memory + 256 + plan.words_bytes);
}

// Each of these alone makes the layers another model's, or sums of another order.
static void anything_else_is_left(void **state)
{
#define LEFT(change)                                                                               \
    do {                                                                                           \
        make(NULL);                                                                                \
        change;                                                                                    \
        assert_false(found());                                                                     \
        assert_true(plan.why[0]);                                                                  \
    } while (0)
    (void)state;
    LEFT(linear[1][O].part[0].bias = AT(0));
    LEFT(linear[1][UP].part[1].alpha = 2);
    LEFT(linear[0][QKV].part[2].bias = AT(0));
    LEFT(linear[1][DOWN].residual = AT(44));
    LEFT(linear[1][O].x = AT(44));
    LEFT(linear[0][QKV].part[1].y = AT(44));
    LEFT(linear[1][UP].norm = 0);
    LEFT(attention[1].sinks = AT(0));
    LEFT(maps[1][1].base = NULL);
    LEFT(kernels[ATTENTION].values[BOXES] = 0);
    LEFT(attention[2].window = 512);
    LEFT(attention[0].num_seqs = 2);
    LEFT(kernels[DOWN].values[SPLIT] = 2);
    LEFT(kernels[UP].values[TEAM] = 1);
    LEFT(set_all(FORMAT, 66));
    assert_non_null(strstr(plan.why, "lattice"));
    LEFT(set_all(FORMAT, 46); set_all(DIM, 2 * HEAD_DIM));
    assert_non_null(strstr(plan.why, "tiles are smaller"));
    LEFT(kernels[O].values[FORMAT] = 50);
    LEFT(kernels[UP].values[FORMAT] = 50);
    LEFT(kernels[QKV].values[FORMAT] = 50);
    LEFT(kernels[DOWN].values[FORMAT] = 50; kernels[LAST_DOWN].values[FORMAT] = 48);
    assert_non_null(strstr(plan.why, "several formats"));
    LEFT(set_all(FORMAT, 47); kernels[DOWN].values[FORMAT] = 32);
    assert_non_null(strstr(plan.why, "second format are too large"));
    LEFT(kernels[DOWN].values[TEAM] = 8);
    LEFT(with_values_alone(); kernels[MORE_V].values[TEAM] = 4);
    LEFT(with_values_alone(); values[1].part[0].y = AT(44));
    LEFT(with_values_alone(); values[0].norm_eps = 1e-5f);
    LEFT(with_values_alone(); kernels[MORE_V].values[FORMAT] = 33);
    LEFT(with_values_alone(); kernels[MORE_V].values[ROUND] = 1);
    LEFT(seen[BEFORE + PER_LAYER + O].more_kernel = &kernels[MORE_V];
         seen[BEFORE + PER_LAYER + O].more_args = &values[0]);
    LEFT(kernels[QKV].values[BATCH] = 8);
    LEFT(kernels[ATTENTION].function = "weft_attention_decode");
    LEFT(linear[0][O].cols = 500);
    LEFT(seen[BEFORE + PER_LAYER + UP].kernel = NULL);
    LEFT(memset(&seen[BEFORE + PER_LAYER], 0, 9 * sizeof *seen)); // one layer
}

static void layers_of_plain_weights_are_found(void **state)
{
    (void)state;
    make_plain();
    assert_true(found());
    assert_int_equal(plan.uneven, 103); // 128 units
    assert_true(plan.args.norm_plus == 1);
    assert_ptr_equal(plan.layers[1].up_norm, AT(64));
    assert_ptr_equal(plan.layers[0].next_norm, AT(16));
    assert_null(plan.layers[LAYERS - 1].next_norm);
    const struct weft__cuda_matrix *o = &plan.weights[1][WEFT__TOKEN_MAP_o],
                                   *up = &plan.weights[2][WEFT__TOKEN_MAP_up],
                                   *v = &plan.weights[1][WEFT__TOKEN_MAP_v];
    assert_ptr_equal(o->base, AT(1024 + 256 + 64 * O));
    assert_int_equal(o->piles[0], 2048 / 64);
    assert_int_equal(o->box_matrices, 2);
    assert_ptr_equal(up->base, AT(1024 + 512 + 64 * UP + 16));
    assert_int_equal(up->piles[0], EMBED / 64);
    assert_ptr_equal(v->base, AT(1024 + 64 * QKV + 32)); // asked for in the layer before
    assert_int_equal(v->rows, KV_HEADS * HEAD_DIM);
    assert_null(plan.weights[0][WEFT__TOKEN_MAP_q].base);
}

// What plain weights alone may not be.
static void other_plain_weights_are_left(void **state)
{
#define LEFT_PLAIN(change)                                                                         \
    do {                                                                                           \
        make_plain();                                                                              \
        change;                                                                                    \
        assert_false(found());                                                                     \
        assert_true(plan.why[0]);                                                                  \
    } while (0)
    (void)state;
    LEFT_PLAIN(set_all(FORMAT, 1)); // of 32 bits
    LEFT_PLAIN(kernels[UP].values[ALIGNED] = 0);
    LEFT_PLAIN(kernels[O].values[WARPS] = 8);
    LEFT_PLAIN(kernels[O].values[X_DTYPE] = 3);
    LEFT_PLAIN(kernels[ATTENTION].values[ROUNDED] = 1);
    LEFT_PLAIN(linear[1][UP].x = AT(20));
    LEFT_PLAIN(linear[1][UP].norm_weight = (void *)AT(4));
    LEFT_PLAIN(linear[1][QKV].x = AT(20));
    LEFT_PLAIN(linear[1][DOWN].x = AT(28));
    LEFT_PLAIN(linear[0][O].part[0].bias = AT(0));
    LEFT_PLAIN(kernels[DOWN].values[FORMAT] = 2);
    LEFT_PLAIN(with_values_alone());
    LEFT_PLAIN(kernels[DOWN].function = "weft_linear_few"; kernels[DOWN].values[FORMAT] = 33);
}

static void other_devices_are_left(void **state)
{
    (void)state;
    struct weft__cuda_limits limits = h200;
    limits.sm = 80;
    assert_false(weft__token_find(seen, COUNT, &limits, &plan));
    limits = h200, limits.num_sms = 31; // 32 parts of the keys
    assert_false(weft__token_find(seen, COUNT, &limits, &plan));
    limits.num_sms = 32;
    assert_true(weft__token_find(seen, COUNT, &limits, &plan));
    limits.num_sms = WIDE / 16; // units of gate and up; Q, K, V have 160
    assert_true(weft__token_find(seen, COUNT, &limits, &plan));
    limits.num_sms++;
    assert_false(weft__token_find(seen, COUNT, &limits, &plan));
}

// V by a launch of its own, down of the last layer: which layers have the second format.
static void a_second_format_is_found(void **state)
{
    (void)state;
    with_values_alone();
    kernels[LAST_DOWN].values[FORMAT] = 50;
    assert_true(found());
    assert_int_equal(plan.args.second_v[0], 6);
    assert_int_equal(plan.args.second_down[0], 4);
    assert_ptr_equal(plan.layers[1].v, AT(1500));
    assert_ptr_equal(plan.layers[1].k, AT(1001));
    assert_int_equal(plan.kernel.values[plan.kernel.num_constants - 3], 50);
    assert_int_equal(plan.kernel.values[plan.kernel.num_constants - 2], 0);
    assert_int_equal(plan.format, 33);
    make(NULL);
    kernels[DOWN].values[FORMAT] = 50, kernels[DOWN].values[TEAM] = 8;
    assert_true(found());
    assert_int_equal(plan.args.second_v[0], 0);
    assert_int_equal(plan.args.second_down[0], 3);
    assert_int_equal(plan.kernel.values[plan.kernel.num_constants - 2], 1 << 5); // in eights
}

// Rows of nine to sixteen tiles of gate and up in teams of eight warps: their sums must have stayed apart.
static void sums_apart_are_found(void **state)
{
    (void)state;
    enum { WIDER = 2304 };
    kernels[UP].values[TEAM] = 8;
    assert_true(found()); // eight tiles a row
    for (int l = 0; l < LAYERS; l++) {
        linear[l][O].part[0].rows = linear[l][DOWN].part[0].rows = WIDER;
        linear[l][UP].cols = linear[l][QKV].cols = WIDER;
    }
    assert_false(found());
    kernels[UP].values[APART] = 1;
    assert_true(found());
    assert_int_equal(plan.kernel.values[plan.kernel.num_constants - 2], 0);
}

static const struct weft__linear_round_args of_stream = {
    .x = AT(16), .weight = (void *)AT(64), .rounded = AT(20), .batch = 1, .cols = EMBED};

static void with_first(void)
{
    make(NULL);
    seen[1].round = &of_stream;
}

static int32_t constant(const char *name)
{
    for (int32_t i = 0; i < plan.kernel.num_constants; i++)
        if (strcmp(plan.kernel.names[i], name) == 0)
            return plan.kernel.values[i];
    return -1;
}

static int32_t begins(void)
{
    return constant("WEFT_BEGINS");
}

// The first Q, K, V whose X a launch before rounds.
static void the_first_are_taken(void **state)
{
    (void)state;
    with_first();
    assert_true(found());
    assert_true(plan.begins && begins() == 1);
    assert_ptr_equal(plan.layers[0].q, AT(1000));
    assert_ptr_equal(plan.layers[0].v, AT(1002));
    assert_ptr_equal(plan.args.first_x, AT(20));
    assert_int_equal(plan.args.second_v[0], 0);
    with_first();
    with_values_alone(); // of the others, and of the first
    seen[1].more_kernel = &kernels[MORE_V], seen[1].more_args = &values[0];
    assert_true(found() && plan.begins);
    assert_int_equal(plan.args.second_v[0], 7);
    assert_ptr_equal(plan.layers[0].v, AT(1500));
}

// Each of these leaves them a launch of their own.
static void others_are_left_before(void **state)
{
    (void)state;
#define STAYS(change)                                                                              \
    do {                                                                                           \
        struct weft__linear_round_args round = of_stream;                                          \
        struct weft__linear_device_args first = linear[0][QKV];                                    \
        struct weft__cuda_kernel kernel = kernels[QKV];                                            \
        with_first();                                                                              \
        seen[1].args = &first;                                                                     \
        change;                                                                                    \
        assert_true(found());                                                                      \
        assert_false(plan.begins);                                                                 \
        (void)round, (void)kernel;                                                                 \
    } while (0)
    STAYS(seen[1].round = NULL);
    assert_int_equal(begins(), 0);
    assert_null(plan.layers[0].q);
    STAYS(round.x = AT(44); seen[1].round = &round);
    STAYS(round.batch = 2; seen[1].round = &round);
    STAYS(first.x = AT(44));
    STAYS(first.norm_eps = 1);
    STAYS(first.part[1].bias = AT(0));
    STAYS(kernel.values[FORMAT] = 50; seen[1].kernel = &kernel);
    STAYS(seen[1].more_kernel = &kernels[MORE_V]; seen[1].more_args = &values[0]);
}

enum { BEHIND_LAYERS = BEFORE + PER_LAYER * LAYERS - 1, VOCAB = 4096 };

static struct weft__linear_device_args output;
static struct weft__linear_round_args output_round;
static struct weft__cuda_kernel output_kernel, best_kernel, sample_kernel;
static struct weft__sample_device_args sample;

// The matrix of logits behind the layers, whose X a launch rounds, and the choice of one token.
static void with_logits(void)
{
    make(NULL);
    output_kernel = kernels[QKV];
    output = matrix(1, VOCAB, EMBED);
    output.x = AT(28), output.norm = 1, output.norm_eps = 1e-6f, output.part[0].y = AT(32);
    output_round = of_stream, output_round.rounded = AT(28);
    seen[BEHIND_LAYERS] = (struct weft__token_seen){
        .kernel = &output_kernel, .args = &output, .round = &output_round};
    best_kernel = kernels[QKV], sample_kernel = kernels[QKV];
    best_kernel.function = "weft_sample_best", sample_kernel.function = "weft_sample";
    best_kernel.values[LOGITS_DTYPE] = WEFT_F32;
    sample = (struct weft__sample_device_args){.logits = AT(32), .vocab = VOCAB, .best = AT(40)};
    seen[BEHIND_LAYERS + 1] = (struct weft__token_seen){.kernel = &best_kernel,
                                                        .args = &sample,
                                                        .more_kernel = &sample_kernel,
                                                        .more_args = &sample,
                                                        .grid_y = 1};
}

static void logits_are_taken(void **state)
{
    (void)state;
    with_logits();
    assert_true(found());
    assert_true(plan.ends && plan.finds);
    assert_int_equal(plan.count, PER_LAYER * LAYERS);
    assert_int_equal(constant("WEFT_LOGITS"), VOCAB);
    assert_ptr_equal(plan.args.output, AT(1000));
    assert_ptr_equal(plan.args.logits, AT(32));
    assert_ptr_equal(plan.args.best, AT(40));
    assert_ptr_equal(plan.layers[LAYERS - 1].next_norm, of_stream.weight);
    assert_int_equal(plan.args.second_v[0], 0);
    with_logits();
    with_values_alone(); // of the format of these
    output_kernel.values[FORMAT] = 50;
    assert_true(found() && plan.ends);
    assert_int_equal(plan.args.second_v[0], 6);
    assert_int_equal(constant("WEFT_LOGITS_SECOND"), 1);
    with_logits();
    kernels[DOWN].values[FORMAT] = output_kernel.values[FORMAT] = 50; // V is not
    assert_true(found() && plan.ends);
    assert_int_equal(constant("WEFT_EVEN") >> 7 & 1, 1);
}

// Each of these leaves the logits a launch of their own.
static void other_logits_are_left(void **state)
{
    (void)state;
#define APART_STAY(change)                                                                         \
    do {                                                                                           \
        with_logits();                                                                             \
        change;                                                                                    \
        assert_true(found());                                                                      \
        assert_false(plan.ends || plan.finds);                                                     \
        assert_int_equal(plan.count, PER_LAYER *LAYERS - 1);                                       \
        assert_int_equal(constant("WEFT_LOGITS"), 0);                                              \
        assert_null(plan.args.best);                                                               \
    } while (0)
    APART_STAY(seen[BEHIND_LAYERS].round = NULL);
    APART_STAY(output_round.x = AT(44));
    APART_STAY(output_round.weight_plus = 1);
    APART_STAY(output.x = AT(44));
    APART_STAY(output.norm = 0);
    APART_STAY(output.norm_eps = 1e-5f);
    APART_STAY(output.residual = AT(16));
    APART_STAY(output.part[0].bias = AT(0));
    APART_STAY(output.part[0].alpha = 2);
    APART_STAY(output.part[0].rows = VOCAB + 16);
    APART_STAY(output.cols = output_round.cols = WIDE);
    APART_STAY(output_kernel.values[FORMAT] = 50); // layers have no second format
    APART_STAY(output_kernel.values[TEAM] = 4);
    APART_STAY(output_kernel.values[TWIN] = 1);
    APART_STAY(output_kernel.values[ROUND] = 1);
    APART_STAY(output_kernel.values[GATE] = 1);
    APART_STAY(output_kernel.values[BATCH] = 8);
    APART_STAY(output_kernel.function = "weft_linear_rows");
}

// Each of these leaves the choice its first launch.
static void other_choices_are_left(void **state)
{
    (void)state;
#define CHOICE_STAYS(change)                                                                       \
    do {                                                                                           \
        with_logits();                                                                             \
        change;                                                                                    \
        assert_true(found());                                                                      \
        assert_true(plan.ends && !plan.finds);                                                     \
        assert_null(plan.args.best);                                                               \
    } while (0)
    CHOICE_STAYS(seen[BEHIND_LAYERS + 1].kernel = NULL);
    CHOICE_STAYS(seen[BEHIND_LAYERS + 1].grid_y = 2);
    CHOICE_STAYS(best_kernel.values[LOGITS_DTYPE] = WEFT_F16);
    CHOICE_STAYS(sample.logits = AT(44));
    CHOICE_STAYS(sample.vocab = VOCAB - 1);
    struct weft__cuda_limits limits = h200;
    limits.num_sms = WEFT__SAMPLE_PARTS + 1;
    with_logits();
    for (int l = 0; l < LAYERS; l++)
        linear[l][UP].part[0].rows = linear[l][UP].part[1].rows = linear[l][DOWN].cols = 4608;
    assert_true(weft__token_find(seen, COUNT + BEHIND, &limits, &plan));
    assert_true(plan.ends && !plan.finds);
}

// Sums whose order the launches before have: of even and odd tiles apart, or not; the last down has an order of
// its own.
static void orders_of_sums_are_kept(void **state)
{
    (void)state;
    kernels[O].values[PAIR] = 0;
    kernels[LAST_DOWN].values[ROUND] = 0;
    assert_true(found());
    assert_int_equal(plan.kernel.values[plan.kernel.num_constants - 1], 1 << 0 | 1 << 3 | 1 << 4);
}

// A device whose name begins so, a format that was measured there; no other.
static void it_is_chosen_where_it_was_measured(void **state)
{
    (void)state;
    assert_int_equal(weft__token_most_keys("NVIDIA H200", 0, 0), 4096);
    assert_int_equal(weft__token_most_keys("NVIDIA H200 NVL", WEFT_Q4_0, 137), 4096);
    assert_int_equal(weft__token_most_keys("NVIDIA H200", WEFT_Q8_0, 103), 4096);
    assert_int_equal(weft__token_most_keys("NVIDIA H200", WEFT_Q4_K, 103), 4096);
    assert_int_equal(weft__token_most_keys("NVIDIA H200", WEFT_IQ3_S, 103), 0);
    assert_int_equal(weft__token_most_keys("NVIDIA A100", 0, 0), 0);
    assert_int_equal(weft__token_most_keys("NVIDIA H100 80GB HBM3", WEFT_BF16, 137), 4096);
    assert_int_equal(weft__token_most_keys("NVIDIA H100 PCIe", WEFT_Q4_0, 100), 0);
    assert_int_equal(weft__token_most_keys("NVIDIA H200 MIG 3g.71gb", WEFT_Q4_0, 100), 0);
    // plain weights of rows that divide evenly: 256 units of an 8B for 132 SMs, not 192 of a 3B
    assert_true(weft__token_most_keys("NVIDIA H200", WEFT_BF16, 103) > 0);
    assert_int_equal(weft__token_most_keys("NVIDIA H200", WEFT_BF16, 137), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(layers_are_found, make),
        cmocka_unit_test_setup(anything_else_is_left, make),
        cmocka_unit_test(layers_of_plain_weights_are_found),
        cmocka_unit_test(other_plain_weights_are_left),
        cmocka_unit_test_setup(other_devices_are_left, make),
        cmocka_unit_test_setup(a_second_format_is_found, make),
        cmocka_unit_test_setup(sums_apart_are_found, make),
        cmocka_unit_test_setup(orders_of_sums_are_kept, make),
        cmocka_unit_test(the_first_are_taken),
        cmocka_unit_test(others_are_left_before),
        cmocka_unit_test(logits_are_taken),
        cmocka_unit_test(other_logits_are_left),
        cmocka_unit_test(other_choices_are_left),
        cmocka_unit_test(it_is_chosen_where_it_was_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
