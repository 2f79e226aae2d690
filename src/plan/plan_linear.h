// SPDX-License-Identifier: MIT
#ifndef WEFT_PLAN_LINEAR_H
#define WEFT_PLAN_LINEAR_H

#include <weft/linear.h>

#include "src/plan/plan.h"

weft_status weft__plan_linear(weft_plan *plan, const weft_linear_desc *desc);

#endif
