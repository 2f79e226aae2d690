// SPDX-License-Identifier: MIT
/** weft: the kernels of language-model inference behind a small C ABI.
 *
 *  This header includes all others. Where to start:
 *
 *      context.h            contexts and plans: read this first
 *      device.h             memory, copies, streams and events, where memory is not the host's
 *      types.h, format.h    dtypes, tensors, and what the formats mean
 *      linear.h             products with quantised weights
 *      attention.h, kv.h    attention over a paged KV cache, and appending to the cache;
 *      batch.h, pages.h     ... what one step shares, moving pages,
 *      merge.h, cascade.h   ... merging partial results, shared prefixes
 *      norm.h, rope.h, activation.h, softmax.h, embedding.h, sample.h
 *      route.h, experts.h   mixtures of experts
 *      program.h            record runs once, launch them many times
 *      probe.h, tuning.h    the ceilings of a device; the thresholds measured on a machine
 */
#ifndef WEFT_H
#define WEFT_H

#include "activation.h"
#include "attention.h"
#include "batch.h"
#include "cascade.h"
#include "context.h"
#include "device.h"
#include "embedding.h"
#include "experts.h"
#include "format.h"
#include "kv.h"
#include "linear.h"
#include "merge.h"
#include "norm.h"
#include "pages.h"
#include "probe.h"
#include "program.h"
#include "rope.h"
#include "route.h"
#include "sample.h"
#include "softmax.h"
#include "status.h"
#include "tuning.h"
#include "types.h"

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 2
#define WEFT_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/** Version of the library that is running, "major.minor.patch". */
WEFT_API const char *weft_version(void);

#ifdef __cplusplus
}
#endif
#endif
