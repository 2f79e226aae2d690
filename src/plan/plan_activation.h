// SPDX-License-Identifier: MIT
#ifndef WEFT_PLAN_ACTIVATION_H
#define WEFT_PLAN_ACTIVATION_H

#include <weft/activation.h>

#include "src/plan/plan.h"

weft__plan_fn weft__plan_activation; // of a weft_activation_desc

#endif
