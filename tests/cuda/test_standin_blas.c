// SPDX-License-Identifier: MIT
// The CUDA backend on a stand-in driver (tests/support/standin/): which runs cuBLASLt makes, and what becomes of them
// without it.
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>

#include "src/kernels/linear/linear_blas_cuda.h"
#include "tests/support/standin/standin_case.h"

enum { ROWS = 64, COLS = 256, MOST = 600, MEMORY_BYTES = 32 << 20 };

// What a run of a plan is given: everything else lies in one piece of memory, on top of each other.
struct problem {
    weft_dtype format, x, y;
    int32_t batch, parts; // parts 0: 1
    int64_t rows, cols;   // 0: ROWS, COLS
    uint32_t flags;
    weft_linear_norm norm;
    weft_linear_gate gate;
    int32_t off_weight, off_y; // bytes that addresses are off multiples of 256
    bool bias, residual, residual_is_y;
    const char *variant;
};

static weft_status make_plan(weft_context *context, const struct problem *p, weft_plan **plan)
{
    const int32_t parts = p->parts ? p->parts : 1;
    weft_linear_desc desc = {.size = sizeof desc,
                             .flags = p->flags,
                             .x_dtype = p->x,
                             .y_dtype = p->y,
                             .cols = p->cols ? p->cols : COLS,
                             .max_batch = MOST,
                             .norm = p->norm,
                             .norm_eps = 1e-5f,
                             .gate = p->gate,
                             .variant = p->variant,
                             .num_parts = parts};
    for (int32_t i = 0; i < parts; i++)
        desc.parts[i] =
            (weft_linear_part){.weight_dtype = p->format, .rows = p->rows ? p->rows : ROWS};
    return weft_linear_plan(context, &desc, plan);
}

static weft_status run_plan(const weft_plan *plan, const struct problem *p, char *m)
{
    weft_linear_args args = {.size = sizeof args,
                             .batch = p->batch,
                             .x = m,
                             .workspace = m,
                             .workspace_bytes = weft_plan_workspace_bytes(plan)};
    CHECK(args.workspace_bytes <= MEMORY_BYTES);
    for (int32_t i = 0; i < (p->parts ? p->parts : 1); i++) {
        args.parts[i].weight = m + p->off_weight;
        args.parts[i].y = i && p->gate ? NULL : m + p->off_y;
        args.parts[i].bias = p->bias ? (float *)(void *)m : NULL;
    }
    args.next = p->flags & WEFT_LINEAR_NEXT ? m : NULL;
    args.residual = p->residual_is_y ? m + p->off_y : p->residual ? m + 4096 : NULL;
    return weft_linear_run(plan, &args);
}

// The functions that were launched since, without what all begin with.
static const char *launched(int since)
{
    static char said[512];
    const size_t skip = strlen("weft_linear_");
    *said = 0;
    for (int i = since; i < standin->num_launches; i++) {
        const char *name = standin->launches[i].function;
        snprintf(said + strlen(said), sizeof said - strlen(said), "%s%s", i > since ? " " : "",
                 strncmp(name, "weft_linear_", skip) == 0 ? name + skip : name);
    }
    return said;
}

static void expect(weft_context *context, char *m, const struct problem *p, const char *functions)
{
    weft_plan *plan = NULL;
    const int before = standin->num_launches;
    CHECK(make_plan(context, p, &plan) == WEFT_OK);
    CHECK(run_plan(plan, p, m) == WEFT_OK);
    if (strcmp(launched(before), functions) != 0)
        fprintf(stderr, "%s, batch %d: wanted %s\n", weft_plan_describe(plan), p->batch, functions);
    CHECK(strcmp(launched(before), functions) == 0);
    weft_plan_destroy(plan);
}

static char *memory(weft_context *context)
{
    void *m;
    CHECK(weft_memory_allocate(context, WEFT_MEMORY_DEVICE, MEMORY_BYTES, &m) == WEFT_OK);
    return m;
}

// What stands round a product decides what the library writes and what follows it.
static void case_ways(void)
{
#define BF16 .format = WEFT_BF16, .batch = 512
#define F16  .format = WEFT_F16, .batch = 512
    static const struct {
        struct problem problem;
        const char *functions;
    } cases[] = {
        {{BF16}, "gemm_x cublaslt"},
        {{BF16, .parts = 3, .norm = WEFT_LINEAR_NORM_RMS}, "gemm_x cublaslt cublaslt cublaslt"},
        {{BF16, .x = WEFT_BF16}, "cublaslt"},
        {{BF16, .x = WEFT_BF16, .y = WEFT_BF16, .residual = true}, "cublaslt"},
        {{BF16, .x = WEFT_BF16, .norm = WEFT_LINEAR_NORM_RMS}, "gemm_x cublaslt"},
        {{BF16, .norm = WEFT_LINEAR_NORM_LAYER}, "ready gemm_x cublaslt"},
        {{BF16, .y = WEFT_F16}, "gemm_x cublaslt finish"},
        {{BF16, .residual_is_y = true}, "gemm_x cublaslt"},
        {{BF16, .bias = true, .residual_is_y = true}, "gemm_x cublaslt finish"},
        {{BF16, .y = WEFT_BF16, .bias = true}, "gemm_x gemm_plain"},
        {{BF16, .parts = 2, .gate = WEFT_LINEAR_GATE_SILU, .bias = true},
         "gemm_x cublaslt cublaslt finish"},
        {{BF16, .flags = WEFT_LINEAR_NEXT}, "gemm_x cublaslt finish"},
        {{F16}, "gemm_x cublaslt finish"},
        {{F16, .residual_is_y = true}, "gemm_x cublaslt finish"},
        {{F16, .x = WEFT_F16}, "cublaslt"},
        {{F16, .x = WEFT_F16, .y = WEFT_F16}, "cublaslt"},
        {{.format = WEFT_F16, .batch = 600, .rows = 7168, .cols = 256}, "gemm_x cublaslt finish"},
        {{F16, .parts = 2, .gate = WEFT_LINEAR_GATE_SILU}, "gemm_x cublaslt cublaslt finish"},
        // what the library does not take, or promises more than it keeps
        {{BF16, .off_weight = 2}, "numbers"},
        {{BF16, .off_y = 4}, "gemm_x gemm_plain"},
        {{BF16, .cols = 260}, "numbers"},
        {{BF16, .flags = WEFT_LINEAR_EXACT}, "numbers_some"},
        {{BF16, .flags = WEFT_LINEAR_BATCH_INVARIANT}, "numbers"},
        {{BF16, .variant = "linear_bf16_f32_sm80"}, "gemm_x gemm_plain"},
        {{.format = WEFT_BF16, .batch = 17}, "gemm_x cublaslt"},
        {{.format = WEFT_BF16, .batch = 16}, "numbers_some"},
        // by its name for any number of rows
        {{.format = WEFT_BF16, .batch = 1, .variant = "linear_bf16_f32_cublaslt"},
         "gemm_x cublaslt"},
    };
    weft_context *context = must_open();
    char *m = memory(context);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct problem p = cases[i].problem;
        expect(context, m, &p, cases[i].functions);
    }
    weft_memory_free(context, m);
    weft_context_destroy(context);
    CHECK(standin->live_blas == 0 && standin->live_allocations == 0);
}

// Other devices have no kernel of ours for many rows of plain weights: there the library serves from 17 on.
static void case_other_device(void)
{
    standin->sm = 80;
    weft_context *context = must_open();
    char *m = memory(context);
    expect(context, m, &(struct problem){.format = WEFT_F16, .batch = 17},
           "gemm_x cublaslt finish");
    expect(context, m, &(struct problem){.format = WEFT_F16, .batch = 16}, "numbers");
    weft_context_destroy(context);
}

// The heuristics are asked when a shape is first planned, never in a run.
static void case_asked_once(void)
{
    const struct problem p = {.format = WEFT_BF16, .batch = 512};
    weft_context *context = must_open();
    char *m = memory(context);
    weft_plan *plan = NULL;
    CHECK(make_plan(context, &p, &plan) == WEFT_OK);
    CHECK_TEXT(weft_plan_describe(plan), "cuBLASLt 13.1 from");
    const int64_t asked = standin->blas_asked, allocations = standin->allocations;
    CHECK(asked > 1);
    for (int32_t batch = 1; batch <= MOST; batch += 37) {
        struct problem run = p;
        run.batch = batch;
        CHECK(run_plan(plan, &run, m) == WEFT_OK);
    }
    weft_plan_destroy(plan);
    CHECK(make_plan(context, &p, &plan) == WEFT_OK);
    CHECK(standin->blas_asked == asked && standin->allocations == allocations);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

// A product is part of a program like a launch.
static void case_recorded(void)
{
    const struct problem p = {.format = WEFT_BF16, .batch = 512};
    weft_context *context = must_open();
    char *m = memory(context);
    weft_plan *plan = NULL;
    weft_program *program = NULL;
    CHECK(make_plan(context, &p, &plan) == WEFT_OK);
    CHECK(weft_program_begin(context, &program) == WEFT_OK);
    CHECK(run_plan(plan, &p, m) == WEFT_OK);
    CHECK(weft_program_end(program) == WEFT_OK && standin->num_launches == 0);
    for (int i = 0; i < 2; i++)
        CHECK(weft_program_launch(program, NULL) == WEFT_OK);
    CHECK(strcmp(launched(0), "gemm_x cublaslt gemm_x cublaslt") == 0);
    weft_program_destroy(program);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

// Where there is no library everything works; asked for by name it is missed in a sentence.
static void expect_missing(const char *sentence)
{
    const struct problem p = {.format = WEFT_BF16, .batch = 512};
    struct problem named = p;
    named.variant = "linear_bf16_f32_cublaslt";
    weft_context *context = must_open();
    char *m = memory(context);
    weft_plan *plan = NULL;
    expect(context, m, &p, "gemm_x gemm_plain");
    CHECK(make_plan(context, &named, &plan) == WEFT_EUNSUPPORTED && !plan);
    CHECK_TEXT(weft_error_text(context), sentence);
    weft_kernel_info info;
    for (int32_t n = 0; weft_kernel_at(context, n, &info); n++)
        CHECK(!strstr(info.name, "cublaslt") || !info.usable || standin->blas_finds_nothing);
    weft_memory_free(context, m);
    weft_context_destroy(context);
    CHECK(standin->live_blas == 0);
}

static void case_absent(void)
{
    setenv("WEFT_CUDA_CUBLASLT", "/nowhere/libcublasLt.so", 1);
    expect_missing("was not found: install it");
}

static void case_too_old(void)
{
    setenv("STANDIN_CUBLASLT_VERSION", "110900", 1);
    expect_missing("cuBLASLt is version 11.9: it is too old");
}

static void case_does_not_start(void)
{
    standin->blas_fails_create = true;
    expect_missing("cuBLASLt does not start: CUBLAS_STATUS_OF_STANDIN");
}

static void case_finds_nothing(void)
{
    standin->blas_finds_nothing = true;
    expect_missing("cuBLASLt has nothing for this shape");
}

// A plan whose first product is refused goes on with kernels of our own; one that has the library's name says so.
static void case_fails(void)
{
    const struct problem p = {.format = WEFT_BF16, .batch = 512};
    struct problem named = p;
    named.variant = "linear_bf16_f32_cublaslt";
    weft_context *context = must_open();
    char *m = memory(context);
    weft_plan *plan = NULL, *by_name = NULL;
    CHECK(make_plan(context, &p, &plan) == WEFT_OK);
    CHECK(make_plan(context, &named, &by_name) == WEFT_OK);
    standin->blas_fails = 1;
    CHECK(run_plan(plan, &p, m) == WEFT_OK);
    CHECK(strcmp(launched(0), "gemm_x gemm_x gemm_plain") == 0);
    CHECK(run_plan(by_name, &named, m) == WEFT_EDEVICE);
    CHECK_TEXT(weft_error_text(context), "cuBLASLt does not run: CUBLAS_STATUS_NOT_SUPPORTED");
    standin->blas_fails = 0;
    const int before = standin->num_launches;
    CHECK(run_plan(plan, &p, m) == WEFT_OK && run_plan(by_name, &named, m) == WEFT_OK);
    CHECK(strcmp(launched(before), "gemm_x gemm_plain gemm_x cublaslt") == 0);
    weft_plan_destroy(plan);
    weft_plan_destroy(by_name);
    weft_context_destroy(context);
}

// A later product is refused: what has been written is written over.
static void case_fails_later(void)
{
    struct problem p = {
        .format = WEFT_BF16, .batch = 512, .parts = 3, .norm = WEFT_LINEAR_NORM_RMS};
    weft_context *context = must_open();
    char *m = memory(context);
    weft_plan *plan = NULL;
    CHECK(make_plan(context, &p, &plan) == WEFT_OK);
    standin->blas_fails = 2;
    CHECK(run_plan(plan, &p, m) == WEFT_OK);
    CHECK(strcmp(launched(0), "gemm_x cublaslt gemm_x gemm_plain gemm_plain gemm_plain") == 0);
    weft_plan_destroy(plan);
    weft_context_destroy(context);
}

static const struct standin_case cases[] = {
    {"ways", case_ways},
    {"other_device", case_other_device},
    {"asked_once", case_asked_once},
    {"recorded", case_recorded},
    {"absent", case_absent},
    {"too_old", case_too_old},
    {"does_not_start", case_does_not_start},
    {"finds_nothing", case_finds_nothing},
    {"fails", case_fails},
    {"fails_later", case_fails_later},
};

int main(void)
{
    return standin_run(cases, sizeof cases / sizeof *cases);
}
