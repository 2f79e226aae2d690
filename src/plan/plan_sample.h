// SPDX-License-Identifier: MIT
#ifndef WEFT_PLAN_SAMPLE_H
#define WEFT_PLAN_SAMPLE_H

#include <weft/sample.h>

#include "src/plan/plan.h"

weft__plan_fn weft__plan_sample; // of a weft_sample_desc

#endif
