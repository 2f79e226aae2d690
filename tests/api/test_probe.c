// SPDX-License-Identifier: MIT
// Probes: what they refuse, and that the work they report was done.
#include "tests/support/context_fixture.h"

static _Alignas(64) unsigned char memory[3 * WEFT_PROBE_UNIT_BYTES];

static weft_status probe(weft_context *context, weft_probe_args args)
{
    weft_probe_result result;
    args.size = sizeof args;
    return weft_probe_run(context, &args, &result);
}

static void bad_arguments_are_refused(void **state)
{
    weft_context *c = *state;
    const int64_t unit = WEFT_PROBE_UNIT_BYTES;
    weft_probe_result untouched = {.value = 7, .kernel = "untouched"};
    assert_int_equal(weft_probe_run(NULL, &(weft_probe_args){0}, &untouched), WEFT_EINVAL);
    assert_int_equal(weft_probe_run(c, &(weft_probe_args){0}, NULL), WEFT_EINVAL);
    assert_refused(c, weft_probe_run(c, NULL, &untouched), WEFT_EINVAL, "size");
    assert_refused(c, probe(c, (weft_probe_args){.bytes = unit}), WEFT_EINVAL, "aligned");
    assert_refused(c, probe(c, (weft_probe_args){.memory = memory + 8, .bytes = unit}), WEFT_EINVAL,
                   "aligned");
    assert_refused(c, probe(c, (weft_probe_args){.memory = memory, .bytes = unit - 1}), WEFT_EINVAL,
                   "whole number");
    assert_refused(c, probe(c, (weft_probe_args){.memory = memory}), WEFT_EINVAL, "whole number");
    assert_refused(c, probe(c, (weft_probe_args){.kind = WEFT_PROBE_FMA_F32}), WEFT_EINVAL,
                   "steps");
    assert_refused(
        c,
        probe(c, (weft_probe_args){.kind = WEFT_PROBE_DOT_I8, .steps = WEFT_PROBE_MAX_STEPS + 1}),
        WEFT_EINVAL, "steps");
    assert_refused(c, probe(c, (weft_probe_args){.kind = (weft_probe_kind)9, .steps = 1}),
                   WEFT_EINVAL, "kind 9");
    assert_refused(c, probe(c, (weft_probe_args){.kind = WEFT_PROBE_MMA_F16, .steps = 1}),
                   WEFT_EUNSUPPORTED, "GPUs");
    assert_refused(c,
                   probe(c, (weft_probe_args){.kind = WEFT_PROBE_FMA_F32,
                                              .steps = 1,
                                              .variant = "probe_fma_abacus"}),
                   WEFT_EVARIANT, "abacus");
    assert_refused(c,
                   probe(c, (weft_probe_args){.kind = WEFT_PROBE_FMA_F32,
                                              .steps = 1,
                                              .variant = "probe_dot_ref"}),
                   WEFT_EVARIANT, "probe_dot_ref");
    assert_int_equal(untouched.value, 7);
}

static void memory_is_summed(void **state)
{
    uint64_t sum = 0, word;
    weft_probe_result result;
    for (size_t i = 0; i < sizeof memory; i++)
        memory[i] = (unsigned char)(i * 37 + i / 256);
    for (size_t i = 0; i < sizeof memory; i += sizeof word) {
        memcpy(&word, memory + i, sizeof word);
        sum += word;
    }
    weft_probe_args args = {.size = sizeof args, .memory = memory, .bytes = sizeof memory};
    assert_int_equal(weft_probe_run(*state, &args, &result), WEFT_OK);
    assert_true(result.value == sum);
    assert_non_null(strstr(result.kernel, "probe_read_"));
}

// Every thread does all steps of all its chains.
static void products_are_counted(void **state)
{
    uint64_t threads = (uint64_t)weft_context_threads(*state);
    const weft_probe_kind kinds[] = {WEFT_PROBE_FMA_F32, WEFT_PROBE_DOT_I8, WEFT_PROBE_DOT_BF16};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        weft_probe_result once, thrice;
        weft_probe_args args = {.size = sizeof args, .kind = kinds[i], .steps = 5};
        assert_int_equal(weft_probe_run(*state, &args, &once), WEFT_OK);
        args.steps = 15;
        assert_int_equal(weft_probe_run(*state, &args, &thrice), WEFT_OK);
        assert_true(once.value >= 5 * threads && once.value % (5 * threads) == 0);
        assert_true(thrice.value == 3 * once.value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(memory_is_summed),
        cmocka_unit_test(products_are_counted),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
