// SPDX-License-Identifier: MIT
// The random numbers of sampling, against the known answer of Philox 4x32-10 for key 0 and counter 0
// (Random123's kat_vectors: 6627e8d5 e169c58d bc57ac4c 9b00dbd8).
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "src/kernels/sample/sample_kernel.h"

static void known_answer(void **state)
{
    (void)state;
    assert_true(weft__sample_uniform(0, 0) == (double)(0xe169c58d6627e8d5u >> 11) * 0x1p-53);
}

static void seeds_and_steps_are_unrelated(void **state)
{
    enum { COUNT = 100000 };
    double mean = 0, product = 0;
    (void)state;
    for (uint64_t i = 0; i < COUNT; i++) {
        double u = weft__sample_uniform(i % 10, i / 10),
               next = weft__sample_uniform(i % 10, i / 10 + 1);
        assert_true(u >= 0 && u < 1);
        mean += u / COUNT;
        product += (u - 0.5) * (next - 0.5) / COUNT;
    }
    assert_true(fabs(mean - 0.5) < 5 / sqrt(12.0 * COUNT));
    assert_true(fabs(product) < 5 / (12 * sqrt(COUNT)));
    assert_true(weft__sample_uniform(1, 0) != weft__sample_uniform(0, 1));
    assert_true(weft__sample_uniform(UINT64_C(1) << 32, 0) != weft__sample_uniform(0, 0));
    assert_true(weft__sample_uniform(0, UINT64_C(1) << 32) != weft__sample_uniform(0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answer),
        cmocka_unit_test(seeds_and_steps_are_unrelated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
