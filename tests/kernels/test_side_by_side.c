// SPDX-License-Identifier: MIT
// Contexts of one process side by side, each with a thread of its own: the same product again and again, with the
// bits that a context has alone, whoever else works. On the device that WEFT_TEST_DEVICE names (cpu, cuda); of GPUs the first and the
// last, if there are several.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <weft/device.h>

#include "tests/support/context_fixture.h"

enum { SIDES = 2, ROUNDS = 12, ROWS = 48, COLS = 256, BATCH = 3, BLOCK_BYTES = 18, BLOCK = 32 };

struct side {
    weft_context_desc desc;
    const unsigned char *weights;
    const float *x;
    float y[ROUNDS][BATCH * ROWS];
    char why[256]; // empty: all went well
};

static bool went(struct side *side, const weft_context *context, weft_status status)
{
    if (status != WEFT_OK)
        snprintf(side->why, sizeof side->why, "%s", weft_error_text(context));
    return status == WEFT_OK;
}

static void *multiply(void *argument)
{
    struct side *side = argument;
    const size_t weight_bytes = (size_t)ROWS * COLS / BLOCK * BLOCK_BYTES;
    const weft_linear_desc linear = {.size = sizeof linear,
                                     .weight_dtype = WEFT_Q4_0,
                                     .rows = ROWS,
                                     .cols = COLS,
                                     .max_batch = BATCH};
    void *rooms[4] = {0}; // weights, x, y, workspace
    weft_plan *plan = NULL;
    weft_context *context = NULL;
    if (!went(side, NULL, weft_context_create(&side->desc, &context)))
        return NULL;
    bool well = went(side, context, weft_linear_plan(context, &linear, &plan));
    const size_t bytes[4] = {weight_bytes, sizeof(float[BATCH * COLS]), sizeof side->y[0],
                             well ? weft_plan_workspace_bytes(plan) + 64 : 64};
    for (int i = 0; i < 4; i++)
        well = well && went(side, context,
                            weft_memory_allocate(context, WEFT_MEMORY_DEVICE, bytes[i], &rooms[i]));
    for (int round = 0; round < ROUNDS && well; round++)
        well = went(side, context, weft_copy(context, rooms[0], side->weights, bytes[0], NULL)) &&
               went(side, context, weft_copy(context, rooms[1], side->x, bytes[1], NULL)) &&
               went(side, context, weft_fill(context, rooms[2], 0xff, bytes[2], NULL)) &&
               went(side, context,
                    weft_linear_run(plan, &(weft_linear_args){.size = sizeof(weft_linear_args),
                                                              .batch = BATCH,
                                                              .weight = rooms[0],
                                                              .x = rooms[1],
                                                              .y = rooms[2],
                                                              .workspace = rooms[3],
                                                              .workspace_bytes = bytes[3]})) &&
               went(side, context, weft_copy(context, side->y[round], rooms[2], bytes[2], NULL)) &&
               went(side, context, weft_stream_synchronize(context, NULL));
    weft_plan_destroy(plan);
    for (int i = 0; i < 4; i++)
        weft_memory_free(context, rooms[i]);
    weft_context_destroy(context);
    return NULL;
}

static void an_input(unsigned char *weights, float *x)
{
    float row[COLS];
    for (int i = 0; i < BATCH * COLS; i++)
        x[i] = (float)(i * 37 % 101 - 50) / 50;
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < COLS; i++)
            row[i] = (float)((r * 131 + i * 71) % 97 - 48) / 48;
        assert_int_equal(weft_quantize_row(WEFT_Q4_0, row, COLS,
                                           weights + (size_t)r * (COLS / BLOCK * BLOCK_BYTES)),
                         WEFT_OK);
    }
}

static void all_equal(const struct side *side, const float *expected)
{
    if (side->why[0])
        fail_msg("device %d: %s", side->desc.device_index, side->why);
    for (int round = 0; round < ROUNDS; round++)
        assert_memory_equal(side->y[round], expected, sizeof side->y[round]);
}

static void contexts_work_side_by_side(void **state)
{
    (void)state;
    static struct side alone, sides[SIDES];
    static unsigned char weights[ROWS * COLS / BLOCK * BLOCK_BYTES];
    static float x[BATCH * COLS];
    pthread_t threads[SIDES];
    const weft_device device = on_gpu() ? WEFT_DEVICE_CUDA : WEFT_DEVICE_CPU;
    const int32_t last = weft_device_count(device) - 1;
    assert_true(last >= 0);
    an_input(weights, x);
    alone = (struct side){
        .desc = {.size = sizeof(weft_context_desc), .device = device}, .weights = weights, .x = x};
    multiply(&alone);
    all_equal(&alone, alone.y[0]);
    for (int i = 0; i < BATCH * ROWS; i++)
        assert_true(alone.y[0][i] == alone.y[0][i]); // no NaN left of what was there before
    for (int i = 0; i < SIDES; i++) {
        sides[i] = alone;
        sides[i].desc.device_index = i ? last : 0;
        memset(sides[i].y, 0, sizeof sides[i].y);
        assert_int_equal(pthread_create(&threads[i], NULL, multiply, &sides[i]), 0);
    }
    for (int i = 0; i < SIDES; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < SIDES; i++)
        all_equal(&sides[i], alone.y[0]);
    print_message("devices %d and %d of %d\n", sides[0].desc.device_index,
                  sides[1].desc.device_index, last + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(contexts_work_side_by_side)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
