// SPDX-License-Identifier: MIT
#ifndef WEFT_PLAN_EXPERTS_H
#define WEFT_PLAN_EXPERTS_H

#include <weft/experts.h>

enum { WEFT__EXPERTS_MAX_RANK = 4096, WEFT__EXPERTS_MAX_ADAPTERS = 64 };

// The linear layers that an expert consists of: gate and up with the norm in front, of which a run has a row
// of X for every choice (of plain experts the gate twice, of which a run does the first alone); and down. Rows of the
// parts are filled in.
weft_linear_desc weft__plan_experts_inner(const weft_experts_desc *desc);
weft_linear_desc weft__plan_experts_down(const weft_experts_desc *desc);

#endif
