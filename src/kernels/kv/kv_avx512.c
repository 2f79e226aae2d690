// SPDX-License-Identifier: MIT
#include "src/kernels/cpu/avx512.h"
#include "src/kernels/kv/kv_store.h"

KV_STORES(avx512)
