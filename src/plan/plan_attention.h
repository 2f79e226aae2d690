// SPDX-License-Identifier: MIT
#ifndef WEFT_PLAN_ATTENTION_H
#define WEFT_PLAN_ATTENTION_H

#include <weft/attention.h>

#include "src/plan/plan.h"

weft_status weft__plan_attention(weft_plan *plan, const void *desc);

#endif
