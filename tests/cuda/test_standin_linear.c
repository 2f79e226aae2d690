// SPDX-License-Identifier: MIT
// The CUDA backend on a stand-in driver (tests/support/standin/): what a layer launches, and how its weights get there.
#include <stdlib.h>

#include "src/kernels/linear/linear_device.h"
#include "tests/support/standin/standin_case.h"

enum { LINEAR_COLS = 256, LINEAR_ROWS = 64 };

static weft_plan *linear_plan(weft_context *context, weft_linear_desc desc, int32_t num_parts,
                              weft_dtype second)
{
    weft_plan *plan = NULL;
    desc.size = sizeof desc;
    desc.cols = LINEAR_COLS;
    desc.max_batch = 40;
    desc.num_parts = num_parts;
    for (int p = 0; p < num_parts; p++)
        desc.parts[p] =
            (weft_linear_part){.weight_dtype = p == 1 ? second : WEFT_Q4_0, .rows = LINEAR_ROWS};
    CHECK(weft_linear_plan(context, &desc, &plan) == WEFT_OK);
    return plan;
}

// Runs a plan whose parts all have the same weights, and says which launches that took.
static void expect_launches(const weft_plan *plan, weft_linear_args args, bool packed, char *memory,
                            const char *functions)
{
    char said[256] = "";
    int before = standin->num_launches;
    args.size = sizeof args;
    args.batch = args.batch ? args.batch : 3;
    args.workspace = memory;
    args.workspace_bytes = weft_plan_workspace_bytes(plan);
    for (int p = 0; p < 3 && args.parts[p].y && !args.weight; p++)
        *(packed ? &args.parts[p].packed : &args.parts[p].weight) = memory;
    CHECK(weft_linear_run(plan, &args) == WEFT_OK);
    for (int i = before; i < standin->num_launches; i++)
        snprintf(said + strlen(said), sizeof said - strlen(said), "%s%s", i > before ? " " : "",
                 standin->launches[i].function + strlen("weft_linear_"));
    if (strcmp(said, functions) != 0)
        fprintf(stderr, "launched: %s\n", said);
    CHECK(strcmp(said, functions) == 0);
}

// A layer is one launch when its weights are packed and its input is rounded, whatever stands round it.
static void case_linear(void)
{
    weft_context *context = must_open();
    char *m;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 20, (void **)&m) == WEFT_OK);
    const weft_linear_args one = {.x = m, .parts = {{.y = m}}};
    const weft_linear_args two = {.x = m, .parts = {{.y = m}, {.y = m}}};
    const weft_linear_args three = {.x = m, .parts = {{.y = m}, {.y = m}, {.y = m}}};
    weft_linear_args next = one, alone = three;
    next.next = m;
    alone.batch = 1;
    weft_plan *plan;
#define EXPECT(args, num_parts, second, packed, functions, ...)                                    \
    plan = linear_plan(context, (weft_linear_desc){__VA_ARGS__}, num_parts, second);               \
    expect_launches(plan, args, packed, m, functions);                                             \
    weft_plan_destroy(plan)
    EXPECT(three, 3, WEFT_Q4_0, true, "few", .norm = WEFT_LINEAR_NORM_RMS,
           .flags = WEFT_LINEAR_X_ROUNDED);
    const struct weft__linear_device_args *qkv =
        (const void *)standin->launches[standin->num_launches - 1].args;
    CHECK(qkv->part[1].first_group == LINEAR_ROWS / 16 &&
          qkv->part[2].first_group == 2 * LINEAR_ROWS / 16);
    EXPECT(three, 3, WEFT_Q4_0, true, "round few", .norm = WEFT_LINEAR_NORM_RMS);
    EXPECT(three, 3, WEFT_Q6_K, true, "few_sent few_sent", 0); // round it themselves
    EXPECT(alone, 3, WEFT_Q6_K, true, "few few",
           .norm = WEFT_LINEAR_NORM_RMS); // round it themselves
    EXPECT(two, 2, WEFT_Q4_0, true, "few", .gate = WEFT_LINEAR_GATE_SILU,
           .flags = WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_Y_ROUNDED);
    const struct weft__linear_device_args *gate =
        (const void *)standin->launches[standin->num_launches - 1].args;
    CHECK(gate->part[0].first_group == 0 && gate->part[1].first_group == 0);
    EXPECT(two, 2, WEFT_Q8_0, true, "few few finish", .gate = WEFT_LINEAR_GATE_SILU,
           .flags = WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_Y_ROUNDED);
    EXPECT(next, 1, WEFT_Q4_0, true, "few", .flags = WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_NEXT);
    EXPECT(one, 1, WEFT_Q4_0, true, "few", .flags = WEFT_LINEAR_EXACT, .norm = WEFT_LINEAR_NORM_RMS,
           .x_dtype = WEFT_BF16, .y_dtype = WEFT_F16);
    EXPECT(one, 1, WEFT_Q4_0, true, "ready round few", .norm = WEFT_LINEAR_NORM_LAYER);
    // Weights as a file has them are read as they are.
    EXPECT(one, 1, WEFT_Q4_0, false, "round rows", 0);
    EXPECT(one, 1, WEFT_Q4_0, false, "ready rows finish", .flags = WEFT_LINEAR_EXACT,
           .norm = WEFT_LINEAR_NORM_RMS, .y_dtype = WEFT_F16);
    EXPECT(two, 2, WEFT_Q4_0, false, "rows rows finish", .gate = WEFT_LINEAR_GATE_GELU,
           .flags = WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_Y_ROUNDED);
    EXPECT(two, 2, WEFT_BF16, true, "few_sent numbers_some", 0);
    EXPECT(two, 2, WEFT_IQ2_S, true, "round few_sent few", 0); // a lattice
    EXPECT(one, 1, WEFT_Q4_0, true, "round few", .flags = WEFT_LINEAR_BATCH_INVARIANT);
#undef EXPECT
    weft_memory_free(context, m);
    weft_context_destroy(context);
    CHECK(standin->live_allocations == 0);
}

// Plain weights of several rows of X are copied in boxes: the map in the arguments is that of the weights.
static void case_linear_plain(void)
{
    // no cuBLASLt
    static const char *const own[] = {[WEFT_F16] = "linear_f16_f32_sm80",
                                      [WEFT_BF16] = "linear_bf16_f32_sm80",
                                      [WEFT_F32] = "linear_f32_f32_sm80"};
    static const struct {
        weft_dtype format;
        int32_t batch, shift; // of the weights' address
        uint32_t flags;
        const char *functions, *variant;
    } cases[] = {{WEFT_BF16, 40, 0, 0, "gemm_x gemm_plain", NULL},
                 {WEFT_BF16, 16, 0, 0, "numbers_some", NULL},
                 {WEFT_BF16, 9, 0, 0, "numbers_some", NULL},
                 {WEFT_BF16, 8, 0, 0, "numbers_some", NULL},
                 {WEFT_BF16, 2, 0, 0, "numbers_some", NULL},
                 {WEFT_BF16, 1, 0, 0, "numbers", NULL},
                 {WEFT_BF16, 8, 2, 0, "numbers", NULL},
                 {WEFT_F16, 8, 0, 0, "numbers_some", NULL},
                 {WEFT_F16, 3, 0, WEFT_LINEAR_BATCH_INVARIANT, "numbers", NULL},
                 {WEFT_F16, 40, 0, 0, "gemm_x gemm_plain", NULL},
                 {WEFT_F16, 16, 0, 0, "numbers_some", NULL},
                 {WEFT_F32, 40, 0, 0, "numbers", NULL},
                 {WEFT_BF16, 40, 2, 0, "numbers", NULL},
                 {WEFT_BF16, 40, 0, WEFT_LINEAR_EXACT, "numbers_some", NULL},
                 // of a form that has no shape for one row
                 {WEFT_F16, 7, 0, 0, "numbers_some", "linear_f16_f32_batched_sm80"},
                 {WEFT_F16, 7, 2, 0, "numbers", "linear_f16_f32_batched_sm80"}};
    weft_context *context = must_open();
    char *m;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 20, (void **)&m) == WEFT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *variant = cases[i].variant ? cases[i].variant : own[cases[i].format];
        const weft_linear_desc desc = {.size = sizeof desc,
                                       .flags = cases[i].flags,
                                       .variant = variant,
                                       .weight_dtype = cases[i].format,
                                       .rows = LINEAR_ROWS,
                                       .cols = LINEAR_COLS,
                                       .max_batch = 40};
        weft_plan *plan = NULL;
        CHECK(weft_linear_plan(context, &desc, &plan) == WEFT_OK);
        const weft_linear_args args = {
            .x = m, .y = m, .weight = m + cases[i].shift, .batch = cases[i].batch};
        expect_launches(plan, args, false, m, cases[i].functions);
        const void *map;
        memcpy(&map, standin->launches[standin->num_launches - 1].args, sizeof map);
        CHECK(!strstr(cases[i].functions, "plain") || map == m);
        weft_plan_destroy(plan);
    }
    weft_memory_free(context, m);
    weft_context_destroy(context);
}

// One row of X, all of whose arrays are `m`.
static void run_row(const weft_plan *plan, void *m, const void *packed)
{
    const weft_linear_args args = {.size = sizeof args,
                                   .batch = 1,
                                   .x = m,
                                   .y = m,
                                   .packed = packed,
                                   .workspace = m,
                                   .workspace_bytes = weft_plan_workspace_bytes(plan)};
    CHECK(weft_linear_run(plan, &args) == WEFT_OK);
}

// Slabs of rows go through the device in order, and the parts of a launch are the packed ones.
static void case_linear_pack(void)
{
    enum { ROWS = 20000, COLS = 1024, ROW_BYTES = COLS / 32 * 18, SLAB_ROWS = 14560 };
    weft_context *context = must_open();
    const weft_linear_desc desc = {
        .size = sizeof desc, .weight_dtype = WEFT_Q4_0, .rows = ROWS, .cols = COLS};
    weft_plan *plan = NULL;
    CHECK(weft_linear_plan(context, &desc, &plan) == WEFT_OK);
    CHECK(weft_linear_packed_bytes(plan, 0) == (size_t)ROWS * ROW_BYTES);
    unsigned char *weight = malloc((size_t)ROWS * ROW_BYTES);
    for (size_t i = 0; i < (size_t)ROWS * ROW_BYTES; i++)
        weight[i] = (unsigned char)(i * 31 + i / 257);
    void *packed, *x;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, weft_linear_packed_bytes(plan, 0),
                               &packed) == WEFT_OK);
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 20, &x) == WEFT_OK);
    const weft_linear_pack_args args = {.size = sizeof args, .weight = weight, .packed = packed};
    CHECK(weft_linear_pack(plan, &args) == WEFT_OK);
    CHECK(standin->num_launches == 2);
    for (int i = 0; i < 2; i++) {
        const struct standin_launch *launch = &standin->launches[i];
        const struct weft__linear_pack_args *seen = (const void *)launch->args;
        CHECK(strcmp(launch->function, "weft_linear_pack") == 0 && seen->packed == packed);
        CHECK(seen->first_row == i * SLAB_ROWS && seen->cols == COLS);
        CHECK(seen->rows == (i ? ROWS - SLAB_ROWS : SLAB_ROWS));
        CHECK(launch->grid[0] == (uint32_t)(seen->rows + 15) / 16 && launch->grid[1] == 4);
        if (i == 1) // what the slab holds still
            CHECK(memcmp((const char *)seen->weight + 1, weight + SLAB_ROWS * ROW_BYTES + 1,
                         (size_t)seen->rows * ROW_BYTES - 1) == 0);
    }
    run_row(plan, x, packed);
    CHECK(standin->num_launches == 3);
    const struct weft__linear_device_args *seen = (const void *)standin->launches[2].args;
    CHECK(seen->part[0].weight == packed && seen->part[0].rows == ROWS);
    standin->lost = 700;
    CHECK(weft_linear_pack(plan, &args) == WEFT_EDEVICE);
    free(weight);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

// Scales and biases of 16 bits go to the device beside the codes of their slab; others make a matrix lie as in a file.
static void case_linear_groups(void)
{
    enum { ROWS = 40, COLS = 256, GROUP = 64, SCALES = COLS / GROUP };
    static uint16_t scales[ROWS][SCALES + 3], biases[ROWS][SCALES + 3];
    static unsigned char weight[ROWS * COLS / 2];
    weft_context *context = must_open();
    for (int i = 0; i < ROWS * SCALES; i++) {
        scales[i / SCALES][i % SCALES] = (uint16_t)(0x3000 + i);
        biases[i / SCALES][i % SCALES] = (uint16_t)(0xb000 + i);
    }
    for (int other = 0; other < 3; other++) {
        const weft_linear_desc desc = {.size = sizeof desc,
                                       .cols = COLS,
                                       .max_batch = 40,
                                       .num_parts = 1,
                                       .parts = {{.weight_dtype = WEFT_MLX_Q4_G64,
                                                  .rows = ROWS,
                                                  .scale_dtype = other == 1 ? WEFT_F32 : WEFT_BF16,
                                                  .scale_cols = other == 2 ? 32 : 0}}};
        weft_plan *plan = NULL;
        CHECK(weft_linear_plan(context, &desc, &plan) == WEFT_OK);
        const bool tiles = strcmp(weft_plan_describe(plan) + strlen(weft_plan_describe(plan)) - 9,
                                  "_any_sm80") != 0;
        CHECK(tiles == (other == 0));
        if (tiles) {
            char *m;
            CHECK(weft_linear_packed_bytes(plan, 0) == 48 * (COLS / 2 + SCALES * 4));
            CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 20, (void **)&m) ==
                  WEFT_OK);
            const weft_linear_pack_args args = {.size = sizeof args,
                                                .weight = weight,
                                                .scales = scales,
                                                .biases = biases,
                                                .scale_stride = SCALES + 3,
                                                .packed = m};
            int before = standin->num_launches;
            CHECK(weft_linear_pack(plan, &args) == WEFT_OK && standin->num_launches == before + 1);
            const struct weft__linear_pack_args *seen =
                (const void *)standin->launches[before].args;
            CHECK(seen->scales_stride_bytes == SCALES * 2);
            for (int row = 0; row < ROWS; row++) {
                CHECK(memcmp((const char *)seen->scales + row * SCALES * 2, scales[row],
                             SCALES * 2) == 0);
                CHECK(memcmp((const char *)seen->biases + row * SCALES * 2, biases[row],
                             SCALES * 2) == 0);
            }
            weft_linear_args run = {.x = m, .parts = {{.y = m}}};
            expect_launches(plan, run, true, m, "few_sent");
            run.batch = 40;
            expect_launches(plan, run, true, m, "round gemm_slice");
        }
        weft_plan_destroy(plan);
    }
    weft_context_destroy(context);
}

// Some rows of X: slices of long rows leave sums, which one launch adds up for all parts; what follows comes with it.
static void case_linear_slices(void)
{
    weft_context *context = must_open();
    char *m;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 32 << 20, (void **)&m) == WEFT_OK);
    static const struct {
        int32_t parts, batch;
        weft_linear_gate gate;
        uint32_t flags;
        int64_t cols;
        const char *launches;
    } cases[] = {{1, 32, 0, 0, 512, "round gemm_slice"},
                 {3, 32, 0, WEFT_LINEAR_X_ROUNDED, 8192, "gemm_slice finish"},
                 {1, 32, 0, WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_NEXT, 512, "gemm_slice finish"},
                 {2, 32, WEFT_LINEAR_GATE_SILU, WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_Y_ROUNDED, 8192,
                  "gemm_slice finish"},
                 {1, 32, 0, WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_BATCH_INVARIANT, 512, "few"},
                 {1, 70, 0, WEFT_LINEAR_X_ROUNDED, 512, "gemm_x gemm"},
                 // up to 16 rows only where X of as many does not fit the kernels for few
                 {1, 16, 0, WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_NEXT, 4096, "few"},
                 {1, 16, 0, WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_NEXT, 14336, "gemm_team finish"},
                 {1, 8, 0, WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_NEXT, 14336, "few"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_linear_desc desc = {.size = sizeof desc,
                                 .cols = cases[i].cols,
                                 .flags = cases[i].flags,
                                 .gate = cases[i].gate,
                                 .max_batch = 100,
                                 .num_parts = cases[i].parts};
        weft_linear_args args = {.x = m, .next = m, .batch = cases[i].batch};
        for (int32_t p = 0; p < cases[i].parts; p++) {
            desc.parts[p] = (weft_linear_part){.weight_dtype = WEFT_Q4_K, .rows = 96};
            args.parts[p].y = m;
        }
        args.next = cases[i].flags & WEFT_LINEAR_NEXT ? m : NULL;
        weft_plan *plan = NULL;
        CHECK(weft_linear_plan(context, &desc, &plan) == WEFT_OK);
        CHECK(weft_plan_workspace_bytes(plan) <= 32 << 20);
        expect_launches(plan, args, true, m, cases[i].launches);
        const struct standin_launch *last = &standin->launches[standin->num_launches - 1];
        CHECK(strstr(cases[i].launches, "finish") == NULL ||
              last->grid[2] == (cases[i].parts == 3 ? 3 : 1));
        weft_plan_destroy(plan);
    }
    weft_memory_free(context, m);
    weft_context_destroy(context);
}

// Parts of three formats: each has its kernels, for many rows, too.
static void case_linear_mixed(void)
{
    weft_context *context = must_open();
    char *m;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 32 << 20, (void **)&m) == WEFT_OK);
    weft_linear_desc mixed = {.size = sizeof mixed, .cols = 512, .max_batch = 100, .num_parts = 3};
    weft_linear_args args = {.x = m, .batch = 32};
    for (int32_t p = 0; p < 3; p++) {
        mixed.parts[p] = (weft_linear_part){.weight_dtype = p == 0   ? WEFT_Q4_K
                                                            : p == 1 ? WEFT_Q5_K
                                                                     : WEFT_Q6_K,
                                            .rows = 96};
        args.parts[p].y = m;
    }
    weft_plan *plan = NULL;
    CHECK(weft_linear_plan(context, &mixed, &plan) == WEFT_OK);
    expect_launches(plan, args, true, m, "round gemm_slice gemm_slice gemm_slice");
    args.batch = 70;
    expect_launches(plan, args, true, m, "round gemm_x gemm gemm gemm");
    weft_plan_destroy(plan);
    weft_memory_free(context, m);
    weft_context_destroy(context);
}

static weft_plan *plan_of(weft_context *context, weft_dtype format, int64_t rows, uint32_t flags,
                          const char *variant)
{
    weft_plan *plan = NULL;
    const weft_linear_desc desc = {.size = sizeof desc,
                                   .flags = flags,
                                   .weight_dtype = format,
                                   .rows = rows,
                                   .cols = 4096,
                                   .max_batch = 1,
                                   .variant = variant};
    CHECK(weft_linear_plan(context, &desc, &plan) == WEFT_OK);
    return plan;
}

// Blocks and threads of the product's launch.
static void expect_geometry(const weft_plan *plan, char *m, uint32_t blocks, uint32_t threads)
{
    run_row(plan, m, m);
    const struct standin_launch *launch = &standin->launches[standin->num_launches - 1];
    if (launch->grid[0] != blocks || launch->block[0] != threads)
        fprintf(stderr, "%s: %u blocks of %u threads\n", weft_plan_describe(plan), launch->grid[0],
                launch->block[0]);
    CHECK(launch->grid[0] == blocks && launch->block[0] == threads);
}

// A shape is had by its name: 16 rows of W for every four warps, no more blocks than the device holds.
static void case_linear_geometry(void)
{
    static const struct {
        const char *variant;
        weft_dtype format;
        int64_t rows;
        uint32_t blocks, threads;
    } cases[] = {
        {"linear_q4_0_q8_sm80", WEFT_Q4_0, 1024, 64, 512},
        {"linear_q4_0_q8_standard_sm80", WEFT_Q4_0, 1024, 64, 128},
        {"linear_q4_0_q8_large_sm80", WEFT_Q4_0, 1024, 64, 256},
        {"linear_q4_0_q8_wide_sm80", WEFT_Q4_0, 128256, 132, 512}, // two row blocks at a time
        {"linear_q4_0_q8_wide_sm80", WEFT_Q4_0, 128240, 264, 512},
        {"linear_q4_0_q8_large_sm80", WEFT_Q4_0, 128256, 528, 256},
        {"linear_q4_0_q8_standard_sm80", WEFT_Q4_0, 128256, 1056, 128},
        {"linear_f16_f32_standard_sm80", WEFT_F16, 1024, 64, 128}};
    weft_context *context = must_open();
    char *m;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 20, (void **)&m) == WEFT_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_plan *plan = plan_of(context, cases[i].format, cases[i].rows, 0, cases[i].variant);
        expect_geometry(plan, m, cases[i].blocks, cases[i].threads);
        weft_plan_destroy(plan);
    }
    weft_memory_free(context, m);
    weft_context_destroy(context);
}

// From the second row of X on a pass of eight or sixteen serves, from the seventeenth on one for many.
static void case_linear_batches(void)
{
    weft_context *context = must_open();
    char *m;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 20, (void **)&m) == WEFT_OK);
    weft_plan *plan = linear_plan(context, (weft_linear_desc){0}, 1, WEFT_Q4_0);
    uint32_t alone = 0; // bytes of the shape for one row
    for (int32_t batch = 1; batch <= 20; batch++) {
        const weft_linear_args args = {.x = m, .parts = {{.y = m}}, .batch = batch};
        expect_launches(plan, args, true, m,
                        batch == 1   ? "few" // round X themselves
                        : batch < 17 ? "few_sent"
                                     : "round gemm_slice");
        const struct standin_launch *launch = &standin->launches[standin->num_launches - 1];
        alone = batch == 1 ? launch->shared_bytes : alone;
        CHECK(batch == 1 || batch > 16 || launch->grid[1] == 1);
        CHECK(batch == 1 || alone != launch->shared_bytes);
    }
    weft_plan_destroy(plan);
    weft_memory_free(context, m);
    weft_context_destroy(context);
}

// A function of a single part, and one of the input, are a CPU's: a sentence says so.
static void case_linear_refuses(void)
{
    weft_context *context = must_open();
    weft_linear_desc desc = {
        .size = sizeof desc, .weight_dtype = WEFT_Q4_0, .rows = 64, .cols = 64};
    const char *reason;
    desc.gate = WEFT_LINEAR_GATE_SILU;
    CHECK(!weft_linear_supported(context, &desc, &reason) && strstr(reason, "single part"));
    desc.gate = WEFT_LINEAR_GATE_NONE;
    desc.x_gate = WEFT_LINEAR_GATE_SILU;
    CHECK(!weft_linear_supported(context, &desc, &reason) && strstr(reason, "x_gate"));
    desc.x_gate = WEFT_LINEAR_GATE_NONE;
    CHECK(weft_linear_supported(context, &desc, &reason) && !*reason);
    weft_context_destroy(context);
}

// An entry of the table names the kernel of its problem; a name asked for goes before it, and exact plans do not ask.
static void case_linear_tuned(void)
{
    weft_context *context = must_open();
    weft_tuning entry = {.size = sizeof entry,
                         .op = WEFT_TUNING_LINEAR,
                         .dtype = WEFT_Q4_0,
                         .rows = 4000,
                         .kernel = "linear_q4_0_q8_large_sm80"};
    const weft_tuning length = {.size = sizeof entry, .op = WEFT_TUNING_LINEAR, .few_batch = 4};
    const weft_tuning other = {.size = sizeof entry, .op = WEFT_TUNING_ATTENTION, .tile_rows = 4};
    CHECK(weft_tuning_add(context, &entry) == WEFT_OK);
    CHECK(weft_tuning_add(context, &length) == WEFT_EINVAL);
    CHECK(weft_tuning_add(context, &other) == WEFT_EINVAL);
    CHECK(weft_tuning_at(context, 0, &entry) && entry.rows == 4096);
    CHECK(!weft_tuning_at(context, 1, &entry));
    static const struct {
        weft_dtype format;
        int64_t rows;
        uint32_t flags;
        const char *variant, *chosen;
    } cases[] = {{WEFT_Q4_0, 4096, 0, NULL, "q8_large"},
                 {WEFT_Q4_0, 4097, 0, NULL, "q8_sm80"},
                 {WEFT_Q4_0, 4096, WEFT_LINEAR_BATCH_INVARIANT, NULL, "q8_sm80"},
                 {WEFT_Q4_0, 4096, WEFT_LINEAR_EXACT, NULL, "f32_sm80"},
                 {WEFT_Q4_0, 4096, 0, "linear_q4_0_q8_wide_sm80", "q8_wide"},
                 {WEFT_Q8_0, 4096, 0, NULL, "q8_sm80"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_plan *plan =
            plan_of(context, cases[i].format, cases[i].rows, cases[i].flags, cases[i].variant);
        CHECK_TEXT(weft_plan_describe(plan), cases[i].chosen);
        weft_plan_destroy(plan);
    }
    char path[300];
    snprintf(path, sizeof path, "%s/tuning.txt", standin_cache_folder);
    CHECK(weft_tuning_write(context, path) == WEFT_OK);
    weft_context_destroy(context);
    const weft_context_desc desc = {
        .size = sizeof desc, .device = WEFT_DEVICE_CUDA, .tuning = path};
    CHECK(weft_context_create(&desc, &context) == WEFT_OK);
    CHECK_TEXT(weft_tuning_note(context), "1 entries from");
    weft_plan *plan = plan_of(context, WEFT_Q4_0, 4096, 0, NULL);
    CHECK_TEXT(weft_plan_describe(plan), "q8_large");
    weft_plan_destroy(plan);
    weft_context_destroy(context);
    unlink(path);
}

static const struct standin_case cases[] = {
    {"linear_groups", case_linear_groups},   {"linear_slices", case_linear_slices},
    {"linear_mixed", case_linear_mixed},     {"linear_geometry", case_linear_geometry},
    {"linear_batches", case_linear_batches}, {"linear_tuned", case_linear_tuned},
    {"linear_refuses", case_linear_refuses}, {"linear", case_linear},
    {"linear_plain", case_linear_plain},     {"linear_pack", case_linear_pack},
};

int main(void)
{
    return standin_run(cases, sizeof cases / sizeof *cases);
}
