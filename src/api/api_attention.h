// SPDX-License-Identifier: MIT
// What the files of attention share. Attention with an append before and a rounding behind it
// (WEFT_ATTENTION_APPEND, WEFT_ATTENTION_OUT_ROUNDED).
#ifndef WEFT_API_ATTENTION_H
#define WEFT_API_ATTENTION_H

#include <weft/attention.h>

#include "src/api/api.h"

static inline bool weft__api_is_fp8(weft_dtype dtype)
{
    return dtype == WEFT_FP8_E4M3 || dtype == WEFT_FP8_E5M2;
}

// WEFT_OK if the members that say so make sense together.
weft_status weft__api_check_parts(weft_context *context, const weft_attention_desc *desc);

// The plan of a settled descriptor with such a flag.
weft_status weft__api_plan_parts(weft_context *context, const weft_attention_desc *desc,
                                 weft_plan **out);

// Runs it: args are checked and settled but for what these flags are about.
weft_status weft__api_run_parts(const weft_plan *plan, const weft_attention_args *args);

#endif
