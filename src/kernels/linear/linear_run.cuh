// SPDX-License-Identifier: MIT
// The main loop of the kernels of linear_stream.cuh. Included once x_load(), tile_multiply() and
// sums_store() are known, which say how X is kept, how a tile is multiplied into ACCUMULATORS numbers
// of a lane, and where a warp leaves them.
#ifndef WEFT_KERNELS_LINEAR_RUN_CUH
#define WEFT_KERNELS_LINEAR_RUN_CUH

DEVICE void stream_run(const struct weft__linear_device_args *args, int32_t row_tiles)
{
    struct stream s;
    stream_begin(&s, args, row_tiles);
    let_next_start();
    for (int32_t i = 0; i < WEFT_STAGES; i++)
        stream_ask(&s, args);
    wait_for_previous();
    x_load(&s, args);
    stream_norms(&s, args);
    __syncthreads();
    int32_t base = 0, slot = 0, turn = 0;
    for (int32_t group = s.first; group < args->num_groups; group += s.step, turn ^= 1) {
        float *sums = shared_sums() + turn * GROUP_BLOCKS * SUM_BLOCK;
        int32_t bases[GROUP_BLOCKS];
#pragma unroll
        for (int32_t block = 0; block < GROUP_BLOCKS; block++) {
            float acc[ACCUMULATORS] = {0};
            for (int32_t tile = (s.warp - base) & (WEFT_WARPS - 1); tile < s.tiles;
                 tile += WEFT_WARPS) {
                COPY_WAIT(WEFT_STAGES - 1);
                __syncwarp();
                tile_multiply(&s, args, shared_ring(s.warp) + slot * SLOT_BYTES, tile, acc);
                __syncwarp();
                stream_ask(&s, args);
                slot = slot + 1 == WEFT_STAGES ? 0 : slot + 1;
            }
            sums_store(&s, sums + block * SUM_BLOCK, acc);
            bases[block] = base;
            base = (base + s.tiles) & (WEFT_WARPS - 1);
        }
        group_barrier();
        // the blocks of a cluster deliver in turn
        if (WEFT_SPLIT == 1 || group / s.step % WEFT_SPLIT == (int32_t)cluster_rank())
            for (int32_t n = s.warp; n < s.batch; n += WEFT_WARPS)
                stream_deliver(&s, args, sums, group, n, bases);
    }
    if (WEFT_SPLIT > 1)
        cluster_barrier(); // nobody leaves while another reads its sums
}

#endif
