// SPDX-License-Identifier: MIT
/** Ceilings: how fast this device reads memory and computes, at most.
 *
 *  A measured time means little without knowing what the machine can do. These probes do the cheapest
 *  useful work there is, on the threads of the context; the caller brings the clock:
 *
 *      READ     sums memory, as wide and with as many loads in flight as the instruction set allows
 *      FMA_F32  independent chains of f32 multiply-adds in registers
 *      DOT_I8   independent chains of int8 dot products in registers, as quantised kernels use them
 *      MMA_F16  matrix products of f16 numbers with f32 sums on tensor cores (GPUs)
 *      DOT_BF16 dot products of bf16 numbers with f32 sums, in vectors or tiles (CPUs)
 */
#ifndef WEFT_PROBE_H
#define WEFT_PROBE_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_probe_kind {
    WEFT_PROBE_READ = 0,
    WEFT_PROBE_FMA_F32 = 1,
    WEFT_PROBE_DOT_I8 = 2,
    WEFT_PROBE_MMA_F16 = 3,
    WEFT_PROBE_DOT_BF16 = 4,
} weft_probe_kind;

/** The unit of args.bytes, and the most steps of a run. */
#define WEFT_PROBE_UNIT_BYTES 4096
#define WEFT_PROBE_MAX_STEPS  (1 << 24)

typedef struct weft_probe_args {
    uint32_t size;
    weft_probe_kind kind;
    const void *memory;  /**< READ: what is read, aligned to 64 bytes */
    int64_t bytes;       /**< READ: a whole number of WEFT_PROBE_UNIT_BYTES */
    int64_t steps;       /**< others: links of every chain, 1..WEFT_PROBE_MAX_STEPS */
    const char *variant; /**< name of a kernel, NULL = the best one */
    uint64_t reserved[8];
} weft_probe_args;

typedef struct weft_probe_result {
    /** READ: sum of the memory's 64-bit words, modulo 2^64. Others: multiply-adds done, as counted by
     *  the chains themselves. */
    uint64_t value;
    const char *kernel; /**< name of the kernel that ran */
    /** Time of the kernel alone by the device's own clock; 0 where the caller's clock is as good. */
    double device_us;
    uint64_t reserved[3];
} weft_probe_result;

/** Runs a probe once and returns when all threads are done.
 *
 *  Owner    the caller owns the memory; nothing is kept
 *  Alias    memory is only read
 *  Numerics value is exact: it proves that the work was done
 *  Errors   WEFT_EINVAL for NULL pointers, an unknown kind, bytes that are not a whole number of units,
 *           misaligned memory, steps out of range; WEFT_EUNSUPPORTED for a kind that the device has no
 *           units for; WEFT_EVARIANT
 *  Source   ours; after STREAM (McCalpin 1995) and the roofline model (Williams et al. 2009)
 */
WEFT_API weft_status weft_probe_run(weft_context *context, const weft_probe_args *args,
                                    weft_probe_result *out);

#ifdef __cplusplus
}
#endif
#endif
