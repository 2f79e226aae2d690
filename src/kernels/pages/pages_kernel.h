// SPDX-License-Identifier: MIT
// The contract of kernels that move pages: rows [row0, row1) of a run whose arguments have been checked and
// settled; row r is head r % heads of pair r / heads. Serial. A pair that names a page outside its cache moves
// nothing.
#ifndef WEFT_KERNELS_PAGES_KERNEL_H
#define WEFT_KERNELS_PAGES_KERNEL_H

#include <weft/pages.h>

#include "src/kernels/kernel.h"
#include "src/kernels/pages/pages_device.h"

typedef void weft__pages_fn(const struct weft__pages_move *move, int64_t row0, int64_t row1);

struct weft__pages_kernel {
    struct weft__kernel base;
    weft__pages_fn *run;
};

// What a plan decides.
struct weft__pages_launch {
    const struct weft__pages_kernel *kernel;
    int64_t rows_per_task;
};

// Do the values of a settled pool lie in its keys?
bool weft__pages_in_keys(const weft_kv_layout *layout, const weft_kv_pool *pool);

// The planes of a run, its arguments settled; values that lie in the keys of both caches are none of their own.
struct weft__pages_move weft__pages_describe(const weft_pages_desc *desc,
                                             const weft_pages_args *args);

// Pairs of a run now.
int32_t weft__pages_count(const struct weft__pages_move *move);

// WEFT_PAGES_OWN: decides which of the pairs are copied, and changes tables and references.
void weft__pages_own(const struct weft__pages_move *move);

#endif
