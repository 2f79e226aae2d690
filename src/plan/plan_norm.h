// SPDX-License-Identifier: MIT
#ifndef WEFT_PLAN_NORM_H
#define WEFT_PLAN_NORM_H

#include <weft/norm.h>

#include "src/plan/plan.h"

weft__plan_fn weft__plan_norm; // of a weft_norm_desc

#endif
