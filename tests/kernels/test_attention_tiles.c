// SPDX-License-Identifier: MIT
// What changes how attention is worked out and not what it gives: the generic path against the specialised one,
// the heads, keys and blocks of a tile, stages, a budget for the workspace; and what a run reports.
#include <math.h>
#include <stdio.h>

#include "tests/support/attention_case.h"
#include "tests/support/context_fixture.h"

static const double NEAR = 2e-5;

// A case and room for two results.
struct pair {
    attention_case c;
    float *a, *b, *lse_a, *lse_b;
};

static struct pair open_pair(weft_attention_desc desc, int32_t num_seqs, const int32_t lens[][2])
{
    struct pair p = {.c = {.desc = desc, .num_seqs = num_seqs}};
    for (int32_t s = 0; s < num_seqs; s++)
        p.c.q_lens[s] = lens[s][0], p.c.kv_lens[s] = lens[s][1];
    attention_case_make(&p.c);
    p.a = malloc((size_t)p.c.out_elems * sizeof *p.a);
    p.b = malloc((size_t)p.c.out_elems * sizeof *p.b);
    p.lse_a = malloc((size_t)p.c.lse_elems * sizeof *p.lse_a);
    p.lse_b = malloc((size_t)p.c.lse_elems * sizeof *p.lse_b);
    return p;
}

static void close_pair(struct pair *p)
{
    free(p->a);
    free(p->b);
    free(p->lse_a);
    free(p->lse_b);
    attention_case_free(&p->c);
}

static void run(weft_context *context, const struct pair *p, const weft_attention_desc *desc,
                float *out, float *lse)
{
    if (attention_case_run(context, &p->c, desc, out, lse) != WEFT_OK)
        fail_msg("%s", weft_error_text(context));
}

static weft_attention_desc shape(weft_dtype dtype, int32_t kv_heads, int32_t group, int32_t dim)
{
    return (weft_attention_desc){
        .kv = {.dtype = dtype, .num_kv_heads = kv_heads, .head_dim = dim, .page_size = 16},
        .num_q_heads = kv_heads * group};
}

static const int32_t mixed[][2] = {{1, 300}, {24, 200}, {2, 65}, {70, 70}, {1, 1}, {0, 9}};
enum { MIXED = 6 };

static void generic_and_specialised_agree_to_the_bit(void **state)
{
    static const int32_t dims[] = {64, 80, 96, 128, 192, 256, 72};
    static const weft_dtype dtypes[] = {WEFT_F16,      WEFT_BF16,     WEFT_F32,  WEFT_INT8,
                                        WEFT_FP8_E4M3, WEFT_FP8_E5M2, WEFT_Q8_0, WEFT_Q4_0};
    // Every format with queries as they are, then with queries that may be rounded.
    for (size_t d = 0; d < 7; d++)
        for (size_t n = 0, f = 0; n < 16; f = ++n % 8) {
            const uint32_t narrow = n < 8 ? 0 : WEFT_ATTENTION_NARROW_QUERIES;
            if (weft_dtype_block_elems(dtypes[f]) > 1 && dims[d] % 32 != 0)
                continue;
            weft_attention_desc desc = shape(dtypes[f], 2, d % 2 ? 4 : 1, dims[d]);
            desc.mask = f % 3 == 1 ? WEFT_MASK_FULL : WEFT_MASK_CAUSAL;
            desc.window = f % 2 ? 50 : 0;
            desc.flags = narrow;
            struct pair p = open_pair(desc, MIXED, mixed);
            run(*state, &p, &p.c.desc, p.a, p.lse_a);
            desc = p.c.desc;
            desc.flags = narrow | WEFT_ATTENTION_GENERIC;
            run(*state, &p, &desc, p.b, p.lse_b);
            if (attention_case_far(p.a, p.b, p.c.out_elems) != 0 ||
                attention_case_far(p.lse_a, p.lse_b, p.c.lse_elems) != 0)
                fail_msg("%s x %d: the generic path gives something else",
                         weft_dtype_name(dtypes[f]), dims[d]);
            close_pair(&p);
        }
}

// A causal tile of whole blocks: only the block with the end of what a row sees is held against the mask.
static void masks_meet_only_diagonals_and_tails(void **state)
{
    const int32_t lens[][2] = {{256, 1024}, {1, 640}, {1, 641}};
    for (int threads = 1; threads <= 3; threads++) {
        const weft_context_desc options = {.size = sizeof options, .threads = threads};
        weft_context *context;
        assert_int_equal(weft_context_create(&options, &context), WEFT_OK);
        struct pair p = open_pair(shape(WEFT_F16, 2, 4, 64), 3, lens);
        uint64_t counts[WEFT_ATTENTION_COUNTS] = {0}, blocks = 0, masked = 0;
        const weft_attention_report report = {.counts = counts};
        p.c.desc.report = &report;
        for (int32_t s = 0; s < 3; s++)
            for (int32_t i = 0; i < lens[s][0]; i++) {
                int32_t seen = lens[s][1] - lens[s][0] + i + 1;
                blocks += 8u * (uint64_t)((seen + 63) / 64);
                masked += seen % 64 ? 8 : 0;
            }
        assert_int_equal(attention_case_run(context, &p.c, &p.c.desc, p.a, NULL), WEFT_OK);
        if (strcmp(weft_context_isa(context), "ref") != 0) {
            assert_int_equal(counts[WEFT_ATTENTION_COUNT_BLOCKS], blocks);
            assert_int_equal(counts[WEFT_ATTENTION_COUNT_MASKED], masked);
            p.c.desc.flags = WEFT_ATTENTION_GENERIC; // and added to what there is
            assert_int_equal(attention_case_run(context, &p.c, &p.c.desc, p.a, NULL), WEFT_OK);
            assert_int_equal(counts[WEFT_ATTENTION_COUNT_BLOCKS], 2 * blocks);
            assert_int_equal(counts[WEFT_ATTENTION_COUNT_MASKED], masked + blocks);
        }
        close_pair(&p);
        weft_context_destroy(context);
    }
    (void)state;
}

static void near_the_answer(weft_context *context, struct pair *p, const weft_attention_desc *desc,
                            const char *what, int32_t value)
{
    run(context, p, desc, p->b, p->lse_b);
    double far = attention_case_far(p->b, p->a, p->c.out_elems);
    double lse = attention_case_far(p->lse_b, p->lse_a, p->c.lse_elems);
    if (far > NEAR || lse > NEAR)
        fail_msg("%s %d: %g and %g off", what, value, far, lse);
}

static void heads_blocks_and_stages_change_no_result(void **state)
{
    static const int32_t heads[] = {0, 1, 2, 3, 4, 6, 12}, blocks[] = {1, 2, 3, 8, 16, 63, 64};
    static const weft_dtype dtypes[] = {WEFT_F16,  WEFT_INT8, WEFT_FP8_E4M3, WEFT_Q8_0,
                                        WEFT_Q5_0, WEFT_Q4_0, WEFT_IQ4_NL};
    for (int f = 0; f < 7; f++) {
        struct pair p = open_pair(shape(dtypes[f], 2, 12, 64), MIXED, mixed);
        attention_case_answer(&p.c, p.a, p.lse_a, 1);
        for (int i = 0; i < 7; i++) {
            weft_attention_desc desc = p.c.desc;
            desc.tile_heads = heads[i];
            near_the_answer(*state, &p, &desc, "tile_heads", heads[i]);
            desc.tile_heads = i % 2;
            desc.block_keys = blocks[i];
            near_the_answer(*state, &p, &desc, "block_keys", blocks[i]);
        }
        run(*state, &p, &p.c.desc, p.a, p.lse_a);
        for (int32_t stages = 1; stages <= 2; stages++) {
            weft_attention_desc desc = p.c.desc;
            desc.stages = stages;
            run(*state, &p, &desc, p.b, p.lse_b);
            assert_true(attention_case_far(p.a, p.b, p.c.out_elems) == 0);
        }
        close_pair(&p);
    }
}

static size_t workspace_of(weft_context *context, const weft_attention_desc *desc)
{
    weft_plan *plan;
    if (weft_attention_plan(context, desc, &plan) != WEFT_OK)
        return 0;
    size_t bytes = weft_plan_workspace_bytes(plan);
    weft_plan_destroy(plan);
    return bytes;
}

// Every budget down to the least one makes a plan within it, whose results are the same.
static void a_budget_shrinks_the_workspace_or_refuses(void **state)
{
    const int32_t lens[][2] = {{1, 5000}, {130, 2000}};
    struct pair p = open_pair(shape(WEFT_F16, 2, 4, 128), 2, lens);
    weft_attention_desc desc = p.c.desc;
    size_t whole = workspace_of(*state, &desc), bytes = whole, least = whole;
    attention_case_answer(&p.c, p.a, p.lse_a, 1);
    for (int64_t budget = (int64_t)whole; bytes > 0; budget = budget * 2 / 3) {
        desc.max_workspace_bytes = budget;
        bytes = workspace_of(*state, &desc);
        assert_true(bytes <= (size_t)budget);
        if (bytes == 0) {
            assert_non_null(strstr(weft_error_text(*state), "max_workspace_bytes"));
            break;
        }
        least = bytes;
        near_the_answer(*state, &p, &desc, "max_workspace_bytes", (int32_t)budget);
    }
    assert_true(least < whole / 4);
    desc.max_workspace_bytes = 64;
    assert_refused(*state, attention_case_run(*state, &p.c, &desc, p.a, NULL), WEFT_EWORKSPACE,
                   "max_workspace_bytes=64");
    close_pair(&p);
}

// What waits to be rounded, and the states of a cascade, are of the workspace that the budget is for.
static void a_budget_holds_all_parts(void **state)
{
    const int32_t lens[][2] = {{1, 5000}, {130, 2000}};
    struct pair p = open_pair(shape(WEFT_F16, 2, 4, 128), 2, lens);
    weft_attention_desc desc = p.c.desc, rounded = p.c.desc;
    size_t whole = workspace_of(*state, &desc);
    rounded.flags = WEFT_ATTENTION_OUT_ROUNDED;
    size_t with_results = workspace_of(*state, &rounded);
    assert_true(with_results > whole);
    rounded.max_workspace_bytes = (int64_t)(with_results - whole / 2);
    size_t bytes = workspace_of(*state, &rounded);
    assert_true(bytes > 0 && bytes <= with_results - whole / 2);

    weft_cascade *cascade;
    const weft_cascade_desc wish = {
        .size = sizeof wish, .max_prefix_len = 4096, .attention = &desc};
    assert_int_equal(weft_cascade_create(*state, &wish, &cascade), WEFT_OK);
    desc.max_workspace_bytes = (int64_t)(weft_cascade_workspace_bytes(cascade) - whole / 2);
    weft_cascade_destroy(cascade);
    assert_int_equal(weft_cascade_create(*state, &wish, &cascade), WEFT_OK);
    assert_true(weft_cascade_workspace_bytes(cascade) <= (size_t)desc.max_workspace_bytes);
    weft_cascade_destroy(cascade);
    desc.max_workspace_bytes = 1024;
    assert_refused(*state, weft_cascade_create(*state, &wish, &cascade), WEFT_EWORKSPACE,
                   "max_workspace_bytes");
    close_pair(&p);
}

// exp_sums, max_logits and chunk_out of [rows][splits], put together by hand, are the results.
static void chunks_add_up(const struct pair *p, const float *max_logits, const float *exp_sums,
                          const float *chunk_out, int32_t splits)
{
    const int32_t dim = p->c.desc.kv.head_dim;
    for (int64_t row = 0; row < p->c.lse_elems; row++) {
        double largest = -INFINITY, sum = 0;
        for (int32_t n = 0; n < splits; n++)
            largest = fmax(largest, max_logits[row * splits + n]);
        for (int32_t n = 0; n < splits; n++)
            sum += exp_sums[row * splits + n] * exp(max_logits[row * splits + n] - largest);
        assert_true(fabs(largest + log(sum) - p->lse_a[row]) < NEAR);
        for (int32_t i = 0; i < dim; i++) {
            double y = 0;
            for (int32_t n = 0; n < splits; n++)
                y += chunk_out[(row * splits + n) * dim + i] *
                     exp(max_logits[row * splits + n] - largest);
            assert_true(fabs(y / sum - p->a[row * dim + i]) < NEAR);
        }
    }
}

static void partial_states_are_handed_out(void **state)
{
    enum { SPLITS = 5 };
    const int32_t lens[][2] = {{1, 300}, {2, 33}, {20, 700}};
    struct pair p = open_pair(shape(WEFT_F16, 2, 2, 64), 3, lens);
    size_t chunks = (size_t)p.c.lse_elems * SPLITS;
    float *max_logits = malloc(chunks * sizeof *max_logits);
    float *exp_sums = malloc(chunks * sizeof *exp_sums);
    float *chunk_out = malloc(chunks * 64 * sizeof *chunk_out);
    const weft_attention_report report = {
        .max_logits = max_logits, .exp_sums = exp_sums, .chunk_out = chunk_out};
    weft_attention_desc desc = p.c.desc;
    desc.report = &report;
    assert_refused(*state, attention_case_run(*state, &p.c, &desc, p.a, NULL), WEFT_EINVAL,
                   "num_splits");
    desc.num_splits = SPLITS;
    assert_int_equal(attention_case_run(*state, &p.c, &desc, p.a, p.lse_a), WEFT_OK);
    chunks_add_up(&p, max_logits, exp_sums, chunk_out, SPLITS);
    // 33 keys are one block: the second chunk and those after it are empty
    for (int64_t row = 4; row < 12; row++)
        for (int32_t n = 1; n < SPLITS; n++) {
            assert_true(max_logits[row * SPLITS + n] == -INFINITY);
            assert_true(exp_sums[row * SPLITS + n] == 0);
        }
    free(max_logits);
    free(exp_sums);
    free(chunk_out);
    close_pair(&p);
}

// attention_any_ref weighs with exp2() of the C library in double, the others with a polynomial in f32.
static void a_precise_and_a_fast_exponential(void **state)
{
    struct pair p = open_pair(shape(WEFT_F32, 2, 4, 64), MIXED, mixed);
    weft_attention_desc precise = p.c.desc;
    precise.flags |= WEFT_ATTENTION_PRECISE;
    run(*state, &p, &p.c.desc, p.a, p.lse_a);
    run(*state, &p, &precise, p.b, p.lse_b);
    double far = attention_case_far(p.a, p.b, p.c.out_elems);
    print_message("precise and fast differ by at most %g\n", far);
    assert_true(far < 2e-6);
    assert_true(far > 0 || strcmp(weft_context_isa(*state), "ref") == 0);
    close_pair(&p);
}

// The name of a kernel of attention that decodes keys to scratch memory, whatever the format; "" where there is
// only the reference.
static const char *gathering(weft_context *context)
{
    weft_kernel_info info;
    for (int32_t n = 0; weft_kernel_at(context, n, &info); n++)
        if (info.usable && strncmp(info.name, "attention_any_", 14) == 0 &&
            strcmp(info.isa, "ref") != 0)
            return info.name;
    return "";
}

// Keys are read in place or gathered, as the table of thresholds says for the size of pages.
static void pages_choose_the_loads(void **state)
{
    weft_context *context;
    (void)state;
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    weft_tuning entry = {
        .size = sizeof entry, .op = WEFT_TUNING_ATTENTION, .dtype = WEFT_F16, .page_size = 4};
    snprintf(entry.kernel, sizeof entry.kernel, "%s", gathering(context));
    if (*entry.kernel)
        assert_int_equal(weft_tuning_add(context, &entry), WEFT_OK);
    for (int32_t page_size = 1; page_size <= 64 && *entry.kernel; page_size *= 2) {
        weft_attention_desc desc = shape(WEFT_F16, 2, 4, 64);
        weft_plan_info info = {.size = sizeof info};
        weft_plan *plan;
        desc.kv.page_size = page_size;
        struct pair p = open_pair(desc, MIXED, mixed);
        assert_int_equal(weft_attention_plan(context, &p.c.desc, &plan), WEFT_OK);
        assert_int_equal(weft_plan_query(plan, &info), WEFT_OK);
        assert_int_equal(strcmp(info.kernel, entry.kernel) == 0, page_size == 4);
        weft_plan_destroy(plan);
        run(context, &p, &p.c.desc, p.a, p.lse_a);
        desc = p.c.desc;
        desc.variant = entry.kernel;
        run(context, &p, &desc, p.b, p.lse_b);
        assert_true(attention_case_far(p.a, p.b, p.c.out_elems) < NEAR);
        close_pair(&p);
    }
    weft_context_destroy(context);
}

// Keys of a block come from the table where the descriptor does not say.
static void blocks_come_from_the_table(void **state)
{
    const int32_t lens[][2] = {{4, 640}};
    weft_context *context;
    (void)state;
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    const weft_tuning entry = {.size = sizeof entry, .op = WEFT_TUNING_ATTENTION, .block_keys = 16};
    for (int tuned = 0; tuned < 2; tuned++) {
        uint64_t counts[WEFT_ATTENTION_COUNTS] = {0};
        const weft_attention_report report = {.counts = counts};
        struct pair p = open_pair(shape(WEFT_F16, 2, 4, 64), 1, lens);
        p.c.desc.report = &report, p.c.desc.mask = WEFT_MASK_FULL;
        if (tuned)
            assert_int_equal(weft_tuning_add(context, &entry), WEFT_OK);
        run(context, &p, &p.c.desc, p.a, p.lse_a);
        if (strcmp(weft_context_isa(context), "ref") != 0)
            assert_int_equal(counts[WEFT_ATTENTION_COUNT_BLOCKS], 32 * 640 / (tuned ? 16 : 64));
        close_pair(&p);
    }
    weft_context_destroy(context);
}

// Of one key the result is its value, and the LSE its score: each code of a byte as value and as key, by every kernel.
static void every_code_of_a_byte_is_read(void **state)
{
    enum { DIM = 128, HEADS = 4 };
    static const weft_dtype dtypes[] = {WEFT_INT8, WEFT_FP8_E4M3, WEFT_FP8_E5M2};
    for (int f = 0; f < 3; f++) {
        uint8_t codes[DIM];
        float numbers[DIM], q[HEADS * DIM], out[HEADS * DIM], lse[HEADS];
        const int32_t cu[] = {0, 1}, kv_len = 1, page = 0;
        const weft_attention_desc desc = {
            .size = sizeof desc,
            .kv = {.dtype = dtypes[f], .num_kv_heads = 1, .head_dim = DIM, .page_size = 1},
            .num_q_heads = HEADS,
            .max_kv_len = 1,
            .scale = 1};
        weft_plan *plan;
        assert_int_equal(weft_attention_plan(*state, &desc, &plan), WEFT_OK);
        const size_t bytes = (weft_plan_workspace_bytes(plan) + 63) / 64 * 64;
        weft_attention_args args = {.size = sizeof args,
                                    .num_seqs = 1,
                                    .q = q,
                                    .out = out,
                                    .lse = lse,
                                    .pool = {.k.data = codes, .v.data = codes, .num_pages = 1},
                                    .cu_q_lens = cu,
                                    .kv_lens = &kv_len,
                                    .page_table = &page,
                                    .workspace = aligned_alloc(64, bytes + 64),
                                    .workspace_bytes = bytes};
        for (int code = 0; code < 256; code += HEADS) {
            memset(q, 0, sizeof q);
            for (int i = 0; i < DIM; i++) // sixteen of each code
                codes[i] = (uint8_t)(code + i / 16 % HEADS);
            for (int h = 0; h < HEADS; h++)
                q[h * DIM + 16 * h + code / HEADS % 16] = 1;
            assert_int_equal(weft_dequantize_row(dtypes[f], codes, DIM, numbers), WEFT_OK);
            assert_int_equal(weft_attention_run(plan, &args), WEFT_OK);
            bool whole = true; // 0 times what is no number is none
            for (int i = 0; i < DIM; i++)
                whole = whole && isfinite(numbers[i]);
            for (int i = 0; i < HEADS * DIM; i++)
                if (whole ? !(fabsf(out[i] - numbers[i % DIM]) <= 1e-6f * fabsf(numbers[i % DIM]))
                          : !isnan(out[i]) && isnan(numbers[i % DIM]))
                    fail_msg("%s: code %d is %g, read as %g", weft_dtype_name(dtypes[f]),
                             codes[i % DIM], (double)numbers[i % DIM], (double)out[i]);
            for (int h = 0; h < HEADS && whole; h++)
                if (!(fabsf(lse[h] - numbers[16 * h]) <= 1e-6f * fabsf(numbers[16 * h])))
                    fail_msg("%s: code %d scores %g, not %g", weft_dtype_name(dtypes[f]), code + h,
                             (double)lse[h], (double)numbers[16 * h]);
        }
        free(args.workspace);
        weft_plan_destroy(plan);
    }
}

// Of keys and values; the queries are the same.
static void a_cache_of_fp8_has_half_the_bytes(void **state)
{
    const int32_t lens[][2] = {{1, 500}};
    int64_t page[2], reads[2], queries = 8 * 128 * 4;
    for (int i = 0; i < 2; i++) {
        struct pair p = open_pair(shape(i ? WEFT_FP8_E4M3 : WEFT_BF16, 2, 4, 128), 1, lens);
        weft_plan_info info = {.size = sizeof info};
        weft_plan *plan;
        assert_int_equal(weft_attention_plan(*state, &p.c.desc, &plan), WEFT_OK);
        assert_int_equal(weft_plan_query(plan, &info), WEFT_OK);
        page[i] = weft_kv_page_bytes(&p.c.desc.kv);
        reads[i] = info.bytes_read - queries;
        weft_plan_destroy(plan);
        close_pair(&p);
    }
    assert_int_equal(page[0], 2 * page[1]);
    assert_int_equal(reads[0], 2 * reads[1]);
}

static void bad_tiles_are_refused(void **state)
{
    static const struct {
        weft_attention_desc change;
        const char *words;
    } bad[] = {
        {{.tile_heads = 3}, "tile_heads=3"},
        {{.tile_heads = -1}, "tile_heads=-1"},
        {{.block_keys = 65}, "block_keys=65"},
        {{.block_keys = -1}, "block_keys=-1"},
        {{.stages = 3}, "stages=3"},
        {{.max_workspace_bytes = -1}, "negative"},
        {{.reserved_number = 1}, "reserved_number"},
    };
    const int32_t lens[][2] = {{1, 8}};
    struct pair p = open_pair(shape(WEFT_F16, 2, 4, 64), 1, lens);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_attention_desc desc = p.c.desc;
        desc.tile_heads = bad[i].change.tile_heads;
        desc.block_keys = bad[i].change.block_keys;
        desc.stages = bad[i].change.stages;
        desc.max_workspace_bytes = bad[i].change.max_workspace_bytes;
        desc.reserved_number = bad[i].change.reserved_number;
        assert_refused(*state, attention_case_run(*state, &p.c, &desc, p.a, NULL), WEFT_EINVAL,
                       bad[i].words);
    }
    const weft_attention_report report = {.reserved = {[3] = 1}};
    p.c.desc.report = &report;
    assert_refused(*state, attention_case_run(*state, &p.c, &p.c.desc, p.a, NULL), WEFT_EINVAL,
                   "unknown");
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generic_and_specialised_agree_to_the_bit),
        cmocka_unit_test(masks_meet_only_diagonals_and_tails),
        cmocka_unit_test(heads_blocks_and_stages_change_no_result),
        cmocka_unit_test(a_budget_shrinks_the_workspace_or_refuses),
        cmocka_unit_test(a_budget_holds_all_parts),
        cmocka_unit_test(partial_states_are_handed_out),
        cmocka_unit_test(a_precise_and_a_fast_exponential),
        cmocka_unit_test(pages_choose_the_loads),
        cmocka_unit_test(every_code_of_a_byte_is_read),
        cmocka_unit_test(blocks_come_from_the_table),
        cmocka_unit_test(a_cache_of_fp8_has_half_the_bytes),
        cmocka_unit_test(bad_tiles_are_refused),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
