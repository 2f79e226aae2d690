// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/neon.h"
#include "src/kernels/kv/kv_store.h"

KV_STORES(neon)
