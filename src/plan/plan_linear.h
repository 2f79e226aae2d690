// SPDX-License-Identifier: MIT
#ifndef WEFT_PLAN_LINEAR_H
#define WEFT_PLAN_LINEAR_H

#include <weft/linear.h>

#include "src/plan/plan.h"

weft__plan_fn weft__plan_linear; // of a weft_linear_desc

#endif
