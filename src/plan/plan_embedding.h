// SPDX-License-Identifier: MIT
#ifndef WEFT_PLAN_EMBEDDING_H
#define WEFT_PLAN_EMBEDDING_H

#include <weft/embedding.h>

#include "src/plan/plan.h"

weft__plan_fn weft__plan_embedding; // of a weft_embedding_desc

#endif
