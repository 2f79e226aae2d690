// SPDX-License-Identifier: MIT
// What the operations on a paged KV cache check alike.
#ifndef WEFT_API_POOL_H
#define WEFT_API_POOL_H

#include <weft/kv.h>

#include "src/api/api.h"

// WEFT_OK if the layout is one that kernels serve; `op` begins the text of an error.
weft_status weft__api_check_layout(weft_context *context, const char *op,
                                   const weft_kv_layout *layout);

// Strides of 0 become packed ones. WEFT_OK if the pool's members make sense for the layout.
weft_status weft__api_settle_pool(const weft_plan *plan, const weft_kv_layout *layout,
                                  weft_kv_pool *pool);

#endif
