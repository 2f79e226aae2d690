// SPDX-License-Identifier: MIT
// What the operations on a paged KV cache check alike.
#ifndef WEFT_API_POOL_H
#define WEFT_API_POOL_H

#include <weft/kv.h>

#include "src/api/api.h"

// Largest head_dim and v_dim.
enum { WEFT__KV_MOST_DIM = 1024 };

// WEFT_OK if the layout is one that kernels serve; members of 0 become what they mean. `op` begins the
// text of an error.
weft_status weft__api_settle_layout(weft_context *context, const char *op, weft_kv_layout *layout);

// Strides of 0 become packed ones. WEFT_OK if the pool's members make sense for the settled layout.
weft_status weft__api_settle_pool(const weft_plan *plan, const weft_kv_layout *layout,
                                  weft_kv_pool *pool);

#endif
