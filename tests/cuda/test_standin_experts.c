// SPDX-License-Identifier: MIT
// The CUDA backend on a stand-in driver (tests/support/standin/): what experts launch, packed and not, and how
// their weights get there.
#include <weft/experts.h>
#include <weft/kv.h>

#include "src/kernels/experts/experts_device.h"
#include "tests/support/standin/standin_case.h"

enum { EXPERTS = 8, TOP_K = 2, COLS = 256, INNER = 512 };

static weft_plan *plan_of(weft_context *context, uint32_t flags, weft_dtype up)
{
    weft_plan *plan = NULL;
    const weft_experts_desc desc = {
        .size = sizeof desc,
        .flags = flags,
        .experts = EXPERTS,
        .top_k = TOP_K,
        .max_batch = 128,
        .gate = WEFT_LINEAR_GATE_SILU,
        .cols = COLS,
        .inner = INNER,
        .norm = WEFT_LINEAR_NORM_RMS,
        .parts = {{.weight_dtype = WEFT_Q4_K}, {.weight_dtype = up}, {.weight_dtype = WEFT_Q6_K}}};
    CHECK(weft_experts_plan(context, &desc, &plan) == WEFT_OK);
    return plan;
}

static weft_experts_args args_of(const weft_plan *plan, char *m, bool packed)
{
    weft_experts_args args = {.size = sizeof args,
                              .batch = 1,
                              .x = m,
                              .y = m,
                              .starts = (const int32_t *)(const void *)m,
                              .order = (const int32_t *)(const void *)m,
                              .weights = (const float *)(const void *)m,
                              .next = m,
                              .workspace = m,
                              .workspace_bytes = weft_plan_workspace_bytes(plan)};
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++)
        *(packed ? &args.parts[p].packed : &args.parts[p].weight) = m;
    return args;
}

static void expect_launches(const weft_plan *plan, const weft_experts_args *args,
                            const char *functions)
{
    char said[256] = "";
    const int before = standin->num_launches;
    CHECK(weft_experts_run(plan, args) == WEFT_OK);
    for (int i = before; i < standin->num_launches; i++)
        snprintf(said + strlen(said), sizeof said - strlen(said), "%s%s", i > before ? " " : "",
                 standin->launches[i].function + strlen("weft_"));
    if (strcmp(said, functions) != 0)
        fprintf(stderr, "launched: %s\n", said);
    CHECK(strcmp(said, functions) == 0);
}

// Packed weights need a launch for gate, up and the function, and none for an x that is rounded already.
static void case_experts(void)
{
    weft_context *context = must_open();
    char *m;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 20, (void **)&m) == WEFT_OK);
    static const struct {
        uint32_t flags;
        bool packed;
        const char *functions;
    } ways[] = {
        {0, true, "linear_round linear_few linear_few experts_sum"},
        {WEFT_LINEAR_EXACT, true, "linear_few linear_few experts_sum"},
        {WEFT_LINEAR_X_ROUNDED | WEFT_LINEAR_NEXT, true, "linear_few linear_few experts_sum"},
        {0, false, "linear_ready experts experts experts experts_sum"},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        weft_plan *plan = plan_of(context, ways[i].flags, WEFT_Q4_K);
        const weft_experts_args args = args_of(plan, m, ways[i].packed);
        expect_launches(plan, &args, ways[i].functions);
        weft_plan_destroy(plan);
    }
    weft_memory_free(context, m);
    weft_context_destroy(context);
}

// A block for every share of places and group of rows; a single token's shares are its experts.
static void case_shares(void)
{
    weft_context *context = must_open();
    char *m;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 20, (void **)&m) == WEFT_OK);
    weft_plan *plan = plan_of(context, WEFT_LINEAR_X_ROUNDED, WEFT_Q4_K);
    weft_experts_args args = args_of(plan, m, true);
    const int before = standin->num_launches;
    CHECK(weft_experts_run(plan, &args) == WEFT_OK);
    const struct standin_launch *joined = &standin->launches[before];
    const struct weft__linear_device_args *seen = (const void *)joined->args;
    CHECK(joined->grid[1] == TOP_K);
    CHECK(seen->experts.choices == TOP_K && seen->experts.experts == EXPERTS);
    CHECK(seen->experts.gather && seen->part[1].rows == INNER && seen->cols == COLS && seen->norm);
    seen = (const void *)joined[1].args;
    CHECK(!seen->experts.gather && seen->part[0].rows == COLS && seen->cols == INNER &&
          !seen->norm);
    args.batch = 40; // 80 choices: every expert has one at least of them in a share of its own
    CHECK(weft_experts_run(plan, &args) == WEFT_OK);
    CHECK(standin->launches[standin->num_launches - 3].grid[1] == EXPERTS + (80 - EXPERTS) / 16);
    weft_plan_destroy(plan);
    weft_memory_free(context, m);
    weft_context_destroy(context);
}

// The rows of all experts are packed as one matrix; what has no tiles is refused.
static void case_experts_pack(void)
{
    weft_context *context = must_open();
    weft_plan *plan = plan_of(context, 0, WEFT_Q4_K);
    static unsigned char weight[EXPERTS * INNER * COLS / 256 * 144];
    void *packed;
    CHECK(weft_experts_packed_bytes(plan, WEFT_EXPERTS_UP) == sizeof weight);
    CHECK(weft_experts_packed_bytes(plan, 3) == 0);
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, sizeof weight, &packed) == WEFT_OK);
    weft_linear_pack_args args = {
        .size = sizeof args, .part = WEFT_EXPERTS_UP, .weight = weight, .packed = packed};
    CHECK(weft_experts_pack(plan, &args) == WEFT_OK);
    const struct weft__linear_pack_args *seen =
        (const void *)standin->launches[standin->num_launches - 1].args;
    CHECK(seen->packed == packed && seen->rows == EXPERTS * INNER && seen->cols == COLS);
    args.scales = weight;
    CHECK(weft_experts_pack(plan, &args) == WEFT_EINVAL);
    weft_plan_destroy(plan);
    plan = plan_of(context, 0, WEFT_Q5_K); // gate and up of different formats are no single pass
    CHECK(weft_experts_packed_bytes(plan, 0) == 0);
    weft_plan_destroy(plan);
    weft_memory_free(context, packed);
    weft_context_destroy(context);
}

// Without a gate: a matrix less, in launches as in a file and in products; its function is in the first one.
static void case_plain(void)
{
    static const char *const ways[] = {"experts experts experts_sum",
                                       "linear_round linear_few linear_few experts_sum"};
    weft_context *context = must_open();
    char *m;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 20, (void **)&m) == WEFT_OK);
    weft_plan *plan = NULL;
    const weft_experts_desc desc = {
        .size = sizeof desc,
        .flags = WEFT_EXPERTS_PLAIN,
        .experts = EXPERTS,
        .top_k = TOP_K,
        .max_batch = 128,
        .gate = WEFT_LINEAR_GATE_GELU,
        .cols = COLS,
        .inner = INNER,
        .parts = {{.weight_dtype = WEFT_Q4_K}, {0}, {.weight_dtype = WEFT_Q6_K}}};
    CHECK(weft_experts_plan(context, &desc, &plan) == WEFT_OK);
    CHECK(weft_experts_packed_bytes(plan, WEFT_EXPERTS_GATE) != 0);
    CHECK(weft_experts_packed_bytes(plan, WEFT_EXPERTS_UP) == 0);
    for (int packed = 0; packed < 2; packed++) {
        weft_experts_args args = args_of(plan, m, packed);
        args.parts[WEFT_EXPERTS_UP] = (weft_experts_part_args){0};
        expect_launches(plan, &args, ways[packed]);
        const struct standin_launch *first = &standin->launches[standin->num_launches - 3];
        const struct weft__linear_device_args *seen = (const void *)first->args;
        CHECK(!packed || (seen->num_parts == 1 && !seen->part[1].weight));
    }
    weft_plan_destroy(plan);
    weft_memory_free(context, m);
    weft_context_destroy(context);
}

// Plain elements lie as in a file: tiles of many places where every expert has three eighths of one, unless
// results must not depend on how many there are.
static void case_many(void)
{
    weft_context *context = must_open();
    char *m;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, 1 << 20, (void **)&m) == WEFT_OK);
    static const struct {
        uint32_t flags;
        int32_t batch;
        const char *functions;
    } ways[] = {
        {0, EXPERTS * 24 / TOP_K - 1, "experts experts experts experts_sum"},
        {0, EXPERTS * 24 / TOP_K, "experts_tile experts_tile experts experts_sum"},
        {WEFT_LINEAR_BATCH_INVARIANT, EXPERTS * 24 / TOP_K, "experts experts experts experts_sum"},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        weft_plan *plan = NULL;
        const weft_experts_desc desc = {.size = sizeof desc,
                                        .flags = ways[i].flags,
                                        .experts = EXPERTS,
                                        .top_k = TOP_K,
                                        .max_batch = 128,
                                        .gate = WEFT_LINEAR_GATE_SILU,
                                        .cols = COLS,
                                        .inner = INNER,
                                        .parts = {{.weight_dtype = WEFT_F16},
                                                  {.weight_dtype = WEFT_BF16},
                                                  {.weight_dtype = WEFT_Q6_K}}};
        CHECK(weft_experts_plan(context, &desc, &plan) == WEFT_OK);
        weft_experts_args args = args_of(plan, m, false);
        args.batch = ways[i].batch;
        expect_launches(plan, &args, ways[i].functions);
        const struct standin_launch *first = &standin->launches[standin->num_launches - 4];
        CHECK(i != 1 ||
              (first->grid[0] == EXPERTS + EXPERTS * 23 / 64 && first->grid[1] == INNER / 64));
        weft_plan_destroy(plan);
    }
    weft_memory_free(context, m);
    weft_context_destroy(context);
}

// A rounded x for adapters.
static void case_refused(void)
{
    weft_context *context = must_open();
    weft_plan *plan = NULL;
    weft_experts_desc desc = {.size = sizeof desc,
                              .flags = WEFT_LINEAR_X_ROUNDED,
                              .experts = EXPERTS,
                              .top_k = TOP_K,
                              .gate = WEFT_LINEAR_GATE_SILU,
                              .cols = COLS,
                              .inner = INNER};
    for (int p = 0; p < WEFT_EXPERTS_PARTS; p++)
        desc.parts[p].weight_dtype = WEFT_Q4_K;
    CHECK(weft_experts_plan(context, &desc, &plan) == WEFT_OK);
    weft_plan_destroy(plan);
    desc.adapter_rank = 4;
    CHECK(weft_experts_plan(context, &desc, &plan) == WEFT_EUNSUPPORTED);
    CHECK(strstr(weft_error_text(context), "adapters"));
    weft_context_destroy(context);
}

static const struct standin_case cases[] = {
    {"experts", case_experts}, {"shares", case_shares}, {"experts_pack", case_experts_pack},
    {"plain", case_plain},     {"many", case_many},     {"refused", case_refused},
};

int main(void)
{
    return standin_run(cases, sizeof cases / sizeof *cases);
}
