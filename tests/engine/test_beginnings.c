// SPDX-License-Identifier: MIT
// The first tokens of whole models against transformers, some in one piece and some one by one: for devices on
// which all that test_logits.c does would take too long, such as the emulated one. An argument such as
// "llama4*" chooses models.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tests/support/golden_model.h"
#include "tests/support/open_worker.h"

// Beyond the window, the chunk and the length from which on queries grow of the models here; golden logits are of
// tokens 0, 30, 60 and 90.
enum { TOKENS = 91, FIRST = 88 };

static golden_written base, adapter;
static float *logits;

// Logits of `first` tokens in one piece and three by themselves.
static void run(engine_worker *worker, const golden_written *of, int32_t first, float *to)
{
    engine_error err = {""};
    engine_session *session = engine_session_open(worker, &err);
    if (!session)
        fail_msg("%s", err.text);
    for (int32_t done = 0; done < first + TOKENS - FIRST;) {
        engine_feed feed = {.session = session,
                            .ids = of->tokens + done,
                            .count = done < first ? first : 1,
                            .logits = to + (int64_t)done * of->vocab};
        done += feed.count;
        if (!engine_eval(worker, &feed, 1, NULL, NULL, &err))
            fail_msg("%s", err.text);
    }
    engine_session_close(session);
    close_worker(worker);
}

static engine_worker *open_base(const engine_options *options)
{
    engine_error err = {""};
    engine_worker *worker = open_worker(base.path, options, &err);
    if (!worker)
        fail_msg("%s", err.text);
    return worker;
}

// The golden logits of the first tokens: distance over the largest.
static double distance(const golden_written *of, const engine_options *options)
{
    run(open_base(options), of, FIRST, logits);
    return golden_model_distance_of(of->file, logits, TOKENS) /
           golden_number(of->file, "model", "max_abs_logit", 0);
}

static void check(const char *what, const golden_written *of, engine_options options, double most)
{
    double far = distance(of, &options);
    print_message("%s: off by %.2g of the largest logit\n", what, far);
    if (!(far <= most))
        fail_msg("%s: off by %g", what, far);
}

static void agrees(const char *model, const char *adapter_name)
{
    char name[64];
    snprintf(name, sizeof name, "models/%s.safetensors", model);
    assert_true(golden_model_open(&base, name));
    logits = calloc((size_t)(TOKENS * base.vocab), sizeof *logits);
    assert_non_null(logits);
    engine_options exact = {.threads = 1, .kv_dtype = WEFT_F32, .exact = true};
    check(model, &base, exact, 1e-3);
    check("by default", &base, (engine_options){.threads = 1}, 0.05);
    if (adapter_name) {
        snprintf(name, sizeof name, "models/%s.safetensors", adapter_name);
        assert_true(golden_model_open(&adapter, name));
        exact.adapter_count = 1;
        exact.adapters[0] = (engine_adapter){adapter.path, 1};
        check(adapter_name, &adapter, exact, 1e-3);
    }
}

static int close_all(void **state)
{
    (void)state;
    free(logits);
    logits = NULL;
    golden_model_close(&base);
    if (adapter.file)
        golden_model_close(&adapter);
    base = adapter = (golden_written){.file = NULL};
    return 0;
}

static void llama4(void **state)
{
    (void)state;
    agrees("llama4_f32", "llama4_lora");
}

// Heads as long as they come out, every layer a mixture.
static void llama4large(void **state)
{
    (void)state;
    agrees("llama4large_f32", NULL);
}

static void gptoss(void **state)
{
    (void)state;
    agrees("gptoss_f32", "gptoss_lora");
}

// Experts that the device lays out anew, with adapters: nobody else has such logits, so they are the CPU's.
static void packed(void **state)
{
    enum { FEW = 6, ALL = FEW + TOKENS - FIRST };
    (void)state;
    engine_error err = {""};
    assert_true(golden_model_open(&base, "models/gptoss_mxfp4.safetensors") &&
                golden_model_open(&adapter, "models/gptoss_lora.safetensors"));
    const int64_t count = (int64_t)ALL * base.vocab;
    engine_options options = {.threads = 1, .kv_dtype = WEFT_F32, .exact = true};
    options.adapter_count = 1;
    options.adapters[0] = (engine_adapter){adapter.path, 1};
    float *wanted = calloc((size_t)count, sizeof *wanted);
    logits = calloc((size_t)count, sizeof *logits);
    assert_true(wanted && logits);
    engine_model *model = engine_model_open(base.path, &err);
    engine_worker *worker = model ? engine_worker_open(model, &options, &err) : NULL;
    if (!worker)
        fail_msg("%s", err.text);
    run(worker, &base, FEW, wanted);
    for (int exact = 1; exact >= 0; exact--) {
        double largest = 0, far = 0;
        options.exact = exact;
        run(open_base(&options), &base, FEW, logits);
        for (int64_t i = 0; i < count; i++) {
            largest = fmax(largest, fabs((double)wanted[i]));
            far = fmax(far, fabs((double)wanted[i] - (double)logits[i]));
        }
        print_message("%s: off by %.2g of the largest logit\n", exact ? "exact" : "by default",
                      far / largest);
        assert_true(far <= (exact ? 1e-3 : 0.05) * largest);
    }
    free(wanted);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(llama4, close_all),
                                       cmocka_unit_test_teardown(llama4large, close_all),
                                       cmocka_unit_test_teardown(gptoss, close_all),
                                       cmocka_unit_test_teardown(packed, close_all)};
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
