// SPDX-License-Identifier: MIT
// Decode on CUDA: the ring that fits a block, and kernels of attention_decode.cu and attention_cluster.cu.
#include "src/base/checked.h"
#include "src/kernels/attention/attention_plan_cuda.h"

enum {
    WARPS = WEFT__ATTENTION_WARPS,
    CLUSTER = WEFT__ATTENTION_CLUSTER,
};

// Shared memory of a block: rings of its warps, of rows or of boxes (with as much beside them as leaves two boxes of 128 columns
// two stages, which are enough), queries in parts, states of the rows; `fresh`: and a new key and value, cos and sin.
static int64_t decode_bytes(const weft_kv_layout *kv, int32_t parts, int32_t stages, int32_t m,
                            int32_t rows_used, bool fresh)
{
    const int64_t row = weft__attention_row_bytes(kv->head_dim);
    const int32_t states = rows_used < WEFT__ATTENTION_ROWS ? rows_used : WEFT__ATTENTION_ROWS;
    const int64_t tiles = weft__attention_tiles_bytes(kv, WEFT__ATTENTION_KEYS, stages,
                                                      weft__attention_is_byte(kv) &&
                                                          !weft__attention_has_codes(kv, parts));
    const int64_t boxes = stages * (4 * WEFT__ATTENTION_KEYS * kv->head_dim + 2 * row);
    const int64_t in_rows = WARPS * tiles + (fresh ? 2 * row + 4 * kv->head_dim : 0);
    const bool boxed =
        WARPS * boxes > in_rows && !weft__attention_is_byte(kv); // more than a new key takes
    return (boxed ? WARPS * boxes : in_rows) + m * WEFT__ATTENTION_ROWS * (parts * row + 4) +
           WARPS * states * (weft__attention_padded_dim(kv->head_dim) + 4) * 4;
}

bool weft__attention_decode_shape(const weft_attention_desc *desc,
                                  const struct weft__cuda_limits *limits, int32_t parts,
                                  struct weft__attention_cuda_launch *launch, int32_t *stages)
{
    for (int32_t per_sm = 2; per_sm >= 1; per_sm--)
        for (*stages = 3; *stages >= 1; --*stages) {
            int64_t shared =
                decode_bytes(&desc->kv, parts, *stages, launch->few_rows / WEFT__ATTENTION_ROWS,
                             launch->slot_rows, (desc->flags & WEFT_ATTENTION_APPEND) != 0);
            if (shared + 1024 > limits->shared_per_block ||
                (shared + 2048) * per_sm > limits->shared_per_sm || (per_sm == 2 && *stages == 1))
                continue;
            // not more blocks on an SM than meant: those of the next run would crowd where this one ends first
            int64_t least = limits->shared_per_sm / (per_sm + 1);
            launch->shared_bytes =
                (uint32_t)(shared < least && least + 1024 <= limits->shared_per_block ? least
                                                                                      : shared);
            launch->blocks = (uint32_t)(limits->num_sms * per_sm);
            return true;
        }
    return false;
}

int32_t weft__attention_want_decode(struct weft__attention_constants constants, int32_t how,
                                    struct weft__cuda_choice *choice, int32_t *copied)
{
    static const char file[] = "src/kernels/attention/attention_decode.cu",
                      function[] = "weft_attention_decode";
    const int32_t kernel =
        weft__cuda_want(choice, file, function, WEFT__CUDA_VALUES(attention, constants));
    constants.WEFT_BOXES = how;
    if (how) {
        *copied = weft__cuda_want(choice, file, function, WEFT__CUDA_VALUES(attention, constants));
        choice->kernels[kernel].lazy = true;
    }
    return kernel;
}

int32_t weft__attention_want_filled(const weft_attention_desc *desc,
                                    const struct weft__cuda_limits *limits,
                                    struct weft__attention_constants constants,
                                    struct weft__cuda_choice *choice)
{
    if (!constants.WEFT_HANDED || !weft__attention_has_boxes(desc, limits) || desc->max_seqs < 2 ||
        desc->max_kv_len <= WEFT__ATTENTION_SHORT_KEYS)
        return 0;
    constants.WEFT_BOXES = 1, constants.WEFT_HANDED = 2;
    return weft__cuda_want(choice, "src/kernels/attention/attention_decode.cu",
                           "weft_attention_decode", WEFT__CUDA_VALUES(attention, constants));
}

// Is one sequence read by clusters (attention_cluster.cu)?
static bool wants_clusters(const weft_attention_desc *desc, const struct weft__cuda_limits *limits,
                           const struct weft__attention_cuda_launch *launch)
{
    return limits->sm >= 90 && desc->kv.head_dim % 32 == 0 &&
           desc->max_kv_len <= launch->thresholds.cluster_keys &&
           launch->few_rows == WEFT__ATTENTION_ROWS && !weft__attention_in_chunks(launch);
}

// One cluster a KV head, in few SMs: of few keys alone. Two blocks on an SM, for not every GPC has as many SMs as a cluster has
// blocks.
static bool plan_one_cluster(const weft_attention_desc *desc,
                             const struct weft__cuda_limits *limits,
                             struct weft__attention_constants *constants,
                             struct weft__attention_cuda_launch *launch)
{
    const int32_t pieces = launch->slot_rows * (desc->kv.head_dim / 32) + CLUSTER;
    const int64_t shared = decode_bytes(&desc->kv, constants->WEFT_PARTS, constants->WEFT_STAGES, 1,
                                        launch->slot_rows, false) +
                           (int64_t)pieces * (32 + 2) * 4;
    if (launch->num_kv_heads * CLUSTER > limits->num_sms ||
        desc->max_kv_len > launch->thresholds.few_keys ||
        2 * (shared + 2048) > limits->shared_per_sm)
        return false;
    launch->clusters = (struct weft__attention_clusters){1, CLUSTER, WARPS, (uint32_t)shared};
    constants->WEFT_BLOCKS = 2;
    return true;
}

// The tiles, one after the other, of a warp of a block that does not merge (division_of()).
static int32_t rounds_of(int64_t tiles, int32_t parts, int32_t merging, int32_t merge_tiles,
                         int32_t warps)
{
    const int64_t all = weft__ceil_div(tiles + (int64_t)merging * merge_tiles, parts);
    const int64_t alone = weft__ceil_div(tiles, parts - merging);
    return (int32_t)weft__ceil_div(all < alone ? all : alone, warps);
}

// Shapes of several clusters a KV head, measured on an H200 (NOTES.md). A launch of few keys is over before they have arrived, so two
// launches lie side by side on an SM and the next has asked for its first tiles; of more keys, the warps of one launch have an
// SM for themselves, and clusters of two always find theirs. More warps make a block's start and end longer, which two rounds
// of tiles that they save are worth.
struct cluster_shape {
    int32_t blocks, warps, stages, launches; // of a cluster, a block, a warp; on an SM
};

static int64_t shape_bytes(const struct cluster_shape *shape, int32_t head_dim)
{
    return (int64_t)shape->warps * shape->stages * 4 * WEFT__ATTENTION_KEYS * head_dim +
           WEFT__ATTENTION_ROWS * (weft__attention_row_bytes(head_dim) + 4);
}

static bool shape_fits(const struct cluster_shape *shape, int32_t head_dim,
                       const struct weft__cuda_limits *limits)
{
    return shape->launches * (shape_bytes(shape, head_dim) + 2048) <= limits->shared_per_sm;
}

static struct cluster_shape shape_of(const weft_attention_desc *desc,
                                     const struct weft__cuda_limits *limits,
                                     const struct weft__attention_cuda_launch *launch,
                                     int32_t merge_tiles)
{
    static const struct cluster_shape few = {4, 4, 3, 2}, some = {2, 8, 2, 1}, many = {2, 12, 2, 1};
    const int64_t tiles = weft__ceil_div(desc->max_kv_len, WEFT__ATTENTION_KEYS);
    const int32_t of_head = limits->num_sms / (launch->num_kv_heads * some.blocks);
    if (desc->max_kv_len <= launch->thresholds.few_keys || of_head < 2)
        return few;
    const int32_t parts = of_head * some.blocks;
    const int32_t saved = rounds_of(tiles, parts, some.blocks, merge_tiles, some.warps) -
                          rounds_of(tiles, parts, many.blocks, merge_tiles, many.warps);
    return saved > 1 && shape_fits(&many, desc->kv.head_dim, limits) ? many : some;
}

// Several clusters a KV head. Queries in parts and masks of scattered keys would spill.
static bool plan_several_clusters(const weft_attention_desc *desc,
                                  const struct weft__cuda_limits *limits,
                                  struct weft__attention_constants *constants,
                                  struct weft__attention_cuda_launch *launch)
{
    const int32_t merge_tiles =
        weft__attention_tiles_of(desc, WEFT__ATTENTION_KEYS, launch->thresholds.merge_bytes);
    const struct cluster_shape shape = shape_of(desc, limits, launch, merge_tiles);
    const bool few = shape.launches > 1;
    const int32_t of_head = limits->num_sms / (launch->num_kv_heads * shape.blocks);
    // A second round of merging costs few keys what several clusters gain.
    if (few && launch->slot_rows * (desc->kv.head_dim / 32) > shape.blocks * shape.warps)
        return false;
    if (of_head < 2 || constants->WEFT_PARTS > 1 || constants->WEFT_SCATTER || !launch->handed ||
        !weft__attention_has_boxes(desc, limits) || !shape_fits(&shape, desc->kv.head_dim, limits))
        return false;
    launch->clusters = (struct weft__attention_clusters){
        of_head, shape.blocks, shape.warps, (uint32_t)shape_bytes(&shape, desc->kv.head_dim)};
    // Where two launches lie side by side, blocks that merge start as early as the others.
    launch->merge_tiles = few ? 0 : merge_tiles;
    constants->WEFT_STAGES = shape.stages, constants->WEFT_BLOCKS = shape.launches;
    return true;
}

void weft__attention_plan_cluster(const weft_attention_desc *desc,
                                  const struct weft__cuda_limits *limits,
                                  struct weft__attention_constants constants,
                                  struct weft__cuda_choice *choice)
{
    struct weft__attention_cuda_launch *launch = choice->launch;
    if (!wants_clusters(desc, limits, launch) ||
        (!plan_several_clusters(desc, limits, &constants, launch) &&
         !plan_one_cluster(desc, limits, &constants, launch)))
        return;
    constants.WEFT_M = 1, constants.WEFT_EIGHT = launch->slot_rows <= 8;
    constants.WEFT_CLUSTERS = launch->clusters.of_head;
    constants.WEFT_SPLITS = launch->clusters.blocks;
    constants.WEFT_WARPS = launch->clusters.warps;
    constants.WEFT_BOXES = weft__attention_has_boxes(desc, limits);
    launch->cluster =
        weft__cuda_want(choice, "src/kernels/attention/attention_cluster.cu",
                        "weft_attention_cluster", WEFT__CUDA_VALUES(attention, constants));
}
