// SPDX-License-Identifier: MIT
#ifndef WEFT_CHECK_MEMORY_H
#define WEFT_CHECK_MEMORY_H

#include "src/kernels/check.h"

// Looks at the canaries of all buffers of the case, then keeps their memory for the next case.
void check_memory_close(struct check_case *c);

// Gives back what was kept: before the contexts go that it was lent to.
void check_memory_release(void);

// The buffer whose guard page the address lies in, as text, or "".
const char *check_memory_describe(const struct check_case *c, const void *address);

#endif
