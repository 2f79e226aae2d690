// SPDX-License-Identifier: MIT
// Shapes of several rows of X by plain numbers of 16 bits, over clusters. Part of linear_cuda_shape.h.
#ifndef WEFT_KERNELS_LINEAR_CUDA_SENT_H
#define WEFT_KERNELS_LINEAR_CUDA_SENT_H

// 16 rows of bf16 where rows of W are very many, or gated, are left to linear_gemm_plain.cu (28672 x 4096 63.6 us, 65.2 so).
static inline bool weft__linear_is_sent(const struct weft__linear_matter *m, int32_t columns,
                                        const struct weft__cuda_limits *limits)
{
    const bool many = m->gate || m->groups > 8 * (int64_t)limits->num_sms;
    return columns >= 8 && m->halves && !m->rounds && !m->experts &&
           weft__linear_tier(limits)->sm >= 90 && !(columns == 16 && m->brain && many);
}

// Warps that share a group: what all groups take least time with, in tiles and what follows a group.
static inline int32_t weft__linear_sent_team(const struct weft__linear_matter *m,
                                             const struct weft__linear_shape *s,
                                             const struct weft__cuda_limits *limits)
{
    const int64_t tile = weft__linear_tile_cols(m), all = (m->cols + tile - 1) / tile;
    const int64_t clusters = weft__linear_blocks(s, limits, INT32_MAX) / s->split;
    const int64_t groups = (m->groups + clusters - 1) / clusters;
    const int64_t tiles = (all + s->split - 1) / s->split;
    int64_t least = INT64_MAX;
    int32_t best = s->warps;
    for (int32_t team = s->warps; team >= 2; team /= 2) {
        const int64_t turns = (groups * team + s->warps - 1) / s->warps;
        const int64_t cost = turns * ((tiles + team - 1) / team + 1);
        if (cost < least)
            least = cost, best = team;
    }
    return best;
}

// Rings of as many slots as have room beside X, four to two, and teams.
static inline bool weft__linear_sent_rings(const struct weft__linear_matter *m,
                                           const struct weft__cuda_limits *limits,
                                           struct weft__linear_shape *shape)
{
    for (shape->stages = 4; shape->stages >= 2; shape->stages--) {
        shape->shared_bytes = (int32_t)weft__linear_shared_bytes(m, shape);
        if (!weft__linear_fits(m, shape, limits))
            continue;
        shape->team = weft__linear_sent_team(m, shape, limits);
        return true;
    }
    return false;
}

// The shape with `split` blocks a cluster, if they have room.
static inline bool weft__linear_sent_shape(const struct weft__linear_matter *m, int32_t columns,
                                           int32_t split, bool as_numbers,
                                           const struct weft__cuda_limits *limits,
                                           struct weft__linear_shape *shape)
{
    *shape = (struct weft__linear_shape){.columns = columns,
                                         .warps = 16,
                                         .split = split,
                                         .blocks = 1,
                                         .sent = true,
                                         .as_numbers = as_numbers};
    return weft__linear_sent_rings(m, limits, shape);
}

// Several rows of X by plain numbers of 16 bits, the columns divided among a cluster (linear_numbers_some.cu), of as few blocks as have room. Eight rows of X
// in parts take fewer instructions than as numbers, and more room and time on their way: few rows of W are faster by the latter (NOTES.md). Of numbers, four blocks leave as
// many SMs idle as eight, and X is twice as much.
static inline bool weft__linear_choose_sent(const struct weft__linear_matter *m, int32_t columns,
                                            const struct weft__cuda_limits *limits,
                                            struct weft__linear_shape *shape)
{
    if (!weft__linear_is_sent(m, columns, limits))
        return false;
    // of next to no rows of W too X is in parts, so that random problems are of either text
    const int64_t sms = limits->num_sms;
    const bool few = m->groups > sms / 16 && m->groups <= (m->brain ? 3 : 8) * sms;
    if ((columns > 8 || few) && weft__linear_sent_shape(m, columns, 2, true, limits, shape))
        return true;
    if (columns > 8)
        return weft__linear_sent_shape(m, columns, 8, true, limits, shape);
    for (int32_t split = 2; split <= 8; split *= 2)
        if (weft__linear_sent_shape(m, columns, split, false, limits, shape))
            return true;
    return false;
}

// Several rows of X that come as numbers by packed weights, the columns divided among clusters of eight (linear_few_sent.cu). X is rounded on its way
// into the blocks, which saves a launch; a fifth of the SMs are left out (15 clusters have room on an H200 at most), so of matrices that memory or products bound
// other kernels are faster.
static inline bool weft__linear_is_sent_packed(const struct weft__linear_matter *m, int32_t columns,
                                               const struct weft__cuda_limits *limits)
{
    const bool eight_by_four_bits =
        columns == 8 && m->block_bytes * 8 <= m->block_elems * 5 && !m->table;
    const int64_t sms = limits->num_sms, few = 3 * sms;
    if (columns == 16 &&
        m->numbers > 3) // sums of sixteens: registers are too few, and nothing is gained
        return false;
    if (columns < 8 || m->block_elems == 1 || !weft__linear_is_simple(m) || m->experts ||
        !m->numbers_x || m->invariant || m->grid_bytes || weft__linear_few_bits(m) ||
        m->form != WEFT__LINEAR_FORM_best || weft__linear_tier(limits)->sm < 90)
        return false;
    return m->cols <= 8192 ? m->groups <= (eight_by_four_bits ? 7 * sms : few)
                           : m->cols <= 16384 && m->groups <= few && eight_by_four_bits;
}

// A warp, or two, have a group of rows, and all warps have one at a time in as few turns as twenty allow, whose threads have 96 registers.
static inline bool weft__linear_choose_sent_packed(const struct weft__linear_matter *m,
                                                   int32_t columns,
                                                   const struct weft__cuda_limits *limits,
                                                   struct weft__linear_shape *shape)
{
    enum { SPLIT = 8, MOST_WARPS = 20, LEAST_WARPS = 8 };
    if (!weft__linear_is_sent_packed(m, columns, limits))
        return false;
    *shape =
        (struct weft__linear_shape){.columns = columns, .split = SPLIT, .blocks = 1, .sent = true};
    const int64_t all = (m->cols + WEFT__LINEAR_TILE_COLS - 1) / WEFT__LINEAR_TILE_COLS;
    const int64_t tiles = (all + SPLIT - 1) / SPLIT;
    const int64_t clusters = weft__linear_blocks(shape, limits, INT32_MAX) / SPLIT;
    const int64_t groups = (m->groups + clusters - 1) / clusters;
    int64_t least = INT64_MAX;
    for (int32_t team = 1; team <= 2 && team <= tiles; team++) {
        const int64_t turns = (groups * team + MOST_WARPS - 1) / MOST_WARPS;
        const int64_t each = (tiles + team - 1) / team, warps = (groups + turns - 1) / turns * team;
        if (turns * (each + 1) >= least)
            continue;
        least = turns * (each + 1);
        shape->team = team;
        shape->warps = warps < LEAST_WARPS ? LEAST_WARPS : (int32_t)(warps + 1) / 2 * 2;
        // many short turns: few weights are asked for right behind X, and it comes sooner
        shape->stages = each > 2 || turns == 2 ? 3 : 2;
    }
    for (; shape->stages > 0; shape->stages--) {
        shape->shared_bytes = (int32_t)weft__linear_shared_bytes(m, shape);
        if (weft__linear_fits(m, shape, limits))
            return true;
    }
    return false;
}

// One row of X that comes as numbers, by packed weights in rows so long that rounding X in every block would cost more than it saves: clusters of two leave no
// SM idle, save the launch, and X is there before the ring has run dry. (Of still longer rows one sum of a warp would have too many terms.)
static inline bool weft__linear_choose_sent_one(const struct weft__linear_matter *m,
                                                int32_t columns,
                                                const struct weft__cuda_limits *limits,
                                                struct weft__linear_shape *shape)
{
    enum { SPLIT = 2, WARPS = 16 };
    if (columns != 1 || m->cols < 8192 || m->cols > 32768 || m->block_elems == 1 ||
        !weft__linear_is_simple(m) || m->experts || !m->numbers_x || m->invariant ||
        m->grid_bytes || weft__linear_few_bits(m) || m->form != WEFT__LINEAR_FORM_best ||
        weft__linear_tier(limits)->sm < 90)
        return false;
    *shape = (struct weft__linear_shape){
        .columns = 1, .warps = WARPS, .split = SPLIT, .blocks = 1, .rounds_x = true, .sent = true};
    return weft__linear_sent_rings(m, limits, shape);
}

#endif
