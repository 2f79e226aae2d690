// SPDX-License-Identifier: MIT
#ifndef WEFT_PLAN_SOFTMAX_H
#define WEFT_PLAN_SOFTMAX_H

#include <weft/softmax.h>

#include "src/plan/plan.h"

weft__plan_fn weft__plan_softmax; // of a weft_softmax_desc

#endif
