// SPDX-License-Identifier: MIT
// Sinks, ALiBi, local chunks, trees, bit masks, two dims and wide heads against torch.
#define _POSIX_C_SOURCE 200809L
#include <math.h>

#include "tests/support/context_fixture.h"
#include "tests/support/golden.h"

enum { PAGE = 4, MOST_PAGES = 32 };

typedef struct mode {
    const golden *file;
    const char *name;
    weft_attention_desc desc;
    int32_t q_len, kv_len, v_dim;
    float *q, *k, *v; // k and v in pages [page][slot][head][dim], of which number i is page i
} mode;

static int32_t parameter(const mode *m, const char *key)
{
    return (int32_t)golden_number(m->file, m->name, key, 0);
}

static float *widened(const mode *m, const char *name, int64_t room)
{
    const golden_tensor *tensor = golden_find(m->file, m->name, name);
    float *numbers = malloc((size_t)(room > tensor->elements ? room : tensor->elements) * 4);
    assert_int_equal(weft_dequantize_row(WEFT_F16, tensor->data, tensor->elements, numbers),
                     WEFT_OK);
    for (int64_t i = tensor->elements; i < room; i++)
        numbers[i] = NAN;
    return numbers;
}

static void read_mode(mode *m)
{
    int32_t flags = parameter(m, "sinks") ? WEFT_ATTENTION_SINKS : 0;
    flags |= parameter(m, "alibi") ? WEFT_ATTENTION_ALIBI : 0;
    m->q_len = parameter(m, "q_len");
    m->kv_len = parameter(m, "kv_len");
    m->v_dim = parameter(m, "v_dim");
    m->desc = (weft_attention_desc){.size = sizeof m->desc,
                                    .flags = (uint32_t)flags,
                                    .kv = {.dtype = WEFT_F32,
                                           .num_kv_heads = parameter(m, "num_kv_heads"),
                                           .head_dim = parameter(m, "head_dim"),
                                           .page_size = PAGE,
                                           .v_dim = m->v_dim},
                                    .num_q_heads = parameter(m, "num_q_heads"),
                                    .mask = (weft_mask)parameter(m, "mask"),
                                    .window = parameter(m, "window"),
                                    .window_right = parameter(m, "window_right"),
                                    .local_chunk = parameter(m, "local_chunk"),
                                    .max_q_tokens = m->q_len,
                                    .max_kv_len = m->kv_len};
    int64_t slots = (m->kv_len + PAGE - 1) / PAGE * PAGE * m->desc.kv.num_kv_heads;
    m->q = widened(m, "q", 0);
    m->k = widened(m, "k", slots * m->desc.kv.head_dim);
    m->v = widened(m, "v", slots * m->v_dim);
}

static weft_kv_plane plane_of(const mode *m, float *data, int32_t dim)
{
    int64_t heads = m->desc.kv.num_kv_heads;
    return (weft_kv_plane){.data = data,
                           .page_stride = PAGE * heads * dim,
                           .token_stride = heads * dim,
                           .head_stride = dim};
}

static void compare(const mode *m, const weft_plan *plan, const float *out, const float *lse)
{
    const float *want = golden_data(m->file, m->name, "out", GOLDEN_F32);
    const float *want_lse = golden_data(m->file, m->name, "lse", GOLDEN_F32);
    for (int64_t r = 0; r < (int64_t)m->q_len * m->desc.num_q_heads; r++) {
        bool same = lse[r] == want_lse[r] || fabsf(lse[r] - want_lse[r]) <= 5e-6f;
        for (int64_t i = r * m->v_dim; i < (r + 1) * m->v_dim; i++)
            if (!same || !(fabsf(out[i] - want[i]) <= 5e-6f))
                fail_msg("%s (%s): row %lld, [%lld] is %g, not %g, log-sum-exp %g, not %g", m->name,
                         weft_plan_describe(plan), (long long)r, (long long)i, (double)out[i],
                         (double)want[i], (double)lse[r], (double)want_lse[r]);
    }
}

static void run(weft_context *context, const mode *m)
{
    weft_plan *plan;
    if (weft_attention_plan(context, &m->desc, &plan) != WEFT_OK)
        fail_msg("%s: %s", m->name, weft_error_text(context));
    int64_t rows = (int64_t)m->q_len * m->desc.num_q_heads;
    size_t bytes = weft_plan_workspace_bytes(plan);
    const int32_t cu[2] = {0, m->q_len}, start = parameter(m, "kv_start");
    const int32_t columns = parameter(m, "columns");
    int32_t pages[MOST_PAGES];
    for (int32_t i = 0; i < MOST_PAGES; i++)
        pages[i] = i;
    float *out = malloc((size_t)(rows * m->v_dim) * 4), *lse = malloc((size_t)rows * 4);
    weft_attention_args args = {.size = sizeof args,
                                .num_seqs = 1,
                                .q = m->q,
                                .out = out,
                                .lse = lse,
                                .pool = {.k = plane_of(m, m->k, m->desc.kv.head_dim),
                                         .v = plane_of(m, m->v, m->v_dim),
                                         .num_pages = (m->kv_len + PAGE - 1) / PAGE},
                                .cu_q_lens = cu,
                                .kv_lens = &m->kv_len,
                                .page_table = pages,
                                .kv_starts = &start,
                                .workspace = aligned_alloc(64, (bytes + 63) / 64 * 64),
                                .workspace_bytes = bytes};
    if (m->desc.flags & WEFT_ATTENTION_SINKS)
        args.sinks = golden_data(m->file, m->name, "sinks", GOLDEN_F32);
    if (m->desc.flags & WEFT_ATTENTION_ALIBI)
        args.alibi_slopes = golden_data(m->file, m->name, "slopes", GOLDEN_F32);
    if (m->desc.mask == WEFT_MASK_TREE)
        args.tree_parents = golden_data(m->file, m->name, "parents", GOLDEN_I32);
    if (m->desc.mask == WEFT_MASK_BITS) {
        args.mask_bits = golden_data(m->file, m->name, "bits", GOLDEN_I32);
        args.mask_columns = &columns;
    }
    if (weft_attention_run(plan, &args) != WEFT_OK)
        fail_msg("%s: %s", m->name, weft_error_text(context));
    compare(m, plan, out, lse);
    free(args.workspace);
    free(out);
    free(lse);
    weft_plan_destroy(plan);
}

static void modes_agree_with_torch(void **state)
{
    static const int32_t splits[] = {0, 1, 3, 100};
    weft_context *context;
    (void)state;
    assert_int_equal(weft_context_create(NULL, &context), WEFT_OK);
    golden *file = golden_open("attention/modes.safetensors");
    const char *name;
    for (size_t n = 0; (name = golden_case(file, n)); n++) {
        mode m = {.file = file, .name = name};
        read_mode(&m);
        for (size_t i = 0; i < sizeof splits / sizeof *splits; i++) {
            m.desc.num_splits = splits[i];
            run(context, &m);
        }
        free(m.q);
        free(m.k);
        free(m.v);
    }
    golden_close(file);
    weft_context_destroy(context);
}

int main(void)
{
    static const char *const levels[] = {"avx2", "ref"};
    const struct CMUnitTest tests[] = {cmocka_unit_test(modes_agree_with_torch)};
    int failed = cmocka_run_group_tests_name("best level", tests, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        weft_context *context;
        setenv("WEFT_CPU", levels[i], 1);
        if (weft_context_create(NULL, &context) != WEFT_OK)
            continue; // a level of another architecture
        weft_context_destroy(context);
        failed += cmocka_run_group_tests_name(levels[i], tests, NULL, NULL);
    }
    return failed;
}
