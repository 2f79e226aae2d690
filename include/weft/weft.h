// SPDX-License-Identifier: MIT
/** weft: the kernels of language-model inference behind a small C ABI.
 *
 *  This header includes all others. Start with context.h (contexts, plans), device.h where memory is not
 *  the host's, format.h for what formats mean, then the operation you need: linear.h, attention.h with
 *  kv.h, batch.h, merge.h and cascade.h, norm.h, rope.h, activation.h, softmax.h, embedding.h, sample.h;
 *  route.h and experts.h for mixtures of experts.
 *  probe.h measures the ceilings of the device, tuning.h keeps what a machine likes best.
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
