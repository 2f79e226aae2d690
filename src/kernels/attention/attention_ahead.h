// SPDX-License-Identifier: MIT
// Asking memory for the rows that come next, a few cache lines at a time. NOTES.md has the reasons.
#ifndef WEFT_KERNELS_ATTENTION_AHEAD_H
#define WEFT_KERNELS_ATTENTION_AHEAD_H

#include <weft/types.h>

// Cache lines to be asked for: those of the rows at[0 .. count) of a pool, in order of use.
struct ahead {
    const char *pool;
    const int64_t *at, *end;     // the next rows
    const char *line, *line_end; // of the row under way
    int64_t size, row_bytes;
};

static inline __attribute__((always_inline)) struct ahead
rows_ahead(weft_dtype kv, const void *pool, const int64_t *at, int32_t count, int32_t head_dim)
{
    int64_t size = kv == WEFT_F32 ? 4 : 2;
    return (struct ahead){pool, at, at + count, NULL, NULL, size, head_dim * size};
}

// Asks for the next `lines`. A few at a time between the products: the line buffers of a core are few, and
// a burst of requests would keep the loads behind it waiting.
static inline __attribute__((always_inline)) void ask(struct ahead *ahead, int64_t lines)
{
    for (int64_t l = 0; l < lines; l++) {
        if (ahead->line >= ahead->line_end) {
            if (ahead->at == ahead->end)
                return;
            ahead->line = ahead->pool + *ahead->at++ * ahead->size;
            ahead->line_end = ahead->line + ahead->row_bytes;
        }
        __builtin_prefetch(ahead->line, 0, 2);
        ahead->line += 64;
    }
}

#endif
