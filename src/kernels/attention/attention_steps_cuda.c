// SPDX-License-Identifier: MIT
// Runs of attention on CUDA: which launches, in which order (attention_cuda.c).
#include <stddef.h>
#include <string.h>

#include "src/kernels/attention/attention_plan_cuda.h"

enum {
    WARPS = WEFT__ATTENTION_WARPS,
    TOKEN_WARPS = WEFT__ATTENTION_TOKEN_WARPS,
    EVERY_ROW = 0x7fffffff,
    LINE_COLS = 64, // of 128 bytes
    FILLED_SEQS = 64,
};

static struct weft__attention_device_plane plane_of(const weft_kv_plane *plane)
{
    return (struct weft__attention_device_plane){plane->data, plane->page_stride,
                                                 plane->head_stride, plane->token_stride};
}

static struct weft__attention_device_scales scales_of(const weft_kv_plane *plane)
{
    return (struct weft__attention_device_scales){
        plane->scales, plane->scale_seq_stride, plane->scale_page_stride, plane->scale_head_stride,
        plane->scale_token_stride};
}

// The plane as piles of matrices that boxes are copied of; `at`: of its map in the arguments.
static struct weft__cuda_matrix matrix_of(const struct weft__attention_cuda_launch *launch,
                                          const weft_kv_plane *plane, int64_t num_pages,
                                          int32_t box_rows, size_t at)
{
    return (struct weft__cuda_matrix){
        .base = plane->data,
        .rows = launch->page_size,
        .cols = launch->head_dim,
        .stride_bytes = plane->token_stride * 2,
        .piles = {launch->num_kv_heads, num_pages},
        // of one head or page it counts for nothing, but the driver wants to see one
        .pile_stride_bytes = {launch->num_kv_heads > 1 ? plane->head_stride * 2 : 16,
                              num_pages > 1 ? plane->page_stride * 2 : 16},
        .box_rows = (uint32_t)box_rows,
        .swizzled = true,
        .at = (uint32_t)at};
}

// Can tensor maps say where the rows of a plane lie?
static bool is_mapped(const struct weft__cuda_matrix *m)
{
    const int64_t most = (int64_t)1 << 40;
    return m->piles[1] > 0 && m->piles[1] <= INT32_MAX && m->stride_bytes > 0 &&
           m->stride_bytes < most && m->pile_stride_bytes[0] > 0 &&
           m->pile_stride_bytes[0] < most && m->pile_stride_bytes[1] > 0 &&
           m->pile_stride_bytes[1] < most;
}

// The maps of both planes, if boxes of so many rows can be copied of them.
static bool maps_of(const struct weft__attention_cuda_launch *launch,
                    const weft_attention_args *args, int32_t box_rows,
                    struct weft__cuda_matrix maps[2])
{
    maps[0] = matrix_of(launch, &args->pool.k, args->pool.num_pages, box_rows,
                        offsetof(struct weft__attention_device_args, k_map));
    maps[1] = matrix_of(launch, &args->pool.v, args->pool.num_pages, box_rows,
                        offsetof(struct weft__attention_device_args, v_map));
    return is_mapped(&maps[0]) && is_mapped(&maps[1]);
}

// Do all rows of a plane begin at multiples of 16 bytes?
static bool aligned(const weft_kv_plane *plane, int32_t elem_bytes)
{
    return (uintptr_t)plane->data % 16 == 0 &&
           (plane->page_stride | plane->head_stride | plane->token_stride) % (16 / elem_bytes) == 0;
}

// Does a run want prefill? Decode serves every sequence where there seems to be none for it, so a recorded run
// stays right whatever it is launched with. In chunks, the kernel of a sequence follows from its own length.
static bool prefills(const struct weft__attention_cuda_launch *launch,
                     const struct weft__attention_args *run)
{
    return launch->prefill_blocks && (weft__attention_in_chunks(launch) || run->batch_tokens == 0 ||
                                      run->batch_tokens > run->base.num_seqs);
}

// The counters of a batch are as many as a run in equal shares has blocks.
static uint32_t *counters_of_batch(const struct weft__attention_cuda_launch *launch,
                                   const struct weft__attention_args *run)
{
    return weft__attention_in_chunks(launch) ? NULL : run->counters;
}

static struct weft__attention_device_args
device_args(const struct weft__attention_cuda_launch *launch,
            const struct weft__attention_args *run)
{
    const weft_attention_args *args = &run->base;
    uint32_t *const counters = counters_of_batch(launch, run);
    char *const behind = (char *)args->workspace + launch->counters_offset;
    const int64_t handed_bytes = launch->places * WEFT__ATTENTION_HANDED_FLOATS * 4;
    struct weft__attention_device_sparse sparse = launch->sparse;
    sparse.blocks = args->sparse_blocks;
    sparse.starts = args->sparse_starts, sparse.first = args->sparse_first;
    return (struct weft__attention_device_args){
        WEFT__ATTENTION_OPERANDS(args),
        .k = plane_of(&args->pool.k),
        .v = plane_of(&args->pool.v),
        .k_scales = scales_of(&args->pool.k),
        .v_scales = scales_of(&args->pool.v),
        .cu_q_lens = args->cu_q_lens,
        .kv_lens = args->kv_lens,
        .num_seqs_at = args->num_seqs_at,
        .page_table = args->page_starts ? args->page_indices : args->page_table,
        .page_starts = args->page_starts,
        .kv_starts = args->kv_starts,
        .slots = args->workspace,
        .counters = counters ? counters : (void *)(behind + handed_bytes),
        .handed = counters ? run->handed : (void *)behind,
        .num_seqs = args->num_seqs,
        .num_q_heads = launch->num_q_heads,
        .num_kv_heads = launch->num_kv_heads,
        .group_size = launch->group_size,
        .mask = (int32_t)launch->mask,
        .window = launch->window,
        .window_right = launch->window_right,
        .local_chunk = launch->local_chunk,
        .ring_len = launch->ring_len,
        .min_share = weft__attention_in_chunks(launch) ? 1 : WARPS,
        .end_tiles = launch->end_tiles,
        .merge_tiles = launch->merge_tiles,
        .slot_rows = launch->slot_rows,
        .aligned = aligned(&args->pool.k, launch->elem_bytes) &&
                   aligned(&args->pool.v, launch->elem_bytes),
        .early = run->counters != NULL,
        .first_pages = run->batch_pages,
        .splits = launch->splits,
        .chunk_tiles = launch->chunk_tiles,
        .heads_abreast = 1,
        .heads_each = launch->num_kv_heads,
        .least_rows = 1,
        .most_rows = prefills(launch, run) ? launch->few_rows : EVERY_ROW,
        .scale = launch->scale,
        .softcap = launch->softcap,
        .cap_unit = launch->cap_unit,
        .mask_value = launch->mask_value,
        .sparse = sparse,
        .new_k = run->k,
        .new_v = run->v,
        .new_k_stride = run->k_token_stride,
        .new_v_stride = run->v_token_stride,
        .turns = launch->turns,
        .turn_factor = launch->frequencies.attention_factor};
}

// Sets what a batch's memory always has: counters of `grid` blocks, `places` of what is handed on.
static void begin_step(const struct weft__attention_cuda_launch *launch,
                       const struct weft__attention_device_args *device, uint32_t grid,
                       int64_t places, struct weft__cuda_step *step)
{
    const uint32_t handed = launch->handed ? (uint32_t)places * WEFT__ATTENTION_HANDED_FLOATS : 0;
    const uint32_t most = handed > grid ? handed : grid;
    const struct weft__attention_begin_args begin = {(void *)device->handed, device->counters,
                                                     (int32_t)handed, (int32_t)grid};
    weft__cuda_step(step, WEFT__ATTENTION_BEGIN, (most + 255) / 256, 1, 256, &begin, sizeof begin);
    step->overlap = 1;
}

static void cluster_step(const struct weft__attention_cuda_launch *launch,
                         const struct weft__attention_device_args *device,
                         struct weft__cuda_step *step)
{
    const struct weft__attention_clusters *clusters = &launch->clusters;
    const int32_t blocks = launch->num_kv_heads * clusters->of_head * clusters->blocks;
    weft__cuda_step(step, launch->cluster, (uint32_t)blocks, 1, (uint32_t)clusters->warps * 32,
                    device, sizeof *device);
    step->shared_bytes = clusters->shared_bytes;
    step->cluster = (uint32_t)clusters->blocks;
    step->overlap = 1;
}

static void token_step(const struct weft__attention_cuda_launch *launch,
                       const struct weft__attention_device_args *device,
                       struct weft__cuda_step *step)
{
    weft__cuda_step(step, launch->token, (uint32_t)(launch->num_kv_heads * launch->token_splits),
                    (uint32_t)device->num_seqs, TOKEN_WARPS * 32, device, sizeof *device);
    step->shared_bytes = launch->token_shared_bytes;
    step->cluster = (uint32_t)launch->token_splits;
    step->overlap = 1;
}

// Is a run better off with filled shares (attention_filled.cuh)? The device decides by the lengths that it finds: this is whether the
// text for it is worth its start.
static bool fills(const struct weft__attention_cuda_launch *launch,
                  const struct weft__attention_args *run,
                  const struct weft__attention_device_args *device, uint32_t grid)
{
    const struct weft__attention_mix *mix = &run->batch_mix;
    const int64_t blocks = grid / (uint32_t)device->heads_abreast;
    const int64_t most = mix->short_most / WEFT__ATTENTION_KEYS + 1 + launch->end_tiles;
    return mix->shorts > 0 && device->num_seqs <= FILLED_SEQS &&
           mix->long_keys / WEFT__ATTENTION_KEYS * device->heads_each >=
               blocks * (most + 1 + WARPS);
}

// Shares of a batch's run are a function of its step and of this; those of a run that has other lengths of its own are found anew.
static uint64_t division_of(const struct weft__attention_cuda_launch *launch,
                            const struct weft__attention_args *run,
                            const struct weft__attention_device_args *device)
{
    const bool own = !counters_of_batch(launch, run) || device->num_seqs_at || device->kv_starts;
    return own ? 0
               : (uint64_t)launch->number << 32 | (uint64_t)device->num_seqs << 1 |
                     (device->most_rows != EVERY_ROW);
}

// `splits`: chunks of every item, 0: as the plan has them; maps: of boxes, or NULL. With new keys come queries that are not rotated yet: there
// is one of each sequence. Rows that cp.async fetches come faster abreast only where pages are small.
static void decode_step(const struct weft__attention_cuda_launch *launch,
                        const struct weft__attention_args *run,
                        struct weft__attention_device_args device, int32_t splits, uint32_t grid,
                        const struct weft__cuda_matrix *maps, struct weft__cuda_step *step)
{
    const int32_t rows = run->k ? launch->append : WEFT__ATTENTION_DECODE;
    const int32_t boxed = run->k ? launch->append_boxes : launch->boxes;
    const int32_t filled = run->k ? launch->append_filled : launch->filled;
    const bool in_rows = !run->k && launch->copied_rows && device.aligned;
    const bool abreast = maps || launch->page_size < WEFT__ATTENTION_ROWS;
    device.division = division_of(launch, run, &device);
    device.step = device.division ? run->step : NULL, device.lines = run->lines;
    device.splits = splits ? splits : device.splits;
    device.merge_tiles = launch->handed_tiles;
    device.heads_abreast = abreast ? weft__attention_heads_abreast(launch, grid) : 1;
    device.heads_each = launch->num_kv_heads / device.heads_abreast;
    weft__cuda_step(step,
                    maps && filled && fills(launch, run, &device, grid) ? filled
                    : maps                                              ? boxed
                    : in_rows                                           ? launch->copied_rows
                                                                        : rows,
                    grid, 1, WARPS * 32, &device, sizeof device);
    step->shared_bytes = launch->shared_bytes;
    step->overlap = 1;
    if (maps)
        memcpy(step->matrices, maps, 2 * sizeof *maps);
}

// Do the KV heads of a token lie side by side, so that a token is one row?
static bool has_whole_tokens(const struct weft__attention_cuda_launch *launch,
                             const weft_kv_plane *plane)
{
    return plane->head_stride == launch->head_dim || launch->num_kv_heads == 1;
}

// Is a run better off with blocks that read whole tokens? Then maps of both planes, whose boxes are a token. By the lengths that the host knew
// when it was recorded: any kernel is right for others.
static bool reads_abreast(const struct weft__attention_cuda_launch *launch,
                          const struct weft__attention_args *run, bool is_aligned,
                          struct weft__cuda_matrix maps[2])
{
    const struct weft_kv_pool *pool = &run->base.pool;
    if (!launch->abreast.kernel || run->k || run->batch_keys < launch->abreast.least_keys ||
        !is_aligned || !has_whole_tokens(launch, &pool->k) || !has_whole_tokens(launch, &pool->v) ||
        !maps_of(launch, &run->base, 1, maps))
        return false;
    for (int32_t i = 0; i < 2; i++) {
        const int32_t lines = launch->num_kv_heads * launch->head_dim / LINE_COLS;
        maps[i].cols = LINE_COLS;
        maps[i].piles[0] = lines, maps[i].pile_stride_bytes[0] = LINE_COLS * 2;
        maps[i].box_matrices = (uint32_t)lines;
    }
    return true;
}

static void abreast_step(const struct weft__attention_cuda_launch *launch,
                         struct weft__attention_device_args device,
                         const struct weft__cuda_matrix maps[2], struct weft__cuda_step *step)
{
    const struct weft__attention_abreast *abreast = &launch->abreast;
    device.heads_abreast = launch->num_kv_heads, device.heads_each = 1;
    device.end_tiles = abreast->end_tiles;
    weft__cuda_step(step, abreast->kernel, abreast->blocks, 1, abreast->threads, &device,
                    sizeof device);
    step->shared_bytes = abreast->shared_bytes;
    step->overlap = 1;
    memcpy(step->matrices, maps, 2 * sizeof *maps);
}

// For the sequences that decode leaves.
static void prefill_step(const struct weft__attention_cuda_launch *launch,
                         const weft_attention_args *args, struct weft__attention_device_args device,
                         struct weft__cuda_step *step)
{
    struct weft__cuda_matrix maps[2];
    device.least_rows = launch->few_rows + 1, device.most_rows = EVERY_ROW;
    device.splits = 1, device.chunk_tiles = 0;
    device.boxed =
        launch->wgmma_box_rows > 0 && maps_of(launch, args, launch->wgmma_box_rows, maps);
    if (weft__attention_wgmma_step(launch, &device, step)) {
        if (device.boxed)
            memcpy(step->matrices, maps, sizeof maps);
        return;
    }
    device.slice_blocks = launch->slice_blocks;
    weft__cuda_step(step, launch->prefill, launch->prefill_blocks, 1, WARPS * 32, &device,
                    sizeof device);
    step->shared_bytes = launch->prefill_shared_bytes;
    step->overlap = 1;
}

int32_t weft__attention_cuda_steps(const void *opaque_launch, const void *opaque_args,
                                   struct weft__cuda_step *steps)
{
    const struct weft__attention_cuda_launch *launch = opaque_launch;
    const struct weft__attention_args *run = opaque_args;
    const struct weft__attention_device_args device = device_args(launch, run);
    struct weft__cuda_matrix maps[2], whole[2];
    const bool boxes =
        launch->boxes && device.aligned && maps_of(launch, &run->base, WEFT__ATTENTION_ROWS, maps);
    const int32_t splits = weft__attention_even_splits(launch, device.num_seqs);
    const uint32_t grid = splits ? (uint32_t)(splits * launch->num_kv_heads) : launch->blocks;
    const bool abreast = !splits && reads_abreast(launch, run, device.aligned, whole);
    int32_t count = 0;
    if (splits && launch->cluster && !run->k && (boxes || !launch->boxes)) {
        if (launch->clusters.of_head > 1 && !counters_of_batch(launch, run))
            begin_step(launch, &device, launch->blocks, launch->blocks, &steps[count++]);
        cluster_step(launch, &device, &steps[count]);
        if (boxes)
            memcpy(steps[count].matrices, maps, sizeof maps);
        return count + 1;
    }
    if (launch->splits != 1 && !counters_of_batch(launch, run))
        begin_step(launch, &device, grid, abreast ? launch->places : grid, &steps[count++]);
    if (launch->single_threads) {
        weft__attention_single_step(launch, &device, &steps[count]);
        return count + 1;
    }
    if (launch->any) {
        weft__attention_any_step(launch, &run->base, &device, &steps[count]);
        return count + 1;
    }
    if (run->k && launch->token && device.aligned && (boxes || !launch->boxes)) {
        token_step(launch, &device, &steps[count]);
        if (boxes)
            memcpy(steps[count].matrices, maps, sizeof maps);
        return count + 1;
    }
    if (abreast)
        abreast_step(launch, device, whole, &steps[count++]);
    else
        decode_step(launch, run, device, splits, grid, boxes ? maps : NULL, &steps[count++]);
    if (!run->k && prefills(launch, run))
        prefill_step(launch, &run->base, device, &steps[count++]);
    return count;
}
