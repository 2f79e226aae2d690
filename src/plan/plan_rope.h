// SPDX-License-Identifier: MIT
#ifndef WEFT_PLAN_ROPE_H
#define WEFT_PLAN_ROPE_H

#include <weft/rope.h>

#include "src/plan/plan.h"

weft__plan_fn weft__plan_rope; // of a weft_rope_desc

#endif
