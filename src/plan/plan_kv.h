// SPDX-License-Identifier: MIT
#ifndef WEFT_PLAN_KV_H
#define WEFT_PLAN_KV_H

#include <weft/kv.h>

#include "src/plan/plan.h"

weft_status weft__plan_kv(weft_plan *plan, const void *desc);

#endif
