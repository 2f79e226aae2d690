// SPDX-License-Identifier: MIT
#ifndef WEFT_CHECK_MEMORY_H
#define WEFT_CHECK_MEMORY_H

#include "src/kernels/check.h"

// Looks at the canaries of all buffers of the case, then frees them.
void check_memory_close(struct check_case *c);

// The buffer whose guard page the address lies in, as text, or "".
const char *check_memory_describe(const struct check_case *c, const void *address);

#endif
