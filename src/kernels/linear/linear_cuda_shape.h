// SPDX-License-Identifier: MIT
// How a linear kernel fills a GPU: warps, ring, split of the columns, shared memory. Pure arithmetic.
//
// The numbers follow linear_stream.cuh; measured choices: NOTES.md.
#ifndef WEFT_KERNELS_LINEAR_CUDA_SHAPE_H
#define WEFT_KERNELS_LINEAR_CUDA_SHAPE_H

#include <stdbool.h>

#include "src/kernels/cuda/launch.h"
#include "src/kernels/linear/linear_device.h"

// Shapes for one row of X that are called by name: warps of a block, of which every four share 16 rows of W. The best
// of a problem has no name. `wide` is that of eight rows of X as well, for codes of fewer than 4 bits.
#define WEFT__LINEAR_FORMS(X)                                                                      \
    X(standard) /* 4 warps: 16 rows at a time */                                                   \
    X(large)    /* 8: 32 */                                                                        \
    X(wide)     /* 16: 64 */                                                                       \
    X(batched)  /* none: a row of X as one of eight */
enum weft__linear_form {
    WEFT__LINEAR_FORM_best,
#define WEFT__LINEAR_FORM(name) WEFT__LINEAR_FORM_##name,
    WEFT__LINEAR_FORMS(WEFT__LINEAR_FORM)
#undef WEFT__LINEAR_FORM
};

// Classes of devices: what is right for many multiprocessors is not for few. Measured on an H200 alone; the others have its
// thresholds but for `short_cols`, below which a small device has blocks enough.
struct weft__linear_tier {
    const char *name;
    int32_t sm, num_sms; // at least
    int64_t short_cols;  // rows of no more columns have small blocks
    int64_t wide_rows; // matrices of more rows have the form `wide`, where instructions bound them
};

static inline const struct weft__linear_tier *
weft__linear_tier(const struct weft__cuda_limits *limits)
{
    static const struct weft__linear_tier tiers[] = {{"hopper, many SMs", 90, 100, 2048, 16384},
                                                     {"many SMs", 80, 64, 2048, 16384},
                                                     {"few SMs", 80, 0, 1024, INT64_MAX}};
    const struct weft__linear_tier *tier = tiers;
    while (tier->num_sms > 0 && (limits->sm < tier->sm || limits->num_sms < tier->num_sms))
        tier++;
    return tier;
}

struct weft__linear_matter {
    int64_t cols;
    int32_t block_elems, block_bytes; // plain elements: 1 and their bytes
    bool halves, brain;               // plain elements of 16 bits; of bf16
    bool table;                       // codes are places in a table of sixteen
    int32_t grid_bytes; // of shared memory for points of a lattice, beside what a launch asks for
    int32_t numbers;    // of a unit of one of several rounded rows of X
    bool exact;         // blocks with f32 activations
    bool gate, rounds;  // two matrices a group; results leave rounded
    bool experts;       // every block has a list of its rows of X
    bool invariant;     // a row of X does not depend on others beside it
    bool numbers_x;     // X comes as numbers that no norm precedes
    int64_t groups;     // of 16 outputs
    bool twos;          // all parts have whole 32s of outputs
    enum weft__linear_form form;
};

struct weft__linear_shape {
    int32_t columns;       // rows of X per pass
    int32_t warps, stages; // of a block, of a warp's ring
    int32_t team;          // warps that share a group of rows
    int32_t split;         // blocks of a cluster that share the columns
    int32_t blocks;        // that an SM should hold
    bool pair;             // two blocks of a cluster round 32 results together
    bool twin;             // a warp takes tiles of two row blocks at a time
    bool apart;            // sums of tiles stay apart: WEFT_APART
    bool rounds_x;         // blocks round X themselves
    int32_t launches;      // whose blocks are to share an SM; 0: one
    int32_t spread; // copies of the table of points of a lattice, for as many lanes; 0: one for all
    bool sent;      // columns are divided over the cluster: linear_sent.cuh
    bool as_numbers; // X is kept as numbers there, else in parts
    bool x_outside;  // X stays in global memory: it is too long
    int32_t shared_bytes;
};

// Bytes of a warp's tile in its ring, and its columns.
static inline int32_t weft__linear_slot_bytes(const struct weft__linear_matter *m)
{
    return m->block_elems == 1 ? 2048
                               : 16 * m->block_bytes * (WEFT__LINEAR_TILE_COLS / m->block_elems);
}

static inline int32_t weft__linear_tile_cols(const struct weft__linear_matter *m)
{
    return m->block_elems == 1 ? 128 / m->block_bytes : WEFT__LINEAR_TILE_COLS;
}

// Rows of each matrix that a group has.
static inline int32_t weft__linear_group_rows(const struct weft__linear_matter *m,
                                              const struct weft__linear_shape *s)
{
    if (s->twin)
        return 32;
    return m->rounds && !s->pair ? 32 : 16;
}

// Dynamic shared memory of a block.
static inline int64_t weft__linear_shared_bytes(const struct weft__linear_matter *m,
                                                const struct weft__linear_shape *s)
{
    int64_t tile = weft__linear_tile_cols(m);
    int64_t tiles = ((m->cols + tile - 1) / tile + s->split - 1) / s->split;
    int64_t group_blocks = (m->gate ? 2 : 1) * (weft__linear_group_rows(m, s) / 16);
    int64_t sums = s->sent ? WEFT__LINEAR_SENT_SUMS(group_blocks, s->warps, s->columns, s->split)
                           : 2 * group_blocks * (s->apart ? 16 : s->warps) * s->columns *
                                 (s->columns == 1 ? 16 : 20) * 4;
    int64_t x = s->x_outside ? 0
                : s->sent && m->block_elems == 1
                    ? s->columns * tiles * tile * WEFT__LINEAR_SENT_BYTES(m->brain, s->as_numbers)
                : m->block_elems == 1 ? s->columns * (tiles * tile + 4) * 4
                : m->exact            ? s->columns * tiles * tile * 4
                : s->columns == 1
                    ? (tiles * 4 | 1) * 80
                    : s->columns * ((tiles * 4 | 1) * 64 + tiles * 4 * 8 * m->numbers);
    int64_t pair = s->pair ? s->columns * 128 : 0, squares = s->columns * s->warps * 4;
    int64_t slots = s->warps * s->stages * (s->twin ? 2 : 1);
    return slots * weft__linear_slot_bytes(m) + sums + 64 + (m->experts ? 128 : 0) + squares +
           pair + (int64_t)s->spread * m->grid_bytes + x;
}

// Has an SM room for the shape's blocks? A block has 1 KB of its own beside what it asks for, and a table that is not spread.
static inline bool weft__linear_fits(const struct weft__linear_matter *m,
                                     const struct weft__linear_shape *s,
                                     const struct weft__cuda_limits *limits)
{
    const int64_t shared = weft__linear_shared_bytes(m, s) + (s->spread ? 0 : m->grid_bytes);
    return shared <= limits->shared_per_block &&
           (shared + 1024) * s->blocks <= limits->shared_per_sm &&
           s->warps * 32 * s->blocks <= limits->threads_per_sm;
}

// For X that no split fits into shared memory; false for more than one row of X a pass.
static inline bool weft__linear_choose_outside(const struct weft__linear_matter *m, int32_t columns,
                                               const struct weft__cuda_limits *limits,
                                               struct weft__linear_shape *shape)
{
    for (int32_t stages = 2; columns == 1 && stages > 0; stages--) {
        *shape = (struct weft__linear_shape){.columns = 1,
                                             .warps = 8,
                                             .team = 8,
                                             .stages = stages,
                                             .split = 1,
                                             .blocks = 1,
                                             .x_outside = true};
        shape->shared_bytes = (int32_t)weft__linear_shared_bytes(m, shape);
        if (shape->shared_bytes + m->grid_bytes <= limits->shared_per_block)
            return true;
    }
    return false;
}

static inline bool weft__linear_few_bits(const struct weft__linear_matter *m)
{
    return m->block_elems > 1 && m->block_bytes * 2 < m->block_elems; // fewer than 4 of a code
}

// Is there nothing but products to do?
static inline bool weft__linear_is_simple(const struct weft__linear_matter *m)
{
    return !m->exact && !m->gate && !m->rounds;
}

// Is the matrix of so many rows, and of codes that take so many instructions, that the form `wide` is its own?
static inline bool weft__linear_is_wide(const struct weft__linear_matter *m,
                                        const struct weft__linear_tier *tier, int32_t columns)
{
    return (weft__linear_few_bits(m) || (m->table && m->twos && columns == 1)) &&
           weft__linear_is_simple(m) && !m->experts && m->groups * 16 > tier->wide_rows;
}

// The form of a shape: the one that its row is named after, or the tier's.
static inline enum weft__linear_form weft__linear_form_of(const struct weft__linear_matter *m,
                                                          const struct weft__linear_tier *tier,
                                                          int32_t columns)
{
    if (columns != 1 || m->experts)
        return WEFT__LINEAR_FORM_best;
    return m->form == WEFT__LINEAR_FORM_best && weft__linear_is_wide(m, tier, columns)
               ? WEFT__LINEAR_FORM_wide
               : m->form;
}

// Blocks of a form: warps, stages, blocks an SM; the first that fits is taken.
enum { WEFT__LINEAR_FORM_TEAM = 4 };
static const int8_t weft__linear_form_blocks[][6][3] = {
    [WEFT__LINEAR_FORM_standard] =
        {{4, 2, 8}, {4, 2, 6}, {4, 2, 4}, {4, 2, 2}, {4, 2, 1}, {4, 1, 1}},
    [WEFT__LINEAR_FORM_large] = {{8, 2, 4}, {8, 2, 3}, {8, 2, 2}, {8, 2, 1}, {8, 1, 1}, {8, 1, 1}},
    [WEFT__LINEAR_FORM_wide] =
        {{16, 2, 2}, {16, 2, 1}, {16, 1, 1}, {8, 2, 1}, {8, 1, 1}, {8, 1, 1}},
    [WEFT__LINEAR_FORM_batched] =
        {{8, 2, 1}, {8, 1, 1}, {8, 1, 1}, {8, 1, 1}, {8, 1, 1}, {8, 1, 1}},
};

// Warps that share a group. For one row of X four where all groups have so many at the same time and do not have eight,
// with nothing but products to do: measured nowhere else to be faster, and other formats have no registers left for it.
// For several rows four: while some deliver, others multiply.
static inline int32_t weft__linear_team(const struct weft__linear_matter *m,
                                        const struct weft__linear_shape *s,
                                        const struct weft__cuda_limits *limits)
{
    const int64_t warps = (int64_t)limits->num_sms * s->blocks * s->warps;
    if (weft__linear_form_of(m, weft__linear_tier(limits), s->columns) && s->split == 1)
        return WEFT__LINEAR_FORM_TEAM;
    const bool more = m->exact || m->gate || m->rounds;
    if (s->columns > (m->experts ? 8 : 1) && s->split == 1 && m->block_elems > 1 && !m->exact)
        return 4;
    if (s->columns > 1 || s->split > 1 || s->pair || m->block_bytes != 18 || more)
        return s->warps;
    return m->groups * 4 <= warps && m->groups * 8 > warps ? 4 : s->warps;
}

// Warps that share a group of a twin, two or four: what all groups take least time with, in tenths of the tiles of a row block. The end of
// a group of 32 outputs takes a warp as long as 1.2 tiles (by instructions), whatever it has of the group. Several rows are delivered by four.
static inline int32_t weft__linear_twin_team(const struct weft__linear_matter *m,
                                             const struct weft__linear_shape *s,
                                             const struct weft__cuda_limits *limits)
{
    int64_t least = INT64_MAX;
    int32_t best = WEFT__LINEAR_FORM_TEAM;
    if (s->columns > 1)
        return best;
    for (int32_t team = WEFT__LINEAR_FORM_TEAM; team > 1; team /= 2) {
        const int64_t teams = (int64_t)limits->num_sms * s->blocks * (s->warps / team);
        const int64_t blocks = weft__linear_group_rows(m, s) / 16;
        const int64_t rounds = ((m->groups + blocks - 1) / blocks + teams - 1) / teams;
        const int64_t tiles = (m->cols + WEFT__LINEAR_TILE_COLS - 1) / WEFT__LINEAR_TILE_COLS;
        const int64_t cost = rounds * (10 * ((tiles + team - 1) / team) + 6);
        if (cost < least)
            least = cost, best = team;
    }
    return best;
}

// The form `wide` of one row of X and of up to eight, where all row blocks have a neighbour: a warp takes two tiles at a time, of
// which what is made of X, and the way to the next, is had once. One block an SM, whose table of points has copies for all lanes, or
// for every two, where there is room.
static inline bool weft__linear_choose_twin(const struct weft__linear_matter *m, int32_t columns,
                                            const struct weft__cuda_limits *limits,
                                            struct weft__linear_shape *shape)
{
    static const int8_t list[][2] = {{16, 2}, {16, 1}, {8, 2}, {8, 1}};
    const bool named = m->form == WEFT__LINEAR_FORM_wide && !m->experts &&
                       (columns == 1 || weft__linear_few_bits(m));
    const bool wide = named || (m->form == WEFT__LINEAR_FORM_best &&
                                weft__linear_is_wide(m, weft__linear_tier(limits), columns));
    if (!wide || !m->twos || !weft__linear_is_simple(m) || m->block_elems == 1 ||
        (columns != 1 && columns != 8))
        return false;
    for (int i = 0; i < 4; i++)
        for (int32_t spread = m->grid_bytes ? 32 : 0; spread >= 0; spread -= 16) {
            *shape = (struct weft__linear_shape){.columns = columns,
                                                 .warps = list[i][0],
                                                 .stages = list[i][1],
                                                 .split = 1,
                                                 .blocks = 1,
                                                 .twin = true,
                                                 .spread = spread};
            shape->team = weft__linear_twin_team(m, shape, limits);
            shape->shared_bytes = (int32_t)weft__linear_shared_bytes(m, shape);
            if (weft__linear_fits(m, shape, limits))
                return true;
        }
    return false;
}

// What follows the products of a format takes registers that two blocks of an SM do not have.
static inline bool weft__linear_needs_registers(const struct weft__linear_matter *m)
{
    if (m->grid_bytes)
        return m->gate || m->rounds;
    return m->rounds &&
           (m->gate ? m->block_bytes != 18 : m->block_elems == 64 || m->block_bytes == 210);
}

// The blocks to try, best first: warps, stages, blocks an SM.
static inline const int8_t (*weft__linear_blocks_to_try(const struct weft__linear_matter *m,
                                                        int32_t columns,
                                                        const struct weft__cuda_limits *limits,
                                                        int *count))[3]
{
    static const int8_t plain[][3] = {{16, 4, 1}, {16, 3, 1}, {16, 2, 1}, {8, 2, 1}, {8, 1, 1}};
    // one row of X: small blocks where rows are short or registers scarce
    static const int8_t one[][3] = {{16, 2, 2}, {8, 3, 2}, {8, 2, 2},
                                    {16, 2, 1}, {8, 2, 1}, {8, 1, 1}};
    static const int8_t one_small[][3] = {{8, 3, 3},  {8, 3, 2}, {8, 2, 2},
                                          {16, 2, 1}, {8, 2, 1}, {8, 1, 1}};
    static const int8_t one_bytes[][3] = {{16, 3, 1}, {16, 2, 1}, {8, 3, 1}, {8, 2, 1}, {8, 1, 1}};
    static const int8_t some[][3] = {{8, 3, 2}, {8, 2, 2}, {8, 3, 1}, {8, 2, 1}, {8, 1, 1}};
    static const int8_t some_short[][3] = {{16, 3, 1}, {16, 2, 1}, {8, 3, 1}, {8, 2, 1}, {8, 1, 1}};
    static const int8_t sixteen[][3] = {{16, 2, 1}, {8, 3, 1}, {8, 2, 1}, {16, 1, 1}, {8, 1, 1}};
    const struct weft__linear_tier *tier = weft__linear_tier(limits);
    const enum weft__linear_form form = weft__linear_form_of(m, tier, columns);
    // Several rows of X: where teams of four have a group each at most, X comes to an SM once.
    const bool one_turn =
        !m->exact && !m->experts &&
        (m->rounds ? (m->groups + 1) / 2 : m->groups) * 4 <= (int64_t)limits->num_sms * 16;
    *count = 5;
    if (m->block_elems == 1 && form == WEFT__LINEAR_FORM_best)
        return plain;
    if (columns > 1 && form == WEFT__LINEAR_FORM_best)
        return columns > 8 ? sixteen : one_turn ? some_short : some;
    if (m->block_bytes > m->block_elems && form == WEFT__LINEAR_FORM_best)
        return one_bytes;
    *count = 6;
    if (form != WEFT__LINEAR_FORM_best)
        return weft__linear_form_blocks[form];
    return m->cols <= tier->short_cols || m->experts || weft__linear_needs_registers(m) ? one_small
                                                                                        : one;
}

// Has a thread of the shape's blocks the registers that it needs? 64 are too few for exact products, and for some formats
// with what follows.
static inline bool weft__linear_has_registers(const struct weft__linear_matter *m,
                                              const struct weft__linear_shape *s)
{
    const bool sixteen = s->columns > 8;
    if ((m->exact || sixteen) && s->blocks > 1)
        return false;
    if (weft__linear_needs_registers(m) && s->blocks * s->warps > 24)
        return false;
    return !(sixteen && s->warps > 8 && !m->grid_bytes &&
             (m->block_bytes == 84 || (m->block_bytes == 110 && m->gate && m->rounds)));
}

// Pairs are worth it where blocks that share an SM have one group each: they would be half as many else.
// With more groups a block waits for the other again and again, and gains only if it is small.
static inline bool weft__linear_is_pair(const struct weft__linear_matter *m,
                                        const struct weft__linear_shape *s,
                                        const struct weft__cuda_limits *limits)
{
    if (!m->rounds || m->block_bytes > m->block_elems || m->block_elems == 1 || s->columns > 1 ||
        s->split > 1 || limits->sm < 90 ||
        weft__linear_form_of(m, weft__linear_tier(limits), s->columns) != WEFT__LINEAR_FORM_best)
        return false;
    return m->gate ? weft__linear_needs_registers(m)
                   : m->groups <= (int64_t)limits->num_sms * s->blocks;
}

// One row of X of numbers by codes of four bits on a device with many SMs, measured in q4_0, q4_1, q4_k and mlx_q4_g64. Blocks round rows of up to 4096
// columns themselves, which saves a launch. Where groups or columns are many, one block of two teams whose rings are as long as fits beside X; where each of
// two teams an SM has one group at most, one block an SM, so that the next launch's blocks ask for their weights beside it. (X that comes rounded is a model's, whose sums
// src/kernels/token adds up in the order of teams of 16.)
static inline bool weft__linear_choose_four_bits(const struct weft__linear_matter *m,
                                                 int32_t columns,
                                                 const struct weft__cuda_limits *limits,
                                                 struct weft__linear_shape *shape)
{
    const struct weft__linear_tier *tier = weft__linear_tier(limits);
    const int64_t sms = limits->num_sms;
    // With their scales more than four bits an element: mlx_q3_g32 has four, of three-bit codes, for which a thread's 64 registers
    // are too few beside the columns that it rounds.
    const bool four_bits = m->block_elems > 1 && m->block_bytes * 2 > m->block_elems &&
                           m->block_bytes * 8 <= m->block_elems * 5 && !m->table;
    if (columns != 1 || !m->numbers_x || !four_bits || !weft__linear_is_simple(m) || m->experts ||
        m->form != WEFT__LINEAR_FORM_best || tier->sm < 90 || m->cols <= tier->short_cols ||
        m->groups <= sms)
        return false;
    const bool many = m->groups >= 8 * sms || m->cols > 8192, rounds_x = m->cols <= 4096;
    if (!many && !rounds_x)
        return false;
    *shape = (struct weft__linear_shape){.columns = 1,
                                         .warps = 16,
                                         .team = 8,
                                         .stages = !many      ? 2
                                                   : rounds_x ? 5
                                                              : 4,
                                         .split = 1,
                                         .blocks = many ? 1 : 2,
                                         .rounds_x = rounds_x,
                                         .launches = m->groups <= 2 * sms && !many ? 2 : 1};
    shape->shared_bytes = (int32_t)weft__linear_shared_bytes(m, shape);
    return weft__linear_fits(m, shape, limits);
}

// Blocks for `groups` groups of rows.
static inline uint32_t weft__linear_blocks(const struct weft__linear_shape *s,
                                           const struct weft__cuda_limits *limits, int64_t groups)
{
    if (s->pair) {
        int64_t most = (int64_t)limits->num_sms * s->blocks / 2 * 2;
        return (uint32_t)(groups < most ? groups : most);
    }
    // clusters of 4 and 8 leave some SMs of a partition idle: the 132 of an H200 hold 28 and 14 of them, not 32
    int64_t clusters =
        (int64_t)limits->num_sms * s->blocks / (s->launches > 1 ? s->launches : 1) / s->split;
    if (s->split >= 4)
        clusters -= clusters / (s->split == 4 ? 6 : 8);
    clusters = clusters < 1 ? 1 : clusters;
    return (uint32_t)((groups < clusters ? groups : clusters) * s->split);
}

#include "src/kernels/linear/linear_cuda_sent.h"

// Blocks of eight warps whose rows of W have up to sixteen tiles add up a gate's sums as blocks of sixteen do, as those of other
// formats are: it costs them little, and in the one launch of a token (src/kernels/token/) chains of eight cost more.
static inline bool weft__linear_is_apart(const struct weft__linear_matter *m,
                                         const struct weft__linear_shape *s,
                                         const struct weft__cuda_limits *limits)
{
    return s->columns == 1 && s->split == 1 && s->warps == 8 && m->gate && m->rounds && !m->exact &&
           !m->experts && m->block_elems > 1 && m->cols > 8 * WEFT__LINEAR_TILE_COLS &&
           m->cols <= 16 * WEFT__LINEAR_TILE_COLS && limits->sm >= 90;
}

// Blocks that have all columns of their rows, or share them with the next ones: the first of a list that fits.
static inline bool weft__linear_choose_blocks(const struct weft__linear_matter *m, int32_t columns,
                                              const struct weft__cuda_limits *limits,
                                              struct weft__linear_shape *shape)
{
    int count;
    const int8_t(*list)[3] = weft__linear_blocks_to_try(m, columns, limits, &count);
    for (int32_t split = 1; split <= (limits->sm >= 90 ? 8 : 1); split *= 2)
        for (int i = 0; i < count; i++) {
            *shape = (struct weft__linear_shape){.columns = columns,
                                                 .warps = list[i][0],
                                                 .team = list[i][0],
                                                 .stages = list[i][1],
                                                 .split = split,
                                                 .blocks = list[i][2]};
            shape->pair = weft__linear_is_pair(m, shape, limits);
            shape->apart = weft__linear_is_apart(m, shape, limits);
            if (!weft__linear_has_registers(m, shape) || !weft__linear_fits(m, shape, limits))
                continue;
            shape->shared_bytes = (int32_t)weft__linear_shared_bytes(m, shape);
            shape->team = weft__linear_team(m, shape, limits);
            return true;
        }
    return weft__linear_choose_outside(m, columns, limits, shape);
}

// Chooses the shape for passes of `columns` rows of X; false if the device has not the shared memory.
static inline bool weft__linear_choose_shape(const struct weft__linear_matter *m, int32_t columns,
                                             const struct weft__cuda_limits *limits,
                                             struct weft__linear_shape *shape)
{
    return weft__linear_choose_twin(m, columns, limits, shape) ||
           weft__linear_choose_sent_one(m, columns, limits, shape) ||
           weft__linear_choose_four_bits(m, columns, limits, shape) ||
           weft__linear_choose_sent(m, columns, limits, shape) ||
           weft__linear_choose_sent_packed(m, columns, limits, shape) ||
           weft__linear_choose_blocks(m, columns, limits, shape);
}

#endif
