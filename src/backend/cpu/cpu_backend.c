// SPDX-License-Identifier: MIT
// The CPU backend: every operation's kernel table and the function that spreads its work.
#include "src/backend/backend.h"

#define WEFT__OP_DECLARE(op)                                                                       \
    extern const struct weft__kernel_table weft__##op##_table;                                     \
    weft__submit_fn weft__cpu_submit_##op;
WEFT__OP_MAP(WEFT__OP_DECLARE)

const struct weft__backend weft__backend_cpu = {
    .name = "cpu",
    .tables =
        {
#define WEFT__OP_TABLE(op) &weft__##op##_table,
            WEFT__OP_MAP(WEFT__OP_TABLE)},
    .submit =
        {
#define WEFT__OP_SUBMIT(op) weft__cpu_submit_##op,
            WEFT__OP_MAP(WEFT__OP_SUBMIT)},
};
