// SPDX-License-Identifier: MIT
// The arithmetic of launches of linear layers: every problem has a shape on every device, and a shape stays within what
// the device has.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "src/kernels/linear/linear_cuda_shape.h"
#include "src/kernels/linear/linear_gemm_cuda.h"
#include "src/kernels/linear/linear_slice_cuda.h"

// An A100, an RTX 3090, an RTX 4090, an H200, an RTX 5090.
static const struct weft__cuda_limits devices[] = {
    {80, 108, 166912, 167936, 65536, 2048, 40 << 20},
    {86, 82, 101376, 102400, 65536, 1536, 6 << 20},
    {89, 128, 101376, 102400, 65536, 1536, 72 << 20},
    {90, 132, 232448, 233472, 65536, 2048, 60 << 20},
    {120, 170, 101376, 102400, 65536, 1536, 96 << 20},
};

// Columns and bytes of a block.
static const int32_t blocks[][2] = {{32, 18}, {32, 34},   {256, 84}, {256, 144}, {256, 210},
                                    {64, 36}, {256, 176}, {1, 2},    {1, 4}};

static void check(const struct weft__linear_matter *m, const struct weft__cuda_limits *device)
{
    static const int32_t columns[] = {1, 4, 8, 16};
    for (int i = 0; i < 4; i++) {
        struct weft__linear_shape s = {0};
        bool found = weft__linear_choose_shape(m, columns[i], device, &s);
        assert_true(found || columns[i] > 1);
        if (!found)
            continue;
        assert_true(weft__linear_shared_bytes(m, &s) == s.shared_bytes);
        assert_true(s.shared_bytes <= device->shared_per_block);
        assert_true((int64_t)s.shared_bytes * s.blocks <= device->shared_per_sm);
        assert_true(s.warps * 32 * s.blocks <= device->threads_per_sm);
        assert_true((s.warps & (s.warps - 1)) == 0 || (s.sent && s.warps % 2 == 0));
        assert_true(s.stages > 0);
        assert_true(s.team > 0 && s.warps % s.team == 0);
        assert_true(s.team == s.warps || (s.split == 1 && !s.pair) || s.sent);
        assert_true(!s.sent || (s.columns != 4 && s.split > 1 && !m->rounds && !m->exact));
        assert_true(!s.sent || s.columns > 1 || (m->numbers_x && s.rounds_x && s.split == 2));
        assert_true(s.split == 1 || (device->sm >= 90 && !s.pair && !s.x_outside));
        assert_true(!s.pair || (m->rounds && device->sm >= 90));
        assert_true(!s.x_outside || s.columns == 1);
        assert_true(!s.twin || (m->twos && s.split == 1 && !m->gate && !m->rounds && !m->exact));
        assert_true(!s.spread || (s.twin && m->grid_bytes));
        assert_true(!s.rounds_x || (m->numbers_x && s.columns == 1));
        for (int64_t groups = s.pair ? 2 : 1; groups < 3000; groups += s.pair ? 2 : 37) {
            int64_t grid = weft__linear_blocks(&s, device, groups);
            assert_true(grid > 0 && grid % s.split == 0 && (!s.pair || grid % 2 == 0));
            assert_true(grid <= groups * s.split && grid <= (int64_t)device->num_sms * s.blocks);
        }
    }
}

static void every_problem_has_a_shape(void **state)
{
    static const int64_t cols[] = {256,   2048,  4096,   11008,  14336,   16384,
                                   28672, 53248, 131072, 262144, 1 << 20, INT64_C(1) << 29};
    (void)state;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
            for (size_t c = 0; c < sizeof cols / sizeof *cols; c++)
                for (int how = 0; how < 16; how++) {
                    struct weft__linear_matter m = {.cols = cols[c],
                                                    .block_elems = blocks[b][0],
                                                    .block_bytes = blocks[b][1],
                                                    .halves = blocks[b][1] == 2,
                                                    .brain = c & 1,
                                                    .numbers = 2 + how % 3,
                                                    .exact = how & 1 && blocks[b][0] > 1,
                                                    .gate = how & 2,
                                                    .rounds = how & 4,
                                                    .numbers_x = how & 8,
                                                    .groups = 1 << (c % 4 * 3)};
                    check(&m, &devices[d]);
                }
}

// q4_0, and X that comes as numbers.
static struct weft__linear_matter q4_0_by_numbers(int64_t groups, int64_t cols)
{
    return (struct weft__linear_matter){.cols = cols,
                                        .block_elems = 32,
                                        .block_bytes = 18,
                                        .numbers = 2,
                                        .numbers_x = true,
                                        .groups = groups};
}

// Rows of X that come as numbers go to clusters of eight by packed weights: a warp, or two, for a group of rows, in one turn where
// twenty are enough; not where sums must have one order, nor where a fifth of the SMs is missed.
static void packed_weights_by_clusters(void **state)
{
    static const struct {
        int64_t groups, cols;
        int32_t columns, warps, team, stages;
    } cases[] = {{256, 4096, 8, 20, 1, 2},  {256, 4096, 16, 20, 1, 2}, {64, 4096, 8, 10, 2, 2},
                 {384, 4096, 8, 14, 1, 3},  {896, 4096, 8, 16, 1, 2},  {896, 4096, 16, 0, 0, 0},
                 {256, 14336, 8, 20, 1, 3}, {4, 256, 16, 8, 1, 2},     {256, 14336, 16, 0, 0, 0},
                 {1792, 4096, 8, 0, 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft__linear_shape s;
        struct weft__linear_matter m = q4_0_by_numbers(cases[i].groups, cases[i].cols);
        assert_true(weft__linear_choose_shape(&m, cases[i].columns, &devices[3], &s) ||
                    !cases[i].warps);
        assert_true(s.sent == (cases[i].warps > 0));
        assert_true(!s.sent || (s.split == 8 && s.warps == cases[i].warps &&
                                s.team == cases[i].team && s.stages == cases[i].stages));
        m.invariant = true;
        assert_true(!weft__linear_choose_shape(&m, cases[i].columns, &devices[3], &s) || !s.sent);
        m.invariant = false;
        assert_true(!weft__linear_choose_shape(&m, cases[i].columns, &devices[2], &s) || !s.sent);
    }
}

// What models of today ask for keeps X in shared memory, unsplit, on the devices it was measured for.
static void models_keep_x_near(void **state)
{
    (void)state;
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
        struct weft__linear_shape s;
        struct weft__linear_matter m = {
            .cols = 14336, .block_elems = blocks[b][0], .block_bytes = blocks[b][1], .groups = 256};
        assert_true(weft__linear_choose_shape(&m, 1, &devices[3], &s));
        assert_true(s.split == 1 && !s.x_outside);
    }
}

// Launches of a matrix for `batch` rows of X, within what the device has.
static void check_many(const struct weft__linear_gemm *gemm, const struct weft__cuda_limits *device,
                       int32_t batch, int32_t rows, int32_t cols)
{
    static struct weft__cuda_step steps[2];
    static char memory[64];
    const struct weft__linear_gemm_call call = {.weight = memory,
                                                .weight_stride_bytes = cols * 2,
                                                .x = memory,
                                                .y = memory,
                                                .batch = batch,
                                                .rows = rows,
                                                .cols = cols,
                                                .workspace = memory};
    assert_int_equal(weft__linear_gemm_steps(gemm, &call, steps), 2);
    const struct weft__cuda_step *s = &steps[1];
    struct weft__linear_gemm_args args;
    memcpy(&args, s->args, sizeof args);
    assert_true(steps[0].grid[0] == (uint32_t)batch && s->grid[0] > 0);
    assert_true((int64_t)s->shared_bytes <= device->shared_per_block);
    assert_true(s->cluster == 0 || s->grid[0] % s->cluster == 0);
    assert_true(s->cluster <= 1 || s->grid[0] == (uint32_t)args.tiles * s->cluster);
    assert_true((s->matrices[0].base == memory) == gemm->plain && s->matrices[0].at % 64 == 0);
    assert_true(args.tiles % args.row_tiles == 0 && args.row_tiles == (rows + 127) / 128);
}

// From the first number of rows of X on that they serve, every number has a kernel.
static void many_rows_have_a_kernel(void **state)
{
    static const weft_dtype formats[] = {WEFT_BF16, WEFT_F16, WEFT_Q4_0, WEFT_Q6_K};
    static const int32_t most[] = {5, 16, 17, 40, 300};
    (void)state;
    for (int f = 0; f < 4; f++)
        for (int i = 0; i < 5; i++) {
            static struct weft__linear_gemm gemm;
            static struct weft__cuda_choice choice;
            const weft_linear_desc desc = {.cols = 4096, .max_batch = most[i]};
            memset(&choice, 0, sizeof choice);
            const struct weft__linear_gemm_wish wish = {
                formats[f], WEFT_F32, WEFT_F32, WEFT_F16, weft_dtype_block_bytes(formats[f]), 0};
            bool serves = weft__linear_gemm_plan(&desc, &wish, &devices[3], &choice, &gemm);
            assert_true(serves == (most[i] >= (f == 0 ? WEFT__LINEAR_GEMM_MIN_EXACT
                                                      : WEFT__LINEAR_GEMM_MIN_BATCH)));
            assert_true(choice.num_kernels <=
                        (gemm.plain ? WEFT__LINEAR_GEMM_PLAIN_KERNELS : WEFT__LINEAR_GEMM_KERNELS));
            for (int32_t batch = gemm.min_batch; serves && batch <= most[i]; batch++)
                for (int32_t rows = 1; rows < 70000; rows = rows * 7 + 60)
                    check_many(&gemm, &devices[3], batch, rows, 4096);
        }
}

// Slices cover the columns once, and what a block keeps of them fits it; other devices have none.
static void slices_cover_the_columns(void **state)
{
    static const int64_t rows[] = {1, 64, 65, 4096, 28672, 128256};
    int served = 0, teams = 0;
    (void)state;
    for (int32_t i = 0; weft_dtype_at(i) != WEFT_DTYPE_NONE; i++)
        for (int64_t cols = 256; cols < 40000; cols = cols * 2 + 256)
            for (int r = 0; r < 6; r++)
                for (int d = 0; d < 5; d++) {
                    static struct weft__cuda_choice choice;
                    struct weft__linear_slices slices;
                    const weft_dtype format = weft_dtype_at(i);
                    const weft_linear_desc desc = {.cols = cols, .max_batch = 100};
                    const struct weft__linear_slice_wish wish = {
                        {format, 0, WEFT_F32, WEFT_F16, weft_dtype_block_bytes(format), 0},
                        .units = weft__linear_slice_units(rows[r], WEFT__LINEAR_SLICE_UNIT),
                        .team_units = weft__linear_slice_units(rows[r], WEFT__LINEAR_TEAM_UNIT)};
                    memset(&choice, 0, sizeof choice);
                    weft__linear_slices_plan(&desc, &wish, &devices[d], &choice, &slices);
                    assert_true(choice.num_kernels == slices.count);
                    assert_true(d == 3 || slices.count == 0);
                    for (int32_t k = 0; k < slices.count; k++, served++) {
                        const struct weft__linear_slice_shape *s = &slices.shapes[k];
                        const int64_t tiles = (cols + 255) / 256;
                        assert_true(s->slices * (int64_t)s->slice_tiles >= tiles);
                        assert_true((s->slices - 1) * (int64_t)s->slice_tiles < tiles);
                        assert_true(s->slices <= WEFT__LINEAR_SLICE_MOST && s->stages > 1);
                        assert_true(s->shared_bytes <= devices[d].shared_per_block);
                        assert_true(k == 0 || s->rows > s[-1].rows);
                        assert_true(s->team == 0 ? s->unit == WEFT__LINEAR_SLICE_UNIT
                                                 : s->unit == WEFT__LINEAR_TEAM_UNIT &&
                                                       s->warps % s->team == 0 &&
                                                       s->team <= s->slice_tiles &&
                                                       4 % s->stages == 0 && cols % 256 == 0);
                        assert_true(s->pair ==
                                    (s->rows > 16 && devices[d].num_sms / s->slices > 1));
                        teams += s->team > 0;
                        assert_ptr_equal(weft__linear_slice_of(&slices, s->rows), s);
                    }
                }
    assert_true(served > 1000 && teams > 30);
    assert_true(weft__linear_slice_blocks(132, 4, true) == 32 &&
                weft__linear_slice_blocks(132, 4, false) == 33);
}

// What a device is decides by tables: below and above each of their steps.
static void tiers_have_their_steps(void **state)
{
    struct weft__linear_shape s;
    struct weft__cuda_limits device = devices[3];
    struct weft__linear_matter m = {.block_elems = 256, .block_bytes = 84, .groups = 64};
    (void)state;
    const struct weft__linear_tier *top = weft__linear_tier(&device);
    assert_string_equal(top->name, "hopper, many SMs");
    device.num_sms = 99;
    assert_string_equal(weft__linear_tier(&device)->name, "many SMs");
    device.num_sms = 63;
    assert_string_equal(weft__linear_tier(&device)->name, "few SMs");
    assert_string_equal(weft__linear_tier(&devices[0])->name, "many SMs");
    m.cols = top->short_cols; // small blocks
    assert_true(weft__linear_choose_shape(&m, 1, &devices[3], &s) && s.warps == 8);
    m.cols += 256;
    assert_true(weft__linear_choose_shape(&m, 1, &devices[3], &s) && s.warps == 16);
    m.groups = top->wide_rows / 16; // itself does not have the form
    assert_true(weft__linear_choose_shape(&m, 1, &devices[3], &s) && s.team == 16);
    m.groups++;
    assert_true(weft__linear_choose_shape(&m, 1, &devices[3], &s));
    assert_true(s.warps == 16 && s.team == WEFT__LINEAR_FORM_TEAM);
    m.block_bytes = 144; // four bits: memory bounds them
    assert_true(weft__linear_choose_shape(&m, 1, &devices[3], &s) && s.team == 16);
}

// Tiles of two row blocks at a time where rows are many, all have a neighbour and codes take many instructions;
// the table of a lattice as often as shared memory holds it.
static void many_rows_of_few_bits_go_in_twos(void **state)
{
    static const struct {
        int32_t bytes, grid_bytes, columns, spread;
    } cases[] = {{66, 1024, 1, 32}, {74, 2048, 1, 32}, {82, 4096, 1, 32},  {110, 2048, 1, 32},
                 {50, 8192, 1, 16}, {66, 1024, 8, 32}, {110, 2048, 8, 16}, {50, 8192, 8, 0},
                 {84, 0, 1, 0},     {84, 0, 8, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft__linear_shape s;
        struct weft__linear_matter m = {.cols = 4096,
                                        .block_elems = 256,
                                        .block_bytes = cases[i].bytes,
                                        .grid_bytes = cases[i].grid_bytes,
                                        .numbers = cases[i].bytes == 84   ? 4
                                                   : cases[i].bytes == 50 ? 3
                                                                          : 2,
                                        .groups = 128256 / 16,
                                        .twos = true};
        for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
            assert_true(weft__linear_choose_shape(&m, cases[i].columns, &devices[d], &s));
            assert_true(s.twin && weft__linear_fits(&m, &s, &devices[d]));
            check(&m, &devices[d]);
        }
        assert_true(weft__linear_choose_shape(&m, cases[i].columns, &devices[3], &s));
        assert_true(s.warps == 16 && s.stages == 2 && s.blocks == 1 && s.spread == cases[i].spread);
        assert_true(weft__linear_blocks(&s, &devices[3], m.groups / 2) == 132);
        m.twos = false;
        assert_true(weft__linear_choose_shape(&m, cases[i].columns, &devices[3], &s) && !s.twin);
        m.twos = true, m.groups = 1024;
        assert_true(weft__linear_choose_shape(&m, cases[i].columns, &devices[3], &s) && !s.twin);
    }
}

// One row of numbers by codes of four bits: what was measured of q4_0 on an H200. Rounded X keeps teams of 16. Long rows are divided over clusters of two,
// whatever the format, but not where sums must have one order.
static void a_row_of_numbers_has_shapes_of_its_own(void **state)
{
    static const struct {
        int32_t rows, cols, warps, team, stages, blocks;
    } cases[] = {{4096, 4096, 16, 8, 2, 132},   {14336, 4096, 16, 8, 2, 264},
                 {28672, 4096, 16, 8, 5, 132},  {128256, 4096, 16, 8, 5, 132},
                 {4096, 14336, 16, 4, 4, 132},  {16, 14336, 16, 16, 4, 2},
                 {1024, 14336, 16, 16, 4, 128}, {8192, 28672, 16, 2, 4, 132}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft__linear_shape s;
        struct weft__linear_matter m = q4_0_by_numbers(cases[i].rows / 16, cases[i].cols);
        assert_true(weft__linear_choose_shape(&m, 1, &devices[3], &s));
        assert_true(s.warps == cases[i].warps && s.stages == cases[i].stages);
        assert_int_equal(s.team, cases[i].team);
        assert_true(s.rounds_x && s.sent == (m.cols >= 8192));
        assert_int_equal(weft__linear_blocks(&s, &devices[3], m.groups), cases[i].blocks);
        check(&m, &devices[3]);
        m.numbers_x = false;
        assert_true(weft__linear_choose_shape(&m, 1, &devices[3], &s) && !s.rounds_x);
        m.numbers_x = m.invariant = true;
        assert_true(weft__linear_choose_shape(&m, 1, &devices[3], &s) && !s.sent);
        m.invariant = false, m.table = true;
        assert_true(weft__linear_choose_shape(&m, 1, &devices[3], &s) && s.rounds_x == s.sent);
        if (s.sent)
            continue;
        m.table = false, m.block_bytes = 16; // three bits and their scales (mlx_q3_g32)
        assert_true(weft__linear_choose_shape(&m, 1, &devices[3], &s) && !s.rounds_x);
        assert_true(s.team == 16 && s.stages == 2);
    }
}

// Teams of a twin are as small as leaves no round of groups half empty: the end of a group is had once a warp.
static void a_twins_teams_follow_its_groups(void **state)
{
    static const struct {
        int32_t rows, team;
    } cases[] = {{128256, 2}, {32000, 2}, {28672, 2}, {151936, 4}, {17408, 2}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int32_t columns = 1; columns <= 8; columns += 7) {
            struct weft__linear_shape s;
            const struct weft__linear_matter m = {.cols = 4096,
                                                  .block_elems = 256,
                                                  .block_bytes = 66,
                                                  .grid_bytes = 1024,
                                                  .numbers = 2,
                                                  .groups = cases[i].rows / 16,
                                                  .twos = true};
            assert_true(weft__linear_choose_shape(&m, columns, &devices[3], &s) && s.twin);
            assert_int_equal(s.team, columns == 1 ? cases[i].team : WEFT__LINEAR_FORM_TEAM);
        }
}

// Several rows of X come to an SM once where four warps a group of rows are all that there is to do.
static void few_groups_have_one_block(void **state)
{
    struct weft__linear_shape s;
    struct weft__linear_matter m = {
        .cols = 4096, .block_elems = 32, .block_bytes = 18, .numbers = 2, .groups = 528};
    (void)state;
    assert_true(weft__linear_choose_shape(&m, 8, &devices[3], &s));
    assert_true(s.warps == 16 && s.blocks == 1 && s.team == 4);
    m.groups++;
    assert_true(weft__linear_choose_shape(&m, 8, &devices[3], &s));
    assert_true(s.warps == 8 && s.blocks == 2 && s.team == 4);
    m.rounds = true; // 32 results a group
    assert_true(weft__linear_choose_shape(&m, 8, &devices[3], &s) && s.warps == 16);
}

// Two to sixteen rows of X by plain numbers of 16 bits: as few blocks of a cluster as have room for their part of X (four only for rows in parts),
// and a grid of whole clusters. Not where results leave rounded, nor by packed weights, nor on devices without clusters; nor sixteen rows of bf16 by
// very many rows of W, or for a gate. Eight rows are kept as numbers by few rows of W, of columns that two blocks have room for.
static void some_rows_of_numbers_are_divided_over_clusters(void **state)
{
    static const struct {
        int32_t columns;
        bool brain;
        int32_t cols, rows, split, stages, team;
        bool as_numbers;
    } cases[] = {{8, true, 4096, 4096, 2, 4, 4, true},    {8, false, 4096, 4096, 2, 4, 4, true},
                 {8, true, 4096, 14336, 2, 3, 2, false},  {8, true, 14336, 4096, 8, 3, 4, false},
                 {8, true, 10240, 4096, 4, 2, 8, false},  {8, false, 14336, 4096, 8, 3, 4, false},
                 {8, false, 4096, 14336, 2, 4, 2, true},  {8, false, 4096, 28672, 2, 2, 4, false},
                 {8, true, 8192, 4096, 2, 2, 4, true},    {16, true, 4096, 4096, 2, 2, 4, true},
                 {16, false, 4096, 14336, 2, 2, 2, true}, {16, true, 14336, 4096, 8, 2, 4, true},
                 {16, true, 4096, 14336, 2, 2, 2, true},  {16, false, 6144, 4096, 8, 4, 4, true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft__linear_shape s;
        struct weft__linear_matter m = {.cols = cases[i].cols,
                                        .block_elems = 1,
                                        .block_bytes = 2,
                                        .halves = true,
                                        .brain = cases[i].brain,
                                        .groups = cases[i].rows / 16};
        const int32_t columns = cases[i].columns;
        assert_true(weft__linear_choose_shape(&m, columns, &devices[3], &s) && s.sent);
        assert_true(s.columns == columns);
        assert_int_equal(s.split, cases[i].split);
        assert_int_equal(s.stages, cases[i].stages);
        assert_int_equal(s.team, cases[i].team);
        assert_int_equal(s.as_numbers, cases[i].as_numbers);
        assert_true(weft__linear_blocks(&s, &devices[3], m.groups) % (uint32_t)s.split == 0);
        check(&m, &devices[3]);
        assert_true(!weft__linear_choose_shape(&m, columns, &devices[0], &s) || !s.sent);
        assert_true((weft__linear_choose_shape(&m, 16, &devices[3], &s) && s.sent) ==
                    (!m.brain || m.groups <= 8 * 132));
        m.gate = true;
        assert_true(weft__linear_choose_shape(&m, 8, &devices[3], &s) && s.sent);
        if (m.cols < 14336) // else there is no room for sums of two matrices
            assert_true((weft__linear_choose_shape(&m, 16, &devices[3], &s) && s.sent) == !m.brain);
        m.rounds = true;
        assert_true(!weft__linear_choose_shape(&m, columns, &devices[3], &s) || !s.sent);
        m = (struct weft__linear_matter){.cols = cases[i].cols,
                                         .block_elems = 32,
                                         .block_bytes = 18,
                                         .numbers = 2,
                                         .groups = cases[i].rows / 16};
        assert_true(weft__linear_choose_shape(&m, 8, &devices[3], &s) && !s.sent);
    }
}

// A gate's blocks of eight warps keep sums of rows of nine to sixteen tiles apart, for which they have room.
static void sums_of_a_gate_stay_apart(void **state)
{
    static const struct {
        int64_t cols;
        bool apart;
    } cases[] = {{2048, false}, {2304, true}, {4096, true}, {4352, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft__linear_shape s, other;
        struct weft__linear_matter m = {.cols = cases[i].cols,
                                        .block_elems = 256,
                                        .block_bytes = 144,
                                        .numbers = 4,
                                        .gate = true,
                                        .rounds = true,
                                        .groups = 896};
        assert_true(weft__linear_choose_shape(&m, 1, &devices[3], &s));
        assert_int_equal(s.warps, 8);
        assert_int_equal(s.apart, cases[i].apart);
        other = s, other.apart = false;
        assert_true(s.shared_bytes - weft__linear_shared_bytes(&m, &other) ==
                    (s.apart ? 2 * 2 * 8 * 16 * 4 : 0));
        m.experts = true;
        assert_true(weft__linear_choose_shape(&m, 1, &devices[3], &s) && !s.apart);
    }
}

// Whatever is called by name has the warps that the name says, where shared memory allows them.
static bool same_shape(const struct weft__linear_shape *a, const struct weft__linear_shape *b)
{
    return a->columns == b->columns && a->warps == b->warps && a->stages == b->stages &&
           a->team == b->team && a->split == b->split && a->blocks == b->blocks &&
           a->pair == b->pair && a->apart == b->apart && a->twin == b->twin &&
           a->spread == b->spread && a->x_outside == b->x_outside &&
           a->shared_bytes == b->shared_bytes;
}

static void forms_have_their_warps(void **state)
{
    static const int32_t warps[] = {[WEFT__LINEAR_FORM_standard] = 4,
                                    [WEFT__LINEAR_FORM_large] = 8,
                                    [WEFT__LINEAR_FORM_wide] = 16};
    (void)state;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
        for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
            for (int form = WEFT__LINEAR_FORM_standard; form <= WEFT__LINEAR_FORM_wide; form++) {
                struct weft__linear_shape s;
                struct weft__linear_matter m = {.cols = 4096,
                                                .block_elems = blocks[b][0],
                                                .block_bytes = blocks[b][1],
                                                .groups = 256,
                                                .form = (enum weft__linear_form)form};
                assert_true(weft__linear_choose_shape(&m, 1, &devices[d], &s));
                assert_true(s.warps == warps[form] && s.team == WEFT__LINEAR_FORM_TEAM);
                assert_true(s.split == 1 && s.shared_bytes <= devices[d].shared_per_block);
                m.twos = true;
                if (weft__linear_few_bits(&m) && form == WEFT__LINEAR_FORM_wide)
                    continue;
                m.form = WEFT__LINEAR_FORM_best; // other names change nothing for more rows
                struct weft__linear_shape best, named;
                bool found = weft__linear_choose_shape(&m, 8, &devices[d], &best);
                m.form = (enum weft__linear_form)form;
                assert_true(weft__linear_choose_shape(&m, 8, &devices[d], &named) == found);
                assert_true(!found || same_shape(&best, &named));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiers_have_their_steps),
        cmocka_unit_test(many_rows_of_few_bits_go_in_twos),
        cmocka_unit_test(a_row_of_numbers_has_shapes_of_its_own),
        cmocka_unit_test(a_twins_teams_follow_its_groups),
        cmocka_unit_test(few_groups_have_one_block),
        cmocka_unit_test(some_rows_of_numbers_are_divided_over_clusters),
        cmocka_unit_test(sums_of_a_gate_stay_apart),
        cmocka_unit_test(forms_have_their_warps),
        cmocka_unit_test(every_problem_has_a_shape),
        cmocka_unit_test(packed_weights_by_clusters),
        cmocka_unit_test(models_keep_x_near),
        cmocka_unit_test(many_rows_have_a_kernel),
        cmocka_unit_test(slices_cover_the_columns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
