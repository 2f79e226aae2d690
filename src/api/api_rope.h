// SPDX-License-Identifier: MIT
// What the operations that rotate check alike.
#ifndef WEFT_API_ROPE_H
#define WEFT_API_ROPE_H

#include <weft/rope.h>

#include "src/api/api.h"

// WEFT_OK if the parameters make sense for heads of head_dim; a rotary_dim of 0 becomes head_dim. `op`
// begins the text of an error.
weft_status weft__api_settle_rope(weft_context *context, const char *op, weft_rope_params *params,
                                  int32_t head_dim);

// The array of settled parameters.
#define WEFT__FREQ_FACTORS(rope)                                                                   \
    (struct weft__plan_array)                                                                      \
    {                                                                                              \
        &(rope)->freq_factors, sizeof(float) * (size_t)((rope)->rotary_dim / 2)                    \
    }

#endif
