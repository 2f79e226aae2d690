// SPDX-License-Identifier: MIT
// Moving pages of a cache; weft-check has random ones.
#include "tests/support/context_fixture.h"

enum { PAGES = 4, FLOATS = 16 }; // 2 heads x 1 slot x 8

// Page p holds 100 p + 0, 1, ..; its values are the negatives.
static void fill(float *k, float *v)
{
    for (int i = 0; i < PAGES * FLOATS; i++) {
        k[i] = (float)(100 * (i / FLOATS) + i % FLOATS);
        v[i] = -k[i];
    }
}

static int page_of(const float *k, const float *v, int page)
{
    const float *at = k + (ptrdiff_t)page * FLOATS;
    for (int i = 0; i < FLOATS; i++) {
        assert_true(at[i] == at[0] + (float)i);
        assert_true(v[page * FLOATS + i] == -at[i]);
    }
    return (int)at[0] / 100;
}

static const weft_kv_layout layout = {
    .dtype = WEFT_F32, .num_kv_heads = 2, .head_dim = 8, .page_size = 1};

static weft_plan *plan_of(weft_context *context, weft_pages_mode mode, int32_t max_pairs)
{
    const weft_pages_desc desc = {
        .size = sizeof desc, .mode = mode, .layout = layout, .max_pairs = max_pairs};
    weft_plan *plan = NULL;
    if (weft_pages_plan(context, &desc, &plan) != WEFT_OK)
        fail_msg("%s", weft_error_text(context));
    return plan;
}

static weft_kv_pool pool_of(float *k, float *v)
{
    return (weft_kv_pool){.k.data = k, .v.data = v, .num_pages = PAGES};
}

// Out to another cache and in again, to another place; two pages change places.
static void swaps_out_and_in(void **state)
{
    float k[PAGES * FLOATS], v[PAGES * FLOATS], host_k[PAGES * FLOATS], host_v[PAGES * FLOATS];
    fill(k, v);
    weft_plan *plan = plan_of(*state, WEFT_PAGES_COPY, 2);
    weft_pages_args args = {.size = sizeof args,
                            .count = 2,
                            .from = pool_of(k, v),
                            .to = pool_of(host_k, host_v),
                            .from_pages = (const int32_t[]){3, 1},
                            .to_pages = (const int32_t[]){0, 2}};
    assert_int_equal(weft_pages_run(plan, &args), WEFT_OK);
    assert_int_equal(page_of(host_k, host_v, 0), 3);
    assert_int_equal(page_of(host_k, host_v, 2), 1);
    args.from = args.to, args.to = pool_of(k, v);
    args.from_pages = (const int32_t[]){0, 2}, args.to_pages = (const int32_t[]){2, -1};
    assert_int_equal(weft_pages_run(plan, &args), WEFT_OK);
    assert_int_equal(page_of(k, v, 2), 3);
    assert_int_equal(page_of(k, v, 1), 1);
    weft_plan_destroy(plan);
    plan = plan_of(*state, WEFT_PAGES_EXCHANGE, 1);
    args.count = 1, args.from = args.to;
    args.from_pages = (const int32_t[]){0}, args.to_pages = (const int32_t[]){1};
    assert_int_equal(weft_pages_run(plan, &args), WEFT_OK);
    assert_int_equal(page_of(k, v, 0), 1);
    assert_int_equal(page_of(k, v, 1), 0);
    weft_plan_destroy(plan);
}

// Two sequences share page 1 and are both about to write it: the first gets a copy, the second keeps it.
static void owners_do_not_share(void **state)
{
    float k[PAGES * FLOATS], v[PAGES * FLOATS];
    int32_t table[] = {0, 1, 0, 1}, references[] = {2, 2, 0, 0}, copied[] = {7, 7};
    fill(k, v);
    weft_plan *plan = plan_of(*state, WEFT_PAGES_OWN, 2);
    const weft_pages_args args = {.size = sizeof args,
                                  .count = 2,
                                  .from = pool_of(k, v),
                                  .to = pool_of(k, v),
                                  .to_pages = (const int32_t[]){3, 2},
                                  .page_table = table,
                                  .entries_bound = 4,
                                  .entries = (const int32_t[]){1, 3},
                                  .references = references,
                                  .copied = copied};
    assert_int_equal(weft_pages_run(plan, &args), WEFT_OK);
    assert_memory_equal(table, ((int32_t[]){0, 3, 0, 1}), sizeof table);
    assert_memory_equal(references, ((int32_t[]){2, 1, 0, 1}), sizeof references);
    assert_memory_equal(copied, ((int32_t[]){1, -1}), sizeof copied);
    assert_int_equal(page_of(k, v, 3), 1);
    assert_int_equal(page_of(k, v, 2), 2);
    weft_plan_destroy(plan);
}

// A recorded run finds its number of pairs, and the pairs, where they stand when it is launched.
static void recorded_runs_read_their_pairs(void **state)
{
    float k[PAGES * FLOATS], v[PAGES * FLOATS];
    int32_t from[] = {0, 1 << 30}, to[] = {1, -5}, count = 1;
    weft_program *program;
    fill(k, v);
    weft_plan *plan = plan_of(*state, WEFT_PAGES_COPY, 2);
    const weft_pages_args args = {.size = sizeof args,
                                  .count = 2,
                                  .count_at = &count,
                                  .from = pool_of(k, v),
                                  .to = pool_of(k, v),
                                  .from_pages = from,
                                  .to_pages = to};
    assert_int_equal(weft_program_begin(*state, &program), WEFT_OK);
    assert_int_equal(weft_pages_run(plan, &args), WEFT_OK);
    assert_int_equal(weft_program_end(program), WEFT_OK);
    count = 0;
    assert_int_equal(weft_program_launch(program, NULL), WEFT_OK);
    assert_int_equal(page_of(k, v, 1), 1);
    count = 2;
    from[1] = 3, to[1] = 2;
    assert_int_equal(weft_program_launch(program, NULL), WEFT_OK);
    assert_int_equal(page_of(k, v, 1), 0);
    assert_int_equal(page_of(k, v, 2), 3);
    fill(k, v);
    to[1] = PAGES; // outside the cache
    count = 1 << 20;
    assert_int_equal(weft_program_launch(program, NULL), WEFT_OK);
    for (int page = 0; page < PAGES; page++)
        assert_int_equal(page_of(k, v, page), page == 1 ? 0 : page);
    weft_program_destroy(program);
    weft_plan_destroy(plan);
}

static void refuses(void **state)
{
    float k[PAGES * FLOATS], v[PAGES * FLOATS];
    int32_t table[] = {0, 9}, references[PAGES] = {0}, copied[2];
    weft_plan *plan = NULL;
    fill(k, v);
    weft_pages_desc desc = {.size = sizeof desc, .layout = layout, .mode = (weft_pages_mode)3};
    assert_refused(*state, weft_pages_plan(*state, &desc, &plan), WEFT_EINVAL, "mode 3");
    desc.mode = WEFT_PAGES_COPY, desc.layout.page_size = 0;
    assert_refused(*state, weft_pages_plan(*state, &desc, &plan), WEFT_EINVAL, "page_size");
    const weft_pages_args good = {.size = sizeof good,
                                  .count = 1,
                                  .from = pool_of(k, v),
                                  .to = pool_of(k, v),
                                  .from_pages = (const int32_t[]){0},
                                  .to_pages = (const int32_t[]){1}};
    weft_pages_args args = good;
    plan = plan_of(*state, WEFT_PAGES_COPY, 1);
#define REFUSED(words)                                                                             \
    do {                                                                                           \
        assert_refused(*state, weft_pages_run(plan, &args), WEFT_EINVAL, words);                   \
        for (int page = 0; page < PAGES; page++)                                                   \
            assert_int_equal(page_of(k, v, page), page);                                           \
        args = good;                                                                               \
    } while (0)
    args.count = 2;
    REFUSED("count");
    args.from_pages = NULL;
    REFUSED("from_pages");
    args.from_pages = (const int32_t[]){4};
    REFUSED("from_pages[0]=4 is outside -1..3");
    args.to_pages = (const int32_t[]){-2};
    REFUSED("to_pages[0]=-2");
    args.references = references;
    REFUSED("WEFT_PAGES_OWN");
    args.to.k.page_stride = 7;
    REFUSED("stride");
    weft_plan_destroy(plan);
    plan = plan_of(*state, WEFT_PAGES_OWN, 1);
    args = good;
    REFUSED("from_pages must be");
    args.from_pages = NULL, args.page_table = table, args.entries_bound = 2;
    args.entries = (const int32_t[]){1}, args.references = references, args.copied = copied;
    const weft_pages_args owning = args;
    REFUSED("page_table[1]=9");
    args = owning, args.entries = (const int32_t[]){2};
    REFUSED("entries[0]=2");
    args = owning, args.to = pool_of(v, k);
    REFUSED("one cache");
    weft_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swaps_out_and_in),
        cmocka_unit_test(owners_do_not_share),
        cmocka_unit_test(recorded_runs_read_their_pairs),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
