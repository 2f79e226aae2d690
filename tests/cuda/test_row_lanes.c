// SPDX-License-Identifier: MIT
// Which lanes find and copy rows (attention_row_lanes.cuh), beside an example: 32 rows of 128 bytes, eight lanes a row,
// four groups of lanes, eight steps.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define DEVICE static inline
#include "src/kernels/attention/attention_row_lanes.cuh"

// Group g copies row 4 k + g in step k. The example has it found by thread k + 8 g; here that is thread 4 k +
// g, so that those who find the first rows are the first lanes, of a short tile too.
static void the_worked_example_of_row_pointers(void **state)
{
    (void)state;
    static const int32_t copied[4][8] = {{0, 4, 8, 12, 16, 20, 24, 28},
                                         {1, 5, 9, 13, 17, 21, 25, 29},
                                         {2, 6, 10, 14, 18, 22, 26, 30},
                                         {3, 7, 11, 15, 19, 23, 27, 31}};
    for (int32_t k = 0; k < 8; k++)
        for (int32_t lane = 0; lane < 32; lane++) {
            const int32_t finder = (int32_t)row_finder((uint32_t)k, (uint32_t)lane, 8);
            assert_int_equal(row_found(finder, 8, 0, 1), copied[lane / 8][k]);
            assert_int_equal(finder, 4 * k + lane / 8);
        }
}

// Of every row width, and of several warps: each row is found by one lane of one warp and copied by `lanes` of
// the same warp.
static void every_row_is_found_once(void **state)
{
    (void)state;
    for (int32_t warps = 1; warps <= 4; warps++)
        for (int32_t lanes = 1; lanes <= 32; lanes *= 2) {
            int32_t found[4 * 32] = {0}, copied[4 * 32] = {0};
            for (int32_t warp = 0; warp < warps; warp++)
                for (int32_t lane = 0; lane < 32; lane++) {
                    found[row_found(lane, lanes, warp, warps)]++;
                    for (int32_t k = 0; k < lanes; k++)
                        copied[row_found(
                            (int32_t)row_finder((uint32_t)k, (uint32_t)lane, (uint32_t)lanes),
                            lanes, warp, warps)]++;
                }
            for (int32_t row = 0; row < 32 * warps; row++) {
                assert_int_equal(found[row], 1);
                assert_int_equal(copied[row], lanes);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worked_example_of_row_pointers),
        cmocka_unit_test(every_row_is_found_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
