// SPDX-License-Identifier: MIT
// Copies of whole pieces by the copy engine, and the barriers in shared memory that count their bytes (sm_90).
// A barrier completes a phase when its threads have arrived and the bytes they announced have landed; phases are
// numbered by a parity that begins at 0.
#ifndef WEFT_KERNELS_CUDA_BULK_CUH
#define WEFT_KERNELS_CUDA_BULK_CUH

#include "src/kernels/cuda/types.cuh"

DEVICE void barrier_init(uint32_t barrier, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

// After the barriers have been initialised, before the copy engine sees them; then a barrier of the block.
DEVICE void barrier_init_end()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

DEVICE void barrier_arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives and announces bytes.
DEVICE void barrier_expect(uint32_t barrier, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

// Waits for the end of the phase of this parity.
DEVICE void barrier_wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n.reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra.uni end;\n"
                 "bra.uni again;\n"
                 "end:\n}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

// Bytes and both addresses are multiples of 16.
DEVICE void copy_bulk(uint32_t to_shared, const void *from, uint32_t bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(to_shared),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

#endif
